"""What the API server tells of nodes and pods; some of it is the nodes' own words."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from musadoctor.fleet.answer import line
from musadoctor.fleet.carry.kubernetes_manifest import CONTAINER
from musadoctor.report import JSON

Object = Mapping[str, JSON]
_NOTHING: Object = {}
STARTING = {"", "ContainerCreating", "PodInitializing"}
"""Why a container waits that is going to run."""

Stage = Literal["no pod", "unplaced", "starting", "running", "ended", "lost"]


class State(NamedTuple):
    """How far a pod has come."""

    stage: Stage
    reason: str
    """Why it has come no further; of one that ended, how."""


def under(value: Object, *keys: str) -> Object:
    """The object at a path, or an empty one."""
    for key in keys:
        inner = value.get(key)
        value = inner if isinstance(inner, dict) else _NOTHING
    return value


def text(value: Object, key: str) -> str:
    """What is there, or ``""``."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def objects(value: Object, key: str) -> list[Object]:
    """The objects of a list."""
    found = value.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _condition(value: Object, kind: str) -> Object:
    found = objects(under(value, "status"), "conditions")
    return next((one for one in found if text(one, "type") == kind), _NOTHING)


def unusable(node: Object) -> str:
    """Why nothing runs on a node, in a sentence, or ``""``."""
    ready = _condition(node, "Ready")
    return f"Kubernetes has it not ready{_why(ready)}" if text(ready, "status") != "True" else ""


def state(pod: Object) -> State:
    """How far a pod has come, or rather our container in it."""
    status = under(pod, "status")
    containers = objects(status, "containerStatuses")
    container = next((one for one in containers if text(one, "name") == CONTAINER), _NOTHING)
    states = under(container, "state")
    if "terminated" in states:
        ended = under(states, "terminated")
        code = ended.get("exitCode")
        number = f" with exit code {code}" if isinstance(code, int) else ""
        return State("ended", line(f"its container ended{number}{_why(ended)}"))
    if text(status, "phase") in {"Failed", "Succeeded"}:
        return State("lost", line(f"its pod failed{_why(status)}"))
    if "running" in states:
        return State("running", "")
    placed = _condition(pod, "PodScheduled")
    if text(placed, "status") == "False":
        return State("unplaced", line(f"it has no place for the pod{_why(placed)}"))
    waiting = under(states, "waiting")
    if text(waiting, "reason") not in STARTING:
        return State("lost", line(f"its container does not start{_why(waiting)}"))
    return State("starting", "")


def _why(said: Object) -> str:
    """A reason in a word, and in a sentence, as far as they are there."""
    words = [f": {part}" for part in (text(said, "reason"), text(said, "message")) if part]
    return line("".join(words))
