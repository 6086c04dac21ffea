"""MUSA Toolkits, the libraries beside them, and which of them would be used."""

from typing import NamedTuple

from musadoctor.facts.base import Absent, Unknown
from musadoctor.versions import ComponentVersion, ToolkitVersion


class Component(NamedTuple):
    """One part of an SDK with its number."""

    name: str
    """As ``version.json`` or ``musa_version_query`` has it: ``mcc``, ``mudnn``, ``mccl``."""
    version: ComponentVersion
    branch: str | None = None
    """``release_musa_4.2.0``: the git branch that it was built from."""
    architectures: tuple[str, ...] = ()
    """``build archs``, ``("mp_21", "mp_22")``; empty where not stated."""
    commit: str | None = None


class Toolkit(NamedTuple):
    """One installed MUSA Toolkit."""

    root: str
    """Its folder, with links resolved: ``/usr/local/musa-5.2.0``."""
    version: ToolkitVersion | None
    """``None`` where neither ``version.json`` nor the folder's name tells."""
    source: str
    """What told the version, and for the one in use why it is that."""
    components: tuple[Component, ...]
    """What ``version.json`` lists beside the Toolkit itself."""
    libraries: tuple[str, ...]
    """Names of the shared libraries in ``lib``: ``libmusart.so.5.2.0``."""
    problem: str | None = None
    """What is wrong with the tree: no ``bin/mcc``, an unreadable ``version.json``."""

    assumed: bool = False
    """Whether only its number is known, and ``root`` is the usual place."""

    def component(self, name: str) -> Component | None:
        """The component of this name, ``None`` where version.json does not list it."""
        return next((c for c in self.components if c.name == name), None)

    def __str__(self) -> str:
        return f"Toolkit {self.version or 'of unknown version'} ({self.source})"


class Toolkits(NamedTuple):
    """Every Toolkit that is installed, the newest first."""

    installed: tuple[Toolkit, ...]
    source: str

    def __str__(self) -> str:
        return ", ".join(f"{t.version or '?'} in {t.root}" for t in self.installed)


class Route(NamedTuple):
    """One way by which software arrives at a Toolkit."""

    name: str
    """``MUSA_HOME``, ``MUSA_PATH``, ``mcc on PATH``, ``/usr/local/musa``, ``loader``, ``wheel``."""
    target: str
    """Where it leads: a folder, a library file, a wheel's name."""
    version: ToolkitVersion | None
    """The Toolkit's number; of the ``loader`` and ``wheel`` routes often the generation alone."""
    major: int | None
    """The generation, known more often than the number."""

    def __str__(self) -> str:
        number = self.version or (
            f"{self.major}.x" if self.major is not None else "unknown version"
        )
        return f"{self.name} -> {self.target} ({number})"


class ToolkitRoutes(NamedTuple):
    """All routes, and whether they arrive at the same place."""

    routes: tuple[Route, ...]

    @property
    def majors(self) -> tuple[int, ...]:
        """The distinct generations that the routes lead to."""
        return tuple(dict.fromkeys(r.major for r in self.routes if r.major is not None))

    @property
    def versions(self) -> tuple[ToolkitVersion, ...]:
        """The distinct numbers that the routes lead to."""
        return tuple(dict.fromkeys(r.version for r in self.routes if r.version is not None))

    def __str__(self) -> str:
        return "; ".join(str(route) for route in self.routes)


class Mcc(NamedTuple):
    """The compiler that PATH or the Toolkit in use gives."""

    path: str
    version: ComponentVersion

    def __str__(self) -> str:
        return f"mcc {self.version} ({self.path})"


class VersionQuery(NamedTuple):
    """A successful answer of ``musa_version_query``."""

    components: tuple[Component, ...]
    source: str

    def component(self, name: str) -> Component | None:
        """The block of this name."""
        return next((c for c in self.components if c.name == name), None)

    def __str__(self) -> str:
        return f"{len(self.components)} components ({self.source})"


class ComponentLibrary(NamedTuple):
    """muDNN or MCCL: the library, and its number where something states it."""

    name: str
    """``muDNN`` or ``MCCL``."""
    version: ComponentVersion | None
    path: str
    """The library file."""
    source: str
    """What states the version."""

    def __str__(self) -> str:
        return f"{self.name} {self.version or 'of unstated version'} ({self.source})"


