"""The management tool's outputs, as the table that ``mthreads-gmi`` prints.

Pieces come without columns, cut, re-indented or doubled; the first of a kind counts. ``-q`` holds
the same in another form, as text or as JSON: a section's name, then ``Total : 24576MiB`` lines.
"""

import json
import re
from collections.abc import Iterator, Sequence

from musadoctor.system import Found, Ran
from musadoctor.transcript.pieces import STATED, Answer, Piece
from musadoctor.transcript.text import Line

TOOL = "mthreads-gmi"
NEAR_ROWS = 25
"""Lines between two rows of one table."""
NEAR_FIELDS = 60
"""Lines between two fields of one ``-q`` that are of use here."""
THERE: Answer = ("programs", TOOL, Found(TOOL))

_HEADER = re.compile(
    r"""
    \b (?: mthreads | zjlab ) - (?: gmi | smi ) :? [ \t]* (\d[\w.-]{1,30}) [ \t|]+
    Driver[ ]Version: [ \t]* (\S{1,60})
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CARD = re.compile(
    r"""
    \W{0,9} (\d{1,3}) [ \t|]+                                             # its number
    ((?: MTT[ \t]+ )? [A-Za-z] [\w -]{1,30}?) [ \t|]+                     # its name
    ([0-9A-Fa-f]{4,8} : [0-9A-Fa-f]{2} : [0-9A-Fa-f]{2} \. [0-7]) [ \t|]+  # its place on the bus
    (\d{1,3}%)? [ \t|]* (\S{1,20} \( \S{1,20} \))?                        # load, memory
    """,
    re.VERBOSE,
)
_SECOND = re.compile(
    r"""
    [ \t|]* ((?: Physical | Virtual | MPC[ ]\w+ )? [ \t]* (?: P\d{1,2} | N/A )?) [ \t|]+
    (\d{1,2}x \( \d{1,2}x \)) [ \t|]+ (.{0,60})
    """,
    re.VERBOSE,
)
_PROCESSES = re.compile(r"[ \t|]*(?:Processes:|No running processes)")
_ERROR = re.compile(
    r"""
    [ \t]* (?: Error:? [ \t]* )?
    ( failed[ ]to[ ]load[ ]driver
    | no[ ]mt[ ]gpu[ ]device[ ]found
    | there[ ]no[ ]exist[ ]gpu[ ]device
    | failed[ ]to[ ]initialize[ ]mtml )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SILENT = re.compile(
    r"""
    m (?: usa | threads? ) -? gmi \W{0,9}
    (?: did[ ]not[ ]output[ ]anything | no[ ]output
      | (?: prints? | shows? | outputs? | returns? | gives? ) [ ] nothing
      | [后时]? \s? (?: 没 有? (?:任何)? (?: 输出 | 显示 | 反应 ) | 无 (?:任何)? 输出
                      | (?: 什么 | 啥 ) [都也] (?: 没有? | 不 ) (?: 输出 | 显示 | 打印 )? ) )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_JSON_FIELD = re.compile(
    r'"([A-Z][^"\n:]{1,40}?)[ ]?"[ \t]*:[ \t]*(?:"([^"\n]{0,80})"|(?=[{\[]|$))'
)
_TEXT_FIELD = re.compile(r"[ \t]*([A-Z][A-Za-z0-9 ()]{1,40}?)[ \t]*(?::[ \t]+(\S.{0,80}))?$")
_TEXT_CARD = re.compile(r"[ \t]*GPU[ \t]?(\d{1,3})[ \t]+([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]{7})$")
_LISTED = re.compile(r"[ \t]*GPU (\d{1,3}): ((?:MTT )?\w{2,12}) \(UUID")
_TOPOLOGY = re.compile(r"[ \t]*GPU0[ \t]+GPU1[ \t]|[ \t]*MTx = Topology path")

_OF_CARDS = ("Index", "Product Name", "Bus ID", "MTBios Version")
_OF_SECTIONS = {
    ("Link Width", "Current"): "lanes",
    ("Link Width", "Max"): "max lanes",
    ("FB Memory Usage", "Used"): "used",
    ("FB Memory Usage", "Total"): "total",
}


def table(lines: Sequence[Line]) -> list[Piece]:
    """The table in any layout, or the tool's error."""
    rows: list[tuple[Line, str]] = []
    error: Line | None = None
    for line in lines:
        if rows and line.at > rows[-1][0].at + NEAR_ROWS:
            break
        if row := _row(line.text, begun=bool(rows)):
            rows.append((line, row))
        elif error is None and (_ERROR.match(line.text) or _SILENT.search(line.text)):
            error = line
    if rows:
        first, last = rows[0][0], rows[-1][0]
        answers = _answered(dict.fromkeys(_once(rows)))
        # Its head and what comes after the cards: none is cut off.
        if _HEADER.search(first.text) and any(
            _PROCESSES.match(line.text) and first.at < line.at < last.at + NEAR_ROWS
            for line in lines
        ):
            answers = (*answers, (STATED, "every card", last.where))
        return [Piece(f"{TOOL} table", first, last, answers)]
    if error:
        silent = _SILENT.search(error.text)
        ran = Ran("ok", 0) if silent else Ran("failed", 1, out=f"{error.text}\n")
        return [Piece(f"{TOOL} error", error, error, (THERE, ("runs", TOOL, ran)))]
    return []


def _row(text: str, *, begun: bool) -> str:
    """One row with its columns where the probe looks for them, empty for any other line."""
    if header := _HEADER.search(text):
        return f"{TOOL}:{header[1]} Driver Version:{header[2]}"
    if card := _CARD.match(text):
        number, name, bus, load, memory = card.groups()
        return f"{number} {name}|{bus}|{load or ''} {memory or ''}"
    if begun and (second := _SECOND.match(text)):
        return "|".join(second.groups())
    return ""


def _once(rows: Sequence[tuple[Line, str]]) -> Iterator[str]:
    """Each card with the row below it once: a table that was pasted twice is one table."""
    seen: set[str] = set()
    skipping = False
    for _, row in rows:
        own = row.count("|") == 2 and ":" in row  # noqa: PLR2004 - a card's first row
        if own or "Driver Version" in row:
            key = row.partition("|")[0]
            skipping = key in seen
            seen.add(key)
        if not skipping:
            # The rows below two cards may be alike.
            yield row if own or "Driver" in row else f"{row}{' ' * len(seen)}"


def _answered(rows: Sequence[str] | dict[str, None]) -> tuple[Answer, ...]:
    return (THERE, ("runs", TOOL, Ran("ok", 0, out="".join(f"{row}\n" for row in rows))))


def query(lines: Sequence[Line]) -> list[Piece]:
    """``mthreads-gmi -q`` as text or JSON, in whatever state: its fields are read one by one."""
    cards: list[dict[str, str]] = []
    driver = section = ""
    first: Line | None = None
    last: Line | None = None
    for line in lines:
        if last and line.at > last.at + NEAR_FIELDS:
            break
        for name, value in _fields(line.text):
            if not value:
                section = name
                continue
            if name == "Driver Version":
                driver = driver or value
            elif name in {"GPU", "Index"} or (name == "Product Name" and _named(cards)):
                cards.append({})
            key = name if name in _OF_CARDS else _OF_SECTIONS.get((section, name), "")
            if name == "GPU":
                index, _, bus = value.partition(" ")
                cards[-1] |= {"Index": index, "Bus ID": bus}
            elif key and cards:
                cards[-1].setdefault(key, value)
            first, last = first or line, line
    named = [card for card in cards if card.get("Product Name")]
    if not named or first is None or last is None:
        return []
    return [Piece(f"{TOOL} -q", first, last, _of_cards(named, driver))]


def _named(cards: Sequence[dict[str, str]]) -> bool:
    """Whether the next product's name is that of another card."""
    return not cards or "Product Name" in cards[-1]


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Names with their values, empty for what begins a section."""
    if found := _TEXT_CARD.match(text):
        yield "GPU", f"{found[1]} {found[2]}"
    elif '"' in text:
        yield from ((found[1], found[2] or "") for found in _JSON_FIELD.finditer(text))
    elif found := _TEXT_FIELD.match(text):
        yield found[1], found[2] or ""


def _of_cards(cards: Sequence[dict[str, str]], driver: str) -> tuple[Answer, ...]:
    """The table that the tool would have printed, and the JSON that completes it."""
    placed = [(n, card) for n, card in enumerate(cards) if "Bus ID" in card]
    elements = [_element(index, card) for index, card in enumerate(cards)]
    answers: list[Answer] = [
        ("runs", f"{TOOL} -q --json", Ran("ok", 0, out=json.dumps({"GPU": elements}))),
        *((STATED, "card", card["Product Name"]) for card in cards),
    ]
    if driver:
        answers.append((STATED, "driver", driver))
    if not placed:
        return tuple(answers)
    rows = [f"Driver Version:{driver}"] if driver else []
    for index, card in placed:
        memory = f"{card.get('used', 'N/A')}({card.get('total', 'N/A')})"
        rows.append(f"{card.get('Index', index)} {card['Product Name']}|{card['Bus ID']}|{memory}")
        rows.append(f"|{card.get('lanes', '')}({card.get('max lanes', '')})|")
    return (*_answered(rows), *answers)


def _element(index: int, card: dict[str, str]) -> dict[str, object]:
    width = {"Current": card.get("lanes", ""), "Max": card.get("max lanes", "")}
    return {
        "Index": card.get("Index", str(index)),
        "Product Name": card["Product Name"],
        "MTBios Version": card.get("MTBios Version", ""),
        "PCI": {"Bus ID": card.get("Bus ID", ""), "GPU Link Info": {"Link Width": width}},
        "FB Memory Usage": {"Used": card.get("used", ""), "Total": card.get("total", "")},
    }


def listing(lines: Sequence[Line]) -> list[Piece]:
    """``mthreads-gmi -L``, a card a line, and ``topo``, for which no check asks."""
    pieces: list[Piece] = []
    for line in lines:
        if found := _LISTED.match(line.text):
            name = found[2] if found[2].startswith("MTT ") else f"MTT {found[2]}"
            pieces.append(Piece(f"{TOOL} -L", line, line, ((STATED, "card", name),), name))
    topology = [line for line in lines if _TOPOLOGY.match(line.text)]
    if topology:
        pieces.append(Piece(f"{TOOL} topo", topology[0], topology[-1], ()))
    return pieces
