"""Run a child that takes steps, and another one for what is left where it did not come back.

A child answers in JSON lines::

    {"begin": "compute: matmul float32", "device": "musa:0", "at": 4.1}
    {"end": "compute: matmul float32", "device": "musa:0", "state": "done", "value": {...}, ...}
    {"end": "all"}

Whatever it does, each step of a job is accounted for exactly once, in the job's order: by the
child's word; as hung or crashed where it began and did not come back; as not taken otherwise.
"""

import json
import math
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast, get_args

from musadoctor.commands import verify_child
from musadoctor.facts.steps import Step, StepState
from musadoctor.probes.python import answers, ending
from musadoctor.system import Ran, System
from musadoctor.verify.children.base import limit_of

MOST_CHILDREN = 4
"""For one list of steps: a device that hangs or crashes in more of them has been tried enough."""
_STATES = get_args(StepState)
_HUNG = re.compile(r"Timeout \((\d+):(\d+):(\d+(?:\.\d+)?)\)")
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
    done: dict[Pair, Step] = {}
    left, why = job, f"the device ended {MOST_CHILDREN} processes before it"
    for attempt in range(1, MOST_CHILDREN + 1):
        if not left.take:
            break
        one = take_in_one(system, python, kind, left, options, attempt)
        done.update(((step.device, step.name), step) for step in one.steps)
        left = left._replace(take=one.left)
        if one.why:
            why = one.why
            break
    done.update(((step.device, step.name), step) for step in not_taken(left.take, why))
    return tuple(done[pair] for pair in job.take)


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
    told: dict[Pair, Step] = {}
    for line in lines:
        pair = (str(line.get("device")), str(line.get("end")))
        if pair in job.take and pair not in told:
            told[pair] = step_of(*pair, line)
    left = _without(job.take, told)
    if not any(line.get("begin") and line.get("device") for line in lines):
        return Taken(tuple(told.values()), left, _why(ran, lines, options))
    lost = {pair: step for pair, step in _lost(ran, lines, options) if pair in left}
    return Taken((*told.values(), *lost.values()), _without(left, lost), "")


def not_taken(pairs: Sequence[Pair], why: str) -> Iterator[Step]:
    """Steps that were to be taken, and why they were not."""
    return (Step(device, name, "not taken", {}, why) for device, name in pairs)


def _without(pairs: Sequence[Pair], taken: Mapping[Pair, Step]) -> tuple[Pair, ...]:
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
    measured = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return Step(
        device=device,
        name=name,
        state=cast("StepState", state) if state in _STATES else "failed",
        value={name: _plain(one) for name, one in measured.items()},
        message=" ".join(texts[-1].split()) if texts else "",
        chain=texts,
        seconds=seconds if isinstance(seconds, float) else 0.0,
    )


def _plain(value: object) -> object:
    """A value that each reader of JSON takes: what is no number is told by its name."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in cast("dict[str, object]", value).items()}
    return list(map(_plain, cast("list[object]", value))) if isinstance(value, list) else value


def _lost(
    ran: Ran, lines: Sequence[Mapping[str, object]], options: Mapping[str, object]
) -> Iterator[tuple[Pair, Step]]:
    """The step that had begun and did not come back."""
    ended = {(line.get("device"), line.get("end")) for line in lines if "end" in line}
    for line in lines:
        if "begin" in line and (line.get("device"), line["begin"]) not in ended:
            pair = str(line.get("device")), str(line["begin"])
            state, message = _how(ran, pair[1], line.get("at"), options)
            yield pair, Step(*pair, state, {}, message)


def _why(ran: Ran, lines: Sequence[Mapping[str, object]], options: Mapping[str, object]) -> str:
    """What kept a child from its first step."""
    for line in lines:
        if line.get("state") not in {None, "done"}:
            return f"{line.get('end')} failed: {step_of('', '', line).message}"
    for _, step in _lost(ran, lines, options):
        return f"{step.name}: {step.message}"
    return ending(ran)


def _how(ran: Ran, name: str, at: object, options: Mapping[str, object]) -> tuple[StepState, str]:
    """What became of a step that began ``at`` so many seconds and did not come back."""
    if hung := _HUNG.search(ran.err):
        hours, minutes, seconds = map(float, hung.groups())
        limit = hours * 3600 + minutes * 60 + seconds
        place = "; ".join(f"{name} ({file}:{line})" for file, line, name in _places(ran.err))
        return "hung", f"no end after {limit:g} s" + (f", in {place}" if place else "")
    spent = ran.seconds - at if isinstance(at, float) else 0.0
    if ran.status not in {"ok", "signal"} and spent >= limit_of(name, options):
        # Stopped, or in a call to the kernel: it could not end itself.
        return "hung", f"no end after {spent:.0f} s: {ending(ran)}"
    if ran.status == "timed out":
        return "not taken", f"had begun and was given up: {ran.note}"
    if ran.note.startswith("SIGKILL"):
        return "crashed", f"{ending(ran)}, as the kernel does when the host's memory runs out"
    return "crashed", ending(ran)


def _places(err: str) -> Iterator[tuple[str, str, str]]:
    """Where the thread that hung was: the innermost call first, two at most."""
    for found in list(_PLACE.finditer(err))[:2]:
        yield found[1], found[2], found[3]


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, cast("list[object]", value))) if isinstance(value, list) else ()
