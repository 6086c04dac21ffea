"""Lines that include other files."""

import os
from collections.abc import Sequence

from musadoctor.api import Entry, Fix, Requirements
from musadoctor_checks.requirements._case import REFUSED, Case


def included(
    requirements: Requirements, cases: list[tuple[Entry, Case]]
) -> list[tuple[Entry, Case]]:
    """What is to be said of the lines that include other files."""
    includes = [entry for entry in requirements.entries if entry.kind == "include"]
    if not includes:
        return []
    told = {(entry.where, entry.url) for entry in requirements.entries if is_failed(entry)}
    read = {os.path.normpath(f.path) for f in requirements.files if not f.problem}
    into: dict[str, list[str]] = {}
    followed: dict[str, list[str]] = {}
    for file in requirements.files:
        followed.setdefault(file.included_by, []).append(file.path)
    targets = [_target(entry, followed.get(entry.where, ())) for entry in includes]
    for entry, target in zip(includes, targets, strict=True):
        into.setdefault(target, []).append(_file(entry))
    refused = {_file(entry) for entry, case in cases if case.check in REFUSED}
    pending = list(refused)
    while pending:
        above = [path for path in into.get(pending.pop(), ()) if path not in refused]
        refused.update(above)
        pending += above
    found: list[tuple[Entry, Case]] = []
    for entry, target in zip(includes, targets, strict=True):
        if (entry.where, entry.url) in told:
            continue
        if target not in read:
            found.append((entry, unread(entry)))
        elif target in refused:
            written = f"{entry.option} {entry.url}".strip()
            stem, suffix = os.path.splitext(written)
            fix = Fix("include a copy that is safe on MUSA", instead=f"{stem}.musa{suffix}")
            message = f"{written} asks for what is refused"
            found.append((entry, Case("include-refused", message, fix)))
    return found


def is_failed(entry: Entry) -> bool:
    """Whether it says why a file was not included."""
    return entry.kind == "unreadable" and bool(entry.option and entry.url)


def unread(entry: Entry) -> Case:
    """What is said of a file that was not read."""
    why = entry.reason or "not read, so nothing is known of what it asks for"
    message = f"{entry.option} {entry.url}: {why}"
    return Case("include-unread", message, Fix("put the file there, or judge it on its own"))


def _file(entry: Entry) -> str:
    return os.path.normpath(entry.where.rpartition(":")[0])


def _target(entry: Entry, followed: Sequence[str]) -> str:
    """The path of an included file: of those that its line led to, or one that was read before."""
    name = os.path.basename(entry.url)
    path = next((path for path in followed if os.path.basename(path) == name), "")
    folder = os.path.dirname(entry.where.rpartition(":")[0])
    return os.path.normpath(path or os.path.join(folder, entry.url))


def chains(requirements: Requirements) -> dict[str, str]:
    """By path, what is said of a file that was included."""
    above = {f.path: f.included_by for f in requirements.files if f.included_by}
    said: dict[str, str] = {}
    for path, where in above.items():
        seen = [where]
        while (up := above.get(seen[-1].rpartition(":")[0])) and up not in seen:
            seen.append(up)
        said[path] = f" (included by {', '.join(seen)})"
    return said
