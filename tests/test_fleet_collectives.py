"""The collectives over many hosts: one rank each, and the smallest group that fails."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator
from ssh_hosts import SshHosts

from musadoctor.fleet.answer import DAMAGED, UNREACHABLE, Answer
from musadoctor.fleet.bisect import Found
from musadoctor.fleet.carry.errand import Arrived, Errand
from musadoctor.fleet.carry.frames import Frames
from musadoctor.fleet.carry.script import script
from musadoctor.fleet.carry.ssh import Ssh
from musadoctor.fleet.collectives import Plan, verify_together
from musadoctor.fleet.state import Fleet, Gate, exit_code
from musadoctor.fleet.summary import Cause
from musadoctor.fleet.together import Together
from musadoctor.render import fleet as text
from musadoctor.render import fleet_json

HOSTS = tuple(f"h{number}" for number in range(1, 9))
STALLS = Cause("rank-stalls", "error", "A rank does not come back", "rank 1 is silent", "")


def reported(verdict: str, *steps: tuple[str, str]) -> str:
    """Rank 0's report; ``steps`` are ranks and the states of their steps."""
    status = {"healthy": "passed", "broken": "failed", "unknown": "unknown"}[verdict]
    finding = {"message": STALLS.message, "where": "", "fix": None}
    result = {
        "id": STALLS.id,
        "family": "collectives",
        "layer": "collectives",
        "status": status,
        "severity": "error",
        "title": STALLS.title,
        "findings": [finding] if status == "failed" else [],
        "evidence": [],
        "reason": "",
        "caused_by": None,
        "docs_url": "",
        "traceback": "",
        "seconds": 0.0,
    }
    items = [
        {"device": device, "name": "collectives: x", "state": state} for device, state in steps
    ]
    return json.dumps(
        {
            "schema_version": "1",
            "musadoctor": "0.1",
            "vantage": {"kind": "host", "host": None, "python": None, "note": ""},
            "verdict": verdict,
            "causes": [STALLS.id] if status == "failed" else [],
            "results": [result],
            "facts": {"rank_steps": {"items": items}},
            "bugs": [],
            "seconds": 1.0,
        }
    )


class Scripted(NamedTuple):
    """An engine whose rank 0 reports what a function of the group says."""

    says: Callable[[tuple[str, ...]], str | None]
    errands: list[Errand]
    group: tuple[str, ...] = HOSTS
    name: str = "scripted"

    def hosts(self) -> Sequence[str]:
        return self.group

    def only(self, hosts: Sequence[str]) -> "Scripted":
        return self._replace(group=tuple(hosts))

    def address(self, host: str) -> str:
        return f"{host}.site"

    def carry(self, errand: Errand, arrived: Arrived, cancelled: threading.Event) -> None:
        self.errands.append(errand)
        report = self.says(self.group)
        for rank, host in enumerate(self.group):
            if rank:
                arrived(Answer(host, None, DAMAGED, "no report, exit code 0"))
            elif report is not None:
                arrived(Answer(host, report))


def together(
    says: Callable[[tuple[str, ...]], str | None],
    hosts: Sequence[str] = HOSTS,
    plan: Plan | None = None,
    cancelled: threading.Event | None = None,
) -> tuple[Together, list[Errand]]:
    errands: list[Errand] = []
    made = verify_together(
        Scripted(says, errands), hosts, plan or Plan(), cancelled or threading.Event()
    )
    return made, errands


def test_every_host_is_one_rank_and_knows_rank_0() -> None:
    made, (errand,) = together(lambda _: reported("healthy"), plan=Plan(options=("--python", "p")))
    assert made[:5] == (HOSTS, "passed", (), None, "")
    assert errand.arguments[:5] == ("verify", "--rank-from-env", "--json", "--timeout", "300")
    assert errand.arguments[-2:] == ("--python", "p")
    assert errand.seconds > 300
    assert list(errand.variables) == list(HOSTS)
    assert errand.variables["h3"] == {
        "RANK": "2",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "0",
        "GROUP_RANK": "2",
        "MASTER_ADDR": "h1.site",
        "MASTER_PORT": "20001",
    }


def test_an_address_that_is_given_is_taken() -> None:
    _, (errand,) = together(lambda _: reported("healthy"), plan=Plan(address="10.0.0.1"))
    assert errand.variables["h8"]["MASTER_ADDR"] == "10.0.0.1"


