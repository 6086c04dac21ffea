"""What differs between hosts that ought to be equal, and what it is called."""

import random
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from summaries import NARROW, NOT_LOADED, answered

from musadoctor.fleet.skew import Difference, Skew, skews
from musadoctor.fleet.summary import HostSummary
from musadoctor.fleet.traits import NONE

USUAL = {
    "kernel driver": "3.3.5-server",
    "user-space driver": "1.5.4",
    "link width": "8 x x16 of x16",
    "wheel numpy": "1.26.4",
    "environment PATH": "/usr/bin:/bin",
}
DRIVER = Difference("kernel driver", "3.3.0-server", "3.3.5-server")


def hosts(count: int, odd: Mapping[int, Mapping[str, str]] | None = None) -> list[HostSummary]:
    """``gpu1`` to ``gpu<count>``, some of them with other traits."""
    odd = odd or {}
    return [
        answered(f"gpu{number}", traits={**USUAL, **odd.get(number, {})})
        for number in range(1, count + 1)
    ]


def valued(trait: str, **counts: int) -> list[HostSummary]:
    """So many hosts with each value of one trait; ``v3_3_0`` is ``3.3.0``."""
    values = [v.removeprefix("v").replace("_", ".") for v, n in counts.items() for _ in range(n)]
    return [answered(f"gpu{n}", traits={trait: value}) for n, value in enumerate(values)]


def only(found: tuple[Skew, ...]) -> Skew:
    (skew,) = found
    return skew


def told(found: tuple[Skew, ...]) -> list[tuple[str, str, int]]:
    """Kind, value and number of hosts."""
    return [(skew.kind, skew.differences[0].value, len(skew.hosts)) for skew in found]


@pytest.mark.parametrize("count", [3, 32, 10_000])
def test_the_one_odd_host_is_found_among_any_number(count: int) -> None:
    skew = only(skews(hosts(count, {2: {"kernel driver": "3.3.0-server"}}), {}))
    assert (skew.kind, skew.hosts, skew.compared) == ("odd", ("gpu2",), count)
    assert skew.differences == (DRIVER,)


def test_what_comes_with_an_older_driver_is_one_skew_and_the_weightiest_is_told_first() -> None:
    odd = {"environment PATH": "/bin", "kernel driver": "3.3.0-server", "wheel numpy": NONE}
    skew = only(skews(hosts(32, {17: odd, 4: odd}), {}))
    assert skew.hosts == ("gpu4", "gpu17")
    assert [difference.trait for difference in skew.differences] == [
        "kernel driver",
        "wheel numpy",
        "environment PATH",
    ]
    assert skew.score == pytest.approx(5 * 4)  # the weight of the driver, times 4 bits: 2 of 32


def test_hosts_that_differ_in_other_ways_are_told_apart() -> None:
    older, oldest = {"kernel driver": "3.3.0-server"}, {"kernel driver": "3.1.0-server"}
    narrow = {"link width": "1 x x8 of x16, 7 x x16 of x16"}
    found = skews(hosts(32, {3: older, 4: older, 9: oldest, 12: narrow}), {})
    assert [(skew.hosts, skew.differences[0].value) for skew in found] == [
        (("gpu9",), "3.1.0-server"),
        (("gpu3", "gpu4"), "3.3.0-server"),
        (("gpu12",), narrow["link width"]),
    ]


def test_a_half_finished_upgrade_is_called_that_and_names_the_hosts_that_are_left() -> None:
    left = only(skews(valued("kernel driver", v3_3_0=588, v3_3_5=412), {}))
    assert (left.kind, len(left.hosts), left.compared) == ("upgrade", 588, 1000)
    assert left.differences == (Difference("kernel driver", "3.3.0", "3.3.5"),)
    left = only(skews(valued("kernel driver", v3_3_0=412, v3_3_5=588), {}))
    assert (left.kind, len(left.hosts)) == ("upgrade", 412)
    assert left.differences == (Difference("kernel driver", "3.3.0", "3.3.5"),)


