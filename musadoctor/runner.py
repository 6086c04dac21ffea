"""Run a program that may be absent, broken, stuck or endless: never raise, never hang, never grow."""

import errno
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from musadoctor.system import Ran

KEPT = 1 << 20
"""Bytes kept of each stream."""
FLOOD = 16 * KEPT
"""Bytes on all streams together after which a program is stopped."""
TERM_GRACE = 0.3
KILL_GRACE = 0.7
"""Seconds that a program has to die; together they are what a report may take over its limit."""
DRAIN = 0.2
"""Seconds to wait for output that a grandchild may still hold back after the program has ended."""

_START_FAILURES = {
    errno.EACCES: "not allowed",
    errno.EPERM: "not allowed",
    errno.ENOEXEC: "wrong format",
    # The file was there a moment ago, so it is its interpreter or loader that is not.
    errno.ENOENT: "wrong format",
}


def run(
    argv: Sequence[str],
    *,
    limit: float,
    env: Mapping[str, str],
    answers: bool,
    cancelled: threading.Event,
) -> Ran:
    """Run ``argv`` for at most ``limit`` seconds, in a session of its own, with no input.

    With ``answers`` the program gets a private descriptor, whose number is appended to its
    arguments. Whatever it leaves behind in its process group is killed.
    """
    begun = time.monotonic()
    reader, writer = os.pipe() if answers else (-1, -1)
    try:
        process = subprocess.Popen(  # noqa: S603 - argv comes from the closed list of commands
            [*argv, str(writer)] if answers else list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=env,
            pass_fds=(writer,) if answers else (),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        if answers:
            os.close(reader)
        number = error.errno if isinstance(error, OSError) else None
        status = _START_FAILURES.get(number or 0, "error")
        return Ran(status, note=f"{argv[0]}: {os.strerror(number) if number else error}")
    finally:
        if answers:
            os.close(writer)

    assert process.stdout is not None
    assert process.stderr is not None
    streams = [process.stdout.fileno(), process.stderr.fileno(), *([reader] if answers else [])]
    kept, seen, stopped = _collect(process, streams, begun + limit, cancelled)
    _end_group(process, asked=stopped is not None)
    process.stdout.close()
    process.stderr.close()
    if answers:
        os.close(reader)

    code = process.poll()
    status, note = _judge(process.pid, code, stopped, limit)
    if seen > sum(len(buffer) for buffer in kept.values()):
        note = f"{note}, cut: {seen} bytes" if note else f"output cut: {seen} bytes"
    out, err, *answer = (_printable(kept[stream]) for stream in streams)
    return Ran(status, code, out, err, "".join(answer), note, time.monotonic() - begun)


def _collect(
    process: "subprocess.Popen[bytes]",
    streams: Sequence[int],
    end: float,
    cancelled: threading.Event,
) -> tuple[dict[int, bytearray], int, str | None]:
    """Read until the program ends; say why it has to be stopped where it does not."""
    kept = {stream: bytearray() for stream in streams}
    seen = 0
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            os.set_blocking(stream, False)
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left = end - time.monotonic()
            if cancelled.is_set():
                return kept, seen, "cancelled"
            if left <= 0:
                return kept, seen, "timed out"
            ended = process.poll() is not None
            ready = selector.select(DRAIN if ended else min(left, DRAIN))
            if ended and not ready:
                break
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    selector.unregister(key.fd)
                seen += len(chunk)
                kept[key.fd] += chunk[: max(0, KEPT - len(kept[key.fd]))]
            if seen > FLOOD:
                return kept, seen, "flooded"
    # It closed its streams; it may live on.
    while process.poll() is None:
        if cancelled.is_set():
            return kept, seen, "cancelled"
        if time.monotonic() >= end:
            return kept, seen, "timed out"
        time.sleep(0.002)
    return kept, seen, None


def _end_group(process: "subprocess.Popen[bytes]", *, asked: bool) -> None:
    """Kill the program where it was to be stopped, and in any case what it left behind."""
    if asked:
        _signal_group(process.pid, signal.SIGTERM)
        _await(process, TERM_GRACE)
    _signal_group(process.pid, signal.SIGKILL)
    _await(process, KILL_GRACE)


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def _await(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    # Not Popen.wait: a process in state D never ends, and what polls can give up.
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)


def _judge(pid: int, code: int | None, stopped: str | None, limit: float) -> tuple[str, str]:
    if code is None:
        return "timed out", f"no answer in {limit:.0f} s, and it cannot be killed: {_stuck(pid)}"
    if stopped == "timed out":
        return stopped, f"no answer in {limit:.0f} s, killed"
    if stopped == "flooded":
        return stopped, f"more than {FLOOD >> 20} MiB of output, killed"
    if stopped is not None:
        return "timed out", stopped
    if code < 0:
        try:
            return "signal", signal.Signals(-code).name
        except ValueError:
            return "signal", f"signal {-code}"
    return ("ok", "") if code == 0 else ("failed", f"exit code {code}")


def _stuck(pid: int) -> str:
    """Where in the kernel a process that does not die is waiting."""
    state = "?"
    channel = ""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            state = file.read().rpartition(") ")[2][:1]
        with open(f"/proc/{pid}/wchan", encoding="ascii", errors="replace") as file:
            channel = file.read().strip("0 \n")
    except OSError:
        pass
    return f"process {pid}, state {state}" + (f", waiting in {channel}" if channel else "")


def _printable(data: bytearray) -> str:
    """Text that no terminal obeys."""
    text = bytes(data).decode("utf-8", "replace")
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text.replace("\r\n", "\n")
    )
