"""Whether devices compute at all, and whether what they compute is right."""

from musadoctor.api import Finding, Fix, Judgement, Layer, Steps, Unknown, check
from musadoctor_checks._advice import some
from musadoctor_checks.knowledge import device_limit
from musadoctor_checks.verify._measures import (
    ATTENTION,
    AUTOCAST,
    EIGHT_BITS,
    FAMILIES,
    OLD_BFLOAT16,
    SCALER,
    SIXTEEN_BITS,
    ended,
    essential,
    infinite,
    measures,
    not_finite,
    of,
    plain,
    reported,
    shared,
    unjudged,
)

BELOW = Fix("See whether musadoctor finds a cause below", ("musadoctor",))
ELSEWHERE = Fix(
    "Run the same on the CPU, to see that torch itself is sound, and on another host with the same"
    " versions, to tell the card from the software",
    ("musadoctor verify --device cpu",),
)


@check("device-computation-fails", layer=Layer.TORCH_MUSA, severity="error")
def device_computation_fails(device_steps: Steps) -> Judgement:
    """A computation that must work on a device fails.

    ## Why it matters

    Training and inference need it. `torch.musa.is_available()` is True all the same.

    ## How to fix

    Run `musadoctor` first: wrong pairs of driver, Toolkit, muDNN and wheel show here. If it finds
    nothing, report the operation with its type to torch_musa's tracker.

    ## Symptoms

    - `MUSA error: unknown error`
    - `Conv2d MUDNN failed in: RunFusion`
    - `RuntimeError: muDNN ... NOT_SUPPORTED`

    ## Sources

    torch_musa issues 22, 42, 58 and 75.
    """
    others = (*EIGHT_BITS, OLD_BFLOAT16, ATTENTION, AUTOCAST, SCALER)
    steps = of(device_steps, *FAMILIES, but=others)
    yield from ended([step for step in steps if step.state == "failed"], "fails", BELOW)


@check("device-hangs", layer=Layer.TORCH_MUSA, severity="error")
def device_hangs(device_steps: Steps) -> Judgement:
    """A computation on a device does not come to its end.

    ## Why it matters

    A training run on it stops without a word, and on the other cards waits for this one. A process
    that hangs in the driver cannot always be ended.

    ## How to fix

    Look into the kernel log for a lockup of the GPU or an XID; `musadoctor` reads it. A card that
    hung once often needs the host to be started again. If one operation hangs each time and others
    do not, report it with the place that the message names.

    ## Symptoms

    - `Guilty Lockup` in the kernel log, then `MUSA error: unknown error`

    ## Sources

    torch_musa issues 22 and 75. The limit is that of the step, far above what any card needs.
    """
    yield from ended([step for step in device_steps.items if step.state == "hung"], "hangs", BELOW)


@check("device-crashes", layer=Layer.TORCH_MUSA, severity="error")
def device_crashes(device_steps: Steps) -> Judgement:
    """A computation on a device ends the process.

    ## Why it matters

    No exception tells what happened, and what was not saved is lost.

    ## How to fix

    A crash inside a library usually means that torch, torch_musa and the Toolkit's libraries are
    not of one build: run `musadoctor`. A process that was killed by SIGKILL ran out of the host's
    memory.

    ## Symptoms

    - `Segmentation fault (core dumped)`

    ## Sources

    torch_musa after a change from torch 2.9.1 to 2.10 (Torch-FL pull request 40).
    """
    steps = [step for step in device_steps.items if step.state == "crashed"]
    yield from ended(steps, "ends the process", BELOW)


@check("device-out-of-memory", layer=Layer.TORCH_MUSA, severity="error")
def device_out_of_memory(device_steps: Steps) -> Judgement:
    """A computation of a few megabytes finds no memory on a device.

    ## Why it matters

    Another process holds the memory, or the driver did not take it back from one that has ended.

    ## How to fix

    See who uses the card, and end what is not needed. Where nobody does, the driver has lost it;
    a restart of the host brings it back.

    ## Symptoms

    - `torch.OutOfMemoryError: MUSA out of memory`

    ## Sources

    Each step takes less than 64 MiB.
    """
    steps = [step for step in device_steps.items if step.state == "out of memory"]
    fix = Fix("See which process holds the card's memory", ("mthreads-gmi",))
    yield from ended(steps, "runs out of memory", fix)


@check("device-not-verified", layer=Layer.TORCH_MUSA, severity="error")
def device_not_verified(device_steps: Steps) -> Judgement:
    """Some steps were not taken on a device.

    ## Why it matters

    Nothing is known of it. A device that ended several processes is not tried again.

    ## How to fix

    Repair what the other findings say of the device, and run `musadoctor verify` once more. If the
    run was too short, give it more time with `--timeout`.
    """
    devices: dict[tuple[str, str], int] = {}
    for step in device_steps.items:
        if step.state == "not taken":
            key = (step.device, step.message)
            devices[key] = devices.get(key, 0) + 1
    for (device, why), count in devices.items():
        yield Unknown(f"{device}: {count} step{'s' * (count > 1)} not taken: {why}")


