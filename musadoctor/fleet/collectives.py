"""The collectives of ``musadoctor verify`` over many hosts, a rank on each, and who breaks them.

Every host starts ``musadoctor verify --rank-from-env``; the report of rank 0 tells of all. Where
they fail, ever smaller groups are tried.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from musadoctor.fleet.answer import DAMAGED, Answer, line
from musadoctor.fleet.bisect import LEAST, smallest_failing
from musadoctor.fleet.carry.errand import GRACE_SECONDS, Engine, EngineError, Errand
from musadoctor.fleet.documents import report_of
from musadoctor.fleet.summary import Cause, ForeignError, summarise
from musadoctor.fleet.together import Outcome, Together
from musadoctor.report import JSON

SECONDS = 300.0
"""Limit of one run: 90 s until the last rank has come, then the steps."""
MOST_TRIES = 24
FIRST_PORT, PORTS = 20000, 10000
"""Below the ports that Linux gives to clients."""
CONCERNED = (
    *("collective-fails", "collective-result-wrong", "ddp-gradients-differ", "rank-dies"),
    "rank-stalls",
)
"""The checks of severity error that judge the ranks together."""
LOST, FAILED = {"hung", "crashed"}, {"failed", "out of memory"}
"""States of steps: of ranks that did not come back, and of those that did with an error."""
DID_ITS_PART = "no report, exit code 0:"
"""Of a rank other than 0."""
PORTS_TRIED = 3
_TAKEN = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)
_RANK = re.compile(
    r"\brank (\d{1,6})\b(?: \(?(?:musa|cuda|cpu)\b(?::\d+)?(?: of node \d+)?\)?)?"
    r"(?: of \d+(?= did not come))?"
)
"""``rank 3 (musa:0 of node 3)``, and the other ways in which verify calls one."""


class Plan(NamedTuple):
    """How the collectives are started."""

    command: tuple[str, ...] = ("musadoctor",)
    """musadoctor on the hosts."""
    zipapp: bytes | None = None
    options: tuple[str, ...] = ()
    """More of ``musadoctor verify``: ``--python``, ``--device``."""
    address: str = ""
    """By what the others reach the host of rank 0, where the engine does not know it: ``{}-ib``, in
    which ``{}`` stands for a host's name. Without it, the address of the first host."""
    port: int = FIRST_PORT
    """Of the first run; each takes the next one, for a port stays taken for a while."""
    most: int = MOST_TRIES
    seconds: float = SECONDS


class _Run(NamedTuple):
    outcome: Outcome
    causes: tuple[Cause, ...]
    suspects: tuple[str, ...]
    """Hosts that are named by what failed."""
    reason: str


def verify_together(
    engine: Engine,
    hosts: Sequence[str],
    plan: Plan,
    cancelled: threading.Event,
    told: Callable[[str], None] = lambda _: None,
) -> Together:
    """Run the collectives over ``hosts``, and look for the smallest group that fails.

    ``told`` gets a sentence before each run.

    Raises:
        EngineError: the engine is not there, or cannot start ranks.
    """
    begun = time.monotonic()
    asked = tuple(hosts)
    failures: dict[tuple[str, ...], _Run] = {}
    if len(asked) < LEAST:
        reason = f"collectives need {LEAST} hosts, and {len(asked)} passed"
        return Together(asked, "not run", (), None, reason, 0.0)
    runs = 0

    def port(group: tuple[str, ...]) -> int:
        nonlocal runs
        runs += 1
        told(f"collectives over {len(group)} of {len(asked)} hosts, run {runs}")
        return FIRST_PORT + (plan.port - FIRST_PORT + runs) % PORTS

    def run(group: tuple[str, ...]) -> _Run:
        address = _address(engine, plan.address, group[0], first=group[0] == asked[0])
        if address is None:
            return _not_run(f"{plan.address} is the address of {asked[0]}, which is not among them")
        return _on_free_port(engine, group, plan._replace(address=address), port, cancelled)

    def fails(group: tuple[str, ...]) -> bool | None:
        try:
            made = run(group)
        except EngineError as error:
            made = _not_run(str(error))
        if made.outcome == "failed":
            failures[group] = made
        return None if made.outcome == "not run" else made.outcome == "failed"

    first = told_of = run(asked)
    found = None
    if first.outcome == "failed":
        found = smallest_failing(asked, fails, most=plan.most, suspects=first.suspects)
        # Of the fewest hosts, it is the most telling.
        told_of = failures.get(found.group, first)
    seconds = time.monotonic() - begun
    return Together(asked, first.outcome, told_of.causes, found, first.reason, seconds)


def _address(engine: Engine, given: str, host: str, *, first: bool) -> str | None:
    """By what the other hosts reach this one; ``None`` where only another's address was given."""
    if not given:
        return engine.address(host)
    return given.replace("{}", host) if first or "{}" in given else None


def _not_run(reason: str) -> _Run:
    return _Run("not run", (), (), reason)


