"""Every check on every recorded host, with the exact results that are not green.

``pytest tests/test_hosts.py --update`` rewrites what is expected; the diff is the review.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from recorded import CASES, HOSTS, examined

from musadoctor.render import json as json_renderer
from musadoctor.report import Report, exit_code

SCHEMA = Draft202012Validator(
    json.loads((Path(__file__).parent.parent / "docs" / "report.schema.json").read_text("utf-8"))
)
HEALTHY = ("s5000-4.3.5", "s5000-5.2.0", "s4000-4.3.1", "s80-4.2.0", "side-by-side")


def summary(report: Report) -> dict[str, Any]:
    """What is expected of a host: all that is neither passed nor skipped."""
    return {
        "verdict": report.verdict,
        "exit": exit_code(report, fail_on="error", strict=False),
        "causes": [cause.check.id for cause in report.causes],
        "results": {
            result.check.id: {
                "status": result.status,
                "severity": result.check.severity,
                **({"caused_by": result.caused_by} if result.caused_by else {}),
                **({"reason": result.reason} if result.reason else {}),
                **({"messages": [f.message for f in result.findings]} if result.findings else {}),
            }
            for result in report.results
            if result.status in {"failed", "unknown"}
        },
    }


@pytest.mark.parametrize("case", CASES)
def test_host(case: str, request: pytest.FixtureRequest) -> None:
    report = examined(case)
    assert report.bugs == ()
    found = summary(report)
    path = HOSTS / case / "expected.json"
    if request.config.getoption("--update"):
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert found == json.loads(path.read_text(encoding="utf-8"))
    assert (HOSTS / case / "about.md").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("case", CASES)
def test_the_json_report_keeps_to_its_schema(case: str) -> None:
    document = json.loads(json_renderer.render(examined(case)))
    SCHEMA.validate(document)


@pytest.mark.parametrize("case", HEALTHY)
def test_a_healthy_host_has_no_error_and_no_warning(case: str) -> None:
    report = examined(case)
    assert report.verdict == "healthy"
    assert exit_code(report, fail_on="warning", strict=False) == 0


def test_every_check_fails_somewhere_and_passes_somewhere_else() -> None:
    """Here or, for what a recorded host does not show yet, in the check's own test."""
    reports = [examined(case) for case in CASES]
    statuses: dict[str, set[str]] = {}
    for report in reports:
        for result in report.results:
            # What only a transcript tells never passes: that it does not tell clears nothing.
            if "messages" not in result.check.needs:
                statuses.setdefault(result.check.id, set()).add(result.status)
    assert {id for id, seen in statuses.items() if "passed" not in seen} == set()
