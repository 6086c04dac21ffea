"""Which environment a command would install into: its interpreter, as the tool itself finds it."""

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from musadoctor.commands import Command, pipenv_environment, poetry_environment
from musadoctor.facts.base import Absent, Unknown
from musadoctor.requirements.installers import Install
from musadoctor.system import Failure, System

OWN = frozenset({"hatch", "pipx"})
"""Tools that make an environment of their own for whatever they install."""
CONDA = frozenset({"conda", "mamba", "micromamba"})
_SHEBANG = re.compile(r"#!\s*(\S+)(?:[ \t]+(\S+))?")
_PYTHONS = ("python", "pypy")
_LONG_SHEBANG = re.compile(r"""'''exec'\s+(?:"(?P<quoted>[^"\n]+)"|(?P<bare>\S+))\s+"\$0\"""")
_VERSION_REQUEST = re.compile(r"(?:\w+@)?[\d.]+\+?[\w.]*|(?:cpython|pypy)[\w.@-]*|[<>=~!].*")


class Target(NamedTuple):
    """Interpreters, of which the first with the vendor's stack is the one that matters."""

    pythons: tuple[str, ...]
    why: str
    """``the pip on PATH``, ``VIRTUAL_ENV``."""


Found = Target | Absent | Unknown
"""``Absent`` says that it goes into an environment of its own, or one that is yet to be made."""


def target(install: Install, system: System) -> Found:
    """The environment of a command."""
    if install.tool in OWN or install.action.startswith("tool "):
        return Absent(f"{install.tool} {install.action} has an environment of its own")
    if install.tool == "pip":
        return _pip(install, system)
    if install.action.startswith("pip "):
        return _uv_pip(install, system)
    if install.tool in CONDA:
        return _conda(install, system)
    by_tool = {"uv": _uv, "poetry": _poetry, "pipenv": _pipenv, "pdm": _pdm, "pixi": _pixi}
    return by_tool.get(install.tool, _rye)(install, system)


def _pip(install: Install, system: System) -> Found:
    program = install.program[-1]
    folder, _, name = program.rpartition("/")
    suffix = re.sub(r"^pip-?", "", name)
    # What was guessed from the script's name and what was given look alike.
    guessed = f"{folder}/python{suffix or '3'}" if folder else ""
    own = install.python in install.program
    if install.python and not own and install.python != guessed:
        return _named(install.python, system, "--python")
    found = (
        _named(install.python, system, "the command's own interpreter")
        if own
        else _of_script(program, suffix, system)
    )
    variable = _variable(system, "PIP_PYTHON")
    other = _named(variable, system, "PIP_PYTHON") if variable else found
    # Older releases of pip do not heed the variable.
    if isinstance(found, Target) and isinstance(other, Target):
        return Target(tuple(dict.fromkeys((*other.pythons, *found.pythons))), other.why)
    return other if isinstance(found, Target) else found


def _of_script(program: str, suffix: str, system: System) -> Found:
    """The interpreter that a script of pip's names in its first lines."""
    at = system.find(program)
    if isinstance(at, Failure) or not at.path:
        return Unknown(f"no {program} on PATH")
    text = system.read(at.path)
    if isinstance(text, Failure):
        return Unknown(f"which interpreter {at.path} has is not known: {text}")
    shebang = _SHEBANG.match(text)
    words = [word for word in (shebang.groups() if shebang else ()) if word]
    if words and words[0].rpartition("/")[2] == "env":
        del words[0]
    named = words[0] if words and words[0].rpartition("/")[2].startswith(_PYTHONS) else ""
    if line := _LONG_SHEBANG.search(text):
        named = line["quoted"] or line["bare"]
    elif not named and "pyenv" in text and " exec " in text:
        # Its shims of one folder all lead to the same release.
        named = f"{at.path.rpartition('/')[0]}/python{suffix}"
    if not named:
        return Unknown(
            f"which interpreter {at.path} has is not known: it is no script of pip's; name it, as"
            " in `python -m pip`"
        )
    return _named(named, system, f"the interpreter of {at.path}")


