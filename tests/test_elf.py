"""Libraries, real ones from the C compiler and damaged ones."""

import io
import os
import platform
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from musadoctor.elf import ElfError, read_elf
from musadoctor.system import Elf

COMPILER = shutil.which("cc")
READELF = shutil.which("readelf")
MACHINE = platform.machine()

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


def build(folder: Path, name: str, *options: str) -> Path:
    """A small library of this machine."""
    path = folder / name
    flags = ["-shared", "-nostdlib", "-s", "-Wl,-z,noseparate-code", "-Wl,--no-as-needed"]
    subprocess.run(
        [str(COMPILER), *flags, "-x", "c", "/dev/null", "-x", "none", "-o", str(path), *options],
        check=True,
    )
    return path


@contextmanager
def opened(data: bytes) -> Iterator[io.FileIO]:
    with open(os.memfd_create("library"), "wb+", buffering=0) as file:
        file.write(data)
        yield file


def read(data: bytes) -> Elf:
    with opened(data) as file:
        return read_elf(file)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a library that has everything."""
    folder = tmp_path_factory.mktemp("library")
    build(folder, "libone.so", "-Wl,-soname,libone.so.4")
    build(folder, "libtwo.so", "-Wl,-soname,libtwo.so.0")
    options = ["-Wl,-soname,liball.so.1", f"-L{folder}", "-lone", "-ltwo"]
    run_path = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib:/opt/musa/lib"
    return build(folder, "liball.so", *options, run_path).read_bytes()


EVERYTHING = Elf(
    MACHINE, "liball.so.1", ("libone.so.4", "libtwo.so.0"), (), ("$ORIGIN/../lib", "/opt/musa/lib")
)


def test_what_a_library_says_of_itself(library: bytes) -> None:
    assert read(library) == EVERYTHING


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), Elf(MACHINE, None, (), (), ())),
        (("-Wl,-soname,libx.so.1",), Elf(MACHINE, "libx.so.1", (), (), ())),
        (
            ("-Wl,--disable-new-dtags,-rpath,/a::/b",),
            Elf(MACHINE, None, (), ("/a", "/b"), ()),
        ),
        (("-Wl,--enable-new-dtags,-rpath,/a",), Elf(MACHINE, None, (), (), ("/a",))),
    ],
)
def test_a_library_that_says_less(options: tuple[str, ...], expected: Elf, tmp_path: Path) -> None:
    assert read(build(tmp_path, "libx.so", *options).read_bytes()) == expected


def test_a_static_program_needs_nothing(tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text("void _start(void) { for (;;); }\n")
    path = tmp_path / "program"
    subprocess.run(
        [str(COMPILER), "-static", "-nostdlib", "-o", str(path), str(source)], check=True
    )
    assert read(path.read_bytes()) == Elf(MACHINE, None, (), (), ())


@pytest.mark.skipif(READELF is None, reason="there is no readelf to compare with")
def test_real_libraries_read_as_readelf_reads_them() -> None:
    folder = Path(f"/usr/lib/{MACHINE}-linux-gnu")
    paths = sorted(p for p in folder.glob("lib*.so.*") if p.is_file() and not p.is_symlink())[:60]
    if not paths:
        pytest.skip(f"there are no libraries in {folder}")
    said = subprocess.run(
        ["readelf", "-Wd", *paths],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    ).stdout
    parts = re.split(r"^File: (.*)$", said, flags=re.MULTILINE)[1:] if len(paths) > 1 else []
    for path, table in zip(parts[::2], parts[1::2], strict=True):
        tags: dict[str, list[str]] = {}
        for tag, value in re.findall(r"\((\w+)\) +[\w ]+: \[(.*)\]$", table, re.MULTILINE):
            tags.setdefault(tag, []).append(value)
        assert read(Path(path).read_bytes()) == Elf(
            MACHINE,
            next(iter(tags.get("SONAME", [])), None),
            tuple(tags.get("NEEDED", ())),
            tuple(":".join(tags.get("RPATH", ())).split(":")) if "RPATH" in tags else (),
            tuple(":".join(tags.get("RUNPATH", ())).split(":")) if "RUNPATH" in tags else (),
        )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty file"),
        (b"#!/bin/sh\n", "not an ELF file"),
        (b"INPUT(libmusart.so.5)\n", "not an ELF file"),
        (b"\x7fEL", "not an ELF file"),
        (b"\x7fELF", "cut or damaged ELF file"),
        (b"\x7fELF\2\1\1" + bytes(9), "cut or damaged ELF file"),
    ],
)
def test_what_is_no_library(data: bytes, words: str) -> None:
    with pytest.raises(ElfError, match=f"^{words}$"):
        read(data)


@pytest.mark.parametrize(
    ("ident", "machine", "expected"),
    [
        (b"\2\1", b"\xb7\0", "aarch64"),
        (b"\2\1", b"\x02\x01", "loongarch64"),
        (b"\2\1", b"\xf3\0", "riscv64"),
        (b"\2\1", b"\x39\x30", "12345"),
        (b"\1\1", b"\x03\0", "i386"),
        (b"\1\1", b"\x28\0", "arm"),
        (b"\2\2", b"\0\x16", "s390x"),
        (b"\2\2", b"\0\x15", "ppc64"),
        (b"\1\2", b"\0\x08", "mips"),
    ],
)
def test_a_library_of_another_machine_is_one_all_the_same(
    library: bytes, ident: bytes, machine: bytes, expected: str
) -> None:
    found = read(library[:4] + ident + library[6:18] + machine + library[20:])
    assert found.machine == expected
    if ident == b"\2\1":
        assert found == EVERYTHING._replace(machine=expected)
    else:
        assert found[1:] == (None, (), (), ())


def test_every_cut_of_a_library_is_an_error_until_all_segments_are_there(library: bytes) -> None:
    answers = []
    with opened(library) as file:
        for length in range(len(library), -1, -1):
            file.truncate(length)
            try:
                answers.append(read_elf(file))
            except ElfError as error:
                assert str(error) in {  # noqa: PT017 - one that parses is right as well
                    "empty file",
                    "not an ELF file",
                    "cut ELF file",
                    "cut or damaged ELF file",
                }
    # Only the section headers, which no loader reads, may be missing.
    assert answers == [EVERYTHING] * len(answers)
    assert 1 <= len(answers) < len(library) / 2


def patched(library: bytes, offset: int, form: str, *values: int) -> bytes:
    data = bytearray(library)
    struct.pack_into(form, data, offset, *values)
    return bytes(data)


def segment(library: bytes, kind: int) -> int:
    """Where the header of the first segment of this kind is."""
    (table,) = struct.unpack_from("<Q", library, 32)
    (count,) = struct.unpack_from("<H", library, 56)
    places = range(table, table + 56 * count, 56)
    return next(at for at in places if struct.unpack_from("<I", library, at) == (kind,))


def dynamic(library: bytes, tag: int) -> int:
    """Where the first entry of this tag is."""
    (at,) = struct.unpack_from("<Q", library, segment(library, 2) + 8)
    while struct.unpack_from("<q", library, at) != (tag,):
        at += 16
    return int(at)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: patched(data, 32, "<Q", 1 << 63),
        lambda data: patched(data, 32, "<Q", (1 << 64) - 1),
        lambda data: patched(data, 32, "<Q", 1 << 40),
        lambda data: patched(data, 54, "<H", 55),
        lambda data: patched(data, 54, "<H", 0),
        lambda data: patched(data, 56, "<H", 513),
        lambda data: patched(data, segment(data, 2) + 8, "<Q", 1 << 63),
        lambda data: patched(data, segment(data, 2) + 32, "<Q", 1 << 40),
        lambda data: patched(data, segment(data, 1) + 32, "<Q", len(data) + 1),
        lambda data: patched(data, dynamic(data, 5), "<q", 0x7000_0000),
        lambda data: patched(data, dynamic(data, 5) + 8, "<Q", 1 << 40),
        lambda data: patched(data, dynamic(data, 14) + 8, "<Q", 1 << 40),
        lambda data: patched(data, dynamic(data, 1) + 8, "<Q", (1 << 64) - 1),
    ],
    ids=[
        "program headers at a negative offset",
        "program headers at the end of the world",
        "program headers behind the end",
        "program headers of another size",
        "program headers of no size",
        "too many program headers",
        "dynamic section at a negative offset",
        "dynamic section behind the end",
        "a segment that is longer than the file",
        "no string table",
        "string table in no segment",
        "name behind the end",
        "name at a negative offset",
    ],
)
def test_damage_of_one_number_is_told(damage: Callable[[bytes], bytes], library: bytes) -> None:
    with pytest.raises(ElfError, match=r"^cut"):
        read(damage(library))


def test_a_name_that_never_ends_is_damage(library: bytes) -> None:
    (strings,) = struct.unpack_from("<Q", library, dynamic(library, 5) + 8)
    longer = library + b"x" * 5000
    with pytest.raises(ElfError):
        read(patched(longer, dynamic(library, 14) + 8, "<Q", len(library) - strings))


def test_what_follows_the_end_of_the_dynamic_section_is_not_read(library: bytes) -> None:
    behind = dynamic(library, 0) + 16
    assert library[behind : behind + 16] == bytes(16)  # the linker's spare entry
    assert read(patched(library, behind, "<qQ", 1, 1)) == EVERYTHING


def test_a_library_without_headers_says_nothing(library: bytes) -> None:
    assert read(patched(library, 56, "<H", 0)) == Elf(MACHINE, None, (), (), ())


def test_a_file_that_cannot_be_read_is_not_damaged(tmp_path: Path) -> None:
    closed = pytest.raises(OSError, match="Bad file descriptor")
    with (tmp_path / "library").open("wb", buffering=0) as unreadable, closed:
        read_elf(unreadable)


@settings(max_examples=400, deadline=None)
@given(flips=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=12))
@example(flips=[(56, 0)])
def test_whatever_bytes_are_flipped_it_parses_or_is_an_error(
    library: bytes, flips: list[tuple[int, int]]
) -> None:
    data = bytearray(library)
    for at, value in flips:
        data[at % len(data)] = value
    try:
        found = read(bytes(data))
    except ElfError:
        return
    assert all(isinstance(text, str) for text in (*found.needed, *found.rpath, *found.runpath))


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=400))
def test_whatever_follows_the_magic_it_parses_or_is_an_error(data: bytes) -> None:
    for begin in (b"", b"\x7fELF", b"\x7fELF\2\1\1"):
        with suppress(ElfError):
            read(begin + data)
