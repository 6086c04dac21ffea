"""Which Toolkit is to be used, what makes it the one in use, and what speaks against it."""

import json
from typing import Any

import pytest
from given import toolkit, wheel
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from recorded import whole

from musadoctor.api import (
    Absent,
    DriverFolder,
    DriverFolders,
    Environment,
    Python,
    SearchEntry,
    Toolkits,
    ToolkitVersion,
    Unknown,
)
from musadoctor.plugins import load
from musadoctor.recording import Recording
from musadoctor.selection import find
from musadoctor.use import BARRING, DOUBTING, Use, choose, find_use

RULES = [find(load(plugins=False).checks, name) for name in (*BARRING, *DOUBTING)]
NEW, OLD = "/usr/local/musa-5.2.0", "/usr/local/musa-4.3.5"
DEPS = "/opt/runtime-deps"
GONE = Absent("no torch_musa")


def machine(case: str, **variables: str) -> Recording:
    """A recorded host with other variables; an empty text unsets one."""
    answers = whole(case)
    known: dict[str, Any] = answers["answers"]["variables"]
    known |= variables
    answers["answers"]["variables"] = {name: value for name, value in known.items() if value}
    return Recording(json.dumps(answers), case)


def used(case: str, wanted: str | None = None, **variables: str) -> Use:
    use = find_use(machine(case, **variables), wanted, seconds=60)
    assert isinstance(use, Use), use
    return use


@pytest.mark.parametrize(
    ("case", "wanted", "variables", "expected"),
    [
        ("side-by-side", "5.2.0", {}, {"PATH": f"{NEW}/bin:/opt/env/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": f"{NEW}/lib"}),
        ("side-by-side", "5.2", {}, {"MUSA_HOME": NEW, "MUSA_PATH": None, "MUSA_DRIVER_LIB_DIR": None}),
        ("side-by-side", None, {}, {"MUSA_HOME": NEW}),
        ("wheel-for-other-toolkit", None, {}, {"MUSA_HOME": NEW, "PATH": f"{NEW}/bin:/opt/env/bin:/usr/bin:/bin"}),
        ("side-by-side-mixed", "5.2.0", {}, {"LD_LIBRARY_PATH": f"{NEW}/lib"}),
        ("side-by-side", "4.3.5", {}, {"MUSA_HOME": OLD, "PATH": f"{OLD}/bin:/opt/env/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": f"{OLD}/lib"}),
        # Everything else stays, in order and once; an empty element of PATH is somebody's choice.
        ("side-by-side", "5.2.0", {"PATH": f"/bin:{OLD}/bin::/usr/bin:{NEW}/bin:/bin:/a b/$x"}, {"PATH": f"{NEW}/bin:/bin::/usr/bin:/a b/$x"}),
        ("side-by-side", "5.2.0", {"PATH": ""}, {"PATH": f"{NEW}/bin:/usr/bin:/bin"}),
        ("side-by-side", "5.2.0", {"PATH": "/home/me/musa-4.3.5/bin"}, {"PATH": f"{NEW}/bin:/home/me/musa-4.3.5/bin"}),
        ("side-by-side", "5.2.0", {"LD_LIBRARY_PATH": ""}, {"LD_LIBRARY_PATH": f"{NEW}/lib"}),
        ("side-by-side", "5.2.0", {"LD_LIBRARY_PATH": f":/usr/lib:/gone:{OLD}/lib;/usr/lib::{NEW}/lib/"}, {"LD_LIBRARY_PATH": f"{NEW}/lib:/usr/lib"}),
        # MUSA_PATH stays where it says the same.
        ("side-by-side", "5.2.0", {"MUSA_PATH": OLD}, {"MUSA_PATH": None}),
        ("side-by-side", "5.2.0", {"MUSA_PATH": f"{NEW}/"}, {"MUSA_PATH": ...}),
        # The libmusa of the release comes first, that of another goes.
        ("driver-folder-left-behind", "5.2.0", {}, {"MUSA_DRIVER_LIB_DIR": f"{DEPS}/5.2.0/lib", "LD_LIBRARY_PATH": f"{DEPS}/5.2.0/lib:{NEW}/lib"}),
        ("driver-folders", "4.3.5", {}, {"MUSA_DRIVER_LIB_DIR": f"{DEPS}/4.3.5/lib", "LD_LIBRARY_PATH": f"{DEPS}/4.3.5/lib:{OLD}/lib"}),
        ("driver-folders", "4.3.5", {"MUSA_DRIVER_LIB_DIR": ""}, {"LD_LIBRARY_PATH": f"{DEPS}/4.3.5/lib:{OLD}/lib"}),
        ("driver-folders", "4.3.5", {"MUSA_DRIVER_LIB_DIR": "", "LD_LIBRARY_PATH": ""}, {"MUSA_DRIVER_LIB_DIR": None, "LD_LIBRARY_PATH": f"{OLD}/lib"}),
        ("driver-folders", "5.2.0", {"LD_LIBRARY_PATH": f"{DEPS}/3.1.0/lib"}, {"LD_LIBRARY_PATH": f"{DEPS}/5.2.0/lib:{NEW}/lib"}),
    ],
)  # fmt: skip
def test_what_is_set(
    case: str, wanted: str | None, variables: dict[str, str], expected: dict[str, Any]
) -> None:
    found = dict(used(case, wanted, **variables).settings)
    assert {name: found.get(name, ...) for name in expected} == expected


