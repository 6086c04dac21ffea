"""One requirement as an entry: PEP 508, direct URLs, wheels' names, VCS addresses, paths.

The common line, ``name[extra]==1.2; marker``, is read by a pattern: ``packaging`` takes five times
as long and is asked only for what the pattern does not know.
"""

import re
from urllib.parse import unquote

from musadoctor.facts.requirements import Entry
from musadoctor.printable import printable

LONGEST_TEXT = 200

_VERSION = r"(?:===?|~=|!=|<=?|>=?)[ \t]*[\w.*+!-]+"
_PLAIN = re.compile(
    rf"""
    (?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?) [ \t]*
    (?:\[ (?P<extras> [\w., \t-]* ) \])? [ \t]*
    (?P<specifier> (?:{_VERSION} (?:[ \t]*,[ \t]*{_VERSION})* [ \t]* ,? )? )
    [ \t]* (?P<marker>;.*)?
    """,
    re.VERBOSE | re.ASCII,
)
_CREDENTIALS = re.compile(r"(?<=://)[^/\s\"'<>@]*(?:@[^/\s\"'<>@]*)*@")
_SEPARATORS = re.compile(r"[-_.]+")
_WHEEL = re.compile(
    r"(?P<name>[^-/\\]+)-(?P<version>[^-/\\]+)(?:-\d[^-/\\]*)?-[^-/\\]+-[^-/\\]+-[^-/\\]+\.whl"
)
_ARCHIVE = re.compile(r"(?P<name>[A-Za-z][\w.-]*?)-(?P<version>\d[\w.+!-]*)\.(?:tar\.\w+|zip|tgz)")
_VCS = re.compile(r"(?:git|hg|svn|bzr)(?:\+|://)")
_EGG = re.compile(r"[#&]egg=(?P<name>[\w.-]+)(?:\[(?P<extras>[^\]]*)\])?")


def normalised(name: str) -> str:
    """A project's name as PEP 503 has it."""
    return _SEPARATORS.sub("-", name).lower()


def shown(text: str) -> str:
    """A text of a file as a report may show it: one line, no credentials, no escape codes."""
    one_line = _CREDENTIALS.sub("", " ".join(text[: 4 * LONGEST_TEXT].split()))
    kept = printable(one_line)
    return kept if len(kept) <= LONGEST_TEXT else f"{kept[: LONGEST_TEXT - 3]}..."


def address(url: str) -> str:
    """A URL or path as an entry keeps it: no credentials, percent-encoding undone."""
    return printable(_CREDENTIALS.sub("", unquote(url.strip())))


def entry_of(
    requirement: str,
    where: str,
    *,
    text: str = "",
    scope: str = "",
    fresh: bool = False,
    flags: tuple[str, ...] = (),
    option: str = "",
) -> Entry:
    """An entry of what a requirement asks for; ``unreadable`` where it is none.

    ``text`` is the line that it stands in, where that is more than the requirement.
    """
    line = shown(text or requirement)

    def entry(**fields: object) -> Entry:
        made = Entry("requirement", where, line, scope=scope, fresh=fresh, flags=flags)
        return made._replace(option=option, **fields)  # type: ignore[arg-type]

    stripped = requirement.strip()
    if plain := _PLAIN.fullmatch(stripped):
        return entry(
            name=normalised(plain["name"]),
            specifier=plain["specifier"].replace(" ", "").replace("\t", "").rstrip(","),
            extras=_extras(plain["extras"]),
            marker=(plain["marker"] or "").lstrip(";").strip(),
        )
    bare, _, marker = stripped.partition(" ;")
    if address_of := _address(bare.strip()):
        kind, name, specifier, extras, url = address_of
        return entry(
            kind=kind, name=name, specifier=specifier, extras=extras, url=url, marker=marker.strip()
        )
    return _by_packaging(stripped, entry(kind="unreadable"))


def _extras(text: str | None) -> tuple[str, ...]:
    return tuple(normalised(part.strip()) for part in (text or "").split(",") if part.strip())


def _address(text: str) -> tuple[str, str, str, tuple[str, ...], str] | None:
    """Kind, name, specifier, extras and URL of a bare address or path; ``None`` of all else."""
    egg = _EGG.search(text)
    extras = _extras(egg["extras"]) if egg else ()
    url = address(text)
    file = url.partition("#")[0].partition("?")[0].rstrip("/").rpartition("/")[2]
    if _VCS.match(text):
        name = egg["name"] if egg else file.partition("@")[0].removesuffix(".git")
        return "source", normalised(name), "", extras, url
    local = text.startswith((".", "/", "~")) or (
        "/" in text and not any(sign in text for sign in " @<>=!~;")
    )
    if "://" not in text.partition("@")[0] and not local and not text.endswith(".whl"):
        return None
    if wheel := _WHEEL.fullmatch(file):
        return "requirement", normalised(wheel["name"]), f"=={wheel['version']}", extras, url
    if archive := _ARCHIVE.fullmatch(file):
        return "requirement", normalised(archive["name"]), f"=={archive['version']}", extras, url
    name = normalised(egg["name"]) if egg else ""
    return "source", name, "", extras, url


def _by_packaging(text: str, unreadable: Entry) -> Entry:
    from packaging.requirements import (  # noqa: PLC0415 - 30 ms, and seldom needed
        InvalidRequirement,
        Requirement,
    )

    try:
        parsed = Requirement(text)
    except InvalidRequirement as error:
        return unreadable._replace(reason=str(error).partition("\n")[0])
    url = address(parsed.url or "")
    made = unreadable._replace(
        kind="requirement",
        name=normalised(parsed.name),
        specifier=str(parsed.specifier),
        extras=tuple(sorted(map(normalised, parsed.extras))),
        marker=str(parsed.marker or ""),
        url=url,
    )
    if url and (found := _address(url)):
        kind, _, specifier, _, _ = found
        return made._replace(
            kind="source" if kind == "source" else "requirement", specifier=specifier
        )
    return made
