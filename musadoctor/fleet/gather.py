"""Reads reports and recordings of many hosts, in any mix, one after the other."""

import os
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar, cast

from musadoctor.fleet.answer import DAMAGED, SILENT, Answer, line
from musadoctor.fleet.documents import Told, documents, judged, report_of
from musadoctor.fleet.nodes import natural
from musadoctor.fleet.sources import PIECE, Piece, pieces, split
from musadoctor.fleet.state import LeftOut, Unanswered
from musadoctor.fleet.summary import ForeignError, HostSummary
from musadoctor.fleet.traits import with_none
from musadoctor.fleet.workers import side_by_side

ALONE = 0.5
"""Seconds of reading before other processes are started, which takes about as long."""
MOST_PROCESSES = 8
"""One process reads files for so many others, no faster."""
MOST_IN_BATCH = 100
MOST_LEFT_OUT = 100
"""That are named of one file."""
T = TypeVar("T", bound=Hashable)
_Batch = Sequence[Piece | LeftOut]


class Gathered(NamedTuple):
    """All that was read, each host once."""

    hosts: tuple[HostSummary, ...]
    unanswered: tuple[Unanswered, ...]
    left_out: tuple[LeftOut, ...]


class NothingError(Exception):
    """No file can be read at all; one sentence."""


class Collected:
    """What comes of many hosts, one after the other, each held once and in little room."""

    def __init__(self, expected: Iterable[str] = ()) -> None:
        """Begin with nothing; ``expected`` are hosts that ought to come."""
        self._expected = tuple(expected)
        self._hosts: dict[str, Told] = {}
        self._left_out: list[LeftOut] = []
        self._of_file: Counter[str] = Counter()
        self._known: dict[Hashable, Hashable] = {}

    def add(self, answer: Answer, *, taken: str = "") -> None:
        """Take in what came of asking a host."""
        host, source = answer.host, f"the answer of {answer.host}"
        if answer.report is None:
            unanswered = Unanswered(host, answer.kind, line(answer.reason))
            return self.take(Told(host, taken, source, unanswered))
        try:
            report = report_of(answer.report)
        except ForeignError as error:
            return self.take(Told(host, taken, source, Unanswered(host, DAMAGED, str(error))))
        return self.take(judged(host, report, source, taken))

    def take(self, one: Told | LeftOut) -> None:
        """Take in what a file tells."""
        if isinstance(one, LeftOut):
            file = one.source.partition(", line ")[0]
            self._of_file[file] += 1
            if self._of_file[file] <= MOST_LEFT_OUT:
                self._left_out.append(one)
            return
        before = self._hosts.get(one.host)
        if before is None:
            self._hosts[one.host] = self._small(one)
            return
        kept, other = (one, before) if _rank(one) > _rank(before) else (before, one)
        self._hosts[one.host] = self._small(kept)
        better = "is newer" if kept.taken > other.taken else "was taken"
        self.take(LeftOut(other.source, f"{one.host} stands in {kept.source} too, which {better}"))

    @property
    def empty(self) -> bool:
        """Whether nothing tells of a host."""
        return not self._hosts

    def gathered(self) -> Gathered:
        """All of it, by the hosts' names."""
        told = [self._hosts[host].told for host in sorted(self._hosts, key=natural)]
        told += (
            Unanswered(host, SILENT, "nothing was given that tells of it")
            for host in dict.fromkeys(self._expected)
            if host not in self._hosts
        )
        hosts = [one for one in told if isinstance(one, HostSummary)]
        with_none([cast("dict[str, str]", host.traits) for host in hosts])
        more = (
            LeftOut(file, f"{count - MOST_LEFT_OUT} more are left out")
            for file, count in self._of_file.items()
            if count > MOST_LEFT_OUT
        )
        return Gathered(
            tuple(hosts),
            tuple(one for one in told if isinstance(one, Unanswered)),
            (*self._left_out, *more),
        )

    def _small(self, one: Told) -> Told:
        """The same with each text and cause that other hosts have held once."""
        if isinstance(one.told, Unanswered):
            return one
        once = self._once
        traits = {once(name): once(value) for name, value in one.told.traits.items()}
        causes = tuple(once(cause) for cause in one.told.causes)
        return one._replace(told=one.told._replace(traits=traits, causes=causes))

    def _once(self, value: T) -> T:
        return cast("T", self._known.setdefault(value, value))


def _rank(one: Told) -> tuple[str, bool]:
    return one.taken, isinstance(one.told, HostSummary)


def gather(paths: Sequence[str], *, expected: Iterable[str] = ()) -> Gathered:
    """Read files, folders, and ``-`` for standard input.

    ``expected`` are hosts that ought to be there; those that are not are unanswered.

    Raises:
        NothingError: nothing of what was named is there, or nothing in it is a report.
    """
    collected = Collected(expected)
    for one in read(paths):
        collected.take(one)
    gathered = collected.gathered()
    if collected.empty:
        reasons = [f"{one.source}: {one.reason}" for one in gathered.left_out]
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        raise NothingError(
            f"no report was found: {reasons[0] if reasons else 'no file named'}{more}"
        )
    return gathered


def read(paths: Sequence[str]) -> Iterator[Told | LeftOut]:
    """All that files tell, in their order; many of them are read by several processes."""
    begun = time.monotonic()
    batches = _batches(pieces(paths))
    for batch in batches:
        if time.monotonic() - begun > ALONE:
            processes = min(MOST_PROCESSES, len(os.sched_getaffinity(0)))
            yield from _side_by_side(chain([batch], batches), processes)
            return
        yield from _told(batch)


def _side_by_side(batches: Iterable[_Batch], processes: int) -> Iterator[Told | LeftOut]:
    for result in side_by_side(_told, batches, processes=processes):
        if isinstance(result, list):
            yield from result
        elif isinstance(result.item, Piece) and (halves := split(result.item)):
            yield from _side_by_side([[half] for half in halves], 1)
        else:
            where = result.item.where if isinstance(result.item, Piece) else result.item.source
            yield LeftOut(where, "the process that read it died; was it out of memory?")


def _batches(found: Iterable[Piece | LeftOut]) -> Iterator[_Batch]:
    """Batches that are worth to be sent to another process."""
    batch: list[Piece | LeftOut] = []
    size = 0
    for one in found:
        batch.append(one)
        size += len(one.data) if isinstance(one, Piece) else 0
        if size >= PIECE or len(batch) == MOST_IN_BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _told(batch: _Batch) -> list[Told | LeftOut]:
    told: list[Told | LeftOut] = []
    for one in batch:
        told += documents(one) if isinstance(one, Piece) else [one]
    return told
