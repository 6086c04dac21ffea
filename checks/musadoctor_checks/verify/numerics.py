"""Whether a model would train on a device as it does elsewhere."""

from collections import Counter

from musadoctor.api import Finding, Fix, Judgement, Layer, Step, Steps, check
from musadoctor_checks._advice import some
from musadoctor_checks.knowledge import device_limit
from musadoctor_checks.verify._measures import (
    ATTENTION,
    AUTOCAST,
    CLIPPING,
    RANDOM,
    ROUNDING,
    SAME,
    SCALER,
    TIES,
    TRAINING,
    Measure,
    alike,
    ended,
    infinite,
    measures,
    not_finite,
    of,
    reported,
    task,
    unjudged,
)
from musadoctor_checks.verify._steps import number, rows

EAGER = Fix(
    "Write attention out as softmax(q k^T / sqrt(d)) v, or leave the route that the message names"
    " (torch.backends.cuda.enable_flash_sdp(False) and its like), until a newer muDNN repairs it"
)
UNORDERED = {"embedding gradient", "index_add", "conv2d gradient", "attention gradient", "training"}
"""What is often added up in the order in which threads come."""
SUSPECT = Fix(
    "Look for XIDs and ECC errors of that card, and run it once more alone",
    ("musadoctor verify --select numerics",),
)


# ---- attention -------------------------------------------------------------------------------


@check("attention-fails", layer=Layer.TORCH_MUSA, severity="error")
def attention_fails(device_steps: Steps) -> Judgement:
    """Scaled dot product attention fails on a device.

    ## Why it matters

    Every transformer calls `scaled_dot_product_attention`.

    ## How to fix

    If one route alone fails, leave it: `torch.backends.cuda.enable_flash_sdp(False)` keeps the
    others. Flash attention has limits: compute capability 2.2, float16 or bfloat16, heads of at
    most 128, or 160, or 192 with values of 128; no gradient of the mask.

    ## Symptoms

    - `Flash attention only supports architecture with mp version >= 2.2`

    ## Sources

    torch_musa source (2026-01); knowledge/limits.toml.
    """
    steps = of(device_steps, ATTENTION)
    failed = [step for step in steps if step.state == "failed"]
    limit = device_limit("flash attention")
    fix = Fix(f"Known limit: {limit.meaning} ({limit.origin}). {limit.instead}")
    yield from ended(failed, "fails", fix)
    yield from unjudged([step for step in steps if step.state != "failed"])


@check("attention-wrong", layer=Layer.TORCH_MUSA, severity="error")
def attention_wrong(device_steps: Steps) -> Judgement:
    """Scaled dot product attention gives something else than its formula.

    ## Why it matters

    A model gives other answers than where it was trained. A mask that is laid otherwise, as with
    fewer queries than keys, shows here too.

    ## How to fix

    The message names the route. Leave that one, or write attention out.

    ## Sources

    torch.nn.functional.scaled_dot_product_attention's documentation: a causal mask begins at the
    upper left. The bounds are derived in docs/verify-tolerances.md.
    """
    steps = of(device_steps, ATTENTION)
    bad = [one for one in measures(steps) if one.label == "result" and one.wrong]
    yield from reported(bad, steps, routed, EAGER)
    yield from unjudged(steps)


@check("attention-gradient-wrong", layer=Layer.TORCH_MUSA, severity="error")
def attention_gradient_wrong(device_steps: Steps) -> Judgement:
    """The gradients of scaled dot product attention are wrong.

    ## Why it matters

    The model computes rightly and does not learn.

    ## How to fix

    The message names the route. Leave that one, or write attention out.

    ## Sources

    The bounds are derived in docs/verify-tolerances.md.
    """
    steps = of(device_steps, ATTENTION)
    bad = [one for one in measures(steps) if one.label != "result" and one.wrong]
    yield from reported(bad, steps, routed, EAGER)
    yield from unjudged(steps)


@check("attention-not-finite", layer=Layer.TORCH_MUSA, severity="error")
def attention_not_finite(device_steps: Steps) -> Judgement:
    """Scaled dot product attention gives NaN or infinity.

    ## Why it matters

    One NaN spreads over a whole model within a step.

    ## How to fix

    The message names the route. Leave that one, or write attention out.

    ## Sources

    Each query of the steps sees a key, so that all results are finite.
    """
    steps = of(device_steps, ATTENTION)
    bad = [one for one in not_finite(steps) if one.label == "result"]
    yield from reported(bad, steps, by_route, EAGER)
    yield from unjudged(steps)


