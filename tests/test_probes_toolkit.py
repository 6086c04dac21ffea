import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import file, folder, host, sample

from musadoctor.facts import (
    Absent,
    Component,
    Mcc,
    Route,
    Toolkit,
    ToolkitRoutes,
    Toolkits,
    Unknown,
    VersionQuery,
)
from musadoctor.probes.routes import toolkit_routes
from musadoctor.probes.toolkit import (
    VersionFile,
    mcc,
    parse_mcc,
    parse_version_json,
    toolkit,
    toolkits,
    tree_of_path,
    version_query,
)
from musadoctor.recording import Recorder
from musadoctor.system import NOT_ALLOWED, UNRECORDED, Elf, Failure, Found, Ran, Stat
from musadoctor.versions import ComponentVersion, ToolkitVersion

V435 = ToolkitVersion("4.3.5", (4, 3, 5))
V520 = ToolkitVersion("5.2.0", (5, 2, 0))
M435 = "/usr/local/musa-4.3.5"
M520 = "/usr/local/musa-5.2.0"
LINK = "/usr/local/musa"
TABLES = ("files", "folders", "stats", "variables", "programs", "libraries", "loader_cache", "runs")
Tables = dict[str, Any]


def component(name: str, version: str) -> Component:
    parsed = ComponentVersion.parse(version)
    assert parsed is not None
    return Component(name, parsed)


def version_json(**versions: str) -> str:
    return json.dumps({name: {"version": version} for name, version in versions.items()})


def tree(root: str, version: str | None = None, *, runtime: str = "libmusart.so.5") -> Tables:
    """A whole Toolkit."""
    tables: Tables = {
        "stats": {root: folder(root)},
        "folders": {f"{root}/bin": ["mcc", "musaInfo"], f"{root}/lib": [runtime, "cmake"]},
    }
    if version:
        tables["files"] = {f"{root}/version.json": version_json(musa_toolkits=version)}
    return tables


def machine(*parts: Mapping[str, Any], local: tuple[str, ...] | Failure = ()) -> Recorder:
    """A host that has all these answers, and in /usr/local these names."""
    tables: Tables = {table: {} for table in TABLES}
    tables["folders"]["/usr/local"] = local
    for part in parts:
        for table, answers in part.items():
            tables[table] |= answers
    return host(**tables)


def variables(**values: str) -> Tables:
    return {"variables": values}


def link(path: str, real: str) -> Tables:
    return {"stats": {path: folder(real)}}


def mcc_on_path(path: str, real: str = "") -> Tables:
    return {"programs": {"mcc": Found(path)}, "stats": {path: file(real=real)}}


WHOLE = Toolkit(M520, V520, f"{M520}/version.json", (), ("libmusart.so.5",))


# version.json


def test_version_json_sample() -> None:
    # The sample is the first two lines that `grep -A1 musa_toolkits` found.
    excerpt = sample("version.json_5.1.0_excerpt.txt")
    cut = parse_version_json(excerpt)
    assert (cut.version, cut.components) == (None, ())
    assert cut.problem is not None
    assert cut.problem.startswith("damaged version.json: ")
    whole = "{" + excerpt.rstrip().rstrip(",") + '}, "mudnn": {"version": "3.2.0"}}'
    assert parse_version_json(whole) == VersionFile(
        ToolkitVersion("5.1.0", (5, 1, 0)), (component("mudnn", "3.2.0"),), None
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", VersionFile(None, (), None)),
        ('{"musa_toolkits": "5.2.0", "mcc": null}', VersionFile(None, (), None)),
        # As a number 4.10 would have become 4.1.
        ('{"musa_toolkits": {"version": 4.1}}', VersionFile(None, (), None)),
        (
            '{"mcc": {"version": "4.3.5"}}',
            VersionFile(None, (component("mcc", "4.3.5"),), None),
        ),
        ("[1]", VersionFile(None, (), "damaged version.json: not a JSON object")),
        (
            "",
            VersionFile(
                None, (), "damaged version.json: Expecting value: line 1 column 1 (char 0)"
            ),
        ),
    ],
)
def test_version_json(text: str, expected: VersionFile) -> None:
    assert parse_version_json(text) == expected


