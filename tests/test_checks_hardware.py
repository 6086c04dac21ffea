"""The checks of the cards on the bus: what they fire on, stay silent on, and cannot tell."""

import pytest
from given import (
    ALINUX,
    DOCKER,
    MACHINE,
    S30,
    S80,
    S3000,
    S4000,
    S5000,
    advice,
    gpus,
    judged,
    said,
    unknown,
)

from musadoctor.api import Absent, Gpus, KernelLog, KernelMessage, PcieLink, Unknown
from musadoctor_checks import hardware as family

NO_GPU = Absent("no GPU of vendor 1ed5 among 21 PCI devices in /sys/bus/pci/devices")
NO_DRIVER = Absent("the kernel module mtgpu is not loaded")
UNSEEN = Unknown("not found out")
S5000_AT_VM = S5000._replace(kernel_module="vfio-pci")
UNKNOWN_CARD = S5000._replace(device_id="0999", product=None, architecture=None, memory_mib=None)


def test_no_gpu() -> None:
    assert said(family.no_gpu, gpus=NO_GPU, kernel_driver=NO_DRIVER) == (
        f"no Moore Threads GPU: {NO_GPU.reason}",
    )
    assert "BIOS" in advice(family.no_gpu, gpus=NO_GPU, kernel_driver=NO_DRIVER)
    assert said(family.no_gpu) == ()


def test_no_gpu_when_nothing_else_is_known() -> None:
    (message,) = said(
        family.no_gpu, gpus=NO_GPU, machine=UNSEEN, container=UNSEEN, kernel_driver=UNSEEN
    )
    assert message == f"no Moore Threads GPU: {NO_GPU.reason}"


def test_no_gpu_in_a_container_and_in_a_guest() -> None:
    facts: dict[str, object] = {
        "gpus": NO_GPU,
        "kernel_driver": NO_DRIVER,
        "container": DOCKER,
    }
    (message,) = said(family.no_gpu, **facts)
    assert message == f"no Moore Threads GPU (inside: docker container): {NO_GPU.reason}"
    assert "container" in advice(family.no_gpu, **facts)
    facts["machine"] = MACHINE._replace(virtual_machine="KVM")
    facts["container"] = DOCKER._replace(runtime=None)
    (message,) = said(family.no_gpu, **facts)
    assert message.startswith("no Moore Threads GPU (inside: a container, guest of KVM): ")
    assert "guest of KVM" in advice(family.no_gpu, **facts)


def test_no_gpu_cannot_be_said_of_a_bus_that_is_not_whole() -> None:
    wsl = MACHINE._replace(wsl=True)
    assert "Windows" in unknown(family.no_gpu, gpus=NO_GPU, machine=wsl)
    assert "3.3.5-server" in unknown(family.no_gpu, gpus=NO_GPU)


@pytest.mark.parametrize(
    ("cards", "fires"),
    [(gpus(S30, S30), True), (gpus(S30, S80), False), (gpus(S80), False), (gpus(), False)],
)
def test_an_unsupported_generation(cards: Gpus, *, fires: bool) -> None:
    messages = said(family.gpu_generation_unsupported, gpus=cards)
    assert bool(messages) is fires
    assert all(message.startswith("MTT S30 at 0000:10:00.0, MTT S30") for message in messages)


REFUSAL = "mtgpu 0000:10:00.0: mtgpu_query_dev_info failed (-22)"
SAYS = f"; the kernel log says {REFUSAL!r}"


@pytest.mark.parametrize(
    ("cards", "message"),
    [
        (
            gpus(S30),
            (
                "MTT S30 at 0000:10:00.0: architecture mp_10, which current drivers and torch_musa do"
                f" not support{SAYS}"
            ),
        ),
        (
            gpus(S30, S80),
            f"MTT S30 at 0000:10:00.0: the driver does not take it{SAYS}",
        ),
        (
            gpus(UNKNOWN_CARD),
            f"{UNKNOWN_CARD._replace(address='0000:10:00.0')}: the driver does not take it{SAYS}",
        ),
        (gpus(S80), None),
    ],
)
def test_the_driver_does_not_take_a_card(cards: Gpus, message: str | None) -> None:
    log = KernelLog((KernelMessage(11.9, REFUSAL),), since_start=True)
    found = said(family.gpu_generation_unsupported, gpus=cards, kernel_log=log)
    assert found == ((message,) if message else ())
    unread = {"gpus": gpus(UNKNOWN_CARD), "kernel_log": UNSEEN}
    assert said(family.gpu_generation_unsupported, **unread) == ()


