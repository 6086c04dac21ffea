"""What adds up over a training run: losses, gradients, optimizers, rounding, order, repetition.

docs/verify-tolerances.md derives what may be off. Beside the measures of ``measure`` a step answers
with what its own docstring names.
"""

# pyright: basic
# Tensors are of any type here, and the argument of a lambda cannot say so.
from __future__ import annotations

import zlib
from contextlib import contextmanager
from functools import lru_cache
from typing import Callable, Generator, NamedTuple

from musadoctor.verify.children.base import Device, Skip, text
from musadoctor.verify.children.measure import (
    DTYPES,
    ROUNDOFF,
    SMALLEST,
    TF32,
    Draw,
    E,
    Tensor,
    Value,
    both,
    compared,
    distance,
    element_type,
    exact,
    growth,
    linear,
    small,
    step,
)

# ---- losses ----------------------------------------------------------------------------------


def cross_entropy(dtype: str, device: Device) -> Value:
    """The loss of a classifier, and the gradient of its logits."""
    torch = device.torch
    draw = Draw(torch)
    count, classes = 16, 40
    target = draw.integers(0, classes, count)
    own = torch.nn.functional.cross_entropy
    ran = both(device, dtype, own, (3 * draw.normal(count, classes),), (target,))
    (x,), (gradient,), u = ran.inputs, ran.gradients, ran.u
    share, log = x.softmax(1), x.log_softmax(1)
    log_off = u * log.abs() + E * (growth(classes) + 16 + 2 * x.abs().max())
    chosen = torch.nn.functional.one_hot(target, classes).double()
    result = (log_off * chosen).sum() / count
    result = result + (2 * u + growth(count) * E) * (log.abs() * chosen).sum() / count
    return compared(
        ran,
        ("the logits",),
        (
            result + u * ran.right.abs(),
            u * gradient.abs()
            + ran.above.abs() / count * (share * (log_off + 2 * u + 8 * E) + 2 * u * chosen),
        ),
    )


def squared_error(dtype: str, device: Device) -> Value:
    """The mean squared error, and its gradient."""
    torch = device.torch
    draw = Draw(torch)
    inputs = (draw.normal(256), draw.normal(256))
    ran = both(device, dtype, torch.nn.functional.mse_loss, inputs)
    one, other = ran.gradients
    return compared(
        ran,
        ("a", "b"),
        (
            (4 * ran.u + growth(256) * E) * ran.right,
            5 * ran.u * one.abs(),
            5 * ran.u * other.abs(),
        ),
    )


def extremes(dtype: str, device: Device) -> Value:
    """What must stay finite: ``... not finite`` for functions of very large numbers."""
    torch = device.torch
    kind = element_type(device, dtype)
    own = torch.nn.functional
    largest = float(torch.finfo(kind).max) / 4
    row = torch.tensor([[largest, 0.0, -largest, 1.0], [-largest, -largest, 0.0, 2.0]])
    constant = torch.full((3, 64), 1000.0)
    masked = torch.tensor([[0.0, float("-inf"), float("-inf")], [1.0, 2.0, float("-inf")]])
    target = torch.tensor([0, 3])
    cases: dict[str, tuple[Tensor, Callable[..., Tensor]]] = {
        "softmax": (row, lambda one: one.softmax(1)),
        "masked softmax": (masked, lambda one: one.softmax(1)),
        "log softmax": (row / 4, lambda one: one.log_softmax(1)),
        "cross entropy": (row / 4, lambda one: own.cross_entropy(one, target.to(one.device))),
        "logsumexp": (row / 4, lambda one: one.logsumexp(1)),
        "sigmoid": (row, lambda one: one.sigmoid()),
        "tanh": (row, lambda one: one.tanh()),
        "silu": (row / 64, own.silu),
        "gelu": (row / 64, own.gelu),
        "layer norm": (constant, lambda one: own.layer_norm(one, (64,))),
    }
    value: Value = {}
    for name, (numbers, call) in cases.items():
        given = numbers.to(kind).to(device.name).requires_grad_()
        try:
            result = call(given)
            (gradient,) = torch.autograd.grad(result.sum(), (given,))
        except NotImplementedError as error:
            value[f"{name} missing"] = text(error)
            continue
        for label, one in (("result", result), ("gradient", gradient)):
            left = ~one.detach().cpu().double().isfinite()
            value[f"{label} of {name} not finite"] = int(left.sum())
    return value


