"""Whether there is something to protect."""

from musadoctor.api import Absent, Finding, Fix, Judgement, Layer, Requirements, Stack, check


@check("vendor-torch-absent", layer=Layer.REQUIREMENTS, severity="note")
def vendor_torch_absent(requirements: Requirements, stack: Stack | Absent) -> Judgement:  # noqa: ARG001
    """The environment has no torch of Moore Threads yet.

    ## Why it matters

    Whatever asks for torch there gets a stock build, made for CUDA or for the CPU.

    ## How to fix

    Install the vendor's torch and torch_musa first, and everything else after them.

    ## Sources

    The vendor's installation guides, 2026.
    """
    if isinstance(stack, Stack) and not stack.vendor:
        yield Finding(
            f"no torch of Moore Threads is installed ({stack.source})",
            fix=Fix("Install the vendor's torch and torch_musa before anything that needs torch"),
        )
