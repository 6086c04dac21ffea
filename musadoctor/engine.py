"""Find out the facts that checks need, let the checks judge them, and tell causes from symptoms."""

import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from musadoctor.api import SEVERITIES, Check, Finding, Fix, Layer, Messages
from musadoctor.facts.base import Absent, Unknown
from musadoctor.report import Bug, Evidence, Result, Status

if TYPE_CHECKING:
    from musadoctor.probes import Probe
    from musadoctor.system import System

GRACE = 1.0
"""Seconds past the deadline in which a program that had to be killed may still die."""
TICK = 0.1


class Progress(Protocol):
    """Who is told how a diagnosis gets on."""

    def decided(self, layer: Layer, results: Sequence[Result]) -> None:
        """All checks of a layer and of those below it have come out."""
        ...

    def waiting(self, facts: Sequence[str], seconds: float) -> None:
        """These facts are still being found out, ``seconds`` after the start."""
        ...


class Silent:
    """Tells nobody."""

    def decided(self, layer: Layer, results: Sequence[Result]) -> None:
        """Nothing to show."""

    def waiting(self, facts: Sequence[str], seconds: float) -> None:
        """Nothing to show."""


class Diagnosis(NamedTuple):
    """What the engine hands on to the report."""

    results: tuple[Result, ...]
    facts: dict[str, object]
    bugs: tuple[Bug, ...]


class _Answer(NamedTuple):
    name: str
    fact: object
    bug: str


def diagnose(
    system: "System",
    checks: Sequence[Check],
    *,
    seconds: float,
    progress: Progress | None = None,
    facts: Sequence[str] = (),
    probes: "Mapping[str, Probe] | None" = None,
) -> Diagnosis:
    """Run ``checks`` on a machine within ``seconds`` and :data:`GRACE`.

    Only the facts that the checks name, and those of ``facts``, are found out, each in a thread of
    its own. A fact that is late is ``Unknown``; neither a probe nor a check can end the run.
    ``probes`` are all of ours where they are not given.
    """
    if probes is None:
        from musadoctor.probes import PROBES  # noqa: PLC0415 - the guard asks none

        probes = PROBES
    progress = progress or Silent()
    needed = {*facts, *(name for check in checks for name in _wanted(check))}
    known: dict[str, object] = {
        name: Unknown(f"this musadoctor has no fact {name!r}") for name in needed - probes.keys()
    }
    wanted = {name: probe for name, probe in probes.items() if name in needed}
    bugs: list[Bug] = []
    results: list[Result] = []
    undecided = [(check, _wanted(check) - known.keys()) for check in sorted(checks, key=_order)]
    shown = -1

    def decide(found: str = "") -> None:
        nonlocal undecided, shown
        for _, missing in undecided:
            missing.discard(found)
        ready = [check for check, missing in undecided if not missing]
        undecided = [(check, missing) for check, missing in undecided if missing]
        for check in ready:
            result = judge(check, known)
            results.append(result)
            if result.traceback and _is_ours(check):
                bugs.append(Bug(f"check {check.id}", result.traceback))
        bound = min((check.layer for check, _ in undecided), default=len(Layer))
        shown = _show(progress, results, bound, shown)

    decide()
    for answer in _answers(system, wanted, seconds, progress):
        known[answer.name] = answer.fact
        if answer.bug:
            bugs.append(Bug(f"probe {answer.name}", answer.bug))
        decide(answer.name)
    return Diagnosis(explain(results), dict(sorted(known.items())), tuple(bugs))


def _answers(
    system: "System", wanted: "Mapping[str, Probe]", seconds: float, progress: Progress
) -> Iterator[_Answer]:
    """Run the probes side by side; their answers as they come, at last of those that are late."""
    begun = time.monotonic()
    answers: SimpleQueue[_Answer] = SimpleQueue()
    for name, probe in wanted.items():
        # A daemon: a file that never answers may hold it for ever.
        threading.Thread(
            target=_probe, args=(name, probe, system, answers), name=name, daemon=True
        ).start()
    pending = dict.fromkeys(wanted)
    while pending:
        passed = time.monotonic() - begun
        if passed >= seconds + GRACE:
            for name in pending:
                reason = f"{name.replace('_', ' ')}: no answer in {seconds:.0f} s"
                yield _Answer(name, Unknown(reason), "")
            return
        try:
            answer = answers.get(timeout=min(TICK, seconds + GRACE - passed))
        except Empty:
            progress.waiting(tuple(pending), time.monotonic() - begun)
            continue
        del pending[answer.name]
        yield answer


def _probe(name: str, probe: "Probe", system: "System", answers: "SimpleQueue[_Answer]") -> None:
    try:
        answers.put(_Answer(name, probe(system), ""))
    except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on
        reason = f"a bug in musadoctor: the probe {name} failed with {_named(error)}"
        answers.put(_Answer(name, Unknown(reason), traceback.format_exc()))


def _order(check: Check) -> tuple[Layer, str, str]:
    return check.layer, check.family, check.id


def _show(progress: Progress, results: list[Result], bound: int, shown: int) -> int:
    """Tell of the layers below ``bound``, which are final, that come after the layer ``shown``."""
    if bound > shown + 1:
        final = explain(r for r in results if r.check.layer < bound)
        for layer in Layer:
            if shown < layer < bound and (members := [r for r in final if r.check.layer == layer]):
                progress.decided(layer, members)
    return max(shown, bound - 1)


