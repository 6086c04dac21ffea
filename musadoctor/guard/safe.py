"""Commands that replace or remove what is installed whatever a constraint says.

Each is refused in the vendor's environment, unless it bears the flags with which it was seen to
leave that alone. Of uv 0.13, poetry 2.5 and pip that was tried; of pdm, pipenv, conda, pixi and rye
it comes from their documentation: unconfirmed.
"""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from musadoctor.guard.constraints import FAMILY
from musadoctor.requirements.installers import Install
from musadoctor.requirements.requirement import entry_of

REMOVING = frozenset({"uninstall", "remove", "pip uninstall"})
_CONDA = frozenset({"conda", "mamba", "micromamba"})
_DETACHED = {
    ("uv", "run"): frozenset({"--no-sync", "--no-project", "--isolated"}),
    ("uv", "add"): frozenset({"--no-sync", "--frozen"}),
    ("uv", "remove"): frozenset({"--no-sync", "--frozen"}),
    ("poetry", "install"): frozenset({"--only-root"}),
    ("conda", "install"): frozenset({"--no-deps"}),
    ("conda", "update"): frozenset({"--no-deps"}),
    ("pixi", "add"): frozenset({"--no-install"}),
    ("pixi", "remove"): frozenset({"--no-install"}),
    ("rye", "add"): frozenset({"--no-sync"}),
    ("rye", "remove"): frozenset({"--no-sync"}),
}
"""Any one of these is enough."""
_ADVICE = {
    "poetry": "`--lock` and `--dry-run` leave the environment alone; what the lock needs beside the"
    " vendor's builds goes in by `musadoctor guard -- pip install`",
    "pipenv": "`pipenv requirements` lists what the lock needs, for"
    " `musadoctor guard -- pip install -r`",
    "pdm": "`--no-sync` and `--dry-run` leave the environment alone; `pdm export` lists what the"
    " lock needs, for `musadoctor guard -- pip install -r`",
    "pixi": "`--no-install` leaves the environment alone",
    "rye": "`--no-sync` leaves the environment alone",
    "conda": "`--no-deps` installs the named packages alone; an environment of its own is safer",
}


class Bar(NamedTuple):
    """Why a command must not run in the vendor's environment."""

    why: str
    commands: tuple[str, ...] = ()
    """What may be typed in its place."""


def barred(  # noqa: PLR0911 - one a kind of command
    install: Install, argv: Sequence[str], names: Sequence[str], *, lasting: bool
) -> Bar | None:
    """What speaks against a command where the builds ``names`` are the vendor's.

    ``lasting`` says that the environment's own pip.conf holds them too, which ``--isolated`` of pip
    does not undo.
    """
    if install.unknown:
        return Bar(f"the guard does not know {' '.join(install.unknown)} of {install.tool}")
    if install.action in REMOVING and (lost := _named(install, names)):
        return Bar(f"it would remove the vendor's {', '.join(lost)}")
    if install.tool == "pip" or install.action in {"pip install", "pip uninstall"}:
        return _pip(install, lasting=lasting)
    if (install.tool, install.action) == ("uv", "pip sync"):
        instead = (
            "uv",
            "pip",
            "install",
            *(word for path in install.files for word in ("-r", path)),
        )
        return Bar(
            "uv pip sync removes whatever the file does not list, the vendor's builds too",
            (f"musadoctor guard -- {shlex.join(instead)}",),
        )
    if (install.tool, install.action) == ("uv", "sync"):
        return _uv_sync(install, argv, names)
    tool = "conda" if install.tool in _CONDA else install.tool
    detached = _DETACHED.get((tool, install.action), frozenset())
    if detached & set(install.flags):
        return None
    return _whole(install, argv, tool, sorted(detached))


def _pip(install: Install, *, lasting: bool) -> Bar | None:
    if install.tool == "pip" and "--isolated" in install.flags and not lasting:
        return Bar(
            "--isolated makes pip deaf to PIP_CONSTRAINT, which is to hold the vendor's builds;"
            " leave it out, or run `musadoctor guard protect` first, which it does not undo"
        )
    return None


def _uv_sync(install: Install, argv: Sequence[str], names: Sequence[str]) -> Bar | None:
    """It keeps what is not in the lock by one flag, and what is by one flag each."""
    wanted = ["--inexact", *(f"--no-install-package={n}" for n in FAMILY if n in names)]
    missing = [flag for flag in wanted if flag not in install.flags]
    if install.python:
        return Bar("uv sync --python makes the environment anew where another one is asked for")
    if not missing:
        return None
    return Bar(
        "uv sync replaces the vendor's torch by the lock's, and removes what is not in the lock",
        (f"musadoctor guard -- {shlex.join([*argv, *missing])}",),
    )


def _whole(install: Install, argv: Sequence[str], tool: str, flags: Sequence[str]) -> Bar:
    why = f"{install.tool} {install.action} knows nothing of the constraints that hold the vendor's"
    if tool == "uv":
        at = len(install.program) + len(install.action.split())
        safe = [*argv[:at], flags[-1], *argv[at:]]
        return Bar(
            f"uv {install.action} brings the environment to what the lock says, the vendor's torch"
            " replaced",
            (f"musadoctor guard -- {shlex.join(safe)}",),
        )
    return Bar(f"{why} builds; {_ADVICE[tool]}")


def _named(install: Install, names: Sequence[str]) -> list[str]:
    asked = {entry_of(word, "").name for word in install.requirements}
    return [name for name in names if name in asked]
