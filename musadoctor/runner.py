"""Run a program that may be absent, broken, stuck or endless: never raise, hang or grow."""

import contextlib
import errno
import os
import re
import resource
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from musadoctor.printable import printable
from musadoctor.system import Ran

KEPT = 1 << 20
"""Bytes kept of each stream."""
LINES_KEPT = 200
"""Lines kept of a program's output where only some are wanted: the first and the last of them."""
FLOOD = 16 * KEPT
"""Bytes on all streams together after which a program is stopped."""
TERM_GRACE = 0.3
KILL_GRACE = 0.4
"""Seconds that a program has to die; together they are what a report may take over its limit."""
DRAIN = 0.2
"""Seconds to wait for output that a grandchild may still hold back after the program has ended."""

LAST_WORDS = 16 << 10
"""Bytes kept of what a program of the user's says on its standard error."""

_START_FAILURES = {
    errno.EACCES: "not allowed",
    errno.EPERM: "not allowed",
    errno.ENOEXEC: "wrong format",
    errno.ELIBBAD: "wrong format",
    # A cut file, on the way to its interpreter's name.
    errno.EIO: "wrong format",
    # The file was there a moment ago, so it is its interpreter or loader that is not.
    errno.ENOENT: "wrong format",
}
_abandoned: list["subprocess.Popen[bytes]"] = []
"""Held, for Python warns of a process that is forgotten while it lives."""
_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


