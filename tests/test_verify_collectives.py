"""Collectives on ranks: processes of a real torch, on the CPU and on the stand-in device."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from given import judged
from support import host

from musadoctor.api import Absent, Environment, Step, Steps
from musadoctor.live import Live
from musadoctor.plugins import load_verify
from musadoctor.probes.python import python as interpreter_of
from musadoctor.recording import Recorder, Recording, write_recording
from musadoctor.system import Ran, System
from musadoctor.verify import ranks
from musadoctor.verify.children.base import STEPS
from musadoctor.verify.phases import Settings, launched_steps, probes, rank_steps
from musadoctor.verify.ranks import Misplaced, Place, device_of, launched, place, together

FIRST = "collectives: group"
NAMES = [name for name in STEPS if name.startswith("collectives: ")]
PLAIN = [name for name in NAMES if not name.endswith(("by size", "pairs", "Parallel"))]
CHECKS = [
    check
    for check in load_verify()
    if check.family == "collectives" and "rank_steps" in check.needs
]
OTHERS: dict[str, object] = {
    "visible_devices": Absent("not asked for"),
    "environment": Environment({}, (), ()),
    "mccl": Absent("no libmccl"),
}


def system_of(python: str) -> Live:
    return Live(time.monotonic() + 120, python)


def short(*names: str) -> list[str]:
    """The steps of these tasks, after the one that starts the group."""
    asked = [f"collectives: {name}" for name in names]
    assert set(asked) <= set(NAMES)
    return [FIRST, *asked]


def found(steps: Sequence[Step]) -> list[str]:
    """The findings of all checks, each with its check."""
    facts = {**OTHERS, "rank_steps": Steps(tuple(steps), "python")}
    results = [judged(check, **facts) for check in CHECKS]
    assert not [result.traceback for result in results if result.traceback]
    return [f"{result.check.id}: {f.message}" for result in results for f in result.findings]


def states(steps: Sequence[Step]) -> dict[str, list[str]]:
    """What became of each task, by rank."""
    told: dict[str, list[str]] = {}
    for step in steps:
        told.setdefault(step.name.removeprefix("collectives: "), []).append(step.state)
    return told


@pytest.mark.torch
def test_two_ranks_on_the_cpu_and_again_from_a_recording(
    torch_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    asked = Recorder(system_of(torch_python))
    settings = Settings(kind="cpu", options={"largest": 1 << 14})
    steps = list(rank_steps(asked, torch_python, settings, ("cpu",)))
    assert [step.name for step in steps[::2]] == [n for n in NAMES if n != "collectives: pairs"]
    assert {step.device for step in steps} == {"rank 0 cpu", "rank 1 cpu"}
    told = states(steps)
    assert told.pop("both backends") == ["skipped", "skipped"]
    assert told.pop("DistributedDataParallel") in (
        ["done", "done"],
        ["skipped", "skipped"],  # without sympy, which torch needs for it
    )
    assert set(map(tuple, told.values())) == {("done", "done")}
    by_name = {step.name: step.value for step in steps}
    assert by_name[FIRST]["types"] == ["int32", "float32", "float16", "bfloat16"]
    reduce: Any = by_name["collectives: all-reduce"]["types"]
    assert {kind: told["wrong"] for kind, told in reduce.items()} == dict.fromkeys(reduce, 0)
    assert all(told["elements"] > 32000 for told in reduce.values())
    sizes: Any = by_name["collectives: all-reduce by size"]["sizes"]
    assert [row["bytes"] for row in sizes] == [1024, 16384]
    assert all(row["bus"] > 0 and row["wrong"] == 0 for row in sizes)
    assert found(steps) == []

    text = write_recording(asked.answers(), musadoctor="1", taken="today", redaction=None)
    again = Recording(text, "host")
    assert list(rank_steps(again, torch_python, settings, ("cpu",))) == steps


@pytest.mark.torch
def test_four_ranks_on_the_device(
    torch_python: str, fake_musa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    monkeypatch.setenv("FAKE_MUSA_DEVICES", "4")
    devices = [f"musa:{index}" for index in range(4)]
    names = [name for name in NAMES if "by size" not in name and "Parallel" not in name]
    steps = list(together(system_of(torch_python), torch_python, devices, names, {"largest": 0}))
    assert set(map(tuple, states(steps).values())) == {("done",) * 4}
    pairs: list[Any] = [step.value["to"] for step in steps if step.name.endswith("pairs")]
    assert [list(to) for to in pairs] == [
        ["1", "2", "3"],
        ["2", "3"],
        ["3"],
        [],
    ]
    assert [line for line in found(steps) if not line.startswith("collective-pair-slow")] == []


SUMS = """
import sys, types, torch
names = "base", "collectives"
for name, source in zip(names, sys.argv[1:]):
    module = types.ModuleType(f"musadoctor.verify.children.{name}")
    sys.modules[module.__name__] = module
    exec(compile(source, name, "exec"), module.__dict__)
