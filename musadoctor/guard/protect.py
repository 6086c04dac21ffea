"""Hold the vendor's builds in an environment for good: opt-in, shown before, undone to the byte.

What is written, each only where it was seen to work:

- a constraints file, and its path as ``[install] constraint`` in the ``pip.conf`` of the
  environment. ``pip --isolated`` obeys that too; ``PIP_CONSTRAINT`` and ``PIP_CONFIG_FILE`` hide
  it.
- ``constraint-dependencies`` in the ``uv.toml`` beside a ``.venv``. uv reads that file from the
  working folder and the folders above, never from the environment.
- ``EXTERNALLY-MANAGED`` (PEP 668) beside the standard library of an environment that is no virtual
  one, where alone pip and uv heed it.

A manifest in the environment keeps what was there before.
"""

import base64
import configparser
import contextlib
import hashlib
import importlib
import json
import os
import posixpath
import re
import shlex
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.python import Python
from musadoctor.facts.requirements import Stack
from musadoctor.guard.constraints import (
    Pin,
    Pinned,
    configured,
    listed,
    option_name,
    parsed,
    pinned,
    requirement,
    site_file,
    unlabelled,
    written,
)
from musadoctor.guard.host import stack_of
from musadoctor.probes.python import python
from musadoctor.system import Failure, System

FOLDER = "share/musadoctor"
CONSTRAINTS = f"{FOLDER}/constraints.txt"
MANIFEST = f"{FOLDER}/protected.json"
VERSION = 1
DOING, DONE = "doing", "done"
MARKER = """\
[externally-managed]
Error=This Python has the vendor's build of torch for Moore Threads GPUs, and an
 installer would replace it by one for CUDA. Let musadoctor look first and hold it:

     musadoctor guard -- {python} -m pip install --break-system-packages ...

 To take this mark away: musadoctor guard unprotect --python {python}
"""
_NO_UV = (
    "uv is not held: it reads no pip.conf, and a uv.toml only from the folder that it runs in and"
    " those above; run it as `musadoctor guard -- uv pip install ...`"
)
_OPTION = re.compile(r"(?P<name>[^\s=:#;\[][^=:]*?)\s*[=:]")
_SECTION = re.compile(r"\[(?P<name>[^]]+)\]")
_UV_KEY = re.compile(r"^constraint-dependencies[ \t]*=[ \t]*\[", re.MULTILINE)


class ProtectError(Exception):
    """It cannot be done. Nothing has been changed, or everything was put back."""


class Change(NamedTuple):
    """One file, as it is and as it would be."""

    path: str
    before: bytes | None
    """``None`` where there is no such file."""
    after: bytes | None
    """``None`` where it is to be removed."""

    def __str__(self) -> str:
        """The change as ``diff -u`` has it."""
        from difflib import unified_diff  # noqa: PLC0415 - only where a change is shown

        old, new = (
            [] if data is None else data.decode("utf-8", "replace").splitlines()
            for data in (self.before, self.after)
        )
        was, becomes = (
            "/dev/null" if data is None else self.path for data in (self.before, self.after)
        )
        return "\n".join(unified_diff(old, new, was, becomes, lineterm=""))


class Plan(NamedTuple):
    """What would be written, or put back."""

    changes: tuple[Change, ...]
    """Empty where all is so already."""
    notes: tuple[str, ...]
    """What is not done, and why."""
    manifest: str
    """The path of the manifest, which is written with them."""
    originals: tuple[Change, ...] = ()
    """Of each protected file what it was at first; empty in a plan that puts back."""


class Protection(NamedTuple):
    """How well an environment is protected."""

    rows: tuple[tuple[bool, str], ...]
    """A line each: whether it is in force, and what."""
    notes: tuple[str, ...]
    """What is not held."""

    @property
    def whole(self) -> bool:
        """Whether everything that was set up is in force."""
        return bool(self.rows) and all(fine for fine, _ in self.rows)


class _Kept(NamedTuple):
    """A file of the manifest."""

    path: str
    before: bytes | None
    mode: int
    digests: tuple[str, ...]
    """Of what musadoctor wrote there; two while it is being written anew."""


