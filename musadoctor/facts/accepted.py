"""What an accepted host measured, as ``verify --save`` wrote it."""

from collections.abc import Iterator
from typing import NamedTuple

from musadoctor.facts.base import Absent
from musadoctor.facts.steps import Rate


class Curve(NamedTuple):
    """The losses of a training run."""

    device: str
    name: str
    """The step that trained: ``record: loss curve float32``."""
    losses: tuple[float, ...]


class Accepted(NamedTuple):
    """The record that a host is compared to."""

    file: str
    saved: str
    """When, in ISO 8601."""
    musadoctor: str
    kind: str
    """``musa``, ``cuda`` or ``cpu``."""
    level: str
    """``quick``, ``default`` or ``deep``."""
    torch: str
    devices: tuple[str, ...]
    """Their names, in the order of their ordinals."""
    rates: tuple[Rate, ...]
    curves: tuple[Curve, ...]
    off_device: tuple[str, ...]
    """Operators that the dispatcher leaves to the CPU, or that are not there."""
    left_device: tuple[str, ...]
    """Operators of the built-in models that left the device."""
    tolerance: float
    """Share of a rate that may be lost."""

    def __str__(self) -> str:
        names = sorted(set(self.devices))
        return f"{self.file} of {self.saved[:10]}: {len(self.devices)} {', '.join(names)}"

    def rates_of(self, name: str, unit: str) -> Iterator[Rate]:
        """A rate of each device."""
        return (rate for rate in self.rates if (rate.name, rate.unit) == (name, unit))


AcceptedFact = Accepted | Absent
