"""What the pass over the entries finds in one of them."""

from typing import NamedTuple

from musadoctor.api import Entry, Fix

INDEX = "the Moore Threads package index"


class Case(NamedTuple):
    """The check that an entry falls to, and what is said of it."""

    check: str
    message: str
    fix: Fix


def requirement(entry: Entry, name: str, specifier: str, extras: tuple[str, ...]) -> str:
    """A requirement line with the marker that the entry has."""
    listed = f"[{','.join(extras)}]" if extras else ""
    marker = f"; {entry.marker}" if entry.marker else ""
    return f"{name}{listed}{specifier}{marker}"
