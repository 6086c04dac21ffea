"""Write a copy of a requirements file that is safe on MUSA.

Order, comments, encoding and line ends stay. What must not be installed becomes a comment that
holds the line and the reason; what has a twin of the same version is put in its place. The copy is
judged again until nothing is left to change, so it passes the guard, and a copy of it is the same.
Files that it includes get copies of their own beside them where they change.

Of a project's table, a lock or an image no copy is made: what it asks for directly becomes a list
of requirements, which is then treated in the same way.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from musadoctor.api import Finding
from musadoctor.facts.requirements import Entry, Requirements, RequirementsFile
from musadoctor.guard.direct import listed
from musadoctor.report import Report
from musadoctor.requirements.files import CONSTRAINT, STDIN, text_of
from musadoctor.requirements.formats import REQUIREMENTS
from musadoctor.requirements.pip_file import Line, logical_lines, options, split
from musadoctor.requirements.pip_file import read as read_lines
from musadoctor.requirements.requirement import public, shown
from musadoctor.requirements.text import Decoded

MARK = "# musadoctor:"
MOST_ROUNDS = 5
"""Times that the copy is judged; what is left then is refused still."""
_INCLUDES = {"--requirement": "-r", "--constraint": "-c"}
_HASHED = re.compile(r"(?:^|\s)--(?:hash|require-hashes)\b")
_COMMENT = re.compile(r"(?:^|\s+)#.*")

Judge = Callable[[Requirements], Report]


class RewriteError(Exception):
    """Why nothing is written: a sentence."""


class Rewritten(NamedTuple):
    """Copies to write, and what is to be said beside them."""

    files: tuple[tuple[str, bytes], ...]
    """Path and content; the copy of what the user named comes first."""
    notes: tuple[str, ...]
    """What was put in another's place, and what was left out that has a counterpart."""
    commands: tuple[str, ...]
    """What is to be installed from the vendor's index, which no file may name: an index in a file
    holds for all of its lines. Versions are left open, and the address."""


class _Change(NamedTuple):
    """What becomes of a logical line."""

    path: str
    line: Line
    instead: str
    """Empty where the line becomes a comment."""
    reason: str
    counterpart: str
    commands: tuple[str, ...]


def rewrite(requirements: Requirements, judge: Judge, target: str) -> Rewritten:
    """The copy, for ``target``, of the one file that the user named, and those of its includes.

    Raises:
        RewriteError: it cannot be read again, it is more than one file, or it is the target.
    """
    top = _the_one(requirements)
    if target == "-":
        raise RewriteError("a copy goes into a file, and - is none")
    for file in requirements.files:
        if os.path.realpath(file.path) == os.path.realpath(target):
            raise RewriteError(f"{target} is a file that is read; name another one for the copy")
    if top.format == REQUIREMENTS:
        sources = {file.path: _again(file.path) for file in _included(requirements)}
        given = requirements
    else:
        text = listed(requirements, top)
        sources = {top.path: Decoded(text, "utf-8")}
        given = Requirements((top._replace(format=REQUIREMENTS),), ())
    texts = {path: source.text for path, source in sources.items()}
    notes: dict[str, None] = {}
    commands: dict[str, None] = {}
    for _ in range(MOST_ROUNDS):
        changes = list(_changes(given, texts, judge))
        for change in changes:
            texts[change.path] = _changed(texts[change.path], change, sources[change.path])
            notes.update(dict.fromkeys(_notes(change)))
            commands.update(dict.fromkeys(change.commands))
        if not changes:
            break
    return Rewritten(
        tuple(_copies(top.path, target, sources, texts)), tuple(notes), tuple(commands)
    )


