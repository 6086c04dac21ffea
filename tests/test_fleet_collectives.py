"""The collectives over many hosts: one rank each, and the smallest group that fails."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator
from ssh_hosts import SshHosts

from musadoctor.fleet.answer import DAMAGED, UNREACHABLE, Answer
from musadoctor.fleet.bisect import Found
from musadoctor.fleet.carry.errand import Arrived, EngineError, Errand
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
STALLS = Cause("rank-stalls", "error", "A rank does not come back", "h7 is silent", "")


def reported(verdict: str, *steps: tuple[str, ...], message: str = "rank 1 is silent") -> str:
    """Rank 0's report; ``steps`` are ranks, the states of their steps, and what these say."""
    status = {"healthy": "passed", "broken": "failed", "unknown": "unknown"}[verdict]
    finding = {"message": message, "where": "", "fix": None}
    result = {
        "id": STALLS.id,
        "family": "collectives",
        "layer": "collectives",
        "status": status,
        "severity": "error",
        "title": STALLS.title,
        "findings": [finding] if status == "failed" else [],
        "evidence": [],
        "reason": "no torch" if status == "unknown" else "",
        "caused_by": None,
        "docs_url": "",
        "traceback": "",
        "seconds": 0.0,
    }
    keys = ("device", "state", "message")
    items = [{"name": "x", **dict(zip(keys, step, strict=False))} for step in steps]
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


Says = Callable[[tuple[str, ...]], "str | Mapping[str, Answer] | None"]


class Scripted(NamedTuple):
    """An engine on which a function of the group says what rank 0 reports, or what others say."""

    says: Says
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
        said = self.says(self.group)
        for host in self.group:
            answer = Answer(host, None, DAMAGED, "no report, exit code 0: nothing was said")
            if host == self.group[0] and isinstance(said, str):
                arrived(Answer(host, said))
            elif isinstance(said, dict) and host in said:
                arrived(said[host])
            elif host != self.group[0]:
                arrived(answer)


def together(
    says: Says,
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


def pair(one: str, other: str) -> Says:
    """Whoever has both of these fails."""
    return lambda group: reported("broken" if {one, other} <= set(group) else "healthy")


def addresses(errands: Sequence[Errand]) -> set[tuple[str, str]]:
    """Of each run the first host, and by what the others reach it."""
    return {
        (next(iter(errand.variables)), variables["MASTER_ADDR"])
        for errand in errands
        for variables in errand.variables.values()
    }


def test_an_address_may_be_made_of_a_hosts_name() -> None:
    made, errands = together(pair("h3", "h7"), plan=Plan(address="{}-ib"))
    assert {("h1", "h1-ib"), ("h3", "h3-ib")} <= addresses(errands)
    assert all(address == f"{host}-ib" for host, address in addresses(errands))
    assert made.found is not None
    assert made.found.smallest


def test_one_address_is_that_of_the_first_host_alone() -> None:
    made, errands = together(pair("h3", "h7"), plan=Plan(address="10.0.0.1"))
    assert addresses(errands) == {("h1", "10.0.0.1")}
    assert made.found is not None
    assert {"h3", "h7"} <= set(made.found.group)
    assert made.found.note == "some groups could not be tried"


def test_a_pair_that_fails_is_found_and_each_run_has_a_port_of_its_own() -> None:
    made, errands = together(pair("h2", "h7"))
    assert made.outcome == "failed"
    assert made.causes == (STALLS,)
    assert made.found is not None
    assert (made.found.group, made.found.culprit) == (("h2", "h7"), "")
    assert made.found.tries == len(errands) - 1
    ports = [next(iter(errand.variables.values()))["MASTER_PORT"] for errand in errands]
    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize(
    "steps",
    [
        [("rank 5 musa:0 of node 5", "hung"), ("rank 2 musa:0", "crashed"), ("rank 1", "failed")],
        [("rank 0 cpu", "failed", "TimeoutError: rank 2, rank 5 of 8 did not come in 90 s")],
        [("rank 5 musa:0 of node 5", "failed"), ("rank 2 musa:0 of node 2", "out of memory")],
    ],
)
def test_the_ranks_that_a_failure_names_are_tried_first(steps: list[tuple[str, ...]]) -> None:
    fine = ("rank 0 musa:0", "done"), ("rank 99 musa:0", "hung"), ("an odd name", "hung")
    made, errands = together(
        lambda group: reported("broken" if {"h3", "h6"} <= set(group) else "healthy", *steps, *fine)
    )
    assert list(errands[1].variables) == ["h3", "h6"]
    assert made.found is not None
    assert made.found.group == ("h3", "h6")


def test_ranks_are_called_by_their_hosts() -> None:
    message = (
        "group fails on rank 0 (musa:0): rank 2 cpu of node 2, rank 1 of 8 did not come in 90 s;"
        " afterwards on rank 3 (musa:12 of node 3), rank 9 (cpu)"
    )
    made, _ = together(lambda _: reported("broken", message=message), plan=Plan(most=0))
    assert made.causes[0].message == (
        "group fails on h1: h3, h2 did not come in 90 s; afterwards on h4, rank 9 (cpu)"
    )


def test_with_one_host_nothing_is_run() -> None:
    made, errands = together(lambda _: reported("healthy"), hosts=("h1",))
    assert (made.outcome, errands) == ("not run", [])
    assert made.reason == "collectives need 2 hosts, and 1 passed"


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (None, "h1 did not answer"),
        ("{}", "h1: expected"),
        (reported("unknown"), "h1 could not decide every check: no torch"),
    ],
)
def test_what_was_not_run_is_not_taken_to_pass(report: str | None, reason: str) -> None:
    made, _ = together(lambda _: report)
    assert made.outcome == "not run"
    assert made.reason.startswith(reason)
    assert made.found is None


