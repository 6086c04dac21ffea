"""Which checks are to run: by id, former id or family."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from musadoctor.api import Check


class SelectionError(ValueError):
    """A name that is no check, no family or no fact, or a choice that leaves no check."""


class Selection(NamedTuple):
    """The checks to run, and those that were left out on purpose."""

    chosen: tuple[Check, ...]
    ignored: tuple[tuple[Check, str], ...]
    """With the reason that was given, empty where none was."""


def select(checks: Sequence[Check], wanted: Sequence[str], unwanted: Sequence[str]) -> Selection:
    """Choose among ``checks``: all, or those that ``wanted`` names, less those of ``unwanted``.

    A name is an id, a former id or a family; one of ``unwanted`` may be ``NAME=REASON``. Names
    may stand together, separated by commas, where no reason is given.

    Raises:
        SelectionError: with one sentence that names what is wrong.
    """
    names = {name for given in wanted for name in given.split(",")}
    reasons: dict[str, str] = {}
    for given in unwanted:
        name, separated, reason = given.partition("=")
        for one in (name,) if separated else name.split(","):
            reasons[one] = reason.strip()
    known = {name for check in checks for name in _names(check)}
    for name in (*names, *reasons):
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SelectionError(f"{name!r} is no check and no family{hint} (see musadoctor list)")
    chosen: list[Check] = []
    ignored: list[tuple[Check, str]] = []
    for check in checks:
        if names and names.isdisjoint(_names(check)):
            continue
        given_reason = next((reasons[name] for name in _names(check) if name in reasons), None)
        if given_reason is None:
            chosen.append(check)
        else:
            ignored.append((check, given_reason))
    if not chosen:
        raise SelectionError("no check is left to run")
    return Selection(tuple(chosen), tuple(ignored))


def find(checks: Sequence[Check], name: str) -> Check:
    """The check of an id or former id.

    Raises:
        SelectionError: there is none.
    """
    for check in checks:
        if name in {check.id, *check.aliases}:
            return check
    near = get_close_matches(name, [check.id for check in checks], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise SelectionError(f"{name!r} is no check{hint} (see musadoctor list)")


def some_facts(wanted: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The facts that are named, among those that are ``known``; names may stand in one, by commas.

    Raises:
        SelectionError: there is no such fact.
    """
    names = tuple(name for given in wanted for name in given.split(","))
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected {', '.join(sorted(known))}"
            raise SelectionError(f"{name!r} is no fact; {hint}")
    return names


def _names(check: Check) -> tuple[str, ...]:
    return (check.id, *check.aliases, check.family)
