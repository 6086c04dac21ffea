"""The cards on the PCI bus, and the settings of the machine that they need."""

from typing import NamedTuple

from musadoctor.api import (
    Absent,
    Container,
    Finding,
    Fix,
    Gpu,
    Gpus,
    Judgement,
    KernelDriver,
    KernelLog,
    Layer,
    Machine,
    Unknown,
    check,
)
from musadoctor_checks._advice import boot_parameters, some

OTHER_OWNERS = {"igb_uio", "pci-stub", "pciback", "uio_pci_generic", "vfio-pci", "xen-pciback"}
"""Drivers of the Linux kernel that keep a device for something other than this host."""


@check("no-gpu", layer=Layer.HARDWARE, severity="error")
def no_gpu(
    gpus: Gpus | Absent,
    machine: Machine | Unknown,
    container: Container | Absent | Unknown,
    kernel_driver: KernelDriver | Absent | Unknown,
) -> Judgement:
    """No Moore Threads GPU is on the PCI bus of this host.

    ## Why it matters

    Nothing of MUSA can work, whatever is installed. All checks that need a card are skipped.

    ## How to fix

    - On a machine of your own: look whether the card sits in its slot and has power, and switch on
      "Above 4G Decoding" and "Resizable BAR" in the BIOS of a PC.
    - In a virtual machine or on a cloud host: the card has to be passed through to this guest.
    - On a login or build node: run musadoctor on the node that holds the cards.

    ## Symptoms

    - `Error: No MT GPU device found.`
    - `Error: there no exist gpu device`

    ## Sources

    The vendor's PCI number 1ed5: MUSA SDK 5.2.0 install guide (2026). The BIOS settings: the same
    guide and torch_musa issue 50 (2024-05).
    """
    if isinstance(gpus, Gpus):
        return
    if isinstance(machine, Machine) and machine.wsl:
        yield Unknown("the Windows Subsystem for Linux does not show the machine's PCI bus")
        return
    if isinstance(kernel_driver, KernelDriver):
        yield Unknown(f"{gpus}, yet {kernel_driver} is loaded: this view of the bus is not whole")
        return
    guest = machine.virtual_machine if isinstance(machine, Machine) else None
    if guest:
        fix = f"Pass a card through to this guest of {guest}, or run musadoctor on its host"
    elif isinstance(container, Container):
        fix = "Start the container on a machine with a Moore Threads card"
    else:
        fix = (
            "Run musadoctor on the machine that holds the card; if this is the one, look at the"
            " card's slot, its power, and Above 4G Decoding and Resizable BAR in the BIOS"
        )
    inside = [f"{container.runtime or 'a'} container"] if isinstance(container, Container) else []
    inside += [f"guest of {guest}"] if guest else []
    seen_from = f" (inside: {', '.join(inside)})" if inside else ""
    yield Finding(f"no Moore Threads GPU{seen_from}: {gpus}", fix=Fix(fix))


UNKNOWN_TO_DRIVER = "mtgpu_query_dev_info failed (-22)"


@check("gpu-generation-unsupported", layer=Layer.HARDWARE, severity="error")
def gpu_generation_unsupported(gpus: Gpus, kernel_log: KernelLog | Absent | Unknown) -> Judgement:
    """The cards are of a generation that current drivers and torch_musa do not support.

    ## Why it matters

    Cards of architecture mp_10 (S10, S30, S50, S60, S1000, S2000) fail on current drivers, and the
    maintainers of torch_musa say that they are not supported.

    ## How to fix

    Use a card of architecture mp_21 or later: S70, S80, S3000, S90, S4000, S5000.

    ## Symptoms

    - `mtgpu_query_dev_info failed (-22)` in the kernel log

    ## Sources

    torch_musa issue 134 (2026); product table of musa-deploy 0.7.0 (2025-08).
    """
    messages = kernel_log.messages if isinstance(kernel_log, KernelLog) else ()
    said = [str(m) for m in messages if UNKNOWN_TO_DRIVER in m.text][:1]
    log = f"; the kernel log says {said[0]!r}" if said else ""
    fix = Fix("Use a card of architecture mp_21 or later, such as S80, S4000 or S5000")
    if gpus.cards and all(card.architecture == "mp_10" for card in gpus.cards):
        yield Finding(
            f"{_row(gpus.cards)}: architecture mp_10, which current drivers and torch_musa do not"
            f" support{log}",
            where=gpus.cards[0].address,
            fix=fix,
        )
        return
    unknown = [card for card in gpus.cards if card.architecture in {None, "mp_10"}]
    if said and unknown:
        yield Finding(
            f"{_row(unknown)}: the driver does not take it{log}", where=unknown[0].address, fix=fix
        )


def _row(cards: tuple[Gpu, ...] | list[Gpu]) -> str:
    return some([str(card) for card in cards])


