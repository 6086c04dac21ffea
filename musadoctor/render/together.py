"""The collectives over many hosts, in the report on them."""

from musadoctor.fleet.bisect import LEAST, Found
from musadoctor.fleet.nodes import fold
from musadoctor.fleet.together import Together
from musadoctor.render.page import Page, block, count, explain, heading, paragraph, put, row, words
from musadoctor.render.text import STYLES

COLUMN = 9
OUTCOME_STYLES = {
    "passed": STYLES["passed"],
    "failed": STYLES["failed"],
    "not run": STYLES["unknown"],
}


def section(page: Page, together: Together) -> None:
    """What was run, what failed, and whose fault it looks to be."""
    heading(page, "Collectives")
    told = f"a rank on each of {count(len(together.hosts), 'host')}, {together.seconds:.0f} s"
    if together.outcome == "not run":
        told = together.reason
    elif together.found is not None:
        told = f"{told}, {count(together.found.tries, 'smaller group')} tried"
    row(page, together.outcome, COLUMN, words(told), OUTCOME_STYLES[together.outcome])
    for cause in together.causes:
        block(page, COLUMN, f"{cause.severity} {cause.id}: {cause.message}")


def verdict(page: Page, together: Together) -> None:
    """The line for the end of a report; nothing where the collectives passed."""
    if together.outcome == "not run":
        put(page, "Collectives: not run", STYLES["unknown"])
    if together.found is not None:
        told = f"Collectives fail: {blame(together.found)}"
        paragraph(page, words(told), STYLES["failed"])
        for cause in together.causes[:1]:
            explain(page, cause.id)


def blame(found: Found) -> str:
    """Who fails with whom, in a sentence."""
    nodes = fold(found.group)
    if not found.smallest:
        return f"the smallest group seen to fail is {nodes}: {found.note}"
    if len(found.group) > LEAST:
        return f"{nodes} together, and no smaller group of them"
    if not found.third:
        return f"{nodes} together"
    if found.culprit:
        (other,) = (host for host in found.group if host != found.culprit)
        return f"{found.culprit} with {other} and with {found.third}, which work together"
    if found.elsewhere:
        shared = "look at what all hosts share"
        return f"{nodes} together, and each of them with {found.third} as well: {shared}"
    return f"{nodes} together; each of them works with {found.third}"
