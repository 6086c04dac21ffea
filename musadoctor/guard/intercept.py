"""Stand before an installer: judge what it is about to do, then run it with torch held.

The tool runs with its own arguments, streams and exit code. Of its environment two variables are
changed: PIP_CONSTRAINT and UV_CONSTRAINT name a file that pins the vendor's builds, so that what no
table knows still ends in a failed resolve and not in a lost torch.
"""

import posixpath
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.python import Python
from musadoctor.facts.requirements import Requirements, Stack, StackFact
from musadoctor.guard.constraints import (
    Form,
    Pinned,
    configured,
    listed,
    pinned,
    requirement,
    written,
)
from musadoctor.guard.host import stack_of
from musadoctor.guard.judge import judge
from musadoctor.guard.protect import in_force
from musadoctor.guard.restore import restoration
from musadoctor.guard.safe import REMOVING, barred
from musadoctor.guard.state import states, twice
from musadoctor.guard.target import Target, target
from musadoctor.probes.distributions import Package, package, torch_build
from musadoctor.probes.python import python
from musadoctor.report import Report
from musadoctor.requirements.files import read
from musadoctor.requirements.installers import Install, entries, parse
from musadoctor.runner import stand_by
from musadoctor.system import Failure, System

SystemOf = Callable[[str | None], System]
"""A machine on which the interpreter of that path is examined, asked anew."""
REFUSED, USAGE = 1, 2
PLACE = "command line"
"""Where the entries of a command stand."""
KEEPING = frozenset({"sudo", "doas", "env", "su-exec", "gosu", "chroot"})
"""Programs that start another one with an environment that may be another."""
STARTERS = frozenset(
    {"conda", "mamba", "micromamba", "poetry", "pipenv", "pdm", "rye", "hatch", "uv", "pixi"}
)
"""Tools whose ``run`` starts an installer."""
INDEX_VARIABLES = {
    "pip": ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"),
    "uv": (
        *("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"),
        "UV_TORCH_BACKEND",
    ),
}
SWITCHES = ("UPGRADE", "FORCE_REINSTALL", "IGNORE_INSTALLED")
"""pip's variables that do what the flags of these names do."""
_OFF = frozenset({"", "0", "no", "n", "false", "f", "off"})


class Held(NamedTuple):
    """The vendor's stack that a command must leave as it is."""

    python: str
    pinned: Pinned
    state: Mapping[str, str]
    """What ``states`` said before."""
    hashed: bool
    """Whether pip will want a hash of everything, which a file's address has not."""
    constraints: Mapping[str, tuple[str, ...]]
    """What installers are bound to already, by the variable that is going to name all."""


class Decision(NamedTuple):
    """What becomes of a command."""

    verdict: Literal["run", "refuse", "usage"]
    sentence: str
    """Why: for people."""
    commands: tuple[str, ...] = ()
    """What can be typed in its place."""
    report: Report | None = None
    """What the checks found in it, where they were asked."""
    requirements: Requirements | None = None
    held: Held | None = None
    """What is to be held and verified when it runs."""

    @property
    def code(self) -> int:
        """The exit code of what is not run."""
        return {"run": 0, "refuse": REFUSED, "usage": USAGE}[self.verdict]


class Outcome(NamedTuple):
    """How it went."""

    code: int
    """The tool's own, unless the vendor's stack was harmed or the tool could not be started."""
    sentence: str = ""
    commands: tuple[str, ...] = ()


def decide(  # noqa: PLR0911 - one a way out
    argv: Sequence[str], system_of: SystemOf
) -> Decision:
    """Judge an installer's command line. Nothing is run but what tells of the environment."""
    system = system_of(None)
    install = _understood(argv)
    if install is None:
        named = shlex.join(argv) or "nothing"
        return Decision("usage", f"{named}: no installer that the guard understands")
    found = system.find(argv[0])
    if isinstance(found, Failure) or not found.path:
        return Decision("usage", f"{argv[0]}: command not found")
    if install.harmless:
        return Decision("run", "")
    if indirect := _indirect(argv, install):
        return indirect
    where = target(install, system)
    if isinstance(where, Unknown):
        return _refused(str(where))
    if isinstance(where, Absent):
        return Decision("run", f"nothing to protect: {where}")
    path, examined, stack = _examined(where, system_of)
    if isinstance(stack, Unknown):
        return _refused(f"what is installed for {path} is not known: {stack}")
    if isinstance(stack, Absent):
        return Decision("run", f"nothing to protect: {stack}")
    if not stack.vendor:
        return _judged(install, argv, stack, system)
    held = _held(install, argv, path, examined)
    return held if isinstance(held, Decision) else _judged(install, argv, stack, system, held)


