"""The child's lines read as facts; tests/test_torch_child.py runs the child itself."""

import json

import pytest
from python_host import PYTHON, SITE, TORCH_FILES, python_host
from support import host

from musadoctor.facts import (
    Absent,
    ChildFailure,
    Collectives,
    Import,
    MusaDevice,
    Probe,
    Torch,
    TorchMusa,
    Unknown,
)
from musadoctor.probes.torch import (
    collectives,
    torch,
    torch_import,
    torch_musa,
    torch_musa_import,
)
from musadoctor.recording import Recorder
from musadoctor.system import Ran

PROBES = (torch_import, torch, torch_musa_import, torch_musa, collectives)
Lines = list[dict[str, object]]


def told(lines: Lines, ran: Ran | None = None) -> Recorder:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    ran = (ran or Ran("ok", 0))._replace(answer=text)
    files = {**TORCH_FILES, f"{SITE}/torch/__init__.py": ""}
    return python_host(files=files, runs={"child:torch": ran})


def worked(step: str, value: object = None, **more: object) -> Lines:
    return [{"begin": step}, {"end": step, "value": value, **more}]


def failed(step: str, *chain: str) -> Lines:
    return [{"begin": step}, {"end": step, "chain": list(chain), "seconds": 0.1, "warnings": []}]


ALL: Lines = [{"end": "all"}]
TORCH = worked(
    "import torch", {"version": "2.7.1", "cuda": None, "file": "/t"}, seconds=3, warnings=["w"]
)
MUSA = worked(
    "import torch_musa", {"version": "2.7.1+abc", "toolkit": "4035", "file": "/m"}, seconds=0.5
)
USED = [
    *worked("is_available", True, warnings=["a"]),
    *worked("device_count", 2, warnings=["a", "b"]),
    *worked("architectures", ["mp_31"]),
    *worked("mudnn version", 3105),
    *worked("mccl backend", {"available": True, "reason": None}),
    *worked("mccl version", [2, 11, 4]),
    *worked("device 0: name", "MTT S5000"),
    *worked("device 0: capability", [3, 1]),
    *worked("device 0: memory", 85899345920),
    *worked("bf16 supported", True),
    *worked("device 0: add", True),
    *worked("device 0: bf16 add", True),
]


def test_all_is_well() -> None:
    system = told([*TORCH, *MUSA, *USED, *worked("mapped libraries", ["/l"]), *ALL])
    assert torch_import(system) == Import("torch", None, 3.0, ("w",))
    assert torch(system) == Torch("2.7.1", None, "/t")
    assert torch_musa_import(system) == Import("torch_musa", None, 0.5)
    done = Probe(done=True, failure=None)
    untried = Probe(done=False, failure=None)
    assert torch_musa(system) == TorchMusa(
        version="2.7.1+abc",
        toolkit="4035",
        available=True,
        warnings=("a", "b"),
        device_count=2,
        devices=(
            MusaDevice(0, "MTT S5000", (3, 1), 85899345920, done, done),
            MusaDevice(1, None, None, None, untried, untried),
        ),
        bf16_supported=True,
        architectures=("mp_31",),
        mudnn="3105",
        mapped=("/l",),
        failures=(),
    )
    assert collectives(system) == Collectives(available=True, version="2.11.4")


CUT = Ran("timed out", None, note="no answer in 9 s, killed")
IMPORT_TORCH: Lines = [{"begin": "import torch"}]