def test_a_deep_version_json_is_damaged() -> None:
    assert parse_version_json("[" * 100_000).problem is not None


json_values = st.recursive(
    st.none() | st.floats() | st.text() | st.sampled_from(["1.0", "9" * 5000]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["version", "mcc"]), inner),
)


@given(st.text() | json_values.map(json.dumps))
def test_any_version_json_is_read(text: str) -> None:
    parse_version_json(text)


# mcc


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("mcc-version_5.2.0.txt", "5.2.0"),
        ("mcc-version_line_4.3.1_s4000.txt", "4.3.1"),
        ("mcc-version_line_4.3.4_s5000.txt", "4.3.4"),
    ],
)
def test_mcc_samples(name: str, version: str) -> None:
    assert str(parse_mcc(sample(name))) == version


@pytest.mark.parametrize("text", ["", "clang version 14.0.0", "mcc version unknown"])
def test_no_mcc_version(text: str) -> None:
    assert parse_mcc(text) is None


@given(st.text().map("mcc version {}".format))
def test_any_mcc_output_is_read(text: str) -> None:
    parse_mcc(text)


GOOD = Ran("ok", 0, "clang version 14.0.0\nmcc version 5.2.0\n")
V_MCC = ComponentVersion("5.2.0", (5, 2, 0))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (
            (mcc_on_path(f"{LINK}/bin/mcc"), {"runs": {"mcc --version": GOOD}}),
            Mcc(f"{LINK}/bin/mcc", V_MCC),
        ),
        (
            (tree(M520), variables(MUSA_HOME=M520), {"runs": {f"{M520}/bin/mcc --version": GOOD}}),
            Mcc(f"{M520}/bin/mcc", V_MCC),
        ),
        ((tree(M520), variables(MUSA_HOME=M520)), Absent(f"no {M520}/bin/mcc")),
        ((), Absent("no mcc")),
        (
            ({"runs": {"mcc --version": Ran("ok", 0, "MATLAB Compiler")}},),
            Unknown("mcc --version: printed no line `mcc version ...`"),
        ),
        (
            (
                mcc_on_path(f"{LINK}/bin/mcc"),
                {"runs": {"mcc --version": Ran("timed out", note="no answer in 10 s, killed")}},
            ),
            Unknown(f"{LINK}/bin/mcc --version: no answer in 10 s, killed"),
        ),
        (
            ({"runs": {"mcc --version": Ran("failed", 1, GOOD.out, note="exit code 1")}},),
            Unknown("mcc --version: exit code 1"),
        ),
    ],
)
def test_mcc(parts: tuple[Tables, ...], expected: object) -> None:
    assert mcc(machine(*parts)) == expected


def test_mcc_where_the_toolkit_is_not_known() -> None:
    system = host(runs={"mcc --version": Ran("not there", note="no mcc")}, unlisted="unrecorded")
    assert mcc(system) == Unknown("MUSA_HOME: not in this recording")


# Trees


def test_the_newest_toolkit_comes_first_and_each_once() -> None:
    system = machine(
        tree(M435, "4.3.5", runtime="libmusart.so.4"),
        tree(M520, "5.2.0"),
        tree("/opt/sdk", "5.1.0"),
        tree("/usr/local/musa-old"),
        link(LINK, M520),
        variables(MUSA_HOME="/opt/sdk", MUSA_PATH=LINK),
        mcc_on_path(f"{LINK}/bin/mcc", f"{M435}/bin/mcc"),
        local=("bin", "musa", "musa-4.3.5", "musa-5.2.0", "musa-old", "musan", "musatop"),
    )
    found = toolkits(system)
    assert isinstance(found, Toolkits)
    assert [(t.root, str(t.version), t.source) for t in found.installed] == [
        (M520, "5.2.0", f"{M520}/version.json"),
        ("/opt/sdk", "5.1.0", "MUSA_HOME=/opt/sdk, /opt/sdk/version.json"),
        (M435, "4.3.5", f"{M435}/version.json"),
        ("/usr/local/musa-old", "None", "nothing states it"),
    ]


