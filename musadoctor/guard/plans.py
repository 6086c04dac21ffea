"""What uv and pip print of their plans: which versions would change, and who asks for them."""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from musadoctor.facts.requirements import Entry, Replacement, Stack
from musadoctor.requirements.requirement import normalised

_PLANNED = re.compile(r"^ ([-+~]) ([\w.-]+)==(\S+)", re.MULTILINE)
_ASKED_FOR = re.compile(
    r"""
    ^DEBUG\ Adding\ transitive\ dependency\ for
    \ (?P<parent>[\w.-]+) (?:\[[^]]*\])? == (?P<version>\S+):
    \ (?P<child>[\w.-]+) (?:\[[^]]*\])? (?P<range>.*) $
    """,
    re.VERBOSE | re.MULTILINE,
)
_UP_TO_ALL_BUILDS = re.compile(r"<(\S+)\+(?=,|$)")
CORE = ("torch", "torchvision", "torchaudio", "triton", "torch-musa")


class Edge(NamedTuple):
    """A package asks for another."""

    parent: str
    """Empty where a requirement itself asks for it."""
    child: str
    excludes: bool
    """Whether the installed version of the child does not do."""


class Plan(NamedTuple):
    """What would be done."""

    changes: Mapping[str, tuple[str, str]]
    """Installed and planned version by name; empty for none."""
    edges: tuple[Edge, ...] = ()


def uv_plan_of(text: str, stack: Stack) -> Plan:
    """The plan that ``uv pip install --dry-run`` prints on standard error.

    ``- NAME==VERSION`` goes, ``+`` comes, ``~`` is installed again; the lines on who asks for whom
    come with ``RUST_LOG=uv_resolver=debug`` (uv 0.13.9).
    """
    changes: dict[str, tuple[str, str]] = {}
    for sign, name, version in _PLANNED.findall(text):
        before, after = changes.get(name, ("", ""))
        changes[name] = (before if sign == "+" else version, after if sign == "-" else version)
    edges = [
        Edge(
            found["parent"], found["child"], _range_excludes(found["range"], found["child"], stack)
        )
        for found in _ASKED_FOR.finditer(text)
        # Not what was tried and given up again.
        if changes.get(found["parent"], ("", ""))[1] in {"", found["version"]}
    ]
    return Plan(changes, tuple(dict.fromkeys(edges)))


def pip_plan_of(text: str, stack: Stack) -> Plan:
    """The plan in pip's installation report (``--report -``, version 1 of its format).

    Raises:
        ValueError: it is none.
    """
    try:
        items = [item["metadata"] for item in json.loads(text)["install"]]
        planned = {normalised(item["name"]): cast("str", item["version"]) for item in items}
        wanted = {
            normalised(item["name"]): cast("list[str]", item.get("requires_dist") or [])
            for item in items
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no installation report: {error!r}") from error
    changes = {name: (stack.versions.get(name, ""), version) for name, version in planned.items()}
    return Plan(changes, tuple(dict.fromkeys(_edges(wanted, stack))))


def _edges(wanted: Mapping[str, list[str]], stack: Stack) -> Iterator[Edge]:
    from packaging.requirements import (  # noqa: PLC0415 - only with --deep
        InvalidRequirement,
        Requirement,
    )

    for parent, lines in wanted.items():
        for line in lines:
            try:
                asked = Requirement(line)
            except InvalidRequirement:
                continue
            # Which extras of it are wanted is not in the report: whatever is planned was.
            marker = asked.marker
            if marker and "extra" not in str(marker) and not marker.evaluate(dict(stack.markers)):
                continue
            child = normalised(asked.name)
            yield Edge(parent, child, specifier_excludes(str(asked.specifier), child, stack))


def specifier_excludes(specifier: str, name: str, stack: Stack) -> bool:
    """Whether the installed version of a project does not satisfy a specifier."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415
    from packaging.version import InvalidVersion  # noqa: PLC0415

    try:
        allowed = SpecifierSet(specifier)
        return name in stack.versions and not allowed.contains(
            stack.versions[name], prereleases=True
        )
    except (InvalidSpecifier, InvalidVersion):
        return False


def _range_excludes(text: str, name: str, stack: Stack) -> bool:
    """The same of a range as uv prints it: ``>=2.7.1, <2.7.1+`` for ``==2.7.1``, ``<1 | >2``."""
    if not text.startswith(("<", ">", "=")):
        return False  # any version; or a form that is not known here
    return all(
        specifier_excludes(_UP_TO_ALL_BUILDS.sub(r"<=\1", part.strip()), name, stack)
        for part in text.split("|")
    )


def replacements(plan: Plan, entries: Iterable[Entry], stack: Stack) -> tuple[Replacement, ...]:
    """The vendor's builds that the plan replaces, by each requirement that leads there.

    Where no requirement rules the installed version out, the shortest way to it is given.
    """
    asked = list({entry.name: entry for entry in entries}.values())
    direct = [
        Edge("", entry.name, specifier_excludes(entry.specifier, entry.name, stack))
        for entry in asked
    ]
    replaced = {
        name: (installed, planned)
        for name, (before, planned) in plan.changes.items()
        if _matters(name, installed := before and stack.versions.get(name, before), planned, stack)
    }
    # Who asks for what is replaced anyway is not to blame, unless nobody else is.
    rulers = {edge.child for edge in (*direct, *plan.edges) if edge.excludes}
    blamed = [
        edge
        for edge in (*direct, *plan.edges)
        if edge.excludes or edge.child not in rulers or edge.child not in replaced
    ]
    found: list[Replacement] = []
    for name, (installed, planned) in replaced.items():
        end = f"{name}=={planned}" if planned else name
        ways = [
            (entry.where, (*way[:-1], end))
            for entry in asked
            if (way := _way(entry.name, name, blamed))
        ]
        if name not in rulers:
            ways = sorted(ways, key=lambda way: len(way[1]))[:1]
        only = asked[0].where if len(asked) == 1 else ""
        found += [
            Replacement(name, installed, planned, chain, where)
            for where, chain in ways or [(only, (end,))]
        ]
    return tuple(found)


def _matters(name: str, installed: str, planned: str, stack: Stack) -> bool:
    if stack.vendor or "torch-musa" in stack.versions:
        return bool(installed) and (name in CORE or "+musa" in installed)
    return name == "torch" and "musa" not in planned.partition("+")[2]


def _way(start: str, target: str, edges: Iterable[Edge]) -> tuple[str, ...]:
    """The shortest chain of names from a requirement to the target; empty where there is none."""
    children: dict[str, list[str]] = {}
    for edge in edges:
        children.setdefault(edge.parent, []).append(edge.child)
    waiting: deque[tuple[str, ...]] = deque([(start,)] if start in children.get("", ()) else [])
    seen = {start}
    while waiting:
        chain = waiting.popleft()
        if chain[-1] == target:
            return chain
        for child in children.get(chain[-1], ()):
            if child not in seen:
                seen.add(child)
                waiting.append((*chain, child))
    return ()