@check("gpu-unknown-product", layer=Layer.HARDWARE, severity="note")
def gpu_unknown_product(gpus: Gpus) -> Judgement:
    """A Moore Threads card is of a product that musadoctor does not know.

    ## Why it matters

    Checks that depend on the product or its architecture (memory size, IOMMU, the architectures
    that libraries are built for) do not look at this card. That says nothing against the card.

    ## How to fix

    Report the number from the message together with the name that `mthreads-gmi` prints, so that it
    gets into musadoctor's table.

    ## Sources

    Product table of musa-deploy 0.7.0 (2025-08).
    """
    for card in gpus.cards:
        if card.product is None:
            yield Finding(
                f"PCI number 1ed5:{card.device_id} at {card.address} is not in musadoctor's table",
                where=card.address,
                fix=Fix("Report this number with the product's name to musadoctor"),
            )


@check("mixed-gpu-architectures", layer=Layer.HARDWARE, severity="warning")
def mixed_gpu_architectures(gpus: Gpus) -> Judgement:
    """Cards of different architectures are in one host.

    ## Why it matters

    On a host with S4000 and S3000 cards side by side, `musaGetDeviceCount` failed with error 801,
    and libraries built for one of the architectures do not run on the other.

    ## How to fix

    Show each process the cards of one architecture only. `musaInfo` lists the numbers to use.

    ## Symptoms

    - `Error 801: operation not supported`
    - `invalid device function`

    ## Sources

    tutorial_on_musa issue 26 (2024/2025).
    """
    if len(gpus.architectures) > 1:
        groups = [
            f"{name}: {_row([card for card in gpus.cards if card.architecture == name])}"
            for name in gpus.architectures
        ]
        yield Finding(
            f"cards of {len(gpus.architectures)} architectures: {'; '.join(groups)}",
            fix=Fix(
                "Set MUSA_VISIBLE_DEVICES to the numbers of one kind of card before the process"
                " starts; musaInfo shows which number is which card"
            ),
        )


def _held(gpus: Gpus) -> list[Gpu]:
    return [card for card in gpus.cards if card.kernel_module in OTHER_OWNERS]


def _release(cards: list[Gpu]) -> Fix:
    return Fix(
        "If this host itself is to use the cards, take them out of the pass-through configuration"
        " (vfio-pci.ids in the boot parameters, /etc/modprobe.d) and restart the machine; a virtual"
        " machine that uses them loses them",
        tuple(f"lspci -nnk -s {card.address}" for card in cards[:1]),
        destructive=True,
    )


@check("all-gpus-held-for-passthrough", layer=Layer.HARDWARE, severity="error")
def all_gpus_held_for_passthrough(gpus: Gpus) -> Judgement:
    """Every card is held by a kernel module that keeps it for a virtual machine.

    ## Why it matters

    A card that is bound to `vfio-pci` or its like belongs to a virtual machine, and the driver
    `mtgpu` cannot use it here.

    ## How to fix

    Run the workload in the virtual machine that the cards are for, or give the cards back to the
    host and restart it.

    ## Sources

    Linux kernel documentation, VFIO.
    """
    if gpus.by_name:
        yield Unknown(f"what drives the card is not shown: {gpus}")
    held = _held(gpus)
    if held and len(held) == len(gpus.cards):
        yield Finding(
            f"all {len(held)} cards are bound to {held[0].kernel_module}, not to mtgpu:"
            f" {_row(held)}",
            where=held[0].address,
            fix=_release(held),
        )


@check("gpu-held-for-passthrough", layer=Layer.HARDWARE, severity="warning")
def gpu_held_for_passthrough(gpus: Gpus) -> Judgement:
    """Some cards are held by a kernel module that keeps them for a virtual machine.

    ## Why it matters

    PyTorch on this host sees the other cards only.

    ## How to fix

    Nothing, if a virtual machine is to have them. Otherwise give the cards back to the host and
    restart it.

    ## Sources

    Linux kernel documentation, VFIO.
    """
    if gpus.by_name:
        yield Unknown(f"what drives the card is not shown: {gpus}")
    held = _held(gpus)
    if held and len(held) < len(gpus.cards):
        yield Finding(
            f"{len(held)} of {len(gpus.cards)} cards are bound to {held[0].kernel_module}, not to"
            f" mtgpu: {_row(held)}",
            where=held[0].address,
            fix=_release(held),
        )


@check("pcie-link-narrow", layer=Layer.HARDWARE, severity="note")
def pcie_link_narrow(gpus: Gpus) -> Judgement:
    """A card uses fewer PCIe lanes than it has.

    ## Why it matters

    Copies between host and card, and between cards without MTLink, are slower in proportion.
    Everything works.

    ## How to fix

    Put the card into a slot with all lanes, or look for a second card that shares them. A link that
    should be wide is worth a look at the seating of the card and its riser.

    ## Sources

    `current_link_width` and `max_link_width` in sysfs; an S80 with 4 of 16 lanes (2024).
    """
    for card in gpus.cards:
        if card.link and 0 < card.link.width < card.link.max_width:
            yield Finding(
                f"{card} uses {card.link.width} of {card.link.max_width} PCIe lanes (sysfs)",
                where=card.address,
                fix=Fix("Seat the card in a slot with all lanes, where one is free"),
            )


