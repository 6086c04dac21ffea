import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support import LINUX, file, folder, host

from musadoctor.facts import (
    Absent,
    HiddenLibrary,
    Libraries,
    LoadableLibrary,
    MissingLibrary,
    Unknown,
)
from musadoctor.live import Live
from musadoctor.probes.libraries import libraries, preferred, user_driver
from musadoctor.recording import Recorder
from musadoctor.system import (
    DAMAGED,
    ERROR,
    NOT_ALLOWED,
    NOT_THERE,
    UNRECORDED,
    Elf,
    Failure,
    Ran,
    Stat,
)
from musadoctor.versions import ToolkitVersion

DEFAULT = "/usr/lib/x86_64-linux-gnu"
PREFIX = "/env"
SITE = "/env/site"
EMPTY = "empty file"
EXTENSION = f"{SITE}/torch_musa/_MUSAC.so"
INTERPRETER = "/env/bin/python3.10"
Content = str | Elf | Failure | Stat
Folders = Mapping[str, Mapping[str, Content]]
Tables = dict[str, Any]


def elf(soname: str | None, *needed: str, machine: str = "x86_64") -> Elf:
    return Elf(machine, soname, needed, (), ())


def dangling(real: str) -> Stat:
    return Stat("dangling", 0, 0, "", usable=False, executable=False, real=real)


def loader(
    *folders: Folders,
    cache: Mapping[str, str] | None = None,
    search: str | None = None,
    needs: tuple[str, ...] = (),
    more: Tables | None = None,
) -> Recorder:
    """A host with folders of libraries.

    A file is its ELF header, a failure to read one, a link's state, or the name of the file
    beside it that it links to.
    """
    tables: Tables = {
        "folders": {},
        "stats": {},
        "libraries": {},
        "loader_cache": {"libm": dict(cache or {})},
        "variables": {} if search is None else {"LD_LIBRARY_PATH": search},
        "runs": {},
        "files": {},
    }
    for path, contents in (item for part in folders for item in part.items()):
        tables["folders"][path] = tuple(contents)
        tables["stats"][path] = folder(path)
        for name, content in contents.items():
            target = contents[content] if isinstance(content, str) else content
            real = f"{path}/{content if isinstance(content, str) else name}"
            if isinstance(target, Stat):
                tables["stats"][f"{path}/{name}"] = target
            else:
                tables["stats"][f"{path}/{name}"] = file(real=real)
                tables["libraries"][f"{path}/{name}"] = target
    if needs:
        answer = {"version": "3.10.12", "prefix": PREFIX, "search_path": [SITE]}
        tables["runs"]["child:python"] = Ran("ok", 0, answer=json.dumps(answer))
        tables["folders"][SITE] = ("torch_musa", "torch_musa-2.9.1.dist-info")
        tables["folders"][f"{SITE}/torch_musa"] = ("__init__.py", "_MUSAC.so")
        tables["libraries"][EXTENSION] = elf("_MUSAC.so", *needs)
    for table, answers in (more or {}).items():
        tables[table] |= answers
    return host(**tables)


def found(system: Recorder) -> tuple[LoadableLibrary, ...]:
    known = libraries(system)
    assert isinstance(known, Libraries)
    return known.found


def missing(system: Recorder) -> tuple[str, ...]:
    known = libraries(system)
    assert isinstance(known, Libraries)
    assert {lib.asked_by for lib in known.missing} <= {EXTENSION}
    return tuple(lib.soname for lib in known.missing)


MUSA = elf("libmusa.so.1")
TREE: Folders = {
    "/m/lib": {
        "libmusart.so": "libmusart.so.5.2.0",
        "libmusart.so.5": "libmusart.so.5.2.0",
        "libmusart.so.5.2.0": elf("libmusart.so.5"),
        "libmupti.so.0.9": elf("libmupti.so.0.9"),
        "libcudart.so.12": elf("libcudart.so.12"),
        "libsrv_um_MUSA.so": elf("libsrv_um_MUSA.so"),
    }
}


