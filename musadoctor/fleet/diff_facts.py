"""Which values differ between the facts of two reports, and which of these mean nothing."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeGuard

from musadoctor.fleet.answer import line
from musadoctor.report import JSON

LONGEST_SHOWN = 200
"""Characters that are kept of a value."""
DEEPEST = 20
"""Nothing of ours is nested deeper, and what is so is not compared."""
NAMED_BY = ("ordinal", "address", "name", "soname", "path", "root")
"""Fields by which the records of a list are known, whatever their order."""
_VOLATILE = re.compile(
    # Who computes at the moment, what the kernel said since, and what verify measured.
    r"(?:gmi\.processes|kernel_log|messages|[a-z]+_steps)(?:[.\[].*)?"
    r"|.*\.(?:used_mib|seconds|pid)",
    re.DOTALL,
)


class FactChange(NamedTuple):
    """A value in the facts that is another now."""

    path: str
    """``gmi.cards[0].used_mib``; records that have a name of their own stand under it, as in
    ``distributions.items[torch].version``."""
    before: str
    """As JSON, cut where it is long; ``""`` where there is no such value."""
    after: str


def fact_changes(before: Mapping[str, JSON], after: Mapping[str, JSON]) -> Iterator[FactChange]:
    """Every value that is on one side only, or another on each."""
    for name in dict.fromkeys([*before, *after]):
        yield from _changes(line(name), before.get(name), after.get(name), DEEPEST)


def volatile(change: FactChange) -> bool:
    """Whether the value is another every time, and means nothing: used memory, durations."""
    return _VOLATILE.fullmatch(change.path) is not None


def fact_of(change: FactChange) -> str:
    """The name of the fact that holds the value."""
    return re.split(r"[.\[]", change.path, maxsplit=1)[0]


def _changes(path: str, before: JSON, after: JSON, depth: int) -> Iterator[FactChange]:
    if depth == 0:
        return
    if _is_whole(before) and _is_whole(after):
        for name in dict.fromkeys([*before, *after]):
            part = f"{path}.{line(name)}"
            yield from _changes(part, before.get(name), after.get(name), depth - 1)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_lists(path, before, after, depth)
    elif type(before) is not type(after) or before != after:
        yield FactChange(path, _shown(before), _shown(after))


def _is_whole(value: JSON) -> TypeGuard[dict[str, JSON]]:
    """Whether a value is a record, and not one of the two states of a fact without one."""
    return isinstance(value, dict) and set(value) not in ({"absent"}, {"unknown"})


def _of_lists(path: str, before: list[JSON], after: list[JSON], depth: int) -> Iterator[FactChange]:
    texts, others = _texts(before), _texts(after)
    if texts is not None and others is not None:
        if before != after:
            gone = [text for text in texts if text not in others]
            new = [text for text in others if text not in texts]
            # Where neither, the order is another one.
            whole = not gone and not new
            yield FactChange(
                path, _shown(before if whole else gone), _shown(after if whole else new)
            )
        return
    one, other = _named(before, after)
    for name in dict.fromkeys([*one, *other]):
        yield from _changes(f"{path}[{name}]", one.get(name), other.get(name), depth - 1)


def _texts(values: list[JSON]) -> dict[JSON, None] | None:
    """The texts of a list, each once; ``None`` where anything else is among them."""
    texts: dict[JSON, None] = {value: None for value in values if isinstance(value, str)}
    return texts if all(isinstance(value, str) for value in values) else None


def _named(before: list[JSON], after: list[JSON]) -> tuple[dict[str, JSON], dict[str, JSON]]:
    """The elements of two lists, by the first field that tells all of each apart, else counted."""
    for field in NAMED_BY:
        one, other = _by(field, before), _by(field, after)
        if len(one) == len(before) and len(other) == len(after):
            return one, other
    numbered = ({str(place): value for place, value in enumerate(of)} for of in (before, after))
    return next(numbered), next(numbered)


def _by(field: str, values: list[JSON]) -> dict[str, JSON]:
    named: dict[str, JSON] = {}
    for value in values:
        if isinstance(value, dict) and isinstance(name := value.get(field), (str, int)):
            named[line(str(name))] = value
    return named


def _shown(value: JSON) -> str:
    if value is None or value == []:
        return ""
    if isinstance(value, dict) and not _is_whole(value):
        ((state, reason),) = value.items()
        return line(f"{state}: {reason if isinstance(reason, str) else '?'}", LONGEST_SHOWN)
    try:
        return line(json.dumps(value, ensure_ascii=False), LONGEST_SHOWN)
    except RecursionError:
        return "nested too deeply"
