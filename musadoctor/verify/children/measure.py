"""Compare what a device computed with what is right, element by element.

What is right is computed on the CPU in float64, from the inputs as they were rounded for the
device. How far a device may be off is derived in docs/verify-tolerances.md, whose words and symbols
the functions here use. Nothing is judged: a step answers, for its result and each gradient,

- ``result error``: the largest absolute error
- ``result ratio``: the largest error divided by what is allowed for that element; above 1 it is
  wrong, :data:`MOST` stands for a difference where none is allowed, and for more
- ``result reduced ratio``: the same against what arithmetic of reduced precision may do, where the
  operation knows of any
- ``result not finite``: how many elements are infinite or NaN though they must not be
- ``result found``, ``result right``, ``result allowed``: the element with the largest ratio
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, NamedTuple, Sequence

from musadoctor.verify.children.base import Device, Skip, register, state_of

Tensor = Any
"""One of torch, or torch's own type of anything, which is not imported here."""
Value = Dict[str, Any]
"""Numbers, booleans and short texts by name."""
ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Of a type u, half the distance from 1 to the next number."""
DTYPES = tuple(ROUNDOFF)
E = ROUNDOFF["float32"]
"""In which a device accumulates, and computes functions of any type."""
TF32 = 2.0**-11
"""Of the operands of a product that a matrix unit takes in TF32 for float32."""
IN_THE_TYPE = 8.0
"""How many u a sum of products of both signs may be off that is kept in 16 bits."""
SMALLEST = {"float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}
"""Smaller numbers have fewer digits, and a device may take them for 0."""
SPACING = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
"""Of the numbers below the smallest."""
MODERN = (2, 2)
"""The first compute capability with bfloat16 and flash attention (torch_musa; 2025-12)."""
MOST = 1e9
OTHER_SEEDS = (1000, 2000, 3000, 4000, 5000)


def growth(terms: int) -> float:
    """How rounding errors add up over so many terms, in units of the roundoff."""
    return min(float(terms), 8.0 * math.sqrt(terms))


def step(
    name: str,
    function: Callable[..., object],
    *arguments: object,
    level: str = "quick",
) -> None:
    """Register a step on each device, with arguments that come before the device.

    What this torch does not have on the CPU is no question: the CPU is there to compare with.
    """

    def taken(device: Device) -> object:
        try:
            return function(*arguments, device)
        except Exception as error:
            if device.kind == "cpu" and state_of(error) == "missing":
                raise Skip(f"this torch does not have it on the CPU: {error}") from error
            raise

    register(name, taken, level=level)


def other_numbers(function: Callable[..., Value], *arguments: object) -> Value:
    """The worst of some runs of a step, each with other random numbers."""
    runs: list[Value] = []
    for seed in OTHER_SEEDS:
        SEED[0] = seed
        try:
            runs.append(function(*arguments))
        finally:
            SEED[0] = 0
    return max(runs, key=severity)


def severity(value: Value) -> tuple[float, float]:
    """How many numbers of a run are not finite, and its largest ratio."""
    endless = (one for key, one in value.items() if key.endswith(" not finite"))
    shares = (one for key, one in value.items() if key.endswith(" ratio"))
    return sum(endless, 0.0), max(shares, default=0.0)


def element_type(device: Device, dtype: str) -> Tensor:
    """Torch's type of that name, where the device computes in it."""
    if dtype == "bfloat16" and old(device):
        raise Skip("bfloat16 needs capability 2.2")
    return getattr(device.torch, dtype)


def old(device: Device) -> bool:
    """Whether it is a card that neither computes in bfloat16 nor has flash attention."""
    capability = device.capability
    return device.kind == "musa" and capability is not None and capability < MODERN