def _wanted(check: Check) -> set[str]:
    return {*check.needs, *(("messages",) if check.said else ())}


def judge(check: Check, facts: Mapping[str, object]) -> Result:
    """Let one check judge by the facts, and where they show no fault by what a transcript says."""
    result = _by_facts(check, facts)
    if check.said and result.status != "failed" and not result.traceback:
        messages = facts.get("messages")
        if isinstance(messages, Messages):
            # What else happens to be known by now is no part of the question.
            own = {name: facts[name] for name in check.needs}
            found: list[Finding] = []
            try:
                for said in check.said(check.id, messages, own):
                    _see_to_form(said)
                    found += [said] if isinstance(said, Finding) else []
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a check never ends the run
                return _died(check, error, found)
            if found:
                return result._replace(status="failed", findings=tuple(found), reason="")
    return result


def _by_facts(check: Check, facts: Mapping[str, object]) -> Result:
    """Let one check judge, where the facts are in states that it accepts."""
    begun = time.perf_counter()
    given = {name: facts[name] for name in check.needs}
    refused = [
        fact
        for name, accepted in check.needs.items()
        if not isinstance(fact := given[name], accepted)
    ]
    if refused:
        return _not_judged(check, refused)
    findings: list[Finding] = []
    reasons: dict[Status, list[str]] = {"unknown": [], "skipped": []}
    try:
        for said in check.function(**given):
            _see_to_form(said)
            if isinstance(said, Finding):
                findings.append(said)
            else:
                reasons["unknown" if isinstance(said, Unknown) else "skipped"].append(said.reason)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a check never ends the run
        return _died(check, error, findings)._replace(seconds=time.perf_counter() - begun)
    seconds = time.perf_counter() - begun
    if findings:
        return Result(check, "failed", tuple(findings), seconds=seconds)
    for status, said_so in reasons.items():
        if said_so:
            return Result(check, status, reason="; ".join(said_so), seconds=seconds)
    known = [fact for fact in given.values() if not isinstance(fact, (Absent, Unknown))]
    if given and not known:
        # Nothing green rests on nothing.
        return _not_judged(check, given.values())
    evidence = tuple(Evidence(name, str(fact)) for name, fact in given.items())
    return Result(check, "passed", evidence=evidence, seconds=seconds)


def _died(check: Check, error: BaseException, findings: Sequence[Finding]) -> Result:
    """What comes of a check that raised; for an ``except`` block."""
    whose = "a bug in musadoctor" if _is_ours(check) else f"a bug in {check.function.__module__}"
    return Result(
        check,
        "failed" if findings else "unknown",
        tuple(findings),
        reason=f"{whose}: the check itself failed with {_named(error)}",
        traceback=traceback.format_exc(),
    )


def _see_to_form(said: object) -> None:
    """What a check yields goes on to redaction and renderers, which take it to be well-formed.

    Raises:
        TypeError: it is neither a finding nor a state, or what should be text is none.
    """
    texts: list[object] = []
    if isinstance(said, Finding):
        texts += said[:2]
        fix: object = said.fix
        if isinstance(fix, Fix) and isinstance(cast("object", fix.commands), (tuple, list)):
            texts += [fix.text, *fix.commands]
        elif fix is not None:
            raise TypeError(f"expected Fix(text, (command, ...)), found {fix!r}")
    elif isinstance(said, (Absent, Unknown)):
        texts += said
    else:
        raise TypeError(f"expected a Finding, Unknown or Absent, found {said!r}")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"expected a text in {said!r}, found {text!r}")


def _not_judged(check: Check, states: Iterable[object]) -> Result:
    """What is certainly absent settles that the question does not arise, whatever is unknown."""
    state = min(states, key=lambda state: isinstance(state, Unknown))
    status: Status = "unknown" if isinstance(state, Unknown) else "skipped"
    return Result(check, status, reason=str(state))


def explain(results: Iterable[Result]) -> tuple[Result, ...]:
    """Sort results by layer, and name for each failed symptom the failure that explains it.

    What explains a symptom is the most basic failure, of at least its severity, in the layers that
    it can follow from: a lower layer, or its own if that failure is no symptom itself. Where that
    is explained in turn, its cause is the symptom's too. What is no symptom is a cause of its own.
    """
    ordered = sorted(results, key=lambda result: _order(result.check))
    failures = [result.check for result in ordered if result.status == "failed"]
    failures.sort(key=lambda check: (_depth(check), check.id))
    roots: dict[str, str] = {}
    for check in failures:
        floor = check.follows_from
        if floor is None:
            continue
        for below in failures:
            grave = SEVERITIES.index(below.severity) <= SEVERITIES.index(check.severity)
            if grave and below.layer >= floor and _depth(below) < _depth(check):
                roots[check.id] = roots.get(below.id, below.id)
                break
    return tuple(result._replace(caused_by=roots.get(result.check.id)) for result in ordered)


def _depth(check: Check) -> tuple[Layer, bool]:
    return check.layer, check.follows_from is not None


def _is_ours(check: Check) -> bool:
    return check.function.__module__.partition(".")[0] == "musadoctor_checks"


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
