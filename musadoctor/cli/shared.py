"""What the commands share: options, output, and how they end."""

import signal
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, TextIO, TypeVar

import typer

if TYPE_CHECKING:
    from musadoctor.live import Live

USAGE, INCOMPLETE, BROKEN, INTERRUPTED = 2, 3, 4, 130
Show = Callable[[TextIO], None]
T = TypeVar("T")


def _seconds(value: float) -> float:
    if value != value:  # noqa: PLR0124 - not a number, which no limit ever reaches
        raise typer.BadParameter("expected a number of seconds")
    return value


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
FormatOption = Annotated[Format, typer.Option("--format", help="How the report is written.")]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="A line for each check, with its evidence.")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Only the errors, and the verdict.")
]
FactsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--facts",
        metavar="NAME",
        help="Put this fact into the JSON report too, as rdma or topology. Repeatable.",
    ),
]
FailOnOption = Annotated[
    FailOn, typer.Option("--fail-on", help="The least severity that gives exit code 1.")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="What could not be found out counts as failed.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the report to a file."),
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
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=1,
        callback=_seconds,
        help="The longest that a report may take.",
    ),
]
RecordingOption = Annotated[
    Path | None,
    typer.Option(
        "--recording",
        metavar="FILE",
        help="Diagnose the host that `musadoctor capture` recorded, not this one.",
    ),
]
PluginsOption = Annotated[bool, typer.Option("--no-plugins", help="Run the built-in checks only.")]
RedactOption = Annotated[
    bool,
    typer.Option(
        "--no-redact", help="Keep host name, home paths, addresses, UUIDs and serial numbers."
    ),
]


def until_interrupted(live: "Live", work: Callable[[], T]) -> T:
    """Do ``work``; Ctrl-C stops what it runs and leaves with exit code 130.

    So do SIGTERM and SIGHUP: what is run has a session of its own, which they do not reach.
    """
    interrupt_by(signal.SIGTERM, signal.SIGHUP)
    try:
        return work()
    except KeyboardInterrupt:
        live.cancel()
        raise typer.Exit(INTERRUPTED) from None


def interrupt_by(*numbers: signal.Signals) -> None:
    """Let these signals do what Ctrl-C does, where nobody has decided otherwise."""
    for number in numbers:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def put(stream: TextIO, text: str) -> None:
    """Write a text, where a statement will not do."""
    stream.write(text)


def write(show: Show, output: Path | None) -> None:
    """Show on standard output, or in a file that is replaced only when all of it is written."""
    if output is None:
        show(sys.stdout)
        sys.stdout.flush()
        return
    try:
        stream = _is_stream(output)
        target = output.resolve()  # a link stays one
        # To put a file in the place of a device, a pipe or a terminal would harm the host.
        part = output if stream else target.with_name(f".{target.name}.part")
    except (OSError, RuntimeError, ValueError) as error:
        refuse(f"cannot write {output}: {_why(error)}")
    try:
        with part.open("w", encoding="utf-8", errors="replace") as opened:
            show(opened)
        if not stream:
            part.replace(target)
    except OSError as error:
        if not stream:
            with suppress(OSError):  # on a read-only disk even what is not there stays
                part.unlink()
        refuse(f"cannot write {output}: {_why(error)}")


def _is_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _why(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def refuse(sentence: str, code: int = USAGE) -> NoReturn:
    """Say why nothing is done, and leave."""
    print(f"musadoctor: {sentence}", file=sys.stderr)
    raise typer.Exit(code)
