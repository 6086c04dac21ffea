"""What is known of versions, packages, variables and messages: TOML rows, read when first asked.

Every row has ``source``, ``date`` and ``confidence`` (``high``, ``medium``, ``low``). The core
knows nothing of these tables.
"""

import datetime as dt
import functools
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from musadoctor.api import (
    ComponentVersion,
    DriverApiVersion,
    KernelDriverVersion,
    ToolkitVersion,
    WheelVersion,
)

FILES = {
    "pairs.toml": ("driver_toolkit", "toolkit_components", "torch_pair", "toolkit_wheel"),
    "packages.toml": ("placeholder", "wheel_python", "numpy_1"),
    "environment.toml": ("alloc_conf_key",),
    "messages.toml": ("message",),
    "kernel_log.toml": ("refusal", "xid"),
    "kernels.toml": ("tested_kernels", "bad_kernel"),
    "limits.toml": ("device_limit",),
}
"""The tables of each file."""

EQUAL_FROM = (2, 5, 0)
"""From this torch_musa on, its number is that of its torch (torch_musa source; 2026-01)."""

Row = dict[str, object]
Version = ComponentVersion | DriverApiVersion | KernelDriverVersion | ToolkitVersion | WheelVersion


class Origin(NamedTuple):
    """Who says so, when, and how sure it is."""

    source: str
    date: dt.date
    confidence: str

    def __str__(self) -> str:
        return f"{self.source}, {self.date}"


class DriverToolkit(NamedTuple):
    """A kernel driver and a Toolkit that were seen together."""

    driver: str
    toolkit: str
    works: bool
    note: str
    """What goes wrong, or on what condition it works."""
    origin: Origin


class ToolkitComponents(NamedTuple):
    """The muDNN and MCCL numbers that belong to a Toolkit."""

    toolkit: str
    mudnn: tuple[str, ...]
    mccl: tuple[str, ...]
    origin: Origin


class TorchPair(NamedTuple):
    """The torch releases that a torch_musa works with."""

    torch_musa: str
    torch: tuple[str, ...]
    note: str
    origin: Origin


class ToolkitWheel(NamedTuple):
    """The torch_musa releases that a Toolkit is known with."""

    toolkit: str
    torch_musa: tuple[str, ...]
    note: str
    origin: Origin


class Placeholder(NamedTuple):
    """A distribution that is not what its name says."""

    name: str
    version: str
    instead: str
    """What does the work; empty where nothing is known to."""
    origin: Origin


class WheelPython(NamedTuple):
    """A Python release that the vendor publishes wheels for."""

    python: str
    torch_musa: str
    """Which of them, as text."""
    origin: Origin


class Numpy1(NamedTuple):
    """A torch release that is published with a numpy below 2."""

    torch: str
    origin: Origin


class AllocConfKey(NamedTuple):
    """A key of ``PYTORCH_MUSA_ALLOC_CONF``; a final ``*`` stands for any ending."""

    key: str
    origin: Origin


class Message(NamedTuple):
    """An error text and what it means."""

    pattern: re.Pattern[str]
    meaning: str
    fix: str
    origin: Origin
    cause: str
    """The check whose fault it is a sign of; empty where it may be the sign of several."""
    alone: re.Pattern[str] | None
    """What tells the cause in any text of MUSA, not only in a tool's or torch's own answer;
    ``None`` where it is ``pattern``."""
    before: re.Pattern[str] | None
    """What has to stand in the lines just above."""


class Refusal(NamedTuple):
    """A line with which the kernel refuses to load the module mtgpu."""

    pattern: re.Pattern[str]
    kind: str
    """``other kernel``, ``signature`` or ``option``."""
    meaning: str
    fix: str
    origin: Origin


class Xid(NamedTuple):
    """A fault by the number that the driver gives it."""

    code: str
    meaning: str
    origin: Origin


class DeviceLimit(NamedTuple):
    """What cards below a compute capability cannot do."""

    subject: str
    below: str
    """The first capability that can."""
    meaning: str
    instead: str
    origin: Origin


def rows(table: str) -> list[Row]:
    """The raw rows of a table."""
    (file,) = (name for name, tables in FILES.items() if table in tables)
    return cast("list[Row]", read(file)[table])


@functools.cache
def read(file: str) -> dict[str, object]:
    """One file of the knowledge, parsed."""
    text = cast("bytes", pkgutil.get_data(__name__, file)).decode()
    # Not imported above: it takes 12 ms, and many a run never asks.
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    return cast("dict[str, object]", toml.loads(text))


def _text(row: Row, key: str) -> str:
    return cast("str", row.get(key, ""))


def _texts(row: Row, key: str) -> tuple[str, ...]:
    return tuple(cast("list[str]", row[key]))


def _origin(row: Row) -> Origin:
    return Origin(_text(row, "source"), cast("dt.date", row["date"]), _text(row, "confidence"))


@functools.cache
def driver_toolkit() -> tuple[DriverToolkit, ...]:
    """Kernel drivers and Toolkits that were seen together."""
    return tuple(
        DriverToolkit(
            _text(row, "driver"),
            _text(row, "toolkit"),
            cast("bool", row["works"]),
            _text(row, "note"),
            _origin(row),
        )
        for row in rows("driver_toolkit")
    )


