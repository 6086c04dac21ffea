"""What docker on this host knows of the vendor's runtime.

``/etc/docker/daemon.json``, as mt-container-toolkit leaves it::

    {
        "default-runtime": "mthreads",
        "runtimes": {
            "mthreads": {"path": "/usr/bin/musa/mthreads-container-runtime", "runtimeArgs": []}
        }
    }

That the path stands under ``path`` is docker's own rule; the vendor's file was not seen whole.
"""

import json
from typing import cast

from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.machine import Container, ContainerRuntime, ContainerRuntimeFact
from musadoctor.probes.container import container
from musadoctor.system import NOT_THERE, Failure, Stat, System

CONFIG = "/etc/docker/daemon.json"
BINARY = "/usr/bin/musa/mthreads-container-runtime"
NAME = "mthreads"


def container_runtime(system: System) -> ContainerRuntimeFact:
    """Docker's configuration on a host, and the program of the runtime that it names."""
    if isinstance(inside := container(system), Container):
        return Absent(f"this is a {inside}; its host has the runtime")
    text = system.read(CONFIG)
    if isinstance(text, Failure) and text.kind != NOT_THERE:
        return Unknown(str(text))
    settings = {} if isinstance(text, Failure) else _settings(text)
    runtimes = _runtimes(settings) if isinstance(settings, dict) else ()
    binary = dict(runtimes).get(NAME) or BINARY
    state = _state(system, binary)
    docker = system.find("docker")
    if isinstance(text, Failure) and state in {"", "missing"}:
        if isinstance(docker, Failure):
            return Unknown(str(docker))
        if not docker.path:
            return Absent(f"no docker on PATH, no {CONFIG}, and no {BINARY}")
    default = settings.get("default-runtime") if isinstance(settings, dict) else None
    return ContainerRuntime(
        config=CONFIG,
        problem=settings if isinstance(settings, str) else None,
        runtimes=runtimes,
        default=default if isinstance(default, str) else None,
        binary=binary,
        state=state,
    )


def _settings(text: str) -> dict[str, object] | str:
    """The configuration, or what is wrong with it."""
    if not text.strip():
        # Docker takes an empty file for no configuration.
        return {}
    try:
        settings: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"no JSON: {error}"
    return cast("dict[str, object]", settings) if isinstance(settings, dict) else "no JSON object"


def _runtimes(settings: dict[str, object]) -> tuple[tuple[str, str], ...]:
    table = settings.get("runtimes")
    found: list[tuple[str, str]] = []
    for name, runtime in cast(
        "dict[str, object]", table if isinstance(table, dict) else {}
    ).items():
        path = cast("dict[str, object]", runtime).get("path") if isinstance(runtime, dict) else None
        found.append((name, path if isinstance(path, str) else ""))
    return tuple(found)


def _state(system: System, binary: str) -> str:
    if "/" not in binary:
        found = system.find(binary)
        return "" if isinstance(found, Failure) else ("ok" if found.path else "missing")
    stat: Stat | Failure = system.stat(binary)
    if isinstance(stat, Failure):
        return "missing" if stat.kind == NOT_THERE else ""
    if stat.kind != "file":
        return "other" if stat.kind == "device" else stat.kind
    if not stat.size:
        return "empty"
    return "ok" if stat.executable else "not executable"
