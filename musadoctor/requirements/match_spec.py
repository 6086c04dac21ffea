"""Conda's match specs: ``pytorch::pytorch=2.1=py3.10_cuda12*``, ``cudatoolkit >=11.3``.

After conda's documentation, "Package match specifications".
"""

import re
from functools import lru_cache

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.pip_file import PLACEHOLDER
from musadoctor.requirements.requirement import address, shown

LONGEST = 1000
"""Characters of a spec; what is longer is none."""

_SPEC = re.compile(
    r"""
    (?: (?P<channel> [^\s=<>!~\[\]]+ ) :: )?
    (?P<name> [\w*] [\w.*+-]* )
    [ \t]* (?P<rest> [^\[\]]*? )
    [ \t]* (?: \[ (?P<keys> .* ) \] )?
    """,
    re.VERBOSE | re.ASCII,
)
_KEY = re.compile(r"""(?P<key>\w+)\s*=\s*(?P<value>"[^"]*"|'[^']*'|[^,]*)""")
_AROUND_OPERATORS = re.compile(r"\s*([<>!~]=?|={1,2}|[,|])\s*")
_BUILD = re.compile(r"(?P<version>.*[^=<>!~,| ])[ =](?P<build>[^\s=,|<>~]+)")
_FILE = re.compile(
    r"(?P<name>[^/\\]+)-(?P<version>[^-/\\]+)-(?P<build>[^-/\\]+)\.(?:conda|tar\.bz2)"
)
_PLACEHOLDER = re.compile(r"\$|\{\{|\{%|<[A-Za-z]")
_TOKEN = re.compile(r"(?<=://)(?P<host>[^/\s]+)/t/[^/\s]+")


def spec_entry(spec: str, where: str, *, text: str = "") -> Entry:
    """The entry of a package that conda is asked for; ``unreadable`` of what is no spec.

    A package's URL or file is one too. Conda's environments are all :attr:`Entry.fresh`.
    """
    made = Entry("conda", where, shown(without_token(text or spec)), fresh=True)
    stripped = spec.partition(" #")[0].strip()
    if file := package_file(stripped, made):
        return file
    found = _SPEC.fullmatch(stripped) if len(stripped) <= LONGEST else None
    if found is None:
        reason = PLACEHOLDER if _PLACEHOLDER.search(stripped) else "not a conda match spec"
        return made._replace(kind="unreadable", text=shown(without_token(spec)), reason=reason)
    keys = {pair["key"]: pair["value"].strip("\"'") for pair in _KEY.finditer(found["keys"] or "")}
    version = _AROUND_OPERATORS.sub(r"\1", found["rest"])
    build = ""
    if both := _BUILD.fullmatch(version):
        version, build = both["version"], both["build"]
    return made._replace(
        name=(keys.get("name") or found["name"]).lower(),
        specifier=keys.get("version") or version,
        build=keys.get("build") or build,
        url=channel_name(found["channel"] or keys.get("channel", "")),
    )


def package_file(url: str, made: Entry) -> Entry | None:
    """``made`` with what the URL or path of a package's file says; ``None`` if it is none."""
    folder, _, name = url.partition("#")[0].rpartition("/")
    file = _FILE.fullmatch(name) if len(url) <= LONGEST else None
    if file is None:
        return None
    return made._replace(
        kind="conda",
        name=file["name"].lower(),
        specifier=f"=={file['version']}",
        build=file["build"],
        url=channel_name(folder),
    )


@lru_cache(maxsize=1024)
def channel_name(channel: str) -> str:
    """A channel's name or address, without a token."""
    return address(without_token(channel.strip())).rstrip("/")


def without_token(text: str) -> str:
    """A text whose channels have lost the token that conda takes in a path: ``/t/TOKEN``."""
    return _TOKEN.sub(r"\g<host>", text) if "/t/" in text else text
