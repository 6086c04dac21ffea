"""The loader's rules, with the loader itself as the judge: real libraries, and what is mapped."""

import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from support import LINUX, host
from support import folder as stat_of_folder

from musadoctor.live import Live
from musadoctor.probes.loader import (
    LIBRARY_PATH,
    MOST_NAMES,
    Place,
    Process,
    Search,
    empty_process,
    expand,
    follow,
    lib_folder,
    place,
)
from musadoctor.recording import Recorder
from musadoctor.system import UNRECORDED, Elf, Failure, Platform

RUNTIME = "libmusart.so.4"
NAMES = (RUNTIME, "libmudnn.so.3", "libmublas.so.1", "libmufft.so.1", "libmusa.so.1", "libx.so.1")
RPATH, RUNPATH = "-Wl,--disable-new-dtags", "-Wl,--enable-new-dtags"
LOAD = """
import ctypes, sys
for path in sys.argv[1:]:
    try:
        ctypes.CDLL(path)
    except OSError:
        print("refused")
print(*{line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "/" in line}, sep="\\n")
"""

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no cc here")


class Bench:
    """A folder of real libraries."""

    def __init__(self, root: Path, stubs: Path) -> None:
        self.root = root
        self.stubs = stubs
        """What is linked against: one library of each name."""

    def build(
        self,
        path: str,
        *needed: str | Path,
        kind: str = RUNPATH,
        folders: Sequence[str] = (),
        soname: str | None = "",
    ) -> Path:
        """A library; its soname is its name unless another or none is given."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        name = file.name if soname == "" else soname
        subprocess.run(
            [
                *("cc", "-shared", "-fPIC", "-g0", "-x", "c", os.devnull, "-x", "none"),
                *("-o", str(file), "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined"),
                *([f"-Wl,-soname,{name}"] if name else []),
                *(str(self.stubs / need) for need in needed),
                *([f"-Wl,-rpath,{':'.join(folders)}", kind] if folders else []),
            ],
            check=True,
        )
        return file

    def search(self, library_path: str | None) -> tuple[Recorder, Search, Process]:
        """Our rules, with the interpreter mapped; the system has none of the names."""
        system = Recorder(Live(time.monotonic() + 60))
        platform = system.platform()
        assert isinstance(platform, Platform)
        lib = lib_folder(system, platform)
        program = os.path.realpath(sys.executable)
        entries = re.split("[:;]", library_path) if library_path else []
        folders = tuple(
            place(
                system,
                LIBRARY_PATH,
                entry,
                expand(entry or ".", os.path.dirname(program), lib, platform.architecture),
            )
            for entry in entries
        )
        cache = Place("ld.so.cache", "", {}, paths={})
        search = Search(platform.architecture, lib, folders, (cache,), re.compile("lib"))
        process = empty_process()
        assert follow(system, search, process, program, None)
        return system, search, process

    def predicted(self, tops: Iterable[Path], library_path: str | None) -> tuple[set[str], int]:
        """The files here that are mapped by our rules, and how many are refused."""
        system, search, process = self.search(library_path)
        (program, *_) = process.mapped
        refused = 0
        for top in tops:
            # What a refused library had brought is unmapped again.
            tried = process._replace(
                names=set(process.names),
                files=set(process.files),
                mapped=list(process.mapped),
                asked=[],
            )
            follow(system, search, tried, str(top), program)
            if any(one.taken is None or one.taken.elf is None for one in tried.asked):
                refused += 1
            else:
                process = tried
        assert process.unrecorded == []
        return self.own(os.path.realpath(one.path) for one in process.mapped), refused

    def mapped(self, tops: Iterable[Path], library_path: str | None) -> tuple[set[str], int]:
        """The same by the loader."""
        variables = {k: v for k, v in os.environ.items() if k != LIBRARY_PATH}
        done = subprocess.run(
            [os.path.realpath(sys.executable), "-I", "-S", "-c", LOAD, *map(str, tops)],
            capture_output=True,
            text=True,
            check=True,
            cwd=self.root,
            env=variables if library_path is None else {**variables, LIBRARY_PATH: library_path},
        )
        lines = done.stdout.splitlines()
        return self.own(lines), lines.count("refused")

    def own(self, paths: Iterable[str]) -> set[str]:
        """Those in this folder."""
        return {path for path in paths if path.startswith(f"{self.root}/")}


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stubs")
    for name in NAMES:
        Bench(root, root).build(name)
    return root


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, stubs: Path) -> Bench:
    """One runtime in a good and in an old folder, and extension modules that need it."""
    bench = Bench(tmp_path_factory.mktemp("loader"), stubs)
    for folder in ("good", "old"):
        bench.build(f"{folder}/{RUNTIME}")
    whole = (bench.root / "good" / RUNTIME).read_bytes()
    for folder, content in (
        ("arm", whole[:18] + (40).to_bytes(2, "little") + whole[20:]),
        ("text", b"#!/bin/sh\n" * 100),
    ):
        (bench.root / folder).mkdir()
        (bench.root / folder / RUNTIME).write_bytes(content)
    bench.build("good/plain.so", RUNTIME)
    bench.build("good/runpath.so", RUNTIME, folders=["$ORIGIN"])
    bench.build("good/rpath.so", RUNTIME, kind=RPATH, folders=["$ORIGIN"])
    return bench


@pytest.mark.parametrize("top", ["plain", "runpath", "rpath"])
@pytest.mark.parametrize("library_path", ["", "good", "old", "old:good", "arm:good", "text;good"])
def test_each_rule_against_each_library_path(bench: Bench, top: str, library_path: str) -> None:
    tops = [bench.root / "good" / f"{top}.so"]
    search = re.sub(r"\w+", lambda found: f"{bench.root}/{found[0]}", library_path)
    assert bench.predicted(tops, search) == bench.mapped(tops, search)


def same(bench: Bench, *tops: Path, search: str | None = None) -> set[str]:
    """What is mapped, by both; paths from the bench's folder on."""
    found, refused = bench.mapped(tops, search)
    assert bench.predicted(tops, search) == (found, refused)
    assert refused == 0
    return {os.path.relpath(path, bench.root) for path in found}