ENTRIES = (
    *("", "/gone", "/usr/lib", "/usr/lib/", "/usr/bin", "/bin", "lib", "/a b/'$x'"),
    *("/usr/local/musa/lib", "/usr/local/musa/bin", f"{NEW}/lib", f"{NEW}/bin", f"{OLD}/bin"),
    *(f"{OLD}/lib", f"{DEPS}/4.3.5/lib", f"{DEPS}/5.2.0/lib", f"{DEPS}/9.9.9/lib"),
)
paths = st.lists(st.sampled_from(ENTRIES), max_size=6).map(":".join)


@settings(max_examples=40, deadline=None)
@for_all(
    st.fixed_dictionaries(
        {
            "PATH": paths,
            "LD_LIBRARY_PATH": paths,
            "MUSA_PATH": st.sampled_from(("", NEW, OLD, "/gone")),
            "MUSA_HOME": st.sampled_from(("", NEW, OLD, "/usr/local/musa")),
            "MUSA_DRIVER_LIB_DIR": st.sampled_from(("", "/usr/lib", *ENTRIES[-3:])),
        }
    ),
    st.sampled_from(("4.3.5", "5.2.0")),
)
def test_where_it_is_in_use_the_same_is_set_again(variables: dict[str, str], wanted: str) -> None:
    once = used("driver-folders", wanted, **variables).settings
    values = dict(once)
    if "MUSA_PATH" not in values:
        values["MUSA_PATH"] = variables["MUSA_PATH"]
    then = {name: value or "" for name, value in values.items()}
    assert used("driver-folders", wanted, **then).settings == once
    root = f"/usr/local/musa-{wanted}"
    assert (values["MUSA_HOME"], str(values["PATH"]).split(":")[0]) == (root, f"{root}/bin")
    folders = str(values["LD_LIBRARY_PATH"]).split(":")
    assert folders[folders[0].startswith(DEPS)] == f"{root}/lib"
    assert all(folders)
    for name in ("PATH", "LD_LIBRARY_PATH"):
        listed = str(values[name]).split(":")
        assert len(set(listed)) == len(listed)
        other = {"4.3.5": "musa-5.2.0", "5.2.0": "musa-4.3.5"}[wanted]
        assert other not in str(values[name])


@pytest.mark.parametrize(
    ("case", "wanted", "bars"),
    [
        ("side-by-side", "5.2.0", ()),
        ("side-by-side", "4.3.5", ("torch_musa 2.9.1+musa5.2.0 needs Toolkit 5.x", "kernel driver 5.2.0-server")),
        ("wheel-for-other-toolkit", "4.3.5", ("torch_musa 2.9.1+musa5.2.0 needs Toolkit 5.x", "kernel driver 5.2.0-server")),
        ("wheel-for-other-toolkit", "5.2.0", ()),
        ("s5000-4.3.5", "4.3.5", ()),
    ],
)  # fmt: skip
def test_what_bars_a_toolkit_is_what_the_checks_say(
    case: str, wanted: str, bars: tuple[str, ...]
) -> None:
    found = used(case, wanted).bars
    assert [bar.startswith(start) for bar, start in zip(found, bars, strict=True)] == [True] * len(
        bars
    )