def save(files: Iterable[tuple[str, bytes]], *, force: bool) -> None:
    """Write all files, each of which takes its place only when all of them are written.

    Raises:
        RewriteError: one is there and ``force`` is not given, or cannot be written.
    """
    parts: list[tuple[str, str]] = []
    path = ""
    try:
        for path, data in files:
            real = os.path.realpath(path)  # a link stays one
            if os.path.lexists(path) and not (force and os.path.isfile(real)):
                is_file = os.path.isfile(real)
                why = "is there already; --force replaces it" if is_file else "is no file"
                raise RewriteError(f"{path} {why}")
            part = os.path.join(os.path.dirname(real), f".{os.path.basename(real)}.part")
            parts.append((part, real))
            with open(part, "wb") as opened:
                opened.write(data)
        while parts:
            os.replace(*parts[0])
            parts.pop(0)
    except (OSError, ValueError) as error:
        why = (isinstance(error, OSError) and error.strerror) or str(error)
        raise RewriteError(f"cannot write {path}: {why}") from error
    finally:
        for part, _ in parts:
            if os.path.exists(part):
                os.unlink(part)


def _the_one(requirements: Requirements) -> RequirementsFile:
    named = [file for file in requirements.files if not file.included_by]
    if len(named) != 1:
        raise RewriteError(f"a copy is of one file, and {len(named)} are given")
    if named[0].path == STDIN:
        raise RewriteError("a copy is of a file, and standard input is given")
    if named[0].problem:
        raise RewriteError(f"{named[0].path} cannot be read: {named[0].problem}")
    return named[0]


def _again(path: str) -> Decoded:
    source = text_of(path)
    if source.problem:
        raise RewriteError(f"{path} cannot be read: {source.problem}")
    return source


def _included(requirements: Requirements) -> Iterator[RequirementsFile]:
    """What is rewritten: requirements files that could be read."""
    for file in requirements.files:
        if file.format == REQUIREMENTS and not (file.included_by and file.problem):
            yield file


# ---- What to change ------------------------------------------------------------------------------


def _changes(given: Requirements, texts: Mapping[str, str], judge: Judge) -> Iterator[_Change]:
    entries = list(_entries(given, texts))
    files = tuple(file for file in given.files if file.path in texts)
    included = {entry.where for entry in entries if entry.kind == "include"}
    found: dict[str, list[tuple[str, Finding]]] = {}
    for result in judge(Requirements(files, tuple(entries))).results:
        for finding in result.findings:
            found.setdefault(finding.where, []).append((result.check.severity, finding))
    hashed = any(
        _HASHED.search(line.text) for text in texts.values() for line in logical_lines(text)
    )
    for path, text in texts.items():
        for line in logical_lines(text):
            where = f"{path}:{line.first}"
            # What an include leads to is changed there.
            if where in found and where not in included:
                yield from _change(path, line, found[where], hashed=hashed)


def _entries(given: Requirements, texts: Mapping[str, str]) -> Iterator[Entry]:
    """The entries of the copies as they stand."""
    constraining = {
        entry.where for entry in given.entries if entry.kind == "include" and entry.option == "-c"
    }
    # Only what opens files knows of these.
    unread = {
        entry.where: entry
        for entry in given.entries
        if entry.kind == "unreadable" and entry.option in _INCLUDES.values()
    }
    scopes = {file.path: CONSTRAINT for file in given.files if file.included_by in constraining}
    for path, text in texts.items():
        for entry in read_lines(path, text):
            if entry.kind == "include" and entry.where in unread:
                yield unread[entry.where]
            else:
                yield entry._replace(scope=entry.scope or scopes.get(path, ""))


def _change(
    path: str, line: Line, found: Sequence[tuple[str, Finding]], *, hashed: bool
) -> Iterator[_Change]:
    wanted = [
        (finding.fix.instead or "" if finding.fix else "", finding)
        for severity, finding in found
        if severity == "error" or (finding.fix and finding.fix.instead is not None)
    ]
    if not wanted:
        return
    instead, finding = min(wanted, key=lambda one: bool(one[0]))
    reason = finding.fix.text if finding.fix else finding.message
    if instead == line.text:
        instead = ""
    if instead and hashed:
        instead, reason = "", f"{reason}; no line is put into a file with hashes"
    commands = finding.fix.commands if finding.fix else ()
    counterpart = finding.fix.counterpart if finding.fix else ""
    if counterpart:
        commands = (*commands, _install(counterpart))
    yield _Change(path, line, instead, " ".join(reason.split()), counterpart, commands)


def _install(name: str) -> str:
    """For a person to complete: which versions there are, musadoctor does not know."""
    return (
        f"pip install --no-deps --index-url \"$MOORE_THREADS_INDEX\" '{name}==X+musaY'"
        "  # from the Moore Threads package index alone"
    )


