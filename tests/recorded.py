"""The recorded hosts of ``tests/hosts``: whole recordings, and those that differ from another."""

import json
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from musadoctor.doctor import Options, examine
from musadoctor.recording import Recording
from musadoctor.report import Report

HOSTS = Path(__file__).parent / "hosts"
CASES = sorted(path.parent.name for path in HOSTS.glob("*/recording.json"))


def recorded(case: str) -> Recording:
    """The machine of a case."""
    return Recording(json.dumps(whole(case)), case)


@cache
def examined(case: str) -> Report:
    """What is found on it, by the checks of the package alone."""
    return examine(recorded(case), Options(plugins=False, recording=case))


def whole(case: str) -> dict[str, Any]:
    """A case's recording; where it has a ``base``, that one less ``without``, with ``answers``."""
    own: dict[str, Any] = json.loads((HOSTS / case / "recording.json").read_text(encoding="utf-8"))
    if "base" not in own:
        return own
    base = whole(own["base"])
    for kind, patterns in own.get("without", {}).items():
        table = base["answers"][kind]
        kept = {s: a for s, a in table.items() if not any(fnmatchcase(s, p) for p in patterns)}
        assert len(kept) < len(table), f"{case}: nothing to leave out of {kind}"
        base["answers"][kind] = kept
    for kind, table in own["answers"].items():
        base["answers"].setdefault(kind, {}).update(table)
    return base
