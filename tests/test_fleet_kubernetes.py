"""Errands by a real kubectl, to a stand-in for the cluster: a real one was not to be had."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml
from cluster_stand_in import Cluster, Node, says

from musadoctor.fleet.answer import (
    DAMAGED,
    NO_MUSADOCTOR,
    NOT_PLACED,
    TIMED_OUT,
    TOO_LARGE,
    UNREACHABLE,
    Answer,
)
from musadoctor.fleet.carry import frames, kubectl, kubernetes, kubernetes_watch
from musadoctor.fleet.carry.errand import EngineError, Errand
from musadoctor.fleet.carry.kubernetes import Kubernetes
from musadoctor.fleet.carry.kubernetes_state import state

REPORT = '{\n"verdict": "healthy"\n}'
ERRAND = Errand(("--json", "--timeout", "30"), 50)
IMAGE = "site/musadoctor:1"
WELL = says(REPORT)
HANGS = "exec sleep 1000"


class Fleet:
    """A cluster, and what came of asking it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.told: list[Answer] = []
        self.cancelled = threading.Event()
        self.heard: Callable[[], None] = lambda: None

    def of(self, **nodes: Node) -> "Fleet":
        self.cluster.nodes = nodes
        return self

    def engine(self, **settings: Any) -> Kubernetes:
        return Kubernetes(IMAGE, options=("--server", self.cluster.url), **settings)

    def carry(self, errand: Errand = ERRAND, **settings: Any) -> dict[str, Answer]:
        """All that was told, each node once; nothing stays behind."""

        def arrived(answer: Answer) -> None:
            self.told.append(answer)
            self.heard()

        self.engine(**settings).carry(errand, arrived, self.cancelled)
        by_node = {answer.host: answer for answer in self.told}
        assert len(by_node) == len(self.told)
        assert self.cluster.jobs == {}
        assert self.cluster.running == []
        return by_node


