"""The adapters that can reach the memory of other machines (RDMA): InfiniBand and RoCE."""

from typing import NamedTuple

from musadoctor.facts.base import Absent, Unknown


class RdmaPort(NamedTuple):
    """One port of an adapter."""

    device: str
    """The adapter's name, which MCCL_IB_HCA takes: ``mlx5_0``."""
    number: int
    state: str
    """``ACTIVE``, ``DOWN``, ``INIT``, ``ARMED``; empty where it cannot be read."""
    physical: str
    """``LinkUp``, ``Disabled``, ``Polling``; empty where it cannot be read."""
    link_layer: str
    """``Ethernet`` (RoCE) or ``InfiniBand``; empty where it cannot be read."""
    rate: str
    """``200 Gb/sec (4X HDR)``."""
    gid_types: tuple[str, ...]
    """Of the first entries of its table of addresses: ``RoCE v2``, ``IB/RoCE v1``; empty for an
    entry that is not in use."""

    def __str__(self) -> str:
        return f"{self.device} port {self.number}"


class RdmaDevice(NamedTuple):
    """One adapter."""

    name: str
    address: str | None
    """On the PCI bus; ``None`` of one that is made of software."""
    numa_node: int | None
    ports: tuple[RdmaPort, ...]


class Rdma(NamedTuple):
    """All adapters, and the module by which they reach the cards' memory."""

    devices: tuple[RdmaDevice, ...]
    peer_memory: str | None
    """The loaded module: ``mt_peermem``; ``None`` where none is loaded."""
    source: str

    @property
    def ports(self) -> tuple[RdmaPort, ...]:
        """The ports of all adapters."""
        return tuple(port for device in self.devices for port in device.ports)

    @property
    def active(self) -> tuple[RdmaDevice, ...]:
        """The adapters with an active port."""
        return tuple(d for d in self.devices if any(port.state == "ACTIVE" for port in d.ports))

    def __str__(self) -> str:
        count = len(self.devices)
        module = self.peer_memory or "no module for the cards' memory"
        return f"{count} RDMA adapter{'' if count == 1 else 's'} ({self.source}), {module}"


RdmaFact = Rdma | Absent | Unknown
