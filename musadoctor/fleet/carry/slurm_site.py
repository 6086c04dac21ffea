"""What Slurm's own commands tell of its nodes and jobs, and how they end our jobs.

Tried with Slurm 22.05; the options and fields that are used are those of 20.11 and later, which
were not tried.
"""

import re
import shutil
import threading
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from musadoctor import runner
from musadoctor.fleet.answer import HOST, line
from musadoctor.fleet.carry.errand import EngineError
from musadoctor.fleet.nodes import NodesError, expand, fold
from musadoctor.system import Ran

ANSWER_SECONDS = 20.0
"""What ``sinfo`` or ``squeue`` may take: a busy controller takes its time."""
END_SECONDS = 5.0
"""What ``scancel`` may take."""
MOST = 64 << 20
"""Bytes that one of them may print; 10,000 nodes make one MiB."""
_DEAD = re.compile(r"down|error|unknown|inval|future|power|.*[*~%!^#]")
"""States, and signs behind them, of nodes on which nothing is started."""
_CLOSED = re.compile(r"drain|fail|reboot")
"""States of nodes on which nothing new is started."""


class Node(NamedTuple):
    """A node as ``sinfo`` shows it."""

    state: str
    """``idle``, ``mixed``, ``down*``, ..."""
    reason: str
    """What an administrator or Slurm wrote to it; ``none``."""

    def unusable(self, *, in_job: bool) -> str:
        """Why nothing can be started on it, in a sentence, or ``""``.

        A node that is drained still takes steps of a job that has it.
        """
        if _DEAD.match(self.state) or (_CLOSED.match(self.state) and not in_job):
            reason = "" if self.reason == "none" else f": {self.reason}"
            return line(f"Slurm has it {self.state}{reason}")
        return ""


class Job(NamedTuple):
    """A job that has nodes."""

    id: str
    nodes: tuple[str, ...]


def program(name: str) -> str:
    """Where one of Slurm's commands is.

    Raises:
        EngineError: it is not on PATH.
    """
    found = shutil.which(name)
    if found is None:
        raise EngineError(f"{name} is not on PATH: --via slurm needs Slurm's own commands here")
    return found


def words(ran: Ran) -> str:
    """What a command of Slurm's said last on its standard error, else what became of it."""
    said = [re.sub(r"^\w+: (error: |fatal: )?", "", text) for text in ran.err.splitlines()]
    return line("; ".join([text for text in said if text][-3:]) or ran.note)


def nodes(partition: str | None, cancelled: threading.Event) -> tuple[str, Mapping[str, Node]]:
    """A partition, the default one where none is named, and its nodes.

    Raises:
        EngineError: Slurm does not answer, or has no such partition.
    """
    narrowed = [f"--partition={partition}"] if partition else []
    rows = _rows(*narrowed, cancelled=cancelled)
    wanted = partition or next((where for where, _, _ in rows if where.endswith("*")), None)
    if wanted is None:
        raise EngineError("Slurm has no default partition; name one: --partition NAME; see: sinfo")
    found = {name: node for where, name, node in rows if partition or where == wanted}
    if not found:
        raise EngineError(f"Slurm shows no node in partition {line(wanted)}; see: sinfo")
    return wanted.rstrip("*"), found


def states(names: Iterable[str], cancelled: threading.Event) -> Mapping[str, Node]:
    """Nodes that are known by name.

    Raises:
        EngineError: Slurm does not answer.
    """
    rows = _rows(f"--nodes={fold(names)}", cancelled=cancelled)
    return {name: node for _, name, node in rows}


def _rows(*narrowed: str, cancelled: threading.Event) -> list[tuple[str, str, Node]]:
    """Partitions, nodes in them, and what is told of those."""
    text = _ask(
        *("sinfo", "--noheader", "--Node", *narrowed, "--format=%P|%N|%T|%E"),
        cancelled=cancelled,
    )
    cells = [row.split("|", 3) for row in text.splitlines()]
    return [
        (row[0], row[1], Node(row[2], row[3]))
        for row in cells
        if len(row) == 4 and HOST.fullmatch(row[1])  # noqa: PLR2004 - as in the format
    ]


def job_nodes(job: str, cancelled: threading.Event) -> tuple[str, ...]:
    """The nodes of a job.

    Raises:
        EngineError: Slurm does not answer, or the job has none.
    """
    found = _jobs(f"--jobs={job}", cancelled=cancelled)
    if not found:
        raise EngineError(f"job {line(job)} has no nodes; see: squeue --jobs={line(job)}")
    return found[0].nodes


def job_called(name: str, cancelled: threading.Event) -> Job:
    """Our own job; without nodes where Slurm has given none.

    Raises:
        EngineError: Slurm does not answer.
    """
    found = _jobs(f"--name={name}", cancelled=cancelled)
    return found[0] if found else Job("", ())


def jobs_on(nodes: Iterable[str], cancelled: threading.Event) -> Mapping[str, list[str]]:
    """The numbers of the jobs that run on each node, as far as Slurm shows them to us.

    Raises:
        EngineError: Slurm does not answer.
    """
    found: dict[str, list[str]] = {}
    for job in _jobs(f"--nodelist={fold(nodes)}", cancelled=cancelled):
        for node in job.nodes:
            found.setdefault(node, []).append(job.id)
    return found


def end_jobs(name: str) -> None:
    """End what is left of our own jobs."""
    _tell("scancel", "--quiet", f"--name={name}")


def end_steps(job: str, name: str) -> None:
    """End what is left of our steps in a job that is not ours."""
    text = _tell("squeue", "--noheader", "--steps", f"--jobs={job}", "--format=%i|%j")
    steps = [row.partition("|")[0] for row in text.splitlines() if row.endswith(f"|{name}")]
    if steps:
        _tell("scancel", "--quiet", *steps)


def _jobs(narrowed: str, cancelled: threading.Event) -> list[Job]:
    """Jobs that have nodes."""
    text = _ask("squeue", "--noheader", narrowed, "--format=%A|%N", cancelled=cancelled)
    pairs = [row.split("|", 1) for row in text.splitlines() if not row.endswith("|")]
    try:
        return [Job(number, expand(nodes)) for number, nodes in pairs]
    except (NodesError, ValueError):
        raise EngineError(f"squeue printed what is no list of jobs: {line(text)}") from None


def _ask(name: str, *arguments: str, cancelled: threading.Event) -> str:
    out = bytearray()
    ran = _stream([program(name), *arguments], ANSWER_SECONDS, cancelled, out)
    if ran.status != "ok":
        raise EngineError(f"{name} failed: {words(ran)}")
    return out.decode("utf-8", "replace")


def _tell(name: str, *arguments: str) -> str:
    """The same of what must be done when all else is over; nothing more can be done if it fails."""
    out = bytearray()
    _stream([program(name), *arguments], END_SECONDS, threading.Event(), out)
    return out.decode("utf-8", "replace")


def _stream(argv: list[str], limit: float, cancelled: threading.Event, out: bytearray) -> Ran:
    def heard(piece: bytes) -> bool:
        out.extend(piece)
        return len(out) <= MOST

    return runner.stream(argv, limit=limit, cancelled=cancelled, heard=heard)
