"""How to get the Moore Threads builds of torch and torch_musa back, worded for this host."""

import shlex

from musadoctor.api import Absent, Fix, Python, ToolkitVersion, Unknown, WheelVersion
from musadoctor_checks.knowledge import public, torch_for, torch_musa_for

INDEX = (
    "the Moore Threads package index (its address is in the MUSA SDK install guide), in a pip"
    " command of its own that names no other index"
)


def pip(python: Python | Absent | Unknown, arguments: str) -> str:
    """A pip command of the examined interpreter."""
    path = shlex.quote(python.path) if isinstance(python, Python) else "python3"
    return f"{path} -m pip {arguments}"


def wanted(torch_musa: WheelVersion | None, toolkit: ToolkitVersion | None) -> str:
    """The pair in words: by the torch_musa that is installed, else by the Toolkit in use."""
    if torch_musa is None and toolkit is not None:
        releases = torch_musa_for(toolkit)
        if releases:
            known = " or ".join(releases)
            return f"torch and torch_musa {known} (known with Toolkit {toolkit})"
    if torch_musa is not None:
        torch = " or ".join(torch_for(torch_musa))
        if torch:
            return f"torch {torch} for torch_musa {public(torch_musa)}"
    return "torch and torch_musa of one release"


def reinstall(
    python: Python | Absent | Unknown,
    torch_musa: WheelVersion | None = None,
    toolkit: ToolkitVersion | None = None,
) -> Fix:
    """Replace what is installed by the vendor's pair."""
    return Fix(
        f"Reinstall the Moore Threads builds, {wanted(torch_musa, toolkit)}, from {INDEX}; this"
        " replaces the torch that is there and may break packages that were installed for it, so"
        " keep the list of the command below to be able to go back",
        (pip(python, "freeze"),) if isinstance(python, Python) else (),
        destructive=True,
    )