class _Manifest(NamedTuple):
    status: str
    files: tuple[_Kept, ...]
    folders: tuple[str, ...]
    """Those that were made for it."""


def plan(system: System) -> Plan | Absent | Unknown:
    """What would hold the vendor's builds in the examined environment.

    Raises:
        ProtectError: a file is not as musadoctor left it, or cannot be read.
    """
    interpreter, stack = python(system), stack_of(system)
    if not isinstance(interpreter, Python):
        return interpreter
    if not isinstance(stack, Stack):
        return stack
    builds = pinned(system)
    if not isinstance(builds, Pinned):
        return builds
    if not stack.vendor:
        return Absent(f"{interpreter.path} has no vendor's torch to protect")
    manifest_path = _manifest_path(interpreter)
    manifest = _manifest(manifest_path)
    if manifest is not None and manifest.status != DONE:
        raise ProtectError(
            f"an earlier run was interrupted: `musadoctor guard unprotect --python"
            f" {interpreter.path}` puts back what it changed"
        )
    known = {kept.path: kept for kept in manifest.files} if manifest else {}
    _unchanged(known.values())

    notes = list(builds.left_out)
    wanted = dict(_files(system, interpreter, builds.pins, known, notes))
    originals = [
        Change(path, known[path].before if path in known else _bytes(path), after)
        for path, after in wanted.items()
    ]
    changes = [
        Change(path, now, change.after)
        for change in originals
        if (now := _bytes(path := change.path)) != change.after
    ]
    return Plan(tuple(changes), tuple(notes), manifest_path, tuple(originals))


def plan_back(system: System) -> Plan | Absent | Unknown:
    """What would put everything back as it was before, also after a run that was interrupted.

    Raises:
        ProtectError: a file is not as musadoctor left it, so that putting it back loses something.
    """
    interpreter = python(system)
    if not isinstance(interpreter, Python):
        return interpreter
    manifest = _manifest_of(interpreter)
    if isinstance(manifest, Absent):
        return manifest
    return Plan(tuple(_back(manifest)), (), _manifest_path(interpreter))


def apply(what: Plan) -> None:
    """Write a plan: all of it, or nothing.

    Raises:
        ProtectError: it could not be written, and what was has been put back.
    """
    if not what.originals:
        manifest = _manifest(what.manifest)
        assert manifest is not None
        _put_back(what.manifest, manifest)
        return
    if not what.changes:
        return
    before = _manifest(what.manifest)
    known = {kept.path: kept.digests for kept in before.files} if before else {}
    folders = before.folders if before else _missing_folders(what.manifest)
    doing = _Manifest(
        DOING,
        tuple(
            _Kept(
                change.path,
                change.before,
                _mode(change.path),
                tuple(dict.fromkeys((*known.get(change.path, ()), _digest(change.after)))),
            )
            for change in what.originals
        ),
        folders,
    )
    try:
        for folder in folders:
            os.makedirs(folder, exist_ok=True)
        _write(what.manifest, _encoded(doing), 0o644)
        for change in what.changes:
            assert change.after is not None
            _write(change.path, change.after, _mode(change.path))
        done = tuple(
            kept._replace(digests=(_digest(change.after),))
            for kept, change in zip(doing.files, what.originals, strict=True)
        )
        _write(what.manifest, _encoded(_Manifest(DONE, done, folders)), 0o644)
    except BaseException as error:
        _put_back(what.manifest, doing)
        if isinstance(error, OSError):
            raise ProtectError(f"{error}; everything was put back") from error
        raise


def status(system: System) -> Protection | Absent | Unknown:
    """What of the protection is in force, by the files as they are and as pip would read them."""
    interpreter = python(system)
    if not isinstance(interpreter, Python):
        return interpreter
    manifest = _manifest_of(interpreter)
    if isinstance(manifest, Absent):
        return manifest
    if manifest.status != DONE:
        return Protection(((False, "it was interrupted: `musadoctor guard unprotect`"),), ())
    rows = [_as_left(kept) for kept in manifest.files]
    builds = pinned(system)
    pins = builds.pins if isinstance(builds, Pinned) else ()
    rows += [_holds(system, interpreter.prefix, pins), _obeyed(system, interpreter.prefix)]
    stack = stack_of(system)
    vendors = isinstance(stack, Stack) and stack.vendor
    rows.append((vendors, f"installed: {stack}"))
    notes = [] if any(p.endswith("/uv.toml") for p, *_ in manifest.files) else [_NO_UV]
    return Protection(tuple(rows), tuple(notes))


