"""What came of asking one host, and the line of a kept file that holds it."""

import json
from typing import NamedTuple, cast

from musadoctor.report import JSON

ENVELOPE = "musadoctor_fleet"
VERSION = "1"
LONGEST_REPORT = 32 << 20
"""Bytes of a report; one of a host with eight cards has a tenth of a MiB."""

UNREACHABLE = "unreachable"
REFUSED = "refused"
TIMED_OUT = "timed out"
NO_MUSADOCTOR = "no musadoctor"
NO_PYTHON = "no Python"
DAMAGED = "damaged answer"
TOO_LARGE = "too large"
NOT_PLACED = "not placed"
NOT_ASKED = "not asked"
SILENT = "silent"


class Answer(NamedTuple):
    """One host's report, or why there is none."""

    host: str
    """As the engine calls it."""
    report: str | None
    """The JSON text as it came, not yet looked at."""
    kind: str = ""
    """Of a host without a report: one of the constants of this module."""
    reason: str = ""
    """The same in a sentence, with the engine's words."""


def envelope(answer: Answer, *, via: str, taken: str) -> str:
    """A line of a kept file; a report that is no JSON becomes a damaged answer."""
    head: dict[str, JSON] = {ENVELOPE: VERSION, "host": answer.host, "via": via, "taken": taken}
    if answer.report is not None:
        try:
            report = cast("JSON", json.loads(answer.report))
        except (ValueError, RecursionError) as error:
            answer = answer._replace(report=None, kind=DAMAGED, reason=f"no JSON: {error}")
        else:
            return json.dumps({**head, "report": report}, ensure_ascii=False)
    unanswered: JSON = {"kind": answer.kind, "reason": answer.reason}
    return json.dumps({**head, "unanswered": unanswered}, ensure_ascii=False)
