"""A program for every host, some of them at a time: what OpenSSH and MPI have in common.

Each host has a stream of its own, so it is known who speaks, and what becomes of one is nothing to
the others.
"""

import secrets
import shlex
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from musadoctor import runner
from musadoctor.fleet.answer import DAMAGED, TIMED_OUT, Answer, line
from musadoctor.fleet.carry.errand import CONNECT_SECONDS, Arrived, Errand
from musadoctor.fleet.carry.frames import Ear, Frames, flooded
from musadoctor.fleet.carry.script import from_stdin, script
from musadoctor.system import Ran

FANOUT = 32
"""Programs that run at one time."""


class Way(NamedTuple):
    """How one host is reached."""

    argv: tuple[str, ...]
    """The program; a shell's command follows as its last argument."""
    failed: Callable[[Ran], Answer | None]
    """What the program's end tells of the way, where it is that which failed."""
    changes: Mapping[str, str] = {}
    """Variables to set for the program."""


def carry_to_each(
    ways: Mapping[str, Way],
    fanout: int,
    errand: Errand,
    arrived: Arrived,
    cancelled: threading.Event,
) -> None:
    """Do the errand on every host; each is told of as soon as it has answered."""
    one_by_one = threading.Lock()

    def ask(host: str) -> None:
        answer = _ask(ways[host], host, errand, cancelled)
        if answer is not None:
            with one_by_one:
                arrived(answer)

    with ThreadPoolExecutor(fanout) as pool:
        for _ in pool.map(ask, ways):
            pass


def _ask(way: Way, host: str, errand: Errand, cancelled: threading.Event) -> Answer | None:
    """What comes of one host; ``None`` where it was not waited for."""
    if cancelled.is_set():
        return None
    nonce = secrets.token_hex(8)
    text = script(
        errand.of(host),
        nonce,
        # We know who speaks: the host cannot call itself otherwise.
        name=shlex.quote(host),
        payload="stdin" if errand.zipapp else "installed",
        watched=True,
    )
    ear = Ear(nonce)
    limit = CONNECT_SECONDS + errand.seconds
    ran = runner.stream(
        [*way.argv, from_stdin(text)],
        limit=limit,
        cancelled=cancelled,
        heard=ear,
        given=text.encode() + (errand.zipapp or b""),
        changes=way.changes,
    )
    if ear.answer:
        return ear.answer._replace(host=host)
    return None if cancelled.is_set() else _unanswered(way, host, ear.frames, ran, limit)


def _unanswered(way: Way, host: str, frames: Frames, ran: Ran, limit: float) -> Answer:
    """A host that gave no answer, and why."""
    if ran.status == "flooded":
        return flooded(host)
    if answer := way.failed(ran):
        return answer
    if ran.status == "timed out":
        return Answer(host, None, TIMED_OUT, f"no answer in {limit:g} s")
    if frames.begun:
        return Answer(host, None, DAMAGED, "the end of the answer is missing")
    said = last(frames.other) or last(ran.err) or ran.note
    return Answer(host, None, DAMAGED, f"no answer; it said: {said or 'nothing'}")


def last(text: str) -> str:
    """The last line of what was said, fit for a terminal."""
    return line(text[-2000:].strip().rpartition("\n")[2])