def _notes(change: _Change) -> Iterator[str]:
    was = shown(change.line.text)
    if change.instead:
        yield f"{was} became {change.instead}: {change.reason}"
    elif change.counterpart:
        yield f"{was} was left out: {change.reason}"


# ---- Texts ---------------------------------------------------------------------------------------


def _changed(text: str, change: _Change, source: Decoded) -> str:
    """The text with as many lines as before, so that the others keep their numbers."""
    raw = text.splitlines(keepends=True)
    first, *more = range(change.line.first - 1, change.line.last)
    if change.instead:
        raw[first] = _in_place(raw[first], change.instead)
    else:
        raw[first] = _commented(raw[first], f" -> {change.reason}", source)
    for at in more:
        if not raw[at].lstrip().startswith("#"):
            raw[at] = _commented(raw[at], "", source)
    return "".join(raw)


def _body_and_end(raw: str) -> tuple[str, str]:
    body = raw.splitlines()[0]
    return body, raw[len(body) :]


def _in_place(raw: str, instead: str) -> str:
    """Another line with the comment and the line end of the one that it is put for."""
    body, end = _body_and_end(raw)
    comment = _COMMENT.search(body)
    return f"{instead}{comment[0] if comment else ''}{end}"


def _commented(raw: str, why: str, source: Decoded) -> str:
    body, end = _body_and_end(raw)
    # A backslash at its end makes other readers go on.
    line = f"{MARK} {public(body).strip().rstrip(chr(92)).rstrip()}{why}"
    try:
        source.encode(line)
    except UnicodeEncodeError:
        line = line.encode("ascii", "backslashreplace").decode("ascii")
    return f"{line}{end}"


def _copies(
    top: str, target: str, sources: Mapping[str, Decoded], texts: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """The copies, with includes that point at copies."""
    includes = {path: set(_targets(path, text)) for path, text in texts.items()}
    changed = {os.path.normpath(path) for path in texts if texts[path] != sources[path].text}
    while above := {
        os.path.normpath(path)
        for path, targets in includes.items()
        if targets & changed and os.path.normpath(path) not in changed
    }:
        changed |= above
    for path, text in texts.items():
        place = target if path == top else _beside(path)
        if path == top or os.path.normpath(path) in changed:
            pointing = _pointing(path, text, place, changed, sources[path])
            yield place, sources[path].encode(pointing)


def _beside(path: str) -> str:
    stem, suffix = os.path.splitext(path)
    return f"{stem}.musa{suffix}"


def _targets(path: str, text: str) -> Iterator[str]:
    for line in logical_lines(text):
        for name, value in _options(line):
            if name in _INCLUDES:
                yield os.path.normpath(os.path.join(os.path.dirname(path), value))


def _options(line: Line) -> list[tuple[str, str]]:
    """The options of a line that is nothing but options."""
    requirement, rest = split(line.text)
    try:
        return [] if requirement else [(name, value) for name, value in options(rest)[0]]
    except ValueError:
        return []


def _pointing(path: str, text: str, place: str, changed: set[str], source: Decoded) -> str:
    """The text with includes that lead from where the copy stands to what is to be included."""
    raw = text.splitlines(keepends=True)
    folder, new_folder = os.path.dirname(path), os.path.dirname(place)
    for line in logical_lines(text):
        words: list[str] = []
        moved = False
        for name, value in _options(line):
            leads = value
            inner = os.path.normpath(os.path.join(folder, value))
            if name in _INCLUDES and inner in changed:
                leads = _beside(value)
            if name in _INCLUDES and not (os.path.isabs(value) or "://" in value):
                now = os.path.join(folder, leads)
                if os.path.realpath(folder) != os.path.realpath(new_folder):
                    leads = os.path.relpath(now, new_folder or ".")
            moved = moved or leads != value
            words += [_INCLUDES.get(name, name), *([shlex.quote(leads)] if leads else [])]
        if moved:
            first, *more = range(line.first - 1, line.last)
            raw[first] = _in_place(raw[first], " ".join(words))
            for at in more:
                raw[at] = _commented(raw[at], "", source)
    return "".join(raw)
