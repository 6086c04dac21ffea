"""How the cards of a host are connected with each other."""

from collections import Counter
from typing import NamedTuple

from musadoctor.facts.base import Absent, Unknown


class CardPair(NamedTuple):
    """Two cards and the path between them."""

    one: int
    other: int
    path: str
    """As ``mthreads-gmi topo -m`` calls it: ``MT2`` (two bonded MTLinks), ``INT``, ``SPB``,
    ``MPB``, ``HPB``, ``NODE``, ``SYS``."""


class Topology(NamedTuple):
    """The pairs of cards, each once, the lower number first."""

    pairs: tuple[CardPair, ...]
    source: str

    def path(self, one: int, other: int) -> str:
        """The path between two cards, empty where it is not told."""
        wanted = (min(one, other), max(one, other))
        return next((pair.path for pair in self.pairs if pair[:2] == wanted), "")

    def __str__(self) -> str:
        paths = Counter(pair.path for pair in self.pairs)
        told = ", ".join(f"{count} {path}" for path, count in paths.most_common())
        return f"{len(self.pairs)} pairs of cards: {told}"


TopologyFact = Topology | Absent | Unknown
