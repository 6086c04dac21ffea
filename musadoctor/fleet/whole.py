"""The whole report of one host, read again from where it was gathered: all others are summaries."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from musadoctor.fleet.answer import EnvelopeError
from musadoctor.fleet.documents import placed, said
from musadoctor.fleet.sources import Piece, pieces
from musadoctor.fleet.state import Unanswered
from musadoctor.recording import RecordingError
from musadoctor.report import JSON, Report


def whole_report(path: str, source: str, host: str) -> Mapping[str, JSON] | Report | None:
    """The first report of ``host`` at ``source``, a place below ``path`` as ``gather`` names it.

    It is as it was written, or a :class:`Report` where the place holds a recording; ``None``: there
    is none any more.
    """
    return next(_found(path, source, host), None)


def _found(path: str, source: str, host: str) -> Iterator[Mapping[str, JSON] | Report]:
    for piece in pieces([path]):
        if not isinstance(piece, Piece) or not _holds(piece, source):
            continue
        for one, place, name in placed(piece):
            if place != source or not isinstance(one.value, dict):
                continue
            with suppress(EnvelopeError, RecordingError):
                found = said(one, source, name)
                if found.host == host and not isinstance(found.report, Unanswered):
                    yield found.report


def _holds(piece: Piece, source: str) -> bool:
    """Whether the place is in the piece: ``FILE``, or ``FILE, line N``."""
    place = re.fullmatch(r"(.*), line ([0-9]+)", source, re.DOTALL)
    if place and piece.source == place[1]:
        return 0 <= int(place[2]) - piece.line <= piece.data.count(b"\n")
    return piece.source == source
