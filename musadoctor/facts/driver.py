"""The kernel driver, its device nodes, and the tools that talk to it."""

from typing import NamedTuple

from musadoctor.facts.base import Absent, Unknown
from musadoctor.versions import DriverApiVersion, KernelDriverVersion


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


class StatedVersion(NamedTuple):
    """A version, and who states it."""

    version: KernelDriverVersion
    source: str

    def __str__(self) -> str:
        return f"{self.version} ({self.source})"


class KernelDriver(NamedTuple):
    """The loaded kernel module ``mtgpu``."""

    stated: tuple[StatedVersion, ...]
    """Every place that names its version: sysfs, procfs. Empty where none does."""
    source: str
    loaded: bool = True
    """Whether something shows that it is loaded: a number in a sentence does not."""

    @property
    def version(self) -> KernelDriverVersion | None:
        """The version that the first source states."""
        return self.stated[0].version if self.stated else None

    def __str__(self) -> str:
        if self.stated:
            return f"kernel driver {self.stated[0]}"
        return f"kernel driver of unstated version ({self.source})"


class DeviceNode(NamedTuple):
    """One file in /dev that belongs to a Moore Threads card."""

    path: str
    kind: str
    """``mtgpu``, ``card`` or ``render``."""
    mode: int
    """Permission bits."""
    group: str
    """The owning group's name, or its number where it has none here."""
    usable: bool
    """Whether this user may open it for reading and writing."""


class DeviceNodes(NamedTuple):
    """The device nodes of all cards."""

    nodes: tuple[DeviceNode, ...]
    user: str
    """Who asks: ``root``, or ``uid 1000``."""
    groups: tuple[str, ...]
    """The groups of whoever asks."""

    def of_kind(self, kind: str) -> tuple[DeviceNode, ...]:
        """The nodes of one kind."""
        return tuple(node for node in self.nodes if node.kind == kind)

    def __str__(self) -> str:
        kinds = dict.fromkeys(node.kind for node in self.nodes)
        counts = ", ".join(f"{len(self.of_kind(kind))} {kind}" for kind in kinds)
        return f"device nodes in /dev: {counts}"


class ToolAnswer(NamedTuple):
    """How an outside tool answered, whatever it said."""

    command: str
    """``mthreads-gmi -q --json``, with the path where it was not found by name."""
    exit_code: int
    error: str | None
    """The line that says what is wrong, ``None`` where the tool did its work."""
    error_code: int | None = None
    """The MUSA error code in that line, 803 in ``error: '...'(803) at``."""

    def __str__(self) -> str:
        return f"{self.command}: {self.error or 'answered'}"


class GmiCard(NamedTuple):
    """One card as ``mthreads-gmi`` shows it."""

    ordinal: int
    name: str
    bus_id: str
    """``0000:2a:00.0``: lower case, the domain cut to four digits as in sysfs."""
    used_mib: int | None
    total_mib: int | None
    device_type: str | None
    """``Physical``, ``MPC Parent``, ``Virtual``."""
    lanes: int | None
    max_lanes: int | None
    mtbios: str | None


class GmiProcess(NamedTuple):
    """A process that holds GPU memory."""

    card: int
    pid: int
    name: str
    used_mib: int


class Gmi(NamedTuple):
    """A successful answer of ``mthreads-gmi``."""

    program: str
    tool_version: str | None
    driver: KernelDriverVersion | None
    cards: tuple[GmiCard, ...]
    processes: tuple[GmiProcess, ...]
    source: str

    def __str__(self) -> str:
        name = f"{self.program} {self.tool_version}" if self.tool_version else self.program
        return f"{name} lists {_counted(len(self.cards), 'card')}"


class MusaInfoDevice(NamedTuple):
    """One device as ``musaInfo`` shows it."""

    ordinal: int
    name: str
    capability: str | None
    """``3.1``."""
    memory_mib: int | None


class MusaInfo(NamedTuple):
    """A successful answer of ``musaInfo``: the runtime could start."""

    devices: tuple[MusaInfoDevice, ...]
    driver_api: DriverApiVersion | None
    """``Driver Version``: the API level that libmusa exports, not the kernel driver's number."""
    runtime_api: DriverApiVersion | None
    source: str

    def __str__(self) -> str:
        levels = ""
        if self.driver_api and self.runtime_api:
            levels = f", driver API {self.driver_api}, runtime API {self.runtime_api}"
        return f"musaInfo lists {_counted(len(self.devices), 'device')}{levels}"


KernelDriverFact = KernelDriver | Absent | Unknown
DeviceNodesFact = DeviceNodes | Absent | Unknown
ToolAnswerFact = ToolAnswer | Absent | Unknown
GmiFact = Gmi | Absent | Unknown
MusaInfoFact = MusaInfo | Absent | Unknown