def test_each_soname_once_under_the_name_that_is_asked_for() -> None:
    assert found(loader(TREE, search="/m/lib")) == (
        LoadableLibrary(
            "libmusart.so.5",
            "/m/lib/libmusart.so.5",
            "/m/lib/libmusart.so.5.2.0",
            "LD_LIBRARY_PATH",
            None,
            "/m/lib",
        ),
        *(
            LoadableLibrary(
                name, f"/m/lib/{name}", f"/m/lib/{name}", "LD_LIBRARY_PATH", None, "/m/lib"
            )
            for name in ("libmupti.so.0.9", "libsrv_um_MUSA.so")
        ),
    )


@pytest.mark.parametrize("broken", [Failure(DAMAGED, "EMPTY"), elf(None), elf(None, machine="arm")])
def test_each_file_once_where_no_soname_can_be_read(broken: Content) -> None:
    system = loader(
        {"/m": {"libmusart.so.5.2.0": broken, "libmusart.so.5": "libmusart.so.5.2.0"}}, search="/m"
    )
    assert [lib.soname for lib in found(system)] == ["libmusart.so.5"]


FIRST = {"/a": {"libmusa.so.1": MUSA}}
SECOND = {"/b": {"libmusa.so.1": MUSA}}
CACHED = {"/c": {"libmusa.so.1": MUSA}}
LAST = {DEFAULT: {"libmusa.so.1": MUSA}}
CACHE = {"libmusa.so.1": "/c/libmusa.so.1"}


@pytest.mark.parametrize(
    ("folders", "search", "cache", "path", "rule"),
    [
        ((FIRST, SECOND, CACHED, LAST), "/a:/b", CACHE, "/a/libmusa.so.1", "LD_LIBRARY_PATH"),
        ((FIRST, SECOND, CACHED, LAST), "/b:/a", CACHE, "/b/libmusa.so.1", "LD_LIBRARY_PATH"),
        ((SECOND, CACHED, LAST), "/a;/b", CACHE, "/b/libmusa.so.1", "LD_LIBRARY_PATH"),
        ((CACHED, LAST), "/a:/b", CACHE, "/c/libmusa.so.1", "ld.so.cache"),
        ((LAST,), "/a:/b", {}, f"{DEFAULT}/libmusa.so.1", "default path"),
        # The cache may name what is gone.
        ((LAST,), None, CACHE, f"{DEFAULT}/libmusa.so.1", "default path"),
        (({"/lib64": {"libmusa.so.1": MUSA}},), None, {}, "/lib64/libmusa.so.1", "default path"),
    ],
)
def test_the_order_of_the_rules(
    folders: tuple[Folders, ...],
    search: str | None,
    cache: Mapping[str, str],
    path: str,
    rule: str,
) -> None:
    (library,) = found(loader(*folders, search=search, cache=cache))
    assert (library.path, library.found_by, library.problem) == (path, rule, None)


def test_an_empty_element_is_the_current_folder() -> None:
    (library,) = found(loader({".": {"libmusa.so.1": MUSA}}, search=":/x"))
    assert library.path == "./libmusa.so.1"


def test_what_the_loader_comes_upon_first_is_listed_first() -> None:
    system = loader(
        {"/b": {"libmusart.so.5": elf("libmusart.so.5")}},
        {"/a": {"libmusart.so.4": elf("libmusart.so.4")}},
        search="/b:/a",
    )
    assert [lib.soname for lib in found(system)] == ["libmusart.so.5", "libmusart.so.4"]
    (first, *_) = found(system)
    assert preferred(system, "libmusart") == first


