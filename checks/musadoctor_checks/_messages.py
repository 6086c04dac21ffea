"""What an error text in a transcript tells of a check's cause."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from musadoctor.api import Finding, Fix, MessageLine, Messages, Said, Toolkit
from musadoctor_checks.knowledge import Message, messages

LONGEST_QUOTE = 240
FIRST_OF_ITS_SONAME = 4
"""From this generation of the Toolkit on the runtime is named after it, ``libmusart.so.4``."""


def by_message(id: str, told: Messages, facts: Mapping[str, object]) -> Iterator[Finding]:  # noqa: A002, ARG001
    """The first line whose known meaning is the fault that the check ``id`` is about.

    Of exceptions that wrap each other the innermost of a known meaning counts.
    """
    explained: set[str] = set()
    for line in told.lines:
        row = _row(line)
        if row is None or line.chain in explained:
            continue
        if row.cause == id:
            yield quoted(line, row.meaning, row.fix)
            return
        if line.chain:
            explained.add(line.chain)


def unless(*others: str) -> Said:
    """Like :func:`by_message`, where no line tells of another cause, from which this follows."""

    def said(id: str, told: Messages, facts: Mapping[str, object]) -> Iterator[Finding]:  # noqa: A002
        if not any(row and row.cause in others for row in map(_row, told.lines)):
            yield from by_message(id, told, facts)

    return said


def quoted(line: MessageLine, meaning: str, fix: str) -> Finding:
    """A line with what it means."""
    text = line.text if len(line.text) <= LONGEST_QUOTE else f"{line.text[:LONGEST_QUOTE]}..."
    return Finding(f'"{text}": {meaning}', where=line.where, fix=Fix(fix))


def other_generation(told: Messages, facts: Mapping[str, object]) -> tuple[MessageLine, str]:
    """The line that misses the runtime of another generation than the Toolkit in use, and why.

    The line is empty where there is none.
    """
    toolkit = facts.get("toolkit")
    if isinstance(toolkit, Toolkit) and toolkit.version is not None:
        for line in told.lines:
            found = re.search(r"libmusart\.so\.(\d)", line.text)
            row = _row(line) if found else None
            if found and row and row.cause == "libmusart-not-found":
                wanted, there = int(found[1]), toolkit.version.major
                if wanted != there and max(wanted, there) >= FIRST_OF_ITS_SONAME:
                    named = found[1] if wanted >= FIRST_OF_ITS_SONAME else "1 to 3"
                    return line, f"it needs the runtime of Toolkit {named}, in use is {toolkit}"
    return MessageLine("", "", ""), ""


@lru_cache(8192)  # every check asks for the same lines
def _row(line: MessageLine) -> Message | None:
    """The meaning of a line; that of the particular text, where several would match."""
    for row in messages():
        if (row.alone or row.pattern).search(line.text) and (
            not row.before or row.before.search(line.before)
        ):
            return row
    return None
