"""The whole report of one host, read again from where it was gathered: all others are summaries."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import cast

from musadoctor.doctor import Options, examine
from musadoctor.fleet.answer import ENVELOPE, HOST
from musadoctor.fleet.documents import FURTHER_FACTS
from musadoctor.fleet.sources import Piece, pieces
from musadoctor.recording import FORMAT, Recording
from musadoctor.report import JSON, Report

_BETWEEN = " \t\r\n,[]\ufeff"
"""What may stand between reports."""


def whole_report(path: str, source: str, host: str) -> Mapping[str, JSON] | Report | None:
    """The first report of ``host`` at ``source``, a place below ``path`` as ``gather`` names it.

    It is as it was written, or a :class:`Report` where the place holds a recording; ``None``: there
    is none any more.
    """
    return next(_found(path, source, host), None)


def _found(path: str, source: str, host: str) -> Iterator[Mapping[str, JSON] | Report]:
    """The reports in a place that are the host's."""
    for value, text in _values(path, source):
        if value.get("format") == FORMAT:
            options = Options(recording=source, redact=False, facts=FURTHER_FACTS)
            yield examine(Recording(text, source), options)
        elif ENVELOPE not in value:
            vantage = value.get("vantage")
            own = vantage.get("host") if isinstance(vantage, dict) else None
            # A report without a name is called after its file.
            if own == host or not (isinstance(own, str) and HOST.fullmatch(own)):
                yield value
        elif value.get("host") == host and isinstance(report := value.get("report"), dict):
            yield report


def _values(path: str, source: str) -> Iterator[tuple[Mapping[str, JSON], str]]:
    """The objects from a place on, as ``FILE`` or ``FILE, line N``, and their text."""
    decode = json.JSONDecoder().raw_decode
    place = re.fullmatch(r"(.*), line ([0-9]+)", source, re.DOTALL)
    for piece in pieces([path]):
        if not isinstance(piece, Piece):
            continue
        if piece.source == source:
            at = 0
        elif place and piece.source == place[1]:
            at = int(place[2]) - piece.line
        else:
            continue
        if not 0 <= at <= piece.data.count(b"\n"):
            continue
        text = piece.data.decode("utf-8", "replace").split("\n", at)[at]
        while text := text.lstrip(_BETWEEN):
            try:
                value, end = cast("tuple[JSON, int]", decode(text))
            except (ValueError, RecursionError):
                return  # what was meant came before it
            if isinstance(value, dict):
                yield value, text[:end]
            text = text[end:]
