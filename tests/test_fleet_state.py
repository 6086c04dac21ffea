"""Who passes the gate of a fleet, and with what code it ends."""

import pytest
from summaries import LOCKUP, NARROW, NOT_LOADED, answered, fleet

from musadoctor.fleet.skew import Difference, Skew
from musadoctor.fleet.state import Fleet, Gate, Unanswered, exit_code, healthy, of_all

GOOD = answered("gpu1")
BROKEN = answered("gpu2", NOT_LOADED)
DEGRADED = answered("gpu3", LOCKUP)
NOTED = answered("gpu4", NARROW)
UNCLEARED = answered("gpu5", undecided=("driver-not-loaded",))
BUGGY = answered("gpu6", bugs=1)
DOWN = Unanswered("gpu7", "unreachable", "No route to host")


def odd(host: str, kind: str = "odd") -> Skew:
    difference = Difference("kernel driver", "3.3.0", "3.3.5")
    return Skew(kind, "", (host,), 32, (difference,), 0, 0, 25.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "gate", "code"),
    [
        (fleet([GOOD, NOTED, DEGRADED]), Gate(), 0),
        (fleet([GOOD, BROKEN]), Gate(), 1),
        (fleet([GOOD, DEGRADED]), Gate(fail_on="warning"), 1),
        (fleet([GOOD, NOTED]), Gate(fail_on="warning"), 0),
        (fleet([GOOD, NOTED]), Gate(fail_on="note"), 1),
        # Nothing is known to be wrong, but not every host was cleared.
        (fleet([GOOD, UNCLEARED]), Gate(), 3),
        (fleet([GOOD], [DOWN]), Gate(), 3),
        (fleet([], [DOWN]), Gate(), 3),
        (fleet(), Gate(), 3),
        (fleet([GOOD, UNCLEARED]), Gate(strict=True), 1),
        (fleet([GOOD], [DOWN]), Gate(strict=True), 1),
        (fleet([GOOD, DEGRADED]), Gate(strict=True), 0),
        # What is wrong with a host counts more than what is wrong with musadoctor.
        (fleet([GOOD, BUGGY]), Gate(), 4),
        (fleet([GOOD, BUGGY], [DOWN]), Gate(), 4),
        (fleet([BROKEN, BUGGY], [DOWN]), Gate(), 1),
    ],
)
def test_the_exit_code_tells_what_came_of_the_hosts(state: Fleet, gate: Gate, code: int) -> None:
    assert exit_code(state, gate) == code


@pytest.mark.parametrize(
    ("kind", "asked", "code"),
    [("odd", True, 1), ("odd", False, 0), ("upgrade", True, 0), ("mixed", True, 0)],
)
def test_only_an_odd_host_fails_and_only_where_it_is_asked_for(
    kind: str, *, asked: bool, code: int
) -> None:
    state = fleet([GOOD, NOTED], skews=[odd("gpu4", kind)])
    assert exit_code(state, Gate(fail_on_skew=asked)) == code


def test_a_number_of_healthy_hosts_is_enough_whatever_the_others_are() -> None:
    state = fleet([GOOD, NOTED, BROKEN, UNCLEARED, BUGGY], [DOWN])
    assert exit_code(state, Gate(min_healthy=2)) == 0
    assert exit_code(state, Gate(min_healthy=3)) == 1
    assert exit_code(state, Gate(min_healthy=2, strict=True)) == 0
    assert exit_code(state, Gate(min_healthy=2, fail_on="note")) == 1


def test_healthy_are_hosts_that_were_cleared_and_have_nothing_of_the_severity() -> None:
    state = fleet([GOOD, BROKEN, DEGRADED, NOTED, UNCLEARED, BUGGY], [DOWN])
    assert healthy(state, Gate()) == ("gpu1", "gpu3", "gpu4")
    assert healthy(state, Gate(fail_on="warning")) == ("gpu1", "gpu4")
    assert healthy(state, Gate(fail_on="note")) == ("gpu1",)


def test_an_odd_host_is_not_handed_out_as_healthy_where_odd_hosts_fail() -> None:
    state = fleet([GOOD, NOTED], skews=[odd("gpu4")])
    assert healthy(state, Gate()) == ("gpu1", "gpu4")
    assert healthy(state, Gate(fail_on_skew=True)) == ("gpu1",)
    assert exit_code(state, Gate(fail_on_skew=True, min_healthy=2)) == 1


def test_a_host_that_calls_itself_broken_is_not_healthy_though_it_names_no_cause() -> None:
    state = fleet([answered("gpu1", verdict="broken")])
    assert healthy(state, Gate()) == ()
    assert exit_code(state, Gate()) == 1


def test_causes_are_told_by_severity_then_by_the_number_of_hosts() -> None:
    state = fleet(
        [answered("gpu1", NARROW), answered("gpu2", LOCKUP), answered("gpu3", NARROW, NOT_LOADED)]
    )
    assert [(c.cause.id, c.hosts) for c in state.causes] == [
        ("driver-not-loaded", ("gpu3",)),
        ("gpu-lockup", ("gpu2",)),
        ("pcie-link-narrow", ("gpu1", "gpu3")),
    ]


def test_all_are_those_that_answered_and_those_that_did_not() -> None:
    assert of_all(fleet([GOOD, BROKEN], [DOWN])) == ["gpu1", "gpu2", "gpu7"]
