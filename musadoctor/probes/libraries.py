"""Which file the loader would take for each MUSA library, by its rules and without loading any.

For a name such as ``libmusart.so.5`` it goes through the folders of LD_LIBRARY_PATH, then its
cache, then the default folders. A file for another architecture is stepped over; one that is no
library ends the search with an error; a link to nothing is as good as no file. RPATH and RUNPATH
of the libraries that ask, LD_PRELOAD and glibc-hwcaps folders are not considered.
"""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from musadoctor.facts import (
    Absent,
    Libraries,
    LoadableLibrary,
    Python,
    TorchMusaBuild,
    Unknown,
)
from musadoctor.facts.toolkit import LibrariesFact, LoadableLibraryFact
from musadoctor.probes.distributions import torch_musa_build
from musadoctor.probes.environment import environment, stem_of
from musadoctor.probes.once import once
from musadoctor.probes.python import python
from musadoctor.probes.toolkit import real_path
from musadoctor.system import (
    NOT_ALLOWED,
    NOT_THERE,
    UNRECORDED,
    Failure,
    Platform,
    Stat,
    System,
)

WHERE = "in LD_LIBRARY_PATH, the loader's cache or default folders"
CACHED_PREFIXES = ("libm", "libsrv_um")
"""What the cache is asked for: MUSA's libraries, MPI and MKL all begin so."""

_OTHER_NEEDS = re.compile(r"libmpi\.so\.[0-9]+|libmkl_\w+\.so(\.[0-9]+)*")
_SONAME = re.compile(r".+\.so(\.[0-9]+)+|libsrv_um_MUSA\.so")


class _Place(NamedTuple):
    """One place where the loader looks, in the order of its rules."""

    rule: str
    names: Collection[str]
    """What is there."""
    paths: Mapping[str, str] | None = None
    """Of the cache: from names to paths."""
    folder: str = ""
    shut: bool = False
    """A folder that cannot be listed, which does not keep the loader from opening its files."""

    def file(self, name: str) -> str | None:
        if self.paths is not None:
            return self.paths.get(name)
        return posixpath.join(self.folder, name) if self.shut or name in self.names else None


@once
def libraries(system: System) -> LibrariesFact:
    """The file of each MUSA soname on the loader's path, and what torch_musa needs in vain.

    What the loader comes upon first is listed first.
    """
    variables = environment(system)
    if isinstance(variables, Unknown):
        return variables
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
    named = [entry.path or "." for entry in variables.library_path]
    places = [
        *(_folder(system, "LD_LIBRARY_PATH", path) for path in named),
        _Place("ld.so.cache", cached, paths=cached),
        *(_folder(system, "default path", path) for path in _defaults(system, platform)),
    ]

    needs = needs_of_torch_musa(system)
    there = dict.fromkeys(name for place in places for name in place.names)
    wanted = [name for name in there if stem_of(name) and _SONAME.fullmatch(name)]
    taken = [_take(system, name, places, platform) for name in dict.fromkeys((*wanted, *needs))]
    found = {library.soname: library for library in taken if library}
    missing = tuple(name for name in needs if name not in found and not _of_python(system, name))
    kept = tuple(_only_sonames(system, found, needs))
    if not kept and not missing:
        return Absent(f"no MUSA library {WHERE}")
    return Libraries(kept, missing)


def user_driver(system: System) -> LoadableLibraryFact:
    """The user-space driver ``libmusa.so.N`` that the loader would take."""
    return preferred(system, "libmusa")


def preferred(system: System, stem: str) -> LoadableLibraryFact:
    """Of the libraries of a stem the one that torch_musa asks for, else one that can be loaded."""
    known = libraries(system)
    if isinstance(known, Unknown):
        return known
    candidates = known.of_name(stem) if isinstance(known, Libraries) else ()
    needs = needs_of_torch_musa(system)
    ranked = sorted(candidates, key=lambda lib: (lib.soname not in needs, lib.problem is not None))
    return next(iter(ranked), Absent(f"no {stem}.so.* {WHERE}"))


def needs_of_torch_musa(system: System) -> tuple[str, ...]:
    """The sonames of MUSA, MPI and MKL that the installed torch_musa asks the loader for."""
    build = torch_musa_build(system)
    if not isinstance(build, TorchMusaBuild):
        return ()
    return tuple(name for name in build.needs if stem_of(name) or _OTHER_NEEDS.fullmatch(name))


def _folder(system: System, rule: str, path: str) -> _Place:
    names = system.list(path)
    if not isinstance(names, Failure):
        return _Place(rule, dict.fromkeys(names), folder=path)
    return _Place(rule, (), folder=path, shut=names.kind != NOT_THERE)


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


def _take(
    system: System, name: str, places: list[_Place], platform: Platform
) -> LoadableLibrary | None:
    """The first file that the loader does not step over, else the first that it does."""
    stepped_over: LoadableLibrary | None = None
    for place in places:
        path = place.file(name)
        if path is None:
            continue
        stat = system.stat(path)
        real = stat.real or path if isinstance(stat, Stat) else path
        library = LoadableLibrary(name, path, real, place.rule, None)
        elf = system.elf(path)
        if isinstance(elf, Failure):
            dangling = isinstance(stat, Stat) and stat.kind == "dangling"
            if elf.kind not in {NOT_THERE, NOT_ALLOWED}:
                # The detail is worded "PATH: what is wrong".
                return library._replace(problem=elf.detail.removeprefix(f"{path}: "))
            if elf.kind == NOT_THERE and not dangling:
                continue
            problem = "dangling link" if dangling else "may not be read"
        elif elf.machine == platform.architecture:
            return library
        else:
            problem = f"for {elf.machine}, this machine is {platform.architecture}"
        stepped_over = stepped_over or library._replace(problem=problem)
    return stepped_over


def _only_sonames(
    system: System, found: dict[str, LoadableLibrary], needs: tuple[str, ...]
) -> Iterator[LoadableLibrary]:
    """Leave out names that nothing asks for: ``libmusart.so.5.2.0`` beside ``libmusart.so.5``."""
    by_file: dict[str, str] = {}
    for name, library in found.items():
        shortest = by_file.setdefault(library.real_path, name)
        if len(name) < len(shortest):
            by_file[library.real_path] = name
    for name, library in found.items():
        if stem_of(name) is None:
            continue
        elf = system.elf(library.path)
        stated = None if isinstance(elf, Failure) else elf.soname
        if name in needs or name == (stated or by_file[library.real_path]):
            yield library


def _of_python(system: System, name: str) -> bool:
    """Whether the examined interpreter's own ``lib`` has it, as with MKL from pip or conda."""
    interpreter = python(system)
    return isinstance(interpreter, Python) and not isinstance(
        system.elf(f"{interpreter.prefix}/lib/{name}"), Failure
    )