def run(
    argv: Sequence[str],
    *,
    limit: float,
    env: Mapping[str, str],
    answers: bool,
    cancelled: threading.Event,
    keeps: str = "",
    heard: Callable[[bytes], None] | None = None,
    given: str = "",
    room: int = KEPT,
    writes: int = 0,
) -> Ran:
    """Run ``argv`` for at most ``limit`` seconds, in a session of its own.

    With ``answers`` the program gets a private descriptor, whose number is appended to its
    arguments. With ``keeps``, a pattern, only the lines of its output that match are kept, and the
    note says of how many. ``heard`` gets what comes on the private descriptor as it comes.
    ``given`` is its standard input, ``room`` the bytes kept of each stream, ``writes`` the bytes
    that it and what it starts may write (0: no limit). Whatever it leaves behind in its session is
    killed.
    """
    begun = time.monotonic()
    pipe: tuple[int, ...] = ()
    stdin = subprocess.DEVNULL
    try:
        pipe = os.pipe() if answers else ()
        stdin = _holding(given) if given else stdin
        process = subprocess.Popen(  # noqa: S603 - argv comes from the closed list of commands
            [*argv, *map(str, pipe[1:])],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=env,
            pass_fds=pipe[1:],
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        _close(pipe[:1])
        number = error.errno if isinstance(error, OSError) else None
        status = _START_FAILURES.get(number or 0, "error")
        return Ran(status, note=f"{argv[0]}: {os.strerror(number) if number else error}")
    finally:
        _close((*pipe[1:], *([stdin] if stdin >= 0 else [])))

    with contextlib.suppress(OSError):
        # A crash leaves no core file in the user's folder.
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
    assert process.stdout is not None
    assert process.stderr is not None
    streams = [process.stdout.fileno(), process.stderr.fileno(), *pipe[:1]]
    kept: dict[int, bytearray] = {stream: bytearray() for stream in streams}
    seen, stopped = 0, "interrupted"
    try:
        bounds = _Bounds(FLOOD if keeps else room, begun + limit, writes, cancelled)
        listeners = dict.fromkeys(pipe[:1], heard) if heard else {}
        seen, stopped = _collect(process, kept, bounds, listeners)
    finally:
        stuck = _end_session(process, asked=bool(stopped))
        process.stdout.close()
        process.stderr.close()
        _close(pipe[:1])

    if process.returncode is None:
        _abandoned.append(process)
    status, note = _judge(process.returncode, stopped, stuck, limit, writes)
    if seen > sum(map(len, kept.values())):
        note = f"{note}, cut: {seen} bytes" if note else f"output cut: {seen} bytes"
    if keeps:
        wanted = _wanted(kept[streams[0]], keeps)
        note = f"{note}, {wanted}" if note else wanted
    out, err, *answer = (_printable(data[:room]) for data in kept.values())
    seconds = time.monotonic() - begun
    return Ran(status, process.returncode, out, err, "".join(answer), note, seconds)


def stream(
    argv: Sequence[str],
    *,
    limit: float,
    cancelled: threading.Event,
    heard: Callable[[bytes], bool],
    given: bytes = b"",
    changes: Mapping[str, str] | None = None,
) -> Ran:
    """Run the user's own program, and hand on what it prints as it comes; nothing of it is kept.

    It is stopped where ``heard`` answers ``False`` (status ``flooded``), after ``limit`` seconds,
    or when ``cancelled`` is set (both ``timed out``). ``given`` is written to its standard input,
    which then stays open until the program ends: a connection's far side can tell that we are
    still there. The last ``LAST_WORDS`` bytes of its standard error are in the answer.
    ``changes`` are variables to set.
    """
    begun = time.monotonic()
    try:
        process = subprocess.Popen(  # noqa: S603 - an engine that the user chose
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **(changes or {})},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        missing = number == errno.ENOENT
        status = "not there" if missing else _START_FAILURES.get(number or 0, "error")
        return Ran(status, note=f"{argv[0]}: {os.strerror(number) if number else error}")
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    said = bytearray()

    def keep(chunk: bytes) -> bool:
        said.extend(chunk)
        del said[:-LAST_WORDS]
        return True

    listeners = {process.stdout.fileno(): heard, process.stderr.fileno(): keep}
    stopped = "interrupted"
    try:
        stopped = _converse(process, given, begun + limit, cancelled, listeners)
    finally:
        stuck = _end_session(process, asked=bool(stopped))
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
    if process.returncode is None:
        _abandoned.append(process)
    status, note = _judge(process.returncode, stopped, stuck, limit, 0)
    seconds = time.monotonic() - begun
    return Ran(status, process.returncode, "", _printable(said), "", note, seconds)


def _converse(
    process: "subprocess.Popen[bytes]",
    given: bytes,
    end: float,
    cancelled: threading.Event,
    listeners: Mapping[int, Callable[[bytes], bool]],
) -> str:
    """Write and read until the program ends; why it has to be stopped, or ``""``."""
    assert process.stdin is not None
    source, left = process.stdin.fileno(), memoryview(given)
    ended = False
    with selectors.PollSelector() as selector:
        for pipe in (source, *listeners):
            os.set_blocking(pipe, False)
            wanted = selectors.EVENT_WRITE if pipe == source else selectors.EVENT_READ
            selector.register(pipe, wanted)
        while not cancelled.is_set():
            if not ended and process.poll() is not None:
                ended, end = True, time.monotonic() + DRAIN
            rest = end - time.monotonic()
            if rest <= 0 and not ended:
                return "timed out"
            longest = DRAIN if selector.get_map() else 0.001
            ready = selector.select(max(0.0, min(rest, longest)))
            for key, _ in ready:
                if key.fd == source:
                    left = _write(selector, source, left)
                elif not _hand_on(selector, key.fd, listeners[key.fd]):
                    return "flooded"
            if ended and (rest <= 0 or not ready):
                return ""
    return "cancelled"


def _hand_on(
    selector: selectors.BaseSelector, pipe: int, listener: Callable[[bytes], bool]
) -> bool:
    """Give what has come to its listener; whether more is wanted."""
    chunk = os.read(pipe, 1 << 16)
    if not chunk:
        selector.unregister(pipe)
    return not chunk or listener(chunk)


def _write(selector: selectors.BaseSelector, pipe: int, left: memoryview) -> memoryview:
    """Write what fits; what is left then."""
    try:
        left = left[os.write(pipe, left[: 1 << 16]) :]
    except BrokenPipeError:  # the program does not read on
        left = left[:0]
    if not left:
        selector.unregister(pipe)
    return left


def _holding(text: str) -> int:
    """A descriptor from which ``text`` can be read, and opened again as ``/dev/stdin``."""
    descriptor = os.memfd_create("given")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(text.encode("utf-8", "replace"))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def stand_by(argv: Sequence[str], changes: Mapping[str, str]) -> int | str:
    """Run the user's own program with this process's streams; its exit code, or why not started.

    What ends musadoctor ends the program: SIGTERM and SIGHUP are passed on, and an interrupt from
    the terminal reaches it without our help. A program that a signal ended has the exit code that
    a shell would tell, 128 and the signal's number.
    """
    started: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        for process in started:
            process.send_signal(number)
        if not started:  # it may run already, and is not known here yet
            early.append(number)

    def leave_it(_number: int, _frame: object) -> None:
        """Not SIG_IGN, for that the program would inherit."""

    handlers = {signal.SIGINT: leave_it, signal.SIGTERM: pass_on, signal.SIGHUP: pass_on}
    ignored = {number for number in handlers if signal.getsignal(number) == signal.SIG_IGN}
    before = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if number not in ignored
    }
    try:
        process = subprocess.Popen(argv, env={**os.environ, **changes})  # noqa: S603 - as asked for
        started.append(process)
        for sent in early:
            process.send_signal(sent)
        code = process.wait()
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        return f"{argv[0]}: {os.strerror(number) if number else error}"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class _Bounds(NamedTuple):
    """What ends a program that does not end itself."""

    kept: int
    """Bytes of each stream; what is beyond them is counted only."""
    end: float
    writes: int
    cancelled: threading.Event


