"""Plays kubectl before a cluster: nodes that the file ``cluster.json`` beside it describes.

For a node ``"runs"`` the container's command is really run, with the folder of the node first on
PATH; other states are what the API server says of pods that do not run.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(sys.argv[0]).parent
CLUSTER: dict[str, Any] = json.loads((HERE / "cluster.json").read_text())
APPLIED = HERE / "applied.json"


def said(value: object) -> None:
    print(json.dumps(value))
    sys.exit()


def refused(sentence: str) -> None:
    print(sentence, file=sys.stderr)
    sys.exit(1)


def pod(node: str, state: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"nodeSelectorTerms": [term]}
    return {
        "metadata": {"name": f"{applied['metadata']['name']}-{node}"},
        "spec": {
            **({"nodeName": node} if state.get("placed", True) else {}),
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
            },
        },
        "status": state.get("status", {"phase": "Running"}),
    }


def log(pod_name: str, option: str, name: str) -> None:
    applied = json.loads(APPLIED.read_text())
    node = pod_name.removeprefix(f"pod/{applied['metadata']['name']}-")
    state = CLUSTER["nodes"][node]
    if "no log" in state:
        refused(state["no log"])
    if "log" in state:
        sys.stdout.write(state["log"])
        sys.exit()
    if "flood" in state:
        while True:
            sys.stdout.write("x" * 65536)
    (container,) = applied["spec"]["template"]["spec"]["containers"]
    if (option, name) != ("-c", container["name"]):
        refused("error: a container name must be specified")
    command = container["command"]
    command[-1] = command[-1].replace("exec sleep", "exit 0; sleep")
    path = f"{HERE / node}:{os.environ['PATH']}"
    sys.exit(subprocess.run(command, env={"PATH": path, "NODE": node}, check=False).returncode)


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--request-timeout")]
    with open(HERE / "asked", "a", encoding="utf-8") as asked:
        print(*words, file=asked)
    while words[0].startswith("--"):
        words = words[2:] if "=" not in words[0] else words[1:]
    if any(" ".join(words).startswith(one) for one in CLUSTER.get("hangs", ())):
        time.sleep(1000)
    if problem := CLUSTER.get("refuses", {}).get(" ".join(words[:2])):
        refused(problem)
    if rubbish := CLUSTER.get("rubbish", {}).get(" ".join(words[:2])):
        print(rubbish)
        sys.exit()
    if words[:2] == ["get", "nodes"]:
        said({"items": [{"metadata": {"name": name}} for name in CLUSTER["nodes"]]})
    if words[0] == "apply":
        APPLIED.write_text(Path(words[2]).read_text())
        print("daemonset.apps/musadoctor created")
        return
    if words[:2] == ["get", "pods"]:
        applied = json.loads(APPLIED.read_text())
        pods = [
            pod(node, state, applied)
            for node, state in CLUSTER["nodes"].items()
            if state.get("pod", True)
        ]
        said({"items": ["no pod", *pods]})
    if words[0] == "logs":
        log(*words[1:])
    if words[0] == "delete":
        APPLIED.unlink(missing_ok=True)


main()
