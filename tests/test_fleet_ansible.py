"""Errands over Ansible: the real one, to real sshd on sick hosts and to none at all."""

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ssh_hosts import SshHosts
from support import BUSY

from musadoctor.fleet.answer import (
    DAMAGED,
    NO_MUSADOCTOR,
    NO_PYTHON,
    REFUSED,
    SILENT,
    TIMED_OUT,
    TOO_LARGE,
    UNREACHABLE,
    Answer,
)
from musadoctor.fleet.carry import ansible, ansible_results
from musadoctor.fleet.carry.ansible import Ansible
from musadoctor.fleet.carry.ansible_results import MARK, Told, listener
from musadoctor.fleet.carry.bring import zipapp
from musadoctor.fleet.carry.errand import EngineError, Errand

REPORT = '{\n"verdict": "healthy"\n}'
SAYS_REPORT = f"printf '%s\\n' '{REPORT}'"
JSON = Errand(("--json", "--timeout", "30"), 50)
HANGS = "exec sleep 1000"
SUDO = """\
echo "$@" >>{log}
while [ "$1" != /bin/sh ]; do shift; done
export BECOME=root
exec "$@"
"""
PROGRAMS = str(Path(sys.executable).parent)


class Fleet:
    """An engine, and what it told."""

    def __init__(self, engine: Ansible) -> None:
        self.engine = engine
        self.told: list[Answer] = []
        self.cancelled = threading.Event()
        self.heard: Callable[[], None] = lambda: None

    def carry(self, errand: Errand = JSON, **settings: Any) -> dict[str, Answer]:
        """All that was told, each host once."""

        def arrived(answer: Answer) -> None:
            self.told.append(answer)
            self.heard()

        self.engine._replace(**settings).carry(errand, arrived, self.cancelled)
        by_host = {answer.host: answer for answer in self.told}
        assert len(by_host) == len(self.told)
        return by_host

    def beside(self, errand: Errand = JSON, **settings: Any) -> threading.Thread:
        """Carry in a thread."""
        thread = threading.Thread(target=self.carry, args=(errand,), kwargs=settings)
        thread.start()
        return thread


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for what Ansible keeps, short enough for the names of its sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("ANSIBLE_HOME", folder)
        # A connection that an earlier test left open would tell nothing new.
        monkeypatch.setenv("ANSIBLE_SSH_CONTROL_PATH_DIR", f"{folder}/cp")
        yield Path(folder)


@pytest.fixture
def inventory(home: Path) -> Path:
    return home / "hosts.ini"


# Over ssh


@pytest.fixture
def hosts(ssh_hosts: SshHosts, monkeypatch: pytest.MonkeyPatch) -> SshHosts:
    monkeypatch.setenv("PATH", f"{ssh_hosts.path}:{PROGRAMS}")
    return ssh_hosts


@pytest.fixture
def fleet(hosts: SshHosts, inventory: Path) -> Fleet:
    inventory.write_text("h1\nh2\nh3\nh4\nh5\nh6\nh7\nh8\n[few]\nh[1:3]\n[odd]\nh5\n")
    return Fleet(Ansible((str(inventory),)))


def stub(hosts: SshHosts, script: str, *names: str) -> None:
    """Let musadoctor on these hosts, or on all, be this."""
    for host in names or hosts.names:
        hosts.program(host, "musadoctor", script)


def works_on(hosts: SshHosts, host: str) -> bool:
    """Whether anything but sshd runs there."""
    return any(not line.startswith("sshd:") for line in hosts.running(host))


def test_every_host_reports_what_it_is(fleet: Fleet, hosts: SshHosts) -> None:
    assert fleet.engine.hosts() == hosts.names
    told = fleet.carry()
    assert sorted(told) == list(hosts.names)
    reports = {host: json.loads(answer.report or "") for host, answer in told.items()}
    drivers = {host: report["facts"]["gmi"]["driver"] for host, report in reports.items()}
    assert drivers.pop("h5") == "3.1.0-server"
    assert set(drivers.values()) == {"3.3.5-server"}


