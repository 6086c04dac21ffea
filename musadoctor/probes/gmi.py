"""The management tool: its default table, and from version 2.3 on its JSON.

The table's narrow layout; the wide one (from 2.2 on) adds a column ``Perf`` after the device type.
The ECC line is missing in 1.9::

    Mon Nov 11 16:07:07 2024
    ---------------------------------------------------------------
        mthreads-gmi:1.14.0          Driver Version:2.7.0
    ---------------------------------------------------------------
    ID   Name           |PCIe                |%GPU  Mem
         Device Type    |Pcie Lane Width     |Temp  MPC Capable
                                             |      ECC Mode
    +-------------------------------------------------------------+
    0    MTT S80        |00000000:04:00.0    |0%    2MiB(16384MiB)
         Physical       |4x(16x)             |49C   YES
                                             |      N/A
    ---------------------------------------------------------------
    Processes:
    ID   PID       Process name                         GPU Memory
                                                             Usage
    +-------------------------------------------------------------+
    0    1123      /usr/lib/xorg/Xorg                       134MiB

Errors come on stdout, with exit codes that mean little (``Error: No MT GPU device found.`` has 0).
In ``-q --json`` every value is a text with its unit, ``"81920MiB"``, and some keys end in a blank.
"""

import json
import re
from collections.abc import Iterable
from typing import NamedTuple, cast

from musadoctor.commands import GMI_NAMES, Command, gmi_json, gmi_table
from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.driver import Gmi, GmiCard, GmiFact, GmiProcess, ToolAnswer, ToolAnswerFact
from musadoctor.probes.tools import complaint, lines, not_startable, unanswered
from musadoctor.system import Failure, Found, Ran, System
from musadoctor.versions import KernelDriverVersion

FIRST_WITH_JSON = (2, 3)

_HEADER = re.compile(r"[\w-]{1,40}:[ \t]*(\S{1,99})[ \t]+Driver Version:[ \t]*(\S{1,99})")
_DRIVER = re.compile(r"[ \t]*Driver Version:[ \t]*(\S{1,99})")
_BUS_ID = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
_LANES = re.compile(r"([0-9]{1,3})x\(([0-9]{1,3})x\)")
_USED_OF_TOTAL = re.compile(r"([0-9A-Z/]{1,9}(?:MiB)?)\(([0-9A-Z/]{1,9}(?:MiB)?)\)")
_MIB = re.compile(r"([0-9]{1,9}) ?MiB")
_PERF = re.compile(r"P[0-9]{1,2}|N/A")
_SHORT_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
_ERROR = re.compile(
    r"(?i)^\s{0,9}error\b|failed to (?:load driver|initialize mtml)|no mt gpu device"
    r"|no exist gpu|not available on target"
)


class Table(NamedTuple):
    """What the default table says."""

    tool_version: str | None
    driver: KernelDriverVersion | None
    cards: tuple[GmiCard, ...]
    processes: tuple[GmiProcess, ...]
    error: str | None
    """The first line that says what is wrong."""

    @property
    def recognised(self) -> bool:
        """Whether it is such a table at all."""
        return self.tool_version is not None or bool(self.cards)


class Located(NamedTuple):
    """The management tool under the first of its names that PATH knows."""

    name: str
    path: str
    executable: bool


class _Run(NamedTuple):
    located: Located
    command: Command
    ran: Ran


def locate(system: System) -> Located | Absent | Unknown:
    """Look the management tool up by its names, what may be executed first."""
    found: list[tuple[str, Found]] = []
    for name in GMI_NAMES:
        answer = system.find(name)
        if isinstance(answer, Failure):
            return answer.state
        if answer.path:
            return Located(name, answer.path, executable=True)
        found.append((name, answer))
    for name, answer in found:
        if answer.blocked:
            return Located(name, answer.blocked, executable=False)
    unreadable = ", ".join(found[0][1].unreadable)
    note = f" (unreadable: {unreadable})" if unreadable else ""
    return Absent(f"no {', '.join(GMI_NAMES)} on PATH{note}")


