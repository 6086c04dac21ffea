"""Which operators leave the device: by the dispatcher's tables, and by what really happens.

Two tests, for a device may do either: an operator that is missing raises ``NotImplementedError``;
one that is computed on the CPU copies there and back while it runs, in the dispatcher's fallback or
inside the device's own kernel.
"""

# ruff: noqa: SLF001 - torch tells of its dispatcher nowhere else
from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Iterator, NamedTuple, cast

from musadoctor.verify.children.base import Device, Skip, chain, register

if TYPE_CHECKING:
    from collections.abc import Iterable

KEYS = {"musa": "PrivateUse1", "cuda": "CUDA", "cpu": "CPU"}
"""The dispatch keys of the kinds of devices."""
STATES = {
    "kernel": "covered",
    "math kernel": "composite",
    "default backend kernel": "composite",
    "backend fallback": "falls back",
    "autograd kernel": "covered",
}
"""What the brackets at the end of a line of the table mean."""
WORST = ("missing", "falls back", "composite", "covered", "elsewhere")
STRUCTURED = "CompositeExplicitAutogradNonFunctional"
_OPERATOR = re.compile(r"(?!autograd::)\w+::\w+(\.\w+)?")
COPIES = {"aten::copy_", "aten::_copy_from", "aten::_copy_from_and_resize"}
TRANSPORT = {*COPIES, "aten::to", "aten::_to_copy", "aten::_to_cpu", "aten::cpu"}
"""Operators that do nothing but bring a tensor elsewhere."""
OWN = "the program's own copies"
MOST_ROWS = 200


# ---- by the dispatcher's tables --------------------------------------------------------------


class Table(NamedTuple):
    """How one operator is dispatched."""

    here: str
    """The device's brackets; empty where it has no line."""
    on_cpu: str
    structured: bool
    """Whether it only calls its ``out`` form."""


def read_table(text: str, key: str) -> Table:
    """Read ``torch._C._dispatch_dump_table``: text of a private function, so what is odd is empty.

    A line is ``CPU: registered at .../RegisterCPU_0.cpp:3234 [kernel]`` (seen: torch 2.13).
    """
    here, cpu = line_of(text, key), line_of(text, "CPU")
    return Table(brackets(here), brackets(cpu), STRUCTURED in here)


def line_of(text: str, key: str) -> str:
    """The line of a dispatch key; empty where there is none. A table has 12,000 characters."""
    start = 0 if text.startswith(f"{key}:") else text.find(f"\n{key}:") + 1
    if not text.startswith(f"{key}:", start):
        return ""
    end = text.find("\n", start)
    return text[start:] if end < 0 else text[start:end]


def brackets(line: str) -> str:
    """What stands in the brackets at the end: ``kernel``."""
    head, opened, how = line.rstrip().rpartition("[")
    return how.rstrip("]").strip() if opened and head else ""


def static(device: Device) -> dict[str, object]:
    """Every ``aten`` operator: covered, composite, computed on the CPU, or missing."""
    begun = time.perf_counter()
    torch_c = device.torch._C
    states = survey(torch_c, KEYS[device.kind])
    aten = {name[6:]: state for name, state in states.items() if name.startswith("aten::")}

    def named(state: str) -> list[str]:
        return sorted(name for name in aten if aten[name] == state)

    return {
        "key": KEYS[device.kind],
        "operators": len(aten),
        "covered": len(named("covered")),
        "composite": len(named("composite")),
        "elsewhere": len(named("elsewhere")),
        "falls_back": named("falls back"),
        "missing": named("missing"),
        "required": {name: required(name, states) for name in device.options.get("require", ())},
        "seconds": round(time.perf_counter() - begun, 3),
    }


def survey(torch_c: Any, key: str) -> dict[str, str]:  # noqa: ANN401 - torch._C
    """The state of every operator under a dispatch key.

    ``missing``: the CPU has a kernel of its own and the device nothing at all; ``elsewhere``:
    neither has one, as of the operators of cuDNN.
    """
    dump = torch_c._dispatch_dump_table
    tables = {name: read_table(dump(name), key) for name in torch_c._dispatch_get_all_op_names()}
    partners = dict(paired(torch_c._jit_get_all_schemas(), tables))
    return {name: state_of(name, tables[partners.get(name, name)], key) for name in tables}


