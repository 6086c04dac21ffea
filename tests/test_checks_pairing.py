"""The checks of version pairs: what they fire on, stay silent on, and cannot tell."""

import pytest
from given import (
    LIBMUSA,
    MCCL,
    MUDNN,
    TOOLKIT,
    component,
    judged,
    kernel_driver,
    toolkit,
)
from given_torch import (
    DEVICES,
    WHOLE,
    broken,
    cannot_tell,
    device,
    failed,
    finds,
    fix,
    musa_info,
    skips,
    torch_build,
    torch_musa,
    versionless,
    wheel,
)
from support import sample

from musadoctor.api import (
    Absent,
    Check,
    ChildFailure,
    Component,
    ComponentLibrary,
    ComponentVersion,
    KernelDriver,
    Mcc,
    ToolAnswer,
    Toolkits,
    Unknown,
    VersionQuery,
)
from musadoctor.probes.version_query import parse_version_query
from musadoctor_checks import pairing as family

UNSEEN = Unknown("not found out")
BOTH = Toolkits((TOOLKIT, toolkit("4.3.5"), toolkit("3.1.0"), versionless()), "/usr/local")
ALL = [check for check in vars(family).values() if isinstance(check, Check)]


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
def test_a_healthy_host_gives_nothing(check: Check) -> None:
    assert judged(check, **WHOLE).status == "passed"


def test_a_driver_that_does_not_go_with_the_toolkit() -> None:
    check = family.driver_toolkit_mismatch
    given = {"kernel_driver": kernel_driver("5.2.0-server"), "toolkit": toolkit("4.3.5")}
    (found,) = finds(check, **given)
    assert found.startswith(
        "kernel driver 5.2.0-server (/sys/module/mtgpu/version) with Toolkit 4.3.5"
        " (/usr/local/musa-4.3.5/version.json): basic operations work, graph capture fails"
    )
    assert "FlagGems issue 6124" in found
    assert "2026-09-21" in found
    for toolkits, wheels in (
        (Toolkits((toolkit("4.3.5"), versionless()), "/usr/local"), Absent("no torch_musa")),
        (Absent("no Toolkit"), UNSEEN),
        (BOTH, wheel("2.7.1", 4)),  # the other one is not for this wheel
    ):
        text, commands, _ = fix(check, **given, toolkits=toolkits, torch_musa_build=wheels)
        assert text.endswith("known with this driver: 5.2.0, 4.3.6")
        assert commands == ()
    for wheels in (wheel("2.9.1+musa5.2.0", None), wheel("2.9.1", None), UNSEEN):
        text, commands, _ = fix(check, **given, toolkits=BOTH, torch_musa_build=wheels)
        assert text == (
            "Use /usr/local/musa-5.2.0, which is installed too and known with this driver"
        )
        assert commands == ('eval "$(musadoctor env --toolkit 5.2.0)"',)
    assert finds(check, **{**given, "toolkit": toolkit("4.3.6")}) == ()


@pytest.mark.parametrize(
    ("driver", "number"), [("3.3.5-server", "4.3.4"), ("5.1.0", "4.3.5"), ("2.7.0", "5.2.0")]
)
def test_a_driver_of_which_nothing_is_known(driver: str, number: str) -> None:
    check = family.driver_toolkit_mismatch
    assert check.severity == "warning"
    given = {"kernel_driver": kernel_driver(driver), "toolkit": toolkit(number)}
    assert cannot_tell(check, **given) == (
        f"kernel driver {driver} with Toolkit {number}: a pair unknown to musadoctor, whose table is"
        " of 2026-09-21"
    )


def test_a_pair_without_its_numbers() -> None:
    check = family.driver_toolkit_mismatch
    silent = KernelDriver((), "/sys/module/mtgpu")
    assert "unstated" in cannot_tell(check, kernel_driver=silent)
    assert "unknown version" in cannot_tell(check, toolkit=versionless())
    assert skips(check, kernel_driver=Absent("not loaded"))


NOT_RUN = {"musa_info": Absent("no musaInfo"), "torch_musa": Absent("no torch_musa")}