@check("attention-gradient-not-finite", layer=Layer.TORCH_MUSA, severity="error")
def attention_gradient_not_finite(device_steps: Steps) -> Judgement:
    """Scaled dot product attention is finite, and its gradients are NaN or infinite.

    ## Why it matters

    The loss looks right, and the first step of training spoils all parameters. This was seen on MTT
    S5000 with Toolkit 5.2.0 and torch_musa 2.9.1 in one training job, where attention written out
    was fine.

    ## How to fix

    Write attention out, or leave the route that the message names.

    ## Sources

    A local finding (Qwen3.5-2B, quantisation-aware training; 2026-09), of which it is not known
    which sizes and types it needs.
    """
    steps = of(device_steps, ATTENTION)
    bad = [one for one in not_finite(steps) if one.label != "result"]
    yield from reported(bad, steps, by_route, EAGER)
    yield from unjudged(steps)


def routed(one: Measure) -> str:
    """How far off, and on which route."""
    return f"{one.off} (route {one.step.value.get('route')}, {one.step.value.get('derivative')})"


def by_route(one: Measure) -> str:
    """What is not finite, and on which route."""
    route = f"route {one.step.value.get('route')}, {one.step.value.get('derivative')}"
    return f"{infinite(one)} ({route})"


# ---- training --------------------------------------------------------------------------------


@check("autocast-fails", layer=Layer.TORCH_MUSA, severity="error")
def autocast_fails(device_steps: Steps) -> Judgement:
    """Autocast does not work on a device, or does not change the type.

    ## Why it matters

    Training scripts in mixed precision end with an exception; or they run in float32, slow and with
    twice the memory, and nothing says so.

    ## How to fix

    Use `torch.autocast("musa", dtype=...)`; `torch.cuda.amp` does nothing on MUSA. If that fails as
    here, cast the model by hand (`model.bfloat16()`), and report it to torch_musa's tracker.

    ## Symptoms

    - `RuntimeError: User specified an unsupported autocast device_type 'musa'`

    ## Sources

    PyTorch's documentation of torch.autocast.
    """
    steps = of(device_steps, AUTOCAST)
    fix = Fix("Cast the model by hand, as with model.bfloat16(), until autocast works")
    yield from ended([step for step in steps if step.state == "failed"], "fails", fix)
    ignored = [
        (step, f"a matrix product comes out as {step.value.get('type of a product')}")
        for step in steps
        if step.state == "done"
        and step.value.get("type of a product") != task(step).partition(" ")[2]
    ]
    yield from alike(ignored, fix)
    yield from unjudged([step for step in steps if step.state != "failed"])


@check("grad-scaler-broken", layer=Layer.TORCH_MUSA, severity="error")
def grad_scaler_broken(device_steps: Steps) -> Judgement:
    """GradScaler does not scale, unscale or leave out steps as it must.

    ## Why it matters

    Training in float16 needs it: without it small gradients become 0, and one that overflows
    spoils all parameters.

    ## How to fix

    Train in bfloat16, which needs no scaler, where the card has it; otherwise in float32.

    ## Sources

    PyTorch's documentation of torch.amp.GradScaler: a step whose gradients are infinite is left
    out, and the scale is halved.
    """
    steps = of(device_steps, SCALER)
    fix = Fix("Train in bfloat16, which needs no scaler, where the card has it")
    yield from ended([step for step in steps if step.state == "failed"], "fails", fix)
    done = [step for step in steps if step.state == "done"]
    yield from alike([(step, words) for step in done for words in scaler_faults(step)], fix)
    yield from unjudged([step for step in steps if step.state != "failed"])


