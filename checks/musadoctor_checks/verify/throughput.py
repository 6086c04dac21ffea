"""Whether devices of one kind compute equally fast."""

from collections.abc import Iterator
from statistics import median

from musadoctor.api import (
    Absent,
    Finding,
    Fix,
    Judgement,
    Layer,
    Rate,
    Steps,
    check,
)
from musadoctor_checks.verify._steps import done, unanswered

LEAST = 0.6
"""Share of the others' speed below which a device is called slow."""
PRODUCTS = "throughput: matmul"
"""Small training runs depend on the host as much as on the device."""


@check("device-computes-slower-than-others", layer=Layer.HARDWARE, severity="warning")
def device_computes_slower_than_others(transfer_steps: Steps) -> Judgement:
    """A device computes slower than the others of its host.

    ## Why it matters

    Cards that train together wait for the slowest. Each was measured alone (with `--quick`: all at
    once), and the fastest of several runs counts.

    ## How to fix

    See whether another process uses it, how warm it is and which power limit it has: `mthreads-gmi
    -q`. A card that stays slow when it is cool and idle is to be looked at by the vendor.
    """
    by_task: dict[str, dict[str, list[Rate]]] = {}
    for step in done(transfer_steps, PRODUCTS):
        by_task.setdefault(step.name, {})[step.device] = list(step.rates)
    slow: dict[str, list[str]] = {}
    for task, rates in by_task.items():
        for device, words in _slow(rates):
            slow.setdefault(device, []).append(f"{task.partition(': ')[2]} {words}")
    for device, tasks in slow.items():
        yield Finding(
            f"{device} computes slower than the others: {'; '.join(tasks)}",
            where=device,
            fix=Fix("See what runs on it, its temperature and its clocks", ("mthreads-gmi -q",)),
        )
    if not slow:
        yield from unanswered(transfer_steps, PRODUCTS)
        if by_task and not any(len(rates) > 1 for rates in by_task.values()):
            yield Absent("there is one device, and no other to compare it to")


def _slow(by_device: dict[str, list[Rate]]) -> Iterator[tuple[str, str]]:
    """The devices that are slow at every size that all came to, and at the largest of them."""
    every = [{rate.name for rate in rates} for rates in by_device.values()]
    shared = every[0].intersection(*every[1:])
    for device, rates in by_device.items():
        own = [rate for rate in rates if rate.name in shared]
        others = {
            rate.name: median(
                other.value
                for name, found in by_device.items()
                for other in found
                if name != device and other.name == rate.name
            )
            for rate in own
            if len(by_device) > 1
        }
        if others and own and all(rate.value < LEAST * others[rate.name] for rate in own):
            last = own[-1]
            size = last.name.partition(", ")[2]
            share = 100 * last.value / others[last.name]
            yield device, f"at {size} {last}, {share:.0f} % of the others' {others[last.name]:.4g}"