@pytest.mark.parametrize(
    ("driver", "number", "what"),
    [
        ("2.5.0", "3.1.0", "older than 2.7.0, the oldest"),
        ("2.7.0", "4.0.1", "older than 3.0.0, the oldest"),
        ("3.3.1-server", "5.1.0", "older than 5.1.0, the oldest"),
        ("3.0.0", "4.2.0", "older than 3.1.0, the oldest"),
        ("3.1.0-rc4.2.0-server", "3.1.0", "of a later generation than 2.7.0, the newest"),
        ("5.1.0-server", "4.3.1", "of a later generation than 3.3.1, the newest"),
        ("3.3.3-server", "4.3.5", None),  # the same second number
        ("3.3.5-server", "5.1.0", None),  # it carries a newer one
        ("5.2.0", "4.3.6", None),  # known
        ("5.2.0", "4.3.5", None),  # known to fail
        ("5.1.0", "4.3.6", None),  # older, but carries a newer one
        ("3.1.0", "4.1.0", None),  # newer, of the same generation
        ("2.7.0", "3.1.0", None),
    ],
)
def test_a_driver_of_another_time(driver: str, number: str, what: str | None) -> None:
    check = family.driver_far_from_toolkit
    given = {"kernel_driver": kernel_driver(driver), "toolkit": toolkit(number)}
    found = finds(check, **given, **NOT_RUN)
    source = f"kernel driver {driver} (/sys/module/mtgpu/version)"
    assert found == ((f"{source} is {what} that is known with {toolkit(number)}",) if what else ())
    assert finds(check, **given) == ()  # musaInfo lists devices


def test_a_driver_of_another_time_that_works() -> None:
    check = family.driver_far_from_toolkit
    given = {"kernel_driver": kernel_driver("2.5.0"), "toolkit": toolkit("3.1.0")}
    assert finds(check, **{**given, "musa_info": Absent("no musaInfo")}) == ()
    not_available = {"torch_musa": WHOLE["torch_musa"]._replace(available=False)}  # type: ignore[attr-defined]
    assert finds(check, **given, **{**NOT_RUN, **not_available}) != ()


def test_a_toolkit_of_which_no_driver_is_known() -> None:
    check = family.driver_far_from_toolkit
    given = {**NOT_RUN, "kernel_driver": kernel_driver("5.1.0"), "toolkit": toolkit("2.0.0")}
    assert cannot_tell(check, **given) == "no driver is known with Toolkit 2.0.0"
    assert "unknown version" in cannot_tell(check, **{**given, "toolkit": versionless()})


REFUSES = "error: 'system has unsupported display driver / musa driver combination'"


def test_the_driver_refuses_the_runtime() -> None:
    check = family.driver_refuses_runtime
    answer = ToolAnswer("musaInfo", 1, f"{REFUSES}(803) at musaInfo.cpp:155", 803)
    (found,) = finds(check, musa_info_answer=answer)
    assert found == (
        f"musaInfo: {answer.error}; kernel driver 3.3.5-server (/sys/module/mtgpu/version);"
        f" {LIBMUSA}; {TOOLKIT}"
    )
    (finding,) = judged(check, **{**WHOLE, "musa_info_answer": answer}).findings
    assert finding.where == LIBMUSA.real_path
    nowhere = {"musa_info_answer": answer, "user_driver": Absent("no libmusa")}
    (found,) = finds(check, **nowhere)
    assert "; no libmusa; " in found


