"""The RDMA adapters as sysfs shows them.

``/sys/class/infiniband/mlx5_0/ports/1/`` holds ``state`` ``4: ACTIVE``, ``phys_state``
``5: LinkUp``, ``link_layer`` ``Ethernet``, ``rate`` ``200 Gb/sec (4X HDR)`` and
``gid_attrs/types/3`` ``RoCE v2``, where reading an entry that is not in use fails (kernel:
sysfs-class-infiniband). The addresses themselves, in ``gids``, are private and never read.
"""

from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.network import Rdma, RdmaDevice, RdmaFact, RdmaPort
from musadoctor.probes.once import once
from musadoctor.system import Failure, System

ADAPTERS = "/sys/class/infiniband"
PEER_MODULES = ("mt_peermem", "mthreads_peermem")
"""In sysfs a module's name has underscores: that of ``mthreads-peermem`` too."""
GID_ENTRIES = 8
"""Entries that are read of a port's table, which has 256: the usual addresses come first."""


@once
def rdma(system: System) -> RdmaFact:
    """All adapters with their ports, and the module that lets them reach the cards' memory."""
    names = system.list(ADAPTERS)
    if isinstance(names, Failure):
        return names.state
    if not names:
        return Absent(f"no RDMA adapter in {ADAPTERS}")
    modules = system.list("/sys/module")
    if isinstance(modules, Failure):
        return Unknown(f"the loaded modules cannot be listed: {modules}")
    return Rdma(
        tuple(_device(system, name) for name in names),
        next((name for name in PEER_MODULES if name in modules), None),
        ADAPTERS,
    )


def _device(system: System, name: str) -> RdmaDevice:
    path = f"{ADAPTERS}/{name}"
    behind = system.stat(f"{path}/device")
    node = _text(system, f"{path}/device/numa_node")
    ports = system.list(f"{path}/ports")
    return RdmaDevice(
        name=name,
        address=None if isinstance(behind, Failure) else behind.real.rpartition("/")[2],
        numa_node=int(node) if node.isdecimal() else None,
        ports=()
        if isinstance(ports, Failure)
        else tuple(_port(system, name, number) for number in ports if number.isdecimal()),
    )


def _port(system: System, device: str, number: str) -> RdmaPort:
    path = f"{ADAPTERS}/{device}/ports/{number}"
    types = [_text(system, f"{path}/gid_attrs/types/{index}") for index in range(GID_ENTRIES)]
    return RdmaPort(
        device=device,
        number=int(number),
        state=_text(system, f"{path}/state").rpartition(": ")[2],
        physical=_text(system, f"{path}/phys_state").rpartition(": ")[2],
        link_layer=_text(system, f"{path}/link_layer"),
        rate=_text(system, f"{path}/rate"),
        gid_types=tuple(types),
    )


def _text(system: System, path: str) -> str:
    text = system.read(path)
    return "" if isinstance(text, Failure) else text.strip()
