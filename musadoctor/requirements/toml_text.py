"""TOML with the line of each value, which no library tells, and its cost kept in bounds."""

import importlib
import re
import sys
from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple, TypeGuard, cast

from musadoctor.requirements.broken import BrokenError

Table = Mapping[str, object]
Keys = tuple[str | int, ...]

LARGEST = 2_000_000
"""Characters of a text that is parsed in one piece: a table takes ten times its text."""
MOST_DOTS = 1000
"""In one line: a dotted key costs the library the square of its parts."""

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*(?:([\w-]+)|("(?:[^"\\\n]|\\.)*"|'[^'\n]*'))[ \t]*""", re.ASCII)
_SCALAR = re.compile(
    r'''
    """ (?:\\.|[^\\])*? """ "{0,2}
    | \'\'\' .*? \'\'\' '{0,2}
    | " (?:\\.|[^"\\\n])* "
    | ' [^'\n]* '
    | [^\s,\]}#"'\[{=] [^,\]}#\n]*
    ''',
    re.VERBOSE | re.DOTALL,
)
_PLACE = re.compile(r"at line (\d+)")


class Document(NamedTuple):
    """A parsed text, and where in it each value stands."""

    path: str
    text: str
    tables: Table
    places: Mapping[Keys, int]
    """The offset of each value, table header and item of an array."""
    ends: list[int]
    """The offset after each line."""

    def line(self, *keys: str | int) -> int:
        """The line on which something stands, or else the nearest thing around it."""
        while keys and keys not in self.places:
            keys = keys[:-1]
        return 1 + bisect_right(self.ends, self.places.get(keys, 0))

    def where(self, *keys: str | int) -> str:
        """``pyproject.toml:12``."""
        return f"{self.path}:{self.line(*keys)}"

    def written(self, *keys: str | int) -> str:
        """The line on which something stands, as it is written."""
        number = self.line(*keys)
        start = self.ends[number - 2] if number > 1 else 0
        return self.text[start : self.ends[number - 1]].strip()

    def get(self, *keys: str) -> object:
        """A value; ``None`` for one that is not there."""
        found: object = self.tables
        for key in keys:
            found = table(found).get(key)
        return found


def load(path: str, text: str) -> Document:
    """A document of at most ``LARGEST`` characters.

    Raises:
        BrokenError: it is no TOML, or too large or nested too deeply to be read.
    """
    tables = parse(text)
    ends = [found.end() for found in re.finditer("\n", text)]
    return Document(path, text, tables, _places(text), [*ends, len(text) + 1])


def parse(text: str) -> Table:
    """The table of a text of at most ``LARGEST`` characters.

    Raises:
        BrokenError: it is no TOML, or too large or nested too deeply to be read.
    """
    if len(text) > LARGEST:
        raise BrokenError(f"{len(text):,} characters of TOML in one piece are more than is read")
    if text.count(".") > MOST_DOTS:
        for number, written in enumerate(text.split("\n"), 1):
            if written.count(".") > MOST_DOTS:
                raise BrokenError(f"more than {MOST_DOTS} dots in a line of TOML", number)
    # Not imported above: it takes 12 ms, and most files are of another format.
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        return cast("Table", toml.loads(text))
    except RecursionError:
        raise BrokenError("TOML that is nested too deeply to be read") from None
    except ValueError as error:
        reason = str(error).partition("\n")[0]
        place = _PLACE.search(reason)
        line = int(place[1]) if place else text.count("\n") + 1
        raise BrokenError(f"no valid TOML: {reason}", line) from None


def table(value: object) -> Table:
    """A table; an empty one in the place of anything else."""
    return value if is_table(value) else {}


def is_table(value: object) -> TypeGuard[Table]:
    """Whether a value is a table."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[object]]:
    """Whether a value is an array."""
    return isinstance(value, list)


def items(value: object) -> list[object]:
    """An array's items; none of anything else."""
    return value if is_array(value) else []


def string(value: object) -> str:
    """A string; an empty one in the place of anything else."""
    return value if isinstance(value, str) else ""


def _places(text: str) -> dict[Keys, int]:
    found: dict[Keys, int] = {}
    lengths: dict[Keys, int] = {}
    around: Keys = ()
    try:
        at = _blank(text, 0)
        while at < len(text):
            if text[at] == "[":
                doubled = text.startswith("[[", at)
                keys, end = _key(text, at + 1 + doubled)
                around = _header(keys, lengths, doubled=doubled)
                found.setdefault(around, at)
                at = end + 1 + doubled
            else:
                keys, end = _key(text, at)
                at = _value(text, _blank(text, end + 1), (*around, *keys), found)
            at = _blank(text, at)
    except (BrokenError, RecursionError):
        raise BrokenError("TOML whose lines cannot be told apart") from None
    return found


def _header(keys: tuple[str, ...], lengths: dict[Keys, int], *, doubled: bool) -> Keys:
    """Where a table stands: ``[[a]]`` for the second time is ``("a", 1)``."""
    around: Keys = ()
    for place, key in enumerate(keys, 1):
        around = (*around, key)
        if doubled and place == len(keys):
            lengths[around] = lengths.get(around, 0) + 1
        if around in lengths:
            around = (*around, lengths[around] - 1)
    return around


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _key(text: str, at: int) -> tuple[tuple[str, ...], int]:
    keys: list[str] = []
    while True:
        part = _KEY.match(text, at)
        if part is None:
            raise BrokenError("no key")
        bare, quoted = cast("tuple[str | None, str]", part.groups())
        if bare is None and "\\" in quoted:
            bare = next(iter(parse(f"{quoted} = 0")))
        keys.append(quoted[1:-1] if bare is None else bare)
        if text[part.end() : part.end() + 1] != ".":
            return tuple(keys), part.end()
        at = part.end() + 1


def _value(text: str, at: int, keys: Keys, found: dict[Keys, int]) -> int:
    """Note where a value and all in it stand, and tell where it ends."""
    found[keys] = at
    sign = text[at : at + 1]
    if sign not in ("[", "{"):
        scalar = _SCALAR.match(text, at)
        if scalar is None:
            raise BrokenError("no value")
        return scalar.end()
    index = 0
    at = _blank(text, at + 1)
    while text[at : at + 1] not in ("]", "}"):
        if sign == "[":
            inner: Keys = (index,)
        else:
            inner, at = _key(text, at)
            at = _blank(text, at + 1)
        at = _blank(text, _value(text, at, (*keys, *inner), found))
        if text[at : at + 1] == ",":
            at = _blank(text, at + 1)
        index += 1
    return at + 1