@pytest.mark.parametrize(
    "changes",
    [
        {"musa_info_answer": ToolAnswer("musaInfo", 1, "it failed", 803)},
        {"musa_info_answer": ToolAnswer("musaInfo", 1, REFUSES, None)},
        {"torch_musa_import": broken("torch_musa", "RuntimeError: Error 803: x")},
        {"torch_musa": torch_musa()._replace(warnings=("Error 803: x",))},
        {
            "torch_musa": torch_musa()._replace(
                failures=(ChildFailure("is_available", "exception", "RuntimeError: (803)"),)
            )
        },
        {"torch_musa": torch_musa(device(0, add=failed("RuntimeError: error 803")))},
    ],
)
def test_everyone_who_says_803(changes: dict[str, object]) -> None:
    silent = {"musa_info_answer": UNSEEN, "torch_musa": UNSEEN, "torch_musa_import": UNSEEN}
    assert finds(family.driver_refuses_runtime, **{**silent, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"musa_info_answer": Absent("no musaInfo"), "torch_musa": Absent("none")},
        {"musa_info_answer": ToolAnswer("musaInfo", 1, "error: 'x'(801) at y:1803", 801)},
        {"torch_musa_import": broken("torch_musa", "ImportError: libmusart.so.5")},
        {"torch_musa": torch_musa()._replace(warnings=("Error 801",))},
        {"torch_musa": torch_musa(device(0, add=failed("RuntimeError: err 98")))},
    ],
)
def test_others_do_not_say_803(changes: dict[str, object]) -> None:
    assert finds(family.driver_refuses_runtime, **changes) == ()


@pytest.mark.parametrize(
    ("driver", "runtime", "older", "newer"),
    [
        ("5.2", "5.2", False, False),
        ("4.3", "5.2", True, False),
        ("5.1", "5.2", True, False),
        ("5.2", "4.3", False, True),
        ("5.2", "5.1", False, False),
        ("4.10", "4.9", False, False),
    ],
)
def test_api_levels(driver: str, runtime: str, *, older: bool, newer: bool) -> None:
    info = musa_info(driver, runtime)
    source = "(/usr/local/musa-5.2.0/bin/musaInfo); libmusa: "
    for user_driver in (LIBMUSA, Absent("no libmusa")):
        given = {"musa_info": info, "user_driver": user_driver}
        first = f"driver API {driver} is older than runtime API {runtime} {source}{user_driver}"
        found = finds(family.driver_api_older_than_runtime, **given)
        assert found == ((first,) if older else ())
        second = f"driver API {driver}, but runtime API {runtime} {source}{user_driver}"
        found = finds(family.driver_of_newer_generation, **given)
        assert found == ((second,) if newer else ())


@pytest.mark.parametrize("levels", [(None, "5.2"), ("5.2", None)])
def test_api_levels_that_are_not_stated(levels: tuple[str | None, str | None]) -> None:
    info = musa_info(*levels)
    for check in (family.driver_api_older_than_runtime, family.driver_of_newer_generation):
        assert cannot_tell(check, musa_info=info).endswith("does not state both API levels")
        assert skips(check, musa_info=Absent("musaInfo said an error"))


def at(library: ComponentLibrary, number: str, folder: str) -> ComponentLibrary:
    stem = library.path.rpartition("/")[2]
    version = ComponentVersion.parse(number)
    return library._replace(version=version, path=f"{folder}/{stem}", source=f"{folder}/{stem}")


@pytest.mark.parametrize(
    ("check", "fact", "belongs"),
    [
        (family.mudnn_of_other_release, MUDNN, "muDNN 3.4.0"),
        (family.mccl_of_other_release, MCCL, "MCCL 2.4.0"),
    ],
)
def test_a_component_of_another_release(check: Check, fact: ComponentLibrary, belongs: str) -> None:
    name = fact.name.lower()
    stale = at(fact, "2.1.5", "/usr/local/musa-5.2.0/lib")
    (found,) = finds(check, **{name: stale})
    assert found.startswith(
        f"{fact.name} 2.1.5 ({stale.path}) beside {TOOLKIT}, to which {belongs}"
    )
    text, _, destructive = fix(check, **{name: stale})
    assert text.startswith(f"Install {belongs}, which replaces")
    assert destructive

    # The Toolkit has its own, and the loader takes another.
    taken = at(fact, "2.1.5", "/usr/local/musa-4.3.5/lib")
    own = toolkit("5.2.0", libraries=("libmusart.so.5", f"lib{name}.so.9"))
    text, commands, destructive = fix(check, **{name: taken}, toolkit=own)
    assert text.startswith(f"The loader takes {taken.path} although /usr/local/musa-5.2.0/lib has")
    assert commands == ('eval "$(musadoctor env --toolkit 5.2.0)"',)
    assert not destructive
    assert fix(check, **{name: taken})[2]


