"""Commands that depend on the host: its package manager, its boot loader."""

import shlex

from musadoctor.api import Machine, Unknown

APT = {"ubuntu", "debian"}
DNF = {"alinux", "almalinux", "anolis", "bclinux", "centos", "fedora", "openeuler", "rhel", "rocky"}
"""Kylin is in neither: its server edition has dnf and its desktop edition apt."""

BUG_REPORT = "sudo mthreads-bug-report.sh"
"""Writes the vendor's archive of logs (gmc-doc-online/gpu-debug, 2026)."""


def uses_apt(machine: Machine | Unknown) -> bool:
    """Whether Debian packages are what this host installs."""
    return isinstance(machine, Machine) and machine.distribution_id in APT


def install(machine: Machine | Unknown, *, apt: str = "", dnf: str = "") -> tuple[str, ...]:
    """The command that installs a package, none where its name is not known for this host."""
    if apt and uses_apt(machine):
        return (f"sudo apt install {apt}",)
    if dnf and isinstance(machine, Machine) and machine.distribution_id in DNF:
        return (f"sudo dnf install {dnf}",)
    return ()


def owner(machine: Machine | Unknown, path: str) -> tuple[str, ...]:
    """The command that names the package that a file came with."""
    if uses_apt(machine):
        return (f"dpkg -S {shlex.quote(path)}",)
    if isinstance(machine, Machine) and machine.distribution_id in DNF:
        return (f"rpm -qf {shlex.quote(path)}",)
    return ()


def boot_parameters(machine: Machine | Unknown, parameters: str) -> str:
    """A sentence that says how to add kernel parameters here."""
    build = "sudo update-grub" if uses_apt(machine) else "grub2-mkconfig"
    return (
        f"Add {parameters} to GRUB_CMDLINE_LINUX in /etc/default/grub, write the boot loader's "
        f"configuration anew with {build}, and restart the machine"
    )


def some(items: tuple[str, ...] | list[str], most: int = 4) -> str:
    """Items in a row, cut where they would fill the line."""
    rest = len(items) - most
    return ", ".join(items[:most]) + (f" and {rest} more" if rest > 0 else "")