@pytest.fixture
def fleet(kubectl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(kubectl)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(kubernetes_watch, "POLL_SECONDS", 0.05)
    cluster = Cluster(tmp_path)
    yield Fleet(cluster)
    cluster.close()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def reasons(told: Mapping[str, Answer]) -> dict[str, tuple[str, str]]:
    """Of those without a report."""
    return {node: (a.kind, a.reason) for node, a in told.items() if a.report is None}


def status(phase: str, **state: Any) -> dict[str, Any]:
    other = {"name": "a-mesh", "state": {"running": {}}}
    return {"phase": phase, "containerStatuses": [other, {"name": "musadoctor", "state": state}]}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return status("Pending", waiting={"reason": reason, "message": message})


def ended(code: int, reason: str, message: str = "") -> dict[str, Any]:
    return status("Running", terminated={"exitCode": code, "reason": reason, "message": message})


def test_the_pod_of_each_node_reports(fleet: Fleet) -> None:
    told = fleet.of(gpu1=Node(WELL), gpu2=Node(WELL)).carry()
    assert {node: answer.report for node, answer in told.items()} == {
        "gpu1": REPORT,
        "gpu2": REPORT,
    }
    assert len(fleet.cluster.made) == 2


def test_a_long_report_comes_whole(fleet: Fleet) -> None:
    script = 'echo "{"; head -c 900000 /dev/urandom | base64 | sed "s/.*/\\"&\\":0,/"; echo "}"'
    (answer,) = fleet.of(gpu1=Node(script)).carry().values()
    assert answer.report
    assert len(answer.report) > 1_200_000


def test_a_node_that_is_slow_does_not_delay_what_the_others_tell(fleet: Fleet) -> None:
    go = fleet.cluster.folder / "go"
    fleet.of(gpu1=Node(f"until [ -e {go} ]; do sleep 0.05; done; {WELL}"), gpu2=Node(WELL))
    fleet.heard = go.touch
    assert list(fleet.carry()) == ["gpu2", "gpu1"]


def test_without_a_selector_the_nodes_are_those_that_have_cards_or_had_them(fleet: Fleet) -> None:
    none = {"cpu": "96"}
    fleet.of(gpu1=Node(), lost=Node(capacity={"mthreads.com/gpu": "0"}), cpu=Node(capacity=none))
    assert fleet.engine().hosts() == ("gpu1", "lost")
    assert fleet.engine(resource="").hosts() == ("gpu1", "lost", "cpu")
    with pytest.raises(EngineError) as raised:
        fleet.engine(resource="site.example/gpu=1").hosts()
    assert str(raised.value) == (
        'no node tells of "site.example/gpu=1": does the device plugin run? Name another resource '
        "by --resource, or nodes by --selector"
    )


def test_a_selector_names_nodes_whatever_they_have(fleet: Fleet) -> None:
    fleet.of(a=Node(capacity={}, labels={"rack": "r1"}), b=Node(labels={"rack": "r2"}))
    assert fleet.engine(selector="rack=r1").hosts() == ("a",)
    with pytest.raises(EngineError, match='no node has the labels "rack=r3"'):
        fleet.engine(selector="rack=r3").hosts()


def test_some_of_the_nodes_are_told_of_also_those_that_are_not_there(fleet: Fleet) -> None:
    fleet.of(gpu1=Node(WELL), gpu2=Node(WELL))
    told = {}
    engine = fleet.engine().only(("gpu2", "gpu9"))
    engine.carry(ERRAND, lambda answer: told.update({answer.host: answer}), threading.Event())
    assert told["gpu2"].report == REPORT
    assert told["gpu9"] == Answer("gpu9", None, NOT_PLACED, "the cluster has no such node")
    assert set(told) == {"gpu2", "gpu9"}


def test_where_is_handed_to_kubectl(fleet: Fleet) -> None:
    fleet.of(gpu1=Node(WELL)).carry(namespace="gpu-ops")
    pods = [one for one in fleet.cluster.asked if "/pods" in one or "/jobs" in one]
    assert pods
    assert all("/namespaces/gpu-ops/" in one for one in pods)


def test_each_node_gets_its_own_variables(fleet: Fleet) -> None:
    say = 'printf \'{\\n"rank": "%s"\\n}\\n\' "$RANK"'
    variables = {"gpu1": {"RANK": "0"}, "gpu2": {"RANK": "1"}}
    told = fleet.of(gpu1=Node(say), gpu2=Node(say)).carry(ERRAND._replace(variables=variables))
    ranks = {node: json.loads(answer.report or "")["rank"] for node, answer in told.items()}
    assert ranks == {"gpu1": "0", "gpu2": "1"}


# Nodes on which there is no report


def test_what_the_cluster_knows_to_be_lost_is_told_and_not_asked(fleet: Fleet) -> None:
    stopped = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.\x1b[2J",
    }
    told = fleet.of(gpu1=Node(ready=stopped), gpu2=Node(ready={"type": "Other"})).carry()
    why = "Kubernetes has it not ready: NodeStatusUnknown: Kubelet stopped posting node status."
    assert reasons(told) == {
        "gpu1": (NOT_PLACED, f"{why}\ufffd[2J"),
        "gpu2": (NOT_PLACED, "Kubernetes has it not ready"),
    }
    assert fleet.cluster.made == []


def test_why_a_pod_does_not_run_is_told_in_the_words_of_the_cluster(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_watch, "PLACE_SECONDS", 0.5)
    monkeypatch.setattr(kubernetes_watch, "START_SECONDS", 0.5)
    busy = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/6 nodes are available: 1 Insufficient mthreads.com/gpu",
    }
    allocate = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Allocate failed due to no healthy devices present",
    }
    secure = 'violates PodSecurity "restricted:latest"'
    fleet.of(
        busy=Node(pod={"phase": "Pending", "conditions": [busy]}),
        image=Node(pod=waiting("ErrImagePull", "not found\x1b[2J")),
        slow=Node(pod=waiting("ContainerCreating")),
        mute=Node(pod={"phase": "Pending"}),
        plugin=Node(pod=allocate),
        secure=Node(no_pod=secure),
        silent=Node(no_pod=""),
        quota=Node(refusal="exceeded quota"),
        well=Node(WELL),
    )
    told = fleet.carry()
    assert {answer.kind for answer in told.values() if not answer.report} == {NOT_PLACED}
    assert {node: reason for node, (_, reason) in reasons(told).items()} == {
        "busy": f"it has no place for the pod: Unschedulable: {busy['message']}",
        "image": "its container does not start: ErrImagePull: not found\ufffd[2J",
        "slow": "its container did not start in 0.5 s",
        "mute": "its container did not start in 0.5 s",
        "plugin": f"its pod failed: UnexpectedAdmissionError: {allocate['message']}",
        "secure": f"no pod was made for it: {secure}",
        "silent": "no pod was made for it: the cluster does not tell why",
        "quota": "no pod was made for it: Error from server (Forbidden): exceeded quota",
    }


