"""The door to a machine: the questions that can be put to one, and the values that answer them.

Answers are values whatever the machine does. A file that is absent, a tool that hangs and a
question that a recording never heard are told apart by :class:`Failure` and :class:`Ran`, and no
question raises. :class:`musadoctor.live.Live` asks this machine;
:class:`musadoctor.recording.Recording` answers for another one.
"""

from typing import NamedTuple, Protocol

from musadoctor.commands import Command
from musadoctor.facts.base import Absent, Unknown

NOT_THERE = "not there"
NOT_ALLOWED = "not allowed"
TIMED_OUT = "timed out"
UNRECORDED = "not in this recording"
DAMAGED = "damaged"
ERROR = "error"


class Failure(NamedTuple):
    """Why a question has no answer."""

    kind: str
    """One of the constants of this module."""
    detail: str
    """The subject and the machine's words: ``/proc/cmdline: Permission denied``."""

    def __str__(self) -> str:
        return self.detail

    @property
    def state(self) -> Absent | Unknown:
        """The fact that follows: certainly not there, or not found out."""
        return (Absent if self.kind == NOT_THERE else Unknown)(self.detail)


class Ran(NamedTuple):
    """How a program ran."""

    status: str
    """``ok``, ``failed`` (exit code not 0), ``signal``, ``timed out``, ``flooded`` (too much
    output, or too much written), ``not there``, ``not executable``, ``not allowed``,
    ``wrong format`` (not for this machine, or its interpreter is absent), ``not in this
    recording`` or ``error``."""
    code: int | None = None
    """Exit code, negative for a signal; ``None`` where it did not end."""
    out: str = ""
    err: str = ""
    answer: str = ""
    """What came on the private descriptor."""
    note: str = ""
    """Details of a status other than ``ok``, for people."""
    seconds: float = 0.0

    @property
    def started(self) -> bool:
        """Whether the program was there and could be started."""
        return self.status in {"ok", "failed", "signal", "timed out", "flooded"}


class Stat(NamedTuple):
    """What a path is, links followed."""

    kind: str
    """``file``, ``folder``, ``device``, ``dangling`` (a link to nothing) or ``other``."""
    size: int
    mode: int
    """Permission bits."""
    group: str
    """The owning group's name, or its number where it has none."""
    usable: bool
    """Whether this user may read and write it."""
    executable: bool
    real: str
    """The path with all links resolved."""


class Found(NamedTuple):
    """Where PATH leads for a program's name."""

    path: str
    """The first executable file; empty where there is none."""
    blocked: str = ""
    """The first file of that name that may not be executed."""
    unreadable: tuple[str, ...] = ()
    """Folders on PATH that could not be looked into."""


class Elf(NamedTuple):
    """The dynamic section of an ELF file, as ``readelf -d`` shows it."""

    machine: str
    """``x86_64``, ``aarch64``, ...; the number where it has no name here."""
    soname: str | None
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]


class Platform(NamedTuple):
    """What the kernel and the C library say of the machine and of who asks."""

    kernel: str
    architecture: str
    host_name: str | None
    """``None`` where it was redacted."""
    glibc: str | None
    uid: int
    groups: tuple[str, ...]
    """Names of the groups of whoever asks, numbers where they have none."""
    own_python: str
    """The interpreter that runs musadoctor."""
    chosen_python: str | None = None
    """The interpreter that whoever asks wants examined, as it was given."""


class Resources(NamedTuple):
    """What the machine has to compute with."""

    logical_cpus: int | None
    memory_bytes: int | None
    """Physical memory of the host, ``None`` where nothing tells."""


class System(Protocol):
    """Questions about a machine."""

    def run(self, command: Command) -> Ran:
        """Run one of the closed list of commands."""
        ...

    def read(self, path: str) -> str | Failure:
        """The text of a regular file, cut after 4 MiB, undecodable bytes replaced."""
        ...

    def list(self, path: str) -> tuple[str, ...] | Failure:
        """The names in a folder, sorted."""
        ...

    def stat(self, path: str) -> Stat | Failure:
        """What a path is."""
        ...

    def env(self, name: str) -> str | Failure | None:
        """A variable of this process, ``None`` where it is not set."""
        ...

    def find(self, name: str) -> Found | Failure:
        """Look a program up on PATH."""
        ...

    def elf(self, path: str) -> Elf | Failure:
        """The dynamic section of a library, read without loading it."""
        ...

    def cached(self, prefix: str) -> dict[str, str] | Failure:
        """The loader cache's entries, soname to path, whose soname starts with ``prefix``."""
        ...

    def platform(self) -> Platform | Failure:
        """The kernel's and the C library's own words."""
        ...

    def resources(self) -> Resources | Failure:
        """CPUs and memory."""
        ...