@pytest.mark.parametrize(
    ("first", "path", "problem"),
    [
        # Stepped over.
        (elf("libmusa.so.1", machine="aarch64"), "/b/libmusa.so.1", None),
        (dangling("/gone/libmusa.so.1"), "/b/libmusa.so.1", None),
        (Failure(NOT_THERE, "no /a/libmusa.so.1"), "/b/libmusa.so.1", None),
        (Failure(NOT_ALLOWED, "/a/libmusa.so.1: Permission denied"), "/b/libmusa.so.1", None),
        # The end of the search.
        (Failure(DAMAGED, "/a/libmusa.so.1: empty file"), "/a/libmusa.so.1", "empty file"),
        (Failure(DAMAGED, "/a/libmusa.so.1: cut ELF file"), "/a/libmusa.so.1", "cut ELF file"),
        (Failure(ERROR, "/a/libmusa.so.1: I/O error"), "/a/libmusa.so.1", "I/O error"),
    ],
)
def test_a_bad_file_before_a_good_one(first: Content, path: str, problem: str | None) -> None:
    (library,) = found(loader({"/a": {"libmusa.so.1": first}}, SECOND, search="/a:/b"))
    assert (library.path, library.problem) == (path, problem)


@pytest.mark.parametrize(
    ("only", "real", "problem"),
    [
        (
            elf("libmusa.so.1", machine="aarch64"),
            "/a/libmusa.so.1",
            "for aarch64, this machine is x86_64",
        ),
        (dangling("/gone/libmusa.so.1.5"), "/gone/libmusa.so.1.5", "dangling link"),
        (
            Failure(NOT_ALLOWED, "/a/libmusa.so.1: Permission denied"),
            "/a/libmusa.so.1",
            "may not be read",
        ),
    ],
)
def test_a_bad_file_alone_is_told(only: Content, real: str, problem: str) -> None:
    system = loader({"/a": {"libmusa.so.1": only}}, search="/a", needs=("libmusa.so.1",))
    (library,) = found(system)
    assert (library.real_path, library.problem) == (real, problem)
    assert missing(system) == ()


def test_the_first_bad_file_is_told() -> None:
    system = loader(
        {"/a": {"libmusa.so.1": dangling("/gone")}},
        {"/b": {"libmusa.so.1": elf("libmusa.so.1", machine="arm")}},
        search="/a:/b",
    )
    assert [(lib.path, lib.problem) for lib in found(system)] == [
        ("/a/libmusa.so.1", "dangling link")
    ]


def test_an_unlisted_folder_can_be_opened_all_the_same() -> None:
    shut: Tables = {
        "folders": {"/a": Failure(NOT_ALLOWED, "/a: Permission denied")},
        "libraries": {"/a/libmusa.so.1": MUSA},
    }
    (library,) = found(loader(LAST, search="/a", more=shut))
    assert library.path == "/a/libmusa.so.1"


def test_a_folder_under_two_names_is_listed_once() -> None:
    linked: Tables = {"stats": {"/lib/x86_64-linux-gnu": folder(DEFAULT)}}
    system = loader(LAST, {"/lib/x86_64-linux-gnu": LAST[DEFAULT]}, more=linked)
    (library,) = found(system)
    assert library.path == "/lib/x86_64-linux-gnu/libmusa.so.1"
    assert DEFAULT not in system.answers()["folders"]


# What torch_musa needs


NEEDS = (
    *("libmusart.so.5", "libmccl.so.2", "libmpi.so.40", "libmkl_core.so.2", "libtorch.so"),
    "libc.so.6",
)


def test_what_torch_musa_needs_in_vain() -> None:
    system = loader(TREE, search="/m/lib", needs=NEEDS)
    assert missing(system) == ("libmccl.so.2", "libmpi.so.40", "libmkl_core.so.2")


def test_needs_that_are_there_are_not_missing() -> None:
    system = loader(
        TREE,
        {
            DEFAULT: {"libmpi.so.40": elf("libmpi.so.40")},
            f"{PREFIX}/bin/../lib": {"libmkl_core.so.2": elf("libmkl_core.so.2")},
        },
        search="/m/lib",
        needs=NEEDS,
        more={
            # As conda builds it.
            "stats": {LINUX.own_python: file(real=INTERPRETER)},
            "libraries": {INTERPRETER: Elf("x86_64", None, (), ("$ORIGIN/../lib",), ())},
        },
    )
    assert missing(system) == ("libmccl.so.2",)
    assert all(lib.soname != "libmpi.so.40" for lib in found(system))


