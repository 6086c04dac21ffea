"""musadoctor in one file that needs nothing but Python 3.10 and its own library.

It is made of the installation that runs: musadoctor, its own checks, and the Python files of what
it depends on, as those distributions list them. Nothing compiled goes along, so one file does for
every machine and interpreter. Other people's packages of checks are not taken.
"""

import importlib.metadata
import io
import zipfile
import zipimport
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from musadoctor.fleet.carry.errand import EngineError

OWN = ("musadoctor", "musadoctor_checks")
NOT_ON_A_HOST = frozenset({"rich", "clustershell"})
"""Distributions that ``--json`` does without: they draw, and name hosts."""
START = """\
import sys
if sys.version_info < (3, 10):
    sys.exit("musadoctor: Python 3.10 or later is needed, this is %d.%d" % sys.version_info[:2])
from musadoctor.__main__ import main
main()
"""
SHEBANG = b"#!/usr/bin/env python3\n"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The same files always make the same zip file."""
LEGAL = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "AUTHORS")


def zipapp(*, full: bool = False) -> bytes:
    """The file; with ``full`` one that can do all that this installation can.

    The other is for hosts, which report in JSON only. From a zipapp this gives that file itself.

    Raises:
        EngineError: a part of the installation is missing.
    """
    loader = _loader()
    if isinstance(loader, zipimport.zipimporter):
        with open(loader.archive, "rb") as file:
            own = file.read()
        if full and find_spec("rich") is None:
            raise EngineError("this zipapp can only report in JSON, and makes none that can more")
        return own
    files = {"__main__.py": START.encode()}
    for package in OWN:
        files |= _package(package)
    for distribution in _needed(frozenset() if full else NOT_ON_A_HOST):
        files |= _distributed(distribution)
    made = io.BytesIO(SHEBANG)
    made.seek(0, io.SEEK_END)
    with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, EPOCH)
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, files[name], zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _loader() -> object:
    spec = find_spec("musadoctor")
    return spec and spec.loader


def _package(name: str) -> dict[str, bytes]:
    """All of a package of ours but its byte code; an editable installation lists no files."""
    spec = find_spec(name)
    places = spec.submodule_search_locations if spec else None
    if not places:
        raise EngineError(f"{name} is not where it belongs: install musadoctor again")
    root = Path(places[0])
    return {
        f"{name}/{path.relative_to(root).as_posix()}": path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _needed(without: Iterable[str]) -> Iterator[importlib.metadata.Distribution]:
    """What musadoctor depends on, and what that depends on."""
    seen, waiting = {"musadoctor", *without}, ["musadoctor"]
    while waiting:
        name = waiting.pop()
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise EngineError(f"{name} is not installed: install musadoctor again") from None
        if name != "musadoctor":
            yield distribution
        for text in distribution.requires or ():
            required = Requirement(text)
            other = canonicalize_name(required.name)
            wanted = required.marker is None or required.marker.evaluate({"extra": ""})
            if wanted and other not in seen:
                seen.add(other)
                waiting.append(other)


def _distributed(distribution: importlib.metadata.Distribution) -> dict[str, bytes]:
    """A distribution's Python files, and its terms."""
    found: dict[str, bytes] = {}
    try:
        for listed in distribution.files or ():
            name = str(listed)
            if ".." not in listed.parts and _taken(listed):
                found[name] = listed.read_binary()
    except OSError as error:
        raise EngineError(f"{error.filename} cannot be read: install musadoctor again") from None
    if not any(name.endswith(".py") for name in found):
        raise EngineError(
            f"it is not known which files {distribution.metadata['Name']} consists of: "
            "install musadoctor again"
        )
    return found


def _taken(path: PurePosixPath) -> bool:
    if path.parts[0].endswith(".dist-info"):
        return path.name.upper().startswith(LEGAL)
    return path.suffix == ".py"
