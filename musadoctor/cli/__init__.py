"""The command line: options to one call to a renderer to an exit code. No policy lives here."""

import errno
import importlib
import os
import sys
import traceback
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from musadoctor import __version__
from musadoctor.cli import report
from musadoctor.cli.shared import BROKEN, USAGE

if TYPE_CHECKING:
    from collections.abc import Callable

UNREAD = 141
"""What a shell calls a program that a broken pipe ended."""
UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
COMMANDS = {
    "capture": "capture.capture",
    "triage": "triage.triage",
    "list": "checks.list_checks",
    "explain": "checks.explain",
    "env": "env.env",
    "guard": "guard.app",
    "verify": "verify.verify",
    "fleet": "fleet.app",
}
"""Where each command is."""


class Commands(TyperGroup):
    """Loads the command that is given, and no other."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - typer's own
        """Know the commands' names."""
        super().__init__(**given)
        self.commands = dict.fromkeys(COMMANDS, TyperCommand("not loaded"))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - typer's own
        """The command of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(".")
        found: object = getattr(importlib.import_module(f"musadoctor.cli.{module}"), name)
        if isinstance(found, typer.Typer):
            return get_command(found)
        alone = typer.Typer(add_completion=False)
        alone.command(cmd_name)(cast("Callable[..., None]", found))
        return get_command(alone)


app = typer.Typer(
    name="musadoctor",
    cls=Commands,
    help="Can this host run PyTorch on its Moore Threads GPUs, and what is the first thing to fix?",
    epilog="Exit codes: 0 nothing failed, 1 something failed, 2 wrong use or unreadable input, "
    "3 incomplete, 4 musadoctor itself broke, 130 interrupted.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.callback(invoke_without_command=True)(report.report)


def run() -> NoReturn:
    """Run the command line, with streams that no character can break."""
    # Most threads wait for a child; at the usual 5 ms its answer waits for its turn in vain.
    sys.setswitchinterval(0.001)
    _open_what_is_closed()
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


def _open_what_is_closed() -> None:
    """Give a program that was started with closed standard streams some that lead nowhere."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            # Takes the free number, so that no other file becomes a standard stream.
            nowhere = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nowhere, "r" if name == "stdin" else "w"))


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
