"""pixi.toml, ``[tool.pixi]`` of a pyproject.toml, and pixi.lock.

After pixi's reference of its manifest and of its lock, versions 4 to 6; no older lock was seen.
"""

import re
import shlex
from collections.abc import Iterator
from functools import lru_cache

from musadoctor.facts.requirements import Entry
from musadoctor.requirements import shell
from musadoctor.requirements.broken import BrokenError, broken
from musadoctor.requirements.conda import platform_marker, selector_marker
from musadoctor.requirements.dependency_table import (
    address_of,
    bound,
    dependency,
    table_of,
    unreadable,
)
from musadoctor.requirements.installers import variable_entries
from musadoctor.requirements.match_spec import channel_name, package_file, spec_entry
from musadoctor.requirements.requirement import address, entry_of, normalised, shown
from musadoctor.requirements.requirement_list import place
from musadoctor.requirements.toml_text import (
    Document,
    is_array,
    is_table,
    items,
    load,
    string,
    table,
)
from musadoctor.requirements.yaml_text import Node, nodes

Keys = tuple[str, ...]

_CONDA_TABLES = ("dependencies", "host-dependencies", "build-dependencies", "run-dependencies")
_INDEX_OPTIONS = ("index-url", "extra-index-urls", "find-links")
_ITSELF = frozenset({".", "./"})
_KEYS = frozenset({"name", "version", "kind", "conda", "pypi", "url", "path"})
_PACKAGES = re.compile(r"^packages:", re.MULTILINE)
_LOCK_LINE = re.compile(
    r"""
    ^ [ ]+ (?:
        (?P<key> [\w-]+ ) : [ \t]* \r? $
      | - [ ] (?: url: [ ] )? (?P<item> [^\s:]+ (?: : [^\s]+ )? ) \s* $
    )
    """,
    re.VERBOSE | re.MULTILINE | re.ASCII,
)
_WHEEL_PLATFORM = re.compile(
    r"-(?P<system>win|macosx|\w*linux)[a-z0-9_.]*?(?P<machine>_aarch64|_arm64|_x86_64|_ppc64le)?\.whl$"
)
_PLAIN_WHEEL = re.compile(r"https?://[^%+#@?]+\.whl")
"""A wheel's address whose version has no label, which a package's own version may leave out."""
_NAMELESS = "a package without a name"
_WHEEL_SYSTEMS = {"win": "win32", "macosx": "darwin"}


def read_manifest(path: str, text: str) -> Iterator[Entry]:
    """What a pixi.toml asks for."""
    try:
        document = load(path, text)
    except BrokenError as error:
        yield broken(path, text, error, fresh=True)
        return
    yield from entries(document)


def entries(document: Document, *keys: str) -> Iterator[Entry]:
    """What pixi's tables in a document ask for; ``keys`` lead to them."""
    for head in ("workspace", "project"):
        yield from _channels(document, (*keys, head, "channels"))
        yield from _indexes(document, (*keys, head, "pypi-options"))
    yield from _targets(document, keys)
    yield from _targets(document, (*keys, "package"))
    for feature in table(document.get(*keys, "feature")):
        yield from _channels(document, (*keys, "feature", feature, "channels"))
        yield from _targets(document, (*keys, "feature", feature))


def read_lock(path: str, text: str) -> Iterator[Entry]:
    """What a pixi.lock installs."""
    packages = _PACKAGES.search(text)
    yield from _environments(path, text[: packages.start()] if packages else text)
    try:
        for node in nodes(text, "packages", _KEYS):
            if isinstance(node, Node):
                yield from _package(path, node)
            else:
                yield broken(path, node.text, node.error, first=node.line, scope="lock", fresh=True)
    except BrokenError as error:
        yield broken(path, text, error, scope="lock", fresh=True)


def _targets(document: Document, keys: Keys) -> Iterator[Entry]:
    """A feature's tables, and those for single platforms in it."""
    yield from _feature(document, keys, "")
    for target in table(document.get(*keys, "target")):
        yield from _feature(document, (*keys, "target", target), selector_marker(target))


def _feature(document: Document, keys: Keys, marker: str) -> Iterator[Entry]:
    for name in _CONDA_TABLES:
        for package, value in table(document.get(*keys, name)).items():
            made = _conda(document, package, value, (*keys, name, package))
            yield made._replace(marker=marker)
    for package, value in table(document.get(*keys, "pypi-dependencies")).items():
        for made in _pypi(document, package, value, (*keys, "pypi-dependencies", package)):
            yield made._replace(marker=made.marker or marker)
    yield from _indexes(document, (*keys, "pypi-options"))
    yield from _system(document, (*keys, "system-requirements", "cuda"))
    for variable, value in table(document.get(*keys, "activation", "env")).items():
        where = document.where(*keys, "activation", "env", variable)
        line = f"{variable} = {string(value)}"
        yield from variable_entries(variable, string(value), where, line, fresh=True)
    for task, value in table(document.get(*keys, "tasks")).items():
        yield from _task(document, value, (*keys, "tasks", task))


def _channels(document: Document, keys: Keys) -> Iterator[Entry]:
    for number, channel in enumerate(items(document.get(*keys))):
        name = channel_name(string(channel) or string(table(channel).get("channel")))
        where = document.where(*keys, number)
        yield Entry("channel", where, shown(name), name=name, fresh=True)


