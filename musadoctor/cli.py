"""The command line: options to one call to a renderer to an exit code. No policy lives here."""

import errno
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, NoReturn, TextIO, TypeVar

import typer

from musadoctor import __version__
from musadoctor.doctor import Options, capture_answers, examine, redaction
from musadoctor.live import Live
from musadoctor.plugins import load
from musadoctor.recording import RecordingError, read_recording, write_recording
from musadoctor.report import Report, exit_code
from musadoctor.selection import SelectionError, find

USAGE, BROKEN, INTERRUPTED = 2, 4, 130
HELD = {
    "runs": "programs run",
    "files": "files read",
    "folders": "folders listed",
    "libraries": "libraries looked at",
    "variables": "environment variables asked for",
}
"""How the summary of a recording calls what it holds."""
UNREAD = 141
"""What a shell calls a program that a broken pipe ended."""
UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
app = typer.Typer(
    name="musadoctor",
    help="Can this host run PyTorch on its Moore Threads GPUs, and what is the first thing to fix?",
    epilog="Exit codes: 0 nothing failed, 1 something failed, 2 wrong use or unreadable input, "
    "3 incomplete, 4 musadoctor itself broke, 130 interrupted.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


class Format(str, Enum):
    """How a report is written."""

    text = "text"
    json = "json"


class FailOn(str, Enum):
    """Severities, for ``--fail-on``."""

    error = "error"
    warning = "warning"
    note = "note"


SelectOption = Annotated[
    list[str] | None,
    typer.Option("--select", metavar="ID|FAMILY", help="Run these checks only. Repeatable."),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="ID|FAMILY[=REASON]",
        help="Leave these checks out; the reason is kept in the report. Repeatable.",
    ),
]
PythonOption = Annotated[
    str | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="The interpreter to examine. Default: the active virtual or conda environment's, "
        "else python3 on PATH.",
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=1, help="The longest that a report may take."),
]
PluginsOption = Annotated[bool, typer.Option("--no-plugins", help="Run the built-in checks only.")]
RedactOption = Annotated[
    bool,
    typer.Option(
        "--no-redact", help="Keep host name, home paths, addresses, UUIDs and serial numbers."
    ),
]


@app.callback(invoke_without_command=True)
def report(
    context: typer.Context,
    *,
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
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="The least severity that gives exit code 1.")
    ] = FailOn.error,
    strict: Annotated[
        bool, typer.Option("--strict", help="What could not be found out counts as failed.")
    ] = False,
    timeout: TimeoutOption = 60.0,
    python: PythonOption = None,
    recording: Annotated[
        Path | None,
        typer.Option(
            "--recording",
            metavar="FILE",
            help="Diagnose the host that `musadoctor capture` recorded, not this one.",
        ),
    ] = None,
    no_plugins: PluginsOption = False,
    no_redact: RedactOption = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the report to a file."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print musadoctor's version.", is_eager=True)
    ] = False,
) -> None:
    """Report on this host."""
    if version:
        print(f"musadoctor {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is not None:
        return
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
            live = Live(time.monotonic() + timeout, python)
            if as_json or output is not None:
                made = _until_interrupted(live, lambda: examine(live, options))
                show = _json(made) if as_json else _text(made, verbose=verbose, quiet=quiet)
            else:
                show, made = _stream(live, options, verbose=verbose, quiet=quiet)
    except (SelectionError, RecordingError) as error:
        _refuse(str(error))
    _write(show, output)
    raise typer.Exit(exit_code(made, fail_on=fail_on.value, strict=strict))


@app.command()
def capture(
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The recording to write.")
    ],
    timeout: TimeoutOption = 60.0,
    python: PythonOption = None,
    no_redact: RedactOption = False,
) -> None:
    """Record this host's raw answers, for a diagnosis elsewhere."""
    live = Live(time.monotonic() + timeout, python)
    answers = _until_interrupted(live, lambda: capture_answers(live, timeout))
    text = write_recording(
        answers,
        musadoctor=__version__,
        taken=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        redaction=None if no_redact else redaction(live),
    )
    _write(lambda stream: _put(stream, text), output)
    held = ", ".join(f"{len(answers.get(kind, ()))} {words}" for kind, words in HELD.items())
    print(f"{output}: {len(text) / 1024:.0f} KiB: {held}")
    if no_redact:
        print("Not redacted: it names this host, its users and its addresses.")
    else:
        print("Redacted: host name, home folders, IP and MAC addresses, UUIDs, serial numbers.")
    print(f"Diagnose from it anywhere: musadoctor --recording {output}")


