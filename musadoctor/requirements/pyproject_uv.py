"""``[tool.uv]`` of a pyproject.toml, after uv's reference of its settings."""

import re
from collections.abc import Iterator, Mapping

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.dependency_table import (
    Place,
    address_of,
    bound,
    located,
    marker_of,
    unreadable,
)
from musadoctor.requirements.requirement import normalised, torch_index
from musadoctor.requirements.requirement_list import (
    index_of,
    indexes,
    listed,
    named_lists,
    place,
    urls_by_name,
)
from musadoctor.requirements.toml_text import Document, Keys, Table, is_array, items, string, table

_EXTRA = re.compile(r"""\s*extra\s*==\s*(['"])(?P<name>[\w.-]+)\1\s*""")
_INDEXES = ("index-url", "extra-index-url", "find-links")
_LISTS = {
    "constraint-dependencies": "constraint",
    "override-dependencies": "override",
    "build-constraint-dependencies": "build",
    "dev-dependencies": "group:dev",
}


def entries(document: Document) -> Iterator[Entry]:
    """What ``[tool.uv]`` adds to the project's requirements."""
    for key, scope in _LISTS.items():
        yield from listed(document, "tool", "uv", key, scope=scope)
    yield from named_lists(document, "tool", "uv", "extra-build-dependencies", scope="build")
    yield from indexes(document, "tool", "uv", "index", option="tool.uv.index")
    urls = urls_by_name(document, "tool", "uv", "index")
    for keys in (("tool", "uv"), ("tool", "uv", "pip")):
        yield from _settings(document, keys)
    for name, sources in table(document.get("tool", "uv", "sources")).items():
        at: Keys = ("tool", "uv", "sources", name)
        if is_array(sources):
            for number, source in enumerate(sources):
                yield _source(document, name, source, (*at, number), urls)
        else:
            yield _source(document, name, sources, at, urls)


def _settings(document: Document, keys: tuple[str, ...]) -> Iterator[Entry]:
    """Indexes, and the index that a ``torch-backend`` stands for."""
    for key in _INDEXES:
        option = ".".join((*keys, key))
        found = document.get(*keys, key)
        if isinstance(found, str):
            yield index_of(document, *keys, key, url=found, option=option)
        for number, item in enumerate(items(found)):
            yield index_of(document, *keys, key, number, url=string(item), option=option)
    if backend := string(document.get(*keys, "torch-backend")):
        here = place(document, *keys, "torch-backend")
        made = Entry("index", here.where, here.text, option="torch-backend")
        yield made._replace(url=torch_index(backend))


def _source(
    document: Document, name: str, value: object, keys: Keys, urls: Mapping[str, str]
) -> Entry:
    """Where one project is taken from."""
    source = table(value)
    scope, marker = _scope(source)
    here = place(document, *keys, scope=scope)
    if index := string(source.get("index")):
        return bound(name, urls.get(index, index), "tool.uv.sources", marker, here)
    if url := address_of(source):
        return located(name, url, here)._replace(marker=marker)
    if source.get("workspace") is True:
        return _workspace(name, marker, here)
    return unreadable(here, f"no source of {name} that uv has")


def _scope(source: Table) -> tuple[str, str]:
    """The extra or group that a source is for, and the marker that is left."""
    marker = marker_of(source)
    if extra := string(source.get("extra")):
        return f"extra:{extra}", marker
    if group := string(source.get("group")):
        return f"group:{group}", marker
    if found := _EXTRA.fullmatch(marker):
        return f"extra:{found['name']}", ""
    return "", marker


def _workspace(name: str, marker: str, here: Place) -> Entry:
    made = Entry("source", here.where, here.text, name=normalised(name), marker=marker)
    return made._replace(option="workspace", scope=here.scope)
