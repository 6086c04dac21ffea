"""Computation, forward and backward, against a float64 reference on the CPU.

docs/verify-tolerances.md derives what each operator may be off.
"""

# pyright: basic
# Tensors are of any type here, and the argument of a lambda cannot say so.
from __future__ import annotations

from functools import partial
from typing import Callable

from musadoctor.verify.children.base import Device, Skip
from musadoctor.verify.children.measure import (
    DTYPES,
    ROUNDOFF,
    Draw,
    E,
    Ran,
    Tensor,
    Value,
    both,
    compared,
    distance,
    element_type,
    exact,
    growth,
    linear,
    old,
    other_numbers,
    products,
    sizes,
    small,
    step,
)

# ---- what adds up products -------------------------------------------------------------------


def matmul(dtype: str, rows: int, inner: int, columns: int, device: Device) -> Value:
    """A product of two matrices."""
    draw = Draw(device.torch)
    inputs = (draw.normal(rows, inner), draw.normal(inner, columns))
    terms = (inner, columns, rows)
    return products(device, dtype, lambda a, b: a @ b, inputs, terms, "ab")


def batched(dtype: str, device: Device) -> Value:
    """A batch of products, the second factors transposed."""
    draw = Draw(device.torch)
    inputs = (draw.normal(3, 17, 40), draw.normal(3, 24, 40))
    call = lambda a, b: a @ b.transpose(1, 2)  # noqa: E731 - it is that short
    return products(device, dtype, call, inputs, (40, 24, 17), "ab")


def linear_layer(dtype: str, device: Device) -> Value:
    """A linear layer with a bias."""
    draw = Draw(device.torch)
    inputs = (draw.normal(32, 48), draw.normal(24, 48), draw.normal(24))
    names = ("input", "weight", "bias")
    call = device.torch.nn.functional.linear
    return products(device, dtype, call, inputs, (49, 24, 32, 32), names)