def long_sum(dtype: str, count: int, device: Device) -> Value:
    """A long sum of positive numbers; ``relative error`` is the share of it that is lost."""
    numbers = Draw(device.torch).between(0.0, 1.0, count) / 64
    value = linear(device, dtype, lambda one: one.sum(), (numbers,), (count, 1), "a")
    value["relative error"] = value["result error"] / abs(value["result right"])
    return value


# ---- clipping --------------------------------------------------------------------------------


def clipping(dtype: str, device: Device) -> Value:
    """The norm of all gradients, and the gradients that are clipped to 1."""
    torch = device.torch
    kind = element_type(device, dtype)
    draw = Draw(torch)
    gradients = [draw.normal(*size).to(kind) for size in ((24, 16), (24,), (8, 24), (8,))]
    count, u = sum(one.numel() for one in gradients), ROUNDOFF[dtype]

    def clipped(name: str, *, wide: bool) -> tuple[Tensor, list[Tensor]]:
        owners = [torch.nn.Parameter(one.double() if wide else one.to(name)) for one in gradients]
        for owner in owners:
            owner.grad = owner.detach().clone()
        norm = torch.nn.utils.clip_grad_norm_(owners, 1.0)
        return norm, [owner.grad for owner in owners]

    right_norm, right = clipped("cpu", wide=True)
    norm, found = clipped(device.name, wide=False)
    off = 4 * u + 2 * growth(count) * E
    joined = torch.cat([one.flatten() for one in right])
    return {
        **distance("result norm before", norm, right_norm, off * right_norm),
        **distance(
            "result gradients after",
            torch.cat([one.flatten() for one in found]),
            joined,
            (off + 3 * u) * joined.abs() + small(joined, dtype),
        ),
        "norm before": float(norm),
        "norm after": float(torch.cat([one.cpu().double().flatten() for one in found]).norm()),
    }


# ---- training --------------------------------------------------------------------------------

SIZES = ((24, 12), (24,), (24,), (24,), (6, 24), (6,))
"""Of the parameters: a layer and its bias, a norm's weight and bias, another layer and its bias."""
STEPS_OF_TRAINING = 5
SPREAD = 16.0
"""How many times the drift of the same training with random roundings a device may have."""
Disturb = Callable[[Tensor], Tensor]


class Trained(NamedTuple):
    """What is left of a training run, on the CPU in float64."""

    losses: Tensor
    norms: Tensor
    """Of the gradients, a step each."""
    parameters: Tensor
    state: Tensor
    """The optimizer's."""


def model(torch: Tensor, weights: list[Tensor], x: Tensor, disturb: Disturb) -> Tensor:
    """The logits of a small classifier."""
    own = torch.nn.functional
    first, bias, scale, shift, second, last = weights
    hidden = disturb(own.linear(disturb(x), disturb(first), bias))
    hidden = own.gelu(hidden).to(scale.dtype)  # which autocast may have left in 16 bits
    hidden = disturb(own.layer_norm(hidden, (24,), scale, shift))
    return disturb(own.linear(hidden, disturb(second), last))


def unchanged(one: Tensor) -> Tensor:
    """A number as it is."""
    return one


def disturbed(torch: Tensor, u: float, seed: int) -> Disturb:
    """Each number off by up to one roundoff at random: what a machine with this u does."""
    draw = Draw(torch, seed)
    return lambda one: one * (1 + u * draw.between(-1.0, 1.0, *one.shape).double())


def sgd(weights: list[Tensor], state: list[Tensor], count: int) -> None:
    """A step of gradient descent with momentum 0.9."""
    del count
    for weight, momentum in zip(weights, state):
        momentum.mul_(0.9).add_(weight.grad)
        weight.sub_(momentum, alpha=0.1)


def adam(weights: list[Tensor], state: list[Tensor], count: int) -> None:
    """A step of Adam with its usual numbers."""
    half = len(weights)
    for weight, first, second in zip(weights, state[:half], state[half:]):
        first.mul_(0.9).add_(weight.grad, alpha=0.1)
        second.mul_(0.999).addcmul_(weight.grad, weight.grad, value=0.001)
        spread = (second / (1 - 0.999**count)).sqrt_().add_(1e-8)
        weight.addcdiv_(first, spread, value=-0.01 / (1 - 0.9**count))


OPTIMIZERS = {"sgd": (sgd, 1), "adam": (adam, 2)}


