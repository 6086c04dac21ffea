"""The closed list of what musadoctor runs. Each is read-only; a test holds the list.

Never added here: what changes a state of the machine (``mthreads-gmi -r``, ``-e``, ``-pm``,
``-mm``, the set forms of ``vgpu``).
"""

from typing import NamedTuple

GMI_NAMES = ("mthreads-gmi", "zjlab-gmi", "mthreads-smi")
"""The management tool's names: the usual one, that of some OEM hosts, that of the M1000."""

TOOL_SECONDS = 10.0
PYTHON_SECONDS = 20.0
TORCH_SECONDS = 600.0
"""Limit of the torch child on its own; in a report the overall deadline is what counts."""

CONCERNED = (
    # The kernel's first message tells whether the log still goes back to the start.
    r"(?i)mtgpu|mtvgpu|mt_peermem|sgpu_km|mthreads|(?:guilty|innocent) lockup"
    r"|\bxid\b.{0,40}0x0[0-9a-f]{7}\b|module loading is restricted|\bLinux version \d"
)
"""Lines of the kernel log that concern the cards, their driver, or a module that was refused."""


class Command(NamedTuple):
    """One program with its arguments."""

    key: str
    """What a recording calls it: the command line, or ``child:NAME`` for our own children."""
    program: str
    """A name to look up on PATH, or a path."""
    arguments: tuple[str, ...]
    seconds: float
    """Limit on the time that it may take."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables to set for it."""
    answers: bool = False
    """Gets a private descriptor to answer on; its number becomes the last argument."""
    keeps: str = ""
    """A pattern: of its output only the lines that match are let in."""

    def __str__(self) -> str:
        return self.key


def _tool(program: str, *arguments: str) -> Command:
    return Command(" ".join((program, *arguments)), program, arguments, TOOL_SECONDS)


def gmi_table(program: str) -> Command:
    """The default table of the management tool."""
    return _tool(program)


def gmi_json(program: str) -> Command:
    """All that the management tool knows; versions before 2.3 are not known to have it."""
    return _tool(program, "-q", "--json")


def musa_info(path: str) -> Command:
    """Starts the runtime and lists its devices."""
    return _tool(path)


def mcc_version(path: str) -> Command:
    """The compiler's number; needs no driver."""
    return _tool(path, "--version")


def version_query(path: str) -> Command:
    """The numbers, branches and architectures of a Toolkit's components."""
    return _tool(path)


def kernel_log() -> Command:
    """The kernel's messages. What does not concern the cards is private, and never let in."""
    return _tool("dmesg")._replace(keeps=CONCERNED)


def python_child(python: str, source: str) -> Command:
    """Ask an interpreter what it is."""
    return Command("child:python", python, ("-B", "-c", source), PYTHON_SECONDS, answers=True)


def torch_child(python: str, source: str) -> Command:
    """Import torch and torch_musa and try the devices."""
    return Command(
        "child:torch",
        python,
        # -B: nothing is written, not even byte code.
        ("-B", "-c", source),
        TORCH_SECONDS,
        environment=(("TORCH_DEVICE_BACKEND_AUTOLOAD", "0"),),
        answers=True,
    )
