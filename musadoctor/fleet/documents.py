"""What a piece of a file holds: reports, recordings, kept answers, and what is none of these."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

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
from musadoctor.report import JSON, Report

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


class Said(NamedTuple):
    """What an object says of a host."""

    host: str
    """``""`` where nothing names it."""
    taken: str
    report: Mapping[str, JSON] | Report | Unanswered
    """As it was written; a :class:`Report` where it is a recording."""
    kept: bool = False
    """Whether it is a kept answer, whose host counts whatever it sent."""


class Value(NamedTuple):
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
    told = [
        _read(one, source, name) if isinstance(one.value, dict) else LeftOut(source, one.problem)
        for one, source, name in placed(piece)
    ]
    return told or [LeftOut(piece.where, "holds nothing")]


def placed(piece: Piece) -> Iterator[tuple[Value, str, str]]:
    """The values of a piece, each with its place and with the host that its file is named after."""
    for one in _values(piece.data.decode("utf-8", "replace")):
        if piece.whole and one.alone:
            yield one, piece.source, _stem(piece.source)
        else:
            yield one, f"{piece.source}, line {piece.line + one.line}", ""


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


def _values(text: str) -> Iterator[Value]:
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
        yield Value(value, text, start, end, lines, alone, problem)
        lines += text.count("\n", start, after)
        start = after


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= LONGEST_NUMBER else float(digits)


_DECODE = json.JSONDecoder(parse_int=_number).raw_decode


def said(one: Value, source: str, name: str) -> Said:
    """What an object says; ``name`` is the host's, as far as the file's name tells it.

    Raises:
        EnvelopeError: it is a kept answer that cannot be understood.
        RecordingError: it is a recording that this version cannot answer from.
    """
    document = cast("Mapping[str, JSON]", one.value)
    if ENVELOPE in document:
        host, taken, report, kind, reason = opened(document)
        answer = Unanswered(host, kind, reason) if report is None else report
        return Said(host, taken, answer, kept=True)
    if document.get("format") == FORMAT:
        made = _diagnosed(one.text[one.start : one.end], source)
        return Said(_named(made.vantage.host, name), day(document.get("taken")), made)
    vantage = document.get("vantage")
    own = vantage.get("host") if isinstance(vantage, dict) else None
    return Said(_named(own, name), "", document)


def _read(one: Value, source: str, name: str) -> Told | LeftOut:
    """What an object tells, or why it tells nothing."""
    try:
        host, taken, report, kept = said(one, source, name)
        if isinstance(report, Unanswered):
            return Told(host, taken, source, report)
        if isinstance(report, Report):
            summary = of_report(report, host=host, source=source, taken=taken)
        elif kept:
            return judged(host, report, source, taken)
        else:
            summary = summarise(report, host=host, source=source, taken=taken)
    except (EnvelopeError, ForeignError, RecordingError) as error:
        return LeftOut(source, line(str(error).removeprefix(f"{source}: ")))
    return Told(host, taken, source, summary) if host else LeftOut(source, NAMELESS)


def judged(host: str, report: Mapping[str, JSON], source: str, taken: str) -> Told:
    """A known host's report; where it is none of ours, the host has not answered."""
    try:
        told = summarise(report, host=host, source=source, taken=taken)
    except ForeignError as error:
        return Told(host, taken, source, Unanswered(host, DAMAGED, str(error)))
    return Told(host, taken, source, told)


def _diagnosed(text: str, source: str) -> Report:
    from musadoctor.doctor import Options, examine  # noqa: PLC0415 - reports need none of it

    options = Options(recording=source, redact=False, facts=FURTHER_FACTS)
    return examine(Recording(text, source), options)


def _named(own: JSON, name: str) -> str:
    """What a report calls its host, if that is a name, or what its file is called."""
    return own if isinstance(own, str) and HOST.fullmatch(own) else name


def _stem(source: str) -> str:
    """The host after which a file is named, ``""`` where its name cannot be one's."""
    name = os.path.basename(source)
    while name.endswith(SUFFIXES):
        name = name.rpartition(".")[0]
    return name if HOST.fullmatch(name) else ""
