"""Makes up a fleet: as many hosts as are asked for, always the same, with differences of its own.

    python benchmarks/made_up_hosts.py HOSTS FILE.gz

Writes a kept file of ``musadoctor fleet run``, and its racks to ``FILE.gz.groups.yaml``. Racks hold
40 hosts; of ten racks nine have S5000 cards and one has S4000. Each kind of host is a recording of
``tests/hosts`` with some answers changed, diagnosed like any other; hosts of a kind then differ in
what is their own: boot disk, used memory, times.
"""

import gzip
import json
import random
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from recorded import whole

from musadoctor.doctor import Options, examine
from musadoctor.fleet.answer import SILENT, TIMED_OUT, UNREACHABLE, Answer, envelope
from musadoctor.recording import Recording
from musadoctor.render.json import render

RACK = 40
"""Hosts in a rack."""
OTHER_EACH = 10
"""One of so many racks has other cards."""
FAULTY = 0.005
"""Part of the hosts with a fault."""
DONE = 0.3
"""Part of one rack that has the newer driver."""
UPGRADED_RACK = 2
SEED = 20261201
NO_ANSWER = "no answer"

Answers = dict[str, dict[str, Any]]
_OWN = re.compile(r'"@([a-z]+)@"|@([a-z]+)@')


class Kind(NamedTuple):
    """Hosts that are alike."""

    name: str
    base: str = "s5000-5.2.0"
    """The recorded host."""
    change: Callable[[Answers], None] = lambda _: None
    trait: str = ""
    """Of a faulty kind: the trait that shows it, ``""`` where causes do."""


def replaced(*pairs: tuple[str, str]) -> Callable[[Answers], None]:
    """Writes another text wherever the first of a pair stands."""

    def change(answers: Answers) -> None:
        text = json.dumps(answers)
        for old, new in pairs:
            assert old in text, f"{old} is in no answer"
            text = text.replace(old, new)
        answers.update(json.loads(text))

    return change


def driver(number: str, library: str) -> Callable[[Answers], None]:
    """Puts another driver, with its libmusa, in place."""
    return replaced(
        ("5.2.0-server", f"{number}-server"),
        ("package version:5.2.0", f"package version:{number}"),
        ("libmusa.so.1.5.4", f"libmusa.so.{library}"),
    )


def answered(kind: str, subject: str, value: object) -> Callable[[Answers], None]:
    """Gives another answer to one question."""

    def change(answers: Answers) -> None:
        assert answers[kind].get(subject) != value
        answers[kind][subject] = value

    return change


def _without_a_card(answers: Answers) -> None:
    answers["folders"]["/sys/bus/pci/devices"].remove("0000:58:00.0")


GOOD = Kind("as most")
OTHER_CARD = Kind("S4000", "s4000-4.3.1")
UPGRADED = Kind("newer driver", change=driver("5.2.1", "1.5.5"))
FAULTS = (
    Kind("older driver", change=driver("5.1.0", "1.5.1"), trait="kernel driver"),
    Kind("older wheel", change=replaced(("1.26.4", "1.26.3")), trait="wheel numpy"),
    Kind(
        "narrow link",
        change=answered("files", "/sys/bus/pci/devices/0000:38:00.0/current_link_width", "8\n"),
        trait="link width",
    ),
    Kind("a card less", change=_without_a_card, trait="cards"),
    Kind(
        "older BIOS",
        change=answered("files", "/sys/class/dmi/id/bios_version", "4.1.15\n"),
        trait="BIOS",
    ),
    Kind("older kernel", change=replaced(("5.15.0-105", "5.15.0-91")), trait="kernel"),
    Kind(
        "half the memory",
        change=answered("resources", "", {"logical_cpus": 128, "memory_bytes": 1 << 40}),
        trait="memory",
    ),
    Kind(
        "another variable",
        change=answered("variables", "MCCL_BUFFSIZE", "1"),
        trait="environment MCCL_BUFFSIZE",
    ),
    Kind("fault of a card in the kernel log", "gpu-xid"),
    Kind("wheel for another toolkit", "wheel-for-other-toolkit"),
    Kind("driver that refuses the runtime", "driver-older-than-runtime"),
)
UNANSWERED = (
    (UNREACHABLE, "ssh: connect to host port 22: No route to host"),
    (TIMED_OUT, "no answer within 80 s"),
    (SILENT, "the connection was closed"),
)


class Planted(NamedTuple):
    """What is to be found in a fleet."""

    faulty: dict[str, str]
    """The kind of each host with a fault, or ``NO_ANSWER``."""
    left: frozenset[str]
    """The hosts of the half-upgraded rack that have the older driver."""


