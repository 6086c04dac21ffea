"""The closed list of what musadoctor runs. Each is read-only; a test holds the list.

Never added here: what changes a state of the machine (``mthreads-gmi -r``, ``-e``, ``-pm``,
``-mm``, the set forms of ``vgpu``).
"""

from collections.abc import Sequence
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

RUN_PIP = (
    # Without the current folder, where anything may be named pip.
    "import runpy, sys; sys.path[:] = filter(None, sys.path);"
    " runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)
LONGEST_VERIFY = 8 << 20
"""Bytes that a child of ``verify`` may answer: a few hundred for each step on each device."""
LONGEST_PLAN = 15 << 20
"""Bytes: pip's plan holds the whole description of every package."""


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
    given: str = ""
    """What it reads on its standard input."""
    room: int = 0
    """Bytes of each stream that are let in, where the usual measure is too small."""
    writes: int = 0
    """Bytes that it may write to files and pipes; 0 for no limit."""

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


def gmi_topology(program: str) -> Command:
    """The connections between cards."""
    return _tool(program, "topo", "-m")


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


def verify_child(
    python: str, key: str, sources: Sequence[str], plan: str, seconds: float
) -> Command:
    """Take steps of ``verify``; ``key`` tells this child from the others of a run."""
    return Command(
        f"child:verify:{key}",
        python,
        ("-B", "-c", *sources, plan),
        seconds,
        environment=(("TORCH_DEVICE_BACKEND_AUTOLOAD", "0"),),
        answers=True,
        room=LONGEST_VERIFY,
    )


def uv_version(path: str) -> Command:
    """What uv calls itself."""
    return _tool(path, "--version")


def uv_plan(
    path: str, python: str, arguments: tuple[str, ...], constraints: str, *, log: bool = False
) -> Command:
    """What uv would install into an environment. Nothing is built, and no wheel is downloaded.

    With ``log`` the resolver also says which package asked for which.
    """
    made = _tool(
        path,
        *("pip", "install", "--dry-run", "--no-build", "--no-progress", "--python", python),
        # A dry run changes nothing, and tells more than that the environment is managed.
        *("--break-system-packages", "--index-strategy", "unsafe-best-match"),
        *("--constraints", "/dev/stdin", *arguments),
    )
    variables = (("UV_HTTP_RETRIES", "1"), *((("RUST_LOG", "uv_resolver=debug"),) if log else ()))
    return made._replace(given=constraints or "\n", environment=variables, room=LONGEST_PLAN)


def pip_version(python: str) -> Command:
    """What the pip of an interpreter calls itself."""
    return _tool(python, "-c", RUN_PIP, "--version")


def pip_plan(own: str, python: str, arguments: tuple[str, ...], constraints: str) -> Command:
    """What a pip from 25.3 on, of the interpreter ``own``, would install. Nothing is built."""
    made = _tool(
        own,
        *("-c", RUN_PIP, *(() if own == python else ("--python", python))),
        *("install", "--dry-run", "--report", "-", "--quiet", "--no-input", "--only-binary=:all:"),
        # Without it this pip downloads wheels for their metadata.
        *("--use-feature=fast-deps", "--disable-pip-version-check", "--retries", "1"),
        *("--constraint", "/dev/stdin", *arguments),
    )
    return made._replace(given=constraints or "\n", room=LONGEST_PLAN)


def poetry_environment(program: str, project: str) -> Command:
    """The folder of the environment that poetry would install into; nothing where it has none."""
    where = ("--directory", project) if project else ()
    command = _tool(program, *where, "--no-interaction", "env", "info", "--path")
    return command._replace(seconds=PYTHON_SECONDS)


def pipenv_environment(program: str) -> Command:
    """The folder of the environment that pipenv would install into; nothing where it has none."""
    return _tool(program, "--venv")._replace(seconds=PYTHON_SECONDS)