def test_a_pair_that_fails_is_found_and_each_run_has_a_port_of_its_own() -> None:
    made, errands = together(
        lambda group: reported("broken" if {"h2", "h7"} <= set(group) else "healthy")
    )
    assert made.outcome == "failed"
    assert made.causes == (STALLS,)
    assert made.found is not None
    assert (made.found.group, made.found.culprit) == (("h2", "h7"), "")
    assert made.found.tries == len(errands) - 1
    ports = [next(iter(errand.variables.values()))["MASTER_PORT"] for errand in errands]
    assert len(set(ports)) == len(ports)


def test_the_ranks_that_did_not_come_back_are_tried_first() -> None:
    bad = ("rank 5 musa:0 of node 5", "hung"), ("rank 2 musa:0", "crashed")
    fine = ("rank 0 musa:0", "done"), ("rank 99 musa:0", "hung"), ("an odd name", "hung")
    made, errands = together(
        lambda group: reported("broken" if {"h3", "h6"} <= set(group) else "healthy", *bad, *fine)
    )
    assert list(errands[1].variables) == ["h3", "h6"]
    assert made.found is not None
    assert made.found.group == ("h3", "h6")


def test_with_one_host_nothing_is_run() -> None:
    made, errands = together(lambda _: reported("healthy"), hosts=("h1",))
    assert (made.outcome, errands) == ("not run", [])
    assert made.reason == "collectives need 2 hosts, and 1 passed"


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (None, "h1 did not answer"),
        ("{}", "h1: expected"),
        (reported("unknown"), "h1 could not decide "),
    ],
)
def test_what_was_not_run_is_not_taken_to_pass(report: str | None, reason: str) -> None:
    made, _ = together(lambda _: report)
    assert made.outcome == "not run"
    assert made.reason.startswith(reason)
    assert made.found is None


def test_a_group_that_could_not_be_run_is_said() -> None:
    made, _ = together(
        lambda group: (
            reported("broken")
            if group == HOSTS
            else None
            if len(group) == 2
            else reported("healthy")
        )
    )
    assert made.found is not None
    assert not made.found.smallest


def test_a_rank_0_that_cannot_be_reached_says_why() -> None:
    class Gone(Scripted):
        def carry(self, errand: Errand, arrived: Arrived, cancelled: threading.Event) -> None:
            arrived(Answer("h1", None, UNREACHABLE, "no route"))

    made = verify_together(Gone(lambda _: "", []), HOSTS, Plan(), threading.Event())
    assert (made.outcome, made.reason) == ("not run", "h1: unreachable: no route")


def test_an_interrupt_ends_the_tries() -> None:
    cancelled, runs = threading.Event(), list[tuple[str, ...]]()

    def says(group: tuple[str, ...]) -> str:
        runs.append(group)
        cancelled.set()
        return reported("broken")

    made, _ = together(says, cancelled=cancelled)
    assert runs == [HOSTS]
    assert made.found is not None
    assert made.found.group == HOSTS
    assert not made.found.smallest


class Here(NamedTuple):
    """An engine that starts the real script here, once for each of its hosts."""

    variables: dict[str, str]
    group: tuple[str, ...]
    name: str = "here"

    def hosts(self) -> Sequence[str]:
        return self.group

    def only(self, hosts: Sequence[str]) -> "Here":
        return self._replace(group=tuple(hosts))

    def address(self, host: str) -> str:
        return "127.0.0.1"

    def carry(self, errand: Errand, arrived: Arrived, cancelled: threading.Event) -> None:
        def ask(host: str) -> list[Answer]:
            command = script(errand, "n", name=host, payload="installed", watched=False)
            done = subprocess.run(
                ["sh", "-c", command],
                stdout=subprocess.PIPE,
                env={**os.environ, **self.variables},
                timeout=errand.seconds,
                check=True,
            )
            return Frames("n").feed(done.stdout)

        with ThreadPoolExecutor(len(self.group)) as pool:
            for answers in pool.map(ask, self.group):
                for answer in answers:
                    arrived(answer)


def on_cpu(python: str) -> Plan:
    return Plan(
        command=(sys.executable, "-m", "musadoctor"),
        options=("--device", "cpu", "--python", python),
        seconds=200,
    )


