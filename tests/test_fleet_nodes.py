"""Names of many hosts, in the notation that clusters use."""

import random

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.fleet.nodes import NodesError, expand, fold, natural

NAMES = st.lists(
    st.from_regex(r"[A-Za-z0-9._:]([A-Za-z0-9._:-]|0|1|2){0,12}", fullmatch=True),
    unique=True,
    min_size=1,
)


@pytest.mark.parametrize(
    ("hosts", "folded"),
    [
        ([], ""),
        (["login"], "login"),
        (["gpu7"], "gpu7"),
        (["gpu233", "gpu017"], "gpu[017,233]"),
        ([f"gpu{n:03}" for n in range(1, 65)], "gpu[001-064]"),
        (["gpu1", "gpu2", "gpu10", "login"], "gpu[1-2,10],login"),
        (["gpu1", "gpu1"], "gpu1"),
        (["gpu1", "gpu01"], "gpu[1,01]"),
        ([f"r{r}-n{n:02}.site" for r in range(3) for n in range(1, 5)], "r[0-2]-n[01-04].site"),
        (["r1-n1", "r1-n2", "r2-n1", "r2-n2", "r3-n1"], "r[1-2]-n[1-2],r3-n1"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
    ],
)
def test_hosts_are_told_in_a_short_notation(hosts: list[str], folded: str) -> None:
    assert fold(hosts) == folded


@given(NAMES)
def test_what_is_folded_names_the_same_hosts_to_clustershell(names: list[str]) -> None:
    assert sorted(NodeSet(fold(names), resolver=RESOLVER_NOGROUP)) == sorted(names)


@given(NAMES)
def test_what_is_folded_can_be_expanded(names: list[str]) -> None:
    assert expand(fold(names)) == tuple(sorted(names, key=natural))


def test_scattered_hosts_of_many_racks_are_folded_without_a_search_for_the_best() -> None:
    names = [f"r{rack}-n{node}" for rack in range(125) for node in range(16)]
    some = random.Random(1).sample(names, 1000)
    folded = fold(some)
    assert set(NodeSet(folded, resolver=RESOLVER_NOGROUP)) == set(some)
    assert len(folded) < len(",".join(some)) / 2


def test_hosts_are_in_the_order_that_people_count_in() -> None:
    hosts = ["gpu10", "gpu2", "gpu01", "gpu1", "a", "10.0.0.9", "10.0.0.10"]
    assert sorted(hosts, key=natural) == [
        "10.0.0.9",
        "10.0.0.10",
        "a",
        "gpu01",
        "gpu1",
        "gpu2",
        "gpu10",
    ]


def test_sets_are_expanded_once_each_and_in_order() -> None:
    assert expand("gpu[9-11]", "gpu2,gpu10") == ("gpu2", "gpu9", "gpu10", "gpu11")
    assert expand("gpu[1-4]!gpu2") == ("gpu1", "gpu3", "gpu4")
    assert expand() == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpu[1-", "missing bracket"),
        ("gpu[5-1]", "bad range"),
        ("", "names no host"),
        ("gpu1,gpu2!gpu[1-2]", "names no host"),
        ("@nosuchsource:a", "there is no group source nosuchsource"),
        ("gpu1 gpu2", "'gpu1 gpu2' cannot be the name of one"),
        ("-oProxyCommand", "'-oProxyCommand' cannot be the name of one"),
        ("gpu$(id)", "cannot be the name of one"),
    ],
)
def test_what_is_no_set_of_hosts_is_refused_in_a_sentence(text: str, says: str) -> None:
    with pytest.raises(NodesError) as refused:
        expand("gpu1", text)
    assert repr(text) in str(refused.value)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
