"""What ``verify`` measured, as tables under the report."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from musadoctor.facts.steps import Rate, Step, StepState
from musadoctor.printable import printable
from musadoctor.report import JSON

PHASES = ("device_steps", "transfer_steps", "rank_steps")
TITLES = {
    "throughput": "Speed, the largest size that was run",
    "memory": "Copies",
    "collectives": "Collectives, the largest size that was run",
}
NARROWEST, WIDEST = 40, 100
MOST_DEVICES = 4


def render(facts: Mapping[str, JSON], columns: int) -> str:
    """The tables; empty where nothing was measured."""
    width = max(NARROWEST, min(WIDEST, columns))
    steps = [step for phase in PHASES for step in _steps(facts.get(phase))]
    parts: list[str] = []
    counted = _counts(steps)
    if counted:
        parts += ["", "Steps", *_table(counted, width)]
    for family, title in TITLES.items():
        rows = list(_rates([step for step in steps if step.family == family]))
        if rows:
            parts += ["", title, *_wrapped(rows, width)]
    return "".join(f"{line}\n" for line in parts)


def _counts(steps: Sequence[Step]) -> list[list[str]]:
    """How many steps of each family came out how, per device."""
    rows: dict[str, dict[str, list[Step]]] = {}
    for step in steps:
        if " " not in step.device:
            rows.setdefault(step.device, {}).setdefault(step.family, []).append(step)
    families = list(dict.fromkeys(family for row in rows.values() for family in row))
    if not rows:
        return []
    head = ["", *families]
    return [
        head,
        *([device, *(_done(row.get(f, [])) for f in families)] for device, row in rows.items()),
    ]


def _done(steps: Sequence[Step]) -> str:
    asked = [step for step in steps if step.state != "skipped"]
    done = sum(step.state == "done" for step in asked)
    return f"{done}/{len(asked)}" if asked else "-"


def _rates(steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """Each thing that was measured, with its speed on each device, or the range of many."""
    last: dict[str, dict[str, Rate]] = {}
    for step in steps:
        for rate in step.rates:
            what, _, size = rate.name.partition(": ")[2].partition(", ")
            # The last size is the largest; what bears no number is a thing of its own.
            sized = not size or size.partition(" ")[0].isdecimal()
            last.setdefault(what if sized else size, {})[rate.device] = rate
    for what, rates in last.items():
        unit = next(iter(rates.values())).unit
        values = {_named(device): rate.value for device, rate in rates.items()}
        if len(values) > MOST_DEVICES:
            low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
            told = f"{values[low]:.4g} ({low}) to {values[high]:.4g} ({high}) {unit}"
        else:
            told = ", ".join(f"{device} {value:.4g}" for device, value in values.items())
            told = f"{told} {unit}"
        yield what, told


def _named(device: str) -> str:
    """A device, a pair of devices, or a rank."""
    return device if device.startswith("rank") else device.replace(" ", " to ")


def _wrapped(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """A label, and a text in a column of its own."""
    first = min(max(len(label) for label, _ in rows), width // 2)
    for label, words in rows:
        indent = " " * (first + 4)
        yield from textwrap.wrap(
            printable(words),
            width,
            initial_indent=f"  {label:<{first}}  ",
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )


def _table(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Rows in columns; what does not fit goes below under a heading of its own."""
    first = max(len(row[0]) for row in rows)
    widths = [max(len(row[i]) for row in rows) for i in range(1, len(rows[0]))]
    start = 0
    while start < len(widths):
        end, used = start, first + 2
        while end < len(widths) and (end == start or used + widths[end] + 2 <= width):
            used += widths[end] + 2
            end += 1
        for row in rows:
            cells = (f"  {row[i + 1]:>{widths[i]}}" for i in range(start, end))
            yield printable(f"  {row[0]:<{first}}{''.join(cells)}".rstrip())
        start = end


def _steps(fact: JSON) -> Iterator[Step]:
    items = fact.get("items") if isinstance(fact, dict) else None
    for item in cast("list[dict[str, object]]", items or []):
        yield Step(
            device=str(item["device"]),
            name=str(item["name"]),
            state=cast("StepState", item["state"]),
            value=cast("Mapping[str, object]", item["value"]),
        )