GROUPS = "/sys/kernel/iommu_groups"
LARGE_MEMORY = 256 * 10**9
"""The rule says 256 GB; of 256 GiB the kernel leaves a little less than it says on the module."""


def _of_product(gpus: Gpus, name: str) -> list[Gpu]:
    return [card for card in gpus.cards if card.product == name]


class _Iommu(NamedTuple):
    """Whether the IOMMU is on, and who says so."""

    on: bool
    words: str
    where: str


def _iommu(machine: Machine) -> _Iommu | Unknown:
    """What the kernel did; where /sys does not tell, what the boot parameters ask for."""
    if machine.virtual_machine:
        return Unknown(f"a guest of {machine.virtual_machine} does not show its host's IOMMU")
    names = ("intel_iommu", "amd_iommu", "iommu", "iommu.passthrough")
    words = () if isinstance(machine.boot_parameters, Unknown) else machine.boot_parameters
    said = [word for word in words if word.partition("=")[0] in names]
    if machine.iommu is not None:
        state = "has groups" if machine.iommu else "is empty"
        asked = f", with {' '.join(said)} in /proc/cmdline" if said else ""
        return _Iommu(machine.iommu, f"{GROUPS} {state}{asked}", GROUPS)
    if isinstance(machine.boot_parameters, Unknown):
        return machine.boot_parameters
    # The kernel takes the last of several values.
    values = {word.partition("=")[0]: word.partition("=")[2].split(",") for word in said}
    off = any("off" in value for value in values.values())
    on = any("on" in values.get(name, ()) for name in ("intel_iommu", "amd_iommu"))
    shown = " ".join(said)
    if off != on:
        return _Iommu(on, f"{shown} in /proc/cmdline", "/proc/cmdline")
    return Unknown(
        f"the boot parameters do not settle whether the IOMMU is on ({shown or 'none is about it'}"
        "): firmware and kernel decide, and `sudo dmesg | grep -i iommu` tells"
    )


@check("iommu-off", layer=Layer.HARDWARE, severity="warning")
def iommu_off(gpus: Gpus, machine: Machine) -> Judgement:
    """The IOMMU is off, but an S4000 in a machine with this much memory needs it.

    ## Why it matters

    With 256 GB of memory or more the vendor requires the IOMMU to be on for the S4000. With it off,
    `musaGetDeviceCount` fails with error 801 and the cards show 32768 MiB instead of 49152 MiB.

    ## How to fix

    Switch on VT-d or AMD-Vi in the BIOS (on Hygon machines also in the BMC), boot with
    `intel_iommu=on iommu.passthrough=0` or `amd_iommu=on iommu.passthrough=0`, and restart. For the
    S5000 the opposite holds: see `iommu-on`.

    ## Symptoms

    - `Error 801: operation not supported` from `musaGetDeviceCount`
    - `mthreads-gmi` shows `32768MiB` for an S4000

    ## Sources

    MUSA SDK 5.2.0 install guide (2026); tutorial_on_musa, environment FAQ items 3 and 5
    (2024/2025).
    """
    cards = _of_product(gpus, "MTT S4000")
    if not cards:
        return
    if machine.memory_bytes is None:
        yield Unknown("the size of the host's memory, which the rule depends on, is not known")
        return
    if machine.memory_bytes < LARGE_MEMORY:
        return
    iommu = _iommu(machine)
    if isinstance(iommu, Unknown):
        yield iommu
    elif not iommu.on:
        size = machine.memory_bytes / 2**30
        yield Finding(
            f"the IOMMU is off ({iommu.words}); with {len(cards)} x MTT S4000 and {size:.0f} GiB of"
            " memory it must be on",
            where=iommu.where,
            fix=Fix(
                "Switch VT-d or AMD-Vi on in the BIOS. "
                + boot_parameters(
                    machine, "intel_iommu=on (AMD, Hygon: amd_iommu=on) iommu.passthrough=0"
                )
            ),
        )


@check("iommu-on", layer=Layer.HARDWARE, severity="warning")
def iommu_on(gpus: Gpus, machine: Machine) -> Judgement:
    """The IOMMU is on, but the vendor wants it off for the S5000.

    ## Why it matters

    The install guide lists the IOMMU being off as mandatory for the S5000. Older advice to always
    switch it on is about the S4000.

    ## How to fix

    Boot with `intel_iommu=off iommu=off iommu.passthrough=1` and restart. Passing devices through
    to virtual machines does not work without an IOMMU.

    ## Sources

    MUSA SDK 5.2.0 install guide (2026).
    """
    cards = _of_product(gpus, "MTT S5000")
    if not cards:
        return
    iommu = _iommu(machine)
    if isinstance(iommu, Unknown):
        yield iommu
    elif iommu.on:
        yield Finding(
            f"the IOMMU is on ({iommu.words}); with {len(cards)} x MTT S5000 it must be off",
            where=iommu.where,
            fix=Fix(
                boot_parameters(machine, "intel_iommu=off iommu=off iommu.passthrough=1")
                + "; devices can then no longer be passed through to virtual machines",
                destructive=True,
            ),
        )
