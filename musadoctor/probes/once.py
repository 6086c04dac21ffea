"""Find a fact out once for each system, however many probes need it."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar, cast

from musadoctor.system import System

T = TypeVar("T")
SYSTEMS = 4
"""How many systems are remembered: a program looks at one, a test at a few."""


def once(probe: Callable[[System], T]) -> Callable[[System], T]:
    """A probe that keeps what it found. Its system must not change its answers."""
    return cast("Callable[[System], T]", lru_cache(SYSTEMS)(probe))
