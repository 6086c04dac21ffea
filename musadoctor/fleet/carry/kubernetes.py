"""Nodes of a Kubernetes cluster: a pod on each, applied, read and removed by ``kubectl``.

The pods are those of a DaemonSet, so that a node on which none can be placed is seen too. A pod
sees of its node what the device plugin gives to any container, and nothing more: this is the view
of a job, not of the host. It asks for no privilege, no account's token and no host namespace, and
is gone at the end, however that comes.

No cluster was to be had: the manifest is held to Kubernetes' published schemas, and kubectl's part
was played by a stand-in. The resource's name is the vendor's; a site may have given it another.
"""

import json
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import yaml

from musadoctor import runner
from musadoctor.fleet.answer import (
    DAMAGED,
    HOST,
    NOT_PLACED,
    TIMED_OUT,
    TOO_LARGE,
    Answer,
    line,
    quoted,
)
from musadoctor.fleet.carry.errand import CONNECT_SECONDS, Arrived, EngineError, Errand
from musadoctor.fleet.carry.frames import Frames
from musadoctor.fleet.carry.script import script
from musadoctor.report import JSON
from musadoctor.system import Ran

RESOURCE = "mthreads.com/gpu=1"
PLACE_SECONDS = 120.0
"""Until a pod has to run: its image may have to be pulled."""
POLL_SECONDS = 1.0
LONGEST_LIST = 64 << 20
"""Bytes of what the API server says of nodes or pods."""
LONGEST_LOG = 16 << 20
LABEL = "musadoctor.run"
HOPELESS = {
    *("CreateContainerConfigError", "CreateContainerError", "ErrImagePull", "ErrImageNeverPull"),
    *("ImageInspectError", "ImagePullBackOff", "InvalidImageName", "RunContainerError"),
    "CrashLoopBackOff",
}
"""Reasons for which a container waits in vain."""
Object = Mapping[str, JSON]


