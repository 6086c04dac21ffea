"""Carry an errand to many hosts: keep what comes the moment it comes, and miss nobody."""

import threading
import time
from collections.abc import Callable, Sequence

from musadoctor.fleet.answer import NOT_ASKED, SILENT, Answer, envelope
from musadoctor.fleet.carry.errand import Engine, Errand
from musadoctor.fleet.gather import Collected, Gathered
from musadoctor.fleet.keep import KeepError, Kept


class Run:
    """One errand to the hosts of an engine, and what has come of it until now."""

    def __init__(self, engine: Engine, hosts: Sequence[str], kept: Kept | None) -> None:
        """Ask ``hosts``, as far as the engine can tell them; ``kept`` gets every answer."""
        self._engine = engine
        self._left = dict.fromkeys(hosts)
        self._kept = kept
        self._collected = Collected()
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self.not_kept = ""
        """Why answers are no longer kept."""

    def carry(self, errand: Errand, heard: Callable[[str], None]) -> None:
        """Do the errand everywhere; ``heard`` gets the name of each host that was told of.

        Raises:
            EngineError: nothing was carried at all.
        """

        def arrived(answer: Answer) -> None:
            self._take(answer)
            heard(answer.host)

        self._engine.carry(errand, arrived, self._cancelled)

    def stop(self) -> None:
        """End what runs, here and on the hosts."""
        self._cancelled.set()

    def gathered(self) -> Gathered:
        """All that has come; of hosts that nothing was heard of, that."""
        stopped = self._cancelled.is_set()
        for host in tuple(self._left):
            if stopped:
                self._take(Answer(host, None, NOT_ASKED, "interrupted before it had answered"))
            else:
                self._take(Answer(host, None, SILENT, f"{self._engine.name} told nothing of it"))
        with self._lock:
            return self._collected.gathered()

    def _take(self, answer: Answer) -> None:
        with self._lock:
            self._left.pop(answer.host, None)
            self._collected.add(answer)
            if self._kept is None or self.not_kept:
                return
            taken = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            try:
                self._kept.put(envelope(answer, via=self._engine.name, taken=taken))
            except KeepError as error:
                self.not_kept = str(error)
