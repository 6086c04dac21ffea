"""Steps of a Slurm job that bring an errand to its nodes, whichever of them are lost.

Where one node of a step does not answer, Slurm 22.05 hands no standard input to any of them, and
ends the whole step after its ``MessageTimeout``; ``--no-kill`` changes nothing about that. So a
roll call goes before each step with work, which then holds the nodes that answered.

What a step leaves on a node, Slurm ends as far as it tracks it; with ``proctrack/cgroup`` that is
all. The script's watch on its standard input ends what it started, too.

A node says its own name in its answer; answers in the name of others than those asked are dropped.
"""

import re
import secrets
import threading
import time
from collections.abc import Sequence
from typing import Literal, NamedTuple

from musadoctor import runner
from musadoctor.fleet.answer import DAMAGED, TIMED_OUT, UNREACHABLE, Answer, line
from musadoctor.fleet.carry import slurm_site as site
from musadoctor.fleet.carry.errand import Arrived, EngineError, Errand
from musadoctor.fleet.carry.frames import Frames
from musadoctor.fleet.carry.script import from_stdin, script
from musadoctor.fleet.nodes import fold
from musadoctor.system import Ran

CALL_SECONDS = 30.0
"""How long a roll call may take: a prolog may run before it."""
ROUNDS = 3
"""So often a node is tried that did not answer, where Slurm did not name it as lost."""
MOST = 16 << 20
"""Bytes that a roll call may print."""
_FILLER = "head -c 16384 /dev/zero | tr '\\0' '\\n'"
"""Printed behind an answer. Slurm hands on whole lines, but cuts the last 4 KiB of a task where it
likes, and puts pieces of other tasks in between: of empty lines nothing can be cut."""
_LOST = re.compile(r"[Tt]ask launch for \S+ failed on node ([A-Za-z0-9._:-]{1,255}): (.*)")


class Steps(NamedTuple):
    """How steps are started."""

    name: str
    job: str
    options: tuple[str, ...]
    """More of srun's arguments; they win over ours."""

    def command(self, nodes: Sequence[str]) -> list[str]:
        """A step with one task on each of the nodes; what it runs follows.

        Raises:
            EngineError: there is no srun here.
        """
        return [
            *(site.program("srun"), f"--jobid={self.job}", f"--job-name={self.name}", "--overlap"),
            *(f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}", "--ntasks-per-node=1"),
            *(f"--nodelist={fold(nodes)}", "--mpi=none"),
            # What one of them does is nothing to the others.
            *("--no-kill", "--kill-on-bad-exit=0", "--wait=0"),
            *self.options,
        ]


def carry_in_steps(
    steps: Steps,
    nodes: Sequence[str],
    errand: Errand,
    arrived: Arrived,
    cancelled: threading.Event,
) -> None:
    """Do the errand on the nodes of a job; each is told of, unless it was ``cancelled``.

    Raises:
        EngineError: Slurm starts nothing in this job; with its words.
    """
    end = time.monotonic() + CALL_SECONDS + errand.seconds
    left = tuple(nodes)
    lost: dict[str, str] = {}
    unanswered: dict[str, Answer] = {}
    for _ in range(ROUNDS):
        limit = min(CALL_SECONDS, end - time.monotonic())
        if not left or limit <= 0:
            break
        present, called = _call(steps, left, limit, cancelled)
        lost |= _lost(called)
        if called.status == "failed" and not (present or lost or unanswered):
            raise EngineError(
                f"Slurm starts nothing in job {line(steps.job)}: {site.words(called)}"
            )
        unanswered |= {node: _absent(node, called, limit) for node in left if node not in present}
        if present and not cancelled.is_set():
            limit = min(errand.seconds, end - time.monotonic())
            answered, asked = _ask(steps, present, errand, limit, arrived, cancelled)
            lost |= _lost(asked)
            unanswered |= {node: _silent(node, asked, limit) for node in present}
            unanswered = {node: why for node, why in unanswered.items() if node not in answered}
        if cancelled.is_set():
            return
        left = tuple(
            node for node, why in unanswered.items() if node not in lost and why.kind != TIMED_OUT
        )
    for answer in unanswered.values():
        arrived(answer)


def _call(
    steps: Steps, nodes: Sequence[str], limit: float, cancelled: threading.Event
) -> tuple[tuple[str, ...], Ran]:
    """The nodes on which a step starts, and what srun said of the others."""
    token = secrets.token_hex(8)
    out = bytearray()

    def heard(piece: bytes) -> bool:
        out.extend(piece)
        return len(out) <= MOST

    ran = runner.stream(
        [*steps.command(nodes), "sh", "-c", f'echo "{token} $SLURMD_NODENAME"'],
        limit=limit,
        cancelled=cancelled,
        heard=heard,
    )
    said = out.decode("utf-8", "replace")
    called = set(re.findall(rf"{token} ([A-Za-z0-9._:-]+)$", said, re.MULTILINE))
    return tuple(node for node in nodes if node in called), ran


def _ask(
    steps: Steps,
    nodes: Sequence[str],
    errand: Errand,
    limit: float,
    arrived: Arrived,
    cancelled: threading.Event,
) -> tuple[set[str], Ran]:
    """Do the errand on nodes that are there: those that were told of, and what became of srun."""
    nonce = secrets.token_hex(8)
    payload: Literal["stdin", "installed"] = "stdin" if errand.zipapp else "installed"
    text = script(errand, nonce, payload=payload, watched=True)
    frames, answered, asked = Frames(nonce), set[str](), set(nodes)

    def heard(piece: bytes) -> bool:
        for answer in frames.feed(piece):
            if answer.host in asked:
                answered.add(answer.host)
                arrived(answer)
        return True

    ran = runner.stream(
        [*steps.command(nodes), "sh", "-c", f"{from_stdin(text)}; {_FILLER}"],
        limit=limit,
        cancelled=cancelled,
        heard=heard,
        given=text.encode() + (errand.zipapp or b""),
    )
    return answered, ran


def _lost(ran: Ran) -> dict[str, str]:
    """The nodes that srun did not reach, and why."""
    return dict(_LOST.findall(ran.err))


def _absent(node: str, ran: Ran, limit: float) -> Answer:
    if node in (lost := _lost(ran)):
        reason = f"Slurm cannot start anything on it: {lost[node]}"
    elif ran.status == "timed out":
        reason = f"nothing that Slurm was to start on it began in {limit:.3g} s"
    else:
        reason = f"nothing that Slurm was to start on it began{_words(ran)}"
    return Answer(node, None, UNREACHABLE, line(reason))


def _silent(node: str, ran: Ran, limit: float) -> Answer:
    if node in (lost := _lost(ran)):
        return Answer(node, None, UNREACHABLE, line(f"Slurm lost it: {lost[node]}"))
    if ran.status == "timed out":
        return Answer(node, None, TIMED_OUT, f"no answer in {limit:.3g} s")
    return Answer(node, None, DAMAGED, line(f"it ended without an answer{_words(ran)}"))


def _words(ran: Ran) -> str:
    return f": {words}" if (words := site.words(ran)) else ""
