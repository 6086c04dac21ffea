"""The GPUs as sysfs shows the PCI bus; needs no driver and no root.

Every device is a folder of small files: ``vendor`` ``0x1ed5``, ``device`` ``0x0400``, ``class``
``0x030200``, ``current_link_width`` ``16``, ``current_link_speed`` ``16.0 GT/s PCIe``,
``numa_node`` ``-1`` where the firmware names none, and a link ``driver`` to the bound driver.
"""

from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.driver import Gmi, GmiCard
from musadoctor.facts.hardware import Gpu, Gpus, GpusFact, PcieLink
from musadoctor.probes.gmi import gmi
from musadoctor.probes.once import once
from musadoctor.probes.products import by_name, product
from musadoctor.probes.stated import stated
from musadoctor.system import NOT_THERE, UNRECORDED, Failure, System

VENDOR = "0x1ed5"
DISPLAY_CONTROLLERS = "0x03"
"""The class of VGA (0300) and 3D (0302) controllers. S4000 and S80 also show an audio function."""
BUS = "/sys/bus/pci/devices"


@once
def gpus(system: System) -> GpusFact:
    """Display and 3D controllers of vendor 1ed5, in the order of their addresses."""
    addresses = system.list(BUS)
    if isinstance(addresses, Failure):
        return _by_word(system, addresses) or _no_bus(system, addresses)
    unread: list[Failure] = []
    cards: list[Gpu] = []
    for address in addresses:
        path = f"{BUS}/{address}"
        vendor = system.read(f"{path}/vendor")
        if isinstance(vendor, str) and vendor.strip().lower() != VENDOR:
            continue
        kind = system.read(f"{path}/class") if isinstance(vendor, str) else vendor
        if isinstance(kind, Failure):
            unread.append(kind)
        elif kind.startswith(DISPLAY_CONTROLLERS):
            cards.append(_gpu(system, address, path))
    if cards:
        return Gpus(tuple(cards), BUS)
    # What is listed and then "not there" was unplugged meanwhile.
    refused = [failure for failure in unread if failure.kind != NOT_THERE]
    if refused:
        return Unknown(f"the PCI bus cannot be read: {refused[0]}")
    return Absent(f"no GPU of vendor 1ed5 among {len(addresses)} PCI devices in {BUS}")


def _by_word(system: System, failure: Failure) -> Gpus | None:
    """Of a transcript: the cards of the management tool's table, or a card that is named."""
    if failure.kind != UNRECORDED:
        return None
    listed = gmi(system)
    if isinstance(listed, Gmi) and listed.cards:
        counted = bool(stated(system, "every card", failure))
        return Gpus(tuple(map(_listed, listed.cards)), listed.source, counted=counted)
    named = stated(system, "card", failure)
    if len(named) != 1:  # of several nobody knows which are in this machine
        return None
    known = by_name(named[0].value)
    card = Gpu("", "", named[0].value, known.architecture, known.memory_mib, None, None, None)
    return Gpus((card,), named[0].source, by_name=True, counted=False)


def _listed(card: GmiCard) -> Gpu:
    name = card.name if card.name.startswith("MTT ") else f"MTT {card.name}"
    known = by_name(name)
    link = None
    if card.lanes is not None and card.max_lanes is not None:
        link = PcieLink(card.lanes, card.max_lanes, "", "")
    return Gpu(card.bus_id, "", name, known.architecture, known.memory_mib, "mtgpu", None, link)


def _no_bus(system: System, failure: Failure) -> Absent | Unknown:
    buses = system.list("/sys/bus")
    if failure.kind == NOT_THERE and not isinstance(buses, Failure) and "pci" not in buses:
        return Absent("no PCI bus in /sys/bus")
    return Unknown(f"the PCI bus cannot be read: {failure}")


def _gpu(system: System, address: str, path: str) -> Gpu:
    device_id = _text(system, f"{path}/device").lower().removeprefix("0x")
    known = product(device_id)
    driver = system.stat(f"{path}/driver")
    node = _number(_text(system, f"{path}/numa_node"))
    return Gpu(
        address=address,
        device_id=device_id,
        product=known.name,
        architecture=known.architecture,
        memory_mib=known.memory_mib,
        kernel_module=None if isinstance(driver, Failure) else driver.real.rpartition("/")[2],
        numa_node=node,
        link=_link(system, path),
    )


def _link(system: System, path: str) -> PcieLink | None:
    width = _number(_text(system, f"{path}/current_link_width"))
    max_width = _number(_text(system, f"{path}/max_link_width"))
    if width is None or max_width is None:
        return None
    speed = _text(system, f"{path}/current_link_speed")
    return PcieLink(width, max_width, speed, _text(system, f"{path}/max_link_speed"))


def _text(system: System, path: str) -> str:
    text = system.read(path)
    return "" if isinstance(text, Failure) else text.strip()


def _number(text: str) -> int | None:
    """A small number; ``None`` for ``-1`` and whatever else is none."""
    return int(text) if text.isdecimal() and len(text) < 9 else None  # noqa: PLR2004 - any int fits
