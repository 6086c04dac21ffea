"""Takes steps on devices, one JSON line a step.

Run with ``-c`` by the examined interpreter (3.8 and later), followed by the texts of the modules
that hold the steps and what these share, the plan and the descriptor to answer on. A step says
``{"begin": name, "device": "musa:0", "at": seconds}``, then ``{"end": name, "device": ...,
"state": ..., ...}``; the closing line is ``{"end": "all"}``. Without it the step that had begun did
not come back. The first line, ``{"steps": number}``, is for whoever watches.

The plan is ``{"kind": "musa", "modules": ["measure", "compute"], "take": [["musa:0",
"compute: matmul float32"], ...], "options": {...}}``.
"""

from __future__ import annotations

import errno
import faulthandler
import importlib
import os
import re
import resource
import sys
import time
import warnings
from json import dumps, loads
from types import ModuleType
from typing import Any, Callable, Mapping, NamedTuple, cast

PACKAGE = "musadoctor.verify.children"
LONGEST_TEXT = 2000
MOST_WARNINGS = 5
STEP_SECONDS = 30.0
IMPORT_SECONDS = 120.0
BEGUN = time.perf_counter()


class Skip(Exception):  # noqa: N818 - it is no error
    """The question does not arise on this device, and why."""


class Device(NamedTuple):
    """What a step works on."""

    torch: Any
    """The imported torch."""
    name: str
    """``musa:0``, ``cpu``."""
    options: dict[str, Any]
    """The plan's."""

    @property
    def kind(self) -> str:
        """``musa``, ``cuda`` or ``cpu``."""
        return self.name.partition(":")[0]

    @property
    def ordinal(self) -> int:
        """The ordinal; 0 of a CPU."""
        return int(self.name.partition(":")[2] or 0)

    @property
    def module(self) -> Any:  # noqa: ANN401 - torch.musa, which no stub describes
        """``torch.musa``, ``torch.cuda``, ``torch.cpu``."""
        return getattr(self.torch, self.kind)

    @property
    def capability(self) -> tuple[int, int] | None:
        """Major and minor; ``None`` of a CPU."""
        if self.kind == "cpu":
            return None
        major, minor = self.module.get_device_capability(self.ordinal)
        return int(major), int(minor)

    def synchronize(self) -> None:
        """Wait for what is under way; an error of an earlier kernel shows here."""
        if self.kind != "cpu":
            self.module.synchronize(self.ordinal)


class Kind(NamedTuple):
    """A registered step."""

    function: Callable[[Device], object]
    level: str
    """``quick``, ``default`` or ``deep``: the least thorough run that takes it."""
    where: str
    """``each`` device, the ``first``, a ``pair``, or once on ``all``."""
    seconds: float


STEPS: dict[str, Kind] = {}
"""By name, in the order in which they are taken."""


def register(
    name: str,
    function: Callable[[Device], object],
    *,
    level: str = "quick",
    where: str = "each",
    seconds: float = STEP_SECONDS,
) -> None:
    """Add a step. It gets the device and answers with a dictionary of JSON values.

    It raises :class:`Skip` where the question does not arise; any other exception is the device's.
    """
    assert name not in STEPS, name
    STEPS[name] = Kind(function, level, where, seconds)


def limit_of(name: str, options: Mapping[str, object]) -> float:
    """Seconds after which a step has hung; a run may set less than the step's own."""
    own = STEPS[name].seconds if name in STEPS else IMPORT_SECONDS
    most = options.get("step_seconds")
    return min(own, most) if isinstance(most, float) and name in STEPS else own


def main(sources: list[str], plan: dict[str, Any], descriptor: int) -> None:
    """Take the plan's steps; only a failed import or a lost device ends them early."""
    for name, source in zip(plan["modules"], sources):
        module = ModuleType(f"{PACKAGE}.{name}")
        # The next ones find it by the name that it has at home.
        sys.modules[module.__name__] = module
        exec(compile(source, f"<{name}>", "exec"), module.__dict__)  # noqa: S102 - musadoctor's own
    pipe = os.fstat(descriptor)

    def say(**line: object) -> None:
        # What was imported may have closed it, and the number may be a file of its own by now.
        if not os.path.samestat(pipe, os.fstat(descriptor)):
            raise OSError(errno.EBADF, "the descriptor to answer on was closed")
        os.write(descriptor, (dumps(line, default=str) + "\n").encode("ascii"))

    torch = None
    say(steps=len(plan["take"]))
    taken = take(say, "import torch", "", IMPORT_SECONDS, lambda: import_torch(plan["kind"]))
    if taken:
        torch = sys.modules["torch"]
    for name, step in plan["take"] if torch else ():
        device = Device(torch, name, plan["options"])
        kind = STEPS[step]
        seconds = limit_of(step, plan["options"])
        done = take(say, step, name, seconds, lambda: measured(kind.function, device))  # noqa: B023
        if not done and not take(say, "still there", name, STEP_SECONDS, lambda: alive(device)):  # noqa: B023
            break
    else:
        say(end="all")