def _collect(
    process: "subprocess.Popen[bytes]",
    kept: Mapping[int, bytearray],
    bounds: _Bounds,
    listeners: Mapping[int, Callable[[bytes], None]],
) -> tuple[int, str]:
    """Read until the program ends; how much there was, and why it has to be stopped, or ``""``."""
    seen = 0
    end, count_at = bounds.end, time.monotonic()
    ended = False
    with selectors.PollSelector() as selector:
        for stream in kept:
            os.set_blocking(stream, False)
            selector.register(stream, selectors.EVENT_READ)
        while not bounds.cancelled.is_set():
            if not ended and process.poll() is not None:
                ended = True
                end = time.monotonic() + DRAIN
            left = end - time.monotonic()
            if left <= 0 and not ended:
                return seen, "timed out"
            # A program may close its streams and live on.
            longest = DRAIN if selector.get_map() else 0.001
            ready = selector.select(max(0.0, min(left, longest)))
            if ended and not ready:
                return seen, ""
            for key, _ in ready:
                heard = listeners.get(key.fd)
                seen += _read(selector, key.fd, kept[key.fd], bounds.kept, heard)
            if seen > FLOOD:
                return seen, "flooded"
            if bounds.writes and time.monotonic() >= count_at:
                count_at = time.monotonic() + DRAIN
                if sum(map(_written, _alive(process))) > bounds.writes:
                    return seen, "wrote"
    return seen, "cancelled"


def _read(
    selector: selectors.BaseSelector,
    stream: int,
    kept: bytearray,
    most: int,
    heard: Callable[[bytes], None] | None,
) -> int:
    chunk = os.read(stream, 1 << 16)
    if not chunk:
        selector.unregister(stream)
    kept += chunk[: max(0, most - len(kept))]
    if heard and chunk:
        heard(chunk)
    return len(chunk)


def _wanted(out: bytearray, keeps: str) -> str:
    """Leave the lines in ``out`` that match, and say how many of how many those are."""
    pattern = re.compile(keeps.encode())
    lines = out.splitlines()
    found = [line for line in lines if pattern.search(line)]
    if len(found) > LINES_KEPT:
        found = found[: LINES_KEPT // 2] + found[-LINES_KEPT // 2 :]
    out[:] = b"".join(line + b"\n" for line in found)
    return f"{len(found)} of {len(lines)} lines kept"


def _end_session(process: "subprocess.Popen[bytes]", *, asked: bool) -> str:
    """Kill the program where it was to be stopped, and in any case what it left behind.

    Never waits for what does not die (state D); says who that is.
    """
    if asked:
        _signal_group(process.pid, signal.SIGTERM)
        end = time.monotonic() + TERM_GRACE
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
    if not _signal_group(process.pid, signal.SIGKILL) and not asked:
        return ""
    end = time.monotonic() + KILL_GRACE
    while alive := _alive(process):
        if time.monotonic() >= end:
            return "; ".join(map(_where, alive))
        for pid in alive:
            # A shell gives its jobs groups of their own.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return ""


def _signal_group(group: int, number: signal.Signals) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _alive(process: "subprocess.Popen[bytes]") -> list[int]:
    """The program and whoever else lives in its session."""
    session = str(process.pid)
    others: list[int] = []
    with contextlib.suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            fields = _kernel_says(name, "stat").rpartition(") ")[2].split()
            if fields[3:4] == [session] and fields[0] not in {"Z", "X"} and name != session:
                others.append(int(name))
    return [*([process.pid] if process.poll() is None else []), *others]


def _where(pid: int) -> str:
    """Where in the kernel a process that does not die is waiting."""
    name, _, rest = _kernel_says(pid, "stat").partition("(")[2].rpartition(") ")
    channel = _kernel_says(pid, "wchan").strip()
    waiting = f", waiting in {channel}" if channel not in {"", "0"} else ""
    return f"process {pid} ({name}), state {rest[:1] or '?'}{waiting}"


def _kernel_says(pid: int | str, file: str) -> str:
    try:
        with open(f"/proc/{pid}/{file}", encoding="utf-8", errors="replace") as opened:
            return opened.read()
    except OSError:  # ended, or there is no /proc
        return ""


def _written(pid: int) -> int:
    """Bytes that a process, and the children that it has waited for, have written anywhere."""
    found = re.search(r"^wchar: (\d+)", _kernel_says(pid, "io"), re.MULTILINE)
    return int(found[1]) if found else 0


def _judge(
    code: int | None, stopped: str, stuck: str, limit: float, writes: int
) -> tuple[str, str]:
    if stopped:
        why = {
            "timed out": f"no answer in {limit:.3g} s",
            "flooded": f"more than {FLOOD >> 20} MiB of output",
            "wrote": f"more than {writes >> 20} MiB written",
        }.get(stopped, stopped)
        status = "flooded" if stopped in {"flooded", "wrote"} else "timed out"
        return status, f"{why}, and it cannot be killed: {stuck}" if stuck else f"{why}, killed"
    left = f"left behind, cannot be killed: {stuck}" if stuck else ""
    if not code:
        return "ok", left
    note = f"exit code {code}" if code > 0 else _signal_name(-code)
    return "failed" if code > 0 else "signal", f"{note}; {left}" if left else note


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _printable(data: bytearray) -> str:
    """Text that no terminal obeys, one kind of line end, no colours."""
    text = data.decode("utf-8", "replace")
    if text.isprintable():
        return text
    return printable(_COLOURS.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
