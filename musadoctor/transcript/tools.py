"""Outputs of the vendor's tools.

Pieces come without columns, cut, re-indented or doubled; the first of a kind counts.
"""

import re
from collections.abc import Sequence

from musadoctor.commands import musa_info, version_query
from musadoctor.system import Found, Ran
from musadoctor.transcript.pieces import STATED, Answer, Piece, joined
from musadoctor.transcript.text import Line

ROOT = "/usr/local/musa"
"""Where the vendor's packages put the Toolkit; assumed where a transcript does not say."""

_GMI_HEADER = re.compile(
    r"(?i)\b(?:mthreads|zjlab)-(?:gmi|smi):?[ \t]*(\d[\w.-]{1,30})[ \t|]+Driver Version:[ \t]*(\S{1,60})"
)
_CARD = re.compile(
    r"^\W{0,9}(\d{1,3})[ \t|]+((?:MTT[ \t]+)?[A-Za-z][\w -]{1,30}?)[ \t|]+"
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])[ \t|]+(\d{1,3}%)?[ \t|]*"
    r"(\S{1,20}\(\S{1,20}\))?"
)
_SECOND = re.compile(
    r"^[ \t|]*((?:Physical|Virtual|MPC \w+)?[ \t]*(?:P\d{1,2}|N/A)?)[ \t|]+(\d{1,2}x\(\d{1,2}x\))[ \t|]+(.{0,60})"
)
_GMI_ERROR = re.compile(
    r"(?i)^[ \t]*(?:Error:?[ \t]*)?(failed to load driver|no mt gpu device found"
    r"|there no exist gpu device|failed to initialize mtml)"
)
_GMI_SILENT = re.compile(
    r"(?i)m(?:usa|threads?)-?gmi\W{0,9}(?:did not output anything|no output|prints? nothing|没有(?:任何)?输出|无输出)"
)
_INFO_DEVICE = re.compile(r"^[ \t]*device#[ \t]*\d{1,3}[ \t]*$")
_INFO_LABEL = re.compile(r"^[ \t]*[A-Za-z][\w .()/-]{1,40}:[ \t]*\S|^-{8,}$|^[ \t]*$")
_INFO_ERROR = re.compile(r"error: '[^'\n]{1,200}'\((\d{1,9})\)")
_BLOCK = re.compile(r'^[ \t]*"?([A-Za-z]\w{1,40})"?[ \t]*:[ \t]*(\{)?[ \t]*$')
_COMPONENT = re.compile(r"(?i)musa|mu[a-z]{2,12}|mcc|mccl|driver\w*|mathlibs|thrust|cub|triton")
_MCC = re.compile(r"\bmcc version \d[\w.-]{1,30}")
_Q_NAME = re.compile(r'"?Product Name[ "]*:[ "]*(MTT \w{2,10})')


def gmi(lines: Sequence[Line]) -> list[Piece]:
    """The management tool's table in any layout, or its error."""
    rows: list[tuple[Line, str]] = []
    error: Line | None = None
    for line in lines:
        text = line.text
        if rows and line.number > rows[-1][0].number + NEAR_ROWS:
            break
        if header := _GMI_HEADER.search(text):
            rows.append((line, f"mthreads-gmi:{header[1]} Driver Version:{header[2]}"))
        elif card := _CARD.match(text):
            number, name, bus, load, memory = card.groups()
            rows.append((line, f"{number} {name}|{bus}|{load or ''} {memory or ''}"))
        elif rows and (second := _SECOND.match(text)):
            rows.append((line, "|".join(second.groups())))
        elif error is None and (_GMI_ERROR.match(text) or _GMI_SILENT.search(text)):
            error = line
    found = ("programs", "mthreads-gmi", Found("mthreads-gmi"))
    if rows:
        out = "".join(f"{row}\n" for _, row in _in_order(rows))
        answers: tuple[Answer, ...] = (found, ("runs", "mthreads-gmi", Ran("ok", 0, out=out)))
        return [Piece("mthreads-gmi table", rows[0][0], rows[-1][0], answers)]
    if error:
        silent = _GMI_SILENT.search(error.text)
        ran = Ran("ok", 0) if silent else Ran("failed", 1, out=f"{error.text}\n")
        return [Piece("mthreads-gmi error", error, error, (found, ("runs", "mthreads-gmi", ran)))]
    return []


