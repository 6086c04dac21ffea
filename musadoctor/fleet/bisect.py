"""The smallest group of hosts that fails together, by few tries: each takes as long as a job.

A group that holds a failing group is taken to fail too. So the shortest run of hosts, from the
first on, that fails ends with a host that is needed for the failure; with that one held, the same
is done with those before it, until what is held fails by itself: about twice the logarithm of the
number of hosts for each host of the group. Where nothing fails any more all of them are tried once
again, so that a failure that comes and goes is told as one.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

LEAST = 2
"""Hosts that can fail together."""
LARGEST = 8
"""Hosts of a group beyond which a failure is none of a few hosts."""
PATIENCE = 4
"""Groups that pass, before all hosts are tried once again to see whether they still fail; and that
could not be tried, before no more are.
"""


class Found(NamedTuple):
    """What was found out."""

    group: tuple[str, ...]
    """The smallest group that was seen to fail."""
    smallest: bool
    """Whether no smaller part of it fails, as far as failures repeat themselves."""
    third: str
    """Of a pair: the host beside which each of the two was tried; ``""`` where there was none."""
    elsewhere: tuple[str, ...]
    """Those of the pair that fail beside the third as well."""
    tries: int
    note: str
    """Why it is not known to be the smallest; ``""`` where it is."""

    @property
    def culprit(self) -> str:
        """The one host of a pair that also fails elsewhere, where the other does not."""
        return self.elsewhere[0] if len(self.elsewhere) == 1 else ""


class _EnoughError(Exception):
    """There is nothing more to try; one clause that says why."""


class _Tries:
    """Tries groups, each once, and remembers the smallest that failed."""

    def __init__(
        self, hosts: Sequence[str], fails: Callable[[tuple[str, ...]], bool | None], most: int
    ) -> None:
        self._hosts = tuple(hosts)
        self._fails = fails
        self._most = most
        self._again = False
        self.outcomes: dict[frozenset[str], bool | None] = {frozenset(hosts): True}
        self.best = self._hosts

    @property
    def number(self) -> int:
        """How many tries there were."""
        return len(self.outcomes) - 1 + self._again

    def __call__(self, *group: str) -> bool:
        """Whether the group fails; one that cannot fail, or be tried, does not."""
        key = frozenset(group)
        if len(key) < LEAST:
            return False
        if key not in self.outcomes:
            known = list(self.outcomes.values())
            if known.count(None) >= PATIENCE:
                raise _EnoughError(f"{PATIENCE} groups could not be tried")
            if known.count(False) >= PATIENCE:
                self.confirm()
            # In the order of the user's, so that the same group is always asked in the same way.
            asked = tuple(host for host in self._hosts if host in key)
            self.outcomes[key] = self._try(asked)
            if self.outcomes[key] and len(asked) < len(self.best):
                self.best = asked
        return self.outcomes[key] is True

    def confirm(self) -> None:
        """See whether all hosts still fail together, where nothing has failed since they did."""
        if self.best == self._hosts and self.number and not self._again:
            outcome = self._try(self._hosts)
            self._again = True
            if outcome is False:
                raise _EnoughError(f"the failure did not come again in {self.number} tries")

    def _try(self, group: tuple[str, ...]) -> bool | None:
        if self.number >= self._most:
            raise _EnoughError(f"given up after {self._most} tries")
        return self._fails(group)

    def found(self, note: str, third: str = "", elsewhere: tuple[str, ...] = ()) -> Found:
        """What came of all tries."""
        if None in self.outcomes.values():
            note = note or "some groups could not be tried"
        return Found(self.best, not note, third, elsewhere, self.number, note)


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
        tries.confirm()
        if not tries(*held):
            return tries.found(f"more than {LARGEST} hosts are needed for it, or it comes and goes")
        return tries.found("", *_beside_a_third(tries.best, hosts, tries))
    except _EnoughError as why:
        return tries.found(str(why))


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


def _beside_a_third(
    pair: Sequence[str], hosts: Sequence[str], tries: _Tries
) -> tuple[str, tuple[str, ...]]:
    """A third host, and who of the pair fails beside that one, too; of larger groups nothing."""
    third = next((host for host in hosts if host not in pair), "")
    if len(pair) > LEAST or not third:
        return "", ()
    return third, tuple(host for host in pair if tries(host, third))