@pytest.mark.parametrize(
    ("ran", "kind", "message"),
    [
        (CUT, "hang", "no answer in 9 s, killed"),
        (Ran("flooded", -15, note="more than 16 MiB of output, killed"), "flooded", "more than"),
        (Ran("signal", -11, note="SIGSEGV"), "signal", "killed by SIGSEGV"),
        (Ran("signal", -6, err="what(): x\n", note="SIGABRT"), "signal", "by SIGABRT (what(): x)"),
        (Ran("signal", -9, note="SIGKILL"), "memory", "the kernel's out-of-memory killer is"),
        (Ran("ok", 0), "exit", "left the interpreter without a word, exit code 0"),
        (Ran("failed", 127, err="symbol lookup error"), "exit", "code 127 (symbol lookup error)"),
    ],
)
def test_import_torch_that_does_not_come_back(ran: Ran, kind: str, message: str) -> None:
    system = told(IMPORT_TORCH, ran)
    imported = torch_import(system)
    assert isinstance(imported, Import)
    assert imported.failure is not None
    assert (imported.failure.step, imported.failure.kind) == ("import torch", kind)
    assert message in imported.failure.message
    left = Absent(f"import torch failed: {imported.failure.message}")
    assert [probe(system) for probe in PROBES[1:]] == [left] * 4


def test_import_torch_that_raises() -> None:
    chain = ("RuntimeError: outer", "ImportError: libcudnn.so.9: cannot open\nmore")
    system = told([*failed("import torch", *chain), *ALL])
    message = "ImportError: libcudnn.so.9: cannot open"
    failure = ChildFailure("import torch", "exception", message, chain)
    assert torch_import(system) == Import("torch", failure, 0.1)
    assert torch(system) == Absent(f"import torch failed: {message}")
    assert collectives(system) == Absent(f"import torch failed: {message}")


def test_import_torch_musa_that_raises() -> None:
    chain = ("ImportError: Please try running Python from a different directory!", "")
    system = told([*TORCH, *failed("import torch_musa", *chain), *ALL])
    assert isinstance(torch(system), Torch)
    failure = ChildFailure("import torch_musa", "exception", "", chain)
    assert torch_musa_import(system) == Import("torch_musa", failure, 0.1)
    assert torch_musa(system) == Absent("import torch_musa failed: ")
    assert collectives(system) == Absent("import torch_musa failed: ")


def test_torch_musa_is_not_installed() -> None:
    system = told([*TORCH, *worked("import torch_musa"), *ALL])
    absent = Absent(f"torch_musa is not installed for {PYTHON}")
    assert [probe(system) for probe in PROBES[2:]] == [absent] * 3


def test_a_child_that_dies_between_two_steps() -> None:
    system = told(TORCH, Ran("signal", -11, note="SIGSEGV"))
    assert isinstance(torch(system), Torch)
    unknown = Unknown("not reached, after import torch: killed by SIGSEGV")
    assert [probe(system) for probe in PROBES[2:]] == [unknown] * 3


def test_a_hang_keeps_what_came_before() -> None:
    lines: Lines = [*TORCH, *MUSA, *worked("is_available", True), {"begin": "device_count"}]
    system = told(lines, CUT)
    musa = torch_musa(system)
    assert isinstance(musa, TorchMusa)
    assert musa.available
    assert (musa.device_count, musa.devices) == (None, ())
    assert musa.failures == (ChildFailure("device_count", "hang", CUT.note),)
    assert collectives(system) == Unknown(f"not reached, device_count: {CUT.note}")


def test_a_hang_in_is_available() -> None:
    lines: Lines = [*TORCH, *MUSA, {"begin": "is_available"}]
    musa = torch_musa(told(lines, CUT))
    assert isinstance(musa, TorchMusa)
    assert not musa.available
    assert [failure.step for failure in musa.failures] == ["is_available"]


def test_a_device_that_kills_the_child() -> None:
    lines: Lines = [*TORCH, *MUSA, *USED, {"begin": "device 1: add"}]
    musa = torch_musa(told(lines, Ran("signal", -7, note="SIGBUS")))
    assert isinstance(musa, TorchMusa)
    failure = ChildFailure("device 1: add", "signal", "killed by SIGBUS")
    assert musa.devices[0].add == Probe(done=True, failure=None)
    assert musa.devices[1].add == Probe(done=False, failure=failure)
    assert musa.devices[1].bf16_add == Probe(done=False, failure=None)
    assert musa.failures == ()


