"""Errands over OpenSSH: to real sshd on hosts that are sick in every way, and what is made of it."""

import json
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ssh_hosts import SshHosts

from musadoctor.fleet.answer import (
    DAMAGED,
    NO_MUSADOCTOR,
    NO_PYTHON,
    REFUSED,
    TIMED_OUT,
    TOO_LARGE,
    UNREACHABLE,
    Answer,
)
from musadoctor.fleet.carry.bring import zipapp
from musadoctor.fleet.carry.errand import EngineError, Errand
from musadoctor.fleet.carry.ssh import Ssh

REPORT = '{\n"verdict": "healthy"\n}'
SAYS_REPORT = f"printf '%s\\n' '{REPORT}'"
JSON = Errand(("--json", "--timeout", "30"), 50)
HURRY = ("-oConnectTimeout=2", "-oServerAliveInterval=1")
HANGS = "exec sleep 1000"


class Fleet:
    """An engine, and what it told."""

    def __init__(self, hosts: SshHosts) -> None:
        self.hosts = hosts
        self.told: list[Answer] = []
        self.cancelled = threading.Event()
        self.inside = threading.Lock()
        self.heard: Callable[[], None] = lambda: None

    def carry(
        self, *names: str, errand: Errand = JSON, options: Sequence[str] = HURRY, fanout: int = 8
    ) -> dict[str, Answer]:
        """All that was told, each host once, by one thread at a time."""

        def arrived(answer: Answer) -> None:
            assert self.inside.acquire(blocking=False)
            self.told.append(answer)
            self.heard()
            self.inside.release()

        engine = Ssh(names or self.hosts.names, fanout, tuple(options))
        engine.carry(errand, arrived, self.cancelled)
        by_host = {answer.host: answer for answer in self.told}
        assert len(by_host) == len(self.told)
        return by_host

    def stub(self, script: str = SAYS_REPORT, *hosts: str) -> None:
        """Let musadoctor on these hosts, or on all, be this."""
        for host in hosts or self.hosts.names:
            self.hosts.program(host, "musadoctor", script)

    def works_on(self, host: str) -> bool:
        """Whether anything but sshd runs there."""
        return any(not line.startswith("sshd:") for line in self.hosts.running(host))

    def beside(self, *names: str, **more: Any) -> threading.Thread:
        """Carry in a thread."""
        thread = threading.Thread(target=self.carry, args=names, kwargs=more)
        thread.start()
        return thread


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def fleet(ssh_hosts: SshHosts, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setenv("PATH", ssh_hosts.path)
    return Fleet(ssh_hosts)


def test_every_host_reports_what_it_is(fleet: Fleet) -> None:
    told = fleet.carry()
    assert sorted(told) == list(fleet.hosts.names)
    reports = {host: json.loads(answer.report or "") for host, answer in told.items()}
    drivers = {host: report["facts"]["gmi"]["driver"] for host, report in reports.items()}
    assert drivers.pop("h5") == "3.1.0-server"
    assert set(drivers.values()) == {"3.3.5-server"}


def test_a_host_that_is_slow_does_not_delay_what_the_others_tell(fleet: Fleet) -> None:
    fleet.stub()
    go = "/run/host/home/go"
    fleet.stub(f"until [ -e {go} ]; do sleep 0.05; done; {SAYS_REPORT}", "h1")

    def heard() -> None:
        if len(fleet.told) == 7:
            fleet.hosts.on("h1", "touch", go)

    fleet.heard = heard
    fleet.carry()
    assert [answer.host for answer in fleet.told][-1] == "h1"
    assert {answer.report for answer in fleet.told} == {REPORT}


def test_more_hosts_than_clients_are_asked_in_turn(fleet: Fleet) -> None:
    fleet.stub()
    assert len(fleet.carry(fanout=3)) == 8


def test_why_a_host_is_not_reached_is_told_with_what_to_type(fleet: Fleet) -> None:
    hosts = fleet.hosts
    fleet.stub()
    hosts.refuse("h1")
    hosts.change_host_key("h2")
    hosts.forget_host_key("h3")
    hosts.kill_sshd("h4")
    hosts.cut("h5")
    hosts.login_shell("h6", "/usr/sbin/nologin")
    told = fleet.carry("h1", "h2", "h3", "h4", "h5", "h6", "h7", "nowhere.invalid")
    known = hosts.folder / "known_hosts"
    reasons = {host: (answer.kind, answer.reason) for host, answer in told.items()}
    assert reasons["h1"][0] == REFUSED
    assert reasons["h1"][1].startswith("Permission denied (publickey")
    assert reasons["h1"][1].endswith("Try: ssh h1 true")
    assert reasons["h2"] == (
        REFUSED,
        (
            "its host key has changed; only where you know why, forget the old one: "
            f"ssh-keygen -f {known} -R 10.77.0.2"
        ),
    )
    assert reasons["h3"] == (
        REFUSED,
        (
            "its host key is not known here; compare it with the host's own, and accept it: "
            "ssh h3 true"
        ),
    )
    assert reasons["h4"] == (
        UNREACHABLE,
        "connect to host 10.77.0.4 port 22: Connection refused",
    )
    assert reasons["h5"][0] == UNREACHABLE
    assert reasons["h5"][1].startswith("connect to host 10.77.0.5 port 22: ")
    assert reasons["h6"] == (
        DAMAGED,
        "no answer; it said: This account is currently not available.",
    )
    assert told["h7"].report == REPORT
    assert reasons["nowhere.invalid"][0] == UNREACHABLE
    assert reasons["nowhere.invalid"][1].startswith("its name is not known here: nowhere.invalid:")


def test_what_to_type_helps_with_a_changed_host_key(fleet: Fleet) -> None:
    fleet.stub()
    fleet.hosts.change_host_key("h2")
    command = fleet.carry("h2")["h2"].reason.rpartition(": ")[2]
    done = fleet.hosts.lab.run("sh", "-c", command)
    assert done.returncode == 0, done.stderr
    fleet.told.clear()
    assert fleet.carry("h2")["h2"].reason.startswith("its host key is not known here")


def test_hosts_that_say_more_than_they_should_are_heard_all_the_same(fleet: Fleet) -> None:
    hosts = fleet.hosts
    hosts.show_banner("h1", "*** no entry ***\n\x1b[2J")
    hosts.print_at_login(
        "h2", "echo hello; head -c 100000 /dev/urandom | tr -d '{'; printf 'no end'"
    )
    hosts.variables("h3", LC_ALL="zh_CN.UTF-8", LANG="de_DE@euro")
    hosts.login_shell("h4", "/bin/tcsh")
    hosts.login_shell("h5", "/bin/zsh")
    told = fleet.carry("h1", "h2", "h3", "h4", "h5")
    assert [host for host, answer in told.items() if answer.report is None] == []


def test_hosts_that_answer_rubbish_are_told_of_with_the_last_of_it(fleet: Fleet) -> None:
    hosts = fleet.hosts
    fleet.stub("echo 'Illegal instruction' >&2; exit 132", "h1")
    fleet.stub("head -c 100000000 /dev/urandom", "h3")
    hosts.print_at_login("h4", "tr '\\0' x </dev/zero | head -c 100000000")
    fleet.stub("head -c 1000000000 /dev/zero", "h5")
    hosts.remove("h6", "musadoctor")
    told = fleet.carry("h1", "h3", "h4", "h5", "h6")
    reasons = {host: (answer.kind, answer.reason) for host, answer in told.items()}
    assert reasons["h1"] == (DAMAGED, "no report, exit code 132: Illegal instruction")
    flooded = (TOO_LARGE, "more than 24 MiB came, and no report")
    assert [reasons[host] for host in ("h3", "h4")] == [flooded, flooded]
    assert reasons["h5"] == (TOO_LARGE, "a report of more than 32 MiB")
    assert reasons["h6"][0] == NO_MUSADOCTOR
    until(lambda: not any(map(fleet.works_on, told)))


def test_what_is_brought_needs_no_space_and_nothing_but_python(fleet: Fleet) -> None:
    hosts = fleet.hosts
    for host in hosts.names[:4]:
        hosts.remove(host, "musadoctor")
    hosts.fill("h1")
    hosts.have_old_python("h2")
    hosts.remove("h3", "python3")
    hosts.login_shell("h4", "/bin/tcsh")
    told = fleet.carry("h1", "h2", "h3", "h4", errand=JSON._replace(zipapp=zipapp()))
    assert json.loads(told["h1"].report or "")["facts"]["gmi"]["driver"] == "3.3.5-server"
    assert (told["h2"].kind, told["h3"].kind) == (NO_PYTHON, NO_PYTHON)
    assert told["h2"].reason.endswith("found: Python 3.6.8")
    assert told["h3"].reason.endswith("found: none on PATH")
    assert json.loads(told["h4"].report or "")["facts"]["gmi"]["driver"] == "3.3.5-server"
    assert hosts.written("h4") == ""


def test_a_tool_that_hangs_costs_its_host_its_limit_and_no_more(fleet: Fleet) -> None:
    fleet.hosts.hang("h1", "mthreads-gmi")
    told = fleet.carry("h1", errand=JSON._replace(arguments=("--json", "--timeout", "2")))
    assert '"verdict"' in (told["h1"].report or "")
    until(lambda: not fleet.works_on("h1"))


def test_a_host_that_hangs_is_given_up_and_nothing_is_left_on_it(fleet: Fleet) -> None:
    fleet.stub(HANGS)
    told = fleet.carry("h1", "h2", errand=JSON._replace(seconds=-7))
    assert {answer.kind for answer in told.values()} == {TIMED_OUT}
    assert told["h1"].reason == "no answer in 3 s"
    until(lambda: not any(map(fleet.works_on, told)))


def test_a_connection_that_lingers_is_not_waited_for(fleet: Fleet) -> None:
    fleet.stub()
    fleet.hosts.print_at_login("h1", "sleep 1000 &")
    assert fleet.carry("h1")["h1"].report == REPORT


def test_a_link_that_is_cut_leaves_what_the_host_itself_ends(fleet: Fleet) -> None:
    fleet.hosts.hang("h1", "mthreads-gmi")
    errand = JSON._replace(arguments=("--json", "--timeout", "4"))
    thread = fleet.beside("h1", errand=errand)
    until(lambda: "sleep 1000" in fleet.hosts.running("h1"))
    fleet.hosts.cut("h1")
    thread.join()
    (answer,) = fleet.told
    assert answer.kind == UNREACHABLE
    assert answer.reason.startswith("the connection was lost: Timeout, server ")
    until(lambda: not fleet.works_on("h1"))


@pytest.mark.parametrize("bring", [False, True])
def test_an_sshd_that_is_killed_takes_what_ran_with_it(fleet: Fleet, *, bring: bool) -> None:
    fleet.hosts.hang("h1", "mthreads-gmi")
    thread = fleet.beside("h1", errand=JSON._replace(zipapp=zipapp() if bring else None))
    until(lambda: "sleep 1000" in fleet.hosts.running("h1"))
    fleet.hosts.kill_sshd("h1")
    thread.join()
    (answer,) = fleet.told
    assert answer.kind == UNREACHABLE
    assert answer.reason.startswith("the connection was lost: ")
    until(lambda: not fleet.works_on("h1"))


@pytest.mark.parametrize("bring", [False, True])
def test_an_interruption_ends_everything_everywhere(fleet: Fleet, *, bring: bool) -> None:
    for host in ("h1", "h2"):
        fleet.hosts.hang(host, "mthreads-gmi")
    errand = JSON._replace(zipapp=zipapp() if bring else None)
    names = ("h3", "h1", "h2", "h4", "h5")
    thread = fleet.beside(*names, errand=errand, fanout=3)
    both = ("h1", "h2")
    until(lambda: all("sleep 1000" in fleet.hosts.running(host) for host in both))
    until(lambda: len(fleet.told) == 3)
    begun = time.monotonic()
    fleet.cancelled.set()
    thread.join()
    assert time.monotonic() - begun < 3
    assert {answer.host for answer in fleet.told} == {"h3", "h4", "h5"}
    until(lambda: not any(map(fleet.works_on, names)))


def test_hosts_that_were_not_begun_are_left_out_after_an_interruption(fleet: Fleet) -> None:
    fleet.stub()
    fleet.heard = fleet.cancelled.set
    assert list(fleet.carry(fanout=1)) == ["h1"]


def test_each_host_gets_its_own_variables_by_the_name_that_the_user_gave(fleet: Fleet) -> None:
    fleet.stub('printf \'{\\n"rank": "%s"\\n}\\n\' "$RANK"')
    variables = {"h1": {"RANK": "0"}, "h2": {"RANK": "1"}}
    told = fleet.carry("h1", "root@h2", "h3", errand=JSON._replace(variables=variables))
    ranks = {host: json.loads(answer.report or "")["rank"] for host, answer in told.items()}
    assert ranks == {"h1": "0", "h2": "1", "h3": ""}


def test_a_host_behind_another_is_reached_as_the_user_has_set_it_up(fleet: Fleet) -> None:
    told = fleet.carry("far")
    assert json.loads(told["far"].report or "")["musadoctor"]


def test_a_host_behind_another_that_is_down_says_so(fleet: Fleet) -> None:
    fleet.hosts.kill_sshd("h1")
    answer = fleet.carry("far")["far"]
    assert answer == Answer(
        "far", None, UNREACHABLE, "connect to host 10.77.0.1 port 22: Connection refused"
    )


# Without hosts: a client that says what one of them would make it say.


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Answer]:
    """Ask ``h1`` with an ``ssh`` that is a shell script."""

    def ask(text: str) -> Answer:
        file = tmp_path / "ssh"
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        told: list[Answer] = []
        Ssh(("h1",)).carry(JSON, told.append, threading.Event())
        (answer,) = told
        return answer

    return ask