@check("computation-not-implemented", layer=Layer.TORCH_MUSA, severity="warning")
def computation_not_implemented(device_steps: Steps) -> Judgement:
    """An everyday operation is not implemented for a device, or not for a type.

    ## Why it matters

    A program that uses it ends with an exception. torch_musa does not compute on the CPU what it
    lacks.

    ## How to fix

    Look for it in a newer torch_musa. Until then write it with other operations, or bring the
    tensor to the CPU for that one. `musadoctor verify --select fallback` lists all that is missing.

    ## Symptoms

    - `NotImplementedError: Could not run 'aten::...' with arguments from the 'musa' backend`
    - `RuntimeError: "..." not implemented for 'BFloat16'`

    ## Sources

    torch_musa issues 17, 42, 72, 84, 86, 94 and 114.
    """
    steps = of(device_steps, *FAMILIES, but=(*EIGHT_BITS, OLD_BFLOAT16))
    missing = [step for step in steps if step.state == "missing"]
    # A step of several parts says which of them is missing.
    missing += [
        step._replace(name=f"{step.name}: {key.removesuffix(' missing')}", message=str(words))
        for step in steps
        for key, words in step.value.items()
        if key.endswith(" missing")
    ]
    fix = Fix(
        "Look for it in a newer torch_musa, or write it with other operations",
        ("musadoctor verify --select fallback",),
    )
    yield from ended(missing, "is not implemented", fix)


@check("result-wrong", layer=Layer.TORCH_MUSA, severity="error")
def result_wrong(device_steps: Steps) -> Judgement:
    """A device computes something else than the CPU, by more than rounding explains.

    ## Why it matters

    A model gives other answers, or does not learn, and nothing says why.

    ## How to fix

    If one of several equal cards differs, suspect the card: look for XIDs and ECC errors. If all
    do, suspect the software: the pair of torch_musa and muDNN, which `musadoctor` knows. Report the
    operation, the type and the sizes with the numbers of this message.

    ## Sources

    The bounds are derived in docs/verify-tolerances.md; the CPU of torch 1.13 and 2.13 keeps them.
    """
    steps = plain(device_steps)
    bad = [one for one in measures(steps) if one.label.startswith("result") and one.wrong]
    yield from reported(bad, steps, lambda one: one.off, ELSEWHERE)
    yield from unjudged(essential(steps))


@check("gradient-wrong", layer=Layer.TORCH_MUSA, severity="error")
def gradient_wrong(device_steps: Steps) -> Judgement:
    """A device computes wrong gradients.

    ## Why it matters

    A model trains in a wrong direction, though what it computes forward is right.

    ## How to fix

    As with a wrong result: one card of several equal ones is suspect itself, all of them are a
    matter of software. A formula with other operations often avoids the one that is wrong.

    ## Sources

    The bounds are derived in docs/verify-tolerances.md; the CPU of torch 1.13 and 2.13 keeps them.
    """
    steps = plain(device_steps)
    bad = [one for one in measures(steps) if one.label.startswith("gradient") and one.wrong]
    yield from reported(bad, steps, lambda one: one.off, ELSEWHERE)
    yield from unjudged(essential(steps))


@check("result-not-finite", layer=Layer.TORCH_MUSA, severity="error")
def result_not_finite(device_steps: Steps) -> Judgement:
    """A device computes NaN or infinity where a number is right.

    ## Why it matters

    One NaN spreads over a whole model within a step.

    ## How to fix

    If it is an extreme case only (a step named extremes), keep large numbers out of that operation,
    or compute it in float32. Otherwise see whether one card or all have it, as with a wrong result.

    ## Sources

    The right numbers are those of the CPU in float64.
    """
    steps = plain(device_steps)
    bad = [one for one in not_finite(steps) if one.label.startswith("result")]
    yield from reported(bad, steps, infinite, ELSEWHERE)
    yield from unjudged(essential(steps))


@check("gradient-not-finite", layer=Layer.TORCH_MUSA, severity="error")
def gradient_not_finite(device_steps: Steps) -> Judgement:
    """A device computes gradients that are NaN or infinite, where a number is right.

    ## Why it matters

    The first step of training spoils all parameters, though the loss was finite.

    ## How to fix

    Find another formula for the operation that the message names, or compute it in float32, until a
    newer torch_musa or muDNN repairs it. Gradients of attention have a check of their own.

    ## Sources

    The right numbers are those of the CPU in float64.
    """
    steps = plain(device_steps)
    bad = [one for one in not_finite(steps) if one.label.startswith("gradient")]
    yield from reported(bad, steps, infinite, ELSEWHERE)
    yield from unjudged(essential(steps))


