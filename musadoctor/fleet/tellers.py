"""What each fact of a report tells of a host's traits.

Facts come from another machine: whatever has not the form that it ought to have tells nothing.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from musadoctor.probes.distributions import WANTED
from musadoctor.probes.environment import DEVICES, VARIABLES
from musadoctor.report import JSON

NONE = "none"
"""The value of a trait that is certainly not there."""
WHEEL = "wheel "
VARIABLE = "environment "
_OF_A_JOB = frozenset(
    (
        *(*DEVICES, "MUSA_ERROR_DUMP_PATH", "MUSA_CPU_AFFINITY_MAP", "TORCH_MUSA_OP_DEBUG_DIR"),
        *("MCCL_TOPO_DUMP_FILE", "NCCL_TOPO_DUMP_FILE"),
    )
)
"""Variables that a scheduler or a job sets, to another value on each host."""

KEPT_VARIABLES = tuple(name for name in VARIABLES if name not in _OF_A_JOB)


Record = Mapping[str, JSON]

_INDIVIDUAL = re.compile(
    r"(?:BOOT_IMAGE|BOOTIF|root|initrd|ip|ifname|bond|vlan|nfsroot|resume|hostname|ostree|zfs|ks"
    r"|systemd\.(?:hostname|machine_id)|rd\.(?:lvm|luks|md|iscsi)\..+|inst\..+|iscsi_.+)=.*"
    r"|.*(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?:[0-9a-f]{2}:){5}[0-9a-f]{2}).*"
)
"""Boot parameters that differ between hosts by their nature: disks, addresses, names."""
_SONAME_VERSION = re.compile(r"\.so\.([0-9][0-9.]*)$")
_MOST_MEMORY = 1 << 60
_MOST_RECORDS = 1000
_LONGEST_BOOT = 4096
"""Characters of all boot parameters; the kernel takes half of it."""


Told = tuple[str, str]
"""A trait and its value; an empty one is not known."""


class Teller(NamedTuple):
    """What one fact tells."""

    lacking: tuple[str, ...]
    """Traits that are certainly ``none`` where the fact is absent."""
    tell: Callable[[Record], Iterator[Told]]


def _kernel_driver(fact: Record) -> Iterator[Told]:
    stated = _records(fact, "stated")
    if stated:
        yield "kernel driver", _text(stated[0], "version")


def _user_driver(fact: Record) -> Iterator[Told]:
    found = _SONAME_VERSION.search(_text(fact, "real_path"))
    yield "user-space driver", found[1] if found else ""


def _gpus(fact: Record) -> Iterator[Told]:
    if fact.get("by_name") is not False or fact.get("counted") is not True:
        return
    cards = _records(fact, "cards")
    yield "cards", _counted(_text(c, "product") or f"PCI {_text(c, 'device_id')}" for c in cards)
    nodes = [_number(card, "numa_node") for card in cards]
    yield "card NUMA nodes", " ".join(nodes) if all(nodes) else ""
    links = [link for card in cards if isinstance(link := card.get("link"), dict)]
    if len(links) == len(cards):
        widths = [(_number(link, "width"), _number(link, "max_width")) for link in links]
        yield (
            "link width",
            _counted(f"x{now} of x{most}" if now and most else "" for now, most in widths),
        )
        speeds = [(_text(link, "speed"), _text(link, "max_speed")) for link in links]
        yield (
            "link speed",
            _counted(f"{now} of {most}" if now and most else "" for now, most in speeds),
        )


def _gmi(fact: Record) -> Iterator[Told]:
    yield "kernel driver", _text(fact, "driver")
    yield "gmi tool", _text(fact, "tool_version")
    cards = _records(fact, "cards")
    sizes = [_number(card, "total_mib") for card in cards]
    yield "card memory", _counted(f"{size} MiB" if size else "" for size in sizes)
    firmware = [_text(card, "mtbios") for card in cards]
    yield "card firmware", firmware[0] if len(set(firmware)) == 1 else _counted(firmware)


def _toolkits(fact: Record) -> Iterator[Told]:
    numbers = [_text(one, "version") or "without a number" for one in _records(fact, "installed")]
    yield "installed toolkits", ", ".join(sorted(numbers))


def _musa_info(fact: Record) -> Iterator[Told]:
    yield "driver API", _text(fact, "driver_api")
    yield "runtime API", _text(fact, "runtime_api")


def _collectives(fact: Record) -> Iterator[Told]:
    available = fact.get("available")
    if isinstance(available, bool):
        yield "torch collectives", (_text(fact, "version") or "there") if available else NONE


def _triton(fact: Record) -> Iterator[Told]:
    backends = fact.get("backends")
    if isinstance(backends, list):
        names = sorted(name for name in backends if isinstance(name, str))
        yield "triton backends", ", ".join(names) or "no folder of backends"


def _distributions(fact: Record) -> Iterator[Told]:
    items = _records(fact, "items")
    if not items and fact.get("items") != []:
        return
    versions: dict[str, set[str]] = {"torch": set()}
    for item in items:
        name = _text(item, "name")
        if name in WANTED:
            versions.setdefault(name, set()).add(_text(item, "version"))
    for name, numbers in versions.items():
        yield f"{WHEEL}{name}", ", ".join(sorted(filter(None, numbers))) or NONE


def _rdma(fact: Record) -> Iterator[Told]:
    devices = _records(fact, "devices")
    ports = [(device, port) for device in devices for port in _records(device, "ports")]
    if ports:
        yield "RDMA adapters", _counted(_adapter(device, port) for device, port in ports)
        active = sum(_text(port, "state") == "ACTIVE" for _, port in ports)
        yield "RDMA ports active", f"{active} of {len(ports)}"
    if "peer_memory" in fact:
        yield "RDMA to card memory", _text(fact, "peer_memory") or NONE


def _adapter(device: Record, port: Record) -> str:
    kind = _text(device, "name").rstrip("0123456789").rstrip("_")
    return " ".join(filter(None, (kind, _text(port, "link_layer"), _text(port, "rate"))))


def _container(fact: Record) -> Iterator[Told]:
    if "runtime" in fact:
        yield "container", _text(fact, "runtime") or "of an unknown kind"


def _machine(fact: Record) -> Iterator[Told]:
    for name in ("kernel", "architecture", "distribution"):
        yield name, _text(fact, name)
    for name in ("glibc", "virtual_machine"):
        yield (
            name.replace("_", " "),
            _text(fact, name) or (NONE if fact.get(name, "") is None else ""),
        )
    boot = fact.get("boot_parameters")
    if isinstance(boot, list):
        words = [one for one in boot[:_LONGEST_BOOT] if isinstance(one, str)]
        if sum(map(len, words)) <= _LONGEST_BOOT:
            common = sorted(word for word in words if not _INDIVIDUAL.fullmatch(word))
            yield "boot parameters", " ".join(common) or NONE
    iommu = fact.get("iommu")
    if isinstance(iommu, bool):
        yield "IOMMU", "on" if iommu else "off"
    yield "logical CPUs", _number(fact, "logical_cpus")
    size = fact.get("memory_bytes")
    if type(size) is int and 0 < size < _MOST_MEMORY:
        yield "memory", f"{installed_gib(size)} GiB"
    firmware = fact.get("firmware")
    if isinstance(firmware, dict):
        version, date = _text(firmware, "bios_version"), _text(firmware, "bios_date")
        yield "BIOS", f"{version} of {date}" if version and date else version
        made = (_text(firmware, name) for name in ("vendor", "product", "board_vendor", "board"))
        yield "board", " ".join(dict.fromkeys(made)).strip()


def installed_gib(size: int) -> int:
    """Memory as it was put in, of the bytes that the kernel has, which keeps some for itself.

    Up to the next 16th to 32nd part: a module that is gone shows, a reserved piece does not.
    """
    step = 1 << max(0, (size >> 30).bit_length() - 5)
    return -(-size // (step << 30)) * step


def _environment(fact: Record) -> Iterator[Told]:
    variables = fact.get("variables")
    if isinstance(variables, dict) and fact.get("partial") is False:
        for name in KEPT_VARIABLES:
            value = variables.get(name)
            if isinstance(value, str):
                yield f"{VARIABLE}{name}", value or "(empty)"
        yield from [(f"{VARIABLE}PATH", NONE)] if "PATH" not in variables else []


def _one(trait: str, field: str = "version") -> Teller:
    """A trait that is one text of a fact."""

    def tell(fact: Record) -> Iterator[Told]:
        yield trait, _text(fact, field)

    return Teller((trait,), tell)


TELLERS: dict[str, Teller] = {
    "gmi": Teller((), _gmi),
    # After what the tool says of it.
    "kernel_driver": Teller(("kernel driver",), _kernel_driver),
    "user_driver": Teller(("user-space driver",), _user_driver),
    "gpus": Teller(("cards",), _gpus),
    "toolkit": _one("toolkit in use"),
    "toolkits": Teller(("installed toolkits",), _toolkits),
    "mcc": _one("mcc"),
    "mudnn": _one("muDNN"),
    "mccl": _one("MCCL"),
    "musa_info": Teller((), _musa_info),
    "torch_build": _one("torch build", "flavour"),
    "collectives": Teller(("torch collectives",), _collectives),
    "triton": Teller(("triton backends",), _triton),
    "python": _one("Python"),
    "distributions": Teller((), _distributions),
    "rdma": Teller(("RDMA adapters", "RDMA ports active", "RDMA to card memory"), _rdma),
    "container": Teller(("container",), _container),
    "machine": Teller((), _machine),
    "environment": Teller((), _environment),
}


def _text(record: Record, name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""


def _number(record: Record, name: str) -> str:
    """A whole number, ``""`` for anything else and for one that nothing has so many of."""
    value = record.get(name)
    return str(value) if type(value) is int and abs(value) < _MOST_MEMORY else ""


def _records(record: Record, name: str) -> list[dict[str, JSON]]:
    """A list of records; empty where anything else is among them."""
    value = record.get(name)
    if not isinstance(value, list):
        return []
    records = [one for one in value[:_MOST_RECORDS] if isinstance(one, dict)]
    return records if len(records) == len(value) else []


def _counted(values: Iterable[str]) -> str:
    """``7 x MTT S5000, 1 x MTT S4000``; ``""`` where one of the values is not known."""
    counts = Counter(values)
    if "" in counts:
        return ""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} x {value}" for value, count in ordered)