def in_force(system: System, pins: Sequence[Pin]) -> bool:
    """Whether the environment's own pip.conf holds these builds."""
    interpreter = python(system)
    if not isinstance(interpreter, Python):
        return False
    prefix = interpreter.prefix
    return _holds(system, prefix, pins)[0] and listed(f"{prefix}/{CONSTRAINTS}") in configured(
        system, prefix
    )


def _files(
    system: System,
    interpreter: Python,
    pins: Sequence[Pin],
    known: Mapping[str, _Kept],
    notes: list[str],
) -> Iterator[tuple[str, bytes]]:
    """Each file to be written, with its content."""
    prefix = interpreter.prefix
    constraints = f"{prefix}/{CONSTRAINTS}"
    yield constraints, written(_lines(pins), prefix).encode()

    def original(path: str) -> bytes:
        return (known[path].before if path in known else _bytes(path)) or b""

    pip_conf = os.path.realpath(site_file(prefix))
    text = original(pip_conf).decode("utf-8", "surrogateescape")
    before = configured(system, prefix, text)
    value = " ".join((*before, listed(constraints)))
    yield pip_conf, _with_constraint(text, value, pip_conf).encode("utf-8", "surrogateescape")

    if posixpath.basename(prefix) == ".venv":
        yield from _uv_toml(posixpath.dirname(prefix), pins, original, notes)
    elif os.path.exists(f"{prefix}/pyvenv.cfg"):
        notes.append(_NO_UV)
    if not os.path.exists(f"{prefix}/pyvenv.cfg"):
        yield from _marker(interpreter, known, notes)


def _lines(pins: Sequence[Pin]) -> list[str]:
    """The constraints, by file only where the version does not tell a build.

    For a file may be moved away one day, and is refused where hashes are demanded.
    """
    return [requirement(pin, "files" if unlabelled(pin) else "versions") for pin in pins]


def _with_constraint(text: str, value: str, path: str) -> str:
    """pip's configuration with ``[install] constraint`` set to ``value``, all else as it is."""
    before = parsed(text)
    if before is None:
        raise ProtectError(f"{path} is not as pip reads it, so it is not touched")
    end = "\r\n" if "\r\n" in text else "\n"
    lines, at = _without_constraint(text.splitlines(keepends=True))
    if at is None:
        lines, at = [*lines, f"[install]{end}"], len(lines) + 1
    # A file may end without a line end.
    closed = [line if line.endswith("\n") else f"{line}{end}" for line in lines[:at]]
    setting = f"constraint = {value}{end}"
    changed = "".join((*closed, setting, *lines[at:]))
    after = parsed(changed)
    expected = _settings(before)
    expected.setdefault("install", {})["constraint"] = value
    if after is None or _settings(after) != expected:
        raise ProtectError(f"{path} cannot be changed without harm: add `{setting.strip()}` to it")
    return changed


def _without_constraint(lines: Sequence[str]) -> tuple[list[str], int | None]:
    """The lines without the setting, and where it stood, or else where its section begins."""
    kept: list[str] = []
    at: int | None = None
    section, inside = "", False
    for line in lines:
        bare = line.strip()
        if not bare or bare[0] in "#;":
            kept.append(line)
            continue
        if inside and line[0].isspace():
            continue  # goes on with the value
        option = _OPTION.match(line) if section == "install" else None
        inside = bool(option and option_name(option["name"]) == "constraint")
        if inside:
            at = len(kept)
            continue
        kept.append(line)
        if header := _SECTION.match(line):
            section = header["name"]
            at = len(kept) if section == "install" else at
    return kept, at


def _settings(parser: configparser.RawConfigParser) -> dict[str, dict[str, str]]:
    return {
        section: {option_name(name): value for name, value in parser.items(section)}
        for section in parser.sections()
    }