def test_a_property_that_cannot_be_had() -> None:
    lines = [*TORCH, *MUSA, *USED, *failed("device 1: name", "RuntimeError: lost"), *ALL]
    musa = torch_musa(told(lines))
    assert isinstance(musa, TorchMusa)
    assert musa.devices[1].name is None
    assert [str(failure) for failure in musa.failures] == ["device 1: name: RuntimeError: lost"]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (failed("mccl backend", "OSError: no"), Collectives(False, None, "OSError: no")),
        (
            worked("mccl backend", {"available": False, "reason": "r"}),
            Collectives(False, None, "r"),
        ),
        (
            [*worked("mccl backend", {"available": True}), *worked("mccl version", 21104)],
            Collectives(True, "21104"),
        ),
        (
            [*worked("mccl backend", {"available": True}), *failed("mccl version", "E: x")],
            Collectives(True, None),
        ),
    ],
)
def test_collectives(steps: Lines, expected: Collectives) -> None:
    assert collectives(told([*TORCH, *MUSA, *steps, *ALL])) == expected


@pytest.mark.parametrize(
    ("ran", "reason"),
    [
        (Ran("timed out", note="not started: the time was over"), "not started: the time was over"),
        (Ran("not in this recording", note="child:torch: not kept"), "child:torch: not kept"),
        (Ran("signal", -11, note="SIGSEGV"), "killed by SIGSEGV"),
        (Ran("failed", 1, err="Fatal Python error: x"), "exit code 1 (Fatal Python error: x)"),
    ],
)
def test_an_interpreter_that_does_not_come_to_torch(ran: Ran, reason: str) -> None:
    system = told([], ran)
    unknown = Unknown(f"{PYTHON} did not come to import torch: {reason}")
    assert [probe(system) for probe in PROBES] == [unknown] * 5


def test_no_interpreter() -> None:
    system = host(runs={"child:python": Ran("signal", -11, note="SIGSEGV")})
    assert all(isinstance(probe(system), Absent) for probe in PROBES)


def test_no_torch_starts_no_child() -> None:
    system = python_host()
    absent = Absent(f"torch is not installed for {PYTHON}")
    assert [probe(system) for probe in PROBES] == [absent] * 5
    assert "child:torch" not in system.answers()["runs"]


def test_torch_of_an_editable_install_is_tried() -> None:
    """Its folder is elsewhere; only its metadata are on the search path."""
    files = {f"{SITE}/torch-2.7.1.dist-info/METADATA": "Version: 2.7.1\n"}
    text = "".join(json.dumps(line) + "\n" for line in [*TORCH, *MUSA, *USED, *ALL])
    system = python_host(files=files, runs={"child:torch": Ran("ok", 0, answer=text)})
    assert isinstance(torch(system), Torch)


def test_nothing_slow_is_asked_before_the_child() -> None:
    system = told([*TORCH, *MUSA, *ALL])
    torch_import(system)
    assert set(system.answers()) == {"platform", "variables", "programs", "runs", "folders"}


@pytest.mark.parametrize(
    "lines",
    [
        [{"begin": "import torch"}, {"end": "import torch", "value": 1, "seconds": "x"}],
        [{"begin": "import torch"}, {"end": "other"}, {"odd": 1}],
        [*TORCH, {"begin": "import torch_musa"}, {"end": "import torch_musa", "value": [1]}],
        [*TORCH, *MUSA, *worked("device_count", 10**9), *worked("mccl backend", 3)],
        [*TORCH, *MUSA, *worked("device_count", "many"), *worked("device 0: capability", "3.1")],
    ],
)
def test_lines_of_another_hand_raise_nothing(lines: Lines) -> None:
    for probe in PROBES:
        str(probe(told([*lines, *ALL])))
