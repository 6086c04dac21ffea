"""Folders that hold the ``libmusa`` of one SDK release, beside the one that the system has.

``libmusa.so.1`` has this name in every release, and a Toolkit may need the one of its own. A host
with several Toolkits then has a tree for each release, ``runtime-deps/4.3.5/lib`` and
``runtime-deps/5.2.0/lib``, and scripts name the fitting folder in MUSA_DRIVER_LIB_DIR (both are the
convention of a project, which no MUSA software reads). Where one of these is named, by that
variable or in LD_LIBRARY_PATH, those beside it are looked at too.
"""

import re
from collections.abc import Iterator

from musadoctor.facts import Absent, DriverFolder, DriverFolders, Unknown
from musadoctor.facts.toolkit import DriverFoldersFact
from musadoctor.probes.environment import environment, stem_of
from musadoctor.probes.toolkit import real_path
from musadoctor.system import NOT_THERE, Failure, Stat, System
from musadoctor.versions import ToolkitVersion

VARIABLE = "MUSA_DRIVER_LIB_DIR"

_OF_RELEASE = re.compile(r"(/.+)/([^/]+)/lib", re.DOTALL)


def driver_folders(system: System) -> DriverFoldersFact:
    """Folders with a libmusa of their own, by MUSA_DRIVER_LIB_DIR and LD_LIBRARY_PATH."""
    variables = environment(system)
    if isinstance(variables, Unknown):
        return variables
    named = variables.get(VARIABLE)
    candidates = [
        *(_beside(system, named) if named else ()),
        *(
            folder
            for entry in variables.library_path
            if entry.path
            for folder in _beside(system, entry.path)
            if isinstance(folder, Failure) or folder.version is not None
        ),
    ]
    failures: list[Failure] = []
    found: dict[str, DriverFolder] = {}
    for folder in candidates:
        held = folder if isinstance(folder, Failure) else _holds_driver(system, folder.path)
        if isinstance(held, Failure):
            failures += [] if held.kind == NOT_THERE else [held]
        elif held and isinstance(folder, DriverFolder):
            found.setdefault(folder.path, folder)
    if found:
        return DriverFolders(tuple(found.values()))
    if failures:
        return Unknown(str(failures[0]))
    return Absent(f"no folder of a libmusa by {VARIABLE} or LD_LIBRARY_PATH")


def _beside(system: System, path: str) -> Iterator[DriverFolder | Failure]:
    """A folder; where its path names a release, also those of the other releases beside it."""
    real = real_path(system, path).rstrip("/")
    parts = _OF_RELEASE.fullmatch(real)
    version = ToolkitVersion.parse(parts[2]) if parts else None
    yield DriverFolder(real, version)
    if parts and version:
        names = system.list(parts[1])
        if isinstance(names, Failure):
            yield names
            return
        for name in names:
            other = ToolkitVersion.parse(name)
            if other:
                yield DriverFolder(f"{parts[1]}/{name}/lib", other)


def _holds_driver(system: System, path: str) -> bool | Failure:
    """Whether a folder has a libmusa that is there, and is not the library folder of a Toolkit."""
    names = system.list(path)
    if isinstance(names, Failure):
        return names
    stems = [(stem_of(name), name) for name in names]
    if any(stem == "libmusart" for stem, _ in stems):
        return False
    files = [system.stat(f"{path}/{name}") for stem, name in stems if stem == "libmusa"]
    return any(isinstance(s, Stat) and s.kind == "file" and s.size > 0 for s in files)
