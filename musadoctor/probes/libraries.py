"""Which file the loader would take for each MUSA library, by its rules and without loading any.

What ``import torch`` and ``import torch_musa`` map is followed from the interpreter on, file by
file (:mod:`musadoctor.probes.loader`). A name that none of it needs, such as the ``libmusa.so.4``
that a program opens later, is looked for in LD_LIBRARY_PATH, the cache and the default folders.
"""

import posixpath
import re
from collections.abc import Collection, Iterator

from musadoctor.facts import (
    Absent,
    HiddenLibrary,
    Libraries,
    LoadableLibrary,
    MissingLibrary,
    Python,
    Toolkits,
    TorchMusaBuild,
    Unknown,
)
from musadoctor.facts.toolkit import LibrariesFact, LoadableLibraryFact
from musadoctor.probes.distributions import Package, own_libraries, package, torch_musa_build
from musadoctor.probes.environment import environment, stem_of
from musadoctor.probes.loader import (
    LIBRARY_PATH,
    Place,
    Process,
    Search,
    Taken,
    empty_process,
    expand,
    follow,
    lib_folder,
    own_copy,
    place,
    take,
)
from musadoctor.probes.once import once
from musadoctor.probes.python import python
from musadoctor.probes.toolkit import real_path, toolkits, version_of_path
from musadoctor.system import UNRECORDED, Elf, Failure, Platform, System
from musadoctor.versions import ToolkitVersion

WHERE = "in LD_LIBRARY_PATH, the loader's cache or default folders"
CACHED_PREFIXES = ("libm", "libsrv_um")
"""What the cache is asked for: MUSA's libraries, MPI and MKL all begin so."""

_EVERYWHERE = re.compile("|".join(CACHED_PREFIXES))
_OTHER_NEEDS = re.compile(r"libmpi\.so\.[0-9]+|libmkl_\w+\.so(\.[0-9]+)*")
_SONAME = re.compile(r".+\.so(\.[0-9]+)+|libsrv_um_MUSA\.so")


@once
def libraries(system: System) -> LibrariesFact:
    """The file of each MUSA soname that the loader would take, and what torch_musa needs in vain.

    First what torch_musa asks for, then what the loader comes upon first.
    """
    search = _search(system)
    if not isinstance(search, Search):
        return search
    process = _imported(system, search)
    if process.unrecorded:
        return Unknown(str(process.unrecorded[0]))
    asked = _asked_for(system, search, process)
    plain = _on_path(system, search, {library.soname for library in asked})
    if isinstance(plain, Failure):
        return Unknown(str(plain))
    missing = tuple(
        MissingLibrary(one.name, one.asker.path)
        for one in process.asked
        if one.taken is None and (stem_of(one.name) or _OTHER_NEEDS.fullmatch(one.name))
    )
    found = (*asked, *_only_sonames(system, plain, {library.real_path for library in asked}))
    return Libraries(found, missing) if found or missing else Absent(f"no MUSA library {WHERE}")


def user_driver(system: System) -> LoadableLibraryFact:
    """The user-space driver ``libmusa.so.N`` that the loader would take."""
    return preferred(system, "libmusa")


def preferred(system: System, stem: str) -> LoadableLibraryFact:
    """Of the libraries of a stem the one that torch_musa asks for, else one that can be loaded."""
    known = libraries(system)
    if isinstance(known, Unknown):
        return known
    candidates = known.of_name(stem) if isinstance(known, Libraries) else ()
    ranked = sorted(candidates, key=lambda lib: (not lib.asked_by, lib.problem is not None))
    return next(iter(ranked), Absent(f"no {stem}.so.* {WHERE}"))


def _search(system: System) -> Search | Unknown:
    """Where the loader looks, whoever asks."""
    variables = environment(system)
    if isinstance(variables, Unknown):
        return variables
    if variables.partial and variables.get(LIBRARY_PATH) is None:
        return Unknown(f"{LIBRARY_PATH} is not shown")
    platform = system.platform()
    if isinstance(platform, Failure):
        return Unknown(str(platform))
    cached: dict[str, str] = {}
    for prefix in CACHED_PREFIXES:
        answer = system.cached(prefix)
        if not isinstance(answer, Failure):
            cached.update(answer)
        elif answer.kind == UNRECORDED:
            return Unknown(str(answer))
    lib = lib_folder(system, platform)
    origin = posixpath.dirname(_program(system))
    return Search(
        platform.architecture,
        lib,
        tuple(
            place(system, LIBRARY_PATH, path, expand(path, origin, lib, platform.architecture))
            for path in (entry.path or "." for entry in variables.library_path)
        ),
        (
            Place("ld.so.cache", "", cached, paths=cached),
            *(place(system, "default path", path, path) for path in _defaults(system, platform)),
        ),
        _EVERYWHERE,
    )