def scaler_faults(step: Step) -> list[str]:
    """What GradScaler does wrong."""
    told = {key: number(step.value, key) for key in step.value}
    first, after = told.get("scale at first"), told.get("scale after a step")
    last, steps = told.get("scale after an overflow"), told.get("steps after a step")
    words: list[str] = []
    if steps != 1:
        words.append("it left out a step whose gradients are finite")
    elif (measure := Measure(step, "result")).number("ratio") > 1:
        words.append(f"it steps by other gradients than were scaled: {measure.off}")
    if steps == 1 and after != first:
        words.append(f"it changed the scale from {first} to {after} after one good step")
    if told.get("steps after an overflow") != steps:
        words.append("it took a step though gradients had overflowed to infinity")
    elif first and last != first / 2:
        words.append(f"its scale is {last} after an overflow, where {first / 2} is right")
    return words


@check("optimizer-steps-drift", layer=Layer.TORCH_MUSA, severity="error")
def optimizer_steps_drift(device_steps: Steps) -> Judgement:
    """A few steps of training end elsewhere than in float64, by more than rounding explains.

    ## Why it matters

    The loss curve of a long run leaves that of the run it is compared with.

    ## How to fix

    Look at the findings on single operations first: a wrong gradient shows here too. If there is
    none, report the numbers of this message: operators that update in place are then suspect.

    ## Sources

    What is allowed is how far the same training in float64 drifts when each number is rounded at
    random to the type's digits (Monte Carlo arithmetic, D. S. Parker, 1997), 16 times over.
    """
    steps = of(device_steps, TRAINING, AUTOCAST)
    bad = [one for one in measures(steps) if one.wrong]
    endless = [one for one in not_finite(steps) if not one.wrong]
    fix = Fix("Look at the findings on single operations first, then run it on the CPU to compare")
    yield from reported(bad, steps, drifted, fix)
    yield from reported(endless, steps, infinite, fix)
    yield from unjudged(of(device_steps, TRAINING))


def drifted(one: Measure) -> str:
    """How far a part of a training run has come off."""
    value = one.step.value
    return (
        f"{one.label} off by {one.number('error'):.3g} after a short training, where"
        f" {one.number('allowed'):.2g} is what rounding explains; last loss"
        f" {value.get('last loss')} instead of {value.get('right last loss')}"
    )


@check("gradient-clipping-wrong", layer=Layer.TORCH_MUSA, severity="error")
def gradient_clipping_wrong(device_steps: Steps) -> Judgement:
    """The norm of gradients, or the gradients that are clipped to it, are wrong.

    ## Why it matters

    Training without a right norm is clipped too much, or not at all.

    ## How to fix

    Compute the norm in float32 by hand, and report the numbers to torch_musa's tracker.

    ## Sources

    torch.nn.utils.clip_grad_norm_, against itself in float64.
    """
    steps = of(device_steps, CLIPPING)
    fix = Fix("Compute the norm in float32 by hand, and scale the gradients with it")
    yield from reported([one for one in measures(steps) if one.wrong], steps, clipped, fix)
    yield from reported(not_finite(steps), steps, infinite, fix)
    yield from unjudged(steps)


def clipped(one: Measure) -> str:
    """How far off, and the norms."""
    before, after = one.step.value.get("norm before"), one.step.value.get("norm after")
    return f"{one.off}; norm {before} before and {after} after clipping to 1"


# ---- rounding and order ----------------------------------------------------------------------


@check("rounding-differs", layer=Layer.TORCH_MUSA, severity="warning")
def rounding_differs(device_steps: Steps) -> Judgement:
    """A device rounds otherwise than half to even, or casts otherwise than the CPU.

    ## Why it matters

    Rounding that always goes one way adds up over a training run; quantised models give other
    numbers than where they were made.

    ## How to fix

    Cast on the CPU where it matters, as for checkpoints, and report the numbers of this message.

    ## Sources

    IEEE 754, round to nearest, ties to even, which torch keeps on the CPU.
    """
    steps = of(device_steps, ROUNDING)
    fix = Fix("Cast on the CPU where it matters, as for checkpoints")
    different = [(step, recast(step)) for step in steps if number(step.value, "different")]
    yield from alike(different, fix)
    bad = [one for one in measures(steps) if one.wrong]
    yield from reported(bad, steps, lambda one: one.off, fix)
    yield from unjudged(steps)


def recast(step: Step) -> str:
    """How many numbers come out otherwise, and one of them."""
    value, count, whole = step.value, number(step.value, "different"), step.value.get("numbers")
    return (
        f"{count:.0f} of {whole} numbers come out otherwise: {value.get('from')} becomes"
        f" {value.get('found')} instead of {value.get('right')}"
    )


