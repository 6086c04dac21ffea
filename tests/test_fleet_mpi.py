"""Errands by mpirun: Open MPI's for real, with real sshd; MPICH's command line by a stand-in."""

import json
import shlex
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from ssh_hosts import SshHosts

from musadoctor.fleet.answer import NOT_PLACED, TIMED_OUT, Answer
from musadoctor.fleet.carry.bring import zipapp
from musadoctor.fleet.carry.errand import EngineError, Errand
from musadoctor.fleet.carry.mpi import Mpi

REPORT = '{\n"verdict": "healthy"\n}'
ERRAND = Errand(("--json", "--timeout", "30"), 50)
Carry = Callable[..., dict[str, Answer]]


def carried(
    engine: Mpi, errand: Errand = ERRAND, cancelled: threading.Event | None = None
) -> dict[str, Answer]:
    told: list[Answer] = []
    engine.carry(errand, told.append, cancelled or threading.Event())
    by_host = {answer.host: answer for answer in told}
    assert len(by_host) == len(told)
    return by_host


def program(folder: Path, script: str, name: str = "mpirun") -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.fixture
def open_mpi(ssh_hosts: SshHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SshHosts:
    """``mpirun`` on PATH is Open MPI's, in the lab."""
    inside = [word for word in ssh_hosts.lab.command([]) if not word.startswith("--wd=")]
    agent = ("--allow-run-as-root", "--mca", "plm_rsh_agent", f"ssh -F {ssh_hosts.config}")
    command = shlex.join([*inside, "mpirun.openmpi", *agent])
    program(tmp_path, f'PATH=/usr/sbin:/usr/bin exec {command} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for host in ssh_hosts.names:
        ssh_hosts.program(host, "musadoctor", f"printf '%s\\n' {shlex.quote(REPORT)}")
    return ssh_hosts


def test_one_mpirun_asks_all_hosts(open_mpi: SshHosts) -> None:
    hosts = open_mpi.names[:3]
    told = carried(Mpi(hosts))
    assert {host: told[host].report for host in hosts} == dict.fromkeys(hosts, REPORT)


def test_a_host_that_is_down_takes_no_other_with_it(open_mpi: SshHosts) -> None:
    open_mpi.refuse("h2")
    told = carried(Mpi(("h1", "h2", "h3")))
    assert told["h1"].report == told["h3"].report == REPORT
    assert told["h2"].kind == NOT_PLACED
    assert told["h2"].reason.startswith("mpirun: ")
    assert "Permission denied" in told["h2"].reason


def test_musadoctor_is_brought_to_all_ranks(open_mpi: SshHosts) -> None:
    told = carried(Mpi(("h1", "h2")), ERRAND._replace(zipapp=zipapp()))
    for host in ("h1", "h2"):
        assert json.loads(told[host].report or "")["schema_version"] == "1"


def test_an_interrupt_leaves_nothing_on_the_hosts(open_mpi: SshHosts) -> None:
    open_mpi.program("h2", "musadoctor", "exec sleep 1000")
    cancelled, told = threading.Event(), list[Answer]()
    engine = Mpi(("h1", "h2"))

    def arrived(answer: Answer) -> None:
        told.append(answer)
        cancelled.set()

    engine.carry(ERRAND, arrived, cancelled)
    assert [answer.host for answer in told] == ["h1"]
    for _ in range(400):
        if not open_mpi.running("h2"):
            break
        threading.Event().wait(0.05)
    assert open_mpi.running("h2") == []


def test_a_rank_that_hangs_is_given_up(open_mpi: SshHosts) -> None:
    open_mpi.program("h1", "musadoctor", "exec sleep 1000")
    told = carried(Mpi(("h1", "h2")), ERRAND._replace(seconds=-6))
    assert told["h1"].kind == TIMED_OUT
    assert told["h2"].report == REPORT


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for an ``mpirun``, beside the shell's own programs."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


MPICH = """\
[ "$1" = --version ] && { echo "HYDRA build details:"; exit 0; }
echo "$@" >>"${0%/*}/asked"
while [ "$1" != sh ]; do shift; done
"""


def test_mpich_is_told_in_its_own_words(stand_in: Path) -> None:
    musadoctor = stand_in / "musadoctor"
    musadoctor.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(REPORT)}\n")
    musadoctor.chmod(0o755)
    program(stand_in, f'{MPICH}exec "$@"')
    own = Path("/proc/sys/kernel/hostname").read_text().strip().partition(".")[0]
    told = carried(Mpi((f"{own}.site.example",), ("-genvall",)))
    assert told[f"{own}.site.example"].report == REPORT
    asked = (stand_in / "asked").read_text()
    assert asked.startswith(f"-hosts {own}.site.example -ppn 1 -n 1 -s all -genvall sh -c ")


def test_an_answer_of_nobody_that_was_asked_is_not_taken_for_one(stand_in: Path) -> None:
    program(stand_in, f'{MPICH}"$@"')
    program(stand_in, "echo stranger", "uname")
    told = carried(Mpi(("n1", "n2")), ERRAND._replace(command=("echo", REPORT)))
    assert sorted(told) == ["n1", "n2"]
    asked = (stand_in / "asked").read_text().splitlines()
    assert len(asked) == 3, "all at once, then one by one: who answers alone is known"


def test_of_two_hosts_with_one_short_name_none_is_guessed(stand_in: Path) -> None:
    program(stand_in, MPICH + '[ -e "${0%/*}/all" ] || { touch "${0%/*}/all"; "$@"; }; exit 0')
    program(stand_in, "echo n1", "uname")
    told = carried(Mpi(("n1.a", "n1.b")), ERRAND._replace(command=("echo", REPORT)))
    assert {answer.reason for answer in told.values()} == {"the rank has ended without an answer"}


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo Frobnicate 1.0; echo more", "mpirun is neither Open MPI nor MPICH: Frobnicate 1.0"),
        ("echo cannot >&2; exit 1", "mpirun is neither Open MPI nor MPICH: cannot"),
        ("exit 1", "mpirun is neither Open MPI nor MPICH: exit code 1"),
        ("exit 0", "mpirun is neither Open MPI nor MPICH: it says nothing"),
    ],
)
def test_another_mpirun_is_refused(stand_in: Path, script: str, sentence: str) -> None:
    program(stand_in, script)
    with pytest.raises(EngineError) as raised:
        carried(Mpi(("n1",)))
    assert str(raised.value).endswith(sentence)


