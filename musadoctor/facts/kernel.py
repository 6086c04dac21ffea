"""What the kernel says of the cards, and the file of the kernel module mtgpu."""

from typing import NamedTuple

from musadoctor.facts.base import Absent, Unknown


class KernelMessage(NamedTuple):
    """One line of the kernel log."""

    seconds: float | None
    """After the start of the machine, ``None`` where the line does not say."""
    text: str
    """Without the time."""

    def __str__(self) -> str:
        return self.text


class KernelLog(NamedTuple):
    """The lines of the kernel log that concern the cards, their driver or a refused module."""

    messages: tuple[KernelMessage, ...]
    """The first and the last, where there are very many."""
    since_start: bool
    """Whether the log still goes back to the start of the machine."""
    excerpt: bool = False
    """Whether lines may be left out, as in what a person pasted."""

    def __str__(self) -> str:
        lines = f"{len(self.messages) or 'no'} line{'' if len(self.messages) == 1 else 's'}"
        reach = "" if self.since_start else ", which no longer goes back to the machine's start"
        if self.excerpt:
            reach = ", which may be left out in part"
        return f"{lines} about the cards in the kernel log{reach}"


class DkmsTree(NamedTuple):
    """One version of the module's source that DKMS was told of."""

    name: str
    """``mtgpu/3.3.5``, as the commands of DKMS take it."""
    has_source: bool
    built_for: tuple[str, ...]
    """The kernels that it was built for, installed or not."""
    failed_log: str | None
    """The compiler's log that the last build left, which DKMS moves away when a build works."""

    def __str__(self) -> str:
        return self.name


class ModuleFile(NamedTuple):
    """Where the kernel module mtgpu lies on disk, and what keeps it from being loaded."""

    kernel: str
    """The running kernel."""
    path: str | None
    """The module's file for the running kernel, ``None`` where none was found."""
    others: tuple[str, ...]
    """Other installed kernels that have one, the newest first."""
    newer_without: tuple[str, ...]
    """Installed kernels, newer than the running one, that have none; the newest first."""
    headers: bool
    """Whether the running kernel's headers are there, without which no module can be built."""
    dkms: tuple[DkmsTree, ...]
    blocked_by: tuple[str, ...]
    """What forbids to load it: ``/etc/modprobe.d/x.conf: blacklist mtgpu``. Not looked for while
    it is loaded."""

    def __str__(self) -> str:
        if self.path:
            return f"module file {self.path}"
        return f"no mtgpu.ko for the running kernel {self.kernel}"


KernelLogFact = KernelLog | Absent | Unknown
ModuleFileFact = ModuleFile | Absent | Unknown
