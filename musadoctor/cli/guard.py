"""``musadoctor guard``: judge dependency files, or what an installer is about to do."""

import sys
import time
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from musadoctor.cli.shared import (
    BROKEN,
    INCOMPLETE,
    USAGE,
    FailOn,
    IgnoreOption,
    JsonOption,
    PythonOption,
    RecordingOption,
    SelectOption,
    Show,
    TimeoutOption,
    put,
    refuse,
    until_interrupted,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from musadoctor.facts.base import Absent, Unknown
    from musadoctor.facts.requirements import Requirements, Resolution, StackFact
    from musadoctor.guard.protect import Plan
    from musadoctor.live import Live
    from musadoctor.report import Report
    from musadoctor.system import System

COMMAND = "musadoctor.guard.command"
"""Where a context keeps what stands behind ``--``."""


class FilesByDefault(TyperGroup):
    """``guard FILE`` is ``guard files FILE``; ``guard -- COMMAND`` is ``guard before COMMAND``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own click
        """Put in the name that is left out, and the installer's command aside."""
        name = "files"
        if "--" in args:
            at = args.index("--")
            ctx.meta[COMMAND] = args[at + 1 :]
            args, name = args[:at], "before"
        if args[:1] == [] or args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [name, *args]
        left: list[str] = super().parse_args(ctx, args)
        return left


app = typer.Typer(
    name="guard",
    cls=FilesByDefault,
    add_completion=False,
    help="Refuse to install what would replace the vendor's torch: `guard FILE|DIR...` judges"
    " dependency files, `guard -- pip install ...` stands before an installer.",
)


class GuardFormat(str, Enum):
    """How findings are written."""

    text = "text"
    json = "json"
    github = "github"


class Said(NamedTuple):
    """How findings are written as text."""

    verbose: bool
    quiet: bool
    colour: bool
    advise: bool


FormatOption = Annotated[
    GuardFormat, typer.Option("--format", help="How the findings are written.")
]
AssumeOption = Annotated[
    str | None,
    typer.Option(
        "--assume",
        metavar="musa[=VERSION]|new",
        help="Judge for a host with the vendor's torch VERSION, or for a new environment.",
    ),
]
FailOnOption = Annotated[
    FailOn, typer.Option("--fail-on", help="The least severity that is refused.")
]


@app.command()
def files(
    *,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|DIR...",
            help="Requirements, project, lock, conda, Docker and shell files; - is standard input.",
            show_default=False,
        ),
    ] = None,
    format: FormatOption = GuardFormat.text,  # noqa: A002 - the option's name
    json: JsonOption = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Every finding, however many are alike.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Errors only.")] = False,
    assume: AssumeOption = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Ask uv or pip what else would come; uses the network.")
    ] = False,
    write_to: Annotated[
        Path | None,
        typer.Option("--write", metavar="FILE", help="Write a copy that is safe on MUSA."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Let --write replace files that are there.")
    ] = False,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = FailOn.error,
    timeout: TimeoutOption = 60.0,
    python: PythonOption = None,
    recording: RecordingOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the findings to a file."),
    ] = None,
) -> None:
    """Judge what dependency files would install."""
    if not paths:
        refuse("name files or folders to judge, or an installer's command after --")
    if deep and (assume or recording):
        refuse("--deep asks what this host's environment would get; leave --assume and --recording")
    if force and write_to is None:
        refuse("--force says what --write may do; give both")
    from musadoctor.guard.judge import judge  # noqa: PLC0415 - other commands start faster
    from musadoctor.requirements.files import read  # noqa: PLC0415
    from musadoctor.selection import SelectionError  # noqa: PLC0415

    stack = _stack(timeout, recording, assume, python)
    requirements = read(paths, stdin=sys.stdin.buffer.read)
    chosen = (select or (), ignore or ())
    try:
        report = judge(requirements, stack, *chosen)
        if deep:
            resolution = _resolved(_live(timeout, python), requirements, stack, timeout)
            report = judge(requirements, stack, *chosen, resolution=resolution)
    except SelectionError as error:
        refuse(str(error))
    colour = output is None and sys.stdout.isatty() and _coloured(_live(timeout, python))
    form = GuardFormat.json if json else format
    said = Said(verbose=verbose, quiet=quiet, colour=colour, advise=write_to is None)
    write(_show(report, requirements, form, said), output)
    if write_to is not None:
        # What is to be installed now is the copy.
        judged = partial(judge, stack=stack, select=chosen[0], ignore=chosen[1])
        _copy(requirements, judged, str(write_to), force=force)
        requirements = read([str(write_to)])
        report = judged(requirements)
    raise typer.Exit(_code(report, requirements, fail_on))


