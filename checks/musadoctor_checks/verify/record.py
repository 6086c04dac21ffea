"""A host against the figures of an accepted one."""

from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import mean, median
from typing import cast

from musadoctor.api import (
    Absent,
    Accepted,
    Finding,
    Judgement,
    Layer,
    Rate,
    Step,
    Steps,
    Unknown,
    check,
)
from musadoctor_checks._advice import some
from musadoctor_checks.verify._steps import done, rows, texts, unanswered

CURVE = "record: loss curve"
WINDOW = 10
"""Losses whose mean is compared, for single ones depend on rounding."""
BANDS = {"float32": 0.001, "bfloat16": 0.02}
"""By how much of it the mean of a window may be off; on CPUs it is 5e-7 and 0.002."""
ALL = "fallback: static"
MODELS = "fallback: model"
Some = Steps | Absent | Unknown


@check("loss-curve-leaves-reference", layer=Layer.TORCH_MUSA, severity="error")
def loss_curve_leaves_reference(device_steps: Steps) -> Judgement:
    """A small training run does not learn as the same run in float64 on the CPU does.

    ## Why it matters

    Small errors of operators, each within its bounds, may add up to a model that learns worse. The
    run begins with the same weights and sees the same data; the mean of ten losses may be off by
    0.1 % in float32 and by 2 % in bfloat16.

    ## How to fix

    See first what `musadoctor verify` finds in the families `compute` and `numerics`: an operator
    that is wrong shows there. Where it finds nothing, report the curves of `--json` to torch_musa.
    """
    for step in done(device_steps, CURVE):
        reference = _numbers(step.value.get("reference"))
        off = _off(_numbers(step.value.get("curve")), reference)
        band = BANDS[_dtype(step.name)]
        if off is None or off[0] > band:
            yield Finding(
                f"{step.device}: {_told(step.name, off, band)} the float64 run's",
                where=step.device,
            )
    yield from unanswered(device_steps, CURVE)


@check("loss-curve-leaves-record", layer=Layer.TORCH_MUSA, severity="error")
def loss_curve_leaves_record(accepted: Accepted, device_steps: Steps) -> Judgement:
    """A small training run does not learn as it did on the accepted host.

    ## Why it matters

    A migration is signed off when the loss follows that of the host it came from. The run begins
    with the same weights and sees the same data, whatever the device.

    ## How to fix

    See what `musadoctor verify` finds in the families `compute` and `numerics`, and whether torch
    and its back end have changed since the record was saved.
    """
    curves = {curve.name: curve.losses for curve in accepted.curves}
    for step in done(device_steps, CURVE):
        if step.name not in curves:
            continue
        off = _off(_numbers(step.value.get("curve")), curves[step.name])
        band = BANDS[_dtype(step.name)]
        if off is None or off[0] > band:
            yield Finding(
                f"{step.device}: {_told(step.name, off, band)} that of {accepted.file}",
                where=accepted.file,
            )
    if not curves:
        yield Absent(f"{accepted.file} holds no loss curve")
    yield from unanswered(device_steps, CURVE)


@check("throughput-lost", layer=Layer.HARDWARE, severity="error")
def throughput_lost(
    accepted: Accepted, device_steps: Some, transfer_steps: Some, rank_steps: Some
) -> Judgement:
    """A host is slower than the accepted one was.

    ## Why it matters

    Every share of it is a share of each training run. What is compared is each speed of `--save`
    with the median of the record's devices; `--tolerance` says which share may be lost, 10 % where
    it says nothing.

    ## How to fix

    One slow device: see `device-computes-slower-than-others`. All of them: compare driver, Toolkit
    and torch with those of the record, and see what else runs on the host.
    """
    phases = [one for one in (device_steps, transfer_steps, rank_steps) if isinstance(one, Steps)]
    today = [rate for phase in phases for step in phase.items for rate in step.rates]
    compared = 0
    for name, unit in dict.fromkeys((rate.name, rate.unit) for rate in accepted.rates):
        before = median(rate.value for rate in accepted.rates_of(name, unit))
        found = [rate for rate in today if (rate.name, rate.unit) == (name, unit)]
        compared += len(found)
        least = before * (1 - accepted.tolerance)
        slow = sorted((rate for rate in found if rate.value < least), key=lambda rate: rate.value)
        if slow:
            yield Finding(_lost(name, unit, before, slow), where=accepted.file)
    if not compared:
        yield Absent(f"no speed of {accepted.file} was measured today")
    lost = [step for phase in phases for step in phase.items if _had(step, accepted)]
    if lost:
        names = [f"{step.device} {step.name} {step.state}" for step in lost]
        yield Unknown(f"not measured today: {some(names)}")


