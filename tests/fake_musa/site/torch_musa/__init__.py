"""A stand-in for torch_musa: its public names on the device of ``device.cpp``.

Beside the device's own variables: FAKE_MUSA_NAME (``MTT S5000``), FAKE_MUSA_CAPABILITY (``3.1``),
FAKE_MUSA_WARNING (no device, with this warning), FAKE_MUSA_NO_MCCL (built without MCCL).
"""

import os
import sys
import types
import warnings

import torch

try:
    from torch_musa import _MUSAC
except ImportError as error:
    # As the real package does, and hides the cause with it.
    raise ImportError("Please try running Python from a different directory!") from error

__version__ = f"{torch.__version__.partition('+')[0]}+fa4e000"


def _autoload() -> None:
    """Where the entry point leads; importing the package has done all."""


def device_count() -> int:
    if warning := os.environ.get("FAKE_MUSA_WARNING"):
        warnings.warn(f"MUSA initialization: {warning}", stacklevel=2)
        return 0
    return int(_MUSAC.library.fake_musa_device_count())


def is_available() -> bool:
    return device_count() > 0


def current_device() -> int:
    return int(torch.accelerator.current_device_index())


def set_device(device: int) -> None:
    torch.accelerator.set_device_index(device)


def get_device_name(device: int = 0) -> str:
    return os.environ.get("FAKE_MUSA_NAME", "MTT S5000")


def get_device_capability(device: int = 0) -> "tuple[int, ...]":
    return tuple(int(n) for n in os.environ.get("FAKE_MUSA_CAPABILITY", "3.1").split("."))


def get_device_properties(device: int = 0) -> types.SimpleNamespace:
    memory = _MUSAC.library.fake_musa_memory_bytes()
    return types.SimpleNamespace(name=get_device_name(device), total_memory=memory)


def mem_get_info(device: int = 0) -> "tuple[int, int]":
    memory = _MUSAC.library.fake_musa_memory_bytes()
    return memory - _MUSAC.library.fake_musa_used_bytes(device), memory


def get_arch_list() -> "list[str]":
    return ["mp_" + "".join(str(n) for n in get_device_capability())]


def is_bf16_supported() -> bool:
    return get_device_capability() >= (2, 2)


def get_amp_supported_dtype() -> "list[torch.dtype]":
    return [torch.float16, torch.bfloat16]


def synchronize(device: int = 0) -> None:
    """Nothing is ever under way."""


torch._register_device_module("musa", sys.modules[__name__])
torch.version.musa = "50200"
torch.backends.mudnn = types.SimpleNamespace(version=lambda: 3400)
if "FAKE_MUSA_NO_MCCL" not in os.environ:
    from torch_musa import mccl  # noqa: F401 - registers the backend
