"""What the active checks did on the devices, a step at a time."""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from musadoctor.facts.base import Absent, Unknown

StepState = Literal[
    "done", "failed", "missing", "skipped", "out of memory", "hung", "crashed", "not taken"
]


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


StepsFact = Steps | Absent | Unknown
