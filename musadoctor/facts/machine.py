"""The host below the GPU: kernel, distribution, memory, and what contains it."""

from typing import NamedTuple

from musadoctor.facts.base import Absent, Unknown


class Firmware(NamedTuple):
    """What the firmware calls itself and the machine (DMI); a text is empty where it does not say.

    No serial number and no UUID is among it.
    """

    bios_vendor: str
    bios_version: str
    bios_date: str
    """As the firmware has it: ``03/15/2024``."""
    vendor: str
    """Who made the machine."""
    product: str
    board_vendor: str
    board: str
    """The mainboard's model."""

    def __str__(self) -> str:
        return f"{self.vendor} {self.product}, BIOS {self.bios_version} of {self.bios_date}"


class Machine(NamedTuple):
    """The operating system and the machine that it runs on."""

    kernel: str
    """Kernel release, ``5.15.0-105-generic``."""
    architecture: str
    """As ``uname -m`` prints it, ``x86_64``."""
    distribution: str
    """``PRETTY_NAME`` of os-release, ``Ubuntu 22.04.5 LTS``."""
    distribution_id: str
    """``ID`` of os-release, ``ubuntu``; empty where there is no os-release."""
    distribution_version: str
    """``VERSION_ID`` of os-release, ``22.04``."""
    glibc: str | None
    """``2.35``; ``None`` where the C library is another one."""
    boot_parameters: tuple[str, ...] | Unknown
    """``/proc/cmdline``, split."""
    wsl: bool
    """Windows Subsystem for Linux."""
    virtual_machine: str | None
    """The hypervisor's name, ``None`` where nothing shows one."""
    logical_cpus: int | None
    memory_bytes: int | None
    """Physical memory of the host, not the container's limit."""
    iommu: bool | None = None
    """Whether the kernel has put devices into IOMMU groups, whatever the boot parameters say;
    ``None`` where /sys does not tell."""
    firmware: Firmware | None = None
    """``None`` where /sys does not tell: a machine without DMI, or an older recording."""

    def __str__(self) -> str:
        size = f", {self.memory_bytes / 2**30:.0f} GiB" if self.memory_bytes else ""
        guest = f", guest of {self.virtual_machine}" if self.virtual_machine else ""
        return f"{self.distribution}, kernel {self.kernel}, {self.architecture}{size}{guest}"


class InjectedFile(NamedTuple):
    """One driver file that a container needs from its host."""

    path: str
    state: str
    """``ok``, ``empty`` (0 bytes), ``dangling`` (a link to nothing), ``folder`` (what docker makes
    where the source of a mount is not there), ``other`` or ``missing``."""

    def __str__(self) -> str:
        return f"{self.path} ({self.state})"


class Container(NamedTuple):
    """The container that this host is."""

    runtime: str | None
    """``docker``, ``podman``, ``kubernetes``, ``lxc``, ...; ``None`` where nothing names it."""
    signals: tuple[str, ...]
    """What told so; no one of them decides alone."""
    files: tuple[InjectedFile, ...]
    """The driver files that the vendor's container runtime puts in place."""

    def __str__(self) -> str:
        return f"{self.runtime or 'container'} ({', '.join(self.signals)})"


class ContainerRuntime(NamedTuple):
    """How docker on this host finds the vendor's runtime for containers."""

    config: str
    """Docker's configuration, ``/etc/docker/daemon.json``."""
    problem: str | None
    """Why the configuration cannot be used, ``None`` where it can or there is none."""
    runtimes: tuple[tuple[str, str], ...]
    """The configured runtimes: name and program."""
    default: str | None
    """``default-runtime`` of the configuration."""
    binary: str
    """The program of the runtime ``mthreads``: the configured one, else the usual path."""
    state: str
    """Of that program: ``ok``, ``missing``, ``empty``, ``dangling``, ``not executable``,
    ``folder``, ``other``; empty where it could not be looked at."""

    @property
    def bound(self) -> bool:
        """Whether docker knows the runtime ``mthreads``."""
        return "mthreads" in dict(self.runtimes)

    def __str__(self) -> str:
        if not self.bound:
            return f"docker has no runtime mthreads ({self.config})"
        return f"docker's runtime mthreads is {self.binary} ({self.config})"


MachineFact = Machine | Unknown
ContainerFact = Container | Absent | Unknown
ContainerRuntimeFact = ContainerRuntime | Absent | Unknown
