"""Each fault that the stand-in device can have is found and named, and nothing else is called bad.

Faults that do not touch each other share a child, for each child imports torch.
"""

import time
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from musadoctor.doctor import Options
from musadoctor.engine import judge
from musadoctor.facts import Absent
from musadoctor.facts.steps import Step, Steps
from musadoctor.live import Live
from musadoctor.plugins import load_verify
from musadoctor.report import Report, Result
from musadoctor.verify.phases import Level, Settings, plan
from musadoctor.verify.run import verify
from musadoctor.verify.soak import soak_steps
from musadoctor.verify.taken import Job, take

pytestmark = pytest.mark.torch

MODULES = (
    *("measure", "elementwise", "compute", "attention", "numerics", "fallback"),
    *("throughput", "record", "memory"),
)
TRANSFER = {"memory", "throughput"}


class Fault(NamedTuple):
    """What the device is told to do, and how the report puts it."""

    variable: str
    """FAKE_MUSA_..., without the beginning."""
    value: str
    found: dict[str, str]
    """Checks that must fail, with words of the finding."""


class Group(NamedTuple):
    """Faults of one run."""

    name: str
    families: tuple[str, ...]
    faults: tuple[Fault, ...]
    devices: int = 1
    level: Level = "quick"


GROUPS = (
    Group("no fault", ("compute", "numerics", "memory", "fallback"), (), devices=2),
    Group("no fault, longer", ("fallback", "record"), (), level="default"),
    Group(
        "operators",
        ("compute", "numerics"),
        (
            Fault(
                "NAN",
                "aten::_softmax_backward_data.out/float32",
                {
                    "gradient-not-finite": "softmax float32",
                    "attention-gradient-not-finite": "attention float32",
                },
            ),
            Fault("NAN", "aten::silu.out/bfloat16", {"result-not-finite": "silu bfloat16"}),
            Fault("WRONG", "aten::sigmoid.out/float16", {"result-wrong": "sigmoid float16"}),
            Fault(
                "WRONG",
                "aten::native_layer_norm_backward/float16",
                {"gradient-wrong": "layer norm float16"},
            ),
            Fault(
                "RAISE",
                "aten::amax.out/bfloat16",
                {"device-computation-fails": "largest bfloat16"},
            ),
            Fault(
                "OOM",
                "aten::convolution_overrideable/float16",
                {"device-out-of-memory": "conv2d float16"},
            ),
            Fault("TRUNCATE", "1", {"rounding-differs": "rounding float32 to bfloat16"}),
            Fault("UNSTABLE", "aten::sort", {"sort-order-broken": "stable sort indices"}),
            Fault(
                "FLAKY",
                "aten::mm.out/float32",
                {"results-differ-between-runs": "matmul: other bits the second time"},
            ),
            Fault(
                "BLIND",
                "aten::_amp_foreach_non_finite_check_and_unscale_",
                {"grad-scaler-broken": "took a step though gradients had overflowed"},
            ),
        ),
    ),
    Group(
        "ends of the process",
        ("compute",),
        (
            Fault(
                "HANG",
                "aten::tanh.out/float16",
                {"device-hangs": "tanh float16 hangs: no end after 2 s"},
            ),
            Fault(
                "CRASH",
                "aten::embedding_dense_backward/float16",
                {"device-crashes": "embedding float16 ends the process: killed by SIGSEGV"},
            ),
            Fault("EXIT", "aten::rsqrt.out/bfloat16", {"device-crashes": "exit code 0"}),
        ),
    ),
    Group(
        "more ends of the process",
        ("compute",),
        (
            Fault(
                "MISSING",
                "aten::topk",
                {"computation-not-implemented": "topk float32"},
            ),
            Fault("BUS", "aten::gelu.out/float16", {"device-crashes": "killed by SIGBUS"}),
            Fault(
                "LOST",
                "aten::exp.out/bfloat16",
                {"device-computation-fails": "exp bfloat16 fails: RuntimeError: MUSA error"},
            ),
        ),
    ),
    Group(
        "numerics of two devices",
        ("numerics",),
        (
            Fault(
                "NUDGE",
                "aten::mm.out/float32@1",
                {"results-differ-between-devices": "matmul has different bits"},
            ),
            Fault("NO_AUTOCAST", "1", {"autocast-fails": "product comes out as float32"}),
        ),
        devices=2,
    ),
    Group(
        "memory",
        ("memory", "throughput"),
        (
            Fault(
                "SLOW",
                "aten::mm.out@1",
                {"device-computes-slower-than-others": "musa:1 computes slower"},
            ),
            Fault("LEAK_MIB", "4", {"memory-not-given-back": "that were freed are not free"}),
            Fault("CORRUPT", "0>1", {"copy-content-wrong": "musa:0 to musa:1, 1 of"}),
            Fault("NO_PEER", "1", {"no-direct-access-between-devices": "musa:0 to musa:1"}),
        ),
        devices=2,
        level="default",
    ),
    Group(
        "more memory",
        ("memory",),
        (
            Fault("ROOM_MIB", "100", {"free-memory-not-usable": "1.0 GiB are said to be free"}),
            Fault("CORRUPT", "host>0", {"copy-content-wrong": "there and back"}),
        ),
    ),
    Group(
        "off the device",
        ("fallback", "record"),
        (
            Fault("FALLS_BACK", "aten::gelu.out", {"model-leaves-device": "gelu"}),
            Fault("COPIES", "aten::max_pool2d_with_indices", {"model-leaves-device": "max_pool2d"}),
            Fault(
                "WRONG",
                "aten::native_layer_norm_backward/float32",
                {"loss-curve-leaves-reference": "the loss curve float32 is"},
            ),
        ),
        level="default",
    ),
    Group(
        "not there at all",
        ("fallback",),
        (
            Fault(
                "MISSING",
                "aten::_softmax",
                {
                    "common-operator-fails": "softmax",
                    "model-does-not-run": "transformer needs an operator that is not implemented",
                },
            ),
        ),
        level="default",
    ),
)
ALARMS = ("error", "warning")