def test_only_missing_libraries() -> None:
    assert libraries(loader(needs=("libmusart.so.5",))) == Libraries(
        (), (MissingLibrary("libmusart.so.5", EXTENSION),)
    )


def test_a_name_that_only_torch_musa_asks_for() -> None:
    # A link made by hand, whose library bears another soname.
    linked: Folders = {"/a": {"libmusa.so.1": MUSA, "libmusa.so.4": "libmusa.so.1"}}
    assert [lib.soname for lib in found(loader(linked, search="/a"))] == ["libmusa.so.1"]
    asked = found(loader(linked, search="/a", needs=("libmusa.so.4",)))
    assert [(lib.soname, lib.asked_by) for lib in asked] == [
        ("libmusa.so.4", EXTENSION),
        ("libmusa.so.1", ""),
    ]


# Who asks

WHEEL_LIB = f"{SITE}/torch_musa/lib"
OLD, NEW = "/usr/local/musa-4.3.5/lib", "/usr/local/musa-5.2.0/lib"
MUDNN = {"libmudnn.so.3": elf("libmudnn.so.3", "libmublas.so.1")}


def asking(*needs: str, rpath: tuple[str, ...] = (), runpath: tuple[str, ...] = ()) -> Tables:
    """A library of torch_musa's that its extension module needs, with folders of its own."""
    name = "libmusa_python.so"
    return {
        "folders": {WHEEL_LIB: (name,)},
        "libraries": {
            EXTENSION: Elf("x86_64", None, (name,), (), ("$ORIGIN/lib",)),
            f"{WHEEL_LIB}/{name}": Elf("x86_64", name, needs, rpath, runpath),
        },
    }


def test_what_a_library_finds_by_its_own_folders() -> None:
    system = loader(
        {NEW: MUDNN}, needs=("x",), more=asking("libmudnn.so.3", runpath=("/gone", NEW))
    )
    known = libraries(system)
    assert isinstance(known, Libraries)
    (mudnn,) = known.found
    assert (mudnn.path, mudnn.found_by, mudnn.entry) == (f"{NEW}/libmudnn.so.3", "RUNPATH", NEW)
    assert mudnn.asked_by == f"{WHEEL_LIB}/libmusa_python.so"
    assert str(mudnn.toolkit) == "5.2.0"
    assert str(mudnn) == f"libmudnn.so.3 -> {NEW}/libmudnn.so.3 (by RUNPATH {NEW})"
    # What the library itself needs, its asker's RUNPATH does not help with.
    assert known.missing == (MissingLibrary("libmublas.so.1", f"{NEW}/libmudnn.so.3"),)
    assert str(known) == "1 MUSA libraries on the loader's path, 1 of them for torch_musa"


def test_an_rpath_comes_before_and_serves_all_below() -> None:
    blas = {"libmublas.so.1": elf("libmublas.so.1")}
    system = loader(
        {NEW: {**MUDNN, **blas}, OLD: {**MUDNN, **blas}},
        search=OLD,
        needs=("x",),
        more=asking("libmudnn.so.3", rpath=(NEW,)),
    )
    assert [(lib.path, lib.found_by, lib.hides) for lib in found(system)] == [
        (f"{NEW}/libmudnn.so.3", "RPATH", None),
        (f"{NEW}/libmublas.so.1", "RPATH", None),
    ]


def test_what_library_path_hides() -> None:
    system = loader(
        {NEW: MUDNN, OLD: MUDNN},
        search=OLD,
        needs=("x",),
        more=asking("libmudnn.so.3", runpath=(NEW,)),
    )
    (mudnn,) = found(system)
    assert mudnn.path == f"{OLD}/libmudnn.so.3"
    assert mudnn.hides == HiddenLibrary(f"{NEW}/libmudnn.so.3", NEW, ToolkitVersion.parse("5.2.0"))
    assert str(mudnn.hides) == f"{NEW}/libmudnn.so.3 (by RUNPATH {NEW})"


