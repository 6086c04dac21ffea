"""What came of a diagnosis: a status for each check, the causes in order, a verdict."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

from musadoctor.api import SEVERITIES, Check, Finding, Severity
from musadoctor.facts.base import Absent, Unknown

if TYPE_CHECKING:
    from musadoctor.redact import Redaction

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
Status = Literal["passed", "failed", "skipped", "unknown"]
Verdict = Literal["healthy", "degraded", "broken", "unknown"]


class Evidence(NamedTuple):
    """One fact that a passed check rests on."""

    fact: str
    """Its name, ``gpus``."""
    text: str
    """What it says, in a line."""


class Result(NamedTuple):
    """How one check came out."""

    check: Check
    status: Status
    findings: tuple[Finding, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    reason: str = ""
    """Why a check was skipped or could not decide."""
    caused_by: str | None = None
    """The id of the failed check that explains this one."""
    traceback: str = ""
    """Of the exception that a check or a probe died of."""
    seconds: float = 0.0


class Bug(NamedTuple):
    """An exception in musadoctor's own code: nothing that the host can be blamed for."""

    where: str
    """``probe gmi``, ``check driver-not-loaded``."""
    traceback: str


class Vantage(NamedTuple):
    """From where the report looks."""

    kind: str
    """``host``, ``container``, ``recording``, ``transcript``."""
    host: str | None
    """The machine's name, ``None`` where redacted."""
    python: str | None
    """The examined interpreter, and why that one."""
    note: str = ""
    """Of a recording: its file and day."""


class Question(NamedTuple):
    """What a reporter can be asked for, and what it would decide."""

    command: str
    undecided: tuple[str, ...]
    """Ids of checks, the most basic first."""


class Reading(NamedTuple):
    """What a report on a transcript says of the transcript."""

    recognised: tuple[str, ...]
    """``lines 4-30: mthreads-gmi table``."""
    not_shown: tuple[str, ...]
    """What of the machine is not in the text, or not to be recognised there."""
    ask: tuple[Question, ...]
    """The most telling first."""
    summary: str
    """One sentence: what to make of it."""


class Report(NamedTuple):
    """A whole diagnosis."""

    vantage: Vantage
    results: tuple[Result, ...]
    facts: dict[str, JSON]
    """Every fact that was asked for, as :func:`encode` has it."""
    bugs: tuple[Bug, ...]
    seconds: float
    reading: Reading | None = None
    """Of a transcript."""

    @property
    def causes(self) -> tuple[Result, ...]:
        """The failed checks that nothing else explains: what to fix, in order."""
        failed = [r for r in self.results if r.status == "failed" and r.caused_by is None]
        return tuple(sorted(failed, key=rank))

    @property
    def incomplete(self) -> bool:
        """Whether a check of severity error could not decide, or none had anything to judge."""
        judged = any(r.status in {"passed", "failed"} for r in self.results)
        return not judged or any(
            r.status == "unknown" and r.check.severity == "error" for r in self.results
        )

    @property
    def verdict(self) -> Verdict:
        """The host in one word. A host that was not cleared is never healthy."""
        severities = {r.check.severity for r in self.results if r.status == "failed"}
        if "error" in severities:
            return "broken"
        # A text shows a part of a machine, whatever was asked of it.
        if self.incomplete or self.bugs or (self.reading and "warning" not in severities):
            return "unknown"
        return "degraded" if "warning" in severities else "healthy"


def rank(result: Result) -> tuple[int, int, bool, str]:
    """Errors, then warnings, then notes; of each the lowest layer first, symptoms last."""
    check = result.check
    return (
        SEVERITIES.index(check.severity),
        int(check.layer),
        check.follows_from is not None,
        check.id,
    )


def exit_code(report: Report, *, fail_on: Severity, strict: bool) -> int:
    """0, 1, 3 or 4 as the documentation has it."""
    bound = SEVERITIES.index(fail_on)
    failed = any(
        r.status == "failed" and SEVERITIES.index(r.check.severity) <= bound for r in report.results
    )
    if failed or (strict and any(r.status == "unknown" for r in report.results)):
        return 1
    if report.bugs:
        return 4
    return 3 if report.incomplete else 0


def encode(value: object) -> JSON:
    """A fact as a JSON value.

    A record is an object of its fields; ``Absent`` and ``Unknown`` are ``{"absent": reason}`` and
    ``{"unknown": reason}``; a version is its text.
    """
    if isinstance(value, (Absent, Unknown)):
        return {type(value).__name__.lower(): value.reason}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, object]", value)
        return {name: encode(item) for name, item in mapping.items()}
    if isinstance(value, (tuple, list)):
        items = [encode(item) for item in cast("tuple[object, ...]", value)]
        fields: tuple[str, ...] | None = getattr(cast("object", value), "_fields", None)
        return items if fields is None else dict(zip(fields, items, strict=True))
    return str(value)


def redacted(report: Report, redaction: "Redaction") -> Report:
    """The same report without private data in anything that it shows."""
    text = redaction.text
    results = tuple(
        result._replace(
            findings=tuple(
                Finding(
                    text(finding.message),
                    text(finding.where),
                    finding.fix
                    and finding.fix._replace(
                        text=text(finding.fix.text),
                        commands=tuple(text(command) for command in finding.fix.commands),
                    ),
                )
                for finding in result.findings
            ),
            evidence=tuple(Evidence(e.fact, text(e.text)) for e in result.evidence),
            reason=text(result.reason),
            traceback=text(result.traceback),
        )
        for result in report.results
    )
    vantage = report.vantage
    return report._replace(
        vantage=vantage._replace(
            host=None,
            python=None if vantage.python is None else text(vantage.python),
            note=text(vantage.note),
        ),
        results=results,
        facts=redaction.value(report.facts),
        bugs=tuple(bug._replace(traceback=text(bug.traceback)) for bug in report.bugs),
        reading=report.reading
        and report.reading._replace(recognised=tuple(map(text, report.reading.recognised))),
    )
