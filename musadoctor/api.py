"""All that a check may use: the decorator, what it yields, and the facts that it judges.

A check is a function whose parameters are named after facts and annotated with the states of
them that it can judge::

    @check("toolkit-missing", layer=Layer.TOOLKIT, severity="error")
    def toolkit_missing(gpus: Gpus, toolkits: Toolkits | Absent) -> Judgement:
        \"\"\"No MUSA Toolkit is installed.

        ## Why it matters
        ...
        ## How to fix
        ...
        \"\"\"
        if isinstance(toolkits, Absent):
            yield Finding(f"no MUSA Toolkit: {toolkits}", fix=Fix("Install one"))
"""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from musadoctor import facts
from musadoctor.facts import *  # noqa: F403 - the facts are part of this module's contract
from musadoctor.facts import Absent, Messages, Unknown
from musadoctor.versions import (
    ComponentVersion,
    DriverApiVersion,
    KernelDriverVersion,
    ToolkitVersion,
    WheelVersion,
)

__all__ = [
    "SEVERITIES",
    "Check",
    "ComponentVersion",
    "DriverApiVersion",
    "Finding",
    "Fix",
    "Judgement",
    "KernelDriverVersion",
    "Layer",
    "Severity",
    "ToolkitVersion",
    "WheelVersion",
    "check",
]
__all__ += facts.__all__

if TYPE_CHECKING:
    from musadoctor.facts import later
    from musadoctor.facts.later import *  # noqa: F403 - as above

    __all__ += later.__all__
else:

    def __getattr__(name: str) -> object:
        """What only the checks of the guard and of ``verify`` import."""
        if name.startswith("__"):  # every import from here asks whether this is a package
            raise AttributeError(name)
        from musadoctor.facts import later  # noqa: PLC0415 - a report starts sooner without it

        return getattr(later, name)


Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Layer(IntEnum):
    """Where a host is broken, the most basic first."""

    MACHINE = 0
    HARDWARE = 1
    DRIVER = 2
    CONTAINER = 3
    TOOLKIT = 4
    ENVIRONMENT = 5
    LIBRARIES = 6
    PYTHON = 7
    TORCH = 8
    TORCH_MUSA = 9
    COLLECTIVES = 10
    REQUIREMENTS = 11
    """Not of a host but of what is about to be installed on it."""

    def __str__(self) -> str:
        return self.name.lower()


class Fix(NamedTuple):
    """What to do about a finding."""

    text: str
    commands: tuple[str, ...] = ()
    """Ready to copy, right for this host, safe to run."""
    destructive: bool = False
    """Following it can lose something: a driver change, an uninstall. ``text`` says what."""
    instead: str | None = None
    """Of a line in a dependency file: what may stand in its place, empty to leave it out, ``None``
    where nothing should be changed without thought."""
    counterpart: str = ""
    """Of a package that is left out, what Moore Threads' own package index has for it, by its name
    there."""


class Finding(NamedTuple):
    """One thing that is wrong."""

    message: str
    """Concrete values and where they were read, no final stop."""
    where: str = ""
    """The file, variable or device that it is about."""
    fix: Fix | None = None


Judgement = Iterator[Finding | Unknown | Absent]
"""What a check yields: findings, or why it cannot decide, or why the question does not arise.
Nothing means that all is well."""


Said = Callable[[str, Messages, Mapping[str, object]], Judgement]
"""Gets the check's id, the telling lines and the facts that the check names."""


class Check(NamedTuple):
    """A question about facts, with its documentation."""

    id: str
    """Kebab case; names the problem, so that it reads well after "ignore"."""
    layer: Layer
    severity: Severity
    follows_from: Layer | None
    """Of a symptom, which only shows that something else is broken: the lowest layer whose
    failure explains it. ``None`` where a failure is a cause of its own."""
    function: Callable[..., Judgement]
    aliases: tuple[str, ...]
    """Former ids, still understood by ``--select`` and ``--ignore``."""
    needs: dict[str, tuple[type, ...]]
    """Per fact the states that the check can judge, after the function's signature."""
    said: "Said | None" = None
    """Asked where there is a transcript and the facts do not show the fault: whether an error text
    in it does."""

    @property
    def family(self) -> str:
        """The name of the module or folder that holds it in its package, or in its ``verify``."""
        parts = self.function.__module__.split(".")
        depth = 2 if parts[1:2] == ["verify"] else 1
        return (parts[depth] if len(parts) > depth else parts[-1]).replace("_", "-")

    @property
    def title(self) -> str:
        """The first line of the documentation."""
        return (self.function.__doc__ or "").strip().partition("\n")[0].rstrip(".")


def check(
    id: str,  # noqa: A002 - it is the check's id, and positional
    /,
    *,
    layer: Layer,
    severity: Severity,
    follows_from: Layer | None = None,
    aliases: tuple[str, ...] = (),
    said: Said | None = None,
) -> Callable[[Callable[..., Judgement]], Check]:
    """Make a check of a function; see the module's docstring.

    Raises:
        TypeError: the id, the layer, the severity or the function's signature is none of a check.
    """
    if not id.replace("-", "").isalnum():
        raise TypeError(f"{id!r} is no id of a check: letters, digits and hyphens")
    if not isinstance(cast("object", layer), Layer) or severity not in SEVERITIES:
        raise TypeError(f"{id}: expected a Layer and one of {SEVERITIES}: {layer!r}, {severity!r}")

    def decorate(function: Callable[..., Judgement]) -> Check:
        needs: dict[str, tuple[type, ...]] = {
            name: getattr(annotation, "__args__", None) or (annotation,)
            for name, annotation in function.__annotations__.items()
            if name != "return"
        }
        code = function.__code__
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if not all(isinstance(cast("object", state), type) for state in needs.get(name, ("",))):
                raise TypeError(
                    f"{id}: the parameter {name!r} is not annotated with types of facts"
                    " (a module of checks has no `from __future__ import annotations`)"
                )
        return Check(id, layer, severity, follows_from, function, aliases, needs, said)

    return decorate
