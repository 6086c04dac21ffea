"""The rules of glibc's loader, applied without loading anything.

What a library needs is looked for, breadth first, in this order (ld.so(8), glibc's ``dl-load.c``):

1. what is in the process already, by the name that was asked for or by its soname
2. DT_RPATH of who asks, of who loaded that, and so on to the program, unless who asks has a
   DT_RUNPATH; of an object that has one the DT_RPATH counts for nothing
3. LD_LIBRARY_PATH
4. DT_RUNPATH of who asks
5. the loader's cache
6. the default folders

``$ORIGIN`` is the folder by which an object was found, with links in it not resolved. A file for
another architecture is stepped over; one that is no library ends the search with an error; a link
to nothing is as good as no file. Not considered: LD_PRELOAD, LD_AUDIT, glibc-hwcaps folders,
``-z nodefaultlib``, and a ``$PLATFORM`` other than the architecture.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from musadoctor.probes.toolkit import real_path
from musadoctor.system import (
    NOT_ALLOWED,
    NOT_THERE,
    UNRECORDED,
    Elf,
    Failure,
    Platform,
    Stat,
    System,
)

LIBRARY_PATH = "LD_LIBRARY_PATH"
MOST_NAMES = 500
"""Names that one process is followed to: torch and torch_musa need some sixty."""
_TOKEN = re.compile(r"\$(?:\{(\w+)\}|(ORIGIN|LIB|PLATFORM)(?!\w))", re.ASCII)


class Place(NamedTuple):
    """One place where the loader looks, in the order of its rules."""

    rule: str
    """``RPATH``, ``LD_LIBRARY_PATH``, ``RUNPATH``, ``ld.so.cache``, ``default path``."""
    entry: str
    """The element of a search path, as written."""
    names: Collection[str]
    """What is there."""
    folder: str = ""
    shut: bool = False
    """A folder that cannot be listed, which does not keep the loader from opening its files."""
    paths: Mapping[str, str] | None = None
    """Of the cache: from names to paths."""

    def file(self, name: str) -> str | None:
        """The path that is opened for a name, ``None`` where there is none."""
        if self.paths is not None:
            return self.paths.get(name)
        return posixpath.join(self.folder, name) if self.shut or name in self.names else None


class Taken(NamedTuple):
    """What the loader opens for a name."""

    place: Place
    path: str
    elf: Elf | None
    """``None`` where it cannot be loaded."""
    problem: str | None
    """Why not: ``empty file``, ``dangling link``."""


class Mapped(NamedTuple):
    """A library or program in the process."""

    path: str
    elf: Elf
    loader: "Mapped | None"
    """Who asked for it first."""


class Asked(NamedTuple):
    """A name that somebody asked for, and what it led to."""

    name: str
    asker: Mapped
    taken: Taken | None
    """``None`` where nothing of the name was found."""


class Process(NamedTuple):
    """What has been mapped so far; following one more file adds to it."""

    names: set[str]
    """By which something is there, or was looked for in vain."""
    files: set[str]
    """Paths, links in them resolved."""
    mapped: list[Mapped]
    asked: list[Asked]
    unrecorded: list[Failure]
    folders: dict[tuple[str, str], tuple[Place, ...]]
    """Of the DT_RPATH or DT_RUNPATH of an object."""


def empty_process() -> Process:
    """A process before its program is loaded."""
    return Process(set(), set(), [], [], [], {})


class Search(NamedTuple):
    """What does not depend on who asks."""

    architecture: str
    lib: str
    """What ``$LIB`` stands for: ``lib/x86_64-linux-gnu`` or ``lib64``."""
    library_path: tuple[Place, ...]
    rest: tuple[Place, ...]
    """The cache and the default folders."""
    everywhere: re.Pattern[str]
    """Names that are looked for in the rest too. What the system has of other names needs nothing
    of MUSA, and is not followed."""


def place(system: System, rule: str, entry: str, folder: str) -> Place:
    """A folder with what is in it."""
    names = system.list(folder)
    if not isinstance(names, Failure):
        return Place(rule, entry, dict.fromkeys(names), folder)
    return Place(rule, entry, (), folder, shut=names.kind != NOT_THERE)


def lib_folder(system: System, platform: Platform) -> str:
    """What ``$LIB`` stands for: Debian has a folder for each architecture."""
    debian = f"lib/{platform.architecture}-linux-gnu"
    return "lib64" if isinstance(system.stat(f"/usr/{debian}"), Failure) else debian


def expand(entry: str, origin: str, lib: str, architecture: str) -> str:
    """An element of a search path with its ``$ORIGIN``, ``${LIB}``, ``$PLATFORM`` filled in."""
    values = {"ORIGIN": origin, "LIB": lib, "PLATFORM": architecture}
    return _TOKEN.sub(lambda found: values.get(found[1] or found[2], found[0]), entry)


def take(
    system: System, name: str, places: Iterable[Place], architecture: str
) -> Taken | Failure | None:
    """The first file that the loader does not step over, else the first that it does.

    A failure where a recording does not tell.
    """
    stepped_over: Taken | None = None
    for looked in places:
        path = looked.file(name)
        if path is None:
            continue
        elf = system.elf(path)
        if isinstance(elf, Elf):
            if elf.machine == architecture:
                return Taken(looked, path, elf, None)
            problem = f"for {elf.machine}, this machine is {architecture}"
        elif elf.kind == UNRECORDED:
            return elf
        elif elf.kind == NOT_ALLOWED:
            problem = "may not be read"
        elif elf.kind != NOT_THERE:
            # The detail is worded "PATH: what is wrong".
            return Taken(looked, path, None, elf.detail.removeprefix(f"{path}: "))
        else:
            stat = system.stat(path)
            if not isinstance(stat, Stat) or stat.kind != "dangling":
                continue
            problem = "dangling link"
        stepped_over = stepped_over or Taken(looked, path, None, problem)
    return stepped_over


def follow(
    system: System, search: Search, process: Process, path: str, loader: Mapped | None
) -> Mapped | None:
    """Map a file that is opened by its path, then breadth first all that it needs.

    ``None`` where it cannot be mapped, or has been.
    """
    real = real_path(system, path)
    elf = system.elf(path)
    if isinstance(elf, Failure):
        process.unrecorded.extend([elf] if elf.kind == UNRECORDED else [])
        return None
    if real in process.files or elf.machine != search.architecture:
        return None
    first = Mapped(path, elf, loader)
    queue = [first]
    process.files.add(real)
    for asker in queue:
        process.mapped.append(asker)
        process.names.update(filter(None, (asker.elf.soname,)))
        for name in asker.elf.needed:
            if name in process.names or len(process.names) >= MOST_NAMES:
                continue
            process.names.add(name)
            places = _places(system, search, process, asker, name)
            taken = take(system, name, places, search.architecture)
            if isinstance(taken, Failure):
                process.unrecorded.append(taken)
                continue
            process.asked.append(Asked(name, asker, taken))
            if taken is None or taken.elf is None:
                continue
            real = real_path(system, taken.path)
            if real not in process.files:
                process.files.add(real)
                process.names.update(filter(None, (taken.elf.soname,)))
                queue.append(Mapped(taken.path, taken.elf, asker))
    return first


def own_copy(system: System, search: Search, process: Process, asked: Asked) -> Taken | None:
    """The file in the DT_RUNPATH of who asks, where LD_LIBRARY_PATH gives another one."""
    if asked.taken is None or asked.taken.place.rule != LIBRARY_PATH:
        return None
    places = _folders(system, search, process, "RUNPATH", asked.asker)
    own = take(system, asked.name, places, search.architecture)
    if not isinstance(own, Taken) or own.elf is None:
        return None
    same = real_path(system, own.path) == real_path(system, asked.taken.path)
    return None if same else own


def _places(
    system: System, search: Search, process: Process, asker: Mapped, name: str
) -> Iterator[Place]:
    if "/" in name:  # opened as it is, and nowhere else
        path = expand(name, posixpath.dirname(asker.path), search.lib, search.architecture)
        yield Place("its path", name, (), paths={name: path})
        return
    holder = None if asker.elf.runpath else asker
    while holder is not None:
        if not holder.elf.runpath:
            yield from _folders(system, search, process, "RPATH", holder)
        holder = holder.loader
    yield from search.library_path
    yield from _folders(system, search, process, "RUNPATH", asker)
    if search.everywhere.match(name):
        yield from search.rest


def _folders(
    system: System, search: Search, process: Process, rule: str, holder: Mapped
) -> tuple[Place, ...]:
    key = (rule, holder.path)
    if key not in process.folders:
        entries = holder.elf.runpath if rule == "RUNPATH" else holder.elf.rpath
        origin = posixpath.dirname(holder.path)
        process.folders[key] = tuple(
            place(system, rule, entry, expand(entry, origin, search.lib, search.architecture))
            for entry in entries
        )
    return process.folders[key]
