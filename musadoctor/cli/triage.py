"""``musadoctor triage``: a diagnosis from a pasted report."""

import os
import stat
import sys
from typing import Annotated

import typer

from musadoctor.cli.shared import (
    FailOn,
    FailOnOption,
    Format,
    FormatOption,
    IgnoreOption,
    JsonOption,
    OutputOption,
    PluginsOption,
    QuietOption,
    RedactOption,
    SelectOption,
    StrictOption,
    VerboseOption,
    put,
    refuse,
    write,
)
from musadoctor.doctor import Options
from musadoctor.report import exit_code
from musadoctor.selection import SelectionError


def triage(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Texts of one report; - is standard input."),
    ],
    *,
    format: FormatOption = Format.text,  # noqa: A002 - the option's name
    json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = FailOn.error,
    strict: StrictOption = False,
    no_plugins: PluginsOption = False,
    no_redact: RedactOption = False,
    output: OutputOption = None,
) -> None:
    """Diagnose from a pasted bug report or log."""
    from musadoctor.transcript import TranscriptError  # noqa: PLC0415 - for this command alone
    from musadoctor.triage import diagnose_transcript  # noqa: PLC0415 - as above

    options = Options(
        select=tuple(select or ()),
        ignore=tuple(ignore or ()),
        plugins=not no_plugins,
        redact=not no_redact,
    )
    texts = [(_name(file), _bytes(file)) for file in files]
    try:
        transcript, report = diagnose_transcript(texts, options)
    except (SelectionError, TranscriptError) as error:
        refuse(str(error))
    if not transcript.of_musa:
        names = ", ".join(name for name, _ in texts)
        refuse(f"{names}: nothing of MUSA or Moore Threads in it")
    if json or format is Format.json:
        from musadoctor.render.json import render  # noqa: PLC0415 - one renderer a run

        text = render(report)
        write(lambda stream: put(stream, text), output)
    else:
        from musadoctor.render import reading  # noqa: PLC0415 - rich takes 50 ms

        write(lambda stream: reading.render(report, stream, verbose=verbose, quiet=quiet), output)
    raise typer.Exit(exit_code(report, fail_on=fail_on.value, strict=strict))


def _name(file: str) -> str:
    return "standard input" if file == "-" else file


def _bytes(file: str) -> bytes:
    from musadoctor.transcript.text import MOST_BYTES  # noqa: PLC0415 - for this command alone

    try:
        if file == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            # A pipe that nobody writes to would keep a plain open() waiting for ever.
            number = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(number, "rb") as stream:
                if stat.S_ISCHR(os.fstat(number).st_mode):
                    refuse(f"cannot read {file}: a device, expected a text")
                os.set_blocking(number, True)
                data = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        refuse(f"cannot read {file}: {getattr(error, 'strerror', None) or error}")
    if not data.strip():
        refuse(f"{_name(file)} is empty")
    return data
