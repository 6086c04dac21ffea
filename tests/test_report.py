"""The verdict, the order of causes, the exit codes, and facts as JSON."""

from typing import get_args

import pytest

from musadoctor.api import (
    SEVERITIES,
    Absent,
    Finding,
    Fix,
    Judgement,
    Layer,
    Severity,
    Unknown,
    check,
)
from musadoctor.facts import Environment, Gpu, Gpus, Machine, PcieLink, StatedVersion
from musadoctor.redact import Redaction
from musadoctor.report import (
    Bug,
    Evidence,
    Report,
    Result,
    Status,
    Vantage,
    Verdict,
    encode,
    exit_code,
    redacted,
)
from musadoctor.versions import KernelDriverVersion


def nothing() -> Judgement:
    """A check."""
    yield from ()


def result(
    status: Status, severity: Severity = "error", layer: Layer = Layer.DRIVER, id: str = "x"
) -> Result:
    made = check(id, layer=layer, severity=severity)(nothing)
    findings = (Finding("wrong"),) if status == "failed" else ()
    return Result(made, status, findings)


def report(*results: Result, bugs: tuple[Bug, ...] = ()) -> Report:
    return Report(Vantage("host", "gpu07", None), results, {}, bugs, 0.1)


BUG = Bug("probe gmi", "Traceback")


@pytest.mark.parametrize(
    ("made", "verdict", "code", "code_fail_on_note", "code_strict"),
    [
        (report(result("passed")), "healthy", 0, 0, 0),
        (report(result("passed"), result("skipped")), "healthy", 0, 0, 0),
        # Where nothing was judged, nothing is cleared.
        (report(result("skipped")), "unknown", 3, 3, 3),
        (report(result("skipped"), result("unknown", "note")), "unknown", 3, 3, 1),
        (report(result("failed", "note")), "healthy", 0, 1, 0),
        (report(result("failed", "warning")), "degraded", 0, 1, 0),
        (report(result("failed", "error")), "broken", 1, 1, 1),
        (report(result("unknown", "error")), "unknown", 3, 3, 1),
        (report(result("passed"), result("unknown", "warning")), "healthy", 0, 0, 1),
        (report(result("unknown"), result("failed", "warning")), "unknown", 3, 1, 1),
        (report(result("unknown"), result("failed")), "broken", 1, 1, 1),
        (report(result("passed"), bugs=(BUG,)), "unknown", 4, 4, 4),
        (report(result("unknown"), bugs=(BUG,)), "unknown", 4, 4, 1),
        (report(result("failed"), bugs=(BUG,)), "broken", 1, 1, 1),
    ],
)
def test_verdict_and_exit_code(
    made: Report, verdict: Verdict, code: int, code_fail_on_note: int, code_strict: int
) -> None:
    assert made.verdict == verdict
    assert exit_code(made, fail_on="error", strict=False) == code
    assert exit_code(made, fail_on="note", strict=False) == code_fail_on_note
    assert exit_code(made, fail_on="error", strict=True) == code_strict


def test_severities_are_ordered() -> None:
    assert get_args(Severity) == SEVERITIES == ("error", "warning", "note")


def test_causes_are_ordered_errors_first_then_from_the_bottom() -> None:
    made = report(
        result("failed", "warning", Layer.MACHINE, "kernel"),
        result("failed", "error", Layer.TORCH, "cuda"),
        result("failed", "error", Layer.DRIVER, "nodes"),
        result("failed", "error", Layer.DRIVER, "module"),
        result("failed", "note", Layer.DRIVER, "old"),
        result("failed", "error", Layer.TORCH_MUSA, "import")._replace(caused_by="cuda"),
        result("passed", "error", Layer.MACHINE, "fine"),
    )
    assert [c.check.id for c in made.causes] == ["module", "nodes", "cuda", "kernel", "old"]


def test_facts_as_json() -> None:
    card = Gpu(
        "0000:2a:00.0", "0400", "MTT S5000", "mp_31", 81920, None, 0, PcieLink(16, 16, "32", "32")
    )
    machine = Machine("5.15", "x86_64", "U", "u", "1", None, Unknown("no /proc"), False, None, 1, 1)
    stated = StatedVersion(KernelDriverVersion.parse("3.3.5-server"), "gmi")  # type: ignore[arg-type]
    assert encode(Gpus((card,), "sysfs")) == {
        "cards": [
            {
                "address": "0000:2a:00.0",
                "device_id": "0400",
                "product": "MTT S5000",
                "architecture": "mp_31",
                "memory_mib": 81920,
                "kernel_module": None,
                "numa_node": 0,
                "link": {"width": 16, "max_width": 16, "speed": "32", "max_speed": "32"},
            }
        ],
        "source": "sysfs",
        "by_name": False,
        "counted": True,
    }
    boot = encode(machine)
    assert isinstance(boot, dict)
    assert boot["boot_parameters"] == {"unknown": "no /proc"}
    assert encode(stated) == {"version": "3.3.5-server", "source": "gmi"}
    assert encode(Absent("no module")) == {"absent": "no module"}
    assert encode(1.5) == 1.5
    variables = {"MUSA_HOME": "/usr/local/musa"}
    assert encode(Environment(variables, (), ())) == {
        "variables": variables,
        "path": [],
        "partial": False,
        "library_path": [],
    }


def test_redaction_reaches_all_that_a_report_shows() -> None:
    private = "/home/alice/env on gpu07"
    made = Report(
        Vantage("recording", "gpu07", f"Python ({private})", private),
        (
            Result(
                check("x", layer=Layer.DRIVER, severity="error")(nothing),
                "failed",
                (Finding(private, private, Fix(private, (private,))), Finding(private)),
                (Evidence("python", private),),
                private,
                None,
                private,
            ),
        ),
        {"python": {"path": private}},
        (Bug("probe x", private),),
        1.0,
    )
    clean = redacted(made, Redaction("/home/alice", "gpu07"))
    assert "alice" not in repr(clean)
    assert "gpu07" not in repr(clean)
    assert clean.results[0].findings[0].message == "~/env on host"
    assert clean.vantage.host is None
    without_python = made._replace(vantage=Vantage("host", None, None))
    assert redacted(without_python, Redaction(None, None)).vantage.python is None