def test_no_mpirun_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineError, match="mpirun is not installed here"):
        carried(Mpi(("n1",)))


@pytest.mark.parametrize("name", ["", "a b", "a:4", "-x\n"])
def test_what_is_no_name_of_a_host_is_refused(name: str) -> None:
    with pytest.raises(EngineError, match="is no name of a host"):
        Mpi((name,)).hosts()


def test_mpirun_s_reason_is_its_first_words(stand_in: Path) -> None:
    program(stand_in, f"{MPICH}printf -- '-----\\n no such host\\nmore\\n' >&2; exit 1")
    told = carried(Mpi(("n1",)))
    assert told["n1"] == Answer("n1", None, NOT_PLACED, "mpirun: no such host")


def test_without_words_the_exit_code_is_the_reason(stand_in: Path) -> None:
    program(stand_in, f"{MPICH}exit 3")
    assert carried(Mpi(("n1",)))["n1"].reason == "mpirun: exit code 3"


def test_one_host_that_hangs_alone_is_given_up(stand_in: Path) -> None:
    once = '[ -e "${0%/*}/all" ] && exec sleep 1000; touch "${0%/*}/all"; exit 1'
    program(stand_in, MPICH + once)
    told = carried(Mpi(("n1",)), ERRAND._replace(seconds=-9))
    assert told["n1"].kind == TIMED_OUT


def test_some_of_the_hosts_and_their_addresses() -> None:
    engine = Mpi(("n1", "n2"), ("-v",))
    assert engine.name == "mpi"
    assert engine.only(["n2"]) == Mpi(("n2",), ("-v",))
    assert engine.address("n2") == "n2"


def test_an_interrupt_before_the_second_round_asks_nobody_more(stand_in: Path) -> None:
    cancelled = threading.Event()
    program(stand_in, f"{MPICH}exec sleep 1000")

    def watch() -> None:
        while not (stand_in / "asked").exists():
            threading.Event().wait(0.02)
        cancelled.set()

    thread = threading.Thread(target=watch)
    thread.start()
    assert carried(Mpi(("n1",)), cancelled=cancelled) == {}
    thread.join()
    assert len((stand_in / "asked").read_text().splitlines()) == 1
