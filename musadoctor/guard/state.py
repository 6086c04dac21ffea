"""What of an installed distribution can be compared before and after, told by its files."""

import hashlib
import re
from collections.abc import Sequence

from musadoctor.facts.python import Python
from musadoctor.probes.python import python
from musadoctor.requirements.requirement import normalised
from musadoctor.system import Failure, System

_LIBRARY = re.compile(r".*\.so(?:\.[\d.]+)?")
_TELLING = ("/version.py", "/__init__.py")
_METADATA = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)\.dist-info")


def states(system: System, names: Sequence[str]) -> dict[str, str]:
    """The version and a digest of the files of each distribution, empty of one that is not there.

    The digest covers RECORD, without what installers write into it themselves, and the true sizes
    of the libraries and version files that it lists: files can be overwritten behind its back.
    """
    found = dict.fromkeys(names, "")
    for name, version, folder in _metadata(system):
        if name in found and not found[name]:
            found[name] = f"{version} {_digest(system, folder)}"
    return found


def twice(system: System, names: Sequence[str]) -> tuple[str, ...]:
    """The distributions that one folder holds the metadata of more than once."""
    seen = [name for name, _, _ in _metadata(system)]
    return tuple(name for name in names if seen.count(name) > 1)


def _metadata(system: System) -> list[tuple[str, str, str]]:
    """Name, version and folder of the metadata of all that is installed."""
    interpreter = python(system)
    found: list[tuple[str, str, str]] = []
    for place in interpreter.search_path if isinstance(interpreter, Python) else ():
        names = system.list(place)
        for entry in () if isinstance(names, Failure) else names:
            named = _METADATA.fullmatch(entry)
            if named:
                found += [(normalised(named["name"]), named["version"], f"{place}/{entry}")]
    return found


def _digest(system: System, folder: str) -> str:
    record = system.read(f"{folder}/RECORD")
    if isinstance(record, Failure):
        return "unread"
    place, _, own = folder.rpartition("/")
    digest = hashlib.sha256()
    for line in sorted(record.splitlines()):
        path = line.partition(",")[0].strip('"')
        if path.startswith((f"{own}/", "..")) or "__pycache__/" in path:
            continue
        digest.update(line.encode())
        if _LIBRARY.fullmatch(path) or path.endswith(_TELLING):
            stat = system.stat(f"{place}/{path}")
            digest.update(b"gone" if isinstance(stat, Failure) else b"%d" % stat.size)
    return digest.hexdigest()