def test_real_ranks_compute_together(torch_python: str) -> None:
    made = verify_together(
        Here({}, ("h1", "h2")), ("h1", "h2"), on_cpu(torch_python), threading.Event()
    )
    assert made[:5] == (("h1", "h2"), "passed", (), None, "")


@pytest.mark.skipif(
    "MUSADOCTOR_TEST_LONG" not in os.environ,
    reason="takes minutes: MUSADOCTOR_TEST_LONG asks for it",
)
def test_two_hosts_that_cannot_reach_each_other_are_found(
    torch_python: str, ssh_hosts: SshHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", ssh_hosts.path)
    hosts = ssh_hosts.names[:3]
    # Refused at once: a link that swallows everything costs the minutes of verify's own limits.
    cuts = ((hosts[1], hosts[2]), (hosts[2], hosts[1]))
    for host, other in cuts:
        ssh_hosts.on(host, "ip", "route", "add", "unreachable", ssh_hosts.address(other))
    try:
        made = verify_together(Ssh(hosts), hosts, on_cpu(torch_python), threading.Event())
    finally:
        for host, other in cuts:
            ssh_hosts.on(host, "ip", "route", "del", "unreachable", ssh_hosts.address(other))
    assert made.outcome == "failed", made
    assert made.found is not None
    assert (made.found.group, made.found.culprit) == (hosts[1:], ""), made.found


PASSED = Together(HOSTS, "passed", (), None, "", 41.2)
PAIR = Together(HOSTS, "failed", (STALLS,), Found(("h2", "h7"), True, "", 9, ""), "", 400.0)
THREE = PAIR._replace(found=Found(("h2", "h4", "h7"), True, "", 15, ""))
ONE = PAIR._replace(found=Found(("h2", "h7"), True, "h7", 9, ""))
TWO = PAIR._replace(hosts=("h1", "h2"), found=Found(("h1", "h2"), True, "", 0, ""))
UNSURE = PAIR._replace(found=Found(HOSTS, False, "", 24, "given up after 24 tries"))
NOT_RUN = Together(HOSTS, "not run", (), None, "h1 did not answer", 0.0)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (PASSED, ["passed   a rank on each of 8 hosts, 41 s"]),
        (
            PAIR,
            [
                "failed   a rank on each of 8 hosts, 400 s, 9 smaller groups tried",
                "error rank-stalls: rank 1 is silent",
                "Collectives fail: h[2,7] together, and neither with another host\n",
                "More: musadoctor explain rank-stalls",
            ],
        ),
        (THREE, ["Collectives fail: h[2,4,7] together, and no smaller group of them\n"]),
        (ONE, ["Collectives fail: h7, with every other host that was tried beside it"]),
        (TWO, ["Collectives fail: h[1-2] together\n"]),
        (UNSURE, ["the smallest group seen to fail is h[1-8]: given up"]),
        (NOT_RUN, ["not run  h1 did not answer", "Collectives: not run"]),
    ],
)
def test_what_the_report_says(made: Together, told: list[str]) -> None:
    stream = io.StringIO()
    text.render(Fleet((), (), (), {}, (), together=made), Gate(), stream)
    for piece in told:
        assert piece in stream.getvalue()


@pytest.mark.parametrize("made", [None, PASSED, PAIR, ONE, UNSURE, NOT_RUN])
def test_the_json_is_what_its_schema_says(made: Together | None) -> None:
    stream = io.StringIO()
    fleet_json.render(Fleet((), (), (), {}, (), together=made), Gate(), stream)
    with open("docs/fleet.schema.json", encoding="utf-8") as file:
        schema: Any = json.load(file)
    document = json.loads(stream.getvalue())
    Draft202012Validator(schema).validate(document)
    assert (document["collectives"] is None) == (made is None)


@pytest.mark.parametrize(
    ("made", "code", "enough"),
    [(PASSED, 3, 0), (PAIR, 1, 1), (NOT_RUN, 3, 3)],
)
def test_exit_codes(made: Together, code: int, enough: int) -> None:
    fleet = Fleet((), (), (), {}, (), together=made)
    assert exit_code(fleet, Gate()) == code
    assert exit_code(fleet, Gate(min_healthy=0)) == enough
