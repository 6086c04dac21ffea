"""A stand-in for torch_musa: its public names on the device of ``device.cpp``.

Beside the device's own variables: FAKE_MUSA_NAME (``MTT S5000``) and FAKE_MUSA_CAPABILITY (``3.1``),
with commas for devices that differ, FAKE_MUSA_WARNING (no device, with this warning),
FAKE_MUSA_NO_PEER (devices do not reach each other's memory), FAKE_MUSA_NO_MCCL (built without
MCCL).
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
library = _MUSAC.library


def _autoload() -> None:
    """Where the entry point leads; importing the package has done all."""


def _is_in_bad_fork() -> bool:
    return False


def _index(device: object = None) -> int:
    if device is None:
        return int(library.fake_musa_current_device())
    index = device if isinstance(device, int) else torch.device(device).index
    return _index() if index is None else index


def _of(variable: str, otherwise: str, device: object) -> str:
    values = os.environ.get(variable, otherwise).split(",")
    return values[min(_index(device), len(values) - 1)]


def device_count() -> int:
    if warning := os.environ.get("FAKE_MUSA_WARNING"):
        warnings.warn(f"MUSA initialization: {warning}", stacklevel=2)
        return 0
    return int(library.fake_musa_device_count())


def is_available() -> bool:
    return device_count() > 0


def is_initialized() -> bool:
    return True


def current_device() -> int:
    return _index()


def set_device(device: object) -> None:
    library.fake_musa_set_device(_existing(device))


def _existing(device: object) -> int:
    index = _index(device)
    if index >= library.fake_musa_device_count():
        raise RuntimeError("MUSA error: invalid device ordinal")
    return index


class device:  # noqa: N801 - torch's own name for it
    def __init__(self, device: object) -> None:
        self.index = _existing(device)

    def __enter__(self) -> None:
        self.before = current_device()
        set_device(self.index)

    def __exit__(self, *_: object) -> None:
        set_device(self.before)


def get_device_name(device: object = None) -> str:
    return _of("FAKE_MUSA_NAME", "MTT S5000", device)


def get_device_capability(device: object = None) -> "tuple[int, ...]":
    return tuple(int(n) for n in _of("FAKE_MUSA_CAPABILITY", "3.1", device).split("."))


def get_device_properties(device: object = None) -> types.SimpleNamespace:
    major, minor = get_device_capability(device)
    return types.SimpleNamespace(
        name=get_device_name(device),
        major=major,
        minor=minor,
        total_memory=library.fake_musa_memory_bytes(),
        multi_processor_count=56,
    )


def can_device_access_peer(device: object, peer: object) -> bool:
    return _existing(device) != _existing(peer) and "FAKE_MUSA_NO_PEER" not in os.environ


def mem_get_info(device: object = None) -> "tuple[int, int]":
    memory = library.fake_musa_memory_bytes()
    return memory - library.fake_musa_used_bytes(_existing(device)), memory


def memory_allocated(device: object = None) -> int:
    return int(library.fake_musa_used_bytes(_existing(device)))


def max_memory_allocated(device: object = None) -> int:
    return int(library.fake_musa_peak_bytes(_existing(device)))


memory_reserved, max_memory_reserved = memory_allocated, max_memory_allocated


def reset_peak_memory_stats(device: object = None) -> None:
    library.fake_musa_reset_peak(_existing(device))


def empty_cache() -> None:
    """Nothing is kept."""


def get_arch_list() -> "list[str]":
    return ["mp_" + "".join(str(n) for n in get_device_capability())]


def is_bf16_supported() -> bool:
    return get_device_capability() >= (2, 2)


def get_amp_supported_dtype() -> "list[torch.dtype]":
    return [torch.float16, torch.bfloat16]


def manual_seed(seed: int) -> None:
    library.fake_musa_seed(_index(), seed)


def manual_seed_all(seed: int) -> None:
    for index in range(library.fake_musa_device_count()):
        library.fake_musa_seed(index, seed)


def synchronize(device: object = None) -> None:
    """Nothing is ever under way; what is lost says so here as well."""
    if library.fake_musa_lost(_existing(device)):
        raise RuntimeError("MUSA error: unspecified launch failure")


torch._register_device_module("musa", sys.modules[__name__])
torch.version.musa = "50200"
torch.backends.mudnn = types.SimpleNamespace(version=lambda: 3400)
if "FAKE_MUSA_NO_MCCL" not in os.environ:
    from torch_musa import mccl  # noqa: F401 - registers the backend
