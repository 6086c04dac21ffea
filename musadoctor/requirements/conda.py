"""environment.yml: conda's packages and channels, and what pip adds to them.

After conda's documentation, "Managing environments". Platform selectors, ``# [linux]`` and
``sel(linux):``, are those of conda-lock and micromamba.
"""

import re
from collections.abc import Iterator
from functools import cache

from musadoctor.facts.requirements import Entry
from musadoctor.requirements import pip_file
from musadoctor.requirements.broken import BrokenError, broken
from musadoctor.requirements.match_spec import channel_name, spec_entry
from musadoctor.requirements.requirement import shown
from musadoctor.requirements.yaml_text import Node, load

_SELECTOR = re.compile(r"#[ \t]*\[(?P<selector>[\w \t-]+)\][ \t]*\r?$", re.ASCII)
_SELECTED = re.compile(r"sel\((?P<selector>[\w \t-]+)\)", re.ASCII)

_SYSTEMS = {
    "linux": 'sys_platform == "linux"',
    "osx": 'sys_platform == "darwin"',
    "win": 'sys_platform == "win32"',
    "unix": 'sys_platform != "win32"',
}
_MACHINES = {
    "64": "x86_64",
    "x86_64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "arm64",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    "riscv64": "riscv64",
    "32": "i686",
}


def read(path: str, text: str) -> Iterator[Entry]:
    """What an environment file asks for."""
    try:
        documents = load(text)
    except BrokenError as error:
        yield broken(path, text, error, fresh=True)
        return
    lines = text.split("\n")
    for document in documents:
        yield from _environment(path, lines, document)


@cache
def platform_marker(platform: str) -> str:
    """A marker of conda's platforms, ``linux-64``, ``osx-arm64``; empty of all others."""
    system, _, machine = platform.partition("-")
    if system not in _SYSTEMS or machine not in _MACHINES:
        return ""
    name = "AMD64" if (system, machine) == ("win", "64") else _MACHINES[machine]
    return f'{_SYSTEMS[system]} and platform_machine == "{name}"'


def selector_marker(selector: str) -> str:
    """A marker of ``linux``, ``not win``, ``linux64``, ``osx and arm64``.

    Empty where a part of it is not known: then it counts as true.
    """
    either: list[str] = []
    for alternative in selector.split(" or "):
        every: list[str] = []
        for part in alternative.split(" and "):
            word = part.strip().removeprefix("not ").strip()
            marker = (
                _SYSTEMS.get(word)
                or platform_marker(word)
                or platform_marker(re.sub(r"(?<=[a-z])64$", "-64", word))
                or (word in _MACHINES and f'platform_machine == "{_MACHINES[word]}"')
            )
            if not marker:
                return ""
            every.append(_denied(marker) if part.strip().startswith("not ") else marker)
        either.append(" and ".join(every))
    return " or ".join(either)


def _denied(marker: str) -> str:
    parts = [
        part.replace("==", "!=") if "==" in part else part.replace("!=", "==")
        for part in marker.split(" and ")
    ]
    return parts[0] if len(parts) == 1 else f"({' or '.join(parts)})"


def _environment(path: str, lines: list[str], document: Node) -> Iterator[Entry]:
    if not document.table:
        if document.value:
            yield _unreadable(path, lines, document, "no conda environment")
        return
    channels = document.get("channels")
    for channel in channels.items or [channels] * bool(channels.text):
        yield channel_entry(path, channel)
    dependencies = document.get("dependencies")
    if dependencies.value and not dependencies.items:
        yield _unreadable(path, lines, dependencies, "dependencies is no list")
    for item in dependencies.items:
        yield from _dependency(path, lines, item)
    for name, value in document.get("variables").table.items():
        yield from _variable(path, name, value)


def channel_entry(path: str, channel: Node) -> Entry:
    """The entry of a channel, by its name or address."""
    where = f"{path}:{channel.line}"
    name = channel_name(channel.text)
    return Entry("channel", where, shown(name), name=name, fresh=True)


def _dependency(path: str, lines: list[str], item: Node) -> Iterator[Entry]:
    if item.text:
        commented = _SELECTOR.search(lines[item.line - 1])
        marker = selector_marker(commented["selector"]) if commented else ""
        yield spec_entry(item.text, f"{path}:{item.line}")._replace(marker=marker)
        return
    for key, value in item.table.items():
        selected = _SELECTED.fullmatch(key)
        if key == "pip":
            for requirement in value.items:
                yield from pip_entries(path, requirement)
        elif selected:
            marker = selector_marker(selected["selector"])
            for spec in value.items or [value]:
                yield spec_entry(spec.text, f"{path}:{spec.line}")._replace(marker=marker)
        else:
            yield _unreadable(path, lines, item, "neither a package nor a list for pip")
    if not item.table:
        yield _unreadable(path, lines, item, "neither a package nor a list for pip")


def pip_entries(path: str, requirement: Node) -> Iterator[Entry]:
    """The entries of a line that conda hands on to pip."""
    for made in pip_file.read(path, requirement.text):
        yield made._replace(where=f"{path}:{requirement.line}", scope="conda-pip", fresh=True)


def _variable(path: str, name: str, value: Node) -> Iterator[Entry]:
    from musadoctor.requirements.installers import (  # noqa: PLC0415 - few files have variables
        variable_entries,
    )

    where = f"{path}:{value.line}"
    yield from variable_entries(name, value.text, where, f"{name}: {value.text}", fresh=True)


def _unreadable(path: str, lines: list[str], node: Node, reason: str) -> Entry:
    where = f"{path}:{node.line}"
    return Entry("unreadable", where, shown(lines[node.line - 1]), fresh=True, reason=reason)
