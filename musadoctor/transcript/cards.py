"""The cards on the bus, their module, and what the kernel says of them."""

import re
from collections.abc import Sequence

from musadoctor.commands import CONCERNED, kernel_log
from musadoctor.probes.driver import MODULE, PROCFS
from musadoctor.probes.pci import BUS
from musadoctor.system import NOT_THERE, Failure, Ran
from musadoctor.transcript.machine import FOLDER
from musadoctor.transcript.pieces import Answer, Piece
from musadoctor.transcript.text import Line

LEAST_MODULES = 20
"""So many lines make a whole ``lsmod``, whose silence tells; an excerpt is shorter."""

_LSPCI = re.compile(
    r"[ \t]*((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])[ \t]+(.{1,200})", re.IGNORECASE
)
_NUMBERS = (
    re.compile(r"\b(03\d\d):[ \t]*1ed5:([0-9a-f]{4})", re.IGNORECASE),  # -n
    re.compile(r"\[(03\d\d)\].*\[1ed5:([0-9a-f]{4})\]", re.IGNORECASE),  # -nn
    re.compile(
        r"(?:VGA|3D|Display)(.*)(?:Moore Threads.*Device|1ed5)[ :]([0-9a-f]{4})\b", re.IGNORECASE
    ),
)
_DRIVER_IN_USE = re.compile(r"[ \t]*Kernel driver in use:[ \t]*(\S{1,40})")
_NEAR_DRIVER = 4
_LSMOD = re.compile(r"[ \t]*(\w{2,60})[ \t]+\d{3,12}[ \t]+\d{1,4}\b")
_LSMOD_HEAD = re.compile(r"[ \t]*Module[ \t]+Size[ \t]+Used")
_PACKAGE = re.compile(r"package version:[ \t]*(\d\S{1,60})$")
_MISSING = re.compile(
    r"(/sys/module/mtgpu|/proc/driver/musa/version)\W{1,4}(?:No such file|没有那个文件)"
)
_ABSENT: tuple[Answer, ...] = (
    ("stats", MODULE, Failure(NOT_THERE, f"no {MODULE}")),
    ("stats", "/sys/module", FOLDER._replace(real="/sys/module")),
)
_CONCERNED = re.compile(CONCERNED)
_LOG = re.compile(
    r"""
    (?: <\d{1,3}> )?
    (?P<syslog>                                           # journalctl -k, /var/log/kern.log
        (?: [A-Z][a-z]{2} [ ]{1,2} \d{1,2} [ ] \d\d:\d\d:\d\d
          | \d{4}-\d\d-\d\d [T ] \d\d:\d\d:\d\d \S{0,16}
        ) [ ] \S{1,64} [ ] kernel: [ ]?
    )?
    (?P<time> \[ [ ]{0,12} \d{1,9} \. \d{1,9} \] [ ]? )?  # seconds since the start
    (?P<day>                                              # dmesg -T, --time-format iso
        \[ [A-Z][a-z]{2} [ ] [A-Z][a-z]{2} [ ] [^\]\n]{8,24} \] [ ]?
      | \d{4}-\d\d-\d\d T \d\d:\d\d:\d\d [,.] \S{6,16} [ ]
    )?
    (?P<text> .* )
    """,
    re.VERBOSE,
)
_SPOKEN = re.compile(r"MTGPU:|mtgpu(?: [0-9a-f:.]{7,16})?: |Lockdown: ")


def lspci(lines: Sequence[Line]) -> list[Piece]:
    """Cards on the bus, by ``lspci`` in any of its forms."""
    answers: list[Answer] = []
    shown: dict[str, Line] = {}
    address = ""
    for line in lines:
        driver = _DRIVER_IN_USE.match(line.text)
        if driver and address and line.at < shown[address].at + _NEAR_DRIVER:
            bound = FOLDER._replace(real=f"/sys/bus/pci/drivers/{driver[1]}")
            answers.append(("stats", f"{BUS}/{address}/driver", bound))
        placed = _LSPCI.match(line.text)
        if placed is None:
            continue
        numbers = _display(placed[2])
        short = placed[1].lower()
        # The lines below another device are not of the card above it.
        address = (short if short.count(":") > 1 else f"0000:{short}") if numbers else ""
        if numbers and address not in shown:
            shown[address] = line
            path = f"{BUS}/{address}"
            answers += [
                ("files", f"{path}/vendor", "0x1ed5\n"),
                ("files", f"{path}/device", f"0x{numbers[1]}\n"),
                ("files", f"{path}/class", f"0x{numbers[0]}00\n"),
            ]
    if not shown:
        return []
    answers.append(("folders", BUS, tuple(shown)))
    first, *_, last = (*shown.values(), *shown.values())
    return [Piece("lspci", first, last, tuple(answers))]


def _display(text: str) -> tuple[str, str] | None:
    """The class and the device id of a card that computes; it shows an audio function too."""
    for pattern in _NUMBERS:
        if found := pattern.search(text):
            return found[1] if found[1].isdecimal() else "0300", found[2].lower()
    return None


def lsmod(lines: Sequence[Line]) -> list[Piece]:
    """Whether ``mtgpu`` is loaded; that a whole list lacks it tells as well."""
    block: list[Line] = []
    headed = False
    for line in lines:
        if _LSMOD_HEAD.match(line.text):
            block, headed = [], True
        elif found := _LSMOD.match(line.text):
            if found[1] == "mtgpu":
                there = FOLDER._replace(real=MODULE)
                return [Piece("lsmod", line, line, (("stats", MODULE, there),), "with mtgpu")]
            block.append(line)
        elif headed:
            break
    if not headed or len(block) < LEAST_MODULES:
        return []
    return [Piece("lsmod", block[0], block[-1], _ABSENT, "without mtgpu")]


def module(lines: Sequence[Line]) -> list[Piece]:
    """``ls -d /sys/module/mtgpu`` and ``/proc/driver/musa/version``, or that they are not there."""
    pieces: list[Piece] = []
    for line in lines:
        text = line.text.strip()
        missing = _MISSING.search(text)
        if text == MODULE:
            there = FOLDER._replace(real=MODULE)
            pieces.append(Piece("kernel module", line, line, (("stats", MODULE, there),), "loaded"))
        elif missing and missing[1] == MODULE:
            pieces.append(Piece("kernel module", line, line, _ABSENT, "not loaded"))
        elif missing:
            gone = Failure(NOT_THERE, f"no {PROCFS}")
            pieces.append(Piece(PROCFS, line, line, (("files", PROCFS, gone),), "not there"))
        elif version := _PACKAGE.match(text):
            answer: Answer = ("files", PROCFS, f"{text}\n")
            pieces.append(Piece(PROCFS, line, line, (answer,), version[1]))
    return pieces


def dmesg(lines: Sequence[Line]) -> list[Piece]:
    """The kernel's lines on the cards, with and without times, also from the journal."""
    said: list[tuple[Line, str]] = []
    for line in lines:
        if _CONCERNED.search(line.text) and (found := _LOG.match(line.text)):
            marked = found["syslog"] or found["time"] or found["day"]
            if marked or _SPOKEN.match(found["text"]):
                said.append((line, f"{found['time'] or ''}{found['text']}"))
    if not said:
        return []
    out = "".join(f"{text}\n" for _, text in said)
    answers: tuple[Answer, ...] = (("runs", kernel_log().key, Ran("ok", 0, out=out)),)
    return [Piece("kernel log", said[0][0], said[-1][0], answers)]
