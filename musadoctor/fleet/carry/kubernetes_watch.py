"""Waits for the pods of a run, and reads the log of each that has ended."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from musadoctor.fleet.answer import (
    DAMAGED,
    NO_MUSADOCTOR,
    NOT_PLACED,
    TIMED_OUT,
    UNREACHABLE,
    Answer,
    line,
)
from musadoctor.fleet.carry.each import last
from musadoctor.fleet.carry.errand import Arrived, EngineError
from musadoctor.fleet.carry.frames import Ear, flooded
from musadoctor.fleet.carry.kubectl import Kubectl, spoken
from musadoctor.fleet.carry.kubernetes_manifest import (
    CONTAINER,
    NODE,
    PLACE_SECONDS,
    RUN,
    START_SECONDS,
    job_name,
)
from musadoctor.fleet.carry.kubernetes_state import State, state, text, under

POLL_SECONDS = 1.0
READ_SECONDS = 5.0
"""Until the log of a pod that has ended has to be whole."""
READERS = 8
"""Logs that are read at one time."""


class _Seen(NamedTuple):
    """A node's pod when it was last looked at."""

    state: State
    pod: str
    """Its name."""
    waited: float
    """Seconds since it was first seen to have come so far."""


def watch(
    kubectl: Kubectl,
    run: str,
    nodes: Mapping[int, str],
    seconds: float,
    arrived: Arrived,
    cancelled: threading.Event,
) -> None:
    """Tell of each node as soon as its pod has ended, or is seen not to come further.

    Raises:
        EngineError: there is no kubectl any more.
    """
    left, since = dict(nodes), dict[tuple[int, str], float]()
    heard_at = time.monotonic()
    while left and not cancelled.is_set():
        now = time.monotonic()
        answers: Mapping[int, Answer] = {}
        try:
            pods = _pods(kubectl, run, cancelled)
        except EngineError as error:
            # A link that was lost may come back.
            if now - heard_at > seconds:
                answers = {
                    number: Answer(node, None, UNREACHABLE, str(error))
                    for number, node in left.items()
                }
        else:
            heard_at = now
            seen: dict[int, _Seen] = {}
            for number in left:
                found, pod = pods.get(number, (State("no pod", ""), ""))
                begun = since.setdefault((number, found.stage), now)
                seen[number] = _Seen(found, pod, now - begun)
            answers = _answers(kubectl, run, left, seen, seconds, cancelled)
        for number, answer in answers.items():
            del left[number]
            arrived(answer)
        if left:
            cancelled.wait(POLL_SECONDS)


def _pods(
    kubectl: Kubectl, run: str, cancelled: threading.Event
) -> Mapping[int, tuple[State, str]]:
    """How far the pods of a run have come, by the number of their node, and their names."""
    pods: dict[int, tuple[State, str]] = {}
    for pod in kubectl.listed(("get", "pods", "-l", f"{RUN}={run}"), cancelled):
        number = text(under(pod, "metadata", "labels"), NODE)
        if number.isascii() and number.isdecimal():
            pods[int(number)] = state(pod), text(under(pod, "metadata"), "name")
    return pods


def _answers(
    kubectl: Kubectl,
    run: str,
    nodes: Mapping[int, str],
    seen: Mapping[int, _Seen],
    seconds: float,
    cancelled: threading.Event,
) -> Mapping[int, Answer]:
    """Of those nodes of which there is nothing more to wait for."""
    answers: dict[int, Answer] = {}
    for number, (found, _, waited) in seen.items():
        node = nodes[number]
        if found.stage == "lost" or (found.stage == "unplaced" and waited > PLACE_SECONDS):
            answers[number] = Answer(node, None, NOT_PLACED, found.reason)
        elif found.stage == "starting" and waited > START_SECONDS:
            reason = f"its container did not start in {START_SECONDS:g} s"
            answers[number] = Answer(node, None, NOT_PLACED, reason)
        elif found.stage == "running" and waited > seconds:
            answers[number] = Answer(node, None, TIMED_OUT, f"no answer in {seconds:g} s")
    late = [
        number
        for number, (found, _, waited) in seen.items()
        if found.stage == "no pod" and waited > PLACE_SECONDS
    ]
    if late:
        reasons = _refusals(kubectl, cancelled)
        for number in late:
            why = reasons.get(job_name(run, number), "the cluster does not tell why")
            reason = line(f"no pod was made for it: {why}")
            answers[number] = Answer(nodes[number], None, NOT_PLACED, reason)
    ended = [number for number, one in seen.items() if one.state.stage == "ended"]

    def read(number: int) -> Answer | None:
        return _read(kubectl, run, nodes[number], seen[number], cancelled)

    with ThreadPoolExecutor(READERS) as pool:
        read_now = zip(ended, pool.map(read, ended), strict=True)
        return answers | {number: answer for number, answer in read_now if answer}


def _refusals(kubectl: Kubectl, cancelled: threading.Event) -> Mapping[str, str]:
    """Why Jobs got no pods, by their names, as far as the cluster tells."""
    words = ("get", "events", "--field-selector", "reason=FailedCreate,involvedObject.kind=Job")
    try:
        events = kubectl.listed(words, cancelled)
    except EngineError:  # who may make Jobs need not be allowed to see events
        return {}
    return {text(under(one, "involvedObject"), "name"): text(one, "message") for one in events}


def _read(
    kubectl: Kubectl, run: str, node: str, seen: _Seen, cancelled: threading.Event
) -> Answer | None:
    """What a pod has printed that has ended; ``None`` where that may still come."""
    ear = Ear(run)
    ran = kubectl.run(("logs", seen.pod, "-c", CONTAINER), cancelled, ear)
    if ear.answer:
        answer = ear.answer._replace(host=node)
        if answer.kind == NO_MUSADOCTOR:
            lacks = answer.reason.partition(";")[0]
            return answer._replace(reason=f"{lacks}; the image has to hold it")
        return answer
    if ear.flooded:
        return flooded(node)
    if cancelled.is_set() or seen.waited < READ_SECONDS:
        return None
    if ran.status != "ok":
        return Answer(node, None, UNREACHABLE, line(f"its log cannot be read: {spoken(ran)}"))
    said = last(ear.frames.other) or "nothing"
    return Answer(node, None, DAMAGED, line(f"{seen.state.reason}; it said: {said}"))
