"""``musadoctor verify``: compute on every visible device, and see whether it is right."""

import sys
import threading
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from musadoctor.cli.report import FailOn, Format, IgnoreOption, SelectOption
from musadoctor.cli.shared import (
    INTERRUPTED,
    PythonOption,
    RedactOption,
    put,
    refuse,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from musadoctor.live import Live
    from musadoctor.report import Report
    from musadoctor.verify.phases import Level
    from musadoctor.verify.ranks import Place

SECONDS = {"quick": 120.0, "default": 600.0, "deep": 3600.0}
"""Default limits of a run."""
LAST_WORDS = 5.0
"""Seconds that an interrupted run gets to report what it has found."""


class Kind(str, Enum):
    """Devices to verify."""

    musa = "musa"
    cuda = "cuda"
    cpu = "cpu"


def verify(
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="The least that tells: half a minute on eight cards.")
    ] = False,
    deep: Annotated[bool, typer.Option("--deep", help="All there is, with longer runs.")] = False,
    devices: Annotated[
        str | None,
        typer.Option("--devices", metavar="0,3", help="These devices. Default: all visible ones."),
    ] = None,
    device: Annotated[
        Kind, typer.Option("--device", help="The kind of devices, to compare hosts.")
    ] = Kind.musa,
    audit: Annotated[
        str | None,
        typer.Option(
            "--audit",
            metavar="MODULE:FUNCTION",
            help="Call this function twice, and show which of its operators leave the device.",
        ),
    ] = None,
    require_ops: Annotated[
        Path | None,
        typer.Option(
            "--require-ops",
            metavar="FILE",
            help="Fail where an operator that this file names, one a line, is not on the device.",
        ),
    ] = None,
    rank_from_env: Annotated[
        bool,
        typer.Option(
            "--rank-from-env",
            help="Be one rank of torchrun's or srun's: collectives alone, the report from rank 0.",
        ),
    ] = False,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    format: Annotated[  # noqa: A002 - the option's name
        Format, typer.Option("--format", help="How the report is written.")
    ] = Format.text,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="A line for each check, with its evidence.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only the errors, and the verdict.")
    ] = False,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="The least severity that gives exit code 1.")
    ] = FailOn.error,
    strict: Annotated[
        bool, typer.Option("--strict", help="What could not be found out counts as failed.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=1,
            help="The longest that the run may take. Default: 120 quick, 600, 3600 deep.",
        ),
    ] = None,
    python: PythonOption = None,
    no_redact: RedactOption = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the report to a file."),
    ] = None,
) -> None:
    """Compute on every visible device, and see whether it is right."""
    from musadoctor.doctor import Options  # noqa: PLC0415 - other commands start faster
    from musadoctor.live import Live  # noqa: PLC0415
    from musadoctor.report import exit_code  # noqa: PLC0415
    from musadoctor.selection import SelectionError  # noqa: PLC0415
    from musadoctor.verify.phases import Settings  # noqa: PLC0415
    from musadoctor.verify.run import verify as run  # noqa: PLC0415

    if quick and deep:
        refuse("--quick and --deep are two levels; give one of them")
    level: Level = "quick" if quick else "deep" if deep else "default"
    seconds = timeout or SECONDS[level]
    asked = _asked(audit, require_ops)
    live = Live(time.monotonic() + seconds, python)
    own = _place(live, level) if rank_from_env else None
    settings = Settings(level, device.value, _ordinals(devices), seconds, asked, place=own)
    if own and own.rank:
        from musadoctor.verify.phases import launched_steps  # noqa: PLC0415

        launched_steps(live, settings)
        raise typer.Exit
    options = Options(
        select=tuple(select or ()),
        ignore=tuple(ignore or ()),
        seconds=seconds,
        redact=not no_redact,
    )
    try:
        made, interrupted = _kept(live, lambda: run(live, settings, options))
    except SelectionError as error:
        refuse(str(error))
    if json or format is Format.json:
        from musadoctor.render import json as renderer  # noqa: PLC0415 - one renderer a run

        write(lambda stream: put(stream, renderer.render(made)), output)
    else:
        from musadoctor.render import text  # noqa: PLC0415 - rich takes 50 ms

        def show(stream: TextIO) -> None:
            text.render(made, stream, verbose=verbose, quiet=quiet)
            if verbose or audit:
                from musadoctor.render import audit as table  # noqa: PLC0415

                put(stream, table.render(made.facts.get("device_steps")))

        write(show, output)
    code = exit_code(made, fail_on=fail_on.value, strict=strict)
    raise typer.Exit(INTERRUPTED if interrupted else code)


def _asked(audit: str | None, require_ops: Path | None) -> dict[str, object]:
    """What the steps are told of the audit that is wanted."""
    asked: dict[str, object] = {}
    if audit is not None:
        module, separated, function = audit.partition(":")
        if not (separated and module.strip() and function.strip()):
            refuse(f"--audit {audit}: expected MODULE:FUNCTION, as in train:step")
        asked["audit"] = audit
    if require_ops is not None:
        try:
            lines = require_ops.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            refuse(f"cannot read {require_ops}: {getattr(error, 'strerror', None) or error}")
        names = [name for line in lines if (name := line.partition("#")[0].strip())]
        if not names:
            refuse(f"{require_ops} names no operator")
        asked["require"] = list(dict.fromkeys(names))
    return asked


def _place(live: "Live", level: "Level") -> "Place":
    """Where a launcher has put this process; anything but 0 reports nothing."""
    from musadoctor.verify.ranks import Misplaced, place  # noqa: PLC0415

    if level == "quick":
        refuse("--rank-from-env takes the collectives, which are not among the --quick steps")
    own = place(live)
    if isinstance(own, Misplaced):
        refuse(f"--rank-from-env: {own.reason}")
    return own


def _ordinals(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        refuse(f"--devices {text}: expected numbers of devices, as in 0,3")
    return tuple(dict.fromkeys(map(int, parts)))


def _kept(live: "Live", work: "Callable[[], Report]") -> "tuple[Report, bool]":
    """The report, and whether Ctrl-C cut it short: what was found until then is in it."""
    made: list[Report] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            made.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    interrupted = False
    try:
        thread.join()
    except KeyboardInterrupt:
        interrupted = True
        print("musadoctor: interrupted; what was found until now:", file=sys.stderr)
        live.cancel()
        thread.join(LAST_WORDS)
    if failed:
        raise failed[0]
    if not made:
        raise typer.Exit(INTERRUPTED)
    return made[0], interrupted