class HiddenLibrary(NamedTuple):
    """The copy that a library would find by its own DT_RUNPATH, were it not for LD_LIBRARY_PATH."""

    path: str
    """With links resolved."""
    entry: str
    """The element of the DT_RUNPATH, as written: ``$ORIGIN/../lib``."""
    toolkit: ToolkitVersion | None
    """The Toolkit that it belongs to."""

    def __str__(self) -> str:
        return f"{self.path} (by RUNPATH {self.entry})"


class LoadableLibrary(NamedTuple):
    """The file that the loader would take for one soname."""

    soname: str
    path: str
    real_path: str
    """``path`` with links resolved: ``/usr/lib/x86_64-linux-gnu/libmusa.so.1.5.4``."""
    found_by: str
    """The rule: ``RPATH``, ``LD_LIBRARY_PATH``, ``RUNPATH``, ``ld.so.cache``, ``default path``."""
    problem: str | None
    """Why it cannot be loaded: ``empty file``, ``not an ELF file``, ``dangling link``."""
    entry: str = ""
    """The element of the search path that led there, as written: ``$ORIGIN/../lib``."""
    asked_by: str = ""
    """The library that needs it first when torch and torch_musa are imported; empty where none of
    them does, so that it was looked for by LD_LIBRARY_PATH, cache and default folders alone."""
    toolkit: ToolkitVersion | None = None
    """The Toolkit that the file belongs to."""
    hides: HiddenLibrary | None = None
    """What ``asked_by`` would have found in its own DT_RUNPATH."""

    def __str__(self) -> str:
        entry = f" {self.entry}" if self.found_by in {"RPATH", "RUNPATH"} else ""
        return f"{self.soname} -> {self.real_path} (by {self.found_by}{entry})"


class MissingLibrary(NamedTuple):
    """A soname that is needed, and that the loader does not find."""

    soname: str
    asked_by: str
    """The first library that needs it."""


class Libraries(NamedTuple):
    """What the loader would take for each MUSA library name that exists or is asked for."""

    found: tuple[LoadableLibrary, ...]
    missing: tuple[MissingLibrary, ...]
    """What ``import torch_musa`` needs of MUSA, MPI and MKL and the loader finds nowhere."""

    def of_name(self, stem: str) -> tuple[LoadableLibrary, ...]:
        """All found libraries of a stem, ``libmusart``."""
        return tuple(lib for lib in self.found if lib.soname.startswith(f"{stem}.so"))

    def __str__(self) -> str:
        asked = sum(1 for library in self.found if library.asked_by)
        needed = f", {asked} of them for torch_musa" if asked else ""
        return f"{len(self.found)} MUSA libraries on the loader's path{needed}"


class DriverFolder(NamedTuple):
    """A folder outside of the Toolkits that holds a ``libmusa``."""

    path: str
    """With links resolved."""
    version: ToolkitVersion | None
    """The SDK release that the path names: ``5.2.0`` of ``runtime-deps/5.2.0/lib``."""

    def __str__(self) -> str:
        return f"{self.path} ({self.version or 'of unstated release'})"


class DriverFolders(NamedTuple):
    """Folders with the user-space driver of one SDK release each, beside the system's."""

    folders: tuple[DriverFolder, ...]

    def of_release(self, version: ToolkitVersion) -> DriverFolder | None:
        """The folder for a Toolkit of this number."""
        return next(
            (f for f in self.folders if f.version and version <= f.version <= version), None
        )

    def __str__(self) -> str:
        return f"libmusa in {', '.join(map(str, self.folders))}"


ToolkitsFact = Toolkits | Absent | Unknown
ToolkitFact = Toolkit | Absent | Unknown
ToolkitRoutesFact = ToolkitRoutes | Absent | Unknown
MccFact = Mcc | Absent | Unknown
VersionQueryFact = VersionQuery | Absent | Unknown
ComponentLibraryFact = ComponentLibrary | Absent | Unknown
LoadableLibraryFact = LoadableLibrary | Absent | Unknown
LibrariesFact = Libraries | Absent | Unknown
DriverFoldersFact = DriverFolders | Absent | Unknown