def test_a_group_that_could_not_be_run_is_said() -> None:
    def says(group: tuple[str, ...]) -> str | None:
        if len(group) == 2:
            raise EngineError("the engine has gone")
        return reported("broken") if group == HOSTS else None

    made, _ = together(says)
    assert made.found is not None
    assert made.found.group == HOSTS
    assert made.found.note == "4 groups could not be tried"


def test_an_engine_that_is_not_there_is_told_to_the_caller() -> None:
    def says(_: tuple[str, ...]) -> str:
        raise EngineError("there is none")

    with pytest.raises(EngineError):
        together(says)


@pytest.mark.parametrize("host", ["h1", "h3"])
def test_a_rank_that_did_not_begin_is_no_failure_of_all_together(host: str) -> None:
    """Rank 0 can tell only that it did not come."""
    gone = {
        "h1": Answer("h1", reported("broken")),
        host: Answer(host, None, UNREACHABLE, "no route"),
    }
    made, errands = together(lambda _: gone)
    assert (made.outcome, made.reason) == ("not run", f"{host}: unreachable: no route")
    assert len(errands) == 1


def test_a_connection_that_is_lost_when_all_is_done_does_no_harm() -> None:
    late = {"h1": Answer("h1", reported("healthy")), "h3": Answer("h3", None, UNREACHABLE, "lost")}
    assert together(lambda _: late)[0].outcome == "passed"


def test_what_becomes_of_other_ranks_is_told_by_their_exit_code() -> None:
    """By the real lines of hosts: exit code 0 is that of every rank that could begin."""
    said: dict[str, Answer] = {"h1": Answer("h1", reported("broken"))}
    for host, code in (("h2", 0), ("h3", 2)):
        command = ("sh", "-c", f"echo 'no such option'; exit {code}")
        text = script(Errand((), 9.0, command), "n", name=host, payload="installed", watched=False)
        done = subprocess.run(["sh", "-c", text], stdout=subprocess.PIPE, check=True)
        (said[host],) = Frames("n").feed(done.stdout)
    refused = together(lambda _: said)[0]
    assert refused.reason == "h3: damaged answer: no report, exit code 2: no such option"
    del said["h3"]
    assert together(lambda _: said)[0].outcome == "failed"


