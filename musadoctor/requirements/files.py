"""Find dependency files, open them, choose the reader of each, and follow what they include.

With ``live`` and ``runner`` the only module that opens files: what the user names, what is in
folders that the user names, and what those files include. Nothing is written, fetched or run.
"""

import importlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, cast
from urllib.parse import unquote

from musadoctor.facts.requirements import Entry, Requirements, RequirementsFile
from musadoctor.printable import printable
from musadoctor.requirements import formats, pip_file
from musadoctor.requirements.requirement import shown
from musadoctor.requirements.text import Decoded, decode

LONGEST_FILE = 64 << 20
"""Bytes."""
LONGEST_BY_HAND = 8 << 20
"""Characters of what people write, and which takes longer to understand than a list or a lock."""
MOST_ENTRIES = 500_000
"""Of one file, and so in memory: some hundred MiB."""
LONGEST_UNCERTAIN = 1 << 20
"""Bytes of a file in a folder whose name does not tell that it is a dependency file."""
MOST_NAMES = 200_000
"""In a folder and all below it."""
DEEPEST = 32
"""Folders within folders, and includes within includes."""
STDIN = "<stdin>"
FOLDER = "folder"
CONSTRAINT = "constraint"
NOT_FETCHED = "not fetched"
NOT_SHOWN = "a line of a file elsewhere, not shown"

Reader = Callable[[str, str], Iterator[Entry]]

_READERS = {
    formats.REQUIREMENTS: "pip_file.read",
    "pyproject.toml": "pyproject.read",
    "setup.cfg": "setup_cfg.read",
    "setup.py": "setup_py.read",
    "Pipfile": "pipfile.read",
    "Pipfile.lock": "pipfile.read",
    "pylock.toml": "pylock.read",
    "uv.lock": "toml_locks.read",
    "poetry.lock": "toml_locks.read",
    "pdm.lock": "toml_locks.read",
    "pixi.toml": "pixi.read_manifest",
    "pixi.lock": "pixi.read_lock",
    "conda environment": "conda.read",
    "conda-lock": "conda_lock.read",
    "conda explicit": "conda_lock.read",
    "Dockerfile": "dockerfile.read",
    "shell script": "shell.read",
}
_ELSEWHERE = ("Dockerfile", "shell script")
"""Where paths are those of another folder, or of an image."""
_BY_HAND = (*_ELSEWHERE, "setup.cfg")
_CONSTRAINTS = ("-c", "--constraint")
_REMOTE = re.compile(r"(?:https?|ftp)://", re.IGNORECASE)
_FILE_URL = re.compile(r"file:(?://(?:localhost)?(?=/))?", re.IGNORECASE)
_SKIPPED = frozenset(
    {
        *(".git", ".hg", ".svn", ".bzr", ".tox", ".nox", ".venv", ".eggs", ".cache", ".conda"),
        *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints", ".pixi", ".direnv"),
        *("node_modules", "site-packages", "dist-packages", "__pycache__", "__pypackages__"),
    }
)
_TELLING = re.compile(r"torch|cuda|nvidia|cudnn|triton", re.IGNORECASE)
_METADATA = (".egg-info", ".dist-info")
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO; give its content on standard input, as -"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class _UnreadError(Exception):
    """Why a file was not read: one clause."""


class _File(NamedTuple):
    """A file to read."""

    path: str
    root: str
    """The real path of the folder that the user named, or that the named file is in."""
    folder: str = ""
    """That the user named and that it was found in: it need not be a dependency file."""
    included_by: str = ""
    scope: str = ""
    """With ``fresh`` and ``flags`` that of the entry that includes it."""
    fresh: bool = False
    flags: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    """The real paths of the files that lead to it by includes, outermost first."""


def read(paths: Sequence[str], *, stdin: Callable[[int], bytes] | None = None) -> Requirements:
    """Every entry of the files and folders that the user names, and of what they include.

    Each file is read once, whatever leads to it; what a file includes follows it. The path of an
    included file is the include's, relative to the folder of the including file. ``-`` is standard
    input, of which ``stdin`` reads a number of bytes. What a Dockerfile, a script or a task
    includes is looked for beside it and one folder up, and that it is not there is no problem: it
    may be in the image.
    """
    files: list[RequirementsFile] = []
    entries: list[Entry] = []
    seen: dict[tuple[str, bool, bool], bool] = {}
    empty: dict[str, None] = {}
    pending = [_File(path, _real(os.path.dirname(path) or ".")) for path in reversed(paths)]
    while pending:
        file = pending.pop()
        named = not file.folder and not file.included_by
        if named and os.path.isdir(file.path):
            problems, below = _below(file.path)
            files += problems
            pending += reversed(below)
            if not problems:
                empty[file.path] = None
            continue
        key = (_real(file.path), file.scope == CONSTRAINT, file.fresh)
        if key not in seen:
            record, made = _read_file(file, stdin)
            seen[key] = record is not None
            if record:
                files.append(record)
                outside = _is_outside(file)
                entries += (_in_context(entry, file, outside=outside) for entry in made)
                included, failed = _includes(file, record.format, made)
                entries += failed
                pending += reversed(included)
        if seen[key]:
            empty.pop(file.folder, None)
    files += (_unread(folder, FOLDER, "no dependency file in it") for folder in empty)
    return Requirements(tuple(files), tuple(entries))


