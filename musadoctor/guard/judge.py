"""From entries and a stack to a report, by the checks of the family ``requirements``."""

import time

from musadoctor.engine import judge as judge_check
from musadoctor.facts.requirements import Requirements, Stack
from musadoctor.plugins import load_requirements
from musadoctor.report import Bug, Report, Vantage, encode


def judge(requirements: Requirements, stack: Stack) -> Report:
    """What the entries would do to the stack; no file is read and nothing is asked."""
    begun = time.monotonic()
    facts: dict[str, object] = {"requirements": requirements, "stack": stack}
    results = tuple(judge_check(check, facts) for check in load_requirements())
    bugs = tuple(
        Bug(f"check {result.check.id}", result.traceback) for result in results if result.traceback
    )
    return Report(
        vantage=Vantage(kind="requirements", host=None, python=stack.source, note=""),
        results=results,
        facts={
            "requirements": {
                "files": encode(requirements.files),
                "entries": len(requirements.entries),
            },
            "stack": encode(stack),
        },
        bugs=bugs,
        seconds=time.monotonic() - begun,
    )
