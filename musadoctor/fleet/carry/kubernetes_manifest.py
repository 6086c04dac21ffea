"""The DaemonSet that puts one pod of musadoctor on each node.

A DaemonSet rather than a Job: it makes one pod for each node and no second, and a pod that cannot
be placed says so and names its node.
"""

from collections.abc import Sequence

from musadoctor.fleet.answer import quoted
from musadoctor.fleet.carry.errand import EngineError, Errand
from musadoctor.fleet.carry.script import script
from musadoctor.report import JSON

RESOURCE = "mthreads.com/gpu=1"
"""A whole card, by the vendor's name for it."""
CONTAINER = "musadoctor"
LABEL = "musadoctor.run"
"""Tells the pods of one run from all others."""
STAY_SECONDS = 86_400
"""What a pod waits, done, to be taken away; then it would be started again."""


def daemonset_name(nonce: str) -> str:
    """By what name a run's pods are taken away."""
    return f"musadoctor-{nonce}"


def manifest(
    errand: Errand,
    nonce: str,
    *,
    image: str,
    namespace: str,
    resource: str,
    nodes: Sequence[str],
) -> dict[str, JSON]:
    """The object to apply; without ``nodes`` it is for all that take it.

    Raises:
        EngineError: the errand brings a zipapp, or ``resource`` is not ``NAME=N``.
    """
    if errand.zipapp is not None:
        raise EngineError("an image holds musadoctor already: --bring is for the other engines")
    limits = _limits(resource)
    text = script(errand, nonce, name='"$NODE"', payload="installed", watched=False)
    container: dict[str, JSON] = {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        # A DaemonSet starts again what has ended, even where there was no musadoctor to start; the
        # log of a pod that waits stays.
        "command": ["sh", "-c", f"(\n{text})\nexec sleep {STAY_SECONDS}"],
        "env": [
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "HOME", "value": "/tmp"},  # noqa: S108 - in the container
        ],
        "resources": {"limits": limits} if limits else {},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - as above
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    pod: dict[str, JSON] = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        **_placed(nodes),
        # Nodes with cards are often kept for those that ask for cards, by a taint of that name.
        "tolerations": [{"key": name, "operator": "Exists"} for name in limits],
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    labels: dict[str, JSON] = {"app.kubernetes.io/name": "musadoctor", LABEL: nonce}
    metadata: dict[str, JSON] = {"name": daemonset_name(nonce), "labels": labels}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata,
        "spec": {
            "selector": {"matchLabels": {LABEL: nonce}},
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }


def _limits(resource: str) -> dict[str, JSON]:
    """What is asked of the device plugin."""
    if not resource:
        return {}
    name, separated, number = resource.partition("=")
    if not (name and separated and number.isascii() and number.isdecimal()):
        raise EngineError(f"{quoted(resource)}: expected NAME=N, as in {RESOURCE}")
    return {name: number}


def _placed(nodes: Sequence[str]) -> dict[str, JSON]:
    """On which nodes pods are placed: by name, for labels are no more than a way to names."""
    if not nodes:
        return {}
    # A field takes one value only; a term for each is what that leaves.
    terms: list[JSON] = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        for name in nodes
    ]
    required: JSON = {"nodeSelectorTerms": terms}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }
