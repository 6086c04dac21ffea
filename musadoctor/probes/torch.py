"""What torch and torch_musa do in the examined interpreter, told by one child.

It answers in JSON lines::

    {"begin": "import torch"}
    {"end": "import torch", "value": {"version": "2.7.1", ...}, "seconds": 3.1, "warnings": []}
    {"begin": "import torch_musa"}
    {"end": "import torch_musa", "chain": ["ImportError: Please ...", "ImportError: libm..."], ...}
    {"end": "all"}

A child that dies or hangs leaves out the closing line, and the step that had begun names itself.
"""

import re
from typing import NamedTuple, cast

from musadoctor.commands import torch_child
from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.python import Python
from musadoctor.facts.torch import (
    ChildFailure,
    Collectives,
    CollectivesFact,
    Import,
    MusaDevice,
    Probe,
    Torch,
    TorchFact,
    TorchImportFact,
    TorchMusa,
    TorchMusaFact,
)
from musadoctor.probes.distributions import examined, package, torch_build
from musadoctor.probes.python import answers, child_source, ending
from musadoctor.system import Ran, System

_ADDITION = re.compile(r"device \d+: (?:bf16 )?add")
_MOST_DEVICES = 64


class _Told(NamedTuple):
    """The child's lines."""

    python: str
    values: dict[str, object]
    """Of the steps that worked."""
    failures: dict[str, ChildFailure]
    """Of those that did not; the last of them may have ended the child."""
    warnings: dict[str, tuple[str, ...]]
    seconds: dict[str, float]


def torch_import(system: System) -> TorchImportFact:
    """Whether ``import torch`` works, with the autoload of backends off."""
    told = _told(system)
    return _import(told, "torch") if isinstance(told, _Told) else told


def torch(system: System) -> TorchFact:
    """The imported torch."""
    told = _told(system)
    if not isinstance(told, _Told):
        return told
    imported = _import(told, "torch")
    if not isinstance(imported, Import) or imported.failure:
        return _without(imported)
    value = _mapping(told.values["import torch"])
    return Torch(str(value.get("version")), _text(value.get("cuda")), str(value.get("file")))


def torch_musa_import(system: System) -> TorchImportFact:
    """Whether ``import torch_musa`` works once torch is imported."""
    told = _told(system)
    if not isinstance(told, _Told):
        return told
    imported = _import(told, "torch")
    if not isinstance(imported, Import) or imported.failure:
        return _without(imported)
    if told.values.get("import torch_musa", ...) is None:
        return Absent(f"torch_musa is not installed for {told.python}")
    return _import(told, "torch_musa")


def torch_musa(system: System) -> TorchMusaFact:
    """What the imported torch_musa says and does on each visible device."""
    told = _told(system)
    imported = torch_musa_import(system)
    if not isinstance(told, _Told) or not isinstance(imported, Import) or imported.failure:
        return _without(imported)
    value = _mapping(told.values["import torch_musa"])
    count = _integer(told.values.get("device_count"))
    supported = told.values.get("bf16 supported")
    available = told.values.get("is_available")
    warnings = (*told.warnings.get("is_available", ()), *told.warnings.get("device_count", ()))
    return TorchMusa(
        version=_text(value.get("version")),
        toolkit=_text(value.get("toolkit")),
        available=available if isinstance(available, bool) else None,
        warnings=tuple(dict.fromkeys(warnings)),
        device_count=count,
        devices=tuple(_device(told, index) for index in range(min(count or 0, _MOST_DEVICES))),
        bf16_supported=supported if isinstance(supported, bool) else None,
        architectures=_texts(told.values.get("architectures")),
        mudnn=_text(told.values.get("mudnn version")),
        mapped=_texts(told.values.get("mapped libraries")),
        failures=tuple(f for step, f in told.failures.items() if not _ADDITION.fullmatch(step)),
    )


