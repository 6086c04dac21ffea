"""Which checks came out otherwise in one of two reports."""

from collections.abc import Mapping
from typing import NamedTuple, cast

from musadoctor.api import SEVERITIES, Layer, Severity
from musadoctor.fleet.answer import line
from musadoctor.fleet.summary import MOST_RESULTS
from musadoctor.report import JSON

_LAYERS = {str(layer): int(layer) for layer in Layer}
_BADNESS = {"failed": 2, "unknown": 1}


class StatusChange(NamedTuple):
    """A check that came out otherwise."""

    id: str
    severity: Severity
    title: str
    before: str
    """A status; ``""`` where that report does not have the check."""
    after: str
    message: str
    """What the first finding says, of now or of when it failed; or why it is unknown."""
    caused_by: str
    """The failed check that explains it, where it fails now; else ``""``."""
    worse: bool | None
    """Whether it fails now or can no longer be decided; ``None`` of one that fails as before, and
    says something else."""
    facts: frozenset[str]
    """Those that the check rests on, as far as a report says so."""


class _Result(NamedTuple):
    """What is looked at of a check's result, as text that a terminal may have."""

    id: str
    severity: Severity
    layer: int
    title: str
    status: str
    says: str
    caused_by: str
    facts: frozenset[str]


def status_changes(
    before: Mapping[str, JSON], after: Mapping[str, JSON]
) -> tuple[StatusChange, ...]:
    """Errors, then warnings, notes; of each the most basic layer first.

    Both are reports that ``summarise`` has taken, so that most of their form is certain.
    """
    old, new = _results(before), _results(after)
    changes = [
        (result, change)
        for check, result in {**old, **new}.items()
        if (change := _change(old.get(check), new.get(check))) is not None
    ]
    changes.sort(key=lambda one: (SEVERITIES.index(one[0].severity), one[0].layer, one[0].id))
    return tuple(change for _, change in changes)


def _change(before: _Result | None, after: _Result | None) -> StatusChange | None:
    told = after or before
    assert told is not None
    was, now = before.status if before else "", after.status if after else ""
    said, says = before.says if before else "", after.says if after else ""
    worse = _BADNESS.get(now, 0) - _BADNESS.get(was, 0)
    if worse == 0 and not (was == now == "failed" and said != says):
        return None
    return StatusChange(
        told.id,
        told.severity,
        told.title,
        was,
        now,
        says if now in _BADNESS else said,
        told.caused_by if now else "",
        worse > 0 if worse else None,
        (before.facts if before else frozenset()) | (after.facts if after else frozenset()),
    )


def _results(document: Mapping[str, JSON]) -> dict[str, _Result]:
    results = cast("list[dict[str, JSON]]", document["results"])[:MOST_RESULTS]
    return {one.id: one for one in map(_result, results)}


def _result(result: dict[str, JSON]) -> _Result:
    findings = cast("list[dict[str, JSON]]", result["findings"])
    evidence = result.get("evidence")
    return _Result(
        _text(result, "id"),
        cast("Severity", result["severity"]),
        _LAYERS.get(_text(result, "layer"), len(_LAYERS)),
        _text(result, "title"),
        cast("str", result["status"]),
        _text(findings[0], "message") if findings else _text(result, "reason"),
        _text(result, "caused_by"),
        frozenset(
            _text(one, "fact")
            for one in (evidence if isinstance(evidence, list) else ())
            if isinstance(one, dict)
        ),
    )


def _text(record: Mapping[str, JSON], name: str) -> str:
    value = record.get(name)
    return line(value) if isinstance(value, str) else ""
