"""Plays the API server of a Kubernetes cluster, and its nodes, to a real kubectl.

The command of a pod that runs is really run, in a process group that ends with the Job; how the
other pods are, is what a test says. No more is there than what ``fleet run`` asks for.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

READY = {"type": "Ready", "status": "True"}
KINDS = {"nodes": "Node", "pods": "Pod", "jobs": "Job", "events": "Event"}


class Node:
    """A node, and what becomes of pods on it."""

    def __init__(
        self,
        musadoctor: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        capacity: Mapping[str, str] | None = None,
        ready: Mapping[str, str] | None = None,
        pod: Mapping[str, Any] | None = None,
        log: bytes = b"",
        no_pod: str | None = None,
        refusal: str | None = None,
    ) -> None:
        """``musadoctor`` is a shell script; ``pod`` a state in which the pod stays, with ``log``."""
        self.musadoctor = musadoctor
        self.labels = labels or {}
        self.capacity = {"mthreads.com/gpu": "8"} if capacity is None else capacity
        self.ready = ready or READY
        self.pod = pod
        self.log = log
        self.no_pod = no_pod
        self.refusal = refusal


class Cluster:
    """The server, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes: dict[str, Node] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.made: list[dict[str, Any]] = []
        """All Jobs that there ever were."""
        self.broken: dict[str, tuple[int, str]] = {}
        """By a pattern of the request: the status, and a message, or a body that is no answer."""
        self.hangs = ""
        """A pattern of the requests that are not answered."""
        self.asked: list[str] = []
        self._ended = threading.Event()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                cluster._handle(self)

            do_POST = do_DELETE = do_GET  # noqa: N815 - as http.server wants them

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,)).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        for name in tuple(self._running):
            self._end(name)

    @property
    def running(self) -> list[str]:
        """The Jobs of which something runs."""
        return [name for name, process in self._running.items() if process.poll() is None]

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        url = urlsplit(request.path)
        asked = f"{request.command} {unquote(request.path)}"
        self.asked.append(asked)
        if self.hangs and re.search(self.hangs, asked):
            self._ended.wait()
            return
        body: dict[str, Any] = {}
        if length := int(request.headers.get("Content-Length") or 0):
            body = json.loads(request.rfile.read(length))
        status, answer = self._answer(request.command, url.path, parse_qs(url.query), body)
        for pattern, (code, message) in self.broken.items():
            if re.search(pattern, asked):
                status, answer = code, message.encode() if code == 200 else _refused(code, message)
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            request.send_response(status)
            text = isinstance(answer, bytes) and not answer.startswith(b"{")
            kind = "text/plain" if text else "application/json"
            request.send_header("Content-Type", kind)
            request.send_header("Content-Length", str(len(data)))
            request.end_headers()
            request.wfile.write(data)

    def _answer(
        self, method: str, path: str, query: Mapping[str, list[str]], body: dict[str, Any]
    ) -> tuple[int, Any]:
        if path in DISCOVERY:
            return 200, DISCOVERY[path]
        what = path.split("/")
        if method == "POST" and what[-1] == "jobs":
            return self._make(body)
        if method == "DELETE":
            self._end(what[-1])
            self.jobs.pop(what[-1], None)
            return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if what[-1] in KINDS:
            return 200, self._list(what[-1], query.get("labelSelector", [""])[0])
        if what[-1] == "log":
            return 200, self._log(what[-2])
        pods = [pod for pod in self._pods() if pod["metadata"]["name"] == what[-1]]
        return (200, pods[0]) if pods else (404, _refused(404, f"no {what[-1]}"))

    def _make(self, job: dict[str, Any]) -> tuple[int, Any]:
        name = job["metadata"]["name"]
        node = self._node(job)
        if (refusal := self.nodes[node].refusal) is not None:
            return 403, _refused(403, refusal)
        self.made.append(job)
        self.jobs[name] = job
        if self.nodes[node].pod is None and self.nodes[node].no_pod is None:
            self._run(name, node)
        return 201, job

    def _run(self, name: str, node: str) -> None:
        own = self.folder / node
        own.mkdir(exist_ok=True)
        if self.nodes[node].musadoctor:
            program = own / "musadoctor"
            program.write_text(f"#!/bin/sh\n{self.nodes[node].musadoctor}\n")
            program.chmod(0o755)
        (container,) = self.jobs[name]["spec"]["template"]["spec"]["containers"]
        variables = {one["name"]: one.get("value", node) for one in container["env"]}
        with open(own / "log", "wb") as log:
            self._running[name] = subprocess.Popen(
                container["command"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": f"{own}:/usr/bin:/bin", **variables},
                start_new_session=True,
            )

    def _end(self, name: str) -> None:
        process = self._running.pop(name, None)
        if process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _list(self, what: str, selector: str) -> Any:
        items = {
            "nodes": self._nodes,
            "pods": self._pods,
            "jobs": lambda: list(self.jobs.values()),
            "events": self._events,
        }[what]()
        wanted = dict(one.split("=", 1) for one in selector.split(",") if one)
        kept = [one for one in items if wanted.items() <= one["metadata"].get("labels", {}).items()]
        version = "batch/v1" if what == "jobs" else "v1"
        return {"kind": f"{KINDS[what]}List", "apiVersion": version, "metadata": {}, "items": kept}

    def _nodes(self) -> list[Any]:
        return [
            {
                "kind": "Node",
                "apiVersion": "v1",
                "metadata": {"name": name, "labels": node.labels},
                "status": {"capacity": node.capacity, "conditions": [node.ready]},
            }
            for name, node in self.nodes.items()
        ]

    def _pods(self) -> list[Any]:
        return [
            self._pod(name, self._node(job))
            for name, job in tuple(self.jobs.items())
            if self.nodes[self._node(job)].no_pod is None
        ]

    def _pod(self, name: str, node: str) -> Any:
        job = self.jobs[name]
        template = job["spec"]["template"]
        status = self.nodes[node].pod
        if status is None:
            code = self._running[name].poll()
            ended = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
            state = {"running": {}} if code is None else ended
            phase = "Running" if code is None else "Failed" if code else "Succeeded"
            status = {"phase": phase, "containerStatuses": [{"name": "musadoctor", "state": state}]}
        space = job["metadata"].get("namespace", "default")
        return {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": f"{name}-x1y2z", "namespace": space, **template["metadata"]},
            "spec": template["spec"],
            "status": status,
        }

    def _log(self, pod: str) -> bytes:
        node = self._node(self.jobs[pod.removesuffix("-x1y2z")])
        file = self.folder / node / "log"
        return self.nodes[node].log or (file.read_bytes() if file.exists() else b"")

    def _events(self) -> list[Any]:
        return [
            {
                "kind": "Event",
                "apiVersion": "v1",
                "metadata": {"name": f"{name}.1"},
                "involvedObject": {"kind": "Job", "name": name},
                "reason": "FailedCreate",
                "message": message,
            }
            for name, job in self.jobs.items()
            if (message := self.nodes[self._node(job)].no_pod)
        ]

    def _node(self, job: Mapping[str, Any]) -> str:
        affinity = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        (field,) = term["matchFields"]
        assert (field["key"], field["operator"]) == ("metadata.name", "In")
        (name,) = field["values"]
        return str(name)


def says(report: str) -> str:
    """A shell script that prints it."""
    return f"printf '%s\\n' {shlex.quote(report)}"


def _refused(code: int, message: str) -> Any:
    reason = {403: "Forbidden", 404: "NotFound", 500: "InternalError"}[code]
    head = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return {**head, "message": message, "reason": reason, "code": code}


def _resources(version: str, *names: str) -> Any:
    verbs = ["create", "delete", "get", "list", "watch"]
    found = [
        {"name": one, "kind": KINDS[one], "namespaced": one != "nodes", "verbs": verbs}
        for one in names
    ]
    return {"kind": "APIResourceList", "groupVersion": version, "resources": found}


_BATCH = {"groupVersion": "batch/v1", "version": "v1"}
DISCOVERY: dict[str, Any] = {
    "/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{"name": "batch", "versions": [_BATCH], "preferredVersion": _BATCH}],
    },
    "/api/v1": _resources("v1", "nodes", "pods", "events"),
    "/apis/batch/v1": _resources("batch/v1", "jobs"),
}