for world in (1, 2, 3, 7, 8, 9, 16, 24, 100):
    group = module.Group.__new__(module.Group)
    group.device, group.world = types.SimpleNamespace(torch=torch), world
    parts = torch.stack([group.summand(rank, 1000) for rank in range(world)])
    assert parts.sum(0).equal(group.total(1000)), "the sum of all"
    assert parts.sum(0).max() <= 256 and parts.sum(0).min() > 0, "exact in bfloat16"
    assert all(part.any() for part in parts), "each rank adds"
    labels = [tuple(group.label(rank, 32, to).tolist()) for rank in range(world) for to in (0, 1)]
    assert len(set(labels)) == len(labels), "each sends something else"
    assert max(map(max, labels)) < 256
print("right")
"""


@pytest.mark.torch
def test_values_of_many_ranks_are_exact(torch_python: str) -> None:
    children = Path(ranks.__file__).parent / "children"
    sources = [(children / f"{name}.py").read_text("utf-8") for name in ("base", "collectives")]
    ran = subprocess.run(
        [torch_python, "-W", "ignore", "-c", SUMS, *sources],
        capture_output=True,
        check=False,
        text=True,
    )
    assert ran.stdout == "right\n", ran.stderr


@pytest.mark.torch
def test_faults_that_end_nothing(
    torch_python: str, fake_musa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong sums on a rank, a barrier that holds nobody, an error, a type that is not there."""
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    faults = (
        *("wrong:allreduce:1", "wrong:barrier:*", "raise:allgather:*"),
        *("raise:broadcast:*:bfloat16", "raise:alltoallbase:*:float32", "raise:recv:0"),
    )
    monkeypatch.setenv("FAKE_MCCL", ",".join(faults))
    devices = ["musa:0", "musa:1"]
    after = "collectives: send and receive"
    names = [*(n for n in PLAIN if n != after), "collectives: all-to-all by size", after]
    options = {"step_seconds": 6.0, "largest": 1024}
    steps = list(together(system_of(torch_python), torch_python, devices, names, options))
    error = "RuntimeError: MCCL error in {}: unhandled system error"
    *others, alone = sorted(found(steps), key=lambda line: ("send" in line, line))
    assert alone.startswith(
        "collective-fails: send and receive fails on rank 0 (musa:0):"
        f" {error.format('recv')}; afterwards on rank 1 (musa:1): "
    )
    assert others == [
        f"collective-fails: all-gather fails on all 2 ranks: {error.format('allgather')}",
        f"collective-fails: all-to-all by size fails on all 2 ranks: {error.format('alltoallbase')}",
        f"collective-fails: all-to-all of float32 fails on all 2 ranks: {error.format('alltoallbase')}",
        f"collective-fails: broadcast of bfloat16 fails on all 2 ranks: {error.format('broadcast')}",
        (
            "collective-result-wrong: all-reduce gives wrong results on rank 1 (musa:1) in int32,"
            " float32, float16, bfloat16: 32897 elements, the first one at 0, 4 instead of 3"
        ),
        "collective-result-wrong: barrier lets rank 0 (musa:0) pass before rank 1 has come to it",
        (
            "collective-result-wrong: both backends gives wrong results on rank 1 (musa:1) in"
            " float32 on the CPU, float32: 129 elements, the first one at 0, 4 instead of 3"
        ),
    ]
    told = states(steps)
    failed = {name: told.pop(name) for name in ("all-gather", "all-to-all by size", after[13:])}
    assert set(map(tuple, failed.values())) == {("failed", "failed")}
    assert set(map(tuple, told.values())) == {("done", "done")}, "all else was taken"