def test_one_run_over_hosts_that_are_sick_in_every_way(fleet: Fleet, hosts: SshHosts) -> None:
    stub(hosts, SAYS_REPORT)
    hosts.refuse("h1")
    hosts.change_host_key("h2")
    hosts.forget_host_key("h3")
    hosts.kill_sshd("h4")
    hosts.cut("h5")
    stub(hosts, HANGS, "h6")
    stub(hosts, "head -c 300000 /dev/urandom | tr -d '{'; kill -ILL $$", "h7")
    told = fleet.carry(JSON._replace(seconds=5))
    reasons = {host: (answer.kind, answer.reason) for host, answer in told.items()}
    known, inventory = hosts.folder / "known_hosts", fleet.engine.inventory[0]
    assert reasons["h1"][0] == REFUSED
    assert reasons["h1"][1].startswith("Permission denied (publickey")
    assert reasons["h1"][1].endswith(f"Try: ansible h1 -i {inventory} -m raw -a true")
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
            f"ansible h3 -i {inventory} -m raw -a true"
        ),
    )
    assert reasons["h4"] == (UNREACHABLE, "connect to host 10.77.0.4 port 22: Connection refused")
    assert reasons["h5"][0] == UNREACHABLE
    assert reasons["h5"][1].startswith("connect to host 10.77.0.5 port 22: ")
    assert reasons["h6"] == (TIMED_OUT, "no answer in 5 s")
    assert reasons["h7"][0] == DAMAGED
    assert reasons["h7"][1].startswith("no report, exit code 132: ")
    assert told["h8"].report == REPORT
    until(lambda: not any(works_on(hosts, host) for host in ("h6", "h7", "h8")))


def test_answers_that_no_one_can_use_cost_only_themselves(fleet: Fleet, hosts: SshHosts) -> None:
    stub(hosts, SAYS_REPORT)
    stub(hosts, "cat /dev/zero", "h1")
    stub(hosts, "head -c 10000000 /dev/urandom", "h2")
    hosts.remove("h3", "musadoctor")
    hosts.fill("h4")
    hosts.variables("h5", LC_ALL="zh_CN.GBK")
    hosts.print_at_login("h6", "echo Welcome; printf '\\033[2J'")
    told = fleet.carry()
    assert (told["h1"].kind, told["h2"].kind) == (TOO_LARGE, TOO_LARGE)
    assert told["h3"].kind == NO_MUSADOCTOR
    assert told["h4"].kind == DAMAGED
    assert "No space left on device" in told["h4"].reason
    assert {told[host].report for host in ("h5", "h6", "h7", "h8")} == {REPORT}


def test_more_than_any_answer_is_told_by_its_size(fleet: Fleet, hosts: SshHosts) -> None:
    hosts.program("h1", "sed", "dd if=/dev/zero bs=1M count=26 2>/dev/null | tr '\\0' 'x'")
    told = fleet.carry(limit=("h1",))
    assert told == {"h1": Answer("h1", None, TOO_LARGE, "26 MiB came, and no report")}


def test_what_is_brought_needs_nothing_but_python(fleet: Fleet, hosts: SshHosts) -> None:
    for host in hosts.names[:3]:
        hosts.remove(host, "musadoctor")
    hosts.have_old_python("h2")
    hosts.remove("h3", "python3")
    told = fleet.carry(JSON._replace(zipapp=zipapp()), pattern="few")
    assert json.loads(told["h1"].report or "")["facts"]["gmi"]["driver"] == "3.3.5-server"
    assert (told["h2"].kind, told["h3"].kind) == (NO_PYTHON, NO_PYTHON)
    assert told["h2"].reason.endswith("found: Python 3.6.8")
    assert hosts.written("h1") == ""


