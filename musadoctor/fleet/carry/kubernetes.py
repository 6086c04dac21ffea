"""Nodes of a Kubernetes cluster: a pod on each, applied, read and removed by ``kubectl``.

The pods are those of a DaemonSet, so that a node on which none can be placed is seen too. A pod
sees of its node what the device plugin gives to any container, and nothing more: this is the view
of a job, not of the host. It asks for no privilege, no account's token and no host namespace. The
pods are taken away on every way out; only where musadoctor itself is killed do they stay, until
``kubectl delete daemonset -l app.kubernetes.io/name=musadoctor``.

No cluster was to be had: the manifest is held to Kubernetes' published schemas, a stand-in plays
kubectl, and kubectl 1.32 was tried with a server of our own. The resource's name is the vendor's; a
site may have given it another.
"""

import json
import secrets
import shlex
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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
from musadoctor.fleet.carry.errand import Arrived, EngineError, Errand
from musadoctor.fleet.carry.frames import Frames
from musadoctor.fleet.carry.kubernetes_manifest import (
    CONTAINER,
    LABEL,
    RESOURCE,
    daemonset_name,
    manifest,
)
from musadoctor.fleet.carry.kubernetes_pods import Object, Pod, objects, pod, text, under
from musadoctor.report import JSON
from musadoctor.system import Ran

