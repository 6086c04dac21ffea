"""How fast a device computes, alone: products of matrices, and steps of training.

A step answers with numbers whose names begin with their unit and end with their size: ``tflops
1024``, ``per_second 256``. Sizes double until one run takes long enough to be told from the time
that it takes to begin, so that slow devices are asked for less.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Callable

from musadoctor.verify.children.base import Device, Skip, register, state_of

Tensor = Any
SIZES = (128, 256, 512, 1024, 2048, 4096, 8192)
WIDTHS = (64, 256, 1024)
LONG = 0.004
"""Seconds of one run after which no larger one is tried."""
REPEATS, AT_LEAST = 7, 0.03
"""Runs, and seconds that they take together."""
BFLOAT16_FROM = (2, 2)


def fastest(device: Device, work: Callable[[], object]) -> float:
    """Seconds of the fastest of several runs: what disturbs one makes it slower, never faster."""
    work()
    device.synchronize()
    seconds: list[float] = []
    while len(seconds) < REPEATS or sum(seconds) < AT_LEAST:
        begun = time.perf_counter()
        work()
        device.synchronize()
        seconds.append(time.perf_counter() - begun)
    return max(min(seconds), 1e-9)


def element_type(device: Device, dtype: str) -> Tensor:
    """Torch's type of that name, where the device computes in it."""
    capability = device.capability
    old = capability is not None and capability < BFLOAT16_FROM
    if dtype == "bfloat16" and device.kind == "musa" and old:
        raise Skip("bfloat16 needs capability 2.2")
    return getattr(device.torch, dtype)


def matmul(dtype: str, device: Device) -> dict[str, object]:
    """Products of square matrices, 2 n^3 operations each."""
    torch = device.torch
    kind = element_type(device, dtype)
    told: dict[str, object] = {}
    for size in SIZES:
        one = torch.ones(size, size).to(kind).to(device.name)
        try:
            seconds = fastest(device, lambda: one @ one)  # noqa: B023
        except Exception as error:
            if told and state_of(error) == "out of memory":
                break
            raise
        told[f"tflops {size}"] = 2 * size**3 / seconds / 1e12
        if seconds > LONG:
            break
    return told


def training(device: Device) -> dict[str, object]:
    """Steps of a small network: forward, backward, and an update by hand."""
    told: dict[str, object] = {}
    for width in WIDTHS:
        seconds = fastest(device, trainer(device, width))
        told[f"per_second {width}"] = 1 / seconds
        if seconds > LONG:
            break
    return told


def trainer(device: Device, width: int) -> Callable[[], Tensor]:
    """What takes a step of training and gives its loss, on the device."""
    torch = device.torch
    functional = torch.nn.functional
    generator = torch.Generator().manual_seed(1)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    given = numbers(128, width).to(device.name)
    wanted = torch.randint(0, 16, (128,), generator=generator).to(device.name)
    weights = [
        (numbers(*shape) / shape[1] ** 0.5).to(device.name).requires_grad_()
        for shape in ((2 * width, width), (width, 2 * width), (16, width))
    ]

    def step() -> Tensor:
        inner = given + functional.gelu(given @ weights[0].t()) @ weights[1].t()
        logits = functional.layer_norm(inner, (width,)) @ weights[2].t()
        loss = functional.cross_entropy(logits, wanted)
        loss.backward()
        with torch.no_grad():
            for weight in weights:
                weight.sub_(0.05 * weight.grad)
                weight.grad = None
        return loss.detach()

    return step


for _dtype in ("float32", "float16", "bfloat16"):
    register(f"throughput: matmul {_dtype}", partial(matmul, _dtype), seconds=60.0)
register("throughput: training", training, level="default", seconds=60.0)
