"""``musadoctor verify``: compute on every visible device, and see whether it is right."""

import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from musadoctor.cli.shared import (
    INTERRUPTED,
    FailOn,
    FailOnOption,
    Format,
    FormatOption,
    IgnoreOption,
    JsonOption,
    OutputOption,
    PythonOption,
    QuietOption,
    RedactOption,
    SelectOption,
    StrictOption,
    VerboseOption,
    put,
    refuse,
    write,
)

if TYPE_CHECKING:
    from musadoctor.verify.phases import Level
    from musadoctor.verify.ranks import Place

SECONDS = {"quick": 120.0, "default": 600.0, "deep": 3600.0}
"""Default limits of a run."""


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
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Keep the figures, as an accepted host's."),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option("--compare", metavar="FILE", help="Compare with figures of --save."),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance",
            metavar="PERCENT",
            min=0,
            max=100,
            help="How much slower than the record the host may be.",
        ),
    ] = 10.0,
    soak: Annotated[
        float,
        typer.Option(
            "--soak",
            metavar="MINUTES",
            min=0,
            help="Compute for so long on all devices at once, and tell what changes meanwhile.",
        ),
    ] = 0.0,
    capture: Annotated[
        Path | None,
        typer.Option("--capture", metavar="FILE", help="Keep the raw answers, to judge elsewhere."),
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option("--recording", metavar="FILE", help="Judge what --capture kept."),
    ] = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    format: FormatOption = Format.text,  # noqa: A002 - the option's name
    json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
    fail_on: FailOnOption = FailOn.error,
    strict: StrictOption = False,
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
    output: OutputOption = None,
) -> None:
    """Compute on every visible device, and see whether it is right."""
    from musadoctor.cli import verifying  # noqa: PLC0415 - other commands start faster

    if quick and deep:
        refuse("--quick and --deep are two levels; give one of them")
    level: Level = "quick" if quick else "deep" if deep else "default"
    chosen = {
        "--quick": quick,
        "--deep": deep,
        "--devices": devices,
        "--device": device is not Kind.musa,
        "--python": python,
        "--soak": soak,
        "--audit": audit,
        "--require-ops": require_ops,
        "--rank-from-env": rank_from_env,
        "--capture": capture,
    }
    for unheard in (name for name, given in chosen.items() if given and recording):
        refuse(f"{unheard} says nothing to a recording, whose answers are all there")
    place = _place(level) if rank_from_env else None
    settings = verifying.Settings(
        level,
        device.value,
        _ordinals(devices),
        (timeout or SECONDS[level]) + 60 * soak,
        _asked(audit, require_ops),
        place=place,
        soak_seconds=60 * soak,
    )
    if place and place.rank:
        verifying.be_rank(settings, python)
        raise typer.Exit
    run = verifying.Run(
        settings,
        verifying.Options(
            select=tuple(select or ()),
            ignore=tuple(ignore or ()),
            seconds=settings.seconds,
            redact=not no_redact,
        ),
        python=python,
        recording=recording,
        compare=compare,
        tolerance=tolerance / 100,
        capture=capture,
        save=save,
    )
    made, interrupted = verifying.report(run)
    if json or format is Format.json:
        from musadoctor.render import json as renderer  # noqa: PLC0415 - one renderer a run

        write(lambda stream: put(stream, renderer.render(made)), output)
    else:
        audited = verbose or bool(audit)
        show = verifying.tables(made, verbose=verbose, quiet=quiet, audited=audited)
        write(show, output)
    code = verifying.exit_code(made, fail_on=fail_on.value, strict=strict)
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


def _place(level: "Level") -> "Place":
    """Where a launcher has put this process; any rank but 0 reports nothing."""
    from musadoctor.live import Live  # noqa: PLC0415
    from musadoctor.verify.ranks import Misplaced, place  # noqa: PLC0415

    if level == "quick":
        refuse("--rank-from-env takes the collectives, which are not among the --quick steps")
    own = place(Live(time.monotonic()))
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
