"""What changed between two hosts, or two days, and which of it matters."""

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple, cast

from musadoctor.fleet.answer import line
from musadoctor.fleet.diff_checks import StatusChange, status_changes
from musadoctor.fleet.diff_facts import FactChange, fact_changes, fact_of, volatile
from musadoctor.fleet.gather import Gathered
from musadoctor.fleet.nodes import natural
from musadoctor.fleet.state import Unanswered
from musadoctor.fleet.summary import Cause, HostSummary, summarise
from musadoctor.fleet.traits import TRAITS, with_none
from musadoctor.report import JSON

NO_ANSWER = "no answer"
"""The state of a host that was asked and did not answer, where others have a verdict."""
MOST_FACTS = 2000
"""Changed values that are kept; reports of two quite different hosts have a tenth."""
_WORSE = ("healthy", "degraded", "unknown", NO_ANSWER, "broken")


class TraitChange(NamedTuple):
    """Something in which hosts of a kind ought to be equal, and which is another now."""

    trait: str
    weight: int
    """1 (differs for harmless reasons) to 5 (breaks jobs); see ``traits``."""
    before: str
    after: str


class Side(NamedTuple):
    """One of the two reports."""

    name: str
    """The host, or the file where its name is redacted."""
    verdict: str
    musadoctor: str
    """The version that wrote the report."""


class Diff(NamedTuple):
    """What changed from one report to another; each part is sorted, what matters most first."""

    before: Side
    after: Side
    worse: tuple[StatusChange, ...]
    """Checks that fail now, or can no longer be decided: errors, then warnings, notes; of each the
    most basic layer first."""
    better: tuple[StatusChange, ...]
    """Checks that no longer fail, or can be decided again."""
    otherwise: tuple[StatusChange, ...]
    """Checks that fail as before, and say something else."""
    traits: tuple[TraitChange, ...]
    """Of what is known on both sides."""
    facts: tuple[FactChange, ...]
    """Other values that differ and may mean something: first those in the facts that the changed
    checks rest on."""
    volatile: tuple[FactChange, ...]
    """Values that are another every time and mean nothing: used memory, processes, durations."""
    cut: bool
    """Whether there are more facts than are kept."""


class HostChange(NamedTuple):
    """Hosts whose state or causes changed in the same way."""

    hosts: tuple[str, ...]
    before: str
    """A verdict, or ``NO_ANSWER``."""
    after: str
    new: tuple[Cause, ...]
    """Causes that were not there before, as the first host tells them."""
    gone: tuple[str, ...]
    """Ids of causes that are no longer there."""
    reason: str
    """Why the first host does not answer now, else ``""``."""
    worse: bool


class FleetTraitChange(NamedTuple):
    """Hosts on which a trait changed in the same way."""

    change: TraitChange
    hosts: tuple[str, ...]


class FleetDiff(NamedTuple):
    """What changed from one day of a fleet to another."""

    compared: int
    """Hosts that were asked on both days."""
    unchanged: int
    """Those of them of which nothing is to be told."""
    appeared: tuple[str, ...]
    vanished: tuple[str, ...]
    """Hosts that were asked on the first day only."""
    changes: tuple[HostChange, ...]
    """What got worse first, then the number of hosts."""
    traits: tuple[FleetTraitChange, ...]
    """The weightiest first, then the number of hosts."""


def diff_reports(
    before: Mapping[str, JSON], after: Mapping[str, JSON], names: tuple[str, str]
) -> Diff:
    """What changed from one JSON report to another; ``names`` are those of their hosts.

    Raises:
        ForeignError: one of them is no report, or of a schema that is not known.
    """
    sides = tuple(
        summarise(document, host=name, source="", taken="")
        for document, name in zip((before, after), names, strict=True)
    )
    changes = status_changes(before, after)
    touched = {fact for change in changes if change.worse is not None for fact in change.facts}
    facts = [*islice(fact_changes(_facts(before), _facts(after)), MOST_FACTS + 1)]
    kept = sorted(facts[:MOST_FACTS], key=lambda change: fact_of(change) not in touched)
    return Diff(
        _side(sides[0], before),
        _side(sides[1], after),
        tuple(change for change in changes if change.worse),
        tuple(change for change in changes if change.worse is False),
        tuple(change for change in changes if change.worse is None),
        _trait_changes(sides[0].traits, sides[1].traits),
        tuple(change for change in kept if not volatile(change)),
        tuple(change for change in kept if volatile(change)),
        len(facts) > MOST_FACTS,
    )


