"""What the tests of the door need of the operating system: other users, leftovers, stuck files."""

import ctypes
import os
import pickle
import struct
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar, cast

import pytest

T = TypeVar("T")
NOBODY = 65534
_libc = ctypes.CDLL(None, use_errno=True)


def in_child(question: Callable[[], T], *, before: Callable[[], None]) -> T:
    """The answer of a forked child that did ``before`` first."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before()
            told: object = question()
        except BaseException as error:  # noqa: BLE001 - the child must end here
            told = error
        os.write(writer, pickle.dumps(told))
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        answer = cast("T | BaseException", pickle.loads(pipe.read()))
    os.waitpid(child, 0)
    if isinstance(answer, BaseException):
        raise answer
    return answer


def as_nobody(question: Callable[[], T]) -> T:
    """The answer that a user without rights gets; needs root, or is that user already."""

    def become_nobody() -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    if os.getuid() != 0:
        return question()
    return in_child(question, before=become_nobody)


def without_proc(question: Callable[[], T]) -> T:
    """The answer where nothing is mounted on /proc."""

    def hide_proc() -> None:
        _call("unshare", 0x00020000)  # CLONE_NEWNS
        _call("mount", b"none", b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE
        _call("mount", b"none", b"/proc", b"tmpfs", 0, None)

    if os.getuid() != 0:
        pytest.skip("only root may mount")
    try:
        return in_child(question, before=hide_proc)
    except PermissionError as error:
        pytest.skip(f"this system lets nobody mount: {error}")


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


@contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that any user may look into; pytest's own are closed."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


class Brood:
    """Whatever a test starts, and what that starts: all bear a variable of this test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._mark = f"MUSADOCTOR_TEST_BROOD={uuid.uuid4()}"
        monkeypatch.setenv(*self._mark.split("="))

    def alive(self) -> set[int]:
        """Those that live; zombies have no environment left."""
        found = set()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if self._mark.encode() in file.read().split(b"\0"):
                    found.add(int(name))
        return found


class StuckFiles:
    """A FUSE file system whose file ``stuck`` never answers a read; ``later`` says "try again".

    What reads ``stuck`` hangs in the kernel, in state D, and no signal ends it.
    """

    _HEADER = struct.Struct("<IIQQIIII")
    _INIT, _LOOKUP, _GETATTR, _OPEN, _READ, _OPENDIR = 26, 1, 3, 14, 15, 27
    _UNANSWERED = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET
    _DIRECT_IO = 1

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._waiting: list[int] = []
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0,allow_other"
        try:
            _call("mount", b"stuck", bytes(folder), b"fuse.stuck", 0, options.encode())
        except OSError:
            os.close(self._device)
            raise
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def release(self) -> None:
        """Answer all who wait, with an error, and unmount."""
        for unique in self._waiting:
            os.write(self._device, struct.pack("<IiQ", 16, -5, unique))
        _call("umount2", bytes(self.folder), 2)  # MNT_DETACH
        self._thread.join()
        os.close(self._device)

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, 1 << 18)
            except OSError:  # unmounted
                return
            _, code, unique, node, *_ = self._HEADER.unpack_from(request)
            if code == self._READ and node == 2:
                self._waiting.append(unique)
            elif code not in self._UNANSWERED:
                error = -11 if code == self._READ else 0
                body = b"" if error else self._answer(code, node, request[40:])
                header = struct.pack("<IiQ", 16 + len(body), error, unique)
                with suppress(FileNotFoundError):  # the asker was killed
                    os.write(self._device, header + body)

    def _answer(self, code: int, node: int, rest: bytes) -> bytes:
        if code == self._INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0)
        if code == self._LOOKUP:
            found = 2 if rest == b"stuck\0" else 3
            return struct.pack("<QQQQII", found, 0, 60, 60, 0, 0) + self._attributes(found)
        if code == self._GETATTR:
            return struct.pack("<QII", 60, 0, 0) + self._attributes(node)
        if code in {self._OPEN, self._OPENDIR}:
            return struct.pack("<QII", 0, self._DIRECT_IO, 0)
        return b""

    @staticmethod
    def _attributes(node: int) -> bytes:
        mode = 0o040755 if node == 1 else 0o100644
        return struct.pack("<6Q10I", node, 100, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


@contextmanager
def stuck_files(folder: Path) -> Iterator[StuckFiles]:
    """The file system, mounted on ``folder`` where the machine allows it, and gone afterwards."""
    try:
        files = StuckFiles(folder)
    except OSError as error:
        pytest.skip(f"this system has no FUSE for us: {error}")
    try:
        yield files
    finally:
        files.release()
