"""Hosts that answered, made up."""

from collections.abc import Iterable, Mapping
from typing import Literal

from musadoctor.fleet.skew import Skew
from musadoctor.fleet.state import Fleet, Unanswered
from musadoctor.fleet.summary import Cause, HostSummary
from musadoctor.report import Verdict

NOT_LOADED = Cause(
    "driver-not-loaded", "error", "The module is not loaded", "no mtgpu", "modprobe mtgpu"
)
NARROW = Cause("pcie-link-narrow", "note", "A card uses fewer lanes", "8 of 16 lanes", "")
LOCKUP = Cause("gpu-lockup", "warning", "A card hung", "card 3 hung", "")


def answered(
    host: str,
    *causes: Cause,
    verdict: Verdict | None = None,
    traits: Mapping[str, str] | None = None,
    undecided: tuple[str, ...] = (),
    bugs: int = 0,
) -> HostSummary:
    """A host that is as sick as its causes make it."""
    severities: set[Literal["error", "warning", "note"]] = {cause.severity for cause in causes}
    if verdict is None:
        verdict = "broken" if "error" in severities else "healthy"
        if verdict == "healthy" and (undecided or bugs):
            verdict = "unknown"
        elif verdict == "healthy" and "warning" in severities:
            verdict = "degraded"
    return HostSummary(host, verdict, causes, undecided, bugs, dict(traits or {}), "a.jsonl", "")


def fleet(
    hosts: Iterable[HostSummary] = (),
    unanswered: Iterable[Unanswered] = (),
    skews: Iterable[Skew] = (),
) -> Fleet:
    return Fleet(tuple(hosts), tuple(unanswered), (), {}, tuple(skews))
