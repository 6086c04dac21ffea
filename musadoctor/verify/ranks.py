"""Collectives: a process for each rank, which take their steps together.

Without a launcher there is one rank a device, all of them started here, and where the ranks cannot
go on together (one has stalled or died) new ones are started for what is left. Under a launcher
each process starts the one of its own rank, and that of rank 0 is told what the others came to.
"""

import socket
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, cast

from musadoctor.facts.steps import Step
from musadoctor.system import System
from musadoctor.verify.children.collectives import FIRST
from musadoctor.verify.taken import Job, Taken, not_taken, step_of, take_in_one

MOST_GROUPS = 3
"""Times that ranks are started, until it is enough."""
RANK_SECONDS = 900.0
"""Limit of a rank's process."""
STEP_SECONDS, JOIN_SECONDS = 30.0, 90.0
"""Of a step, and until the last rank has come: each imports torch first."""
LARGEST = {"default": 256 << 20, "deep": 1 << 30}
"""Bytes of the largest tensor by level."""
PORT = 29500
"""Of the rendezvous where nothing names one: torchrun's."""
SILENT = "no answer within the step's limit: it stalled, or its process has ended"
"""All that rank 0 can tell of a rank on another host."""
MASKS = {"musa": "MUSA_VISIBLE_DEVICES", "cuda": "CUDA_VISIBLE_DEVICES"}


class Place(NamedTuple):
    """Where a launcher has put this process."""

    rank: int
    world: int
    local: int
    """The rank among those of this node."""
    node: int
    """The node's number."""
    host: str
    """Where the rendezvous store is."""
    port: int
    serves: bool
    """Whether this rank holds the store; torchrun may have it hold by its own agent."""


class Misplaced(NamedTuple):
    """What is missing, or is no number."""

    reason: str


def place(system: System) -> Place | Misplaced:
    """What torchrun or srun tells this process: torchrun's variables, or else Slurm's."""

    def told(name: str) -> str:
        value = system.env(name)
        return value if isinstance(value, str) else ""

    torchrun = bool(told("RANK"))
    names = (
        ("RANK", "WORLD_SIZE", "LOCAL_RANK")
        if torchrun
        else ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
    )
    for name in names:
        if not told(name).isdecimal():
            found = f"{name}={told(name)!r}" if told(name) else f"no {name}"
            return Misplaced(f"{found}: start it by torchrun or srun, which set {', '.join(names)}")
    rank, world, local = (int(told(name)) for name in names)
    if rank >= world:
        return Misplaced(f"{names[0]}={rank}, but {names[1]}={world}")
    host, port = told("MASTER_ADDR"), told("MASTER_PORT") or str(PORT)
    if not host and told("SLURM_NNODES") in {"", "1"}:
        host = "127.0.0.1"
    if not host or not port.isdecimal():
        return Misplaced(
            "MASTER_ADDR is to name the node of rank 0, and MASTER_PORT a free port of it"
        )
    node = told("GROUP_RANK" if torchrun else "SLURM_NODEID")
    return Place(
        rank=rank,
        world=world,
        local=local,
        node=int(node) if node.isdecimal() else 0,
        host=host,
        port=int(port),
        serves=rank == 0 and told("TORCHELASTIC_USE_AGENT_STORE") != "True",
    )


def device_of(system: System, kind: str, own: Place, chosen: Sequence[int]) -> str:
    """The device of a launched rank: its number on the node, within what it can see or may use."""
    if kind == "cpu":
        return "cpu"
    mask = system.env(MASKS[kind])
    seen = mask.split(",") if isinstance(mask, str) and mask else ()
    if chosen:
        return f"{kind}:{chosen[own.local % len(chosen)]}"
    return f"{kind}:{own.local % len(seen) if seen else own.local}"


