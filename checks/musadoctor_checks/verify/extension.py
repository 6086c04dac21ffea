"""Whether extensions for the device can be built."""

from musadoctor.api import Absent, Finding, Fix, Judgement, Layer, Steps, check
from musadoctor_checks.verify._steps import done, number, unanswered


@check("extension-does-not-build", layer=Layer.TOOLKIT, severity="warning")
def extension_does_not_build(extension_steps: Steps | Absent) -> Judgement:
    """An extension for the device cannot be built, or does not compute what it should.

    ## Why it matters

    Packages with kernels of their own (vllm-musa, MATE, flash attention) are built in this way, and
    so is everything that compiles at run time.

    ## How to fix

    The message is the first line in which the build says what went wrong. A header that is missing
    comes with the Toolkit's or torch's development files; an architecture that is not supported
    needs a newer Toolkit; `undefined symbol` at the import shows that the compiler's C++ ABI and
    torch's differ, or that torch and torch_musa do not belong together.

    ## Symptoms

    - `fatal error: musa_runtime.h: No such file or directory`

    ## Sources

    A kernel, compiled by mcc through `torch_musa.utils.musa_extension`. That way is known from
    torch_musa's own extensions; musadoctor has not seen it on a real host yet.
    """
    if isinstance(extension_steps, Absent):
        yield Absent("an extension is built by --deep only")
        return
    ended = {"done", "skipped", "not taken"}
    broken = [step for step in extension_steps.of("extension") if step.state not in ended]
    for step in broken:
        yield Finding(
            f"{step.device}: a small extension does not build or run: {step.message}",
            where=step.device,
            fix=Fix("See whether musadoctor finds a cause in Toolkit and wheels", ("musadoctor",)),
        )
    if not broken:
        yield from unanswered(extension_steps, "extension")
    for step in done(extension_steps, "extension"):
        if wrong := number(step.value, "wrong"):
            yield Finding(
                f"{step.device}: an extension built by {step.value.get('mcc')} for"
                f" {step.value.get('architecture')} gives {wrong:.0f} of"
                f" {number(step.value, 'numbers') or 0:.0f} numbers wrong",
                where=step.device,
            )