SCHEDULE_SECONDS = 30.0
"""Until a pod has to have a place on its node."""
PLACE_SECONDS = 120.0
"""Until a pod has to run: its image may have to be pulled."""
POLL_SECONDS = 1.0
CALL_SECONDS = 20.0
"""What the API server may take."""
LOG_SECONDS = 10.0
"""What a node may take to hand out a log."""
END_SECONDS = 4.0
"""What taking the pods away may take when somebody waits for us to end."""
OVER_SECONDS = 2.0
"""What kubectl may take over the time that it gives to the server."""
READERS = 16
"""Logs that are read at one time."""
LONGEST_LIST = 64 << 20
"""Bytes of what the API server says of nodes or pods."""
LONGEST_LOG = 16 << 20
NO_POD = "no pod was made for it, as where a taint keeps pods off; see: kubectl describe node {}"


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
        names = tuple(text(under(node, "metadata"), "name") for node in found)
        if not names:
            having = f" has the labels {quoted(self.selector)}" if self.selector else " is there"
            raise EngineError(f"no node{having}; see: kubectl get nodes --show-labels")
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

        Pods that cannot be taken away again are told on standard error, with what to type: what
        has arrived is not lost for that.

        Raises:
            EngineError: kubectl is not there, or the cluster takes no such pods.
        """
        hosts = self.hosts()
        nonce = secrets.token_hex(4)
        made = self._manifest(errand, nonce, hosts)
        if not hosts or cancelled.is_set():
            return
        applied = self._apply(made, cancelled)
        left = ""
        try:
            if applied.status == "ok":
                self._watch(errand, nonce, hosts, arrived, cancelled)
        finally:
            # Also where it is not known whether anything was applied.
            left = self._delete(nonce, END_SECONDS if cancelled.is_set() else CALL_SECONDS)
            if left and applied.status == "ok":
                # After the line that tells who has not answered yet.
                sys.stderr.write(f"\nmusadoctor: {left}\n")
        if applied.status != "ok" and not cancelled.is_set():
            ends = f"; {left}" if left else ""
            raise EngineError(f"kubectl cannot apply the pods: {_words(applied)}{ends}")

    def manifest_text(self, errand: Errand) -> str:
        """What would be applied, as YAML; the cluster is asked where nodes are chosen by labels.

        Raises:
            EngineError: see :meth:`carry`.
        """
        made = self._manifest(errand, "dryrun", self.hosts() if self.selector else self.nodes or ())
        return cast("str", cast("Any", yaml).safe_dump(made, sort_keys=False))

    def _manifest(self, errand: Errand, nonce: str, hosts: Sequence[str]) -> dict[str, JSON]:
        # Ten thousand names make a long object; all nodes need none.
        chosen = self.nodes is not None or self.selector
        return manifest(
            errand,
            nonce,
            image=self.image,
            namespace=self.namespace,
            resource=self.resource,
            nodes=hosts if chosen else (),
        )

    def _apply(self, made: Mapping[str, JSON], cancelled: threading.Event) -> Ran:
        with tempfile.TemporaryDirectory(prefix="musadoctor-") as folder:
            file = Path(folder) / "daemonset.json"
            file.write_text(json.dumps(made), encoding="utf-8")
            return self._kubectl(("apply", "-f", str(file)), cancelled, CALL_SECONDS)

    def _watch(
        self,
        errand: Errand,
        nonce: str,
        hosts: Sequence[str],
        arrived: Arrived,
        cancelled: threading.Event,
    ) -> None:
        left = dict.fromkeys(hosts, "")
        limit = PLACE_SECONDS + errand.seconds
        begun = time.monotonic()
        seconds = 0.0
        while left and not cancelled.is_set() and seconds <= limit:
            seconds = time.monotonic() - begun
            for node, told in self._round(tuple(left), nonce, seconds, cancelled):
                if isinstance(told, Answer):
                    del left[node]
                    arrived(told)
                else:
                    left[node] = told
            if left:
                cancelled.wait(POLL_SECONDS)
        for node, why in () if cancelled.is_set() else left.items():
            reason = line(f"no answer in {limit:g} s: {why or 'its pod runs'}")
            arrived(Answer(node, None, TIMED_OUT, reason))

    def _round(
        self, nodes: Sequence[str], nonce: str, seconds: float, cancelled: threading.Event
    ) -> Iterable[tuple[str, Answer | str]]:
        """Of each node what it tells, or why there is nothing yet."""
        try:
            listed = self._listed(("get", "pods", "-l", f"{LABEL}={nonce}"), cancelled)
        except EngineError as error:
            yield from ((node, str(error)) for node in nodes)
            return
        pods = {one.node: one for one in map(pod, listed)}
        look = partial(self._look, nonce=nonce, seconds=seconds, cancelled=cancelled)
        with ThreadPoolExecutor(READERS) as pool:
            yield from zip(nodes, pool.map(look, nodes, map(pods.get, nodes)), strict=True)

    def _look(
        self,
        node: str,
        found: Pod | None,
        *,
        nonce: str,
        seconds: float,
        cancelled: threading.Event,
    ) -> Answer | str:
        """What a node tells, or why there is nothing yet."""
        if found is not None and found.started:
            return "" if cancelled.is_set() else self._read(found, nonce, cancelled)
        if found is None:
            reason, late, hopeless = NO_POD.format(node), seconds > SCHEDULE_SECONDS, False
        else:
            late = seconds > (PLACE_SECONDS if found.placed else SCHEDULE_SECONDS)
            reason, hopeless = found.reason or "its pod does not start", found.hopeless
        return Answer(node, None, NOT_PLACED, reason) if late or hopeless else reason

    def _read(self, found: Pod, nonce: str, cancelled: threading.Event) -> Answer | str:
        """What a pod has printed, where that is a whole answer."""
        frames, answers, seen = Frames(nonce), list[Answer](), 0

        def heard(piece: bytes) -> bool:
            nonlocal seen
            seen += len(piece)
            answers.extend(frames.feed(piece))
            return not answers and seen <= LONGEST_LOG

        # A mesh may have put a container of its own into the pod.
        command = ("logs", f"pod/{found.name}", "-c", CONTAINER)
        ran = self._kubectl(command, cancelled, LOG_SECONDS, heard)
        node = found.node
        if answers:
            return answers[0]._replace(host=node)
        if seen > LONGEST_LOG:
            return Answer(node, None, TOO_LARGE, f"a log of more than {LONGEST_LOG >> 20} MiB")
        if ran.status != "ok":
            return f"kubectl logs: {_words(ran)}"
        if found.ended:
            said = frames.other.rpartition("\n")[2] or "nothing"
            reason = f"its container has ended ({found.reason or 'no reason given'}); it said: "
            return Answer(node, None, DAMAGED, line(reason + said))
        return ""

    def _delete(self, nonce: str, seconds: float) -> str:
        """Take the pods away; where that fails, a sentence that says so."""
        command = ("delete", "daemonset", daemonset_name(nonce))
        more = ("--ignore-not-found", "--wait=false")
        ran = self._kubectl((*command, *more), threading.Event(), seconds)
        if ran.status == "ok":
            return ""
        typed = shlex.join(("kubectl", *self._where(), *command))
        return f"its pods could not be taken away ({_words(ran)}); type: {typed}"

    def _listed(self, command: Sequence[str], cancelled: threading.Event) -> Sequence[Object]:
        """The items of an answer in JSON."""
        said = bytearray()

        def heard(piece: bytes) -> bool:
            said.extend(piece)
            return len(said) <= LONGEST_LIST

        ran = self._kubectl((*command, "-o", "json"), cancelled, CALL_SECONDS, heard)
        try:
            answer = cast("JSON", json.loads(said)) if ran.status == "ok" else None
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("items"), list):
            raise EngineError(f"kubectl {' '.join(command[:2])}: {_words(ran)}")
        return objects(answer, "items")

    def _where(self) -> tuple[str, ...]:
        return (*(("--namespace", self.namespace) if self.namespace else ()), *self.options)

    def _kubectl(
        self,
        command: Sequence[str],
        cancelled: threading.Event,
        seconds: float,
        heard: Callable[[bytes], bool] = lambda _: True,
    ) -> Ran:
        program = shutil.which("kubectl")
        if program is None:
            raise EngineError("kubectl is not installed here: install it, and set up its context")
        return runner.stream(
            [program, f"--request-timeout={seconds:g}s", *self._where(), *command],
            limit=seconds + OVER_SECONDS,
            cancelled=cancelled,
            heard=heard,
        )


def _words(ran: Ran) -> str:
    """What kubectl says of its failure."""
    return line(ran.err.strip().rpartition("\n")[2]) or ran.note or "no list of items came"
