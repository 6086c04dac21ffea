"""Which facts ought to be equal on hosts of one kind, and how much it means when they are not."""

import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from musadoctor.fleet.answer import line
from musadoctor.fleet.tellers import KEPT_VARIABLES, NONE, TELLERS, VARIABLE, WHEEL
from musadoctor.probes.distributions import WANTED
from musadoctor.report import JSON

__all__ = ["NONE", "TRAITS", "Trait", "traits", "with_none"]

LONGEST_VALUE = 300
"""Characters of a value."""


class Trait(NamedTuple):
    """Something in which hosts of a kind ought to be equal."""

    name: str
    """``kernel driver``."""
    weight: int
    """1 (differs for harmless reasons) to 5 (a difference breaks jobs that span the hosts)."""
    version: bool = False
    """Whether its values have an order, so that two of them may be an upgrade."""


TRAITS: tuple[Trait, ...] = (
    # Ranks of a job on different drivers, libraries or cards compute differently, or hang.
    Trait("kernel driver", 5, version=True),
    Trait("user-space driver", 5, version=True),
    Trait("cards", 5),
    Trait("card memory", 4),
    # Firmware is adapted to drivers; a difference alone is often harmless.
    Trait("card firmware", 3, version=True),
    # A narrow link slows every job that spans the hosts; the speed falls on idle cards as well.
    Trait("link width", 4),
    Trait("link speed", 2),
    Trait("card NUMA nodes", 2),
    Trait("gmi tool", 2, version=True),
    Trait("toolkit in use", 5, version=True),
    # Others beside the one in use do no harm.
    Trait("installed toolkits", 2),
    Trait("mcc", 3, version=True),
    Trait("muDNN", 4, version=True),
    Trait("MCCL", 5, version=True),
    Trait("driver API", 4, version=True),
    Trait("runtime API", 4, version=True),
    Trait("torch build", 5),
    Trait("torch collectives", 5, version=True),
    Trait("triton backends", 3),
    Trait("Python", 3, version=True),
    # Of the wheels, torch and what computes beside it must be the same for one job.
    *(
        Trait(f"{WHEEL}{name}", 5 if name in {"torch", "torch-musa"} else 3, version=True)
        for name in sorted(WANTED)
    ),
    # Where collectives between hosts go, and whether past the CPU's memory.
    Trait("RDMA adapters", 5),
    Trait("RDMA ports active", 4),
    Trait("RDMA to card memory", 4),
    Trait("container", 4),
    Trait("virtual machine", 4),
    Trait("kernel", 3, version=True),
    Trait("boot parameters", 3),
    Trait("IOMMU", 3),
    Trait("architecture", 5),
    Trait("distribution", 2),
    Trait("glibc", 2, version=True),
    Trait("board", 2),
    # A BIOS sets what PCIe and NUMA can do, and is often updated a few hosts at a time.
    Trait("BIOS", 2, version=True),
    Trait("logical CPUs", 2),
    Trait("memory", 2),
    # PATH differs by who asks; a library path decides which driver and Toolkit are loaded.
    *(
        Trait(f"{VARIABLE}{name}", {"PATH": 1, "LD_LIBRARY_PATH": 4}.get(name, 3))
        for name in KEPT_VARIABLES
    ),
)


def traits(facts: Mapping[str, JSON]) -> dict[str, str]:
    """The traits that a report's facts tell; of what is unknown or damaged, nothing.

    Of wheels and variables only those that are there, and torch and PATH in any case:
    :func:`with_none` adds what other hosts have.
    """
    found: dict[str, str] = {}
    for fact, teller in TELLERS.items():
        value = facts.get(fact)
        if not isinstance(value, dict) or "unknown" in value:
            continue
        if "absent" in value:
            for name in teller.lacking:
                # Where /sys shows no driver, the tool's own word of it stands.
                found.setdefault(name, NONE)
            continue
        for name, text in teller.tell(value):
            if text:
                found[name] = _bounded(text)
    return found


def with_none(hosts: Sequence[dict[str, str]]) -> None:
    """Write down of each host the wheels and variables that others have and it has not."""
    for family, known in ((WHEEL, f"{WHEEL}torch"), (VARIABLE, f"{VARIABLE}PATH")):
        names = dict.fromkeys(n for host in hosts for n in host if n.startswith(family))
        for host in hosts:
            if known in host:
                for name in names:
                    host.setdefault(name, NONE)


def _bounded(text: str) -> str:
    """One line; of a longer one, texts that differ stay different."""
    shown = line(text, LONGEST_VALUE)
    if len(shown) < LONGEST_VALUE:
        return shown
    mark = f" ... ({zlib.crc32(text.encode(errors='replace')):08x})"
    return shown[: LONGEST_VALUE - len(mark)] + mark
