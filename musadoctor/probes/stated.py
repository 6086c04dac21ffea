"""What a transcript says in prose, and its telling lines; no other system has either.

The transcript's reader writes both as files in a place where no machine can have one: a JSON list
for each kind, ``[["2.7.0", "line 4"], ...]``.
"""

import json
from typing import NamedTuple, cast

from musadoctor.facts.base import Absent
from musadoctor.facts.messages import MessageLine, Messages, MessagesFact
from musadoctor.system import UNRECORDED, Failure, System

_PLACE = "/dev/null/transcript"
LINES = f"{_PLACE}/lines"
SITE = "<site-packages>"
"""Where a transcript's packages are, as nothing tells the folder."""
SEARCH_PATH = (SITE, "other packages")
"""The second is in no transcript, so that what is not shown is not taken to be absent."""


class Stated(NamedTuple):
    """A value that somebody wrote."""

    value: str
    where: str

    @property
    def source(self) -> str:
        """What a fact names as its source."""
        return f"stated in {self.where}"


def key(kind: str) -> str:
    """The name of the file of one kind: ``driver``, ``toolkit``, ``card``."""
    return f"{_PLACE}/{kind}"


def is_transcript(system: System) -> bool:
    """Whether a text answers, and not a machine: what it does not show may be there."""
    return not isinstance(system.read(LINES), Failure)


def stated(system: System, kind: str, instead_of: Failure) -> tuple[Stated, ...]:
    """What is stated of a kind; nothing where the machine itself was asked."""
    if instead_of.kind != UNRECORDED:
        return ()
    text = system.read(key(kind))
    if isinstance(text, Failure):
        return ()
    return tuple(Stated(value, where) for value, where in cast("list[list[str]]", json.loads(text)))


def messages(system: System) -> MessagesFact:
    """The telling lines of a transcript."""
    text = system.read(LINES)
    if isinstance(text, Failure):
        return Absent("no transcript: the machine itself is examined")
    lines = tuple(MessageLine(*line) for line in cast("list[list[str]]", json.loads(text)))
    failure = Failure(UNRECORDED, "")
    told = (
        (kind, MessageLine(item.where, item.value, ""))
        for kind in ("windows", "image")
        for item in stated(system, kind, failure)
    )
    return Messages(lines, tuple(told))
