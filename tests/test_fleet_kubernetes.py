"""Errands by kubectl: a stand-in plays the cluster, for a real one was not to be had."""

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from musadoctor.cli.fleet_run import LAST_WORDS
from musadoctor.fleet.answer import DAMAGED, NO_MUSADOCTOR, NOT_PLACED, TIMED_OUT, TOO_LARGE, Answer
from musadoctor.fleet.carry import kubernetes
from musadoctor.fleet.carry.errand import EngineError, Errand
from musadoctor.fleet.carry.kubernetes import Kubernetes

REPORT = '{\n"verdict": "healthy"\n}'
ERRAND = Errand(("--json", "--timeout", "30"), 50)
IMAGE = "site/musadoctor:1"
STAND_IN = Path(__file__).parent / "kubectl_stand_in.py"


class Cluster:
    """A folder on PATH with a kubectl, and what it says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        file = folder / "kubectl"
        file.write_text(f"#!{sys.executable}\n{STAND_IN.read_text()}")
        file.chmod(0o755)

    def of(self, nodes: Mapping[str, Mapping[str, Any]], **more: Any) -> "Cluster":
        (self.folder / "cluster.json").write_text(json.dumps({"nodes": nodes, **more}))
        for node in nodes:
            program = self.folder / node / "musadoctor"
            program.parent.mkdir()
            program.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(REPORT)}\n")
            program.chmod(0o755)
        return self

    @property
    def asked(self) -> list[str]:
        file = self.folder / "asked"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def left(self) -> bool:
        return (self.folder / "applied.json").exists()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(kubernetes, "POLL_SECONDS", 0.01)
    return Cluster(tmp_path)


def carried(
    engine: Kubernetes | None = None,
    errand: Errand = ERRAND,
    cancelled: threading.Event | None = None,
) -> dict[str, Answer]:
    told: list[Answer] = []
    (engine or Kubernetes(IMAGE)).carry(errand, told.append, cancelled or threading.Event())
    by_host = {answer.host: answer for answer in told}
    assert len(by_host) == len(told)
    return by_host


def waiting(reason: str, message: str) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"status": {"phase": "Pending", "containerStatuses": [{"state": state}]}}


def test_the_pod_of_each_node_reports(cluster: Cluster) -> None:
    cluster.of({"gpu1": {}, "gpu2": {}})
    told = carried()
    assert {host: answer.report for host, answer in told.items()} == {
        "gpu1": REPORT,
        "gpu2": REPORT,
    }
    assert not cluster.left
    assert cluster.asked[-1].startswith("delete daemonset musadoctor-")


def test_where_and_how_is_handed_to_every_kubectl(cluster: Cluster) -> None:
    cluster.of({"gpu1": {}})
    carried(Kubernetes(IMAGE, "gpu-ops", "card=s5000", options=("--context", "train")))
    assert all(one.startswith("--namespace gpu-ops --context train ") for one in cluster.asked)
    assert "get nodes -l card=s5000 -o json" in cluster.asked[0]


def test_why_a_pod_does_not_run_is_told_by_node(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "PLACE_SECONDS", 0.5)
    monkeypatch.setattr(kubernetes, "SCHEDULE_SECONDS", 0.5)
    busy = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "1 Insufficient mthreads.com/gpu",
    }
    fine = {"type": "PodScheduled", "status": "True"}
    crashing = waiting("CrashLoopBackOff", "back-off 10s")
    crashing["status"]["phase"] = "Running"
    no_shell = {"reason": "StartError", "message": 'exec: "sh" not found'}
    crashing["status"]["containerStatuses"][0]["lastState"] = {"terminated": no_shell}
    cluster.of(
        {
            "busy": {"placed": False, "status": {"phase": "Pending", "conditions": [fine, busy]}},
            "image": waiting("ImagePullBackOff", "Back-off pulling\x1b[2J image"),
            "crashes": crashing,
            "slow": waiting("ContainerCreating", ""),
            "mute": {"status": {"phase": "Pending"}},
            "tainted": {"pod": False},
            "well": {},
        }
    )
    told = carried(errand=ERRAND._replace(seconds=0.2))
    assert told.pop("well").report == REPORT
    assert {host: answer.reason for host, answer in told.items()} == {
        "busy": "Unschedulable: 1 Insufficient mthreads.com/gpu",
        "image": "ImagePullBackOff: Back-off pulling\ufffd[2J image",
        "crashes": 'CrashLoopBackOff: back-off 10s; StartError: exec: "sh" not found',
        "slow": "ContainerCreating",
        "mute": "its pod does not start",
        "tainted": "no pod was made for it, as where a taint keeps pods off; "
        "see: kubectl describe node tainted",
    }
    assert {answer.kind for answer in told.values()} == {NOT_PLACED}


def test_a_pod_that_runs_and_does_not_answer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "PLACE_SECONDS", 0.1)
    over = {"state": {"terminated": {"reason": "OOMKilled"}}}
    ended = {"phase": "Running", "containerStatuses": [over]}
    forbidden = "Error from server (Forbidden): pods/log is forbidden"
    cluster.of(
        {
            "silent": {"log": "", "status": {"phase": "Running", "containerStatuses": [{}]}},
            "talks": {"log": "a banner\n"},
            "gone": {"log": "a banner\nKilled\n", "status": ended},
            "closed": {"no log": forbidden},
            "floods": {"flood": True},
        }
    )
    told = carried(errand=ERRAND._replace(seconds=0.4))
    assert told["silent"] == Answer("silent", None, TIMED_OUT, "no answer in 0.5 s: its pod runs")
    assert told["talks"].kind == TIMED_OUT
    assert told["closed"] == Answer(
        "closed", None, TIMED_OUT, f"no answer in 0.5 s: kubectl logs: {forbidden}"
    )
    assert (told["gone"].kind, told["gone"].reason) == (
        DAMAGED,
        "its container has ended (OOMKilled); it said: Killed",
    )
    assert (told["floods"].kind, told["floods"].reason) == (TOO_LARGE, "a log of more than 16 MiB")


def test_an_image_without_musadoctor_is_told_as_that(cluster: Cluster) -> None:
    cluster.of({"gpu1": {}})
    told = carried(errand=ERRAND._replace(command=("musadoctor-of-nowhere",)))
    assert told["gpu1"].kind == NO_MUSADOCTOR


def test_a_pod_stays_when_it_has_said_what_it_had_to_say(cluster: Cluster) -> None:
    """Else it would be started again, and again: its node would be busy with that."""
    absent = ERRAND._replace(command=("musadoctor-of-nowhere",))
    made = yaml.safe_load(Kubernetes(IMAGE).manifest_text(absent))
    (container,) = made["spec"]["template"]["spec"]["containers"]
    sleep = cluster.folder / "sleep"
    sleep.write_text('#!/bin/sh\necho "stays $1"\n')
    sleep.chmod(0o755)
    done = subprocess.run(
        container["command"],
        env={"PATH": f"{cluster.folder}:/usr/bin:/bin", "NODE": "gpu1"},
        capture_output=True,
        text=True,
        check=True,
    )
    failed, stays = done.stdout.splitlines()
    assert failed.startswith("musadoctor-fleet dryrun gpu1 failed no-musadoctor ")
    assert stays == "stays 86400"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            {"refuses": {"get nodes": "Unable to connect to the server: connection refused"}},
            "kubectl get nodes: Unable to connect to the server: connection refused",
        ),
        ({"rubbish": {"get nodes": "<html>"}}, "kubectl get nodes: no list of items came"),
        ({"rubbish": {"get nodes": '{"items": 3}'}}, "kubectl get nodes: no list of items came"),
        (
            {"rubbish": {"get nodes": '{"items": []}'}},
            "no node is there; see: kubectl get nodes --show-labels",
        ),
        (
            {"rubbish": {"get nodes": '{"items": [{"metadata": {"name": "a b"}}]}'}},
            '"a b" is no name of a node',
        ),
    ],
)
def test_a_cluster_that_does_not_answer_is_one_sentence(
    cluster: Cluster, more: dict[str, Any], sentence: str
) -> None:
    cluster.of({}, **more)
    with pytest.raises(EngineError) as raised:
        carried()
    assert str(raised.value) == sentence


def test_labels_that_no_node_has_are_named(cluster: Cluster) -> None:
    cluster.of({})
    with pytest.raises(EngineError, match='no node has the labels "card=s5000"; see: kubectl get'):
        Kubernetes(IMAGE, selector="card=s5000").hosts()


def test_a_cluster_that_hangs_is_given_up(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "CALL_SECONDS", 0.1)
    monkeypatch.setattr(kubernetes, "OVER_SECONDS", 0.1)
    cluster.of({"gpu1": {}}, hangs=["get nodes"])
    with pytest.raises(EngineError, match="kubectl get nodes: "):
        carried()


def test_what_may_not_be_applied_is_said_and_nothing_stays(cluster: Cluster) -> None:
    file = "daemonsets.apps is forbidden: user cannot create"
    cluster.of({"gpu1": {}}, refuses={"apply -f": file})
    with pytest.raises(EngineError, match=f"kubectl cannot apply the pods: {file}$"):
        carried()
    assert cluster.asked[-1].startswith("delete daemonset")


def test_where_nothing_works_it_is_said_what_may_have_stayed(cluster: Cluster) -> None:
    refuses = {"apply -f": "timed out", "delete daemonset": "connection refused"}
    cluster.of({"gpu1": {}}, refuses=refuses)
    with pytest.raises(EngineError) as raised:
        carried()
    assert str(raised.value).startswith(
        "kubectl cannot apply the pods: timed out; its pods could not be taken away "
        "(connection refused); type: kubectl delete daemonset musadoctor-"
    )


def test_pods_that_cannot_be_taken_away_are_named_and_no_answer_is_lost(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.of({"gpu1": {}}, refuses={"delete daemonset": "not\x1b[2J now"})
    told = carried(Kubernetes(IMAGE, "gpu-ops", options=("--context", "train 2")))
    assert told["gpu1"].report == REPORT
    name = json.loads((cluster.folder / "applied.json").read_text())["metadata"]["name"]
    assert capsys.readouterr().err == (
        "\nmusadoctor: its pods could not be taken away (not now); type: kubectl "
        f"--namespace gpu-ops --context 'train 2' delete daemonset {name}\n"
    )


def test_an_interrupt_takes_the_pods_away(cluster: Cluster) -> None:
    cluster.of({"gpu1": {}, "gpu2": {"log": ""}})
    cancelled, told = threading.Event(), list[Answer]()

    def arrived(answer: Answer) -> None:
        told.append(answer)
        cancelled.set()

    Kubernetes(IMAGE).carry(ERRAND, arrived, cancelled)
    assert [answer.host for answer in told] == ["gpu1"]
    assert not cluster.left


def test_an_interrupt_before_anything_is_applied(cluster: Cluster) -> None:
    cluster.of({"gpu1": {}})
    cancelled = threading.Event()
    cancelled.set()
    assert carried(cancelled=cancelled) == {}
    assert not cluster.left


def test_an_interrupt_while_it_is_applied(cluster: Cluster) -> None:
    """The cluster may have taken it: it is deleted all the same."""
    cluster.of({"gpu1": {}}, hangs=["apply -f"])
    cancelled = threading.Event()
    carrying = threading.Thread(target=carried, kwargs={"cancelled": cancelled})
    carrying.start()
    while "apply -f" not in (cluster.asked or [""])[-1]:
        assert carrying.is_alive()
    cancelled.set()
    carrying.join()
    assert cluster.asked[-1].startswith("delete daemonset")


def test_an_interrupt_while_a_log_hangs(cluster: Cluster) -> None:
    cluster.of({"gpu1": {}}, hangs=["logs pod"])
    cancelled, told = threading.Event(), list[Answer]()
    carrying = threading.Thread(
        target=Kubernetes(IMAGE).carry, args=(ERRAND, told.append, cancelled)
    )
    carrying.start()
    while "logs pod" not in (cluster.asked or [""])[-1]:
        assert carrying.is_alive()
    cancelled.set()
    carrying.join(LAST_WORDS)
    assert not carrying.is_alive()
    assert (told, cluster.left) == ([], False)


def test_no_nodes_are_not_all_nodes(cluster: Cluster) -> None:
    cluster.of({"gpu1": {}})
    assert carried(Kubernetes(IMAGE).only(())) == {}
    assert not cluster.left


def test_pods_of_which_nothing_is_known_for_a_while(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "PLACE_SECONDS", 0.1)
    cluster.of({"gpu1": {}}, rubbish={"get pods": "an error page"})
    told = carried(errand=ERRAND._replace(seconds=0.1))
    assert told["gpu1"] == Answer(
        "gpu1", None, TIMED_OUT, "no answer in 0.2 s: kubectl get pods: no list of items came"
    )


def test_no_kubectl_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineError, match="kubectl is not installed here"):
        Kubernetes(IMAGE).hosts()


def test_what_cannot_be_done_in_pods_is_said() -> None:
    with pytest.raises(EngineError, match="an image holds musadoctor already"):
        Kubernetes(IMAGE).manifest_text(ERRAND._replace(zipapp=b"PK"))
    with pytest.raises(EngineError, match="cannot find each other"):
        Kubernetes(IMAGE).address("gpu1")
    with pytest.raises(EngineError, match='"gpu": expected NAME=N, as in '):
        Kubernetes(IMAGE, resource="gpu").manifest_text(ERRAND)


MANIFESTS: Sequence[Kubernetes] = (
    Kubernetes(IMAGE),
    Kubernetes(IMAGE, "gpu-ops", resource=""),
    Kubernetes(IMAGE).only(("gpu1", "gpu2")),
)


@pytest.mark.parametrize("engine", MANIFESTS)
@pytest.mark.parametrize("version", ["1.25", "1.30", "1.34", "1.37"])
def test_the_manifest_is_one_to_kubernetes(engine: Kubernetes, version: str) -> None:
    kubernetes_validate.validate(yaml.safe_load(engine.manifest_text(ERRAND)), version, strict=True)


def test_labels_say_to_which_nodes_the_manifest_is_bound(cluster: Cluster) -> None:
    cluster.of({"gpu1": {}, "gpu2": {}})
    made = yaml.safe_load(Kubernetes(IMAGE, selector="card=s5000").manifest_text(ERRAND))
    pod = made["spec"]["template"]["spec"]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    names = [term["matchFields"][0]["values"] for term in terms["nodeSelectorTerms"]]
    assert names == [["gpu1"], ["gpu2"]]


def test_a_pod_asks_for_no_more_than_a_card() -> None:
    manifest = yaml.safe_load(Kubernetes(IMAGE).only(("gpu1",)).manifest_text(ERRAND))
    pod = manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"] == {"limits": {"mthreads.com/gpu": "1"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostPID", "hostNetwork", "hostIPC", "serviceAccountName"} & set(pod)
    (volume,) = pod["volumes"]
    assert volume == {"name": "tmp", "emptyDir": {}}
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["gpu1"]


def test_some_of_the_nodes_are_not_asked_for_again() -> None:
    engine = Kubernetes(IMAGE).only(("gpu1",))
    assert (engine.name, engine.hosts()) == ("kubernetes", ("gpu1",))
