"""setup.cfg: what setuptools reads of it, by the rules of ``configparser``."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.broken import BrokenError, broken
from musadoctor.requirements.requirement import address, entry_of, shown

_SECTION = re.compile(r"\[(?P<name>.+)\]")
_DELIMITER = re.compile(r"[=:]")
_SCOPES = {"install_requires": "", "setup_requires": "build", "tests_require": "group:tests"}


class _Option(NamedTuple):
    section: str
    key: str
    lines: list[tuple[int, str]]
    """The lines of its value that are not blank, each with its number."""
    several: bool
    """Whether the value goes on below the key's line."""


def read(path: str, text: str) -> Iterator[Entry]:
    """The requirements of ``[options]`` and ``[options.extras_require]``."""
    try:
        for option in _options(text):
            key = option.key.replace("-", "_")
            if option.section == "options" and key in _SCOPES:
                yield from _entries(path, option, _SCOPES[key])
            elif option.section == "options.extras_require":
                yield from _entries(path, option, f"extra:{option.key}")
    except BrokenError as error:
        yield broken(path, text, error)


def _options(text: str) -> Iterator[_Option]:
    section: str | None = None
    option: _Option | None = None
    indent = 0
    for number, line in enumerate(text.split("\n"), 1):
        value = line.strip()
        if not value or value.startswith(("#", ";")):
            continue
        inner = len(line) - len(line.lstrip())
        if option and inner > indent:
            option = option._replace(several=True)
            option.lines.append((number, value))
            continue
        indent = inner
        if option:
            yield option
            option = None
        if found := _SECTION.match(value):
            section = found["name"]
        elif section is None:
            raise BrokenError("no section before the first option", number)
        elif found := _DELIMITER.search(value):
            first = value[found.end() :].strip()
            key = value[: found.start()].rstrip()
            option = _Option(section, key, [(number, first)] if first else [], several=False)
        else:
            raise BrokenError("neither an option nor a section", number)
    if option:
        yield option


def _entries(path: str, option: _Option, scope: str) -> Iterator[Entry]:
    if option.lines and option.lines[0][1].startswith("file:"):
        yield from _included(path, option, scope)
        return
    for number, line in option.lines:
        # Of a value on one line setuptools takes a semicolon for the end of a requirement.
        for part in [line] if option.several else line.split(";"):
            requirement = part.partition(" #")[0].strip()
            if requirement:
                yield entry_of(requirement, f"{path}:{number}", text=line, scope=scope)


def _included(path: str, option: _Option, scope: str) -> Iterator[Entry]:
    for number, line in option.lines:
        for file in line.removeprefix("file:").split(","):
            if file.strip():
                made = Entry("include", f"{path}:{number}", shown(line), option="file:")
                yield made._replace(url=address(file), scope=scope)