@app.command()
def before(context: typer.Context, *, timeout: TimeoutOption = 60.0) -> None:
    """Judge an installer's command, and run it with the vendor's builds held.

    The command stands behind --: guard -- pip install -r requirements.txt. Its exit code is the
    guard's, unless the guard refuses to run it (1), or it has harmed the vendor's builds (1).
    """
    from musadoctor.guard import intercept  # noqa: PLC0415 - other commands start faster

    command: list[str] = context.meta.get(COMMAND, [])
    if not command:
        refuse("name the installer's command after --: guard -- pip install -r requirements.txt")
    decision = intercept.decide(command, lambda python: _asked(timeout, python))
    if decision.report is not None and decision.requirements is not None:
        from musadoctor.render import guard  # noqa: PLC0415 - one renderer a run

        guard.render(decision.report, decision.requirements, sys.stderr)
    _say(decision.sentence, decision.commands)
    if decision.verdict != "run":
        raise typer.Exit(1 if decision.verdict == "refuse" else USAGE)
    outcome = intercept.run(decision, command, lambda python: _asked(timeout, python))
    _say(outcome.sentence, outcome.commands)
    raise typer.Exit(outcome.code)


YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before writing.")]


@app.command()
def protect(*, python: PythonOption = None, yes: YesOption = False) -> None:
    """Hold the vendor's builds in an environment for good: pip's constraints, and a mark.

    Each change is shown first; guard unprotect puts everything back.
    """
    from musadoctor.guard.protect import plan  # noqa: PLC0415 - other commands start faster

    _changed(lambda: plan(_asked(60.0, python)), yes=yes)


@app.command()
def unprotect(*, python: PythonOption = None, yes: YesOption = False) -> None:
    """Put back what guard protect changed."""
    from musadoctor.guard.protect import plan_back  # noqa: PLC0415 - other commands start faster

    _changed(lambda: plan_back(_asked(60.0, python)), yes=yes)


@app.command()
def status(*, python: PythonOption = None) -> None:
    """Tell whether an environment is protected, and whether the protection is in force.

    Exit code 0 where all of it is, 1 where something is not, 3 where it cannot be found out.
    """
    from musadoctor.facts.base import Absent, Unknown  # noqa: PLC0415
    from musadoctor.guard.protect import status as state  # noqa: PLC0415

    found = state(_asked(60.0, python))
    if isinstance(found, (Absent, Unknown)):
        print(found.reason)
        raise typer.Exit(INCOMPLETE if isinstance(found, Unknown) else 1)
    for fine, row in found.rows:
        print(f"{'in force' if fine else 'NOT in force'}: {row}")
    for note in found.notes:
        print(f"note: {note}")
    raise typer.Exit(0 if found.whole else 1)


def _copy(
    requirements: "Requirements",
    judged: "Callable[[Requirements], Report]",
    target: str,
    *,
    force: bool,
) -> None:
    """Write the copies, and say what they cannot hold."""
    from musadoctor.guard.rewrite import (  # noqa: PLC0415 - seldom needed
        RewriteError,
        rewrite,
        save,
    )

    try:
        made = rewrite(requirements, judged, target)
        save(made.files, force=force)
    except RewriteError as error:
        refuse(str(error))
    for path, _ in made.files:
        print(f"musadoctor: wrote {path}", file=sys.stderr)
    for note in made.notes:
        print(f"note: {note}", file=sys.stderr)
    if made.commands:
        print(
            "From the Moore Threads package index, each in a command of its own:", file=sys.stderr
        )
    for command in made.commands:
        print(f"    {command}", file=sys.stderr)


