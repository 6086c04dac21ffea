"""The report as one JSON object, after ``docs/report.schema.json``."""

import json

from musadoctor import __version__
from musadoctor.render.names import docs_url
from musadoctor.report import JSON, Report, Result

SCHEMA_VERSION = "1"


def render(report: Report) -> str:
    """The report's text, with a final line end."""
    return json.dumps(document(report), ensure_ascii=False, indent=2) + "\n"


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
        "verdict": report.verdict,
        "causes": [result.check.id for result in report.causes],
        "results": [_result(result) for result in report.results],
        "facts": dict(report.facts),
        "bugs": [{"where": bug.where, "traceback": bug.traceback} for bug in report.bugs],
        "seconds": round(report.seconds, 3),
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
