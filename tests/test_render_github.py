"""The whole output for GitHub Actions, read back as the runner reads it."""

from musadoctor.api import Check, Finding, Fix, Judgement, Layer, Severity, check
from musadoctor.render.github import render
from musadoctor.report import JSON, Bug, Report, Result, Vantage


def made(id: str, layer: Layer, severity: Severity = "error") -> Check:
    def function(gpus: int) -> Judgement:
        """A title."""
        yield from ()

    return check(id, layer=layer, severity=severity)(function)


def report(
    *results: Result, bugs: tuple[Bug, ...] = (), facts: dict[str, JSON] | None = None
) -> Report:
    return Report(Vantage("requirements", None, None), results, facts or {}, bugs, 0.1)


PIN = made("torch-pin-mismatch", Layer.REQUIREMENTS)
INDEX = made("cpu-index", Layer.REQUIREMENTS, "warning")
GUARD = report(
    Result(
        PIN,
        "failed",
        (
            Finding(
                "torch==2.4.0 is not what is installed, 100% sure",
                "requirements/a,b:c.txt:12",
                Fix("Leave the line out", ("pip install -r x.txt", "pip check")),
            ),
            Finding("torch==2.5.0 is not what is installed", "command line"),
        ),
    ),
    Result(INDEX, "failed", (Finding("an index of CPU builds", "pyproject.toml:3"),)),
    Result(made("seen", Layer.REQUIREMENTS, "note"), "failed", (Finding("seen", "a.txt:1"),)),
    Result(made("good", Layer.REQUIREMENTS), "passed"),
    Result(made("blind", Layer.REQUIREMENTS), "unknown", reason="no Python: none on PATH"),
    Result(made("blind-too", Layer.REQUIREMENTS, "warning"), "unknown", reason="the same"),
    facts={
        "requirements": {
            "files": [
                {"path": "junk.txt", "problem": "a NUL in it"},
                {"path": "a.txt", "problem": ""},
            ],
            "entries": 4,
        }
    },
    bugs=(Bug("check x", "Traceback\nZeroDivisionError\n"),),
)
HOST = report(
    Result(
        made("driver-not-loaded", Layer.DRIVER),
        "failed",
        (Finding("mtgpu is not loaded", fix=Fix("Load it", ("modprobe mtgpu",))),),
    ),
    Result(
        made("torch-odd", Layer.TORCH),
        "failed",
        (Finding("no device\rat all\x1b[31m", "card:1"),),
        caused_by="driver-not-loaded",
    ),
    facts={"requirements": {"absent": "none"}},
)


def test_findings_of_files_stand_on_their_lines() -> None:
    assert render(GUARD).splitlines() == [
        "::error file=junk.txt,title=not judged::a NUL in it",
        (
            "::error file=requirements/a%2Cb%3Ac.txt,line=12,title=torch-pin-mismatch::"
            "torch==2.4.0 is not what is installed, 100%25 sure%0ALeave the line out"
            "%0Apip install -r x.txt%0Apip check"
        ),
        "::error title=torch-pin-mismatch::command line: torch==2.5.0 is not what is installed",
        "::warning file=pyproject.toml,line=3,title=cpu-index::an index of CPU builds",
        "::notice file=a.txt,line=1,title=seen::seen",
        "::warning title=blind::not known: no Python: none on PATH",
        "::error title=a bug in musadoctor::check x%0ATraceback%0AZeroDivisionError%0A",
    ]


def test_findings_of_a_host_have_no_file() -> None:
    assert render(HOST).splitlines() == [
        "::error title=driver-not-loaded::mtgpu is not loaded%0ALoad it%0Amodprobe mtgpu",
        (
            "::error title=torch-odd::card:1: no device%0Dat all\ufffd[31m"
            " (follows from driver-not-loaded)"
        ),
    ]


def test_nothing_found_is_nothing_said() -> None:
    assert not render(report(Result(PIN, "passed")))
