"""From bytes to lines: encodings, escape codes, Markdown's marks, prompts.

Of a long text only what is near a telling word is decoded; the words are looked for in its bytes,
so that 50 MB cost little more than one pass over them for each word.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

MOST_BYTES = 64 << 20
LONGEST_LINE = 2000
"""Bytes; a longer line is taken in parts of this length."""
WHOLE = 1 << 19
"""A text of at most so many bytes is looked at whole, of a longer one as many at either end."""
MOST_HITS = 2000
"""So many lines with a telling word are looked at from either end, for each word."""
NEAR = 30
"""Lines after one with a telling word that are looked at too."""

_WORDS = tuple(
    word.encode()
    for word in (
        *("musa", "MUSA", "mthreads", "mtgpu", "MTGPU", "torch", "MTT ", "1ed5", "1ED5", "libm"),
        *("rror", "RROR", "fail", "Fail", "FAIL", "annot", "xception", "ockup", "PVR", "GLIBC"),
        *("ersion", "ython", "XID", "/dev/dri", "uid=", "Runtime", "dkms", "docker"),
    )
) + tuple("摩尔线程".encode(encoding) for encoding in ("utf-8", "gb18030"))
_BINARY = (b"\x7fELF", b"\x89PNG", b"PK\x03\x04", b"\x1f\x8b", b"%PDF", b"\xff\xd8\xff", b"BZh")
_MARKS = (b"\xff\xfe", b"\xfe\xff")
_HEAD = 4096
_CONTROLS = bytes(code for code in (*range(1, 7), *range(14, 27), 28, 29, 30, 31))
_MOST_CONTROLS = 0.05

_ESCAPES = re.compile(
    r"""
      \x1b \[ [0-9;?]{0,20} [ -/]? [@-~]             # colours and moves
    | \x1b \] [^\x07\x1b]{0,200} (?: \x07 | \x1b\\ )  # titles and links
    | \x1b [@-Z\\-_]
    """,
    re.VERBOSE,
)
_INVISIBLE = (
    *(*range(9), 11, 12, *range(14, 32), *range(0x7F, 0xA0), 0x200B, 0x200E, 0x200F, 0xFEFF),
    *(*range(0x2028, 0x202F), *range(0x2066, 0x206A)),  # ends of lines, and turns of the writing
)
_NOISE = str.maketrans(
    dict.fromkeys(_INVISIBLE, "")
    | {0xA0: " ", 0x3000: " ", 0xFF1A: ":", 0xFF1D: "=", 0xFF0C: ",", 0xFF08: "(", 0xFF09: ")"}
)
_LOADER = (
    (re.compile(": ?无法打开共享对象文件"), ": cannot open shared object file"),
    (re.compile(": ?未定义的?符号"), ": undefined symbol"),
    (re.compile(": ?文件(?:过|太)短"), ": file too short"),
    (re.compile(": ?无效的? ?ELF ?(?:文件)?头"), ": invalid ELF header"),
)
"""What the loader says in a Chinese locale, and in the words that everything looks for."""
_ENTITIES = {
    "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#34;": '"', "&#39;": "'", "&apos;": "'",
    "&nbsp;": " ", "&#160;": " ", "&amp;": "&",
}  # fmt: skip
_TAG = re.compile(
    r"(?i)</?(?:br|pre|code|p|div|span|details|summary|table|tbody|thead|tr|t[dh]|[ou]l|li|b|em"
    r"|strong)(?:[ ][^<>\n]{0,200})?[ ]?/?>"
)
_QUOTE = re.compile(r"[ \t]{0,8}(?:>[ \t]?){1,9}")
_LIST = re.compile(r"[ \t]{0,12}(?:[-*+\u2022]|\d{1,2}[.)])[ \t]+(?=\S)")
_RANK = re.compile(r"\[(?:rank|TP|DP)[\d ,]{1,9}\]:?[ \t]?")
_PROMPT = re.compile(
    r"""
    [ \t]{0,8}
    (?: \([\w.-]{1,40}\) [ \t]* )?                    # (base)
    (?: [\w.-]{1,40} @ [\w.-]{1,60} : [^$#\n]{0,120} [$#]
      | \[ [^\]\n]{1,80} \] [$#]
      | [$#] (?=[ \t])
    ) [ \t]*
    """,
    re.VERBOSE,
)


class TranscriptError(ValueError):
    """A text cannot be read as a transcript."""


class Line(NamedTuple):
    """One line, without the marks of what it was pasted into."""

    name: str
    """The text's name, empty where there is only one text."""
    number: int
    at: int
    """The number that it would have if all texts were one."""
    text: str
    prompt: str = ""
    """Of a shell, which stood before the text."""

    @property
    def prefix(self) -> str:
        """What goes before its number where there are several texts."""
        return f"{self.name}, " if self.name else ""

    @property
    def where(self) -> str:
        """``line 12``, or ``dmesg.txt, line 12``."""
        return f"{self.prefix}line {self.number}"


def lines_of(data: bytes, name: str, after: int = 0) -> list[Line]:
    """The lines of a text that are worth a look.

    ``name`` goes before their numbers where there are several texts, ``after`` is the number of
    lines in those before.
    """
    plain = _as_ascii(data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\0", b"")
    raw = list(_parts(plain, _spans(plain)))
    encoding = _encoding(b"\n".join(part for _, part in raw))
    return [
        Line(name, number, after + number, *_bare(part.decode(encoding, "replace")))
        for number, part in raw
    ]


def refuse_binary(data: bytes, name: str) -> None:
    """See to it that this is a text.

    Raises:
        TranscriptError: it is an archive, a picture, a program, or the like.
    """
    head = data[:_HEAD]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    noisy = controls > len(head) * _MOST_CONTROLS and not (
        data.startswith(_MARKS) or _is_wide(data)
    )
    if noisy or head.startswith(_BINARY):
        raise TranscriptError(f"{name}: binary data, expected a text")


def _as_ascii(data: bytes) -> bytes:
    """The same text in an encoding that leaves ASCII as it is."""
    if data.startswith(_MARKS):
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    if _is_wide(data):
        little = data[1:_HEAD:2].count(0) >= data[:_HEAD:2].count(0)
        wide = data.decode("utf-16-le" if little else "utf-16-be", "replace")
        return wide.encode("utf-8", "replace")
    return data


def _is_wide(data: bytes) -> bool:
    """Whether this looks like UTF-16 without a mark: every other byte is 0 in English."""
    head = data[:_HEAD]
    return head.count(0) * 4 > len(head)


def _encoding(data: bytes) -> str:
    """The encoding that loses least; nobody names it."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        lost = {name: data.decode(name, "replace").count("\ufffd") for name in ("utf-8", "gb18030")}
        return min(lost, key=lambda name: lost[name])
    return "utf-8"


def _spans(data: bytes) -> list[tuple[int, int]]:
    """The parts that are looked at, from and to which byte."""
    if len(data) <= WHOLE:
        return [(0, len(data))]
    hits = {
        _line_begin(data, hit)
        for word in _WORDS
        for hit in (*_first(data, word), *_last(data, word))
    }
    spans: list[tuple[int, int]] = []
    done = 0
    for line in sorted(hits):
        begin = max(done, line)
        end = line
        for _ in range(NEAR):
            end = _line_end(data, end) + 1
        end = min(end, len(data))
        if end > begin:
            spans.append((begin, end))
            done = end
    return _ends(spans)


def _first(data: bytes, word: bytes) -> Iterator[int]:
    """Where the first lines with a word have it."""
    at = data.find(word)
    for _ in range(MOST_HITS):
        if at < 0:
            return
        yield at
        at = data.find(word, _line_end(data, at))


def _last(data: bytes, word: bytes) -> Iterator[int]:
    """Where the last lines with a word have it."""
    at = data.rfind(word)
    for _ in range(MOST_HITS):
        if at < 0:
            return
        yield at
        at = data.rfind(word, 0, _line_begin(data, at))


def _line_begin(data: bytes, at: int) -> int:
    """Where a line begins, or a part of an endless one."""
    lowest = max(0, at - LONGEST_LINE)
    found = data.rfind(b"\n", lowest, at)
    return lowest if found < 0 else found + 1


def _line_end(data: bytes, at: int) -> int:
    """Where a line ends, or a part of an endless one."""
    found = data.find(b"\n", at, at + LONGEST_LINE)
    return at + LONGEST_LINE if found < 0 else found


def _ends(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of too many parts the first and the last: what went wrong stands at the end of a log."""
    first: list[tuple[int, int]] = []
    last: list[tuple[int, int]] = []
    for source, kept in ((spans, first), (spans[::-1], last)):
        size = 0
        for span in source:
            if size > WHOLE:
                break
            kept.append(span)
            size += span[1] - span[0]
    return sorted({*first, *last})


def _parts(data: bytes, spans: list[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    """The lines in some parts of a text with their numbers, endless ones in pieces."""
    number, counted = 1, 0
    for begin, end in spans:
        number += data.count(b"\n", counted, begin)
        counted = begin
        for offset, line in enumerate(data[begin:end].split(b"\n")):
            for start in range(0, len(line), LONGEST_LINE):
                yield number + offset, line[start : start + LONGEST_LINE]


def _bare(line: str) -> tuple[str, str]:
    """A line without what a terminal, HTML, Markdown or a shell put around it; and the prompt."""
    if not (line.isascii() and line.isprintable()):
        line = _ESCAPES.sub("", line).translate(_NOISE)
        for pattern, words in _LOADER:
            line = pattern.sub(words, line)
    if "<" in line:
        line = _TAG.sub(" ", line)
    if "&" in line:
        for entity, character in _ENTITIES.items():
            line = line.replace(entity, character)
    for pattern in (_QUOTE, _LIST, _RANK):
        if found := pattern.match(line):
            line = line[found.end() :]
    prompt = _PROMPT.match(line)
    if prompt:
        line = line[prompt.end() :]
    return line.rstrip(), prompt[0] if prompt else ""
