"""Choosing checks by id, former id and family."""

import pytest

from musadoctor.api import Check, Judgement, Layer, check
from musadoctor.selection import SelectionError, find, select, some_facts


def nothing() -> Judgement:
    """A check."""
    yield from ()


def made(id: str, *aliases: str, family: str = "driver") -> Check:
    def function() -> Judgement:
        """A check."""
        yield from ()

    function.__module__ = f"musadoctor_checks.{family}"
    return check(id, layer=Layer.DRIVER, severity="error", aliases=aliases)(function)


CHECKS = (
    made("driver-not-loaded", "no-driver"),
    made("gmi-fails"),
    made("mccl-missing", family="torch_musa"),
)


@pytest.mark.parametrize(
    ("wanted", "unwanted", "chosen", "ignored"),
    [
        ([], [], ["driver-not-loaded", "gmi-fails", "mccl-missing"], {}),
        (["driver"], [], ["driver-not-loaded", "gmi-fails"], {}),
        (["torch-musa"], [], ["mccl-missing"], {}),
        (["no-driver"], [], ["driver-not-loaded"], {}),
        (["gmi-fails,mccl-missing"], [], ["gmi-fails", "mccl-missing"], {}),
        (["driver"], ["gmi-fails"], ["driver-not-loaded"], {"gmi-fails": ""}),
        ([], ["driver,mccl-missing"], None, None),
        (
            [],
            ["driver= old site, see #7 "],
            ["mccl-missing"],
            {"driver-not-loaded": "old site, see #7", "gmi-fails": "old site, see #7"},
        ),
        (["gmi-fails"], ["mccl-missing=none here"], ["gmi-fails"], {}),
    ],
)
def test_select(
    wanted: list[str], unwanted: list[str], chosen: list[str] | None, ignored: dict[str, str] | None
) -> None:
    if chosen is None:
        with pytest.raises(SelectionError, match="no check is left to run"):
            select(CHECKS, wanted, unwanted)
        return
    selection = select(CHECKS, wanted, unwanted)
    assert [c.id for c in selection.chosen] == chosen
    assert {c.id: reason for c, reason in selection.ignored} == ignored


@pytest.mark.parametrize(
    ("wanted", "unwanted", "sentence"),
    [
        (
            ["gmi-fail"],
            [],
            "'gmi-fail' is no check and no family; did you mean 'gmi-fails'? (see musadoctor list)",
        ),
        ([], ["zzz=why"], "'zzz' is no check and no family (see musadoctor list)"),
        (["gmi-fails,"], [], "'' is no check and no family (see musadoctor list)"),
    ],
)
def test_a_name_that_is_none(wanted: list[str], unwanted: list[str], sentence: str) -> None:
    with pytest.raises(SelectionError) as caught:
        select(CHECKS, wanted, unwanted)
    assert str(caught.value) == sentence


def test_find() -> None:
    assert find(CHECKS, "no-driver").id == "driver-not-loaded"
    with pytest.raises(
        SelectionError, match=r"^'mccl-mising' is no check; did you mean 'mccl-missing'\?"
    ):
        find(CHECKS, "mccl-mising")
    with pytest.raises(SelectionError, match=r"^'driver' is no check \(see"):
        find((CHECKS[1],), "driver")


def test_facts_are_named_one_by_one_or_by_commas() -> None:
    known = {"rdma", "topology", "gpus"}
    assert some_facts((), known) == ()
    assert some_facts(("rdma", "gpus,topology"), known) == ("rdma", "gpus", "topology")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("rdna", "'rdna' is no fact; did you mean 'rdma'?"),
        ("xyz", "'xyz' is no fact; expected gpus, rdma"),
        ("", "'' is no fact; expected gpus, rdma"),
    ],
)
def test_a_name_that_is_no_fact(name: str, sentence: str) -> None:
    with pytest.raises(SelectionError) as refused:
        some_facts((name,), ("rdma", "gpus"))
    assert str(refused.value) == sentence