def judged(group: Group, python: str) -> dict[str, Result]:
    """What every check says of a run of these families."""
    devices = tuple(f"musa:{number}" for number in range(group.devices))
    job = Job("faults", MODULES, plan(group.families, devices, devices, group.level), 120.0)
    options: dict[str, object] = {"level": group.level, "step_seconds": 2.0}
    if group.level == "default":
        options["step_seconds"] = 60.0
    steps = take(Live(time.monotonic() + 120), python, "musa", job, options)
    own = tuple(step for step in steps if step.family not in TRANSFER)
    transfer = tuple(step for step in steps if step.family in TRANSFER)
    census = {"devices": [{"name": "MTT S5000"}] * group.devices, "missing": []}
    facts: dict[str, object] = {
        "visible_devices": Steps((Step("musa", "census: devices", "done", census),), python),
        "device_steps": Steps(own, python) if own else Absent("none of them"),
        "transfer_steps": Steps(transfer, python) if transfer else Absent("none of them"),
    }
    absent = Absent("not asked for")
    results = [
        judge(check, {name: facts.get(name, absent) for name in check.needs})
        for check in load_verify()
    ]
    assert not [result.traceback for result in results if result.traceback]
    return {result.check.id: result for result in results}


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: cast("Group", group).name)
def test_each_fault_is_found_and_nothing_else(
    torch_python: str, fake_musa: Path, monkeypatch: pytest.MonkeyPatch, group: Group
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    monkeypatch.setenv("FAKE_MUSA_DEVICES", str(group.devices))
    variables: dict[str, list[str]] = {}
    for fault in group.faults:
        variables.setdefault(f"FAKE_MUSA_{fault.variable}", []).append(fault.value)
    for name, values in variables.items():
        monkeypatch.setenv(name, ",".join(values))
    results = judged(group, torch_python)
    failed = {name for name, result in results.items() if result.status == "failed"}
    expected = {name for fault in group.faults for name in fault.found}
    alarms = {name for name in failed if results[name].check.severity in ALARMS}
    assert alarms - expected == set(), {
        name: [finding.message for finding in results[name].findings] for name in alarms - expected
    }
    for fault in group.faults:
        for name, words in fault.found.items():
            told = [finding.message for finding in results[name].findings]
            assert any(words in message for message in told), (name, told, results[name].reason)


def test_a_device_whose_results_change_in_a_long_run(
    torch_python: str, fake_musa: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "mthreads-gmi"
    tool.write_text("""#!/bin/sh\necho '{"x": {"GPU Current Temp": "71C"}}'\n""")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    monkeypatch.setenv("FAKE_MUSA_FLAKY", "aten::mm.out/float32@1")
    live = Live(time.monotonic() + 120, torch_python)
    steps = soak_steps(live, torch_python, "musa", ("musa:0", "musa:1"), 1.0)
    soak = Steps(tuple(steps), torch_python)
    assert [step.state for step in soak.of("soak: compute")] == ["done", "done"]
    results = {
        check.id: judge(check, {"soak_steps": soak})
        for check in load_verify()
        if check.family == "soak"
    }
    assert {result.check.id for result in results.values() if result.status == "failed"} == {
        "soak-results-change"
    }
    (finding,) = results["soak-results-change"].findings
    assert finding.where == "musa:1"
    assert finding.message.endswith("card 0: 71 C at first, 71 C at most, 71 C at last")
    assert results["soak-throughput-drifts"].status == "skipped", "a second is too short"


def whole(python: str, settings: Settings, *select: str) -> Report:
    """A report as the command makes it."""
    live = Live(time.monotonic() + 120, python)
    return verify(live, settings, Options(select=select, seconds=120.0, redact=False))


def failures(report: Report) -> dict[str, str]:
    return {
        result.check.id: result.findings[0].message
        for result in report.results
        if result.status == "failed" and result.check.severity in ALARMS
    }


def test_a_count_of_devices_that_changes(
    torch_python: str, fake_musa: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    monkeypatch.setenv("FAKE_MUSA_DEVICES", "2")
    monkeypatch.setenv("FAKE_MUSA_DEVICES_LATER", "1")
    monkeypatch.setenv("FAKE_MUSA_STATE", str(tmp_path / "state"))
    settings = Settings(level="default", devices=(1, 5))
    report = whole(torch_python, settings, "devices", "throughput", "memory")
    assert (
        "--devices names musa:5, and torch sees 2" in failures(report)["device-to-verify-not-there"]
    )
    assert "device-memory-fails" in failures(report)


def test_no_device_at_all(
    torch_python: str, fake_musa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    monkeypatch.setenv("FAKE_MUSA_DEVICES", "0")
    report = whole(torch_python, Settings(level="quick"))
    assert failures(report) == {
        "no-device-to-verify": f"torch of {torch_python} sees no musa device"
    }
    assert report.verdict == "broken"


def test_a_torch_musa_that_does_not_import(
    torch_python: str, fake_musa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    monkeypatch.setenv("FAKE_MUSA_IMPORT", "missing-library")
    report = whole(torch_python, Settings(level="quick"))
    assert failures(report) == {}
    assert report.verdict == "unknown"
    reasons = {result.reason for result in report.results if result.status == "unknown"}
    assert any("libmudnn.so.3: cannot open shared object file" in reason for reason in reasons)


def test_at_least_25_faults_are_injected() -> None:
    whole_runs = 4
    assert sum(bool(fault.found) for group in GROUPS for fault in group.faults) + whole_runs >= 25
