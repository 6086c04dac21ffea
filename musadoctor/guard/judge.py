"""From entries and a stack to a report, by the checks of the family ``requirements``."""

import time
from collections.abc import Sequence

from musadoctor.engine import judge as judge_check
from musadoctor.facts.base import Absent
from musadoctor.facts.requirements import Requirements, ResolutionFact, StackFact
from musadoctor.plugins import load_requirements
from musadoctor.report import Bug, Report, Result, Vantage, encode
from musadoctor.selection import select as select_checks

NOT_ASKED = Absent("no resolver was asked, as --deep would")

_UNASKED = Absent("no resolver was asked; --deep does")


def judge(
    requirements: Requirements,
    stack: StackFact,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    resolution: ResolutionFact = NOT_ASKED,
) -> Report:
    """What the entries would do to the stack; no file is read and no machine is asked.

    Raises:
        SelectionError: the options name a check that is not there, or leave none.
    """
    begun = time.monotonic()
    facts: dict[str, object] = {
        "requirements": requirements,
        "stack": stack,
        "resolution": resolution,
    }
    selection = select_checks(load_requirements(), select, ignore)
    results = tuple(judge_check(check, facts) for check in selection.chosen)
    ignored = tuple(
        Result(check, "skipped", reason=f"ignored: {reason or 'no reason given'}")
        for check, reason in selection.ignored
    )
    return Report(
        vantage=Vantage(kind="requirements", host=None, python=None, note=str(stack)),
        results=(*results, *ignored),
        facts={
            "requirements": {
                "files": encode(requirements.files),
                "entries": len(requirements.entries),
            },
            "stack": encode(stack),
            "resolution": encode(resolution),
        },
        bugs=tuple(
            Bug(f"check {result.check.id}", result.traceback)
            for result in results
            if result.traceback
        ),
        seconds=time.monotonic() - begun,
    )
