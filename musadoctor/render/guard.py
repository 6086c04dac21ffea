"""The guard's findings as text: a line each, as compilers write them, and what came of it all."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, TextIO

from musadoctor.api import Check, Finding, Severity
from musadoctor.facts.requirements import Requirements
from musadoctor.printable import printable
from musadoctor.report import Report

MOST_ALIKE = 5
"""Of more findings of one check in one file only these are shown."""
_COLOURS = {"error": "31", "warning": "33", "note": "36"}


class _Row(NamedTuple):
    file: str
    line: int
    check: Check
    finding: Finding


def render(
    report: Report,
    requirements: Requirements,
    stream: TextIO,
    *,
    verbose: bool = False,
    quiet: bool = False,
    colour: bool = False,
) -> None:
    """Write the findings in the order of the files, then the verdict in one line."""
    for file in requirements.files:
        if file.problem:
            print(f"{printable(file.path)}: cannot be judged: {file.problem}", file=stream)
    rows = [row for row in _rows(report) if not quiet or row.check.severity == "error"]
    alike: Counter[tuple[str, str]] = Counter((row.file, row.check.id) for row in rows)
    shown: Counter[tuple[str, str]] = Counter()
    advised: set[tuple[str, str]] = set()
    for row in rows:
        kind = (row.file, row.check.id)
        shown[kind] += 1
        if shown[kind] > MOST_ALIKE and not verbose and alike[kind] > MOST_ALIKE + 1:
            if shown[kind] == alike[kind]:
                more = alike[kind] - MOST_ALIKE
                print(f"{row.file}: {more} more of {row.check.id} (--verbose)", file=stream)
            continue
        stream.writelines(_lines(row, colour=colour, advised=advised))
    for result in report.results:
        if result.status == "unknown" and not result.traceback:
            print(f"not known: {result.reason} [{result.check.id}]", file=stream)
    for bug in report.bugs:
        print(f"a bug in musadoctor: {bug.where}\n{bug.traceback}", file=stream)
    if rows:
        print(file=stream)
    print(verdict(report, requirements), file=stream)


def verdict(report: Report, requirements: Requirements) -> str:
    """What came of it, in one line."""
    stack = report.facts.get("stack")
    if isinstance(stack, dict) and "absent" in stack:
        return (
            f"Nothing to protect: {stack['absent']}. To judge for a MUSA host, name one:"
            " --assume musa, or --recording FILE"
        )
    read = [file for file in requirements.files if not file.problem]
    counted: Counter[Severity] = Counter(row.check.severity for row in _rows(report))
    numbers = [
        f"{counted[severity]} {severity}{'s' if counted[severity] != 1 else ''}"
        for severity in ("error", "warning", "note")
        if counted[severity]
    ]
    looked = f"{_number(len(requirements.entries), 'entry', 'entries')} in"
    where = f"{looked} {_number(len(read), 'file', 'files')}; {report.vantage.note}"
    unread = len(read) < len(requirements.files)
    word = "Refused" if counted["error"] else "Not cleared" if unread else "Not refused"
    return f"{word}: {', '.join(numbers) or 'nothing found'} ({where})"


def _number(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _rows(report: Report) -> list[_Row]:
    """All findings, by file in the order in which they come, then by line."""
    rows = [
        _Row(*_place(finding.where), result.check, finding)
        for result in report.results
        for finding in result.findings
    ]
    return sorted(rows, key=lambda row: (row.file, row.line, row.check.id))


def _place(where: str) -> tuple[str, int]:
    file, _, line = where.rpartition(":")
    return (file, int(line)) if file and line.isdecimal() else (where, 0)


def _lines(row: _Row, *, colour: bool, advised: set[tuple[str, str]]) -> Iterator[str]:
    severity: str = row.check.severity
    where = printable(row.finding.where)
    if colour:
        severity = f"\x1b[{_COLOURS[severity]};1m{severity}\x1b[0m"
        where = f"\x1b[1m{where}\x1b[0m"
    place = f"{where}: " if where else ""
    yield f"{place}{severity}: {row.finding.message} [{row.check.id}]\n"
    fix = row.finding.fix
    if fix is None or (row.file, fix.text) in advised:
        return
    advised.add((row.file, fix.text))
    yield f"  {fix.text}\n"
    for command in fix.commands:
        yield f"    {command}\n"
