"""Scaled dot product attention on each route that the build offers.

It is compared with softmax(q k^T / sqrt(d) + mask) v and its gradients, computed in float64 from
the same inputs. A step tells which route was taken, after the name of the result's derivative.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import Generator, NamedTuple

from musadoctor.verify.children.base import Device, Skip
from musadoctor.verify.children.measure import (
    DTYPES,
    TF32,
    Draw,
    E,
    Ran,
    Tensor,
    Value,
    compared,
    derived,
    element_type,
    growth,
    old,
    other_numbers,
    step,
)

ROUTES = ("math", "flash", "efficient")
SWITCHES = {"math": "math", "flash": "flash", "efficient": "mem_efficient", "cudnn": "cudnn"}
"""Of ``torch.backends.cuda``, which all devices' attention looks at."""
NO_ROUTE = re.compile(r"no (available kernel|viable backend)", re.IGNORECASE)
DEVIATIONS = 8.0
MASKS = ("none", "causal", "boolean", "additive")


class Shape(NamedTuple):
    """Of a case."""

    head: int
    """Size of a head of query and key."""
    value: int
    """Size of a head of the value."""
    queries: int = 24
    keys: int = 24


def attention(route: str, dtype: str, shape: Shape, mask: str, device: Device) -> Value:
    """Attention, forward and backward, on a route."""
    torch = device.torch
    kind = element_type(device, dtype)
    own = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
    if own is None:
        raise NotImplementedError("this torch has no scaled_dot_product_attention")
    if route == "flash" and old(device):
        raise Skip("the flash route needs capability 2.2")

    draw = Draw(torch)
    heads = (2, 2)
    inputs = [
        one.to(kind)
        for one in (
            draw.normal(*heads, shape.queries, shape.head),
            draw.normal(*heads, shape.keys, shape.head),
            draw.normal(*heads, shape.keys, shape.value),
        )
    ]
    above = draw.normal(*heads, shape.queries, shape.value).to(kind)
    given, bias = masked(draw, shape, mask, kind)

    local = [one.to(device.name).detach().clone().requires_grad_() for one in inputs]
    there = given if given is None else given.to(device.name)
    with only(torch, route):
        try:
            found = own(*local, attn_mask=there, is_causal=mask == "causal")
        except RuntimeError as error:
            if route != "default" and NO_ROUTE.search(str(error)):
                raise Skip(f"the {route} route does not take it") from error
            raise
    name = found.grad_fn.name()
    came = taken(name)
    if route not in {"default", came}:
        raise Skip(f"there is no {route} route for it: {name} was taken")
    found_gradients = derived(torch, found, above.to(device.name), local)

    wide = tuple(one.double().requires_grad_() for one in inputs)
    right, weights = eager(wide, bias)
    gradients = derived(torch, right, above.double(), wide)
    ran = Ran(
        torch,
        dtype,
        tuple(one.detach() for one in wide),
        above.double(),
        right.detach(),
        gradients,
        found.detach(),
        found_gradients,
    )
    allowed = bound(ran, bias, weights, ran.u)
    reduced = bound(ran, bias, weights, TF32) if dtype == "float32" else ()
    told: Value = {"route": came, "derivative": name}
    told.update(compared(ran, ("query", "key", "value"), allowed, reduced))
    return told


def masked(draw: Draw, shape: Shape, mask: str, kind: Tensor) -> tuple[Tensor, Tensor]:
    """The mask to hand over, and what it adds in float64."""
    torch = draw.torch
    size = (shape.queries, shape.keys)
    nothing = torch.zeros(size, dtype=torch.float64)
    if mask == "additive":
        given = draw.normal(*size).to(kind)
        return given, given.double()
    if mask == "none":
        return None, nothing
    allowed = torch.ones(size, dtype=torch.bool).tril()
    if mask == "boolean":
        # Each query sees a key.
        allowed = (draw.normal(*size) > 0) | torch.eye(*size, dtype=torch.bool)
    return (
        None if mask == "causal" else allowed,
        nothing.masked_fill(~allowed, float("-inf")),
    )


def eager(inputs: tuple[Tensor, ...], bias: Tensor) -> tuple[Tensor, Tensor]:
    """Attention by its formula, and its weights."""
    query, key, value = inputs
    weights = (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + bias).softmax(-1)
    return weights @ value, weights.detach()


