"""What came of the collectives over many hosts."""

from typing import Literal, NamedTuple

from musadoctor.fleet.bisect import Found
from musadoctor.fleet.summary import Cause

Outcome = Literal["passed", "failed", "not run"]


class Together(NamedTuple):
    """The collectives over hosts, a rank on each."""

    hosts: tuple[str, ...]
    outcome: Outcome
    causes: tuple[Cause, ...]
    """What rank 0 reports of all of them."""
    found: Found | None
    """The smallest group that fails, where they failed."""
    reason: str
    """Why they were not run."""
    seconds: float
