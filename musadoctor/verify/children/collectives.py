"""Collectives of all ranks, against values that every type holds exactly.

Each rank is a process that takes the same steps in the same order. After a step the ranks tell one
another over the rendezvous store how it came out, and by when: so a rank that stalls or dies is
known to the others within the step's limit, and none waits for it in the next one. A step answers::

    {"outcomes": {"rank 0 musa:0": {"state": "done", "value": {...}, "seconds": 0.1}},
     "silent": ["rank 1 musa:1"]}

and ``{"lost": "..."}`` where the ranks cannot go on together, for this step and all after it.

Of the options, ``rank``, ``name`` (what a rank is called), ``world``, ``host``, ``port``,
``serves`` (whether this rank holds the store), ``local`` (all ranks are processes of this machine),
``limit`` and ``join`` (seconds for a step and for the ranks to find each other), ``largest``
(bytes) and ``attempt`` are meant for these steps.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import time
from datetime import timedelta
from functools import partial
from json import dumps, loads
from typing import Any, Callable

from musadoctor.verify.children.base import Device, Skip, alive, chain, register, state_of, text

BACKENDS = {"musa": "mccl", "cuda": "nccl", "cpu": "gloo"}
TYPES = ("int32", "float32", "float16", "bfloat16")
BLOCKS = (129, 32768)
"""Elements that each rank contributes: an odd number of some hundred bytes, and up to 128 KiB."""
SIZES = tuple(1 << power for power in (10, 14, 18, 20, 22, 24, 26, 28, 30))
"""Bytes, 1 KiB to 1 GiB."""
LONGEST_CALL = 0.1
"""Seconds: no larger size where a call is expected to take longer."""
MANY, FEW = 20, 5
"""Calls that are timed: of up to 1 MiB, of more."""
ROUND_TRIPS = 3
PAIR_BYTES = 8 << 20
TENSORS = 8
"""A collective is measured where this many tensors of its size would have room on each device."""
MOST_RANKS_IN_PAIRS = 16
ANSWERED, COLLECTIVE = 0.9, 0.5
"""Of a step's limit: by when the ranks have answered, and how long a collective may take."""
FIRST = "collectives: group"
EXACT = 8
"""Ranks that add to one element: their sum stays below 256, where bfloat16 ends being exact."""