def _uv_toml(
    folder: str, pins: Sequence[Pin], original: Callable[[str], bytes], notes: list[str]
) -> Iterator[tuple[str, bytes]]:
    """``constraint-dependencies`` where uv reads them when it runs in the project's folder."""
    path = os.path.realpath(f"{folder}/uv.toml")
    wanted = [requirement(pin, "installed" if unlabelled(pin) else "versions") for pin in pins]
    own = original(path).decode("utf-8", "surrogateescape")
    project = _toml((_bytes(f"{folder}/pyproject.toml") or b"").decode("utf-8", "replace"))
    tool = (project or {}).get("tool")
    if not own and isinstance(tool, dict) and "uv" in tool:
        notes.append(
            f"uv is not held: a uv.toml would hide what {folder}/pyproject.toml sets in [tool.uv];"
            f" add constraint-dependencies = {json.dumps(wanted)} there"
        )
        return
    text = _with_dependencies(own, wanted)
    if text is None:
        notes.append(
            f"uv is not held: {path} cannot be changed without harm; add"
            f" constraint-dependencies = {json.dumps(wanted)} to it"
        )
        return
    yield path, text.encode("utf-8", "surrogateescape")


def _with_dependencies(text: str, wanted: Sequence[str]) -> str | None:
    items = "".join(f"    {json.dumps(item)},\n" for item in wanted)
    found = _UV_KEY.search(text)
    if found:
        changed = f"{text[: found.end()]}\n{items}{text[found.end() :]}"
    else:
        note = "# Written by musadoctor: the vendor's builds, which nothing may replace.\n"
        changed = f"{note}constraint-dependencies = [\n{items}]\n{text}"
    before, after = _toml(text), _toml(changed)
    if before is None or after is None:
        return None
    named = before.get("constraint-dependencies", [])
    expected = [*wanted, *cast("list[str]", named if isinstance(named, list) else [])]
    return changed if after == {**before, "constraint-dependencies": expected} else None


def _toml(text: str) -> dict[str, object] | None:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        return cast("dict[str, object]", toml.loads(text))
    except (ValueError, RecursionError):
        return None


def _marker(
    interpreter: Python, known: Mapping[str, _Kept], notes: list[str]
) -> Iterator[tuple[str, bytes]]:
    library = next((p for p in interpreter.search_path if os.path.exists(f"{p}/os.py")), "")
    path = f"{library}/EXTERNALLY-MANAGED"
    if not library:
        notes.append("no EXTERNALLY-MANAGED: where the standard library is is not known")
    elif os.path.exists(path) and path not in known:
        notes.append(f"{path} is there already, and stays as it is")
    else:
        yield path, MARKER.format(python=shlex.quote(interpreter.path)).encode()


def _holds(system: System, prefix: str, pins: Sequence[Pin]) -> tuple[bool, str]:
    path = f"{prefix}/{CONSTRAINTS}"
    text = system.read(path)
    there = frozenset(() if isinstance(text, Failure) else text.splitlines())
    missing = [line for line in _lines(pins) if line not in there]
    if missing or not pins:
        told = ", ".join(missing) or "nothing is known to be installed"
        return False, f"{path} does not name what is installed: {told}; protect anew"
    return True, f"{path} names what is installed"


def _obeyed(system: System, prefix: str) -> tuple[bool, str]:
    path = listed(f"{prefix}/{CONSTRAINTS}")
    variable = system.env("PIP_CONSTRAINT")
    if isinstance(variable, str) and path not in variable.split():
        return False, f"PIP_CONSTRAINT={variable} hides the constraint of {site_file(prefix)} here"
    if path not in configured(system, prefix):
        return False, f"pip does not come to {path} by its configuration files here"
    return True, f"pip obeys {path}"


def _as_left(kept: _Kept) -> tuple[bool, str]:
    now = _digest(_bytes(kept.path))
    return now in kept.digests, kept.path + ("" if now in kept.digests else " was changed since")


def _unchanged(files: Iterable[_Kept]) -> None:
    """Raise where a file is neither as musadoctor left it nor as it was before."""
    for kept in files:
        now = _bytes(kept.path)
        if now != kept.before and _digest(now) not in kept.digests:
            raise ProtectError(f"{kept.path} was changed since musadoctor wrote it")


