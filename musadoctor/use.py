"""Make one installed Toolkit the one in use: what a shell has to set, and what speaks against it.

The rules of what goes with what are the checks'. Each is asked of the host as it would be with the
Toolkit in use.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from musadoctor.api import Check
from musadoctor.engine import diagnose, judge
from musadoctor.facts import (
    Absent,
    DriverFolders,
    Environment,
    Python,
    SearchEntry,
    Toolkit,
    Toolkits,
    TorchMusaBuild,
    Unknown,
)
from musadoctor.plugins import load
from musadoctor.probes.driver_folders import VARIABLE as DRIVER_FOLDER
from musadoctor.probes.toolkit import tree_of_path
from musadoctor.recording import Recorder
from musadoctor.selection import find
from musadoctor.system import System
from musadoctor.versions import ToolkitVersion

BARRING = ("torch-musa-for-other-generation", "driver-toolkit-mismatch")
"""Whoever fails one of these cannot be used with the installed wheel or the loaded driver."""
DOUBTING = ("torch-musa-for-other-release",)
FACTS = ("toolkits", "toolkit", "environment", "driver_folders", "torch_musa_build", "python")
DEFAULT_PATH = ("/usr/bin", "/bin")
"""What a shell without PATH looks through."""
SHARED = {"/", "/usr", "/usr/local"}
"""Folders that hold more than a Toolkit, even where one was installed right into them."""

Settings = tuple[tuple[str, str | None], ...]
"""Variables with their values in order, ``None`` for one that is to be unset."""


class Use(NamedTuple):
    """One installed Toolkit, and what would make it the one in use."""

    toolkit: Toolkit
    why: str
    """Why it is this one, where none was asked for."""
    settings: Settings
    bars: tuple[str, ...]
    """Why it cannot be used with the wheel or the driver."""
    doubts: tuple[str, ...]
    """What may be wrong with it, or is not known of it."""


class _Judged(NamedTuple):
    tree: Toolkit
    bars: tuple[str, ...]
    faults: tuple[str, ...]
    """What speaks against it, but does not bar it."""
    unknown: tuple[str, ...]


def find_use(system: System, wanted: str | None, *, seconds: float) -> Use | Absent | Unknown:
    """Look at a machine, and choose; see :func:`choose`."""
    checks = load(plugins=False).checks
    rules = [find(checks, name) for name in (*BARRING, *DOUBTING)]
    needed = {*FACTS, *(name for check in rules for name in check.needs)}
    known = diagnose(Recorder(system), (), seconds=seconds, facts=tuple(needed)).facts
    return choose(known, rules, wanted)


def choose(
    facts: Mapping[str, object], rules: Sequence[Check], wanted: str | None
) -> Use | Absent | Unknown:
    """The Toolkit of a number, else the one that fits best.

    That is the one that the installed torch_musa was built for, else the newest that no rule
    speaks against, else the newest. ``Absent`` says that there is none, ``Unknown`` that this
    could not be found out.
    """
    toolkits, environment = facts["toolkits"], facts["environment"]
    for fact in (toolkits, environment):
        if isinstance(fact, (Absent, Unknown)):
            return fact
    assert isinstance(toolkits, Toolkits)
    assert isinstance(environment, Environment)
    installed = toolkits.installed
    number = None if wanted is None else ToolkitVersion.parse(wanted)
    judged = [
        _judge(tree, facts, rules)
        for tree in installed
        if wanted is None or _is_of(tree.version, number)
    ]
    if not judged:
        return Absent(f"Toolkit {wanted} is not installed; installed: {toolkits}")

    build = facts["torch_musa_build"]
    built_for = build.built_for if isinstance(build, TorchMusaBuild) else None
    best = min(
        judged, key=lambda j: (not _is_of(j.tree.version, built_for), bool(j.bars), bool(j.faults))
    )
    # Of two trees of one number the whole one, then the one in use.
    in_use = facts["toolkit"]
    root = in_use.root if isinstance(in_use, Toolkit) else ""
    chosen = min(
        (j for j in judged if j.tree.version == best.tree.version),
        key=lambda j: (j.tree.problem is not None, j.tree.root != root),
    )
    tree = chosen.tree
    if re.search("[:;]", tree.root):
        return Absent(
            f"no search path can name {tree.root}: colons and semicolons separate folders"
        )

    driver, driver_doubts = _driver_folder(tree, root, facts["driver_folders"])
    problem = [f"{tree.root}: {tree.problem}"] if tree.problem else []
    return Use(
        tree,
        "" if wanted is not None else _why(chosen, judged, build, built_for),
        _settings(tree, environment, installed, driver, facts),
        chosen.bars,
        (*problem, *chosen.faults, *chosen.unknown, *driver_doubts),
    )


def _is_of(version: ToolkitVersion | None, number: ToolkitVersion | None) -> bool:
    """Whether two numbers are the same, ``5.2`` and ``5.2.0`` too."""
    return version is not None and number is not None and version <= number <= version


def _judge(tree: Toolkit, facts: Mapping[str, object], rules: Sequence[Check]) -> _Judged:
    bars: list[str] = []
    faults: list[str] = []
    unknown: list[str] = []
    for rule in rules:
        result = judge(rule, {**facts, "toolkit": tree})
        (bars if rule.id in BARRING else faults).extend(f.message for f in result.findings)
        if result.status == "unknown":
            unknown.append(result.reason)
    return _Judged(tree, tuple(bars), tuple(faults), tuple(unknown))


def _why(
    chosen: _Judged, judged: Sequence[_Judged], build: object, built_for: ToolkitVersion | None
) -> str:
    if len(judged) == 1:
        return "the only one that is installed"
    if isinstance(build, TorchMusaBuild) and _is_of(chosen.tree.version, built_for):
        return f"torch_musa {build.version} was built for it"
    if chosen.tree.version == judged[0].tree.version:
        return f"the newest of {len(judged)} that are installed"
    return "the newest that goes with the wheel and the driver"


def _driver_folder(tree: Toolkit, root: str, known: object) -> tuple[str | None, tuple[str, ...]]:
    """The folder of the libmusa that fits a Toolkit, and what is not known of it.

    One that names no release is by its variable's meaning that of the Toolkit in use, ``root``.
    """
    if isinstance(known, Unknown):
        return None, (f"whether a libmusa belongs to this Toolkit is not known: {known}",)
    if not isinstance(known, DriverFolders):
        return None, ()
    fitting = known.of_release(tree.version) if tree.version else None
    unnamed = next((folder for folder in known.folders if folder.version is None), None)
    if fitting is None and unnamed is not None:
        if tree.root == root:
            return unnamed.path, ()
        return None, (f"the libmusa in {unnamed.path} is left out: it names no release",)
    return (fitting.path if fitting else None), ()


def _settings(
    tree: Toolkit,
    environment: Environment,
    installed: Sequence[Toolkit],
    driver: str | None,
    facts: Mapping[str, object],
) -> Settings:
    """What makes a Toolkit the one in use; the same again where that is so already."""
    python, folders = facts["python"], facts["driver_folders"]
    prefix = python.prefix if isinstance(python, Python) else ""
    drivers = folders.folders if isinstance(folders, DriverFolders) else ()
    taken_out = {folder.path for folder in drivers}

    def foreign(entry: SearchEntry) -> bool:
        owner = tree_of_path(installed, entry.real_path)
        if owner is not None:
            return owner.root != tree.root and owner.root not in {*SHARED, prefix}
        runtime = any(name.startswith("libmusart.so") for name in entry.libraries)
        named = entry.toolkit is not None and bool(entry.libraries)
        return (runtime or named) and entry.real_path != f"{prefix}/lib"

    path = [entry.path for entry in environment.path if not foreign(entry)] or DEFAULT_PATH
    library_path = [
        entry.path
        for entry in environment.library_path
        if entry.state in {"ok", "unreadable"}
        and entry.real_path not in taken_out
        and not foreign(entry)
    ]
    # A link to the Toolkit may lead elsewhere tomorrow, so it is replaced by where it leads.
    there = {e.path: e.real_path for e in (*environment.path, *environment.library_path)}
    musa_path = environment.get("MUSA_PATH") or ""
    return (
        ("MUSA_HOME", tree.root),
        *(() if musa_path.rstrip("/") == tree.root else (("MUSA_PATH", None),)),
        (DRIVER_FOLDER, driver),
        ("PATH", _joined([f"{tree.root}/bin"], path, there)),
        (
            "LD_LIBRARY_PATH",
            _joined([*([driver] if driver else []), f"{tree.root}/lib"], library_path, there),
        ),
    )


def _joined(first: Sequence[str], rest: Iterable[str], there: Mapping[str, str]) -> str:
    """A search path without what comes twice, by its name or as a link to one of the first."""
    kept = [path for path in rest if path.rstrip("/") not in first and there.get(path) not in first]
    return ":".join(dict.fromkeys((*first, *kept)))
