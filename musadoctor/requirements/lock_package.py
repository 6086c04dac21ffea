"""One package of a lock as entries: of poetry.lock, uv.lock, pdm.lock and pylock.toml alike."""

from collections.abc import Iterator, Mapping

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.dependency_table import (
    Place,
    address_of,
    located,
    unreadable,
)
from musadoctor.requirements.lock_blocks import Package, either, satisfiable, versions
from musadoctor.requirements.requirement import address, entry_of, normalised, shown
from musadoctor.requirements.toml_text import Table, is_table, items, string, table

Versions = Mapping[tuple[str, str], str]

_REPOSITORIES = ("git", "hg", "svn", "bzr")
_FOLDERS = ("directory", "editable", "virtual")


def entries(package: Package, known: Versions, seen: set[str], *, fresh: bool) -> Iterator[Entry]:
    """What a package's part of a lock says, and its index unless that is in ``seen``."""
    name = string(package.table.get("name"))
    version = string(package.table.get("version"))
    key = (normalised(name), version)
    if "+" not in version:
        in_block = not version or "+" in package.block or "%2" in package.block
        version = (versions(package.block) if in_block else known).get(key) or known.get(
            key, version
        )
    text = shown(f"{name}=={version}" if version else name)
    place = Place(package.where, text, "lock", fresh)
    if not name:
        yield unreadable(
            place._replace(text=shown(package.block[:200])), "a package without a name"
        )
        return
    index, spec = _origin(package.table)
    if index and index not in seen:
        seen.add(index)
        made = Entry("index", place.where, text, url=address(index), option="lock")
        yield made._replace(scope="lock", fresh=fresh)
    folder = next((found for key in _FOLDERS if (found := string(spec.get(key)))), "")
    if folder in (".", "./"):  # the project that the lock is of
        return
    marker = _marker(package.table)
    if url := address_of({"path": folder} if folder else spec):
        yield located(name, url, place)._replace(marker=marker)
        return
    made = entry_of(text, place.where, scope="lock", fresh=fresh)
    if made.kind != "requirement" or made.name != normalised(name) or made.marker or made.url:
        made = unreadable(place, "neither a project's name nor a version")
    yield made._replace(marker=marker)


def _origin(package: Table) -> tuple[str, Table]:
    """The index that a package is from, and the address in its stead, as a dependency has it."""
    source = table(package.get("source"))
    if kind := string(source.get("type")):
        return _of_poetry(kind, source)
    if source:  # uv
        registry = string(source.get("registry"))
        return registry, {} if registry else source
    if vcs := table(package.get("vcs")):  # PEP 751
        kind = string(vcs.get("type")) or "git"
        return "", {kind: vcs.get("url") or vcs.get("path"), "rev": vcs.get("commit-id")}
    for key in ("archive", "directory"):
        if found := table(package.get(key)):
            path = found.get("path")
            return "", {
                "url": found.get("url"),
                "directory" if key == "directory" else "path": path,
            }
    index = string(package.get("index"))  # PEP 751
    return index, {} if index else package  # pdm


def _of_poetry(kind: str, source: Table) -> tuple[str, Table]:
    url = string(source.get("url"))
    if kind in _REPOSITORIES:
        revision = source.get("resolved_reference") or source.get("reference")
        return "", {kind: url, "rev": revision}
    if key := {"directory": "directory", "file": "path", "url": "url"}.get(kind):
        return "", {key: url}
    return url, {}


def _marker(package: Table) -> str:
    markers = package.get("markers")
    several = [string(one) for one in items(package.get("resolution-markers"))]
    if is_table(markers):  # poetry 2.1: by group
        several = [string(one) for one in markers.values()]
        if len(several) < len(items(package.get("groups"))):
            several = []
    single = string(markers) or string(package.get("marker"))
    return satisfiable(either(several) if several else single)
