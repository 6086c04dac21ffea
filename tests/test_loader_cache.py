"""The loader's cache: this machine's own, and junk."""

import platform
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.elf import read_loader_cache

CACHE = Path("/etc/ld.so.cache")
LDCONFIG = shutil.which("ldconfig", path="/sbin:/usr/sbin")
NAMES = {"x86_64": "libc6,x86-64", "aarch64": "libc6,AArch64"}
MAGIC = b"glibc-ld.so.cache1.1"


def cache(*entries: tuple[int, bytes, bytes], count: int | None = None) -> bytes:
    """A table as ldconfig writes it."""
    table = b""
    strings = b""
    at = 48 + 24 * len(entries)
    for flags, name, path in entries:
        table += struct.pack(
            "<iIIIQ", flags, at + len(strings), at + len(strings) + len(name) + 1, 0, 0
        )
        strings += name + b"\0" + path + b"\0"
    header = MAGIC + struct.pack("<II", len(entries) if count is None else count, len(strings))
    return header + bytes(48 - len(header)) + table + strings


@pytest.mark.skipif(LDCONFIG is None or not CACHE.exists(), reason="there is no ldconfig")
@pytest.mark.skipif(platform.machine() not in NAMES, reason="no words for this machine are known")
def test_this_machine_reads_as_ldconfig_reads_it() -> None:
    said = subprocess.run(
        [str(LDCONFIG), "-p"], check=True, capture_output=True, text=True, env={"LC_ALL": "C"}
    ).stdout
    expected: dict[str, str] = {}
    for name, kind, path in re.findall(r"^\t(\S+) \(([^)]*)\) => (\S+)$", said, re.MULTILINE):
        if NAMES[platform.machine()] in kind:
            expected.setdefault(name, path)
    assert len(expected) > 10
    assert read_loader_cache(CACHE.read_bytes(), platform.machine()) == expected


X86, ARM, I386 = 0x0303, 0x0A03, 0x0003
BOTH = cache(
    (X86, b"libmusa.so.1", b"/usr/lib/libmusa.so.1"),
    (X86, b"libmusa.so.1", b"/usr/local/musa/lib/libmusa.so.1"),
    (ARM, b"libmusart.so.5", b"/arm/libmusart.so.5"),
    (I386, b"libz.so.1", b"/i386/libz.so.1"),
)


@pytest.mark.parametrize(
    ("data", "machine", "expected"),
    [
        (BOTH, "x86_64", {"libmusa.so.1": "/usr/lib/libmusa.so.1"}),
        (BOTH, "aarch64", {"libmusart.so.5": "/arm/libmusart.so.5"}),
        (
            BOTH,
            "loongarch64",
            {
                "libmusa.so.1": "/usr/lib/libmusa.so.1",
                "libmusart.so.5": "/arm/libmusart.so.5",
                "libz.so.1": "/i386/libz.so.1",
            },
        ),
        # Behind the table of glibc 2.1, as it was written for decades.
        (b"ld.so-1.7.0\0" + bytes(20) + BOTH, "aarch64", {"libmusart.so.5": "/arm/libmusart.so.5"}),
        (cache(), "x86_64", {}),
        (b"", "x86_64", {}),
        (b"no cache", "x86_64", {}),
        (MAGIC, "x86_64", {}),
        (MAGIC + b"\xff" * 100, "x86_64", {}),
        (cache((X86, b"a", b"/a"), count=1 << 31), "x86_64", {"a": "/a"}),
        (cache((X86, b"a", b"/a"))[:-1], "x86_64", {}),
        (
            cache((X86, b"\xff", b"/\xff")),
            "x86_64",
            {"\N{REPLACEMENT CHARACTER}": "/\N{REPLACEMENT CHARACTER}"},
        ),
    ],
)
def test_a_cache(data: bytes, machine: str, expected: dict[str, str]) -> None:
    assert read_loader_cache(data, machine) == expected


@given(data=st.binary(max_size=300), flips=st.lists(st.integers(0, len(BOTH) - 1), max_size=5))
def test_junk_gives_no_error(data: bytes, flips: list[int]) -> None:
    read_loader_cache(MAGIC + data, "x86_64")
    flipped = bytearray(BOTH)
    for at in flips:
        flipped[at] ^= 0xFF
    read_loader_cache(bytes(flipped), "x86_64")
