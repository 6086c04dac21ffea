"""Which Python is examined, why that one, and what it says of itself.

The interpreter is asked in a child, which answers in one JSON line::

    {"version": "3.10.12", "implementation": "cpython", "abiflags": "", "prefix": "/opt/env",
     "search_path": ["/usr/lib/python310.zip", "/usr/lib/python3.10", ...], ...}
"""

import json
import pkgutil
from typing import cast

from musadoctor.commands import python_child
from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.python import Python, PythonFact
from musadoctor.probes.once import once
from musadoctor.system import Failure, Ran, System

OLDEST = (3, 8)
"""The oldest Python that the children run on."""
BROKEN = {"ok", "failed", "signal", "not there", "not executable", "not allowed", "wrong format"}
"""How an interpreter ends that certainly cannot be used."""
_TAGS = {"cpython": "cp", "pypy": "pp"}
_LONGEST_LINE = 300


@once
def python(system: System) -> PythonFact:
    """The interpreter of ``--python``, of the active environment, of PATH, or our own."""
    choice = _choose(system)
    if isinstance(choice, (Absent, Unknown)):
        return choice
    path, why = choice
    ran = system.run(python_child(path, child_source("python_child.py")))
    for answer in answers(ran):
        return _read(path, why, answer)
    state = Absent if ran.status in BROKEN else Unknown
    return state(f"{path} ({why}) does not work: {ending(ran)}")


def child_source(name: str) -> str:
    """The source of one of the children beside this module."""
    source = pkgutil.get_data("musadoctor.probes", name)
    assert source is not None
    return source.decode("utf-8")


def answers(ran: Ran) -> tuple[dict[str, object], ...]:
    """What a child said on its descriptor: the JSON objects, a line each."""
    said: list[dict[str, object]] = []
    for line in ran.answer.splitlines():
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError):  # cut in the middle of a line
            continue
        if isinstance(value, dict):
            said.append(cast("dict[str, object]", value))
    return tuple(said)


def ending(ran: Ran) -> str:
    """How a child ended, with its last line on stderr where it ended by itself."""
    if ran.status not in {"ok", "failed", "signal"}:
        return ran.note or ran.status
    how = f"killed by {ran.note}" if ran.status == "signal" else f"exit code {ran.code}"
    lines = [line.strip() for line in ran.err.splitlines() if line.strip()]
    # Below this one an interpreter says only where it was.
    fatal = [line for line in lines if line.startswith("Fatal Python error")]
    last = (fatal or lines)[-1:]
    return f"{how} ({last[0][:_LONGEST_LINE]})" if last else how


def _choose(system: System) -> tuple[str, str] | Absent | Unknown:  # noqa: PLR0911 - one a rule
    """The interpreter's path, and why it is that one."""
    platform = system.platform()
    chosen, own = (
        (None, "")
        if isinstance(platform, Failure)
        else (platform.chosen_python, platform.own_python)
    )
    if chosen is not None:
        return _given(system, chosen)

    passed: list[str] = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = system.env(variable)
        if isinstance(folder, str) and folder:
            found = system.find(f"{folder.rstrip('/')}/bin/python")
            if isinstance(found, Failure):
                return Unknown(found.detail)
            if found.path:
                return found.path, _because(variable, passed)
            passed.append(f"{variable}={folder} has no bin/python that can be executed")
    found = system.find("python3")
    if isinstance(found, Failure):
        return Unknown(found.detail)
    if found.path:
        return found.path, _because("python3 on PATH", passed)
    if own:
        return own, _because("runs musadoctor", passed)
    return Absent("; ".join([*passed, "no python3 on PATH"]))


def _given(system: System, chosen: str) -> tuple[str, str] | Absent | Unknown:
    """The interpreter of ``--python``, which no other stands in for."""
    found = system.find(chosen)
    if isinstance(found, Failure):
        return Unknown(found.detail)
    if found.path:
        return found.path, "--python"
    problem = f"{found.blocked} may not be executed" if found.blocked else "no such program"
    return Absent(f"--python {chosen}: {problem}")


def _because(why: str, passed: list[str]) -> str:
    return f"{why} ({'; '.join(passed)})" if passed else why


def _read(path: str, why: str, answer: dict[str, object]) -> PythonFact:
    version = str(answer.get("version"))
    try:
        major, minor = (int(part) for part in version.split(".")[:2])
    except ValueError:
        return Unknown(f"{path} ({why}) says that its version is {version!r}")
    if (major, minor) < OLDEST:
        oldest = ".".join(str(part) for part in OLDEST)
        return Unknown(f"{path} ({why}) is Python {version}: {oldest} or later can be examined")
    search_path = answer.get("search_path")
    if not isinstance(search_path, list):
        return Unknown(f"{path} ({why}) does not say where it looks for packages")
    implementation = str(answer.get("implementation"))
    free_threaded = "t" if "t" in str(answer.get("abiflags")) else ""
    return Python(
        path=path,
        chosen_by=why,
        version=version,
        tag=f"{_TAGS.get(implementation, implementation)}{major}{minor}{free_threaded}",
        prefix=str(answer.get("prefix")),
        search_path=tuple(dict.fromkeys(str(e) for e in cast("list[object]", search_path))),
    )