class Kubernetes(NamedTuple):
    """The nodes of a cluster, as kubectl's configuration names it."""

    image: str
    """One that holds musadoctor, and a shell with ``gzip`` and ``base64``."""
    namespace: str = ""
    """``""``: that of the configuration."""
    selector: str = ""
    """Labels of the nodes, as ``kubectl get nodes -l`` takes them; ``""``: all nodes."""
    resource: str = RESOURCE
    """What each pod asks of the device plugin, ``NAME=N``; ``""``: nothing."""
    options: tuple[str, ...] = ()
    """More arguments of each ``kubectl``: ``--context``, ``--kubeconfig``."""
    nodes: tuple[str, ...] | None = None
    """These nodes; ``None``: all that have the labels."""

    @property
    def name(self) -> str:
        """``kubernetes``."""
        return "kubernetes"

    def hosts(self) -> Sequence[str]:
        """The names of the nodes.

        Raises:
            EngineError: kubectl is not there, or the cluster does not answer; with its words.
        """
        if self.nodes is not None:
            return self.nodes
        labels = ("-l", self.selector) if self.selector else ()
        found = self._listed(("get", "nodes", *labels), threading.Event())
        names = tuple(_text(_under(node, "metadata"), "name") for node in found)
        if not names:
            raise EngineError(f"no node has the labels {quoted(self.selector)}")
        for name in names:
            if not HOST.fullmatch(name):
                raise EngineError(f"{quoted(name)} is no name of a node")
        return names

    def only(self, hosts: Sequence[str]) -> "Kubernetes":
        """The same for some of the nodes."""
        return self._replace(nodes=tuple(hosts))

    def address(self, host: str) -> str:
        """Pods know each other by no name of their nodes.

        Raises:
            EngineError: always.
        """
        raise EngineError(
            f"ranks in pods on nodes such as {host} cannot find each other: run `musadoctor verify "
            "--rank-from-env` in a job of the training operator"
        )

    def carry(self, errand: Errand, arrived: Arrived, cancelled: threading.Event) -> None:
        """Put a pod on each node, and tell of each as soon as its log holds the answer.

        Raises:
            EngineError: kubectl is not there, the cluster takes no such pods, or they cannot be
                taken away again.
        """
        hosts = self.hosts()
        nonce = secrets.token_hex(4)
        applied = self._apply(self._manifest(errand, nonce, hosts), cancelled)
        try:
            if applied.status != "ok":
                if cancelled.is_set():
                    return
                raise EngineError(f"kubectl cannot apply the pods: {_words(applied)}")
            self._watch(errand, nonce, hosts, arrived, cancelled)
        finally:
            # Also where it is not known whether anything was applied.
            self._delete(nonce)

    def manifest_text(self, errand: Errand) -> str:
        """What would be applied, as YAML.

        Raises:
            EngineError: see :meth:`carry`.
        """
        hosts = self.nodes or ()
        made = self._manifest(errand, "dryrun", hosts)
        return cast("str", cast("Any", yaml).safe_dump(made, sort_keys=False))

    def _manifest(self, errand: Errand, nonce: str, hosts: Sequence[str]) -> dict[str, JSON]:
        if errand.zipapp is not None:
            raise EngineError("an image holds musadoctor already: --bring is for the other engines")
        limits = self._limits()
        text = script(errand, nonce, name='"$NODE"', payload="installed", watched=False)
        labels: dict[str, JSON] = {"app.kubernetes.io/name": "musadoctor", LABEL: nonce}
        container: dict[str, JSON] = {
            "name": "musadoctor",
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            # A DaemonSet starts again what has ended, and the log of a pod that waits stays.
            "command": ["sh", "-c", f"{text}exec sleep {int(errand.seconds + PLACE_SECONDS)}"],
            "env": [
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "HOME", "value": "/tmp"},  # noqa: S108 - in the container
            ],
            "resources": {} if limits is None else {"limits": limits},
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
            **self._placed(hosts),
            # Nodes with cards are often kept for those that ask for cards, by a taint of that name.
            "tolerations": [{"key": name, "operator": "Exists"} for name in limits or ()],
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        }
        metadata: dict[str, JSON] = {"name": f"musadoctor-{nonce}", "labels": labels}
        if self.namespace:
            metadata["namespace"] = self.namespace
        return {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": {LABEL: nonce}},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }

    def _limits(self) -> dict[str, JSON] | None:
        """What is asked of the device plugin."""
        if not self.resource:
            return None
        name, separated, number = self.resource.partition("=")
        if not (name and separated and number.isdecimal()):
            raise EngineError(f"{quoted(self.resource)}: expected NAME=N, as in {RESOURCE}")
        return {name: number}

    def _placed(self, hosts: Sequence[str]) -> dict[str, JSON]:
        """On which nodes pods are placed: by name, for labels are no more than a way to names."""
        if not hosts:
            return {}
        # A field takes one value only; a term for each is what that leaves.
        terms: list[JSON] = [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
            for name in hosts
        ]
        required: JSON = {"nodeSelectorTerms": terms}
        return {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
            }
        }

    def _apply(self, manifest: Mapping[str, JSON], cancelled: threading.Event) -> Ran:
        with tempfile.TemporaryDirectory(prefix="musadoctor-") as folder:
            file = Path(folder) / "daemonset.json"
            file.write_text(json.dumps(manifest), encoding="utf-8")
            return self._kubectl(("apply", "-f", str(file)), cancelled, lambda _: True)

    def _watch(
        self,
        errand: Errand,
        nonce: str,
        hosts: Sequence[str],
        arrived: Arrived,
        cancelled: threading.Event,
    ) -> None:
        left = dict.fromkeys(hosts)
        begun = time.monotonic()
        states: dict[str, str] = {}
        while left and not cancelled.is_set():
            seconds = time.monotonic() - begun
            for pod in self._listed(("get", "pods", "-l", f"{LABEL}={nonce}"), cancelled, ""):
                node = _node(pod)
                if node in left:
                    states[node] = _state(pod).reason
                    if answer := self._told(pod, node, nonce, late=seconds > PLACE_SECONDS):
                        del left[node]
                        arrived(answer)
            if seconds > PLACE_SECONDS + errand.seconds:
                break
            cancelled.wait(POLL_SECONDS)
        for node in () if cancelled.is_set() else left:
            arrived(_silent(node, states.get(node), errand.seconds))

    def _told(self, pod: Object, node: str, nonce: str, *, late: bool) -> Answer | None:
        """What a pod tells, or why it never will; ``None`` where that is to be waited for."""
        state = _state(pod)
        if state.phase != "Pending" and not state.hopeless:
            return self._read(_text(_under(pod, "metadata"), "name"), node, nonce)
        if state.hopeless or late:
            return Answer(node, None, NOT_PLACED, state.reason or "its pod does not start")
        return None

    def _read(self, pod: str, node: str, nonce: str) -> Answer | None:
        """What a pod has printed, where that is a whole answer."""
        frames, answers, seen = Frames(nonce), list[Answer](), 0

        def heard(piece: bytes) -> bool:
            nonlocal seen
            seen += len(piece)
            answers.extend(frames.feed(piece))
            return not answers and seen <= LONGEST_LOG

        self._kubectl(("logs", pod), threading.Event(), heard)
        if answers:
            return answers[0]._replace(host=node)
        if seen > LONGEST_LOG:
            return Answer(node, None, TOO_LARGE, f"a log of more than {LONGEST_LOG >> 20} MiB")
        if seen and not frames.begun and frames.other.startswith("Error"):
            return Answer(node, None, DAMAGED, line(frames.other))
        return None

    def _delete(self, nonce: str) -> None:
        command = (
            "delete",
            "daemonset",
            f"musadoctor-{nonce}",
            "--ignore-not-found",
            "--wait=false",
        )
        ran = self._kubectl(command, threading.Event(), lambda _: True)
        if ran.status != "ok":
            raise EngineError(
                f"the pods could not be taken away: {_words(ran)}; "
                f"type: kubectl delete daemonset musadoctor-{nonce}"
            )

    def _listed(
        self, command: Sequence[str], cancelled: threading.Event, otherwise: str | None = None
    ) -> Iterator[Object]:
        """The items of an answer in JSON; with ``otherwise`` none where there is no such answer."""
        said = bytearray()

        def heard(piece: bytes) -> bool:
            said.extend(piece)
            return len(said) <= LONGEST_LIST

        ran = self._kubectl((*command, "-o", "json"), cancelled, heard)
        try:
            items = cast("JSON", json.loads(said)) if ran.status == "ok" else None
        except (ValueError, RecursionError):
            items = None
        found = items.get("items") if isinstance(items, dict) else None
        if not isinstance(found, list):
            if otherwise is None:
                raise EngineError(f"kubectl {' '.join(command[:2])}: {_words(ran)}")
            return
        for item in found:
            if isinstance(item, dict):
                yield item

    def _kubectl(
        self, command: Sequence[str], cancelled: threading.Event, heard: Callable[[bytes], bool]
    ) -> Ran:
        program = shutil.which("kubectl")
        if program is None:
            raise EngineError("kubectl is not installed here: install it, and set up its context")
        where = ("--namespace", self.namespace) if self.namespace else ()
        limit = 3 * CONNECT_SECONDS
        timeout = f"--request-timeout={2 * CONNECT_SECONDS}s"
        return runner.stream(
            [program, timeout, *where, *self.options, *command],
            limit=limit,
            cancelled=cancelled,
            heard=heard,
        )