class Ran(NamedTuple):
    """An operation in float64 on the CPU, and in a type of its own on a device."""

    torch: Tensor
    dtype: str
    inputs: tuple[Tensor, ...]
    """As the device got them, in float64; so is all but what was found."""
    above: Tensor
    """The gradient that comes from above."""
    right: Tensor
    gradients: tuple[Tensor, ...]
    found: Tensor
    found_gradients: tuple[Tensor, ...]

    @property
    def u(self) -> float:
        """The roundoff of its type."""
        return ROUNDOFF[self.dtype]


SEED = [0]
"""Added to all seeds; other than 0 while a step looks at other numbers."""


class Draw:
    """Random numbers that are the same on every host."""

    def __init__(self, torch: Tensor, seed: int = 1) -> None:
        self.torch = torch
        self.generator = torch.Generator().manual_seed(seed + SEED[0])

    def normal(self, *shape: int) -> Tensor:
        """Of mean 0 and variance 1."""
        return self.torch.randn(shape, generator=self.generator)

    def between(self, low: float, high: float, *shape: int) -> Tensor:
        """Each as likely as the other."""
        return self.torch.rand(shape, generator=self.generator) * (high - low) + low

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """From ``low`` up to below ``high``."""
        return self.torch.randint(low, high, shape, generator=self.generator)

    def order(self, count: int) -> Tensor:
        """A permutation of the first numbers."""
        return self.torch.randperm(count, generator=self.generator)


def both(
    device: Device,
    dtype: str,
    call: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    fixed: Sequence[Tensor] = (),
) -> Ran:
    """Run an operation and its derivative on the CPU and on a device.

    ``fixed`` are arguments without a gradient, such as indices; they come after the others.
    """
    torch = device.torch
    kind = element_type(device, dtype)
    rounded = [one.to(kind) for one in inputs]
    wide = [one.double().requires_grad_() for one in rounded]
    right = call(*wide, *fixed)
    above = Draw(torch, 2).normal(*right.shape).to(kind)
    gradients = derived(torch, right, above.double(), wide)
    own = [one.to(device.name).detach().clone().requires_grad_() for one in rounded]
    found = call(*own, *(one.to(device.name) for one in fixed))
    found_gradients = derived(torch, found, above.to(device.name), own)
    return Ran(
        torch,
        dtype,
        tuple(one.detach() for one in wide),
        above.double(),
        right.detach(),
        gradients,
        found.detach(),
        found_gradients,
    )


