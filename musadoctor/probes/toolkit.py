"""The MUSA Toolkits that are installed, and the one in use.

A Toolkit is a folder, ``/usr/local/musa-5.2.0``, with ``bin/mcc``, ``lib/libmusart.so.5`` and
``version.json``, which names its parts::

    {
      "musa_toolkits": {
        "version": "5.1.0",

Only ``musa_toolkits`` is backed by a sample; that other components have the same form is the
word of a vendor's tool that reads them (unconfirmed).
"""

import json
import posixpath
import re
from collections.abc import Iterable
from typing import NamedTuple, cast

from musadoctor.commands import mcc_version
from musadoctor.facts import Absent, Component, Mcc, Toolkit, Toolkits, Unknown, VersionQuery
from musadoctor.facts.toolkit import MccFact, ToolkitFact, ToolkitsFact, VersionQueryFact
from musadoctor.probes.once import once
from musadoctor.probes.stated import stated
from musadoctor.probes.version_query import TOOL, ask_version_query, component_of, not_answered
from musadoctor.system import NOT_THERE, UNRECORDED, Failure, Found, Stat, System
from musadoctor.versions import ComponentVersion, ToolkitVersion

PREFIX = "/usr/local"
LINK = "/usr/local/musa"
"""Where the vendor's packages put the link to the Toolkit in use."""
VARIABLES = ("MUSA_HOME", "MUSA_PATH")
"""What names the Toolkit in use; torch_musa reads them in this order."""
WHOLE = "musa_toolkits"
"""The component that stands for the Toolkit itself."""

_NAMED = re.compile(r"musa-(\d+\.\d+(?:\.\d+)?)")
_LIBRARY = re.compile(r"lib.+\.so(?:\.[0-9]+)*")
_MCC = re.compile(r"\bmcc version (\S+)")


class VersionFile(NamedTuple):
    """What ``version.json`` states."""

    version: ToolkitVersion | None
    components: tuple[Component, ...]
    problem: str | None


