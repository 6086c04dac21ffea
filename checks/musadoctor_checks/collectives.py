"""MCCL, by which several cards work together."""

from musadoctor.api import (
    Collectives,
    Finding,
    Fix,
    Judgement,
    Layer,
    TorchMusa,
    TorchMusaBuild,
    check,
)

WITH_MCCL = ("S4000", "S5000", "X10000")
"""Cards that the vendor supplies MCCL for; mthreads-gmi calls some S5000 X10000
(MUSA SDK 5.2.0 install guide; README of torch_musa 2.1.1)."""


def _supplied(torch_musa: TorchMusa) -> bool:
    names = [device.name or "" for device in torch_musa.devices]
    return any(model in name for name in names for model in WITH_MCCL)


@check(
    "mccl-backend-missing", layer=Layer.COLLECTIVES, severity="error", follows_from=Layer.TOOLKIT
)
def mccl_backend_missing(
    collectives: Collectives, torch_musa: TorchMusa, torch_musa_build: TorchMusaBuild
) -> Judgement:
    """torch.distributed has no backend mccl, and there are several cards.

    ## Why it matters

    Training and serving across cards of one host or of several goes through MCCL. Without it each
    card works alone.

    ## How to fix

    Install MCCL for the card (`mccl-s5000`, `mccl-s4000`), and a torch_musa that was built with it.

    ## Symptoms

    - `ValueError: Invalid backend: 'mccl'`

    ## Sources

    MUSA SDK 5.2.0 install guide (2026); torch_musa issues 5 and 102.
    """
    count = torch_musa.device_count or 0
    if not collectives.available and count > 1 and _supplied(torch_musa):
        yield Finding(
            f"{collectives}, with {count} visible devices and torch_musa"
            f" {torch_musa_build.version}",
            fix=Fix(
                "Install the MCCL of the Toolkit's SDK release, and a torch_musa that was built"
                " with it (not with USE_MCCL=0)"
            ),
        )


@check("mccl-backend-not-needed", layer=Layer.COLLECTIVES, severity="note")
def mccl_backend_not_needed(collectives: Collectives, torch_musa: TorchMusa) -> Judgement:
    """torch.distributed has no backend mccl, which this host can do without.

    ## Why it matters

    With a single card nothing needs it, apart from programs that start a process group for one
    process. For S80, S3000 and consumer cards the vendor supplies no MCCL.

    ## How to fix

    Nothing. A program that asks for a process group on one card can use `gloo`.

    ## Sources

    README of torch_musa 2.1.1 and later; torch_musa issues 5 and 102.
    """
    count = torch_musa.device_count or 0
    supplied = _supplied(torch_musa)
    if not collectives.available and (count == 1 or (count > 1 and not supplied)):
        names = ", ".join(dict.fromkeys(d.name for d in torch_musa.devices if d.name)) or "the card"
        reason = "" if supplied else f"; the vendor supplies no MCCL for {names}"
        yield Finding(f"{collectives}, with {count} visible devices{reason}")
