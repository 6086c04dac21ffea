"""What is kept of one host's report: enough to count it, to name its cause, and to compare it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar, get_args

from musadoctor.api import SEVERITIES, Finding, Severity
from musadoctor.fleet.answer import line, quoted
from musadoctor.fleet.traits import traits
from musadoctor.report import JSON, Report, Status, Verdict

SCHEMA_VERSION = "1"
MOST_RESULTS = 10_000
LONGEST_ID = 100
LONGEST_TEXT = 500
"""Characters that are kept of a title or a message."""
LONGEST_COMMAND = 2000
"""Characters; a longer one is left out, for half a command is another one."""
NONE_JUDGED = "every check"
"""Stands for their ids where not one check had anything to judge."""
VERDICTS: dict[str, Verdict] = {word: word for word in get_args(Verdict)}
STATUSES: dict[str, Status] = {word: word for word in get_args(Status)}
GRADES: dict[str, Severity] = {word: word for word in SEVERITIES}
Word = TypeVar("Word", bound=str)


class Cause(NamedTuple):
    """A failed check that nothing else explains."""

    id: str
    severity: Severity
    title: str
    message: str
    """Of its first finding."""
    command: str
    """The first command of its fix, or ``""``."""


class HostSummary(NamedTuple):
    """One host that answered."""

    host: str
    verdict: Verdict
    causes: tuple[Cause, ...]
    """In the order in which to fix them."""
    undecided: tuple[str, ...]
    """Ids of checks of severity error that came out unknown, for a host that was not cleared."""
    bugs: int
    """Exceptions in musadoctor's own code there."""
    traits: Mapping[str, str]
    """What ought to be equal on hosts of a kind, by the names of ``traits.TRAITS``; a trait that is
    not known of this host is not in it."""
    source: str
    """The file, and its line where it has many: where the report was read."""
    taken: str
    """When, as the file says; ``""`` where it does not."""


class ForeignError(ValueError):
    """Not a report of ours; one sentence."""


def summarise(document: Mapping[str, JSON], *, host: str, source: str, taken: str) -> HostSummary:
    """The summary of a JSON report, a value from another machine: each part is checked.

    Raises:
        ForeignError: it is no report, or one of a schema that is not known.
    """
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ForeignError(
            f'expected a musadoctor report of schema_version "{SCHEMA_VERSION}", '
            f"found {quoted(version)}"
        )
    results = [_result(result) for result in _list(document, "results")[:MOST_RESULTS]]
    failed = {cause.id: cause for cause in map(_cause, results) if cause is not None}
    named = dict.fromkeys(name for name in _list(document, "causes") if isinstance(name, str))
    return HostSummary(
        host=host,
        verdict=_one_of(document, "verdict", VERDICTS),
        causes=tuple(failed[name] for name in named if name in failed),
        undecided=_undecided(results),
        bugs=len(_list(document, "bugs")),
        traits=traits(_object(document, "facts")),
        source=source,
        taken=taken,
    )


def of_report(report: Report, *, host: str, source: str, taken: str) -> HostSummary:
    """The summary of a report that was made here, of a recording."""
    causes = [
        Cause(
            id=result.check.id,
            severity=result.check.severity,
            title=line(result.check.title, LONGEST_TEXT),
            message=line(result.findings[0].message, LONGEST_TEXT),
            command=next((text for one in result.findings if (text := _command_of(one))), ""),
        )
        for result in report.causes
    ]
    results = (_Result(r.check.id, r.status, r.check.severity, {}) for r in report.results)
    return HostSummary(
        host=host,
        verdict=report.verdict,
        causes=tuple(causes),
        undecided=_undecided(tuple(results)),
        bugs=len(report.bugs),
        traits=traits(report.facts),
        source=source,
        taken=taken,
    )


class _Result(NamedTuple):
    """A check's result, with the parts checked that every one has."""

    id: str
    status: Status
    severity: Severity
    record: Mapping[str, JSON]


def _result(value: JSON) -> _Result:
    if not isinstance(value, dict):
        raise ForeignError(f"expected results to hold objects, found {quoted(value)}")
    status, severity = _one_of(value, "status", STATUSES), _one_of(value, "severity", GRADES)
    return _Result(_text(value, "id"), status, severity, value)


def _undecided(results: Sequence[_Result]) -> tuple[str, ...]:
    """As ``Report.incomplete`` has it."""
    if not any(result.status in {"passed", "failed"} for result in results):
        return (NONE_JUDGED,)
    unknown = (r for r in results if r.status == "unknown" and r.severity == "error")
    return tuple(line(result.id, LONGEST_ID) for result in unknown)


def _cause(result: _Result) -> Cause | None:
    """A failed check, as the cause that it may be."""
    if result.status != "failed":
        return None
    record = result.record
    findings = [one for one in _list(record, "findings") if isinstance(one, dict)]
    return Cause(
        id=line(result.id, LONGEST_ID),
        severity=result.severity,
        title=line(_text(record, "title"), LONGEST_TEXT),
        message=line(_text(findings[0], "message"), LONGEST_TEXT) if findings else "",
        command=next((text for one in findings if (text := _command(one))), ""),
    )


def _command(finding: Mapping[str, JSON]) -> str:
    """The first command of a fix that destroys nothing; ``""`` where it is not fit to be shown."""
    if finding.get("fix") is None:
        return ""
    fix = _object(finding, "fix")
    commands = _list(fix, "commands")
    command = commands[0] if commands and fix.get("destructive") is False else ""
    return _fit(command) if isinstance(command, str) else ""


def _command_of(finding: Finding) -> str:
    fix = finding.fix
    return _fit(fix.commands[0]) if fix and fix.commands and not fix.destructive else ""


def _fit(command: str) -> str:
    return command if len(command) <= LONGEST_COMMAND and command.isprintable() else ""


def _object(record: Mapping[str, JSON], name: str) -> dict[str, JSON]:
    value = record.get(name)
    if not isinstance(value, dict):
        raise ForeignError(f"expected {name} to be an object, found {quoted(value)}")
    return value


def _list(record: Mapping[str, JSON], name: str) -> list[JSON]:
    value = record.get(name)
    if not isinstance(value, list):
        raise ForeignError(f"expected {name} to be a list, found {quoted(value)}")
    return value


def _text(record: Mapping[str, JSON], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str):
        raise ForeignError(f"expected {name} to be a text, found {quoted(value)}")
    return value


def _one_of(record: Mapping[str, JSON], name: str, words: Mapping[str, Word]) -> Word:
    value = record.get(name)
    if not isinstance(value, str) or value not in words:
        raise ForeignError(
            f"expected {name} to be one of {', '.join(words)}, found {quoted(value)}"
        )
    return words[value]