@pytest.fixture
def empty(tmp_path: Path, stubs: Path) -> Bench:
    return Bench(tmp_path, stubs)


def test_an_rpath_serves_those_below_and_a_runpath_does_not(empty: Bench) -> None:
    empty.build(f"a/{RUNTIME}", "libmusa.so.1")
    empty.build("a/libmusa.so.1")
    empty.build("b/libmusa.so.1")
    top = empty.build("top.so", RUNTIME, kind=RPATH, folders=["$ORIGIN/a"])
    assert same(empty, top) == {"top.so", f"a/{RUNTIME}", "a/libmusa.so.1"}
    # Of who has a RUNPATH, neither the own nor the loaders' RPATH counts.
    empty.build(f"a/{RUNTIME}", "libmusa.so.1", folders=["$ORIGIN/../b"])
    assert same(empty, top) == {"top.so", f"a/{RUNTIME}", "b/libmusa.so.1"}
    top = empty.build("top.so", RUNTIME, folders=["$ORIGIN/a"])
    empty.build(f"a/{RUNTIME}", "libmusa.so.1")
    assert empty.mapped([top], None) == empty.predicted([top], None) == (set(), 1)


def test_a_chain_goes_on_above_one_with_a_runpath(empty: Bench) -> None:
    empty.build("a/libmudnn.so.3", "libmublas.so.1", folders=["$ORIGIN"])
    empty.build("a/libmublas.so.1", "libmusa.so.1")
    empty.build("b/libmusa.so.1")
    top = empty.build("top.so", "libmudnn.so.3", kind=RPATH, folders=["$ORIGIN/a", "$ORIGIN/b"])
    assert "b/libmusa.so.1" in same(empty, top)


def test_the_origin_is_where_a_library_was_found(empty: Bench) -> None:
    """Not where a link leads: muDNN in a Toolkit may be a link to a folder of its own."""
    empty.build("real/libmudnn.so.3", "libmusa.so.1", folders=["$ORIGIN"])
    empty.build("real/libmusa.so.1")
    empty.build("toolkit/libmusa.so.1")
    (empty.root / "toolkit/libmudnn.so.3").symlink_to("../real/libmudnn.so.3")
    top = empty.build("top.so", "libmudnn.so.3", folders=["${ORIGIN}/toolkit"])
    assert same(empty, top) == {"top.so", "real/libmudnn.so.3", "toolkit/libmusa.so.1"}


