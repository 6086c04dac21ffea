"""Lines of a width, with labels beside them, for reports on many hosts."""

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple, TextIO

from rich.console import Console
from rich.text import Text

from musadoctor.fleet.nodes import fold
from musadoctor.printable import printable
from musadoctor.render.text import NARROWEST, STYLES, WIDEST

MOST_NODE_LINES = 3
"""Of a set of hosts, where not all is to be shown."""
LONGEST_SHORT = 60
"""Characters of a value that is shown in full."""


class Page(NamedTuple):
    """Where the lines go."""

    console: Console
    width: int
    whole: bool
    """Whether everything is shown, however long it is."""

    def most(self, number: int) -> int:
        """How many entries of a list are shown."""
        return sys.maxsize if self.whole else number


def new_page(stream: TextIO, *, whole: bool) -> Page:
    """A page as wide as the terminal, within reason; nothing in the text is taken for markup."""
    console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
    return Page(console, max(NARROWEST, min(WIDEST, console.width)), whole)


def put(page: Page, text: str = "", style: str = "") -> None:
    """Print a line as it is, however long."""
    page.console.print(Text(printable(text), style))


def heading(page: Page, text: str) -> None:
    """Begin a part."""
    put(page)
    put(page, text, "bold underline" if page.console.is_terminal else "bold")


def row(page: Page, label: str, column: int, parts: Iterable[str], style: str = "") -> None:
    """Print a label in a column, and beside it lines of what :func:`words` gives."""
    for number, line in enumerate(wrapped(parts, page.width - column - 1)):
        text = Text(" ")
        text.append(f"{printable(label) if number == 0 else '':<{column}}", style)
        text.append(line)
        page.console.print(text)


def block(page: Page, column: int, text: str, style: str = "") -> None:
    """Print a text below what stands beside a label."""
    for line in wrapped(words(text), page.width - column - 1):
        put(page, f"{'':<{column + 1}}{line}", style)


def paragraph(page: Page, parts: Iterable[str], style: str = "") -> None:
    """Print lines of what :func:`words` gives."""
    for line in wrapped(parts, page.width):
        put(page, line, style)


def command(page: Page, column: int, text: str) -> None:
    """Print what to type, in one line that can be copied."""
    put(page, f"{'':<{column + 1}}$ {text}", STYLES["command"])


def explain(page: Page, check: str) -> None:
    """Say how to learn more about a check; its id came from a host, and is to stay one word."""
    put(page, f"More: musadoctor explain {shlex.quote(check)}", STYLES["dim"])


def more(page: Page, hidden: int, what: str) -> None:
    """Say how much is not shown, if anything."""
    if hidden > 0:
        put(page, f" {hidden} more {what}: --verbose", STYLES["dim"])


def words(text: str) -> list[str]:
    """A text cut where a line may end."""
    return re.findall(r"\S+\s*", printable(text))


def nodes(page: Page, hosts: Sequence[str], column: int, lines: int = MOST_NODE_LINES) -> list[str]:
    """A set of hosts, cut where a line may end: ``gpu[017,233]``, and how many where it is many."""
    parts = re.findall(r"[^,]*,|[^,]+$", fold(hosts))
    room = lines * (page.width - column - 1)
    if not page.whole and sum(map(len, parts)) > room:
        # What stands before and after it takes half a line.
        room -= (page.width - column) // 2
        ends = accumulate(map(len, parts))
        parts = [*(part for part, end in zip(parts, ends, strict=True) if end <= room), "..."]
    return [*parts, *([f" ({len(hosts)} hosts)"] if len(hosts) > 1 else [])]


def wrapped(parts: Iterable[str], width: int) -> list[str]:
    """Lines that are no longer than ``width``, where no single part is."""
    lines = [""]
    for part in parts:
        if lines[-1].strip() and len(lines[-1]) + len(part.rstrip()) > width:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        lines[-1] += part if lines[-1] else part.lstrip()
    return [line.rstrip() for line in lines]


def contrast(value: str, other: str, short: str, *, whole: bool) -> str:
    """``short``, which tells both; of long ones, the words that ``value`` alone has, or lacks."""
    if whole or max(len(value), len(other)) <= LONGEST_SHORT:
        return short
    ours, theirs = (re.findall(r"[^\s:;,\[\]\"]+", text) for text in (value, other))
    parts = [
        f"{word} {_short(' '.join(one for one in these if one not in those))}"
        for word, these, those in (("with", ours, theirs), ("without", theirs, ours))
        if set(these) - set(those)
    ]
    return ", ".join(parts) or "the same in another order"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SHORT else f"{text[: LONGEST_SHORT - 3]}..."


def count(number: int, what: str) -> str:
    """``1 host``, ``2 hosts``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