@pytest.mark.parametrize(
    ("said", "kind", "reason"),
    [
        (
            (
                "kex_exchange_identification: Connection closed by remote host\n"
                "Connection closed by 10.0.0.1 port 22"
            ),
            UNREACHABLE,
            "its sshd does not answer: kex_exchange_identification: Connection closed by remote host",
        ),
        (
            "Connection timed out during banner exchange\nConnection to 10.0.0.1 port 22 timed out",
            UNREACHABLE,
            "its sshd does not answer: Connection timed out during banner exchange",
        ),
        (
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures",
            REFUSED,
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures",
        ),
        (
            "client_loop: send disconnect: Broken pipe",
            UNREACHABLE,
            "the connection was lost: client_loop: send disconnect: Broken pipe",
        ),
        (
            "Connection to gpu1 closed by remote host.",
            UNREACHABLE,
            "the connection was lost: Connection to gpu1 closed by remote host.",
        ),
        (
            (
                "Add correct host key in /home/a b/known_hosts to get rid of this message.\n"
                "Offending RSA key in /home/a b/known_hosts:1\n"
                "Host key for [gpu1;reboot]:2222 has changed and you have requested strict checking."
            ),
            REFUSED,
            (
                "its host key has changed; only where you know why, forget the old one: "
                "ssh-keygen -f '/home/a b/known_hosts' -R '[gpu1;reboot]:2222'"
            ),
        ),
        (
            "command-line: line 0: Bad configuration option: nonsense",
            UNREACHABLE,
            "command-line: line 0: Bad configuration option: nonsense",
        ),
        ("first\nmux: \x1b[2Jodd", UNREACHABLE, "mux: odd"),
        ("", UNREACHABLE, "ssh ended without a word"),
    ],
)
def test_what_the_client_says_is_understood_or_quoted(
    client: Callable[[str], Answer], said: str, kind: str, reason: str
) -> None:
    assert client(f"cat >&2 <<'END'\n{said}\nEND\nexit 255") == Answer("h1", None, kind, reason)