def _indexes(document: Document, keys: Keys) -> Iterator[Entry]:
    for option in _INDEX_OPTIONS:
        found = document.get(*keys, option)
        listed = is_array(found)
        for number, value in enumerate(items(found) if listed else [found]):
            url = string(value) or string(table(value).get("url"))
            where = document.where(*keys, option, *([number] if listed else []))
            if url:
                yield Entry("index", where, shown(url), url=address(url), option=option, fresh=True)


def _system(document: Document, keys: Keys) -> Iterator[Entry]:
    found = document.get(*keys)
    version = string(table(found).get("version")) if is_table(found) else found
    if version is not None:
        yield Entry(
            "variable",
            document.where(*keys),
            shown(document.written(*keys)),
            name="cuda",
            specifier=shown(str(version)),
            option="system-requirements.cuda",
            fresh=True,
        )


def _conda(document: Document, package: str, value: object, keys: Keys) -> Entry:
    here = place(document, *keys)._replace(fresh=True)
    spec = table_of(value)
    if spec is None:
        return unreadable(here, f"no version of {package}")
    made = spec_entry(package, here.where, text=here.text)
    if url := address_of(spec):
        file = package_file(url, made)
        return file or made._replace(kind="source", name=package.lower(), url=address(url))
    version = string(spec.get("version"))
    return made._replace(
        specifier="" if version == "*" else shown(version),
        build=shown(string(spec.get("build"))),
        url=channel_name(string(spec.get("channel"))),
    )


def _pypi(document: Document, package: str, value: object, keys: Keys) -> Iterator[Entry]:
    here = place(document, *keys)._replace(fresh=True)
    spec = table_of(value)
    if spec is None:
        yield unreadable(here, f"no version of {package}")
    elif string(spec.get("path")) not in _ITSELF:
        yield dependency(package, spec, here)
        if index := string(spec.get("index")):
            yield bound(package, index, "index", "", here)


def _task(document: Document, task: object, keys: Keys) -> Iterator[Entry]:
    command = table(task).get("cmd") if is_table(task) else task
    where = document.where(*keys)
    script = shlex.join(map(str, command)) if is_array(command) else string(command)
    yield from shell.script(script, lambda _: where, {}, fresh=True, scope="task")
    for variable, value in table(table(task).get("env")).items():
        line = f"{variable} = {string(value)}"
        yield from variable_entries(variable, string(value), where, line, fresh=True, scope="task")


def _environments(path: str, head: str) -> Iterator[Entry]:
    """The channels and indexes of all environments, each once."""
    told: set[tuple[str, str]] = set()
    line, counted, key = 1, 0, ""
    for found in _LOCK_LINE.finditer(head):
        if found["key"]:
            key = found["key"]
            continue
        url = found["item"].strip("\"'")
        if key not in {"channels", "indexes", "find-links"} or (key, url) in told:
            continue
        told.add((key, url))
        line, counted = line + head.count("\n", counted, found.start()), found.start()
        made = Entry("index", f"{path}:{line}", shown(url), scope="lock", fresh=True)
        if key == "channels":
            name = channel_name(url)
            yield made._replace(kind="channel", text=shown(name), name=name)
        else:
            yield made._replace(url=address(url), option=key)


def _package(path: str, package: Node) -> Iterator[Entry]:
    where = f"{path}:{package.get('name').line or package.line}"
    conda, pypi = package.get("conda").text, package.get("pypi").text
    if package.get("kind").text == "pypi":
        pypi = package.get("url").text or package.get("path").text
    else:
        conda = conda or package.get("url").text
    made = Entry("conda", where, "", scope="lock", fresh=True)
    if conda or not pypi:
        yield _of_conda(package, conda, made)
    elif pypi not in _ITSELF:
        yield _of_pypi(package, pypi, made)


def _of_conda(package: Node, url: str, made: Entry) -> Entry:
    if file := package_file(url, made):
        text = shown(f"{file.name} {file.specifier.lstrip('=')} {file.build}")
        return file._replace(text=text, marker=platform_marker(file.url.rpartition("/")[2]))
    name, version = package.get("name").text, package.get("version").text
    if not name:
        return made._replace(kind="unreadable", text=shown(url), reason=_NAMELESS)
    made = made._replace(text=shown(f"{name} {version or url}"), name=name.lower())
    if url:
        return made._replace(kind="source", url=address(url))
    return made._replace(specifier=f"=={version}")


def _of_pypi(package: Node, url: str, made: Entry) -> Entry:
    name, version = normalised(package.get("name").text), package.get("version").text
    if not name or not version or not _PLAIN_WHEEL.fullmatch(url):
        found = entry_of(url, made.where, scope="lock", fresh=True)
        if found.kind == "source":
            return found._replace(name=name or found.name)
        name, version = name or found.name, found.specifier.lstrip("=") or version
    if not name:
        return made._replace(kind="unreadable", text=shown(url), reason=_NAMELESS)
    return made._replace(
        kind="requirement",
        name=name,
        specifier=f"=={version}",
        text=shown(f"{name} {version}"),
        marker=_wheel_marker(url),
    )


@lru_cache(maxsize=1024)
def _marker_of(system: str, machine: str) -> str:
    marker = f'sys_platform == "{_WHEEL_SYSTEMS.get(system, "linux")}"'
    return f'{marker} and platform_machine == "{machine}"' if machine else marker


def _wheel_marker(url: str) -> str:
    """The platform that a wheel is for; empty for any."""
    found = _WHEEL_PLATFORM.search(url.partition("#")[0])
    return _marker_of(found["system"], (found["machine"] or "").lstrip("_")) if found else ""
