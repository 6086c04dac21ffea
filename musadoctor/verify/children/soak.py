"""Products and training for as long as was asked for, with what changes meanwhile.

A window is a share of the time. It tells how many steps of training it came to in a second, the
speed of a product, how many products differed from the first one, and the last loss.
"""

from __future__ import annotations

import time
from typing import Any, Callable

from musadoctor.verify.children.base import Device, register
from musadoctor.verify.children.throughput import LONG, SIZES, fastest, trainer

NAME = "soak: compute"
WINDOWS = 12
DAY = 86400.0
Tensor = Any


def soak(device: Device) -> dict[str, object]:
    """Take turns between products and training until the time is over."""
    torch = device.torch
    seconds = float(device.options["soak_seconds"])
    size = fitting(device)
    one = torch.randn(size, size, generator=torch.Generator().manual_seed(1)).to(device.name)
    right = one @ one
    step = trainer(device, 256)
    windows: list[dict[str, object]] = []
    begun = time.perf_counter()
    for number in range(WINDOWS):
        until = begun + seconds * (number + 1) / WINDOWS
        windows.append(window(device, step, one, right, until))
    return {"windows": windows, "size": size, "seconds": time.perf_counter() - begun}


def fitting(device: Device) -> int:
    """A size that keeps the device busy for a while, and no longer."""
    for size in SIZES:
        one = device.torch.ones(size, size).to(device.name)
        if fastest(device, lambda: one @ one) > LONG:  # noqa: B023
            return size
    return SIZES[-1]


def window(
    device: Device, step: Callable[[], Tensor], one: Tensor, right: Tensor, until: float
) -> dict[str, object]:
    """One share of the time; at least one turn, however short it is."""
    torch = device.torch
    products, differing, steps = 0, 0, 0
    in_products = in_steps = loss = 0.0
    while not steps or time.perf_counter() < until:
        begun = time.perf_counter()
        found = one @ one
        device.synchronize()
        between = time.perf_counter()
        in_products += between - begun
        products += 1
        differing += not torch.equal(found, right)
        begun = time.perf_counter()
        last = step()
        for _ in range(3):
            last = step()
        steps += 4
        device.synchronize()
        in_steps += time.perf_counter() - begun
        loss = float(last)
    return {
        "tflops": 2 * one.shape[0] ** 3 * products / max(in_products, 1e-9) / 1e12,
        "per_second": steps / max(in_steps, 1e-9),
        "products": products,
        "differing": differing,
        "loss": loss,
    }


register(NAME, soak, where="soak", seconds=7 * DAY)
