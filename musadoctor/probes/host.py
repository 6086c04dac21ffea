"""The operating system and the machine: os-release, the kernel's own words, signs of a guest."""

import re

from musadoctor.facts.base import Unknown
from musadoctor.facts.machine import Firmware, Machine, MachineFact
from musadoctor.system import Failure, System

DMI = "/sys/class/dmi/id"
HYPERVISORS = (
    # Words in the DMI names that only a hypervisor writes. Names of clouds are not among them:
    # those sell bare machines too, and there the processor's flag decides.
    ("vmware", "VMware"),
    ("virtualbox", "VirtualBox"),
    ("qemu", "QEMU"),
    ("kvm", "KVM"),
    ("bochs", "Bochs"),
    ("bhyve", "bhyve"),
    ("parallels", "Parallels"),
    ("openstack", "OpenStack"),
    ("rhev", "RHEV"),
    ("ovirt", "oVirt"),
    ("xen", "Xen"),
    ("microsoft corporation virtual machine", "Hyper-V"),
)

_HYPERVISOR_FLAG = re.compile(r"(?m)^flags[ \t]*:.*[ \t]hypervisor(?![^ \t\n])")
_QUOTED = re.compile(r"""(["'])(.*)\1""")


def machine(system: System) -> MachineFact:
    """What every other layer stands on."""
    platform = system.platform()
    if isinstance(platform, Failure):
        return Unknown(str(platform))
    resources = system.resources()
    release = _os_release(system)
    boot = system.read("/proc/cmdline")
    wsl = _is_wsl(system, platform.kernel)
    return Machine(
        kernel=platform.kernel,
        architecture=platform.architecture,
        distribution=_distribution(release),
        distribution_id=release.get("ID", ""),
        distribution_version=release.get("VERSION_ID", ""),
        glibc=platform.glibc,
        boot_parameters=Unknown(str(boot)) if isinstance(boot, Failure) else tuple(boot.split()),
        wsl=wsl,
        virtual_machine=_hypervisor(system, wsl=wsl),
        logical_cpus=None if isinstance(resources, Failure) else resources.logical_cpus,
        memory_bytes=None if isinstance(resources, Failure) else resources.memory_bytes,
        iommu=_iommu(system),
        firmware=_firmware(system),
    )


def _os_release(system: System) -> dict[str, str]:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        text = system.read(path)
        if isinstance(text, str):
            return parse_os_release(text)
    return {}


def parse_os_release(text: str) -> dict[str, str]:
    """The assignments in an os-release file: ``VERSION_ID="22.04"``, with or without quotes."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            quoted = _QUOTED.fullmatch(value)
            values[name] = re.sub(r"\\(.)", r"\1", quoted[2]) if quoted else value
    return values


def _distribution(release: dict[str, str]) -> str:
    name = " ".join(part for part in (release.get("NAME"), release.get("VERSION")) if part)
    return release.get("PRETTY_NAME") or name or release.get("ID") or "unknown distribution"


def _is_wsl(system: System, kernel: str) -> bool:
    version = system.read("/proc/version")
    words = f"{kernel} {version if isinstance(version, str) else ''}".lower()
    if "microsoft" in words:
        return True
    # A kernel of one's own names nobody; other Hyper-V guests may have /dev/dxg.
    places = ("/dev/dxg", "/usr/lib/wsl")
    return not any(isinstance(system.stat(path), Failure) for path in places)


def _hypervisor(system: System, *, wsl: bool) -> str | None:
    """The hypervisor under this machine, as far as the machine shows it."""
    vendor = _line(system, f"{DMI}/sys_vendor")
    product = _line(system, f"{DMI}/product_name")
    named = product if product.startswith(vendor) else f"{vendor} {product}".strip()
    for word, name in HYPERVISORS:
        if word in named.lower():
            return name
    cpus = system.read("/proc/cpuinfo")
    if isinstance(cpus, str) and _HYPERVISOR_FLAG.search(cpus):
        return "Hyper-V" if wsl else named or "an unnamed hypervisor"
    return _line(system, "/sys/hypervisor/type").capitalize() or None


def _iommu(system: System) -> bool | None:
    """Whether an IOMMU of the kernel's is at work: it has put devices into groups."""
    groups = system.list("/sys/kernel/iommu_groups")
    units = system.list("/sys/class/iommu")
    if isinstance(groups, Failure) or isinstance(units, Failure):
        return None
    # VFIO without an IOMMU makes groups too.
    return None if groups and not units else bool(groups)


def _firmware(system: System) -> Firmware | None:
    version = system.read(f"{DMI}/bios_version")
    if isinstance(version, Failure):
        return None
    return Firmware(
        bios_vendor=_line(system, f"{DMI}/bios_vendor"),
        bios_version=version.strip(),
        bios_date=_line(system, f"{DMI}/bios_date"),
        vendor=_line(system, f"{DMI}/sys_vendor"),
        product=_line(system, f"{DMI}/product_name"),
        board_vendor=_line(system, f"{DMI}/board_vendor"),
        board=_line(system, f"{DMI}/board_name"),
    )


def _line(system: System, path: str) -> str:
    text = system.read(path)
    return "" if isinstance(text, Failure) else text.strip()