def text_of(path: str) -> Decoded:
    """A file's text; its ``problem`` says why there is none."""
    try:
        return _decoded(path, None, certain=True)
    except _UnreadError as error:
        return Decoded("", "", str(error))


def _unread(path: str, form: str, problem: str, included_by: str = "") -> RequirementsFile:
    return RequirementsFile(_shown(path), form, "", 0, problem, included_by)


def _shown(path: str) -> str:
    return STDIN if path == "-" else printable(path).replace("\n", " ")


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL in it
        return path


def _below(folder: str) -> tuple[list[RequirementsFile], list[_File]]:
    """What may be dependency files in a folder and those below it, and what was not looked at.

    In the order of their names, a folder's files before its folders. Links to folders are not
    followed; what a package manager or a build made is left out.
    """
    problems: list[RequirementsFile] = []
    files: list[_File] = []
    left = MOST_NAMES
    pending = [("" if folder == "." else folder, 0)]
    while pending:
        path, depth = pending.pop()
        try:
            with os.scandir(path or ".") as items:
                found = sorted(islice(items, left + 1), key=lambda item: item.name)
        except OSError as error:
            problems.append(_unread(path, FOLDER, _clause(error)))
            continue
        left -= len(found)
        if left < 0:
            problems.append(_unread(folder, FOLDER, f"more than {MOST_NAMES:,} names in it"))
            break
        if depth and any(item.name in _ENVIRONMENTS for item in found):
            continue
        below: list[str] = []
        for item in found:
            inner = os.path.join(path, item.name)
            if item.is_dir(follow_symlinks=False):
                if item.name not in _SKIPPED and not item.name.endswith(_METADATA):
                    below.append(inner)
            elif _concerns(item.name) and not os.path.isdir(inner):
                files.append(_File(inner, _real(folder), folder))
        if below and depth == DEEPEST:
            problem = f"the folders in it are deeper than {DEEPEST}"
            problems.append(_unread(path, FOLDER, problem))
            continue
        pending += ((inner, depth + 1) for inner in reversed(below))
    return problems, files


def _concerns(name: str) -> bool:
    return bool(formats.by_name(name)) or formats.may_be(name)


def _read_file(
    file: _File, stdin: Callable[[int], bytes] | None
) -> tuple[RequirementsFile | None, list[Entry]]:
    """What a file is and holds; ``None`` where it turns out to be no dependency file."""
    certain = formats.by_name(file.path)
    try:
        decoded = _decoded(file.path, stdin, certain=bool(certain) or not file.folder)
        form = _form(file, decoded.text)
    except _UnreadError as error:
        if file.folder and not certain:
            return None, []
        return _unread(file.path, certain, str(error), file.included_by), []
    if not form:
        return None, []
    if form in _BY_HAND and len(decoded.text) > LONGEST_BY_HAND:
        problem = f"longer than {LONGEST_BY_HAND >> 20} MiB"
        return _unread(file.path, form, problem, file.included_by), []
    entries: list[Entry] = []
    problem = ""
    try:
        entries.extend(islice(_reader(form)(_shown(file.path), decoded.text), MOST_ENTRIES))
        if len(entries) == MOST_ENTRIES:
            problem = f"more than {MOST_ENTRIES - 1:,} entries in it"
    except Exception as error:  # noqa: BLE001 - a file must not end the run: it is not cleared
        problem = shown(f"musadoctor's reader of {form} failed, {type(error).__name__}: {error}")
    lines = sum(1 for _ in pip_file.physical_lines(decoded.text))
    path = _shown(file.path)
    record = RequirementsFile(path, form, decoded.encoding, lines, problem, file.included_by)
    return record, entries


def _form(file: _File, text: str) -> str:
    if file.folder:
        return formats.of_found(file.path, text)
    if file.included_by:
        return formats.by_name(file.path) or formats.REQUIREMENTS
    if form := formats.of_named(file.path, text):
        return form
    raise _UnreadError("no dependency file of a form that musadoctor knows")


def _reader(form: str) -> Reader:
    module, _, function = _READERS[form].partition(".")
    loaded = importlib.import_module(f"{__package__}.{module}")  # only what is needed
    return cast("Reader", getattr(loaded, function))


