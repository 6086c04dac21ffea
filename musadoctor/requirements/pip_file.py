"""Requirements and constraints files, as pip reads them.

A thin reader, held to pip's own by a test: lines, comments, continuations, options and their
abbreviations. It differs where pip gives up on a whole file, or silently leaves something out:
such a line is an entry of its own, ``unreadable``, and reading goes on.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from musadoctor.facts.requirements import Entry
from musadoctor.printable import printable
from musadoctor.requirements.requirement import (
    LONGEST_REQUIREMENT,
    address,
    entry_of,
    public,
    shown,
)

PLACEHOLDER = "placeholder"
"""The reason of a line whose value is filled in elsewhere."""
_BLOCK = 1 << 16
VALUED = (
    "--all-releases",
    "--config-settings",
    "--constraint",
    "--editable",
    "--extra-index-url",
    "--find-links",
    "--hash",
    "--index-url",
    "--no-binary",
    "--only-binary",
    "--only-final",
    "--pypi-url",
    "--requirement",
    "--trusted-host",
    "--use-feature",
)
_FLAGS = (
    "--no-index",
    "--no-require-hashes",
    "--pre",
    "--prefer-binary",
    "--require-hashes",
)
_OLD_VALUED = ("--global-option", "--install-option")
_OLD_FLAGS = ("--always-unzip", "--process-dependency-links")
_KNOWN = frozenset((*VALUED, *_FLAGS, *_OLD_VALUED, *_OLD_FLAGS))
_SHORT = {
    "-C": "--config-settings",
    "-c": "--constraint",
    "-e": "--editable",
    "-f": "--find-links",
    "-i": "--index-url",
    "-r": "--requirement",
}
_INDEXES = ("--index-url", "--extra-index-url", "--find-links")
_INCLUDES = {"--requirement": "-r", "--constraint": "-c"}
_TEMPLATE = re.compile(
    r"""
    \$ \{               # ${TORCH}, which pip fills in from the environment
    | \$ \w             # $TORCH, which it does not
    | \{ [{%#]          # {{ torch }}, {% if cuda %}
    | \{ \w* \}         # {torch}
    """,
    re.VERBOSE,
)
_TO_BE_FILLED_IN = re.compile(r"<[A-Za-z][^<>]*>|\$\(|@[A-Z_]+@")
_CONFLICT = re.compile(r"(?:<{7}|={7}|>{7}|\|{7})(?:\s|$)")
_COMMAND = re.compile(
    r"""
    (?: RUN \s+ | [!$%] \s* | sudo \s+ )*
    (?: python[\d.]* \s+ -m \s+ | uv \s+ )?
    (?: pip[\d.]* | pipx | pipenv | uv | poetry | pdm | conda | (?: micro )? mamba | pixi )
    \s+ [a-z-]
    """,
    re.VERBOSE,
)


class Line(NamedTuple):
    """A line as pip puts it together from those of a file."""

    first: int
    """1-based, of the first physical line."""
    last: int
    """Of the last one that a continuation led to."""
    text: str
    """Joined, without comment and surrounding blanks; never empty."""


class Option(NamedTuple):
    """An option of a line, by its long name."""

    name: str
    value: str
    """Empty of a flag."""


def read(path: str, text: str) -> Iterator[Entry]:
    """The entries of a requirements or constraints file, or of a template for one."""
    for line in logical_lines(text):
        yield from _entries(line.text, f"{path}:{line.first}")


def logical_lines(text: str) -> Iterator[Line]:
    """The lines that pip makes of a text: joined at backslashes, comments off, none empty.

    Lines end wherever ``str.splitlines`` has it, as pip does: also at form feeds.
    """
    first = 0
    parts: list[str] = []
    number = 0
    for number, raw in enumerate(physical_lines(text), 1):
        line = raw
        if raw.endswith("\\") or parts:
            is_comment = raw.lstrip().startswith("#")
            if raw.endswith("\\") and not is_comment:
                first = first if parts else number
                parts.append(raw.strip("\\"))
                continue
            # As pip has it, lest the comment joins the word before it.
            line = "".join([*parts, " " if is_comment else "", raw])
        if kept := _uncommented(line):
            yield Line(first if parts else number, number, kept)
        parts.clear()
    if kept := _uncommented("".join(parts)):
        yield Line(first, number, kept)


def physical_lines(text: str) -> Iterator[str]:
    """``text.splitlines()``, of which only a part is in memory at a time."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _BLOCK) + 1 or len(text)
        yield from text[start:end].splitlines()
        start = end


def split(line: str) -> tuple[str, str]:
    """A logical line's requirement and its options, either of which may be empty."""
    at = 0 if line.startswith("-") else line.find(" -")
    return (line, "") if at < 0 else (line[:at].strip(), line[at:].strip())


def options(text: str) -> tuple[list[Option], list[str]]:
    """The options of a line, and the words that are none, which pip ignores.

    Raises:
        ValueError: pip does not know an option or finds no value to it; says which.
    """
    words = _words(text)
    found: list[Option] = []
    ignored: list[str] = []
    while words:
        word = words.pop()
        if word == "--":
            ignored += reversed(words)
            break
        if not word.startswith("-") or word == "-":
            ignored.append(word)
            continue
        name, given, value = _named(word)
        if name in _FLAGS or name in _OLD_FLAGS:
            if given:
                raise ValueError(f"{name} takes no value")
        elif not given:
            if not words:
                raise ValueError(f"{name} without a value")
            value = words.pop()
        found.append(Option(name, value))
    return found, ignored


def _uncommented(line: str) -> str:
    at = line.find("#")
    while at > 0 and not line[at - 1].isspace():
        at = line.find("#", at + 1)
    return line.strip() if at < 0 else line[:at].strip()


def _words(text: str) -> list[str]:
    """The words of options, as ``shlex`` splits them, the last first."""
    if "'" in text or '"' in text or "\\" in text:
        if len(text) > LONGEST_REQUIREMENT:
            raise ValueError(f"options of {len(text):,} characters with quotes")
        import shlex  # noqa: PLC0415 - 6 ms, and 100 times slower than a split

        words = shlex.split(text)
    else:
        words = list(filter(None, text.replace("\t", " ").split(" ")))
    return words[::-1]


def _named(word: str) -> tuple[str, str, str]:
    """An option's long name, ``=`` or what else gives it a value, and the value."""
    if not word.startswith("--"):
        if (name := _SHORT.get(word[:2])) is None:
            raise ValueError(f"no such option: {word[:2]}")
        return name, word[2:3], word[2:]
    word, given, value = word.partition("=")
    name = word if word in _KNOWN else _unabbreviated(word)
    return ("--index-url" if name == "--pypi-url" else name), given, value


def _unabbreviated(word: str) -> str:
    for names in ((*VALUED, *_FLAGS), (*_OLD_VALUED, *_OLD_FLAGS)):
        fitting = [name for name in names if name.startswith(word)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise ValueError(f"{word} may be {' or '.join(fitting)}")
    raise ValueError(f"no such option: {word}")


def _entries(line: str, where: str) -> Iterator[Entry]:
    if "$" in line or "{" in line:
        line = public(line)
        if _TEMPLATE.search(line):
            yield Entry("unreadable", where, shown(line), reason=PLACEHOLDER)
            return
    requirement, rest = split(line)
    if not rest:
        made = entry_of(requirement, where)
        yield made if made.kind != "unreadable" else _explained(line, made)
        return
    try:
        found, ignored = options(rest)
    except ValueError as error:
        yield _explained(line, Entry("unreadable", where, shown(line), reason=shown(str(error))))
        return
    plain = all(option.name == "--hash" for option in found) and not ignored
    text = shown(requirement if plain else line)
    name = ""
    if requirement:
        made = entry_of(requirement, where, text=text)
        if made.kind == "unreadable":
            yield _explained(line, made)
            return
        yield made
        name = made.name
    for option in found:
        if option.name != "--hash":
            yield _of_option(option, where, text, name)
    if ignored:
        reason = shown(f"pip ignores what follows an option: {' '.join(ignored)}")
        yield _explained(line, Entry("unreadable", where, text, reason=reason))


def _of_option(option: Option, where: str, text: str, name: str) -> Entry:
    if option.name == "--editable":
        return entry_of(option.value, where, text=text, option="-e", editable=True)
    if option.name in _INDEXES:
        return Entry("index", where, text, url=address(option.value), option=option.name)
    if option.name in _INCLUDES:
        url = printable(public(option.value))
        return Entry("include", where, text, url=url, option=_INCLUDES[option.name])
    value = shown(option.value)
    return Entry("option", where, text, name=name, specifier=value, option=option.name)


def _explained(line: str, entry: Entry) -> Entry:
    """An unreadable line, with a better reason than the parser's where the line shows one."""
    if _COMMAND.match(line):
        return entry._replace(reason="a shell command, which no requirements file may hold")
    if _CONFLICT.match(line):
        return entry._replace(reason="a merge conflict's mark")
    if _TO_BE_FILLED_IN.search(line):
        return entry._replace(reason=PLACEHOLDER)
    return entry