def take(
    say: Callable[..., None],
    name: str,
    device: str,
    seconds: float,
    work: Callable[[], object],
) -> bool:
    """Take one step; whether the device can be trusted with the next."""
    say(begin=name, device=device, at=round(time.perf_counter() - BEGUN, 3))
    told: dict[str, object] = {"end": name, "device": device, "state": "done"}
    begun = time.perf_counter()
    faulthandler.dump_traceback_later(seconds, exit=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            told["value"] = work()
        except BaseException as error:  # noqa: BLE001 - whatever the examined code raises
            told["state"] = state_of(error)
            told["chain"] = chain(error)
    faulthandler.cancel_dump_traceback_later()
    told["seconds"] = round(time.perf_counter() - begun, 4)
    told["warnings"] = [text(warning.message) for warning in caught[:MOST_WARNINGS]]
    say(**told)
    return told["state"] != "failed"


def alive(device: Device) -> dict[str, object]:
    """Whether a device still computes after an error, which may have spoilt its context."""
    for name in device.name.split():
        one = device.torch.ones(4, device=name)
        if (one + one).cpu().tolist() != [2.0] * 4:
            raise ArithmeticError(f"1 + 1 is not 2 any more on {name}")
    return {}


def measured(function: Callable[[Device], object], device: Device) -> object:
    """A step's answer, with the most memory that torch held for it where the device tells."""
    one_device = re.fullmatch(r"\w+:\d+", device.name)
    reset = getattr(device.module, "reset_peak_memory_stats", None) if one_device else None
    if reset is None:
        return function(device)
    reset(device.ordinal)
    value = cast("dict[str, object]", function(device))
    value["peak_bytes"] = int(device.module.max_memory_allocated(device.ordinal))
    return value


def import_torch(kind: str) -> dict[str, object]:
    """Import torch, and torch_musa for its devices."""
    torch = importlib.import_module("torch")
    # Children run side by side, and their steps are small: more would wait for each other.
    torch.set_num_threads(1)
    if kind == "musa":
        importlib.import_module("torch_musa")
    return {"torch": text(getattr(torch, "__version__", None))}


def state_of(error: BaseException) -> str:
    """``missing``, ``skipped``, ``out of memory`` or ``failed``."""
    if isinstance(error, Skip):
        return "skipped"
    if isinstance(error, NotImplementedError):
        return "missing"
    words = text(error).lower()
    if "not implemented for '" in words:  # for one type, and a plain RuntimeError
        return "missing"
    memory = type(error).__name__ == "OutOfMemoryError" or "out of memory" in words
    return "out of memory" if memory else "failed"


def chain(error: BaseException) -> list[str]:
    """An exception and what it came from, the innermost last."""
    told: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        words = text(current)
        told.append(f"{type(current).__name__}: {words}" if words else type(current).__name__)
        hidden = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or hidden
    return told


def text(value: object) -> str:
    """A value as text, whatever it does when asked for it."""
    try:
        words = str(value)
    except Exception as error:  # noqa: BLE001 - the examined code's own
        words = f"(its text cannot be had: {type(error).__name__})"
    return words if len(words) <= LONGEST_TEXT else words[: LONGEST_TEXT - 3] + "..."


if __name__ == "__main__":
    *texts, planned, answer = sys.argv[1:]
    sys.argv = sys.argv[:1]
    if sys.path[:1] == [""]:
        del sys.path[0]  # the working directory, which -c puts there
    sys.modules[f"{PACKAGE}.base"] = sys.modules["__main__"]
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    main(texts, loads(planned), int(answer))
    # What torch does when it ends takes time, and tells nothing more.
    os._exit(0)
