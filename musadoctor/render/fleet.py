"""The report on many hosts for a person at a terminal.

What is wrong comes first, what could not be read last; the end, nearest to the prompt, says which
hosts to take out and what to type. Lists are cut where they are long: ``--verbose`` shows all.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import TextIO, get_args

from rich.text import Text

from musadoctor import __version__
from musadoctor.fleet.skew import Difference, Kind, Skew
from musadoctor.fleet.state import CommonCause, Fleet, Gate, healthy, of_all
from musadoctor.render import together
from musadoctor.render.page import (
    MOST_NODE_LINES,
    Page,
    block,
    command,
    contrast,
    count,
    explain,
    heading,
    more,
    new_page,
    nodes,
    paragraph,
    put,
    row,
    words,
    wrapped,
)
from musadoctor.render.text import STYLES, VERDICT_STYLES
from musadoctor.report import Verdict

MOST_CAUSES = 10
MOST_SKEWS = 10
MOST_DIFFERENCES = 4
"""Of the hosts of one skew."""
MOST_REASONS = 10
MOST_LEFT_OUT = 5
MOST_GROUPS = 20
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
WORST_FIRST: tuple[Verdict, ...] = ("broken", "unknown", "degraded", "healthy")
COLUMN = 9
"""Of the labels of causes and differences."""
SEVERITY_STYLES = {
    "error": STYLES["error"],
    "warning": STYLES["warning"],
    "note": STYLES["note"],
}
KIND_STYLES: dict[Kind, str] = {"odd": "bold yellow", "upgrade": "cyan", "mixed": ""}


def render(
    fleet: Fleet, gate: Gate, stream: TextIO, *, verbose: bool = False, quiet: bool = False
) -> None:
    """Print what is wrong with which hosts, how they differ, and what to do first."""
    page = new_page(stream, whole=verbose)
    if quiet:
        _causes(page, [c for c in fleet.causes if c.cause.severity == "error"])
    else:
        asked = len(of_all(fleet))
        put(page, f"musadoctor {__version__} fleet: {count(asked, 'host')}", "bold")
        _groups(page, fleet)
        if fleet.causes:
            heading(page, "Causes")
        _causes(page, fleet.causes)
        _skews(page, fleet.skews)
        _uncleared(page, fleet)
        _unanswered(page, fleet)
        _left_out(page, fleet)
        if fleet.together:
            together.section(page, fleet.together)
        put(page)
    _verdict(page, fleet, gate)
    if fleet.together:
        together.verdict(page, fleet.together)


def _causes(page: Page, causes: Sequence[CommonCause]) -> None:
    shown = causes[: page.most(MOST_CAUSES)]
    for cause, hosts in shown:
        lines = 1 if cause.severity == "note" else MOST_NODE_LINES
        parts = [*words(f"{cause.id}: "), *nodes(page, hosts, COLUMN, lines)]
        row(page, cause.severity, COLUMN, parts, SEVERITY_STYLES[cause.severity])
        if page.whole or not cause.message:
            block(page, COLUMN, cause.title)
        if cause.message:
            block(page, COLUMN, f"on {hosts[0]}: {cause.message}")
        if cause.command and (page.whole or cause.severity != "note"):
            command(page, COLUMN, cause.command)
    more(page, len(causes) - len(shown), "causes")


def _skews(page: Page, skews: Sequence[Skew]) -> None:
    if skews:
        heading(page, "Differences")
    shown = skews[: page.most(MOST_SKEWS)]
    for skew in shown:
        group = [f"{skew.group}: "] if skew.group else []
        # Of many hosts the number stands there already.
        counted = ", 1 " if len(skew.hosts) == 1 else " "
        told = [*nodes(page, skew.hosts, COLUMN), counted, *words(f"of {skew.compared}")]
        told += words(_failing(skew))
        row(page, skew.kind, COLUMN, [*group, *told], KIND_STYLES[skew.kind])
        _differences(page, skew)
    more(page, len(skews) - len(shown), "differences")


def _differences(page: Page, skew: Skew) -> None:
    most = page.most(MOST_DIFFERENCES)
    shown, rest = skew.differences[:most], skew.differences[most:]
    width = max(len(one.trait) for one in shown)
    for one in shown:
        told = _contrast(one, skew.kind, whole=page.whole)
        for number, line in enumerate(wrapped(words(told), page.width - COLUMN - width - 3)):
            label = one.trait if number == 0 else ""
            put(page, f"{'':<{COLUMN + 1}}{label:<{width + 2}}{line}")
    if rest:
        names = ", ".join(one.trait for one in rest)
        block(page, COLUMN, f"and in {names}", STYLES["dim"])


def _contrast(one: Difference, kind: Kind, *, whole: bool) -> str:
    already = " already" if kind == "upgrade" else ""
    short = f"{one.value}, others{already} have {one.usual}"
    return contrast(one.value, one.usual, short, whole=whole)


def _failing(skew: Skew) -> str:
    """How what differs goes with what fails; nothing where no host fails."""
    if not skew.failing + skew.others_failing:
        return ""
    if len(skew.hosts) == 1:
        own = "it is broken" if skew.failing else "it is not broken"
    else:
        own = f"{_of(skew.failing, 'them')} broken"
    return f"; {own}, {_of(skew.others_failing, 'the others')}"


def _of(count: int, whom: str) -> str:
    return f"{count or 'none'} of {whom} {'is' if count <= 1 else 'are'}"


def _uncleared(page: Page, fleet: Fleet) -> None:
    """Hosts that answered and were not found to be well."""
    same: dict[str, list[str]] = {}
    for host in fleet.hosts:
        if host.bugs:
            same.setdefault("musadoctor itself broke there", []).append(host.host)
        elif host.verdict == "unknown":
            undecided = ", ".join(host.undecided) or "for a reason that its report tells"
            same.setdefault(f"undecided: {undecided}", []).append(host.host)
    _reasons(page, "Not cleared", [("unknown", why, hosts) for why, hosts in same.items()])


def _unanswered(page: Page, fleet: Fleet) -> None:
    same: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for host, kind, reason in fleet.unanswered:
        # Each host's reason names the host.
        alike = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)", "HOST", reason)
        same.setdefault((kind, alike), []).append((host, reason))
    entries = [
        (kind, those[0][1] if len(those) == 1 else alike, [host for host, _ in those])
        for (kind, alike), those in same.items()
    ]
    _reasons(page, "Did not answer", entries)


def _reasons(page: Page, title: str, entries: list[tuple[str, str, list[str]]]) -> None:
    """Label, reason and hosts, those of most hosts first."""
    if not entries:
        return
    heading(page, title)
    entries.sort(key=lambda entry: -len(entry[2]))
    shown = entries[: page.most(MOST_REASONS)]
    column = max(len(label) for label, _, _ in shown) + 2
    for label, reason, hosts in shown:
        parts = [*nodes(page, hosts, column), *words(f": {reason}" if reason else "")]
        row(page, label, column, parts, STYLES["unknown"])
    hidden = sum(len(hosts) for _, _, hosts in entries[len(shown) :])
    more(page, len(entries) - len(shown), f"reasons, of {count(hidden, 'host')}")


def _left_out(page: Page, fleet: Fleet) -> None:
    if fleet.left_out:
        heading(page, "Left out")
    shown = fleet.left_out[: page.most(MOST_LEFT_OUT)]
    for source, reason in shown:
        for number, line in enumerate(wrapped(words(f"{source}: {reason}"), page.width - 3)):
            put(page, f"{'   ' if number else ' '}{line}", STYLES["dim"])
    more(page, len(fleet.left_out) - len(shown), "left out")


def _groups(page: Page, fleet: Fleet) -> None:
    """A line a group, how many of its hosts are what; the sickest groups where they are many."""
    if not fleet.grouped_by:
        return
    counted: dict[str, Counter[str]] = {}
    for host in fleet.hosts:
        counted.setdefault(fleet.groups.get(host.host, ""), Counter())[host.verdict] += 1
    for one in fleet.unanswered:
        counted.setdefault(fleet.groups.get(one.host, ""), Counter())["no answer"] += 1
    heading(page, f"By {fleet.grouped_by}")
    columns = [*VERDICTS, "no answer"]
    sick = sorted(counted, key=lambda name: counted[name]["healthy"] - counted[name].total())
    shown = set(sick[: page.most(MOST_GROUPS)])
    rows = [(name or "(not known)", counts) for name, counts in counted.items() if name in shown]
    width = max(len(name) for name, _ in rows)
    put(page, f" {'':<{width}}   hosts  {'  '.join(columns)}", STYLES["dim"])
    for name, counts in rows:
        figures = "  ".join(f"{counts[column]:>{len(column)}}" for column in columns)
        put(page, f" {name:<{width}}  {counts.total():>6}  {figures}")
    more(page, len(counted) - len(shown), "groups")


def _verdict(page: Page, fleet: Fleet, gate: Gate) -> None:
    """How many hosts are well, which to take out, and what to type."""
    counts = Counter(host.verdict for host in fleet.hosts)
    told = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]]
    if fleet.unanswered:
        told.append(f"{len(fleet.unanswered)} did not answer")
    word = _worst(fleet)
    line = Text()
    line.append(word, VERDICT_STYLES[word])
    line.append(f": {', '.join(told) or 'no host'}")
    page.console.print(line)
    passed = set(healthy(fleet, gate))
    if gate.min_healthy is not None:
        enough = "enough" if len(passed) >= gate.min_healthy else "not enough"
        told_of = f"{enough}: {count(len(passed), 'host')} pass, {gate.min_healthy} needed"
        put(page, told_of, "bold")
    _take_out(page, fleet, passed)
    odd = next((skew for skew in fleet.skews if skew.kind == "odd"), None)
    if odd:
        difference = odd.differences[0]
        said = f": {difference.trait} {_contrast(difference, odd.kind, whole=False)}"
        paragraph(page, [*words("Odd: "), *nodes(page, odd.hosts, 0), *words(said)])
    first = next((c for c in fleet.causes if c.cause.severity == "error"), None)
    if first and first.cause.command:
        put(page, f"Type on {first.hosts[0]}: {first.cause.command}", STYLES["command"])
    if first:
        explain(page, first.cause.id)


def _worst(fleet: Fleet) -> Verdict:
    verdicts: set[Verdict] = {host.verdict for host in fleet.hosts}
    # Hosts that did not answer are not known to be well; where there is none, nothing is known.
    if fleet.unanswered or not fleet.hosts:
        verdicts.add("unknown")
    return min(verdicts, key=WORST_FIRST.index)


def _take_out(page: Page, fleet: Fleet, passed: set[str]) -> None:
    unsure = [host.host for host in fleet.hosts if host.verdict == "unknown"]
    unsure += [one.host for one in fleet.unanswered]
    others = passed.union(unsure)
    failed = [host for host in of_all(fleet) if host not in others]
    if failed:
        paragraph(page, [*words("Take out first: "), *nodes(page, failed, 0)], "bold")
    if unsure:
        paragraph(page, [*words("Not known to be well: "), *nodes(page, unsure, 0)])