@pytest.mark.parametrize(
    ("case", "wanted", "sentence"),
    [
        ("side-by-side", "9.9", "Toolkit 9.9 is not installed; installed: 5.2.0 in /usr/local/musa-5.2.0, 4.3.5 in /usr/local/musa-4.3.5"),
        ("side-by-side", "5", "Toolkit 5 is not installed; installed: "),
        ("side-by-side", "newest", "Toolkit newest is not installed; installed: "),
        ("side-by-side", "", "Toolkit  is not installed; installed: "),
    ],
)  # fmt: skip
def test_a_toolkit_that_is_not_there(case: str, wanted: str, sentence: str) -> None:
    found = find_use(machine(case), wanted, seconds=60)
    assert isinstance(found, Absent)
    assert found.reason.startswith(sentence)


FACTS: dict[str, object] = {
    "toolkits": Toolkits((toolkit("5.2.0"), toolkit("4.3.5")), "/usr/local"),
    "toolkit": toolkit("5.2.0"),
    "environment": Environment({}, (), ()),
    "driver_folders": Absent("none"),
    "torch_musa_build": GONE,
    "kernel_driver": Absent("no driver"),
    "python": Absent("no Python"),
}


def chosen(wanted: str | None = None, **facts: object) -> Use:
    use = choose({**FACTS, **facts}, RULES, wanted)
    assert isinstance(use, Use), use
    return use


@pytest.mark.parametrize("name", ["toolkits", "environment"])
def test_what_is_not_known_is_not_chosen(name: str) -> None:
    assert choose({**FACTS, name: Unknown("shut")}, RULES, None) == Unknown("shut")


def test_no_toolkit_at_all() -> None:
    assert choose({**FACTS, "toolkits": Absent("no Toolkit")}, RULES, "5.2.0") == Absent(
        "no Toolkit"
    )


UNLABELLED = wheel("libmusart.so.4", number="2.7.1")._replace(runtime_major=4)


@pytest.mark.parametrize(
    ("numbers", "build", "root", "why"),
    [
        (("5.2.0", "4.3.5"), GONE, "5.2.0", "the newest of 2 that are installed"),
        (("5.2.0", "4.3.5"), wheel(number="2.7.1+musa4.3.5")._replace(runtime_major=4), "4.3.5", "torch_musa 2.7.1+musa4.3.5 was built for it"),
        (("5.2.0", "4.3.5", "4.2.0"), UNLABELLED, "4.3.5", "the newest that goes with the wheel and the driver"),
        (("5.2.0",), wheel(), "5.2.0", "the only one that is installed"),
        # Built for one that is not there: refused later, but the newest of all is what is refused.
        (("4.3.5", "4.2.0"), wheel(), "4.3.5", "the newest of 2 that are installed"),
    ],
)  # fmt: skip
def test_which_one_where_none_is_asked_for(
    numbers: tuple[str, ...], build: object, root: str, why: str
) -> None:
    trees = tuple(toolkit(number) for number in numbers)
    use = chosen(toolkits=Toolkits(trees, "/usr/local"), torch_musa_build=build)
    assert (use.toolkit.root, use.why) == (f"/usr/local/musa-{root}", why)


def test_of_two_trees_of_one_number_the_whole_one_then_the_one_in_use() -> None:
    first = toolkit("5.2.0")
    second = first._replace(root="/opt/musa")
    both = Toolkits((first, second), "/usr/local")
    assert chosen("5.2.0", toolkits=both, toolkit=Absent("?")).toolkit == first
    assert chosen("5.2.0", toolkits=both, toolkit=second).toolkit == second
    half = Toolkits((first, second._replace(problem="no libmusart in lib")), "/usr/local")
    assert chosen("5.2.0", toolkits=half, toolkit=second).toolkit == first


