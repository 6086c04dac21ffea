"""``fleet run`` as a user has it: in a process of its own, over real sshd."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ssh_hosts import SshHosts
from test_cli import ENVIRONMENT, Done, musadoctor

COMMAND = [sys.executable, "-m", "musadoctor", "fleet", "run", "--via", "ssh"]


def run(hosts: SshHosts, *arguments: str) -> Done:
    return musadoctor("fleet", "run", "--via", "ssh", *arguments, environment={"PATH": hosts.path})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--via", "ssh"), "name the hosts, as in: musadoctor fleet run --via ssh 'gpu[01-64]'"),
        (("--via", "ssh", "gpu[1-"), "'gpu[1-' is no set of hosts"),
        (("--via", "ssh", "--gres", "gpu:8", "a"), "--gres says nothing to ssh; it is for slurm"),
        (("--via", "slurm", "a"), "HOSTS says nothing to slurm; it is for ansible and mpi and ssh"),
        (("--via", "ssh", "a", "--command", "'"), "--command ': No closing quotation"),
        (("--via", "ssh", "a", "--command", " "), "--command is empty"),
        (("--via", "kubernetes"), "name an image that holds musadoctor: --image"),
        (("--via", "ssh", "a", "--keep", "/nowhere/x"), "cannot write /nowhere/x: No such file"),
        (("--via", "ssh", "a", "--groups", "x.yaml"), "--groups says where groups are"),
    ],
)
def test_wrong_use_is_one_sentence_before_any_host_is_asked(
    arguments: tuple[str, ...], sentence: str
) -> None:
    done = musadoctor("fleet", "run", *arguments, environment={"PATH": "/nowhere"})
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"musadoctor: {sentence}")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "program"),
    [
        (("ssh", "a"), "ssh"),
        (("ansible", "a"), "ansible"),
        (("slurm",), "Slurm"),
        (("mpi", "a"), "mpi"),
        (("kubernetes", "--image", "i"), "kubectl"),
    ],
)
def test_an_engine_that_is_not_there_is_one_sentence(
    arguments: tuple[str, ...], program: str
) -> None:
    done = musadoctor("fleet", "run", "--via", *arguments, environment={"PATH": "/nowhere"})
    assert (done.code, done.out) == (2, "")
    assert program in done.err
    assert done.err.count("\n") == 1


def test_the_report_on_eight_hosts_names_the_odd_one(ssh_hosts: SshHosts, tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl.gz"
    names = "h[1-8]"
    done = run(ssh_hosts, names, "--keep", str(kept), "--json")
    document = json.loads(done.out)
    assert document["counts"]["hosts"] == 8
    assert document["unanswered"] == []
    odd = {
        difference["trait"]: (skew["hosts"], difference["value"])
        for skew in document["skews"]
        if skew["kind"] == "odd"
        for difference in skew["differences"]
    }
    assert odd["kernel driver"] == (["h5"], "3.1.0-server")
    assert done.code == document["exit_code"]
    again = musadoctor("fleet", "report", str(kept), "--json")
    reread = json.loads(again.out)
    assert (reread["skews"], reread["causes"]) == (document["skews"], document["causes"])
    assert again.code == done.code


def test_musadoctor_is_brought_along_where_there_is_no_space_for_it(ssh_hosts: SshHosts) -> None:
    ssh_hosts.remove("h1", "musadoctor")
    ssh_hosts.fill("h1")
    without = json.loads(run(ssh_hosts, "h1", "--json").out)
    assert [one["kind"] for one in without["unanswered"]] == ["no musadoctor"]
    brought = json.loads(run(ssh_hosts, "h1", "--bring", "--json").out)
    assert brought["unanswered"] == []
    assert [host["host"] for host in brought["hosts"]] == ["h1"]


def test_options_of_the_engine_reach_it(ssh_hosts: SshHosts) -> None:
    done = run(ssh_hosts, "h1", "--json", "--", "-oUser=nobody-of-that-name")
    (told,) = json.loads(done.out)["unanswered"]
    assert told["kind"] == "refused"
    assert done.code == 3


def healthy(hosts: SshHosts, *names: str) -> None:
    """Let these hosts say that they are well, and name their verify's rank."""
    report = {
        "schema_version": "1",
        "musadoctor": "0.1",
        "vantage": {"kind": "host", "host": None, "python": None, "note": ""},
        "verdict": "healthy",
        "causes": [],
        "results": [],
        "facts": {},
        "bugs": [],
        "seconds": 0.1,
    }
    text = json.dumps(report, indent=1)
    for name in names:
        hosts.program(name, "musadoctor", f"printf '%s\\n' {shlex.quote(text)}")


def test_the_healthy_hosts_are_printed_for_a_scheduler(ssh_hosts: SshHosts) -> None:
    healthy(ssh_hosts, "h1", "h2", "h3")
    ssh_hosts.refuse("h4")
    many = ("h[1-4]", "--print-healthy", "nodeset", "--min-healthy")
    assert run(ssh_hosts, *many, "3")[:2] == (0, "h[1-3]\n")
    assert run(ssh_hosts, *many, "4")[:2] == (1, "h[1-3]\n")


def test_the_collectives_follow_where_they_are_asked_for(ssh_hosts: SshHosts) -> None:
    healthy(ssh_hosts, "h1", "h2")
    done = run(ssh_hosts, "h[1-2]", "--verify", "--json")
    made = json.loads(done.out)["collectives"]
    assert (made["outcome"], made["nodes"]) == ("passed", "h[1-2]")
    assert done.code == 0
    assert "collectives over 2 of 2 hosts, run 1" in done.err
    alone = run(ssh_hosts, "h1", "--verify")
    assert "collectives need 2 hosts, and 1 passed" in alone.out
    assert alone.code == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_reports_what_has_arrived_and_leaves_nothing(
    ssh_hosts: SshHosts, tmp_path: Path, number: signal.Signals
) -> None:
    healthy(ssh_hosts, "h1")
    ssh_hosts.program("h2", "musadoctor", "exec sleep 1000")
    kept = tmp_path / "kept.jsonl"
    process = subprocess.Popen(
        [*COMMAND, "h[1-2]", "--keep", str(kept)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "PATH": ssh_hosts.path},
    )
    end = time.monotonic() + 40
    while not (kept.exists() and kept.read_text() and ssh_hosts.running("h2")):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted; what has arrived:" in err
    assert "h2: interrupted before it had answered" in out
    assert "2 hosts" in out
    assert [json.loads(line)["host"] for line in kept.read_text().splitlines()] == ["h1", "h2"]
    while ssh_hosts.running("h2"):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_disk_that_is_full_costs_the_file_alone(ssh_hosts: SshHosts) -> None:
    healthy(ssh_hosts, "h1")
    done = run(ssh_hosts, "h1", "--keep", "/dev/full")
    assert "healthy: 1 healthy" in done.out
    assert "cannot write /dev/full: No space left on device" in done.err
    assert done.code == 2


def test_a_zipapp_can_be_had(tmp_path: Path) -> None:
    file = tmp_path / "musadoctor.pyz"
    assert musadoctor("fleet", "zipapp", "-o", str(file)).code == 0
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(file), "--version"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
        check=True,
    )
    assert done.stdout.startswith("musadoctor ")