def _words(ran: Ran) -> str:
    """What kubectl says of its failure."""
    return line(ran.err.strip().rpartition("\n")[2]) or ran.note or "no list of items came"


def _under(value: Object, *keys: str) -> Object:
    """The object at a path, or an empty one."""
    for key in keys:
        inner = value.get(key)
        value = inner if isinstance(inner, dict) else {}
    return value


def _text(value: Object, key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def _objects(value: Object, key: str) -> list[Object]:
    found = value.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _node(pod: Object) -> str:
    """The node that a pod runs on, or is meant for."""
    if node := _text(_under(pod, "spec"), "nodeName"):
        return node
    affinity = _under(pod, "spec", "affinity", "nodeAffinity")
    required = _under(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    terms = _objects(required, "nodeSelectorTerms")
    values = [field.get("values") for term in terms for field in _objects(term, "matchFields")]
    names = [one[0] for one in values if isinstance(one, list) and len(one) == 1]
    return names[0] if len(names) == 1 and isinstance(names[0], str) else ""


class _State(NamedTuple):
    phase: str
    reason: str
    """Why it does not run."""
    hopeless: bool
    """Whether waiting is in vain."""


def _state(pod: Object) -> _State:
    status = _under(pod, "status")
    phase = _text(status, "phase")
    for container in _objects(status, "containerStatuses"):
        waiting = _under(container, "state", "waiting")
        if reason := _text(waiting, "reason"):
            said = line(f"{reason}: {_text(waiting, 'message')}")
            return _State(phase, said, reason in HOPELESS)
    for condition in _objects(status, "conditions"):
        if _text(condition, "type") == "PodScheduled" and _text(condition, "status") == "False":
            words = f"{_text(condition, 'reason')}: {_text(condition, 'message')}"
            return _State(phase, line(words), hopeless=False)
    return _State(phase, "", hopeless=False)


def _silent(node: str, state: str | None, seconds: float) -> Answer:
    """A node of which nothing came in time; ``state`` is that of its pod."""
    if state is None:
        return Answer(node, None, NOT_PLACED, "no pod was made for it; is it tainted?")
    return Answer(node, None, TIMED_OUT, f"no answer in {seconds:g} s: {state or 'its pod runs'}")
