"""A dependency file's bytes as text: what pip reads, and what Windows and China write besides."""

import codecs
import re
from typing import NamedTuple

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # Before UTF-16, whose mark begins this one's.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_COOKIE = re.compile(rb"coding[:=]\s*([-\w.]+)")
_COOKIE_WITHIN = 4096
"""Bytes from the start of a file that the two lines with a coding line are looked for in."""
_SLOW = frozenset({"idna", "punycode"})
"""Their time grows with the square of the length, and they are for host names."""
_SAMPLE = 4096
_CONTROL = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_CONTROL_BYTE = re.compile(_CONTROL.pattern.encode())


class Decoded(NamedTuple):
    """A file's text, and what is needed to write it back as it was."""

    text: str
    """Line ends as they are in the file, without the byte order mark."""
    encoding: str
    """``utf-8``, ``utf-8-sig``, ``utf-16-le``, ``gb18030``, ...; empty of what is no text."""
    problem: str = ""
    """Why it is no text: one clause."""
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """``text`` in the file's encoding, with its byte order mark.

        Raises:
            UnicodeEncodeError: the encoding lacks a character.
        """
        return self.bom + text.encode(self.encoding.removesuffix("-sig"))


def decode(data: bytes) -> Decoded:
    """The text of a dependency file.

    In this order: a byte order mark; UTF-16 without one, told by its NUL bytes; the coding line of
    PEP 263 within the first two lines, as pip takes it; UTF-8; GB18030, of which GBK and GB2312 are
    parts; Latin-1, for whatever is neither and holds no control characters. Beyond the coding line
    pip itself has the locale's encoding.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _strict(data[len(bom) :], encoding, bom)
    if b"\0" in data:
        return _with_nul(data)
    if (encoding := _declared(data)) and (found := _strict(data, encoding)).encoding:
        return found
    if (found := _strict(data, "utf-8")).encoding:
        return found
    if control := _CONTROL_BYTE.search(data):
        return _no_text(f"binary, byte {control.start() + 1} is no text")
    found = _strict(data, "gb18030")
    return found if found.encoding else _strict(data, "latin-1")


def line_end(text: str) -> str:
    r"""The line end that most lines of a text have; ``\n`` where none has one."""
    windows = text.count("\r\n")
    counts = {"\n": text.count("\n") - windows, "\r\n": windows, "\r": text.count("\r") - windows}
    return max(counts, key=counts.__getitem__)


def _no_text(problem: str) -> Decoded:
    return Decoded("", "", problem)


def _strict(data: bytes, encoding: str, bom: bytes = b"") -> Decoded:
    try:
        return Decoded(data.decode(encoding.removesuffix("-sig")), encoding, bom=bom)
    except (LookupError, ValueError) as error:
        at = f" at byte {error.start + 1}" if isinstance(error, UnicodeDecodeError) else ""
        return _no_text(f"not {encoding}{at}")


def _with_nul(data: bytes) -> Decoded:
    """Text in UTF-16 without a byte order mark, as PowerShell leaves it; or none."""
    sample = data[:_SAMPLE]
    little = sample[1::2].count(0) > sample[::2].count(0)
    found = _strict(data, "utf-16-le" if little else "utf-16-be")
    start = found.text[:_SAMPLE]
    latin = sum(character < "\x80" for character in start)
    if found.encoding and 4 * latin >= len(start) and not _CONTROL.search(found.text):
        return found
    at = data.find(b"\0") + 1
    return _no_text(f"binary, byte {at} is NUL")


def _declared(data: bytes) -> str:
    """The encoding that a coding line names; empty without one that Python can use."""
    for line in data[:_COOKIE_WITHIN].split(b"\n")[:2]:
        if line.startswith(b"#") and (cookie := _COOKIE.search(line)):
            try:
                name = codecs.lookup(cookie[1].decode("ascii")).name
            except (LookupError, ValueError):
                return ""
            return "" if name in _SLOW else name
    return ""
