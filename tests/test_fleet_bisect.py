"""The smallest group that fails together, in few tries."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.fleet.bisect import Found, smallest_failing

HOSTS = tuple(f"h{number}" for number in range(64))
Oracle = Callable[[tuple[str, ...]], "bool | None"]


def with_all(*culprits: str) -> tuple[Oracle, list[tuple[str, ...]]]:
    """What fails where all of these hosts are in the group; and what was tried."""
    tried: list[tuple[str, ...]] = []

    def fails(group: tuple[str, ...]) -> bool:
        tried.append(group)
        return set(culprits) <= set(group)

    return fails, tried


def test_a_pair_whose_link_is_broken() -> None:
    fails, tried = with_all("h17", "h40")
    found = smallest_failing(HOSTS, fails, most=40)
    assert found == Found(("h17", "h40"), True, "h0", (), len(tried), "")
    assert ("h0", "h17") in tried
    assert ("h0", "h40") in tried


def test_one_host_that_fails_with_every_other() -> None:
    fails, _ = with_all("h33")
    found = smallest_failing(HOSTS, fails, most=40)
    assert "h33" in found.group
    assert (len(found.group), found.culprit, found.smallest) == (2, "h33", True)
    assert found.third not in found.group


def test_where_every_pair_fails_none_is_blamed() -> None:
    found = smallest_failing(HOSTS, lambda _: True, most=40)
    assert (len(found.group), found.culprit, found.smallest) == (2, "", True)
    assert found.elsewhere == found.group


def test_with_two_hosts_there_is_nothing_to_try() -> None:
    fails, tried = with_all("h1")
    assert smallest_failing(("h1", "h2"), fails, most=40) == Found(
        ("h1", "h2"), smallest=True, third="", elsewhere=(), tries=0, note=""
    )
    assert tried == []


def test_suspects_are_tried_first() -> None:
    fails, slow = with_all("h50", "h60")
    smallest_failing(HOSTS, fails, most=60)
    fails, fast = with_all("h50", "h60")
    found = smallest_failing(HOSTS, fails, most=60, suspects=("h60", "h50", "elsewhere"))
    assert found.group == ("h50", "h60")
    assert fast[0] == ("h50", "h60")
    assert len(fast) < len(slow)


def test_a_group_is_asked_in_the_order_of_the_user() -> None:
    fails, tried = with_all("h50", "h3")
    smallest_failing(HOSTS, fails, most=60, suspects=("h60",))
    assert all(list(group) == sorted(group, key=HOSTS.index) for group in tried)


@given(st.sets(st.sampled_from(HOSTS), min_size=1, max_size=3))
def test_what_is_found_fails_and_no_part_of_it_does(culprits: set[str]) -> None:
    fails, tried = with_all(*culprits)
    found = smallest_failing(HOSTS, fails, most=1000)
    assert culprits <= set(found.group)
    assert len(found.group) == max(2, len(culprits))
    assert found.smallest
    assert len(set(tried)) == len(tried) == found.tries, "nothing that is known is tried again"
    assert found.tries <= 2 * math.log2(len(HOSTS)) * (len(found.group) + 1)
    if len(culprits) == 1:
        assert {found.culprit} == culprits


@given(st.randoms(use_true_random=False), st.integers(0, 30))
def test_whatever_comes_and_goes_it_ends(chance: random.Random, most: int) -> None:
    tried: list[tuple[str, ...]] = []

    def fails(group: tuple[str, ...]) -> bool | None:
        tried.append(group)
        return chance.choice((True, False, None))

    found = smallest_failing(HOSTS, fails, most=most)
    assert found.tries == len(tried) <= most
    assert len(found.group) >= 2
    assert found.smallest == (not found.note)


@pytest.mark.parametrize(("count", "tries"), [(64, 5), (3, 4)])
def test_a_failure_that_does_not_come_again_is_said_after_few_tries(count: int, tries: int) -> None:
    tried: list[tuple[str, ...]] = []

    def fails(group: tuple[str, ...]) -> bool:
        tried.append(group)
        return False

    found = smallest_failing(HOSTS[:count], fails, most=100)
    assert found.group == HOSTS[:count]
    assert found.note == f"the failure did not come again in {tries} tries"
    assert found.tries == len(tried) == tries
    assert tried[-1] == HOSTS[:count], "it is looked for where it was"


def test_a_failure_of_very_many_is_none_of_a_few() -> None:
    found = smallest_failing(HOSTS, lambda group: len(group) > 40, most=1000)
    assert len(found.group) == 41
    assert found.note == "more than 8 hosts are needed for it, or it comes and goes"


def test_no_more_tries_than_are_allowed() -> None:
    fails, tried = with_all("h20", "h63")
    found = smallest_failing(HOSTS, fails, most=4)
    assert len(tried) == found.tries == 4
    assert found.note == "given up after 4 tries"
    assert {"h20", "h63"} <= set(found.group)


@pytest.mark.parametrize("untried", [("h0", "h1"), ("h0", "h1", "h2", "h3")])
def test_groups_that_could_not_be_tried_are_said(untried: tuple[str, ...]) -> None:
    def fails(group: tuple[str, ...]) -> bool | None:
        return None if group == untried else {"h5", "h9"} <= set(group)

    found = smallest_failing(HOSTS, fails, most=100)
    assert found.group == ("h5", "h9")
    assert found.note == "some groups could not be tried"


def test_where_nothing_can_be_tried_it_ends_soon() -> None:
    found = smallest_failing(HOSTS, lambda _: None, most=100)
    assert (found.group, found.tries) == (HOSTS, 4)
    assert found.note == "4 groups could not be tried"
