"""The phases of a run, each a fact: which devices there are, then the steps that are taken on them.

Phases never overlap: bandwidth and free memory mean nothing beside another's computation. At the
quick level, where an import of torch costs more than all steps, they share one child a device.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import Literal, NamedTuple, cast

from musadoctor.facts.accepted import Accepted
from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.python import Python
from musadoctor.facts.steps import Step, Steps, StepsFact
from musadoctor.probes import Probe
from musadoctor.probes.network import rdma
from musadoctor.probes.once import once
from musadoctor.probes.python import python
from musadoctor.probes.topology import topology
from musadoctor.system import System
from musadoctor.verify.children.base import STEPS
from musadoctor.verify.ranks import LARGEST, Place, device_of, launched, together
from musadoctor.verify.soak import soak_steps
from musadoctor.verify.taken import Job, Pair, take

Level = Literal["quick", "default", "deep"]
LEVELS: tuple[Level, ...] = ("quick", "default", "deep")
KINDS = ("musa", "cuda", "cpu")
SIDE_BY_SIDE = 8
"""Devices that compute at a time."""
CENSUS = "census: devices"
DEVICE_FAMILIES = ("compute", "numerics", "fallback", "record")
TRANSFER_FAMILIES = ("memory", "throughput")
QUICK_FAMILIES = (*DEVICE_FAMILIES, *TRANSFER_FAMILIES)
MODULES = (
    *("measure", "elementwise", "compute", "attention", "numerics", "fallback"),
    *("throughput", "record", "memory"),
)
"""Those that hold the steps of a device, each after what it imports."""
LAUNCHED = "under a launcher only the collectives are taken"


class Settings(NamedTuple):
    """What a user can choose of a run."""

    level: Level = "default"
    kind: str = "musa"
    """``musa``, ``cuda`` or ``cpu``."""
    devices: tuple[int, ...] = ()
    """Ordinals; empty for all that are visible."""
    seconds: float = 300.0
    options: Mapping[str, object] = {}
    """Handed to the steps as they are."""
    place: Place | None = None
    """Where a launcher has put this process: then only the collectives are taken."""
    families: frozenset[str] = frozenset()
    """Families of steps to take; empty for all."""
    soak_seconds: float = 0.0
    """How long the devices are to compute for; 0 for not at all."""
    accepted: Accepted | None = None
    """The record to compare with."""


Work = Callable[[System, str, Settings, tuple[str, ...]], Iterator[Step]]
"""Takes the steps of a phase: system, interpreter, settings, names of the devices."""


Found = Callable[[System], StepsFact]


def probes(settings: Settings) -> dict[str, Probe]:
    """The probes of a run, for the engine."""
    found: dict[str, Probe] = {
        "accepted": lambda _: settings.accepted or Absent("--compare names no record"),
        "soak_steps": lambda _: Absent("--soak was not asked for"),
        "rdma": rdma,
        "topology": topology,
    }
    if settings.place is None:
        return found | _phases(settings)
    for name in ("visible_devices", "device_steps", "transfer_steps", "extension_steps"):
        found[name] = lambda _: Absent(LAUNCHED)
    found["rank_steps"] = lambda system: launched_steps(system, settings)
    return found


def _phases(settings: Settings) -> dict[str, Probe]:
    turn = threading.Lock()
    visible = once(lambda system: _first(system, settings))

    def phase(work: Work) -> Found:
        def probe(system: System) -> StepsFact:
            with turn:
                there = visible(system)
                interpreter = python(system)
                if not isinstance(there, Steps) or not isinstance(interpreter, Python):
                    return there
                names = names_of(there, settings)
                if not names:
                    return Absent(f"no {settings.kind} device to take a step on")
                steps = tuple(work(system, interpreter.path, settings, names))
                return Steps(steps, there.source) if steps else Absent("no step of this level")

        return probe

    def quick(
        system: System, interpreter: str, _: Settings, devices: tuple[str, ...]
    ) -> Iterator[Step]:
        there = visible(system)
        if isinstance(there, Steps):
            yield from there.items[1:]
        jobs = [_job(settings, one, devices, QUICK_FAMILIES) for one in devices[1:]]
        yield from _side_by_side(system, interpreter, settings, jobs)

    def soak(
        system: System, interpreter: str, _: Settings, devices: tuple[str, ...]
    ) -> Iterator[Step]:
        return soak_steps(system, interpreter, settings.kind, devices, settings.soak_seconds)

    on_devices, between = phase(device_steps), phase(transfer_steps)
    if settings.level == "quick":
        on_devices = between = once(phase(quick))
    found: dict[str, Probe] = {
        "visible_devices": lambda system: _only(visible(system), ("census",)),
        "device_steps": lambda system: _only(on_devices(system), DEVICE_FAMILIES),
        "transfer_steps": lambda system: _only(between(system), TRANSFER_FAMILIES),
        "rank_steps": phase(rank_steps),
        "extension_steps": phase(extension_steps),
    }
    return found | ({"soak_steps": phase(soak)} if settings.soak_seconds else {})


def _only(steps: StepsFact, families: Sequence[str]) -> StepsFact:
    """The steps of some families."""
    if not isinstance(steps, Steps):
        return steps
    kept = tuple(step for step in steps.items if step.family in families)
    return steps._replace(items=kept) if kept else Absent("no step of this level")


def names_of(there: Steps, settings: Settings) -> tuple[str, ...]:
    """The devices to take steps on: those asked for that are there."""
    devices = cast("list[object]", there.items[0].value.get("devices", []))
    if settings.kind == "cpu":
        return ("cpu",)
    known = range(len(devices))
    return tuple(
        f"{settings.kind}:{index}" for index in settings.devices or known if index in known
    )


def device_steps(
    system: System, interpreter: str, settings: Settings, devices: tuple[str, ...]
) -> Iterator[Step]:
    """Computation, numerics and the fall-back audit, the devices side by side."""
    jobs = [_job(settings, device, devices, DEVICE_FAMILIES) for device in devices]
    yield from _side_by_side(system, interpreter, settings, jobs)


def _job(settings: Settings, device: str, devices: Sequence[str], families: Sequence[str]) -> Job:
    wanted = [family for family in families if asked(settings, family)]
    return Job(
        f"devices:{device}", MODULES, plan(wanted, (device,), devices, settings.level), 600.0
    )


def _side_by_side(
    system: System, interpreter: str, settings: Settings, jobs: Sequence[Job]
) -> Iterator[Step]:
    options = {**settings.options, "level": settings.level}

    def taken(job: Job) -> tuple[Step, ...]:
        return take(system, interpreter, settings.kind, job, options)

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for steps in pool.map(taken, jobs):
            yield from steps


def transfer_steps(
    system: System, interpreter: str, settings: Settings, devices: tuple[str, ...]
) -> Iterator[Step]:
    """Memory, and transfer between host and devices, one after the other."""
    modules = ("memory", "throughput")
    wanted = [one for one in modules if asked(settings, one)]
    job = Job("transfer", modules, plan(wanted, devices, devices, settings.level), 600.0)
    options = {**settings.options, "level": settings.level}
    yield from take(system, interpreter, settings.kind, job, options)


def extension_steps(
    system: System, interpreter: str, settings: Settings, devices: tuple[str, ...]
) -> Iterator[Step]:
    """An extension, built and called."""
    modules = ("extension",)
    job = Job("extension", modules, plan(modules, devices, devices, settings.level), 600.0)
    yield from take(system, interpreter, settings.kind, job, settings.options)


def rank_steps(
    system: System, interpreter: str, settings: Settings, devices: tuple[str, ...]
) -> Iterator[Step]:
    """Collectives, a rank for each device; two on the CPU, which is one."""
    ranks = devices * 2 if settings.kind == "cpu" else devices
    yield from together(system, interpreter, ranks, *_for_ranks(settings))


def launched_steps(system: System, settings: Settings) -> StepsFact:
    """Collectives, of a launcher's ranks; those of other ranks are told to rank 0."""
    interpreter = python(system)
    if not isinstance(interpreter, Python) or settings.place is None:
        return interpreter if isinstance(interpreter, (Absent, Unknown)) else Absent("no launcher")
    device = device_of(system, settings.kind, settings.place, settings.devices)
    names, options = _for_ranks(settings)
    steps = launched(system, interpreter.path, settings.place, device, names, options)
    return Steps(tuple(steps), interpreter.path)