@functools.cache
def toolkit_components() -> tuple[ToolkitComponents, ...]:
    """The muDNN and MCCL of each Toolkit."""
    return tuple(
        ToolkitComponents(
            _text(row, "toolkit"), _texts(row, "mudnn"), _texts(row, "mccl"), _origin(row)
        )
        for row in rows("toolkit_components")
    )


@functools.cache
def torch_pairs() -> tuple[TorchPair, ...]:
    """The torch of each torch_musa, where the numbers are not equal."""
    return tuple(
        TorchPair(_text(row, "torch_musa"), _texts(row, "torch"), _text(row, "note"), _origin(row))
        for row in rows("torch_pair")
    )


@functools.cache
def toolkit_wheels() -> tuple[ToolkitWheel, ...]:
    """The torch_musa of each Toolkit."""
    return tuple(
        ToolkitWheel(
            _text(row, "toolkit"), _texts(row, "torch_musa"), _text(row, "note"), _origin(row)
        )
        for row in rows("toolkit_wheel")
    )


@functools.cache
def placeholders() -> tuple[Placeholder, ...]:
    """Distributions that are not what their names say."""
    return tuple(
        Placeholder(_text(row, "name"), _text(row, "version"), _text(row, "instead"), _origin(row))
        for row in rows("placeholder")
    )


@functools.cache
def wheel_pythons() -> tuple[WheelPython, ...]:
    """Python releases that wheels are published for."""
    return tuple(
        WheelPython(_text(row, "python"), _text(row, "torch_musa"), _origin(row))
        for row in rows("wheel_python")
    )


@functools.cache
def numpy_1() -> tuple[Numpy1, ...]:
    """torch releases that are published with a numpy below 2."""
    return tuple(Numpy1(_text(row, "torch"), _origin(row)) for row in rows("numpy_1"))


@functools.cache
def alloc_conf_keys() -> tuple[AllocConfKey, ...]:
    """The keys of ``PYTORCH_MUSA_ALLOC_CONF``."""
    return tuple(AllocConfKey(_text(row, "key"), _origin(row)) for row in rows("alloc_conf_key"))


_MESSAGE = re.IGNORECASE | re.ASCII
"""Of the patterns: a word ends where a Chinese one begins."""


@functools.cache
def messages() -> tuple[Message, ...]:
    """Error texts and their meaning, the particular ones first."""
    return tuple(
        Message(
            re.compile(_text(row, "pattern"), _MESSAGE),
            _text(row, "meaning"),
            _text(row, "fix"),
            _origin(row),
            _text(row, "cause"),
            re.compile(_text(row, "alone"), _MESSAGE) if "alone" in row else None,
            re.compile(_text(row, "before"), _MESSAGE) if "before" in row else None,
        )
        for row in rows("message")
    )


@functools.cache
def refusals() -> tuple[Refusal, ...]:
    """Lines with which the kernel refuses the module."""
    return tuple(
        Refusal(
            re.compile(_text(row, "pattern"), re.IGNORECASE),
            _text(row, "kind"),
            _text(row, "meaning"),
            _text(row, "fix"),
            _origin(row),
        )
        for row in rows("refusal")
    )


@functools.cache
def xids() -> tuple[Xid, ...]:
    """Faults by number."""
    return tuple(
        Xid(_text(row, "code"), _text(row, "meaning"), _origin(row)) for row in rows("xid")
    )


@functools.cache
def device_limits() -> tuple[DeviceLimit, ...]:
    """What cards cannot do by themselves."""
    return tuple(
        DeviceLimit(
            _text(row, "subject"),
            _text(row, "below"),
            _text(row, "meaning"),
            _text(row, "instead"),
            _origin(row),
        )
        for row in rows("device_limit")
    )


def device_limit(subject: str) -> DeviceLimit:
    """The limit of that name."""
    (limit,) = (limit for limit in device_limits() if limit.subject == subject)
    return limit


def explained(texts: Iterable[str]) -> Message | None:
    """The first known message in any of the texts."""
    known = list(texts)
    return next(
        (m for m in messages() if not m.before and any(m.pattern.search(text) for text in known)),
        None,
    )


def covers(number: str, version: Version) -> bool:
    """Whether a row's number stands for a version: ``4.0`` for ``4.0.1``, but not for ``4``."""
    parts = tuple(int(part) for part in number.split(".") if part.isdigit())
    return parts == version.key[: len(parts)]


def dated(origins: Sequence[Origin]) -> str:
    """The newest date in a table: what is later cannot be in it."""
    return str(max(origin.date for origin in origins))


def public(version: WheelVersion) -> str:
    """A wheel's number without its label: ``2.11.0.post2`` of ``2.11.0.post2+musa5.2.0``."""
    return str(version).partition("+")[0]


def torch_for(torch_musa: WheelVersion) -> tuple[str, ...]:
    """The torch releases that a torch_musa needs, none where that is not known."""
    row = next((row for row in torch_pairs() if covers(row.torch_musa, torch_musa)), None)
    if row is not None:
        return row.torch
    return (public(torch_musa),) if torch_musa.key >= EQUAL_FROM else ()


def torch_musa_for(toolkit: ToolkitVersion) -> tuple[str, ...]:
    """The torch_musa releases that a Toolkit is known with."""
    row = next((row for row in toolkit_wheels() if covers(row.toolkit, toolkit)), None)
    return row.torch_musa if row else ()
