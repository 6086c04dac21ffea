"""Pipfile and Pipfile.lock: what pipenv puts into an environment of its own."""

from collections.abc import Iterator

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.broken import BrokenError, broken
from musadoctor.requirements.dependency_table import (
    Place,
    bound,
    dependency,
    marker_of,
    table_of,
    unreadable,
)
from musadoctor.requirements.json_text import members
from musadoctor.requirements.requirement import address, shown
from musadoctor.requirements.requirement_list import indexes, place, urls_by_name
from musadoctor.requirements.toml_text import items, load, string, table

_NO_PACKAGES = frozenset({"source", "requires", "scripts", "pipenv"})
_SOURCES = 1 << 14
"""Characters in which the address of a lock's source is looked for, to tell its line."""


def read(path: str, text: str) -> Iterator[Entry]:
    """The packages of a Pipfile, or of a Pipfile.lock, and where they are to come from."""
    return _lock(path, text) if text.lstrip()[:1] == "{" else _pipfile(path, text)


def _pipfile(path: str, text: str) -> Iterator[Entry]:
    try:
        document = load(path, text)
    except BrokenError as error:
        yield broken(path, text, error, fresh=True)
        return
    for made in indexes(document, "source", option="source"):
        yield made._replace(fresh=True)
    urls = urls_by_name(document, "source")
    for category, packages in document.tables.items():
        if category in _NO_PACKAGES:
            continue
        for name, value in table(packages).items():
            here = place(document, category, name, scope=_scope(category))._replace(fresh=True)
            yield _package(name, value, here)
            if index := string(table(value).get("index")):
                url = urls.get(index, index)
                yield bound(name, url, "index", marker_of(table(value)), here)


def _scope(category: str) -> str:
    """``packages`` and ``default`` are for all, the others are groups."""
    if category in ("packages", "default"):
        return ""
    return f"group:{category.removesuffix('-packages')}"


def _package(name: str, value: object, here: Place) -> Entry:
    spec = table_of(value)
    if spec is None:
        return unreadable(here, f"no dependency as pipenv has it: {shown(name)}")
    return dependency(name, spec, here)


def _lock(path: str, text: str) -> Iterator[Entry]:
    line = 1
    counted = 0
    try:
        for keys, at, value in members(text, 2):
            line += text.count("\n", counted, at)
            counted = at
            here = Place(f"{path}:{line}", "", "lock", fresh=True)
            if keys == ("_meta", "sources"):
                for item in items(value):
                    url = string(table(item).get("url"))
                    found = text.find(url, at, at + _SOURCES)
                    below = text.count("\n", at, max(at, found))
                    where = f"{path}:{line + below}"
                    made = Entry("index", where, shown(url), url=address(url))
                    yield made._replace(option="source", scope="lock", fresh=True)
            elif keys[0] != "_meta":
                name = keys[-1]
                version = string(table(value).get("version"))
                yield _package(name, value, here._replace(text=shown(name + version)))
    except BrokenError as error:
        yield broken(path, text, error, scope="lock", fresh=True)
