"""From bytes to lines: encodings, escape codes, Markdown's marks, prompts."""

import re
from collections.abc import Sequence
from typing import NamedTuple

MOST_BYTES = 64 << 20
SAMPLE_BYTES = 1 << 18
"""From the first byte that is no UTF-8 on, what tells Chinese encodings from damage."""
LONGEST_LINE = 2000
"""Characters; what is beyond them in a line is not looked at."""
MANY_LINES = 10_000
"""A longer text is thinned out to what is near a telling word."""
NEAR = 30

_ESCAPES = re.compile(
    r"\x1b\[[0-9;?]{0,20}[ -/]?[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b[@-Z\\-_]"
)
_NOISE = str.maketrans(
    {code: "" for code in (*range(9), 11, 12, *range(14, 32), 0x7F, 0x200B, 0x200E, 0x200F, 0xFEFF)}
    | {0xA0: " ", 0x3000: " ", 0xFF1A: ":", 0xFF1D: "=", 0xFF0C: ",", 0xFF08: "(", 0xFF09: ")"}
)
_QUOTE = re.compile(r"^[ \t]{0,8}(?:>[ \t]?){1,9}")
_LIST = re.compile(r"^[ \t]{0,12}(?:[-*+\u2022]|\d{1,2}[.)])[ \t]+(?=\S)")
_RANK = re.compile(r"^\[(?:rank|TP|DP)[\d ,]{1,9}\]:?[ \t]?")
_PROMPT = re.compile(
    r"^[ \t]{0,8}(?:\([\w.-]{1,40}\)[ \t]*)?"
    r"(?:[\w.-]{1,40}@[\w.-]{1,60}:[^$#\n]{0,120}[$#]|\[[^\]\n]{1,80}\][$#]|[$#](?=[ \t]))[ \t]*"
)
_TELLING = (
    *("musa", "mthreads", "mtgpu", "torch", "error", "Error", "MTT ", "libm", "Version", "version"),
    *("fail", "Fail", "ERROR", "1ed5", "Lockup", "cannot", "PVR", "python", "XID"),
)


class TranscriptError(ValueError):
    """A text cannot be read as a transcript."""


class Line(NamedTuple):
    """One line, without the marks of what it was pasted into."""

    where: str
    number: int
    text: str


def decode(data: bytes) -> str:
    """The text of bytes of an encoding that nobody names; no byte is refused."""
    for mark, encoding in (
        (b"\xef\xbb\xbf", "utf-8-sig"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    head = data[:4096]
    if len(head) > 3 and head.count(0) > len(head) // 4:
        little = head[1::2].count(0) >= head[::2].count(0)
        return data.decode("utf-16-le" if little else "utf-16-be", "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        part = data[max(0, error.start - 100) :][:SAMPLE_BYTES]
        lost = {name: part.decode(name, "replace").count("\ufffd") for name in ("utf-8", "gb18030")}
        return data.decode(min(lost, key=lambda name: lost[name]), "replace")


def lines_of(text: str, name: str) -> list[Line]:
    """The lines of a text; ``name`` goes before their numbers where there are several texts."""
    plain = _ESCAPES.sub("", text).translate(_NOISE).replace("\r\n", "\n").replace("\r", "\n")
    raw = plain.split("\n")
    prefix = f"{name}, line " if name else "line "
    wanted = range(len(raw)) if len(raw) <= MANY_LINES else _near(raw)
    return [Line(f"{prefix}{n + 1}", n + 1, _bare(raw[n][:LONGEST_LINE])) for n in wanted]


def _near(raw: Sequence[str]) -> list[int]:
    """The numbers of lines near a telling word, none whose text came often before."""
    seen: dict[str, int] = {}
    kept: list[int] = []
    until = -1
    for number, line in enumerate(raw):
        if not line:
            continue
        if any(word in line for word in _TELLING):
            times = seen[line] = seen.get(line, 0) + 1
            if times <= 3:  # noqa: PLR2004 - a table and its copy may share lines
                until = number + NEAR
                kept.append(number)
                continue
        if number <= until and seen.get(line, 0) == 0:
            kept.append(number)
    half = MANY_LINES // 2  # what went wrong stands at the end of a log
    return kept if len(kept) <= MANY_LINES else [*kept[:half], *kept[-half:]]


def _bare(line: str) -> str:
    text = _QUOTE.sub("", line, count=1)
    text = _LIST.sub("", text, count=1)
    text = _RANK.sub("", text, count=1)
    return _PROMPT.sub("", text, count=1).rstrip()