@check("subnormals-flushed", layer=Layer.TORCH_MUSA, severity="note")
def subnormals_flushed(device_steps: Steps) -> Judgement:
    """A device takes the smallest numbers for 0.

    ## Why it matters

    In float16 these are the numbers below 0.00006: small gradients vanish without GradScaler.

    ## How to fix

    Nothing in float32 and bfloat16. In float16 use GradScaler, or bfloat16.

    ## Sources

    Measured on casts from float32.
    """
    steps = of(device_steps, ROUNDING)
    flushed = [
        (step, f"{count:.0f} numbers below the smallest normal one become 0")
        for step in steps
        if (count := number(step.value, "flushed"))
    ]
    yield from alike(flushed, Fix("In float16 use GradScaler, or bfloat16"))
    yield from unjudged(steps)


@check("sort-order-broken", layer=Layer.TORCH_MUSA, severity="error")
def sort_order_broken(device_steps: Steps) -> Judgement:
    """Sorting, topk or argmax break what torch promises where numbers are equal or NaN.

    ## Why it matters

    Routing of experts, beam search and sampling take the wrong element, and a stable sort is what
    others rely on to keep pairs together.

    ## How to fix

    Sort on the CPU where order among equals matters, and report the numbers of this message.

    ## Sources

    torch's documentation: sort(stable=True) keeps the order of equals, argmax gives the first of
    several, NaN is greater than all.
    """
    steps = of(device_steps, TIES)
    fix = Fix("Sort on the CPU where the order of equal numbers matters")
    wrong = [(step, counted(step, " wrong")) for step in steps]
    yield from alike([(step, f"wrong are {words}") for step, words in wrong if words], fix)
    yield from unjudged(steps)


def counted(step: Step, ending: str) -> str:
    """The counts whose names end so, of those that are not 0."""
    return ", ".join(
        f"{count:.0f} of {key.removesuffix(ending)}"
        for key in step.value
        if key.endswith(ending) and (count := number(step.value, key))
    )


@check("top-k-differs", layer=Layer.TORCH_MUSA, severity="note")
def top_k_differs(device_steps: Steps) -> Judgement:
    """Among equal numbers a device takes others than the CPU.

    ## Why it matters

    Both are right, but a model that routes or samples by them gives other results than elsewhere.

    ## How to fix

    Nothing, unless results must be the same: then make ties impossible, or sort with `stable=True`.

    ## Sources

    torch's documentation of topk and sort: which of several equal elements comes is not said.
    """
    steps = of(device_steps, TIES)
    fix = Fix("Where results must be the same, sort with stable=True")
    differ = [(step, counted(step, " indices differ")) for step in steps]
    words = "among equal numbers others come first than on the CPU"
    yield from alike([(step, f"{words}: {told}") for step, told in differ if told], fix)
    yield from unjudged(steps)


# ---- repetition ------------------------------------------------------------------------------


@check("results-differ-between-runs", layer=Layer.TORCH_MUSA, severity="warning")
def results_differ_between_runs(device_steps: Steps) -> Judgement:
    """The same computation gives other bits the second time, where nothing should make it so.

    ## Why it matters

    No run can be repeated, and a fault cannot be told from chance. A card whose memory or clock is
    unsound shows like this first.

    ## How to fix

    If one card does so, suspect it. If all do, see `torch.use_deterministic_algorithms(True)`.

    ## Sources

    The operations are those that need no atomic additions.
    """
    steps = of(device_steps, SAME, RANDOM)
    told = [(step, [name for name in unlike(step) if name not in UNORDERED]) for step in steps]
    words = "other bits the second time"
    yield from alike([(step, f"{some(names)}: {words}") for step, names in told if names], SUSPECT)
    yield from unjudged(steps)


@check("accumulation-order-varies", layer=Layer.TORCH_MUSA, severity="note")
def accumulation_order_varies(device_steps: Steps) -> Judgement:
    """Gradients that are added up in the order in which threads come differ from run to run.

    ## Why it matters

    Two runs with the same seed drift apart, slowly. Each is right.

    ## How to fix

    Nothing, unless a run must be repeatable: then `torch.use_deterministic_algorithms(True)`, which
    names the operations that have no such form.

    ## Sources

    PyTorch's notes on reproducibility.
    """
    steps = of(device_steps, SAME)
    fix = Fix("Where a run must be repeatable: torch.use_deterministic_algorithms(True)")
    told = [(step, [name for name in unlike(step) if name in UNORDERED]) for step in steps]
    words = "other bits the second time"
    yield from alike([(step, f"{some(names)}: {words}") for step, names in told if names], fix)
    yield from unjudged(steps)