def test_who_may_not_see_events_is_told_without(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_watch, "PLACE_SECONDS", 0.1)
    fleet.cluster.broken = {"/events": (403, "events is forbidden")}
    told = fleet.of(gpu1=Node(no_pod="a secret")).carry()
    assert told["gpu1"].reason == "no pod was made for it: the cluster does not tell why"


def test_what_a_container_says_at_its_end_is_the_reason(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_watch, "READ_SECONDS", 0.3)
    monkeypatch.setattr(frames, "FLOOD", 100 << 20)
    no_shell = 'exec: "sh": executable file not found'
    fleet.of(
        bare=Node(pod=ended(128, "StartError", no_shell)),
        killed=Node(pod=ended(137, "OOMKilled"), log=b"a banner\nlast\x1b[2J words\n"),
        floods=Node(pod=ended(0, "Completed"), log=b"x" * (101 << 20)),
        rubbish=Node("head -c 100000 /dev/urandom | tr -d '{'; exit 3"),
        absent=Node(),
    )
    told = reasons(fleet.carry())
    nothing = f"its container ended with exit code 128: StartError: {no_shell}; it said: nothing"
    assert told["bare"] == (DAMAGED, nothing)
    words = "its container ended with exit code 137: OOMKilled; it said: last\ufffd[2J words"
    assert told["killed"] == (DAMAGED, words)
    assert told["floods"] == (TOO_LARGE, "more than 100 MiB came, and no report")
    assert told["rubbish"][0] == DAMAGED
    assert told["rubbish"][1].startswith("no report, exit code 3: ")
    assert told["absent"] == (
        NO_MUSADOCTOR,
        "musadoctor is not installed there (no musadoctor on PATH); the image has to hold it",
    )


def test_a_log_that_cannot_be_read_is_tried_again_for_a_while(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_watch, "READ_SECONDS", 0.5)
    fleet.of(gpu1=Node(WELL))
    fleet.cluster.broken = {"/log": (500, "dial tcp: i/o timeout")}
    (answer,) = fleet.carry().values()
    assert answer.kind == UNREACHABLE
    assert answer.reason.startswith("its log cannot be read: Error from server")
    assert answer.reason.endswith("dial tcp: i/o timeout")
    assert len([one for one in fleet.cluster.asked if "/log" in one]) > 1


def test_a_node_that_hangs_is_given_up_and_nothing_is_left_on_it(fleet: Fleet) -> None:
    told = fleet.of(gpu1=Node(HANGS), gpu2=Node(WELL)).carry(ERRAND._replace(seconds=1.5))
    assert told["gpu1"] == Answer("gpu1", None, TIMED_OUT, "no answer in 1.5 s")
    assert told["gpu2"].report == REPORT


def test_an_interrupt_leaves_nothing(fleet: Fleet) -> None:
    fleet.of(gpu1=Node(HANGS), gpu2=Node(WELL))
    fleet.heard = fleet.cancelled.set
    assert list(fleet.carry()) == ["gpu2"]


@pytest.mark.parametrize("request_", ["GET .*/nodes", "POST .*/jobs", "GET .*/pods", "/log"])
def test_an_interrupt_while_the_cluster_hangs_is_heard(fleet: Fleet, request_: str) -> None:
    fleet.of(gpu1=Node(WELL))
    fleet.cluster.hangs = request_
    thread = threading.Thread(target=fleet.carry)
    thread.start()
    until(lambda: any(request_.rpartition("/")[2] in one for one in fleet.cluster.asked))
    begun = time.monotonic()
    fleet.cancelled.set()
    thread.join()
    assert time.monotonic() - begun < 8
    assert fleet.told == []


# A cluster that does not answer as it should