def _uv_pip(install: Install, system: System) -> Found:
    if install.python:
        return _uv_python(install.python, system, "--python")
    if "--system" in install.flags or _switched(system, "UV_SYSTEM_PYTHON"):
        return _first_python(system, "--system")
    if variable := _variable(system, "UV_PYTHON"):
        return _uv_python(variable, system, "UV_PYTHON")
    return _active(system) or _dot_venv(system) or _first_python(system, "the first Python on PATH")


def _uv_python(given: str, system: System, why: str) -> Found:
    if "/" not in given and _VERSION_REQUEST.fullmatch(given):
        return Unknown(f"{why} {given} leaves it to uv which interpreter that is: give its path")
    return _named(given, system, why)


def _uv(install: Install, system: System) -> Found:
    if install.action == "run" and {"--no-project", "--isolated"} & set(install.flags):
        return Absent("uv run has an environment of its own here")
    root = _project(install, system, "pyproject.toml", "[tool.uv.workspace]")
    if root is None:
        return Absent("there is no pyproject.toml here")
    if variable := _variable(system, "UV_PROJECT_ENVIRONMENT"):
        return _environment(posixpath.join(root, variable), system, "UV_PROJECT_ENVIRONMENT")
    if "--active" in install.flags and (active := _active(system)):
        return active
    return _environment(f"{root}/.venv", system, "the project's environment")


def _poetry(install: Install, system: System) -> Found:
    return _told(poetry_environment(install.program[-1], install.project), "poetry", system)


def _pipenv(install: Install, system: System) -> Found:
    if "--system" in install.flags:
        return _first_python(system, "--system")
    return _told(pipenv_environment(install.program[-1]), "pipenv", system)


def _told(question: Command, tool: str, system: System) -> Found:
    """The environment that a tool says it uses."""
    ran = system.run(question)
    if not ran.started or ran.status not in {"ok", "failed"}:
        return Unknown(f"{tool} does not say which environment it uses: {ran.note or ran.status}")
    path = ran.out.strip()
    if not path:
        return Absent(f"{tool} will make an environment")
    return _environment(path, system, f"{tool}'s environment")


def _pdm(install: Install, system: System) -> Found:
    """pdm is not asked: to tell, it would make an environment."""
    root = _project(install, system, "pyproject.toml", "")
    if root is None:
        return Unknown("there is no pyproject.toml here, so pdm's environment is not known")
    saved = system.read(f"{root}/.pdm-python")
    if isinstance(saved, str) and saved.strip():
        return _named(saved.strip(), system, ".pdm-python")
    candidates = [_active(system), _environment(f"{root}/.venv", system, "the project's .venv")]
    pythons = [path for found in candidates if isinstance(found, Target) for path in found.pythons]
    if not pythons:
        return Absent("pdm will make an environment")
    return Target(tuple(pythons), "pdm's environment")


def _rye(install: Install, system: System) -> Found:
    root = _project(install, system, "pyproject.toml", "[tool.rye.workspace]")
    return _environment(f"{root or '.'}/.venv", system, "the project's environment")


def _pixi(install: Install, system: System) -> Found:
    root = _project(install, system, "pixi.toml", "") or _project(
        install, system, "pyproject.toml", ""
    )
    folder = f"{root or '.'}/.pixi/envs"
    names = system.list(folder)
    below = () if isinstance(names, Failure) else names
    pythons = [f"{folder}/{name}/bin/python" for name in below]
    there = tuple(path for path in pythons if not isinstance(system.stat(path), Failure))
    if not there:
        return Absent("pixi will make an environment")
    return Target(there, "pixi's environments")


def _conda(install: Install, system: System) -> Found:
    if install.action in {"create", "env create"}:
        return Absent(f"{install.tool} {install.action} makes an environment")
    option, _, value = install.target.partition("=")
    if option == "--prefix":
        return _environment(value, system, "--prefix")
    if option == "--name":
        return _conda_named(value, system)
    active = _variable(system, "CONDA_PREFIX")
    if not active:
        return Unknown("no conda environment is active, and the command names none")
    return _environment(active, system, "CONDA_PREFIX")


