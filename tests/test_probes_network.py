"""The RDMA adapters."""

from support import folder, host

from musadoctor.facts import Absent, Unknown
from musadoctor.facts.network import Rdma
from musadoctor.probes.network import ADAPTERS, rdma
from musadoctor.recording import Recorder
from musadoctor.system import ERROR, NOT_ALLOWED, Failure, Stat

PORT = f"{ADAPTERS}/mlx5_0/ports/1"
FILES: dict[str, str | Failure] = {
    f"{ADAPTERS}/mlx5_0/device/numa_node": "1\n",
    f"{PORT}/state": "4: ACTIVE\n",
    f"{PORT}/phys_state": "5: LinkUp\n",
    f"{PORT}/link_layer": "Ethernet\n",
    f"{PORT}/rate": "200 Gb/sec (4X HDR)\n",
    f"{PORT}/gid_attrs/types/0": "IB/RoCE v1\n",
    f"{PORT}/gid_attrs/types/1": "RoCE v2\n",
    f"{PORT}/gid_attrs/types/2": Failure(ERROR, "types/2: Invalid argument"),
    f"{ADAPTERS}/rxe0/ports/1/state": "1: DOWN\n",
}
FOLDERS: dict[str, list[str] | Failure] = {
    ADAPTERS: ["mlx5_0", "rxe0", "siw0"],
    f"{ADAPTERS}/mlx5_0/ports": ["1"],
    f"{ADAPTERS}/rxe0/ports": ["1", "power"],
    "/sys/module": ["mtgpu", "mthreads_peermem"],
}
STATS: dict[str, Stat | Failure] = {
    f"{ADAPTERS}/mlx5_0/device": folder("/sys/devices/pci0000:16/0000:19:00.0"),
}


def machine(**folders: list[str] | Failure) -> Recorder:
    named = {"adapters": ADAPTERS, "modules": "/sys/module"}
    changed = {named[name]: value for name, value in folders.items()}
    return host(files=FILES, folders={**FOLDERS, **changed}, stats=STATS)


def test_adapters() -> None:
    found = rdma(machine())
    assert isinstance(found, Rdma)
    first, software, bare = found.devices
    assert (first.name, first.address, first.numa_node) == ("mlx5_0", "0000:19:00.0", 1)
    (port,) = first.ports
    assert port.gid_types == ("IB/RoCE v1", "RoCE v2", *[""] * 6)
    assert tuple(port)[:6] == (
        *("mlx5_0", 1, "ACTIVE", "LinkUp", "Ethernet"),
        "200 Gb/sec (4X HDR)",
    )
    assert (software.address, software.numa_node) == (None, None)
    assert [(p.state, p.physical, p.link_layer) for p in software.ports] == [("DOWN", "", "")]
    assert bare.ports == ()
    assert found.ports == (port, *software.ports)
    assert found.active == (first,)
    assert str(port) == "mlx5_0 port 1"
    assert str(found) == "3 RDMA adapters (/sys/class/infiniband), mthreads_peermem"


def test_no_module_for_the_memory_of_cards() -> None:
    found = rdma(machine(adapters=["siw0"], modules=["mtgpu"]))
    assert isinstance(found, Rdma)
    assert found.peer_memory is None
    assert str(found) == ("1 RDMA adapter (/sys/class/infiniband), no module for the cards' memory")


def test_none() -> None:
    assert rdma(host()) == Absent(f"no {ADAPTERS}")
    assert rdma(machine(adapters=[])) == Absent(f"no RDMA adapter in {ADAPTERS}")


def test_not_found_out() -> None:
    refused = Failure(NOT_ALLOWED, "Permission denied")
    assert rdma(machine(adapters=refused)) == Unknown("Permission denied")
    assert rdma(machine(modules=refused)) == Unknown(
        "the loaded modules cannot be listed: Permission denied"
    )