def train(
    torch: Tensor,
    optimizer: str,
    name: str,
    kind: Tensor,
    disturb: Disturb = unchanged,
    around: Callable[[], Tensor] | None = None,
) -> Trained:
    """Train the model for some steps; ``around`` is entered for each forward pass."""
    draw = Draw(torch)
    weights = [(0.4 * draw.normal(*size)).to(kind).to(name).requires_grad_() for size in SIZES]
    x, target = draw.normal(32, 12).to(kind).to(name), draw.integers(0, 6, 32).to(name)
    step_of, slots = OPTIMIZERS[optimizer]
    state = [torch.zeros_like(one) for _ in range(slots) for one in weights]
    losses: list[Tensor] = []
    norms: list[Tensor] = []
    for count in range(1, STEPS_OF_TRAINING + 1):
        with around() if around else unchanged_context():
            logits = model(torch, weights, x, disturb)
            loss = torch.nn.functional.cross_entropy(logits, target)
        for one in weights:
            one.grad = None
        loss.backward()
        with torch.no_grad():
            norms.append(joined(torch, [one.grad for one in weights]).norm())
            step_of(weights, state, count)
        losses.append(loss.detach().cpu().double())
    return Trained(
        torch.stack(losses), torch.stack(norms), joined(torch, weights), joined(torch, state)
    )


@contextmanager
def unchanged_context() -> Generator[None, None, None]:
    """Nothing around."""
    yield


def joined(torch: Tensor, tensors: list[Tensor]) -> Tensor:
    """All numbers in a row, in float64 on the CPU."""
    return torch.cat([one.detach().cpu().double().flatten() for one in tensors])


def training(optimizer: str, device: Device) -> Value:
    """Some steps in float32; ``losses``, ``gradient norms``, ``parameters`` and ``state`` drift."""
    torch = device.torch
    found = train(torch, optimizer, device.name, torch.float32)
    return drift(torch, optimizer, found, E, TF32)


def autocast(dtype: str, device: Device) -> Value:
    """The same under autocast; ``type of a product`` is what a matrix product came out as."""
    torch = device.torch
    kind = element_type(device, dtype)

    def around() -> Tensor:
        return torch.autocast(device.kind, dtype=kind)

    one = torch.ones(8, 8, device=device.name)
    try:
        with around():
            came = str((one @ one).dtype).partition(".")[2]
    except RuntimeError:
        came = ""
        if device.kind != "cpu":
            raise
    if device.kind == "cpu" and came != dtype:
        raise Skip(f"this torch has no autocast to {dtype} on the CPU")
    found = train(torch, "adam", device.name, torch.float32, around=around)
    told: Value = {"type of a product": came}
    told.update(drift(torch, "adam", found, ROUNDOFF[dtype]))
    return told


def drift(
    torch: Tensor, optimizer: str, found: Trained, u: float, reduced: float | None = None
) -> Value:
    """How far a run is from one in float64, beside others in float64 with random roundings."""
    right = exactly(torch, optimizer)
    allowed = spread(torch, optimizer, u)
    less = spread(torch, optimizer, reduced) if reduced else [None] * len(allowed)
    value: Value = {}
    parts = ("losses", "gradient norms", "parameters", "optimizer state")
    for index, name in enumerate(parts):
        away = (found[index] - right[index]).norm()
        bound, other = allowed[index], less[index]
        value.update(distance(f"{name}", away, torch.zeros_like(away), bound, other))
        value[f"{name} not finite"] = int((~found[index].isfinite()).sum())
    value["first loss"], value["last loss"] = float(found.losses[0]), float(found.losses[-1])
    value["right last loss"] = float(right.losses[-1])
    return value


@lru_cache(maxsize=None)
def exactly(torch: Tensor, optimizer: str) -> Trained:
    """The run in float64."""
    return train(torch, optimizer, "cpu", torch.float64)


@lru_cache(maxsize=None)
def spread(torch: Tensor, optimizer: str, u: float) -> list[Tensor]:
    """How far each part of a run may be from the one in float64 with this roundoff."""
    right = exactly(torch, optimizer)
    runs = [
        train(torch, optimizer, "cpu", torch.float64, disturbed(torch, u, seed)) for seed in (3, 4)
    ]
    return [
        SPREAD * torch.stack([(run[part] - right[part]).norm() for run in runs]).max()
        + 4 * E * right[part].norm()
        for part in range(len(right))
    ]


