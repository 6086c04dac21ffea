"""Questions to this machine: files of every bad kind, PATH, the loader's cache, the platform."""

import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import as_nobody, in_child, open_folder, stuck_files, without_proc

from musadoctor.commands import Command
from musadoctor.live import LONGEST_TEXT, Live
from musadoctor.system import (
    DAMAGED,
    ERROR,
    NOT_ALLOWED,
    NOT_THERE,
    Elf,
    Failure,
    Found,
    Platform,
    Ran,
    Resources,
    Stat,
)

LIVE = Live(time.monotonic() + 3600)
MARK = "\N{REPLACEMENT CHARACTER}"

NOT_REGULAR = "not a regular file"
TOO_MANY_LINKS = "Too many levels of symbolic links"


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(path))


def make_folder(path: Path) -> None:
    path.mkdir()


def make_nothing(path: Path) -> None:
    del path


def make_loop(path: Path) -> None:
    path.symlink_to(path)


def make_dangling(path: Path) -> None:
    path.symlink_to("/no/such/target")


def make_file(path: Path) -> None:
    path.write_text("plain\n")


def make_link(path: Path) -> None:
    path.with_name("target").write_text("plain\n")
    path.symlink_to("target")


Maker = Callable[[Path], None]


@pytest.mark.parametrize(
    ("make", "text", "elf"),
    [
        (make_file, "plain\n", (DAMAGED, "{}: not an ELF file")),
        (make_link, "plain\n", (DAMAGED, "{}: not an ELF file")),
        (make_nothing, (NOT_THERE, "no {}"), (NOT_THERE, "no {}")),
        (make_dangling, (NOT_THERE, "no {}"), (NOT_THERE, "no {}")),
        (make_loop, (NOT_THERE, f"{{}}: {TOO_MANY_LINKS}"), (NOT_THERE, f"{{}}: {TOO_MANY_LINKS}")),
        (make_folder, (ERROR, f"{{}}: {NOT_REGULAR}"), (DAMAGED, f"{{}}: {NOT_REGULAR}")),
        (make_fifo, (ERROR, f"{{}}: {NOT_REGULAR}"), (DAMAGED, f"{{}}: {NOT_REGULAR}")),
        (make_socket, (ERROR, f"{{}}: {NOT_REGULAR}"), (DAMAGED, f"{{}}: {NOT_REGULAR}")),
    ],
)
def test_reading_what_is_there_or_not(
    make: Maker,
    text: str | tuple[str, str],
    elf: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    make(Path("it"))
    expected = text if isinstance(text, str) else Failure(text[0], text[1].format("it"))
    assert LIVE.read("it") == expected
    assert LIVE.elf("it") == Failure(elf[0], elf[1].format("it"))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (make_file, (ERROR, "{}: not a folder")),
        (make_nothing, (NOT_THERE, "no {}")),
        (make_dangling, (NOT_THERE, "no {}")),
        (make_loop, (NOT_THERE, f"{{}}: {TOO_MANY_LINKS}")),
    ],
)
def test_listing_what_is_no_folder(make: Maker, expected: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "it"
    make(path)
    assert LIVE.list(str(path)) == Failure(expected[0], expected[1].format(path))


def test_below_a_file_nothing_is_there(tmp_path: Path) -> None:
    below = f"{tmp_path}/it/below"
    make_file(tmp_path / "it")
    expected = Failure(NOT_THERE, f"no {below}")
    assert [LIVE.list(below), LIVE.read(below), LIVE.stat(below)] == [expected] * 3


def test_a_folder_is_listed_in_order_whatever_its_names(tmp_path: Path) -> None:
    for name in (b"b", b"a", b"\xff", "驱动".encode()):
        (tmp_path / os.fsdecode(name)).touch()
    assert LIVE.list(str(tmp_path)) == ("a", "b", "\udcff", "驱动") or LIVE.list(str(tmp_path)) == (
        "a",
        "b",
        "驱动",
        "\udcff",
    )


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (make_file, "file"),
        (make_link, "file"),
        (make_folder, "folder"),
        (make_fifo, "other"),
        (make_dangling, "dangling"),
        (make_loop, "dangling"),
    ],
)
def test_what_a_path_is(make: Maker, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "it"
    make(path)
    found = LIVE.stat(str(path))
    assert isinstance(found, Stat)
    assert found.kind == kind
    if kind == "dangling":
        assert found[1:6] == (0, 0, "", False, False)


def test_the_details_of_a_path(tmp_path: Path) -> None:
    path = tmp_path / "it"
    make_link(path)
    (tmp_path / "target").chmod(0o640)
    group = subprocess.run(
        ["stat", "-L", "-c", "%G", path], check=True, capture_output=True, text=True
    ).stdout.strip()
    real = str((tmp_path / "target").resolve())
    assert LIVE.stat(str(path)) == Stat(
        "file", 6, 0o640, group, usable=True, executable=False, real=real
    )
    (tmp_path / "target").chmod(0o750)
    changed = LIVE.stat(str(path))
    assert isinstance(changed, Stat)
    assert changed.executable


def test_a_group_without_a_name_has_its_number(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may give a file away")
    make_file(tmp_path / "it")
    os.chown(tmp_path / "it", 0, 54321)
    found = LIVE.stat(str(tmp_path / "it"))
    assert isinstance(found, Stat)
    assert found.group == "54321"


def test_a_device_is_told_and_never_opened() -> None:
    null = LIVE.stat("/dev/null")
    assert isinstance(null, Stat)
    assert (null.kind, null.usable) == ("device", True)
    assert LIVE.read("/dev/null") == Failure(ERROR, f"/dev/null: {NOT_REGULAR}")


def test_a_closed_folder_and_a_closed_file_are_not_absent() -> None:
    with open_folder() as folder:
        closed = folder / "closed"
        closed.mkdir()
        make_file(closed / "it")
        closed.chmod(0o700)
        make_file(folder / "it")
        (folder / "it").chmod(0o600)
        inside, listed, beside, told, usable = as_nobody(
            lambda: (
                LIVE.read(f"{closed}/it"),
                LIVE.list(str(closed)),
                LIVE.read(f"{folder}/it"),
                LIVE.stat(f"{closed}/it"),
                LIVE.stat(f"{folder}/it"),
            )
        )
    assert inside == told == Failure(NOT_ALLOWED, f"{closed}/it: Permission denied")
    assert listed == Failure(NOT_ALLOWED, f"{closed}: Permission denied")
    assert beside == Failure(NOT_ALLOWED, f"{folder}/it: Permission denied")
    assert isinstance(usable, Stat)
    assert not usable.usable


@pytest.mark.parametrize("question", [LIVE.read, LIVE.list, LIVE.stat, LIVE.elf])
def test_a_path_that_no_file_can_have(question: Callable[[str], object]) -> None:
    nul = question("/tmp/a\0b")
    assert isinstance(nul, Failure)
    assert (nul.kind, "\0" in nul.detail) == (ERROR, False)
    assert "null" in nul.detail
    long = question("/" + "x" * 300)
    assert isinstance(long, Failure)
    assert (long.kind, long.detail[-18:]) == (ERROR, "File name too long")
    empty = question("")
    assert isinstance(empty, Failure)
    assert empty.kind == NOT_THERE


def test_files_of_proc_have_a_text_though_they_have_no_size() -> None:
    assert LIVE.read("/proc/self/stat") != ""
    status = LIVE.read("/proc/self/status")
    assert isinstance(status, str)
    assert f"Pid:\t{os.getpid()}\n" in status


def test_a_file_of_proc_that_cannot_be_read_at_its_start() -> None:
    memory = LIVE.read("/proc/self/mem")
    assert memory == Failure(ERROR, "/proc/self/mem: Input/output error")


def test_a_huge_file_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.write(b"begin")
        file.truncate(100_000_000)
    text = LIVE.read(str(path))
    assert isinstance(text, str)
    assert (len(text), text[:6]) == (LONGEST_TEXT, "begin\0")


def test_invalid_utf_8_is_marked(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(b"a\xff\xfe\x00b\xe9\xa9")
    assert LIVE.read(str(tmp_path / "it")) == f"a{MARK * 2}\0b{MARK}"


def test_a_file_that_has_nothing_to_say_yet_is_an_error() -> None:
    with open_folder() as folder, stuck_files(folder):
        answer = LIVE.read(f"{folder}/later")
    assert answer == Failure(ERROR, f"{folder}/later: nothing to read yet")


def test_a_variable_that_is_set_empty_or_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET", "a:b")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("ABSENT", raising=False)
    assert [LIVE.env(name) for name in ("SET", "EMPTY", "ABSENT")] == ["a:b", "", None]


@pytest.fixture
def path_folders(tmp_path: Path) -> dict[str, Path]:
    """Folders with a tool that runs, one that may not, a folder, a dangling link, nothing."""
    folders = {}
    for name in ("runs", "blocked", "folder", "dangling", "empty"):
        folders[name] = tmp_path / name
        folders[name].mkdir()
    (tmp_path / "runs" / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "runs" / "tool").chmod(0o755)
    (tmp_path / "blocked" / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "folder" / "tool").mkdir()
    (tmp_path / "dangling" / "tool").symlink_to("/no/such/target")
    return folders


@pytest.mark.parametrize(
    ("names", "found", "blocked"),
    [
        (("runs",), "runs", ""),
        (("empty", "folder", "dangling", "runs"), "runs", ""),
        (("blocked", "runs"), "runs", "blocked"),
        (("runs", "blocked"), "runs", ""),
        (("blocked",), "", "blocked"),
        (("empty", "folder", "dangling"), "", ""),
    ],
)
def test_where_path_leads(
    names: tuple[str, ...],
    found: str,
    blocked: str,
    path_folders: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(str(path_folders[name]) for name in names))

    def tool(name: str) -> str:
        return f"{path_folders[name]}/tool" if name else ""

    assert LIVE.find("tool") == Found(tool(found), tool(blocked))
    assert LIVE.find("to\0ol") == Found("")


def test_a_name_with_a_slash_is_not_looked_up(
    path_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(path_folders["runs"]))
    monkeypatch.chdir(path_folders["runs"])
    assert LIVE.find("./tool") == Found("./tool")
    assert LIVE.find(f"{path_folders['runs']}/tool") == Found(f"{path_folders['runs']}/tool")
    assert LIVE.find(f"{path_folders['empty']}/tool") == Found("")


def test_an_empty_entry_of_path_is_this_folder(
    path_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path_folders["runs"])
    monkeypatch.setenv("PATH", f"{path_folders['empty']}:")
    assert LIVE.find("tool") == Found("./tool")


def test_without_path_the_usual_folders_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATH")
    assert LIVE.find("sh") == Found(shutil.which("sh", path=os.defpath) or "none")


def test_closed_folders_on_path_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_folder() as folder:
        closed = folder / "closed"
        closed.mkdir()
        closed.chmod(0o700)
        monkeypatch.setenv("PATH", f"{closed}:/bin")
        sh, absent, ran = as_nobody(
            lambda: (
                LIVE.find("sh"),
                LIVE.find("no-such-tool"),
                LIVE.run(Command("no-such-tool", "no-such-tool", (), 1.0)),
            )
        )
    assert sh == Found("/bin/sh", "", (str(closed),))
    assert absent == Found("", "", (str(closed),))
    assert ran == Ran("not there", note=f"no no-such-tool on PATH; unreadable: {closed}")


def test_a_real_library(tmp_path: Path) -> None:
    cache = LIVE.cached("libc.so")
    assert isinstance(cache, dict)
    found = LIVE.elf(cache["libc.so.6"])
    assert isinstance(found, Elf)
    assert (found.machine, found.soname) == (platform.machine(), "libc.so.6")


def test_the_loader_cache_is_asked_by_prefix() -> None:
    everything = LIVE.cached("")
    some = LIVE.cached("libm")
    assert isinstance(everything, dict)
    assert some == {name: at for name, at in everything.items() if name.startswith("libm")}
    assert len(some) < len(everything)


def test_a_machine_without_a_loader_cache(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may change the root")
    (tmp_path / "etc").mkdir()

    cached, release = in_child(
        lambda: (LIVE.cached(""), LIVE.read("/etc/os-release")),
        before=lambda: os.chroot(tmp_path),
    )
    assert cached == Failure(NOT_THERE, "no /etc/ld.so.cache")
    assert release == Failure(NOT_THERE, "no /etc/os-release")


def test_the_platform_is_what_the_system_says() -> None:
    found = LIVE.platform()
    name, version = platform.libc_ver()
    assert found == Platform(
        kernel=platform.release(),
        architecture=platform.machine(),
        host_name=platform.node(),
        glibc=version if name == "glibc" else None,
        uid=os.getuid(),
        groups=found.groups,
        own_python=sys.executable,
    )
    ids = subprocess.run(["id", "-Gn"], check=True, capture_output=True, text=True).stdout
    assert set(found.groups) == set(ids.split())


def test_the_python_to_examine_is_told_as_it_was_given() -> None:
    live = Live(time.monotonic() + 1, python="~/venv/bin/python")
    assert live.platform().chosen_python == "~/venv/bin/python"


def test_the_resources_are_what_the_system_says() -> None:
    meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
    total = int(meminfo.partition("MemTotal:")[2].split()[0]) * 1024
    found = LIVE.resources()
    assert found.logical_cpus == os.cpu_count()
    assert found.memory_bytes == pytest.approx(total, rel=0.01)


def test_what_is_known_without_proc() -> None:
    assert without_proc(LIVE.platform).kernel == platform.release()
    assert without_proc(LIVE.resources) == LIVE.resources()


@pytest.mark.parametrize("answer", [-1, ValueError("no such name"), OSError()])
def test_a_machine_that_does_not_tell_its_memory(
    monkeypatch: pytest.MonkeyPatch, answer: int | Exception
) -> None:
    def sysconf(name: str) -> int:
        if isinstance(answer, Exception):
            raise answer
        return answer if name == "SC_PHYS_PAGES" else 4096

    monkeypatch.setattr(os, "sysconf", sysconf)
    assert LIVE.resources() == Resources(os.cpu_count(), None)


@pytest.mark.parametrize(
    ("said", "expected"),
    [("glibc 2.17", "2.17"), ("", None), (None, None), (ValueError(), None), (OSError(), None)],
)
def test_a_c_library_that_is_not_glibc_has_no_glibc_version(
    said: str | Exception | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def confstr(name: str) -> str | None:
        assert name == "CS_GNU_LIBC_VERSION"
        if isinstance(said, Exception):
            raise said
        return said

    monkeypatch.setattr(os, "confstr", confstr)
    assert LIVE.platform().glibc == expected
