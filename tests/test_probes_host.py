"""os-release, the kernel's words, and the signs of a guest."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import LINUX, file, folder, host

from musadoctor.facts import Firmware, Machine, Unknown
from musadoctor.live import Live
from musadoctor.probes.host import machine, parse_os_release
from musadoctor.recording import Recorder
from musadoctor.system import NOT_ALLOWED, UNRECORDED, Failure

UBUNTU = """\
PRETTY_NAME="Ubuntu 22.04.5 LTS"
NAME="Ubuntu"
VERSION_ID="22.04"
VERSION="22.04.5 LTS (Jammy Jellyfish)"
ID=ubuntu
ID_LIKE=debian
# comment="no"
broken line
"""


def test_a_plain_machine() -> None:
    system = host(
        files={
            "/etc/os-release": UBUNTU,
            "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=x ro intel_iommu=off iommu=off\n",
            "/proc/version": "Linux version 5.15.0-105-generic (buildd@lcy02)",
            "/proc/cpuinfo": "flags\t\t: fpu vme hypervisor2 nohypervisor\nmodel name : hypervisor\n",
            "/sys/class/dmi/id/sys_vendor": "Inspur\n",
            "/sys/class/dmi/id/product_name": "NF5468\n",
        }
    )
    found = machine(system)
    assert found == Machine(
        kernel="5.15.0-105-generic",
        architecture="x86_64",
        distribution="Ubuntu 22.04.5 LTS",
        distribution_id="ubuntu",
        distribution_version="22.04",
        glibc="2.35",
        boot_parameters=(
            "BOOT_IMAGE=/vmlinuz",
            "root=UUID=x",
            "ro",
            "intel_iommu=off",
            "iommu=off",
        ),
        wsl=False,
        virtual_machine=None,
        logical_cpus=64,
        memory_bytes=512 * 2**30,
    )
    assert str(found) == "Ubuntu 22.04.5 LTS, kernel 5.15.0-105-generic, x86_64, 512 GiB"


def test_nothing_to_read() -> None:
    found = machine(host(platform=LINUX._replace(glibc=None), resources=None))
    assert isinstance(found, Machine)
    assert found.distribution == "unknown distribution"
    assert found.distribution_id == found.distribution_version == ""
    assert found.boot_parameters == Unknown("no /proc/cmdline")
    assert not found.wsl
    assert found.virtual_machine is None
    assert str(found) == "unknown distribution, kernel 5.15.0-105-generic, x86_64"


def test_no_platform() -> None:
    assert machine(host(platform=Failure(UNRECORDED, "platform: x"))) == Unknown("platform: x")


@pytest.mark.parametrize(
    ("files", "distribution", "number"),
    [
        ({"/usr/lib/os-release": UBUNTU}, "Ubuntu 22.04.5 LTS", "22.04"),
        (
            {"/etc/os-release": Failure(NOT_ALLOWED, "x"), "/usr/lib/os-release": UBUNTU},
            "Ubuntu 22.04.5 LTS",
            "22.04",
        ),
        ({"/etc/os-release": UBUNTU, "/usr/lib/os-release": "ID=other"}, "Ubuntu 22.04.5 LTS", "22.04"),
        ({"/etc/os-release": "NAME='Kylin Linux'\nVERSION=\"V10 (Lance)\"\nVERSION_ID=V10"}, "Kylin Linux V10 (Lance)", "V10"),
        ({"/etc/os-release": "NAME=Arch"}, "Arch", ""),
        ({"/etc/os-release": "ID=alpine"}, "alpine", ""),
    ],
)  # fmt: skip
def test_distribution(files: dict[str, str | Failure], distribution: str, number: str) -> None:
    found = machine(host(files=files))
    assert isinstance(found, Machine)
    assert (found.distribution, found.distribution_version) == (distribution, number)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("N=plain", "plain"),
        ('N="two words"', "two words"),
        ("N='single'", "single"),
        (r'N="a \"quoted\" \$x \\ word"', r'a "quoted" $x \ word'),
        ("  N=x  ", "x"),
        ("N=", ""),
        ("N='open", "'open"),
        ('N="', '"'),
    ],
)
def test_os_release_values(line: str, value: str) -> None:
    assert parse_os_release(line) == {"N": value}


def test_os_release_comments() -> None:
    assert parse_os_release('#N="x"\n# ID=y\nID=z\nnonsense\n\n') == {"ID": "z"}


@given(st.text())
def test_no_text_is_too_much(text: str) -> None:
    assert all(isinstance(value, str) for value in parse_os_release(text).values())


WSL_KERNEL = "5.15.167.4-microsoft-standard-WSL2"
DXG = {"/dev/dxg": file(0), "/usr/lib/wsl": folder("/usr/lib/wsl")}


@pytest.mark.parametrize(
    ("kernel", "files", "stats", "wsl"),
    [
        (WSL_KERNEL, {}, {}, True),
        ("4.4.0-19041-Microsoft", {}, {}, True),
        ("6.1.0-own", {"/proc/version": "Linux version 6.1 (oe@Microsoft.com)"}, {}, True),
        ("6.1.0-own", {"/proc/version": "Linux version 6.1 (me@home)"}, DXG, True),
        ("6.1.0-own", {}, {"/dev/dxg": file(0)}, False),
        ("5.15.0-1035-azure", {"/proc/version": "Linux version 5.15.0-1035-azure"}, {}, False),
    ],
)
def test_wsl(kernel: str, files: dict[str, str], stats: dict[str, object], *, wsl: bool) -> None:
    system = host(files=files, stats=stats, platform=LINUX._replace(kernel=kernel))  # type: ignore[arg-type]
    found = machine(system)
    assert isinstance(found, Machine)
    assert found.wsl is wsl


FLAG = "processor : 0\nflags\t\t: fpu vme hypervisor lahf_lm\nbugs : x\n"


@pytest.mark.parametrize(
    ("vendor", "product", "cpuinfo", "kind", "kernel", "expected"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", FLAG, "", "x", "QEMU"),
        ("QEMU", "Standard PC", "", "", "x", "QEMU"),
        ("Red Hat", "KVM", FLAG, "", "x", "KVM"),
        ("VMware, Inc.", "VMware Virtual Platform", FLAG, "", "x", "VMware"),
        ("innotek GmbH", "VirtualBox", FLAG, "", "x", "VirtualBox"),
        ("Bochs", "Bochs", FLAG, "", "x", "Bochs"),
        ("", "BHYVE", FLAG, "", "x", "bhyve"),
        ("Parallels", "Parallels Virtual Platform", FLAG, "", "x", "Parallels"),
        ("OpenStack Foundation", "OpenStack Nova", FLAG, "", "x", "OpenStack"),
        ("Red Hat", "RHEV Hypervisor", FLAG, "", "x", "RHEV"),
        ("oVirt", "oVirt Node", FLAG, "", "x", "oVirt"),
        ("Microsoft Corporation", "Virtual Machine", FLAG, "", "x", "Hyper-V"),
        ("Microsoft Corporation", "Surface Laptop", "", "", "x", None),
        ("Xen", "HVM domU", FLAG, "xen\n", "x", "Xen"),
        ("", "", "", "xen\n", "x", "Xen"),
        # Clouds sell both guests and bare machines under one name.
        ("Alibaba Cloud", "Alibaba Cloud ECS", FLAG, "", "x", "Alibaba Cloud ECS"),
        ("Tencent Cloud", "CVM", FLAG, "", "x", "Tencent Cloud CVM"),
        ("Amazon EC2", "c5.metal", "", "", "x", None),
        ("", "", FLAG, "", "x", "an unnamed hypervisor"),
        ("", "", FLAG + FLAG, "", WSL_KERNEL, "Hyper-V"),
        ("", "", "", "", WSL_KERNEL, None),
    ],
)
def test_virtual_machine(
    vendor: str, product: str, cpuinfo: str, kind: str, kernel: str, expected: str | None
) -> None:
    system = host(
        files={
            "/sys/class/dmi/id/sys_vendor": f"{vendor}\n",
            "/sys/class/dmi/id/product_name": f"{product}\n",
            "/proc/cpuinfo": cpuinfo,
            "/sys/hypervisor/type": kind,
        },
        platform=LINUX._replace(kernel=kernel),
    )
    found = machine(system)
    assert isinstance(found, Machine)
    assert found.virtual_machine == expected
    assert (f", guest of {expected}" in str(found)) is (expected is not None)


DMI = {
    "/sys/class/dmi/id/bios_vendor": "American Megatrends Inc.\n",
    "/sys/class/dmi/id/bios_version": " 4.1.21 \n",
    "/sys/class/dmi/id/bios_date": "03/15/2024\n",
    "/sys/class/dmi/id/sys_vendor": "Inspur\n",
    "/sys/class/dmi/id/product_name": "NF5468\n",
    "/sys/class/dmi/id/product_serial": "secret\n",
    "/sys/class/dmi/id/product_uuid": "secret\n",
    "/sys/class/dmi/id/board_name": "YZMB\n",
}


def test_the_firmware_without_serial_numbers() -> None:
    system = host(files=DMI)
    found = machine(system)
    assert isinstance(found, Machine)
    assert found.firmware == Firmware(
        bios_vendor="American Megatrends Inc.",
        bios_version="4.1.21",
        bios_date="03/15/2024",
        vendor="Inspur",
        product="NF5468",
        board_vendor="",
        board="YZMB",
    )
    assert str(found.firmware) == "Inspur NF5468, BIOS 4.1.21 of 03/15/2024"
    assert "secret" not in str(system.answers())


def test_a_recording_from_before_the_firmware_was_asked_for() -> None:
    old = {path: DMI[path] for path in DMI if path.endswith(("sys_vendor", "product_name"))}
    found = machine(host(files=old, unlisted="not recorded"))
    assert isinstance(found, Machine)
    assert found.firmware is None


def test_this_machine() -> None:
    found = machine(Recorder(Live(time.monotonic() + 20)))
    assert isinstance(found, Machine)
    assert found.memory_bytes
    assert not isinstance(found.boot_parameters, Unknown)
