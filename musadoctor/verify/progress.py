"""The line on a terminal that tells what is running on which device."""

import json
import threading
import time
from typing import TextIO, cast

BAR = 20
FULL, EMPTY = "\u2588", "\u2591"
PLAIN_FULL, PLAIN_EMPTY = "#", "."


class ProgressLine:
    """Follows what children say, and renews one line; silent where there is no terminal.

    It uses no colours, so that NO_COLOR asks for nothing more.
    """

    def __init__(self, stream: TextIO, columns: int) -> None:
        """Write on ``stream`` at most so many ``columns``."""
        self._stream = stream if stream.isatty() else None
        self._columns = columns
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self._halves: dict[str, bytes] = {}
        self._running: dict[str, tuple[str, str]] = {}
        self._steps: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        fits = _can_show(stream)
        self._full, self._empty = (FULL, EMPTY) if fits else (PLAIN_FULL, PLAIN_EMPTY)

    def heard(self, key: str, data: bytes) -> None:
        """Take in what the child ``key`` said; it may end in the middle of a line."""
        with self._lock:
            *lines, half = (self._halves.get(key, b"") + data).split(b"\n")
            self._halves[key] = half
            for line in lines:
                self._take_in(key, line)

    def _take_in(self, key: str, line: bytes) -> None:
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(value, dict):
            return
        said = cast("dict[str, object]", value)
        job = key.rpartition(":")[0]
        steps = said.get("steps")
        if isinstance(steps, int):
            # Another child of the same job takes what the one before did not come to.
            self._ended[job] = self._steps.setdefault(job, steps) - steps
            for other in [one for one in self._running if one.rpartition(":")[0] == job]:
                del self._running[other]
        elif "begin" in said:
            self._running[key] = (str(said.get("device")), str(said["begin"]))
        elif said.get("end") == "all":
            self._running.pop(key, None)
        elif said.get("device") and said.get("end") != "still there":
            self._ended[job] = self._ended.get(job, 0) + 1

    def draw(self) -> None:
        """Renew the line."""
        if self._stream is not None:
            self._put(self.line())

    def clear(self) -> None:
        """Leave the line empty."""
        if self._stream is not None:
            self._put("")

    def line(self) -> str:
        """What the line says now."""
        with self._lock:
            running = [" ".join(filter(None, pair)) for pair in self._running.values()]
            steps, ended = sum(self._steps.values()), sum(self._ended.values())
        filled = min(BAR, BAR * ended // steps) if steps else 0
        bar = self._full * filled + self._empty * (BAR - filled)
        seconds = f"{time.monotonic() - self._begun:.0f} s"
        text = f"{bar} {ended}/{steps}, {seconds}: {', '.join(running) or 'starting'}"
        # A line that the terminal wraps could not be renewed.
        room = self._columns - 1
        return text if len(text) <= room else f"{text[: room - 3]}..."

    def _put(self, text: str) -> None:
        assert self._stream is not None
        self._stream.write(f"\r{text:<{self._columns - 1}}\r{text}")
        self._stream.flush()


def _can_show(stream: TextIO) -> bool:
    try:
        f"{FULL}{EMPTY}".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
