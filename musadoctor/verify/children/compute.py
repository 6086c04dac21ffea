"""Computation, forward and backward, against a float64 reference on the CPU."""

from __future__ import annotations

from functools import partial

from musadoctor.verify.children.base import Device, register


def matmul(dtype: str, device: Device) -> dict[str, object]:
    """A product of two matrices."""
    torch = device.torch
    torch.manual_seed(0)
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    kind = getattr(torch, dtype)
    found = (a.to(device.name, kind) @ b.to(device.name, kind)).cpu().double()
    wanted = a.to(kind).double() @ b.to(kind).double()
    return {"error": float((found - wanted).abs().max())}


for _dtype in ("float32", "float16", "bfloat16"):
    register(f"compute: matmul {_dtype}", partial(matmul, _dtype))
