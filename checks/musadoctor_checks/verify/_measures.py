"""How far results are off, read out of steps, and findings that many operations and devices share.

A step tells of each tensor, with its label in front: ``result ratio``, ``gradient of a error``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from musadoctor.api import Absent, Finding, Fix, Step, Steps, Unknown
from musadoctor_checks._advice import some
from musadoctor_checks.knowledge import explained
from musadoctor_checks.verify._steps import number

LONGEST = 240
"""Of an error text, in characters."""
MOST_FINDINGS = 5
"""Of one check; what is left is named in the last one."""
LOST = {"failed", "hung", "crashed", "out of memory", "not taken"}
EIGHT_BITS = ("compute: matmul int8", "compute: cast float8", "compute: matmul float8")
"""What few builds have."""
OLD_BFLOAT16 = "compute: bfloat16 below capability"
ATTENTION, AUTOCAST, SCALER = "numerics: attention", "numerics: autocast", "numerics: GradScaler"
TRAINING, CLIPPING = "numerics: training", "numerics: clipping"
ROUNDING, TIES, SAME = "numerics: rounding", "numerics: ties", "numerics: same"
RANDOM = "numerics: random numbers"
FAMILIES = ("compute:", "numerics:")
SIXTEEN_BITS = ("float16", "bfloat16")
OWN_CHECKS = (ATTENTION, AUTOCAST, SCALER, TRAINING, CLIPPING, ROUNDING, RANDOM)
"""Steps whose figures have checks of their own."""


class Measure(NamedTuple):
    """How far one tensor is off."""

    step: Step
    label: str
    """``result``, ``gradient of a``, ``parameters``."""

    @property
    def task(self) -> str:
        """What was computed: ``matmul bfloat16``."""
        return task(self.step)

    def number(self, name: str) -> float:
        """A figure; 0 where there is none."""
        return number(self.step.value, f"{self.label} {name}") or 0.0

    @property
    def wrong(self) -> bool:
        """Whether no precision that the device may have explains it."""
        return min(self.number("ratio"), self.reduced) > 1

    @property
    def reduced(self) -> float:
        """The ratio to what is allowed where precision is reduced."""
        less = number(self.step.value, f"{self.label} reduced ratio")
        return self.number("ratio") if less is None else less

    @property
    def off(self) -> str:
        """One clause."""
        value = self.step.value
        found, right = value.get(f"{self.label} found"), value.get(f"{self.label} right")
        share = self.number("allowed")
        return (
            f"the {self.label} is off by {self.number('error'):.3g} at most;"
            f" {_figure(found)} instead of {_figure(right)}, where"
            f" {f'{share:.2g} is' if share else 'nothing is'} allowed"
        )


def task(step: Step) -> str:
    """What was computed, without the family."""
    return step.name.partition(": ")[2]


def _figure(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def measures(steps: Iterable[Step]) -> list[Measure]:
    """All that was compared, in steps that came to their end."""
    return [
        Measure(step, key.removesuffix(" ratio"))
        for step in steps
        if step.state == "done"
        for key in step.value
        if key.endswith(" ratio") and not key.endswith(" reduced ratio")
    ]


def not_finite(steps: Iterable[Step]) -> list[Measure]:
    """All that has infinite numbers or NaN."""
    return [
        Measure(step, key.removesuffix(" not finite"))
        for step in steps
        if step.state == "done"
        for key in step.value
        if key.endswith(" not finite") and number(step.value, key)
    ]


def of(steps: Steps, *starts: str, but: Sequence[str] = ()) -> list[Step]:
    """The steps that begin in one of these ways and in none of those."""
    return [
        step
        for step in steps.items
        if step.name.startswith(starts) and not step.name.startswith(tuple(but))
    ]


def plain(steps: Steps) -> list[Step]:
    """The steps whose figures have no checks of their own."""
    return of(steps, *FAMILIES, but=OWN_CHECKS)


def essential(steps: Sequence[Step]) -> list[Step]:
    """Those that every card must take."""
    return [step for step in steps if not step.name.startswith((*EIGHT_BITS, OLD_BFLOAT16))]


def unjudged(steps: Sequence[Step]) -> Iterator[Unknown | Absent]:
    """Why nothing can be said of steps that did not come to their end, or that there are none."""
    lost = [step for step in steps if step.state in LOST]
    if lost:
        names = [f"{step.device}: {task(step)} ({step.state})" for step in lost]
        yield Unknown(f"there is nothing to compare of {some(names)}")
    elif not any(step.state == "done" for step in steps):
        reasons = dict.fromkeys(step.message.removeprefix("Skip: ") for step in steps)
        yield Absent("; ".join(reasons) or "no such step was taken")


def reported(
    bad: Sequence[Measure], every: Iterable[Step], words: Callable[[Measure], str], fix: Fix
) -> Iterator[Finding]:
    """A finding for each operation, the worst first, with the devices that it is of.

    ``words`` says it of the worst device and tensor.
    """
    everywhere = [step for step in every if step.state == "done"]
    tasks: dict[str, list[Measure]] = {}
    for one in sorted(bad, key=lambda one: -max(one.number("ratio"), one.number("not finite"))):
        tasks.setdefault(one.task, []).append(one)
    for name, group in list(tasks.items())[:MOST_FINDINGS]:
        devices = sorted({one.step.device for one in group})
        right = sum(task(step) == name for step in everywhere) - len(devices)
        others = f"; right on {right} other device{'s' * (right > 1)}" if right else ""
        yield Finding(
            f"{some(devices)}: {name}: {words(group[0])}{others}", where=devices[0], fix=fix
        )
    if rest := list(tasks)[MOST_FINDINGS:]:
        devices = sorted({one.step.device for name in rest for one in tasks[name]})
        yield Finding(f"{some(devices)}: the same of {some(rest, 12)}", where=devices[0], fix=fix)


def shared(bad: Sequence[Measure]) -> Iterator[tuple[list[str], list[str]]]:
    """Devices, and the operations that are so on all of them."""
    devices: dict[str, set[str]] = {}
    for one in bad:
        devices.setdefault(one.task, set()).add(one.step.device)
    tasks: dict[tuple[str, ...], list[str]] = {}
    for name, on in devices.items():
        tasks.setdefault(tuple(sorted(on)), []).append(name)
    for on_all, names in tasks.items():
        yield list(on_all), names


def ended(steps: Sequence[Step], words: str, fix: Fix) -> Iterator[Finding]:
    """A finding for each way in which steps ended, with the devices and operations."""
    ways: dict[str, list[Step]] = {}
    for step in steps:
        ways.setdefault(step.message, []).append(step)
    for message, group in list(ways.items())[:MOST_FINDINGS]:
        devices = sorted({step.device for step in group})
        tasks = list(dict.fromkeys(map(task, group)))
        known = explained((message, *group[0].chain))
        text = message if len(message) <= LONGEST else f"{message[:LONGEST]} ..."
        yield Finding(
            f"{some(devices)}: {some(tasks)} {_verb(words, tasks)}: {text}"
            + (f" ({known.meaning})" if known else ""),
            where=devices[0],
            fix=Fix(known.fix, fix.commands) if known else fix,
        )
    if rest := [step for message in list(ways)[MOST_FINDINGS:] for step in ways[message]]:
        devices = sorted({step.device for step in rest})
        tasks = list(dict.fromkeys(map(task, rest)))
        yield Finding(
            f"{some(devices)}: {some(tasks, 12)} {_verb(words, tasks)} too",
            where=devices[0],
            fix=fix,
        )


def _verb(words: str, tasks: Sequence[str]) -> str:
    """The words with their verb, the first one, for one operation or several."""
    if len(tasks) == 1:
        return words
    verb, _, rest = words.partition(" ")
    several = {"is": "are"}.get(verb, verb.removesuffix("s"))
    return f"{several} {rest}".rstrip()


def alike(told: Iterable[tuple[Step, str]], fix: Fix) -> Iterator[Finding]:
    """A finding for what is said of a step, with all devices of which the same is said."""
    devices: dict[str, list[str]] = {}
    for step, words in told:
        devices.setdefault(f"{task(step)}: {words}", []).append(step.device)
    for words, names in devices.items():
        yield Finding(f"{some(names)}: {words}", where=names[0], fix=fix)


def infinite(one: Measure) -> str:
    """One clause on what is not finite."""
    count = int(one.number("not finite"))
    verb = "is" if count == 1 else "are"
    return f"{count} number{'s' * (count > 1)} of the {one.label} {verb} NaN or infinite"