def test_a_host_that_says_nothing_is_told_of(client: Callable[[str], Answer]) -> None:
    assert client("") == Answer("h1", None, DAMAGED, "no answer; it said: nothing")
    assert client("exit 3").reason == "no answer; it said: exit code 3"
    assert client("echo 'Unknown command' >&2; exit 1").reason == (
        "no answer; it said: Unknown command"
    )


def test_an_answer_without_an_end_is_damaged(client: Callable[[str], Answer]) -> None:
    half = r"""nonce=$(dd bs=1 count=300 2>/dev/null | sed -n 's/^mark="musadoctor-fleet \([0-9a-f]*\).*/\1/p')
echo "musadoctor-fleet $nonce h1 data AAAA"; exit 0"""
    assert client(half) == Answer("h1", None, DAMAGED, "the end of the answer is missing")


def test_a_host_cannot_call_itself_by_another_name(client: Callable[[str], Answer]) -> None:
    claims = r"""nonce=$(dd bs=1 count=300 2>/dev/null | sed -n 's/^mark="musadoctor-fleet \([0-9a-f]*\).*/\1/p')
echo "musadoctor-fleet $nonce h9 failed no-tool there is no gzip"; exit 0"""
    assert client(claims) == Answer("h1", None, NO_MUSADOCTOR, "there is no gzip")


