"""From pieces to a machine that answers what they show."""

import json
from collections.abc import Sequence
from typing import cast

from musadoctor.probes.stated import SEARCH_PATH, SITE, key
from musadoctor.system import Found, Platform, Ran
from musadoctor.transcript.pieces import (
    CHILD,
    NEEDED,
    NVIDIA,
    PACKAGE,
    PLATFORM,
    REQUIRES,
    STATED,
    Piece,
)

Table = dict[str, object]
Step = dict[str, object]
"""A line of the torch child."""


def tables(pieces: Sequence[Piece]) -> dict[str, Table]:
    """The answers as a recording keeps them; the first to a question counts."""
    made: dict[str, Table] = {"files": {}, "folders": {}, "runs": {}, "programs": {}}
    steps: dict[str, Step] = {}
    said: dict[str, dict[str, str]] = {}
    for piece in pieces:
        for kind, subject, answer in piece.answers:
            if kind == STATED:
                said.setdefault(subject, {}).setdefault(str(answer), piece.first.where)
            elif kind == CHILD:
                _merge(steps, subject, cast("Step", answer))
            else:
                made.setdefault(kind, {}).setdefault(subject, answer)
    for kind, values in said.items():
        made["files"][key(kind)] = json.dumps(list(values.items()))
    _platform(made, made.pop(PLATFORM, {}))
    _packages(made, steps)
    return made


def _merge(steps: dict[str, Step], name: str, further: Step) -> None:
    """A step that was told twice keeps its first value and every warning."""
    known = steps.setdefault(name, further)
    if known is not further and "warnings" in further:
        told = cast("list[str]", known.get("warnings", []))
        known["warnings"] = [*told, *cast("list[str]", further["warnings"])]


def _platform(made: dict[str, Table], fields: Table) -> None:
    """The kernel, the processor and who asks; empty where they are not told."""
    version = str(fields.pop("python", ""))
    if fields or "/etc/os-release" in made["files"]:
        glibc = fields.get("glibc")
        made["platform"] = {
            "": Platform(
                kernel=str(fields.get("kernel", "")),
                architecture=str(fields.get("architecture", "")),
                host_name=None,
                glibc=str(glibc) if glibc else None,
                uid=cast("int", fields.get("uid", -1)),
                groups=cast("tuple[str, ...]", fields.get("groups", ())),
                own_python="",
            )
        }
    if version:
        answer = {
            "version": version,
            "implementation": "cpython",
            "abiflags": "",
            "prefix": "",
            "search_path": SEARCH_PATH,
        }
        made["programs"]["python3"] = Found("python3")
        made["runs"]["child:python"] = Ran("ok", 0, answer=json.dumps(answer))


def _packages(made: dict[str, Table], steps: dict[str, Step]) -> None:
    """The distributions as files, and what the torch child would have said."""
    names = made.pop(PACKAGE, {})
    requires, needed = made.pop(REQUIRES, {}), made.pop(NEEDED, {})
    nvidia = tuple(made.pop(NVIDIA, {}))
    if nvidia and _of_public_index(names.get("torch"), steps):
        requires.setdefault("torch", nvidia)
    if steps or needed:  # who imports torch_musa has both
        names.setdefault("torch", None)
        names.setdefault("torch_musa", None)
    if not names:
        return
    metadata = {name: f"{name}-{version}.dist-info" for name, version in names.items() if version}
    packages = [name for name in ("torch", "torch_musa") if name in names]
    made["folders"][SITE] = (*metadata.values(), *packages)
    made["folders"] |= {f"{SITE}/{name}": ("__init__.py",) for name in packages}
    for folder, file in needed.items():
        own = () if folder.endswith("/lib") else ("__init__.py",)
        made["folders"][folder] = (*own, str(file))
    for name, wanted in requires.items():
        lines = [f"Requires-Dist: {one}\n" for one in cast("tuple[str, ...]", wanted)]
        made["files"][f"{SITE}/{metadata[name]}/METADATA"] = "".join(lines)
    if steps:
        made["runs"]["child:torch"] = Ran("ok", 0, answer=_child(names, steps))


def _of_public_index(torch: object, steps: dict[str, Step]) -> bool:
    """Whether a torch with packages of CUDA beside it came with them.

    The public index's torch has a plain number; a vendor's build may have one too, but then it
    works.
    """
    plain = str(torch).replace(".", "").isdecimal()
    return plain and steps.get("is_available", {}).get("value") is not True


def _child(names: Table, steps: dict[str, Step]) -> str:
    """The torch child's lines: an import that failed ends them."""
    torch = {"version": names["torch"], "file": f"{SITE}/torch/__init__.py"}
    told: list[Step] = [
        _line(begin="import torch"),
        _line(end="import torch", value=torch),
        _line(begin="import torch_musa"),
    ]
    failed = steps.get("import torch_musa")
    if failed and steps.get("is_available", {}).get("value") is not True:
        told.append(failed)
    else:
        value = {"version": names["torch_musa"], "file": f"{SITE}/torch_musa/__init__.py"}
        told.append(_line(end="import torch_musa", value=value))
        for step in ("is_available", "device_count"):
            if step in steps:
                told += [_line(begin=step), steps[step]]
    told.append(_line(end="all"))
    return "\n".join(map(json.dumps, told))


def _line(**fields: object) -> Step:
    return fields