@pytest.mark.parametrize("own", [Failure(DAMAGED, EMPTY), elf("libmudnn.so.3", machine="arm")])
def test_what_is_no_use_is_not_hidden(own: Content) -> None:
    system = loader(
        {NEW: {"libmudnn.so.3": own}, OLD: MUDNN},
        search=OLD,
        needs=("x",),
        more=asking("libmudnn.so.3", runpath=(NEW,)),
    )
    assert [lib.hides for lib in found(system)] == [None]


def test_a_file_under_two_names_hides_nothing() -> None:
    same = file(real=f"{NEW}/libmudnn.so.3")
    more = asking("libmudnn.so.3", runpath=("/linked",))
    more["stats"] = {"/linked/libmudnn.so.3": same}
    system = loader({NEW: MUDNN, "/linked": MUDNN}, search=NEW, needs=("x",), more=more)
    assert [lib.hides for lib in found(system)] == [None]


def test_torch_and_the_interpreter_come_first() -> None:
    """A module of torch maps a library, which torch_musa then gets, wherever it would look."""
    torch = f"{SITE}/torch"
    own = f"{torch}/lib"
    tables = asking("libmudnn.so.3", runpath=(NEW,))
    tables["folders"] |= {
        SITE: ("torch", "torch_musa", "torch_musa-2.9.1.dist-info"),
        torch: ("_C.cpython-310.so", "__init__.py", "lib"),
        own: ("libtorch.so", "libmudnn.so.3"),
        "/env/lib": ("libpython3.10.so.1.0", "libtorch.so"),
    }
    tables["stats"] = {LINUX.own_python: file(real=INTERPRETER)}
    tables["libraries"] |= {
        INTERPRETER: Elf("x86_64", None, ("libpython3.10.so.1.0",), (), ("$ORIGIN/../lib",)),
        "/env/bin/../lib/libpython3.10.so.1.0": Elf(
            "x86_64", "libpython3.10.so.1.0", (), ("/gone",), ()
        ),
        f"{torch}/_C.cpython-310.so": Elf("x86_64", None, ("libtorch.so",), ("$ORIGIN/lib",), ()),
        f"{own}/libtorch.so": elf("libtorch.so", "libmudnn.so.3"),
        f"{own}/libmudnn.so.3": elf("libmudnn.so.3"),
    }
    tables["folders"]["/env/bin/../lib"] = tables["folders"].pop("/env/lib")
    (mudnn,) = found(loader({NEW: MUDNN}, needs=("x",), more=tables))
    assert (mudnn.path, mudnn.asked_by) == (f"{own}/libmudnn.so.3", f"{own}/libtorch.so")


# One of a stem


def test_the_user_driver() -> None:
    both: Folders = {"/a": {"libmusa.so.1": MUSA, "libmusa.so.4": elf("libmusa.so.4")}}

    def chosen(system: Recorder) -> str:
        library = user_driver(system)
        assert isinstance(library, LoadableLibrary)
        return library.soname

    assert chosen(loader(both, search="/a")) == "libmusa.so.1"
    assert chosen(loader(both, search="/a", needs=("libmusa.so.4",))) == "libmusa.so.4"
    broken: Folders = {"/a": {**both["/a"], "libmusa.so.1": Failure(DAMAGED, EMPTY)}}
    assert chosen(loader(broken, search="/a")) == "libmusa.so.4"
    assert chosen(loader(broken, search="/a", needs=("libmusa.so.1",))) == "libmusa.so.1"


@pytest.mark.parametrize("folders", [(), (TREE,)])
def test_no_user_driver(folders: tuple[Folders, ...]) -> None:
    assert user_driver(loader(*folders, search="/m/lib")) == Absent(
        "no libmusa.so.* in LD_LIBRARY_PATH, the loader's cache or default folders"
    )