def test_a_whole_toolkit() -> None:
    found = toolkits(machine(tree(M520, "5.2.0"), local=("musa-5.2.0",)))
    assert found == Toolkits((WHOLE,), "/usr/local, MUSA_HOME, MUSA_PATH, mcc on PATH")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({f"{M520}/bin": Failure("not there", "no bin")}, "no bin/mcc"),
        ({f"{M520}/bin": ["musaInfo"]}, "no bin/mcc"),
        ({f"{M520}/lib": Failure("not there", "no lib")}, "no libraries in lib"),
        ({f"{M520}/lib": []}, "no libraries in lib"),
        ({f"{M520}/lib": ["libmudnn.so.3"]}, "no libmusart in lib"),
        ({f"{M520}/bin": [], f"{M520}/lib": []}, "no bin/mcc, no libraries in lib"),
        ({f"{M520}/bin": ["mcu"], f"{M520}/lib": []}, "no bin/mcc, no libraries in lib"),
        (
            {f"{M520}/lib": Failure(NOT_ALLOWED, f"{M520}/lib: Permission denied")},
            f"{M520}/lib: Permission denied",
        ),
        ({f"{M520}/lib": Failure(UNRECORDED, "not in this recording")}, None),
    ],
)
def test_a_half_filled_tree(changes: Mapping[str, Any], problem: str | None) -> None:
    found = toolkits(machine(tree(M520, "5.2.0"), {"folders": changes}, local=("musa-5.2.0",)))
    assert isinstance(found, Toolkits)
    (only,) = found.installed
    assert (only.version, only.problem) == (V520, problem)


@pytest.mark.parametrize(
    ("answer", "source", "problem"),
    [
        ("{}", "by the folder's name", None),
        ('{"musa', "by the folder's name", "damaged version.json: "),
        (Failure("not there", "no version.json"), "by the folder's name", None),
        (Failure(UNRECORDED, "not in this recording"), "by the folder's name", None),
        (Failure(NOT_ALLOWED, "Permission denied"), "by the folder's name", "Permission denied"),
    ],
)
def test_the_version_by_the_folder_s_name(
    answer: str | Failure, source: str, problem: str | None
) -> None:
    found = toolkits(
        machine(tree(M520), {"files": {f"{M520}/version.json": answer}}, local=("musa-5.2.0",))
    )
    assert isinstance(found, Toolkits)
    (only,) = found.installed
    assert (only.version, only.source) == (V520, source)
    assert (only.problem or "").startswith(problem or "")
    assert bool(only.problem) is bool(problem)


@pytest.mark.parametrize(
    ("ran", "version", "source"),
    [
        (
            Ran("ok", 0, sample("musa_version_query-3.1.0-full.txt")),
            "3.1.0",
            f"{LINK}/bin/musa_version_query",
        ),
        (
            Ran("ok", 0, 'mcc:\n{\n"version": "3.1.0"\n}'),
            "None",
            f"{LINK}/bin/musa_version_query",
        ),
        (
            Ran("timed out", note="no answer in 10 s, killed"),
            "None",
            f"{LINK}/bin/musa_version_query: no answer in 10 s, killed",
        ),
    ],
)
def test_the_version_by_musa_version_query(ran: Ran, version: str, source: str) -> None:
    # Images of the years before 2025 have no other tree than /usr/local/musa.
    system = machine(
        tree(LINK, runtime="libmusart.so.1.0"),
        {"folders": {f"{LINK}/bin": ["mcc", "musa_version_query"]}},
        {"runs": {f"{LINK}/bin/musa_version_query": ran}},
        local=("musa",),
    )
    found = toolkits(system)
    assert isinstance(found, Toolkits)
    (only,) = found.installed
    assert (str(only.version), only.source) == (version, source)


def test_a_toolkit_of_known_version_is_not_run() -> None:
    system = machine(
        tree(M520, "5.2.0"),
        {"folders": {f"{M520}/bin": ["mcc", "musa_version_query"]}},
        local=("musa-5.2.0",),
    )
    toolkits(system)
    assert "runs" not in system.answers()


