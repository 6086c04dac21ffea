"""Find a fact out once for each system, however many probes need it."""

import threading
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar, cast

from musadoctor.system import System

T = TypeVar("T")
SYSTEMS = 4
"""How many systems are remembered: a program looks at one, a test at a few."""


def once(probe: Callable[[System], T]) -> Callable[[System], T]:
    """A probe that keeps what it found; who asks meanwhile waits for it.

    Its system must not change its answers. Probes call each other in one direction, so that no
    two can wait for each other.
    """
    kept = cast("Callable[[System], T]", lru_cache(SYSTEMS)(probe))
    lock = threading.Lock()

    @wraps(probe)
    def found(system: System) -> T:
        with lock:
            return kept(system)

    return found
