"""Errands by mpirun: of the real Open MPI and the real MPICH, over real sshd."""

import json
import shlex
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from ssh_hosts import SshHosts

from musadoctor.fleet.answer import (
    DAMAGED,
    NO_MUSADOCTOR,
    NOT_PLACED,
    REFUSED,
    TIMED_OUT,
    UNREACHABLE,
    Answer,
)
from musadoctor.fleet.carry.bring import zipapp
from musadoctor.fleet.carry.errand import EngineError, Errand
from musadoctor.fleet.carry.mpi import Mpi

REPORT = '{\n"verdict": "healthy"\n}'
SAYS_REPORT = f"printf '%s\\n' '{REPORT}'"
JSON = Errand(("--json", "--timeout", "30"), 50)
HANGS = "exec sleep 1000"


class Fleet:
    """An mpirun, and what came of it."""

    def __init__(self, hosts: SshHosts, kind: str) -> None:
        self.hosts = hosts
        self.kind = kind
        self.told: list[Answer] = []
        self.cancelled = threading.Event()
        self.heard: Callable[[], None] = lambda: None

    def carry(
        self, *names: str, errand: Errand = JSON, options: Sequence[str] = (), fanout: int = 8
    ) -> dict[str, Answer]:
        """All that was told, each host once."""

        def arrived(answer: Answer) -> None:
            self.told.append(answer)
            self.heard()

        Mpi(names, tuple(options), fanout).carry(errand, arrived, self.cancelled)
        by_host = {answer.host: answer for answer in self.told}
        assert len(by_host) == len(self.told)
        return by_host

    def stub(self, script: str = SAYS_REPORT, *hosts: str) -> None:
        """Let musadoctor on these hosts, or on all, be this."""
        for host in hosts or self.hosts.names:
            self.hosts.program(host, "musadoctor", script)

    def idle(self, host: str) -> bool:
        """Whether nothing of ours runs there."""
        return all(line.startswith("sshd:") for line in self.hosts.running(host))


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def program(folder: Path, script: str, name: str = "mpirun") -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def fleet_of(kind: str, hosts: SshHosts, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """``mpirun`` on PATH is the one of the lab."""
    words = hosts.lab.command([])
    # Without a process in between: what ends it, ends the command.
    inside = [word for word in words if word != "--pid" and not word.startswith("--wd=")]
    if kind == "open mpi":
        ssh = ("--mca", "plm_rsh_agent", f"ssh -F {hosts.config}")
        command = shlex.join([*inside, "mpirun.openmpi", "--allow-run-as-root", *ssh])
    else:
        if hosts.lab.run("which", "mpiexec.hydra").returncode:
            pytest.skip("MPICH is not among the engines")
        program(folder, f'exec /usr/bin/ssh -F {hosts.config} "$@"', "lab-ssh")
        ours = ("-launcher-exec", str(folder / "lab-ssh"), "-localhost", "10.77.0.254", "-genvnone")
        command = shlex.join([*inside, "mpiexec.hydra", *ours])
    program(folder, f'PATH=/usr/sbin:/usr/bin exec {command} "$@"')
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return Fleet(hosts, kind)


@pytest.fixture(params=["open mpi", "mpich"])
def fleet(
    request: pytest.FixtureRequest,
    ssh_hosts: SshHosts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Fleet:
    return fleet_of(request.param, ssh_hosts, tmp_path, monkeypatch)


@pytest.fixture
def open_mpi(ssh_hosts: SshHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    return fleet_of("open mpi", ssh_hosts, tmp_path, monkeypatch)


def test_every_host_reports_what_it_is(fleet: Fleet) -> None:
    told = fleet.carry("h1", "h5", "h6")
    reports = {host: json.loads(answer.report or "") for host, answer in told.items()}
    drivers = {host: report["facts"]["gmi"]["driver"] for host, report in reports.items()}
    assert drivers == {"h1": "3.3.5-server", "h5": "3.1.0-server", "h6": "3.3.5-server"}


def test_a_rank_has_all_processors_of_its_host(fleet: Fleet) -> None:
    allowed = "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
    fleet.stub(f'printf \'{{\\n"processors": "%s"\\n}}\\n\' "{allowed}"', "h1")
    text = fleet.hosts.on("h1", "sh", "-c", f"echo {allowed}")
    assert json.loads(fleet.carry("h1")["h1"].report or "")["processors"] == text.strip()


def test_more_hosts_than_programs_are_asked_in_turn(fleet: Fleet) -> None:
    fleet.stub()
    assert len(fleet.carry(*fleet.hosts.names, fanout=3)) == 8


def test_a_long_answer_is_whole(fleet: Fleet) -> None:
    # Of random bytes: it stays long when it is packed.
    fleet.stub("echo {; head -c 1500000 /dev/urandom | base64 -w 0; echo; echo }", "h1", "h2", "h3")
    told = fleet.carry("h1", "h2", "h3")
    lengths = [len(answer.report or answer.reason) for answer in told.values()]
    assert lengths == [len("{\n") + 2_000_000 + len("\n}")] * 3


def test_a_host_that_is_lost_takes_no_other_with_it(fleet: Fleet) -> None:
    fleet.stub()
    fleet.hosts.remove("h2", "musadoctor")
    fleet.hosts.kill_sshd("h3")
    fleet.hosts.refuse("h4")
    fleet.hosts.change_host_key("h5")
    # It takes connections, and says nothing.
    fleet.hosts.on("h6", "pkill", "-STOP", "-x", "sshd")
    told = fleet.carry(*fleet.hosts.names, errand=JSON._replace(seconds=-4))
    assert {answer.report for answer in told.values()} == {REPORT, None}
    kinds = {host: answer.kind for host, answer in told.items() if answer.report is None}
    assert kinds == {
        "h2": NO_MUSADOCTOR,
        "h3": UNREACHABLE,
        "h4": REFUSED,
        "h5": REFUSED,
        "h6": TIMED_OUT,
    }
    assert told["h3"].reason == "connect to host 10.77.0.3 port 22: Connection refused"
    assert told["h4"].reason.endswith("Try: ssh h4 true")


def test_a_host_that_hangs_is_given_up_and_nothing_is_left_on_it(fleet: Fleet) -> None:
    fleet.stub()
    fleet.stub(HANGS, "h1")
    told = fleet.carry("h1", "h2", errand=JSON._replace(seconds=-6))
    assert told["h1"] == Answer("h1", None, TIMED_OUT, "no answer in 4 s")
    assert told["h2"].report == REPORT
    until(lambda: fleet.idle("h1"))


def test_an_interrupt_leaves_nothing_on_the_hosts(fleet: Fleet) -> None:
    fleet.stub()
    fleet.stub(HANGS, "h2")

    def heard() -> None:
        until(lambda: "sleep 1000" in fleet.hosts.running("h2"))
        fleet.cancelled.set()

    fleet.heard = heard
    assert list(fleet.carry("h2", "h1")) == ["h1"]
    until(lambda: fleet.idle("h2"))


def test_each_host_gets_its_own_variables(fleet: Fleet) -> None:
    fleet.stub('printf \'{\\n"rank": "%s"\\n}\\n\' "$RANK"')
    variables = {"h1": {"RANK": "0"}, "h2": {"RANK": "1"}}
    told = fleet.carry("h1", "h2", "h3", errand=JSON._replace(variables=variables))
    ranks = {host: json.loads(answer.report or "")["rank"] for host, answer in told.items()}
    assert ranks == {"h1": "0", "h2": "1", "h3": ""}


def test_a_name_is_taken_as_it_is(fleet: Fleet) -> None:
    name = "h1.nowhere.invalid"
    answer = fleet.carry(name, errand=JSON._replace(seconds=-6))[name]
    assert answer.kind == UNREACHABLE
    assert answer.reason.startswith(f"its name is not known here: {name}: ")


def test_musadoctor_is_brought_along_by_open_mpi(open_mpi: Fleet) -> None:
    for host in ("h1", "h2"):
        open_mpi.hosts.remove(host, "musadoctor")
    open_mpi.hosts.fill("h1")
    told = open_mpi.carry("h1", "h2", errand=JSON._replace(zipapp=zipapp()))
    drivers = [json.loads(one.report or "")["facts"]["gmi"]["driver"] for one in told.values()]
    assert drivers == ["3.3.5-server"] * 2


def test_an_interrupt_ends_what_was_brought(open_mpi: Fleet) -> None:
    open_mpi.hosts.hang("h1", "mthreads-gmi")
    errand = JSON._replace(zipapp=zipapp())
    thread = threading.Thread(target=open_mpi.carry, args=("h1",), kwargs={"errand": errand})
    thread.start()
    until(lambda: "sleep 1000" in open_mpi.hosts.running("h1"))
    open_mpi.cancelled.set()
    thread.join()
    assert open_mpi.told == []
    until(lambda: open_mpi.idle("h1"))


def test_nothing_is_left_on_this_machine(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "tmp"
    own.mkdir()
    monkeypatch.setenv("TMPDIR", str(own))
    monkeypatch.setattr(tempfile, "tempdir", None)
    fleet.stub()
    assert fleet.carry("h1", "h2")["h1"].report == REPORT
    assert list(own.iterdir()) == []


def test_a_tool_that_hangs_costs_its_host_its_limit_and_no_more(fleet: Fleet) -> None:
    fleet.hosts.hang("h1", "mthreads-gmi")
    told = fleet.carry("h1", errand=JSON._replace(arguments=("--json", "--timeout", "2")))
    assert '"verdict"' in (told["h1"].report or "")
    until(lambda: fleet.idle("h1"))


def test_a_host_without_open_mpi_says_what_mpirun_says_first(open_mpi: Fleet) -> None:
    open_mpi.hosts.program("h1", "orted", "echo not here >&2; exit 127")
    assert open_mpi.carry("h1")["h1"] == Answer("h1", None, NOT_PLACED, "mpirun: not here")
    open_mpi.told.clear()
    open_mpi.hosts.program("h1", "orted", "exit 127")
    answer = open_mpi.carry("h1")["h1"]
    assert answer.reason == (
        "mpirun: ORTE was unable to reliably start one or more daemons. This usually is caused by:"
    )


def test_options_reach_mpirun(open_mpi: Fleet) -> None:
    answer = open_mpi.carry("h1", options=("--no-such-option",))["h1"]
    assert answer.kind == NOT_PLACED
    assert "--no-such-option" in answer.reason


# Without hosts: an mpirun that says what one of them would make it say.


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for an ``mpirun``, beside the shell's own programs."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


VERSION = '[ "$1" = --version ] && { echo "HYDRA build details:"; exit 0; }\n'


def asked(folder: Path, script: str, errand: Errand = JSON) -> Answer:
    program(folder, VERSION + script)
    told: list[Answer] = []
    Mpi(("n1",)).carry(errand, told.append, threading.Event())
    (answer,) = told
    return answer


def test_what_mpirun_does_not_do_as_root_is_said_with_what_to_type(stand_in: Path) -> None:
    text = "-" * 70 + "\\nmpirun has detected an attempt to run as root.\\n\\nmore\\n"
    assert asked(stand_in, f"printf -- '{text}' >&2; exit 1").reason == (
        "mpirun runs nothing as root unless it is told to: add -- --allow-run-as-root"
    )


def test_where_in_its_source_it_gave_up_is_no_reason_unless_there_is_no_other(
    stand_in: Path,
) -> None:
    trace = "[mpiexec@n0] main (ui/mpich/mpiexec.c:325): process manager error"
    answer = asked(stand_in, f"printf '{trace}\\nno proxy\\033[2J\\n{trace}\\n' >&2; exit 1")
    assert answer == Answer("n1", None, NOT_PLACED, "mpirun: no proxy")
    assert asked(stand_in, f"echo '{trace}' >&2; exit 1").reason == f"mpirun: {trace}"
    assert asked(stand_in, "exit 3").reason == "mpirun: exit code 3"


def test_no_mpirun_writes_where_another_tidies_up(stand_in: Path) -> None:
    where = "$OMPI_MCA_orte_local_tmpdir_base"
    program(stand_in, VERSION + f"test -d {where} && test -w {where} && echo {where} >&2; exit 1")
    told: list[Answer] = []
    Mpi(("h1", "h2", "h3")).carry(JSON, told.append, threading.Event())
    folders = {Path(answer.reason.removeprefix("mpirun: ")) for answer in told}
    assert len(folders) == 3
    assert not any(folder.parent.exists() for folder in folders)


def test_a_rank_that_ends_without_an_answer_is_told_of(stand_in: Path) -> None:
    answer = asked(stand_in, "echo hello")
    assert answer == Answer("n1", None, DAMAGED, "no answer; it said: hello")


@pytest.mark.parametrize("version", ["HYDRA build details:", "", "$(head -c 99999 /dev/zero)"])
def test_only_open_mpi_brings_musadoctor_along(stand_in: Path, version: str) -> None:
    program(stand_in, f'echo "{version}"')
    with pytest.raises(EngineError, match=r"--bring needs Open MPI's mpirun, and /.* is another"):
        Mpi(("n1",)).carry(JSON._replace(zipapp=b"PK"), print, threading.Event())


def test_an_interrupt_at_the_very_beginning_asks_nobody(stand_in: Path) -> None:
    program(stand_in, 'echo asked >>"${0%/*}/asked"')
    cancelled, told = threading.Event(), list[Answer]()
    cancelled.set()
    Mpi(("n1",)).carry(JSON._replace(zipapp=b"PK"), told.append, cancelled)
    assert told == []


def test_no_mpirun_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineError, match="mpirun is not installed here"):
        Mpi(("n1",)).carry(JSON, print, threading.Event())


@pytest.mark.parametrize("name", ["", "a b", "a:4", "-x", "a,b"])
def test_what_is_no_name_of_a_host_is_refused(name: str) -> None:
    with pytest.raises(EngineError, match="is no name of a host"):
        Mpi((name,)).hosts()


def test_a_host_is_asked_once() -> None:
    with pytest.raises(EngineError, match="n1 is to be asked more than once"):
        Mpi(("n1", "n2", "n1")).hosts()


def test_some_of_the_hosts_are_asked_all_at_once() -> None:
    engine = Mpi(("n1", "n2", "n3"), ("-v",), 1)
    assert engine.name == "mpi"
    assert engine.only(["n2", "n3"]) == Mpi(("n2", "n3"), ("-v",), 2)
    assert engine.address("n2") == "n2"
