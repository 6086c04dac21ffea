"""What this site wants of its racks."""

from musadoctor.api import Absent, Finding, Fix, Gpus, Judgement, Layer, check


@check("rack-upside-down", layer=Layer.HARDWARE, severity="note")
def rack_upside_down(gpus: Gpus | Absent) -> Judgement:
    """The rack is upside down.

    ## Why it matters

    Cooling counts on gravity.

    ## How to fix

    Turn it over.
    """
    if isinstance(gpus, Gpus) and len(gpus.cards) > 64:
        yield Finding(f"{len(gpus.cards)} cards in one host", fix=Fix("Turn it over"))
