"""Which facts ought to be equal on hosts of one kind, and how much it means when they are not."""

from collections.abc import Mapping
from typing import NamedTuple

from musadoctor.report import JSON

NONE = "none"
"""The value of a trait that is certainly not there."""


class Trait(NamedTuple):
    """Something in which hosts of a kind ought to be equal."""

    name: str
    """``kernel driver``."""
    weight: int
    """1 (differs for harmless reasons) to 5 (a difference breaks jobs that span the hosts)."""
    version: bool = False
    """Whether its values have an order, so that two of them may be an upgrade."""


def traits(facts: Mapping[str, JSON]) -> dict[str, str]:
    """The traits that a report's facts tell; of what is unknown, nothing."""
    raise NotImplementedError
