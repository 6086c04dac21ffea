"""Functions of single numbers: how far each may be off, and its derivative.

The bounds are those that OpenCL sets for its functions in float32, 1 ulp counted as 2 E, plus the
roundings of the formulas that torch computes; docs/verify-tolerances.md writes them out.
"""

# pyright: basic
# Tensors are of any type here, and the argument of a lambda cannot say so.
from __future__ import annotations

from functools import partial
from typing import Callable, NamedTuple, Tuple

from musadoctor.verify.children.base import Device
from musadoctor.verify.children.measure import (
    DTYPES,
    Draw,
    E,
    Ran,
    Tensor,
    Value,
    both,
    compared,
    step,
)

Allowed = Callable[[Ran], Tuple[Tensor, ...]]
SIZE, LARGE = 512, 1 << 14
WIDE = (-4.0, 4.0)


def nothing(_: Ran) -> tuple[Tensor, ...]:
    """Of a function that has nothing to round on the way."""
    return ()


class Function(NamedTuple):
    """A function that is applied to each number."""

    call: Callable[..., Tensor]
    ranges: tuple[tuple[float, float], ...]
    """Of its arguments."""
    allowed: Allowed
    """What the result may be off, and the gradient of each argument."""
    reduced: Allowed = nothing
    """The same where every number on the way is rounded to the type."""
    level: str = "default"


def measured(function: Function, dtype: str, size: int, device: Device) -> Value:
    """A function of each number of a tensor."""
    draw = Draw(device.torch)
    inputs = [draw.between(low, high, size) for low, high in function.ranges]
    ran = both(device, dtype, partial(function.call, device.torch), inputs)
    reduced = function.reduced(ran) if dtype != "float32" else ()
    return compared(ran, "ab"[: len(inputs)], function.allowed(ran), reduced)


def shares(result: float, *gradients: float, functions: tuple[float, ...] = ()) -> Allowed:
    """So many roundings to the type, and so many E of the functions inside, of the right value."""
    errors = functions or (0.0,) * (1 + len(gradients))

    def allowed(ran: Ran) -> tuple[Tensor, ...]:
        right = (ran.right, *ran.gradients)
        counts = zip(right, (result, *gradients), errors)
        return tuple(one.abs() * (count * ran.u + error * E) for one, count, error in counts)

    return allowed


def logarithm(ran: Ran) -> tuple[Tensor, ...]:
    """Near 1 the error is that of numbers of size 1."""
    (gradient,) = ran.gradients
    size = ran.right.abs()
    return ran.u * size + 6 * E * size.clamp(min=1.0), (ran.u + 5 * E) * gradient.abs()


def sine(ran: Ran) -> tuple[Tensor, ...]:
    """Near 0 the error is that of numbers of size 1."""
    (gradient,) = ran.gradients
    above = ran.above.abs()
    return ran.u * ran.right.abs() + 8 * E, 2 * ran.u * gradient.abs() + 8 * E * above


def tanh(ran: Ran) -> tuple[Tensor, ...]:
    """The derivative g (1 - y y) takes y as it was rounded."""
    (gradient,), y, above = ran.gradients, ran.right, ran.above.abs()
    unit = ran.u + 10 * E
    return unit * y.abs(), ran.u * gradient.abs() + above * (2 * y * y * unit + 4 * E)


def sigmoid(ran: Ran) -> tuple[Tensor, ...]:
    """The derivative g y (1 - y) takes y as it was rounded."""
    (gradient,), y, above = ran.gradients, ran.right, ran.above.abs()
    unit = ran.u + 14 * E
    return unit * y, 2 * ran.u * gradient.abs() + above * (y * unit + 4 * E)


def gelu(ran: Ran) -> tuple[Tensor, ...]:
    """0.5 x (1 + erf(x / sqrt 2)), computed from x both ways."""
    (x,), (gradient,), above = ran.inputs, ran.gradients, ran.above.abs()
    return (
        ran.u * ran.right.abs() + 20 * E * x.abs(),
        ran.u * gradient.abs() + 24 * E * above,
    )


def gelu_in_the_type(ran: Ran) -> tuple[Tensor, ...]:
    """The same with every step rounded: x / sqrt 2, erf, the sum, two products."""
    (x,), (gradient,), above = ran.inputs, ran.gradients, ran.above.abs()
    return (
        2 * ran.u * (ran.right.abs() + x.abs()),
        ran.u * gradient.abs() + 5 * ran.u * above,
    )


