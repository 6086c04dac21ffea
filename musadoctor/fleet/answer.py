"""What came of asking one host, and the line of a kept file that holds it."""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple, cast

from musadoctor.printable import printable
from musadoctor.report import JSON

ENVELOPE = "musadoctor_fleet"
VERSION = "1"
LONGEST_REPORT = 32 << 20
"""Bytes of a report; one of a host with eight cards has a tenth of a MiB."""

MOST_VALUES = 500_000
"""In one report, which has some ten thousand: a byte of JSON can take thirty in memory."""

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
KINDS = (
    *(UNREACHABLE, REFUSED, TIMED_OUT, NO_MUSADOCTOR, NO_PYTHON, DAMAGED, TOO_LARGE),
    *(NOT_PLACED, NOT_ASKED, SILENT),
)

LONGEST_REASON = 500
"""Characters that are kept of why a host did not answer."""
HOST = re.compile(r"[A-Za-z0-9._:-]{1,255}")
"""Names of hosts that are taken from outside."""
_TAKEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)


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


class EnvelopeError(ValueError):
    """A line of a kept file that cannot be understood; one sentence."""


class Opened(NamedTuple):
    """What a line of a kept file holds, each part checked but the report."""

    host: str
    taken: str
    report: Mapping[str, JSON] | None
    kind: str
    reason: str


def opened(document: Mapping[str, JSON]) -> Opened:
    """Read an envelope back, which may come from anywhere.

    Raises:
        EnvelopeError: it is of another version, or names no host.
    """
    version = document.get(ENVELOPE)
    if version != VERSION:
        raise EnvelopeError(f'expected an answer of version "{VERSION}", found {quoted(version)}')
    host = document.get("host")
    if not isinstance(host, str) or not HOST.fullmatch(host):
        raise EnvelopeError(f"{quoted(host)} is no name of a host")
    taken = day(document.get("taken"))
    report = document.get("report")
    if isinstance(report, dict):
        return Opened(host, taken, report, "", "")
    unanswered = document.get("unanswered")
    said = unanswered if isinstance(unanswered, dict) else {}
    kind, reason = said.get("kind"), said.get("reason")
    if not isinstance(kind, str) or kind not in KINDS:
        return Opened(host, taken, None, DAMAGED, "the answer has no report and no reason")
    return Opened(host, taken, None, kind, line(reason if isinstance(reason, str) else ""))


def day(value: JSON) -> str:
    """When an answer was taken, in UTC as we write it; ``""`` for anything else."""
    return value if isinstance(value, str) and _TAKEN.fullmatch(value) else ""


def line(text: str, longest: int = LONGEST_REASON) -> str:
    """Text from another machine as one line that a terminal may have."""
    # More is not looked at: what is cut off may be a hundred MiB of blanks.
    shown = " ".join(printable(text[: 2 * longest]).split())
    return shown if len(shown) <= longest else f"{shown[: longest - 3]}..."


def quoted(value: JSON) -> str:
    """A JSON value as a sentence may show it."""
    if isinstance(value, str):
        return line(json.dumps(value, ensure_ascii=False), 40)
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "nothing"
    if isinstance(value, (int, float)):  # it may have more digits than Python is willing to write
        return "a number"
    return "a list" if isinstance(value, list) else "an object"


def too_much(data: bytes) -> bool:
    """Whether JSON may hold more values than :data:`MOST_VALUES`; it is not parsed to tell."""
    return sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES
