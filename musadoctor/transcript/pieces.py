"""What a recogniser finds."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from musadoctor.transcript.text import Line

Answer = tuple[str, str, object]
"""Kind, subject, answer: the kinds are those of a recording, and those below."""

STATED = "stated"
"""A value in prose; the subject is ``driver``, ``toolkit``, ``card``."""
PACKAGE = "package"
"""An installed distribution: its name and version."""
PLATFORM = "platform field"
CHILD = "child"
"""One line of the torch child; the subject is its step."""


class Piece(NamedTuple):
    """A recognised part of a transcript."""

    what: str
    """In a person's words: ``mthreads-gmi table``."""
    first: Line
    last: Line
    answers: tuple[Answer, ...]

    def __str__(self) -> str:
        same = self.first.number == self.last.number
        return f"{self.first.where}{'' if same else f'-{self.last.number}'}: {self.what}"


Recogniser = Callable[[Sequence[Line]], list[Piece]]


def joined(lines: Sequence[Line]) -> str:
    """The lines as the tool printed them."""
    return "".join(f"{line.text}\n" for line in lines)