def _back(manifest: _Manifest) -> Iterator[Change]:
    _unchanged(manifest.files)
    for kept in reversed(manifest.files):
        now = _bytes(kept.path)
        if now != kept.before:
            yield Change(kept.path, now, kept.before)


def _put_back(path: str, manifest: _Manifest) -> None:
    """Restore what a manifest names, then remove it and the folders that were made for it."""
    modes = {kept.path: kept.mode for kept in manifest.files}
    failed = [why for change in _back(manifest) if (why := _restore(change, modes[change.path]))]
    if failed:
        raise ProtectError(f"could not be put back: {'; '.join(failed)}; {path} keeps what was")
    if why := _restore(Change(path, b"", None), 0):
        raise ProtectError(f"all was put back, but {why}")
    for folder in reversed(manifest.folders):
        with contextlib.suppress(OSError):  # somebody else put something there
            os.rmdir(folder)


def _restore(change: Change, mode: int) -> str:
    """Make one change; why it failed, or empty."""
    try:
        if change.after is not None:
            _write(change.path, change.after, mode)
        elif os.path.lexists(change.path):
            os.unlink(change.path)
    except OSError as error:
        return str(error)
    return ""


def _bytes(path: str) -> bytes | None:
    """The content of a regular file; ``None`` where there is none.

    Raises:
        ProtectError: it is something else, or cannot be read.
    """
    try:
        if not os.path.lexists(path):
            return None
        if not os.path.isfile(path):
            raise ProtectError(f"{path} is no regular file")
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ProtectError(str(error)) from error


def _mode(path: str) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)  # noqa: TID251 - what it writes it must know
    except OSError:
        return 0o644


def _write(path: str, data: bytes, mode: int) -> None:
    """Put a file in its place in one step, so that nobody ever reads half of it."""
    descriptor, part = tempfile.mkstemp(dir=posixpath.dirname(path), prefix=".musadoctor-")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
            with contextlib.suppress(OSError):  # as its owner has it, where we may
                owner = os.stat(path)  # noqa: TID251
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def _missing_folders(path: str) -> tuple[str, ...]:
    missing: list[str] = []
    folder = posixpath.dirname(path)
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = posixpath.dirname(folder)
    return tuple(reversed(missing))


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def _encoded(manifest: _Manifest) -> bytes:
    files = [
        {
            "path": kept.path,
            "before": None if kept.before is None else base64.b64encode(kept.before).decode(),
            "mode": kept.mode,
            "sha256": list(kept.digests),
        }
        for kept in manifest.files
    ]
    value = {
        "written-by": "musadoctor guard protect",
        "version": VERSION,
        "status": manifest.status,
        "files": files,
        "folders": list(manifest.folders),
    }
    return (json.dumps(value, indent=1) + "\n").encode()


def _manifest_path(interpreter: Python) -> str:
    return f"{interpreter.prefix}/{MANIFEST}"


def _manifest_of(interpreter: Python) -> _Manifest | Absent:
    """What musadoctor changed in an environment."""
    path = _manifest_path(interpreter)
    missing = Absent(f"{interpreter.prefix} is not protected: there is no {path}")
    return _manifest(path) or missing


def _manifest(path: str) -> _Manifest | None:
    data = _bytes(path)
    if data is None:
        return None
    try:
        value = cast("dict[str, object]", json.loads(data))
        if value["version"] != VERSION:
            raise ProtectError(f"{path} was written by another version of musadoctor")
        files = cast("list[dict[str, object]]", value["files"])
        return _Manifest(
            str(value["status"]),
            tuple(
                _Kept(
                    str(file["path"]),
                    None
                    if file["before"] is None
                    else base64.b64decode(str(file["before"]), validate=True),
                    int(cast("int", file["mode"])),
                    tuple(map(str, cast("list[object]", file["sha256"]))),
                )
                for file in files
            ),
            tuple(map(str, cast("list[object]", value["folders"]))),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProtectError(f"{path} is damaged: {error!r}") from error
