"""What the active checks did on the devices, a step at a time."""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, cast

from musadoctor.facts.base import Absent, Unknown

StepState = Literal[
    "done", "failed", "missing", "skipped", "out of memory", "hung", "crashed", "not taken"
]


class Rate(NamedTuple):
    """A speed that was measured; more is better."""

    device: str
    name: str
    """The step and what of it: ``throughput: matmul float32, 1024``."""
    value: float
    unit: str
    """``TFLOPS``, ``GB/s``, ``a second``."""

    def __str__(self) -> str:
        return f"{self.value:.4g} {self.unit}"


_UNITS = {"tflops": "TFLOPS", "per_second": "a second"}
_BYTES = ("speed", "to_device_", "to_host_")
"""How the names of figures begin that are bytes a second."""


class Step(NamedTuple):
    """One step of ``verify`` on one device."""

    device: str
    """``musa:0``; ``musa:0 musa:1`` of a pair, ``rank 3`` of a collective."""
    name: str
    """Its family and what it does: ``compute: matmul bfloat16``."""
    state: StepState
    """``missing``: the operator is not implemented. ``skipped``: the question does not arise, and
    ``message`` says why. ``not taken``: what came before it ended everything."""
    value: Mapping[str, object]
    """What it measured, by name; each family's module says what it holds."""
    message: str = ""
    """One line: the innermost exception, the signal, where it hung."""
    chain: tuple[str, ...] = ()
    """The exceptions from the outermost to the innermost, ``RuntimeError: ...`` each."""
    seconds: float = 0.0

    @property
    def family(self) -> str:
        """``compute``, ``numerics``, ``fallback``, ``memory``, ``collectives``."""
        return self.name.partition(":")[0]

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The speeds among what it measured."""
        return tuple(
            Rate(self.device, f"{self.name}, {what}" if what else self.name, value, unit)
            for what, value, unit in _rates(self.value)
        )

    def __str__(self) -> str:
        told = f": {self.message}" if self.message else ""
        return f"{self.device} {self.name} {self.state}{told}"


class Steps(NamedTuple):
    """All steps of one phase."""

    items: tuple[Step, ...]
    source: str
    """The interpreter that took them."""

    def of(self, start: str) -> Iterator[Step]:
        """The steps whose names begin so: a family, or ``numerics: sdpa``."""
        return (item for item in self.items if item.name.startswith(start))

    def __str__(self) -> str:
        done = sum(item.state == "done" for item in self.items)
        devices = len({item.device for item in self.items})
        return f"{done} of {len(self.items)} steps done on {devices} devices"


def _rates(value: Mapping[str, object]) -> Iterator[tuple[str, float, str]]:
    for name, found in value.items():
        unit, _, size = name.partition(" ")
        if name == "sizes" and isinstance(found, list):
            for row in cast("list[Mapping[str, object]]", found):
                bus = row.get("bus")
                if isinstance(bus, float):
                    yield f"{row.get('bytes')} bytes", bus / 1e9, "GB/s"
        elif not isinstance(found, (int, float)):
            continue
        elif unit in _UNITS:
            yield size, float(found), _UNITS[unit]
        elif name.startswith(_BYTES):
            yield name.replace("_", " ") if "_" in name else "", found / 1e9, "GB/s"


StepsFact = Steps | Absent | Unknown
