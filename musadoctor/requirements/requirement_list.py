"""A TOML array of PEP 508 requirements, each with its line."""

from collections.abc import Iterator

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.dependency_table import Place, unreadable
from musadoctor.requirements.requirement import address, entry_of, normalised, shown
from musadoctor.requirements.toml_text import Document, is_array, items, string, table


def place(document: Document, *keys: str | int, scope: str = "") -> Place:
    """Where something stands in a document."""
    return Place(document.where(*keys), shown(document.written(*keys)), scope)


def listed(document: Document, *keys: str, scope: str = "") -> Iterator[Entry]:
    """The entries of an array of requirements, or of tables that include a dependency group."""
    found = document.get(*keys)
    if found is not None and not is_array(found):
        yield unreadable(place(document, *keys, scope=scope), f"{keys[-1]} is no list")
    own = normalised(string(document.get("project", "name")))
    groups = frozenset(map(normalised, table(document.get("dependency-groups"))))
    for index, item in enumerate(items(found)):
        if isinstance(item, str):
            where = document.where(*keys, index)
            made = entry_of(item.removeprefix("-e "), where, text=item, scope=scope)
            # The project's own extras stand in the same file.
            if not (made.name == own and made.extras and not made.specifier and not made.url):
                yield made
        elif normalised(string(table(item).get("include-group"))) not in groups:
            reason = "neither a requirement nor a dependency group of this file"
            yield unreadable(place(document, *keys, index, scope=scope), reason)


def named_lists(document: Document, *keys: str, scope: str) -> Iterator[Entry]:
    """The entries of arrays of requirements, each under the name of its extra or group."""
    for name in table(document.get(*keys)):
        yield from listed(document, *keys, name, scope=f"{scope}:{name}")


def urls_by_name(document: Document, *keys: str) -> dict[str, str]:
    """The URLs of an array of indexes, by the names that dependencies call them by."""
    tables = map(table, items(document.get(*keys)))
    return {string(one.get("name")): string(one.get("url")) for one in tables}


def indexes(document: Document, *keys: str, option: str) -> Iterator[Entry]:
    """The entries of an array of indexes that have a URL; poetry's own need none."""
    for number, item in enumerate(items(document.get(*keys))):
        if url := string(table(item).get("url")):
            yield index_of(document, *keys, number, "url", url=url, option=option)


def index_of(document: Document, *keys: str | int, url: str, option: str) -> Entry:
    """The entry of a package index."""
    here = place(document, *keys)
    return Entry("index", here.where, here.text, url=address(url), option=option)