def gmi_answer(system: System) -> ToolAnswerFact:
    """How the management tool answered when it was asked for its table."""
    run = _run(system)
    return _judge(run) if isinstance(run, _Run) else run


def gmi(system: System) -> GmiFact:
    """The cards that the management tool lists, with what its JSON adds."""
    run = _run(system)
    answer = _judge(run) if isinstance(run, _Run) else run
    if not isinstance(answer, ToolAnswer):
        return answer
    if answer.error is not None or not isinstance(run, _Run):
        return Absent(f"{answer.command}: {answer.error}")
    table = parse_table(run.ran.out)
    source = run.located.path
    json_cards: tuple[GmiCard, ...] = ()
    if _has_json(table.tool_version):
        json_cards = parse_json(system.run(gmi_json(run.located.name)).out)
        source += ", with -q --json" if json_cards else ", without -q --json"
    return Gmi(
        run.located.name,
        table.tool_version,
        table.driver,
        merged(table.cards, json_cards),
        table.processes,
        source,
    )


def _run(system: System) -> _Run | ToolAnswer | Absent | Unknown:
    located = locate(system)
    if not isinstance(located, Located):
        return located
    command = gmi_table(located.name)
    if not located.executable:
        note = f"{located.path} may not be executed"
        return not_startable(system, command, located.path, note)
    ran = system.run(command)
    return unanswered(system, command, located.path, ran) or _Run(located, command, ran)


def _judge(run: _Run) -> ToolAnswer | Unknown:
    _, command, ran = run
    code = ran.code or 0
    table = parse_table(ran.out)
    # Exit codes and the lines after the cards mean little: the process query may fail alone.
    if table.cards:
        return ToolAnswer(command.key, code, None)
    error = table.error or next((e for e in map(_error, lines(ran.err)) if e), None)
    if error:
        return ToolAnswer(command.key, code, error)
    if code != 0:
        return ToolAnswer(command.key, code, complaint(ran, understood=table.recognised))
    if table.recognised:
        return ToolAnswer(command.key, code, None)
    if not ran.out.strip() and not ran.err.strip():
        return ToolAnswer(command.key, code, "no output")
    return Unknown(f"{command}: its output is not understood: {complaint(ran)}")


def _error(line: str) -> str | None:
    return line.strip() if _ERROR.search(line) else None


def _has_json(version: str | None) -> bool:
    found = _SHORT_VERSION.match(version or "")
    return found is not None and (int(found[1]), int(found[2])) >= FIRST_WITH_JSON


def parse_table(text: str) -> Table:
    """Read the default table in any of its layouts; any other text gives an empty one."""
    tool_version: str | None = None
    driver: KernelDriverVersion | None = None
    error: str | None = None
    cards: list[GmiCard] = []
    processes: list[GmiProcess] = []
    in_processes = False
    after_card = False
    for line in lines(text):
        cells = line.split("|")
        if card := _card(cells):
            cards.append(card)
        elif after_card and len(cells) == 3:  # noqa: PLR2004 - the columns of the table
            cards[-1] = _second_row(cards[-1], cells)
        elif header := _HEADER.search(line):
            tool_version, driver = header[1], KernelDriverVersion.parse(header[2])
        elif alone := _DRIVER.match(line):
            driver = KernelDriverVersion.parse(alone[1])
        elif line.strip() == "Processes:":
            in_processes = True
        elif in_processes and (process := _process(line)):
            processes.append(process)
        else:
            error = error or _error(line)
        after_card = card is not None
    return Table(tool_version, driver, tuple(cards), tuple(processes), error)


