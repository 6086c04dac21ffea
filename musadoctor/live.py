"""This machine, asked. The one module that opens files, reads variables and starts programs."""

import errno
import grp
import os
import platform
import stat
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

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
    Stat,
)

LONGEST_TEXT = 4 << 20
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENODEV}
_REFUSED = {errno.EACCES, errno.EPERM}
T = TypeVar("T")


def _failure(path: str, error: OSError) -> Failure:
    if error.errno in _ABSENT:
        return Failure(NOT_THERE, f"no {path}")
    kind = NOT_ALLOWED if error.errno in _REFUSED else ERROR
    return Failure(kind, f"{path}: {error.strerror or error}")


def _asked(path: str, question: Callable[[], T]) -> T | Failure:
    try:
        return question()
    except OSError as error:
        return _failure(path, error)
    except ValueError as error:  # a NUL in a path
        return Failure(ERROR, f"{path!r}: {error}")


class Live:
    """The machine that musadoctor runs on."""

    def __init__(self, deadline: float, python: str | None = None) -> None:
        """Ask until ``deadline``, a value of ``time.monotonic()``; ``python`` is to be examined."""
        self._deadline = deadline
        self._python = python
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Stop every running program; each answers within its time to die."""
        self._cancelled.set()

    def run(self, command: Command) -> Ran:
        found = self.find(command.program)
        if not found.path:
            if found.blocked:
                return Ran("not executable", note=f"{found.blocked} may not be executed")
            note = f"no {command.program}" + ("" if "/" in command.program else " on PATH")
            if found.unreadable:
                note += f"; unreadable: {', '.join(found.unreadable)}"
            return Ran("not there", note=note)
        left = self._deadline - time.monotonic()
        if left <= 0:
            return Ran("timed out", note="not started: the time for the report was over")
        return runner.run(
            [found.path, *command.arguments],
            limit=min(command.seconds, left),
            # Vendor tools print Chinese under a Chinese locale.
            env={**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "C", **dict(command.environment)},
            answers=command.answers,
            cancelled=self._cancelled,
        )

    def read(self, path: str) -> str | Failure:
        def question() -> str | Failure:
            # A FIFO would wait for its writer without O_NONBLOCK.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return Failure(ERROR, f"{path}: not a regular file")
                return file.read(LONGEST_TEXT).decode("utf-8", "replace")

        return _asked(path, question)

    def list(self, path: str) -> tuple[str, ...] | Failure:
        return _asked(path, lambda: tuple(sorted(os.listdir(path))))

    def stat(self, path: str) -> Stat | Failure:
        def question() -> Stat | Failure:
            real = os.path.realpath(path)
            try:
                found = os.stat(path)
            except FileNotFoundError:
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
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return Failure(DAMAGED, f"{path}: not a regular file")
                try:
                    return read_elf(file)
                except ElfError as error:
                    return Failure(DAMAGED, f"{path}: {error}")

        return _asked(path, question)

    def cached(self, prefix: str) -> dict[str, str] | Failure:
        path = "/etc/ld.so.cache"

        def question() -> dict[str, str]:
            with open(path, "rb") as file:
                entries = read_loader_cache(file.read(), platform.machine())
            return {name: at for name, at in entries.items() if name.startswith(prefix)}

        return _asked(path, question)

    def platform(self) -> Platform:
        uname = os.uname()
        cpus, memory = _resources()
        return Platform(
            kernel=uname.release,
            architecture=uname.machine,
            host_name=uname.nodename,
            glibc=_glibc(),
            logical_cpus=cpus,
            memory_bytes=memory,
            uid=os.getuid(),
            groups=tuple(dict.fromkeys(_group_name(g) for g in (os.getegid(), *os.getgroups()))),
            own_python=sys.executable,
            chosen_python=self._python,
        )


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


def _resources() -> tuple[int | None, int | None]:
    """Logical CPUs and bytes of physical memory."""
    try:
        import psutil  # noqa: PLC0415 - 30 ms

        return psutil.cpu_count(), psutil.virtual_memory().total
    except Exception:  # noqa: BLE001 - without /proc it raises what it likes
        return os.cpu_count(), None
