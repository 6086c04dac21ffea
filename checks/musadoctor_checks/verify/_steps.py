"""What the families of ``verify`` share: figures out of steps, and why there are none."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from musadoctor.api import Absent, Step, Steps, Unknown
from musadoctor_checks._advice import some


def done(steps: Steps, name: str) -> list[Step]:
    """The steps that begin so and have been taken to their end."""
    return [step for step in steps.of(name) if step.state == "done"]


def unanswered(steps: Steps, name: str) -> Iterator[Unknown | Absent]:
    """What keeps a check from judging: steps that did not end, or that none has been taken."""
    told = list(steps.of(name))
    lost = [step for step in told if step.state not in {"done", "skipped"}]
    for words, names in grouped(lost).items():
        yield Unknown(f"{names}: {words}")
    if not lost and not done(steps, name):
        reasons = dict.fromkeys(step.message.removeprefix("Skip: ") for step in told)
        yield Absent("; ".join(reasons) or f"no step {name!r} was taken")


def grouped(steps: Sequence[Step]) -> dict[str, str]:
    """What steps came to, each with the devices that it holds for."""
    devices: dict[str, list[str]] = {}
    for step in steps:
        task = step.name.partition(": ")[2]
        words = f"{task} {step.state}: {step.message}" if step.message else f"{task} {step.state}"
        pair = not step.device.startswith("rank ")
        device = step.device.replace(" ", " to ") if pair else step.device
        devices.setdefault(words, []).append(device)
    return {words: some(names) for words, names in devices.items()}


def number(value: Mapping[str, object], name: str) -> float | None:
    """A number that was measured; ``None`` where there is none."""
    found = value.get(name)
    return float(found) if isinstance(found, (int, float)) else None


def texts(value: Mapping[str, object], name: str) -> list[str]:
    """A list of names."""
    found = value.get(name)
    return [str(item) for item in cast("list[object]", found)] if isinstance(found, list) else []


def mapping(value: Mapping[str, object], name: str) -> dict[str, str]:
    """Texts by name."""
    found = value.get(name)
    if not isinstance(found, dict):
        return {}
    return {str(key): str(item) for key, item in cast("dict[object, object]", found).items()}


def rows(value: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    """The rows of a table."""
    found = value.get(name)
    items = cast("list[object]", found) if isinstance(found, list) else []
    return [cast("Mapping[str, object]", item) for item in items if isinstance(item, dict)]


def size(count: float) -> str:
    """Bytes for people."""
    if count < 1 << 20:
        return f"{count / 1024:.1f} KiB"
    return f"{count / 2**20:.1f} MiB" if count < 1 << 30 else f"{count / 2**30:.1f} GiB"


def speed(rate: float) -> str:
    """Bytes a second for people, in units of 10^9 as links are sold."""
    return f"{rate / 1e9:.1f} GB/s"