def conv2d(
    dtype: str, channels: tuple[int, int], side: int, stride: int, groups: int, device: Device
) -> Value:
    """A convolution with 3 x 3 taps and a bias."""
    into, out = channels
    draw = Draw(device.torch)
    inputs = (
        draw.normal(2, into, side, side),
        draw.normal(out, into // groups, 3, 3),
        draw.normal(out),
    )
    places = 2 * (-(-side // stride)) ** 2
    terms = (9 * into // groups + 1, 9 * out // groups, places, places)
    names = ("input", "weight", "bias")
    call = partial(device.torch.nn.functional.conv2d, stride=stride, padding=1, groups=groups)
    return products(device, dtype, call, inputs, terms, names, WINOGRAD)


WINOGRAD = 9.0
"""By how much F(2 x 2, 3 x 3) may be worse than adding one by one."""


# ---- sums ------------------------------------------------------------------------------------


def total(dtype: str, axis: int, device: Device) -> Value:
    """Sums along one axis."""
    inputs = (Draw(device.torch).normal(37, 65),)
    count = inputs[0].shape[axis]
    return linear(device, dtype, lambda a: a.sum(axis), inputs, (count, 1), "a")


def mean(dtype: str, device: Device) -> Value:
    """The mean of all."""
    inputs = (Draw(device.torch).normal(37, 65),)
    return linear(device, dtype, lambda a: a.mean(), inputs, (37 * 65, 1), "a", roundings=3)


def running(dtype: str, device: Device) -> Value:
    """Sums up to each element; scans add in the type itself."""
    inputs = (Draw(device.torch).normal(5, 96),)
    unit = ROUNDOFF[dtype]
    return linear(device, dtype, lambda a: a.cumsum(1), inputs, (96, 96), "a", unit=unit)


def variance(dtype: str, device: Device) -> Value:
    """The variance along rows, by whichever formula."""
    length = 96
    draw = Draw(device.torch)
    ran = both(device, dtype, lambda a: a.var(1), (draw.normal(9, length) + 0.5,))
    (x,), (gradient,) = ran.inputs, ran.gradients
    square = (x * x).sum(1) / (length - 1)
    above = ran.above.abs().unsqueeze(1)
    middle = (growth(length) * E + ran.u) * x.abs().mean(1, keepdim=True)
    return compared(
        ran,
        "a",
        (
            ran.u * ran.right + 2 * (growth(length) + 4) * E * square,
            3 * ran.u * gradient.abs() + above * (2 / (length - 1)) * (middle + ran.u * x.abs()),
        ),
    )


def largest(dtype: str, device: Device) -> Value:
    """The largest of each row, and where it is."""
    torch = device.torch
    kind = element_type(device, dtype)
    draw = Draw(torch)
    rows = torch.stack([draw.order(64) for _ in range(9)]).to(kind)
    ran = both(device, dtype, lambda a: a.amax(1), (rows,))
    values, places = rows.to(device.name).max(1)
    right_values, right_places = rows.max(1)
    return {
        **exact("result", ran.found, ran.right),
        **exact("gradient of a", ran.found_gradients[0], ran.gradients[0]),
        **exact("result max", values, right_values),
        **exact("result index", places, right_places),
        **exact("result argmin", rows.to(device.name).argmin(1), rows.argmin(1)),
    }


# ---- normalisation ---------------------------------------------------------------------------


def softmax(dtype: str, length: int, device: Device) -> Value:
    """Softmax of rows."""
    draw = Draw(device.torch)
    ran = both(device, dtype, lambda a: a.softmax(1), (2 * draw.normal(24, length),))
    (x,), (gradient,), y = ran.inputs, ran.gradients, ran.right
    top = x.max(1, keepdim=True).values
    inner = E * (2 * (top - x) + 2 * (top - x).max(1, keepdim=True).values + 17 + growth(length))
    off = y * (ran.u + inner) + small(y, dtype)
    above = ran.above.abs()
    weighed = (above * y).sum(1, keepdim=True)
    dot = (ran.above * y).sum(1, keepdim=True)
    dot_off = (above * off).sum(1, keepdim=True) + (growth(length) * E + ran.u) * weighed
    allowed = (
        y * (ran.u + inner),
        2 * ran.u * gradient.abs()
        + off * (ran.above - dot).abs()
        + y * (dot_off + 2 * E * (above + dot.abs())),
    )
    return compared(ran, "a", allowed)


EPSILON = 1e-5


def layer_norm(dtype: str, rows: int, length: int, device: Device) -> Value:
    """Layer norm with weight and bias."""
    torch = device.torch
    draw = Draw(torch)
    inputs = (draw.normal(rows, length) + 0.5, draw.normal(length), draw.normal(length))
    call = lambda x, w, b: torch.nn.functional.layer_norm(x, (length,), w, b, EPSILON)  # noqa: E731
    ran = both(device, dtype, call, inputs)
    x, w, b = ran.inputs
    middle = x.mean(1, keepdim=True)
    spread = x.var(1, unbiased=False, keepdim=True) + EPSILON
    allowed = normalised(ran, x, middle, spread, w, b, E)
    reduced = normalised(ran, x, middle, spread, w, b, 2 * ran.u) if dtype != "float32" else ()
    return compared(ran, ("input", "weight", "bias"), allowed, reduced)


def normalised(  # noqa: PLR0917 - the formula's
    ran: Ran, x: Tensor, middle: Tensor, spread: Tensor, w: Tensor, b: Tensor, e: float
) -> tuple[Tensor, ...]:
    """What layer norm of rows may be off, and its gradients.

    ``e`` is the roundoff of each number on the way. Sums are kept in float32 all the same; mean and
    scale are kept for the gradients in the type.
    """
    u, (rows, length) = ran.u, x.shape
    above, (of_input, of_weight, of_bias) = ran.above, ran.gradients
    scale = spread.rsqrt()
    hat = (x - middle) * scale
    adds = growth(length) * E
    middle_off = adds * x.abs().mean(1, keepdim=True) + e * middle.abs()
    scale_off = (adds + 4 * E) * (x * x).mean(1, keepdim=True) / spread + 4 * E + e
    hat_off = scale * (middle_off + e * (x.abs() + middle.abs())) + hat.abs() * (scale_off + 2 * e)
    result_off = u * ran.right.abs() + w.abs() * (hat_off + e * hat.abs()) + e * b.abs()

    # The gradient is scale (h - mean(h) - x hat mean(h x hat)), with h the gradient of x hat.
    hat_off = hat_off + u * (scale * middle.abs() + hat.abs())
    scale_off = scale_off + u
    h = above * w
    first, second = h.abs().mean(1, keepdim=True), (h * hat).abs().mean(1, keepdim=True)
    slope = (h * hat).mean(1, keepdim=True).abs()
    input_off = (u + scale_off) * of_input.abs() + scale * (
        4 * e * (h.abs() + scale * (x.abs() + middle.abs()) * slope)
        + (4 * e + adds) * first
        + hat.abs() * ((4 * E + adds) * second + (h.abs() * hat_off).mean(1, keepdim=True))
        + hat_off * second
    )
    adds = growth(rows) * u
    weight_off = u * of_weight.abs() + ((adds * hat.abs() + hat_off) * above.abs()).sum(0)
    bias_off = u * of_bias.abs() + adds * above.abs().sum(0)
    return result_off, input_off, weight_off, bias_off


# ---- what moves numbers ----------------------------------------------------------------------


def moved(
    device: Device,
    dtype: str,
    call: Callable[..., Tensor],
    table: Tensor,
    *fixed: Tensor,
    most: int = 1,
) -> Value:
    """Elements are moved unchanged; at most so many gradients meet and add up in the type."""
    ran = both(device, dtype, call, (table,), fixed)
    (found,), (right,) = ran.found_gradients, ran.gradients
    _, total = sizes(ran, call, fixed)
    allowed = (growth(most) if most > 1 else 0.0) * ran.u * total
    return {
        **exact("result", ran.found, ran.right),
        **distance("gradient of a", found, right, allowed),
    }


def embedding(dtype: str, device: Device) -> Value:
    """Rows of a table, many of them more than once."""
    draw = Draw(device.torch)
    table, places = draw.normal(16, 24), draw.integers(0, 12, 4, 30)
    own = device.torch.nn.functional.embedding
    most = int(places.flatten().bincount().max())
    return moved(device, dtype, lambda one, index: own(index, one), table, places, most=most)


def rows(dtype: str, device: Device) -> Value:
    """Rows by their numbers, some of them more than once."""
    draw = Draw(device.torch)
    table, places = draw.normal(24, 20), draw.integers(0, 24, 40)
    most = int(places.bincount().max())
    return moved(device, dtype, lambda one, index: one[index], table, places, most=most)


def selected(dtype: str, device: Device) -> Value:
    """The same by index_select, which adds up by index_add."""
    draw = Draw(device.torch)
    table, places = draw.normal(24, 20), draw.integers(0, 20, 40)
    most = int(places.bincount().max())
    call: Callable[..., Tensor] = lambda one, index: one.index_select(1, index)  # noqa: E731
    return moved(device, dtype, call, table, places, most=most)


def gathered(dtype: str, device: Device) -> Value:
    """An element of each column, which adds up by scatter_add."""
    torch = device.torch
    draw = Draw(torch)
    table, places = draw.normal(24, 20), draw.integers(0, 24, 40, 20)
    most = int(torch.zeros(24, 20).scatter_add(0, places, torch.ones(40, 20)).max())
    return moved(device, dtype, lambda one, index: one.gather(0, index), table, places, most=most)


def masked(dtype: str, device: Device) -> Value:
    """The elements that a mask lets through."""
    draw = Draw(device.torch)
    mask = draw.normal(24, 20) > 0
    return moved(device, dtype, lambda one, chosen: one[chosen], draw.normal(24, 20), mask)


def copied(dtype: str, device: Device) -> Value:
    """Slices with steps, transposed, rolled and joined."""
    torch = device.torch

    def call(one: Tensor) -> Tensor:
        strided = one[1:21:2, 2::3].transpose(0, 1)
        return torch.cat((strided.roll(2, 1), strided.flip(0)), 1).contiguous()

    return moved(device, dtype, call, Draw(torch).normal(24, 20), most=2)


# ---- order -----------------------------------------------------------------------------------


def ordered(dtype: str, device: Device) -> Value:
    """Rows that are sorted."""
    return sorted_out(dtype, lambda one: one.sort(1, descending=True), device)


def topk(dtype: str, count: int, device: Device) -> Value:
    """The largest of each row, the largest first."""
    return sorted_out(dtype, lambda one: one.topk(count, 1), device)


def sorted_out(dtype: str, call: Callable[[Tensor], Tensor], device: Device) -> Value:
    """Values and where they stood, without ties; the gradient goes back there."""
    torch = device.torch
    draw = Draw(torch)
    # Of numbers that each type holds.
    table = torch.stack([draw.order(64) for _ in range(9)]).float()
    ran = both(device, dtype, lambda one: call(one)[0], (table,))
    found = call(table.to(element_type(device, dtype)).to(device.name))[1]
    return {
        **exact("result", ran.found, ran.right),
        **exact("result index", found, call(table)[1]),
        **exact("gradient of a", ran.found_gradients[0], ran.gradients[0]),
    }


# ---- integers and eight bits -----------------------------------------------------------------

INTEGERS = ("int8", "uint8", "int32", "int64")


def integers(dtype: str, device: Device) -> Value:
    """Arithmetic, comparison and sums of integers, overflow included."""
    kind = getattr(device.torch, dtype)
    draw = Draw(device.torch)
    a, b = draw.integers(0, 120, 6, 50).to(kind), draw.integers(1, 50, 6, 50).to(kind)

    def results(a: Tensor, b: Tensor) -> dict[str, Tensor]:
        return {
            "sum": a + b,
            "product": a * b,
            "quotient": a // b,
            "remainder": a % b,
            "bits": (a & b) ^ 5,
            "comparison": a > b,
            "total": a.sum(1),
            "running total": a.cumsum(1),
            "largest": a.amax(1),
            "sorted": a.sort(1)[0],
        }

    found = results(a.to(device.name), b.to(device.name))
    value: Value = {}
    for name, right in results(a, b).items():
        value.update(exact(f"result {name}", found[name], right))
    return value


def int8_matmul(device: Device) -> Value:
    """A product of int8 matrices in int32."""
    own = of_this_torch(device, "_int_mm")
    draw = Draw(device.torch)
    a = draw.integers(-127, 128, 32, 64).to(device.torch.int8)
    b = draw.integers(-127, 128, 64, 48).to(device.torch.int8)
    found = own(a.to(device.name), b.to(device.name))
    return exact("result", found, a.double() @ b.double())


def float8_cast(dtype: str, device: Device) -> Value:
    """From float32 to eight bits and back, by the CPU's rounding."""
    kind = of_this_torch(device, dtype)
    numbers = Draw(device.torch).between(-200.0, 200.0, 2048)
    found = numbers.to(device.name).to(kind).to(device.torch.float32)
    return exact("result", found, numbers.to(kind).to(device.torch.float32))


def float8_matmul(device: Device) -> Value:
    """A product of float8_e4m3fn matrices in bfloat16."""
    own = of_this_torch(device, "_scaled_mm")
    kind = of_this_torch(device, "float8_e4m3fn")
    torch, result = device.torch, element_type(device, "bfloat16")
    draw = Draw(torch)
    a, b = draw.normal(32, 64).to(kind), draw.normal(48, 64).to(kind)
    one = torch.ones((), device=device.name)
    found = own(
        a.to(device.name), b.to(device.name).t(), scale_a=one, scale_b=one, out_dtype=result
    )
    x, y = a.float().double(), b.float().double().t()
    right = x @ y
    # Some tensor cores add up in fewer bits than float32 has.
    allowed = ROUNDOFF["bfloat16"] * right.abs() + 64 * 2.0**-13 * (x.abs() @ y.abs())
    return distance("result", found, right, allowed)


def unsupported_bfloat16(device: Device) -> Value:
    """What a card does with bfloat16 that is known not to compute in it."""
    if not old(device):
        raise Skip("the device computes in bfloat16")
    torch = device.torch
    ones = torch.ones(8, 8, dtype=torch.bfloat16)
    local = ones.to(device.name)
    return exact("result", (local + local) @ local, (ones + ones) @ ones)


def of_this_torch(device: Device, name: str) -> Tensor:
    """What newer releases of torch have."""
    found = getattr(device.torch, name, None)
    if found is None:
        raise NotImplementedError(f"this torch has no torch.{name}")
    return found


# ---- the steps -------------------------------------------------------------------------------

for _dtype in DTYPES:
    step(f"compute: matmul {_dtype}", matmul, _dtype, 48, 64, 40)
    step(f"compute: batched matmul {_dtype}", batched, _dtype)
    step(f"compute: linear {_dtype}", linear_layer, _dtype)
    step(f"compute: conv2d {_dtype}", conv2d, _dtype, (6, 8), 9, 1, 1)
    step(f"compute: softmax {_dtype}", softmax, _dtype, 48)
    step(f"compute: layer norm {_dtype}", layer_norm, _dtype, 12, 64)
    step(f"compute: embedding {_dtype}", embedding, _dtype)
    step(f"compute: rows by index {_dtype}", rows, _dtype)
    step(f"compute: sum {_dtype}", total, _dtype, 1)
    step(f"compute: mean {_dtype}", mean, _dtype)
    step(f"compute: largest {_dtype}", largest, _dtype)
    step(f"compute: sort {_dtype}", ordered, _dtype)
    step(f"compute: topk {_dtype}", topk, _dtype, 7)
    step(f"compute: sum over rows {_dtype}", total, _dtype, 0, level="default")
    step(f"compute: running sum {_dtype}", running, _dtype, level="default")
    step(f"compute: variance {_dtype}", variance, _dtype, level="default")
    step(f"compute: index_select {_dtype}", selected, _dtype, level="default")
    step(f"compute: gather {_dtype}", gathered, _dtype, level="default")
    step(f"compute: mask {_dtype}", masked, _dtype, level="default")
    step(f"compute: copies {_dtype}", copied, _dtype, level="default")
    step(f"compute: matmul {_dtype} odd sizes", matmul, _dtype, 33, 129, 65, level="default")
    step(f"compute: matmul {_dtype} 256", matmul, _dtype, 256, 512, 192, level="default")
    step(f"compute: conv2d {_dtype} stride", conv2d, _dtype, (16, 16), 15, 2, 1, level="default")
    step(f"compute: conv2d {_dtype} depthwise", conv2d, _dtype, (16, 16), 8, 1, 16, level="default")
    step(f"compute: softmax {_dtype} 1000", softmax, _dtype, 1000, level="default")
    step(f"compute: layer norm {_dtype} 768", layer_norm, _dtype, 64, 768, level="default")
    step(f"compute: matmul {_dtype} 1024", matmul, _dtype, 1024, 1024, 1024, level="deep")
    step(f"compute: matmul {_dtype} long", matmul, _dtype, 64, 8192, 64, level="deep")
    step(f"compute: conv2d {_dtype} large", conv2d, _dtype, (64, 64), 28, 1, 1, level="deep")
    step(f"compute: softmax {_dtype} 32000", softmax, _dtype, 32000, level="deep")
    step(f"compute: layer norm {_dtype} 4096", layer_norm, _dtype, 128, 4096, level="deep")
    for _name, _function, _sizes in (
        ("matmul", matmul, (48, 64, 40)),
        ("conv2d", conv2d, ((6, 8), 9, 1, 1)),
        ("softmax", softmax, (48,)),
        ("layer norm", layer_norm, (12, 64)),
        ("embedding", embedding, ()),
        ("rows by index", rows, ()),
        ("sort", ordered, ()),
    ):
        _arguments = (other_numbers, _function, _dtype, *_sizes)
        step(f"compute: {_name} {_dtype} other numbers", *_arguments, level="deep")
for _dtype in INTEGERS:
    step(f"compute: integers {_dtype}", integers, _dtype)
step("compute: bfloat16 below capability 2.2", unsupported_bfloat16)
step("compute: matmul int8", int8_matmul)
step("compute: cast float8_e4m3fn", float8_cast, "float8_e4m3fn")
step("compute: cast float8_e5m2", float8_cast, "float8_e5m2", level="default")
step("compute: matmul float8_e4m3fn", float8_matmul)
