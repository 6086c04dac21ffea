"""What the API server says of a pod, as ``kubectl get pods -o json`` prints it.

It is text from elsewhere: whatever is not where it belongs counts as not there.
"""

from collections.abc import Mapping
from typing import NamedTuple

from musadoctor.fleet.answer import line
from musadoctor.report import JSON

HOPELESS = {
    *("CreateContainerConfigError", "CreateContainerError", "ErrImagePull", "ErrImageNeverPull"),
    *("ImageInspectError", "ImagePullBackOff", "InvalidImageName", "RunContainerError"),
    "CrashLoopBackOff",
}
"""Reasons for which a container waits in vain."""
Object = Mapping[str, JSON]


class Pod(NamedTuple):
    """A pod, and how far it has come."""

    name: str
    node: str
    """That it runs on, or is meant for; ``""`` where that is not said."""
    started: bool
    """Whether it may have printed something."""
    placed: bool
    """Whether its node has room for it; ``True`` until that was decided."""
    reason: str
    """Why it does not run, or runs no more."""
    hopeless: bool
    """Whether waiting for it to start is in vain."""
    ended: bool
    """Whether its container has ended; it is meant to stay."""


def pod(item: Object) -> Pod:
    """Read one item of the list."""
    status = under(item, "status")
    reason, placed, hopeless, ended = "", True, False, False
    for condition in objects(status, "conditions"):
        if text(condition, "type") == "PodScheduled" and text(condition, "status") == "False":
            placed, reason = False, _why(condition)
    for container in objects(status, "containerStatuses"):
        waiting = under(container, "state", "waiting")
        before = under(container, "lastState", "terminated")
        if why := text(waiting, "reason"):
            hopeless = hopeless or why in HOPELESS
            # That it crashes is no reason; how it ended is.
            reason = line("; ".join(filter(None, (_why(waiting), _why(before)))))
        elif over := under(container, "state", "terminated"):
            ended, reason = True, _why(over)
    started = text(status, "phase") not in ("", "Pending") and not hopeless
    name = text(under(item, "metadata"), "name")
    return Pod(name, _node(item), started, placed, reason, hopeless, ended)


def _why(said: Object) -> str:
    words = (text(said, "reason"), text(said, "message"))
    return line(": ".join(filter(None, words)))


def _node(item: Object) -> str:
    if node := text(under(item, "spec"), "nodeName"):
        return node
    # The controller writes the node that a pod is for in the place of what was asked for.
    affinity = under(item, "spec", "affinity", "nodeAffinity")
    required = under(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    terms = objects(required, "nodeSelectorTerms")
    values = [field.get("values") for term in terms for field in objects(term, "matchFields")]
    names = [one[0] for one in values if isinstance(one, list) and len(one) == 1]
    return names[0] if len(names) == 1 and isinstance(names[0], str) else ""


def under(value: Object, *keys: str) -> Object:
    """The object at a path, or an empty one."""
    for key in keys:
        inner = value.get(key)
        value = inner if isinstance(inner, dict) else {}
    return value


def text(value: Object, key: str) -> str:
    """The text of a key, or ``""``."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def objects(value: Object, key: str) -> list[Object]:
    """The objects in the list of a key."""
    found = value.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
