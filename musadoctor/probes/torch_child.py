"""Imports torch and torch_musa and tries every visible device, one JSON line a step.

Run with ``-c`` by the examined interpreter (3.8 and later, any torch from 1.13), which need not
have musadoctor. The last argument is the descriptor to answer on. A step says ``{"begin": name}``,
then ``{"end": name, "value": ...}`` or ``{"end": name, "chain": ["ImportError: ...", ...]}``; the
closing line is ``{"end": "all"}``. Without it the step that had begun did not come back.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import resource
import sys
import time
import warnings
from functools import partial
from json import dumps
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from types import ModuleType

LONGEST_TEXT = 2000
MOST_WARNINGS = 20
MOST_DEVICES = 64
Step = Callable[[str, Callable[[], object]], object]
LIBRARIES = ("libmu", "libmccl", "libmtml", "libsrv_um")


def main(descriptor: int) -> None:
    """Take all steps; only a failed import ends them early."""
    pipe = os.fstat(descriptor)

    def say(**line: object) -> None:
        # What was imported may have closed it, and the number may be a file of its own by now.
        if not os.path.samestat(pipe, os.fstat(descriptor)):
            raise OSError(errno.EBADF, "the descriptor to answer on was closed")
        os.write(descriptor, (dumps(line, default=str) + "\n").encode("ascii"))

    def step(name: str, ask: Callable[[], object]) -> object:
        """The step's value, ``None`` where it failed."""
        say(begin=name)
        told: dict[str, object] = {"end": name}
        value: object = None
        begun = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("always", category)
            try:
                told["value"] = value = ask()
            except BaseException as error:  # noqa: BLE001 - an import may raise SystemExit
                told["chain"] = chain(error)
        told["seconds"] = round(time.perf_counter() - begun, 3)
        told["warnings"] = [text(warning.message) for warning in caught[:MOST_WARNINGS]]
        say(**told)
        return value

    if step("import torch", import_torch) and step("import torch_musa", import_torch_musa):
        use(sys.modules["torch"], step)
    say(end="all")


def use(torch: ModuleType, step: Step) -> None:
    """Ask first what needs no device, and compute last: a device that hangs ends all."""
    step("mapped libraries", mapped_libraries)
    step("is_available", lambda: bool(torch.musa.is_available()))
    count = step("device_count", lambda: int(torch.musa.device_count()))
    step("architectures", lambda: asked(torch.musa, "get_arch_list"))
    step("mudnn version", lambda: asked(torch.backends, "mudnn.version"))
    step("mccl backend", lambda: mccl_backend(torch))
    step("mccl version", lambda: asked(torch.musa, "mccl.version"))
    devices = range(min(count, MOST_DEVICES)) if isinstance(count, int) else ()
    for index in devices:
        describe(torch, index, step)
    if devices:
        step("bf16 supported", lambda: asked(torch.musa, "is_bf16_supported"))
    for index in devices:
        step(f"device {index}: add", partial(add, torch, index, "float32"))
    for index in devices:
        step(f"device {index}: bf16 add", partial(add, torch, index, "bfloat16"))
    if devices:
        step("mapped libraries", mapped_libraries)


def describe(torch: ModuleType, index: int, step: Step) -> None:
    """Ask what a device is."""
    step(f"device {index}: name", lambda: text(torch.musa.get_device_name(index)))
    step(f"device {index}: capability", lambda: list(torch.musa.get_device_capability(index)))
    step(f"device {index}: memory", lambda: memory(torch, index))


def import_torch() -> dict[str, object]:
    """Import torch and tell what was imported."""
    torch = importlib.import_module("torch")
    version = getattr(torch, "__version__", None)
    file = getattr(torch, "__file__", None)
    if version is None:
        where = file or ", ".join(getattr(torch, "__path__", ()))
        raise ImportError(f"{where} is not PyTorch: it has no __version__")
    versions = getattr(torch, "version", None)
    return {"version": text(version), "cuda": getattr(versions, "cuda", None), "file": text(file)}


def import_torch_musa() -> dict[str, object] | None:
    """Import torch_musa, ``None`` where there is none, and tell what was imported."""
    if importlib.util.find_spec("torch_musa") is None:
        return None
    torch_musa = importlib.import_module("torch_musa")
    if getattr(torch_musa, "__file__", None) is None:
        where = ", ".join(torch_musa.__path__)
        raise ImportError(f"{where} is not torch_musa: it has no __init__.py")
    versions = getattr(sys.modules["torch"], "version", None)
    return {
        "version": getattr(torch_musa, "__version__", None),
        "toolkit": getattr(versions, "musa", None),
        "file": torch_musa.__file__,
    }


def asked(module: object, path: str) -> object:
    """What a function answers that not every release has; ``None`` where it is not there."""
    function: Any = module
    for name in path.split("."):
        function = getattr(function, name, None)
    return None if function is None else function()


def memory(torch: ModuleType, index: int) -> int:
    """Bytes of a device: from its properties, which start nothing on it."""
    total = getattr(torch.musa.get_device_properties(index), "total_memory", None)
    return int(torch.musa.mem_get_info(index)[1] if total is None else total)


def add(torch: ModuleType, index: int, dtype: str) -> bool:
    """Add numbers on a device that bfloat16 holds exactly, and look at each sum."""
    numbers = [float(number) for number in range(128)]
    operand = (
        torch.tensor(numbers, dtype=torch.float32).to(getattr(torch, dtype)).to(f"musa:{index}")
    )
    sums = (operand + operand).cpu().to(torch.float32).tolist()
    for number, found in zip(numbers, sums):
        if found != 2 * number:
            raise ArithmeticError(f"{number} + {number} gave {found} on musa:{index}")
    return True


def mccl_backend(torch: ModuleType) -> dict[str, object]:
    """Whether torch.distributed knows the backend ``mccl``, and why not."""
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available():
        return {"available": False, "reason": "this torch was built without torch.distributed"}
    known = getattr(distributed, "is_backend_available", None)  # since 2.0
    available = known("mccl") if known else hasattr(distributed.Backend, "MCCL")
    reason = None if available else 'torch.distributed knows no backend "mccl"'
    return {"available": bool(available), "reason": reason}


def mapped_libraries() -> list[str]:
    """The MUSA libraries that this process has mapped; none where there is no /proc."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            paths = {line.split(None, 5)[5].strip() for line in maps if "/" in line}
    except OSError:
        return []
    return sorted(path for path in paths if os.path.basename(path).startswith(LIBRARIES))


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
    answer = int(sys.argv[-1])
    sys.argv = sys.argv[:1]
    if sys.path[:1] == [""]:
        del sys.path[0]  # the working directory, which -c puts there
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    main(answer)
    # What torch does when it ends takes time, and tells nothing more.
    os._exit(0)
