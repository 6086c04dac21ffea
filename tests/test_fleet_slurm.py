"""Errands by Slurm: to four real nodes that are lost in every way, and what is made of it."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from slurm_nodes import SlurmNodes

from musadoctor.fleet.answer import (
    DAMAGED,
    NO_MUSADOCTOR,
    NOT_PLACED,
    TIMED_OUT,
    UNREACHABLE,
    Answer,
)
from musadoctor.fleet.carry import slurm, slurm_site, slurm_steps
from musadoctor.fleet.carry.bring import zipapp
from musadoctor.fleet.carry.errand import EngineError, Errand
from musadoctor.fleet.carry.slurm import Slurm

REPORT = '{\n"verdict": "healthy"\n}'
SAYS_REPORT = f"printf '%s\\n' '{REPORT}'"
JSON = Errand(("--json", "--timeout", "30"), 50)
HANGS = "exec sleep 1000"
LOST = "Communication connection failure"


class Fleet:
    """An engine, and what it told."""

    def __init__(self, nodes: SlurmNodes) -> None:
        self.nodes = nodes
        self.told: list[Answer] = []
        self.cancelled = threading.Event()
        self.heard: Callable[[], None] = lambda: None

    def carry(self, errand: Errand = JSON, **settings: Any) -> dict[str, Answer]:
        """All that was told, each node once."""

        def arrived(answer: Answer) -> None:
            self.told.append(answer)
            self.heard()

        Slurm(**settings).carry(errand, arrived, self.cancelled)
        by_node = {answer.host: answer for answer in self.told}
        assert len(by_node) == len(self.told)
        return by_node

    def stub(self, script: str = SAYS_REPORT, *nodes: str) -> None:
        """Let musadoctor on these nodes, or on all, be this."""
        for node in nodes or self.nodes.names:
            self.nodes.program(node, "musadoctor", script)

    def stub_telling(self, variable: str) -> None:
        """Let musadoctor on all nodes tell a variable of its environment."""
        self.stub(f'printf \'{{\\n"said": "%s"\\n}}\\n\' "${variable}"')

    def idle(self, node: str) -> bool:
        """Whether nothing of ours runs there."""
        return not self.nodes.running(node)

    def beside(self, **more: Any) -> threading.Thread:
        """Carry in a thread."""
        thread = threading.Thread(target=self.carry, kwargs=more)
        thread.start()
        return thread

    def allocate(self, *options: str) -> str:
        """The number of a new allocation."""
        self.nodes.slurm("salloc", "--no-shell", "--job-name=theirs", *options)
        return self.nodes.slurm("squeue", "-h", "--name=theirs", "-o", "%A").strip()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def said(told: dict[str, Answer]) -> dict[str, str]:
    return {node: json.loads(answer.report or "{}").get("said") for node, answer in told.items()}


def reasons(told: dict[str, Answer]) -> dict[str, tuple[str, str]]:
    """Of those without a report."""
    return {node: (a.kind, a.reason) for node, a in told.items() if a.report is None}


@pytest.fixture
def fleet(slurm_nodes: SlurmNodes, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setenv("PATH", slurm_nodes.path)
    return Fleet(slurm_nodes)


def test_every_node_reports_what_it_is(fleet: Fleet) -> None:
    fleet.nodes.record("n3", "s5000-4.3.5")
    assert (Slurm().name, Slurm().hosts()) == ("slurm", ("n1", "n2", "n3", "n4"))
    told = fleet.carry(JSON._replace(arguments=("--json",)))
    reports = {node: json.loads(answer.report or "") for node, answer in told.items()}
    kinds = {node: report["vantage"]["kind"] for node, report in reports.items()}
    assert kinds.pop("n3") == "recording"
    assert len(kinds) == 3
    assert kinds.keys() & {"recording"} == set()
    assert fleet.nodes.jobs() == []


def test_what_is_brought_needs_nothing_but_python(fleet: Fleet) -> None:
    for node in fleet.nodes.names:
        fleet.nodes.remove(node, "musadoctor")
    told = fleet.carry(JSON._replace(zipapp=zipapp()))
    assert sorted(told) == ["n1", "n2", "n3", "n4"]
    assert all(json.loads(answer.report or "")["musadoctor"] for answer in told.values())


def test_a_node_without_musadoctor_says_so(fleet: Fleet) -> None:
    fleet.stub()
    fleet.nodes.remove("n2", "musadoctor")
    told = fleet.carry()
    assert told["n2"].kind == NO_MUSADOCTOR
    assert told["n1"].report == REPORT


def test_long_answers_of_all_nodes_at_once_are_not_mixed_up(fleet: Fleet) -> None:
    fleet.stub(
        'echo "{"; head -c 3000000 /dev/urandom | base64 -w 0 | sed "s/.*/\\"said\\": \\"&\\"/"; '
        'echo; echo "}"'
    )
    told = fleet.carry()
    assert reasons(told) == {}
    assert {len(text) for text in said(told).values()} == {4_000_000}


def test_the_nodes_are_those_of_a_list_a_partition_or_the_default_one(fleet: Fleet) -> None:
    fleet.stub_telling("SLURM_JOB_PARTITION")
    assert said(fleet.carry(nodelist="n[2,4]")) == {"n2": "main", "n4": "main"}
    fleet.told.clear()
    assert said(fleet.carry(partition="odd")) == {"n1": "odd", "n3": "odd"}
    fleet.told.clear()
    assert said(fleet.carry(partition="odd", nodelist="n3")) == {"n3": "odd"}
    (only,) = Slurm(partition="odd").only(["n1"]).hosts()
    assert Slurm().address(only) == "n1"


def test_what_a_report_is_to_have_is_asked_of_slurm(fleet: Fleet) -> None:
    fleet.stub_telling("SLURM_GPUS_ON_NODE")
    assert set(said(fleet.carry(gres="gpu:s5000:3")).values()) == {"3"}
    fleet.told.clear()
    fleet.stub_telling("SLURM_CPUS_ON_NODE")
    assert set(said(fleet.carry(options=("--exclusive",))).values()) == {"2"}


def test_each_node_gets_its_own_variables(fleet: Fleet) -> None:
    fleet.stub_telling("RANK")
    variables = {"n1": {"RANK": "0"}, "n2": {"RANK": "1"}}
    told = fleet.carry(JSON._replace(variables=variables), nodelist="n[1-3]")
    assert said(told) == {"n1": "0", "n2": "1", "n3": ""}


# Nodes that are lost


def test_what_slurm_knows_to_be_lost_is_told_at_once(fleet: Fleet) -> None:
    fleet.stub()
    fleet.nodes.drain("n1", "broken: driver-not-loaded")
    fleet.nodes.slurm("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=fan\x1b[2J")
    told = fleet.carry()
    assert reasons(told) == {
        "n1": (NOT_PLACED, "Slurm has it drained: broken: driver-not-loaded"),
        "n2": (NOT_PLACED, "Slurm has it down: fan\ufffd[2J"),
    }
    assert {fleet.told[0].host, fleet.told[1].host} == {"n1", "n2"}
    fleet.told.clear()
    assert list(fleet.carry(nodelist="n[1-2]")) == ["n1", "n2"]


@pytest.mark.parametrize("bring", [False, True])
def test_a_node_that_is_cut_off_does_not_stop_the_others(fleet: Fleet, *, bring: bool) -> None:
    fleet.stub()
    fleet.nodes.cut("n2")
    told = fleet.carry(JSON._replace(zipapp=zipapp() if bring else None))
    assert reasons(told) == {"n2": (UNREACHABLE, f"Slurm cannot start anything on it: {LOST}")}
    assert len(told) == 4


def test_a_slurmd_that_is_dead_does_not_stop_the_others(fleet: Fleet) -> None:
    fleet.stub()
    fleet.nodes.kill_slurmd("n1")
    fleet.nodes.kill_slurmd("n3")
    told = fleet.carry()
    lost = (UNREACHABLE, f"Slurm cannot start anything on it: {LOST}")
    assert reasons(told) == {"n1": lost, "n3": lost}
    assert len(told) == 4


def test_where_slurm_is_slow_to_name_the_lost_node_it_is_not_waited_for(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_steps, "CALL_SECONDS", 1.0)
    fleet.stub()
    fleet.nodes.cut("n4")
    told = fleet.carry(JSON._replace(seconds=30))
    reason = "nothing that Slurm was to start on it began in 1 s"
    assert reasons(told) == {"n4": (UNREACHABLE, reason)}
    assert len(told) == 4


def test_a_node_that_is_lost_after_the_roll_call_does_not_stop_the_others(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.stub()
    # The real srun, which finds that the node was lost in between.
    cut = fleet.nodes.lab.command(["ip", "link", "set", "s2", "down"])
    srun = tmp_path / "srun"
    srun.write_text(
        f"#!/bin/sh\nif mkdir {tmp_path}/called; then :; else {' '.join(cut)}; fi\n"
        f'exec {fleet.nodes.folder}/client/srun "$@"\n'
    )
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{fleet.nodes.path}")
    told = fleet.carry()
    assert reasons(told) == {"n2": (UNREACHABLE, f"Slurm lost it: {LOST}")}
    assert len(told) == 4


def test_a_node_that_is_cut_off_while_it_works_costs_the_limit(fleet: Fleet) -> None:
    fleet.stub()
    fleet.stub(HANGS, "n2")
    thread = fleet.beside(errand=JSON._replace(seconds=6))
    until(lambda: "sleep 1000" in fleet.nodes.running("n2") and len(fleet.told) == 3)
    fleet.nodes.cut("n2")
    thread.join()
    assert fleet.told[-1] == Answer("n2", None, TIMED_OUT, "no answer in 6 s")


def test_a_node_that_hangs_is_given_up_and_nothing_is_left_on_it(fleet: Fleet) -> None:
    fleet.stub()
    fleet.stub(HANGS, "n3")
    told = fleet.carry(JSON._replace(seconds=3))
    assert reasons(told) == {"n3": (TIMED_OUT, "no answer in 3 s")}
    until(lambda: fleet.idle("n3"))
    until(lambda: fleet.nodes.jobs() == [])


def test_a_tool_that_hangs_costs_its_node_its_limit_and_no_more(fleet: Fleet) -> None:
    fleet.nodes.hang("n1", "mthreads-gmi")
    errand = JSON._replace(arguments=("--json", "--timeout", "2"))
    told = fleet.carry(errand, nodelist="n1")
    assert '"verdict"' in (told["n1"].report or "")
    until(lambda: fleet.idle("n1"))


def test_a_task_that_is_killed_is_tried_again_and_then_told_of(fleet: Fleet) -> None:
    fleet.stub()
    fleet.stub("echo try >>/run/node/own/tries; kill -9 0", "n4")
    told = fleet.carry()
    assert told["n4"].kind == DAMAGED
    assert told["n4"].reason.startswith("it ended without an answer")
    assert len(told) == 4
    assert fleet.nodes.on("n4", "cat", "/run/node/own/tries").split() == ["try"] * 3


def test_nodes_of_which_others_have_all_are_told_with_who_has_them(fleet: Fleet) -> None:
    fleet.stub()
    fleet.nodes.slurm(
        "sbatch", "--output=/dev/null", "-w", "n[2-3]", "--exclusive", "--wrap", "sleep 1000"
    )
    until(lambda: "sleep 1000" in fleet.nodes.running("n2"))
    job = fleet.nodes.slurm("squeue", "-h", "-o", "%A").strip()
    told = fleet.carry()
    busy = (NOT_PLACED, f"Slurm gives nothing of it now: it has job {job}")
    assert reasons(told) == {"n2": busy, "n3": busy}
    assert len(told) == 4


def test_where_all_are_busy_an_allocation_is_not_waited_for(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "FREE_SECONDS", 2)
    fleet.nodes.slurm("sbatch", "--output=/dev/null", "-N4", "--exclusive", "--wrap", "sleep 1000")
    until(lambda: "sleep 1000" in fleet.nodes.running("n1"))
    told = fleet.carry()
    assert {answer.kind for answer in told.values()} == {NOT_PLACED}
    assert "Unable to allocate resources: " in told["n1"].reason
    assert fleet.nodes.jobs() == ["wrap"]


# In an allocation


def test_in_an_allocation_its_nodes_are_asked_beside_what_runs_there(fleet: Fleet) -> None:
    job = fleet.allocate("-N2", "-w", "n[2-3]", "--exclusive", "--gres=gpu:8")
    fleet.stub_telling("SLURM_JOB_ID")
    fleet.nodes.drain("n2", "after this job")
    other = fleet.nodes.lab.start(
        *("srun", f"--jobid={job}", "-N2", "-n4", "--gres=gpu:8", "sleep", "1000")
    )
    until(lambda: "sleep 1000" in " ".join(fleet.nodes.running("n3")))
    assert Slurm(job=job).hosts() == ("n2", "n3")
    assert said(fleet.carry(job=job)) == {"n2": job, "n3": job}
    fleet.told.clear()
    assert said(fleet.carry(job=job, nodelist="n3", gres="gpu:1")) == {"n3": job}
    assert other.poll() is None
    assert fleet.nodes.jobs() == ["theirs"]
    fleet.nodes.slurm("scancel", job)
    other.wait()


def test_in_an_allocation_a_node_that_is_lost_does_not_stop_the_others(fleet: Fleet) -> None:
    job = fleet.allocate("-N3", "-w", "n[1-3]", "--no-kill")
    fleet.stub()
    fleet.nodes.cut("n2")
    told = fleet.carry(job=job)
    assert reasons(told) == {"n2": (UNREACHABLE, f"Slurm cannot start anything on it: {LOST}")}
    fleet.told.clear()
    fleet.nodes.slurm("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=lost")
    told = fleet.carry(job=job, allocated="n[1-3]")
    assert reasons(told) == {"n2": (NOT_PLACED, f"job {job} does not have it")}
    assert len(told) == 3


def test_where_all_are_lost_there_is_nothing_to_ask(fleet: Fleet) -> None:
    for node in fleet.nodes.names:
        fleet.nodes.drain(node, "maintenance")
    assert {answer.kind for answer in fleet.carry().values()} == {NOT_PLACED}


def test_an_interruption_ends_the_step_and_leaves_the_allocation(fleet: Fleet) -> None:
    job = fleet.allocate("-N4")
    fleet.stub()
    fleet.stub(f"trap '' TERM; {HANGS}", "n1", "n2")
    thread = fleet.beside(job=job)
    until(lambda: len(fleet.told) == 2 and not fleet.idle("n1"))
    begun = time.monotonic()
    fleet.cancelled.set()
    thread.join()
    assert time.monotonic() - begun < 8
    assert {answer.host for answer in fleet.told} == {"n3", "n4"}
    until(lambda: fleet.idle("n1") and fleet.idle("n2"))
    until(lambda: fleet.nodes.slurm("squeue", "-h", "--steps", "-o", "%j") == "")
    assert fleet.nodes.jobs() == ["theirs"]


# Interruptions


@pytest.mark.parametrize("bring", [False, True])
def test_an_interruption_ends_everything_everywhere(fleet: Fleet, *, bring: bool) -> None:
    fleet.stub()
    starts_nothing = f'case "$*" in *version_info*) exit 0 ;; esac; {HANGS}'
    for node in ("n1", "n2"):
        fleet.nodes.program(node, "python3" if bring else "musadoctor", starts_nothing)
    thread = fleet.beside(errand=JSON._replace(zipapp=zipapp() if bring else None))
    until(lambda: all("sleep 1000" in fleet.nodes.running(node) for node in ("n1", "n2")))
    until(lambda: len(fleet.told) == 2)
    begun = time.monotonic()
    fleet.cancelled.set()
    thread.join()
    assert time.monotonic() - begun < 3
    assert {answer.host for answer in fleet.told} == {"n3", "n4"}
    until(lambda: all(map(fleet.idle, fleet.nodes.names)))
    until(lambda: fleet.nodes.jobs() == [])


def test_an_interruption_ends_the_wait_for_nodes(fleet: Fleet) -> None:
    fleet.nodes.slurm("sbatch", "--output=/dev/null", "-N4", "--exclusive", "--wrap", "sleep 1000")
    until(lambda: "sleep 1000" in fleet.nodes.running("n1"))
    thread = fleet.beside()
    until(lambda: len(fleet.nodes.jobs()) == 2)
    fleet.cancelled.set()
    thread.join()
    assert fleet.told == []
    until(lambda: fleet.nodes.jobs() == ["wrap"])


def test_an_interruption_ends_a_roll_call(fleet: Fleet) -> None:
    fleet.nodes.cut("n1")
    thread = fleet.beside()
    until(lambda: fleet.nodes.slurm("squeue", "-h", "--steps", "-o", "%j"))
    fleet.cancelled.set()
    thread.join()
    assert fleet.told == []


# What cannot be carried at all


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"partition": "nowhere"}, "Slurm shows no node in partition nowhere; see: sinfo"),
        ({"nodelist": "n[3-6]"}, "not in Slurm's partition main: n[5-6]; see: sinfo --Node"),
        ({"nodelist": "n[3-"}, "'n[3-' is no set of hosts: "),
        (
            {"gres": "tpu:1"},
            "Slurm gives us no nodes: Invalid generic resource (gres) specification",
        ),
        ({"gres": "gpu:9"}, "Slurm gives us no nodes: Job submit/allocate failed: Requested node "),
        ({"options": ("--nothing",)}, "Slurm gives us no nodes: unrecognized option '--nothing'; "),
        ({"job": "4711"}, "squeue failed: "),
        ({"job": "1", "partition": "odd"}, "job 1 has its nodes: leave --partition out, or unset "),
    ],
)
def test_what_slurm_refuses_is_told_in_its_words(
    fleet: Fleet, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(EngineError) as raised:
        fleet.carry(**settings)
    assert str(raised.value).startswith(sentence)
    assert fleet.nodes.jobs() == []


def test_what_slurm_refuses_in_an_allocation_is_told_in_its_words(fleet: Fleet) -> None:
    job = fleet.allocate("-N2", "-w", "n[1-2]")
    with pytest.raises(EngineError) as raised:
        fleet.carry(job=job, gres="gpu:9")
    assert str(raised.value).startswith(f"Slurm starts nothing in job {job}: ")
    assert "Invalid generic resource (gres) specification" in str(raised.value)


# Without Slurm: commands that say what a site might make them say.


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Let one of Slurm's commands be a shell script; the others do nothing."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def write(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    for name in ("sinfo", "squeue", "salloc", "srun", "scancel"):
        write(name, "")
    return write


def test_without_slurm_one_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sentence = "{} is not on PATH: --via slurm needs Slurm's own commands here"
    with pytest.raises(EngineError) as raised:
        Slurm().hosts()
    assert str(raised.value) == sentence.format("sinfo")
    with pytest.raises(EngineError) as raised:
        Slurm().carry(JSON, lambda _: None, threading.Event())
    assert str(raised.value) == sentence.format("salloc")


def test_a_controller_that_does_not_answer_is_given_up(
    commands: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands("sinfo", HANGS)
    monkeypatch.setattr(slurm_site, "ANSWER_SECONDS", 0.2)
    with pytest.raises(EngineError) as raised:
        Slurm().hosts()
    assert str(raised.value) == "sinfo failed: no answer in 0.2 s, killed"


def test_a_site_without_a_default_partition_needs_one_to_be_named(
    commands: Callable[[str, str], None],
) -> None:
    commands("sinfo", "echo 'gpu|g1|idle|none'; echo '|'; echo 'gpu|g 2|idle|none'")
    with pytest.raises(EngineError) as raised:
        Slurm().hosts()
    assert str(raised.value).startswith("Slurm has no default partition; name one: --partition ")
    assert Slurm(partition="gpu").hosts() == ("g1",)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("7|", "job 7 has no nodes; see: squeue --jobs=7"),
        ("rubbish", "squeue printed what is no list of jobs: rubbish"),
        ("7|[", "squeue printed what is no list of jobs: 7|["),
    ],
)
def test_a_job_that_cannot_be_made_out_is_told(
    commands: Callable[[str, str], None], rows: str, sentence: str
) -> None:
    commands("squeue", f"echo '{rows}'")
    with pytest.raises(EngineError) as raised:
        Slurm(job="7").hosts()
    assert str(raised.value) == sentence


GIVES_JOB = """\
case "$*" in
  *--steps*) echo "7.0|theirs"; echo "7.1|$(cat "${0%/*}/name")" ;;
  *) echo "7|g[1-2]" ;;
esac
"""
RUNS_HERE = """\
for last; do :; done
case $last in *"dd bs="*) SLURMD_NODENAME=g3 exec sh -c "$last" ;; esac
SLURMD_NODENAME=g1 sh -c "$last"
echo "srun: error: no more pens" >&2
exit 1
"""


def test_a_node_is_told_as_itself_or_not_at_all(
    commands: Callable[[str, str], None],
) -> None:
    commands("sinfo", "echo 'gpu*|g1|idle|none'; echo 'gpu*|g2|idle|none'")
    commands("squeue", GIVES_JOB)
    commands("srun", RUNS_HERE)
    commands("musadoctor", SAYS_REPORT)
    told: list[Answer] = []
    Slurm().carry(JSON, told.append, threading.Event())
    assert told == [
        Answer(
            "g2", None, UNREACHABLE, "nothing that Slurm was to start on it began: no more pens"
        ),
        Answer("g1", None, DAMAGED, "it ended without an answer"),
    ]


def test_steps_that_outlive_srun_are_ended_and_no_others(
    commands: Callable[[str, str], None], tmp_path: Path
) -> None:
    commands("squeue", GIVES_JOB)
    name = (
        f'for word; do case $word in --job-name=*) echo "${{word#*=}}" >{tmp_path}/name; esac; done'
    )
    commands("srun", f"{name}; {HANGS}")
    commands("scancel", f'echo "$*" >{tmp_path}/ended')
    cancelled = threading.Event()
    carrying = threading.Thread(target=Slurm(job="7").carry, args=(JSON, print, cancelled))
    carrying.start()
    until((tmp_path / "name").exists)
    cancelled.set()
    carrying.join()
    assert (tmp_path / "ended").read_text() == "--quiet 7.1\n"


def test_why_a_node_is_not_given_is_said_as_far_as_slurm_says_it(
    commands: Callable[[str, str], None],
) -> None:
    commands("sinfo", "echo 'gpu*|g1|idle|none'")
    told: list[Answer] = []
    Slurm().carry(JSON, told.append, threading.Event())
    reason = "Slurm gives nothing of it now"
    assert told == [Answer("g1", None, NOT_PLACED, reason)]


@pytest.mark.parametrize(
    "state",
    [
        "down",
        "down*",
        "idle*",
        "idle~",
        "powered_down",
        "mixed%",
        "drained",
        "draining",
        "fail",
        "reboot^",
    ],
)
def test_states_in_which_a_node_takes_nothing_new(state: str) -> None:
    node = slurm_site.Node(state, "none")
    assert node.unusable(in_job=False) == f"Slurm has it {state}"


@pytest.mark.parametrize("state", ["idle", "mixed", "allocated", "completing", "planned", "maint$"])
def test_states_in_which_slurm_is_asked(state: str) -> None:
    assert slurm_site.Node(state, "none").unusable(in_job=False) == ""