def collectives(system: System) -> CollectivesFact:
    """Whether torch.distributed has the backend ``mccl``."""
    told = _told(system)
    imported = torch_musa_import(system)
    if not isinstance(told, _Told) or not isinstance(imported, Import) or imported.failure:
        return _without(imported)
    failure = told.failures.get("mccl backend")
    if failure and failure.kind == "exception":
        return Collectives(available=False, version=None, reason=failure.message)
    if "mccl backend" not in told.values:
        return _not_reached(told)
    value = _mapping(told.values["mccl backend"])
    version = told.values.get("mccl version")
    return Collectives(
        available=value.get("available") is True,
        version=".".join(_texts(version)) or _text(version),
        reason=_text(value.get("reason")),
    )


def _told(system: System) -> _Told | Absent | Unknown:
    interpreter = examined(system)
    if not isinstance(interpreter, Python):
        return interpreter
    # Nothing slow is asked before the child: it takes longest of all.
    found = package(system, interpreter, "torch")
    if isinstance(found, Absent) and isinstance(torch_build(system), Absent):
        return found
    ran = system.run(torch_child(interpreter.path, child_source("torch_child.py")))
    told = _Told(interpreter.path, {}, {}, {}, {})
    step, ended, closed = "", True, False
    for line in answers(ran):
        if "begin" in line:
            step, ended = str(line["begin"]), False
        elif line.get("end") == "all":
            closed = True
        elif line.get("end") == step:
            ended = True
            _keep(told, step, line)
    if not step:
        return Unknown(f"{interpreter.path} did not come to import torch: {ending(ran)}")
    if not closed:
        step = f"after {step}" if ended else step
        told.failures[step] = _interruption(step, ran)
    return told


def _keep(told: _Told, step: str, line: dict[str, object]) -> None:
    chain = _texts(line.get("chain"))
    if chain:
        message = next(iter(chain[-1].splitlines()), "")
        told.failures[step] = ChildFailure(step, "exception", message, chain)
    else:
        told.values[step] = line.get("value")
    told.warnings[step] = _texts(line.get("warnings"))
    seconds = line.get("seconds")
    if isinstance(seconds, (int, float)):
        told.seconds[step] = float(seconds)


def _interruption(step: str, ran: Ran) -> ChildFailure:
    """What ended the child within a step."""
    if ran.status == "timed out":
        return ChildFailure(step, "hang", ending(ran))
    if ran.status == "flooded":
        return ChildFailure(step, "flooded", ending(ran))
    if ran.status == "signal" and ran.note == "SIGKILL":
        sender = "the kernel's out-of-memory killer is the usual sender"
        return ChildFailure(step, "memory", f"killed by SIGKILL: {sender}")
    if ran.status == "signal":
        return ChildFailure(step, "signal", ending(ran))
    return ChildFailure(step, "exit", f"left the interpreter without a word, {ending(ran)}")


def _import(told: _Told, module: str) -> Import | Unknown:
    step = f"import {module}"
    failure = told.failures.get(step)
    if failure is None and step not in told.values:
        return _not_reached(told)
    return Import(module, failure, told.seconds.get(step), told.warnings.get(step, ()))


def _not_reached(told: _Told) -> Unknown:
    """Why a step neither worked nor failed: most likely the last failure ended the child."""
    last = [*map(str, told.failures.values())][-1:] or ["the child said nothing of it"]
    return Unknown(f"not reached, {last[0]}")


def _without(imported: Import | Absent | Unknown) -> Absent | Unknown:
    """What an import that did not work leaves behind."""
    if not isinstance(imported, Import):
        return imported
    message = imported.failure.message if imported.failure else ""
    return Absent(f"import {imported.module} failed: {message}")


def _device(told: _Told, index: int) -> MusaDevice:
    def value(name: str) -> object:
        return told.values.get(f"device {index}: {name}")

    def probe(name: str) -> Probe:
        failure = told.failures.get(f"device {index}: {name}")
        return Probe(value(name) is True, failure)

    capability = value("capability")
    match capability:
        case [int(major), int(minor)]:
            known: tuple[int, int] | None = (major, minor)
        case _:
            known = None
    return MusaDevice(
        ordinal=index,
        name=_text(value("name")),
        capability=known,
        memory_bytes=_integer(value("memory")),
        add=probe("add"),
        bf16_add=probe("bf16 add"),
    )


def _mapping(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, cast("list[object]", value))) if isinstance(value, list) else ()


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) else None
