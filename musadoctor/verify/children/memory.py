"""Memory of each device, and copies between host and devices.

Sizes follow the level of the run, ``options["level"]``. What is timed is the best of several
copies, for whatever disturbs one makes it slower and nothing makes it faster.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Callable

from musadoctor.verify.children.base import Device, Skip, register, state_of, text

if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 1 << 20
COPIED = {"quick": 8 * MIB, "default": 64 * MIB, "deep": 512 * MIB}
"""Bytes of each copy: at 32 GB/s the least of them takes 250 us, many times what a launch does."""
TAKEN = {"quick": 0.25, "default": 0.9, "deep": 0.9}
"""Share of the free memory that is allocated."""
LEFT = 256 * MIB
"""Always left free, for what the driver and other processes need meanwhile."""
CHUNKS = 32
PAGE = 4096
REPEATS = 5
SPREAD = 0.02
"""Seconds over which the copies are spread at least: more than one turn of another process."""


def level(device: Device) -> str:
    """``quick``, ``default`` or ``deep``."""
    return str(device.options.get("level", "quick"))


def own_memory(device: Device) -> None:
    """Skip what asks for memory of the device's own."""
    if device.kind == "cpu":
        raise Skip("the CPU's memory is the host's")
    if getattr(device.module.get_device_properties(device.ordinal), "is_integrated", 0):
        raise Skip("this device shares the host's memory")


def figure(device: Device, name: str) -> int | None:
    """What a function of the device's module says in bytes; ``None`` where there is none."""
    function = getattr(device.module, name, None)
    return None if function is None else int(function(device.ordinal))


def free_bytes(device: Device) -> int:
    """Free memory as the driver has it."""
    return int(device.module.mem_get_info(device.ordinal)[0])


def give_back(device: Device) -> None:
    """Have the allocator return to the driver what no tensor uses."""
    device.synchronize()
    empty_cache = getattr(device.module, "empty_cache", None)
    if empty_cache is not None:
        empty_cache()


def totals(device: Device) -> dict[str, object]:
    """Name and memory of the device, by each of the two functions that tell."""
    if device.kind == "cpu":
        raise Skip("the CPU's memory is the host's")
    properties = device.module.get_device_properties(device.ordinal)
    free, total = device.module.mem_get_info(device.ordinal)
    return {
        "name": str(device.module.get_device_name(device.ordinal)),
        "properties_bytes": int(getattr(properties, "total_memory", 0) or total),
        "total_bytes": int(total),
        "free_bytes": int(free),
    }


def fill(device: Device) -> dict[str, object]:
    """Allocate a share of the free memory in chunks, write, read, and give all back."""
    own_memory(device)
    torch = device.torch
    torch.zeros(1, device=device.name)  # what the runtime keeps for itself is allocated with it
    give_back(device)
    before = free_bytes(device)
    reserved = figure(device, "memory_reserved")
    wanted = max(0, min(int(before * TAKEN[level(device)]), before - LEFT))
    size = wanted // CHUNKS // PAGE * PAGE
    if size < 2 * PAGE:
        raise Skip(f"{before >> 20} MiB are free, of which {LEFT >> 20} MiB are left so")
    chunks: list[Any] = []
    refused = ""
    for number in range(CHUNKS):
        try:
            chunk = torch.empty(size, dtype=torch.uint8, device=device.name)
        except Exception as error:
            if state_of(error) != "out of memory":
                raise
            refused = text(error).partition("\n")[0]
            break
        for page in (chunk[:PAGE], chunk[-PAGE:]):
            page.copy_(torch.full((PAGE,), number, dtype=torch.uint8))
        chunks.append(chunk)
        del chunk, page
    # Read when all are written: where two share memory, the first holds the other's number.
    spoilt = [
        number
        for number, chunk in enumerate(chunks)
        for page in (chunk[:PAGE].cpu(), chunk[-PAGE:].cpu())
        if not bool((page == number).all())
    ]
    held = len(chunks) * size
    during = free_bytes(device)
    chunks.clear()
    give_back(device)
    return {
        "free_before": before,
        "free_during": during,
        "free_after": free_bytes(device),
        "reserved_before": reserved,
        "reserved_after": figure(device, "memory_reserved"),
        "wanted_bytes": size * CHUNKS,
        "allocated_bytes": held,
        "chunk_bytes": size,
        "refused": refused,
        "spoilt": sorted(set(spoilt)),
    }