def test_a_component_of_which_nothing_is_known() -> None:
    check = family.mudnn_of_other_release
    known = at(MUDNN, "3.1.4", "/l")
    reason = cannot_tell(check, mudnn=known, toolkit=toolkit("4.3.4"))
    assert reason == (
        "muDNN 3.1.4 (/l/libmudnn.so.3) with Toolkit 4.3.4: a pair unknown to musadoctor, whose"
        " table is of 2026-09-02; by the pattern of 4.3.5 and 4.3.6 it would be 3.1.4"
    )
    reason = cannot_tell(family.mccl_of_other_release, toolkit=toolkit("4.3.4"))
    assert reason.endswith("it would be 2.1.4")
    for number in ("5.1.0", "4.3"):
        assert cannot_tell(check, toolkit=toolkit(number)).endswith("table is of 2026-09-02")
    assert "unknown version" in cannot_tell(check, toolkit=versionless())
    assert "unstated version" in cannot_tell(check, mudnn=MUDNN._replace(version=None))


@pytest.mark.parametrize(
    ("number", "runtime", "in_use", "message"),
    [
        ("2.9.1+musa5.2.0", 5, "5.2.0", ""),
        ("2.9.1+musa5.2.0", None, "5.1.0", ""),
        (
            "2.9.1+musa5.2.0",
            None,
            "4.3.5",
            "torch_musa 2.9.1+musa5.2.0 needs Toolkit 5.x (by its label), in use is Toolkit 4.3.5",
        ),
        (
            "2.7.1",
            4,
            "5.2.0",
            (
                "torch_musa 2.7.1 needs Toolkit 4.x (by the libmusart that its libraries need), in use"
                " is Toolkit 5.2.0"
            ),
        ),
        (
            "1.3.0",
            1,
            "4.0.1",
            (
                "torch_musa 1.3.0 needs Toolkit 1.x to 3.x (by the libmusart that its libraries need),"
                " in use is Toolkit 4.0.1"
            ),
        ),
        ("1.3.0", 1, "3.1.0", ""),
    ],
)
def test_a_wheel_for_another_generation(
    number: str, runtime: int | None, in_use: str, message: str
) -> None:
    check = family.torch_musa_for_other_generation
    tree = toolkit(in_use)
    found = finds(check, torch_musa_build=wheel(number, runtime), toolkit=tree)
    assert found == ((f"{message} ({tree.source})",) if message else ())


def test_a_fitting_toolkit_is_offered() -> None:
    check = family.torch_musa_for_other_generation
    given = {"torch_musa_build": wheel("2.7.1", 4), "toolkits": BOTH}
    text, commands, destructive = fix(check, **given)
    assert text == "Use /usr/local/musa-4.3.5, which is installed too"
    assert commands == ('eval "$(musadoctor env --toolkit 4.3.5)"',)
    assert not destructive
    for toolkits in (UNSEEN, Toolkits((TOOLKIT,), "/usr/local")):
        text, _, destructive = fix(check, **{**given, "toolkits": toolkits})
        assert "torch and torch_musa 2.9.1 or 2.11.0.post2 (known with Toolkit 5.2.0)" in text
        assert destructive
    unlabelled = wheel("2.7.1", None)
    assert "a number is missing" in cannot_tell(check, torch_musa_build=unlabelled)
    assert "a number is missing" in cannot_tell(check, toolkit=versionless())


@pytest.mark.parametrize(
    ("number", "runtime", "in_use", "message"),
    [
        (
            "2.7.1+musa4.3.6",
            4,
            "4.3.5",
            "torch_musa 2.7.1+musa4.3.6 is built for Toolkit 4.3.6, in use is Toolkit 4.3.5",
        ),
        ("2.7.1+musa4.3.6", 4, "4.3.6", ""),
        ("2.9.1+musa5.2", 5, "5.2.0", ""),
        ("2.7.1+musa4.3.6", 4, "5.2.0", ""),
        # Without a label: by the table, and by the first two numbers only.
        ("2.7.1", 4, "4.3.4", ""),
        ("2.7.0", 4, "4.3.4", ""),
        ("2.9.1", None, "5.2.0", ""),
        (
            "1.2.1",
            1,
            "3.1.0",
            "torch_musa 1.2.1 is known with Toolkit 3.0.1, in use is Toolkit 3.1.0",
        ),
        (
            "2.1.0",
            4,
            "4.3.5",
            "torch_musa 2.1.0 is known with Toolkit 4.1, 4.2.0, in use is Toolkit 4.3.5",
        ),
        ("2.7.1", 4, "5.2.0", ""),
    ],
)
def test_a_wheel_for_another_release(
    number: str, runtime: int | None, in_use: str, message: str
) -> None:
    check = family.torch_musa_for_other_release
    tree = toolkit(in_use)
    found = finds(check, torch_musa_build=wheel(number, runtime), toolkit=tree)
    assert found == ((f"{message} ({tree.source})",) if message else ())


