"""``musadoctor capture``: keep a host's raw answers."""

import time
from pathlib import Path
from typing import Annotated

import typer

from musadoctor import __version__
from musadoctor.cli.shared import (
    PythonOption,
    RedactOption,
    TimeoutOption,
    put,
    until_interrupted,
    write,
)
from musadoctor.doctor import capture_answers, redaction
from musadoctor.live import Live
from musadoctor.recording import write_recording

HELD = {
    "runs": "programs run",
    "files": "files read",
    "folders": "folders listed",
    "libraries": "libraries looked at",
    "variables": "environment variables asked for",
}
"""How the summary of a recording calls what it holds."""


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
    answers = until_interrupted(live, lambda: capture_answers(live, timeout))
    text = write_recording(
        answers,
        musadoctor=__version__,
        taken=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        redaction=None if no_redact else redaction(live),
    )
    write(lambda stream: put(stream, text), output)
    held = ", ".join(f"{len(answers.get(kind, ()))} {words}" for kind, words in HELD.items())
    print(f"{output}: {len(text) / 1024:.0f} KiB: {held}")
    if no_redact:
        print("Not redacted: it names this host, its users and its addresses.")
    else:
        print("Redacted: host name, home folders, IP and MAC addresses, UUIDs, serial numbers.")
    print(f"Diagnose from it anywhere: musadoctor --recording {output}")