def state_of(name: str, table: Table, key: str) -> str:
    """What becomes of an operator on the device."""
    if "_overrideable" in name and table.here == "default backend kernel":
        # It only says that it is not implemented. To convolution such a device is led in any case,
        # to attention where it has chosen so itself.
        led = key == KEYS["musa"] and name.startswith("aten::convolution")
        return "missing" if led else "elsewhere"
    state = STATES.get(table.here, "covered" if table.here else "missing")
    if state in {"missing", "falls back"} and not table.on_cpu:
        return "elsewhere"
    return state


def paired(schemas: Iterable[Any], tables: dict[str, Table]) -> Iterator[tuple[str, str]]:
    """Operators that only call another form of themselves, with that form.

    ``mm`` and ``mm_`` call ``mm.out`` where they are structured; a generated ``x.out`` calls ``x``.
    """
    known = [schema for schema in schemas if full_name(schema) in tables]
    shapes = {full_name(schema): shape(schema) for schema in known}
    writing = {shapes[full_name(s)]: full_name(s) for s in known if writes(s)}
    plain = {shapes[full_name(s)]: full_name(s) for s in known if is_plain(s)}
    for schema in known:
        name = full_name(schema)
        if tables[name].here != "default backend kernel":
            continue
        if tables[name].structured:
            partner = writing.get(shapes[name])
        else:
            partner = plain.get(shapes[name]) if writes(schema) else None
        if partner is not None:
            yield name, partner


def full_name(schema: Any) -> str:  # noqa: ANN401 - a schema
    """``aten::topk.values``."""
    overload = schema.overload_name
    return f"{schema.name}.{overload}" if overload else str(schema.name)


def shape(schema: Any) -> tuple[str, ...]:  # noqa: ANN401 - a schema
    """Name and arguments without those that are written to."""
    name = str(schema.name)
    base = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    return (base, *(str(given.name) for given in schema.arguments if not given.is_out))


def writes(schema: Any) -> bool:  # noqa: ANN401 - a schema
    """Whether it has arguments to write to."""
    return any(given.is_out for given in schema.arguments)


def is_plain(schema: Any) -> bool:  # noqa: ANN401 - a schema
    """Whether it changes none of its arguments."""
    return not writes(schema) and not str(schema.name).endswith("_")


def required(name: str, states: dict[str, str]) -> str:
    """The state of an operator that was asked for by name.

    ``mm``, ``torch.mm`` and ``aten::mm`` are one. Where a name has no meaning without an overload,
    ``add``, it is the worst of them that any device but a special one can have.
    """
    bare = re.sub(r"^(torch\.ops\.|torch\.)", "", name.strip())
    bare = bare if "::" in bare else "aten::" + re.sub(r"^aten\.", "", bare)
    if bare in states:
        return states[bare]
    found = {state for known, state in states.items() if known.partition(".")[0] == bare}
    return min(found - {"elsewhere"} or found, key=WORST.index, default="no such operator")


register("fallback: static", static, where="first")


# ---- by what happens -------------------------------------------------------------------------


class Row(NamedTuple):
    """What one operator did that left the device."""

    calls: int = 0
    seconds: float = 0.0
    copied_bytes: int = 0

    def plus(self, seconds: float, copied_bytes: int) -> Row:
        """One more call."""
        return Row(self.calls + 1, self.seconds + seconds, self.copied_bytes + copied_bytes)


class Event(NamedTuple):
    """A node of the profiler's tree."""

    name: str
    seconds: float
    tensors: tuple[tuple[str, int], ...]
    """Kind of the device and bytes of each tensor that went in."""
    children: tuple[Event, ...]


