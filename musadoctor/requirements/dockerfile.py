"""What the instructions of a Dockerfile install, and into what.

After Docker's reference: parser directives, continuations with comments in them, here-documents,
exec form, ``ARG`` and ``ENV``, stages. All of an instruction stands on its first line.
"""

import json
import re
import shlex
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple, cast

from musadoctor.facts.requirements import Entry
from musadoctor.requirements import shell
from musadoctor.requirements.installers import variable_entries
from musadoctor.requirements.requirement import address, shown

_DIRECTIVE = re.compile(r"\s*#\s*(?P<key>\w+)\s*=\s*(?P<value>\S+)\s*", re.ASCII)
_INSTRUCTION = re.compile(r"\s*(?P<keyword>[A-Za-z]+)\s*(?P<rest>.*)", re.DOTALL)
_FLAGS = re.compile(r"(?:--[\w-]+(?:=\S*)?\s+)*", re.ASCII)
_HERE_DOCUMENT = re.compile(
    r"""(?<![<\w])<<(?P<tabs>-?)(?P<quote>['"]?)(?P<name>[A-Za-z_][\w.-]*)(?P=quote)"""
)
_WITH_DOCUMENTS = frozenset({"RUN", "COPY", "ADD"})
_RUNS = frozenset({"RUN", "CMD", "ENTRYPOINT"})
_WHOLE_VARIABLE = re.compile(r"\$\{?(?P<name>\w+)(?::?-[^}]*)?\}?")
_MUSA_IMAGE = re.compile(r"musa(?![a-z])|mthreads|(?:^|[/_-])mtt?-", re.IGNORECASE)


_Document = tuple[str, str, int]
"""A here-document's name, its text and its first line."""


_Places = dict[tuple[str, str], list[int]]


class _Instruction(NamedTuple):
    line: int
    keyword: str
    rest: str
    documents: tuple[_Document, ...]


class _Stage(NamedTuple):
    values: dict[str, str]
    fresh: bool


class _Before(NamedTuple):
    """What the stages know of what stands before them."""

    values: dict[str, str]
    """Of the ``ARG`` before the first stage."""
    written: dict[str, tuple[int, str]]
    """Where each of those stands, and how it is written."""
    stages: dict[str, _Stage]


def read(path: str, text: str) -> Iterator[Entry]:
    """What a Dockerfile's images, variables and commands ask for.

    Where an ``ARG``'s default is the whole name of an image, the image's entry stands there.
    """
    before = _Before({}, {}, {})
    stage: _Stage | None = None
    told: set[int] = set()
    for instruction in _instructions(text):
        line, keyword, rest, documents = instruction
        where = f"{path}:{line}"
        if keyword == "FROM":
            stage, image = _from(rest, before)
            line, written = _origin(instruction, before)
            if image and line not in told:
                told.add(line)
                yield Entry("image", f"{path}:{line}", written, name=address(image))
            continue
        values, fresh = stage or (before.values, True)
        if keyword in {"ARG", "ENV"}:
            written = shown(f"{keyword} {rest}")
            for name, value in _assignments(instruction, values, before):
                yield from variable_entries(name, value, where, written, fresh=fresh)
                if stage is None:
                    before.written[name] = line, written
        elif keyword in _RUNS:
            parts = [_script(_FLAGS.sub("", rest, count=1))]
            parts += [f"{document}{name}" for name, document, _ in documents]
            yield from shell.script("\n".join(parts), _always(where), dict(values), fresh=fresh)
        else:
            yield from _copied(path, instruction, fresh=fresh)


def _always(where: str) -> shell.Where:
    return lambda _: where


def _from(rest: str, before: _Before) -> tuple[_Stage, str]:
    """The stage that begins, and its image; of an earlier stage none."""
    words = [word for word in shell.word_list(rest, before.values) if not word.startswith("--")]
    image = words[0] if words else ""
    base = before.stages.get(image.lower())
    if base:
        stage = _Stage(dict(base.values), base.fresh)
    else:
        stage = _Stage({}, not _MUSA_IMAGE.search(image))
    if len(words) > 1 and words[1].lower() == "as":
        before.stages[words[-1].lower()] = stage
    return stage, "" if base else image


