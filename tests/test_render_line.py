"""The report in one line, as a scheduler keeps it."""

import json
from pathlib import Path

import pytest
from recorded import whole
from test_cli import musadoctor
from test_render import HEALTHY, LONG, made

from musadoctor.api import Finding, Layer
from musadoctor.plugins import plugin_broken
from musadoctor.render.line import LONGEST, render
from musadoctor.report import Bug, Report, Result

WARNING = Result(
    made("stale-entry", Layer.ENVIRONMENT, "warning"), "failed", (Finding("/opt/old is gone"),)
)
NOTE = Result(made("nccl-noop", Layer.ENVIRONMENT, "note"), "failed", (Finding("no effect"),))
UNSURE = Result(made("gmi-fails", Layer.DRIVER), "unknown", reason="no answer in 10 s")
UNSURE_TOO = UNSURE._replace(check=made("gmi-slow", Layer.DRIVER))


def of(*results: Result, bugs: tuple[Bug, ...] = ()) -> Report:
    return HEALTHY._replace(results=(*HEALTHY.results, *results), bugs=bugs)


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (of(), "healthy"),
        (of(NOTE), "healthy"),
        (of(WARNING, NOTE), "degraded: stale-entry: /opt/old is gone"),
        (
            of(UNSURE),
            "unknown: 1 check of severity error could not decide: gmi-fails (no answer in 10 s)",
        ),
        (
            of(UNSURE, UNSURE_TOO, WARNING),
            "unknown: 2 checks of severity error could not decide: gmi-fails, gmi-slow (no answer in 10 s)",
        ),
        (
            of(bugs=(Bug("probe gmi", "Traceback\n"),)),
            "unknown: a bug in musadoctor: probe gmi",
        ),
        (HEALTHY._replace(results=()), "unknown: no check had anything to judge"),
        (
            of(Result(plugin_broken, "failed")),
            f"degraded: plugin-broken: {plugin_broken.title}",
        ),
    ],
)
def test_the_verdict_and_what_to_know_first(report: Report, line: str) -> None:
    assert render(report) == f"{line}\n"


def test_the_first_cause_is_told_and_cut_where_it_is_long() -> None:
    finding = Finding(LONG + LONG)
    line = render(of(WARNING, Result(made("torch-not-musa", Layer.TORCH), "failed", (finding,))))
    assert line.startswith("broken: torch-not-musa: torch 2.4.1+cu121 in /opt/env/")
    assert line.endswith("...\n")
    assert len(line) == LONGEST + 1


def test_it_is_one_line_that_a_terminal_may_have() -> None:
    finding = Finding("two\nlines \x1b[31m and\ta tab")
    result = Result(made("x", Layer.DRIVER), "failed", (finding,))
    assert render(of(result)) == "broken: x: two lines \ufffd[31m and a tab\n"


def test_format_line_has_nothing_else_on_standard_output(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text(json.dumps(whole("cuda-torch")), encoding="utf-8")
    done = musadoctor("--recording", "host.json", "--format", "line", cwd=tmp_path)
    assert done.code == 1
    assert done.err == ""
    assert done.out.startswith("broken: torch-for-other-gpus: torch 2.4.1+cu121, CUDA build")
    assert done.out.count("\n") == 1


@pytest.mark.parametrize("command", [["verify", "--recording", "x"], ["triage", "x"]])
def test_commands_without_one_line_to_say_do_not_know_the_format(command: list[str]) -> None:
    done = musadoctor(*command, "--format", "line")
    assert done.code == 2
    assert "'line' is not one of 'text', 'json'" in " ".join(done.err.replace("│", "").split())
