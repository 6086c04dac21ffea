"""A dependency that is written as a name and a table: by poetry, Pipfile, uv, pdm and their locks.

``torch = "^2.1"``, ``torch = { version = "2.1", source = "pytorch" }``, ``{ git = "...", rev =
"..." }``, ``{ path = "../fork" }``.
"""

from typing import NamedTuple

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.poetry import pep440, python_marker
from musadoctor.requirements.requirement import address, entry_of, normalised, shown
from musadoctor.requirements.toml_text import Table, is_table, items, string

_VCS = ("git", "hg", "svn", "bzr")
_REVISIONS = ("rev", "ref", "revision", "tag", "branch")
_MARKERS = (
    "os_name",
    "sys_platform",
    "platform_machine",
    "platform_python_implementation",
    "platform_release",
    "platform_system",
    "platform_version",
    "python_version",
    "python_full_version",
    "implementation_name",
    "implementation_version",
)


class Place(NamedTuple):
    """Where a dependency stands, and what its entry says of that."""

    where: str
    text: str
    """As a report may show it."""
    scope: str = ""
    fresh: bool = False


def dependency(name: str, spec: Table, place: Place) -> Entry:
    """The entry of a dependency."""
    marker = marker_of(spec)
    extras = tuple(
        normalised(extra) for extra in items(spec.get("extras")) if isinstance(extra, str)
    )
    if url := address_of(spec):
        return located(name, url, place)._replace(marker=marker, extras=extras)
    version = string(spec.get("version"))
    specifier = pep440(version)
    if specifier is None:
        return unreadable(place, f"the version {shown(version)!r} has no equal in PEP 440")
    made = entry_of(name + specifier, place.where, text=place.text)
    if made.kind != "requirement" or made.name != normalised(name) or made.url or made.marker:
        return unreadable(place, f"no version of a project: {shown(name + specifier)}")
    return made._replace(scope=place.scope, fresh=place.fresh, marker=marker, extras=extras)


def located(name: str, url: str, place: Place) -> Entry:
    """The entry of a project that an address names: of a wheel a requirement, else a source."""
    made = entry_of(url, place.where, text=place.text)
    if made.kind not in ("requirement", "source") or not made.url:
        made = Entry("source", place.where, place.text, url=address(url))
    name = made.name if made.kind == "requirement" else normalised(name)
    return made._replace(name=name, scope=place.scope, fresh=place.fresh)


def bound(name: str, index: str, option: str, marker: str, place: Place) -> Entry:
    """The entry of an index that one project is taken from."""
    made = Entry("index", place.where, place.text, name=normalised(name), marker=marker)
    return made._replace(url=address(index), option=option, scope=place.scope, fresh=place.fresh)


def unreadable(place: Place, reason: str) -> Entry:
    """The entry of what is no dependency."""
    return Entry(
        "unreadable", place.where, place.text, scope=place.scope, fresh=place.fresh, reason=reason
    )


def address_of(spec: Table) -> str:
    """Where a table says that a project is to be had; empty if it is from an index."""
    for vcs in _VCS:
        if url := string(spec.get(vcs)):
            revision = next(filter(None, (string(spec.get(key)) for key in _REVISIONS)), "")
            return f"{vcs}+{url}" + (f"@{revision}" if revision else "")
    if url := string(spec.get("url")) or string(spec.get("file")):
        return url
    path = string(spec.get("path"))
    return path if not path or "://" in path or path.startswith((".", "/", "~")) else f"./{path}"


def marker_of(spec: Table) -> str:
    """The marker that a table's keys make together."""
    parts = [string(spec.get("markers")), string(spec.get("marker"))]
    parts += [f"{key} {string(spec.get(key))}" for key in _MARKERS if string(spec.get(key))]
    parts.append(python_marker(string(spec.get("python"))))
    if platform := string(spec.get("platform")):
        parts.append(f"sys_platform == {platform!r}")
    parts = [part for part in parts if part]
    return parts[0] if len(parts) == 1 else " and ".join(f"({part})" for part in parts)


def table_of(value: object) -> Table | None:
    """A dependency's table; of a mere version one with only that; ``None`` of anything else."""
    if isinstance(value, str):
        return {"version": value}
    return value if is_table(value) else None
