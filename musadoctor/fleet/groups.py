"""Which hosts ought to be equal: those with the same card, in the same rack, partition, ..."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from ClusterShell.NodeSet import NodeSet, std_group_resolver
from ClusterShell.NodeUtils import GroupResolver, GroupSource

from musadoctor.fleet.answer import line, quoted
from musadoctor.fleet.nodes import GROUP_ERRORS, why
from musadoctor.fleet.summary import HostSummary
from musadoctor.fleet.traits import NONE
from musadoctor.report import JSON

CARD = "card"
"""What hosts are grouped by without asking anyone."""
LONGEST_FILE = 1 << 20
"""Bytes of a file of groups; one of 10,000 hosts has a hundredth."""
EXPECTED = "expected `rack: {r1: 'gpu[01-16]', ...}`"
_ALL = "all"
"""A group that ClusterShell's files may have beside the others, for every host."""
_FIRST_CARD = re.compile(r"[0-9]+ x (.+?)(?:, [0-9]+ x .*)?")


class GroupsError(Exception):
    """Hosts cannot be grouped so; one sentence."""


class _Source(NamedTuple):
    """Somebody who knows groups of one kind."""

    name: str
    """In sentences: ``the groups 'rack' in racks.yaml``."""
    groups: Mapping[str, str]
    """The node set of each, which may name other groups."""
    resolver: GroupResolver


def group_by(hosts: Sequence[HostSummary], by: str, file: str | None) -> Mapping[str, str]:
    """The group of each host, and of others that the groups name; those in none form ``no rack``.

    ``by`` is ``card``, or a source of groups: in ``file``, which is of ClusterShell's YAML format,
    or among those that the site has set up for ClusterShell, Slurm's partitions with them.

    Raises:
        GroupsError: there is no such source, it cannot be used, it knows none of the hosts, or
            knows one in two groups.
    """
    if by == CARD and file is None:
        return {host.host: _card(host) for host in hosts}
    source = _of_site(by) if file is None else _of_file(by, file)
    named = dict.fromkeys(host.host for host in hosts)
    found: dict[str, str] = {}
    for group in source.groups:
        if group == _ALL:
            continue
        for host in _nodes(source, group):
            other = found.setdefault(host, group)
            if other != group and host in named:
                raise GroupsError(
                    f"{host} is in two groups of {source.name}, {other} and {group}; "
                    "group by something of which each host has one"
                )
    if named and not any(host in found for host in named):
        one, other = next(iter(named)), next(iter(found), "none at all")
        raise GroupsError(
            f"no host is in {source.name}: hosts have names like {one}, those there like {other}"
        )
    return {**dict.fromkeys(named, f"no {line(by)}"), **found}


def _card(host: HostSummary) -> str:
    """The card that most of a host's are, however many are left of them."""
    cards = host.traits.get("cards", "")
    if cards == NONE:
        return "no card"
    first = _FIRST_CARD.fullmatch(cards)
    return first[1] if first else "cards not known"


def _of_file(by: str, file: str) -> _Source:
    sources = {name: _groups(name, groups, file) for name, groups in _read(file).items()}
    if by not in sources:
        found = ", ".join(sources) or "none"
        raise GroupsError(f"{file}: expected groups {by!r}, found {line(found)}")
    resolver = GroupResolver(GroupSource(by, sources[by]))
    for name, groups in sources.items():
        if name != by:
            resolver.add_source(GroupSource(name, groups))
    return _Source(f"the groups {by!r} in {file}", sources[by], resolver)


def _read(file: str) -> dict[str, JSON]:
    import yaml  # noqa: PLC0415 - 25 ms

    try:
        with Path(file).open("rb") as opened:
            data = opened.read(LONGEST_FILE + 1)
    except OSError as error:
        raise GroupsError(f"{file}: {error.strerror}; {EXPECTED}") from None
    if len(data) > LONGEST_FILE:
        raise GroupsError(f"{file}: more than {LONGEST_FILE >> 20} MiB; {EXPECTED}")
    try:
        document = cast("JSON", yaml.safe_load(data))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise GroupsError(f"{file}: no YAML: {line(str(error))}; {EXPECTED}") from None
    return _mapping(document, file)


def _mapping(value: JSON, where: str) -> dict[str, JSON]:
    if not isinstance(value, dict):
        raise GroupsError(f"{where}: {EXPECTED}, found {quoted(value)}")
    for name in cast("dict[object, JSON]", value):
        if not isinstance(name, str):
            raise GroupsError(f"{where}: expected a name, found {name!r}; put it in quotes")
    return value


def _groups(name: str, groups: JSON, file: str) -> dict[str, str]:
    """The node set of each group, which may be a list of them, or nothing."""
    where = f"{file}: {name}"
    sets: dict[str, str] = {}
    for group, nodes in _mapping(groups, where).items():
        parts = nodes if isinstance(nodes, list) else [] if nodes is None else [nodes]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) < len(parts):
            other = next(part for part in parts if not isinstance(part, str))
            raise GroupsError(f"{where}: {group}: expected 'gpu[01-16]', found {quoted(other)}")
        sets[group] = ",".join(texts)
    return sets


def _of_site(by: str) -> _Source:
    """ClusterShell's own groups, as ``groups.conf`` and ``groups.d`` have them."""
    resolver = std_group_resolver()
    name = f"ClusterShell's groups {by!r}"
    try:
        sources = resolver.sources()
        groups = resolver.grouplist(by) if by in sources else []
    except GROUP_ERRORS as error:
        raise GroupsError(f"{name} cannot be listed: {line(why(error))}") from None
    if by not in sources:
        found = ", ".join(sources) or "none"
        raise GroupsError(
            f"ClusterShell on this machine knows no groups {by!r} (it knows {line(found)}); "
            "set them up in its groups.d, or name a file with --groups FILE"
        )
    return _Source(name, {group: f"@{by}:{group}" for group in groups}, resolver)


def _nodes(source: _Source, group: str) -> Iterator[str]:
    text = source.groups[group]
    try:
        yield from NodeSet(text, resolver=source.resolver)
    except GROUP_ERRORS as error:
        where = f"{source.name}: {group}: {quoted(text)}"
        raise GroupsError(f"{where} is no set of hosts: {line(why(error))}") from None
