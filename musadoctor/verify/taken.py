"""Run a child that takes steps, and another one for what is left where it did not come back.

A child answers in JSON lines::

    {"begin": "compute: matmul float32", "device": "musa:0"}
    {"end": "compute: matmul float32", "device": "musa:0", "state": "done", "value": {...}, ...}
    {"end": "all"}
"""

import json
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast, get_args

from musadoctor.commands import verify_child
from musadoctor.facts.steps import Step, StepState
from musadoctor.probes.python import answers, ending
from musadoctor.system import Ran, System
from musadoctor.verify.children.base import STEPS

MOST_CHILDREN = 4
"""For one list of steps: a device that hangs or crashes in more of them has been tried enough."""
_STATES = get_args(StepState)
_HUNG = re.compile(r"Timeout \((\d+):(\d+):(\d+)\)")
_PLACE = re.compile(r'File "([^"\n]+)", line (\d+) in (\w+)')

Pair = tuple[str, str]
"""A device and a step."""


class Job(NamedTuple):
    """Steps that one child takes, one after the other."""

    key: str
    """Tells the child from the others of a run: ``compute:musa:0``."""
    modules: tuple[str, ...]
    """Of ``children``, those that hold the steps, each after what it imports."""
    take: tuple[Pair, ...]
    seconds: float
    """Limit of the whole."""


class Taken(NamedTuple):
    """What one child did."""

    steps: tuple[Step, ...]
    left: tuple[Pair, ...]
    """What it did not come to."""
    why: str
    """What kept it from its first step; empty where it began one."""


def take(
    system: System, python: str, kind: str, job: Job, options: Mapping[str, object]
) -> tuple[Step, ...]:
    """All steps of a job, each with how it came out."""
    done: list[Step] = []
    for attempt in range(1, MOST_CHILDREN + 1):
        if not job.take:
            return tuple(done)
        one = take_in_one(system, python, kind, job, options, attempt)
        done += one.steps
        job = job._replace(take=one.left)
        if one.left and one.why:
            return (*done, *not_taken(one.left, one.why))
    return (*done, *not_taken(job.take, f"the device ended {MOST_CHILDREN} processes before it"))


def take_in_one(
    system: System,
    python: str,
    kind: str,
    job: Job,
    options: Mapping[str, object],
    attempt: int,
) -> Taken:
    """As many steps of a job as one child takes."""
    sources = [_source(name) for name in ("base", *job.modules)]
    plan = {"kind": kind, "modules": job.modules, "options": dict(options), "take": job.take}
    key = f"{job.key}:{attempt}"
    ran = system.run(verify_child(python, key, sources, json.dumps(plan), job.seconds))
    lines = answers(ran)
    told = [line for line in lines if "end" in line and "device" in line]
    steps = [step_of(str(line["device"]), str(line["end"]), line) for line in told]
    steps = [step for step in steps if (step.device, step.name) in job.take]
    left = _without(job.take, steps)
    if not any(line.get("begin") in STEPS for line in lines):
        return Taken(tuple(steps), left, _why(ran, lines))
    lost = [step for step in _lost(ran, lines) if (step.device, step.name) in left]
    return Taken((*steps, *lost), _without(left, lost), "")


def not_taken(pairs: Sequence[Pair], why: str) -> Iterator[Step]:
    """Steps that were to be taken, and why they were not."""
    return (Step(device, name, "not taken", {}, why) for device, name in pairs)


def _without(pairs: Sequence[Pair], steps: Sequence[Step]) -> tuple[Pair, ...]:
    taken = {(step.device, step.name) for step in steps}
    return tuple(pair for pair in pairs if pair not in taken)


def _source(name: str) -> str:
    source = pkgutil.get_data("musadoctor.verify.children", f"{name}.py")
    assert source is not None
    return source.decode("utf-8")


def step_of(device: str, name: str, line: Mapping[str, object]) -> Step:
    """A step as its child tells it."""
    value = line.get("value")
    texts = _texts(line.get("chain"))
    state = line.get("state")
    seconds = line.get("seconds")
    return Step(
        device=device,
        name=name,
        state=cast("StepState", state) if state in _STATES else "failed",
        value=cast("Mapping[str, object]", value) if isinstance(value, dict) else {},
        message=" ".join(texts[-1].split()) if texts else "",
        chain=texts,
        seconds=seconds if isinstance(seconds, float) else 0.0,
    )


def _lost(ran: Ran, lines: Sequence[Mapping[str, object]]) -> Iterator[Step]:
    """The step that had begun and did not come back."""
    ended = {(line.get("device"), line.get("end")) for line in lines if "end" in line}
    for line in lines:
        if "begin" in line and (line.get("device"), line["begin"]) not in ended:
            state, message = _how(ran)
            yield Step(str(line.get("device")), str(line["begin"]), state, {}, message)


def _why(ran: Ran, lines: Sequence[Mapping[str, object]]) -> str:
    """What kept a child from its first step."""
    for line in lines:
        if line.get("state") not in {None, "done"}:
            return f"{line.get('end')} failed: {step_of('', '', line).message}"
    for step in _lost(ran, lines):
        return f"{step.name}: {step.message}"
    return ending(ran)


def _how(ran: Ran) -> tuple[StepState, str]:
    if hung := _HUNG.search(ran.err):
        hours, minutes, seconds = map(int, hung.groups())
        limit = hours * 3600 + minutes * 60 + seconds
        place = "; ".join(f"{name} ({file}:{line})" for file, line, name in _places(ran.err))
        return "hung", f"no end after {limit} s" + (f", in {place}" if place else "")
    if ran.status == "timed out":
        return "hung", ran.note
    return "crashed", ending(ran)


def _places(err: str) -> Iterator[tuple[str, str, str]]:
    """Where the thread that hung was: the innermost call first, two at most."""
    for found in list(_PLACE.finditer(err))[:2]:
        yield found[1], found[2], found[3]


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, cast("list[object]", value))) if isinstance(value, list) else ()