@pytest.mark.torch
def test_ranks_that_stall_or_die(
    torch_python: str, fake_musa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0, when it dies, takes the rendezvous store with it."""
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    monkeypatch.setenv("FAKE_MCCL", "stall:alltoallbase:1,die:reducescatterbase:0")
    names = short("all-to-all", "all-reduce", "all-to-all by size", "reduce-scatter", "barrier")
    devices = ["musa:0", "musa:1"]
    options = {"step_seconds": 4.0, "largest": 1024}
    steps = list(together(system_of(torch_python), torch_python, devices, names, options))
    stalls, dies = sorted(found(steps), reverse=True)
    assert stalls.startswith(
        "rank-stalls: all-to-all: rank 1 (musa:1) did not come back: no end after 4 s, in "
    )
    assert stalls.endswith("; 1 of 2 ranks waited in vain")
    assert "mccl.py" in stalls
    assert dies == (
        "rank-dies: reduce-scatter: the process of rank 0 (musa:0) ended: killed by SIGSEGV"
    )
    told = states(steps)
    assert told["all-to-all"] == ["failed", "hung"]
    assert told["all-to-all by size"] == ["not taken", "not taken"]
    assert told["reduce-scatter"][0] == "crashed"
    assert told["group"] == told["all-reduce"] == told["barrier"] == ["done", "done"]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {"FAKE_MCCL": "die:init:1"},
            "rank-dies: group: the process of rank 1 (musa:1) ended: killed by SIGSEGV",
        ),
        (
            {"FAKE_MUSA_NO_MCCL": "1"},
            (
                "collective-fails: 2 devices cannot work together: NotImplementedError:"
                ' torch.distributed knows no backend "mccl"'
            ),
        ),
    ],
)
def test_no_group_comes_about(
    torch_python: str,
    fake_musa: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: Mapping[str, str],
    words: str,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    names, devices = short("barrier"), ["musa:0", "musa:1"]
    options = {"step_seconds": 4.0}
    steps = list(together(system_of(torch_python), torch_python, devices, names, options))
    assert found(steps) == [words]
    assert [step.message for step in steps[2:]] == ["there is no process group"] * 2


# ---- under a launcher ------------------------------------------------------------------------


def test_one_report_of_all_ranks_under_torchrun(
    torch_python: str, fake_musa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranks of torchrun's, and wrong sums on one of them."""
    ours = os.pathsep.join(path for path in sys.path if path)
    monkeypatch.setenv("PYTHONPATH", f"{fake_musa}{os.pathsep}{ours}")
    monkeypatch.setenv("FAKE_MCCL", "wrong:allreduce:1")
    monkeypatch.setenv("FAKE_MUSA_MEMORY_MIB", "2")  # which keeps the sizes small
    launch = [torch_python, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    verify = ["musadoctor", "verify", "--rank-from-env", "--python", torch_python, "--json"]
    selected = ["--select", "collective-result-wrong,rank-stalls"]
    ran = subprocess.run(
        [*launch, "--no-python", sys.executable, "-m", *verify, *selected],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    report = json.loads(ran.stdout)
    messages = [finding["message"] for r in report["results"] for finding in r["findings"]]
    assert [message.partition(" in ")[0] for message in messages] == [
        f"{task} gives wrong results on rank 1 (musa:1)"
        for task in ("all-reduce", "all-reduce by size", "both backends")
    ]
    assert ran.returncode == 1
    steps = report["facts"]["rank_steps"]["items"]
    assert [step["device"] for step in steps[:2]] == ["rank 0 musa:0", "rank 1 musa:1"]


TORCHRUN = {
    "RANK": "9",
    "WORLD_SIZE": "16",
    "LOCAL_RANK": "1",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "node-0",
    "MASTER_PORT": "29411",
}
SLURM = {
    "SLURM_PROCID": "0",
    "SLURM_NTASKS": "16",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NNODES": "2",
    "MASTER_ADDR": "node-0",
}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (TORCHRUN, Place(9, 16, 1, 1, "node-0", 29411, serves=False)),
        ({**SLURM, **TORCHRUN}, Place(9, 16, 1, 1, "node-0", 29411, serves=False)),
        (
            {**TORCHRUN, "RANK": "0", "GROUP_RANK": ""},
            Place(0, 16, 1, 0, "node-0", 29411, serves=True),
        ),
        (
            {**TORCHRUN, "RANK": "0", "TORCHELASTIC_USE_AGENT_STORE": "True"},
            Place(0, 16, 1, 1, "node-0", 29411, serves=False),
        ),
        (SLURM, Place(0, 16, 0, 0, "node-0", 29500, serves=True)),
        (
            {**SLURM, "SLURM_NNODES": "1", "MASTER_ADDR": ""},
            Place(0, 16, 0, 0, "127.0.0.1", 29500, serves=True),
        ),
        (
            {**SLURM, "MASTER_ADDR": ""},
            Misplaced(
                "MASTER_ADDR is to name the node of rank 0, and MASTER_PORT a free port of it"
            ),
        ),
        (
            {**TORCHRUN, "MASTER_PORT": "any"},
            Misplaced(
                "MASTER_ADDR is to name the node of rank 0, and MASTER_PORT a free port of it"
            ),
        ),
        (
            {},
            Misplaced(
                "no SLURM_PROCID: start it by torchrun or srun, which set SLURM_PROCID,"
                " SLURM_NTASKS, SLURM_LOCALID"
            ),
        ),
        (
            {**TORCHRUN, "LOCAL_RANK": "x"},
            Misplaced(
                "LOCAL_RANK='x': start it by torchrun or srun, which set RANK, WORLD_SIZE,"
                " LOCAL_RANK"
            ),
        ),
        ({**TORCHRUN, "RANK": "16"}, Misplaced("RANK=16, but WORLD_SIZE=16")),
    ],
)
def test_where_a_launcher_puts_a_process(
    variables: Mapping[str, str], expected: Place | Misplaced
) -> None:
    assert place(host(variables=variables)) == expected


SECOND = Place(9, 16, 1, 1, "node-0", 29411, serves=False)


@pytest.mark.parametrize(
    ("kind", "variables", "chosen", "expected"),
    [
        ("musa", {}, (), "musa:1"),
        ("cpu", {}, (), "cpu"),
        ("musa", {"MUSA_VISIBLE_DEVICES": "5"}, (), "musa:0"),
        ("musa", {"MUSA_VISIBLE_DEVICES": "4,5,6,7"}, (), "musa:1"),
        ("cuda", {"MUSA_VISIBLE_DEVICES": "5", "CUDA_VISIBLE_DEVICES": ""}, (), "cuda:1"),
        ("musa", {}, (2, 3), "musa:3"),
    ],
)
def test_the_device_of_a_launched_rank(
    kind: str, variables: Mapping[str, str], chosen: tuple[int, ...], expected: str
) -> None:
    assert device_of(host(variables=variables), kind, SECOND, chosen) == expected


def answering(key: str, *lines: Mapping[str, object], status: str = "ok", note: str = "") -> System:
    """A machine on which the child of that key answers so."""
    answer = "".join(f"{json.dumps(line)}\n" for line in lines)
    return host(runs={f"child:verify:ranks:{key}": Ran(status, 0, answer=answer, note=note)})


def told(name: str, device: str, **value: object) -> tuple[Mapping[str, object], ...]:
    begun = {"begin": name, "device": device}
    return begun, {"end": name, "device": device, "state": "done", "value": value, "seconds": 0.1}


OUTCOME = {"state": "done", "value": {"world": 2}, "seconds": 0.1}


def test_what_rank_0_tells_of_all() -> None:
    lines = (
        *told(FIRST, "musa:0", outcomes={"rank 0 musa:0": OUTCOME, "rank 1 musa:1": OUTCOME}),
        *told(NAMES[1], "musa:0", outcomes={"rank 0 musa:0": OUTCOME}, silent=["rank 1 musa:1"]),
        *told(NAMES[2], "musa:0", lost="rank 1 did not come back"),
    )
    own = Place(0, 2, 0, 0, "node-0", 29500, serves=True)
    steps = list(launched(answering("0of2:1", *lines), "python", own, "musa:0", NAMES[:4], {}))
    assert [(step.device, step.name, step.state) for step in steps] == [
        ("rank 0 musa:0", FIRST, "done"),
        ("rank 1 musa:1", FIRST, "done"),
        ("rank 0 musa:0", NAMES[1], "done"),
        ("rank 1 musa:1", NAMES[1], "hung"),
        ("rank 0 musa:0", NAMES[2], "not taken"),
        ("rank 0 musa:0", NAMES[3], "not taken"),
    ]
    assert steps[0].value == {"world": 2}
    assert steps[-1].message == "rank 1 did not come back"


def test_a_launched_rank_that_ends() -> None:
    begun = {"begin": FIRST, "device": "musa:1"}
    system = answering("9of16:1", begun, status="signal", note="SIGSEGV")
    steps = list(launched(system, "python", SECOND, "musa:1", NAMES[:2], {}))
    assert [str(step) for step in steps] == [
        "rank 9 musa:1 of node 1 collectives: group crashed: killed by SIGSEGV",
        "rank 9 musa:1 of node 1 collectives: barrier not taken: this rank's process had ended",
    ]


def test_ranks_that_cannot_be_started() -> None:
    steps = list(together(host(), "/no/python", ["cpu", "cpu"], NAMES[:2], {}))
    assert [(step.device, step.state) for step in steps] == [
        *((rank, "not taken") for rank in ("rank 0 cpu", "rank 1 cpu")),
    ] * 2
    assert steps[0].message == "no /no/python"
    assert steps[2].message == "there is no process group"


def test_no_rank_where_none_is_asked_for() -> None:
    """Not in a quick run; and under a launcher nothing but the ranks."""
    assert list(rank_steps(host(), "python", Settings("quick"), ("musa:0",))) == []
    settings = Settings(place=SECOND)
    system = host()
    interpreter = interpreter_of(system)
    assert isinstance(interpreter, Absent)
    assert launched_steps(system, settings) == interpreter
    facts = probes(settings)
    assert facts["device_steps"](system) == Absent(
        "under a launcher only the collectives are taken"
    )
    assert facts["visible_devices"](system) == facts["device_steps"](system)
    assert facts["rank_steps"](system) == interpreter
