"""What is kept of a host's report, and that no report can do harm."""

import json
import math
from contextlib import suppress
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import CASES, examined

from musadoctor.doctor import Options
from musadoctor.fleet.summary import (
    LONGEST_TEXT,
    NONE_JUDGED,
    SCHEMA_VERSION,
    Cause,
    ForeignError,
    HostSummary,
    of_report,
    summarise,
)
from musadoctor.render import json as json_renderer
from musadoctor.triage import diagnose_transcript


def document(case: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json_renderer.render(examined(case)))
    return made


def summary(of: object) -> HostSummary:
    return summarise(cast("Any", of), host="gpu07", source="a.jsonl, line 7", taken="")


def result(**changed: object) -> dict[str, object]:
    return {
        "id": "driver-not-loaded",
        "status": "failed",
        "severity": "error",
        "title": "The driver is not loaded",
        "findings": [finding()],
        **changed,
    }


def finding(*commands: object, destructive: object = False, message: object = "no mtgpu") -> object:
    fix = {"text": "Load it.", "commands": list(commands), "destructive": destructive}
    return {"message": message, "where": "", "fix": fix if commands else None}


def report(*results: object, **changed: object) -> dict[str, object]:
    return {
        "schema_version": "1",
        "verdict": "broken",
        "causes": ["driver-not-loaded"],
        "results": list(results),
        "facts": {},
        "bugs": [],
        **changed,
    }


def test_the_schema_is_that_of_our_own_reports() -> None:
    assert SCHEMA_VERSION == json_renderer.SCHEMA_VERSION


def test_a_healthy_host() -> None:
    found = summary(document("s5000-5.2.0"))
    assert (found.host, found.source) == ("gpu07", "a.jsonl, line 7")
    assert (found.verdict, found.causes, found.undecided, found.bugs) == ("healthy", (), (), 0)
    assert found.traits["toolkit in use"] == "5.2.0"


@pytest.mark.parametrize("case", CASES)
def test_a_summary_says_what_the_report_says(case: str) -> None:
    made = examined(case)
    found = summary(document(case))
    assert found.verdict == made.verdict
    assert [cause.id for cause in found.causes] == [cause.check.id for cause in made.causes]
    assert bool(found.undecided) is made.incomplete
    assert found == of_report(made, host="gpu07", source="a.jsonl, line 7", taken="")


def test_a_cause_has_its_first_message_and_a_command() -> None:
    made = examined("cuda-torch")
    first = summary(document("cuda-torch")).causes[0]
    told = made.causes[0]
    assert first.message == told.findings[0].message
    assert first.title == told.check.title
    assert first.severity == "error"


def test_of_a_transcript_too() -> None:
    text = b"mthreads-gmi: command not found\nImportError: libmusart.so.5: cannot open shared object file"
    _, made = diagnose_transcript([("issue.md", text)], Options(plugins=False))
    assert summary(json.loads(json_renderer.render(made))).verdict in {"broken", "unknown"}


def test_a_cause_that_the_results_do_not_have_is_no_cause() -> None:
    assert summary(report(result(status="passed"))).causes == ()
    assert summary(
        report(result(), causes=["other", "driver-not-loaded", "driver-not-loaded", 7])
    ).causes == (Cause("driver-not-loaded", "error", "The driver is not loaded", "no mtgpu", ""),)


@pytest.mark.parametrize(
    ("findings", "command"),
    [
        ([], ""),
        ([finding()], ""),
        ([finding("modprobe mtgpu", "more")], "modprobe mtgpu"),
        ([finding("rm -r /", destructive=True)], ""),
        ([finding("rm -r /", destructive=True), finding("ls")], "ls"),
        ([finding("rm -r /", destructive=None)], ""),
        ([finding(7)], ""),
        ([finding("printf '\x1b[31m'")], ""),
        ([finding("true\nrm -r /")], ""),
        ([finding("x" * 5000)], ""),
    ],
)
def test_only_a_command_that_destroys_nothing_and_is_what_it_seems(
    findings: list[object], command: str
) -> None:
    assert summary(report(result(findings=findings))).causes[0].command == command


def test_texts_are_short_and_have_no_escape_codes() -> None:
    made = result(
        title="\x1b]0;owned\x07", findings=[finding(message="a\n\u202e\ud800" + "b" * 10**6)]
    )
    (cause,) = summary(report(made)).causes
    assert cause.title == "\ufffd]0;owned\ufffd"
    assert cause.message.startswith("a \ufffd\ufffdbbb")
    assert len(cause.message) == LONGEST_TEXT
    assert cause.message.endswith("...")


