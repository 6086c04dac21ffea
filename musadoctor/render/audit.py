"""What leaves the device, as tables to plan the porting of a model by."""

from collections.abc import Iterator, Mapping
from typing import cast

from musadoctor.printable import printable
from musadoctor.report import JSON

Object = Mapping[str, JSON]


def render(steps: JSON) -> str:
    """Tables of the fact ``device_steps`` as a report has it; empty where nothing was audited."""
    items = steps.get("items") if isinstance(steps, dict) else None
    lines: list[str] = []
    for step in _objects(items):
        value, name = step.get("value"), str(step.get("name"))
        if (
            name.startswith("fallback: ")
            and isinstance(value, dict)
            and step.get("state") == "done"
        ):
            lines += ["", *_table(f"{step.get('device')}: {_subject(name, value)}", value)]
    return printable("\n".join(lines)) + "\n" if lines else ""


def _subject(name: str, value: Object) -> str:
    return str(value.get("function") or name.partition(": ")[2])


def _table(title: str, value: Object) -> Iterator[str]:
    if "operators" in value and not isinstance(value["operators"], list):
        yield from _dispatched(title, value)
        return
    rows = _objects(value.get("operators"))
    yield (
        f"{title}: {_number(value, 'leaving'):.0f} operators leave the device,"
        f" {_number(value, 'share'):.1%} of {_number(value, 'seconds') * 1000:.1f} ms"
    )
    named = [str(row.get("operator")) for row in rows]
    width = max(map(len, ("operator", *named)))
    if rows:
        yield f"  {'operator':<{width}}  {'calls':>7}  {'share':>6}  {'ms':>9}  {'KiB copied':>12}"
    for name, row in zip(named, rows, strict=True):
        yield (
            f"  {name:<{width}}  {_number(row, 'count'):>7.0f}  {_number(row, 'share'):>6.1%}"
            f"  {_number(row, 'seconds') * 1000:>9.3f}  {_number(row, 'bytes') / 1024:>12.1f}"
        )
    hidden = _number(value, "leaving") - len(rows)
    if hidden > 0:
        yield f"  and {hidden:.0f} more"
    for key, what in (("missing", "not implemented"), ("failed", "failed")):
        broken = value.get(key)
        for name, message in broken.items() if isinstance(broken, dict) else ():
            yield f"  {name}: {what}: {message}"


def _dispatched(title: str, value: Object) -> Iterator[str]:
    """What the dispatcher's tables say, in figures; the names are in the report as JSON."""
    lists = {key: value.get(key) for key in ("falls_back", "missing")}
    falls_back, missing = (len(names) if isinstance(names, list) else 0 for names in lists.values())
    yield (
        f"{title}: of {_number(value, 'operators'):.0f} operators {_number(value, 'covered'):.0f}"
        f" have a kernel of the device, {_number(value, 'composite'):.0f} are made of others,"
        f" {falls_back} are computed on the CPU, {missing} are missing, and"
        f" {_number(value, 'elsewhere'):.0f} are for other devices"
    )


def _objects(value: JSON) -> list[Object]:
    items = value if isinstance(value, list) else []
    return [cast("Object", item) for item in items if isinstance(item, dict)]


def _number(value: Object, name: str) -> float:
    found = value.get(name)
    return float(found) if isinstance(found, (int, float)) else 0.0
