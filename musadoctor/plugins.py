"""Load packages of checks: the built-in one by name, others by the entry-point group.

``importlib.metadata.entry_points()`` takes 100 ms with 300 distributions and raises when any
foreign one is damaged, so the group is read from the ``entry_points.txt`` files themselves. A
package that cannot be loaded becomes a failure that the report shows; it takes nothing with it.
"""

import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from musadoctor.api import Check, Judgement, Layer, check
from musadoctor.report import Result

BUILTIN = "musadoctor_checks"
REQUIREMENTS = f"{BUILTIN}.requirements"
"""Named here, so that a lost entry-point file can never give an empty, green report."""
GROUP = "musadoctor.checks"
LONGEST_FILE = 1 << 20


class PluginFailure(NamedTuple):
    """A package of checks that could not be loaded."""

    package: str
    origin: str
    """The file or entry point that named it."""
    reason: str
    traceback: str = ""


class Loaded(NamedTuple):
    """The checks that are there, and what could not be loaded."""

    checks: tuple[Check, ...]
    failures: tuple[PluginFailure, ...]


@check("plugin-broken", layer=Layer.MACHINE, severity="warning")
def plugin_broken() -> Judgement:
    """A package of checks could not be loaded.

    ## Why it matters

    The checks of that package did not run, so what they watch over was not looked at. All other
    checks ran as usual.

    ## How to fix

    Repair or uninstall the package that the message names, or leave it out of a run with
    `musadoctor --no-plugins`. The exception with its traceback is in `musadoctor --json`.
    """
    yield from ()


def unloaded(failures: Iterable[PluginFailure]) -> tuple[Result, ...]:
    """What the report shows of the packages that could not be loaded."""
    return tuple(
        Result(
            plugin_broken,
            "unknown",
            reason=f"{failure.package}, named in {failure.origin}: {failure.reason}",
            traceback=failure.traceback,
        )
        for failure in failures
    )


def not_loaded(failures: Iterable[PluginFailure]) -> str:
    """A clause for whoever looks for a check in vain; empty where every package was loaded."""
    return "".join(f"; {f.package} could not be loaded: {f.reason}" for f in failures)


def load(*, plugins: bool, path: Iterable[str] | None = None) -> Loaded:
    """The built-in checks, with ``plugins`` also those of other distributions on ``path``."""
    checks = list(_collect(BUILTIN))
    failures: list[PluginFailure] = []
    owners = {check.id: BUILTIN for check in checks}
    for package, origin in entry_points(sys.path if path is None else path) if plugins else ():
        try:
            found = list(_collect(package))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code at import
            reason = f"{type(error).__name__}: {error}"
            failures.append(PluginFailure(package, origin, reason, traceback.format_exc()))
            continue
        ids = [check.id for check in found]
        taken = next((one for one in ids if one in owners or ids.count(one) > 1), None)
        if taken is not None:
            reason = f"its check {taken!r} has the id of one of {owners.get(taken, package)}"
            failures.append(PluginFailure(package, origin, reason))
        elif not found:
            failures.append(PluginFailure(package, origin, "no check in any of its modules"))
        else:
            owners.update((check.id, package) for check in found)
            checks += found
    return Loaded(tuple(checks), tuple(failures))


def load_requirements() -> tuple[Check, ...]:
    """The guard's checks. They judge files, no host, and other people's are not loaded."""
    return tuple(_collect(REQUIREMENTS))


def _collect(package: str) -> Iterator[Check]:
    """The checks in a package's modules, each once, wherever it is imported again."""
    root = importlib.import_module(package)
    names = [
        f"{package}.{module.name}"
        for module in pkgutil.iter_modules(getattr(root, "__path__", ()))
        if not module.ispkg
    ]
    for name in (package, *names):
        module = importlib.import_module(name)
        for value in vars(module).values():
            if isinstance(value, Check) and value.function.__module__ == name:
                yield value


def entry_points(path: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Packages of the group other than the built-in one, with the file that names them.

    Damaged files and folders that cannot be read are stepped over: they are other people's.
    """
    seen: set[str] = set()
    for folder in path:
        try:
            names = sorted(n for n in os.listdir(folder or ".") if n.endswith(".dist-info"))
        except OSError:
            continue
        for name in names:
            file = os.path.join(folder, name, "entry_points.txt")
            for package in _group(file):
                if package not in seen and package != BUILTIN:
                    seen.add(package)
                    yield package, file


def _group(file: str) -> Iterator[str]:
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            text = lines.read(LONGEST_FILE)
    except OSError:
        return
    within = False
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            within = line == f"[{GROUP}]"
        elif within and "=" in line and not line.startswith("#"):
            yield line.partition("=")[2].partition(":")[0].partition("[")[0].strip()
