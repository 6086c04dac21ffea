"""The ways by which software arrives at a Toolkit, each followed to its end."""

import re

from musadoctor.facts import (
    Absent,
    LoadableLibrary,
    Route,
    Toolkit,
    ToolkitRoutes,
    Toolkits,
    TorchMusaBuild,
    Unknown,
)
from musadoctor.facts.toolkit import ToolkitRoutesFact
from musadoctor.probes.distributions import torch_musa_build
from musadoctor.probes.libraries import preferred
from musadoctor.probes.toolkit import (
    LINK,
    VARIABLES,
    named_tree,
    read_tree,
    toolkits,
    tree_of_mcc,
    version_of_path,
)
from musadoctor.system import System
from musadoctor.versions import ToolkitVersion

FIRST_OF_ITS_SONAME = 4
"""From this generation on ``libmusart.so.N`` is named after it; older ones were ``.so.1.0``."""


def toolkit_routes(system: System) -> ToolkitRoutesFact:
    """Where MUSA_HOME, MUSA_PATH, mcc, /usr/local/musa, the loader and the wheel lead to.

    A variable that leads nowhere is a route without a number; a wheel that states no number is
    none.
    """
    followed = [
        *(_variable(system, name) for name in VARIABLES),
        _folder("mcc on PATH", tree_of_mcc(system)),
        _folder(LINK, read_tree(system, LINK)),
        _loader(system),
        _wheel(system),
    ]
    routes = tuple(route for route in followed if isinstance(route, Route))
    if routes:
        return ToolkitRoutes(routes)
    unknown = [route for route in followed if isinstance(route, Unknown)]
    absent = Absent(
        f"no MUSA_HOME, MUSA_PATH, mcc on PATH, {LINK}, libmusart or torch_musa leads to a Toolkit"
    )
    return unknown[0] if unknown else absent


def _variable(system: System, name: str) -> Route | Unknown | None:
    tree = named_tree(system, name)
    if isinstance(tree, Absent):
        return Route(name, str(system.env(name)), None, None)
    return _folder(name, tree)


def _folder(name: str, tree: Toolkit | Absent | Unknown | None) -> Route | Unknown | None:
    if isinstance(tree, Toolkit):
        return _route(name, tree.root, tree.version, None)
    return tree if isinstance(tree, Unknown) else None


def _loader(system: System) -> Route | Unknown | None:
    runtime = preferred(system, "libmusart")
    if not isinstance(runtime, LoadableLibrary):
        return runtime if isinstance(runtime, Unknown) else None
    installed = toolkits(system)
    trees = installed.installed if isinstance(installed, Toolkits) else ()
    number = re.match(r"libmusart\.so\.([0-9]{1,9})", runtime.soname)
    return _route(
        "loader",
        runtime.path,
        version_of_path(trees, runtime.real_path),
        int(number[1]) if number else None,
    )


def _wheel(system: System) -> Route | Unknown | None:
    build = torch_musa_build(system)
    if not isinstance(build, TorchMusaBuild):
        return build if isinstance(build, Unknown) else None
    name = f"torch_musa {build.version}"
    route = _route("wheel", name, build.built_for, build.runtime_major)
    return route if route.major is not None else None


def _route(
    name: str, target: str, version: ToolkitVersion | None, soname_number: int | None
) -> Route:
    """A route; the generation by the Toolkit's number, else by the ``N`` of ``libmusart.so.N``."""
    generation = soname_number if soname_number and soname_number >= FIRST_OF_ITS_SONAME else None
    return Route(name, target, version, version.major if version else generation)
