"""What is known of packages by name: the rows of ``knowledge/requirements.csv``.

CSV, because TOML of as many rows takes 25 ms to read. A name with ``*`` is a kind of names;
a kind is asked only for names that no row has, the first that fits.

Evidence, by its letter: ``P`` pip or uv were asked what they would install; ``R`` the source
repository was read; ``C`` labelled files of the corpus name it beside CUDA; ``S`` its page on the
package index; ``M`` general knowledge. A row of ``M`` alone is general knowledge.
"""

import csv
import fnmatch
import functools
import pkgutil
import re
from typing import NamedTuple, cast

FILE = "knowledge/requirements.csv"
GENERAL = "general knowledge"


class Package(NamedTuple):
    """One row."""

    name: str
    ecosystem: str
    """``pypi``, ``conda``, or ``vcs`` for the last part of a repository's address."""
    check: str
    """The check that a requirement of that name falls to whatever its version; empty for none."""
    verdict: str
    """``refuse``, ``warn``, ``ok``; ``host`` where it depends on what is installed."""
    needs_torch: bool
    """Whether it depends on torch, so that an eager upgrade reaches torch."""
    twin: str
    """A package of the same versions that can stand in its place; ``none`` where the line should
    go although it is only warned of."""
    counterpart: str
    """What the Moore Threads package index has for it, by its name there."""
    action: str
    evidence: str
    date: str
    confidence: str
    """``checked`` or ``general knowledge``."""

    @property
    def is_kind(self) -> bool:
        """Whether it stands for all names of a form."""
        return "*" in self.name


class _Table(NamedTuple):
    named: dict[str, Package]
    kinds: list[Package]
    cores: frozenset[str]
    """Of each kind the longest text without a wildcard: most names have none of them."""


@functools.cache
def packages() -> tuple[Package, ...]:
    """All rows, in the order of the file."""
    text = cast("bytes", pkgutil.get_data("musadoctor_checks", FILE)).decode()
    reader = csv.reader(text.splitlines())
    next(reader)
    return tuple(
        Package(name, ecosystem, check, verdict, needs_torch == "yes", *rest)
        for name, ecosystem, check, verdict, needs_torch, *rest in reader
    )


@functools.cache
def _table(ecosystem: str) -> _Table:
    rows = [row for row in packages() if row.ecosystem == ecosystem]
    kinds = [row for row in rows if row.is_kind]
    cores = frozenset(max(re.split(r"\*|\[.*?\]", row.name), key=len) for row in kinds)
    return _Table({row.name: row for row in rows}, kinds, cores)


@functools.lru_cache(maxsize=4096)
def package(name: str, ecosystem: str) -> Package | None:
    """The row of a normalised name, ``None`` where nothing is known of it."""
    table = _table(ecosystem)
    if row := table.named.get(name):
        return row
    if not any(core in name for core in table.cores):
        return None
    return next((row for row in table.kinds if fnmatch.fnmatchcase(name, row.name)), None)