def test_other_products_are_no_toolkits() -> None:
    matlab = "/opt/matlab"
    system = machine(
        {"stats": {matlab: folder(matlab), "/usr/local/musan": folder("/usr/local/musan")}},
        {"folders": {f"{matlab}/bin": ["mcc"]}},
        mcc_on_path(f"{matlab}/bin/mcc", f"{matlab}/bin/mcc"),
        local=("musan",),
    )
    assert toolkits(system) == Absent(
        "no Toolkit in /usr/local, and none by MUSA_HOME, MUSA_PATH or mcc on PATH"
    )
    assert toolkit(system) == Absent(
        "MUSA_HOME and MUSA_PATH are not set, no mcc on PATH, no /usr/local/musa*"
    )


def test_no_usr_local() -> None:
    absent = machine(local=Failure("not there", "no /usr/local"))
    assert isinstance(toolkits(absent), Absent)
    assert isinstance(toolkit(absent), Absent)
    shut = machine(local=Failure(NOT_ALLOWED, "/usr/local: Permission denied"))
    assert toolkits(shut) == Unknown("/usr/local: Permission denied")
    assert toolkit(shut) == Unknown("/usr/local: Permission denied")
    # Its folders can be opened all the same.
    found = toolkits(
        machine(
            tree(M520, "5.2.0"),
            link(LINK, M520),
            local=Failure(NOT_ALLOWED, "/usr/local: Permission denied"),
        )
    )
    assert isinstance(found, Toolkits)
    assert [t.root for t in found.installed] == [M520]


def test_tree_of_path() -> None:
    outer = WHOLE._replace(root="/usr", version=None)
    assert tree_of_path((outer, WHOLE), f"{M520}/lib") is WHOLE
    assert tree_of_path((outer, WHOLE), M520) is WHOLE
    assert tree_of_path((outer, WHOLE), f"{M520}-beta/lib") is outer
    assert tree_of_path((WHOLE,), "/opt") is None


# The Toolkit in use

BOTH = (tree(M435, "4.3.5"), tree(M520, "5.2.0"))
LOCAL = ("musa-4.3.5", "musa-5.2.0")


@pytest.mark.parametrize(
    ("parts", "version", "source"),
    [
        (
            (variables(MUSA_HOME=M435, MUSA_PATH=M520), mcc_on_path(f"{M520}/bin/mcc")),
            V435,
            f"MUSA_HOME={M435}, {M435}/version.json",
        ),
        (
            (variables(MUSA_HOME="", MUSA_PATH=M520), link(LINK, M435)),
            V520,
            f"MUSA_PATH={M520}, {M520}/version.json",
        ),
        (
            (mcc_on_path(f"{LINK}/bin/mcc", f"{M435}/bin/mcc"), link(LINK, M520)),
            V435,
            f"{LINK}/bin/mcc on PATH, {M435}/version.json",
        ),
        # Links may be unknown in a recording.
        ((mcc_on_path(f"{M435}/bin/mcc"),), V435, f"{M435}/bin/mcc on PATH, {M435}/version.json"),
        (
            ({"programs": {"mcc": Found(f"{M435}/bin/mcc")}},),
            V435,
            f"{M435}/bin/mcc on PATH, {M435}/version.json",
        ),
        ((link(LINK, M520),), V520, f"{LINK}, {M520}/version.json"),
    ],
)
def test_the_toolkit_in_use(
    parts: tuple[Tables, ...], version: ToolkitVersion, source: str
) -> None:
    found = toolkit(machine(*BOTH, *parts, local=LOCAL))
    assert isinstance(found, Toolkit)
    assert (found.version, found.source) == (version, source)


def test_a_single_toolkit_is_in_use() -> None:
    found = toolkit(machine(tree(M435, "4.3.5"), local=("musa-4.3.5",)))
    assert isinstance(found, Toolkit)
    assert found.source == f"the only Toolkit in /usr/local, {M435}/version.json"


