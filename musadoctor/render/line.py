"""The report on a host in one line, for a scheduler's reason or a monitor."""

from musadoctor.fleet.answer import line
from musadoctor.report import Report

LONGEST = 200
"""Characters; schedulers and monitors keep no more."""


def render(report: Report) -> str:
    """The verdict and what to know first about it, with a final line end."""
    return f"{line(_said(report), LONGEST)}\n"


def _said(report: Report) -> str:
    verdict = report.verdict
    if verdict in {"broken", "degraded"}:
        cause = report.causes[0]
        message = cause.findings[0].message if cause.findings else cause.check.title
        return f"{verdict}: {cause.check.id}: {message}"
    if verdict == "healthy":
        return verdict
    undecided = [
        result
        for result in report.results
        if result.status == "unknown" and result.check.severity == "error"
    ]
    if undecided:
        checks = "check" if len(undecided) == 1 else "checks"
        names = ", ".join(result.check.id for result in undecided)
        count = f"{len(undecided)} {checks} of severity error could not decide"
        return f"unknown: {count}: {names} ({undecided[0].reason})"
    if report.bugs:
        return f"unknown: a bug in musadoctor: {report.bugs[0].where}"
    return "unknown: no check had anything to judge"
