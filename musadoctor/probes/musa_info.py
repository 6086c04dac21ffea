"""``musaInfo``: the runtime starts, or says with a code why it cannot.

A block for each device, the labels padded to 34 columns (the padding is reconstructed)::

    compiler: mcc
    --------------------------------------------------------------------------------
    device#                           0
    Name:                             MTT S5000
    Driver Version:                   5.2
    Runtime Version:                  5.2
    compute capability:               3.1
    totalGlobalMem:                   79.91 GB

Older builds print ``major:`` and ``minor:`` in place of the capability, and no versions
(unconfirmed: from the source of a program like it). A failure, in red on a terminal, exit code 1::

    error: 'operation not supported'(801) at /home/jenkins/.../musaInfo.cpp:155
    error: API returned error code.
    error: TEST FAILED
"""

import re
from typing import NamedTuple

from musadoctor.commands import musa_info as musa_info_command
from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.driver import (
    MusaInfo,
    MusaInfoDevice,
    MusaInfoFact,
    ToolAnswer,
    ToolAnswerFact,
)
from musadoctor.facts.toolkit import Toolkit
from musadoctor.probes.toolkit import toolkit
from musadoctor.probes.tools import complaint, lines, not_startable, unanswered
from musadoctor.system import Failure, Ran, System
from musadoctor.versions import DriverApiVersion

_DEVICE = re.compile(r"device#[ \t]*([0-9]{1,6})")
_ERROR = re.compile(r"error: '[^']*'\(([0-9]{1,9})\)")
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([KMGT])B")
_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


def musa_info_answer(system: System) -> ToolAnswerFact:
    """How ``musaInfo`` answered."""
    return _ask(system)[0]


def musa_info(system: System) -> MusaInfoFact:
    """The devices that the runtime lists."""
    answer, ran = _ask(system)
    if not isinstance(answer, ToolAnswer):
        return answer
    if answer.error is not None:
        return Absent(f"{answer.command}: {answer.error}")
    return parse(ran.out, answer.command)


def _ask(system: System) -> tuple[ToolAnswerFact, Ran]:
    located = _locate(system)
    if not isinstance(located, _Located):
        return located, Ran("not there")
    path, executable = located
    command = musa_info_command(path)
    if not executable:
        note = f"{path} may not be executed"
        return not_startable(system, command, path, note), Ran("not executable")
    ran = system.run(command)
    answer = unanswered(system, command, path, ran)
    return _judge(command.key, ran) if answer is None else answer, ran


class _Located(NamedTuple):
    path: str
    executable: bool


def _locate(system: System) -> _Located | Absent | Unknown:
    """``musaInfo`` of the Toolkit in use, else on PATH."""
    in_use = toolkit(system)
    folder = f"{in_use.root}/bin" if isinstance(in_use, Toolkit) else ""
    places = [f"{folder}/musaInfo"] if folder else []
    for place in (*places, "musaInfo"):
        found = system.find(place)
        if isinstance(found, Failure):
            return found.state
        if found.path or found.blocked:
            return _Located(found.path or found.blocked, bool(found.path))
    if isinstance(in_use, Unknown):
        return Unknown(f"no musaInfo on PATH, and the Toolkit in use is not known: {in_use}")
    return Absent(f"no musaInfo{f' in {folder}, nor' if folder else ''} on PATH")


def _judge(command: str, ran: Ran) -> ToolAnswer | Unknown:
    code = ran.code or 0
    for line in (*lines(ran.out), *lines(ran.err)):
        if error := _ERROR.search(line):
            return ToolAnswer(command, code, error[0], int(error[1]))
    for line in (*lines(ran.out), *lines(ran.err)):
        if line.strip().startswith("error:"):
            return ToolAnswer(command, code, line.strip())
    understood = "compiler:" in ran.out or bool(parse(ran.out, command).devices)
    if code != 0:
        return ToolAnswer(command, code, complaint(ran, understood=understood))
    if understood:
        return ToolAnswer(command, code, None)
    if not ran.out.strip() and not ran.err.strip():
        return ToolAnswer(command, code, "no output")
    return Unknown(f"{command}: its output is not understood: {complaint(ran)}")


def parse(text: str, source: str) -> MusaInfo:
    """Read the devices; any other text gives none."""
    devices: list[dict[str, str]] = []
    for line in lines(text):
        if start := _DEVICE.fullmatch(line.strip()):
            devices.append({"device#": start[1]})
        elif devices:
            label, _, value = line.partition(":")
            devices[-1].setdefault(label.strip(), value.strip())
    first = devices[0] if devices else {}
    return MusaInfo(
        tuple(_device(device) for device in devices),
        DriverApiVersion.parse(first.get("Driver Version", "")),
        DriverApiVersion.parse(first.get("Runtime Version", "")),
        source,
    )


def _device(fields: dict[str, str]) -> MusaInfoDevice:
    capability = fields.get("compute capability")
    if capability is None and "major" in fields and "minor" in fields:
        capability = f"{fields['major']}.{fields['minor']}"
    size = _SIZE.fullmatch(fields.get("totalGlobalMem", ""))
    return MusaInfoDevice(
        ordinal=int(fields["device#"]),
        name=fields.get("Name", ""),
        capability=capability,
        memory_mib=round(float(size[1]) * _MIB[size[2]]) if size else None,
    )