# No answer


def test_no_library() -> None:
    assert libraries(host()) == Absent(
        "no MUSA library in LD_LIBRARY_PATH, the loader's cache or default folders"
    )


@pytest.mark.parametrize("kind", [NOT_THERE, NOT_ALLOWED])
def test_no_loader_cache(kind: str) -> None:
    system = host(
        loader_cache={"libm": Failure(kind, "/etc/ld.so.cache")},
        folders={DEFAULT: ["libmusa.so.1"]},
        libraries={f"{DEFAULT}/libmusa.so.1": MUSA},
    )
    assert len(found(system)) == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "MUSA_HOME: not in this recording"),
        ({"variables": dict.fromkeys(("MUSA_HOME", "PATH", "LD_LIBRARY_PATH"))}, "libm"),
        (
            {
                "variables": dict.fromkeys(("MUSA_HOME", "PATH", "LD_LIBRARY_PATH")),
                "platform": None,
            },
            "platform",
        ),
    ],
)
def test_what_a_recording_lacks_is_unknown(options: Tables, reason: str) -> None:
    system = host(**options, unlisted="unrecorded")
    known = libraries(system)
    assert isinstance(known, Unknown)
    assert reason in known.reason
    assert user_driver(system) == known


@pytest.mark.parametrize("subject", [EXTENSION, "/m/lib/libmusart.so.5", f"{DEFAULT}/libmusa.so.1"])
def test_a_library_that_a_recording_lacks(subject: str) -> None:
    lacking: Tables = {"libraries": {subject: Failure(UNRECORDED, f"{subject}: not recorded")}}
    system = loader(TREE, LAST, search="/m/lib", needs=("libmusart.so.5",), more=lacking)
    assert libraries(system) == Unknown(f"{subject}: not recorded")


# The loader itself as the judge

NAME = "libmusart.so.5"
LOAD = f"""
import ctypes
ctypes.CDLL({NAME!r})
print(*{{line.split()[-1] for line in open("/proc/self/maps") if {NAME!r} in line}})
"""


@pytest.fixture
def library(tmp_path: Path) -> bytes:
    """A real library under the name of MUSA's runtime: libstdc++, whose soname is as long."""
    at = Live(time.monotonic() + 10).cached("libstdc++.so.6")
    if isinstance(at, Failure) or not at:
        pytest.skip("no libstdc++ to rename")
    return Path(at["libstdc++.so.6"]).read_bytes().replace(b"libstdc++.so.6\0", b"libmusart.so.5\0")


@pytest.mark.parametrize("case", ["good", "text", "empty", "cut", "other machine", "dangling"])
def test_as_the_loader_does(
    case: str, library: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for place in (first, second):
        place.mkdir()
        (place / NAME).write_bytes(library)
    arm = library[:18] + (183).to_bytes(2, "little") + library[20:]
    contents = {"text": b"#!/bin/sh\n" * 100, "empty": b"", "cut": library[:900]}
    if case == "dangling":
        (first / NAME).unlink()
        (first / NAME).symlink_to("/gone")
    elif case != "good":
        (first / NAME).write_bytes(contents.get(case, arm))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{first}:{second}")
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOAD],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    ).stdout.strip()

    runtime = preferred(Recorder(Live(time.monotonic() + 30)), "libmusart")
    assert isinstance(runtime, LoadableLibrary)
    assert ("" if runtime.problem else runtime.path) == loaded
    assert runtime.path.startswith(str(second if case in {"other machine", "dangling"} else first))


def test_another_architecture_is_the_host_s() -> None:
    arm = LINUX._replace(architecture="aarch64")
    at = "/usr/lib/aarch64-linux-gnu"
    system = host(
        platform=arm,
        folders={at: ["libmusa.so.1"]},
        libraries={f"{at}/libmusa.so.1": elf("libmusa.so.1", machine="aarch64")},
    )
    (library,) = found(system)
    assert (library.path, library.problem) == (f"{at}/libmusa.so.1", None)
