"""A small training run that is the same on every host: its losses are what hosts are compared by.

Weights and data come from the CPU's generator, the updates are made by hand. In ``curve`` stands
the loss of each step, in ``reference`` that of the same run in float64 on the CPU.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from musadoctor.verify.children.base import Device, register
from musadoctor.verify.children.throughput import element_type

Tensor = Any
STEPS = 150
BATCH, INPUTS, WIDTH, CLASSES = 64, 16, 32, 8
RATE = 0.2


def curve(dtype: str, device: Device) -> dict[str, object]:
    """Losses of a classifier of what another network calls classes."""
    element_type(device, dtype)
    reference = trained(device, "cpu", "float64")
    found = trained(device, device.name, dtype)
    return {
        "curve": [round(loss, 6) for loss in found],
        "reference": [round(loss, 6) for loss in reference],
        "steps": STEPS,
    }


def trained(device: Device, where: str, dtype: str) -> list[float]:
    """The loss of each step; in 16 bits the weights stay in float32, as with autocast."""
    torch = device.torch
    functional = torch.nn.functional
    generator = torch.Generator().manual_seed(7)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    kind = getattr(torch, dtype)
    kept = kind if dtype == "float64" else torch.float32
    teacher = numbers(CLASSES, INPUTS)
    shapes = ((WIDTH, INPUTS), (WIDTH, WIDTH), (CLASSES, WIDTH))
    weights = [
        (numbers(*shape) * 0.5 / shape[1] ** 0.5).to(kept).to(where).requires_grad_()
        for shape in shapes
    ]
    losses: list[Tensor] = []
    for _ in range(STEPS):
        batch = numbers(BATCH, INPUTS)
        wanted = (batch @ teacher.t()).argmax(1).to(where)
        inner = batch.to(kind).to(where)
        first, second, third = (weight.to(kind) for weight in weights)
        inner = functional.silu(inner @ first.t())
        inner = inner + functional.silu(functional.layer_norm(inner, (WIDTH,)) @ second.t())
        loss = functional.cross_entropy((inner @ third.t()).to(kept), wanted)
        loss.backward()
        with torch.no_grad():
            for weight in weights:
                weight.sub_(RATE * weight.grad)
                weight.grad = None
        losses.append(loss.detach())
    return [float(loss) for loss in torch.stack(losses).cpu().double()]


for _dtype in ("float32", "bfloat16"):
    register(f"record: loss curve {_dtype}", partial(curve, _dtype), level="default", seconds=60.0)
