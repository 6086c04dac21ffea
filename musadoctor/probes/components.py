"""muDNN and MCCL: the library that would be used, and its number."""

import posixpath
import re
from collections.abc import Iterator

from musadoctor.facts import (
    Absent,
    ComponentLibrary,
    LoadableLibrary,
    Toolkit,
    Toolkits,
    Unknown,
    VersionQuery,
)
from musadoctor.facts.toolkit import ComponentLibraryFact
from musadoctor.probes.libraries import preferred
from musadoctor.probes.stated import stated
from musadoctor.probes.toolkit import (
    LINK,
    real_path,
    toolkit,
    toolkits,
    tree_of_path,
    version_query,
)
from musadoctor.system import UNRECORDED, Failure, System
from musadoctor.versions import ComponentVersion

NCCL_LEVEL = "2.11.4"
"""What MCCL's banner, soname and block in ``musa_version_query`` state in Toolkits 2.0 to 4.3: the
NCCL release that it is compatible with. The packages of those years are 1.6.1 to 2.1.5."""

_FILE_VERSION = re.compile(r"\.so\.([0-9]+(?:\.[0-9]+)+)$")


def mudnn(system: System) -> ComponentLibraryFact:
    """muDNN, ``libmudnn.so.3``."""
    return _component(system, "muDNN", "mudnn", ())


def mccl(system: System) -> ComponentLibraryFact:
    """MCCL, ``libmccl.so.2``; not supplied for S80, S3000 and consumer cards."""
    return _component(system, "MCCL", "mccl", (NCCL_LEVEL,))


def _component(
    system: System, name: str, component: str, other_numbers: tuple[str, ...]
) -> ComponentLibraryFact:
    """The library that the loader takes, else the one in the Toolkit in use.

    ``other_numbers`` are stated for it, but are not its version.
    """
    stem = f"lib{component}"
    in_use = toolkit(system)
    taken = preferred(system, stem)
    path = taken.path if isinstance(taken, LoadableLibrary) else ""
    if not path and isinstance(in_use, Toolkit):
        path = _in_tree(system, in_use, stem)
    if not path:
        if told := _by_word(system, name, component, other_numbers):
            return told
        for unknown in (taken, in_use):
            if isinstance(unknown, Unknown):
                return unknown
        beside = f" or in {in_use.root}/lib" if isinstance(in_use, Toolkit) else ""
        return Absent(f"no {stem}.so* on the loader's path{beside}")

    file = real_path(system, path)
    doubtful = ""
    for version, source in _stated(system, file, component):
        if str(version) not in other_numbers:
            return ComponentLibrary(name, version, path, source)
        doubtful = f"{source} states {version}, the NCCL release that it is compatible with"
    return ComponentLibrary(name, None, path, doubtful or f"{file}, which nothing numbers")


def _by_word(
    system: System, name: str, component: str, other_numbers: tuple[str, ...]
) -> ComponentLibrary | None:
    """Of a transcript: the number in ``musa_version_query``, or in a sentence."""
    there = system.stat(LINK)
    if not isinstance(there, Failure):
        return None
    query = version_query(system)
    block = query.component(component) if isinstance(query, VersionQuery) else None
    if there.kind == UNRECORDED and isinstance(query, VersionQuery) and block:
        known = block.version if str(block.version) not in other_numbers else None
        return ComponentLibrary(name, known, "", query.source)
    for item in stated(system, component, there):
        if (number := ComponentVersion.parse(item.value)) and item.value not in other_numbers:
            return ComponentLibrary(name, number, "", item.source)
    return None


def _in_tree(system: System, tree: Toolkit, stem: str) -> str:
    """The library in a Toolkit; some images keep muDNN in a folder of its own."""
    separate = f"{tree.root}/{stem.removeprefix('lib')}/lib"
    names = system.list(separate)
    for folder, held in ((f"{tree.root}/lib", tree.libraries), (separate, names)):
        if not isinstance(held, Failure):
            mine = [name for name in held if name.startswith(f"{stem}.so")]
            if mine:
                return posixpath.join(folder, max(mine, key=len))
    return ""


def _stated(system: System, file: str, component: str) -> Iterator[tuple[ComponentVersion, str]]:
    """What states the library's number, the most trustworthy first."""
    installed = toolkits(system)
    in_use = toolkit(system)
    trees = list(installed.installed) if isinstance(installed, Toolkits) else []
    trees += [in_use] if isinstance(in_use, Toolkit) else []
    tree = tree_of_path(trees, file)
    listed = tree.component(component) if tree else None
    if tree and listed:
        yield listed.version, f"{tree.root}/version.json"
    if tree and isinstance(in_use, Toolkit) and tree.root == in_use.root:
        query = version_query(system)
        block = query.component(component) if isinstance(query, VersionQuery) else None
        if isinstance(query, VersionQuery) and block:
            # kuae1.3.0_musa3.1.0_mccl1.7.0
            branch = re.search(rf"{component}([0-9]+(?:\.[0-9]+)+)", block.branch or "")
            named = ComponentVersion.parse(branch[1]) if branch else None
            if named:
                yield named, f"git branch {block.branch} in {query.source}"
            yield block.version, query.source
    numbers = _FILE_VERSION.search(file)
    by_name = ComponentVersion.parse(numbers[1]) if numbers else None
    if by_name:
        yield by_name, file