def test_the_users_own_options_come_before_ours(client: Callable[[str], Answer]) -> None:
    told: list[Answer] = []
    assert client("true").kind == DAMAGED  # writes the client
    client_says = 'echo "$@" | tr " " "\\n" | grep -n ConnectTimeout | tr "\\n" " "; exit 0'
    Path(shutil.which("ssh") or "").write_text(f"#!/bin/sh\n{client_says}\n")
    Ssh(("h1",), options=("-oConnectTimeout=3",)).carry(JSON, told.append, threading.Event())
    assert told[0].reason.startswith("no answer; it said: 1:-oConnectTimeout=3 ")


def test_nothing_of_the_clients_care_is_loosened(client: Callable[[str], Answer]) -> None:
    reason = client('echo "$@" | tr "\\n" " "').reason
    assert "BatchMode=yes" in reason
    assert "StrictHostKeyChecking" not in reason
    assert "KnownHosts" not in reason


def test_without_ssh_nothing_is_carried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="ssh is not installed here: install the OpenSSH client"):
        Ssh(("h1",)).carry(JSON, print, threading.Event())


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "h 1", "ssh://h1:22", "", "a@", "h\x1b[2J"])
def test_what_is_no_name_of_a_host_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ssh").write_text("#!/bin/sh\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match=r"is no name of a host; .* ~/\.ssh/config$"):
        Ssh(("h1", name)).carry(JSON, print, threading.Event())