# ---- the scaler of gradients -----------------------------------------------------------------


class Plain:
    """An optimizer as GradScaler wants it, which counts its steps. ``torch.optim`` takes 5 s."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self.param_groups = [{"params": [weight]}]
        self.steps = 0

    def step(self) -> None:
        """Go down along the gradient."""
        self.steps += 1
        self.weight.data.sub_(self.weight.grad)


def grad_scaler(device: Device) -> Value:
    """A scaled step in float16, and one whose gradients overflow, which must be left out.

    ``scale at first``, ``scale after a step``, ``scale after an overflow``; ``steps after a step``
    and ``steps after an overflow`` count the optimizer's; ``result`` is what it stepped by.
    """
    torch = device.torch
    scaler = scaler_of(device)
    first = float(scaler.get_scale())
    weight = torch.zeros(64, device=device.name, requires_grad=True)
    optimizer = Plain(weight)
    x = Draw(torch).between(-0.25, 0.25, 64).half()

    def scaled(factor: float) -> None:
        weight.grad = None
        loss = (weight.half() * (x * factor).to(device.name)).float().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    scaled(1.0)
    value = exact("result", weight, -x.float())
    value.update({"scale at first": first, "scale after a step": float(scaler.get_scale())})
    value["steps after a step"] = optimizer.steps
    scaled(1024.0)
    value["scale after an overflow"] = float(scaler.get_scale())
    value["steps after an overflow"] = optimizer.steps
    return value


def scaler_of(device: Device) -> Tensor:
    """GradScaler of this torch, or of the device's own module in older ones."""
    new = getattr(getattr(device.torch, "amp", None), "GradScaler", None)
    if new is not None:
        return new(device.kind, init_scale=1024.0)
    old = getattr(getattr(device.module, "amp", None), "GradScaler", None)
    if old is None:
        raise NotImplementedError(f"this torch has no GradScaler for {device.kind}")
    return old(init_scale=1024.0)


# ---- rounding --------------------------------------------------------------------------------


def to_type(dtype: str, device: Device) -> Value:
    """Casts from float32, at and beside the middle between two numbers of the type.

    ``different`` are not those of the CPU, which rounds half to even; ``flushed`` of the numbers
    below the smallest normal one came out as 0; ``found``, ``right`` and ``from`` are of one.
    """
    torch = device.torch
    kind = element_type(device, dtype)
    patterns = torch.arange(0, 0x7800, 5, dtype=torch.int16).view(kind)
    low = patterns.float()
    high = (patterns.view(torch.int16) + 1).view(kind).float()
    low, high = low[high.isfinite()], high[high.isfinite()]
    middle = ((low.double() + high.double()) / 2).float()
    beside = middle.view(torch.int32)
    odd = torch.tensor([float("inf"), float("nan"), 0.0, 3.4e38, 65504.0, 65519.0, 65520.0])
    numbers = torch.cat(
        [middle, (beside - 1).view(torch.float32), (beside + 1).view(torch.float32), low, odd]
    )
    numbers = torch.cat([numbers, -numbers])
    return same_as_cpu(numbers, device, lambda one: one.to(kind), SMALLEST[dtype])


def to_integer(device: Device) -> Value:
    """Casts from float32 to int32 and int64, which cut off what is behind the point."""
    torch = device.torch
    numbers = Draw(torch).between(-1000.0, 1000.0, 400)
    numbers = torch.cat([numbers, torch.arange(-20, 20) + 0.5, torch.arange(-20, 20) + 0.999])
    local = numbers.to(device.name)
    return {
        **exact("result int32", local.to(torch.int32), numbers.to(torch.int32)),
        **exact("result int64", local.to(torch.int64), numbers.to(torch.int64)),
        **exact("result from int32", local.int().float(), numbers.int().float()),
    }


def to_whole(device: Device) -> Value:
    """torch.round, half to even, with and without decimals; floor, ceil, trunc."""
    torch = device.torch
    numbers = torch.cat([torch.arange(-40, 40) / 2.0, Draw(torch).between(-9.0, 9.0, 200)])
    local = numbers.to(device.name)
    value: Value = {}
    for name in ("round", "floor", "ceil", "trunc"):
        value.update(exact(f"result {name}", getattr(local, name)(), getattr(numbers, name)()))
    return value