def test_the_toolkit_of_the_wheel_is_offered() -> None:
    check = family.torch_musa_for_other_release
    given = {"torch_musa_build": wheel("2.7.1+musa4.3.5", 4), "toolkit": toolkit("4.3.6")}
    text, commands, destructive = fix(check, **given, toolkits=BOTH)
    assert text == "Use /usr/local/musa-4.3.5, which is installed too"
    assert commands == ('eval "$(musadoctor env --toolkit 4.3.5)"',)
    assert not destructive
    for toolkits in (UNSEEN, Toolkits((toolkit("4.3.6"),), "/usr/local")):
        assert fix(check, **given, toolkits=toolkits)[2]


def test_a_wheel_of_which_nothing_is_known() -> None:
    check = family.torch_musa_for_other_release
    for number, in_use in (("2.8.0", "5.2.0"), ("2.9.1", "5.3.0")):
        reason = cannot_tell(check, torch_musa_build=wheel(number), toolkit=toolkit(in_use))
        assert reason.startswith(f"torch_musa {number} with Toolkit {in_use}: a pair unknown to")
    assert "a number is missing" in cannot_tell(check, toolkit=versionless())


OTHER = family.torch_of_other_release
PATCH = family.torch_of_other_patch_release


@pytest.mark.parametrize(
    ("torch", "torch_musa_number", "error", "warning"),
    [
        ("2.9.1", "2.9.1", False, False),
        ("2.9.0+musa5.2.0", "2.9.1", False, True),
        ("2.10.0", "2.9.1", True, False),
        ("2.7.1", "2.9.1", True, False),
        ("2.7.1a0", "2.7.1", False, False),
        ("2.7.1", "2.7.0", False, False),
        ("2.7.0", "2.7.1", True, False),
        ("2.7.0", "2.7.0", True, False),
        ("2.11.0.post2+musa5.2.0", "2.11.0.post2+musa5.2.0", False, False),
        ("2.11.0", "2.11.0.post2", False, True),
        ("2.11.0.post1", "2.11.0.post2", False, True),
        ("2.2.0a0+git8ac9b20", "1.3.0", False, False),
        ("2.2.1", "1.3.0", False, True),
        ("2.4.1", "1.3.0", True, False),
        ("2.5.0", "2.0.1", False, False),
        ("2.0.0", "2.1.1", True, False),
    ],
)
def test_torch_and_torch_musa(
    torch: str, torch_musa_number: str, *, error: bool, warning: bool
) -> None:
    given = {"torch_build": torch_build(torch), "torch_musa_build": wheel(torch_musa_number)}
    assert bool(finds(OTHER, **given)) == error
    assert bool(finds(PATCH, **given)) == warning


def test_torch_and_torch_musa_in_words() -> None:
    given = {"torch_build": torch_build("2.4.1"), "torch_musa_build": wheel("1.3.0")}
    (found,) = finds(OTHER, **given)
    start = "torch 2.4.1 beside torch_musa 1.3.0, which needs torch 2.2.0 (musa-deploy 0.7.0;"
    assert found.startswith(start)
    given = {"torch_build": torch_build("2.10.0"), "torch_musa_build": wheel("2.9.1")}
    (found,) = finds(OTHER, **given)
    assert found.endswith("needs torch 2.9.1 (from 2.5.0 on the numbers are equal)")
    given = {"torch_build": torch_build("2.9.0"), "torch_musa_build": wheel("2.9.1")}
    assert finds(PATCH, **given) == (
        "torch 2.9.0 beside torch_musa 2.9.1, which the vendor pairs with torch 2.9.1",
    )