def _decoded(path: str, stdin: Callable[[int], bytes] | None, *, certain: bool) -> Decoded:
    longest = LONGEST_FILE if certain else LONGEST_UNCERTAIN
    try:
        data = _piped(stdin, longest) if path == "-" else _content(path, longest)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and os.path.islink(path):
            raise _UnreadError("a link to nothing") from None
        raise _UnreadError(_clause(error)) from None
    if len(data) > longest:
        raise _UnreadError(f"longer than {longest >> 20} MiB")
    decoded = decode(data)
    if decoded.problem:
        raise _UnreadError(decoded.problem)
    return decoded


def _piped(stdin: Callable[[int], bytes] | None, longest: int) -> bytes:
    if stdin is None:
        raise _UnreadError("no standard input")
    return stdin(longest + 1)


def _content(path: str, longest: int) -> bytes:
    """At most ``longest`` bytes and one more of a regular file; nothing else is opened."""
    if _REMOTE.match(path):
        raise _UnreadError(NOT_FETCHED)
    _expect_regular(os.stat(path))
    # What takes its place meanwhile must not make us wait, nor become our terminal.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as opened:
        status = os.fstat(opened.fileno())
        _expect_regular(status)
        if status.st_size > longest:
            raise _UnreadError(f"longer than {longest >> 20} MiB")
        return opened.read(longest + 1)


def _expect_regular(status: os.stat_result) -> None:
    for is_kind, name in _KINDS:
        if is_kind(status.st_mode):
            raise _UnreadError(name)


def _clause(error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) else None
    return (reason or str(error)).lower()


def _is_outside(file: _File) -> bool:
    """Whether an include or a link led out of the folder that the user named, and of this one."""
    real = _real(file.path)
    inside = (os.path.join(root, "") for root in (file.root, _real(".")))
    return file.path != "-" and not real.startswith(tuple(inside))


def _in_context(entry: Entry, file: _File, *, outside: bool = False) -> Entry:
    """An included file's entry: it goes where the including line's would go.

    It may be a key or a password file that a stranger's line or link leads to: of what is no
    requirement only that is shown which makes it one that is refused.
    """
    if outside and entry.kind == "unreadable":
        telling = dict.fromkeys(word.lower() for word in _TELLING.findall(entry.text))
        hidden = f"{NOT_SHOWN} ({', '.join(telling)})" if telling else NOT_SHOWN
        entry = entry._replace(text=hidden, reason="not readable")
    elif outside and entry.kind == "source" and "://" not in entry.url:
        entry = entry._replace(text=NOT_SHOWN, reason=NOT_SHOWN)
    if not file.included_by:
        return entry
    return entry._replace(
        scope=entry.scope or file.scope,
        fresh=entry.fresh or file.fresh,
        flags=entry.flags or file.flags,
    )


def _includes(file: _File, form: str, entries: list[Entry]) -> tuple[list[_File], list[Entry]]:
    """The files that a file includes, and an unreadable entry for each that cannot be."""
    included: list[_File] = []
    failed: list[Entry] = []
    above = (*file.above, _real(file.path))
    for entry in entries:
        if entry.kind != "include":
            continue
        try:
            path = _target(entry, file, form, above)
        except _UnreadError as error:
            failed.append(_in_context(entry, file)._replace(kind="unreadable", reason=str(error)))
            continue
        if path:
            # As pip has it, a requirements file within a constraints file is none.
            outer = "" if file.scope == CONSTRAINT else file.scope
            included.append(
                _File(
                    path,
                    file.root,
                    included_by=entry.where,
                    scope=CONSTRAINT if entry.option in _CONSTRAINTS else entry.scope or outer,
                    fresh=entry.fresh or file.fresh,
                    flags=entry.flags or file.flags,
                    above=above,
                )
            )
    return included, failed


def _target(entry: Entry, file: _File, form: str, above: tuple[str, ...]) -> str:
    """The path of what an entry includes; empty where it is in an image, or another folder."""
    if _REMOTE.match(entry.url):
        raise _UnreadError(NOT_FETCHED)
    local = _FILE_URL.match(entry.url)
    url = unquote(entry.url[local.end() :]) if local else entry.url
    folder = os.path.dirname(file.path)
    if form not in _ELSEWHERE and entry.scope != "task":
        path = os.path.normpath(os.path.join(folder, url))
    else:
        inside = url if form == "shell script" else url.lstrip("/")
        candidates = (
            os.path.normpath(os.path.join(folder, up, name))
            for up in ("", "..")
            for name in (inside, os.path.basename(url))
        )
        path = next(filter(os.path.isfile, candidates), "")
    if not path:
        return ""
    if (real := _real(path)) in above:
        chain = " > ".join(map(os.path.basename, (*above[above.index(real) :], real)))
        raise _UnreadError(shown(f"includes itself: {chain}"))
    if len(above) > DEEPEST:
        raise _UnreadError(f"includes nested deeper than {DEEPEST}")
    return path