@check("new-fallback", layer=Layer.TORCH_MUSA, severity="warning")
def new_fallback(accepted: Accepted, device_steps: Steps) -> Judgement:
    """An operator that ran on the accepted host's device leaves this one's.

    ## Why it matters

    What is computed on the CPU is copied there and back, and a single such operator can decide how
    long a step takes; one that is missing ends the run.

    ## How to fix

    Compare the versions of torch_musa. Replace the operator in the model's code, or ask torch_musa
    for it. `musadoctor verify --verbose` shows the table of what leaves the device.
    """
    known, left = set(accepted.off_device), set(accepted.left_device)
    for step in done(device_steps, MODELS):
        new = sorted({str(row.get("operator")) for row in rows(step.value, "operators")} - left)
        if new:
            yield Finding(
                f"{step.device}: {some(new)} left the device in {step.name.partition(': ')[2]}, "
                f"and did not on the host of {accepted.file}",
                where=accepted.file,
            )
    if known:
        for step in done(device_steps, ALL):
            new = sorted({*texts(step.value, "falls_back"), *texts(step.value, "missing")} - known)
            if new:
                yield Finding(
                    f"{len(new)} operators are not on the device and were on the host of "
                    f"{accepted.file}: {some(new)}",
                    where=accepted.file,
                )
    yield from unanswered(device_steps, "fallback:")


@check("record-of-other-host", layer=Layer.HARDWARE, severity="note")
def record_of_other_host(accepted: Accepted, visible_devices: Steps) -> Judgement:
    """The record is one of another kind of host.

    ## Why it matters

    Speeds of other cards are no measure of whether these are well. For a migration that is what is
    wanted: the gap is what the numbers tell.

    ## How to fix

    Nothing, where it is meant. Otherwise save a record of a host of this kind with `--save`.
    """
    for step in done(visible_devices, "census: devices"):
        names = [str(row.get("name")) for row in rows(step.value, "devices")]
        if sorted(set(names)) != sorted(set(accepted.devices)):
            yield Finding(
                f"{accepted.file} is of {_counted(accepted.devices)} ({accepted.kind}), today's "
                f"devices are {_counted(names)} ({step.device})",
                where=accepted.file,
            )


def _counted(names: Sequence[str]) -> str:
    counts = (f"{names.count(name)} {name}" for name in dict.fromkeys(names))
    return ", ".join(counts) or "none"


def _lost(name: str, unit: str, before: float, slow: Sequence[Rate]) -> str:
    share = 100 * (1 - slow[0].value / before)
    others = f" ({some([rate.device for rate in slow[1:]])} as well)" if slow[1:] else ""
    return (
        f"{name}: {slow[0].device} {slow[0].value:.4g} {unit}, {share:.0f} % below the record's "
        f"{before:.4g}{others}"
    )


def _had(step: Step, accepted: Accepted) -> bool:
    """Whether the record has a speed of what was not measured today."""
    names = {rate.name.partition(",")[0] for rate in accepted.rates}
    return step.state not in {"done", "skipped"} and step.name in names


def _dtype(name: str) -> str:
    return name.rpartition(" ")[2]


def _numbers(value: object) -> tuple[object, ...]:
    return tuple(cast("list[object]", value)) if isinstance(value, (list, tuple)) else ()


def _off(found: Sequence[object], right: Sequence[object]) -> tuple[float, int] | None:
    """The largest deviation of a window's mean, and where; ``None`` of curves that cannot be told.

    A loss that is no number is a text in them.
    """
    both = list(chain(found, right))
    losses = [loss for loss in both if isinstance(loss, (int, float))]
    if not found or len(found) != len(right) or len(losses) != len(both):
        return None
    count = len(found)
    return max(_windows(losses[:count], losses[count:]))


def _windows(found: Sequence[float], right: Sequence[float]) -> Iterator[tuple[float, int]]:
    for start in range(0, len(found), WINDOW):
        one, other = mean(found[start : start + WINDOW]), mean(right[start : start + WINDOW])
        yield abs(one - other) / max(abs(other), 1e-12), start


def _told(name: str, off: tuple[float, int] | None, band: float) -> str:
    task = name.partition(": ")[2]
    if off is None:
        return f"the {task} is not finite or not whole, unlike"
    share, start = off
    return (
        f"the {task} is {100 * share:.3g} % off at steps {start} to {start + WINDOW - 1}, "
        f"{100 * band:g} % may be, from"
    )
