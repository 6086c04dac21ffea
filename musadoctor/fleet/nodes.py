"""Names of hosts in the notation of clusters, ``gpu[001-064]``, by ClusterShell."""

import configparser
import re
from collections.abc import Iterable

from ClusterShell.NodeSet import NodeSet, NodeSetException
from ClusterShell.NodeUtils import (
    GroupResolverError,
    GroupResolverSourceError,
    GroupSourceError,
    GroupSourceNoUpcall,
)
from ClusterShell.RangeSet import RangeSet

from musadoctor.fleet.answer import HOST

GROUP_ERRORS = (GroupResolverError, GroupSourceError, NodeSetException, configparser.Error, OSError)
"""What ClusterShell raises where the site's groups, or a set of hosts, are not in order."""
_NUMBER = re.compile(r"([0-9]+)")
_LAST_NUMBER = re.compile(r"(.*?)([0-9]+)([^0-9]*)", re.DOTALL)


class NodesError(ValueError):
    """No set of hosts; one sentence."""


def natural(host: str) -> tuple[tuple[int | str, ...], str]:
    """A key to sort by: ``gpu2`` comes before ``gpu10``."""
    parts = _NUMBER.split(host)  # text and number take turns, so that only like meets like
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), host


def fold(hosts: Iterable[str]) -> str:
    """A short notation that ClusterShell, Slurm and pdsh read: ``gpu[017,233]``.

    ClusterShell's own folding of names with several numbers (``rack3-node17``) takes seconds for
    some thousand hosts; this one takes the numbers one after the other, the last first.
    """
    return ",".join(_folded(set(hosts)))


def _folded(names: Iterable[str]) -> list[str]:
    numbers: dict[tuple[str, str], list[str]] = {}
    patterns: list[str] = []
    for name in sorted(names, key=natural):
        if found := _LAST_NUMBER.fullmatch(name):
            numbers.setdefault((found[1], found[3]), []).append(found[2])
        else:
            patterns.append(name)
    heads: dict[tuple[str, str], list[str]] = {}
    for (head, tail), found_numbers in numbers.items():
        heads.setdefault((_ranges(found_numbers), tail), []).append(head)
    for (ranges, tail), same in heads.items():
        patterns += [f"{head}{ranges}{tail}" for head in _folded(same)]
    return sorted(patterns, key=lambda pattern: natural(pattern.replace("[", "")))


def _ranges(numbers: list[str]) -> str:
    return numbers[0] if len(numbers) == 1 else f"[{RangeSet(','.join(numbers))}]"


def expand(*texts: str) -> tuple[str, ...]:
    """The hosts that sets name, in their order; ``@group`` is looked up as the site has set it up.

    Raises:
        NodesError: with what is wrong with which of them.
    """
    hosts = NodeSet()
    for text in texts:
        try:
            named = NodeSet(text)
        except GROUP_ERRORS as error:
            raise NodesError(f"{text!r} is no set of hosts: {why(error)}") from None
        if not named:
            raise NodesError(f"{text!r} names no host")
        # What begins with a dash, a program would take for an option.
        if bad := next((h for h in named if h[0] == "-" or not HOST.fullmatch(h)), None):
            raise NodesError(f"{text!r} is no set of hosts: {bad!r} cannot be the name of one")
        hosts.update(named)
    return tuple(sorted(hosts, key=natural))


def why(error: Exception) -> str:
    """What ClusterShell says, in words where it gives no more than a name."""
    if isinstance(error, GroupSourceNoUpcall):
        return f"its source has no command for {error}"
    if isinstance(error, GroupSourceError):
        return f"its source failed: {error}"
    if isinstance(error, GroupResolverSourceError):
        return f"there is no group source {error}"
    return str(error)