def same_as_cpu(
    numbers: Tensor, device: Device, cast: Callable[[Tensor], Tensor], smallest: float
) -> Value:
    """How many numbers a device casts otherwise than the CPU."""
    right, found = cast(numbers), cast(numbers.to(device.name)).cpu()
    wide, seen = right.double(), found.double()
    same = (wide == seen) | (wide.isnan() & seen.isnan())
    flushed = ~same & (seen == 0) & (wide.abs() < smallest)
    different = (~same & ~flushed).nonzero().reshape(-1).tolist()
    value: Value = {
        "numbers": int(numbers.numel()),
        "different": len(different),
        "flushed": int(flushed.sum()),
    }
    if different:
        usual = [one for one in different if abs(float(numbers[one])) >= 1]
        first = (usual or different)[0]
        value.update(
            {
                "from": repr(float(numbers[first])),
                "found": repr(float(seen[first])),
                "right": repr(float(wide[first])),
            }
        )
    return value


# ---- order -----------------------------------------------------------------------------------


def ties(dtype: str, device: Device) -> Value:
    """Sort, topk, argmax among equal numbers.

    ``... wrong`` counts what breaks torch's promises: values out of order, an index that does not
    lead to its value, a stable sort that is none, an argmax that is not the first.
    ``... differ`` counts indices that are as right as the CPU's, and others.
    """
    torch = device.torch
    kind = element_type(device, dtype)
    numbers = Draw(torch).integers(0, 6, 8, 100).to(kind)
    numbers[0, 3] = numbers[1, 7] = float("nan")
    local = numbers.to(device.name)
    value: Value = {}

    def seen(name: str, found: Tensor, right: Tensor) -> None:
        values, places = found[0].cpu(), found[1].cpu()
        value[f"{name} values wrong"] = unlike(values, right[0])
        value[f"{name} indices wrong"] = unlike(numbers.gather(1, places), right[0])
        value[f"{name} indices differ"] = int((places != right[1]).sum())

    seen("sort", local.sort(1), numbers.sort(1))
    seen("topk", local.topk(9, 1), numbers.topk(9, 1))
    stable, right = local.sort(dim=1, stable=True), numbers.sort(dim=1, stable=True)
    value["stable sort indices wrong"] = int((stable[1].cpu() != right[1]).sum())
    whole = numbers[2:]
    value["argmax wrong"] = int((whole.to(device.name).argmax(1).cpu() != whole.argmax(1)).sum())
    return value


def unlike(one: Tensor, other: Tensor) -> int:
    """How many numbers are not the same; a NaN is like another."""
    one, other = one.double(), other.double()
    return int((~((one == other) | (one.isnan() & other.isnan()))).sum())


# ---- repetition ------------------------------------------------------------------------------


def digest(torch: Tensor, tensors: list[Tensor]) -> str:
    """A text that is the same where all bits are."""
    whole = 0
    for one in tensors:
        flat = one.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        whole = zlib.crc32(bytes(flat.tolist()), whole)
    return f"{whole:08x}"


def again(device: Device, parts: dict[str, Callable[[], list[Tensor]]]) -> Value:
    """Do each part twice.

    ``... same`` whether all bits are, ``... digest`` of the first time, and ``... sum`` in float64:
    how far apart devices are whose digests differ. ``... missing`` is an operator that is not
    there.
    """
    value: Value = {}
    for name, part in parts.items():
        try:
            first, second = part(), part()
        except NotImplementedError as error:
            if device.kind != "cpu":
                value[f"{name} missing"] = text(error)
            continue
        told = digest(device.torch, first)
        value[f"{name} same"] = told == digest(device.torch, second)
        value[f"{name} digest"] = told
        value[f"{name} sum"] = float(sum(float(one.detach().cpu().double().sum()) for one in first))
    return value


def results_again(dtype: str, device: Device) -> Value:
    """Results that nothing makes depend on the order in which threads run."""
    torch = device.torch
    kind = element_type(device, dtype)
    own = torch.nn.functional
    draw = Draw(torch)
    a, b = (
        draw.normal(48, 96).to(kind).to(device.name),
        draw.normal(96, 40).to(kind).to(device.name),
    )
    image, taps = draw.normal(1, 6, 12, 12), draw.normal(8, 6, 3, 3)
    image, taps = image.to(kind).to(device.name), taps.to(kind).to(device.name)
    heads = draw.normal(1, 2, 24, 32).to(kind).to(device.name)
    return again(
        device,
        {
            "matmul": lambda: [a @ b],
            "conv2d": lambda: [own.conv2d(image, taps)],
            "softmax": lambda: [a.softmax(1)],
            "layer norm": lambda: [own.layer_norm(a, (96,))],
            "sum": lambda: [a.sum(), a.sum(0), a.sum(1)],
            "gelu": lambda: [own.gelu(a)],
            "attention": lambda: [attended(torch, heads)],
        },
    )


