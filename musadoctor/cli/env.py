"""``musadoctor env``: the settings that make one installed Toolkit the one in use, for ``eval``.

Standard output has these and nothing else; whatever is to be said goes to standard error.
"""

import os
import posixpath
import re
import sys
import time
from enum import Enum
from typing import Annotated

import typer

from musadoctor.cli.shared import (
    INCOMPLETE,
    PythonOption,
    RecordingOption,
    TimeoutOption,
    refuse,
    until_interrupted,
)
from musadoctor.facts import Absent, Unknown
from musadoctor.live import Live
from musadoctor.recording import RecordingError, read_recording

UNFIT = 1


class Shell(str, Enum):
    """For which the settings are written."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def env(
    *,
    toolkit: Annotated[
        str | None,
        typer.Option(
            "--toolkit",
            metavar="X.Y.Z",
            help="The Toolkit to use. Default: the one that the installed torch_musa was built "
            "for, else the newest.",
        ),
    ] = None,
    shell: Annotated[
        Shell | None, typer.Option("--shell", help="Default: the one that $SHELL names, else bash.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also where it does not go with the wheel or the driver."),
    ] = False,
    timeout: TimeoutOption = 60.0,
    python: PythonOption = None,
    recording: RecordingOption = None,
) -> None:
    """Print what makes one installed Toolkit the one in use, for eval.

    eval "$(musadoctor env --toolkit 5.2.0)"
    """
    from musadoctor.render.shell import render  # noqa: PLC0415 - only this command needs them
    from musadoctor.use import find_use  # noqa: PLC0415

    live = Live(time.monotonic() + timeout, python)
    try:
        system = live if recording is None else read_recording(str(recording))
    except RecordingError as error:
        refuse(_line(str(error)))
    use = until_interrupted(live, lambda: find_use(system, toolkit, seconds=timeout))
    if isinstance(use, Absent):
        refuse(_line(str(use)))
    if isinstance(use, Unknown):
        refuse(_line(f"which Toolkits are installed is not known: {use}"), INCOMPLETE)
    name = f"Toolkit {use.toolkit.version or use.toolkit.root}"
    if use.bars and not force:
        bars = "; ".join(use.bars)
        refuse(_line(f"{name} cannot be used here (--force overrides this): {bars}"), UNFIT)
    if use.why:
        _comment(f"{name}: {use.why}")
    for said in (*use.bars, *use.doubts):
        _comment(f"warning: {said}")
    commands = render(use.settings, shell.value if shell else _own_shell(live))
    # The bytes of a name that is no text are to come out as they went in.
    sys.stdout.buffer.write(os.fsencode(commands))


def _own_shell(live: Live) -> str:
    """The shell that will read it, which is here whatever machine was recorded."""
    path = live.env("SHELL")
    name = posixpath.basename(path) if isinstance(path, str) else ""
    return name if name in Shell.__members__ else Shell.bash.value


def _comment(text: str) -> None:
    print(f"# {_line(text)}", file=sys.stderr)


def _line(text: str) -> str:
    """One line, so that even what eval gets of standard error stays a comment."""
    return re.sub(r"[\x00-\x1f\x7f]", "?", text)
