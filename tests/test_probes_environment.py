import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import file, folder, host

from musadoctor.facts import Environment, SearchEntry, Unknown
from musadoctor.probes.environment import VARIABLES, environment, stem_of
from musadoctor.system import NOT_ALLOWED, NOT_THERE, Failure, Stat
from musadoctor.versions import ToolkitVersion

ROOT = "/usr/local/musa-5.2.0"
V520 = ToolkitVersion("5.2.0", (5, 2, 0))


def of(**options: object) -> Environment:
    found = environment(host(**options))  # type: ignore[arg-type]
    assert isinstance(found, Environment)
    return found


def test_only_known_names_are_asked_for() -> None:
    system = host(variables={"MUSA_HOME": "/x", "SECRET_TOKEN": "hush"})
    found = environment(system)
    assert isinstance(found, Environment)
    assert found.variables == {"MUSA_HOME": "/x"}
    assert set(system.answers()["variables"]) == set(VARIABLES)


def test_the_names_are_variables_each_once() -> None:
    assert len(set(VARIABLES)) == len(VARIABLES)
    assert all(re.fullmatch("[A-Z][A-Z0-9_]*", name) for name in VARIABLES)
    for name in (
        *("MUSA_HOME", "MUSA_PATH", "MUSA_INSTALL_PATH", "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD"),
        *("MUSA_VISIBLE_DEVICES", "MTHREADS_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
        *("PYTORCH_MUSA_ALLOC_CONF", "TORCH_DEVICE_BACKEND_AUTOLOAD", "MUSA_PATCH_PATH"),
        *("SLIME_ACCELERATOR", "SLIME_ENABLE_EXPANDABLE_SEGMENTS", "MUSA_LAUNCH_BLOCKING"),
        *("MCCL_ALGO", "MCCL_ALGOS", "MCCL_PROTOS", "MCCL_IB_GID_INDEX", "NCCL_DEBUG"),
        "TORCH_MCCL_BLOCKING_WAIT",
    ):
        assert name in VARIABLES


@pytest.mark.parametrize(
    ("variables", "path", "library_path"),
    [
        ({}, [], []),
        ({"PATH": "/a:/b", "LD_LIBRARY_PATH": "/c:/d"}, ["/a", "/b"], ["/c", "/d"]),
        # The loader takes a semicolon for a colon, and an empty value for none.
        ({"LD_LIBRARY_PATH": "/c;/d"}, [], ["/c", "/d"]),
        ({"PATH": "", "LD_LIBRARY_PATH": ""}, [""], []),
        ({"PATH": "/a;/b", "LD_LIBRARY_PATH": ":/c:"}, ["/a;/b"], ["", "/c", ""]),
    ],
)
def test_search_paths(variables: dict[str, str], path: list[str], library_path: list[str]) -> None:
    found = of(variables=variables)
    assert [entry.path for entry in found.path] == path
    assert [entry.path for entry in found.library_path] == library_path


LIB = f"{ROOT}/lib"
SHUT = Failure(NOT_ALLOWED, "/x: Permission denied")


@pytest.mark.parametrize(
    ("written", "stat", "names", "expected"),
    [
        (
            "/usr/local/musa/lib",
            folder(LIB),
            ("libmusart.so.5", "libmusart_static.a", "libcuda.so.1", "libmudnn.so.3.4.0"),
            SearchEntry(
                "/usr/local/musa/lib", "ok", LIB, ("libmusart.so.5", "libmudnn.so.3.4.0"), V520
            ),
        ),
        (LIB, folder(""), (), SearchEntry(LIB, "ok", LIB, (), V520)),
        ("/x", Failure(NOT_THERE, "no /x"), (), SearchEntry("/x", "missing", "/x")),
        (
            "/usr/local/musa/lib",
            Stat("dangling", 0, 0, "", usable=False, executable=False, real=LIB),
            (),
            SearchEntry("/usr/local/musa/lib", "missing", LIB),
        ),
        ("/x", file(real="/x"), (), SearchEntry("/x", "not a folder", "/x")),
        ("/x", SHUT, (), SearchEntry("/x", "unreadable", "/x")),
        ("/x", folder("/x"), SHUT, SearchEntry("/x", "unreadable", "/x")),
        (
            "/x",
            folder("/x")._replace(executable=False),
            ("libmusa.so.1",),
            SearchEntry("/x", "unreadable", "/x", ("libmusa.so.1",)),
        ),
    ],
)
def test_a_library_folder(
    written: str, stat: Stat | Failure, names: tuple[str, ...] | Failure, expected: SearchEntry
) -> None:
    found = of(
        variables={"LD_LIBRARY_PATH": written}, stats={written: stat}, folders={written: names}
    )
    assert found.library_path == (expected,)


def test_an_empty_element_is_the_current_folder() -> None:
    found = of(
        variables={"LD_LIBRARY_PATH": ":/x"},
        stats={".": folder("/home/me"), "/x": folder("/x")},
        folders={".": ["libmusa.so.1"], "/x": []},
    )
    assert found.library_path[0] == SearchEntry("", "empty", "/home/me", ("libmusa.so.1",))
    assert of(variables={"PATH": ":"}).path == (SearchEntry("", "empty", ""),) * 2


def test_folders_of_programs_are_not_listed() -> None:
    system = host(
        variables={"PATH": f"{ROOT}/bin:/usr/bin"},
        stats={f"{ROOT}/bin": folder(f"{ROOT}/bin"), "/usr/bin": folder("/usr/bin")},
    )
    found = environment(system)
    assert isinstance(found, Environment)
    assert [(e.state, e.toolkit) for e in found.path] == [("ok", V520), ("ok", None)]
    assert "/usr/bin" not in system.answers()["folders"]


def test_the_toolkit_of_a_folder_is_that_of_its_version_json() -> None:
    found = of(
        variables={"MUSA_HOME": "/opt/sdk", "LD_LIBRARY_PATH": "/opt/sdk/lib:/opt/sdk2"},
        stats={p: folder(p) for p in ("/opt/sdk", "/opt/sdk/lib", "/opt/sdk2")},
        files={"/opt/sdk/version.json": '{"musa_toolkits": {"version": "5.2.0"}}'},
    )
    assert [entry.toolkit for entry in found.library_path] == [V520, None]


@pytest.mark.parametrize("name", ["MUSA_HOME", "PATH", "LD_LIBRARY_PATH"])
def test_unknown_where_the_search_paths_are(name: str) -> None:
    others = dict.fromkeys(({"MUSA_HOME", "PATH", "LD_LIBRARY_PATH"} - {name}), None)
    assert environment(host(variables=others, unlisted="unrecorded")) == Unknown(
        f"{name}: not in this recording"
    )


def test_a_recording_may_lack_the_names_of_a_newer_version() -> None:
    variables = {"MUSA_HOME": None, "PATH": None, "LD_LIBRARY_PATH": None, "MCCL_DEBUG": "INFO"}
    found = of(variables=variables, unlisted="unrecorded")
    assert found == Environment({"MCCL_DEBUG": "INFO"}, (), ())


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("libmusa.so.1", "libmusa"),
        ("libmusa.so", "libmusa"),
        ("libmusart.so.5.2.0", "libmusart"),
        ("libmublasLt.so.0", "libmublasLt"),
        ("libsrv_um_MUSA.so", "libsrv_um_MUSA"),
        ("libmupti.so.0.9", "libmupti"),
        ("libmusa_kernels.so", None),
        ("libmusart.a", None),
        ("libmusart.so.5.bak", None),
        ("libmpi.so.40", None),
        ("xlibmusa.so.1", None),
    ],
)
def test_stems(name: str, stem: str | None) -> None:
    assert stem_of(name) == stem


@given(st.text(), st.text())
def test_any_search_path_is_read(path: str, library_path: str) -> None:
    of(variables={"PATH": path, "LD_LIBRARY_PATH": library_path})