@app.command(name="list")
def list_checks(
    *,
    json: Annotated[bool, typer.Option("--json", help="As a JSON list.")] = False,
    no_plugins: PluginsOption = False,
) -> None:
    """List the checks."""
    from musadoctor.render import checks  # noqa: PLC0415 - only these commands need it

    loaded = load(plugins=not no_plugins)
    sys.stdout.write(checks.listing_json(loaded) if json else checks.listing(loaded))


def _complete_check(incomplete: str) -> list[str]:
    return [c.id for c in load(plugins=True).checks if c.id.startswith(incomplete)]


@app.command()
def explain(
    check: Annotated[
        str, typer.Argument(metavar="ID", help="The check.", autocompletion=_complete_check)
    ],
) -> None:
    """Explain one check: why it matters, how to fix what it finds."""
    from musadoctor.render import checks  # noqa: PLC0415 - only these commands need it

    try:
        found = find(load(plugins=True).checks, check)
    except SelectionError as error:
        _refuse(str(error))
    sys.stdout.write(checks.explanation(found))


Show = Callable[[TextIO], None]
T = TypeVar("T")


def _until_interrupted(live: Live, work: Callable[[], T]) -> T:
    """Do ``work``; Ctrl-C stops what it runs and leaves with exit code 130."""
    try:
        return work()
    except KeyboardInterrupt:
        live.cancel()
        raise typer.Exit(INTERRUPTED) from None


def _stream(live: Live, options: Options, *, verbose: bool, quiet: bool) -> tuple[Show, Report]:
    """Print layer by layer while the examination goes on; what is left to print comes back."""
    from musadoctor.render.text import TextReport  # noqa: PLC0415 - rich takes 50 ms

    printer = TextReport(
        sys.stdout,
        verbose=verbose,
        quiet=quiet,
        redaction=redaction(live) if options.redact else None,
        status=sys.stderr,
    )
    made = _until_interrupted(live, lambda: examine(live, options, printer))
    return lambda _: printer.finish(made), made


def _json(made: Report) -> Show:
    from musadoctor.render.json import render  # noqa: PLC0415 - one renderer a run

    return lambda stream: _put(stream, render(made))


def _text(made: Report, *, verbose: bool, quiet: bool) -> Show:
    from musadoctor.render.text import render  # noqa: PLC0415 - rich takes 50 ms

    return lambda stream: render(made, stream, verbose=verbose, quiet=quiet)


def _put(stream: TextIO, text: str) -> None:
    stream.write(text)


def _write(show: Show, output: Path | None) -> None:
    """Show on standard output, or in a file that is replaced only when all of it is written."""
    if output is None:
        show(sys.stdout)
        sys.stdout.flush()
        return
    part = output.with_name(f".{output.name}.part")
    try:
        with part.open("w", encoding="utf-8", errors="replace") as stream:
            show(stream)
        part.replace(output)
    except OSError as error:
        with suppress(OSError):  # on a read-only disk even what is not there cannot be removed
            part.unlink()
        _refuse(f"cannot write {output}: {error.strerror or error}")


def _refuse(sentence: str) -> NoReturn:
    print(f"musadoctor: {sentence}", file=sys.stderr)
    raise typer.Exit(USAGE)


def run() -> NoReturn:
    """Run the command line, with streams that no character can break."""
    # Most threads wait for a child; at the usual 5 ms its answer waits for its turn in vain.
    sys.setswitchinterval(0.001)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    code = USAGE
    try:
        app(prog_name="musadoctor")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else USAGE
    except Exception as error:  # noqa: BLE001 - said to be our fault, and told from a finding
        code = _failed(error)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        code = _failed(error)
    # To take the interpreter down takes a seventh of a report, and what may still be waiting for
    # a file that never answers would keep it from ending.
    os._exit(code)


def _failed(error: Exception) -> int:
    """Say what went wrong; the exit code."""
    if isinstance(error, BrokenPipeError):
        return UNREAD
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        print(f"musadoctor: cannot write the report: {error.strerror}", file=sys.stderr)
        return USAGE
    traceback.print_exc()
    print(f"musadoctor: a bug in musadoctor {__version__}; please report it", file=sys.stderr)
    return BROKEN