def derived(
    torch: Tensor, result: Tensor, above: Tensor, inputs: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The gradients of the inputs, given that of the result.

    ``torch.autograd.grad`` imports sympy when it is handed the gradient from above: a second, and
    sympy may not be there.
    """

    class Above(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(_: object, one: Tensor) -> Tensor:
            return one.new_zeros(())

        @staticmethod
        def backward(_: object, __: Tensor) -> Tensor:
            return above

    gradients: tuple[Tensor, ...] = torch.autograd.grad(Above.apply(result), inputs)
    return gradients


def compared(
    ran: Ran,
    names: Sequence[str],
    allowed: Sequence[Tensor],
    reduced: Sequence[Tensor] = (),
) -> Value:
    """How far the result and the gradients with these names are off.

    ``allowed`` and ``reduced`` hold what the result may be off, then each gradient; numbers below
    the smallest normal one may be 0 besides.
    """
    value: Value = {}
    labels = ("result", *(f"gradient of {name}" for name in names))
    pairs = zip((ran.found, *ran.found_gradients), (ran.right, *ran.gradients))
    for index, (label, (found, right)) in enumerate(zip(labels, pairs)):
        less = reduced[index] + small(right, ran.dtype) if reduced else None
        value.update(distance(label, found, right, allowed[index] + small(right, ran.dtype), less))
    return value


def small(right: Tensor, dtype: str) -> Tensor:
    """What a number may be off because it is below the smallest normal one."""
    size = right.abs()
    return size * (size < SMALLEST[dtype]) + SPACING[dtype]


def distance(
    label: str, found: Tensor, right: Tensor, allowed: Tensor, reduced: Tensor | None = None
) -> Value:
    """How far a tensor of a device is from the right one, and where that is the most allowed."""
    if found.shape != right.shape:
        raise ArithmeticError(
            f"{label} of shape {list(found.shape)} instead of {list(right.shape)}"
        )
    if found.numel() == 0:
        return {}
    seen, wanted = flat(found), flat(right)
    most = flat(allowed.expand(right.shape))
    finite = seen.isfinite()
    error = (seen - wanted).abs().masked_fill(~finite, 0.0)
    share = ratio(error, most)
    worst = int(share.argmax())
    value: Value = {
        f"{label} error": float(error.max()),
        f"{label} ratio": float(share[worst]),
        f"{label} not finite": int((~finite).sum()),
        f"{label} found": float(seen[worst]) if bool(finite[worst]) else str(float(seen[worst])),
        f"{label} right": float(wanted[worst]),
        f"{label} allowed": float(most[worst]),
    }
    if reduced is not None:
        value[f"{label} reduced ratio"] = float(ratio(error, flat(reduced)).max())
    return value


def flat(one: Tensor) -> Tensor:
    """A tensor as one row of float64 on the CPU."""
    return one.detach().cpu().double().reshape(-1)


def ratio(error: Tensor, allowed: Tensor) -> Tensor:
    """The error in units of what is allowed."""
    nothing = error == 0
    return (error / allowed).clamp(max=MOST).masked_fill(nothing, 0.0)


def exact(label: str, found: Tensor, right: Tensor) -> Value:
    """How far a tensor is from the right one where it must be the same."""
    return distance(label, found, right, right.new_zeros(()))


def linear(  # noqa: PLR0917 - the first six describe an operation
    device: Device,
    dtype: str,
    call: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    terms: Sequence[int],
    names: Sequence[str],
    fixed: Sequence[Tensor] = (),
    *,
    unit: float = E,
    roundings: float = 1.0,
) -> Value:
    """Run an operation that is linear in each input: its sizes follow from absolute values.

    ``terms`` are how many numbers are added up for an element of the result and of each gradient,
    ``unit`` is the roundoff in which they are, ``roundings`` how often the sum is rounded.
    """
    ran = both(device, dtype, call, inputs, fixed)
    return compared(ran, names, sums(ran, sizes(ran, call, fixed), terms, unit, roundings))


def products(  # noqa: PLR0917 - the first six describe an operation
    device: Device,
    dtype: str,
    call: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    terms: Sequence[int],
    names: Sequence[str],
    amplified: float = 1.0,
) -> Value:
    """Run an operation that adds up products, which matrix units may do with less precision.

    ``amplified`` is by how much a faster algorithm than adding one by one may be worse; in 16 bits
    such algorithms are not told from adding in the type.
    """
    ran = both(device, dtype, call, inputs)
    totals = sizes(ran, call, ())
    if amplified != 1.0:
        totals = tuple(one.max().expand(one.shape) * amplified for one in totals)
    allowed = sums(ran, totals, terms, E, 1.0)
    less = 2 * TF32 if dtype == "float32" else IN_THE_TYPE * ran.u
    reduced = [most + less * one for most, one in zip(allowed, totals)]
    if amplified != 1.0 and dtype != "float32":
        return compared(ran, names, reduced)
    return compared(ran, names, allowed, reduced)


def sums(
    ran: Ran, totals: Sequence[Tensor], terms: Sequence[int], unit: float, roundings: float
) -> list[Tensor]:
    """What sums may be off, given the sums of their terms' sizes."""
    right = (ran.right, *ran.gradients)
    return [
        roundings * ran.u * one.abs() + growth(count) * unit * size
        for one, count, size in zip(right, terms, totals)
    ]


def sizes(ran: Ran, call: Callable[..., Tensor], fixed: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The sums of the sizes of what a linear operation adds up: its result on absolute values."""
    inputs = [one.abs().requires_grad_() for one in ran.inputs]
    result = call(*inputs, *fixed)
    return (result.detach(), *derived(ran.torch, result, ran.above.abs(), inputs))
