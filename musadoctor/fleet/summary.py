"""What is kept of one host's report: enough to count it, to name its cause, and to compare it."""

from collections.abc import Mapping
from typing import NamedTuple

from musadoctor.api import Severity
from musadoctor.report import JSON, Verdict


class Cause(NamedTuple):
    """A failed check that nothing else explains."""

    id: str
    severity: Severity
    title: str
    message: str
    """Of its first finding."""
    command: str
    """The first command of its fix, or ``""``."""


class HostSummary(NamedTuple):
    """One host that answered."""

    host: str
    verdict: Verdict
    causes: tuple[Cause, ...]
    """In the order in which to fix them."""
    undecided: tuple[str, ...]
    """Ids of checks of severity error that came out unknown, for a host that was not cleared."""
    bugs: int
    """Exceptions in musadoctor's own code there."""
    traits: Mapping[str, str]
    """What ought to be equal on hosts of a kind, by the names of ``traits.TRAITS``; a trait that is
    not known of this host is not in it."""
    source: str
    """The file, and its line where it has many: where the report was read."""
    taken: str
    """When, as the file says; ``""`` where it does not."""


class ForeignError(ValueError):
    """Not a report of ours; one sentence."""


def summarise(document: Mapping[str, JSON], *, host: str, source: str, taken: str) -> HostSummary:
    """The summary of a JSON report, a value from another machine: each part is checked.

    Raises:
        ForeignError: it is no report, or one of a schema that is not known.
    """
    raise NotImplementedError