def audit(device: Device, work: Callable[[], object]) -> dict[str, object]:
    """Call ``work`` once to warm up and once under the profiler; what left the device meanwhile."""
    if device.kind == "cpu":
        raise Skip("the CPU is where operators fall back to")
    one = device.torch.ones(1, device=device.name)
    _, events = profiled(device, (one + one).cpu)
    if not any(crossings(event, device.kind) for event in walk(events)):
        raise Skip(f"the profiler of torch {device.torch.__version__} shows no copies")
    work()
    seconds, events = profiled(device, work)
    seen = [event for event in walk(events) if _OPERATOR.fullmatch(event.name)]
    rows: dict[str, Row] = {}
    lost = leaving(Event("", seconds, (), events), OWN, device.kind, rows)
    asked_for = rows.pop(OWN, Row())
    ordered = sorted(rows.items(), key=lambda item: (-item[1].seconds, -item[1].calls, item[0]))
    return {
        "calls": len(seen),
        "calls_on_device": sum(any(kind == device.kind for kind, _ in e.tensors) for e in seen),
        "seconds": seconds,
        "share": round(min(1.0, lost / seconds), 4),
        "leaving": len(rows),
        "operators": [
            {
                "operator": name,
                "count": row.calls,
                "seconds": round(row.seconds, 6),
                "share": round(min(1.0, row.seconds / seconds), 4),
                "bytes": row.copied_bytes,
            }
            for name, row in ordered[:MOST_ROWS]
        ],
        "own_bytes": asked_for.copied_bytes,
    }


def profiled(device: Device, work: Callable[[], object]) -> tuple[float, tuple[Event, ...]]:
    """Seconds that the work took, and what the profiler saw of it."""
    # torch.profiler's own class imports torch._inductor, which takes seconds.
    profiler = importlib.import_module("torch.autograd.profiler")
    device.synchronize()
    with profiler.profile(record_shapes=True) as profile:
        begun = time.perf_counter()
        work()
        device.synchronize()
        seconds = time.perf_counter() - begun
    results = profile.kineto_results
    if not hasattr(results, "experimental_event_tree"):
        raise Skip(f"the profiler of torch {device.torch.__version__} has no tree of events")
    return seconds, tuple(read_event(event) for event in results.experimental_event_tree())


def read_event(event: Any) -> Event:  # noqa: ANN401 - the profiler's
    """An event with what is below it."""
    return Event(
        str(event.name),
        event.duration_time_ns / 1e9,
        tuple(tensors(getattr(event.extra_fields, "inputs", None))),
        tuple(read_event(child) for child in event.children),
    )


def tensors(given: Any) -> Iterator[tuple[str, int]]:  # noqa: ANN401 - the profiler's
    """Where the tensors are, and how large, of an argument or of a list of them."""
    if isinstance(given, list):
        for one in cast("list[object]", given):
            yield from tensors(one)
    elif hasattr(given, "device") and hasattr(given, "sizes"):
        size = int(getattr(given.dtype, "itemsize", 0) or item_size(given.dtype))
        for length in given.sizes:
            size *= int(length)
        yield str(given.device).partition(":")[0], size


