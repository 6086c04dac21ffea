"""The play that rolls out host by host: real ansible-playbook, on this machine and over ssh."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from recorded import examined
from ssh_hosts import SshHosts

from musadoctor.fleet.carry.bring import zipapp
from musadoctor.render import json as json_renderer
from musadoctor.report import exit_code

FOLDER = Path(__file__).parent.parent / "examples" / "ansible"
PROGRAMS = str(Path(sys.executable).parent)


class Rollout:
    """An inventory, and what came of a rollout."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home
        self.hosts: dict[str, dict[str, Any]] = {}
        self.said = ""
        tasks = [
            {
                "name": "Touch the host",
                "ansible.builtin.command": {
                    "argv": ["mkdir", f"{folder}/{{{{ inventory_hostname }}}}"]
                },
                "delegate_to": "localhost",
                "connection": "local",
                "become": False,
            }
        ]
        (folder / "tasks.yml").write_text(yaml.safe_dump(tasks))

    def host(self, name: str, case: str, **variables: Any) -> None:
        """A host on which musadoctor says what it says of a recorded one."""
        report = examined(case)
        code = exit_code(report, fail_on="error", strict=False)
        self.host_that_says(name, json_renderer.render(report), code, **variables)

    def host_that_says(self, name: str, text: str, code: int, **variables: Any) -> None:
        """A host on which musadoctor says this."""
        said = self.folder / f"{name}.json"
        said.write_text(text)
        stub = self.folder / f"musadoctor-{name}"
        stub.write_text(f'#!/bin/sh\necho "$@" >{said}.asked\ncat {said}\nexit {code}\n')
        stub.chmod(0o755)
        usual = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        self.hosts[name] = {**usual, "musadoctor_command": [str(stub)], **variables}

    def run(self, *arguments: str) -> int:
        """The play's exit code."""
        inventory = self.folder / "hosts.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": self.hosts}}))
        settings = {
            "ANSIBLE_HOME": str(self.home),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": f"{self.home}/cp",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "LC_ALL": "C.UTF-8",
        }
        done = subprocess.run(
            [
                *("ansible-playbook", str(FOLDER / "rollout.yml"), "-i", str(inventory)),
                *("-e", f"rollout_tasks={self.folder}/tasks.yml", *arguments),
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **settings},
            timeout=120,
        )
        self.said = done.stdout + done.stderr
        return done.returncode

    @property
    def touched(self) -> set[str]:
        return {path.name for path in self.folder.iterdir() if path.is_dir()}

    @property
    def messages(self) -> dict[str, str]:
        """Why the play stopped, by host."""
        found = re.findall(
            r'^fatal: \[(\w+)[^\]]*\]: FAILED! => .*"msg": ("(?:[^"\\]|\\.)*")',
            self.said,
            re.MULTILINE,
        )
        return {host: json.loads(message) for host, message in found}

    @property
    def message(self) -> str:
        """Why the play stopped at the one host."""
        (text,) = self.messages.values()
        return text