def _on_free_port(
    engine: Engine,
    hosts: tuple[str, ...],
    plan: Plan,
    port: Callable[[tuple[str, ...]], int],
    cancelled: threading.Event,
) -> _Run:
    """A run over these hosts; again where something else had the port on the host of rank 0."""
    made = _not_run("interrupted")
    for _ in range(PORTS_TRIED):
        if cancelled.is_set():
            break
        made = _run(engine, hosts, plan._replace(port=port(hosts)), cancelled)
        if not any(_TAKEN.search(cause.message) for cause in made.causes):
            break
    return made


def _run(engine: Engine, hosts: tuple[str, ...], plan: Plan, cancelled: threading.Event) -> _Run:
    """One run over these hosts."""
    answers: dict[str, Answer] = {}

    def arrived(answer: Answer) -> None:
        answers[answer.host] = answer

    chosen = engine.only(hosts)
    errand = Errand(
        (
            *("verify", "--rank-from-env", "--json", "--timeout", f"{plan.seconds:g}"),
            *(word for check in CONCERNED for word in ("--select", check)),
            *plan.options,
        ),
        plan.seconds + GRACE_SECONDS,
        plan.command,
        plan.zipapp,
        _places(hosts, plan.address, plan.port),
    )
    chosen.carry(errand, arrived, cancelled)
    first, *others = (answers.get(host) for host in hosts)
    if first is None:
        return _not_run("interrupted" if cancelled.is_set() else f"{hosts[0]} did not answer")
    made = _lost(first) if first.report is None else _judged(first, hosts)
    # The others have nothing to report. Where one never began, that is no failure of all together.
    strays = [one for one in others if one and one.report is None and not _did_its_part(one)]
    return _lost(strays[0]) if strays and made.outcome == "failed" else made


def _did_its_part(answer: Answer) -> bool:
    return answer.kind == DAMAGED and answer.reason.startswith(DID_ITS_PART)


def _lost(answer: Answer) -> _Run:
    return _not_run(f"{answer.host}: {answer.kind}: {line(answer.reason)}")


def _places(hosts: Sequence[str], address: str, port: int) -> Mapping[str, Mapping[str, str]]:
    """What torchrun would tell each rank."""
    return {
        host: {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(hosts)),
            "LOCAL_RANK": "0",
            "GROUP_RANK": str(rank),
            "MASTER_ADDR": address,
            "MASTER_PORT": str(port),
        }
        for rank, host in enumerate(hosts)
    }


def _judged(answer: Answer, hosts: Sequence[str]) -> _Run:
    """What rank 0 says."""
    source = f"the answer of {answer.host}"
    try:
        report = report_of(cast("str", answer.report))
        summary = summarise(report, host=answer.host, source=source, taken="")
    except ForeignError as error:
        return _not_run(f"{answer.host}: {error}")
    if summary.verdict == "unknown":
        why = f"{answer.host} could not decide {', '.join(summary.undecided)}"
        return _not_run(f"{why}{_reason(report)}")
    causes = tuple(
        cause._replace(message=line(_by_host(cause.message, hosts))) for cause in summary.causes
    )
    outcome: Outcome = "failed" if summary.verdict == "broken" else "passed"
    return _Run(outcome, causes, _suspects(report, hosts), "")


def _reason(report: Mapping[str, JSON]) -> str:
    """Why the first of its checks could not decide; ``""`` where none says so."""
    results = cast("list[dict[str, JSON]]", report["results"])
    unknown = (result.get("reason") for result in results if result["status"] == "unknown")
    reason = next(unknown, None)
    return f": {line(reason)}" if isinstance(reason, str) else ""


def _by_host(text: str, hosts: Sequence[str]) -> str:
    """A message in which ranks are called by their hosts."""

    def host(found: re.Match[str]) -> str:
        rank = int(found[1])
        return hosts[rank] if rank < len(hosts) else found[0]

    return _RANK.sub(host, text)


def _suspects(report: Mapping[str, JSON], hosts: Sequence[str]) -> tuple[str, ...]:
    """Hosts whose ranks did not come back or did not come; else those on which a step failed."""
    facts = report.get("facts")
    steps = facts.get("rank_steps") if isinstance(facts, dict) else None
    items = steps.get("items") if isinstance(steps, dict) else None
    lost: set[str] = set()
    failed: set[str] = set()
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("state") in LOST:
            lost |= _named(item.get("device"), hosts)
        elif isinstance(item, dict) and item.get("state") in FAILED:
            failed |= _named(item.get("device"), hosts)
            # Those for which this one waited, or that it found unable.
            lost |= _named(item.get("message"), hosts)
    return tuple(host for host in hosts if host in (lost or failed))


def _named(text: JSON, hosts: Sequence[str]) -> set[str]:
    """The hosts whose ranks a text names."""
    ranks = map(int, _RANK.findall(text)) if isinstance(text, str) else ()
    return {hosts[rank] for rank in ranks if rank < len(hosts)}