def run(decision: Decision, argv: Sequence[str], system_of: SystemOf) -> Outcome:
    """Run a command that was let through, and verify that the vendor's stack came to no harm."""
    held = decision.held
    if held is None:
        return _outcome(stand_by(argv, {}))
    with tempfile.TemporaryDirectory(prefix="musadoctor-") as folder:
        code = stand_by(argv, _variables(held, folder))
    if isinstance(code, str):
        return _outcome(code)
    system = system_of(held.python)
    harm = _harm(held, system)
    if not harm:
        return Outcome(code)
    interpreter = python(system)
    has_pip = isinstance(interpreter, Python) and isinstance(
        package(system, interpreter, "pip"), Package
    )
    lost = restoration(
        held.pinned.pins, held.python, pip=has_pip, twice=twice(system, list(held.state))
    )
    return Outcome(
        REFUSED,
        f"{shlex.join(argv)} ended with exit code {code} and has harmed the vendor's stack:"
        f" {'; '.join(harm)}; {lost.text}",
        lost.commands,
    )


def _understood(argv: Sequence[str]) -> Install | None:
    """A command line; one that removes with what its files list."""
    install = parse(argv)
    if install is None or install.action not in REMOVING:
        return install
    more = (entry.name for entry in read(install.files).entries)
    return install._replace(requirements=(*install.requirements, *more), files=())


def _outcome(code: int | str) -> Outcome:
    return Outcome(USAGE, f"not started: {code}") if isinstance(code, str) else Outcome(code)


def _indirect(argv: Sequence[str], install: Install) -> Decision | None:
    """Refuse what would not hand the constraints on, or leads to an environment by detours."""
    names = [posixpath.basename(word) for word in install.program]
    if keepers := [name for name in names if name in KEEPING]:
        rest = argv[names.index(keepers[0]) + 1 :]
        return _refused(
            f"{keepers[0]} need not hand on the variables that hold the vendor's stack; put it"
            " before musadoctor",
            f"{keepers[0]} musadoctor guard -- {shlex.join(rest)}",
        )
    if install.variables:
        return _refused("put assignments before musadoctor, not behind --")
    if starters := [name for name in names[:-1] if name in STARTERS]:
        return _refused(
            f"{starters[0]} chooses the environment of `{shlex.join(install.program)}`; name that"
            " environment's own Python",
            f"musadoctor guard -- ENVIRONMENT/bin/python -m {install.tool} {install.action} ...",
        )
    return None


def _refused(why: str, *commands: str) -> Decision:
    return Decision("refuse", f"not run: {why}", commands)


def _examined(where: Target, system_of: SystemOf) -> tuple[str, System, StackFact]:
    """The first interpreter that has the vendor's stack, else the first that is not understood."""
    systems = [(path, system_of(path)) for path in where.pythons]
    found = [(path, system, stack_of(system)) for path, system in systems]
    vendors = [it for it in found if isinstance(it[2], Stack) and it[2].vendor]
    unknown = [it for it in found if isinstance(it[2], Unknown)]
    return (vendors or unknown or found)[0]


def _held(install: Install, argv: Sequence[str], path: str, system: System) -> Held | Decision:
    """What is to be held while a command runs, unless nothing could hold it."""
    builds = pinned(system)
    if not isinstance(builds, Pinned):
        return _refused(f"what is installed for {path} is not known: {builds}")
    names = [pin.name for pin in builds.pins]
    if bar := barred(install, argv, names, lasting=in_force(system, builds.pins)):
        return _refused(bar.why, *bar.commands)
    hashed = _hashed(install, argv, system)
    return Held(path, builds, states(system, names), hashed, _constraints(system))


def _judged(
    install: Install,
    argv: Sequence[str],
    stack: Stack,
    system: System,
    held: Held | None = None,
) -> Decision:
    """What the checks say of a command."""
    requirements = _requirements(install, argv, system)
    report = judge(requirements, stack)
    if bad := [file for file in requirements.files if file.problem]:
        why = f"{bad[0].path} cannot be read: {bad[0].problem}"
        return Decision("refuse", f"not run: {why}", (), report, requirements)
    if refused(report):
        return Decision("refuse", "not run", (), report, requirements)
    return Decision("run", "", (), report, requirements, held)


