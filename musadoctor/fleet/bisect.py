"""The smallest group of hosts that fails together, by few tries: each takes as long as a job.

A group that holds a failing group is taken to fail too. So the shortest run of hosts, from the
first on, that fails ends with a host that is needed for the failure; with that one held, the same
is done with those before it, until what is held fails by itself: about twice the logarithm of the
number of hosts for each host of the group. A failure that comes and goes is told as one.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

LEAST = 2
"""Hosts that can fail together."""
LARGEST = 8
"""Hosts of a group beyond which a failure is none of a few hosts."""


class Found(NamedTuple):
    """What was found out."""

    group: tuple[str, ...]
    """The smallest group that was seen to fail."""
    smallest: bool
    """Whether no smaller part of it fails, as far as failures repeat themselves."""
    culprit: str
    """The one host of a pair that also fails with a third one, where the other does not."""
    tries: int
    note: str
    """Why it is not known to be the smallest; ``""`` where it is."""


class _EnoughError(Exception):
    """No try is left."""


class _Tries:
    """Tries groups, each once, and remembers the smallest that failed."""

    def __init__(
        self, hosts: Sequence[str], fails: Callable[[tuple[str, ...]], bool | None], most: int
    ) -> None:
        self._hosts = tuple(hosts)
        self._fails = fails
        self._most = most
        self.outcomes: dict[frozenset[str], bool | None] = {frozenset(hosts): True}
        self.best = self._hosts

    def __call__(self, *group: str) -> bool:
        """Whether the group fails; one that cannot fail, or be tried, does not."""
        key = frozenset(group)
        if len(key) < LEAST:
            return False
        if key not in self.outcomes:
            if len(self.outcomes) > self._most:
                raise _EnoughError
            # In the order of the user's, so that the same group is always asked in the same way.
            asked = tuple(host for host in self._hosts if host in key)
            self.outcomes[key] = self._fails(asked)
            if self.outcomes[key] and len(asked) < len(self.best):
                self.best = asked
        return self.outcomes[key] is True

    def found(self, note: str = "", culprit: str = "") -> Found:
        """What came of all tries."""
        if None in self.outcomes.values():
            note = note or "some groups could not be tried"
        return Found(self.best, not note, culprit, len(self.outcomes) - 1, note)


def smallest_failing(
    hosts: Sequence[str],
    fails: Callable[[tuple[str, ...]], bool | None],
    *,
    most: int,
    suspects: Sequence[str] = (),
) -> Found:
    """Look for it among ``hosts``, which failed together, in ``most`` tries.

    ``fails`` tries a group: whether it fails, or ``None`` where it could not be tried. ``suspects``
    are hosts that the failure named; where they are what is wrong it is found sooner.
    """
    named = set(suspects)
    left = sorted(hosts, key=lambda host: host not in named)
    tries = _Tries(hosts, fails, most)
    held: list[str] = []
    try:
        while left and len(held) < LARGEST and not tries(*held):
            end = _shortest(left, held, tries)
            held.append(left[end - 1])
            left = left[: end - 1]
        if not tries(*held):
            return tries.found("the failure did not come again in a small group")
        culprit = _culprit(tries.best, hosts, tries) if len(tries.best) == LEAST else ""
        return tries.found(culprit=culprit)
    except _EnoughError:
        return tries.found(f"given up after {most} tries")


def _shortest(hosts: Sequence[str], held: Sequence[str], tries: _Tries) -> int:
    """The length of the shortest run from the first host on that fails; the whole one does."""
    passes, fails = 0, 1
    while fails < len(hosts) and not tries(*held, *hosts[:fails]):
        passes, fails = fails, 2 * fails
    fails = min(fails, len(hosts))
    while fails - passes > 1:
        middle = (passes + fails) // 2
        if tries(*held, *hosts[:middle]):
            fails = middle
        else:
            passes = middle
    return fails


def _culprit(pair: Sequence[str], hosts: Sequence[str], tries: _Tries) -> str:
    """The host of a pair that fails with others too; ``""`` where it is between the two."""
    third = next((host for host in hosts if host not in pair), None)
    if third is None:
        return ""
    first, second = (tries(host, third) for host in pair)
    return "" if first == second else pair[0] if first else pair[1]