def test_nothing_says_which_toolkit_is_in_use() -> None:
    assert toolkit(machine(*BOTH, local=LOCAL)) == Absent(
        f"nothing says which of {M435}, {M520} to use: MUSA_HOME and MUSA_PATH are not set, "
        "no mcc on PATH, no /usr/local/musa"
    )


def dangling(real: str) -> Stat:
    return Stat("dangling", 0, 0, "", usable=False, executable=False, real=real)


@pytest.mark.parametrize(
    ("stat", "expected"),
    [
        (None, Absent("MUSA_HOME is /x, which is not there")),
        (dangling("/y"), Absent("MUSA_HOME is /x, a link to /y, which is not there")),
        (file(), Absent("MUSA_HOME is /x, which is not a folder")),
        (
            Failure(NOT_ALLOWED, "/x: Permission denied"),
            Unknown("MUSA_HOME is /x, not looked into: /x: Permission denied"),
        ),
    ],
)
def test_a_variable_is_taken_at_its_word(stat: Stat | Failure | None, expected: object) -> None:
    # Software that reads MUSA_HOME looks nowhere else.
    stats = {"/x": stat} if stat else {}
    system = machine(
        tree(M520, "5.2.0"),
        link(LINK, M520),
        variables(MUSA_HOME="/x", MUSA_PATH=M520),
        {"stats": stats},
        local=("musa", "musa-5.2.0"),
    )
    assert toolkit(system) == expected
    assert isinstance(toolkits(system), Toolkits)


def test_musa_home_inside_a_toolkit() -> None:
    system = machine(
        tree(M520, "5.2.0"),
        link(f"{M520}/bin", f"{M520}/bin"),
        variables(MUSA_HOME=f"{M520}/bin"),
        local=("musa-5.2.0",),
    )
    assert toolkit(system) == Toolkit(
        root=f"{M520}/bin",
        version=None,
        source=f"MUSA_HOME={M520}/bin, nothing states it",
        components=(),
        libraries=(),
        problem="no bin/mcc, no libraries in lib",
    )
    found = toolkits(system)
    assert isinstance(found, Toolkits)
    assert [t.root for t in found.installed] == [M520]


@pytest.mark.parametrize(
    "answers",
    [
        {"variables": {}},
        {"variables": {"MUSA_HOME": None}},
        {"variables": {"MUSA_HOME": None, "MUSA_PATH": None}},
        {
            "variables": {"MUSA_HOME": None, "MUSA_PATH": None},
            "programs": {"mcc": Found("/x/bin/mcc")},
        },
        {
            "variables": {"MUSA_HOME": None, "MUSA_PATH": None},
            "programs": {"mcc": Found("")},
        },
        {
            "variables": {"MUSA_HOME": None, "MUSA_PATH": None},
            "programs": {"mcc": Found("")},
            "folders": {"/usr/local": ()},
        },
    ],
)
def test_what_a_recording_lacks_is_unknown(answers: Tables) -> None:
    system = host(**answers, unlisted="unrecorded")
    found = toolkit(system)
    assert isinstance(found, Unknown)
    assert "not in this recording" in found.reason
    if "folders" not in answers:
        assert isinstance(toolkits(system), Unknown)


def test_version_query_of_the_toolkit_in_use_or_of_path() -> None:
    ran = Ran("ok", 0, 'mcc:\n{\n"version": "5.2.0"\n}')
    at_home = machine(
        tree(M520, "5.2.0"),
        variables(MUSA_HOME=M520),
        {"runs": {f"{M520}/bin/musa_version_query": ran}},
    )
    expected = (component("mcc", "5.2.0"),)
    assert version_query(at_home) == VersionQuery(expected, f"{M520}/bin/musa_version_query")
    on_path = machine({"runs": {"musa_version_query": ran}})
    assert version_query(on_path) == VersionQuery(expected, "musa_version_query")
    assert version_query(machine()) == Absent("no musa_version_query")


# Routes

SITE = "/env/site"