def test_an_upgrade_is_as_telling_whichever_part_is_the_larger() -> None:
    few_done = only(skews(valued("kernel driver", v3_3_0=70, v3_3_5=30), {}))
    most_done = only(skews(valued("kernel driver", v3_3_0=30, v3_3_5=70), {}))
    assert few_done.score == pytest.approx(most_done.score)


def test_odd_hosts_are_found_beside_an_upgrade() -> None:
    found = skews(valued("kernel driver", v3_3_0=40, v3_3_5=58, v3_1_0=1, none=1), {})
    assert told(found) == [("odd", "3.1.0", 1), ("odd", "none", 1), ("upgrade", "3.3.0", 40)]


@pytest.mark.parametrize(
    ("trait", "older", "newer"),
    [
        ("kernel driver", "3.3.5-server", "3.3.10-server"),
        ("kernel driver", "3.1.0-rc4.2.0-server", "3.1.0-server"),
        ("wheel torch", "2.9.1rc1", "2.9.1"),
        ("wheel torch", "2.7.1+musa4.3.6", "2.11.0+musa5.2.0"),
        ("kernel", "5.15.0-9-generic", "5.15.0-105-generic"),
        ("kernel", "5.15.0", "5.15.0-105-generic"),
    ],
)
def test_versions_are_ordered_by_their_numbers(trait: str, older: str, newer: str) -> None:
    group = [answered(f"gpu{n}", traits={trait: older if n < 3 else newer}) for n in range(6)]
    skew = only(skews(group, {}))
    assert skew.kind == "upgrade"
    assert skew.differences == (Difference(trait, older, newer),)


@pytest.mark.parametrize(
    ("counts", "kinds"),
    [
        # Two hosts are no vote, one against two is.
        ({"a": 1, "b": 1}, [("mixed", "a", 1)]),
        ({"a": 1, "b": 2}, [("odd", "a", 1)]),
        ({"a": 1, "b": 1, "c": 1}, [("mixed", "a", 1), ("mixed", "b", 1)]),
        ({"a": 2, "b": 2}, [("mixed", "a", 2)]),
        ({"a": 1, "b": 3}, [("odd", "a", 1)]),
        ({"a": 2, "b": 3}, [("mixed", "a", 2)]),
        ({"a": 2, "b": 8}, [("odd", "a", 2)]),
        ({"a": 3, "b": 8}, [("mixed", "a", 3)]),
        ({"a": 16, "b": 84}, [("odd", "a", 16)]),
        ({"a": 17, "b": 83}, [("mixed", "a", 17)]),
        # Without a usual value there is no odd one.
        (
            {"a": 3, "b": 3, "c": 3, "d": 1},
            [("mixed", "d", 1), ("mixed", "a", 3), ("mixed", "b", 3)],
        ),
        ({"a": 45, "b": 45, "c": 10}, [("odd", "c", 10), ("mixed", "a", 45)]),
    ],
)
def test_few_are_odd_and_many_are_mixed(counts: Mapping[str, int], kinds: list[object]) -> None:
    assert told(skews(valued("cards", **counts), {})) == kinds


def test_some_hosts_without_a_thing_are_no_upgrade() -> None:
    assert told(skews(valued("MCCL", none=40, v2_4_0=60), {})) == [("mixed", "none", 40)]


def test_three_versions_are_no_upgrade() -> None:
    found = skews(valued("kernel driver", v3_1_0=25, v3_3_0=35, v3_3_5=40), {})
    assert told(found) == [("mixed", "3.1.0", 25), ("mixed", "3.3.0", 35)]


def test_what_is_another_on_each_host_is_not_compared() -> None:
    own = [answered(f"gpu{n}", traits={**USUAL, "environment PATH": f"/{n}"}) for n in range(32)]
    assert skews(own, {}) == ()
    # A version is that of the hosts' software, however many there are.
    own = [answered(f"gpu{n}", traits={"kernel driver": f"3.3.{n}"}) for n in range(6)]
    assert [skew.kind for skew in skews(own, {})] == ["mixed"] * 5
    own = [answered(f"gpu{n}", traits={"kernel driver": f"3.3.{n}"}) for n in range(1000)]
    assert skews(own, {}) == ()


