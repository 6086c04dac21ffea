"""This machine, asked. With ``runner`` the one that opens files, reads variables and runs."""

# ruff: noqa: D102 - System tells what each question means

import errno
import grp
import os
import stat
import sys
import threading
import time
from collections.abc import Callable
from typing import BinaryIO, TypeVar, cast

from musadoctor import runner
from musadoctor.commands import Command
from musadoctor.elf import ElfError, read_elf, read_loader_cache
from musadoctor.system import (
    DAMAGED,
    ERROR,
    NOT_ALLOWED,
    NOT_THERE,
    Elf,
    Failure,
    Found,
    Platform,
    Ran,
    Resources,
    Stat,
)

LONGEST_TEXT = 4 << 20
LONGEST_DYING = 1.5
"""Seconds to wait for cancelled programs: their time to die, and to notice."""
T = TypeVar("T")


class _NotRegularError(ValueError):
    """A folder, device, FIFO or socket."""


def _failure(path: str, error: OSError) -> Failure:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return Failure(NOT_THERE, f"no {path}")
    kinds = {errno.ELOOP: NOT_THERE, errno.EACCES: NOT_ALLOWED, errno.EPERM: NOT_ALLOWED}
    return Failure(kinds.get(error.errno or 0, ERROR), f"{path}: {error.strerror}")


def _asked(path: str, question: Callable[[], T]) -> T | Failure:
    try:
        return question()
    except OSError as error:
        return _failure(path, error)
    except ValueError as error:  # a NUL in a path, or no regular file
        return Failure(ERROR, f"{path}: {error}".replace("\0", "\\0"))


class Live:
    """The machine that musadoctor runs on."""

    def __init__(self, deadline: float, python: str | None = None) -> None:
        """Ask until ``deadline``, a value of ``time.monotonic()``; ``python`` is to be examined."""
        self._deadline = deadline
        self._python = python
        self._cancelled = threading.Event()
        self._running = 0
        self._ended = threading.Condition()

    def cancel(self) -> None:
        """Stop every running program, and wait until each has died or cannot be killed."""
        with self._ended:
            self._cancelled.set()
            self._ended.wait_for(lambda: not self._running, timeout=LONGEST_DYING)

    def run(self, command: Command) -> Ran:
        found = self.find(command.program)
        if not found.path:
            return _not_found(command.program, found)
        left = self._deadline - time.monotonic()
        if left <= 0:
            return Ran("timed out", note="not started: the time for the report was over")
        with self._ended:
            if self._cancelled.is_set():
                return Ran("timed out", note="not started: cancelled")
            self._running += 1
        try:
            return runner.run(
                [found.path, *command.arguments],
                limit=min(command.seconds, left),
                # Vendor tools print Chinese under a Chinese locale.
                env={**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "C"}
                | dict(command.environment),
                answers=command.answers,
                cancelled=self._cancelled,
                keeps=command.keeps,
                given=command.given,
                room=command.room or runner.KEPT,
                writes=command.writes,
            )
        finally:
            with self._ended:
                self._running -= 1
                self._ended.notify_all()

    def read(self, path: str) -> str | Failure:
        def question() -> str | Failure:
            with _open(path) as file:
                # Typeshed does not know of files that do not wait.
                data = cast("bytes | None", file.read(LONGEST_TEXT))
            if data is None:
                return Failure(ERROR, f"{path}: nothing to read yet")
            return data.decode("utf-8", "replace")

        return _asked(path, question)

    def list(self, path: str) -> tuple[str, ...] | Failure:
        def question() -> tuple[str, ...] | Failure:
            try:
                return tuple(sorted(os.listdir(path)))
            except NotADirectoryError:
                os.stat(path)
                return Failure(ERROR, f"{path}: not a folder")

        return _asked(path, question)

    def stat(self, path: str) -> Stat | Failure:
        def question() -> Stat:
            real = os.path.realpath(path)
            try:
                found = os.stat(path)
            except OSError as error:
                if error.errno not in {errno.ENOENT, errno.ELOOP}:
                    raise
                os.lstat(path)
                return Stat("dangling", 0, 0, "", usable=False, executable=False, real=real)
            return Stat(
                kind=_kind(found.st_mode),
                size=found.st_size,
                mode=stat.S_IMODE(found.st_mode),
                group=_group_name(found.st_gid),
                usable=os.access(path, os.R_OK | os.W_OK),
                executable=os.access(path, os.X_OK),
                real=real,
            )

        return _asked(path, question)

    def env(self, name: str) -> str | None:
        return os.environ.get(name)

    def find(self, name: str) -> Found:
        if "/" in name:
            folders = [os.path.dirname(name)]
        else:
            folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
        blocked = ""
        unreadable: list[str] = []
        for folder in folders:
            path = os.path.join(folder or ".", os.path.basename(name))
            try:
                mode = os.stat(path).st_mode
            except PermissionError:
                unreadable.append(folder)
                continue
            except (OSError, ValueError):
                continue
            if stat.S_ISREG(mode) and os.access(path, os.X_OK):
                return Found(path, blocked, tuple(unreadable))
            if stat.S_ISREG(mode):
                blocked = blocked or path
        return Found("", blocked, tuple(unreadable))

    def elf(self, path: str) -> Elf | Failure:
        def question() -> Elf | Failure:
            try:
                with _open(path) as file:
                    return read_elf(file)
            except (_NotRegularError, ElfError) as error:
                return Failure(DAMAGED, f"{path}: {error}")

        return _asked(path, question)

    def cached(self, prefix: str) -> dict[str, str] | Failure:
        path = "/etc/ld.so.cache"

        def question() -> dict[str, str]:
            with open(path, "rb") as file:
                return read_loader_cache(file.read(), os.uname().machine, prefix)

        return _asked(path, question)

    def platform(self) -> Platform:
        uname = os.uname()
        return Platform(
            kernel=uname.release,
            architecture=uname.machine,
            host_name=uname.nodename,
            glibc=_glibc(),
            uid=os.getuid(),
            groups=tuple(dict.fromkeys(_group_name(g) for g in (os.getegid(), *os.getgroups()))),
            own_python=sys.executable,
            chosen_python=self._python,
        )

    def resources(self) -> Resources:
        try:
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (ValueError, OSError):
            memory = -1
        return Resources(os.cpu_count(), memory if memory > 0 else None)


def _not_found(program: str, found: Found) -> Ran:
    if found.blocked:
        return Ran("not executable", note=f"{found.blocked} may not be executed")
    hidden = f"unreadable: {', '.join(found.unreadable)}" if found.unreadable else ""
    if "/" in program:
        return Ran("not allowed" if hidden else "not there", note=hidden or f"no {program}")
    # Who may not look into a folder on PATH cannot run what is in it either.
    return Ran("not there", note="; ".join(filter(None, (f"no {program} on PATH", hidden))))


def _open(path: str) -> BinaryIO:
    """Open a regular file; nothing else, for opening a device already does something to it."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise _NotRegularError("not a regular file")
    # Some files of /proc would wait for news without O_NONBLOCK.
    return open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "other"


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _glibc() -> str | None:
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):
        return None
    return version if name == "glibc" else None
