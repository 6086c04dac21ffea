"""How a vendor tool that gave nothing to read comes out as a fact."""

import re

from musadoctor.commands import Command
from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.driver import ToolAnswer
from musadoctor.system import Failure, Ran, System

CANNOT_EXECUTE = 126
"""A shell's exit code for a file that is there and cannot be started."""
LONGEST_LINE = 400
"""Characters; longer lines are no output of these tools, and slow to match."""

# The runner writes U+FFFD for an escape character.
_COLOUR = re.compile("[\x1b\ufffd]\\[[0-9;]{0,9}m")


def lines(text: str) -> list[str]:
    """The lines of a tool's output without colours and trailing blanks."""
    plain = _COLOUR.sub("", text)
    return [line.rstrip() for line in plain.splitlines() if len(line) <= LONGEST_LINE]


def unanswered(
    system: System, command: Command, path: str, ran: Ran
) -> ToolAnswer | Absent | Unknown | None:
    """What came of a program that did not run to its end, ``None`` for one that did.

    A file that cannot be started is an error that a check can judge, with the exit code that a
    shell gives it; a hang, a crash or a flood leaves open what the tool would have said.
    """
    if ran.status in {"ok", "failed"}:
        return None
    if ran.status == "not there":
        return Absent(ran.note)
    if ran.status in {"wrong format", "not executable", "not allowed"}:
        return not_startable(system, command, path, ran.note)
    how = f"killed by {ran.note}" if ran.status == "signal" else ran.note or ran.status
    return Unknown(f"{command}: {how}")


def not_startable(system: System, command: Command, path: str, note: str) -> ToolAnswer:
    """The answer of a file that cannot be started."""
    stat = system.stat(path)
    # Container runtimes make one where they have nothing to mount.
    empty = not isinstance(stat, Failure) and stat.kind == "file" and stat.size == 0
    return ToolAnswer(command.key, CANNOT_EXECUTE, f"{path} is an empty file" if empty else note)


def complaint(ran: Ran, *, understood: bool = False) -> str:
    """The line that best tells why a program failed, where none is known to be an error.

    ``understood`` output is what the program is for, and complains of nothing.
    """
    texts = (ran.err,) if understood else (ran.err, ran.out)
    said = [line.strip() for text in texts for line in lines(text)]
    how = f"exit code {ran.code}" if understood else f"exit code {ran.code}, no output"
    return next((line for line in said if line), how)