def parse_version_json(text: str) -> VersionFile:
    """Read a ``version.json``; a damaged one gives a problem and nothing else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        return VersionFile(None, (), f"damaged version.json: {error}")
    if not isinstance(data, dict):
        return VersionFile(None, (), "damaged version.json: not a JSON object")
    named = (
        component_of(name, cast("dict[str, object]", fields))
        for name, fields in cast("dict[str, object]", data).items()
        if isinstance(fields, dict)
    )
    components = [component for component in named if component is not None]
    return VersionFile(
        _whole(components), tuple(part for part in components if part.name != WHOLE), None
    )


def parse_mcc(text: str) -> ComponentVersion | None:
    """The number in ``mcc version 5.2.0``, a line of ``mcc --version``."""
    found = _MCC.search(text)
    return ComponentVersion.parse(found[1]) if found else None


@once
def toolkits(system: System) -> ToolkitsFact:
    """Every Toolkit in /usr/local, of MUSA_HOME, of MUSA_PATH and of mcc on PATH."""
    local = _local(system)
    named = [named_tree(system, name) for name in VARIABLES]
    trees = [*local, *named, tree_of_mcc(system)]
    found: dict[str, Toolkit] = {}
    for tree in trees:
        if isinstance(tree, Toolkit) and _real(tree):
            found.setdefault(tree.root, tree)
    if found:
        newest_first = sorted(found.values(), key=_age, reverse=True)
        return Toolkits(tuple(newest_first), "/usr/local, MUSA_HOME, MUSA_PATH, mcc on PATH")
    if told := _by_word(system):
        return Toolkits((told,), told.source)
    reasons = [tree.reason for tree in trees if isinstance(tree, Unknown)]
    if reasons:
        return Unknown(reasons[0])
    return Absent(f"no Toolkit in {PREFIX}, and none by MUSA_HOME, MUSA_PATH or mcc on PATH")


@once
def toolkit(system: System) -> ToolkitFact:
    """The Toolkit in use.

    The order is that of torch_musa and other MUSA software: MUSA_HOME or MUSA_PATH, the tree of
    mcc on PATH, /usr/local/musa, a single ``/usr/local/musa-*``. Such software takes a variable
    at its word, so one that leads nowhere means that no Toolkit is in use.
    """
    return _by_word(system) or _in_use(system)


def _in_use(system: System) -> ToolkitFact:
    for name in VARIABLES:
        by_name = named_tree(system, name)
        if by_name is not None:
            return by_name
    by_path = tree_of_mcc(system)
    if not isinstance(by_path, Absent):
        return by_path
    by_link = read_tree(system, LINK)
    if isinstance(by_link, Toolkit):
        return by_link._replace(source=f"{LINK}, {by_link.source}")
    local = _local(system)
    trees = {tree.root: tree for tree in local if isinstance(tree, Toolkit) and _real(tree)}
    if len(trees) == 1:
        (only,) = trees.values()
        return only._replace(source=f"the only Toolkit in {PREFIX}, {only.source}")
    unset = "MUSA_HOME and MUSA_PATH are not set, no mcc on PATH"
    if trees:
        roots = ", ".join(sorted(trees))
        return Absent(f"nothing says which of {roots} to use: {unset}, no {LINK}")
    reasons = [tree.reason for tree in (by_link, *local) if isinstance(tree, Unknown)]
    return Unknown(reasons[0]) if reasons else Absent(f"{unset}, no {LINK}*")


def _by_word(system: System) -> Toolkit | None:
    """Of a transcript: the number by ``musa_version_query`` or a sentence, in the usual place."""
    there = system.stat(LINK)
    if not isinstance(there, Failure) or there.kind != UNRECORDED:
        return None
    query = ask_version_query(system, TOOL)
    if isinstance(query, VersionQuery) and (whole := _whole(query.components)):
        parts = tuple(part for part in query.components if part.name != WHOLE)
        return Toolkit(LINK, whole, f"{query.source}, {LINK} assumed", parts, (), assumed=True)
    for item in stated(system, "toolkit", there):
        if number := ToolkitVersion.parse(item.value):
            return Toolkit(LINK, number, f"{item.source}, {LINK} assumed", (), (), assumed=True)
    return None


def version_query(system: System) -> VersionQueryFact:
    """``musa_version_query`` of the Toolkit in use, else the one on PATH."""
    in_use = toolkit(system)
    if isinstance(in_use, Toolkit):
        return ask_version_query(system, f"{in_use.root}/bin/{TOOL}")
    return ask_version_query(system, TOOL)


def mcc(system: System) -> MccFact:
    """``mcc --version`` of mcc on PATH, else of the Toolkit in use."""
    found = system.find("mcc")
    path = found.path if isinstance(found, Found) and found.path else "mcc"
    ran = system.run(mcc_version("mcc"))
    if ran.status == "not there":
        in_use = toolkit(system)
        if isinstance(in_use, Unknown):
            return in_use
        if isinstance(in_use, Toolkit):
            path = f"{in_use.root}/bin/mcc"
            ran = system.run(mcc_version(path))
    if ran.status != "ok":
        return not_answered(f"{path} --version", ran)
    version = parse_mcc(ran.out)
    if version is None:
        return Unknown(f"{path} --version: printed no line `mcc version ...`")
    return Mcc(path, version)


def named_tree(system: System, name: str) -> Toolkit | Absent | Unknown | None:
    """The Toolkit that a variable names, ``None`` where it is not set."""
    value = system.env(name)
    if isinstance(value, Failure):
        return Unknown(str(value))
    if not value:
        return None
    tree = read_tree(system, value)
    if isinstance(tree, Toolkit):
        return tree._replace(source=f"{name}={value}, {tree.source}")
    return tree._replace(reason=f"{name} is {value}, {tree.reason}")


def tree_of_mcc(system: System) -> ToolkitFact:
    """The Toolkit that holds the mcc on PATH; other products have a program of that name too."""
    found = system.find("mcc")
    if isinstance(found, Failure):
        return Unknown(str(found))
    if not found.path:
        return Absent("no mcc on PATH")
    tree = read_tree(system, posixpath.dirname(posixpath.dirname(real_path(system, found.path))))
    if isinstance(tree, Toolkit) and _real(tree):
        return tree._replace(source=f"{found.path} on PATH, {tree.source}")
    if isinstance(tree, Unknown):
        return tree
    return Absent(f"{found.path} is in no Toolkit")


def tree_of_path(trees: Iterable[Toolkit], path: str) -> Toolkit | None:
    """The Toolkit whose folder holds ``path``, links resolved."""
    holding = [tree for tree in trees if f"{path}/".startswith(f"{tree.root}/")]
    return max(holding, key=lambda tree: len(tree.root), default=None)


def version_of_path(trees: Iterable[Toolkit], path: str) -> ToolkitVersion | None:
    """The number of the Toolkit that holds ``path``, else the one that its folders name."""
    tree = tree_of_path(trees, path)
    if tree is not None and tree.version is not None:
        return tree.version
    versions = [_named(part) for part in path.split("/")]
    return next((version for version in versions if version is not None), None)


def real_path(system: System, path: str) -> str:
    """``path`` with links resolved, as it is where that cannot be found out."""
    stat = system.stat(path)
    return stat.real or path if isinstance(stat, Stat) else path


def read_tree(system: System, root: str) -> ToolkitFact:
    """The Toolkit in a folder, whatever it holds; the reason is worded to follow its name."""
    stat = system.stat(root)
    if isinstance(stat, Failure):
        not_there = stat.kind == NOT_THERE
        return Absent("which is not there") if not_there else Unknown(f"not looked into: {stat}")
    if stat.kind == "dangling":
        return Absent(f"a link to {stat.real}, which is not there")
    if stat.kind != "folder":
        return Absent("which is not a folder")
    real = stat.real or root
    programs, no_programs = _names(system, f"{real}/bin", "no bin/mcc")
    names, no_names = _names(system, f"{real}/lib", "no libraries in lib")
    no_mcc = "no bin/mcc" if programs and "mcc" not in programs else ""
    problems = [no_programs, no_mcc, no_names]
    libraries = tuple(name for name in names if _LIBRARY.fullmatch(name))
    if names and not _runtimes(libraries):
        problems.append("no libmusart in lib")

    stated = _version_file(system, f"{real}/version.json")
    problems.append(stated.problem or "")
    version, source = stated.version, f"{real}/version.json"
    if version is None:
        version, source = _named(posixpath.basename(real)), "by the folder's name"
    if version is None:
        version, source = _asked(system, real) if TOOL in programs else (None, "nothing states it")
    problem = ", ".join(filter(None, problems)) or None
    return Toolkit(real, version, source, stated.components, libraries, problem)


def _names(system: System, folder: str, absent: str) -> tuple[tuple[str, ...], str]:
    """The names in a tree's folder, and what is wrong with it."""
    names = system.list(folder)
    if not isinstance(names, Failure):
        return names, "" if names else absent
    if names.kind == UNRECORDED:
        return (), ""
    return (), absent if names.kind == NOT_THERE else str(names)