def bound(ran: Ran, bias: Tensor, weights: Tensor, e: float) -> tuple[Tensor, ...]:
    """What the result and the gradients may be off: eight standard deviations.

    ``e`` is the roundoff of what a route keeps between its products. The roundings are taken as
    independent, so their variances add up; what is called ``..._off`` is one.
    """
    query, key, value = ran.inputs
    scale = query.shape[-1] ** -0.5
    above, e, size = ran.above, e * e, weights * weights
    queries, keys = size.shape[-2:]

    def flat(one: Tensor) -> Tensor:
        return one.transpose(-1, -2)

    def adding(terms: int, one: Tensor, other: Tensor) -> Tensor:
        """Of a sum of products that is kept in float32."""
        return (growth(terms) / DEVIATIONS * E * (one.abs() @ other.abs())) ** 2

    scores = scale * (query @ flat(key)) + bias.masked_fill(bias.isinf(), 0.0)
    score_off = 2 * e * (scores**2 + scale**2 * (query**2 @ flat(key) ** 2))
    score_off = score_off + scale**2 * adding(query.shape[-1], query, flat(key))
    score_off = score_off + (size * score_off).sum(-1, keepdim=True)
    weight_off = size * (score_off + 2 * e + (growth(keys) / DEVIATIONS * E) ** 2 + (4 * E) ** 2)
    result_off = (weight_off + e * size) @ value**2 + adding(keys, weights, value)

    value_off = flat(weight_off + e * size) @ above**2 + adding(queries, flat(weights), above)
    into = above @ flat(value)
    into_off = adding(value.shape[-1], above, flat(value)) + e * into**2
    middle = (weights * into).sum(-1, keepdim=True)
    rounded = e * ran.right**2 + result_off
    middle_off = (weight_off * into**2 + size * into_off).sum(-1, keepdim=True)
    middle_off = middle_off + (above**2 * rounded).sum(-1, keepdim=True)
    slope = weights * (into - middle)
    slope_off = (
        weight_off * (into - middle) ** 2 + size * (into_off + middle_off) + 3 * e * slope**2
    )
    query_off = scale**2 * (slope_off @ key**2 + adding(keys, slope, key))
    key_off = scale**2 * (flat(slope_off) @ query**2 + adding(queries, flat(slope), query))

    right = (ran.right, *ran.gradients)
    ends = (result_off, query_off, key_off, value_off)
    return tuple(2 * ran.u * one.abs() + DEVIATIONS * off.sqrt() for one, off in zip(right, ends))


@contextmanager
def only(torch: Tensor, route: str) -> Generator[None, None, None]:
    """Leave but one route open."""
    switches = getattr(torch.backends, "cuda", None)
    before: dict[str, bool] = {}
    for name, switch in SWITCHES.items():
        enable = getattr(switches, f"enable_{switch}_sdp", None)
        if route != "default" and enable is not None:
            before[switch] = getattr(switches, f"{switch}_sdp_enabled")()
            enable(name == route)
    try:
        yield
    finally:
        for switch, enabled in before.items():
            getattr(switches, f"enable_{switch}_sdp")(enabled)


def taken(derivative: str) -> str:
    """The route by the name of the derivative: ScaledDotProductFlashAttentionForCpuBackward0."""
    name = derivative.lower()
    if "attention" not in name:
        return "math"
    return next((route for route in ("flash", "efficient", "math") if route in name), "other")


SQUARE = Shape(64, 64)
for _dtype in DTYPES:
    for _mask in ("none", "causal"):
        step(
            f"numerics: attention {_dtype} head 64 mask {_mask}",
            *(attention, "default", _dtype, SQUARE, _mask),
        )
    for _route in ROUTES:
        for _mask in MASKS:
            step(
                f"numerics: attention {_dtype} head 64 mask {_mask} by the {_route} route",
                *(attention, _route, _dtype, SQUARE, _mask),
                level="quick" if _mask == "none" else "default",
            )
    for _mask in MASKS:
        step(
            f"numerics: attention {_dtype} head 64 mask {_mask} other numbers",
            *(other_numbers, attention, "default", _dtype, SQUARE, _mask),
            level="deep",
        )
    for _mask in ("boolean", "additive"):
        step(
            f"numerics: attention {_dtype} head 64 mask {_mask}",
            *(attention, "default", _dtype, SQUARE, _mask),
            level="default",
        )
    for _head in (32, 80, 96, 128, 160, 256):
        step(
            f"numerics: attention {_dtype} head {_head} mask causal",
            *(attention, "default", _dtype, Shape(_head, _head), "causal"),
            level="default",
        )
    for _route in ("default", *ROUTES):
        for _name, _shape, _mask in (
            ("head 192 to 128", Shape(192, 128), "none"),
            ("17 queries 45 keys head 64", Shape(64, 64, 17, 45), "none"),
            ("17 queries 45 keys head 64", Shape(64, 64, 17, 45), "causal"),
            ("300 queries head 128", Shape(128, 128, 300, 300), "causal"),
        ):
            step(
                f"numerics: attention {_dtype} {_name} mask {_mask}"
                + (f" by the {_route} route" if _route != "default" else ""),
                *(attention, _route, _dtype, _shape, _mask),
                level="default" if _route == "default" else "deep",
            )
