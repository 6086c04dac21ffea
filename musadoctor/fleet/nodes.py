"""Names of hosts in the notation of clusters, ``gpu[001-064]``, by ClusterShell."""

from collections.abc import Iterable

from ClusterShell.NodeSet import NodeSet, NodeSetException


class NodesError(ValueError):
    """No set of hosts; one sentence."""


def fold(hosts: Iterable[str]) -> str:
    """The shortest notation: ``gpu[017,233]``."""
    return str(NodeSet.fromlist(list(hosts), resolver=None))


def expand(*texts: str) -> tuple[str, ...]:
    """The hosts that sets name, in their order; ``@group`` is looked up as the site has set it up.

    Raises:
        NodesError: with what is wrong with which of them.
    """
    hosts = NodeSet()
    for text in texts:
        try:
            hosts.update(text)
        except NodeSetException as error:
            raise NodesError(f"{text!r} is no set of hosts: {error}") from None
    return tuple(hosts)
