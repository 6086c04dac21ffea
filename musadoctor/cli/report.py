"""``musadoctor``: the report on a host."""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from musadoctor import __version__
from musadoctor.cli.shared import (
    FailOn,
    FailOnOption,
    Format,
    FormatOption,
    IgnoreOption,
    JsonOption,
    OutputOption,
    PluginsOption,
    PythonOption,
    QuietOption,
    RecordingOption,
    RedactOption,
    SelectOption,
    Show,
    StrictOption,
    TimeoutOption,
    VerboseOption,
    put,
    refuse,
    until_interrupted,
    write,
)

if TYPE_CHECKING:
    from musadoctor.doctor import Options
    from musadoctor.live import Live
    from musadoctor.report import Report


def report(
    context: typer.Context,
    *,
    format: FormatOption = Format.text,  # noqa: A002 - the option's name
    json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = FailOn.error,
    strict: StrictOption = False,
    timeout: TimeoutOption = 60.0,
    python: PythonOption = None,
    recording: RecordingOption = None,
    no_plugins: PluginsOption = False,
    no_redact: RedactOption = False,
    output: OutputOption = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print musadoctor's version.", is_eager=True)
    ] = False,
) -> None:
    """Report on this host."""
    if version:
        print(f"musadoctor {__version__}")
        raise typer.Exit
    given = [name for name in context.params if _is_given(context, name)]
    if context.invoked_subcommand is not None:
        if given:
            option, command = _option(given[0]), context.invoked_subcommand
            refuse(f"{option} stands before {command}, which takes its options after its name")
        return
    unheard = sorted({"python", "timeout"}.intersection(given)) if recording else []
    if unheard:
        refuse(f"{_option(unheard[0])} says nothing to a recording, whose answers are all there")
    from musadoctor.doctor import Options, examine  # noqa: PLC0415 - other commands need none of it
    from musadoctor.recording import RecordingError, read_recording  # noqa: PLC0415
    from musadoctor.report import exit_code  # noqa: PLC0415
    from musadoctor.selection import SelectionError  # noqa: PLC0415

    options = Options(
        select=tuple(select or ()),
        ignore=tuple(ignore or ()),
        plugins=not no_plugins,
        seconds=timeout,
        redact=not no_redact,
    )
    as_json = json or format is Format.json
    try:
        if recording is not None:
            source = read_recording(str(recording))
            named = f"{recording}, taken {source.taken}"
            made = examine(source, options._replace(recording=named))
            show = _json(made) if as_json else _text(made, verbose=verbose, quiet=quiet)
        else:
            from musadoctor.live import Live  # noqa: PLC0415

            live = Live(time.monotonic() + timeout, python)
            if as_json or output is not None:
                made = until_interrupted(live, lambda: examine(live, options))
                show = _json(made) if as_json else _text(made, verbose=verbose, quiet=quiet)
            else:
                show, made = _stream(live, options, verbose=verbose, quiet=quiet)
    except (SelectionError, RecordingError) as error:
        refuse(str(error))
    write(show, output)
    raise typer.Exit(exit_code(made, fail_on=fail_on.value, strict=strict))


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _stream(
    live: "Live", options: "Options", *, verbose: bool, quiet: bool
) -> "tuple[Show, Report]":
    """Print layer by layer while the examination goes on; what is left to print comes back."""
    from musadoctor.doctor import examine, redaction  # noqa: PLC0415
    from musadoctor.render.text import TextReport  # noqa: PLC0415 - rich takes 50 ms

    printer = TextReport(
        sys.stdout,
        verbose=verbose,
        quiet=quiet,
        redaction=redaction(live) if options.redact else None,
        status=sys.stderr,
    )
    made = until_interrupted(live, lambda: examine(live, options, printer))
    return lambda _: printer.finish(made), made


def _json(made: "Report") -> Show:
    from musadoctor.render.json import render  # noqa: PLC0415 - one renderer a run

    return lambda stream: put(stream, render(made))


def _text(made: "Report", *, verbose: bool, quiet: bool) -> Show:
    from musadoctor.render.text import render  # noqa: PLC0415 - rich takes 50 ms

    return lambda stream: render(made, stream, verbose=verbose, quiet=quiet)
