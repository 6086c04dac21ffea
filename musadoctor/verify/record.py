"""The file of an accepted host: written by ``--save``, read by ``--compare``."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from musadoctor import __version__
from musadoctor.facts.accepted import Accepted, Curve
from musadoctor.facts.steps import Rate, Step
from musadoctor.report import JSON
from musadoctor.verify.phases import Settings

FORMAT = "musadoctor-accepted"
VERSION = 1
MOST_BYTES = 16 << 20
PHASES = ("device_steps", "transfer_steps", "rank_steps")
TEXTS = ("saved", "musadoctor", "kind", "level", "torch")


class RecordError(ValueError):
    """A file is no record that a host can be compared to."""


def record(facts: Mapping[str, JSON], settings: Settings, saved: str) -> str:
    """The text of a record of what the facts of a report tell."""
    steps = [step for phase in PHASES for step in _steps(facts.get(phase))]
    census = next(iter(_steps(facts.get("visible_devices"))), None)
    value: Mapping[str, object] = census.value if census else {}
    body = {
        "format": FORMAT,
        "version": VERSION,
        "musadoctor": __version__,
        "saved": saved,
        "kind": settings.kind,
        "level": settings.level,
        "torch": str(value.get("torch", "")),
        "devices": [str(one.get("name")) for one in _objects(value.get("devices"))],
        "rates": [rate._asdict() for step in steps for rate in step.rates],
        "curves": [
            {"device": step.device, "name": step.name, "losses": step.value["curve"]}
            for step in steps
            if step.state == "done" and "curve" in step.value
        ],
        "off_device": sorted({name for step in steps for name in _off(step)}),
        "left_device": sorted({name for step in steps for name in _left(step)}),
    }
    return json.dumps(body, ensure_ascii=False, indent=1) + "\n"


def read(path: str, tolerance: float) -> Accepted:
    """Read a record's file.

    Raises:
        RecordError: it cannot be read or is no record, with one sentence that says why.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise RecordError(f"{path}: larger than {MOST_BYTES >> 20} MiB, so no record")
    try:
        loaded: object = json.loads(data)
    except (ValueError, RecursionError):
        raise RecordError(f"{path}: expected a record of verify --save, found no JSON") from None
    body = cast("dict[str, object]", loaded) if isinstance(loaded, dict) else {}
    if body.get("format") != FORMAT:
        raise RecordError(f'{path}: expected a record of verify --save ("format": "{FORMAT}")')
    if body.get("version") != VERSION:
        raise RecordError(f"{path}: expected version {VERSION} of records, found another")
    try:
        return _accepted(path, body, tolerance)
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path}: a damaged record: {_what(error)}") from None


def _accepted(path: str, body: Mapping[str, object], tolerance: float) -> Accepted:
    saved, musadoctor, kind, level, torch = (_text(body[name]) for name in TEXTS)
    return Accepted(
        file=path,
        saved=saved,
        musadoctor=musadoctor,
        kind=kind,
        level=level,
        torch=torch,
        devices=_texts(body["devices"]),
        rates=tuple(
            Rate(
                _text(one["device"]), _text(one["name"]), _number(one["value"]), _text(one["unit"])
            )
            for one in _whole(body["rates"])
        ),
        curves=tuple(
            Curve(
                _text(one["device"]), _text(one["name"]), tuple(map(_number, _list(one["losses"])))
            )
            for one in _whole(body["curves"])
        ),
        off_device=_texts(body["off_device"]),
        left_device=_texts(body["left_device"]),
        tolerance=tolerance,
    )


def _what(error: Exception) -> str:
    return f"no {error}" if isinstance(error, KeyError) else str(error)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {json.dumps(value)[:40]}")
    return value


def _number(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"expected a number, found {json.dumps(value)[:40]}")
    return float(value)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {json.dumps(value)[:40]}")
    return cast("list[object]", value)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(_text, _list(value)))


def _whole(value: object) -> Iterator[Mapping[str, object]]:
    for one in _list(value):
        if not isinstance(one, dict):
            raise TypeError(f"expected an object, found {json.dumps(one)[:40]}")
        yield cast("Mapping[str, object]", one)


def _steps(fact: JSON) -> Iterator[Step]:
    """The steps of a fact as a report has it; none where it is absent or unknown."""
    for item in _objects(fact.get("items") if isinstance(fact, dict) else None):
        yield Step(
            device=str(item["device"]),
            name=str(item["name"]),
            state="done" if item["state"] == "done" else "failed",
            value=cast("Mapping[str, object]", item["value"]),
        )


def _objects(value: object) -> Sequence[Mapping[str, object]]:
    return cast("list[Mapping[str, object]]", value) if isinstance(value, list) else ()


def _off(step: Step) -> Iterator[str]:
    for key in ("falls_back", "missing"):
        found = step.value.get(key) if step.name == "fallback: static" else None
        yield from cast("list[str]", found or [])


def _left(step: Step) -> Iterator[str]:
    if step.name.startswith("fallback: model"):
        for row in _objects(step.value.get("operators")):
            yield str(row.get("operator"))