def test_another_user_is_become_where_that_was_asked_for(fleet: Fleet, hosts: SshHosts) -> None:
    stub(hosts, 'printf \'{\\n"become": "%s"\\n}\\n\' "$BECOME"')
    hosts.program("h1", "sudo", SUDO.format(log="/run/host/home/log"))
    told = fleet.carry(limit=("h1",))
    assert json.loads(told["h1"].report or "") == {"become": ""}
    fleet.told.clear()
    told = fleet.carry(limit=("h1",), become=True)
    assert json.loads(told["h1"].report or "") == {"become": "root"}
    assert "-u root" in hosts.on("h1", "cat", "/run/host/home/log")


def test_sudo_that_asks_for_a_password_refuses(fleet: Fleet, hosts: SshHosts) -> None:
    stub(hosts, SAYS_REPORT)
    hosts.program("h1", "sudo", "echo 'sudo: a password is required' >&2; exit 1")
    (answer,) = fleet.carry(limit=("h1",), become=True).values()
    assert answer.kind == REFUSED
    assert answer.reason.startswith("Ansible may not become another user there: ")


def test_a_group_is_asked_and_no_other_host(fleet: Fleet, hosts: SshHosts) -> None:
    stub(hosts, SAYS_REPORT)
    assert sorted(fleet.carry(pattern="few:odd:!h2")) == ["h1", "h3", "h5"]


def test_each_host_gets_its_own_variables(fleet: Fleet, hosts: SshHosts) -> None:
    stub(hosts, 'printf \'{\\n"rank": "%s"\\n}\\n\' "$RANK"')
    variables = {"h1": {"RANK": "0"}, "h3": {"RANK": "1"}}
    told = fleet.carry(JSON._replace(variables=variables), pattern="few")
    ranks = {host: json.loads(answer.report or "")["rank"] for host, answer in told.items()}
    assert ranks == {"h1": "0", "h2": "", "h3": "1"}


def test_a_host_that_is_slow_does_not_delay_what_the_others_tell(
    fleet: Fleet, hosts: SshHosts
) -> None:
    stub(hosts, SAYS_REPORT)
    go = "/run/host/home/go"
    stub(hosts, f"until [ -e {go} ]; do sleep 0.05; done; {SAYS_REPORT}", "h1")

    def heard() -> None:
        if len(fleet.told) == 2:
            hosts.on("h1", "touch", go)

    fleet.heard = heard
    fleet.carry(pattern="few")
    assert [answer.host for answer in fleet.told][-1] == "h1"
    assert {answer.report for answer in fleet.told} == {REPORT}


def test_a_link_that_is_cut_is_given_up_and_the_host_ends_by_itself(
    fleet: Fleet, hosts: SshHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ansible, "CONNECT_SECONDS", 1)
    stub(hosts, HANGS, "h1")
    stub(hosts, SAYS_REPORT, "h2")
    thread = fleet.beside(JSON._replace(seconds=4), limit=("h1", "h2"))
    until(lambda: "sleep 1000" in hosts.running("h1"))
    until(lambda: fleet.told)
    hosts.cut("h1")
    thread.join()
    assert fleet.told == [
        Answer("h2", REPORT),
        Answer("h1", None, TIMED_OUT, "Ansible told nothing more in 6 s"),
    ]
    until(lambda: not works_on(hosts, "h1"))


def test_an_sshd_that_is_killed_takes_what_ran_with_it(fleet: Fleet, hosts: SshHosts) -> None:
    stub(hosts, HANGS, "h1")
    thread = fleet.beside(limit=("h1",))
    until(lambda: "sleep 1000" in hosts.running("h1"))
    hosts.kill_sshd("h1")
    thread.join()
    (answer,) = fleet.told
    assert answer.kind == UNREACHABLE
    until(lambda: not works_on(hosts, "h1"))