def _for_ranks(settings: Settings) -> tuple[list[str], Mapping[str, object]]:
    """The names of the collectives of a level, and the options that they need."""
    names = [name for _, name in plan(("collectives",), ("",), ("",), settings.level)]
    return names, {"largest": LARGEST.get(settings.level, 0), **settings.options}


def asked(settings: Settings, family: str) -> bool:
    """Whether the steps of a family are to be taken."""
    return not settings.families or family in settings.families


def plan(
    modules: Sequence[str], own: Sequence[str], devices: Sequence[str], level: Level
) -> tuple[Pair, ...]:
    """The steps of some families for a child that has some of all devices, a family at a time."""
    thorough = LEVELS.index(level)
    taken: list[Pair] = []
    known = [name for name in STEPS if name.partition(":")[0] in modules]
    for name in sorted(known, key=lambda name: modules.index(name.partition(":")[0])):
        kind = STEPS[name]
        if LEVELS.index(cast("Level", kind.level)) > thorough:
            continue
        if kind.where == "each":
            taken += [(device, name) for device in own]
        elif kind.where == "pair":
            taken += [(f"{one} {other}", name) for one, other in permutations(own, 2)]
        elif own[0] == devices[0]:
            taken.append((own[0], name))
    return tuple(taken)


def _first(system: System, settings: Settings) -> StepsFact:
    """Which devices there are; at the quick level followed by all steps on the first of them."""
    interpreter = python(system)
    if not isinstance(interpreter, Python):
        return interpreter
    job = Job("census", ("census",), ((settings.kind, CENSUS),), 180.0)
    if settings.level == "quick":
        number = settings.devices[0] if settings.devices else 0
        device = settings.kind if settings.kind == "cpu" else f"{settings.kind}:{number}"
        more = _job(settings, device, (device,), QUICK_FAMILIES)
        job = Job("first", (*job.modules, *more.modules), (*job.take, *more.take), more.seconds)
    options = {**settings.options, "level": settings.level}
    census_step, *steps = take(system, interpreter.path, settings.kind, job, options)
    if census_step.state != "done":
        return Unknown(f"the devices cannot be listed: {census_step.message}")
    known = len(cast("list[object]", census_step.value.get("devices", [])))
    missing = [number for number in settings.devices if number >= known]
    told = census_step._replace(value={**census_step.value, "missing": missing})
    return Steps((told, *steps), interpreter.path)