def test_a_host_that_was_not_cleared_says_by_which_checks() -> None:
    unknown = result(id="gmi-fails", status="unknown")
    warning = result(id="mtbios", status="unknown", severity="warning")
    found = summary(report(result(status="passed"), unknown, warning, causes=[], verdict="unknown"))
    assert found.undecided == ("gmi-fails",)


@pytest.mark.parametrize("results", [[], [result(status="skipped")], [result(status="unknown")]])
def test_a_host_of_which_nothing_was_judged_was_not_cleared(results: list[object]) -> None:
    assert summary(report(*results, verdict="unknown")).undecided == (NONE_JUDGED,)


def test_bugs_are_counted() -> None:
    assert summary(report(bugs=[{"where": "probe gmi", "traceback": ""}])).bugs == 1


@pytest.mark.parametrize(
    ("foreign", "sentence"),
    [
        ({}, 'expected a musadoctor report of schema_version "1", found nothing'),
        (report(schema_version="0"), 'expected a musadoctor report of schema_version "1", found "0"'),
        (report(schema_version=1), 'expected a musadoctor report of schema_version "1", found a number'),
        (report(schema_version=10**5000), 'expected a musadoctor report of schema_version "1", found a number'),
        (report(schema_version=math.nan), 'expected a musadoctor report of schema_version "1", found a number'),
        (report(schema_version=True), 'expected a musadoctor report of schema_version "1", found true'),
        (report(schema_version=["1"]), 'expected a musadoctor report of schema_version "1", found a list'),
        (report(schema_version={}), 'expected a musadoctor report of schema_version "1", found an object'),
        (report(schema_version="\x1b[31m" + "9" * 99), None),
        (report(verdict="fine"), 'expected verdict to be one of healthy, degraded, broken, unknown, found "fine"'),
        (report(verdict=["healthy"]), "expected verdict to be one of healthy, degraded, broken, unknown, found a list"),
        (report(7), "expected results to hold objects, found a number"),
        (report(results={}), "expected results to be a list, found an object"),
        (report(causes=None), "expected causes to be a list, found nothing"),
        (report(facts=[]), "expected facts to be an object, found a list"),
        (report(bugs=1), "expected bugs to be a list, found a number"),
        (report(result(id=7)), "expected id to be a text, found a number"),
        (report(result(status="late")), 'expected status to be one of passed, failed, skipped, unknown, found "late"'),
        (report(result(severity="fatal")), 'expected severity to be one of error, warning, note, found "fatal"'),
        (report(result(title=None)), "expected title to be a text, found nothing"),
        (report(result(findings={})), "expected findings to be a list, found an object"),
        (report(result(findings=[{"message": []}])), "expected message to be a text, found a list"),
        (report(result(findings=[{"message": "", "fix": 7}])), "expected fix to be an object, found a number"),
        (report(result(findings=[{"message": "", "fix": {}}])), "expected commands to be a list, found nothing"),
    ],
)  # fmt: skip
def test_what_is_no_report_of_ours(foreign: object, sentence: str | None) -> None:
    with pytest.raises(ForeignError) as refused:
        summary(foreign)
    assert sentence is None or str(refused.value) == sentence
    assert len(str(refused.value)) < 200
    assert str(refused.value).isprintable()


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(
    ["1", "healthy", "failed", "error", "absent", "unknown", "x86_64", "5.2.0", "\ud800"]
)  # fmt: skip
KEYS = st.text(max_size=3) | st.sampled_from(
    [*report(), *result(), "message", "fix", "commands", "destructive", "version", "cards", "items"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, VALUES, max_size=8))
def test_no_json_value_is_too_much(value: dict[str, object]) -> None:
    with suppress(ForeignError):
        summary({"schema_version": "1", **value})


REAL = document("s5000-5.2.0")
PATHS = [
    (fact, field, inner)
    for fact, record in REAL["facts"].items()
    for field in record
    for inner in (record[field] if isinstance(record[field], dict) else [None])
]


@given(st.sampled_from(PATHS), VALUES)
def test_no_damaged_fact_is_too_much(path: tuple[str, str, str | None], value: object) -> None:
    fact, field, inner = path
    record = REAL["facts"][fact]
    changed = value if inner is None else {**record[field], inner: value}
    found = summary({**REAL, "facts": {**REAL["facts"], fact: {**record, field: changed}}})
    for text in found.traits.values():
        assert text
        assert text.isprintable()
        assert len(text) <= 300