@check("reduced-precision-matmul", layer=Layer.TORCH_MUSA, severity="note")
def reduced_precision_matmul(device_steps: Steps) -> Judgement:
    """Products in float32 are computed in TF32 or something like it.

    ## Why it matters

    What a matrix unit takes in TF32 has three digits, not seven. That is fast, and enough for most
    training; it is not for solvers, nor where runs are compared number by number.

    ## How to fix

    Nothing where this is wanted. For all of float32's digits say
    `torch.backends.mudnn.allow_tf32 = False` before anything is computed.

    ## Sources

    torch_musa source, torch.backends.mudnn (2026-01). Which of the two precisions it is is
    measured, as docs/verify-tolerances.md says.
    """
    steps = [step for step in of(device_steps, *FAMILIES) if not _sixteen_bits(step.name)]
    known = [one for one in measures(steps) if f"{one.label} reduced ratio" in one.step.value]
    bad = [one for one in known if one.number("ratio") > 1 and not one.wrong]
    fix = Fix("For all digits: torch.backends.mudnn.allow_tf32 = False before anything is computed")
    for devices, tasks in shared(bad):
        yield Finding(
            f"{some(devices)}: {some(tasks)}: as far off as TF32 is, which has some three digits",
            where=devices[0],
            fix=fix,
        )
    yield from unjudged([step for step in steps if _contracts(step.name)])


@check("sixteen-bit-sums", layer=Layer.TORCH_MUSA, severity="note")
def sixteen_bit_sums(device_steps: Steps) -> Judgement:
    """Sums are kept, or numbers on the way rounded, in 16 bits.

    ## Why it matters

    Most devices add up 16-bit products in float32 and round once. One that rounds each time loses
    digits with the length of the sum: training may stall where it went on elsewhere.

    ## How to fix

    Compare a training run with one in float32 before you rely on it. Where an operation stands out,
    compute that one in float32.

    ## Sources

    Measured; docs/verify-tolerances.md derives where one ends and the other begins.
    """
    steps = [step for step in of(device_steps, *FAMILIES) if _sixteen_bits(step.name)]
    bad = [one for one in measures(steps) if one.number("ratio") > 1 and not one.wrong]
    fix = Fix("Compare a training run with one in float32 before you rely on it")
    for devices, tasks in shared(bad):
        yield Finding(
            f"{some(devices)}: {some(tasks)}: more is rounded to 16 bits than the result",
            where=devices[0],
            fix=fix,
        )
    yield from unjudged([step for step in steps if _contracts(step.name)])


def _sixteen_bits(name: str) -> bool:
    return any(dtype in name for dtype in SIXTEEN_BITS)


def _contracts(name: str) -> bool:
    return name.startswith(("compute: matmul float32", "compute: matmul float16"))


@check("bfloat16-unsupported", layer=Layer.TORCH_MUSA, severity="note")
def bfloat16_unsupported(device_steps: Steps) -> Judgement:
    """The card does not compute in bfloat16.

    ## Why it matters

    MTT S80 and S3000 make tensors of bfloat16 but fail to compute with them, even where
    `torch.musa.is_bf16_supported()` is True.

    ## How to fix

    Use float16 with GradScaler, or float32. This is a limit of the card.

    ## Symptoms

    - an error of any operator on bfloat16 tensors: `"..." not implemented for 'BFloat16'`

    ## Sources

    torch_musa issues 21 and 122 (2025-12); knowledge/limits.toml.
    """
    steps = of(device_steps, OLD_BFLOAT16)
    limit = device_limit("bfloat16")
    unable = [step for step in steps if step.state not in {"done", "skipped", "not taken"}]
    words = f"fails, a known limit ({limit.meaning}; {limit.origin})"
    yield from ended(unable, words, Fix(limit.instead))
    yield from unjudged([step for step in steps if step not in unable])


@check("eight-bit-unsupported", layer=Layer.TORCH_MUSA, severity="note")
def eight_bit_unsupported(device_steps: Steps) -> Judgement:
    """Products of int8 or float8 are not to be had in this build.

    ## Why it matters

    Quantised models that call them need another way: weights that are unpacked to 16 bits first.

    ## How to fix

    Nothing where no eight-bit model is run. Otherwise use kernels that the model's framework brings
    for MUSA, or 16 bits.

    ## Symptoms

    - `NotImplementedError` of `torch._int_mm`

    ## Sources

    torch._int_mm is missing in torch_musa 2.7.1 with Toolkit 4.3.5 (a measurement on MTT S5000,
    2026-07).
    """
    steps = of(device_steps, *EIGHT_BITS)
    for words, state in (("is not implemented", "missing"), ("fails", "failed")):
        fix = Fix("Use 16 bits, or the kernels that the model's framework brings for MUSA")
        yield from ended([step for step in steps if step.state == state], words, fix)
    yield from unjudged([step for step in steps if step.state not in {"missing", "failed"}])
