"""Which operators would not run on the device, and what that costs a model."""

from collections.abc import Mapping

from musadoctor.api import Absent, Finding, Fix, Judgement, Layer, Step, Steps, Unknown, check
from musadoctor_checks._advice import some
from musadoctor_checks.verify._steps import (
    done,
    mapping,
    number,
    rows,
    size,
    texts,
    unanswered,
)

STATIC, EVERYDAY, MODEL = "fallback: static", "fallback: common operators", "fallback: model"
ON_DEVICE = {"covered", "composite"}
MEANING = {
    "falls back": "is computed on the CPU",
    "missing": "is missing: a call raises NotImplementedError",
    "elsewhere": "has no kernel on this device, and none on the CPU",
    "no such operator": "is no operator of this torch",
}
TABLE = ("musadoctor verify --select fallback --json",)


@check("required-operator-off-device", layer=Layer.TORCH_MUSA, severity="error")
def required_operator_off_device(device_steps: Steps) -> Judgement:
    """An operator that was required by name does not run on the device.

    ## Why it matters

    `--require-ops FILE` names the operators that a workload cannot do without. One that is missing
    stops it with `NotImplementedError`; one that is computed on the CPU copies its tensors there
    and back at each call. Both are seen in the dispatcher's tables, without a call; copies that a
    kernel of the device makes by itself are seen where a model or the list of everyday operators
    was run in the same run.

    ## How to fix

    Take a torch_musa that has the operator, write the model without it, or take it out of the file
    if the price is acceptable. An operator that is made of others counts as being on the device:
    `--audit` shows what becomes of its parts.

    ## Symptoms

    - `NotImplementedError: Could not run 'aten::...' with arguments from the 'musa' backend`

    ## Sources

    PyTorch's dispatcher (`torch._C._dispatch_dump_table`, seen in 2.13). torch_musa 2.7.1 has no
    general fallback to the CPU in its public source, and some of its kernels copy by themselves.
    """
    yield from unanswered(device_steps, STATIC)
    asked = False
    copying = _copying(device_steps)
    for step in done(device_steps, STATIC):
        for name, state in mapping(step.value, "required").items():
            asked = True
            where = copying.get(name.rpartition("::")[2].removeprefix("torch.").partition(".")[0])
            if state not in ON_DEVICE:
                message = f"{name} {MEANING.get(state, state)}"
            elif where:
                message = f"{name} copies to the CPU inside its kernel ({where})"
            else:
                continue
            yield Finding(
                f"{step.device}: the required operator {message}",
                where=name,
                fix=Fix(
                    "Take a torch_musa that has it, or write the model without it; its other"
                    " states are in the report as JSON",
                    TABLE,
                ),
            )
    if done(device_steps, STATIC) and not asked:
        yield Absent("no operator was named with --require-ops")


def _copying(steps: Steps) -> dict[str, str]:
    """Operators that were seen to leave the device, and in what."""
    return {
        str(row.get("operator")).rpartition("::")[2]: step.name.partition(": ")[2]
        for step in steps.of("fallback")
        for row in rows(step.value, "operators")
    }


@check("operators-not-on-device", layer=Layer.TORCH_MUSA, severity="note")
def operators_not_on_device(device_steps: Steps) -> Judgement:
    """Operators that the CPU has are missing on the device.

    ## Why it matters

    A model that calls one stops with `NotImplementedError`. No device has them all, and most models
    need few of them: what counts is whether yours does, which `musadoctor verify --audit
    module:function` shows.

    ## How to fix

    Look for the operators of your model in the list, which the report as JSON holds whole, and name
    those that it cannot do without in a file for `--require-ops`.

    ## Sources

    PyTorch's dispatcher (`torch._C._dispatch_dump_table`, seen in 2.13).
    """
    yield from _listed(device_steps, "missing", "are missing")


@check("operator-falls-back", layer=Layer.TORCH_MUSA, severity="note")
def operator_falls_back(device_steps: Steps) -> Judgement:
    """Operators would be computed on the CPU by the dispatcher's fallback.

    ## Why it matters

    Each call copies its tensors to the CPU and back and waits for both. Results are right, and a
    training loop that does it often is many times slower.

    ## How to fix

    `musadoctor verify --audit module:function` shows which of them your model calls, how often, and
    what that costs. Operators that it cannot do without go into a file for `--require-ops`.

    ## Sources

    PyTorch's dispatcher (`torch._C._dispatch_dump_table`, seen in 2.13). torch_musa 2.7.1 has no
    such fallback in its public source.
    """
    yield from _listed(device_steps, "falls_back", "are computed on the CPU")


def _listed(steps: Steps, key: str, what: str) -> Judgement:
    yield from unanswered(steps, STATIC)
    for step in done(steps, STATIC):
        names = texts(step.value, key)
        if names:
            # Those that are called by name come before the parts of others.
            names.sort(key=lambda name: (name.startswith("_"), "." in name, "backward" in name))
            total = number(step.value, "operators") or 0
            yield Finding(
                f"{step.device}: {len(names)} of {total:.0f} operators {what}: {some(names, 8)}",
                where=step.device,
                fix=Fix("The whole list is in the report as JSON", TABLE),
            )


