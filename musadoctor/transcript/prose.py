"""Versions and products that a person states in a sentence, in English or Chinese."""

import re
from collections.abc import Iterator, Sequence

from musadoctor.transcript.pieces import STATED, Piece
from musadoctor.transcript.text import Line

LEAST_OF_TOOLKITS = 3
"""mt-container-toolkit is 1.9 or 2.2; "container toolkit 4.3.5" is the Toolkit in a container."""

_DRIVER = re.compile(
    r"""
      (?<! cuda[ ] ) (?<! nvidia[ ] ) (?: driver | 驱动 ) [^\d\n]{0,24}? (?<![\d.])
      v? (\d{1,2} \. \d{1,2} \. \d{1,3} (?: - [\w.-]{1,40} )?)
    | \b musa_ (\d\.\d\.\d{1,2} [\w-]{0,20}?) [-_] (?: Ubuntu | server | amd64 )
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_TOOLKIT = re.compile(
    r"""
    (?: musa[ _-]?toolkits? | \b toolkits? | (?: musa[ _-]? )? \b SDK | 工具包 | 工具链 )
    (?!-) [^\d\n]{0,16}? (?<![\d.])
    (?:rc)? (\d \. \d{1,2} (?: \.\d{1,2} )?) (?! [\d.]*\d )
    | \b musa [ ] -> [ ] \S{0,60}? musa- (\d \.\d{1,2} \.\d{1,2}) \b
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_IMAGE = re.compile(r"(?ai)(?:^|[:/\s`-])(?:rc)?(\d\.\d{1,2}\.\d{1,2})-v(\d\.\d{1,2}\.\d{1,2})-")
_COMPONENTS = tuple(
    (
        name,
        re.compile(
            rf"(?ai)\b{name}(?:[ _-]version)?[ \t:=_]{{1,3}}(?:rc|v)?(\d\.\d{{1,2}}\.\d{{1,2}})\b"
        ),
    )
    for name in ("mudnn", "mccl")
)
_MUDNN_LOG = re.compile(r"\bmuDNN\(v(\d)(\d)(\d)0?\d?\)")
_CARD = re.compile(
    r"""
      (?<![\w-]) (?: MTT[ _-]? )?
      ( S (?: 10 | 30 | 50 | 60 | 70 | 80 | 90 | 1000M? | 2000 | 3000E? | 4000 | 5000 ) )
      (?: [- ]? (?: class | 级 ) )? (?! [\w] | -py )
    | \b MTT[ _-]? ( M1000 | X300 | X10000 | S80ES ) \b
    """,
    re.VERBOSE | re.ASCII,
)
_OTHER_VENDOR = re.compile(r"(?ai)nvidia|cuda (?:driver|toolkit)|mt[- ]container")
_OF_CONTAINERS = re.compile(r"(?ai)(?:container|容器)[ _-]?\Z")
_BEFORE = 20


def stated(lines: Sequence[Line]) -> list[Piece]:
    """Numbers of the driver, the Toolkit and its components; names of cards."""
    return [
        Piece(what, line, line, ((STATED, kind, value),), value)
        for line in lines
        for kind, value, what in _said(line.text)
    ]


def _said(text: str) -> Iterator[tuple[str, str, str]]:
    """Kind, value, and what a person calls it."""
    if found := _IMAGE.search(text):
        yield "toolkit", found[1], "image tag"
        yield "image", found[2], "image tag"
    if (found := _DRIVER.search(text)) and not _OTHER_VENDOR.search(found[0]):
        yield "driver", (found[1] or found[2]).rstrip(".-"), "driver"
    for found in _TOOLKIT.finditer(text):
        before = text[max(0, found.start() - _BEFORE) : found.start()]
        number = found[1] or found[2]
        of_containers = _OF_CONTAINERS.search(before) and int(number[0]) < LEAST_OF_TOOLKITS
        if not of_containers and not _OTHER_VENDOR.search(before + found[0]):
            yield "toolkit", number, "Toolkit or SDK"
    for name, pattern in _COMPONENTS:
        if found := pattern.search(text):
            yield name, found[1], name
    if found := _MUDNN_LOG.search(text):
        yield "mudnn", ".".join(found.groups()), "muDNN's log"
    for found in _CARD.finditer(text):
        yield "card", f"MTT {found[1] or found[2]}", "card"