def names(count: int) -> list[str]:
    """The names of the hosts."""
    return [f"r{number // RACK:04}-n{number % RACK + 1:02}" for number in range(count)]


def plan(count: int) -> tuple[list[Kind | Answer], Planted]:
    """What each host is, and what is to be found."""
    chance = random.Random(f"{SEED} {count}")  # noqa: S311 - the same every time
    hosts = names(count)
    kinds: list[Kind | Answer] = [
        OTHER_CARD if place // RACK % OTHER_EACH == OTHER_EACH - 1 else GOOD
        for place in range(count)
    ]
    rack = range(UPGRADED_RACK * RACK, min((UPGRADED_RACK + 1) * RACK, count))
    done = sorted(chance.sample(rack, round(len(rack) * DONE)))
    for place in done:
        kinds[place] = UPGRADED
    candidates = [place for place, kind in enumerate(kinds) if kind is GOOD]
    faulty: dict[str, str] = {}
    for turn, place in enumerate(chance.sample(candidates, round(count * FAULTY))):
        host = hosts[place]
        fault = turn % (len(FAULTS) + 1)
        if fault < len(FAULTS):
            kinds[place] = FAULTS[fault]
            faulty[host] = FAULTS[fault].name
        else:
            kinds[place] = Answer(host, None, *UNANSWERED[turn % len(UNANSWERED)])
            faulty[host] = NO_ANSWER
    old = {hosts[place] for place in rack if place not in done and _has_usual_driver(kinds[place])}
    return kinds, Planted(faulty, frozenset(old))


def _has_usual_driver(kind: Kind | Answer) -> bool:
    return isinstance(kind, Kind) and kind.trait != "kernel driver"


class Template:
    """The kept line of a kind of host, cut where each host has something of its own."""

    def __init__(self, kind: Kind) -> None:
        """Diagnose the kind."""
        recording = whole(kind.base)
        answers = cast("Answers", recording["answers"])
        kind.change(answers)
        boot = answers["files"]["/proc/cmdline"]
        answers["files"]["/proc/cmdline"] = f"root=UUID=@uuid@ {boot}"
        options = Options(recording=kind.base, redact=False, facts=("rdma",))
        report = examine(Recording(json.dumps(recording), kind.base), options)
        document = json.loads(render(report))
        document["seconds"] = "@seconds@"
        for card in document["facts"].get("gmi", {}).get("cards", ()):
            card["used_mib"] = "@used@"
        line = envelope(Answer("@host@", json.dumps(document)), via="ssh", taken="@taken@")
        self.verdict = str(document["verdict"])
        self._parts = _OWN.split(line)

    def line(self, host: str, chance: random.Random) -> str:
        """A host of this kind."""
        own: dict[str, Callable[[], str]] = {
            "host": lambda: host,
            "uuid": lambda: str(uuid.UUID(int=chance.getrandbits(128))),
            "seconds": lambda: f"{chance.uniform(2, 9):.3f}",
            "used": lambda: str(chance.randrange(0, 4096)),
            "taken": lambda: f"2026-12-01T08:{chance.randrange(60):02}:{chance.randrange(60):02}Z",
        }
        text = [self._parts[0]]
        for number, word, rest in zip(*(iter(self._parts[1:]),) * 3, strict=True):
            # In quotes stands a number, or a text that has to keep them.
            value = own[number or word]()
            text += f'"{value}"' if number in {"host", "taken"} else value, rest
        return "".join(text)


def lines(count: int) -> Iterator[str]:
    """A kept file's lines."""
    templates: dict[str, Template] = {}
    chance = random.Random(SEED)  # noqa: S311 - the same every time
    for host, kind in zip(names(count), plan(count)[0], strict=True):
        if isinstance(kind, Answer):
            yield envelope(kind, via="ssh", taken="2026-12-01T08:00:00Z")
            continue
        template = templates.get(kind.name) or templates.setdefault(kind.name, Template(kind))
        yield template.line(host, chance)


def write(count: int, path: Path) -> Path:
    """Write a fleet and its racks; the file of the racks."""
    with gzip.open(path, "wt", 1, encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines(count))
    groups = path.with_name(f"{path.name}.groups.yaml")
    racks = (
        f"  r{rack:04}: 'r{rack:04}-n[01-{min(RACK, count - rack * RACK):02}]'\n"
        for rack in range(-(-count // RACK))
    )
    groups.write_text(f"rack:\n{''.join(racks)}", encoding="utf-8")
    return groups


if __name__ == "__main__":
    write(int(sys.argv[1]), Path(sys.argv[2]))
