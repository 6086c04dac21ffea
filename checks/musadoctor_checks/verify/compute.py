"""Whether devices compute at all: steps that fail, hang, crash or run out of memory."""

from musadoctor.api import Finding, Fix, Judgement, Layer, Steps, Unknown, check


@check("device-computation-fails", layer=Layer.TORCH_MUSA, severity="error")
def device_computation_fails(device_steps: Steps) -> Judgement:
    """A computation that must work on a device fails.

    ## Why it matters

    Training and inference need it. `torch.musa.is_available()` is True all the same.

    ## How to fix

    Run `musadoctor` first: wrong pairs of driver, Toolkit, muDNN and wheel show here. If it finds
    nothing, report the operation with its type to torch_musa's tracker.
    """
    for step in device_steps.of("compute"):
        if step.state == "failed":
            yield Finding(
                f"{step.device}: {step.name.partition(': ')[2]} fails: {step.message}",
                where=step.device,
                fix=Fix("See whether musadoctor finds a cause below", ("musadoctor",)),
            )
        elif step.state == "not taken":
            yield Unknown(f"{step.device}: {step.name}: {step.message}")
