"""The line on a terminal that tells who has not answered yet."""

import time
from collections.abc import Sequence
from typing import TextIO

from musadoctor.fleet.nodes import fold


class WaitingLine:
    """Follows the answers, and renews one line; silent where there is no terminal."""

    def __init__(self, stream: TextIO, hosts: Sequence[str], columns: int) -> None:
        """Wait for these ``hosts``; write on ``stream`` at most so many ``columns``."""
        self._stream = stream if stream.isatty() else None
        self._left = set(hosts)
        self._asked = len(self._left)
        self._room = columns - 1
        self._begun = time.monotonic()

    def arrived(self, host: str) -> None:
        """One host less; one that nobody waits for changes nothing."""
        self._left.discard(host)

    def line(self) -> str:
        """What the line says now."""
        left = set(self._left)
        seconds = time.monotonic() - self._begun
        counted = f"{self._asked - len(left)} of {self._asked} hosts answered, {seconds:.0f} s"
        text = f"{counted}; waiting for {fold(left)}" if left else counted
        # A line that the terminal wraps could not be renewed.
        return text if len(text) <= self._room else f"{text[: self._room - 3]}..."

    def draw(self) -> None:
        """Renew the line."""
        self._put(self.line())

    def clear(self) -> None:
        """Leave the line empty."""
        self._put("")

    def _put(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(f"\r{text:<{self._room}}\r{text}")
            self._stream.flush()
