"""What changed between two hosts, or two days, for a person at a terminal.

As in the report on many hosts, what is worse comes first, and the end says what to look at.
"""

from collections.abc import Sequence
from typing import TextIO

from rich.text import Text

from musadoctor import __version__
from musadoctor.fleet.diff import NO_ANSWER, Diff, FleetDiff, HostChange, Side
from musadoctor.fleet.diff_checks import StatusChange
from musadoctor.fleet.diff_facts import FactChange
from musadoctor.render.fleet import COLUMN, SEVERITY_STYLES
from musadoctor.render.page import (
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
from musadoctor.render.text import STYLES

MOST_CHANGES = 10
MOST_TRAITS = 15
MOST_FACTS = 15
WEIGHTY = 4
"""From this weight on a trait stands out."""
STYLES_OF = {"worse": STYLES["error"], "better": STYLES["passed"], "changed": "bold"}


def render_hosts(diff: Diff, stream: TextIO, *, verbose: bool = False) -> None:
    """Print what differs between two reports."""
    page = new_page(stream, whole=verbose)
    before, after = diff.before, diff.after
    put(page, f"musadoctor {__version__} fleet diff: {_side(before)} -> {_side(after)}", "bold")
    if before.musadoctor != after.musadoctor:
        versions = f"{before.musadoctor or '?'} and {after.musadoctor or '?'}"
        put(page, f"They are of musadoctor {versions}: some of it may come from that.", "yellow")
    _checks(page, "Worse", diff.worse)
    _checks(page, "Better", diff.better)
    _checks(page, "Failed before and now, in another way", diff.otherwise)
    _traits(page, diff)
    _facts(page, "Other values", diff.facts, MOST_FACTS)
    if page.whole:
        _facts(page, "Values that always change", diff.volatile, MOST_FACTS)
    put(page)
    checks = _parts(
        (diff.worse, "worse"), (diff.better, "better"), (diff.otherwise, "failing in another way")
    )
    values = _parts((diff.traits, "that ought to be equal"), (diff.facts, "other"))
    if diff.cut:
        values.append("and more that is not kept")
    parts = [
        f"{what}: {', '.join(those)}"
        for what, those in (("checks", checks), ("values", values))
        if those
    ]
    word = "worse" if diff.worse else "better" if diff.better else "changed" if parts else "equal"
    _last(page, word, "; ".join(parts) or "nothing differs that means anything")
    first = next((change for change in diff.worse if not change.caused_by), None)
    if first:
        said = f"First: {first.id}: {first.message or first.title}"
        paragraph(page, words(said))
        explain(page, first.id)


def _parts(*found: tuple[Sequence[object], str]) -> list[str]:
    return [f"{len(those)} {what}" for those, what in found if those]


def _checks(page: Page, title: str, changes: Sequence[StatusChange]) -> None:
    if changes:
        heading(page, title)
    shown = changes[: page.most(MOST_CHANGES)]
    for change in shown:
        status = f"{change.before or 'not there'} -> {change.after or 'not there'}"
        follows = f" (follows from {change.caused_by})" if change.caused_by else ""
        parts = words(f"{change.id}: {status}{follows}")
        row(page, change.severity, COLUMN, parts, SEVERITY_STYLES[change.severity])
        if not change.caused_by or page.whole:
            block(page, COLUMN, change.message or change.title)
    more(page, len(changes) - len(shown), "checks")


def _traits(page: Page, diff: Diff) -> None:
    if not diff.traits:
        return
    heading(page, "Ought to be equal")
    shown = diff.traits[: page.most(MOST_TRAITS)]
    column = max(len(change.trait) for change in shown) + 2
    for change in shown:
        told = _arrow(change.before, change.after, whole=page.whole)
        style = "bold" if change.weight >= WEIGHTY else ""
        row(page, change.trait, column, words(told), style)
    more(page, len(diff.traits) - len(shown), "of these")


def _facts(page: Page, title: str, facts: Sequence[FactChange], most: int) -> None:
    if facts:
        heading(page, title)
    shown = facts[: page.most(most)]
    for change in shown:
        before, after = change.before or "not there", change.after or "not there"
        told = f"{change.path}: {_arrow(before, after, whole=page.whole)}"
        for number, line in enumerate(wrapped(words(told), page.width - 3)):
            put(page, f"{'   ' if number else ' '}{line}")
    more(page, len(facts) - len(shown), "values")


def render_fleets(
    diff: FleetDiff, names: tuple[str, str], stream: TextIO, *, verbose: bool = False
) -> None:
    """Print what changed from one day of a fleet to another; ``names`` are those of the files."""
    page = new_page(stream, whole=verbose)
    asked = f"{count(diff.compared, 'host')} on both"
    put(page, f"musadoctor {__version__} fleet diff: {names[0]} -> {names[1]}: {asked}", "bold")
    _changes(page, diff.changes)
    _fleet_traits(page, diff)
    for title, hosts in (("Only in the first", diff.vanished), ("New", diff.appeared)):
        if hosts:
            heading(page, title)
            row(page, "", 0, nodes(page, hosts, 0))
    put(page)
    worse = [change for change in diff.changes if change.worse]
    told = [
        f"{number} {what}"
        for number, what in (
            (sum(len(change.hosts) for change in worse), "worse"),
            (sum(len(c.hosts) for c in diff.changes if not c.worse), "better or changed"),
            (len(diff.vanished), "gone"),
            (len(diff.appeared), "new"),
        )
        if number
    ]
    word = "worse" if worse else "changed" if told or diff.traits else "equal"
    _last(page, word, ", ".join([*told, f"{diff.unchanged} unchanged"]))
    if worse:
        first = worse[0]
        parts = [*words("Look first at "), *nodes(page, first.hosts, 0), *words(_state(first))]
        paragraph(page, parts, "bold")
        if first.new:
            explain(page, first.new[0].id)


def _changes(page: Page, changes: Sequence[HostChange]) -> None:
    if changes:
        heading(page, "Hosts")
    shown = changes[: page.most(MOST_CHANGES)]
    for change in shown:
        word = _word(change)
        parts = [*nodes(page, change.hosts, COLUMN), *words(_state(change))]
        row(page, word, COLUMN, parts, STYLES_OF[word])
        host = change.hosts[0]
        for cause in change.new:
            told = f"{cause.severity} {cause.id}, on {host}: {cause.message or cause.title}"
            block(page, COLUMN, told)
            if cause.command:
                command(page, COLUMN, cause.command)
        if change.reason:
            block(page, COLUMN, f"{host}: {change.reason}")
        if change.gone:
            block(page, COLUMN, f"no longer: {', '.join(change.gone)}")
    hidden = sum(len(change.hosts) for change in changes[len(shown) :])
    more(page, len(changes) - len(shown), f"changes, of {count(hidden, 'host')}")


def _fleet_traits(page: Page, diff: FleetDiff) -> None:
    if not diff.traits:
        return
    heading(page, "Ought to stay equal")
    shown = diff.traits[: page.most(MOST_TRAITS)]
    column = max(len(one.change.trait) for one in shown) + 2
    for change, hosts in shown:
        told = _arrow(change.before, change.after, whole=page.whole)
        parts = [*words(f"{told}: "), *nodes(page, hosts, column)]
        row(page, change.trait, column, parts, "bold" if change.weight >= WEIGHTY else "")
    more(page, len(diff.traits) - len(shown), "of these")


def _word(change: HostChange) -> str:
    if change.worse:
        return "worse"
    # Nothing tells that such a host is well.
    return "changed" if change.after in {NO_ANSWER, "unknown"} else "better"


def _state(change: HostChange) -> str:
    if change.before == change.after:
        return f": still {change.after}"
    return f": {change.before} -> {change.after}"


def _side(side: Side) -> str:
    return f"{side.name} ({side.verdict})"


def _arrow(before: str, after: str, *, whole: bool) -> str:
    """A change; of long values, the words that came and that went."""
    return contrast(after, before, f"{before} -> {after}", whole=whole)


def _last(page: Page, word: str, told: str) -> None:
    line = Text()
    line.append(word, STYLES_OF.get(word, STYLES["passed"]))
    line.append(f": {told}")
    page.console.print(line)
