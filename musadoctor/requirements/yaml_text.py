"""YAML with the line of each value, and its cost kept in bounds.

It is read event by event: an alias names what it stands for and is never copied out, and nesting
costs no stack.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, cast

from musadoctor.requirements.broken import BrokenError

LARGEST = 2_000_000
"""Characters of a text that is parsed in one piece: it takes some thirty times its size."""
DEEPEST = 50
_PIECE = 1 << 16

_ITEM = re.compile(r"(?P<indent> *)- ")
_WORD = re.compile(
    r"""
    (?: [ \t]+ (?: (?P<plain> [\w./+][^\s'"#&*{}\[\]|>`]* )
                | (?P<sign>['"]) (?P<quoted> [^'"\\\n]* ) (?P=sign) ) )?
    \s*
    """,
    re.VERBOSE | re.ASCII,
)
"""What may follow a key's colon so that it can be taken as it is."""


class Node(NamedTuple):
    """A value: text, a list, or a table by its keys' text."""

    value: "str | list[Node] | dict[str, Node]"
    line: int

    @property
    def text(self) -> str:
        """A scalar as it is written, without quotes; empty of a list or a table."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def items(self) -> "list[Node]":
        """A list's items; none of anything else."""
        return self.value if isinstance(self.value, list) else []

    @property
    def table(self) -> "dict[str, Node]":
        """A table's values; none of anything else."""
        return self.value if isinstance(self.value, dict) else {}

    def get(self, *keys: str) -> "Node":
        """The value under keys; an empty text where there is none."""
        found = self
        for key in keys:
            found = found.table.get(key, NOTHING)
        return found


NOTHING = Node("", 0)


class BrokenPiece(NamedTuple):
    """A part of a list that cannot be read."""

    text: str
    error: BrokenError
    line: int


class _Event(NamedTuple):
    kind: str
    line: int
    value: str
    anchor: str


def load(text: str, first: int = 1) -> list[Node]:
    """The documents of a text of at most ``LARGEST`` characters that begins on line ``first``.

    Raises:
        BrokenError: it is no YAML, or too large or nested too deeply to be read. Its line counts
            from the text's own beginning.
    """
    if len(text) > LARGEST:
        raise BrokenError(f"{len(text):,} characters of YAML in one piece are more than is read")
    documents: list[Node] = []
    anchors: dict[str, Node] = {}
    around: list[Node] = []
    keys: list[str | None] = []
    """Of each table around: the key whose value comes next."""
    for event in _events(text):
        line = first + event.line
        if event.kind in {"SequenceEnd", "MappingEnd"}:
            around.pop()
            keys.pop()
            continue
        made = _node(event, line, anchors)
        if made is None:
            continue
        if event.anchor and event.kind != "Alias":
            anchors[event.anchor] = made
        _put(made, around, keys, documents)
        if event.kind in {"SequenceStart", "MappingStart"}:
            around.append(made)
            keys.append(None)
            if len(around) > DEEPEST:
                raise BrokenError("YAML that is nested too deeply to be read", event.line + 1)
    return documents


def pieces(text: str, key: str) -> Iterator[tuple[str, int]]:
    """The items of a top-level list in texts of some ten thousand characters, with their lines.

    Each is a list of YAML in itself. None where the list is not written one item after another.
    """
    heading = re.compile(rf"^{key}:[ \t]*\r?\n", re.MULTILINE).search(text)
    begun = _ITEM.match(text, heading.end()) if heading else None
    if heading is None or begun is None:
        return
    at, line = heading.end(), text.count("\n", 0, heading.end()) + 1
    item = re.compile(rf"^{begun['indent']}(?=- )|^(?=[^\s#-])", re.MULTILINE)
    stop = at
    for found in item.finditer(text, at + 1):
        stop = found.start()
        ends = not text.startswith("- ", found.end())
        if ends or stop - at > _PIECE:
            yield text[at:stop], line
            at, line = stop, line + text.count("\n", at, stop)
        if ends:
            return
    yield text[at:], line


def nodes(text: str, key: str, wanted: frozenset[str]) -> Iterator[Node | BrokenPiece]:
    """The items of a top-level list of tables, however long, with the wanted keys of each.

    Raises:
        BrokenError: the list is not written item by item, and the text is no YAML or too large.
    """
    none = True
    for piece, line in pieces(text, key):
        none = False
        yield from _plain_tables(piece, line, wanted) or _of_piece(piece, line)
    if none:
        for document in load(text):
            yield from document.get(key).items


def _plain_tables(piece: str, line: int, wanted: frozenset[str]) -> list[Node]:
    """The tables of a piece, of which only the lines with wanted keys are looked at.

    Nothing where one of those holds more than a plain word: then the library has to read it all.
    """
    indent = _indent(piece)
    found: list[Node] = []
    at = 0
    for match in _key_lines(indent).finditer(piece):
        if not match["item"] and match["key"] not in wanted:
            continue
        line, at = line + piece.count("\n", at, match.start()), match.start()
        if match["item"]:
            found.append(Node({}, line))
        if match["key"] in wanted:
            word = _WORD.fullmatch(match["rest"])
            if not found or not word:
                return []
            found[-1].table[match["key"]] = Node(word["quoted"] or word["plain"] or "", line)
    regular = len(found) == len(_items(indent).findall(piece))
    return found if regular else []


@cache
def _key_lines(indent: str) -> re.Pattern[str]:
    line = r"(?:(?P<item>- )| {2})(?P<key>[\w-]+):(?P<rest>[^\n]*)"
    return re.compile(rf"^{indent}{line}", re.MULTILINE | re.ASCII)


@cache
def _items(indent: str) -> re.Pattern[str]:
    return re.compile(rf"^{indent}-(?=[ \n])", re.MULTILINE)


def _of_piece(piece: str, line: int) -> Iterator[Node | BrokenPiece]:
    try:
        for document in load(piece, line):
            yield from document.items
    except BrokenError as error:
        begins = [found.start() for found in _items(_indent(piece)).finditer(piece)]
        if len(begins) <= 1:
            yield BrokenPiece(piece, error, line)
            return
        for start, stop in zip(begins, [*begins[1:], len(piece)], strict=True):
            yield from _of_piece(piece[start:stop], line + piece.count("\n", 0, start))


def _indent(piece: str) -> str:
    return piece[: len(piece) - len(piece.lstrip(" "))]


def _node(event: _Event, line: int, anchors: dict[str, Node]) -> Node | None:
    if event.kind == "Scalar":
        return Node(event.value, line)
    if event.kind == "SequenceStart":
        return Node([], line)
    if event.kind == "MappingStart":
        return Node({}, line)
    if event.kind == "Alias":
        return Node(anchors.get(event.anchor, NOTHING).value, line)
    return None


def _put(made: Node, around: list[Node], keys: list[str | None], documents: list[Node]) -> None:
    """Put a value where it belongs: in the list or the table that is open."""
    if not around:
        documents.append(made)
    elif isinstance(around[-1].value, list):
        around[-1].value.append(made)
    elif (key := keys[-1]) is None:
        keys[-1] = made.text
    else:
        around[-1].table[key] = made
        keys[-1] = None


def _events(text: str) -> Iterator[_Event]:
    import yaml  # noqa: PLC0415 - 25 ms, and few files are YAML

    loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in cast("Iterator[object]", yaml.parse(text, Loader=loader)):
            mark = cast("object", getattr(event, "start_mark", None))
            yield _Event(
                type(event).__name__.removesuffix("Event"),
                getattr(mark, "line", 0),
                getattr(event, "value", ""),
                getattr(event, "anchor", None) or "",
            )
    except (yaml.YAMLError, ValueError) as error:
        mark = cast("object", getattr(error, "problem_mark", None))
        problem = cast("object", getattr(error, "problem", None) or error)
        reason = " ".join(str(problem).split())
        raise BrokenError(f"no valid YAML: {reason}", getattr(mark, "line", 0) + 1) from None
