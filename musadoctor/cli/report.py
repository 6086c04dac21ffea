"""``musadoctor``: the report on a host."""

import sys
import time
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from musadoctor import __version__
from musadoctor.cli.shared import (
    FactsOption,
    FailOn,
    FailOnOption,
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


class Format(str, Enum):
    """How a report on a host is written."""

    text = "text"
    json = "json"
    line = "line"


def report(
    context: typer.Context,
    *,
    format: Annotated[  # noqa: A002 - the option's name
        Format,
        typer.Option(
            "--format", help="How the report is written; a line is for schedulers and monitors."
        ),
    ] = Format.text,
    json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    facts: FactsOption = None,
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
        facts=tuple(facts or ()),
    )
    form = Format.json if json else format
    if facts and form is not Format.json:
        refuse("--facts says more in the JSON report only: add --json")
    try:
        if recording is not None:
            source = read_recording(str(recording))
            named = f"{recording}, taken {source.taken}"
            made = examine(source, options._replace(recording=named))
            show = _show(made, form, verbose=verbose, quiet=quiet)
        else:
            from musadoctor.live import Live  # noqa: PLC0415

            live = Live(time.monotonic() + timeout, python)
            if form is not Format.text or output is not None:
                made = until_interrupted(live, lambda: examine(live, options))
                show = _show(made, form, verbose=verbose, quiet=quiet)
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


def _show(made: "Report", form: Format, *, verbose: bool, quiet: bool) -> Show:
    if form is Format.json:
        from musadoctor.render import json  # noqa: PLC0415 - one renderer a run

        return lambda stream: put(stream, json.render(made))
    if form is Format.line:
        from musadoctor.render import line  # noqa: PLC0415

        return lambda stream: put(stream, line.render(made))
    from musadoctor.render import text  # noqa: PLC0415 - rich takes 50 ms

    return lambda stream: text.render(made, stream, verbose=verbose, quiet=quiet)