def gelu_tanh(ran: Ran) -> tuple[Tensor, ...]:
    """0.5 x (1 + tanh(t)) with t = sqrt(2 / pi) (x + 0.044715 x^3), from x both ways."""
    (x,), (gradient,), above = ran.inputs, ran.gradients, ran.above.abs()
    slope = 0.79789 * (1 + 0.134145 * x * x)
    return (
        ran.u * ran.right.abs() + 10 * E * x.abs(),
        ran.u * gradient.abs() + E * above * (10 + 15 * x.abs() * slope),
    )


def gelu_tanh_in_the_type(ran: Ran) -> tuple[Tensor, ...]:
    """The same with every step rounded: five of t, tanh, the sum, two products."""
    (x,), (gradient,), above = ran.inputs, ran.gradients, ran.above.abs()
    slope = 0.79789 * (1 + 0.134145 * x * x)
    return (
        ran.u * (2 * ran.right.abs() + 3 * x.abs()),
        ran.u * (gradient.abs() + above * (6 + 4 * x.abs() * slope)),
    )


def silu(ran: Ran) -> tuple[Tensor, ...]:
    """X times its sigmoid s.

    The derivative is g s (1 + x (1 - s)). On a device without a kernel for it torch computes it
    with plain operators, each rounded to the type.
    """
    _, rounded = silu_in_the_type(ran)
    (x,), above = ran.inputs, ran.above.abs()
    return (
        (ran.u + 15 * E) * ran.right.abs(),
        rounded + E * above * (20 + 30 * x.abs()),
    )


def silu_in_the_type(ran: Ran) -> tuple[Tensor, ...]:
    """The same with every step rounded."""
    (x,), (gradient,), above = ran.inputs, ran.gradients, ran.above.abs()
    return (
        5 * ran.u * ran.right.abs(),
        ran.u * (gradient.abs() + above * (6 + 8 * x.abs())),
    )


FUNCTIONS = {
    "add": Function(lambda _, a, b: a + b, (WIDE, WIDE), shares(1, 0, 0), level="quick"),
    "multiply": Function(lambda _, a, b: a * b, (WIDE, WIDE), shares(1, 1, 1), level="quick"),
    "divide": Function(
        lambda _, a, b: a / b,
        (WIDE, (0.5, 4.0)),
        shares(1, 1, 3, functions=(5, 5, 10)),
        level="quick",
    ),
    "exp": Function(lambda _, a: a.exp(), (WIDE,), shares(1, 2, functions=(6, 6)), level="quick"),
    "log": Function(lambda _, a: a.log(), ((0.1, 9.0),), logarithm),
    "sqrt": Function(lambda _, a: a.sqrt(), ((0.1, 9.0),), shares(1, 2, functions=(6, 11))),
    "rsqrt": Function(
        lambda _, a: a.rsqrt(), ((0.1, 9.0),), shares(1, 5, functions=(4, 44)), level="quick"
    ),
    "power": Function(lambda _, a: a**3, (WIDE,), shares(2, 4, functions=(32, 32))),
    "sine": Function(lambda _, a: a.sin(), (WIDE,), sine),
    "cosine": Function(lambda _, a: a.cos(), (WIDE,), sine),
    "tanh": Function(lambda _, a: a.tanh(), (WIDE,), tanh, level="quick"),
    "sigmoid": Function(lambda _, a: a.sigmoid(), (WIDE,), sigmoid, level="quick"),
    "gelu": Function(
        lambda torch, a: torch.nn.functional.gelu(a), (WIDE,), gelu, gelu_in_the_type, level="quick"
    ),
    "gelu tanh": Function(
        lambda torch, a: torch.nn.functional.gelu(a, approximate="tanh"),
        (WIDE,),
        gelu_tanh,
        gelu_tanh_in_the_type,
    ),
    "silu": Function(
        lambda torch, a: torch.nn.functional.silu(a), (WIDE,), silu, silu_in_the_type, level="quick"
    ),
    "relu": Function(lambda _, a: a.relu(), (WIDE,), shares(0, 0), level="quick"),
    "clamp": Function(lambda _, a: a.clamp(-1.0, 1.0), (WIDE,), shares(0, 0)),
    "maximum": Function(lambda torch, a, b: torch.maximum(a, b), (WIDE, WIDE), shares(0, 0, 0)),
}

for _dtype in DTYPES:
    for _name, _function in FUNCTIONS.items():
        step(f"compute: {_name} {_dtype}", measured, _function, _dtype, SIZE, level=_function.level)
        step(f"compute: {_name} {_dtype} large", measured, _function, _dtype, LARGE, level="deep")