def diff_fleets(before: Gathered, after: Gathered) -> FleetDiff:
    """What changed from one day of a fleet to another."""
    old, new = _states(before), _states(after)
    both = [host for host in sorted(new, key=natural) if host in old]
    changes: dict[tuple[object, ...], list[str]] = {}
    told: dict[tuple[object, ...], HostChange] = {}
    traits: dict[TraitChange, list[str]] = {}
    changed: set[str] = set()
    for host in both:
        one, other = old[host], new[host]
        change = _host_change(one, other)
        if change is not None:
            key = (change.before, change.after, *(c.id for c in change.new), change.gone)
            told.setdefault(key, change)
            changes.setdefault(key, []).append(host)
            changed.add(host)
        if isinstance(one, HostSummary) and isinstance(other, HostSummary):
            for trait in _trait_changes(one.traits, other.traits):
                traits.setdefault(trait, []).append(host)
                changed.add(host)
    return FleetDiff(
        len(both),
        len(both) - len(changed),
        tuple(host for host in sorted(new, key=natural) if host not in old),
        tuple(host for host in sorted(old, key=natural) if host not in new),
        tuple(
            sorted(
                (told[key]._replace(hosts=tuple(hosts)) for key, hosts in changes.items()),
                key=lambda change: (not change.worse, -len(change.hosts)),
            )
        ),
        tuple(
            FleetTraitChange(change, tuple(hosts))
            for change, hosts in sorted(
                traits.items(), key=lambda item: (-item[0].weight, -len(item[1]), item[0])
            )
        ),
    )


def _side(summary: HostSummary, document: Mapping[str, JSON]) -> Side:
    version = document.get("musadoctor")
    return Side(summary.host, summary.verdict, line(version) if isinstance(version, str) else "")


def _facts(document: Mapping[str, JSON]) -> Mapping[str, JSON]:
    return cast("Mapping[str, JSON]", document["facts"])


def _trait_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[TraitChange, ...]:
    """Traits that are known on both sides and differ, in the order of their weight."""
    if before == after:
        return ()
    old, new = dict(before), dict(after)
    with_none([old, new])
    changes = (
        TraitChange(trait.name, trait.weight, old[trait.name], new[trait.name])
        for trait in TRAITS
        if trait.name in old and trait.name in new and old[trait.name] != new[trait.name]
    )
    return tuple(sorted(changes, key=lambda change: -change.weight))


def _states(gathered: Gathered) -> dict[str, HostSummary | Unanswered]:
    states: dict[str, HostSummary | Unanswered] = {one.host: one for one in gathered.unanswered}
    states.update((one.host, one) for one in gathered.hosts)
    return states


def _host_change(
    before: HostSummary | Unanswered, after: HostSummary | Unanswered
) -> HostChange | None:
    """What became of one host, ``None`` where nothing did."""
    had = {c.id: c for c in before.causes} if isinstance(before, HostSummary) else {}
    has = {c.id: c for c in after.causes} if isinstance(after, HostSummary) else {}
    state = before.verdict if isinstance(before, HostSummary) else NO_ANSWER
    now = after.verdict if isinstance(after, HostSummary) else NO_ANSWER
    # Of a host that does not answer, no cause is known to be gone.
    gone = tuple(cause for cause in had if cause not in has) if now != NO_ANSWER else ()
    new = tuple(cause for name, cause in has.items() if name not in had)
    if state == now and not new and not gone:
        return None
    return HostChange(
        (after.host,),
        state,
        now,
        new,
        gone,
        after.reason if isinstance(after, Unanswered) else "",
        worse=_WORSE.index(now) > _WORSE.index(state) if state != now else bool(new),
    )
