"""One requirement as an entry: PEP 508, direct URLs, wheels' names, VCS addresses, paths.

The common line, ``name[extra]==1.2; marker``, is read by a pattern: ``packaging`` takes five times
as long and is asked only for what the pattern does not know.
"""

import re
from typing import NamedTuple
from urllib.parse import unquote

from musadoctor.facts.requirements import Entry, EntryKind
from musadoctor.printable import printable

LONGEST_TEXT = 200
LONGEST_REQUIREMENT = 1 << 14
"""Characters. No requirement is nearly as long, hashes not counted."""
LONGEST_FILE_NAME = 255

_NAME = r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?"
_VERSION = r"(?:===?|~=|!=|<=?|>=?)[ \t]*[\w.*+!-]+[ \t]*"
_PLAIN = re.compile(
    rf"""
    ({_NAME}) [ \t]*
    (?: \[ ([\w., \t-]*) \] [ \t]* )?
    (?: ({_VERSION} (?: ,[ \t]* {_VERSION} )* ) (?: ,[ \t]* )? )?
    (?: ; (.*) )?
    """,
    re.VERBOSE | re.ASCII,
)
# Texts, which re compiles when they are first needed: most lines have no address.
_NAMED = rf"""(?xa)
    (?P<name> {_NAME} ) [ \t]*
    (?: \[ (?P<extras> [^\[\]]* ) \] [ \t]* )?
    @ [ \t]* (?P<address> \S+ )
    (?: [ \t]+ ; (?P<marker> .* ) )?
    """
_URL = re.compile(r"""://[^\s"'<>]+""")
_AUTHORITY = re.compile(r"[^/?#]*")
_WORD_BACKWARDS = r"""[^\s/"'=<>]+"""
_HOST = r"(?!sha\d+:)[\w.-]"
"""What follows the ``@`` of a host, and not of an image's digest."""
_HOST_LATER = r"[^/?#.:]*[/?#][^@\s]*@(?=[^/@\s]+\.[^/@\s]+/)"
"""From a host that is none to the ``@`` before one: the password has an ``@`` and a slash in it."""
_LEFT_OUT = "?..."
_SEPARATORS = re.compile(r"[-_.]+")
_ARCHIVES = (
    *(".whl", ".zip", ".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tbz", ".tar.xz", ".txz", ".tar.lz"),
    *(".tlz", ".tar.lzma"),
)
"""What pip takes for a file by its name alone."""
_WHEEL = r"(?i)(?P<name>[^-]+)-(?P<version>[^-]+)(?:-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl"
_ARCHIVE = (
    r"(?i)(?P<name>[a-z][\w.-]*?)-(?P<version>\d[\w.+!-]*?)(?:\.tar(?:\.\w+)?|\.zip|\.t[gbxl]z)"
)
_VCS = r"(?i)(?:git|hg|svn|bzr)(?:\+|://)"
_LOCATION = r"(?i)(?:(?:https?|ftp)://|file:|[.~/]|[a-z]:[\\/])"
_NO_PATH = r"[ \t@<>=!~;]"
_EGG = r"[#&]egg=(?P<name>[\w.-]+)(?:\[(?P<extras>[^\[\]]*)\])?"
_MARKER = r";(?=\s)|(?<=\s);"
_PATH_MARKER = r";"
_REPOSITORY_ARCHIVE = r"/(?P<name>[^/]+)/(?:-/)?archive/"


class _Located(NamedTuple):
    """What a URL or a path tells."""

    kind: EntryKind
    name: str
    specifier: str
    extras: tuple[str, ...]
    url: str


def normalised(name: str) -> str:
    """A project's name as PEP 503 has it."""
    return _SEPARATORS.sub("-", name).lower()


def public(text: str) -> str:
    """A text without what lets one into its URLs: user and password, and query strings."""
    text = _public_urls(text)
    if "@" not in text:
        return text
    *parts, last = text.split("@")
    kept = [last]
    for part in reversed(parts):
        kept.append(_without_password(part) if re.match(_HOST, kept[-1]) else f"{part}@")
    return "".join(reversed(kept))


def _public_urls(text: str) -> str:
    if "://" not in text:
        return text
    return _URL.sub(lambda url: "://".join(map(_public_part, url[0].split("://"))), text)


def _without_password(part: str) -> str:
    """What stands before an ``@``, and the ``@``; without user and password that end there.

    No ``://`` goes before these, or it would be gone already.
    """
    word = re.match(_WORD_BACKWARDS, part[::-1])
    password, colon, user = word[0].partition(":") if word else ("", "", "")
    return part[: -len(word[0])] if word and password and colon and user else f"{part}@"


def _public_part(part: str) -> str:
    """What follows the ``://`` of a URL, without credentials and query."""
    found = _AUTHORITY.match(part)
    authority = found[0] if found else ""
    user, colon, password = authority.partition(":")
    if "@" in authority:
        part = part[authority.rindex("@") + 1 :]
        if password:
            part = re.sub(f"^{_HOST_LATER}", "", part)
    elif colon and "@" in part and "." not in user and not password.isdigit():
        part = part.partition("@")[2]  # the password has a slash, ? or # in it
    path, mark, fragment = part.partition("#")
    path, asks, query = path.partition("?")
    if asks:
        path += _LEFT_OUT + ";" * query.endswith(";")
    return path + mark + fragment


