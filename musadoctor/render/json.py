"""The report as one JSON object, after ``docs/report.schema.json``."""

import json

from musadoctor import __version__
from musadoctor.render.names import docs_url
from musadoctor.report import JSON, Reading, Report, Result

SCHEMA_VERSION = "1"


def render(report: Report) -> str:
    """The report's text, with a final line end."""
    parts = [f"{_dump(key)}: {_value(value)}" for key, value in document(report).items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _value(value: JSON) -> str:
    """One line an element: an indented encoding takes ten times as long, and no one reads it."""
    if isinstance(value, list) and value:
        return "[\n " + ",\n ".join(map(_dump, value)) + "\n]"
    if isinstance(value, dict) and value:
        items = ",\n ".join(f"{_dump(key)}: {_dump(inner)}" for key, inner in value.items())
        return f"{{\n {items}\n}}"
    return _dump(value)


def _dump(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


def document(report: Report) -> dict[str, JSON]:
    """The report as a JSON value."""
    vantage = report.vantage
    return {
        "schema_version": SCHEMA_VERSION,
        "musadoctor": __version__,
        "vantage": {
            "kind": vantage.kind,
            "host": vantage.host,
            "python": vantage.python,
            "note": vantage.note,
        },
        **({} if report.reading is None else {"transcript": _reading(report.reading)}),
        "verdict": report.verdict,
        "causes": [result.check.id for result in report.causes],
        "results": [_result(result) for result in report.results],
        "facts": dict(report.facts),
        "bugs": [{"where": bug.where, "traceback": bug.traceback} for bug in report.bugs],
        "seconds": round(report.seconds, 3),
    }


def _reading(reading: Reading) -> JSON:
    return {
        "recognised": list(reading.recognised),
        "not_shown": list(reading.not_shown),
        "ask": [{"command": q.command, "undecided": list(q.undecided)} for q in reading.ask],
        "summary": reading.summary,
    }


def _result(result: Result) -> JSON:
    check = result.check
    return {
        "id": check.id,
        "family": check.family,
        "layer": str(check.layer),
        "status": result.status,
        "severity": check.severity,
        "title": check.title,
        "findings": [
            {
                "message": finding.message,
                "where": finding.where,
                "fix": finding.fix
                and {
                    "text": finding.fix.text,
                    "commands": list(finding.fix.commands),
                    "destructive": finding.fix.destructive,
                },
            }
            for finding in result.findings
        ],
        "evidence": [{"fact": e.fact, "text": e.text} for e in result.evidence],
        "reason": result.reason,
        "caused_by": result.caused_by,
        "docs_url": docs_url(check),
        "traceback": result.traceback,
        "seconds": round(result.seconds, 4),
    }
