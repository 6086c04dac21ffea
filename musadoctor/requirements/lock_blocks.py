"""A lock in TOML, cut at its packages: 50 MB in one piece would take ten times that in memory."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.broken import BrokenError, broken
from musadoctor.requirements.requirement import normalised
from musadoctor.requirements.toml_text import Table, items, parse, table

LARGEST_BLOCK = 8_000_000
"""Characters of one package's part of a lock: more than 100 times that of the largest seen."""

_HEADER = re.compile(
    r"""
    ^[ \t]*
    (?: \[\[ [ \t]* (["']?) packages? \1 [ \t]* \]\]
      | (?: \[\[ | \[ (?!\[) ) (?! [ \t]* ["']? packages? \b ) )
    """,
    re.VERBOSE | re.MULTILINE,
)
_METADATA = re.compile(r"[ \t]*\[\[?[ \t]*[\"']?metadata\b")
_NAME = re.compile(r"^[ \t]*[\"']?name[\"']?[ \t]*=", re.MULTILINE)
_NOT_READ = re.compile(
    r"""
    ^ (?: wheels | files | dependencies | attestation-identities ) [ ]=[ ]\[
      (?: [^\n]* \] | \r?\n (?: [ \t][^\n]*\n )* \] ) \r?$
    | ^ sdist [ ]=[ ] \{ [^\n]* \} \r?$
    | ^ \[\[? packages?\. (?! (?: source | vcs | directory | archive ) \b ) [^\n]*
      (?: \n (?!\[) [^\n]* )*
    """,
    re.VERBOSE | re.MULTILINE,
)
_PLAIN_LINE = re.compile(
    r"""
    (?P<key> [\w-]+ ) [ ]=[ ] (?: "(?P<value> [^"\\]* )"
      | \{ [ ] (?P<inner> [\w-]+ ) [ ]=[ ] "(?P<inner_value> [^"\\]* )" [ ] \} )
    | (?: groups | optional ) [ ]=[ ] [\w\[", \]-]+
    | \[\[packages?\]\]
    |
    """,
    re.VERBOSE | re.ASCII,
)
_WHEEL = re.compile(
    r"""
    (?<= ["'/] ) (?P<name> [\w.]+ ) - (?P<version> [\w.!]+ )
    (?: (?: \+ | %2[bB] ) (?P<label> [\w.]+ ) )? (?: -\d[\w.]* )?
    - [\w.]+ - [\w.]+ - (?P<platform> [\w.]+ ) \.whl
    """,
    re.VERBOSE | re.ASCII,
)
_EXTRAS = re.compile(
    r"""
    \b extra \s* [=!]= \s* (?: '[^']*' | "[^"]*" )
    | (?: '[^']*' | "[^"]*" ) \s+ (?: not \s+ )? in \s+ (?: extras | dependency_groups ) \b
    """,
    re.VERBOSE,
)


class Package(NamedTuple):
    """One package's part of a lock."""

    table: Table
    where: str
    block: str
    """Its text, in which the names of its files stand."""


def packages(path: str, text: str, *, fresh: bool) -> Iterator[Package | Entry]:
    """The packages of a lock, and an entry for each part that cannot be read."""
    start = line = 0
    for end in _ends(text):
        if end - start > LARGEST_BLOCK and not _METADATA.match(text, start):
            reason = f"{end - start:,} characters of one package are more than is read"
            at = BrokenError(reason)
            part = text[start : start + 200]
            yield broken(path, part, at, first=line + 1, scope="lock", fresh=fresh)
        elif end > start and not _METADATA.match(text, start):
            yield from _block(path, text[start:end], line, fresh=fresh)
        line += text.count("\n", start, end)
        start = end


def _ends(text: str) -> Iterator[int]:
    for header in _HEADER.finditer(text):
        yield header.start()
    yield len(text)


def _block(path: str, block: str, before: int, *, fresh: bool) -> Iterator[Package | Entry]:
    name = _NAME.search(block)
    within = block.count("\n", 0, name.start()) if name else 0
    reduced = _NOT_READ.sub("", block)
    if block.startswith("[[package") and (plain := _plain(reduced)):
        yield Package(plain, f"{path}:{before + within + 1}", block)
        return
    try:
        tables = parse(reduced)
    except BrokenError as error:
        at = BrokenError(str(error), within + 1 if name else error.line)
        yield broken(path, block, at, first=before + 1, scope="lock", fresh=fresh)
        return
    for key in ("package", "packages"):
        for item in items(tables.get(key)):
            yield Package(table(item), f"{path}:{before + within + 1}", block)


def _plain(block: str) -> Table | None:
    """The table of a package of nothing but strings: most are, and the library takes ten times."""
    made: dict[str, object] = {}
    for line in block.split("\n"):
        found = _PLAIN_LINE.fullmatch(line.rstrip("\r"))
        if found is None:
            return None
        key, value, inner, inner_value = found.groups()
        if key in made:
            return None
        if key:
            made[key] = value if inner is None else {inner: inner_value}
    return made


def versions(text: str, start: int = 0) -> dict[tuple[str, str], str]:
    """What wheels' names tell of versions, by project and the version that a lock has.

    A label, ``+cu121``, may stand nowhere else; and PEP 751 wants no version: it is then empty.
    Wheels for Linux come before others, and such with a label before those without.
    """
    found: dict[tuple[str, str], str] = {}
    for wheel in _WHEEL.finditer(text, start):
        name, label = normalised(wheel["name"]), wheel["label"]
        linux = "linux" in wheel["platform"] or wheel["platform"] == "any"
        if label:
            whole = f"{wheel['version']}+{label}"
            for key in ((name, wheel["version"]), (name, "")):
                if linux or key not in found:
                    found[key] = whole
        else:
            found.setdefault((name, ""), wheel["version"])
    return found


def satisfiable(marker: str) -> str:
    """A marker that holds wherever some choice of extras and groups makes ``marker`` hold."""
    return _EXTRAS.sub("os_name != ''", marker)


def either(markers: list[str]) -> str:
    """A marker that holds where one of several does."""
    return markers[0] if len(markers) == 1 else " or ".join(f"({marker})" for marker in markers)
