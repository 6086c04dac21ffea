"""What a person pasted, line by line: the lines that may tell what is wrong."""

from typing import NamedTuple

from musadoctor.facts.base import Absent, Unknown


class MessageLine(NamedTuple):
    """One line of a transcript."""

    where: str
    """``line 12``, with the file's name where there are several."""
    text: str
    before: str
    """The lines just above it: the command, the heading."""
    chain: str = ""
    """Of an exception that others wrap, or that wraps one: where the innermost of them stands."""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


class Messages(NamedTuple):
    """The telling lines of a transcript, in its order, each text once."""

    lines: tuple[MessageLine, ...]
    stated: tuple[tuple[str, MessageLine], ...] = ()
    """What sentences state that no fact holds, with its kind: ``windows``, ``image`` (the
    torch_musa in an image's tag)."""

    def of_kind(self, kind: str) -> tuple[MessageLine, ...]:
        """What is stated of a kind."""
        return tuple(line for of, line in self.stated if of == kind)

    def __str__(self) -> str:
        return f"{len(self.lines)} telling lines"


MessagesFact = Messages | Absent | Unknown