def together(
    system: System,
    python: str,
    devices: Sequence[str],
    names: Sequence[str],
    options: Mapping[str, object],
) -> Iterator[Step]:
    """Take the steps on ranks of this machine, one for each device."""
    world, kind = len(devices), devices[0].partition(":")[0]
    ranks = [f"rank {rank} {device}" for rank, device in enumerate(devices)]
    left, why = list(names), f"the ranks were started {MOST_GROUPS} times before it"
    for attempt in range(1, MOST_GROUPS + 1):
        if not left:
            return
        now = left if attempt == 1 else [FIRST, *left]
        port = _free_port()
        asked = [
            {
                **_limits(options),
                "rank": rank,
                "world": world,
                "name": name,
                "local": True,
                "attempt": attempt,
                "host": "127.0.0.1",
                "port": port,
                "serves": rank == 0,
            }
            for rank, name in enumerate(ranks)
        ]
        jobs = [_job(rank, world, device, now) for rank, device in enumerate(devices)]
        run = partial(take_in_one, system, python, kind, attempt=attempt)
        with ThreadPoolExecutor(world) as pool:
            settled = list(map(_settled, pool.map(run, jobs, asked), ranks))
        formed = all(FIRST in steps and steps[FIRST].state == "done" for steps, _ in settled)
        reached = [name for name in now if any(name in steps for steps, _ in settled)]
        for name in reached if formed else (FIRST,):
            if name != FIRST or attempt == 1 or not formed:
                for (steps, reason), own in zip(settled, ranks, strict=True):
                    yield steps.get(name) or Step(own, name, "not taken", {}, reason)
        left = [name for name in left if name not in {*reached, FIRST}]
        if not formed:
            why = "there is no process group"
            break
        # What did not come back would not do so at any size either.
        vain = [name for name in left if name.startswith(f"{reached[-1]} ")]
        yield from _none(ranks, vain, f"{reached[-1].partition(': ')[2]} did not come back")
        left = [name for name in left if name not in vain]
    yield from _none(ranks, left, why)


def _none(ranks: Sequence[str], names: Sequence[str], why: str) -> Iterator[Step]:
    return not_taken([(rank, name) for name in names for rank in ranks], why)


def launched(
    system: System,
    python: str,
    own: Place,
    device: str,
    names: Sequence[str],
    options: Mapping[str, object],
) -> Iterator[Step]:
    """Take the steps as one rank of a launcher's; for rank 0 those of all ranks."""
    where = f" of node {own.node}" if own.node else ""
    name = f"rank {own.rank} {device}{where}"
    asked = {**_limits(options), **own._asdict(), "local": False, "name": name, "attempt": 1}
    job = _job(own.rank, own.world, device, names)
    taken = take_in_one(system, python, device.partition(":")[0], job, asked, 1)
    why = taken.why
    reached: set[str] = set()
    for step in taken.steps:
        if lost := step.value.get("lost"):
            why = str(lost)
            continue
        reached.add(step.name)
        told = _outcomes(step)
        if step.state != "done" or not told:
            yield step._replace(device=name)
        for rank, outcome in told.items():
            yield step_of(rank, step.name, outcome)
        for rank in cast("list[str]", step.value.get("silent", [])):
            yield Step(rank, step.name, "hung", {}, SILENT)
    left = [(name, step) for step in names if step not in reached]
    yield from not_taken(left, why or "this rank's process had ended")


def _limits(options: Mapping[str, object]) -> dict[str, object]:
    limit = options.get("step_seconds", STEP_SECONDS)
    return {"limit": limit, "join": JOIN_SECONDS, **options}


def _job(rank: int, world: int, device: str, names: Sequence[str]) -> Job:
    take = tuple((device, name) for name in names)
    return Job(f"ranks:{rank}of{world}", ("collectives",), take, RANK_SECONDS)


def _settled(taken: Taken, rank: str) -> tuple[dict[str, Step], str]:
    """How a rank's steps came out, by name, and why it took no others."""
    steps: dict[str, Step] = {}
    why = taken.why
    for step in taken.steps:
        if lost := step.value.get("lost"):
            why = why or str(lost)
        elif told := _outcomes(step):
            steps[step.name] = step_of(rank, step.name, told[rank])
        else:
            steps[step.name] = step._replace(device=rank)
    return steps, why or "its process had ended"


def _outcomes(step: Step) -> Mapping[str, Mapping[str, object]]:
    told = step.value.get("outcomes")
    return cast("Mapping[str, Mapping[str, object]]", told) if isinstance(told, dict) else {}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
