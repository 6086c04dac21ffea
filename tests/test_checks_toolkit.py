"""The checks of the Toolkit: what they fire on, stay silent on, and cannot tell."""

import pytest
from given import (
    ALINUX,
    CARDS,
    S80,
    S3000,
    S4000,
    S5000,
    TOOLKIT,
    advice,
    component,
    fixes,
    gpus,
    judged,
    said,
    skipped,
    toolkit,
    unknown,
    wheel,
)

from musadoctor.api import Absent, Gpus, Libraries, Toolkits, Unknown, VersionQuery
from musadoctor_checks import toolkit as family
from musadoctor_checks._exports import exports

NO_TOOLKIT = Absent("no Toolkit in /usr/local, and none by MUSA_HOME, MUSA_PATH or mcc on PATH")
NO_LIBRARIES = Absent("no MUSA library in LD_LIBRARY_PATH, the loader's cache or default folders")
NO_RUNTIME = Libraries((), ())
NO_WHEEL = Absent("no torch_musa")
NO_MUDNN = Absent("no libmudnn.so* on the loader's path")
NO_MCCL = Absent("no libmccl.so* on the loader's path")
UNSEEN = Unknown("not found out")


def test_no_toolkit() -> None:
    facts = {"toolkits": NO_TOOLKIT, "libraries": NO_LIBRARIES}
    (message,) = said(family.toolkit_missing, **facts)
    assert message == (
        f"{NO_TOOLKIT.reason}, with {CARDS} on the bus; torch_musa 2.9.1+musa5.2.0 needs one"
    )
    assert "musa_toolkits_5.2.0.tar.gz" in advice(family.toolkit_missing, **facts)
    assert fixes(family.toolkit_missing, **facts) == (("sudo apt install musa-toolkit",),)
    assert said(family.toolkit_missing) == ()


@pytest.mark.parametrize("build", [NO_WHEEL, UNSEEN, wheel(number="2.9.1")])
def test_no_toolkit_and_no_word_of_which_is_wanted(build: object) -> None:
    facts = {"toolkits": NO_TOOLKIT, "libraries": NO_RUNTIME, "torch_musa_build": build}
    assert "musa_toolkits_X.Y.Z.tar.gz" in advice(family.toolkit_missing, **facts)
    assert fixes(family.toolkit_missing, machine=ALINUX, **facts) == ((),)


def test_a_toolkit_elsewhere_does_as_well() -> None:
    assert said(family.toolkit_missing, toolkits=NO_TOOLKIT) == ()


def test_a_host_without_gpu_needs_no_toolkit() -> None:
    assert skipped(family.toolkit_missing, toolkits=NO_TOOLKIT, gpus=Absent("none"))


HALF = toolkit("5.1.0", libraries=("libmufft.so.1",), problem="no libmusart in lib")


def test_a_toolkit_without_runtime() -> None:
    facts = {"toolkit": HALF, "libraries": NO_RUNTIME}
    expected = (
        "Toolkit 5.1.0 (/usr/local/musa-5.1.0/version.json): no libmusart in"
        " /usr/local/musa-5.1.0/lib"
    )
    alone = Toolkits((HALF,), "/usr/local")
    for installed in (alone, UNSEEN, NO_TOOLKIT):
        assert said(family.toolkit_without_runtime, toolkits=installed, **facts) == (expected,)
        assert fixes(family.toolkit_without_runtime, toolkits=installed, **facts) == ((),)
    beside = Toolkits((HALF, TOOLKIT), "/usr/local")
    assert fixes(family.toolkit_without_runtime, toolkits=beside, **facts) == (exports(TOOLKIT),)


def test_a_toolkit_is_named_by_its_folder_where_it_has_no_number() -> None:
    tree = TOOLKIT._replace(root="/opt/my $DK", version=None)
    assert exports(tree) == (
        "export MUSA_HOME='/opt/my $DK'",
        """export PATH='/opt/my $DK/bin':"$PATH\"""",
        """export LD_LIBRARY_PATH='/opt/my $DK/lib'"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"""",
    )
    assert exports(TOOLKIT) == ('eval "$(musadoctor env --toolkit 5.2.0)"',)


def test_a_runtime_elsewhere_does_as_well() -> None:
    assert said(family.toolkit_without_runtime, toolkit=HALF) == ()
    assert said(family.toolkit_without_runtime, libraries=NO_LIBRARIES) == ()


@pytest.mark.parametrize("problem", [None, "/usr/local/musa-5.1.0/lib: Permission denied"])
def test_a_toolkit_that_cannot_be_looked_into(problem: str | None) -> None:
    tree = HALF._replace(libraries=(), problem=problem)
    assert "could not be seen" in unknown(
        family.toolkit_without_runtime, toolkit=tree, libraries=NO_RUNTIME
    )


def test_a_toolkit_without_lib_folder() -> None:
    tree = HALF._replace(libraries=(), problem="no lib folder")
    assert len(said(family.toolkit_without_runtime, toolkit=tree, libraries=NO_RUNTIME)) == 1


@pytest.mark.parametrize(
    ("problem", "shown"),
    [
        (None, None),
        ("no bin/mcc", None),
        ("no bin/mcc, no lib folder", "no lib folder"),
        ("damaged version.json: not a JSON object", "damaged version.json: not a JSON object"),
    ],
)
def test_a_damaged_toolkit(problem: str | None, shown: str | None) -> None:
    messages = said(family.toolkit_damaged, toolkit=TOOLKIT._replace(problem=problem))
    if shown is None:
        assert messages == ()
    else:
        (message,) = messages
        assert message.endswith(f"/usr/local/musa-5.2.0: {shown}")


