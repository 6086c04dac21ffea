"""The check of the cards' memory in use."""

import pytest
from given import HEALTHY, gmi, gmi_card, gpus, judged, said
from given import S4000 as CARD

from musadoctor.api import Gmi, GmiProcess
from musadoctor_checks import memory as family

WORK = (GmiProcess(0, 1234, "python3", 47000), GmiProcess(1, 1, "other", 1))
NO_NAME = "mthreads-gmi names no process"


def holding(used: int | None, total: int | None, processes: tuple[GmiProcess, ...] = ()) -> Gmi:
    cards = gpus(CARD)
    card = gmi_card(cards.cards[0])._replace(used_mib=used, total_mib=total)
    return gmi(cards)._replace(cards=(card,), processes=processes)


def test_a_healthy_host_gives_nothing() -> None:
    assert judged(family.gpu_memory_in_use, **HEALTHY).status == "passed"


@pytest.mark.parametrize(
    ("used", "total", "processes", "message"),
    [
        (48000, 49152, WORK, "48000 of 49152 MiB in use; python3 (1234) 47000 MiB"),
        (49152, 49152, (), f"49152 of 49152 MiB in use; {NO_NAME}"),
        (900, 1000, (), f"900 of 1000 MiB in use; {NO_NAME}"),
        (899, 1000, WORK, None),
        (44302, 32768, WORK, None),
        (0, 49152, (), None),
        (None, 49152, (), None),
        (5, None, (), None),
        (0, 0, (), None),
    ],
)
def test_memory_in_use(
    used: int | None, total: int | None, processes: tuple[GmiProcess, ...], message: str | None
) -> None:
    messages = said(family.gpu_memory_in_use, gmi=holding(used, total, processes))
    assert messages == ((f"card 0, MTT S4000: {message}",) if message else ())
