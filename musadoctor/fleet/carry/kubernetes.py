"""Nodes of a Kubernetes cluster: a pod on each, made, read and removed by ``kubectl``.

A pod sees of its node what the device plugin gives to any container, and nothing more: this is the
view of a job, not of the host.

No cluster was to be had: the manifest is held to Kubernetes' published schemas, and kubectl 1.20
and 1.32 were tried with a stand-in for the API server. The resource's name is the vendor's; a site
may have given it another. Whether a container without capabilities, whose root file system is
read-only, sees the cards as a job's does was not tried.
"""

import json
import re
import secrets
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from musadoctor.fleet.answer import HOST, NOT_PLACED, Answer, line, quoted
from musadoctor.fleet.carry.errand import Arrived, EngineError, Errand
from musadoctor.fleet.carry.kubectl import ANSWER_SECONDS, LONGEST_LIST, Kubectl, spoken
from musadoctor.fleet.carry.kubernetes_manifest import RESOURCE, RUN, Pod, as_yaml, jobs, limits
from musadoctor.fleet.carry.kubernetes_state import text, under, unusable
from musadoctor.fleet.carry.kubernetes_watch import watch
from musadoctor.report import JSON

CREATED_A_SECOND = 4
"""Jobs that a slow API server takes."""
END_SECONDS = 5.0
"""What removing the Jobs may take; where it fails, the cluster does it later."""
_CREATED = re.compile(r"^job\.batch/musadoctor-[0-9a-f]+-(\d{1,9})\s*$", re.MULTILINE)


class Kubernetes(NamedTuple):
    """The nodes of a cluster, as kubectl's configuration names it."""

    image: str
    """One that holds musadoctor, and a shell with ``gzip`` and ``base64``."""
    namespace: str = ""
    """``""``: that of the configuration."""
    selector: str = ""
    """Labels of the nodes, as ``kubectl get nodes -l`` takes them; ``""``: all nodes of which the
    device plugin has told the resource."""
    resource: str = RESOURCE
    """What each pod asks of the device plugin, ``NAME=N``; ``""``: nothing."""
    options: tuple[str, ...] = ()
    """More arguments of each ``kubectl``: ``--context``, ``--kubeconfig``."""
    nodes: tuple[str, ...] | None = None
    """Only these of them."""

    @property
    def name(self) -> str:
        """``kubernetes``."""
        return "kubernetes"

    def hosts(self) -> Sequence[str]:
        """Every node that is going to be asked or told of, also those that are not ready.

        Raises:
            EngineError: kubectl is not there, the cluster does not answer, or has no such nodes.
        """
        return tuple(self._wanted(threading.Event()))

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

    def manifest_text(self, errand: Errand) -> str:
        """What would be made, as YAML.

        Raises:
            EngineError: see :meth:`hosts`; or the errand cannot be done in a pod.
        """
        usable = [node for node, why in self._wanted(threading.Event()).items() if not why]
        return as_yaml(jobs(self._pod(), errand, _new_run(), usable))

    def carry(self, errand: Errand, arrived: Arrived, cancelled: threading.Event) -> None:
        """Put a pod on each node, and tell of each as soon as it has ended.

        Raises:
            EngineError: kubectl is not there, or the cluster takes none of the pods.
        """
        kubectl, run = self._kubectl(), _new_run()
        try:
            wanted = self._wanted(cancelled)
            usable = [node for node, why in wanted.items() if not why]
            made = jobs(self._pod(), errand, run, usable)
            for node, why in wanted.items():
                if why:
                    arrived(Answer(node, None, NOT_PLACED, why))
            if not usable:
                return
            try:
                left = _create(kubectl, made, usable, arrived, cancelled)
                watch(kubectl, run, left, errand.seconds, arrived, cancelled)
            finally:
                # Also where it is not known what was made.
                _delete(kubectl, run)
        except EngineError:
            if not cancelled.is_set():
                raise

    def _kubectl(self) -> Kubectl:
        return Kubectl(self.options, self.namespace)

    def _pod(self) -> Pod:
        return Pod(self.image, self.namespace, self.resource)

    def _wanted(self, cancelled: threading.Event) -> Mapping[str, str]:
        """Each node, and why nothing runs on it, or ``""``."""
        asked = limits(self.resource)
        labels = ("-l", self.selector) if self.selector else ()
        found: dict[str, str] = {}
        for node in self._kubectl().listed(("get", "nodes", *labels), cancelled):
            name = text(under(node, "metadata"), "name")
            # The resource stays in the list, with the number 0, where the plugin has died since.
            told = asked.keys() <= under(node, "status", "capacity").keys()
            if HOST.fullmatch(name) and (self.selector or told):
                found[name] = unusable(node)
        if self.nodes is not None:
            return {name: found.get(name, "the cluster has no such node") for name in self.nodes}
        if not found and self.selector:
            raise EngineError(f"no node has the labels {quoted(self.selector)}")
        if not found:
            raise EngineError(
                f"no node tells of {quoted(self.resource)}: does the device plugin run? Name "
                "another resource by --resource, or nodes by --selector"
            )
        return found


def _new_run() -> str:
    return secrets.token_hex(8)


def _create(
    kubectl: Kubectl,
    made: Mapping[str, JSON],
    nodes: Sequence[str],
    arrived: Arrived,
    cancelled: threading.Event,
) -> Mapping[int, str]:
    """Make the Jobs: the nodes that have one, by number; the others are told."""
    said = bytearray()

    def heard(piece: bytes) -> bool:
        said.extend(piece)
        return len(said) <= LONGEST_LIST

    with tempfile.TemporaryDirectory(prefix="musadoctor-") as folder:
        file = Path(folder) / "jobs.json"
        file.write_text(json.dumps(made), encoding="utf-8")
        # The server looks at it all the same; kubectl would fetch all schemas first.
        words = ("create", "-f", str(file), "--validate=false", "-o", "name")
        limit = ANSWER_SECONDS + len(nodes) / CREATED_A_SECOND
        ran = kubectl.run(words, cancelled, heard, limit)
    numbers = set(map(int, _CREATED.findall(said.decode("utf-8", "replace"))))
    if not numbers:
        raise EngineError(f"the cluster takes no pods of ours: {spoken(ran)}")
    if not cancelled.is_set():
        for number, node in enumerate(nodes):
            if number not in numbers:
                reason = line(f"no pod was made for it: {spoken(ran)}")
                arrived(Answer(node, None, NOT_PLACED, reason))
    return {number: node for number, node in enumerate(nodes) if number in numbers}


def _delete(kubectl: Kubectl, run: str) -> None:
    """Remove all that a run has made; nothing more can be done if it fails."""
    words = ("delete", "jobs", "-l", f"{RUN}={run}", "--wait=false", "--ignore-not-found")
    kubectl.run(words, threading.Event(), lambda _: True, END_SECONDS)