def test_hosts_are_compared_with_those_of_their_group() -> None:
    cards = {"gpu1": "8 x MTT S5000", "gpu2": "8 x MTT S5000", "old1": "8 x MTT S4000"}
    those = [answered(host, traits={"cards": value}) for host, value in cards.items()]
    assert [skew.hosts for skew in skews(those, {})] == [("old1",)]
    assert skews(those, cards) == ()
    assert skews(those, {"gpu1": "a", "gpu2": "a"}) == ()


def test_the_group_of_a_skew_is_told() -> None:
    group = {host.host: "rack 7" for host in hosts(8)}
    assert only(skews(hosts(8, {3: {"wheel numpy": "2.0.0"}}), group)).group == "rack 7"


def test_hosts_of_which_a_trait_is_not_known_are_not_compared_in_it() -> None:
    found = skews(
        [*hosts(8, {3: {"wheel numpy": "2.0.0"}}), answered("gpu9"), answered("gpu10")], {}
    )
    assert only(found).compared == 8
    assert skews([answered("gpu1", traits=USUAL), answered("gpu2")], {}) == ()


def test_that_the_hosts_which_differ_are_those_that_fail_is_told() -> None:
    odd = {**USUAL, "kernel driver": "3.3.0-server"}
    group = [
        *hosts(28),
        answered("odd1", NOT_LOADED, traits=odd),
        answered("odd2", NARROW, traits=odd),
        answered("other1", NOT_LOADED, traits=USUAL),
        answered("other2", NOT_LOADED),
    ]
    skew = only(skews(group, {}))
    assert skew.hosts == ("odd1", "odd2")
    # The last one has no driver that is known, and is not compared.
    assert (skew.failing, skew.others_failing, skew.compared) == (1, 1, 31)


@pytest.mark.parametrize("few", [0, 1])
def test_one_host_or_none_is_compared_with_nothing(few: int) -> None:
    assert skews(hosts(few), {}) == ()


@given(count=st.integers(1, 200), grouped=st.booleans())
def test_equal_hosts_have_no_skew(*, count: int, grouped: bool) -> None:
    group = hosts(count)
    assert skews(group, {h.host: h.host[-1] for h in group} if grouped else {}) == ()


@given(st.data())
def test_a_planted_odd_host_is_always_found_and_nothing_else(data: st.DataObject) -> None:
    count = data.draw(st.integers(3, 150))
    planted = data.draw(st.integers(1, count))
    trait = data.draw(st.sampled_from(sorted(USUAL)))
    skew = only(skews(hosts(count, {planted: {trait: "another"}}), {}))
    assert skew.kind == "odd"
    assert skew.hosts == (f"gpu{planted}",)
    assert skew.differences == (Difference(trait, "another", USUAL[trait]),)


@pytest.mark.parametrize(
    "change",
    [
        lambda group: random.Random(3).sample(group, len(group)),
        lambda group: [host._replace(host=f"node{host.host[::-1]}") for host in group],
    ],
    ids=["order", "names"],
)
@given(seed=st.integers(0, 10_000))
def test_neither_the_order_nor_the_names_of_hosts_matter(
    change: Callable[[list[HostSummary]], list[HostSummary]], seed: int
) -> None:
    random_of = random.Random(seed)
    group = [
        answered(
            f"gpu{n}",
            *random_of.choices([(), (NOT_LOADED,)], [9, 1])[0],
            traits={trait: random_of.choices(["1", "2", "3"], [8, 2, 1])[0] for trait in USUAL},
        )
        for n in range(random_of.randint(1, 60))
    ]

    def anonymous(found: tuple[Skew, ...]) -> list[tuple[object, ...]]:
        return sorted((s.kind, len(s.hosts), *s[3:]) for s in found)

    assert anonymous(skews(change(group), {})) == anonymous(skews(group, {}))
