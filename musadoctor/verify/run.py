"""One call from settings to a report."""

from collections.abc import Mapping
from typing import cast, get_args

from musadoctor.doctor import Options, examine
from musadoctor.engine import Progress
from musadoctor.plugins import Loaded, load_verify
from musadoctor.probes import PROBES
from musadoctor.recording import RecordingError
from musadoctor.report import Report
from musadoctor.selection import select
from musadoctor.system import System
from musadoctor.verify.phases import KINDS, Level, Settings, probes

OF_ALL = frozenset({"record"})
"""Families of checks that judge steps of every family."""


def verify(
    system: System, settings: Settings, options: Options, progress: Progress | None = None
) -> Report:
    """Take the steps and judge them; of families of which no check is selected none is taken.

    Raises:
        SelectionError: the options name a check that is not there, or leave none.
    """
    checks = load_verify()
    families = {check.family for check in select(checks, options.select, options.ignore).chosen}
    if options.select and not families & OF_ALL:
        settings = settings._replace(families=frozenset(families))
    return examine(
        system,
        options,
        progress,
        loaded=Loaded(checks, ()),
        probes={**PROBES, **probes(settings)},
    )


def settings_to_record(settings: Settings) -> dict[str, object]:
    """What a recording keeps of the settings: those that decide what children are asked."""
    return {
        "level": settings.level,
        "kind": settings.kind,
        "devices": list(settings.devices),
        "seconds": settings.seconds,
        "options": dict(settings.options),
        "soak_seconds": settings.soak_seconds,
    }


def recorded_settings(told: Mapping[str, object] | None, name: str) -> Settings:
    """The settings of a recorded run; ``name`` is what errors call the recording.

    Raises:
        RecordingError: it is no recording of such a run.
    """
    if told is None:
        raise RecordingError(f"{name}: expected what `musadoctor verify --capture` kept")
    level, kind, devices = told.get("level"), told.get("kind"), told.get("devices")
    options, seconds, soak = told.get("options"), told.get("seconds"), told.get("soak_seconds")
    numbers = cast("list[object]", devices) if isinstance(devices, list) else [""]
    if (
        level not in get_args(Level)
        or kind not in KINDS
        or not all(isinstance(number, int) for number in numbers)
        or not isinstance(options, dict)
        or not isinstance(seconds, (int, float))
        or not isinstance(soak, (int, float))
    ):
        raise RecordingError(f'{name}: "verify" is not what `musadoctor verify --capture` kept')
    return Settings(
        level=cast("Level", level),
        kind=kind,
        devices=tuple(cast("list[int]", numbers)),
        seconds=seconds,
        options=cast("dict[str, object]", options),
        soak_seconds=soak,
    )
