"""One call from options to a report."""

import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import NamedTuple

from musadoctor.engine import Progress, diagnose
from musadoctor.facts.machine import Container
from musadoctor.facts.python import Python
from musadoctor.plugins import Loaded, load, not_loaded, unloaded
from musadoctor.probes import PROBES, Probe, further
from musadoctor.recording import Recorder
from musadoctor.redact import Redaction
from musadoctor.report import Report, Result, Vantage, encode, redacted
from musadoctor.selection import SelectionError, select, some_facts
from musadoctor.system import Failure, Platform, System


class Options(NamedTuple):
    """What a user can choose of an examination."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    plugins: bool = True
    seconds: float = 60.0
    redact: bool = True
    recording: str = ""
    """Of a recording: what it is called and when it was taken."""
    transcript: str = ""
    """Of a transcript: what it is called."""
    facts: tuple[str, ...] = ()
    """Names of facts to find out beside those that the checks need."""


def examine(
    system: System,
    options: Options,
    progress: Progress | None = None,
    *,
    loaded: Loaded | None = None,
    probes: Mapping[str, Probe] = PROBES,
) -> Report:
    """Diagnose a machine: by the checks of a report, or by those that are ``loaded``.

    Raises:
        SelectionError: the options name a check or a fact that is not there, or leave no check.
    """
    begun = time.monotonic()
    if options.facts:
        probes = {**probes, **further()}
    facts = some_facts(options.facts, probes)
    asked = Recorder(system)
    # What other people's checks print is no part of a report.
    with redirect_stdout(sys.stderr):
        loaded = loaded or load(plugins=options.plugins)
        try:
            selection = select(loaded.checks, options.select, options.ignore)
        except SelectionError as error:
            raise SelectionError(f"{error}{not_loaded(loaded.failures)}") from None
        diagnosis = diagnose(
            asked,
            selection.chosen,
            seconds=options.seconds,
            progress=progress,
            # Asked for like any other, for a folder on PATH that never answers holds it for ever.
            facts=("container", *facts),
            probes=probes,
        )
    ignored = tuple(
        Result(check, "skipped", reason=f"ignored: {reason or 'no reason given'}")
        for check, reason in selection.ignored
    )
    python = diagnosis.facts.get("python")
    report = Report(
        vantage=Vantage(
            kind=_kind(diagnosis.facts["container"], options),
            host=_host_name(asked),
            python=str(python) if isinstance(python, Python) else None,
            note=options.recording or options.transcript,
        ),
        results=(*diagnosis.results, *ignored, *unloaded(loaded.failures)),
        facts={name: encode(fact) for name, fact in diagnosis.facts.items()},
        bugs=diagnosis.bugs,
        seconds=time.monotonic() - begun,
    )
    return redacted(report, redaction(asked)) if options.redact else report


def capture_answers(system: System, seconds: float) -> dict[str, dict[str, object]]:
    """The raw answers to everything that any fact asks."""
    asked = Recorder(system)
    probes = {**PROBES, **further()}
    diagnose(asked, (), seconds=seconds, facts=tuple(probes), probes=probes)
    redaction(asked)
    return asked.answers()


def redaction(system: System) -> Redaction:
    """What must not be told of a machine."""
    home = system.env("HOME")
    return Redaction(home if isinstance(home, str) else None, _host_name(system))


def _kind(container: object, options: Options) -> str:
    if options.recording:
        return "recording"
    if options.transcript:
        return "transcript"
    return "container" if isinstance(container, Container) else "host"


def _host_name(system: System) -> str | None:
    platform: Platform | Failure = system.platform()
    return None if isinstance(platform, Failure) else platform.host_name
