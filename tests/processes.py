"""What the tests of the door need of the operating system: other users, leftovers, stuck files."""

import ctypes
import errno
import os
import pickle
import signal
import struct
import tempfile
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
    """The answer that a user without rights gets; whoever is not root is one already."""
    if os.getuid() != 0:
        return question()
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, 0)
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        return question()
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


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


class _StuckFiles:
    """A FUSE server. Its file ``stuck`` never answers a read; ``later`` says "try again"."""

    _HEADER = struct.Struct("<IIQQIIII")
    _LOOKUP, _FORGET, _GETATTR, _OPEN, _READ, _RELEASE, _INIT, _OPENDIR = (
        1,
        2,
        3,
        14,
        15,
        18,
        26,
        27,
    )
    _INTERRUPT, _READDIR, _RELEASEDIR, _BATCH_FORGET = 36, 28, 29, 42
    _DIRECT_IO = 1

    def __init__(self, device: int) -> None:
        self._device = device

    def serve(self) -> None:
        """Answer until nobody can ask any more."""
        with suppress(OSError):
            while request := os.read(self._device, 1 << 18):
                _, code, unique, node, *_ = self._HEADER.unpack_from(request)
                error, body = self._answer(code, node, request[40:])
                if error is not None:
                    header = struct.pack("<IiQ", 16 + len(body), -error, unique)
                    with suppress(FileNotFoundError):  # the asker was killed
                        os.write(self._device, header + body)

    def _answer(self, code: int, node: int, rest: bytes) -> tuple[int | None, bytes]:
        """An error number, 0 for none and ``None`` for no answer at all, and the answer."""
        found = {b"stuck\0": 2, b"later\0": 3}.get(rest, 0)
        errors: dict[tuple[int, int], int | None] = {
            (self._LOOKUP, 0): errno.ENOENT,
            (self._READ, 2): None,
            (self._READ, 3): errno.EAGAIN,
        }
        at = (code, found if code == self._LOOKUP else node)
        if code in {self._FORGET, self._INTERRUPT, self._BATCH_FORGET} or at in errors:
            return errors.get(at), b""
        opened = struct.pack("<QII", 0, self._DIRECT_IO, 0)
        answers = {
            self._INIT: struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0),
            self._LOOKUP: struct.pack("<QQQQII", found, 0, 60, 60, 0, 0) + self._attributes(found),
            self._GETATTR: struct.pack("<QII", 60, 0, 0) + self._attributes(node),
            self._OPEN: opened,
            self._OPENDIR: opened,
            self._READDIR: b"",
            self._RELEASE: b"",
            self._RELEASEDIR: b"",
        }
        return (0, answers[code]) if code in answers else (errno.ENOSYS, b"")

    @staticmethod
    def _attributes(node: int) -> bytes:
        mode = 0o040755 if node == 1 else 0o100644
        return struct.pack("<6Q10I", node, 100, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


@contextmanager
def stuck_files(folder: Path) -> Iterator[None]:
    """Mount, where the machine allows it, a file whose reader hangs in the kernel, in state D.

    No signal ends such a reader. Afterwards the connection is aborted, which wakes it.
    """
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        try:
            options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
            _call("mount", b"stuck", bytes(folder), b"fuse.stuck", 0, options.encode())
            # A process of its own: whatever becomes of the tests, with its end all are woken.
            server = os.fork()
            if server == 0:

                def end(*_: object) -> None:
                    _call("umount2", bytes(folder), 2)  # MNT_DETACH
                    os._exit(0)

                signal.signal(signal.SIGTERM, end)
                _call("prctl", 1, signal.SIGTERM)  # PR_SET_PDEATHSIG
                _StuckFiles(device).serve()
                os._exit(0)
        finally:
            os.close(device)
    except OSError as error:
        pytest.skip(f"this system has no FUSE for us: {error}")
    try:
        yield
    finally:
        os.kill(server, signal.SIGTERM)
        os.waitpid(server, 0)