def _changed(planned: "Callable[[], Plan | Absent | Unknown]", *, yes: bool) -> None:
    """Show a plan, ask, and write it."""
    from musadoctor.facts.base import Absent, Unknown  # noqa: PLC0415
    from musadoctor.guard.protect import ProtectError, apply  # noqa: PLC0415

    try:
        what = planned()
        if isinstance(what, (Absent, Unknown)):
            refuse(what.reason, INCOMPLETE if isinstance(what, Unknown) else USAGE)
        for change in what.changes:
            print(change, end="\n\n")
        for note in what.notes:
            print(f"note: {note}")
        if not what.changes:
            print("Nothing to change.")
        elif not yes and not _agreed():
            refuse("nothing was changed", 1)
        apply(what)
    except ProtectError as error:
        refuse(str(error))
    if what.changes:
        print(f"{len(what.changes)} files written.")


def _agreed() -> bool:
    if not sys.stdin.isatty():
        refuse("nobody is there to agree to these changes; --yes agrees beforehand")
    return typer.confirm("Write these changes?")


def _say(sentence: str, commands: "Sequence[str]") -> None:
    if sentence:
        print(f"musadoctor: {sentence}", file=sys.stderr)
    for command in commands:
        print(f"    {command}", file=sys.stderr)


def _asked(timeout: float, python: str | None) -> "System":
    """This machine, asked anew: what an installer changes is not remembered."""
    from musadoctor.recording import Recorder  # noqa: PLC0415

    return Recorder(_live(timeout, python))


def _resolved(
    live: "Live", requirements: "Requirements", stack: "StackFact", timeout: float
) -> "Resolution | Absent | Unknown":
    from musadoctor.facts.base import Absent, Unknown  # noqa: PLC0415
    from musadoctor.facts.python import Python  # noqa: PLC0415
    from musadoctor.guard.deep import Limits, progress, resolve  # noqa: PLC0415
    from musadoctor.probes.python import python  # noqa: PLC0415

    interpreter = python(live)
    if isinstance(stack, (Absent, Unknown)) or not isinstance(interpreter, Python):
        return Absent("there is no environment to ask about")
    limits = Limits(seconds=timeout)
    tell = progress(sys.stderr)
    return until_interrupted(
        live, lambda: resolve(live, requirements, stack, interpreter.path, limits, tell)
    )


def _live(timeout: float, python: str | None) -> "Live":
    from musadoctor.live import Live  # noqa: PLC0415

    return Live(time.monotonic() + timeout, python)


def _stack(
    timeout: float, recording: Path | None, assume: str | None, python: str | None
) -> "StackFact":
    """The stack to protect: of this host, of a recording, or an assumed one."""
    from musadoctor.guard.host import AssumptionError, assumed, stack_of  # noqa: PLC0415

    given = [
        name
        for name, value in (("--assume", assume), ("--recording", recording), ("--python", python))
        if value
    ]
    if len(given) > 1:
        refuse(f"{given[0]} and {given[1]} each name a host to judge for; give one of them")
    if assume is not None:
        try:
            return assumed(assume)
        except AssumptionError as error:
            refuse(str(error))
    if recording is not None:
        from musadoctor.recording import RecordingError, read_recording  # noqa: PLC0415

        try:
            return stack_of(read_recording(str(recording)))
        except RecordingError as error:
            refuse(str(error))
    live = _live(timeout, python)
    return until_interrupted(live, lambda: stack_of(live))


def _coloured(live: "Live") -> bool:
    return not live.env("NO_COLOR") and live.env("TERM") != "dumb"


def _show(
    report: "Report",
    requirements: "Requirements",
    form: GuardFormat,
    said: Said,
) -> Show:
    if form is GuardFormat.json:
        from musadoctor.render import json  # noqa: PLC0415 - one renderer a run

        return lambda stream: put(stream, json.render(report))
    if form is GuardFormat.github:
        from musadoctor.render import github  # noqa: PLC0415

        return lambda stream: put(stream, github.render(report))
    from musadoctor.render import guard  # noqa: PLC0415

    return lambda stream: guard.render(report, requirements, stream, **said._asdict())


def _code(report: "Report", requirements: "Requirements", fail_on: FailOn) -> int:
    """0 installable, 1 refused, 2 a file could not be read, 3 the host is unknown, 4 our fault."""
    from musadoctor.report import exit_code  # noqa: PLC0415

    code = exit_code(report, fail_on=fail_on.value, strict=False)
    unread = any(file.problem and not file.included_by for file in requirements.files)
    return USAGE if unread and code not in {1, BROKEN} else code
