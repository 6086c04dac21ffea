"""The state of a fleet: who answered what, who did not answer, and what could not be read."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from musadoctor.api import SEVERITIES, Severity
from musadoctor.fleet.skew import Skew
from musadoctor.fleet.summary import Cause, HostSummary


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
    fail_on_skew: bool = False
    min_healthy: int | None = None
    """So many hosts are enough; ``None``: every one has to be healthy."""


def healthy(fleet: Fleet, gate: Gate) -> tuple[str, ...]:
    """The hosts that pass: nothing failed at or above the severity, and they were cleared."""
    raise NotImplementedError


def exit_code(fleet: Fleet, gate: Gate) -> int:
    """0, 1, 3 or 4, as everywhere."""
    raise NotImplementedError


def of_all(fleet: Fleet) -> Sequence[str]:
    """Every host that was asked."""
    return [*(h.host for h in fleet.hosts), *(u.host for u in fleet.unanswered)]
