"""The connections between cards, by ``mthreads-gmi topo -m``.

It prints a table::

             GPU0     GPU1     GPU2     NIC0     CPU Affinity   NUMA Affinity
    GPU0     X        MT2      MT2      NODE     0-47           0
    GPU1     MT2      X        SYS      SYS      0-47           0

A header and the beginning of one row of an 8-card host, and the legend of another, are public; the
rest of the layout is unconfirmed. Cells that are no symbol of the legend are left out.
"""

import re
from collections.abc import Iterator

from musadoctor.commands import gmi_topology
from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.driver import ToolAnswer
from musadoctor.facts.topology import CardPair, Topology, TopologyFact
from musadoctor.probes.gmi import gmi_answer
from musadoctor.probes.once import once
from musadoctor.probes.python import ending
from musadoctor.system import System

_CARD = re.compile(r"GPU\d{1,3}")
_COLUMN = re.compile(r"(?:GPU|NIC)\d{1,3}")
_PATH = re.compile(r"MT\d{1,2}|INT|SPB|MPB|HPB|NODE|SYS")


@once
def topology(system: System) -> TopologyFact:
    """The path between each two cards."""
    answer = gmi_answer(system)
    if not isinstance(answer, ToolAnswer):
        return answer
    if answer.error is not None:
        return Absent(f"{answer.command}: {answer.error}")
    command = gmi_topology(answer.command)
    ran = system.run(command)
    pairs = tuple(dict.fromkeys(parse_topology(ran.out)))
    if pairs:
        return Topology(pairs, str(command))
    said = ran.out.strip().partition("\n")[0][:200]
    return Unknown(f"{command} shows no pair of cards: {said or ending(ran)}")


def parse_topology(out: str) -> Iterator[CardPair]:
    """The pairs in a table; rows may be cut."""
    columns: list[str] = []
    for line in out.splitlines():
        cells = line.split()
        if not columns:
            columns = [cell for cell in cells if _COLUMN.fullmatch(cell)]
        elif cells and _CARD.fullmatch(cells[0]):
            for column, cell in zip(columns, cells[1:], strict=False):
                if _CARD.fullmatch(column) and _PATH.fullmatch(cell):
                    one, other = sorted((int(cells[0][3:]), int(column[3:])))
                    yield CardPair(one, other, cell)
