"""What differs between hosts that ought to be equal: the odd ones, and half-finished upgrades."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from musadoctor.fleet.summary import HostSummary


class Difference(NamedTuple):
    """One trait in which hosts differ from the others."""

    trait: str
    value: str
    usual: str
    """What most others of the group have."""


class Skew(NamedTuple):
    """Hosts that differ from the others in the same traits."""

    kind: Literal["odd", "upgrade", "mixed"]
    """A few differ; a large part has one value of a version and the rest another; no value is that
    of most."""
    group: str
    """Of the hosts, ``""`` where there are none."""
    hosts: tuple[str, ...]
    """Those that differ."""
    compared: int
    """Hosts of the group of which the trait is known, these among them."""
    differences: tuple[Difference, ...]
    """The weightiest first."""
    failing: int
    """How many of the hosts that differ have an error."""
    others_failing: int
    """How many of the others have one."""
    score: float
    """The weight of the traits times the surprise that a host has this value, in bits."""


def skews(hosts: Sequence[HostSummary], groups: Mapping[str, str]) -> tuple[Skew, ...]:
    """What differs within each group, the most telling first."""
    raise NotImplementedError
