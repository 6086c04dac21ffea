"""Who holds the memory of the cards."""

from musadoctor.api import Finding, Fix, Gmi, Judgement, Layer, check
from musadoctor_checks._advice import some

NEARLY_ALL = 0.9
"""From this part of a card's memory on nothing of size fits beside what is there."""


@check("gpu-memory-in-use", layer=Layer.DRIVER, severity="note")
def gpu_memory_in_use(gmi: Gmi) -> Judgement:
    """Nearly all memory of a card is in use.

    ## Why it matters

    A program that is started now on this card ends with "out of memory". That is as it should be
    where the work of somebody fills the card; it is not where a process was left behind.

    ## How to fix

    See in `mthreads-gmi` which processes hold the memory, and end those that nobody needs. Choose
    another card by `MUSA_VISIBLE_DEVICES`, or a smaller batch.

    ## Symptoms

    - `RuntimeError: MUSA out of memory`

    ## Sources

    torch_musa issues 14 and 16 (2023-09). That it begins at nine tenths is our choice.
    """
    for card in gmi.cards:
        used, total = card.used_mib, card.total_mib
        # More in use than there is: a wrong total, which is another check's.
        if used is None or not total or not NEARLY_ALL * total <= used <= total:
            continue
        holders = [
            f"{process.name} ({process.pid}) {process.used_mib} MiB"
            for process in gmi.processes
            if process.card == card.ordinal
        ]
        shown = some(holders) if holders else "mthreads-gmi names no process"
        yield Finding(
            f"card {card.ordinal}, {card.name}: {used} of {total} MiB in use; {shown}",
            where=card.bus_id,
            fix=Fix(
                "End the processes that nobody needs, or choose another card by"
                " MUSA_VISIBLE_DEVICES",
                ("mthreads-gmi",),
            ),
        )
