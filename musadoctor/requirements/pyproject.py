"""pyproject.toml: the standard tables, and those of setuptools, poetry, uv, pdm, hatch and pixi."""

from collections.abc import Iterator

from musadoctor.facts.requirements import Entry
from musadoctor.requirements import pyproject_tools, pyproject_uv
from musadoctor.requirements.broken import BrokenError, broken
from musadoctor.requirements.dependency_table import (
    bound,
    dependency,
    marker_of,
    table_of,
    unreadable,
)
from musadoctor.requirements.requirement import address
from musadoctor.requirements.requirement_list import (
    indexes,
    listed,
    named_lists,
    place,
    urls_by_name,
)
from musadoctor.requirements.toml_text import Document, Keys, is_array, items, load, string, table


def read(path: str, text: str) -> Iterator[Entry]:
    """What a pyproject.toml asks for, and where it is to come from."""
    try:
        document = load(path, text)
    except BrokenError as error:
        yield broken(path, text, error)
        return
    yield from listed(document, "build-system", "requires", scope="build")
    yield from listed(document, "project", "dependencies")
    yield from named_lists(document, "project", "optional-dependencies", scope="extra")
    yield from named_lists(document, "dependency-groups", scope="group")
    yield from _setuptools(document)
    yield from _poetry(document)
    yield from pyproject_uv.entries(document)
    yield from pyproject_tools.entries(document)


def _setuptools(document: Document) -> Iterator[Entry]:
    """Requirements that setuptools, or hatch by a plugin, reads from other files."""
    dynamic = ("tool", "setuptools", "dynamic")
    yield from _included(document, "", *dynamic, "dependencies", "file")
    for extra in table(document.get(*dynamic, "optional-dependencies")):
        of_extra = (*dynamic, "optional-dependencies", extra, "file")
        yield from _included(document, f"extra:{extra}", *of_extra)
    hook = ("tool", "hatch", "metadata", "hooks", "requirements_txt")
    yield from _included(document, "", *hook, "files")
    for extra in table(document.get(*hook, "optional-dependencies")):
        yield from _included(document, f"extra:{extra}", *hook, "optional-dependencies", extra)


def _included(document: Document, scope: str, *keys: str) -> Iterator[Entry]:
    found = document.get(*keys)
    files = [found] if isinstance(found, str) else items(found)
    for number, file in enumerate(files):
        here = place(document, *keys, number)
        made = Entry("include", here.where, here.text, option="file:", scope=scope)
        yield made._replace(url=address(string(file)))


def _poetry(document: Document) -> Iterator[Entry]:
    """``[tool.poetry]``, after poetry's documentation of pyproject.toml."""
    keys = ("tool", "poetry")
    yield from indexes(document, *keys, "source", option="tool.poetry.source")
    urls = urls_by_name(document, *keys, "source")
    extras = {
        string(name): f"extra:{extra}"
        for extra, names in table(document.get(*keys, "extras")).items()
        for name in items(names)
    }
    yield from _dependencies(document, (*keys, "dependencies"), "", urls, extras)
    yield from _dependencies(document, (*keys, "dev-dependencies"), "group:dev", urls, extras)
    for group in table(document.get(*keys, "group")):
        inner = (*keys, "group", group, "dependencies")
        yield from _dependencies(document, inner, f"group:{group}", urls, extras)


def _dependencies(
    document: Document,
    keys: tuple[str, ...],
    scope: str,
    urls: dict[str, str],
    extras: dict[str, str],
) -> Iterator[Entry]:
    for name, value in table(document.get(*keys)).items():
        if name == "python":
            continue
        several: list[tuple[Keys, object]] = [((*keys, name), value)]
        if is_array(value):
            several = [((*keys, name, number), one) for number, one in enumerate(value)]
        for at, one in several:
            here = place(document, *at, scope=scope or extras.get(name, ""))
            spec = table_of(one)
            if spec is None:
                yield unreadable(here, f"no dependency as poetry has it: {name}")
                continue
            yield dependency(name, spec, here)
            source = string(spec.get("source"))
            if source and (source in urls or source.lower() != "pypi"):
                url = urls.get(source) or source
                yield bound(name, url, "tool.poetry.source", marker_of(spec), here)