def test_what_is_loaded_is_not_looked_for_again(empty: Bench) -> None:
    empty.build(f"torch/{RUNTIME}")
    empty.build(f"wheel/{RUNTIME}")
    torch = empty.build("torch/_C.so", RUNTIME, folders=["$ORIGIN"])
    top = empty.build("wheel/_MUSAC.so", RUNTIME, folders=["$ORIGIN"])
    assert same(empty, torch, top) == {"torch/_C.so", f"torch/{RUNTIME}", "wheel/_MUSAC.so"}
    assert f"wheel/{RUNTIME}" in same(empty, top, torch)


def test_a_soname_counts_as_much_as_the_name_that_was_asked_for(empty: Bench) -> None:
    empty.build("a/libmusa.so.1", soname=RUNTIME)
    empty.build(f"a/{RUNTIME}")
    first = empty.build("first.so", "libmusa.so.1", folders=["$ORIGIN/a"])
    top = empty.build("top.so", RUNTIME, folders=["$ORIGIN/a"])
    assert same(empty, first, top) == {"first.so", "a/libmusa.so.1", "top.so"}


def test_a_file_under_two_names_is_loaded_once(empty: Bench) -> None:
    empty.build("a/libmusa.so.1", soname=None)
    (empty.root / f"a/{RUNTIME}").symlink_to("libmusa.so.1")
    top = empty.build("top.so", "libmusa.so.1", RUNTIME, folders=["$ORIGIN/a"])
    assert same(empty, top, top) == {"top.so", "a/libmusa.so.1"}


def test_the_order_is_breadth_first(empty: Bench) -> None:
    """The second library that the module needs is asked for before what the first one needs."""
    empty.build("a/libmudnn.so.3", RUNTIME, folders=["$ORIGIN/deep"])
    empty.build(f"a/deep/{RUNTIME}")
    empty.build(f"a/{RUNTIME}")
    top = empty.build("top.so", "libmudnn.so.3", RUNTIME, folders=["$ORIGIN/a"])
    assert f"a/{RUNTIME}" in same(empty, top)


def test_a_needed_path_is_opened_as_it_is(empty: Bench) -> None:
    far = empty.build("far/libmusa.so.1")
    link = empty.build("link.so", soname=str(far))
    assert same(empty, empty.build("top.so", link)) == {"top.so", "far/libmusa.so.1"}
    link = empty.build("link.so", soname="$ORIGIN/far/libmusa.so.1")
    assert same(empty, empty.build("top.so", link)) == {"top.so", "far/libmusa.so.1"}
    far.unlink()
    top = empty.root / "top.so"
    assert empty.mapped([top], f"{empty.root}/stubs") == (set(), 1)
    assert empty.predicted([top], f"{empty.root}/stubs") == (set(), 1)


def test_tokens_in_library_path_and_lib(empty: Bench) -> None:
    _, search, _ = empty.search(None)
    empty.build(f"{search.lib}/{RUNTIME}")
    top = empty.build("top.so", RUNTIME, folders=["$ORIGIN/$LIB", "$ORIGIN/$LIBRARY"])
    assert f"{search.lib}/{RUNTIME}" in same(empty, top)
    origin = os.path.dirname(os.path.realpath(sys.executable))
    up = "/..".join(["$ORIGIN", *("" for part in origin.split("/") if part)])
    plain = empty.build("plain.so", RUNTIME)
    assert f"{search.lib}/{RUNTIME}" in same(empty, plain, search=f"{up}{empty.root}/{search.lib}")


def test_a_module_for_another_machine_is_not_followed(bench: Bench) -> None:
    system, search, process = bench.search(None)
    for folder in ("arm", "text", "none"):
        assert follow(system, search, process, f"{bench.root}/{folder}/{RUNTIME}", None) is None
    assert process.unrecorded == []


