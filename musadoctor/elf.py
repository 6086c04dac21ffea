"""Just enough ELF to tell what a library needs, under which name, and from where.

A reader of our own, after the System V ABI: pyelftools takes ten times as long and does not
stand up to cut files, lief a hundred times as long (measured; see docs/design-notes.md).
"""

import os
import struct
from typing import BinaryIO

from musadoctor.system import Elf

MACHINES = {
    3: "i386",
    8: "mips",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    258: "loongarch64",
}

_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29
_SEGMENT = struct.Struct("<IIQQQQQQ")
_LARGEST_OFFSET = 1 << 62
_MOST_SEGMENTS = 512
_MOST_TAGS = 4096
_LONGEST_STRING = 4096


class ElfError(ValueError):
    """The file is no ELF file, or it is damaged."""


def read_elf(file: BinaryIO) -> Elf:
    """Read the dynamic section of an open file.

    Reads, never maps: a mapped file that another process cuts raises SIGBUS. Of a file that is
    not 64-bit little-endian, as all MUSA hosts are, it tells the machine only.

    Raises:
        ElfError: the file is empty, not ELF, or cut.
        OSError: it cannot be read.
    """
    header = os.pread(file.fileno(), 64, 0)
    if not header:
        raise ElfError("empty file")
    if header[:4] != b"\x7fELF":
        raise ElfError("not an ELF file")
    try:
        (code,) = struct.unpack_from(">H" if header[5:6] == b"\2" else "<H", header, 18)
        machine = MACHINES.get(code, str(code))
        if header[4:6] == b"\2\1":  # ELFCLASS64, ELFDATA2LSB
            return _read(file.fileno(), header, machine)
    except struct.error:
        raise ElfError("cut or damaged ELF file") from None
    return Elf(machine, None, (), (), ())


def _read(file: int, header: bytes, machine: str) -> Elf:
    (table,) = struct.unpack_from("<Q", header, 32)
    entry_size, entries = struct.unpack_from("<HH", header, 54)
    if entries > _MOST_SEGMENTS or (entries and entry_size != _SEGMENT.size):
        raise ElfError("cut or damaged ELF file")
    segments = _at(file, table, entries * _SEGMENT.size)
    length = os.fstat(file).st_size
    loads: list[tuple[int, int, int]] = []
    dynamic = b""
    for index in range(entries):
        kind, _, offset, address, _, size, _, _ = _SEGMENT.unpack_from(
            segments, index * _SEGMENT.size
        )
        if kind in {_LOAD, _DYNAMIC} and offset + size > length:
            raise ElfError("cut ELF file")
        if kind == _LOAD:
            loads.append((address, offset, size))
        elif kind == _DYNAMIC:
            dynamic = _at(file, offset, min(size, 16 * _MOST_TAGS))

    tags: list[tuple[int, int]] = []
    for tag, value in struct.iter_unpack("<qQ", dynamic[: len(dynamic) // 16 * 16]):
        if tag == 0:
            break
        tags.append((tag, value))
    table = next((value for tag, value in tags if tag == _STRTAB), -1)

    def texts(wanted: int) -> tuple[str, ...]:
        return tuple(
            _string(file, _offset(loads, table) + value) for tag, value in tags if tag == wanted
        )

    def folders(wanted: int) -> tuple[str, ...]:
        return tuple(part for text in texts(wanted) for part in text.split(":") if part)

    return Elf(
        machine=machine,
        soname=next(iter(texts(_SONAME)), None),
        needed=texts(_NEEDED),
        rpath=folders(_RPATH),
        runpath=folders(_RUNPATH),
    )


def _at(file: int, offset: int, size: int) -> bytes:
    if offset >= _LARGEST_OFFSET:  # what no kernel reads at is an error of the file
        raise ElfError("cut or damaged ELF file")
    return os.pread(file, size, offset)


def _offset(loads: list[tuple[int, int, int]], address: int) -> int:
    for start, offset, size in loads:
        if start <= address < start + size:
            return offset + address - start
    raise ElfError("cut or damaged ELF file")


def _string(file: int, offset: int) -> str:
    text, end, _ = _at(file, offset, _LONGEST_STRING).partition(b"\0")
    if not end:
        raise ElfError("cut or damaged ELF file")
    return text.decode("utf-8", "replace")


def read_loader_cache(data: bytes, machine: str, prefix: str = "") -> dict[str, str]:
    """The entries of ``/etc/ld.so.cache``, soname to path, for libraries of ``machine``.

    Only sonames that start with ``prefix``.

    Reads the table that glibc 2.2 and later write (``glibc-ld.so.cache1.1``); anything else gives
    no entries.
    """
    # Flags of <dl-cache.h>: FLAG_ELF_LIBC6 and the architecture.
    flags = {"x86_64": 0x0303, "aarch64": 0x0A03}.get(machine)
    start = data.find(b"glibc-ld.so.cache1.1")
    wanted = prefix.encode()
    found: dict[str, str] = {}
    if start < 0:
        return found
    try:
        (count,) = struct.unpack_from("<I", data, start + 20)
        for index in range(count):
            flag, key, value = struct.unpack_from("<iII", data, start + 48 + 24 * index)
            if flags not in {None, flag} or not data.startswith(wanted, start + key):
                continue
            name, path = (
                data[start + at : data.index(b"\0", start + at)].decode("utf-8", "replace")
                for at in (key, value)
            )
            found.setdefault(name, path)
    except (struct.error, ValueError):
        return found
    return found