def test_no_compiler() -> None:
    absent = Absent("no mcc on PATH")
    (message,) = said(family.mcc_missing, mcc=absent)
    assert message == "no mcc on PATH, nor in /usr/local/musa-5.2.0/bin"
    assert said(family.mcc_missing) == ()
    assert judged(family.mcc_missing, mcc=UNSEEN).status == "unknown"


@pytest.mark.parametrize(
    ("build", "fires"),
    [
        (wheel("libmudnn.so.3"), True),
        (wheel("libmusart.so.5"), False),
        (wheel(), True),
        (NO_WHEEL, True),
        (UNSEEN, True),
    ],
)
def test_no_mudnn(build: object, *, fires: bool) -> None:
    facts = {"mudnn": NO_MUDNN, "torch_musa_build": build}
    messages = said(family.mudnn_missing, **facts)
    assert messages == ((f"{NO_MUDNN.reason}, with {CARDS}",) if fires else ())
    assert said(family.mudnn_missing, torch_musa_build=build) == ()
    if fires:
        assert fixes(family.mudnn_missing, **facts) == (("sudo apt install mudnn",),)


@pytest.mark.parametrize(
    ("cards", "commands", "word"),
    [
        (gpus(S4000, S4000), ("sudo apt install mccl-s4000",), "mccl-s4000"),
        (gpus(S5000), ("sudo apt install mccl-s5000",), "mccl-s5000"),
        (gpus(S80), (), "USE_MCCL=0"),
        (gpus(S3000), (), "USE_MCCL=0"),
    ],
)
def test_a_torch_musa_that_needs_mccl(cards: Gpus, commands: tuple[str, ...], word: str) -> None:
    facts = {"mccl": NO_MCCL, "gpus": cards}
    (message,) = said(family.mccl_missing, **facts)
    assert message == f"{NO_MCCL.reason}, but torch_musa 2.9.1+musa5.2.0 needs it"
    assert fixes(family.mccl_missing, **facts) == (commands,)
    assert word in advice(family.mccl_missing, **facts)


def test_mccl_is_there_or_not_needed() -> None:
    assert said(family.mccl_missing) == ()
    build = wheel("libmusart.so.5")
    assert said(family.mccl_missing, mccl=NO_MCCL, torch_musa_build=build) == ()
    assert skipped(family.mccl_missing, mccl=NO_MCCL, torch_musa_build=NO_WHEEL)


@pytest.mark.parametrize(
    ("cards", "build", "advised"),
    [
        (CARDS, NO_WHEEL, "mccl-s5000"),
        (gpus(S80, S80), wheel("libmusart.so.5"), "supplies no MCCL"),
        (gpus(S5000), NO_WHEEL, None),
        (CARDS, wheel("libmccl.so.2"), None),
    ],
)
def test_several_cards_without_mccl(cards: Gpus, build: object, advised: str | None) -> None:
    facts = {"mccl": NO_MCCL, "gpus": cards, "torch_musa_build": build}
    messages = said(family.mccl_not_installed, **facts)
    assert messages == ((f"{NO_MCCL.reason}, with {cards}",) if advised else ())
    if advised:
        assert advised in advice(family.mccl_not_installed, **facts)
    assert said(family.mccl_not_installed, gpus=cards, torch_musa_build=build) == ()


def test_libraries_for_another_card() -> None:
    answer = VersionQuery(
        (
            component("musa_toolkits", "4.1.0"),
            component("mccl", "2.11.4", "mp_22"),
            component("mublas", "1.6.0", "mp_22", "mp_31"),
            component("mufft", "1.9.0", "mp_21", "mp_22"),
        ),
        "musa_version_query",
    )
    facts = {"version_query": answer, "gpus": gpus(S3000, S4000, S80)}
    assert said(family.component_built_for_other_gpu, **facts) == (
        (
            "not built for mp_21 (MTT S3000, MTT S80): mccl 2.11.4 for mp_22, mublas 1.6.0 for"
            " mp_22/mp_31 (musa_version_query)"
        ),
    )
    assert said(family.component_built_for_other_gpu) == ()


@pytest.mark.parametrize(
    ("number", "stated", "fires"),
    [
        ("5.2.0", "5.2.0", False),
        ("4.0.1", "4.0.0", False),
        ("5.2.0", "5.1.0", True),
        (None, "5.1.0", False),
        ("5.2.0", None, False),
    ],
)
def test_two_numbers_for_one_toolkit(
    number: str | None, stated: str | None, *, fires: bool
) -> None:
    tree = toolkit(number) if number else TOOLKIT._replace(version=None)
    blocks = (component("musa_toolkits", stated),) if stated else (component("mcc", "5.1.0"),)
    facts = {"toolkit": tree, "version_query": VersionQuery(blocks, "musa_version_query")}
    messages = said(family.version_query_disagrees, **facts)
    wanted = "Toolkit 5.2.0 (/usr/local/musa-5.2.0/version.json), but musa_version_query says 5.1.0"
    assert messages == ((wanted,) if fires else ())


def test_a_mixed_tree_is_moved_away_with_a_warning() -> None:
    blocks = VersionQuery((component("musa_toolkits", "5.1.0"),), "musa_version_query")
    (finding,) = judged(family.version_query_disagrees, version_query=blocks).findings
    assert finding.fix is not None
    assert finding.fix.destructive
