"""The bounds are tight: machines that compute a little wrong break them, on a real torch."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parent.parent
MACHINES = r"""
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
from musadoctor.verify.children import attention, compute, elementwise, numerics
from musadoctor.verify.children.base import Device
from musadoctor.verify.children.measure import Draw, products

own = torch.nn.functional
cpu = Device(torch, "cpu", {})
said = {}


def tell(name, value):
    said[name] = {key: one for key, one in value.items() if key.endswith(("ratio", "not finite"))}


def reduced(one, bits):
    # What a matrix unit makes of float32: so many bits are cut off, rounded to nearest.
    whole = one.view(torch.int32)
    return ((whole + (1 << (bits - 1))) & -(1 << bits)).view(torch.float32)


def product(machine, dtype):
    # Only what is not float64 is computed by the machine.
    def call(a, b):
        return machine(a, b) if a.dtype is getattr(torch, dtype) else a @ b
    draw = Draw(torch)
    inputs = (draw.normal(48, 64), draw.normal(64, 40))
    return products(cpu, dtype, call, inputs, (64, 40, 48), "ab")


def tf32(a, b):
    return reduced(a, 13) @ reduced(b, 13)


def in_the_type(a, b):
    total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
    for k in range(a.shape[1]):
        total = total + a[:, k : k + 1] * b[k : k + 1]
    return total


def short(a, b):
    return a[:, :-1] @ b[:-1]


class Detached(torch.autograd.Function):
    # Whatever the machine computes, with the right gradient.
    @staticmethod
    def forward(ctx, a, b, machine):
        ctx.save_for_backward(a, b)
        return machine(a, b)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g @ b.t(), a.t() @ g, None


for dtype in ("float32", "float16", "bfloat16"):
    tell(f"right {dtype}", product(lambda a, b: a @ b, dtype))
    tell(f"short {dtype}", product(short, dtype))
tell("tf32", product(lambda a, b: Detached.apply(a, b, tf32), "float32"))
for dtype in ("float16", "bfloat16"):
    tell(f"in {dtype}", product(lambda a, b: Detached.apply(a, b, in_the_type), dtype))


def with_own(name, other, run):
    before = getattr(own, name)
    setattr(own, name, lambda *a, **k: other(before, *a, **k))
    try:
        return run()
    finally:
        setattr(own, name, before)


def machine_only(other):
    # The reference is computed in float64.
    return lambda before, x, *a, **k: (before if x.dtype is torch.float64 else other)(x, *a, **k)


def tanh_gelu(x, **_):
    return torch._C._nn.gelu(x, approximate="tanh")


def unbiased(x, size, w, b, eps):
    return (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True) + eps).sqrt() * w + b


gelu = elementwise.FUNCTIONS["gelu"]
tell("gelu", with_own("gelu", machine_only(tanh_gelu),
     lambda: elementwise.measured(gelu, "float32", 512, cpu)))
for dtype in ("float32", "bfloat16"):
    tell(f"layer norm {dtype}", with_own("layer_norm", machine_only(unbiased),
         lambda: compute.layer_norm(dtype, 12, 64, cpu)))


def attend(dtype, mask, change):
    def other(before, q, k, v, attn_mask=None, is_causal=False):
        return change(before, q, k, v, attn_mask, is_causal)
    run = lambda: attention.attention("default", dtype, attention.SQUARE, mask, cpu)
    return with_own("scaled_dot_product_attention", other, run)


scaled = lambda f, q, k, v, m, c: f(q * 1.2, k, v, attn_mask=m, is_causal=c)
unmasked = lambda f, q, k, v, m, c: f(q, k, v)
sick = lambda f, q, k, v, m, c: Sick.apply(f(q, k, v, attn_mask=m, is_causal=c))


class Sick(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * float("nan")


for dtype in ("float32", "float16", "bfloat16"):
    tell(f"scaled {dtype}", attend(dtype, "none", scaled))
    tell(f"unmasked {dtype}", attend(dtype, "causal", unmasked))
tell("sick", attend("bfloat16", "causal", sick))


def eager_step(weights, state, count):
    # Adam without the correction of its second moment.
    half = len(weights)
    for weight, first, second in zip(weights, state[:half], state[half:]):
        first.mul_(0.9).add_(weight.grad, alpha=0.1)
        second.mul_(0.999).addcmul_(weight.grad, weight.grad, value=0.001)
        spread = second.sqrt().add_(1e-8)
        weight.addcdiv_(first, spread, value=-0.01 / (1 - 0.9**count))


right = numerics.OPTIMIZERS["adam"]
numerics.exactly(torch, "adam"), numerics.spread(torch, "adam", 2.0**-24)
numerics.spread(torch, "adam", 2.0**-11)
numerics.OPTIMIZERS["adam"] = (eager_step, 2)
tell("adam", numerics.training("adam", cpu))
numerics.OPTIMIZERS["adam"] = right
numerics.OPTIMIZERS["sgd"] = (lambda w, s, n: numerics.sgd(w, s, n), 1)
before, id_of = own.linear, lambda x: x
cut = lambda x: x + (reduced(x.detach(), 13) - x.detach())
own.linear = lambda x, w, b: before(*map(cut if x.dtype is torch.float32 else id_of, (x, w)), b)
told = numerics.training("sgd", cpu)
own.linear = before
tell("sgd in tf32", told)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(torch_python: str) -> dict[str, dict[str, float]]:
    """The ratios of each machine."""
    ran = subprocess.run(
        [torch_python, "-c", MACHINES, str(ROOT)], capture_output=True, check=False, text=True
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    told: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_what_is_right_is_right(said: dict[str, dict[str, float]], dtype: str) -> None:
    assert all(ratio <= 1 for ratio in said[f"right {dtype}"].values())


@pytest.mark.parametrize("machine", ["tf32", "in float16", "in bfloat16"])
def test_less_precision_is_told_from_a_fault(
    said: dict[str, dict[str, float]], machine: str
) -> None:
    assert said[machine]["result ratio"] > 1
    assert said[machine]["result reduced ratio"] < 0.5


def test_training_in_tf32_is_told_from_a_fault(said: dict[str, dict[str, float]]) -> None:
    told = said["sgd in tf32"]
    assert told["parameters ratio"] > 1
    assert told["parameters reduced ratio"] < 0.5


@pytest.mark.parametrize(
    ("machine", "key"),
    [
        *((f"short {dtype}", "result reduced ratio") for dtype in ("float32", "float16")),
        ("short bfloat16", "result reduced ratio"),
        ("gelu", "result ratio"),
        ("layer norm float32", "result ratio"),
        ("layer norm bfloat16", "result ratio"),
        ("scaled float32", "result reduced ratio"),
        *((f"scaled {dtype}", "gradient of key ratio") for dtype in ("float16", "bfloat16")),
        ("unmasked float32", "result reduced ratio"),
        *((f"unmasked {dtype}", "result ratio") for dtype in ("float16", "bfloat16")),
        ("adam", "parameters reduced ratio"),
    ],
)
def test_what_is_a_little_wrong_is_found(
    said: dict[str, dict[str, float]], machine: str, key: str
) -> None:
    assert said[machine][key] > 1


def test_gradients_that_are_not_finite_are_found(said: dict[str, dict[str, float]]) -> None:
    assert said["sick"]["result ratio"] <= 1
    assert said["sick"]["gradient of query not finite"] > 0
