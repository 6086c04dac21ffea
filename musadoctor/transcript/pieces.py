"""What a recogniser finds."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from musadoctor.transcript.text import Line

Answer = tuple[str, str, object]
"""Kind, subject, answer: the kinds are those of a recording, and those below."""

STATED = "stated"
"""A value in prose; the subject is ``driver``, ``toolkit``, ``card``, ..."""
PACKAGE = "package"
"""An installed distribution: its name and version."""
REQUIRES = "requires"
"""What a distribution's metadata say that it requires."""
NVIDIA = "nvidia"
"""A package of CUDA's runtime that is installed."""
PLATFORM = "platform field"
CHILD = "child"
"""One line of the torch child; the subject is its step."""
NEEDED = "needed"
"""A library of torch_musa: its folder and name."""


class Piece(NamedTuple):
    """A recognised part of a transcript."""

    what: str
    """In a person's words: ``mthreads-gmi table``, ``package``."""
    first: Line
    last: Line
    answers: tuple[Answer, ...]
    """Empty for what no check asks for."""
    detail: str = ""
    """What tells it from its like: ``torch 2.5.0``."""


def described(what: str, first: Line, last: Line, details: Sequence[str]) -> str:
    """``lines 3-7: package torch 2.5.0, torch_musa 2.5.0``."""
    where = first.where
    if last.number != first.number:
        where = f"{first.prefix}lines {first.number}-{last.number}"
    return f"{where}: {what} {', '.join(details)}".rstrip()


Recogniser = Callable[[Sequence[Line]], list[Piece]]


def joined(lines: Sequence[Line]) -> str:
    """The lines as the tool printed them."""
    return "".join(f"{line.text}\n" for line in lines)