def peak(device: Device) -> dict[str, object]:
    """Whether the peak figure rises with an allocation, stays, and falls when it is reset."""
    own_memory(device)
    reset = getattr(device.module, "reset_peak_memory_stats", None)
    if reset is None or figure(device, "max_memory_allocated") is None:
        raise Skip(f"torch.{device.kind} has no figures of peak memory")
    size = 16 * MIB
    give_back(device)
    reset(device.ordinal)
    before = figure(device, "max_memory_allocated")
    held = device.torch.empty(size, dtype=device.torch.uint8, device=device.name)
    during = figure(device, "memory_allocated")
    del held
    after = figure(device, "max_memory_allocated")
    reset(device.ordinal)
    return {
        "bytes": size,
        "before": before,
        "allocated": during,
        "peak": after,
        "peak_after_reset": figure(device, "max_memory_allocated"),
    }


def host(device: Device) -> dict[str, object]:
    """Copies between host and device, from ordinary and from pinned memory."""
    if device.kind == "cpu":
        raise Skip("the CPU is the host")
    torch = device.torch
    size = COPIED[level(device)]
    there = torch.empty(size, dtype=torch.uint8, device=device.name)
    told: dict[str, object] = {"bytes": size, "pinned": ""}
    for kind in ("pageable", "pinned"):
        source, back = pattern(torch, size), torch.zeros(size, dtype=torch.uint8)
        if kind == "pinned":
            try:
                source, back = source.pin_memory(), back.pin_memory()
            except Exception as error:  # noqa: BLE001 - a device need not have it
                told["pinned"] = text(error).partition("\n")[0]
                break
        told[f"to_device_{kind}"] = size / fastest((device,), lambda: there.copy_(source))  # noqa: B023
        told[f"to_host_{kind}"] = size / fastest((device,), lambda: back.copy_(there))  # noqa: B023
        told[f"wrong_bytes_{kind}"] = wrong(source, back)
    return told


def pair(device: Device) -> dict[str, object]:
    """Copies from one device to another; the first of the pair is the source."""
    torch = device.torch
    size = COPIED[level(device)]
    ends = [device._replace(name=name) for name in device.name.split()]
    can_access = getattr(ends[0].module, "can_device_access_peer", None)
    given = pattern(torch, size)
    source = given.to(ends[0].name)
    target = torch.zeros(size, dtype=torch.uint8).to(ends[1].name)
    seconds = fastest(ends, lambda: target.copy_(source))
    return {
        "bytes": size,
        "peer": None if can_access is None else bool(can_access(*(end.ordinal for end in ends))),
        "speed": size / seconds,
        "wrong_bytes": wrong(given, target.cpu()),
    }


def pattern(torch: Any, size: int) -> Any:  # noqa: ANN401 - torch, a tensor
    """Bytes of which no four repeat, so that a page in a wrong place shows."""
    return torch.arange(size // 4, dtype=torch.int32).view(torch.uint8)


def wrong(given: Any, found: Any) -> int:  # noqa: ANN401 - tensors
    """How many bytes differ."""
    torch = sys.modules["torch"]
    return 0 if torch.equal(given, found) else int((given != found).sum())


def fastest(devices: Sequence[Device], copy: Callable[[], object]) -> float:
    """Seconds of the fastest of several copies, waited for at both ends."""

    def taken() -> float:
        begun = time.perf_counter()
        copy()
        for device in devices:
            device.synchronize()
        return time.perf_counter() - begun

    taken()  # the first one has to map memory
    end = time.perf_counter() + SPREAD
    best = min(taken() for _ in range(REPEATS))
    while time.perf_counter() < end:
        best = min(best, taken())
    return best


register("memory: totals", totals)
register("memory: peak figures", peak)
register("memory: fill", fill, seconds=120.0)
register("memory: host copies", host, seconds=60.0)
register("memory: device copies", pair, where="pair", level="default")