def _version_file(system: System, path: str) -> VersionFile:
    text = system.read(path)
    if isinstance(text, str):
        return parse_version_json(text)
    nothing_wrong = text.kind in {NOT_THERE, UNRECORDED}
    return VersionFile(None, (), None if nothing_wrong else str(text))


def _asked(system: System, root: str) -> tuple[ToolkitVersion | None, str]:
    """The number by ``musa_version_query``, for a tree whose files do not tell."""
    query = ask_version_query(system, f"{root}/bin/{TOOL}")
    if isinstance(query, VersionQuery):
        return _whole(query.components), query.source
    return None, query.reason


def _whole(components: Iterable[Component]) -> ToolkitVersion | None:
    """The Toolkit's own number among its components'."""
    texts = [str(component.version) for component in components if component.name == WHOLE]
    return ToolkitVersion.parse(texts[0]) if texts else None


def _local(system: System) -> list[ToolkitFact]:
    """The trees in /usr/local whose name begins with ``musa``; an ``Unknown`` where it is shut."""
    names = system.list(PREFIX)
    if isinstance(names, Failure):
        trees = [read_tree(system, LINK)]
        return trees if names.kind == NOT_THERE else [*trees, Unknown(str(names))]
    return [read_tree(system, f"{PREFIX}/{name}") for name in names if name.startswith("musa")]


def _real(tree: Toolkit) -> bool:
    """Whether a folder is a Toolkit, be it half filled: its number or its runtime is there."""
    return tree.version is not None or tree.root == LINK or bool(_runtimes(tree.libraries))


def _runtimes(libraries: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in libraries if name.startswith("libmusart.so"))


def _named(folder: str) -> ToolkitVersion | None:
    """``5.2.0`` of the folder's name ``musa-5.2.0``."""
    found = _NAMED.fullmatch(folder)
    return ToolkitVersion.parse(found[1]) if found else None


def _age(tree: Toolkit) -> tuple[int, ...]:
    return tree.version.key if tree.version else ()
