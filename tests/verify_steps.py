"""Steps of ``verify``, taken in a child of an interpreter with a real torch."""

import time
from collections.abc import Mapping
from typing import Any

from musadoctor.facts.steps import Step
from musadoctor.live import Live
from musadoctor.verify.phases import Level, plan
from musadoctor.verify.taken import Job, take

Taken = dict[str, Step]
"""By device and name: ``musa:0 memory: fill``."""


def taken(
    python: str,
    kind: str,
    modules: tuple[str, ...],
    level: Level = "quick",
    *,
    devices: int = 1,
    options: Mapping[str, object] = {},
) -> Taken:
    """All steps of some modules at a level, in one child where none of them ends it."""
    names = ("cpu",) if kind == "cpu" else tuple(f"{kind}:{n}" for n in range(devices))
    job = Job("test", modules, plan(modules, names, names, level), 120.0)
    told = {"level": level, **options}
    steps = take(Live(time.monotonic() + 120), python, kind, job, told)
    return {f"{step.device} {step.name}": step for step in steps}


def value(step: Step) -> dict[str, Any]:
    """What a step measured, where it was taken to its end."""
    assert step.state == "done", step
    return dict(step.value)