def test_a_host_is_not_asked_twice() -> None:
    with pytest.raises(EngineError, match="h1 is to be asked more than once"):
        Ssh(("h1", "root@h1")).hosts()


def test_an_engine_can_be_had_for_some_of_its_hosts_all_at_once() -> None:
    engine = Ssh(("root@h1", "h2", "h3"), 4, ("-v",))
    assert engine.name == "ssh"
    assert list(engine.hosts()) == ["h1", "h2", "h3"]
    assert engine.only(["h3", "h1"]) == Ssh(("root@h1", "h3"), 2, ("-v",))


def test_others_reach_a_host_by_the_name_that_the_client_has_for_it(fleet: Fleet) -> None:
    engine = Ssh(("root@h1", "far", "gpu1"))
    assert [engine.address(host) for host in engine.hosts()] == ["10.77.0.1", "10.77.0.2", "gpu1"]


@pytest.mark.parametrize("says", ["exit 255", "yes hostname"])
def test_a_host_that_the_client_cannot_tell_of_is_reached_by_its_name(
    client: Callable[[str], Answer], says: str
) -> None:
    assert client("true").kind == DAMAGED  # writes the client
    Path(shutil.which("ssh") or "").write_text(f"#!/bin/sh\n{says}\n")
    assert Ssh(("h1",)).address("h1") == "h1"