def test_torch_and_torch_musa_of_which_nothing_is_known() -> None:
    given = {"torch_build": torch_build("2.0.0"), "torch_musa_build": wheel("1.2.0")}
    assert "torch 2.0.0 with torch_musa 1.2.0: a pair unknown" in cannot_tell(PATCH, **given)
    # Of severity error: it must not keep a host from being cleared.
    assert finds(OTHER, **given) == ()
    cuda = torch_build("2.4.1+cu121", "CUDA")
    assert finds(OTHER, torch_build=cuda) == ()


@pytest.mark.parametrize(
    ("mcc", "number", "fires"),
    [
        ("5.2.0", "5.2.0", False),
        ("4.3.5", "5.2.0", True),
        ("4.2.0", "4.2.0", False),
        ("3.1.0", "4.2.0", True),
        ("3.1.0", "4.1.0", False),
        ("2.1.0", "2.0.0", False),
        ("5.2.0", "5.2", False),
    ],
)
def test_the_compiler(mcc: str, number: str, *, fires: bool) -> None:
    version = ComponentVersion.parse(mcc)
    assert version is not None
    check = family.mcc_of_other_release
    tree = toolkit(number)
    found = finds(check, mcc=Mcc("/usr/bin/mcc", version), toolkit=tree)
    assert found == ((f"mcc {mcc} (/usr/bin/mcc), but {tree} is in use",) if fires else ())
    assert "a number is missing" in cannot_tell(check, toolkit=versionless())


def branch(name: str, text: str | None) -> Component:
    return component(name, "1.0.0")._replace(branch=text)


@pytest.mark.parametrize(
    ("components", "listed"),
    [
        (
            [branch("musa_toolkits", "release_musa_5.1.0"), branch("mccl", "release_musa_5.2.0")],
            "5.1: musa_toolkits; 5.2: mccl",
        ),
        (
            [
                branch("musa_toolkits", "release_musa_4.2.0"),
                branch("mudnn", "kuae1.3.0_musa3.1.0_mudnn2.7.0"),
                branch("mublas", "release_musa_4.2.0"),
            ],
            "4.2: musa_toolkits, mublas; 3.1: mudnn",
        ),
        ([branch("a", "release_musa_4.2.0"), branch("b", "release_musa_4.2.0_s4000")], ""),
        ([branch("a", "release_musa_4.3.5"), branch("b", "release_musa_4.3.6")], ""),
        ([branch("a", "release_musa_4.2.0"), branch("CUB", "musa-1.12.1")], ""),
        ([branch("a", "release_musa_4.2.0"), branch("b", "HEAD"), branch("c", None)], ""),
        ([branch("a", "rc2.1.0"), branch("b", "rc1.4.0")], ""),
    ],
)
def test_components_of_several_releases(components: list[Component], listed: str) -> None:
    query = VersionQuery(tuple(components), "musa_version_query")
    message = f"components of 2 SDK releases by their branches: {listed} (musa_version_query)"
    found = finds(family.toolkit_components_mixed, version_query=query)
    assert found == ((message,) if listed else ())


@pytest.mark.parametrize(
    "name",
    [
        "musa_version_query-2.0.0-dec2023.partial.txt",
        "musa_version_query-2.0.0-rc2.1.0.partial.txt",
        "musa_version_query-3.1.0-full.txt",
        "musa_version_query-4.1.0-s4000.partial.txt",
        "musa_version_query-4.2.0-s80.partial.txt",
        "musa_version_query_5.2.0_s5000_excerpt.txt",
    ],
)
def test_real_toolkits_are_not_mixed(name: str) -> None:
    query = VersionQuery(tuple(parse_version_query(sample(name))), name)
    assert len(query.components) > 1
    assert finds(family.toolkit_components_mixed, version_query=query) == ()


def test_devices_that_work_refuse_nothing() -> None:
    working = torch_musa(*DEVICES)
    assert finds(family.driver_refuses_runtime, torch_musa=working) == ()