def torch_musa(version: str, *needed: str) -> Tables:
    """torch_musa in the interpreter that is examined."""
    info = f"{SITE}/torch_musa-{version}.dist-info"
    answer = {
        "version": "3.10.12",
        "implementation": "cpython",
        "prefix": "/env",
        "search_path": [SITE],
    }
    return {
        "runs": {"child:python": Ran("ok", 0, answer=json.dumps(answer))},
        "folders": {
            SITE: ["torch_musa", f"torch_musa-{version}.dist-info"],
            f"{SITE}/torch_musa": ["__init__.py", "_MUSAC.so"],
        },
        "files": {f"{info}/METADATA": f"Name: torch_musa\nVersion: {version}\n"},
        "libraries": {f"{SITE}/torch_musa/_MUSAC.so": elf("_MUSAC.so", *needed)},
    }


def elf(soname: str, *needed: str) -> Elf:
    return Elf("x86_64", soname, needed, (), ())


def on_library_path(root: str, *sonames: str) -> Tables:
    lib = f"{root}/lib"
    return {
        "variables": {"LD_LIBRARY_PATH": lib},
        "stats": {lib: folder(lib)},
        "folders": {lib: sonames},
        "libraries": {f"{lib}/{soname}": elf(soname) for soname in sonames},
    }


def routes(*parts: Tables, local: tuple[str, ...] = LOCAL) -> tuple[Route, ...]:
    found = toolkit_routes(machine(*parts, local=local))
    assert isinstance(found, ToolkitRoutes)
    return found.routes


def test_all_routes() -> None:
    found = routes(
        *BOTH,
        link(LINK, M520),
        variables(MUSA_HOME=LINK, MUSA_PATH="/x"),
        mcc_on_path(f"{LINK}/bin/mcc", f"{M435}/bin/mcc"),
        on_library_path(M435, "libmusart.so.4"),
        torch_musa("2.9.1+musa5.2.0", "libmusart.so.5"),
    )
    assert found == (
        Route("MUSA_HOME", M520, V520, 5),
        Route("MUSA_PATH", "/x", None, None),
        Route("mcc on PATH", M435, V435, 4),
        Route(LINK, M520, V520, 5),
        Route("loader", f"{M435}/lib/libmusart.so.4", V435, 4),
        Route("wheel", "torch_musa 2.9.1+musa5.2.0", V520, 5),
    )


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        (("libmusart.so.5",), [("wheel", None, 5)]),
        # Not named after the Toolkit's generation.
        (("libmusart.so.1.0",), []),
        ((), []),
    ],
)
def test_a_wheel_without_a_label(
    needed: tuple[str, ...], expected: list[tuple[str, None, int]]
) -> None:
    system = machine(torch_musa("2.9.1", *needed))
    found = toolkit_routes(system)
    kept = found.routes if isinstance(found, ToolkitRoutes) else ()
    assert [(route.name, route.version, route.major) for route in kept] == expected


@pytest.mark.parametrize(("soname", "major"), [("libmusart.so.5", 5), ("libmusart.so.1.0", None)])
def test_a_runtime_outside_of_every_toolkit(soname: str, major: int | None) -> None:
    found = routes(on_library_path("/deps", soname))
    assert found == (Route("loader", f"/deps/lib/{soname}", None, major),)


def test_the_loader_takes_what_the_wheel_asks_for() -> None:
    both = on_library_path("/deps", "libmusart.so.4", "libmusart.so.5")
    assert routes(both)[0].major == 4
    asked = routes(both, torch_musa("2.9.1", "libmusart.so.5"))
    assert [(route.name, route.major) for route in asked] == [("loader", 5), ("wheel", 5)]


def test_no_route() -> None:
    found = toolkit_routes(machine(torch_musa("2.9.1")))
    assert found == Absent(
        "no MUSA_HOME, MUSA_PATH, mcc on PATH, /usr/local/musa, libmusart or torch_musa leads to "
        "a Toolkit"
    )
    nothing_recorded = toolkit_routes(host(unlisted="unrecorded"))
    assert nothing_recorded == Unknown("MUSA_HOME: not in this recording")
