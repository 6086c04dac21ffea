"""The state of a fleet: who answered what, who did not answer, and what could not be read."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from musadoctor.api import SEVERITIES, Severity
from musadoctor.fleet.skew import Skew
from musadoctor.fleet.summary import Cause, HostSummary
from musadoctor.fleet.together import Together


class Unanswered(NamedTuple):
    """A host without a report."""

    host: str
    kind: str
    """One of the constants of ``answer``."""
    reason: str


class LeftOut(NamedTuple):
    """A file, or a line of one, that is not counted."""

    source: str
    reason: str


class CommonCause(NamedTuple):
    """A cause, and the hosts that have it."""

    cause: Cause
    """As the first of the hosts tells it."""
    hosts: tuple[str, ...]


class Fleet(NamedTuple):
    """All that is known of the hosts."""

    hosts: tuple[HostSummary, ...]
    """By name, in the natural order: ``gpu2`` before ``gpu10``."""
    unanswered: tuple[Unanswered, ...]
    left_out: tuple[LeftOut, ...]
    groups: Mapping[str, str]
    """The group of each host, where hosts were grouped."""
    skews: tuple[Skew, ...]
    """The most telling first."""
    grouped_by: str = ""
    together: Together | None = None
    """The collectives over the healthy ones, where they were asked for."""

    @property
    def causes(self) -> tuple[CommonCause, ...]:
        """By severity, then the number of hosts, then id."""
        found: dict[str, tuple[Cause, list[str]]] = {}
        for host in self.hosts:
            for cause in host.causes:
                found.setdefault(cause.id, (cause, []))[1].append(host.host)
        common = [CommonCause(cause, tuple(hosts)) for cause, hosts in found.values()]
        return tuple(
            sorted(
                common,
                key=lambda c: (SEVERITIES.index(c.cause.severity), -len(c.hosts), c.cause.id),
            )
        )


class Gate(NamedTuple):
    """By what a fleet is judged."""

    fail_on: Severity = "error"
    strict: bool = False
    """Whether a host that was not cleared, or did not answer, counts as a failed one."""
    fail_on_skew: bool = False
    """Whether an odd host fails; half-finished upgrades and mixed groups do not."""
    min_healthy: int | None = None
    """So many hosts are enough; ``None``: every one has to be healthy."""


def healthy(fleet: Fleet, gate: Gate) -> tuple[str, ...]:
    """The hosts that pass: nothing failed at or above the severity, and they were cleared."""
    odd = _odd(fleet, gate)
    return tuple(
        host.host
        for host in fleet.hosts
        if not (_failed(host, gate) or _uncleared(host) or host.host in odd)
    )


def exit_code(fleet: Fleet, gate: Gate) -> int:
    """0, 1, 3 or 4, as everywhere.

    With ``min_healthy`` 0 where so many hosts pass, else 1. Without: 1 where a host failed, or is
    odd; 4 where musadoctor broke on one; 3 where one did not answer or was not cleared, or there is
    none at all. Collectives that failed give 1, those that were to be run and were not 3.
    """
    outcome = fleet.together.outcome if fleet.together else "passed"
    if gate.min_healthy is not None:
        if outcome == "failed" or len(healthy(fleet, gate)) < gate.min_healthy:
            return 1
        return 0 if outcome == "passed" else 3
    incomplete = (
        bool(fleet.unanswered)
        or any(map(_uncleared, fleet.hosts))
        or not fleet.hosts
        or outcome == "not run"
    )
    failed = any(_failed(host, gate) for host in fleet.hosts) or _odd(fleet, gate)
    if failed or outcome == "failed" or (gate.strict and incomplete):
        return 1
    if any(host.bugs for host in fleet.hosts):
        return 4
    return 3 if incomplete else 0


def _failed(host: HostSummary, gate: Gate) -> bool:
    """Whether something failed; what a cause explains is never severer than the cause."""
    bound = SEVERITIES.index(gate.fail_on)
    return host.verdict == "broken" or any(
        SEVERITIES.index(cause.severity) <= bound for cause in host.causes
    )


def _uncleared(host: HostSummary) -> bool:
    return host.verdict == "unknown"


def _odd(fleet: Fleet, gate: Gate) -> set[str]:
    if not gate.fail_on_skew:
        return set()
    return {host for skew in fleet.skews if skew.kind == "odd" for host in skew.hosts}


def of_all(fleet: Fleet) -> Sequence[str]:
    """Every host that was asked."""
    return [*(h.host for h in fleet.hosts), *(u.host for u in fleet.unanswered)]