def test_an_unknown_product() -> None:
    cards = gpus(S80, UNKNOWN_CARD)
    assert said(family.gpu_unknown_product, gpus=cards) == (
        "PCI number 1ed5:0999 at 0000:11:00.0 is not in musadoctor's table",
    )
    assert said(family.gpu_unknown_product) == ()


def test_mixed_architectures() -> None:
    cards = gpus(S4000, S3000, S4000)
    assert said(family.mixed_gpu_architectures, gpus=cards) == (
        (
            "cards of 2 architectures: mp_22: MTT S4000 at 0000:10:00.0, MTT S4000 at 0000:12:00.0;"
            " mp_21: MTT S3000 at 0000:11:00.0"
        ),
    )
    assert said(family.mixed_gpu_architectures) == ()
    assert said(family.mixed_gpu_architectures, gpus=gpus(S4000, UNKNOWN_CARD)) == ()


@pytest.mark.parametrize(
    ("cards", "all_held", "some_held"),
    [
        (gpus(S5000, S5000), 0, 0),
        (gpus(S5000_AT_VM, S5000), 0, 1),
        (gpus(*[S5000_AT_VM] * 6), 1, 0),
        (gpus(S5000._replace(kernel_module=None)), 0, 0),
        (gpus(S5000._replace(kernel_module="mtvgpu")), 0, 0),
    ],
)
def test_cards_for_virtual_machines(cards: Gpus, all_held: int, some_held: int) -> None:
    assert len(said(family.all_gpus_held_for_passthrough, gpus=cards)) == all_held
    assert len(said(family.gpu_held_for_passthrough, gpus=cards)) == some_held


def test_a_long_row_of_cards_is_cut() -> None:
    result = judged(family.all_gpus_held_for_passthrough, gpus=gpus(*[S5000_AT_VM] * 6))
    (finding,) = result.findings
    assert finding.message.startswith("all 6 cards are bound to vfio-pci, not to mtgpu: MTT S5000")
    assert finding.message.endswith("MTT S5000 at 0000:13:00.0 and 2 more")
    assert finding.fix is not None
    assert finding.fix.destructive
    assert finding.fix.commands == ("lspci -nnk -s 0000:10:00.0",)


@pytest.mark.parametrize(
    ("link", "fires"),
    [
        (PcieLink(4, 16, "8.0 GT/s PCIe", "32.0 GT/s PCIe"), True),
        (PcieLink(16, 16, "2.5 GT/s PCIe", "32.0 GT/s PCIe"), False),
        (PcieLink(0, 16, "Unknown", "32.0 GT/s PCIe"), False),
        (None, False),
    ],
)
def test_a_narrow_link(link: PcieLink | None, *, fires: bool) -> None:
    messages = said(family.pcie_link_narrow, gpus=gpus(S80._replace(link=link)))
    wanted = "MTT S80 at 0000:10:00.0 uses 4 of 16 PCIe lanes (sysfs)"
    assert messages == ((wanted,) if fires else ())


ON = ("intel_iommu=on", "iommu.passthrough=0")
OFF = ("quiet", "intel_iommu=off")


