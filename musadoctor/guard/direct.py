"""A list of requirements out of a file that is none: what a project asks for directly.

A lock names everything that is installed. What of it the project itself asks for stands in uv.lock,
and else in the project's own file beside the lock; without that file the list is all of the lock.
"""

import os
import re
from collections.abc import Iterable, Iterator

from musadoctor.facts.requirements import Entry, Requirements, RequirementsFile
from musadoctor.requirements.files import read, text_of
from musadoctor.requirements.requirement import normalised

MANIFESTS = {
    "uv.lock": "pyproject.toml",
    "poetry.lock": "pyproject.toml",
    "pdm.lock": "pyproject.toml",
    "Pipfile.lock": "Pipfile",
    "pixi.lock": "pixi.toml",
}
"""By a lock's form, the file that it is made from."""
_ELSEWHERE = frozenset({"build", "constraint", "task"})
_OWN = re.compile(r"^source = \{ (?:virtual|editable) = ", re.MULTILINE)
_ASKED_FOR = re.compile(r'\{ name = "([^"]+)"')


def listed(requirements: Requirements, file: RequirementsFile) -> str:
    """The text of a requirements file with what ``file`` asks for, and a head that says so."""
    entries = [e for e in requirements.entries if e.kind in {"requirement", "source", "conda"}]
    what = "what it asks for"
    if file.format in MANIFESTS:
        names, source = _direct(file)
        if names:
            entries = [e for e in entries if e.name in names]
            what = f"of it what {source} asks for directly"
        else:
            what = "all of it, as nothing tells what of it is asked for directly"
    name = os.path.basename(file.path)
    head = f"# Made by musadoctor from {name}: {what}. {name} is not changed."
    return "".join(f"{line}\n" for line in dict.fromkeys((head, *_lines(entries))))


def _direct(file: RequirementsFile) -> tuple[frozenset[str], str]:
    """The names that a lock's project asks for itself, and where that stands."""
    if file.format == "uv.lock" and (names := _own_of_uv(text_of(file.path).text)):
        return names, "its project"
    manifest = os.path.join(os.path.dirname(file.path), MANIFESTS[file.format])
    found = read([manifest])
    names = frozenset(
        entry.name
        for entry in found.entries
        if entry.name
        and entry.scope not in _ELSEWHERE
        and entry.kind in {"requirement", "source", "conda"}
    )
    return names, os.path.basename(manifest)


def _own_of_uv(text: str) -> frozenset[str]:
    """What the packages of a uv.lock ask for that are folders: the project and its members."""
    own = [block for block in text.split("[[package]]") if _OWN.search(block)]
    return frozenset(normalised(name) for block in own for name in _ASKED_FOR.findall(block))


def _lines(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in sorted(entries, key=lambda entry: bool(_group(entry))):
        if entry.scope in _ELSEWHERE:
            continue
        line = _requirement(entry)
        if not line:
            yield f"# Not carried over: {entry.text}"
        elif group := _group(entry):
            yield f"# {group}: {line}"
        else:
            yield line


def _group(entry: Entry) -> str:
    """The extra or group that it belongs to, which is not installed unasked."""
    return entry.scope if entry.scope.startswith(("extra:", "group:")) else ""


def _requirement(entry: Entry) -> str:
    """The entry as a line; empty of what pip does not install, or only from this folder."""
    if entry.kind == "conda" or (entry.url and "://" not in entry.url):
        return ""
    extras = f"[{','.join(entry.extras)}]" if entry.extras else ""
    marker = f"; {entry.marker}" if entry.marker else ""
    if not entry.url:
        return f"{entry.name}{extras}{entry.specifier}{marker}"
    asked = f"{entry.name}{extras} @ {entry.url}" if entry.name else entry.url
    return f"{asked} {marker}".strip()
