"""Outputs of the Toolkit's programs, and of clinfo."""

import re
from collections.abc import Sequence

from musadoctor.commands import musa_info, version_query
from musadoctor.probes.toolkit import LINK
from musadoctor.probes.version_query import TOOL
from musadoctor.system import Found, Ran
from musadoctor.transcript.pieces import STATED, Answer, Piece, joined
from musadoctor.transcript.text import Line

LONGEST_BLOCK = 30

_DEVICE = re.compile(r"[ \t]*device#[ \t]*\d{1,3}[ \t]*$")
_LABEL = re.compile(r"[ \t]*[A-Za-z][\w .()/-]{1,40}:[ \t]*\S|-{8,}$")
_INFO_ERROR = re.compile(r"error: '[^'\n]{1,200}'\((\d{1,9})\)")
_BLOCK = re.compile(r'[ \t]*"?([A-Za-z]\w{1,40})"?[ \t]*:[ \t]*(\{)?[ \t]*$')
_COMPONENT = re.compile(r"(?i)musa|mu[a-z]{2,12}|mcc|mccl|driver\w*|mathlibs|thrust|cub|triton")
_MCC = re.compile(r"\bmcc version \d[\w.-]{1,30}")
_CLINFO = re.compile(
    r"[ \t]*(?:Detail )?Driver Version(?:\(clinfo\):)?[ \t]+(\d{8} release\S{0,60}.{0,60})"
    r"|[ \t]*Number of platforms[ \t]+(\d{1,2})$"
)


def info(lines: Sequence[Line]) -> list[Piece]:
    """``musaInfo``: its devices, or the error that it ends with."""
    places = ("musaInfo", f"{LINK}/bin/musaInfo")
    programs: tuple[Answer, ...] = tuple(("programs", p, Found("musaInfo")) for p in places)
    subject = musa_info("musaInfo").key
    for index, line in enumerate(lines):
        if _INFO_ERROR.search(line.text):
            ran = Ran("failed", 1, out=f"{line.text.strip()}\n")
            return [Piece("musaInfo error", line, line, (*programs, ("runs", subject, ran)))]
        if _DEVICE.match(line.text):
            end = index + 1
            while end < len(lines) and (
                _LABEL.match(lines[end].text) or _DEVICE.match(lines[end].text)
            ):
                end += 1
            block = lines[index:end]
            ran = Ran("ok", 0, out=joined(block))
            return [Piece("musaInfo", block[0], block[-1], (*programs, ("runs", subject, ran)))]
    return []


def versions(lines: Sequence[Line]) -> list[Piece]:
    """Blocks of ``musa_version_query``, or of a ``version.json``."""
    blocks: list[str] = []
    shown: list[Line] = []
    index = 0
    while index < len(lines):
        end = _block_end(lines, index)
        if not end:
            index += 1
            continue
        name = lines[index].text.strip().partition(":")[0].strip('" \t')
        body = [line.text for line in lines[index + 1 : end] if line.text.strip() != "{"]
        blocks.append("\n".join((f"{name}:", "{", *body, "}")))
        shown += [lines[index], lines[min(end, len(lines) - 1)]]
        index = end
    if not blocks:
        return []
    ran = Ran("ok", 0, out="\n".join(blocks))
    answers = tuple(("runs", version_query(p).key, ran) for p in (TOOL, f"{LINK}/bin/{TOOL}"))
    return [Piece("musa_version_query or version.json", shown[0], shown[-1], answers)]


def _block_end(lines: Sequence[Line], index: int) -> int:
    """Where the block of a component ends that begins at a line; 0 where none begins."""
    named = _BLOCK.match(lines[index].text)
    if named is None or not _COMPONENT.match(named[1]):
        return 0
    following = lines[index + 1 : index + 1 + LONGEST_BLOCK]
    opened = bool(named[2])
    for offset, line in enumerate(following, index + 1):
        text = line.text.strip()
        if not opened:
            if not text.startswith("{"):
                return 0
            opened = True
        elif text.startswith("}") or _BLOCK.match(line.text):
            return offset
    return index + 1 + len(following) if opened else 0


def mcc(lines: Sequence[Line]) -> list[Piece]:
    """The compiler's number."""
    for line in lines:
        if found := _MCC.search(line.text):
            ran = Ran("ok", 0, out=f"{found[0]}\n")
            return [Piece("mcc --version", line, line, (("runs", "mcc --version", ran),))]
    return []


def clinfo(lines: Sequence[Line]) -> list[Piece]:
    """The driver's build in ``clinfo``, for which no check asks yet."""
    pieces: list[Piece] = []
    for line in lines:
        if found := _CLINFO.match(line.text):
            build = (found[1] or "").strip()
            answers: tuple[Answer, ...] = ((STATED, "clinfo", build),) if build else ()
            detail = build or f"{found[2]} platforms"
            pieces.append(Piece("clinfo", line, line, answers, detail))
    return pieces