@pytest.mark.parametrize(
    ("cards", "gib", "boot", "off", "on"),
    [
        (gpus(S4000), 512, OFF, 1, 0),
        (gpus(S4000), 512, ("amd_iommu=off",), 1, 0),
        (gpus(S4000), 512, ("iommu=pt,off",), 1, 0),
        (gpus(S4000), 512, ON, 0, 0),
        (gpus(S4000), 512, ("intel_iommu=on,sm_on",), 0, 0),
        (gpus(S4000), 512, ("intel_iommu=off", "intel_iommu=on"), 0, 0),
        (gpus(S4000), 251, OFF, 1, 0),
        (gpus(S4000), 128, OFF, 0, 0),
        (gpus(S5000), 512, OFF, 0, 0),
        (gpus(S5000), 64, ON, 0, 1),
        (gpus(S5000), 512, ("amd_iommu=on", "iommu=pt"), 0, 1),
        (gpus(S80), 512, OFF, 0, 0),
        (gpus(S80), 512, ON, 0, 0),
    ],
)
def test_the_iommu_by_card(cards: Gpus, gib: int, boot: tuple[str, ...], off: int, on: int) -> None:
    host = MACHINE._replace(boot_parameters=boot, memory_bytes=gib * 2**30)
    assert len(said(family.iommu_off, gpus=cards, machine=host)) == off
    assert len(said(family.iommu_on, gpus=cards, machine=host)) == on


def test_the_iommu_findings_name_what_they_saw_and_how_to_change_it() -> None:
    host = MACHINE._replace(boot_parameters=OFF)
    facts = {"gpus": gpus(S4000, S4000), "machine": host}
    assert said(family.iommu_off, **facts) == (
        (
            "the IOMMU is off (intel_iommu=off in /proc/cmdline); with 2 x MTT S4000 and 1024 GiB"
            " of memory it must be on"
        ),
    )
    assert "sudo update-grub" in advice(family.iommu_off, **facts)
    host = ALINUX._replace(boot_parameters=ON)
    assert said(family.iommu_on, machine=host) == (
        (
            "the IOMMU is on (intel_iommu=on iommu.passthrough=0 in /proc/cmdline); with"
            " 8 x MTT S5000 it must be off"
        ),
    )
    assert "grub2-mkconfig" in advice(family.iommu_on, machine=host)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"virtual_machine": "KVM"}, "a guest of KVM does not show its host's IOMMU"),
        ({"boot_parameters": Unknown("/proc/cmdline: Permission denied")}, "/proc/cmdline: "),
        ({"boot_parameters": ("quiet",)}, "the boot parameters do not settle"),
        ({"boot_parameters": ("iommu=off", "intel_iommu=on")}, "iommu=off intel_iommu=on"),
    ],
)
def test_the_iommu_cannot_always_be_seen(changes: dict[str, object], reason: str) -> None:
    host = MACHINE._replace(**changes)  # type: ignore[arg-type]
    assert reason in unknown(family.iommu_off, gpus=gpus(S4000), machine=host)
    assert reason in unknown(family.iommu_on, machine=host)


@pytest.mark.parametrize(
    ("boot", "on", "words"),
    [
        ((), True, "/sys/kernel/iommu_groups has groups"),
        ((), False, "/sys/kernel/iommu_groups is empty"),
        # Asked for, and switched off in the BIOS; switched off for the other maker's processors.
        (ON, False, "/sys/kernel/iommu_groups is empty, with intel_iommu=on iommu.passthrough=0"),
        (OFF, True, "/sys/kernel/iommu_groups has groups, with intel_iommu=off in /proc/cmdline"),
        (Unknown("closed"), True, "/sys/kernel/iommu_groups has groups"),
    ],
)
def test_what_the_kernel_did_outranks_what_it_was_asked(
    boot: tuple[str, ...] | Unknown, *, on: bool, words: str
) -> None:
    host = MACHINE._replace(boot_parameters=boot, iommu=on)
    off_messages = said(family.iommu_off, gpus=gpus(S4000), machine=host)
    on_messages = said(family.iommu_on, machine=host)
    assert (bool(off_messages), bool(on_messages)) == (not on, on)
    assert all(words in message for message in (*off_messages, *on_messages))
    guest = host._replace(virtual_machine="KVM")
    assert "KVM" in unknown(family.iommu_on, machine=guest)


def test_the_iommu_rule_needs_the_size_of_the_memory() -> None:
    host = MACHINE._replace(memory_bytes=None)
    assert "memory" in unknown(family.iommu_off, gpus=gpus(S4000), machine=host)