def _defaults(system: System, platform: Platform) -> list[str]:
    """The folders of Debian and of Red Hat, each once: ``/lib`` is often a link to ``/usr/lib``."""
    paths = [
        f"{prefix}/{folder}"
        for folder in (f"lib/{platform.architecture}-linux-gnu", "lib64", "lib")
        for prefix in ("", "/usr")
    ]
    seen: dict[str, str] = {}
    for path in paths:
        seen.setdefault(real_path(system, path), path)
    return list(seen.values())


def _program(system: System) -> str:
    """The file of the examined interpreter, empty where there is none."""
    interpreter = python(system)
    return real_path(system, interpreter.path) if isinstance(interpreter, Python) else ""


def _imported(system: System, search: Search) -> Process:
    """What the interpreter maps for torch and then torch_musa; nothing without torch_musa."""
    process = empty_process()
    interpreter = python(system)
    build = torch_musa_build(system)
    if not (isinstance(interpreter, Python) and isinstance(build, TorchMusaBuild) and build.path):
        return process
    program = follow(system, search, process, _program(system), None)
    # Extension modules are opened by whatever holds the interpreter's code.
    code = [m for m in process.mapped if posixpath.basename(m.path).startswith("libpython3.")]
    opener = next(iter(code), program)
    torch = package(system, interpreter, "torch")
    files = list(_torch_modules(system, torch.path)) if isinstance(torch, Package) else []
    for path in (*files, *own_libraries(system, build.path)):
        # The rest of torch_musa's folder is for later; of MUSA's it maps what is asked for by name.
        name = posixpath.basename(path)
        if name not in process.names and not stem_of(name):
            follow(system, search, process, path, opener)
    return process


def _torch_modules(system: System, path: str) -> Iterator[str]:
    """What ``import torch`` opens by its path."""
    yield f"{path}/lib/libtorch_global_deps.so"
    names = system.list(path)
    modules = () if isinstance(names, Failure) else names
    yield from (f"{path}/{name}" for name in modules if re.fullmatch(r"_C(\..+)?\.so", name))


def _asked_for(system: System, search: Search, process: Process) -> list[LoadableLibrary]:
    """The MUSA libraries that something in the process needs."""
    found: list[LoadableLibrary] = []
    for asked in process.asked:
        if asked.taken is None or not stem_of(asked.name):
            continue
        own = own_copy(system, search, process, asked)
        hidden = None
        if own:
            real = real_path(system, own.path)
            hidden = HiddenLibrary(real, own.place.entry, _toolkit_of(system, real))
        library = _library(system, asked.name, asked.taken)
        found.append(library._replace(asked_by=asked.asker.path, hides=hidden))
    return found


def _on_path(
    system: System, search: Search, known: Collection[str]
) -> list[LoadableLibrary] | Failure:
    """The other MUSA libraries that LD_LIBRARY_PATH, the cache and the default folders lead to."""
    places = (*search.library_path, *search.rest)
    found: list[LoadableLibrary] = []
    for name in dict.fromkeys(name for looked in places for name in looked.names):
        if name not in known and stem_of(name) and _SONAME.fullmatch(name):
            taken = take(system, name, places, search.architecture)
            if isinstance(taken, Failure):
                return taken
            if taken:
                found.append(_library(system, name, taken))
    return found


def _library(system: System, name: str, taken: Taken) -> LoadableLibrary:
    real = real_path(system, taken.path)
    return LoadableLibrary(
        name,
        taken.path,
        real,
        taken.place.rule,
        taken.problem,
        taken.place.entry,
        toolkit=_toolkit_of(system, real),
    )


def _toolkit_of(system: System, path: str) -> ToolkitVersion | None:
    installed = toolkits(system)
    return version_of_path(installed.installed if isinstance(installed, Toolkits) else (), path)


def _only_sonames(
    system: System, on_path: list[LoadableLibrary], asked: Collection[str]
) -> Iterator[LoadableLibrary]:
    """Leave out names that nothing asks for: ``libmusart.so.5.2.0`` beside ``libmusart.so.5``."""
    by_file: dict[str, str] = dict.fromkeys(asked, "")
    for library in on_path:
        shortest = by_file.setdefault(library.real_path, library.soname)
        by_file[library.real_path] = min(shortest, library.soname, key=len)
    for library in on_path:
        elf = system.elf(library.path)
        stated = elf.soname if isinstance(elf, Elf) else None
        if library.soname == (stated or by_file[library.real_path]):
            yield library
