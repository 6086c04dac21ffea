"""Reads the lines that the carried script prints, out of whatever else an engine lets through.

Everything here is data from other machines: bounded, and never looked at as more than text. Hosts
that share one stream know its mark, so one of them can answer in the name of another; an engine
that has a stream for each host knows better who speaks.
"""

import base64
import binascii
import re
import zlib

from musadoctor.fleet.answer import (
    DAMAGED,
    LONGEST_REASON,
    LONGEST_REPORT,
    NO_MUSADOCTOR,
    NO_PYTHON,
    TIMED_OUT,
    TOO_LARGE,
    Answer,
    line,
)
from musadoctor.fleet.carry.script import MARK
from musadoctor.printable import printable

LONGEST_LINE = 64 << 10
"""Bytes of a line; ours have two hundred."""
LONGEST_DATA = 8 << 20
"""Bytes of an answer before it is unpacked."""
MOST_DATA = 256 << 20
"""Bytes of all answers of which the end has not come; each comes in one go, when it is whole."""
MOST_HOSTS = 200_000
"""Names that are remembered; what is said in the name of more is dropped."""
FLOOD = 24 << 20
"""Bytes that a host may print; the longest answer with its marks has two thirds of it."""
OTHER_KEPT = 4 << 10
"""Bytes kept of what is not ours, the last: there is the reason why a host did not answer."""
FAILURES = {
    "no-musadoctor": (
        NO_MUSADOCTOR,
        "musadoctor is not installed there ({}); --bring takes it along",
    ),
    "no-python": (NO_PYTHON, "Python 3.10 or later is needed there; found: {}"),
    "no-tool": (NO_MUSADOCTOR, "{}"),
    "timed-out": (TIMED_OUT, "no answer in {} s"),
}
_GZIP = 16 + zlib.MAX_WBITS


class Frames:
    """Takes what an engine prints, piece by piece; gives the answers that are whole.

    Of each host the first answer counts.
    """

    def __init__(self, nonce: str) -> None:
        """Read the lines that the script of this ``nonce`` prints."""
        self._begin = f"{MARK} {nonce} ".encode()
        self._mark = re.compile(
            re.escape(self._begin) + rb"([A-Za-z0-9._:-]{1,255}) (data|end|failed)(?: (.*))?$"
        )
        self._half = b""
        self._long = False
        self._data: dict[str, bytearray] = {}
        self._held = 0
        self._told: set[str] = set()
        self._other = b""

    @property
    def begun(self) -> tuple[str, ...]:
        """Hosts of which a part has come, and the end has not."""
        return tuple(self._data)

    @property
    def other(self) -> str:
        """The last of what was printed that is not ours, fit for a terminal."""
        half = b"" if self._begin in self._half else self._half[-OTHER_KEPT:]
        text = (self._other + half)[-OTHER_KEPT:].decode("utf-8", "replace")
        return printable(text.replace("\r", "")).strip()

    def feed(self, piece: bytes) -> list[Answer]:
        """Take in what came; the answers that it completes."""
        *lines, self._half = (self._half + piece).split(b"\n")
        answers: list[Answer] = []
        for text in lines:
            if self._long:  # the end of a line that was too long
                self._long = False
            elif self._begin in text:
                answers += self._line(text.rstrip(b"\r"))
            elif text.strip():
                self._other = (self._other + text[-OTHER_KEPT:] + b"\n")[-OTHER_KEPT:]
        if len(self._half) > LONGEST_LINE:
            self._other = self._half[-OTHER_KEPT:]
            self._half, self._long = b"", True
        return answers

    def _line(self, text: bytes) -> list[Answer]:
        found = self._mark.search(text)
        if found is None:
            return []
        host, kind, rest = found[1].decode(), found[2], found[3] or b""
        if host in self._told:
            return []
        if host not in self._data and len(self._told) + len(self._data) >= MOST_HOSTS:
            return []
        if kind == b"data":
            data = self._data.setdefault(host, bytearray())
            if len(data) <= LONGEST_DATA and self._held <= MOST_DATA:
                data += rest
                self._held += len(rest)
            return []
        data = self._data.pop(host, bytearray())
        self._held -= len(data)
        self._told.add(host)
        if kind == b"failed":
            return [_failure(host, rest[: 4 * LONGEST_REASON].decode("utf-8", "replace"))]
        return [unpacked(host, data)]


class Ear:
    """Hears one host, which has a stream of its own, until it has answered or has said too much."""

    def __init__(self, nonce: str) -> None:
        """Hear the lines that the script of this ``nonce`` prints."""
        self.frames = Frames(nonce)
        self.answer: Answer | None = None
        self._heard = 0

    @property
    def flooded(self) -> bool:
        """Whether more has come than any answer has."""
        return self._heard > FLOOD

    def __call__(self, piece: bytes) -> bool:
        """Whether more is wanted: with the answer the host has done its part."""
        self._heard += len(piece)
        self.answer = next(iter(self.frames.feed(piece)), self.answer)
        return self.answer is None and not self.flooded


def flooded(host: str) -> Answer:
    """A host that said too much."""
    return Answer(host, None, TOO_LARGE, f"more than {FLOOD >> 20} MiB came, and no report")


def _failure(host: str, said: str) -> Answer:
    word, _, detail = said.partition(" ")
    kind, sentence = FAILURES.get(word, (DAMAGED, f"{word} {{}}"))
    return Answer(host, None, kind, line(sentence.replace("{}", line(detail))))


def unpacked(host: str, data: bytes | bytearray) -> Answer:
    """The report in the ``data`` lines of a host."""
    if len(data) > LONGEST_DATA:
        return Answer(host, None, TOO_LARGE, f"more than {LONGEST_DATA >> 20} MiB came")
    try:
        reader = zlib.decompressobj(_GZIP)
        raw = reader.decompress(base64.b64decode(bytes(data), validate=True), LONGEST_REPORT)
    except (binascii.Error, zlib.error) as error:
        return Answer(host, None, DAMAGED, f"the answer cannot be unpacked: {error}")
    if reader.unconsumed_tail:
        return Answer(host, None, TOO_LARGE, f"a report of more than {LONGEST_REPORT >> 20} MiB")
    if not reader.eof:
        return Answer(host, None, DAMAGED, "a part of the answer is missing")
    return _report(host, raw.decode("utf-8", "replace"))


def _report(host: str, text: str) -> Answer:
    """The JSON object among what musadoctor printed on both streams."""
    body, _, code = text.rstrip().rpartition("exit code ")
    start = 0 if body.startswith("{\n") else body.find("\n{\n") + 1
    end = body.rfind("\n}")
    if body.startswith("{", start) and end > start:
        return Answer(host, body[start : end + 2])
    said = line(body[-OTHER_KEPT:].strip().rpartition("\n")[2])
    return Answer(
        host, None, DAMAGED, f"no report, exit code {line(code, 20)}: {said or 'nothing was said'}"
    )