def _card(cells: list[str]) -> GmiCard | None:
    """The first row of a card: ``0    MTT S80 |00000000:04:00.0 |0% 2MiB(16384MiB)``."""
    ordinal, _, name = cells[0].strip().partition(" ")
    bus_id = _bus_id(cells[1]) if len(cells) == 3 else ""  # noqa: PLR2004 - as above
    if not bus_id or not _is_number(ordinal):
        return None
    memory = _USED_OF_TOTAL.search(cells[2])
    return GmiCard(
        ordinal=int(ordinal),
        name=name.strip(),
        bus_id=bus_id,
        used_mib=_mib(memory[1]) if memory else None,
        total_mib=_mib(memory[2]) if memory else None,
        device_type=None,
        lanes=None,
        max_lanes=None,
        mtbios=None,
    )


def _second_row(card: GmiCard, cells: list[str]) -> GmiCard:
    """The row below: ``Physical P0 |16x(16x) |52C YES``."""
    words = cells[0].split()
    if len(words) > 1 and _PERF.fullmatch(words[-1]):
        del words[-1]
    lanes = _LANES.search(cells[1])
    return card._replace(
        device_type=_value(" ".join(words)),
        lanes=int(lanes[1]) if lanes else None,
        max_lanes=int(lanes[2]) if lanes else None,
    )


def _process(line: str) -> GmiProcess | None:
    """One row of the process table: ``0    1123      /usr/lib/xorg/Xorg   134MiB``."""
    words = line.split()
    if len(words) < 4:  # noqa: PLR2004 - card, process, name, memory
        return None
    card, pid, *name, memory = words
    used = _mib(memory)
    if used is None or not _is_number(card) or not _is_number(pid):
        return None
    return GmiProcess(int(card), int(pid), " ".join(name), used)


def parse_json(text: str) -> tuple[GmiCard, ...]:
    """The cards in ``-q --json``; none for any other text."""
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    listed = _object(data).get("GPU")
    cards: list[GmiCard] = []
    for element in cast("list[object]", listed) if isinstance(listed, list) else ():
        gpu = _object(element)
        index = _text(gpu.get("Index"))
        if not _is_number(index):
            continue
        pci = _object(gpu.get("PCI"))
        width = _object(_object(pci.get("GPU Link Info")).get("Link Width"))
        memory = _object(gpu.get("FB Memory Usage"))
        cards.append(
            GmiCard(
                ordinal=int(index),
                name=_text(gpu.get("Product Name")),
                bus_id=_bus_id(_text(pci.get("Bus ID"))),
                used_mib=_mib(_text(memory.get("Used"))),
                total_mib=_mib(_text(memory.get("Total"))),
                device_type=None,
                lanes=_lanes(width.get("Current")),
                max_lanes=_lanes(width.get("Max")),
                mtbios=_value(_text(gpu.get("MTBios Version"))),
            )
        )
    return tuple(cards)


def merged(table: Iterable[GmiCard], from_json: Iterable[GmiCard]) -> tuple[GmiCard, ...]:
    """The table's cards, each completed by its JSON; then those that the JSON alone places."""
    spare = {card.ordinal: card for card in from_json}
    cards: list[GmiCard] = []
    for card in table:
        twin = spare.pop(card.ordinal, card)
        known = (b if a is None else a for a, b in zip(card, twin, strict=True))
        cards.append(GmiCard._make(known))
    return (*cards, *(card for card in spare.values() if card.bus_id))


def _object(value: object) -> dict[str, object]:
    """A JSON object with its keys stripped, empty for anything else."""
    if not isinstance(value, dict):
        return {}
    return {key.strip(): inner for key, inner in cast("dict[str, object]", value).items()}


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _value(text: str) -> str | None:
    return None if text in {"", "N/A"} else text


def _mib(text: str) -> int | None:
    found = _MIB.fullmatch(text)
    return int(found[1]) if found else None


def _lanes(value: object) -> int | None:
    number = _text(value).removesuffix("x")
    return int(number) if _is_number(number) else None


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 10  # noqa: PLR2004 - what int() reads at once


def _bus_id(text: str) -> str:
    """``0000:2a:00.0`` of ``00000000:2a:00.0``, as sysfs writes it; empty for anything else."""
    found = _BUS_ID.search(text)
    return f"{int(found[1], 16):04x}:{found[2].lower()}" if found else ""