def _conda_named(name: str, system: System) -> Found:
    """The folder of an environment's name, in the places where conda looks for it."""
    if "/" in name:
        return _environment(name, system, "--name")
    roots = [_variable(system, "MAMBA_ROOT_PREFIX"), _variable(system, "_CONDA_ROOT")]
    if program := _variable(system, "CONDA_EXE"):
        roots.append(posixpath.dirname(posixpath.dirname(program)))
    active = _variable(system, "CONDA_PREFIX")
    roots.append(active.rpartition("/envs/")[0] or active)
    roots = [root for root in dict.fromkeys(roots) if root]
    if name in {"base", "root"}:
        folders = roots
    else:
        listed = system.read(f"{_variable(system, 'HOME')}/.conda/environments.txt")
        known = listed.split("\n") if isinstance(listed, str) else []
        more = re.split("[:,]", _variable(system, "CONDA_ENVS_PATH"))
        more += re.split("[:,]", _variable(system, "CONDA_ENVS_DIRS"))
        folders = [f"{root}/envs/{name}" for root in roots]
        folders += [f"{folder}/{name}" for folder in more if folder]
        folders += [path for path in known if path.rpartition("/")[2] == name]
    for folder in folders:
        if not isinstance(system.stat(f"{folder}/bin/python"), Failure):
            return _environment(folder, system, "--name")
    return Unknown(f"where the conda environment {name!r} is is not known: name it by --prefix")


def _active(system: System) -> Target | None:
    """The active environment, virtual before conda's; that of conda's base counts for none."""
    folder = _variable(system, "VIRTUAL_ENV")
    why = "VIRTUAL_ENV"
    if not folder and _variable(system, "CONDA_DEFAULT_ENV") not in {"base", "root"}:
        folder, why = _variable(system, "CONDA_PREFIX"), "CONDA_PREFIX"
    found = _environment(folder, system, why) if folder else None
    return found if isinstance(found, Target) else None


def _dot_venv(system: System) -> Target | None:
    """uv's rule: ``.venv`` here, or in the nearest folder above that has one."""
    for folder in _upwards(system, "."):
        found = _environment(f"{folder}/.venv", system, f"{folder}/.venv")
        if isinstance(found, Target):
            return found
    return None


def _first_python(system: System, why: str) -> Found:
    for name in ("python", "python3"):
        found = system.find(name)
        if not isinstance(found, Failure) and found.path:
            return Target((found.path,), why)
    return Unknown("no python on PATH")


def _environment(folder: str, system: System, why: str) -> Found:
    path = f"{folder.rstrip('/')}/bin/python"
    if isinstance(system.stat(path), Failure):
        return Absent(f"{why}: no {path} yet")
    return Target((path,), why)


def _named(given: str, system: System, why: str) -> Found:
    """An interpreter by its name, its path, or the folder of its environment."""
    there = system.stat(given) if "/" in given else None
    if there is not None and not isinstance(there, Failure) and there.kind == "folder":
        given = f"{given.rstrip('/')}/bin/python"
    found = system.find(given)
    if isinstance(found, Failure) or not found.path:
        return Unknown(f"{why}: no {given} that can be executed")
    return Target((found.path,), why)


def _project(install: Install, system: System, manifest: str, workspace: str) -> str | None:
    """The folder of the project: of its workspace, where a folder above is one."""
    start = install.project or "."
    here = system.stat(start)
    if not isinstance(here, Failure) and here.kind != "folder":
        start = posixpath.dirname(start) or "."
    found: str | None = None
    for folder in _upwards(system, start):
        text = system.read(f"{folder}/{manifest}")
        if isinstance(text, str) and (found is None or (workspace and workspace in text)):
            found = folder
    return found


def _upwards(system: System, start: str) -> Iterator[str]:
    here = system.stat(start)
    folder = "" if isinstance(here, Failure) else here.real
    while folder:
        yield folder.rstrip("/")
        folder = "" if folder == "/" else posixpath.dirname(folder)


def _switched(system: System, name: str) -> bool:
    return _variable(system, name).lower() in {"1", "true", "yes", "on", "y", "t"}


def _variable(system: System, name: str) -> str:
    value = system.env(name)
    return value if isinstance(value, str) else ""