def test_a_link_that_comes_back_costs_nothing(fleet: Fleet) -> None:
    go = fleet.cluster.folder / "go"
    fleet.of(gpu1=Node(f"until [ -e {go} ]; do sleep 0.05; done; {WELL}"))
    fleet.cluster.broken = {"GET .*/pods": (500, "etcd leader changed")}
    thread = threading.Thread(target=fleet.carry)
    thread.start()
    until(lambda: len([one for one in fleet.cluster.asked if "/pods" in one]) > 2)
    fleet.cluster.broken = {}
    go.touch()
    thread.join()
    assert [answer.report for answer in fleet.told] == [REPORT]


def test_a_cluster_that_is_lost_on_the_way_is_the_reason(fleet: Fleet) -> None:
    fleet.of(gpu1=Node(WELL), gpu2=Node(WELL))
    fleet.cluster.broken = {"GET .*/pods": (500, "etcd leader changed")}
    told = fleet.carry(ERRAND._replace(seconds=0.5))
    assert {answer.kind for answer in told.values()} == {UNREACHABLE}
    assert told["gpu1"].reason.startswith("kubectl get pods: ")
    assert told["gpu1"].reason.endswith("etcd leader changed")


@pytest.mark.parametrize(
    ("request_", "status", "message", "sentence"),
    [
        ("GET .*/nodes", 403, "nodes is forbidden", "kubectl get nodes: .*nodes is forbidden"),
        ("GET .*/nodes", 200, "<html>", "kubectl get nodes: .+"),
        (
            "POST .*/jobs",
            403,
            "jobs is forbidden",
            "the cluster takes no pods of ours: .*forbidden",
        ),
    ],
)
def test_a_cluster_that_refuses_is_one_sentence(
    fleet: Fleet, request_: str, status: int, message: str, sentence: str
) -> None:
    fleet.of(gpu1=Node(WELL))
    fleet.cluster.broken = {request_: (status, message)}
    with pytest.raises(EngineError, match=sentence) as raised:
        fleet.carry()
    assert "\n" not in str(raised.value)
    assert fleet.cluster.jobs == {}


def test_a_cluster_that_is_not_there_is_one_sentence(fleet: Fleet) -> None:
    engine = Kubernetes(IMAGE, options=("--server", "http://127.0.0.1:1"))
    with pytest.raises(EngineError, match=r"kubectl get nodes: .*refused"):
        engine.hosts()


def test_what_is_removed_too_late_is_removed_by_the_cluster(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "END_SECONDS", 0.5)
    fleet.of(gpu1=Node(WELL))
    fleet.cluster.hangs = "DELETE"
    told: list[Answer] = []
    fleet.engine().carry(ERRAND, told.append, threading.Event())
    assert [answer.report for answer in told] == [REPORT]
    (job,) = fleet.cluster.jobs.values()
    assert job["spec"]["activeDeadlineSeconds"] == 370
    assert job["spec"]["ttlSecondsAfterFinished"] == 120


# A kubectl that prints what it should not


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo '<html>'", "kubectl get nodes: what it prints is no answer"),
        ("echo '[]'", "kubectl get nodes: what it prints is no answer"),
        ("head -c 9000 /dev/zero", "kubectl get nodes: .+"),
        ("echo 'Warning: old' >&2; exit 4", "kubectl get nodes: exit code 4"),
        ("head -c 200000 /dev/zero | tr '\\0' '['", "kubectl get nodes: .+"),
    ],
)
def test_rubbish_is_no_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, sentence: str
) -> None:
    monkeypatch.setattr(kubectl, "LONGEST_LIST", 500_000)
    file = tmp_path / "kubectl"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(EngineError, match=sentence):
        Kubernetes(IMAGE).hosts()


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"status": []},
        {"status": {"containerStatuses": 3, "conditions": ["x", None]}},
        {"status": {"containerStatuses": [{"name": "musadoctor", "state": []}]}},
        {"status": status("Pending", waiting={"reason": 7})},
    ],
)
def test_a_pod_that_is_told_of_in_another_way_is_waited_for(pod: dict[str, Any]) -> None:
    assert state(pod) == ("starting", "")


def test_pods_that_are_not_ours_are_no_answer(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_watch, "PLACE_SECONDS", 0.1)
    other = {
        "metadata": {"labels": {"musadoctor-node": "x"}},
        "status": status("Running", running={}),
    }
    pods = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [other]})
    fleet.of(gpu1=Node(WELL))
    fleet.cluster.broken = {"GET .*/pods": (200, pods)}
    assert reasons(fleet.carry())["gpu1"][0] == NOT_PLACED


