"""What is made of a text that cannot be read to its end."""

import re

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.requirement import shown

_CONCERNS = re.compile(r"torch|cuda|nvidia", re.IGNORECASE)


class BrokenError(ValueError):
    """A text that cannot be read, and the line on which it ends to be readable."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def broken(
    path: str,
    text: str,
    error: BrokenError,
    *,
    first: int = 1,
    scope: str = "",
    fresh: bool = False,
) -> Entry:
    """The entry of a text that cannot be read; ``first`` is the line that the text begins on.

    A text that names torch or CUDA anywhere shows that in its entry, as it may concern them.
    """
    ended = text.split("\n", error.line)
    line = shown(ended[min(error.line, len(ended)) - 1])
    if not _CONCERNS.search(line) and (found := _CONCERNS.search(text)):
        start = text.rfind("\n", 0, found.start()) + 1
        mention = text[max(start, found.start() - 60) : found.end() + 60].partition("\n")[0]
        line = f"{line[:60]} ... {shown(mention)}"
    where = f"{path}:{first + error.line - 1}"
    return Entry("unreadable", where, line, scope=scope, fresh=fresh, reason=str(error))
