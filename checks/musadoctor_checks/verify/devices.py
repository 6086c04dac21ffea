"""Whether the devices are there that were to be verified."""

from typing import cast

from musadoctor.api import Finding, Fix, Judgement, Layer, Steps, check


@check("no-device-to-verify", layer=Layer.TORCH_MUSA, severity="error")
def no_device_to_verify(visible_devices: Steps) -> Judgement:
    """torch sees no device, so nothing was computed.

    ## Why it matters

    Nothing is known of a host on which nothing was run.

    ## How to fix

    `musadoctor` finds out why torch sees none: driver, Toolkit, pairing, permissions, variables.
    """
    for step in visible_devices.of("census: devices"):
        if step.state == "done" and not step.value.get("devices"):
            yield Finding(
                f"torch of {visible_devices.source} sees no {step.device} device",
                where=visible_devices.source,
                fix=Fix("Let musadoctor find out why", ("musadoctor",)),
            )


@check("device-to-verify-not-there", layer=Layer.TORCH_MUSA, severity="error")
def device_to_verify_not_there(visible_devices: Steps) -> Judgement:
    """A device that was to be verified is not there.

    ## Why it matters

    The report is about fewer devices than were asked for.

    ## How to fix

    Numbers are those that torch counts within `MUSA_VISIBLE_DEVICES`, from 0. Give numbers that
    exist, or find out with `musadoctor` why a card is missing.
    """
    for step in visible_devices.of("census: devices"):
        missing = cast("list[object]", step.value.get("missing", []))
        known = len(cast("list[object]", step.value.get("devices", [])))
        if missing:
            names = ", ".join(f"{step.device}:{number}" for number in missing)
            yield Finding(
                f"--devices names {names}, and torch sees {known} (0 to {known - 1})"
                if known
                else f"--devices names {names}, and torch sees none",
                where="--devices",
                fix=Fix("Give numbers of devices that are there"),
            )