def test_an_interrupt_while_pods_are_made_says_nothing_of_those_that_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    items = [{**item, "metadata": {"name": name}} for name in ("gpu1", "gpu2")]
    (tmp_path / "nodes.json").write_text(json.dumps({"items": items}))
    file = tmp_path / "kubectl"
    file.write_text(
        '#!/bin/sh\ncd "${0%/*}"; case $1 in get) cat nodes.json;; delete) touch deleted;; create) '
        "echo job.batch/musadoctor-ab-0; touch creates; exec sleep 1000;; esac\n"
    )
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    cancelled, told = threading.Event(), list[Answer]()
    engine = Kubernetes(IMAGE, resource="")
    thread = threading.Thread(target=engine.carry, args=(ERRAND, told.append, cancelled))
    thread.start()
    until((tmp_path / "creates").exists)
    cancelled.set()
    thread.join()
    assert told == []
    assert (tmp_path / "deleted").exists()


def test_no_kubectl_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineError, match="kubectl is not installed here"):
        Kubernetes(IMAGE).hosts()


# What is asked of a cluster


def manifest(fleet: Fleet, **settings: Any) -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load(fleet.engine(**settings).manifest_text(ERRAND))
    return made


def test_what_is_printed_is_what_is_made(fleet: Fleet) -> None:
    lost = Node(ready={"type": "Ready", "status": "False"})
    fleet.of(gpu1=Node(WELL, labels={"a": "b"}), gpu2=lost, gpu3=Node(WELL))
    printed = manifest(fleet, selector="a=b")
    assert fleet.cluster.made == []
    fleet.carry(selector="a=b")
    (made,) = fleet.cluster.made
    runs = [one["metadata"]["labels"]["musadoctor-run"] for one in (made, *printed["items"])]
    made["metadata"].pop("namespace", None)
    assert [json.loads(json.dumps(made).replace(*runs))] == printed["items"]
    assert len(manifest(fleet)["items"]) == 2


@pytest.mark.parametrize(
    "settings", [{}, {"namespace": "gpu-ops", "resource": ""}, {"resource": "a.b/c=1,a.b/d=8"}]
)
@pytest.mark.parametrize("version", ["1.25", "1.30", "1.37"])
def test_kubernetes_schemas_take_it(fleet: Fleet, version: str, settings: dict[str, Any]) -> None:
    both = {"mthreads.com/gpu": "8", "a.b/c": "8", "a.b/d": "8"}
    made = manifest(fleet.of(gpu1=Node(capacity=both), gpu2=Node(capacity=both)), **settings)
    assert [one["kind"] for one in made["items"]] == ["Job", "Job"]
    for job in made["items"]:
        kubernetes_validate.validate(job, version, strict=True)


def test_a_pod_asks_for_no_more_than_a_card(fleet: Fleet) -> None:
    (job,) = manifest(fleet.of(gpu1=Node()))["items"]
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"]["limits"]["mthreads.com/gpu"] == "1"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostPID", "hostNetwork", "hostIPC", "serviceAccountName"} & set(pod)
    assert [set(volume) for volume in pod["volumes"]] == [{"name", "emptyDir"}]


def test_the_manifest_can_be_read(fleet: Fleet) -> None:
    text = fleet.of(gpu1=Node(), gpu2=Node()).engine().manifest_text(ERRAND)
    assert "&id" not in text
    assert "\n          - |\n" in text, "the script has its lines"


@pytest.mark.parametrize("resource", ["gpu", "=1", "gpu=", "gpu=x", "gpu=1=2", "a=1,b"])
def test_what_is_no_resource_is_refused(resource: str) -> None:
    with pytest.raises(EngineError, match=r"expected NAME=N, as in mthreads\.com/gpu=1"):
        Kubernetes(IMAGE, resource=resource).hosts()


def test_what_cannot_be_done_in_pods_is_said(fleet: Fleet) -> None:
    fleet.of(gpu1=Node())
    with pytest.raises(EngineError, match="the image has to hold musadoctor already"):
        fleet.carry(ERRAND._replace(zipapp=b"PK"))
    assert fleet.cluster.made == []
    with pytest.raises(EngineError, match="cannot find each other"):
        fleet.engine().address("gpu1")
    assert fleet.engine().name == "kubernetes"