def test_another_port_is_taken_where_one_is_in_use() -> None:
    taken = reported("broken", message="group fails on rank 0: code: -98, name: EADDRINUSE")
    said = [taken, taken, reported("healthy")]
    made, errands = together(lambda _: said.pop(0))
    assert (made.outcome, len(errands)) == ("passed", 3)
    ports = [errand.variables["h1"]["MASTER_PORT"] for errand in errands]
    assert ports == ["20001", "20002", "20003"]
    said += [taken] * 4
    assert together(lambda _: said.pop(0), plan=Plan(most=0))[0].outcome == "failed"
    assert said == [taken], "it is not tried for ever"


def test_the_smallest_group_tells_what_happens() -> None:
    made, _ = together(
        lambda group: reported(
            "broken" if {"h2", "h7"} <= set(group) else "healthy", message=f"{len(group)} fail"
        )
    )
    assert [cause.message for cause in made.causes] == ["2 fail"]


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
    cancelled.set()
    assert together(lambda _: None, cancelled=cancelled)[0].reason == "interrupted"


def test_an_interrupt_of_a_run_is_said() -> None:
    cancelled = threading.Event()

    def says(_: tuple[str, ...]) -> None:
        cancelled.set()

    assert together(says, cancelled=cancelled)[0].reason == "interrupted"


class Here(NamedTuple):
    """An engine that starts the real script here, once for each of its hosts."""

    variables: Mapping[str, Mapping[str, str]]
    """Of each host."""
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
                env={**os.environ, **self.variables.get(host, {})},
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


def test_a_host_that_computes_wrong_sums_is_found(
    torch_python: str, fake_musa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = os.pathsep.join(path for path in sys.path if path)
    monkeypatch.setenv("PYTHONPATH", f"{fake_musa}{os.pathsep}{ours}")
    monkeypatch.setenv("FAKE_MUSA_MEMORY_MIB", "2")  # which keeps the sizes small
    hosts = ("h1", "h2", "h3")
    plan = on_cpu(torch_python)._replace(options=("--python", torch_python))
    here = Here({"h2": {"FAKE_MCCL": "wrong:allreduce:*"}}, hosts)
    made = verify_together(here, hosts, plan, threading.Event())
    assert made.outcome == "failed", made
    assert made.causes[0].id == "collective-result-wrong"
    assert "all-reduce gives wrong results on h2 in int32" in made.causes[0].message
    assert made.found is not None
    assert (made.found.culprit, made.found.smallest) == ("h2", True), made.found


@pytest.mark.long
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
    assert made.found.smallest, made.found


PASSED = Together(HOSTS, "passed", (), None, "", 41.2)
PAIR = Together(HOSTS, "failed", (STALLS,), Found(("h2", "h7"), True, "h1", (), 9, ""), "", 400.0)
THREE = PAIR._replace(found=Found(("h2", "h4", "h7"), True, "", (), 15, ""))
ONE = PAIR._replace(found=Found(("h2", "h7"), True, "h1", ("h7",), 9, ""))
EACH = PAIR._replace(found=Found(("h2", "h7"), True, "h1", ("h2", "h7"), 9, ""))
TWO = PAIR._replace(hosts=("h1", "h2"), found=Found(("h1", "h2"), True, "", (), 0, ""))
UNSURE = PAIR._replace(found=Found(HOSTS, False, "", (), 24, "given up after 24 tries"))
NOT_RUN = Together(HOSTS, "not run", (), None, "h1 did not answer", 0.0)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (PASSED, ["passed   a rank on each of 8 hosts, 41 s"]),
        (
            PAIR,
            [
                "failed   a rank on each of 8 hosts, 400 s, 9 smaller groups tried",
                "error rank-stalls: h7 is silent",
                "Collectives fail: h[2,7] together; each of them works with h1\n",
                "More: musadoctor explain rank-stalls",
            ],
        ),
        (THREE, ["Collectives fail: h[2,4,7] together, and no smaller group of them\n"]),
        (ONE, ["Collectives fail: h7 with h2 and with h1, which work together\n"]),
        (EACH, ["Collectives fail: h[2,7] together, and each of them with h1 as well: look at"]),
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


@pytest.mark.parametrize("made", [None, PASSED, PAIR, ONE, EACH, UNSURE, NOT_RUN])
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