def test_doubts_are_told() -> None:
    half = toolkit("4.3.6", problem="no bin/mcc")
    use = chosen(
        toolkits=Toolkits((half,), "/usr/local"),
        torch_musa_build=wheel(number="2.7.1+musa4.3.5")._replace(runtime_major=4),
        kernel_driver=Unknown("shut"),
        driver_folders=Unknown("not in this recording"),
    )
    assert use.bars == ()
    assert [doubt.partition(" is ")[0] for doubt in use.doubts] == [
        "/usr/local/musa-4.3.6: no bin/mcc",
        "torch_musa 2.7.1+musa4.3.5",
        "shut",
        "whether a libmusa belongs to this Toolkit",
    ]


def test_a_toolkit_without_a_number_can_be_the_only_one() -> None:
    tree = toolkit("5.2.0")._replace(root="/opt/sdk", version=None)
    use = chosen(toolkits=Toolkits((tree,), "MUSA_HOME"))
    assert dict(use.settings)["MUSA_HOME"] == "/opt/sdk"


def test_a_folder_that_no_search_path_can_name() -> None:
    tree = toolkit("5.2.0")._replace(root="/opt/a:b")
    found = choose({**FACTS, "toolkits": Toolkits((tree,), "MUSA_HOME")}, RULES, None)
    assert isinstance(found, Absent)
    assert "/opt/a:b" in found.reason


def test_a_libmusa_of_no_stated_release_is_that_of_the_toolkit_in_use() -> None:
    folders = DriverFolders((DriverFolder("/opt/driver", None),))
    own = dict(chosen("5.2.0", driver_folders=folders).settings)
    assert own["MUSA_DRIVER_LIB_DIR"] == "/opt/driver"
    assert own["LD_LIBRARY_PATH"] == f"/opt/driver:{NEW}/lib"
    other = chosen("4.3.5", driver_folders=folders)
    assert dict(other.settings)["MUSA_DRIVER_LIB_DIR"] is None
    assert other.doubts == ("the libmusa in /opt/driver is left out: it names no release",)


def entry(path: str, *libraries: str, real: str = "", number: str = "") -> SearchEntry:
    version = ToolkitVersion.parse(number) if number else None
    return SearchEntry(path, "ok", real or path, libraries, version)


def test_folders_that_are_not_a_toolkits_alone_stay() -> None:
    """One was installed right into /usr, one into the interpreter's environment."""
    in_usr, in_conda = (toolkit("4.3.5")._replace(root=root) for root in ("/usr", "/opt/conda"))
    trees = Toolkits((toolkit("5.2.0"), in_usr, in_conda), "PATH")
    python = Python("/opt/conda/bin/python", "x", "3.10.12", "cp310", "/opt/conda", ())
    path = tuple(map(entry, ("/usr/bin", "/opt/conda/bin")))
    library_path = (entry("/opt/conda/lib", "libmusart.so.4"),)
    at = Environment({}, path, library_path)
    found = dict(chosen("5.2.0", toolkits=trees, environment=at, python=python).settings)
    assert found["PATH"] == f"{NEW}/bin:/usr/bin:/opt/conda/bin"
    assert found["LD_LIBRARY_PATH"] == f"{NEW}/lib:/opt/conda/lib"
    unowned = dict(chosen("5.2.0", environment=at, python=python).settings)
    assert unowned["LD_LIBRARY_PATH"] == f"{NEW}/lib:/opt/conda/lib"


def test_toolkits_that_nothing_else_names_are_known_by_what_they_hold() -> None:
    library_path = (
        entry("/opt/sdk/lib", "libmusart.so.4"),
        entry("/opt/musa-4.3.5/mudnn/lib", "libmudnn.so.3", number="4.3.5"),
        entry("/opt/musa-4.3.5/share", number="4.3.5"),
        entry(f"{NEW}/mudnn/lib", "libmudnn.so.3", number="5.2.0"),
        entry("/opt/mudnn", "libmudnn.so.3"),
    )
    found = dict(chosen("5.2.0", environment=Environment({}, (), library_path)).settings)
    assert found["LD_LIBRARY_PATH"] == f"{NEW}/lib:/opt/musa-4.3.5/share:{NEW}/mudnn/lib:/opt/mudnn"
