"""A run of ``musadoctor verify`` that can be interrupted, kept, and judged again."""

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TextIO

import typer

from musadoctor import __version__
from musadoctor.cli.interruptible import interruptible
from musadoctor.cli.shared import INTERRUPTED, Show, put, refuse, write
from musadoctor.doctor import Options, redaction
from musadoctor.live import Live
from musadoctor.recording import Recorder, RecordingError, read_recording, write_recording
from musadoctor.report import Report, exit_code
from musadoctor.selection import SelectionError
from musadoctor.verify.phases import Settings, launched_steps
from musadoctor.verify.progress import ProgressLine
from musadoctor.verify.record import RecordError, read, record
from musadoctor.verify.run import recorded_settings, settings_to_record, verify

__all__ = ["Options", "Run", "Settings", "be_rank", "exit_code", "report", "tables"]
LAST_WORDS = 5.0
"""Seconds that an interrupted run gets to report what it has found."""


class Run(NamedTuple):
    """What a user asks for."""

    settings: Settings
    options: Options
    python: str | None
    recording: Path | None
    compare: Path | None
    tolerance: float
    """Share of a speed that may be lost."""
    capture: Path | None
    save: Path | None


def be_rank(settings: Settings, python: str | None) -> None:
    """Take the collectives as a rank that reports nothing: one of a launcher's alone speaks."""
    launched_steps(Live(time.monotonic() + settings.seconds, python), settings)


def report(run: Run) -> tuple[Report, bool]:
    """The report, and whether it was cut short; what is to be kept is kept."""
    try:
        return _kept_run(run) if run.recording is None else (_replayed(run, run.recording), False)
    except (SelectionError, RecordingError, RecordError) as error:
        refuse(str(error))


def _kept_run(run: Run) -> tuple[Report, bool]:
    line = ProgressLine(sys.stderr, shutil.get_terminal_size().columns)
    live = Live(time.monotonic() + run.settings.seconds, run.python, line.heard)
    recorder = Recorder(live)
    settings = _compared(run, run.settings)
    made, interrupted = _until_interrupted(
        live, line, lambda: verify(recorder, settings, run.options)
    )
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if run.capture is not None:
        text = write_recording(
            recorder.answers(),
            musadoctor=__version__,
            taken=now,
            redaction=redaction(live) if run.options.redact else None,
            verify=settings_to_record(settings),
        )
        write(lambda stream: put(stream, text), run.capture)
        print(f"musadoctor: raw answers kept in {run.capture}", file=sys.stderr)
    _save(run, made, settings, now)
    return made, interrupted


def _replayed(run: Run, recording: Path) -> Report:
    system = read_recording(str(recording))
    settings = _compared(run, recorded_settings(system.verify, str(recording)))
    options = run.options._replace(recording=f"{recording}, taken {system.taken}")
    made = verify(system, settings, options)
    _save(run, made, settings, system.taken)
    return made


def _compared(run: Run, settings: Settings) -> Settings:
    if run.compare is None:
        return settings
    return settings._replace(accepted=read(str(run.compare), run.tolerance))


def _save(run: Run, made: Report, settings: Settings, when: str) -> None:
    if run.save is not None:
        text = record(made.facts, settings, when)
        write(lambda stream: put(stream, text), run.save)
        care = "" if made.verdict in {"healthy", "degraded"} else f"; this host is {made.verdict}"
        print(f"musadoctor: figures kept in {run.save}{care}", file=sys.stderr)


def tables(made: Report, *, verbose: bool, quiet: bool, audited: bool) -> Show:
    """What prints the report, with tables of what was measured and of what left the device."""
    from musadoctor.render import audit, text  # noqa: PLC0415 - rich takes 50 ms
    from musadoctor.render import verify as measured  # noqa: PLC0415

    def show(stream: TextIO) -> None:
        text.render(made, stream, verbose=verbose, quiet=quiet)
        if not quiet:
            put(stream, measured.render(made.facts, shutil.get_terminal_size().columns))
        if audited:
            put(stream, audit.render(made.facts.get("device_steps")))

    return show


def _until_interrupted(
    live: Live, line: ProgressLine, work: Callable[[], Report]
) -> tuple[Report, bool]:
    """The report, and whether it was cut short: what was found is in it."""

    def stop() -> None:
        line.clear()
        print("musadoctor: interrupted; what was found until now:", file=sys.stderr)
        live.cancel()

    made, interrupted = interruptible(work, watch=line.draw, stop=stop, patience=LAST_WORDS)
    line.clear()
    if not made:
        raise typer.Exit(INTERRUPTED)
    return made[0], interrupted
