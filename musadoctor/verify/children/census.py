"""Which devices there are."""

from __future__ import annotations

from musadoctor.verify.children.base import Device, register


def census(device: Device) -> dict[str, object]:
    """Number, names, capabilities and memory of the devices of a kind."""
    if device.kind == "cpu":
        cpu = {"name": "cpu", "capability": None, "memory_bytes": None}
        return {"devices": [cpu], "torch": str(device.torch.__version__)}
    module = device.module
    devices: list[dict[str, object]] = []
    for index in range(int(module.device_count())):
        total = getattr(module.get_device_properties(index), "total_memory", None)
        devices.append(
            {
                "name": str(module.get_device_name(index)),
                "capability": list(module.get_device_capability(index)),
                "memory_bytes": int(module.mem_get_info(index)[1] if total is None else total),
            }
        )
    return {"devices": devices, "torch": str(device.torch.__version__)}


register("census: devices", census, where="all")