@pytest.fixture
def rollout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rollout]:
    monkeypatch.setenv("PATH", f"{PROGRAMS}:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as home:
        yield Rollout(tmp_path, Path(home))


def report(**keys: Any) -> str:
    return json.dumps({"verdict": "broken", "causes": [], "results": [], **keys})


def result(id: str, **keys: Any) -> Mapping[str, Any]:
    return {"id": id, "status": "failed", "findings": [], "reason": "", **keys}


def test_healthy_hosts_let_the_next_batch_go(rollout: Rollout) -> None:
    rollout.host("a", "s5000-4.3.5")
    rollout.host_that_says("b", report(verdict="degraded"), 0)
    assert rollout.run() == 0, rollout.said
    assert rollout.touched == {"a", "b"}
    assert (rollout.folder / "a.json.asked").read_text() == "--json --timeout 60\n"


def test_every_host_of_a_batch_is_asked_and_the_next_is_not_touched(rollout: Rollout) -> None:
    for name in ("a", "b", "d"):
        rollout.host(name, "s5000-4.3.5")
    rollout.host("c", "no-torch")
    assert rollout.run("-e", '{"rollout_serial": [1, 2, 1]}') != 0
    assert rollout.touched == {"a", "b", "c"}
    assert rollout.message.startswith("c is broken. ")


def test_a_canary_that_cannot_be_reached_stops(rollout: Rollout) -> None:
    rollout.host(
        "a", "s5000-4.3.5", ansible_connection="ssh", ansible_host="127.0.0.1", ansible_port=1
    )
    rollout.host("b", "s5000-4.3.5")
    (rollout.folder / "tasks.yml").write_text("- ansible.builtin.ping:\n")
    assert rollout.run() != 0
    assert "UNREACHABLE" in rollout.said
    assert not (rollout.folder / "b.json.asked").exists()


def test_a_host_of_a_batch_that_cannot_be_reached_stops_the_next(rollout: Rollout) -> None:
    for name in ("a", "c", "d"):
        rollout.host(name, "s5000-4.3.5")
    rollout.host(
        "b", "s5000-4.3.5", ansible_connection="ssh", ansible_host="127.0.0.1", ansible_port=1
    )
    assert rollout.run("-e", '{"rollout_serial": [1, 2]}') != 0
    assert rollout.touched == {"a", "b", "c"}
    assert "d is not touched, for these hosts were lost before it: b" in rollout.said


def test_the_inventory_that_is_shown_names_its_hosts() -> None:
    listed = subprocess.run(
        [
            *(f"{PROGRAMS}/ansible-inventory", "-i", str(FOLDER / "inventory.example.ini")),
            *("--list", "--export"),
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    inventory = json.loads(listed.stdout)
    assert inventory["gpu"]["hosts"] == ["gpu001", "gpu002", "gpu003", "gpu004"]
    assert inventory["_meta"]["hostvars"]["gpu004"]["ansible_host"] == "192.0.2.14"


def test_each_host_that_is_not_cleared_is_told_why(rollout: Rollout) -> None:
    hit = rollout.folder / "hit"
    evil: dict[str, Any] = {"text": f"{{{{ lookup('pipe', 'touch {hit}') }}}}", "commands": []}
    load = {"text": "Load it", "commands": ["modprobe mtgpu", "reboot"]}
    results = [
        result("first", findings=[{"message": "one", "fix": None}]),
        result("second", findings=[{"message": "two", "fix": load}]),
        result("other", findings=[{"message": "three", "fix": None}]),
    ]
    template = result("evil", findings=[{"message": "{{ 6 * 7 }}", "fix": evil}])
    by = f"is not examined by {rollout.folder}/musadoctor-"
    says = {
        # An exit code of 0 clears nobody without a verdict.
        "words": ("done\n", 0, f"{by}words: done"),
        "sick": ('{"verdict": "broken"}', 0, "is broken"),
        "empty": ('{"results": []}', 0, f'{by}empty: {{"results": []}}'),
        # As --fail-on warning has it.
        "warned": (report(verdict="degraded"), 1, "is degraded"),
        "template": (
            report(causes=["evil"], results=[template]),
            1,
            f"is broken. evil: {{{{ 6 * 7 }}}}. First: {evil['text']}",
        ),
        "causes": (
            report(causes=["first", "second"], results=results),
            1,
            "is broken. first: one; second: two. First: Load it: modprobe mtgpu; reboot",
        ),
    }
    for name, (text, code, _) in says.items():
        rollout.host_that_says(name, text, code)
    rollout.host("unknown", "gmi-hangs")
    rollout.host("absent", "s5000-4.3.5", musadoctor_command=["/nowhere/musadoctor"])
    rollout.host("blacklisted", "driver-blacklisted")
    rollout.host("z", "s5000-4.3.5")
    assert rollout.run("-e", '{"rollout_serial": [9, 1]}') != 0
    assert rollout.touched == {*says, "unknown", "absent", "blacklisted"}
    told = rollout.messages
    first = told.pop("blacklisted")
    assert first.startswith("blacklisted is broken. driver-module-blacklisted: /lib/modules/")
    assert ". First: " in first
    assert told.pop("unknown").startswith("unknown is unknown. ")
    assert told.pop("absent").startswith("absent is not examined by /nowhere/musadoctor: ")
    assert told == {name: f"{name} {message}" for name, (_, _, message) in says.items()}
    assert not hit.exists()


def test_musadoctor_in_one_file_is_brought_and_taken_away(rollout: Rollout, tmp_path: Path) -> None:
    brought = tmp_path / "musadoctor.pyz"
    brought.write_bytes(zipapp())
    rollout.host("a", "s5000-4.3.5", ansible_remote_tmp=f"{tmp_path}.remote")
    assert rollout.run("-e", f"musadoctor_zipapp={brought}") != 0  # this machine has no card
    assert re.match(r"a is (broken|unknown)\. [a-z-]+: ", rollout.message)
    assert not (rollout.folder / "a.json.asked").exists()
    assert not list(Path(f"{tmp_path}.remote").rglob("*.pyz"))


def test_over_ssh_the_second_host_is_not_touched_by_a_sick_or_an_unreachable_first(
    rollout: Rollout, ssh_hosts: SshHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{ssh_hosts.path}:{PROGRAMS}")
    for name in ("h1", "h2"):
        rollout.host(name, "s5000-4.3.5", ansible_connection="ssh")
    assert rollout.run() == 0, rollout.said
    assert rollout.touched == {"h1", "h2"}
    rollout.host("h1", "driver-blacklisted", ansible_connection="ssh")
    for name in rollout.touched:
        (rollout.folder / name).rmdir()
    assert rollout.run() != 0
    assert rollout.touched == {"h1"}
    assert rollout.message.startswith("h1 is broken. driver-module-blacklisted: ")
    (rollout.folder / "h1").rmdir()
    ssh_hosts.kill_sshd("h1")
    assert rollout.run() != 0
    assert "UNREACHABLE" in rollout.said
    assert rollout.touched <= {"h1"}
