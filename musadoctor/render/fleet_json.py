"""A fleet, and what changed of it, as one JSON object; each host is one line of it.

The schemas are ``docs/fleet.schema.json`` and ``docs/fleet-diff.schema.json``.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TextIO, get_args

from musadoctor import __version__
from musadoctor.fleet.diff import Diff, FleetDiff, HostChange
from musadoctor.fleet.diff_checks import StatusChange
from musadoctor.fleet.nodes import fold
from musadoctor.fleet.state import Fleet, Gate, exit_code, healthy
from musadoctor.fleet.together import Together
from musadoctor.report import JSON, Verdict, encode

SCHEMA_VERSION = "1"


def render(fleet: Fleet, gate: Gate, stream: TextIO) -> None:
    """Write a fleet piece by piece: of many hosts the text is never held."""
    lists = {
        "causes": _causes(fleet),
        "skews": _skews(fleet),
        "unanswered": _unanswered(fleet),
        "left_out": _left_out(fleet),
        "hosts": _hosts(fleet),
    }
    _write(stream, _head(fleet, gate), lists)


def render_hosts_diff(diff: Diff, stream: TextIO) -> None:
    """Write what differs between two reports."""
    head: dict[str, JSON] = {
        **_version("hosts"),
        "before": encode(diff.before),
        "after": encode(diff.after),
        "cut": diff.cut,
    }
    lists = {
        "worse": map(_status_change, diff.worse),
        "better": map(_status_change, diff.better),
        "otherwise": map(_status_change, diff.otherwise),
        "traits": map(encode, diff.traits),
        "facts": map(encode, diff.facts),
        "volatile": map(encode, diff.volatile),
    }
    _write(stream, head, lists)


def render_fleets_diff(diff: FleetDiff, names: tuple[str, str], stream: TextIO) -> None:
    """Write what changed from one day of a fleet to another; ``names`` are those of the files."""
    head: dict[str, JSON] = {
        **_version("fleets"),
        "before": names[0],
        "after": names[1],
        "compared": diff.compared,
        "unchanged": diff.unchanged,
        "appeared": _nodes(diff.appeared),
        "vanished": _nodes(diff.vanished),
    }
    lists = {
        "changes": map(_host_change, diff.changes),
        "traits": (
            {
                "trait": change.trait,
                "weight": change.weight,
                "before": change.before,
                "after": change.after,
                **_nodes(hosts),
            }
            for change, hosts in diff.traits
        ),
    }
    _write(stream, head, lists)


def _write(stream: TextIO, head: Mapping[str, JSON], lists: Mapping[str, Iterable[JSON]]) -> None:
    separator = "{\n"
    for key, value in head.items():
        stream.write(f"{separator}{_dump(key)}: {_dump(value)}")
        separator = ",\n"
    for key, items in lists.items():
        stream.write(f"{separator}{_dump(key)}: [")
        between = "\n "
        for item in items:
            stream.write(f"{between}{_dump(item)}")
            between = ",\n "
        stream.write("\n]")
    stream.write("\n}\n")


def _version(kind: str) -> dict[str, JSON]:
    """The head of what ``fleet diff`` writes; ``kind`` says which of two forms follows."""
    return {"schema_version": SCHEMA_VERSION, "musadoctor": __version__, "kind": kind}


def _status_change(change: StatusChange) -> JSON:
    return {
        "id": change.id,
        "severity": change.severity,
        "title": change.title,
        "before": change.before,
        "after": change.after,
        "message": change.message,
        "caused_by": change.caused_by or None,
    }


def _host_change(change: HostChange) -> JSON:
    return {
        "worse": change.worse,
        "before": change.before,
        "after": change.after,
        "new": [encode(cause) for cause in change.new],
        "gone": list(change.gone),
        "reason": change.reason,
        **_nodes(change.hosts),
    }


def _head(fleet: Fleet, gate: Gate) -> dict[str, JSON]:
    counts = Counter(host.verdict for host in fleet.hosts)
    verdicts: tuple[Verdict, ...] = get_args(Verdict)
    return {
        "schema_version": SCHEMA_VERSION,
        "musadoctor": __version__,
        "counts": {
            "hosts": len(fleet.hosts) + len(fleet.unanswered),
            **{verdict: counts[verdict] for verdict in verdicts},
            "unanswered": len(fleet.unanswered),
            "left_out": len(fleet.left_out),
        },
        "gate": {
            "fail_on": gate.fail_on,
            "strict": gate.strict,
            "fail_on_skew": gate.fail_on_skew,
            "min_healthy": gate.min_healthy,
        },
        "exit_code": exit_code(fleet, gate),
        "healthy": _nodes(healthy(fleet, gate)),
        "grouped_by": fleet.grouped_by,
        "collectives": _collectives(fleet.together),
    }


def _collectives(together: Together | None) -> JSON:
    if together is None:
        return None
    found = together.found
    return {
        "outcome": together.outcome,
        "nodes": fold(together.hosts),
        "hosts": list(together.hosts),
        "causes": [{"id": one.id, "message": one.message} for one in together.causes],
        "group": found
        and {
            "nodes": fold(found.group),
            "hosts": list(found.group),
            "smallest": found.smallest,
            "culprit": found.culprit or None,
            "third": found.third or None,
            "elsewhere": list(found.elsewhere),
            "tries": found.tries,
            "note": found.note,
        },
        "reason": together.reason,
        "seconds": round(together.seconds, 1),
    }


def _nodes(hosts: Sequence[str]) -> dict[str, JSON]:
    return {"nodes": fold(hosts), "hosts": list(hosts)}


def _causes(fleet: Fleet) -> Iterator[JSON]:
    for cause, hosts in fleet.causes:
        yield {**cause._asdict(), **_nodes(hosts)}


def _skews(fleet: Fleet) -> Iterator[JSON]:
    for skew in fleet.skews:
        differences: list[JSON] = [
            {"trait": one.trait, "value": one.value, "usual": one.usual} for one in skew.differences
        ]
        yield {
            "kind": skew.kind,
            "group": skew.group,
            **_nodes(skew.hosts),
            "compared": skew.compared,
            "differences": differences,
            "failing": skew.failing,
            "others_failing": skew.others_failing,
            "score": round(skew.score, 3),
        }


def _unanswered(fleet: Fleet) -> Iterator[JSON]:
    for host, kind, reason in fleet.unanswered:
        group = fleet.groups.get(host, "")
        yield {"host": host, "kind": kind, "reason": reason, "group": group}


def _left_out(fleet: Fleet) -> Iterator[JSON]:
    for source, reason in fleet.left_out:
        yield {"source": source, "reason": reason}


def _hosts(fleet: Fleet) -> Iterator[JSON]:
    for host in fleet.hosts:
        yield {
            "host": host.host,
            "verdict": host.verdict,
            "causes": [cause.id for cause in host.causes],
            "undecided": list(host.undecided),
            "bugs": host.bugs,
            "group": fleet.groups.get(host.host, ""),
            "source": host.source,
            "taken": host.taken,
        }


def _dump(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)
