"""The report as workflow commands of GitHub Actions, which put a finding on its line.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions; escaped as
``packages/core/src/command.ts`` of ``actions/toolkit`` does it.
"""

from collections.abc import Iterator
from typing import cast

from musadoctor.api import Finding, Layer, Severity
from musadoctor.printable import printable
from musadoctor.report import Report, Result

_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report) -> str:
    """A command a line: files that could not be read, findings, what an error's check lacks."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    for path, problem in _unread(report):
        yield _command("error", {"file": path, "title": "not judged"}, problem)
    for result in report.results:
        for finding in result.findings:
            properties = {**_place(result, finding), "title": result.check.id}
            yield _command(_COMMANDS[result.check.severity], properties, _message(result, finding))
        if result.status == "unknown" and result.check.severity == "error":
            yield _command("warning", {"title": result.check.id}, f"not known: {result.reason}")
    for bug in report.bugs:
        yield _command("error", {"title": "a bug in musadoctor"}, f"{bug.where}\n{bug.traceback}")


def _unread(report: Report) -> Iterator[tuple[str, str]]:
    """The dependency files that could not be read, and why."""
    facts = report.facts.get("requirements")
    files = facts.get("files") if isinstance(facts, dict) else None
    for file in cast("list[dict[str, str]]", files or []):
        if file["problem"]:
            yield file["path"], file["problem"]


def _place(result: Result, finding: Finding) -> dict[str, str]:
    """File and line; nothing of what is found on a host, where other things than files are."""
    file, _, line = finding.where.rpartition(":")
    if result.check.layer is not Layer.REQUIREMENTS or not (file and line.isdecimal()):
        return {}
    return {"file": file, "line": line}


def _message(result: Result, finding: Finding) -> str:
    # Where no file tells it, the place stands in the message.
    where = "" if _place(result, finding) or not finding.where else f"{finding.where}: "
    cause = f" (follows from {result.caused_by})" if result.caused_by else ""
    fix = finding.fix
    return "\n".join(
        [f"{where}{finding.message}{cause}", *((fix.text, *fix.commands) if fix else ())]
    )


def _command(name: str, properties: dict[str, str], message: str) -> str:
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return printable(escaped)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