def unlike(step: Step) -> list[str]:
    """The parts of a step that were not the same the second time."""
    return [
        key.removesuffix(" same")
        for key, same in step.value.items()
        if key.endswith(" same") and same is False
    ]


@check("results-differ-between-devices", layer=Layer.TORCH_MUSA, severity="warning")
def results_differ_between_devices(visible_devices: Steps, device_steps: Steps) -> Judgement:
    """Equal cards give different bits for the same computation.

    ## Why it matters

    Replicas of a model drift apart. A card that differs from all others of its kind is likely to be
    unsound, or to have other firmware or clocks.

    ## How to fix

    Look at the card that the message names: XIDs, ECC errors, its firmware version. Change its slot
    to see whether the fault moves with it.

    ## Sources

    The inputs are the same, made on the CPU; only what each device repeats to the bit is compared,
    among cards of one name.
    """
    steps = [step for step in of(device_steps, SAME, RANDOM) if step.state == "done"]
    names = named(visible_devices)
    digests: dict[tuple[str, str, str], dict[str, Step]] = {}
    for step in steps:
        for key, same in step.value.items():
            part = key.removesuffix(" same")
            if key.endswith(" same") and same is True:
                kind = names.get(step.device, "")
                digests.setdefault((kind, step.name, part), {})[step.device] = step
    for (kind, _, part), by_device in digests.items():
        if found := odd_ones(part, by_device):
            devices, words = found
            where = f"{kind or 'cards'}, {task(by_device[devices[0]])}"
            yield Finding(f"{some(devices)}: {words} ({where})", where=devices[0], fix=SUSPECT)
    yield from unjudged(of(device_steps, SAME, RANDOM))


def named(devices: Steps) -> dict[str, str]:
    """The cards' names, by device."""
    return {
        f"{step.device}:{index}": str(device.get("name"))
        for step in devices.items
        for index, device in enumerate(rows(step.value, "devices"))
    }


def odd_ones(part: str, by_device: dict[str, Step]) -> tuple[list[str], str] | None:
    """The devices whose bits are not those of most, and a clause on them."""
    digests = {name: str(step.value.get(f"{part} digest")) for name, step in by_device.items()}
    counts = Counter(digests.values()).most_common()
    if len(counts) == 1:
        return None

    def total(names: list[str]) -> str:
        return str(by_device[names[0]].value.get(f"{part} sum"))

    usual = [name for name, digest in digests.items() if digest == counts[0][0]]
    odd = [name for name in digests if name not in usual]
    sums = f"{total(usual)} and {total(odd)}"
    if counts[0][1] > counts[1][1]:
        return odd, (
            f"{part} has other bits than on the {len(usual)} others; the numbers add up to"
            f" {total(odd)} here and to {total(usual)} there"
        )
    return sorted(digests), f"{part} has different bits; the numbers add up to {sums}"


@check("random-numbers-wrong", layer=Layer.TORCH_MUSA, severity="warning")
def random_numbers_wrong(device_steps: Steps) -> Judgement:
    """Random numbers of a device are outside of their range, or not spread as they must be.

    ## Why it matters

    Dropout, initial weights and sampling rest on them.

    ## How to fix

    Draw the numbers on the CPU and bring them to the device, and report this.

    ## Sources

    The mean and the variance of 4096 numbers may be six standard deviations off: one false alarm in
    100 million runs.
    """
    steps = of(device_steps, RANDOM)
    fix = Fix("Draw the numbers on the CPU and bring them to the device")
    outside = [
        (step, f"{count:.0f} numbers of torch.rand are not from 0 to below 1")
        for step in steps
        if (count := number(step.value, "outside"))
    ]
    yield from alike(outside, fix)
    bad = [one for one in measures(steps) if one.wrong]
    yield from reported(bad, steps, lambda one: one.off, fix)
    yield from unjudged(steps)
