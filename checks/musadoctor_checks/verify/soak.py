"""What changed while the devices computed for a long time."""

from collections.abc import Iterator
from statistics import median
from typing import cast

from musadoctor.api import Absent, Finding, Fix, Judgement, Layer, Step, Steps, check
from musadoctor_checks.verify._steps import done, mapping, number, rows, unanswered

SOAK = "soak: compute"
LOST = 0.9
"""Share of the first third's speed below which the last third's has drifted."""
SHORTEST = 60.0
"""Seconds of a run whose windows are long enough to be compared."""
MARKS = (("tflops", "products", "TFLOPS"), ("per_second", "training", "steps a second"))


@check("soak-breaks-off", layer=Layer.HARDWARE, severity="error")
def soak_breaks_off(soak_steps: Steps) -> Judgement:
    """A device does not last through a long run.

    ## Why it matters

    It computes right for a moment, and a training run of days will end as this one did.

    ## How to fix

    Look for XID lines of the driver in the kernel log of that time (`sudo dmesg`), for the card's
    temperature and for what else ran on it. Report it with `sudo mthreads-bug-report.sh`.
    """
    for step in soak_steps.of(SOAK):
        if step.state in {"failed", "hung", "crashed", "out of memory", "missing"}:
            yield Finding(
                f"{step.device}: the soak run {step.state} after {step.seconds:.0f} s: "
                f"{step.message}{_temperatures(soak_steps)}",
                where=step.device,
                fix=Fix("See what the driver says of that time", ("sudo dmesg | tail -n 50",)),
            )
        elif step.state == "not taken":
            yield from unanswered(soak_steps, SOAK)


@check("soak-results-change", layer=Layer.HARDWARE, severity="error")
def soak_results_change(soak_steps: Steps) -> Judgement:
    """The same product comes out differently while a device computes for a long time.

    ## Why it matters

    Memory or arithmetic that fails when the card is warm spoils a training run without a word.

    ## How to fix

    Watch temperature, power and ECC counts with `mthreads-gmi -q`, repeat the run with the card
    alone, and have a card that does it again replaced. An operator that is not deterministic by
    itself is reported by `results-differ-between-runs` as well.
    """
    for step in done(soak_steps, SOAK):
        windows = rows(step.value, "windows")
        differing = sum(number(window, "differing") or 0 for window in windows)
        products = sum(number(window, "products") or 0 for window in windows)
        losses = [window.get("loss") for window in windows]
        odd = [loss for loss in losses if not isinstance(loss, (int, float))]
        if differing:
            yield Finding(
                f"{step.device}: {differing:.0f} of {products:.0f} equal products of matrices "
                f"differed from the first one{_temperatures(soak_steps)}",
                where=step.device,
                fix=Fix("Watch its temperature and its ECC counts", ("mthreads-gmi -q",)),
            )
        if odd:
            yield Finding(
                f"{step.device}: the loss became {odd[0]} in window "
                f"{losses.index(odd[0]) + 1} of {len(losses)}",
                where=step.device,
                fix=Fix("Watch its temperature and its ECC counts", ("mthreads-gmi -q",)),
            )
    yield from unanswered(soak_steps, SOAK)


@check("soak-throughput-drifts", layer=Layer.HARDWARE, severity="warning")
def soak_throughput_drifts(soak_steps: Steps) -> Judgement:
    """A device becomes slower while it computes for a long time.

    ## Why it matters

    Figures of the first minutes promise more than a training run will get; with several cards the
    slowest decides.

    ## How to fix

    Compare temperature and clocks at the beginning and at the end: a card that becomes too warm is
    slowed down. See to fans and air flow, and to the power limit.
    """
    for step in done(soak_steps, SOAK):
        seconds = number(step.value, "seconds") or 0
        if seconds < SHORTEST:
            yield Absent(f"in {seconds:.0f} s nothing drifts; soak for minutes or hours")
            continue
        for mark, task, unit in MARKS:
            for first, last in _thirds(step, mark):
                if last < LOST * first:
                    yield Finding(
                        f"{step.device}: {task} {100 * (1 - last / first):.0f} % slower at the end:"
                        f" {first:.4g} {unit} at first, {last:.4g} at last"
                        f"{_temperatures(soak_steps)}",
                        where=step.device,
                        fix=Fix("Watch its temperature and its clocks", ("mthreads-gmi -q",)),
                    )
    yield from unanswered(soak_steps, SOAK)


def _thirds(step: Step, mark: str) -> Iterator[tuple[float, float]]:
    """The median speed of the first third of the windows and of the last."""
    speeds = [speed for row in rows(step.value, "windows") if (speed := number(row, mark))]
    third = len(speeds) // 3
    if third:
        yield median(speeds[:third]), median(speeds[-third:])


def _temperatures(soak_steps: Steps) -> str:
    """What the management tool said meanwhile."""
    for step in done(soak_steps, "soak: temperature"):
        cards = cast("dict[str, object]", step.value.get("cards", {}))
        told = mapping({"cards": cards}, "cards")
        if told:
            return "; " + ", ".join(f"card {card}: {words}" for card, words in told.items())
    return ""
