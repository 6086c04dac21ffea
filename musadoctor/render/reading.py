"""The report on a transcript, for a maintainer who answers an issue."""

from typing import TextIO

from rich.text import Text

from musadoctor.api import Layer
from musadoctor.plugins import plugin_broken
from musadoctor.render.text import STYLES, TextReport
from musadoctor.report import Reading, Report

MOST_PIECES = 12
"""Recognised pieces that are shown without --verbose."""


def render(report: Report, stream: TextIO, *, verbose: bool = False, quiet: bool = False) -> None:
    """Print what a text shows, the causes, what to ask for, and what to make of it.

    Raises:
        ValueError: the report is not on a transcript.
    """
    if report.reading is None:
        raise ValueError("not a report on a transcript")
    printer = _ReadingReport(stream, verbose=verbose, quiet=quiet, subject=report.vantage.note)
    printer.show(report, report.reading)


class _ReadingReport(TextReport):
    def show(self, report: Report, reading: Reading) -> None:
        if self._verbose:
            checked = [r for r in report.results if r.check is not plugin_broken]
            for layer in Layer:
                if members := [r for r in checked if r.check.layer == layer]:
                    self.decided(layer, members)
        if not self._quiet:
            self._begin()
            self._recognised(reading)
        self._findings("Fix first", "error", report)
        if not self._quiet:
            self._findings("Warnings", "warning", report)
            self._findings("Notes", "note", report)
            self._ask(reading)
        self._bugs(report)
        if not self._quiet:
            self._print(Text())
        self._block(reading.summary)
        self._verdict(report)

    def _recognised(self, reading: Reading) -> None:
        self._heading("Recognised")
        shown = reading.recognised if self._verbose else reading.recognised[:MOST_PIECES]
        for piece in shown or ("nothing but error texts",):
            self._item("", STYLES["dim"], piece)
        if rest := len(reading.recognised) - len(shown):
            self._block(f"and {rest} more, with --verbose", STYLES["dim"])

    def _ask(self, reading: Reading) -> None:
        if reading.not_shown:
            self._heading("Not shown")
            self._block(", ".join(reading.not_shown), STYLES["dim"])
        if reading.ask:
            self._heading("Ask for the output of")
        for question in reading.ask:
            self._print(Text(f"        {question.command}", STYLES["command"]))
            if self._verbose:
                self._block(f"decides {', '.join(question.undecided)}", STYLES["dim"])