@pytest.mark.parametrize("become", [False, True])
def test_an_interruption_ends_everything_everywhere(
    fleet: Fleet, hosts: SshHosts, *, become: bool
) -> None:
    stub(hosts, SAYS_REPORT)
    for host in ("h1", "h2"):
        hosts.program(host, "sudo", SUDO.format(log="/dev/null"))
        stub(hosts, HANGS, host)
    hosts.program("h3", "sudo", SUDO.format(log="/dev/null"))
    thread = fleet.beside(pattern="few", become=become)
    until(lambda: all("sleep 1000" in hosts.running(host) for host in ("h1", "h2")))
    until(lambda: fleet.told)
    begun = time.monotonic()
    fleet.cancelled.set()
    thread.join()
    assert time.monotonic() - begun < 3 + BUSY
    assert fleet.told == [Answer("h3", REPORT)]
    until(lambda: not any(works_on(hosts, host) for host in ("h1", "h2", "h3")))


# On this machine: each host of the inventory is it


@pytest.fixture
def here(inventory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Three hosts, with ``bin`` as the first folder on their PATH."""
    inventory.write_text("[all]\na b c\n".replace(" ", "\n"))
    with inventory.open("a") as file:
        file.write("[all:vars]\nansible_connection=local\n")
    program(tmp_path / "bin", "musadoctor", SAYS_REPORT)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{PROGRAMS}:{os.environ['PATH']}")
    return Fleet(Ansible((str(inventory),)))


def test_the_users_own_settings_do_not_change_what_is_told(
    here: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ansible.cfg"
    config.write_text(
        "[defaults]\nno_log = true\nany_errors_fatal = true\nforce_color = true\nask_pass = true\n"
        "stdout_callback = nonsense\ncallbacks_enabled = nonsense\nbin_ansible_callbacks = true\n"
        "[privilege_escalation]\nbecome_ask_pass = true\n"
    )
    monkeypatch.setenv("ANSIBLE_CONFIG", str(config))
    monkeypatch.setenv("LC_ALL", "POSIX")
    program(tmp_path / "bin", "musadoctor", f'[ "$X" ] && kill -9 $PPID; {SAYS_REPORT}')
    told = here.carry(JSON._replace(variables={"a": {"X": "1"}}), forks=1)
    assert told["a"].kind == DAMAGED
    assert {told[host].report for host in ("b", "c")} == {REPORT}


def test_what_ansible_reads_is_ours_alone_and_gone_afterwards(
    here: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a b=c {d}"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    modes: set[int] = set()
    here.heard = lambda: modes.update(place.stat().st_mode & 0o777 for place in folder.iterdir())
    assert len(here.carry()) == 3
    assert modes == {0o700}
    assert list(folder.iterdir()) == []


def test_a_host_that_does_its_errand_leaves_no_clock_behind(here: Fleet, tmp_path: Path) -> None:
    program(tmp_path / "bin", "sleep", f'echo $$ >>{tmp_path}/clocks; exec /bin/sleep "$@"')
    until(lambda: len(here.carry(forks=3)) == 3)
    clocks = (tmp_path / "clocks").read_text().split()
    assert len(clocks) >= 3
    until(lambda: not any(Path(f"/proc/{clock}/cmdline").exists() for clock in clocks))


def test_what_ansible_has_for_tasks_that_are_skipped_is_no_answer(here: Fleet) -> None:
    assert here.carry(options=("--check",))["a"] == Answer(
        "a", None, DAMAGED, "no answer; it said: Check mode is not supported for this task."
    )


def test_a_host_that_tells_no_end_is_damaged(here: Fleet, tmp_path: Path) -> None:
    program(tmp_path / "bin", "sed", '/bin/sed "$@"; kill -9 $PPID')
    assert here.carry(limit=("a",))["a"] == Answer(
        "a", None, DAMAGED, "the end of the answer is missing"
    )


def test_a_host_whose_clock_stands_still_is_given_up_by_ansible(
    here: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ansible, "CONNECT_SECONDS", 1)
    lasts = f"echo $$ >>{tmp_path}/lasting; exec /bin/sleep 1000"
    program(tmp_path / "bin", "sleep", lasts)
    program(tmp_path / "bin", "musadoctor", lasts)
    told = here.carry(JSON._replace(seconds=1), limit=("a",))
    for process in (tmp_path / "lasting").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)
    assert told == {"a": Answer("a", None, TIMED_OUT, "no answer in 3 s")}


def test_hosts_that_are_known_are_not_looked_up_again(here: Fleet) -> None:
    few = here.engine.only(["a", "c"])
    assert few.hosts() == ("a", "c")
    assert (few.name, few.forks) == ("ansible", 2)
    assert sorted(here.carry(limit=few.limit)) == ["a", "c"]


def test_the_address_is_what_the_inventory_has(here: Fleet, inventory: Path) -> None:
    inventory.write_text("a ansible_host=10.0.0.1\nb ansible_host='{{ 1 }} 2'\nc\n")
    assert [here.engine.address(host) for host in ("a", "b", "c")] == ["10.0.0.1", "b", "c"]


def test_an_inventory_that_names_nobody_is_told_with_ansibles_words(
    here: Fleet, tmp_path: Path
) -> None:
    with pytest.raises(EngineError) as told:
        here.engine._replace(pattern="nope").hosts()
    assert str(told.value) == (
        'Ansible finds no host for "nope": Could not match supplied host pattern, ignoring: nope'
    )
    missing = str(tmp_path / "no.ini")
    with pytest.raises(EngineError) as told:
        Ansible((missing,)).hosts()
    # Before 2.19 it breaks long lines, also within a word.
    assert str(told.value).replace(" ", "") == (
        f'Ansible finds no host for "all": Unable to parse {missing} as an inventory source'
    ).replace(" ", "")


def test_options_that_ansible_does_not_know_are_told_with_its_words(here: Fleet) -> None:
    with pytest.raises(EngineError) as told:
        here.engine._replace(options=("--bogus",)).hosts()
    assert str(told.value) == "Ansible lists no hosts: unrecognized arguments: --bogus"


def test_a_name_that_no_report_can_bear_is_refused(here: Fleet, inventory: Path) -> None:
    inventory.write_text('"../a"\n')
    with pytest.raises(EngineError, match=r'^"../a" is no name of a host; .* in ansible_host$'):
        here.engine.hosts()


@pytest.mark.parametrize(
    "option",
    [
        *("-K", "-k", "-bK", "-J", "--ask-become-pass", "--ask-pass"),
        *("--vault-id=x@prompt", "prompt", "--vault-id=prompt_ask_vault_pass"),
    ],
)
def test_ansible_cannot_ask_for_a_password(here: Fleet, option: str) -> None:
    with pytest.raises(EngineError) as told:
        here.engine._replace(options=(option,)).hosts()
    assert str(told.value) == (
        f"Ansible cannot ask for a password here ({option}): use keys, sudo that asks for none, "
        "or --become-password-file, --connection-password-file and --vault-password-file"
    )


@pytest.mark.parametrize("option", ["-o", "-bo", "--one-line", "--one"])
def test_no_host_is_asked_where_its_answer_would_not_be_understood(
    here: Fleet, option: str
) -> None:
    with pytest.raises(EngineError) as told:
        here.engine._replace(options=(option,)).hosts()
    assert str(told.value) == (
        f"Ansible would print its answers in another form ({option}): leave --one-line out"
    )


def test_options_of_which_ansible_needs_nobody_are_its_own(here: Fleet) -> None:
    here.engine = here.engine._replace(options=("-bvD", "-ekey=ok", "-uko", "--limit=a:c"))
    assert here.engine.hosts() == ("a", "c")


def test_without_ansible_nothing_is_carried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError) as told:
        Ansible().hosts()
    assert str(told.value) == "ansible is not installed here: install ansible-core"


def test_nothing_is_begun_after_an_interruption(here: Fleet, tmp_path: Path) -> None:
    program(tmp_path / "bin", "musadoctor", f"touch {tmp_path}/begun")
    here.cancelled.set()
    assert here.carry() == {}
    assert not (tmp_path / "begun").exists()


# With a program in Ansible's place, that says and does what is rare


def acts(fleet: Fleet, tmp_path: Path, text: str) -> None:
    """Let ``ansible`` be a shell script, but for the list of hosts."""
    real = shutil.which("ansible", path=PROGRAMS)
    lists = f'case "$*" in *--list-hosts*) exec {real} "$@";; esac'
    program(tmp_path / "bin", "ansible", f"{lists}\n{text}")


def tells(host: str) -> str:
    """One line of the callback."""
    said = json.dumps([host, "failed", False, 0, "", "", "Task failed: no luck"])
    return f"echo '{MARK.decode()}{said}'"


def test_hosts_that_ansible_told_nothing_of_are_silent_with_its_words(
    here: Fleet, tmp_path: Path
) -> None:
    acts(here, tmp_path, f"echo noise; {tells('a')}; {tells('stranger')}; {tells('a')}; exec false")
    told = here.carry()
    assert told["a"] == Answer("a", None, DAMAGED, "no answer; it said: no luck")
    assert told["b"] == Answer("b", None, SILENT, "Ansible told nothing of it: exit code 1")
    here.told.clear()
    acts(here, tmp_path, f"{tells('a')}; echo '[WARNING]: odd' >&2; echo 'Killed' >&2")
    assert here.carry()["c"].reason == "Ansible told nothing of it: odd Killed"
    here.told.clear()
    acts(here, tmp_path, f"{tells('a')}; echo 'Killed' >&2")
    assert here.carry()["c"].reason == "Ansible told nothing of it: Killed"


def test_an_ansible_that_asks_nobody_is_told_with_its_words(here: Fleet, tmp_path: Path) -> None:
    acts(here, tmp_path, "echo '[ERROR]: no\nspace left\n[WARNING]: x' >&2; exit 1")
    with pytest.raises(EngineError) as told:
        here.carry()
    assert str(told.value) == "Ansible asked nobody: no space left"
    acts(here, tmp_path, "exit 0")
    with pytest.raises(EngineError) as told:
        here.carry()
    assert str(told.value) == "Ansible asked nobody: it said nothing"


def test_an_ansible_that_hangs_is_given_up(
    here: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = tuple(here.engine.hosts())
    monkeypatch.setattr(ansible, "START_SECONDS", 0)
    monkeypatch.setattr(ansible, "CONNECT_SECONDS", 0)
    acts(here, tmp_path, f"{tells('a')}; exec sleep 1000")
    told = here.carry(JSON._replace(seconds=1), limit=hosts)
    assert told["a"].kind == DAMAGED
    assert told["b"] == Answer("b", None, TIMED_OUT, "Ansible told nothing more in 1 s")


def test_an_inventory_that_hangs_is_given_up(
    here: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ansible, "START_SECONDS", 1)
    program(tmp_path / "bin", "ansible", "exec sleep 1000")
    with pytest.raises(EngineError) as told:
        here.carry()
    assert str(told.value) == "Ansible lists no hosts: no answer in 1 s, killed"


def test_what_is_said_of_many_hosts_is_read_in_any_pieces() -> None:
    told: list[Told] = []
    heard = listener(told.append)
    said = [["a", "ok", False, 3, "\u2028 x", "", "words"], ["b", "failed", True, 0, "", "e", ""]]
    text = b"noise\n" + b"".join(MARK + json.dumps(one).encode() + b"\n" for one in said) + MARK
    for at in range(0, len(text), 7):
        assert heard(text[at : at + 7])
    assert told == [Told(*one) for one in said]  # type: ignore[arg-type]


def test_a_failure_of_becoming_is_a_refusal() -> None:
    told = Told("a", "failed", False, 0, "", "", "Task failed: Missing sudo password")
    assert ansible_results.answer(told, "5eed", limit=1, trial="").kind == REFUSED
