"""What is to be done on every host, and what an engine is."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from musadoctor.fleet.answer import Answer

Arrived = Callable[[Answer], None]
"""Takes one host's answer, the moment it is there; called by one thread at a time."""
CONNECT_SECONDS = 10
"""Until a host has to have let us in."""
GRACE_SECONDS = 20.0
"""What a host may take beyond its own limit: to be reached, to start Python, to hand back."""


class EngineError(Exception):
    """Nothing can be carried; one sentence that says what is missing."""


class Errand(NamedTuple):
    """What is to be done on every host."""

    arguments: tuple[str, ...]
    """Of musadoctor there: ``--json`` and what else was asked for."""
    seconds: float
    """The longest that a host may take, from the first contact on."""
    command: tuple[str, ...] = ("musadoctor",)
    """musadoctor on the hosts, where it is installed."""
    zipapp: bytes | None = None
    """musadoctor in one file, to be brought along."""
    variables: Mapping[str, Mapping[str, str]] = {}
    """Environment for single hosts, by their name."""

    def of(self, host: str) -> "Errand":
        """The same for one host: nothing in it is another's."""
        own = {name: changes for name, changes in self.variables.items() if name == host}
        return self._replace(variables=own)


class Engine(Protocol):
    """A way to many hosts that the site already has."""

    @property
    def name(self) -> str:
        """``ssh``."""
        ...

    def hosts(self) -> Sequence[str]:
        """Who is going to be asked, as far as this can be known beforehand.

        Raises:
            EngineError: the engine is not there, or cannot tell.
        """
        ...

    def only(self, hosts: Sequence[str]) -> "Engine":
        """The same engine for some of its hosts, which are then all asked at once."""
        ...

    def address(self, host: str) -> str:
        """By what other hosts reach this one, as far as the engine knows: else its name.

        Raises:
            EngineError: ranks on its hosts cannot reach each other.
        """
        ...

    def carry(self, errand: Errand, arrived: Arrived, cancelled: threading.Event) -> None:
        """Do the errand on every host; returns when each has answered or was given up.

        Every host is told of exactly once, those that did not answer too. Where ``cancelled`` is
        set, nothing more is begun, what runs is ended, on the hosts as well, and the call returns
        within seconds; hosts that had not answered are then left out.

        Raises:
            EngineError: nothing was carried at all.
        """
        ...
