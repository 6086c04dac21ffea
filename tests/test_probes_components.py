import json
from typing import Any

import pytest
from support import file, folder, host, sample

from musadoctor.facts import Absent, ComponentLibrary, Unknown
from musadoctor.probes.components import mccl, mudnn
from musadoctor.recording import Recorder
from musadoctor.system import Elf, Ran
from musadoctor.versions import ComponentVersion

ROOT = "/usr/local/musa-5.2.0"
LIB = f"{ROOT}/lib"
QUERY = f"{ROOT}/bin/musa_version_query"
SOURCE_3_1 = "git branch kuae1.3.0_musa3.1.0_mccl1.7.0 in " + QUERY


def machine(
    *,
    held: tuple[str, ...] = (),
    stated: dict[str, str] | None = None,
    query: str | None = None,
    separate: tuple[str, ...] = (),
    elsewhere: tuple[str, ...] = (),
    links: dict[str, str] | None = None,
) -> Recorder:
    """A Toolkit with libraries, and others that the loader takes from /deps."""
    components = {"musa_toolkits": "5.2.0", **(stated or {})}
    stats = {path: folder(path) for path in (ROOT, LIB, "/deps")}
    stats |= {path: file(real=real) for path, real in (links or {}).items()}
    return host(
        variables={"MUSA_HOME": ROOT, "LD_LIBRARY_PATH": "/deps"},
        stats=stats,
        folders={
            LIB: held,
            "/deps": elsewhere,
            **({f"{ROOT}/mudnn/lib": separate} if separate else {}),
        },
        files={
            f"{ROOT}/version.json": json.dumps({k: {"version": v} for k, v in components.items()})
        },
        libraries={f"/deps/{name}": Elf("x86_64", name, (), (), ()) for name in elsewhere},
        runs={QUERY: Ran("ok", 0, query)} if query is not None else {},
    )


def version(text: str) -> ComponentVersion:
    parsed = ComponentVersion.parse(text)
    assert parsed is not None
    return parsed


QUERY_3_1 = sample("musa_version_query-3.1.0-full.txt")
QUERY_4_1 = sample("musa_version_query-4.1.0-s4000.partial.txt")
FILES = ("libmudnn.so", "libmudnn.so.3", "libmudnn.so.3.4.0", "libmudnn_extra.so.9.9")


@pytest.mark.parametrize(
    ("options", "number", "path", "source"),
    [
        (
            {"held": FILES, "stated": {"mudnn": "3.4.1"}, "query": QUERY_3_1},
            "3.4.1",
            f"{LIB}/libmudnn.so.3.4.0",
            f"{ROOT}/version.json",
        ),
        (
            {"held": FILES, "query": QUERY_3_1},
            "2.7.0",
            f"{LIB}/libmudnn.so.3.4.0",
            f"git branch kuae1.3.0_musa3.1.0_mudnn2.7.0 in {QUERY}",
        ),
        (
            {"held": FILES, "query": sample("musa_version_query-4.2.0-s80.partial.txt")},
            "3.0.0",
            f"{LIB}/libmudnn.so.3.4.0",
            QUERY,
        ),
        (
            {"held": FILES, "query": QUERY_4_1},
            "3.4.0",
            f"{LIB}/libmudnn.so.3.4.0",
            f"{LIB}/libmudnn.so.3.4.0",
        ),
        (
            {"held": FILES},
            "3.4.0",
            f"{LIB}/libmudnn.so.3.4.0",
            f"{LIB}/libmudnn.so.3.4.0",
        ),
        (
            {"held": ("libmudnn.so.3",), "links": {f"{LIB}/libmudnn.so.3": "/x/libmudnn.so.3.1.5"}},
            "3.1.5",
            f"{LIB}/libmudnn.so.3",
            "/x/libmudnn.so.3.1.5",
        ),
        (
            {"held": ("libmudnn.so.3",)},
            None,
            f"{LIB}/libmudnn.so.3",
            f"{LIB}/libmudnn.so.3, which nothing numbers",
        ),
        (
            {"separate": ("libmudnn.so.2.8.0",)},
            "2.8.0",
            f"{ROOT}/mudnn/lib/libmudnn.so.2.8.0",
            f"{ROOT}/mudnn/lib/libmudnn.so.2.8.0",
        ),
        # The Toolkit's word is about its own file only.
        (
            {"held": FILES, "stated": {"mudnn": "3.4.0"}, "elsewhere": ("libmudnn.so.3",)},
            None,
            "/deps/libmudnn.so.3",
            "/deps/libmudnn.so.3, which nothing numbers",
        ),
        (
            {
                "held": FILES,
                "stated": {"mudnn": "3.4.0"},
                "elsewhere": ("libmudnn.so.3",),
                "links": {"/deps/libmudnn.so.3": f"{LIB}/libmudnn.so.3.4.0"},
            },
            "3.4.0",
            "/deps/libmudnn.so.3",
            f"{ROOT}/version.json",
        ),
    ],
)
def test_mudnn(options: dict[str, Any], number: str | None, path: str, source: str) -> None:
    expected = version(number) if number else None
    assert mudnn(machine(**options)) == ComponentLibrary("muDNN", expected, path, source)


@pytest.mark.parametrize(
    ("options", "number", "source"),
    [
        ({"stated": {"mccl": "2.4.0"}, "query": QUERY_4_1}, "2.4.0", f"{ROOT}/version.json"),
        # The block says 2.11.4 here as well.
        ({"query": QUERY_3_1}, "1.7.0", SOURCE_3_1),
        (
            {"query": QUERY_4_1},
            None,
            f"{QUERY} states 2.11.4, the NCCL release that it is compatible with",
        ),
        (
            {"query": QUERY_4_1, "links": {f"{LIB}/libmccl.so.2": f"{LIB}/libmccl.so.2.1.5"}},
            "2.1.5",
            f"{LIB}/libmccl.so.2.1.5",
        ),
        (
            {"links": {f"{LIB}/libmccl.so.2": f"{LIB}/libmccl.so.2.11.4"}},
            None,
            f"{LIB}/libmccl.so.2.11.4 states 2.11.4, the NCCL release that it is compatible with",
        ),
    ],
)
def test_mccl(options: dict[str, Any], number: str | None, source: str) -> None:
    expected = version(number) if number else None
    found = mccl(machine(held=("libmccl.so.2",), **options))
    assert found == ComponentLibrary("MCCL", expected, f"{LIB}/libmccl.so.2", source)


def test_no_library() -> None:
    # Whatever version.json says.
    found = mccl(machine(stated={"mccl": "2.4.0"}))
    assert found == Absent(f"no libmccl.so* on the loader's path or in {LIB}")
    assert mudnn(host()) == Absent("no libmudnn.so* on the loader's path")


def test_what_a_recording_lacks_is_unknown() -> None:
    assert mudnn(host(unlisted="unrecorded")) == Unknown("MUSA_HOME: not in this recording")


def test_the_toolkit_in_use_need_not_look_like_one() -> None:
    # MUSA_HOME leads to a folder with nothing but muDNN in it.
    system = host(
        variables={"MUSA_HOME": "/opt/sdk"},
        stats={"/opt/sdk": folder("/opt/sdk")},
        folders={"/opt/sdk/lib": ["libmudnn.so.3.4.0"]},
    )
    at = "/opt/sdk/lib/libmudnn.so.3.4.0"
    assert mudnn(system) == ComponentLibrary("muDNN", version("3.4.0"), at, at)
