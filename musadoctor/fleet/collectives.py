"""The collectives of ``musadoctor verify`` over many hosts, a rank on each, and who breaks them.

Every host starts ``musadoctor verify --rank-from-env``; the report of rank 0 tells of all. Where
they fail, ever smaller groups are tried.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from musadoctor.fleet.answer import Answer, line
from musadoctor.fleet.bisect import LEAST, smallest_failing
from musadoctor.fleet.carry.errand import GRACE_SECONDS, Engine, Errand
from musadoctor.fleet.documents import report_of
from musadoctor.fleet.summary import Cause, ForeignError, HostSummary, summarise
from musadoctor.fleet.together import Outcome, Together

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
BAD_STEP = {"failed", "out of memory", "hung", "crashed"}
_RANK = re.compile(r"rank (\d+)\b")


class Plan(NamedTuple):
    """How the collectives are started."""

    command: tuple[str, ...] = ("musadoctor",)
    """musadoctor on the hosts."""
    zipapp: bytes | None = None
    options: tuple[str, ...] = ()
    """More of ``musadoctor verify``: ``--python``, ``--device``."""
    address: str = ""
    """Of the host of rank 0, where its name is not what the others reach it by."""
    port: int = FIRST_PORT
    """Of the first run; each takes the next one, for a port stays taken for a while."""
    most: int = MOST_TRIES
    seconds: float = SECONDS


class _Run(NamedTuple):
    outcome: Outcome
    causes: tuple[Cause, ...]
    suspects: tuple[str, ...]
    """Hosts whose rank a step ended badly on."""
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
    if len(asked) < LEAST:
        reason = f"collectives need {LEAST} hosts, and {len(asked)} passed"
        return Together(asked, "not run", (), None, reason, 0.0)
    runs = 0

    def run(group: tuple[str, ...]) -> _Run:
        nonlocal runs
        if cancelled.is_set():
            return _Run("not run", (), (), "interrupted")
        runs += 1
        told(f"collectives over {len(group)} of {len(asked)} hosts, run {runs}")
        port = FIRST_PORT + (plan.port - FIRST_PORT + runs) % PORTS
        return _run(engine, group, plan._replace(port=port), cancelled)

    def fails(group: tuple[str, ...]) -> bool | None:
        outcome = run(group).outcome
        return None if outcome == "not run" else outcome == "failed"

    first = run(asked)
    found = None
    if first.outcome == "failed":
        found = smallest_failing(asked, fails, most=plan.most, suspects=first.suspects)
    seconds = time.monotonic() - begun
    return Together(asked, first.outcome, first.causes, found, first.reason, seconds)


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
        _places(hosts, plan.address or engine.address(hosts[0]), plan.port),
    )
    chosen.carry(errand, arrived, cancelled)
    # The others have nothing to report, and what became of them rank 0 tells.
    answer = answers.get(hosts[0])
    if answer is None:
        return _Run("not run", (), (), f"{hosts[0]} did not answer")
    if answer.report is None:
        return _Run("not run", (), (), f"{hosts[0]}: {answer.kind}: {line(answer.reason)}")
    return _judged(answer, hosts)


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
        return _Run("not run", (), (), f"{answer.host}: {error}")
    if summary.verdict == "unknown":
        return _Run("not run", summary.causes, (), _undecided(summary))
    outcome: Outcome = "failed" if summary.verdict == "broken" else "passed"
    return _Run(outcome, summary.causes, _suspects(report, hosts), "")


def _undecided(summary: HostSummary) -> str:
    return f"{summary.host} could not decide {', '.join(summary.undecided)}"


def _suspects(report: Mapping[str, object], hosts: Sequence[str]) -> tuple[str, ...]:
    """The hosts whose ranks did not come back, as far as the report tells."""
    facts = report.get("facts")
    steps = facts.get("rank_steps") if isinstance(facts, dict) else None
    items = steps.get("items") if isinstance(steps, dict) else None
    found: dict[str, None] = {}
    for item in cast("list[object]", items) if isinstance(items, list) else ():
        if isinstance(item, dict) and cast("dict[str, object]", item).get("state") in BAD_STEP:
            rank = _RANK.match(str(cast("dict[str, object]", item).get("device")))
            if rank and int(rank[1]) < len(hosts):
                found[hosts[int(rank[1])]] = None
    return tuple(found)
