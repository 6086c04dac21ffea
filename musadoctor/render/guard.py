"""The guard's findings as text: a line each, as compilers write them, and what came of it all."""

import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TextIO

from musadoctor.api import Check, Finding, Severity
from musadoctor.facts.requirements import Requirements
from musadoctor.printable import printable
from musadoctor.report import Report
from musadoctor.requirements.files import STDIN
from musadoctor.requirements.formats import REQUIREMENTS

MOST_ALIKE = 5
"""Of more findings of one check in one file only these are shown."""
FEW_FILES = 3
"""With findings in so many files or more, it is told how many are in each."""
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
    advise: bool = False,
) -> None:
    """Write the findings in the order of the files, then the verdict in one line.

    ``advise`` tells how to have a copy written that is safe.
    """
    for file in requirements.files:
        if file.problem:
            print(f"{printable(file.path)}: cannot be judged: {file.problem}", file=stream)
    found = _rows(report)
    rows = [row for row in found if not quiet or row.check.severity == "error"]
    stream.writelines(_findings(rows, verbose=verbose, colour=colour))
    for result in report.results:
        if result.status == "unknown" and not result.traceback:
            print(f"not known: {result.reason} [{result.check.id}]", file=stream)
    for bug in report.bugs:
        print(f"a bug in musadoctor: {bug.where}\n{bug.traceback}", file=stream)
    if rows:
        print(file=stream)
    stream.writelines(_by_file(rows))
    print(_verdict(report, requirements, found), file=stream)
    copy = _copy(requirements) if advise else ""
    if copy and any(row.check.severity == "error" for row in rows):
        print(f"For a copy without what is refused, add: --write {copy}", file=stream)


def _findings(rows: Sequence[_Row], *, verbose: bool, colour: bool) -> Iterator[str]:
    alike: Counter[tuple[str, str]] = Counter((row.file, row.check.id) for row in rows)
    shown: Counter[tuple[str, str]] = Counter()
    advised: set[tuple[str, str]] = set()
    for row in rows:
        kind = (row.file, row.check.id)
        shown[kind] += 1
        if shown[kind] <= MOST_ALIKE or verbose or alike[kind] <= MOST_ALIKE + 1:
            yield from _lines(row, colour=colour, advised=advised)
        elif shown[kind] == alike[kind]:
            more = alike[kind] - MOST_ALIKE
            yield f"{printable(row.file)}: {more} more of {row.check.id} (--verbose)\n"


def _verdict(report: Report, requirements: Requirements, rows: Sequence[_Row]) -> str:
    """What came of it, in one line."""
    stack = report.facts.get("stack")
    if isinstance(stack, dict) and "absent" in stack:
        return (
            f"Nothing to protect: {stack['absent']}. To judge for a MUSA host, name one:"
            " --assume musa, or --recording FILE"
        )
    # A file is read again where it is also a part of an image.
    read = {file.path for file in requirements.files if not file.problem}
    again = len(read) < sum(not file.problem for file in requirements.files)
    entries = requirements.entries
    count = len({(entry.where, entry.text) for entry in entries}) if again else len(entries)
    counted: Counter[Severity] = Counter(row.check.severity for row in rows)
    looked = f"{_number(count, 'entry', 'entries')} in {_number(len(read), 'file', 'files')}"
    unread = any(file.problem for file in requirements.files)
    word = "Refused" if counted["error"] else "Not cleared" if unread else "Not refused"
    return f"{word}: {_numbers(counted) or 'nothing found'} ({looked}; {report.vantage.note})"


def _numbers(counted: "Counter[Severity]") -> str:
    return ", ".join(
        _number(counted[severity], severity, f"{severity}s")
        for severity in ("error", "warning", "note")
        if counted[severity]
    )


def _by_file(rows: Sequence[_Row]) -> Iterator[str]:
    """How much there is in each file, where it is more than a look can tell."""
    counted: dict[str, Counter[Severity]] = {}
    for row in rows:
        counted.setdefault(row.file, Counter())[row.check.severity] += 1
    if len(counted) < FEW_FILES:
        return
    for file, numbers in counted.items():
        yield f"{printable(file) or 'elsewhere'}: {_numbers(numbers)}\n"
    yield "\n"


def _copy(requirements: Requirements) -> str:
    """A name for a copy of the one requirements file that the user named; empty of others."""
    named = [file for file in requirements.files if not file.included_by]
    if len(named) != 1 or named[0].format != REQUIREMENTS or named[0].path == STDIN:
        return ""
    stem, suffix = os.path.splitext(named[0].path)
    return shlex.quote(f"{stem}.musa{suffix}")


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