def attended(torch: Tensor, heads: Tensor) -> Tensor:
    """Attention of heads to themselves, where this torch has it."""
    own = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
    if own is None:
        raise NotImplementedError("this torch has no scaled_dot_product_attention")
    return own(heads, heads, heads)


def gradients_again(device: Device) -> Value:
    """Gradients that are often added up in the order in which threads come."""
    torch = device.torch
    own = torch.nn.functional
    draw = Draw(torch)
    table = draw.normal(16, 24).to(device.name).requires_grad_()
    places = draw.integers(0, 16, 400).to(device.name)
    rows = draw.normal(400, 24).to(device.name)
    image = draw.normal(2, 6, 12, 12).to(device.name).requires_grad_()
    taps = draw.normal(8, 6, 3, 3).to(device.name).requires_grad_()

    def embedding() -> list[Tensor]:
        result = (own.embedding(places, table) * rows).sum()
        return list(torch.autograd.grad(result, (table,)))

    def convolution() -> list[Tensor]:
        result = own.conv2d(image, taps).square().sum()
        return list(torch.autograd.grad(result, (image, taps)))

    heads = draw.normal(1, 2, 24, 32).to(device.name).requires_grad_()

    def attention() -> list[Tensor]:
        return list(torch.autograd.grad(attended(torch, heads).square().sum(), (heads,)))

    def trained() -> list[Tensor]:
        return [train(torch, "adam", device.name, torch.float32).parameters]

    return again(
        device,
        {
            "embedding gradient": embedding,
            "index_add": lambda: [torch.zeros_like(table).index_add(0, places, rows).detach()],
            "conv2d gradient": convolution,
            "attention gradient": attention,
            "training": trained,
        },
    )


def random_numbers(device: Device) -> Value:
    """The same seed twice; the mean and spread of what comes."""
    torch = device.torch
    count = 4096

    def drawn() -> list[Tensor]:
        torch.manual_seed(7)
        return [torch.rand(count, device=device.name), torch.randn(count, device=device.name)]

    even, normal = (one.cpu().double() for one in drawn())
    six = 6 / count**0.5
    one = torch.ones((), dtype=torch.float64)
    outside = int(((even < 0) | (even >= 1)).sum())
    return {
        **again(device, {"random numbers": drawn}),
        **distance("result mean of rand", even.mean(), one / 2, one * six / 12**0.5),
        **distance("result mean of randn", normal.mean(), one * 0, one * six),
        **distance("result variance of randn", normal.var(), one, one * six * 2**0.5),
        "outside": outside,
    }


# ---- the steps -------------------------------------------------------------------------------

for _dtype in DTYPES:
    step(f"numerics: cross entropy {_dtype}", cross_entropy, _dtype)
    step(f"numerics: squared error {_dtype}", squared_error, _dtype)
    step(f"numerics: extremes {_dtype}", extremes, _dtype)
    step(f"numerics: long sum {_dtype}", long_sum, _dtype, 1 << 14)
    step(f"numerics: long sum {_dtype} of a million", long_sum, _dtype, 1 << 20, level="deep")
    step(f"numerics: clipping {_dtype}", clipping, _dtype)
    step(f"numerics: ties {_dtype}", ties, _dtype)
    step(f"numerics: same results {_dtype}", results_again, _dtype)
step("numerics: training with sgd", training, "sgd")
step("numerics: training with adam", training, "adam")
step("numerics: autocast bfloat16", autocast, "bfloat16")
step("numerics: autocast float16", autocast, "float16")
step("numerics: GradScaler", grad_scaler)
step("numerics: rounding float32 to bfloat16", to_type, "bfloat16")
step("numerics: rounding float32 to float16", to_type, "float16")
step("numerics: rounding float32 to integers", to_integer)
step("numerics: rounding to whole numbers", to_whole)
step("numerics: same gradients", gradients_again)
step("numerics: random numbers", random_numbers)
