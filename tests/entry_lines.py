"""Entries as lines of text, so that a table of them can be read."""

from collections.abc import Iterable

from musadoctor.facts.requirements import Entry


def lines(entries: Iterable[Entry]) -> list[str]:
    """``12 requirement torch ==2.4.0 @URL ;marker <scope> option !reason`` of each entry."""
    return [line(entry) for entry in entries]


def line(entry: Entry) -> str:
    extras = f"[{','.join(entry.extras)}]" if entry.extras else ""
    parts = (
        entry.where.rpartition(":")[2],
        entry.kind,
        entry.name + extras,
        entry.specifier,
        entry.url and f"@{entry.url}",
        entry.marker and f";{entry.marker}",
        entry.scope and f"<{entry.scope}>",
        entry.option,
        entry.reason and f"!{entry.reason}",
    )
    return " ".join(part for part in parts if part)
