"""Errands by the real kubectl, where there is one, to a server that knows as much as it asks for.

The server is ours: it says nothing of how a cluster schedules, and runs the containers' command
itself.
"""

import json
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate  # type: ignore[import-untyped]
import pytest

from musadoctor.fleet.answer import Answer
from musadoctor.fleet.carry.errand import Errand
from musadoctor.fleet.carry.kubernetes import Kubernetes

REPORT = '{\n"verdict": "healthy"\n}'
NODES = ("gpu1", "gpu2")
DAEMONSETS = "/apis/apps/v1/namespaces/ops/daemonsets"
PODS = "/api/v1/namespaces/ops/pods"
FIELD_VALIDATION = {
    "x-kubernetes-group-version-kind": {"group": "apps", "version": "v1", "kind": "DaemonSet"},
    "x-kubernetes-action": "patch",
    "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
    "responses": {},
}
"""Tells kubectl that the server looks at the fields, so that it does not have to."""


def resource(name: str, kind: str, *, namespaced: bool = True) -> dict[str, Any]:
    verbs = ["get", "list", "create", "patch", "delete"]
    return {"name": name, "kind": kind, "namespaced": namespaced, "verbs": verbs}


def listed(kind: str, items: list[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": f"{kind}List", "metadata": {}, "items": items}


APPS = {"groupVersion": "apps/v1", "version": "v1"}
CORE = [resource("nodes", "Node", namespaced=False), resource("pods", "Pod")]
FIXED: Mapping[str, Any] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{"name": "apps", "versions": [APPS], "preferredVersion": APPS}],
    },
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": CORE},
    "/apis/apps/v1": {
        "kind": "APIResourceList",
        "groupVersion": "apps/v1",
        "resources": [resource("daemonsets", "DaemonSet")],
    },
    "/openapi/v3": {"paths": {"apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apps?hash=1"}}},
    "/openapi/v3/apps": {
        "openapi": "3.0.0",
        "info": {"title": "apps", "version": "1"},
        "paths": {f"{DAEMONSETS}/{{name}}": {"patch": FIELD_VALIDATION}},
    },
    "/api/v1/nodes": listed(
        "Node", [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": one}} for one in NODES]
    ),
}


class Server(ThreadingHTTPServer):
    """What is applied, and all that was asked."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.applied: dict[str, Any] = {}
        self.asked: list[tuple[str, str, Mapping[str, list[str]]]] = []

    def pod(self, node: str) -> dict[str, Any]:
        (name,) = self.applied
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{node}", "namespace": "ops"},
            "spec": {"nodeName": node, "containers": [{"name": "mesh"}, {"name": "musadoctor"}]},
            "status": {"phase": "Running"},
        }

    def log(self, node: str) -> str:
        (daemonset,) = self.applied.values()
        *shell, script = daemonset["spec"]["template"]["spec"]["containers"][0]["command"]
        env = {"PATH": f"{self.folder}:/usr/bin:/bin", "NODE": node}
        command = [*shell, script.replace("exec sleep", "exit 0; sleep")]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on standard error."""

    def asked(self) -> str:
        url = urlsplit(self.path)
        self.server.asked.append((self.command, url.path, parse_qs(url.query)))
        return url.path

    def answer(self, said: Any, code: int = 200) -> None:
        data = said.encode() if isinstance(said, str) else json.dumps(said).encode()
        self.send_response(code)
        kind = "text/plain" if isinstance(said, str) else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def not_found(self) -> None:
        status = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}
        self.answer({**status, "reason": "NotFound", "message": "not found", "code": 404}, 404)

    def do_GET(self) -> None:
        path = self.asked()
        of_pod = path.removeprefix(f"{PODS}/")
        if path in FIXED:
            self.answer(FIXED[path])
        elif path == PODS:
            self.answer(listed("Pod", [self.server.pod(node) for node in NODES]))
        elif of_pod != path and of_pod.endswith("/log"):
            self.answer(self.server.log(of_pod.removesuffix("/log").rpartition("-")[2]))
        elif of_pod != path:
            self.answer(self.server.pod(of_pod.rpartition("-")[2]))
        else:
            self.not_found()

    def do_POST(self) -> None:
        self.asked()
        made = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kubernetes_validate.validate(made, "1.32", strict=True)
        self.server.applied[made["metadata"]["name"]] = made
        self.answer(made, 201)

    def do_DELETE(self) -> None:
        name = self.asked().removeprefix(f"{DAEMONSETS}/")
        if self.server.applied.pop(name, None):
            self.answer({"apiVersion": "v1", "kind": "Status", "status": "Success"})
        else:
            self.not_found()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl here")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    program = tmp_path / "musadoctor"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(REPORT)}\n")
    program.chmod(0o755)
    with Server(tmp_path) as one:
        serving = threading.Thread(target=one.serve_forever)
        serving.start()
        yield one
        one.shutdown()
        serving.join()


def test_a_real_kubectl_understands_all_that_it_is_told(server: Server) -> None:
    where = ("--server", f"http://127.0.0.1:{server.server_port}")
    engine = Kubernetes("site/musadoctor:1", "ops", "card=s5000", options=where)
    told: list[Answer] = []
    engine.carry(Errand(("--json",), 50), told.append, threading.Event())
    assert told == [Answer(node, REPORT) for node in NODES]
    assert server.applied == {}
    asked = {(method, path): query for method, path, query in server.asked}
    assert asked["GET", "/api/v1/nodes"]["labelSelector"] == ["card=s5000"]
    (label,) = asked["GET", PODS]["labelSelector"]
    name = f"musadoctor-{label.removeprefix('musadoctor.run=')}"
    assert asked["GET", f"{PODS}/{name}-gpu1/log"]["container"] == ["musadoctor"]
    assert server.asked[-1][:2] == ("DELETE", f"{DAEMONSETS}/{name}")
