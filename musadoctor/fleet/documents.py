"""What a piece of a file holds: reports, recordings, kept answers, and what is none of these."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from musadoctor.fleet.answer import (
    DAMAGED,
    ENVELOPE,
    HOST,
    EnvelopeError,
    day,
    line,
    opened,
    quoted,
    too_much,
)
from musadoctor.fleet.sources import SUFFIXES, Piece, document_after
from musadoctor.fleet.state import LeftOut, Unanswered
from musadoctor.fleet.summary import ForeignError, HostSummary, of_report, summarise
from musadoctor.recording import FORMAT, Recording, RecordingError
from musadoctor.report import JSON

MOST_DAMAGED = 100
"""In one piece; what follows is not looked at."""
LONGEST_NUMBER = 40
"""Digits; older Pythons take hours over a number that has millions."""
FURTHER_FACTS = ("rdma",)
"""What is asked of a recording beside what the checks ask."""
TOO_MUCH = "more values than a report can have"
NAMELESS = "names no host: make it with --no-redact, or keep one file a host, named after it"


class Told(NamedTuple):
    """What is said of a host in one place."""

    host: str
    taken: str
    source: str
    told: HostSummary | Unanswered


class _Value(NamedTuple):
    """A JSON value in a text, or why there is none."""

    value: JSON
    text: str
    """All of it: the value's own part is from ``start`` to ``end``."""
    start: int
    end: int
    line: int
    """Counted from 0."""
    alone: bool
    """Whether there is nothing else in the text."""
    problem: str


def documents(piece: Piece) -> list[Told | LeftOut]:
    """All that a piece tells; what cannot be understood is left out, and what follows it read."""
    if too_much(piece.data):
        return [LeftOut(piece.where, TOO_MUCH)]
    text = piece.data.decode("utf-8", "replace")
    told: list[Told | LeftOut] = []
    for one in _values(text):
        if piece.whole and one.alone:
            source, name = piece.source, _stem(piece.source)
        else:
            source, name = f"{piece.source}, line {piece.line + one.line}", ""
        if isinstance(one.value, dict):
            told.append(_read(one.value, one, source, name))
        else:
            told.append(LeftOut(source, one.problem))
    return told or [LeftOut(piece.where, "holds nothing")]


def report_of(text: str) -> Mapping[str, JSON]:
    """A report's JSON, which a host has sent.

    Raises:
        ForeignError: it is none.
    """
    if too_much(text.encode(errors="replace")):
        raise ForeignError(TOO_MUCH)
    one = next(_values(text), None)
    if one is not None and isinstance(one.value, dict) and one.alone:
        return one.value
    raise ForeignError((one and one.problem) or "expected one report and nothing else")


def _values(text: str) -> Iterator[_Value]:
    """The objects in a text, one after the other; after a damaged one those on the next lines."""
    first = start = document_after(text, 0)
    lines, bad = text.count("\n", 0, start), 0
    while start < len(text):
        value: JSON = None
        end = start
        try:
            value, end = _DECODE(text, start)
            problem = "" if isinstance(value, dict) else f"expected a report, found {quoted(value)}"
        except json.JSONDecodeError as error:
            problem = f"no JSON, or a part of it: {error.msg}"
        except RecursionError:
            problem = "no report: nested too deeply"
        if problem:
            bad += 1
            # An object that is not whole may have taken in those after it.
            found = text.find("\n{", start)
            end = found if found >= 0 and bad < MOST_DAMAGED else len(text)
        if bad == MOST_DAMAGED:
            problem = f"{problem}; nor is what follows looked at"
        after = document_after(text, end)
        alone = start == first and after == len(text)
        yield _Value(value, text, start, end, lines, alone, problem)
        lines += text.count("\n", start, after)
        start = after


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= LONGEST_NUMBER else float(digits)


_DECODE = json.JSONDecoder(parse_int=_number).raw_decode


def _read(document: Mapping[str, JSON], one: _Value, source: str, name: str) -> Told | LeftOut:
    """What an object tells; ``name`` is the host's, as far as the file's name tells it."""
    try:
        if ENVELOPE in document:
            answer = opened(document)
            if answer.report is None:
                unanswered = Unanswered(answer.host, answer.kind, answer.reason)
                return Told(answer.host, answer.taken, source, unanswered)
            return judged(answer.host, answer.report, source, answer.taken)
        if document.get("format") == FORMAT:
            text, taken = one.text[one.start : one.end], day(document.get("taken"))
            summary = _diagnosed(text, source, name, taken)
        else:
            vantage = document.get("vantage")
            own = vantage.get("host") if isinstance(vantage, dict) else None
            host = own if isinstance(own, str) and HOST.fullmatch(own) else name
            summary = summarise(document, host=host, source=source, taken="")
    except (EnvelopeError, ForeignError, RecordingError) as error:
        return LeftOut(source, line(str(error).removeprefix(f"{source}: ")))
    if not summary.host:
        return LeftOut(source, NAMELESS)
    return Told(summary.host, summary.taken, source, summary)


def judged(host: str, report: Mapping[str, JSON], source: str, taken: str) -> Told:
    """A known host's report; where it is none of ours, the host has not answered."""
    try:
        told = summarise(report, host=host, source=source, taken=taken)
    except ForeignError as error:
        return Told(host, taken, source, Unanswered(host, DAMAGED, str(error)))
    return Told(host, taken, source, told)


def _diagnosed(text: str, source: str, name: str, taken: str) -> HostSummary:
    """A recording, diagnosed here.

    Raises:
        RecordingError: this version cannot answer from it.
    """
    from musadoctor.doctor import Options, examine  # noqa: PLC0415 - reports need none of it

    recording = Recording(text, source)
    options = Options(recording=source, redact=False, facts=FURTHER_FACTS)
    report = examine(recording, options)
    own = report.vantage.host
    host = own if own is not None and HOST.fullmatch(own) else name
    return of_report(report, host=host, source=source, taken=taken)


def _stem(source: str) -> str:
    """The host after which a file is named, ``""`` where its name cannot be one's."""
    name = os.path.basename(source)
    while name.endswith(SUFFIXES):
        name = name.rpartition(".")[0]
    return name if HOST.fullmatch(name) else ""
