"""Versions and products that a person states in a sentence, in English or Chinese."""

import re
from collections.abc import Sequence

from musadoctor.transcript.pieces import STATED, Answer, Piece
from musadoctor.transcript.text import Line

_DRIVER = re.compile(
    r"(?i)(?<!cuda )(?<!nvidia )(?:driver|驱动)[^\d\n]{0,24}?(?<![\d.])v?(\d{1,2}\.\d{1,2}\.\d{1,3}(?:-[\w.-]{1,40})?)"
    r"|\bmusa_(\d\.\d\.\d{1,2}[\w-]{0,20}?)[-_](?:Ubuntu|server|amd64)"
)
_TOOLKIT = re.compile(
    r"(?i)(?:musa[ _-]?toolkits?|\btoolkits?|(?:musa[ _-]?)?\bSDK|工具包|工具链)"
    r"(?!-)[^\d\n]{0,16}?(?<![\d.])(?:rc)?(\d\.\d{1,2}(?:\.\d{1,2})?)(?![\d.]*\d)"
)
_IMAGE = re.compile(r"(?i)[:/-](?:rc)?(\d\.\d{1,2}\.\d{1,2})-v(\d\.\d{1,2}\.\d{1,2})-")
_MUDNN = re.compile(r"(?i)\bmudnn(?:[ _-]version)?[ \t:=_]{1,3}(?:rc|v)?(\d\.\d{1,2}\.\d{1,2})\b")
_MUDNN_LOG = re.compile(r"\bmuDNN\(v(\d)(\d)(\d)0?\d?\)")
_MCCL = re.compile(r"(?i)\bmccl(?:[ _-]version)?[ \t:=_]{1,3}v?(\d\.\d{1,2}\.\d{1,2})\b")
_CARD = re.compile(
    r"(?<![\w-])(?:MTT[ _-]?)?(S(?:10|30|50|60|70|80|90|1000M?|2000|3000E?|4000|5000))(?:[- ]?(?:class|级))?(?![\w]|-py)"
    r"|\bMTT[ _-]?(M1000|X300|X10000|S80ES)\b"
)
_OTHER_VENDOR = re.compile(r"(?i)nvidia|cuda (?:driver|toolkit)|mt[- ]container")
_OF_CONTAINERS = re.compile(r"(?i)(?:container|容器)[ _-]?\Z")
LEAST_OF_CONTAINER_IMAGES = 3
"""mt-container-toolkit is 1.9 or 2.2; "container toolkit 4.3.5" is the Toolkit in a container."""


def stated(lines: Sequence[Line]) -> list[Piece]:
    """Numbers of the driver, the Toolkit and its components; names of cards."""
    pieces: list[Piece] = []
    for line in lines:
        text = line.text
        if found := _IMAGE.search(text):
            pieces.append(_piece("toolkit", found[1], line, "image tag"))
            pieces.append(_piece("image", found[2], line, "image tag"))
        if (found := _DRIVER.search(text)) and not _OTHER_VENDOR.search(found[0]):
            pieces.append(_piece("driver", (found[1] or found[2]).rstrip(".-"), line, "driver"))
        for found in _TOOLKIT.finditer(text):
            before = text[max(0, found.start() - 20) : found.start()]
            of_containers = (
                _OF_CONTAINERS.search(before) and int(found[1][0]) < LEAST_OF_CONTAINER_IMAGES
            )
            if not of_containers and not _OTHER_VENDOR.search(before + found[0]):
                pieces.append(_piece("toolkit", found[1], line, "Toolkit or SDK"))
        for kind, pattern in (("mudnn", _MUDNN), ("mccl", _MCCL)):
            if found := pattern.search(text):
                pieces.append(_piece(kind, found[1], line, kind))
        if found := _MUDNN_LOG.search(text):
            pieces.append(_piece("mudnn", ".".join(found.groups()), line, "muDNN's log"))
        for found in _CARD.finditer(text):
            pieces.append(_piece("card", f"MTT {found[1] or found[2]}", line, "card"))
    return pieces


def _piece(kind: str, value: str, line: Line, what: str) -> Piece:
    answers: tuple[Answer, ...] = ((STATED, kind, value),)
    return Piece(f"{what} {value}", line, line, answers)