def shown(text: str) -> str:
    """A text of a file as a report may show it: one line, no credentials, no escape codes."""
    text = text.strip()
    plain = not any(sign in text for sign in ("://", "@", "  "))
    if plain and len(text) <= LONGEST_TEXT and text.isprintable():
        return text
    kept = printable(" ".join(public(text)[: 4 * LONGEST_TEXT].split()))
    return kept if len(kept) <= LONGEST_TEXT else f"{kept[: LONGEST_TEXT - 3]}..."


def address(url: str) -> str:
    """A URL or path as an entry keeps it: no credentials, no query, percent-encoding undone."""
    decoded = public(unquote(_public_urls(url.strip())))
    return printable(decoded.replace(_LEFT_OUT, "", 1) if "://" in decoded else decoded)


def entry_of(
    requirement: str,
    where: str,
    *,
    text: str = "",
    scope: str = "",
    fresh: bool = False,
    flags: tuple[str, ...] = (),
    option: str = "",
    editable: bool = False,
) -> Entry:
    """An entry of what a requirement asks for; ``unreadable`` where it is none.

    ``text`` is the line that it stands in, where that is more than the requirement. What is
    ``editable`` is a path or an address, whatever it looks like.
    """
    line = shown(text or requirement)
    stripped = requirement.strip()
    short = len(stripped) <= LONGEST_REQUIREMENT
    plain = _PLAIN.fullmatch(stripped) if short and not editable else None
    if plain and not plain[1].endswith(_ARCHIVES):
        name, extras, specifier, marker = plain.groups("")
        return Entry(
            "requirement",
            where,
            line,
            name=normalised(name),
            specifier=specifier.replace(" ", "").replace("\t", ""),
            extras=_extras(extras) if extras else (),
            marker=printable(marker.strip()),
            option=option,
            scope=scope,
            fresh=fresh,
            flags=flags,
        )
    entry = Entry("unreadable", where, line, option=option, scope=scope, fresh=fresh, flags=flags)
    if not short:
        return entry._replace(reason=f"{len(stripped):,} characters long")
    return _with_address(stripped, entry, editable=editable) or _by_packaging(stripped, entry)


def _extras(text: str) -> tuple[str, ...]:
    return tuple(normalised(part.strip()) for part in text.split(",") if part.strip())


def _with_address(text: str, entry: Entry, *, editable: bool) -> Entry | None:
    """The entry of ``name @ address``, or of an address or path alone."""
    if named := re.fullmatch(_NAMED, text):
        located = _located(named["address"])
        return entry._replace(
            kind=located.kind,
            name=normalised(named["name"]),
            specifier=located.specifier,
            extras=_extras(named["extras"] or "") or located.extras,
            url=located.url,
            marker=printable((named["marker"] or "").strip()),
        )
    remote = "://" in text or re.match(_VCS, text)
    parts = re.split(_MARKER if remote else _PATH_MARKER, text, maxsplit=1)
    bare = parts[0].strip()
    is_address = (
        editable
        or re.match(_VCS, bare)
        or re.match(_LOCATION, bare)
        or bare.partition("[")[0].rstrip().lower().endswith(_ARCHIVES)
        or ("/" in bare and not re.search(_NO_PATH, bare))
    )
    if not bare or not is_address:
        return None
    kind, name, specifier, extras, url = _located(bare)
    return entry._replace(
        kind="source" if editable else kind,
        name=name,
        specifier="" if editable else specifier,
        extras=extras,
        url=url,
        marker=printable("".join(parts[1:]).strip()),
    )


def _located(text: str) -> _Located:
    egg = re.search(_EGG, text)
    extras = _extras(egg["extras"] or "") if egg else ()
    name = normalised(egg["name"]) if egg else ""
    path, bracket, inside = text.rpartition("[")
    if not egg and path and bracket and inside.find("]") == len(inside) - 1:
        text, extras = path.rstrip(), _extras(inside[:-1])
    url = address(text)
    path = url.partition("#")[0].rstrip("/")
    if re.match(_VCS, text):
        # A branch may have slashes; the user before the host's @ is gone where there is a "://".
        repository = path.partition("://")[2].partition("@")[0].rstrip("/") or path
        last = re.split("[/:]", repository)[-1].partition("@")[0].removesuffix(".git")
        return _Located("source", name or normalised(last), "", extras, url)
    file = re.split(r"[/\\]", path)[-1]
    if len(file) <= LONGEST_FILE_NAME and (
        found := re.fullmatch(_WHEEL, file) or re.fullmatch(_ARCHIVE, file)
    ):
        specifier = f"=={found['version']}"
        return _Located("requirement", normalised(found["name"]), specifier, extras, url)
    if not name and (repository_of := re.search(_REPOSITORY_ARCHIVE, path)):
        name = normalised(repository_of["name"])
    return _Located("source", name, "", extras, url)


def _by_packaging(text: str, entry: Entry) -> Entry:
    from packaging.requirements import Requirement  # noqa: PLC0415 - 30 ms, and seldom needed

    try:
        parsed = Requirement(text)
        marker = str(parsed.marker or "")
    except (ValueError, RecursionError) as error:  # InvalidRequirement, a very long number, ((((
        return entry._replace(reason=shown(str(error).partition("\n")[0]))
    return entry._replace(
        kind="requirement",
        name=normalised(parsed.name),
        specifier=str(parsed.specifier),
        extras=tuple(sorted(map(normalised, parsed.extras))),
        marker=printable(marker),
        url=address(parsed.url or ""),
    )


def torch_index(backend: str) -> str:
    """The index that uv takes torch from: upstream's, in the folder of that name.

    ``auto`` is that of the CPU where uv finds no driver that it knows, as its documentation says.
    """
    return address(f"https://download.pytorch.org/whl/{'cpu' if backend == 'auto' else backend}")