class Group:
    """All ranks, as one of them sees them."""

    def __init__(self, device: Device) -> None:
        """Find the store; nobody else is needed for that but the rank that serves it."""
        options = device.options
        self.device = device
        self.dist = device.torch.distributed
        self.rank: int = options["rank"]
        self.world: int = options["world"]
        self.limit: float = options["limit"]
        self.lost = ""
        """Why the ranks cannot go on together; empty while they can."""
        self.types: tuple[str, ...] = TYPES
        self.deadline = 0.0
        """By when a step's answers have to be there, a value of ``time.monotonic()``."""
        self.names = {self.rank: str(options["name"])}
        self.failed = 0.0
        """When a step's first error came, a value of ``time.perf_counter()``."""
        self._pids: dict[int, int] = {}
        self._turn = 0
        self._formed = 0
        wait = timedelta(seconds=options["join"])
        store = self.dist.TCPStore(
            options["host"], options["port"], None, options["serves"], wait, wait_for_workers=False
        )
        self._store = self.dist.PrefixStore(f"musadoctor/{options['attempt']}", store)

    def begin(self, seconds: float) -> None:
        """A limit for what follows; who is not back by then is ended, with a word on where."""
        self.deadline = time.monotonic() + ANSWERED * seconds
        faulthandler.dump_traceback_later(seconds, exit=True)

    def exchange(self, told: object) -> dict[int, Any]:
        """What each rank tells at this point; without those that do not until the deadline."""
        self._turn += 1
        found = {self.rank: told}
        pause = 0.001
        try:
            self._store.set(f"{self._turn}/{self.rank}", dumps(told))
            self._mark(f"{self._turn}/{self.rank}")
            while len(found) < self.world:
                gone = self._gone()
                for other in set(range(self.world)).difference(found):
                    key = f"{self._turn}/{other}"
                    if self._marked(key):
                        found[other] = loads(self._store.get(key))
                missing = set(range(self.world)).difference(found)
                if gone & missing or time.monotonic() > self.deadline or self._marked("lost"):
                    break
                if missing:
                    time.sleep(pause)
                    pause = min(pause * 2, 0.05)
        except Exception as error:  # noqa: BLE001 - with the store went the rank that served it
            self.lost = f"the rendezvous store does not answer any more: {text(error)}"
        return found

    def give_up(self, why: str) -> None:
        """Tell all others that this cannot go on."""
        self.lost = self.lost or why
        try:
            self._mark("lost")
        except Exception:  # noqa: BLE001 - then they have noticed
            return

    def join(self) -> None:
        """Find all ranks.

        Raises:
            RuntimeError: some do not come, or cannot take part.
        """
        dist, kind = self.dist, self.device.kind
        backend = BACKENDS[kind]
        known = getattr(dist, "is_backend_available", None)
        there = known(backend) if known else hasattr(dist.Backend, backend.upper())
        problem = "" if there else f'torch.distributed knows no backend "{backend}"'
        capability = self.device.capability
        exact = TYPES if capability is None or capability >= (2, 2) or kind == "cuda" else TYPES[:3]
        begun = time.monotonic()
        found = self.exchange(
            {"pid": os.getpid(), "name": self.name(self.rank), "problem": problem, "types": exact}
        )
        self.names = {rank: str(told["name"]) for rank, told in found.items()}
        missing = sorted(set(range(self.world)).difference(found))
        if self.device.options["local"]:
            self._pids = {rank: told["pid"] for rank, told in found.items() if rank != self.rank}
        if problem:
            raise NotImplementedError(problem)
        if missing:
            seconds = time.monotonic() - begun
            who = f"{self.called(missing)} of {self.world}"
            raise TimeoutError(f"{who} did not come in {seconds:.0f} s")
        unable = {rank: told["problem"] for rank, told in found.items() if told["problem"]}
        for rank, why in unable.items():
            raise RuntimeError(f"{self.name(rank)} cannot take part: {why}")
        fewest = min((told["types"] for told in found.values()), key=len)
        self.types = tuple(fewest)

    def name(self, rank: int) -> str:
        """What a rank is called."""
        return self.names.get(rank, f"rank {rank}")

    def called(self, ranks: list[int]) -> str:
        """What ranks are called."""
        return ", ".join(map(self.name, ranks))

    def form(self, backend: str) -> None:
        """Start a process group, in place of the one before."""
        dist, device = self.dist, self.device
        if dist.is_initialized():
            dist.destroy_process_group()
        if device.kind != "cpu":
            device.module.set_device(device.ordinal)
        self._formed += 1
        dist.init_process_group(
            backend,
            store=dist.PrefixStore(f"group{self._formed}", self._store),
            rank=self.rank,
            world_size=self.world,
            timeout=timedelta(seconds=COLLECTIVE * self.limit),
        )

    def reach(self, place: str) -> None:
        """Say that this rank is there."""
        self._mark(f"{place}/{self.rank}")

    def has_reached(self, place: str, rank: int) -> bool:
        """Whether a rank has said that it is there."""
        return self._marked(f"{place}/{rank}")

    def tensor(self, values: Any, dtype: str = "float32") -> Any:  # noqa: ANN401 - tensors
        """Values of the CPU as a tensor of the device."""
        return values.to(getattr(self.device.torch, dtype)).to(self.device.name)

    def empty(self, elements: int, dtype: str = "float32") -> Any:  # noqa: ANN401
        """A tensor of the device that holds nothing yet."""
        kind = getattr(self.device.torch, dtype)
        return self.device.torch.zeros(elements, dtype=kind, device=self.device.name)

    def summand(self, rank: int, elements: int) -> Any:  # noqa: ANN401
        """What a rank adds to a sum: at most :data:`EXACT` ranks add to any one element."""
        torch = self.device.torch
        apart = -(-self.world // EXACT)
        place = torch.arange(3 * apart)
        value = (1 + rank // apart % EXACT) * (1 + place % 3)
        return _repeated(value * (place % apart == rank % apart), elements)

    def total(self, elements: int) -> Any:  # noqa: ANN401
        """The sum of what all ranks add."""
        period = 3 * -(-self.world // EXACT)
        sums = sum(self.summand(rank, period) for rank in range(self.world))
        return _repeated(sums, elements)

    def label(self, source: int, elements: int, target: int = 0) -> Any:  # noqa: ANN401
        """What a rank sends to another one: who both are, and the place; below 256."""
        both = [1 + number for rank in (source, target) for number in divmod(rank, 200)]
        place = self.device.torch.arange(64)
        value = self.device.torch.tensor(both).repeat(16) + place // 4
        return _repeated(value, elements)

    def _gone(self) -> set[int]:
        return {rank for rank, pid in self._pids.items() if not _lives(pid)}

    def _mark(self, key: str) -> None:
        self._store.add(f"{key}/there", 1)

    def _marked(self, key: str) -> bool:
        # Store.check is not in older releases of torch; to add nothing tells the same.
        return int(self._store.add(f"{key}/there", 0)) > 0


Run = Callable[[Group, str, int], "list[tuple[Any, Any]]"]
"""Takes a collective on blocks of so many elements of a type: what it gave, what it must give."""

GROUPS: list[Group] = []
"""The one that this process belongs to, once it has found it."""


def _repeated(period: Any, elements: int) -> Any:  # noqa: ANN401 - tensors
    return period.repeat(-(-elements // len(period)))[:elements]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def beside(name: str, work: Callable[[Group], object], _device: Device) -> dict[str, object]:
    """Take a step together with the other ranks."""
    group = GROUPS[0] if GROUPS else None
    if group is None or group.lost:
        return {"lost": group.lost if group else "there is no process group"}
    group.begin(group.limit)
    group.failed, begun = 0.0, time.perf_counter()
    outcome = _outcome(partial(work, group))
    if group.failed:  # it was told to the others since, and answered
        outcome["seconds"] = round(group.failed - begun, 4)
    outcomes = group.exchange(outcome)
    silent = sorted(set(range(group.world)).difference(outcomes))
    if silent or group.lost:
        group.give_up(f"{group.called(silent)} did not come back from {name}")
    elif any(told["state"] not in {"done", "skipped"} for told in outcomes.values()):
        _try_again(name, group)
    return _answer(group, outcome, outcomes)


def form(device: Device) -> dict[str, object]:
    """Find the other ranks, and start a process group with them."""
    GROUPS.clear()
    options = device.options
    # Where a collective hangs, wait() is to end by itself and to say so.
    variables = os.environ  # noqa: TID251 - this process's own
    for name in ("TORCH_MCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"):
        variables.setdefault(name, "1")
    if options["local"]:
        variables.setdefault("GLOO_SOCKET_IFNAME", "lo")
    faulthandler.dump_traceback_later(options["join"] + options["limit"], exit=True)
    found: list[Group] = []

    def find() -> None:
        if not device.torch.distributed.is_available():
            raise NotImplementedError("this torch was built without torch.distributed")
        group = Group(device)
        found.append(group)
        group.deadline = time.monotonic() + options["join"]
        group.join()

    failed = _outcome(find)
    if failed["state"] != "done":
        for group in found:
            group.give_up("not all ranks came")
        return {"outcomes": {options["name"]: failed}, "silent": []}
    (group,) = found
    group.begin(group.limit)
    outcome = _outcome(lambda: _formed(group))
    outcomes = group.exchange(outcome)
    whole = len(outcomes) == group.world
    if whole and all(told["state"] == "done" for told in outcomes.values()):
        GROUPS.append(group)
    else:
        group.give_up("no process group came about")
    return _answer(group, outcome, outcomes)


def _formed(group: Group) -> dict[str, object]:
    backend = BACKENDS[group.device.kind]
    group.form(backend)
    return {"backend": backend, "world": group.world, "types": list(group.types)}


def _outcome(work: Callable[[], object]) -> dict[str, Any]:
    begun = time.perf_counter()
    told: dict[str, Any] = {"state": "done"}
    try:
        told["value"] = work()
    except BaseException as error:  # noqa: BLE001 - whatever the examined code raises
        told["state"] = state_of(error)
        told["chain"] = chain(error)
    told["seconds"] = round(time.perf_counter() - begun, 4)
    return told


def _answer(
    group: Group, own: dict[str, Any], outcomes: dict[int, dict[str, Any]]
) -> dict[str, object]:
    """What the ranks said; of ranks that answer to their own starter, only one's own."""
    if group.device.options["local"] or group.rank:
        return {"outcomes": {group.name(group.rank): own}, "silent": []}
    silent = sorted(set(range(group.world)).difference(outcomes))
    return {
        "outcomes": {group.name(rank): told for rank, told in sorted(outcomes.items())},
        "silent": [group.name(rank) for rank in silent],
    }


def _try_again(name: str, group: Group) -> None:
    """After an error, see whether the ranks still work together."""
    group.begin(group.limit)

    def probe() -> None:
        alive(group.device)
        value = group.tensor(group.device.torch.full((4,), float(group.rank)))
        if "broadcast" in name:
            parts = [group.empty(4) for _ in range(group.world)]
            group.dist.all_gather(parts, value)
            value = parts[0]
        else:
            group.dist.broadcast(value, 0)
        if value.cpu().tolist() != [0.0] * 4:
            raise ArithmeticError("what rank 0 sends arrives as something else")

    answers = group.exchange(_outcome(probe)["state"])
    if len(answers) < group.world or set(answers.values()) != {"done"}:
        group.give_up(f"the process group works no more after {name}")


# ---- results ---------------------------------------------------------------------------------


def exact(run: Run, group: Group) -> dict[str, object]:
    """A collective in each type, on small and larger blocks."""
    types: dict[str, dict[str, object]] = {}
    failed: Exception | None = None
    for dtype in TYPES:
        if dtype not in group.types:
            types[dtype] = {"skipped": "not every rank's device computes with it"}
            continue
        error = None
        try:
            types[dtype] = _compared(
                [pair for block in BLOCKS for pair in run(group, dtype, block)]
            )
        except Skip:
            raise
        except Exception as caught:  # noqa: BLE001 - whatever the backend raises
            error = caught
            group.failed = group.failed or time.perf_counter()
            types[dtype] = {"error": chain(caught)[-1]}
            if group.device.kind == "cpu" and _unsupported(caught):
                types[dtype] = {"skipped": text(caught)}
        answers = group.exchange(error is None)
        if len(answers) < group.world or len(set(answers.values())) > 1:
            if error is not None:
                raise error
            break
        failed = failed or error
    if failed is not None and all("error" in told for told in types.values()):
        raise failed
    group.failed = 0.0
    return {"types": types}


def _unsupported(error: Exception) -> bool:
    """Whether gloo says that it never does this."""
    words = text(error).lower()
    return "invalid scalar type" in words or "support" in words


def _compared(pairs: list[tuple[Any, Any]]) -> dict[str, object]:
    elements = wrong = 0
    first: list[object] | None = None
    for found, wanted in pairs:
        there = found.cpu()
        differs = there != wanted.to(there.dtype)
        elements += len(there)
        count = int(differs.sum())
        if count and first is None:
            at = int(differs.nonzero()[0])
            first = [at, float(there[at]), float(wanted[at])]
        wrong += count
    return {"elements": elements, "wrong": wrong, "first": first}


def _all_reduce(group: Group, dtype: str, block: int) -> list[tuple[Any, Any]]:
    value = group.tensor(group.summand(group.rank, block), dtype)
    group.dist.all_reduce(value)
    return [(value, group.total(block))]


def _broadcast(group: Group, dtype: str, block: int) -> list[tuple[Any, Any]]:
    pairs: list[tuple[Any, Any]] = []
    for root in sorted({0, group.world - 1}):
        value = group.tensor(group.label(group.rank, block), dtype)
        group.dist.broadcast(value, root)
        pairs.append((value, group.label(root, block)))
    return pairs


def _all_gather(group: Group, dtype: str, block: int) -> list[tuple[Any, Any]]:
    own = group.tensor(group.label(group.rank, block), dtype)
    wanted = [group.label(rank, block) for rank in range(group.world)]
    parts = [group.empty(block, dtype) for _ in wanted]
    group.dist.all_gather(parts, own)
    whole = group.empty(block * group.world, dtype)
    group.dist.all_gather_into_tensor(whole, own)
    return [*zip(parts, wanted), (whole, group.device.torch.cat(wanted))]


def _reduce_scatter(group: Group, dtype: str, block: int) -> list[tuple[Any, Any]]:
    elements = block * group.world
    given = group.tensor(group.summand(group.rank, elements), dtype)
    part = group.empty(block, dtype)
    group.dist.reduce_scatter_tensor(part, given)
    wanted = group.total(elements)[group.rank * block : (group.rank + 1) * block]
    return [(part, wanted)]


def _all_to_all(group: Group, dtype: str, block: int) -> list[tuple[Any, Any]]:
    cat, ranks = group.device.torch.cat, range(group.world)
    given = group.tensor(cat([group.label(group.rank, block, to) for to in ranks]), dtype)
    found = group.empty(block * group.world, dtype)
    group.dist.all_to_all_single(found, given)
    return [(found, cat([group.label(source, block, group.rank) for source in ranks]))]


def _send(group: Group, dtype: str, block: int) -> list[tuple[Any, Any]]:
    """To the next rank, and from the one before; every second rank begins by sending."""
    if group.world == 1:
        raise Skip("there is no other rank")
    after, before = (group.rank + 1) % group.world, (group.rank - 1) % group.world
    given = group.tensor(group.label(group.rank, block, after), dtype)
    found = group.empty(block, dtype)
    for sends in (group.rank % 2 == 0, group.rank % 2 == 1):
        if sends:
            group.dist.send(given, after)
        else:
            group.dist.recv(found, before)
    return [(found, group.label(before, block, group.rank))]


COLLECTIVES: dict[str, Run] = {
    "broadcast": _broadcast,
    "all-reduce": _all_reduce,
    "all-gather": _all_gather,
    "reduce-scatter": _reduce_scatter,
    "all-to-all": _all_to_all,
}


def barrier(group: Group) -> dict[str, object]:
    """Who passes a barrier finds that all ranks have come to it; the last one comes late."""
    if group.rank == group.world - 1:
        time.sleep(0.1)
    group.reach("barrier")
    group.dist.barrier()
    group.device.synchronize()
    others = (rank for rank in range(group.world) if not group.has_reached("barrier", rank))
    return {"passed before": list(others)}


# ---- figures ---------------------------------------------------------------------------------


def _starter(name: str, group: Group, block: int) -> Callable[..., Any]:
    """A collective of whole tensors, ready to be called; it does not wait with ``async_op``."""
    dist, elements = group.dist, block * group.world
    whole, other, part = group.empty(elements), group.empty(elements), group.empty(block)
    starters: dict[str, Callable[..., Any]] = {
        "broadcast": partial(dist.broadcast, whole, 0),
        "all-reduce": partial(dist.all_reduce, whole),
        "all-gather": partial(dist.all_gather_into_tensor, whole, part),
        "reduce-scatter": partial(dist.reduce_scatter_tensor, part, whole),
        "all-to-all": partial(dist.all_to_all_single, other, whole),
    }
    return starters[name]


def _carried(name: str, world: int) -> float:
    """What a link carries of each byte, as nccl-tests counts it for the bus bandwidth."""
    share = (world - 1) / world
    return {"broadcast": 1.0, "all-reduce": 2 * share}.get(name, share)


def _free_bytes(device: Device) -> int:
    if device.kind == "cpu":
        return 64 << 30  # not what limits a CPU's time here
    return int(device.module.mem_get_info(device.ordinal)[0])


def sizes(name: str, group: Group) -> dict[str, object]:
    """Seconds and bus bandwidth of one call per size, in float32, and whether it is right."""
    rows: list[dict[str, object]] = []
    free = group.exchange(_free_bytes(group.device))
    largest = min(group.device.options["largest"], *(have // TENSORS for have in free.values()))
    for size in SIZES:
        if size > largest:
            break
        block = max(size // 4 // group.world, 1)
        told = _compared(COLLECTIVES[name](group, "float32", block))
        start = _starter(name, group, block)
        calls = MANY if size <= 1 << 20 else FEW
        group.begin(group.limit)
        group.exchange("")
        group.device.synchronize()
        begun = time.perf_counter()
        pending = [start(async_op=True) for _ in range(calls)]
        group.device.synchronize()
        for work in pending:
            work.wait()
        answers = group.exchange((time.perf_counter() - begun) / calls)
        seconds = max(answers.values())
        rate = _carried(name, group.world) * block * group.world * 4 / seconds
        figures = {"bytes": block * group.world * 4, "seconds": seconds, "bus": rate}
        rows.append({**figures, "wrong": told["wrong"], "first": told["first"]})
        if len(answers) < group.world or seconds * 4 > LONGEST_CALL:
            break
    return {"sizes": rows, "unit": "bytes a second"}


def pairs(group: Group) -> dict[str, object]:
    """Bytes a second between this rank and each later one, one pair after the other."""
    if group.world == 1:
        raise Skip("there is no other rank")
    if group.world > MOST_RANKS_IN_PAIRS:
        raise Skip(f"{group.world} ranks have too many pairs")
    value = group.empty(PAIR_BYTES // 4)
    found: dict[str, float] = {}
    for one in range(group.world):
        for other in range(one + 1, group.world):
            if group.rank not in {one, other}:
                continue
            times = [_round_trip(group, value, one, other) for _ in range(1 + ROUND_TRIPS)]
            if group.rank == one:
                found[str(other)] = 2 * PAIR_BYTES / min(times[1:])
    return {"to": found, "bytes": PAIR_BYTES}


def _round_trip(group: Group, value: Any, one: int, other: int) -> float:  # noqa: ANN401
    begun = time.perf_counter()
    if group.rank == one:
        group.dist.send(value, other)
        group.dist.recv(value, other)
    else:
        group.dist.recv(value, one)
        group.dist.send(value, one)
    group.device.synchronize()
    return time.perf_counter() - begun


# ---- training --------------------------------------------------------------------------------


def _batch(group: Group, rank: int) -> Any:  # noqa: ANN401 - tensors
    """Small whole numbers: all sums that follow are exact."""
    place = group.device.torch.arange(32)
    return ((place * (rank + 3) % 5) - 2).reshape(4, 8)


def _weights(group: Group) -> list[Any]:
    place = group.device.torch.arange(64)
    return [((place * 7 % 5) - 2).reshape(8, 8), ((place[:32] * 3 % 7) - 3).reshape(4, 8)]


def _reference(group: Group) -> list[Any]:
    """The mean over all ranks of the gradients, as one device has them."""
    functional = group.device.torch.nn.functional
    weights = [group.tensor(value).requires_grad_() for value in _weights(group)]
    for rank in range(group.world):
        inner = group.tensor(_batch(group, rank)) @ weights[0].t()
        (functional.relu(inner) @ weights[1].t()).sum().backward()
    return [weight.grad.cpu() / group.world for weight in weights]


def _against(found: list[Any], wanted: list[Any], group: Group) -> dict[str, object]:
    """Each rank's share is rounded once before it is added, and exact for powers of two."""
    largest = max(float(value.abs().max()) for value in wanted)
    exactly = group.world & (group.world - 1) == 0
    pairs = list(zip(found, wanted))
    finite = all(bool(one.isfinite().all()) for one, _ in pairs)
    error = max(float((one - other).abs().max()) for one, other in pairs) if finite else None
    return {
        "error": error,
        "tolerance": 0.0 if exactly else group.world * 2.0**-23 * largest,
        "largest": largest,
    }


def averaged(group: Group) -> dict[str, object]:
    """Gradients of each rank's own batch, averaged by hand."""
    weights = [group.tensor(value).requires_grad_() for value in _weights(group)]
    functional = group.device.torch.nn.functional
    inner = group.tensor(_batch(group, group.rank)) @ weights[0].t()
    (functional.relu(inner) @ weights[1].t()).sum().backward()
    for weight in weights:
        group.dist.all_reduce(weight.grad)
    found = [weight.grad.cpu() / group.world for weight in weights]
    return _against(found, _reference(group), group)


def parallel(group: Group) -> dict[str, object]:
    """The same by DistributedDataParallel."""
    torch = group.device.torch
    # Its import takes seconds, and it is none of the collectives' that have to be back by then.
    group.begin(group.limit + 60)
    try:
        importlib.import_module("torch._dynamo")
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if missing != "torch._dynamo":  # which an older torch does without
            raise Skip(f"DistributedDataParallel needs {missing}, which is not installed") from None
    linear = torch.nn.Linear
    model = torch.nn.Sequential(
        linear(8, 8, bias=False), torch.nn.ReLU(), linear(8, 4, bias=False)
    ).to(group.device.name)
    parameters = list(model.parameters())
    with torch.no_grad():
        for parameter, value in zip(parameters, _weights(group)):
            parameter.copy_(group.tensor(value))
    trained = torch.nn.parallel.DistributedDataParallel(model)
    trained(group.tensor(_batch(group, group.rank))).sum().backward()
    found = [parameter.grad.cpu() for parameter in parameters]
    return _against(found, _reference(group), group)


def mixed(group: Group) -> dict[str, object]:
    """One process group for tensors of the device and of the CPU."""
    kind, torch = group.device.kind, group.device.torch
    if kind == "cpu":
        raise Skip("the CPU has one backend only")
    if not hasattr(group.dist.Backend, "backend_capability"):
        raise Skip(f"torch {torch.__version__} has one backend a group")
    backend = f"cpu:gloo,{kind}:{BACKENDS[kind]}"
    group.form(backend)
    block = BLOCKS[0]
    value = group.summand(group.rank, block).float()
    group.dist.all_reduce(value)
    there = group.tensor(group.summand(group.rank, block))
    group.dist.all_reduce(there)
    wanted = group.total(block)
    return {
        "backend": backend,
        "types": {
            "float32 on the CPU": _compared([(value, wanted)]),
            "float32": _compared([(there, wanted)]),
        },
    }


def _add(name: str, work: Callable[[Group], object], level: str = "default") -> None:
    step = f"collectives: {name}"
    register(step, partial(beside, name, work), level=level, where="rank")


register(FIRST, form, level="default", where="rank")
_add("barrier", barrier)
for _name, _run in COLLECTIVES.items():
    _add(_name, partial(exact, _run))
_add("send and receive", partial(exact, _send))
_add("gradients averaged by hand", averaged)
for _name in COLLECTIVES:
    _add(f"{_name} by size", partial(sizes, _name))
_add("pairs", pairs, "deep")
_add("DistributedDataParallel", parallel)
_add("both backends", mixed)
