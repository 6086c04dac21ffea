"""What is asked of a Kubernetes cluster: a Job for every node, whose pod runs the errand there.

A Job ends by its own limit and is removed by the cluster some time after that, whatever becomes of
us. Its pod asks for no privilege, no account's token and none of the host's namespaces.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import yaml

from musadoctor.fleet.answer import quoted
from musadoctor.fleet.carry.errand import EngineError, Errand
from musadoctor.fleet.carry.script import script
from musadoctor.report import JSON

RESOURCE = "mthreads.com/gpu=1"
PLACE_SECONDS = 20.0
"""Until a pod has to have a place on its node; it waits for no card that others have."""
START_SECONDS = 300.0
"""Until its container has to run: the image may have to be pulled."""
KEPT_SECONDS = 120
"""How long the cluster keeps what has ended, unless we remove it first."""
CONTAINER = "musadoctor"
"""A site may let others be added to each pod."""
RUN = "musadoctor-run"
NODE = "musadoctor-node"
"""Labels: of this run, and the number of the node in it, for a name may be too long for a label."""


class Pod(NamedTuple):
    """What the pods of a run have in common."""

    image: str
    namespace: str
    resource: str


def limits(resource: str) -> dict[str, str]:
    """``NAME=N``, several of them with commas between, as a container asks for them.

    Raises:
        EngineError: it is something else.
    """
    asked: dict[str, str] = {}
    for one in filter(None, resource.split(",")):
        name, _, number = one.partition("=")
        if not (name and number.isascii() and number.isdecimal()):
            raise EngineError(f"{quoted(resource)}: expected NAME=N, as in {RESOURCE}")
        asked[name] = number
    return asked


def job_name(run: str, number: int) -> str:
    """Of the Job for a node."""
    return f"musadoctor-{run}-{number}"


def jobs(pod: Pod, errand: Errand, run: str, nodes: Sequence[str]) -> dict[str, JSON]:
    """A list of Jobs, as kubectl takes it.

    Raises:
        EngineError: the errand cannot be done in a pod.
    """
    if errand.zipapp is not None:
        raise EngineError("the image has to hold musadoctor already: leave --bring out")
    items: list[JSON] = [_job(pod, errand, run, number, node) for number, node in enumerate(nodes)]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _job(pod: Pod, errand: Errand, run: str, number: int, node: str) -> JSON:
    labels: dict[str, JSON] = {
        "app.kubernetes.io/name": "musadoctor",
        RUN: run,
        NODE: str(number),
    }
    where: dict[str, JSON] = {"namespace": pod.namespace} if pod.namespace else {}
    spec = _pod(pod, errand, run, node)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job_name(run, number), **where, "labels": labels},
        "spec": {
            # What went wrong once is to be seen, and not tried again.
            "backoffLimit": 0,
            "activeDeadlineSeconds": math.ceil(PLACE_SECONDS + START_SECONDS + errand.seconds),
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _pod(pod: Pod, errand: Errand, run: str, node: str) -> JSON:
    text = script(
        errand.of(node),
        run,
        name='"$MUSADOCTOR_NODE"',
        payload="installed",
        watched=False,
    )
    asked: dict[str, JSON] = {**limits(pod.resource)}
    term: JSON = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    container: JSON = {
        "name": CONTAINER,
        "image": pod.image,
        "command": ["sh", "-c", text],
        "env": [
            {"name": "MUSADOCTOR_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "HOME", "value": "/tmp"},  # noqa: S108 - in the container
        ],
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            # torch is imported, and one report after the other is made of it.
            "limits": {"cpu": "2", "memory": "4Gi", **asked},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - in the container
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        # By the scheduler, which knows what is left of the node's cards.
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
            }
        },
        # A node may be kept for those that ask for its cards, or for nobody while it is repaired.
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
    }


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as such, and what comes twice twice."""

    def ignore_aliases(self, data: object) -> bool:
        """Whether to write it in full where it comes again."""
        del data
        return True


def _text(dumper: Any, text: str) -> Any:  # noqa: ANN401 - PyYAML's own types are not to be had
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(manifest: Mapping[str, JSON]) -> str:
    """For a person to read."""
    dump = cast("Any", yaml).dump
    return cast("str", dump(manifest, Dumper=_Dumper, sort_keys=False, width=1000))
