"""The environment variables that MUSA software reads, and the search paths in them."""

from collections.abc import Mapping
from typing import NamedTuple

from musadoctor.facts.base import Unknown
from musadoctor.versions import ToolkitVersion


class SearchEntry(NamedTuple):
    """One element of a search path."""

    path: str
    """As written; empty for an empty element, which means the current directory."""
    state: str
    """``ok``, ``missing``, ``empty`` (nothing written), ``unreadable``, ``not a folder``."""
    real_path: str
    """With links resolved; as written where it is not there."""
    libraries: tuple[str, ...] = ()
    """The MUSA libraries in it: ``libmusart.so.5``."""
    toolkit: ToolkitVersion | None = None
    """The Toolkit that the folder belongs to."""


class Environment(NamedTuple):
    """Named variables of this process, and their search paths looked up."""

    variables: Mapping[str, str]
    """Those of the known names that are set, with their values."""
    path: tuple[SearchEntry, ...]
    library_path: tuple[SearchEntry, ...]
    partial: bool = False
    """Whether variables may be set that are not among these, as in an excerpt."""

    def get(self, name: str) -> str | None:
        """The value of a variable, ``None`` where it is not set."""
        return self.variables.get(name)

    def starting(self, prefix: str) -> tuple[tuple[str, str], ...]:
        """All set variables of a prefix, ``MCCL_``."""
        return tuple(item for item in self.variables.items() if item[0].startswith(prefix))

    def __str__(self) -> str:
        names = ("MUSA_HOME", "MUSA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")
        shown = [f"{name}={value}" for name in names if (value := self.get(name)) is not None]
        return ", ".join(shown) or "no MUSA variable is set"


EnvironmentFact = Environment | Unknown