def refused(report: Report) -> bool:
    """Whether a report lets nothing be installed: what is not known is refused."""
    return bool(report.bugs) or any(
        result.status in {"failed", "unknown"} and result.check.severity == "error"
        for result in report.results
    )


def _requirements(install: Install, argv: Sequence[str], system: System) -> Requirements:
    """What the command line asks for, and what the files do that it names."""
    install = install._replace(
        flags=(*install.flags, *_switches(install, system)),
        variables=tuple(_index_variables(install, system)),
    )
    text = shlex.join(argv)
    made = list(entries(install, PLACE, text))
    asked = [entry for entry in made if entry.kind != "include"]
    of_files = read(install.files) if install.files else Requirements((), ())
    of_constraints = read(install.constraints) if install.constraints else Requirements((), ())
    # What a file asks for is asked for in the command's way.
    way = [(entry.flags, entry.fresh) for entry in made] or [((), False)]
    return Requirements(
        (*of_files.files, *of_constraints.files),
        (
            *asked,
            *(entry._replace(flags=way[0][0], fresh=way[0][1]) for entry in of_files.entries),
            *(entry._replace(scope="constraint") for entry in of_constraints.entries),
        ),
    )


def _switches(install: Install, system: System) -> list[str]:
    """Flags that pip takes from its variables."""
    values = {name: system.env(f"PIP_{name}") for name in SWITCHES if install.tool == "pip"}
    return [
        f"--{name.lower().replace('_', '-')}"
        for name, value in values.items()
        if isinstance(value, str) and value.lower() not in _OFF
    ]


def _index_variables(install: Install, system: System) -> Iterator[tuple[str, str]]:
    for name in INDEX_VARIABLES.get(install.tool, ()):
        value = system.env(name)
        if isinstance(value, str) and value:
            yield name, value


def _hashed(install: Install, argv: Sequence[str], system: System) -> bool:
    """Whether pip will demand hashes: by its flag, or because one line of a file has one."""
    texts = (system.read(path) for path in (*install.files, *install.constraints))
    variable = system.env("PIP_REQUIRE_HASHES")
    switched = isinstance(variable, str) and variable.lower() not in _OFF
    return (
        switched
        or "--require-hashes" in argv
        or any(isinstance(text, str) and "--hash" in text for text in texts)
    )


def _constraints(system: System) -> dict[str, tuple[str, ...]]:
    """What pip and uv are bound to already: a variable hides what pip's own files name."""
    interpreter = python(system)
    prefix = interpreter.prefix if isinstance(interpreter, Python) else ""
    of_pip, of_uv = system.env("PIP_CONSTRAINT"), system.env("UV_CONSTRAINT")
    return {
        "PIP_CONSTRAINT": tuple(of_pip.split())
        if isinstance(of_pip, str)
        else configured(system, prefix),
        "UV_CONSTRAINT": tuple(of_uv.split()) if isinstance(of_uv, str) else (),
    }


def _variables(held: Held, folder: str) -> dict[str, str]:
    """Write the constraints; the variables that name them beside those that hold already."""
    forms: dict[str, Form] = {
        "PIP_CONSTRAINT": "versions" if held.hashed else "files",
        "UV_CONSTRAINT": "installed",
    }
    variables: dict[str, str] = {}
    for name, form in forms.items():
        path = f"{folder}/{name.lower().replace('_', '-')}.txt"
        lines = (requirement(pin, form) for pin in held.pinned.pins)
        with open(path, "w", encoding="utf-8") as file:
            file.write(written(lines, held.python))
        variables[name] = " ".join((*held.constraints[name], listed(path)))
    return variables


def _harm(held: Held, system: System) -> list[str]:
    """What of the vendor's stack is no longer as it was, a clause each."""
    harm: list[str] = []
    build = torch_build(system)
    stack = stack_of(system)
    if not isinstance(stack, Stack) or not stack.vendor:
        harm.append(f"torch is the vendor's no more: {build}")
    after = states(system, list(held.state))
    for name, before in held.state.items():
        if after[name] == before or (harm and name == "torch"):
            continue
        old, new = before.partition(" ")[0], after[name].partition(" ")[0]
        if not new:
            harm.append(f"{name} {old} is gone")
        elif new != old:
            harm.append(f"{name} {old} was replaced by {new}")
        else:
            harm.append(f"files of {name} {old} were overwritten")
    return harm
