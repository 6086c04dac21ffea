"""Opens what the user names, and cuts it into pieces that each hold whole documents.

Nothing is taken for what its name says: gzip and zstd are told by their first bytes. However much
comes out of a file, no more than one document of it is held.
"""

import codecs
import importlib
import io
import json
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, NamedTuple, cast

from musadoctor.fleet.answer import LONGEST_REPORT, line, too_much
from musadoctor.fleet.state import LeftOut
from musadoctor.printable import printable

STDIN = "standard input"
SUFFIXES = (".json", ".jsonl", ".ndjson", ".gz", ".zst")
"""Of the files that are read in a folder."""
PIECE = 1 << 20
"""Bytes of a piece, where no document in it is longer."""
MOST_WITHOUT_END = 1 << 30
"""Bytes that are skipped in search of the end of a document that is too long."""
MOST_SKIPPED_NAMES = 3

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BETWEEN = re.compile(r"[\s,\[\]\ufeff]*")
_KINDS = (
    (stat.S_ISDIR, "a folder in a folder"),
    (stat.S_ISFIFO, "a named pipe; give what it carries on standard input, as -"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class EndlessError(Exception):
    """A document that is too long has no end in sight."""


class Piece(NamedTuple):
    """A part of a file that holds whole documents."""

    source: str
    """The file."""
    line: int
    """Where the piece begins, counted from 1."""
    data: bytes
    whole: bool
    """Whether it is all that the file holds."""

    @property
    def where(self) -> str:
        """The file, and the line where it is a part of one."""
        return self.source if self.whole else f"{self.source}, line {self.line}"


def pieces(paths: Sequence[str]) -> Iterator[Piece | LeftOut]:
    """What is in the files and folders, and on standard input for ``-``, in their order."""
    for path in dict.fromkeys(paths):
        if path == "-":
            yield from _opened(STDIN, cast("IO[bytes]", sys.stdin.buffer))
        elif os.path.isdir(path):
            yield from _folder(path)
        else:
            yield from _file(path)


def _folder(path: str) -> Iterator[Piece | LeftOut]:
    """The files of a folder; what is not looked at is said."""
    try:
        names = sorted(entry.name for entry in os.scandir(path))
    except OSError as error:
        yield LeftOut(printable(path), f"cannot be listed: {error.strerror}")
        return
    skipped = [name for name in names if not name.endswith(SUFFIXES)]
    for name in names:
        if name.endswith(SUFFIXES):
            yield from _file(os.path.join(path, name))
    if skipped or not names:
        some = ", ".join(printable(name) for name in skipped[:MOST_SKIPPED_NAMES])
        more = ", ..." if len(skipped) > MOST_SKIPPED_NAMES else ""
        said = (
            f"not looked at: {len(skipped)} of other kinds ({some}{more})" if skipped else "empty"
        )
        yield LeftOut(
            printable(path), f"{said}; in a folder, files in {' '.join(SUFFIXES)} are read"
        )


def _file(path: str) -> Iterator[Piece | LeftOut]:
    source = printable(path)
    try:
        # A pipe that nobody writes to would keep a plain open() waiting for ever.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        yield LeftOut(source, f"cannot be read: {getattr(error, 'strerror', None) or error}")
        return
    mode = os.fstat(number).st_mode
    if not stat.S_ISREG(mode):
        os.close(number)
        kind = next((name for test, name in _KINDS if test(mode)), "no file")
        yield LeftOut(source, f"{kind}, expected a file of reports")
        return
    with os.fdopen(number, "rb") as file:
        yield from _opened(source, file)


def _opened(source: str, file: IO[bytes]) -> Iterator[Piece | LeftOut]:
    try:
        blocks = _unpacked(cast("io.BufferedReader", file))
    except ImportError:
        needs = 'needs the package zstandard: pip install "musadoctor[zstd]"'
        yield LeftOut(source, f"{needs}, or give what `zstd -d` makes of it")
        return
    except OSError as error:
        yield LeftOut(source, f"cannot be read: {error.strerror}")
        return
    trouble: list[str] = []
    try:
        yield from _cut(source, _until(trouble, blocks))
    except EndlessError as error:
        trouble.append(str(error))
    if trouble:
        yield LeftOut(source, f"damaged: {trouble[0]}; what stands before that was read")


def _until(trouble: list[str], blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks before the first that cannot be had; why goes into ``trouble``."""
    try:
        yield from blocks
    except Exception as error:  # noqa: BLE001 - of the disk, zlib, or one of two packages for zstd
        trouble.append(line(str(error), 200) or type(error).__name__)


def _unpacked(file: io.BufferedReader) -> Iterator[bytes]:
    """The file as it was before it was compressed.

    Raises:
        ImportError: nothing here unpacks zstd.
        OSError: nothing can be read.
    """
    start = file.peek(len(_ZSTD))
    if start.startswith(_GZIP):
        return _gunzipped(file)
    if not start.startswith(_ZSTD):
        return iter(lambda: file.read(PIECE), b"")
    try:
        library = importlib.import_module("compression.zstd")  # since Python 3.14
    except ImportError:
        library = importlib.import_module("zstandard")
        stream = library.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    else:
        stream = library.ZstdFile(file)
    read = cast("io.BufferedReader", stream).read1
    return iter(lambda: read(PIECE), b"")


def _gunzipped(file: io.BufferedReader) -> Iterator[bytes]:
    """All members of a gzip file; what stands before a damage is not lost, as with GzipFile."""
    data = file.read(PIECE)
    while data:
        member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        while data and not member.eof:
            if block := member.decompress(data, PIECE):
                yield block
            data = member.unconsumed_tail or member.unused_data or file.read(PIECE)
        if not member.eof:
            raise EOFError("the end is missing")
        while data and not (data := data.lstrip(b"\0")):  # a member may be filled up
            data = file.read(PIECE)


def _cut(source: str, blocks: Iterator[bytes]) -> Iterator[Piece | LeftOut]:
    """Pieces of about :data:`PIECE`, longer only where one document is."""
    held, at, enough, whole = b"", 1, PIECE, True
    coming = next(blocks, b"").removeprefix(codecs.BOM_UTF8)
    while coming:
        held += coming
        coming = next(blocks, b"")
        if len(held) < enough or not coming:
            continue
        end = _end(held)
        if end:
            yield Piece(source, at, held[:end], whole=False)
            at, held, enough, whole = at + held.count(b"\n", 0, end), held[end:], PIECE, False
        elif len(held) <= LONGEST_REPORT:
            enough = min(2 * len(held), LONGEST_REPORT + 1)
        else:
            yield LeftOut(f"{source}, line {at}", f"longer than {LONGEST_REPORT >> 20} MiB")
            lines, held = _skipped(held + coming, blocks)
            coming = next(blocks, b"")
            at, enough, whole = at + lines, PIECE, False
    if held.strip():
        yield Piece(source, at, held, whole)
    elif whole:
        yield LeftOut(source, "empty")


def _end(held: bytes) -> int:
    """Where a document begins that others come before; 0 where none is known to."""
    # In JSON, nothing but the end of a document is followed so by the next one.
    for between in (b"}\n{", b"}\r\n{"):
        if (found := held.rfind(between)) >= 0:
            return found + len(between) - 1
    if too_much(held):
        return 0
    # The structure is ASCII; so read, the text's places are those of the bytes.
    text = held.decode("latin-1")
    first = place = document_after(text, 0)
    decode = json.JSONDecoder(parse_int=len, parse_float=len).raw_decode
    with suppress(ValueError, RecursionError):
        while (after := document_after(text, decode(text, place)[1])) < len(text):
            place = after
    return place if place > first else 0


def document_after(text: str, place: int) -> int:
    """Where the next document begins: on a line of its own, behind the last, or in an array."""
    return cast("re.Match[str]", _BETWEEN.match(text, place)).end()


def split(piece: Piece) -> tuple[Piece, ...]:
    """Two pieces of what one has; none where it has but one document."""
    place = piece.data.find(b"}\n{", len(piece.data) // 2)
    if place < 0:
        place = piece.data.rfind(b"}\n{")
    if place < 0:
        return ()
    end = place + 2
    first, second = piece.data[:end], piece.data[end:]
    later = piece.line + first.count(b"\n")
    return (
        piece._replace(data=first, whole=False),
        Piece(piece.source, later, second, whole=False),
    )


def _skipped(held: bytes, blocks: Iterator[bytes]) -> tuple[int, bytes]:
    """Go on to the next line that may begin a document: the lines passed, and what is read of it.

    Raises:
        EndlessError: there is none for too long.
    """
    lines = passed = 0
    while passed < MOST_WITHOUT_END:
        found = held.find(b"\n{")
        if found >= 0:
            return lines + held.count(b"\n", 0, found + 1), held[found + 1 :]
        # The line's end may be the last of one block.
        lines, passed = lines + held.count(b"\n", 0, len(held) - 1), passed + len(held)
        block = next(blocks, b"")
        if not block:
            return lines, b""
        held = held[-1:] + block
    raise EndlessError(f"no end of a document in {MOST_WITHOUT_END >> 30} GiB")
