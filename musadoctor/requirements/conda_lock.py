"""conda-lock.yml, and explicit lists of packages (``@EXPLICIT``).

After conda-lock's documentation of its "unified" lock, version 1, and conda's of
``conda list --explicit``.
"""

import re
from collections.abc import Iterator

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.broken import BrokenError, broken
from musadoctor.requirements.conda import channel_entry, platform_marker
from musadoctor.requirements.match_spec import package_file
from musadoctor.requirements.requirement import entry_of, normalised, shown
from musadoctor.requirements.yaml_text import Node, load, nodes

_EXPLICIT = re.compile(r"^@EXPLICIT[ \t]*\r?$", re.MULTILINE)
_PIP = re.compile(r"#[ \t]+pip[ \t]+(?P<requirement>.+?)(?:[ \t]+--hash=\S+)*[ \t]*")
_KEYS = frozenset({"name", "version", "manager", "platform", "url"})
_PACKAGES = re.compile(r"^package:", re.MULTILINE)


def read(path: str, text: str) -> Iterator[Entry]:
    """What a lock installs."""
    if _EXPLICIT.search(text[: 1 << 16]):
        yield from _explicit(path, text)
        return
    packages = _PACKAGES.search(text)
    yield from _channels(path, text[: packages.start()] if packages else text)
    try:
        for node in nodes(text, "package", _KEYS):
            if isinstance(node, Node):
                yield _package(path, node)
            else:
                yield broken(path, node.text, node.error, first=node.line, scope="lock", fresh=True)
    except BrokenError as error:
        yield broken(path, text, error, scope="lock", fresh=True)


def _channels(path: str, head: str) -> Iterator[Entry]:
    try:
        documents = load(head)
    except BrokenError as error:
        yield broken(path, head, error, scope="lock", fresh=True)
        return
    for document in documents:
        for channel in document.get("metadata", "channels").items:
            yield channel_entry(path, channel.get("url") if channel.table else channel)


def _package(path: str, package: Node) -> Entry:
    name, version, url = (package.get(key).text for key in ("name", "version", "url"))
    made = Entry(
        "conda",
        f"{path}:{package.get('name').line or package.line}",
        "",
        name=name.lower(),
        specifier=f"=={version}",
        marker=platform_marker(package.get("platform").text),
        scope="lock",
        fresh=True,
    )
    if not name:
        reason = "a package without a name"
        return made._replace(kind="unreadable", text=shown(url), specifier="", reason=reason)
    if package.get("manager").text == "pip":
        text = shown(f"{name} {version}")
        return made._replace(kind="requirement", name=normalised(name), text=text)
    if file := package_file(url, made):
        made = made._replace(build=file.build, url=file.url)
    return made._replace(text=shown(f"{name} {version} {made.build}"))


def _explicit(path: str, text: str) -> Iterator[Entry]:
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        made = Entry("conda", f"{path}:{number}", shown(stripped), scope="lock", fresh=True)
        if by_pip := _PIP.fullmatch(stripped):
            yield entry_of(by_pip["requirement"], made.where, scope="lock", fresh=True)
        elif stripped and not stripped.startswith(("#", "@EXPLICIT")):
            reason = "not the address of a conda package"
            yield package_file(stripped, made) or made._replace(kind="unreadable", reason=reason)
