"""The report on a pasted text: whole outputs, and what the options leave out."""

import io
import json
import re

import pytest
from support import TESTS

from musadoctor.doctor import Options
from musadoctor.render import json as json_report
from musadoctor.render.reading import MOST_PIECES, render
from musadoctor.report import Bug, Report, Vantage
from musadoctor.triage import diagnose_transcript

CASE = TESTS / "transcripts" / "032-sdk-4.2-s80-no-mccl.txt"


def triage(text: bytes) -> Report:
    return diagnose_transcript([("issue.md", text)], Options(plugins=False))[1]


def shown(report: Report, *, verbose: bool = False, quiet: bool = False) -> str:
    stream = io.StringIO()
    render(report, stream, verbose=verbose, quiet=quiet)
    return re.sub(r", \d+\.\d s\b", ", 0.1 s", stream.getvalue())


@pytest.mark.parametrize("how", ["plain", "verbose", "quiet"])
def test_a_report_is_shown_whole(how: str, pytestconfig: pytest.Config) -> None:
    text = shown(triage(CASE.read_bytes()), verbose=how == "verbose", quiet=how == "quiet")
    kept = TESTS / "outputs" / f"reading-{how}.txt"
    if pytestconfig.getoption("--update"):
        kept.write_text(text, encoding="utf-8")
    assert text == kept.read_text(encoding="utf-8")


def test_of_many_pieces_the_first_are_shown() -> None:
    report = triage(CASE.read_bytes())
    assert report.reading is not None
    pieces = tuple(f"line {number}: package" for number in range(MOST_PIECES + 3))
    many = report._replace(reading=report.reading._replace(recognised=pieces))
    assert "and 3 more, with --verbose" in shown(many)
    assert "more, with --verbose" not in shown(many, verbose=True)


def test_error_texts_alone() -> None:
    text = shown(triage(b"MUSA error: unknown error\n"))
    assert "nothing but error texts" in text


def test_a_bug_of_ours_is_shown() -> None:
    report = triage(CASE.read_bytes())._replace(bugs=(Bug("probe gmi", "Traceback: lost"),))
    assert "Traceback: lost" in shown(report)


def test_nothing_is_asked_for_where_nothing_is_open() -> None:
    report = triage(CASE.read_bytes())
    assert report.reading is not None
    settled = report._replace(reading=report.reading._replace(ask=(), not_shown=()))
    assert "Ask for" not in shown(settled)
    assert "Not shown" not in shown(settled)


def test_a_report_without_a_reading() -> None:
    report = Report(Vantage("host", None, None), (), {}, (), 0.0)
    with pytest.raises(ValueError, match="not a report on a transcript"):
        render(report, io.StringIO())


def test_the_json_tells_what_was_read() -> None:
    told = json.loads(json_report.render(triage(CASE.read_bytes())))["transcript"]
    assert told["recognised"][0] == "line 1: machine 5.15.0-105-generic"
    assert all(question["command"] and question["undecided"] for question in told["ask"])
    assert told["summary"].startswith("The first thing to fix is mccl-missing: ")