def item_size(dtype: Any) -> int:  # noqa: ANN401 - a torch.dtype
    """Bytes of an element where a dtype does not say so itself, before torch 2.1."""
    found = re.search(r"(\d+)$", str(dtype))
    return max(1, int(found[1]) // 8) if found else 1


def walk(events: Iterable[Event]) -> Iterator[Event]:
    """All events, however deep."""
    for event in events:
        yield event
        yield from walk(event.children)


def crossings(event: Event, kind: str) -> tuple[int, int] | None:
    """Bytes to the CPU and from it, of a copy between the two; else nothing."""
    if event.name not in COPIES or len(event.tensors) < 2:  # noqa: PLR2004 - here and there
        return None
    (target, _), (source, size) = event.tensors[:2]
    if event.name != "aten::copy_":
        source, target, size = target, source, event.tensors[0][1]
    if (source, target) == (kind, "cpu"):
        return size, 0
    return (0, size) if (source, target) == ("cpu", kind) else None


def carried(event: Event, kind: str) -> tuple[int, int]:
    """Bytes to the CPU and from it in a copy's own subtree."""
    found = crossings(event, kind)
    if found is not None:
        return found
    below = [carried(child, kind) for child in event.children if child.name in TRANSPORT]
    return sum(there for there, _ in below), sum(back for _, back in below)


def leaving(event: Event, within: str, kind: str, rows: dict[str, Row]) -> float:
    """Enter what left the device into the rows; the seconds in which something had left it.

    A copy belongs to the innermost operator around it; without one the program asked for it.
    """
    inner = event.name if _OPERATOR.fullmatch(event.name) else within
    copies = [child for child in event.children if child.name in TRANSPORT]
    others = [child for child in event.children if child.name not in TRANSPORT]
    below = sum(leaving(child, inner, kind, rows) for child in others)
    moved = [carried(child, kind) for child in copies]
    to_cpu, total = sum(there for there, _ in moved), sum(map(sum, moved))
    if inner == OWN and total:
        rows[OWN] = rows.get(OWN, Row()).plus(0.0, total)
    elif to_cpu:
        rows[inner] = rows.get(inner, Row()).plus(event.seconds, total)
        return event.seconds
    return below


# ---- what is audited -------------------------------------------------------------------------


def operators(device: Device) -> dict[str, object]:
    """Operators of everyday training one by one, forward and backward."""
    missing: dict[str, str] = {}
    failed: dict[str, str] = {}
    calls = everyday(device)

    def attempt(name: str, call: Callable[[], Any]) -> None:
        try:
            backward(call())
        except NotImplementedError as error:
            missing[name] = chain(error)[-1].partition("\n")[0]
        except Exception as error:  # noqa: BLE001 - the next ones are to be seen all the same
            failed[name] = chain(error)[-1].partition("\n")[0]

    def work() -> None:
        for name, call in calls.items():
            attempt(name, call)

    told = audit(device, work)
    return {**told, "tried": len(calls), "missing": missing, "failed": failed}


def backward(result: Any) -> None:  # noqa: ANN401 - a tensor, or several
    """Differentiate what can be."""
    first: Any = cast("Any", result)[0] if isinstance(result, (tuple, list)) else result
    if getattr(first, "requires_grad", False):
        first.sum().backward()


def everyday(device: Device) -> dict[str, Callable[[], Any]]:
    """Calls of the operators that training and inference are made of."""
    torch, where = device.torch, device.name
    f = torch.nn.functional
    cpu = torch.Generator().manual_seed(0)

    def given(*size: int) -> Any:  # noqa: ANN401 - a tensor
        return torch.rand(size, generator=cpu).to(where).requires_grad_()

    a, b, square = given(8, 16), given(8, 16), given(16, 16)
    batch, image, signal = given(2, 8, 16), given(2, 4, 8, 8), given(2, 4, 16)
    kernel, kernel1, vector = given(4, 4, 3, 3), given(4, 4, 3), given(16)
    heads = given(2, 2, 8, 8)
    index = (torch.arange(8) % 5).to(where)
    indices = (torch.arange(128).reshape(8, 16) % 8).to(where)
    mask = (torch.arange(128).reshape(8, 16) % 3 == 0).to(where)
    plain = a.detach()
    calls: dict[str, Callable[[], Any]] = {
        name: partial(getattr(torch, name), a)
        for name in (
            *("exp", "log", "sqrt", "rsqrt", "reciprocal", "abs", "neg", "sin", "cos", "erf"),
            *("tanh", "sigmoid", "relu", "floor", "round", "isfinite", "isnan", "sign"),
            *("sum", "mean", "amax", "var", "std", "norm", "argmax", "all", "prod"),
            *("sort", "argsort", "nonzero", "tril", "triu", "clone", "zeros_like"),
            *("ones_like", "rand_like", "randn_like", "bernoulli"),
        )
    }
    calls.update(
        (name, partial(getattr(torch, name), a, b))
        for name in ("add", "sub", "mul", "div", "pow", "maximum", "atan2", "eq", "lt", "fmod")
    )
    calls.update(
        (name, partial(getattr(f, name), a))
        for name in ("gelu", "silu", "softplus", "leaky_relu", "elu", "hardswish", "normalize")
    )
    calls.update(
        {
            "clamp": lambda: torch.clamp(a, 0.2, 0.8),
            "where": lambda: torch.where(mask, a, b),
            "lerp": lambda: torch.lerp(a, b, 0.5),
            "addcmul": lambda: torch.addcmul(a, a, b),
            "addcdiv": lambda: torch.addcdiv(a, a, b + 1),
            "logsumexp": lambda: torch.logsumexp(a, 1),
            "cumsum": lambda: torch.cumsum(a, 1),
            "unique": lambda: torch.unique(plain),
            "topk": lambda: torch.topk(a, 4),
            "max": lambda: torch.max(a, 1),
            "mm": lambda: torch.mm(a, square),
            "addmm": lambda: torch.addmm(a, a, square),
            "bmm": lambda: torch.bmm(batch, batch.transpose(1, 2)),
            "baddbmm": lambda: torch.baddbmm(batch, batch, square.expand(2, 16, 16)),
            "einsum": lambda: torch.einsum("bij,jk->bik", batch, square),
            "linear": lambda: f.linear(a, square, vector),
            "outer": lambda: torch.outer(vector, vector),
            "softmax": lambda: f.softmax(a, 1),
            "log_softmax": lambda: f.log_softmax(a, 1),
            "cross_entropy": lambda: f.cross_entropy(a, index),
            "nll_loss": lambda: f.nll_loss(a, index),
            "mse_loss": lambda: f.mse_loss(a, plain),
            "smooth_l1_loss": lambda: f.smooth_l1_loss(a, plain),
            "binary_cross_entropy_with_logits": (
                lambda: f.binary_cross_entropy_with_logits(a, plain)
            ),
            "kl_div": lambda: f.kl_div(a, plain, reduction="batchmean"),
            "layer_norm": lambda: f.layer_norm(a, (16,), vector, vector),
            "group_norm": lambda: f.group_norm(image, 2),
            "batch_norm": lambda: f.batch_norm(image, None, None, training=True),
            "dropout": lambda: f.dropout(a, 0.5, training=True),
            "embedding": lambda: f.embedding(index, square),
            "one_hot": lambda: f.one_hot(index, 5),
            "index_select": lambda: torch.index_select(a, 0, index),
            "gather": lambda: torch.gather(a, 0, indices),
            "scatter_add": lambda: torch.scatter_add(a, 0, indices, b),
            "index_add": lambda: torch.index_add(a, 0, index, b),
            "index": lambda: a[index],
            "index_put": lambda: plain.clone().index_put_((index,), plain),
            "masked_fill": lambda: a.masked_fill(mask, 0.0),
            "masked_select": lambda: a.masked_select(mask),
            "cat": lambda: torch.cat((a, b)),
            "stack": lambda: torch.stack((a, b)),
            "split": lambda: torch.split(a, 4, 1),
            "roll": lambda: torch.roll(a, 1, 0),
            "flip": lambda: torch.flip(a, (0,)),
            "repeat": lambda: a.repeat(2, 1),
            "repeat_interleave": lambda: torch.repeat_interleave(a, 2, 0),
            "pad": lambda: f.pad(a, (1, 1)),
            "conv1d": lambda: f.conv1d(signal, kernel1),
            "conv2d": lambda: f.conv2d(image, kernel),
            "conv_transpose2d": lambda: f.conv_transpose2d(image, kernel),
            "max_pool2d": lambda: f.max_pool2d(image, 2),
            "avg_pool2d": lambda: f.avg_pool2d(image, 2),
            "adaptive_avg_pool2d": lambda: f.adaptive_avg_pool2d(image, 1),
            "interpolate": lambda: f.interpolate(image, scale_factor=2.0, mode="bilinear"),
            "scaled_dot_product_attention": (
                lambda: f.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
            ),
            "rand": lambda: torch.rand(8, device=where),
            "randn": lambda: torch.randn(8, device=where),
            "randint": lambda: torch.randint(0, 8, (8,), device=where),
            "randperm": lambda: torch.randperm(8, device=where),
            "multinomial": lambda: torch.multinomial(plain, 2),
            "arange": lambda: torch.arange(8, device=where),
            "linspace": lambda: torch.linspace(0, 1, 8, device=where),
            "full": lambda: torch.full((8,), 2.0, device=where),
            "to bfloat16": lambda: a.to(torch.bfloat16),
            "_foreach_add": lambda: torch._foreach_add([plain, plain], 1.0),
            "_foreach_norm": lambda: torch._foreach_norm([plain, plain]),
            "linalg_inv": lambda: torch.inverse(square + torch.eye(16).to(where) * 16),
            "linalg_qr": lambda: torch.linalg.qr(square),
            "linalg_svd": lambda: torch.linalg.svd(square),
            "cholesky": lambda: torch.linalg.cholesky(
                square @ square.T + torch.eye(16).to(where) * 16
            ),
            "fft_rfft": lambda: torch.fft.rfft(plain),
        }
    )
    return calls


def transformer(device: Device) -> dict[str, object]:
    """A step of training of a small transformer block."""
    torch, where = device.torch, device.name
    f = torch.nn.functional
    width, heads, words = 64, 4, 100
    torch.manual_seed(0)
    sizes = {
        "words": (words, width),
        "attend": (3 * width, width),
        "join": (width, width),
        "rise": (4 * width, width),
        "fall": (width, 4 * width),
        "scale": (width,),
        "shift": (width,),
    }
    weights = {
        name: (torch.randn(size) * 0.1).to(where).requires_grad_() for name, size in sizes.items()
    }
    text = (torch.arange(2 * 33).reshape(2, 33) % words).to(where)
    state = new_state(device, weights)

    def step() -> None:
        w = weights
        x = f.embedding(text[:, :-1], w["words"])
        y = f.layer_norm(x, (width,), w["scale"], w["shift"])
        q, k, v = (
            part.reshape(2, 32, heads, width // heads).transpose(1, 2)
            for part in f.linear(y, w["attend"]).chunk(3, -1)
        )
        y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + f.linear(y.transpose(1, 2).reshape(2, 32, width), w["join"])
        y = f.layer_norm(x, (width,), w["scale"], w["shift"])
        x = x + f.dropout(f.linear(f.gelu(f.linear(y, w["rise"])), w["fall"]), 0.1)
        loss = f.cross_entropy(f.linear(x, w["words"]).reshape(-1, words), text[:, 1:].reshape(-1))
        loss.backward()
        update(torch, weights, state)

    return audit(device, step)


def convnet(device: Device) -> dict[str, object]:
    """A step of training of a small convolutional net."""
    torch, where = device.torch, device.name
    f = torch.nn.functional
    torch.manual_seed(0)
    sizes = {"first": (8, 3, 3, 3), "second": (16, 8, 3, 3), "last": (10, 16)}
    weights = {
        name: (torch.randn(size) * 0.1).to(where).requires_grad_() for name, size in sizes.items()
    }
    images, labels = torch.randn(4, 3, 16, 16).to(where), torch.arange(4).to(where)
    mean, variance = torch.zeros(8).to(where), torch.ones(8).to(where)
    state = new_state(device, weights)

    def step() -> None:
        x = f.conv2d(images, weights["first"], padding=1)
        x = f.relu(f.batch_norm(x, mean, variance, training=True))
        x = f.relu(f.conv2d(f.max_pool2d(x, 2), weights["second"], padding=1))
        x = f.adaptive_avg_pool2d(x, 1).flatten(1)
        f.cross_entropy(f.linear(x, weights["last"]), labels).backward()
        update(torch, weights, state)

    return audit(device, step)


def new_state(device: Device, weights: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The moments that AdamW keeps."""
    zeros = {
        name: device.torch.zeros(tuple(weight.shape)).to(device.name)
        for name, weight in weights.items()
    }
    return {name: (zero, zero.clone()) for name, zero in zeros.items()}


def update(torch: Any, weights: dict[str, Any], state: dict[str, tuple[Any, Any]]) -> None:  # noqa: ANN401 - torch
    """Clip the gradients and take a step of AdamW by hand; torch.optim takes seconds to import."""
    with torch.no_grad():
        norms = [weight.grad.norm() for weight in weights.values()]
        scale = (1.0 / (torch.stack(norms).norm() + 1e-6)).clamp(max=1.0)
        for name, weight in weights.items():
            first, second = state[name]
            grad = weight.grad * scale
            first.lerp_(grad, 0.1)
            second.mul_(0.999).addcmul_(grad, grad, value=0.001)
            weight.mul_(0.9999).addcdiv_(first, second.sqrt().add_(1e-8), value=-1e-3)
            weight.grad = None


def own(device: Device) -> dict[str, object]:
    """What the user named as ``module:function``, found from the working directory too.

    The function gets the device's name, ``musa:0``, where it has an argument that must be given.
    """
    named = device.options.get("audit")
    if not named:
        raise Skip("no function of your own was named with --audit")
    module, _, function = named.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        work: Any = importlib.import_module(module)
        for attribute in function.split("."):
            work = getattr(work, attribute)
        try:
            inspect.signature(work).bind()
        except TypeError:
            work = partial(work, device.name)
        return {"function": named, **audit(device, work)}
    finally:
        sys.path.remove(os.getcwd())


register("fallback: common operators", operators, level="default", where="first", seconds=60.0)
register("fallback: model transformer", transformer, level="default", where="first", seconds=60.0)
register("fallback: model convnet", convnet, level="default", where="first", seconds=60.0)
register("fallback: model own", own, where="first", seconds=300.0)