def _origin(instruction: _Instruction, before: _Before) -> tuple[int, str]:
    """Where an image's name stands, and what is written there."""
    named = next((word for word in instruction.rest.split() if not word.startswith("--")), "")
    variable = _WHOLE_VARIABLE.fullmatch(named)
    if variable and variable["name"] in before.written:
        return before.written[variable["name"]]
    return instruction.line, shown(f"{instruction.keyword} {instruction.rest}")


def _assignments(
    instruction: _Instruction, values: dict[str, str], before: _Before
) -> Iterator[tuple[str, str]]:
    """The variables that are set or declared, with their values; ``values`` learns of them."""
    keyword = instruction.keyword
    words = shell.word_list(instruction.rest, values)
    if keyword == "ENV" and words and "=" not in words[0]:
        words = [f"{words[0]}={' '.join(words[1:])}"]  # the old form, ENV NAME VALUE
    for word in words:
        name, given, value = word.partition("=")
        if keyword == "ARG" and not given:
            value = before.values.get(name, "")
            given = value
        if given and len(value) <= shell.LONGEST_VALUE:
            values[name] = value
        yield name, value


def _script(rest: str) -> str:
    """The script of a command; what is in exec form is quoted for a shell."""
    if not rest.startswith("["):
        return rest
    try:
        words = cast("object", json.loads(rest))
    except (ValueError, RecursionError):
        return rest
    return shlex.join(map(str, cast("list[object]", words)))


def _copied(path: str, instruction: _Instruction, *, fresh: bool) -> Iterator[Entry]:
    """The entries of dependency files that stand in the Dockerfile itself."""
    words = _HERE_DOCUMENT.sub("", instruction.rest).split()
    for name, document, line in instruction.documents:
        where = shell.shifted(lambda number: f"{path}:{number}", line)
        yield from shell.file_entries([name, *words[-1:]], document, where, fresh=fresh)


def _instructions(text: str) -> Iterator[_Instruction]:
    lines = [line.rstrip(" \t\r") for line in text.split("\n")]
    escape = _escape(lines)
    places: _Places = {}
    at = 0
    while at < len(lines):
        first = at
        parts: list[str] = []
        while at < len(lines):
            line = lines[at]
            at += 1
            if line.lstrip().startswith("#") or (parts and not line):
                continue  # within a continuation, too
            first = first if parts else at
            goes_on = line.endswith(escape) and not line.endswith(escape * 2)
            parts.append(line[:-1] if goes_on else line)
            if not goes_on:
                break
        found = _INSTRUCTION.fullmatch("".join(parts))
        if found:
            keyword, rest = found["keyword"].upper(), found["rest"]
            if keyword == "ONBUILD" and (inner := _INSTRUCTION.fullmatch(rest)):
                keyword, rest = inner["keyword"].upper(), inner["rest"]
            documents: tuple[_Document, ...] = ()
            if keyword in _WITH_DOCUMENTS and "<<" in rest:
                places = places or _places(lines)
                documents, at = _documents(rest, lines, places, at)
            yield _Instruction(first, keyword, rest, documents)


def _escape(lines: list[str]) -> str:
    """The character before a continued line's end, as the directives at the top have it."""
    for line in lines:
        directive = _DIRECTIVE.fullmatch(line)
        if directive is None:
            break
        if directive["key"].lower() == "escape" and directive["value"] in {"\\", "`"}:
            return directive["value"]
    return "\\"


def _places(lines: list[str]) -> _Places:
    """Where each line stands, also without the tabs before it."""
    places: _Places = {}
    for number, line in enumerate(lines):
        places.setdefault(("", line), []).append(number)
        places.setdefault(("-", line.lstrip("\t")), []).append(number)
    return places


def _documents(
    rest: str, lines: list[str], places: _Places, at: int
) -> tuple[tuple[_Document, ...], int]:
    """The here-documents of an instruction, and where the lines after them begin."""
    documents: list[_Document] = []
    for found in _HERE_DOCUMENT.finditer(rest):
        ends = places.get((found["tabs"], found["name"]), [])
        nearest = bisect_left(ends, at)
        if nearest < len(ends):
            document = "\n".join([*lines[at : ends[nearest]], ""])
            documents.append((found["name"], document, at + 1))
            at = ends[nearest] + 1
    return tuple(documents), at
