"""What differs between hosts that ought to be equal: the odd ones, and half-finished upgrades."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from musadoctor.fleet.nodes import natural
from musadoctor.fleet.summary import HostSummary
from musadoctor.fleet.traits import NONE, TRAITS, Trait

Kind = Literal["odd", "upgrade", "mixed"]


class Difference(NamedTuple):
    """One trait in which hosts differ from the others."""

    trait: str
    value: str
    usual: str
    """What most others of the group have; of an upgrade, the newer version."""


class Skew(NamedTuple):
    """Hosts that differ from the others in the same traits."""

    kind: Kind
    """``odd``: they are few. ``upgrade``: nearly all hosts have one of two versions, and these are
    many that still have the older one. ``mixed``: they are many, or no value is usual, and nobody
    is to be called odd."""
    group: str
    """Of the hosts, ``""`` where there are none."""
    hosts: tuple[str, ...]
    """Those that differ, in the natural order."""
    compared: int
    """Hosts of the group of which the weightiest trait is known, these among them."""
    differences: tuple[Difference, ...]
    """The weightiest first."""
    failing: int
    """How many of the hosts that differ have an error."""
    others_failing: int
    """How many of the others have one."""
    score: float
    """The weight of the weightiest trait times the surprise, in bits, that a host differs so.
    Traits that follow from one another do not add up: an upgrade changes many."""


class _Apart(NamedTuple):
    """Hosts that differ in one trait."""

    kind: Kind
    trait: Trait
    difference: Difference
    hosts: tuple[str, ...]
    compared: int
    failing: int
    others_failing: int
    score: float


_PLACES = {trait.name: place for place, trait in enumerate(TRAITS)}
_KINDS: tuple[Kind, ...] = ("odd", "upgrade", "mixed")


def skews(hosts: Sequence[HostSummary], groups: Mapping[str, str]) -> tuple[Skew, ...]:
    """What differs within each group, the most telling first."""
    members: dict[str, list[HostSummary]] = {}
    for host in sorted(hosts, key=lambda host: natural(host.host)):
        members.setdefault(groups.get(host.host, ""), []).append(host)
    found = [skew for group, those in members.items() for skew in _of_group(group, those)]
    return tuple(
        sorted(
            found,
            key=lambda s: (
                -s.score,
                -len(s.differences),
                natural(s.group),
                natural(s.hosts[0]),
                s.differences,
            ),
        )
    )


def _of_group(group: str, hosts: Sequence[HostSummary]) -> Iterator[Skew]:
    same: dict[tuple[str, ...], list[_Apart]] = {}
    for name in {name for host in hosts for name in host.traits}:
        for apart in _apart(TRAITS[_PLACES[name]], hosts):
            same.setdefault(apart.hosts, []).append(apart)
    for those, found in same.items():
        found.sort(key=lambda apart: (-apart.trait.weight, _PLACES[apart.trait.name]))
        first = found[0]
        kinds = {apart.kind for apart in found}
        yield Skew(
            next(kind for kind in _KINDS if kind in kinds),
            group,
            those,
            first.compared,
            tuple(apart.difference for apart in found),
            first.failing,
            first.others_failing,
            max(apart.score for apart in found),
        )


def _apart(trait: Trait, hosts: Sequence[HostSummary]) -> Iterator[_Apart]:
    """The hosts that have another value than the usual one, by value."""
    known = [host for host in hosts if trait.name in host.traits]
    counts = Counter(host.traits[trait.name] for host in known)
    if len(counts) < 2 or _individual(trait, counts):  # noqa: PLR2004 - all are equal
        return
    kinds = _kinds(trait, counts)
    having: dict[str, list[HostSummary]] = {}
    for host in known:
        value = host.traits[trait.name]
        if value in kinds:
            having.setdefault(value, []).append(host)
    failing = sum(map(_fails, known))
    for value, those in having.items():
        kind, usual = kinds[value]
        here = sum(map(_fails, those))
        fewer = min(len(those), counts[usual]) if kind == "upgrade" else len(those)
        yield _Apart(
            kind,
            trait,
            Difference(trait.name, value, usual),
            tuple(host.host for host in those),
            len(known),
            here,
            failing - here,
            trait.weight * math.log2(len(known) / fewer),
        )


def _fails(host: HostSummary) -> bool:
    return host.verdict == "broken"


def _individual(trait: Trait, counts: Counter[str]) -> bool:
    """Whether hosts have a value of their own each, like an address, and are not to be compared.

    A version is never that of one host alone by nature, so more of them are compared.
    """
    few = 8 if trait.version else 4
    return len(counts) > max(few, counts.total() // 8)


def _kinds(trait: Trait, counts: Counter[str]) -> dict[str, tuple[Kind, str]]:
    """How each value differs that is not the usual one, and from what."""
    # Of values that are as common, one has to be called usual whatever hosts have it.
    ordered = sorted(counts, key=lambda value: (counts[value], natural(value)), reverse=True)
    compared, usual, second = counts.total(), *ordered[:2]
    kinds: dict[str, tuple[Kind, str]] = {}
    for value in ordered[1:]:
        kinds[value] = ("odd" if _odd(counts[value], counts[usual], compared) else "mixed", usual)
    if (
        trait.version
        and NONE not in {usual, second}
        and kinds[second][0] == "mixed"
        and counts[second] > 1
        and (counts[usual] + counts[second]) * 10 >= compared * 9
    ):
        older, newer = _by_age(usual, second)
        del kinds[second]
        kinds[older] = ("upgrade", newer)
    return kinds


def _odd(count: int, most: int, compared: int) -> bool:
    """Whether so few hosts differ that something is wrong with them, and not with the group.

    One among three is odd, one of two is not; of ten hosts two may be odd, of hundred sixteen, of
    thousands each twentieth. Where not even a third has the same, nothing is usual.
    """
    few = count <= min(compared // 5, max(16, compared // 20))
    one = count == 1 and most * 2 > compared
    return (few or one) and count < most and most * 3 >= compared


def _by_age(one: str, other: str) -> tuple[str, str]:
    """Two versions of a kind, the older first; as wheels are numbered where both are so."""
    from packaging.version import Version  # noqa: PLC0415 - 20 ms

    try:
        older, newer = sorted((one, other), key=Version)
    except ValueError:  # InvalidVersion is one
        older, newer = sorted((one, other), key=natural)
    return older, newer
