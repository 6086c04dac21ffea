"""The GPUs as the PCI bus shows them, with no driver needed."""

from typing import NamedTuple

from musadoctor.facts.base import Absent, Unknown


class PcieLink(NamedTuple):
    """The link of one card as sysfs states it."""

    width: int
    max_width: int
    speed: str
    """``16.0 GT/s PCIe``."""
    max_speed: str


class Gpu(NamedTuple):
    """One PCI function of vendor 1ed5 that is a display or 3D controller."""

    address: str
    """``0000:2a:00.0``."""
    device_id: str
    """Four hexadecimal digits, ``0400``."""
    product: str | None
    """``MTT S5000``; ``None`` where the product table does not name the id."""
    architecture: str | None
    """``mp_31``."""
    memory_mib: int | None
    """Memory that the product ships with, in MiB."""
    kernel_module: str | None
    """The module that is bound to the card: ``mtgpu``, ``vfio-pci``; ``None`` for none."""
    numa_node: int | None
    link: PcieLink | None

    def __str__(self) -> str:
        if not self.address:
            return self.product or "a card"
        return f"{self.product or f'unknown product 1ed5:{self.device_id}'} at {self.address}"


class Gpus(NamedTuple):
    """All Moore Threads GPUs on the PCI bus."""

    cards: tuple[Gpu, ...]
    source: str
    by_name: bool = False
    """Known by a name in a sentence alone: neither number, address nor state is known."""
    counted: bool = True
    """Whether all cards of the machine are among these: a pasted table may be cut."""

    @property
    def architectures(self) -> tuple[str, ...]:
        """The distinct known architectures, in the order of the cards."""
        return tuple(dict.fromkeys(c.architecture for c in self.cards if c.architecture))

    @property
    def products(self) -> tuple[str, ...]:
        """The distinct product names, in the order of the cards; ids where no name is known."""
        return tuple(dict.fromkeys(c.product or f"1ed5:{c.device_id}" for c in self.cards))

    def __str__(self) -> str:
        if self.by_name:
            return f"{', '.join(self.products)} ({self.source})"
        counts = dict.fromkeys(self.products, 0)
        for card in self.cards:
            counts[card.product or f"1ed5:{card.device_id}"] += 1
        cards = ", ".join(f"{count} x {name}" for name, count in counts.items())
        return f"{cards} ({self.source})"


GpusFact = Gpus | Absent | Unknown