def _at_random(bench: Bench, dice: random.Random) -> tuple[list[Path], str | None]:
    """Libraries of all kinds in several folders, sound and damaged; what is to be loaded."""
    folders = ("wheel", "wheel/lib", "toolkit", "old", "else")

    def own() -> tuple[str, list[str]]:
        chosen = dice.choice(folders)
        forms = [f"{bench.root}/{chosen}", "$ORIGIN", f"$ORIGIN/../{chosen}", "${ORIGIN}/lib"]
        listed = [dice.choice(forms) for _ in range(dice.randint(0, 2))]
        return dice.choice([RPATH, RUNPATH]), listed

    for folder in folders:
        for name in NAMES:
            path, luck = bench.root / folder / name, dice.random()
            if luck < 0.15:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if luck < 0.17:
                path.write_text("no library" * 20 if luck < 0.165 else "")
            elif luck < 0.2:
                path.symlink_to("/gone")
            else:
                kind, listed = own()
                real = f"{folder}/{name}" + (".9" if dice.random() < 0.3 else "")
                needed = dice.sample(NAMES, dice.randint(0, 2))
                soname = dice.choice([name, name, name, dice.choice(NAMES)])
                built = bench.build(real, *needed, kind=kind, folders=listed, soname=soname)
                if built != path:
                    path.symlink_to(built)
                if luck > 0.95:
                    data = built.read_bytes()
                    built.write_bytes(data[:18] + (40).to_bytes(2, "little") + data[20:])
    tops: list[Path] = []
    for index in range(dice.randint(1, 3)):
        kind, listed = own()
        needed = dice.sample(NAMES, dice.randint(1, 4))
        folder = dice.choice(folders[:2])
        tops.append(bench.build(f"{folder}/top{index}.so", *needed, kind=kind, folders=listed))
    paths = [f"{bench.root}/{dice.choice([*folders, 'none'])}" for _ in range(dice.randint(0, 2))]
    return tops, dice.choice(":;").join(paths) or None


@pytest.mark.parametrize("seed", range(int(os.environ.get("MUSADOCTOR_TEST_LOADER", "4"))))
def test_hosts_at_random(seed: int, empty: Bench) -> None:
    tops, search = _at_random(empty, random.Random(seed))
    assert empty.predicted(tops, search) == empty.mapped(tops, search)


# What no real library is needed for


def test_tokens() -> None:
    def expanded(entry: str) -> str:
        return expand(entry, "/w", "lib64", "x86_64")

    assert expanded("$ORIGIN/../lib:${ORIGIN}") == "/w/../lib:/w"
    assert expanded("/x/$LIB/${PLATFORM}") == "/x/lib64/x86_64"
    assert expanded("/x/$LIBS/${HOME}/$$ORIGIN_/$") == "/x/$LIBS/${HOME}/$$ORIGIN_/$"


@pytest.mark.parametrize(
    ("stats", "lib"),
    [(["/usr/lib/x86_64-linux-gnu"], "lib/x86_64-linux-gnu"), ([], "lib64")],
)
def test_the_folder_of_an_architecture(stats: list[str], lib: str) -> None:
    assert lib_folder(host(stats={path: stat_of_folder(path) for path in stats}), LINUX) == lib


def test_an_endless_chain_ends() -> None:
    names = [f"libm{index}.so" for index in range(2 * MOST_NAMES)]
    libraries: dict[str, Elf | Failure] = {
        f"/a/{name}": Elf("x86_64", name, (following,), (), ("/a",))
        for name, following in pairwise(names)
    }
    system = host(folders={"/a": names}, libraries=libraries)
    search = Search("x86_64", "lib64", (), (), re.compile("lib"))
    process = empty_process()
    assert follow(system, search, process, "/a/libm0.so", None)
    assert len(process.mapped) == MOST_NAMES


def test_what_a_recording_lacks_is_kept() -> None:
    lost = Failure(UNRECORDED, "lost")
    system = host(
        folders={"/a": ["libmusa.so.1"]},
        libraries={
            "/a/top.so": Elf("x86_64", None, ("libmusa.so.1",), (), ("/a",)),
            "/a/libmusa.so.1": lost,
        },
    )
    search = Search("x86_64", "lib64", (), (), re.compile("lib"))
    process = empty_process()
    assert follow(system, search, process, "/a/top.so", None)
    assert follow(system, search, process, "/a/libmusa.so.1", None) is None
    assert (process.unrecorded, process.asked) == ([lost, lost], [])