@check("common-operator-fails", layer=Layer.TORCH_MUSA, severity="warning")
def common_operator_fails(device_steps: Steps) -> Judgement:
    """Operators of everyday training fail on the device.

    ## Why it matters

    The list holds what most models are made of: products, convolutions, norms, losses, indexing,
    sorting, random numbers, each forward and backward. A model that needs one that fails stops.

    ## How to fix

    Take a torch_musa that has the operator, or write the model without it. What raises another
    error than `NotImplementedError` is worth a report to torch_musa's tracker.

    ## Symptoms

    - `NotImplementedError: Could not run 'aten::...' with arguments from the 'musa' backend`

    ## Sources

    torch_musa's FAQ: operators that are missing raise, and do not fall back.
    """
    yield from unanswered(device_steps, EVERYDAY)
    for step in done(device_steps, EVERYDAY):
        for key, what in (("missing", "are not implemented"), ("failed", "fail")):
            broken = mapping(step.value, key)
            if broken:
                name, message = next(iter(broken.items()))
                yield Finding(
                    f"{step.device}: of {number(step.value, 'tried') or 0:.0f} common operators"
                    f" {len(broken)} {what}: {some(list(broken), 8)}; {name}: {message}",
                    where=step.device,
                    fix=Fix("Every message is in the report as JSON", TABLE),
                )


@check("model-does-not-run", layer=Layer.TORCH_MUSA, severity="error")
def model_does_not_run(device_steps: Steps) -> Judgement:
    """A model does not come to the end of a step on the device.

    ## Why it matters

    A step of training of a small transformer block or convolutional net, or the function named with
    `--audit`, was started and did not end: an operator is missing or fails, or the device hangs.

    ## How to fix

    The message names the operator, or the place where it hung. Run `musadoctor` first: a wrong pair
    of driver, Toolkit, muDNN and wheel shows here. For an operator that is missing take a
    torch_musa that has it, or write the model without it.

    ## Symptoms

    - `NotImplementedError: Could not run 'aten::...' with arguments from the 'musa' backend`

    ## Sources

    torch_musa's FAQ: operators that are missing raise, and do not fall back.
    """
    ended = {"done", "skipped", "not taken"}
    broken = [step for step in device_steps.of(MODEL) if step.state not in ended]
    for step in broken:
        yield Finding(
            f"{step.device}: {step.name.partition(': ')[2]} {_HOW.get(step.state, 'fails')}:"
            f" {step.message}",
            where=step.device,
            fix=Fix("See whether musadoctor finds a cause below", ("musadoctor",)),
        )
    if not broken:
        yield from unanswered(device_steps, MODEL)


_HOW = {
    "missing": "needs an operator that is not implemented",
    "out of memory": "runs out of memory",
    "hung": "hangs",
    "crashed": "crashes",
}


@check("model-leaves-device", layer=Layer.TORCH_MUSA, severity="warning")
def model_leaves_device(device_steps: Steps) -> Judgement:
    """A model leaves the device while it runs: operators copy to the CPU and compute there.

    ## Why it matters

    Each of these calls waits for the device, copies tensors to the CPU, and mostly back. The share
    of time is what the call spends in them; with larger tensors it grows. The built-in models and
    the list of everyday operators are small, so that their share tells which operators are
    concerned, and a model of your own, named with `--audit`, tells what it costs.

    ## How to fix

    Replace the operators at the top of the table, which is sorted by the time they take, or take a
    torch_musa that has them on the device. Copies that the program itself asks for, as with
    `.cpu()`, are counted apart and are no finding.

    ## Sources

    Events of PyTorch's profiler with the devices of their tensors: in an operator, a copy from the
    device to the CPU.
    """
    lost = [*unanswered(device_steps, EVERYDAY), *unanswered(device_steps, MODEL)]
    audited = [*done(device_steps, EVERYDAY), *done(device_steps, MODEL)]
    yield from (why for why in lost if not audited or isinstance(why, Unknown))
    for step in audited:
        leaving = rows(step.value, "operators")
        if leaving:
            yield _left(step, leaving)
        elif not number(step.value, "calls_on_device"):
            yield Unknown(f"{step.device}: {_subject(step)} called no operator on the device")


def _left(step: Step, leaving: list[Mapping[str, object]]) -> Finding:
    calls = sum(number(row, "count") or 0 for row in leaving)
    copied = sum(number(row, "bytes") or 0 for row in leaving)
    share = number(step.value, "share") or 0
    seconds = number(step.value, "seconds") or 0
    names = [
        f"{str(row.get('operator')).removeprefix('aten::')} ({number(row, 'count') or 0:.0f} x)"
        for row in leaving
    ]
    return Finding(
        f"{step.device}: {_subject(step)}: {number(step.value, 'leaving') or 0:.0f} operators leave"
        f" the device in {calls:.0f} calls, {share:.0%} of {seconds * 1000:.0f} ms, {size(copied)}"
        f" copied: {some(names)}",
        where=step.device,
        fix=Fix(
            "Replace the operators that take the most time; the table is below with --verbose",
            TABLE,
        ),
    )


def _subject(step: Step) -> str:
    return str(step.value.get("function") or step.name.partition(": ")[2])