NEAR_ROWS = 25


def _in_order(rows: list[tuple[Line, str]]) -> list[tuple[Line, str]]:
    """Each card once: a table that was pasted twice is one table."""
    seen: dict[str, tuple[Line, str]] = {}
    for line, row in rows:
        seen.setdefault(
            row if "%" in row or "Driver" in row else f"{line.number} {row}", (line, row)
        )
    return list(seen.values())


def gmi_query(lines: Sequence[Line]) -> list[Piece]:
    """Product names in ``mthreads-gmi -q``, as text or JSON."""
    return [
        Piece("mthreads-gmi -q", line, line, ((STATED, "card", found[1]),))
        for line in lines
        if (found := _Q_NAME.search(line.text))
    ][:1]


def info(lines: Sequence[Line]) -> list[Piece]:
    """``musaInfo``: its devices, or the error that it ends with."""
    places = ("musaInfo", f"{ROOT}/bin/musaInfo")
    programs: tuple[Answer, ...] = tuple(("programs", p, Found("musaInfo")) for p in places)
    subject = musa_info("musaInfo").key
    for index, line in enumerate(lines):
        if _INFO_ERROR.search(line.text):
            ran = Ran("failed", 1, out=f"{line.text.strip()}\n")
            return [Piece("musaInfo error", line, line, (*programs, ("runs", subject, ran)))]
        if _INFO_DEVICE.match(line.text):
            end = index + 1
            while end < len(lines) and (
                _INFO_LABEL.match(lines[end].text) or _INFO_DEVICE.match(lines[end].text)
            ):
                end += 1
            block = lines[index:end]
            ran = Ran("ok", 0, out=joined(block))
            return [Piece("musaInfo", block[0], block[-1], (*programs, ("runs", subject, ran)))]
    return []


def versions(lines: Sequence[Line]) -> list[Piece]:
    """Blocks of ``musa_version_query``, or of a ``version.json``."""
    blocks: list[str] = []
    first = last = None
    index = 0
    while index < len(lines):
        named = _BLOCK.match(lines[index].text)
        opening = index + 1
        while opening < len(lines) and not lines[opening].text.strip():
            opening += 1
        opens = named and (
            named[2] or (opening < len(lines) and lines[opening].text.strip().startswith("{"))
        )
        if named and opens and _COMPONENT.match(named[1]):
            end = index + 1
            while (
                end < len(lines)
                and end - index < LONGEST_BLOCK
                and not lines[end].text.strip().startswith("}")
                and not (end > opening and _BLOCK.match(lines[end].text))
            ):
                end += 1
            body = [line.text for line in lines[index + 1 : end] if line.text.strip() != "{"]
            blocks.append("\n".join((f"{named[1]}:", "{", *body, "}")))
            first, last = first or lines[index], lines[min(end, len(lines) - 1)]
            index = end
        else:
            index += 1
    if not blocks or first is None or last is None:
        return []
    ran = Ran("ok", 0, out="\n".join(blocks))
    places = ("musa_version_query", f"{ROOT}/bin/musa_version_query")
    answers = tuple(("runs", version_query(place).key, ran) for place in places)
    return [Piece("musa_version_query or version.json", first, last, answers)]


LONGEST_BLOCK = 30


def mcc(lines: Sequence[Line]) -> list[Piece]:
    """The compiler's number."""
    for line in lines:
        if found := _MCC.search(line.text):
            ran = Ran("ok", 0, out=f"{found[0]}\n")
            return [Piece("mcc --version", line, line, (("runs", "mcc --version", ran),))]
    return []
