"""Whether the devices compute together: collectives of all ranks, adapters between hosts."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import cast

from musadoctor.api import (
    Absent,
    ComponentLibrary,
    Environment,
    Finding,
    Fix,
    Gpus,
    Judgement,
    Layer,
    Rdma,
    RdmaPort,
    Step,
    Steps,
    Unknown,
    check,
)
from musadoctor_checks._advice import some
from musadoctor_checks.collectives import WITH_MCCL
from musadoctor_checks.verify._steps import number, rows, size, speed, texts

FAMILY = "collectives: "
GROUP = f"{FAMILY}group"
TRAINING = (f"{FAMILY}gradients averaged by hand", f"{FAMILY}DistributedDataParallel")
FAILED = {"failed", "missing", "out of memory"}
LOST = {"hung", "crashed"}
FAR = 3
"""A pair is slow where it moves less than the median of all pairs by this factor."""
LEAST_PAIRS = 6
"""Of four ranks: with fewer pairs, none of them can be called the odd one."""
ROCE_V2 = "RoCE v2"
GID_INDEX = "MCCL_IB_GID_INDEX"
GID_WANTED = 3
"""What MCCL needs for RoCE on the S5000 (MUSA SDK 5.2.0 install guide, 2026)."""
CRASHING_ALGORITHM = "2.1.5"
"""The MCCL that crashed in every run with MCCL_ALGO set (S5000, Toolkit 4.3.5, 2026-07)."""
DEBUG = "MCCL_DEBUG=INFO musadoctor verify --select collectives"


def _by_name(steps: Steps) -> dict[str, list[Step]]:
    """The ranks' steps, by the name of the step."""
    found: dict[str, list[Step]] = {}
    for step in steps.of(FAMILY):
        found.setdefault(step.name, []).append(step)
    return found


def _task(name: str) -> str:
    return name.removeprefix(FAMILY)


def _rank(step: Step) -> str:
    """``rank 3 (musa:3)``."""
    word, number_, *rest = f"{step.device} ".split(" ", 2)
    place = " ".join(rest).strip()
    return f"{word} {number_} ({place})" if place else step.device


def _ranks(steps: Sequence[Step], of: Sequence[Step]) -> str:
    """Some of the ranks, or all of them."""
    if len(steps) == len(of) > 1:
        return f"all {len(of)} ranks"
    return some([_rank(step) for step in steps])


def _unjudged(rank_steps: Steps, states: set[str]) -> Iterator[Unknown]:
    """The steps in these states, by what kept them."""
    found: dict[str, dict[str, None]] = {}
    for step in rank_steps.of(FAMILY):
        if step.state in states:
            found.setdefault(step.message or step.state, {})[_task(step.name)] = None
    for reason, tasks in found.items():
        yield Unknown(f"{some(list(tasks))}: {reason}")


# ---- ranks that are lost ---------------------------------------------------------------------


@check("rank-stalls", layer=Layer.COLLECTIVES, severity="error")
def rank_stalls(rank_steps: Steps) -> Judgement:
    """A rank does not come back from a collective.

    ## Why it matters

    All other ranks wait for it. A training run stands still until the timeout of its process group,
    half an hour by default, and the error then names the rank that waited, not the one that
    stalled.

    ## How to fix

    Look at the named card first: the kernel log, `mthreads-gmi`, MTLink. Where all ranks stall, it
    is no single card but the way between them: run again with `MCCL_DEBUG=INFO`.

    ## Symptoms

    - `Watchdog caught collective operation timeout`
    - `Timed out waiting`

    ## Sources

    torch_musa issues 22 and 75: cards that hang, MCCL that stalls.
    """
    for name, steps in _by_name(rank_steps).items():
        hung = [step for step in steps if step.state == "hung"]
        if hung:
            waited = len(steps) - len(hung)
            others = f"; {waited} of {len(steps)} ranks waited in vain" if waited else ""
            told = f"{_ranks(hung, steps)} did not come back: {hung[0].message}"
            yield Finding(
                f"{_task(name)}: {told}{others}",
                where=hung[0].device,
                fix=Fix("See what the kernel says of that card, and what MCCL says", (DEBUG,)),
            )
    yield from _unjudged(rank_steps, {"not taken"})


@check("rank-dies", layer=Layer.COLLECTIVES, severity="error")
def rank_dies(
    rank_steps: Steps,
    environment: Environment | Unknown,
    mccl: ComponentLibrary | Absent | Unknown,
) -> Judgement:
    """A rank's process ends in a collective.

    ## Why it matters

    The ranks that are left wait for it or fail with errors of the network, which hide the cause.

    ## How to fix

    Unset `MCCL_ALGO` where it is set. Else run the named step on that card alone
    (`musadoctor verify --devices N`): if the card computes by itself, look at MCCL and at the links
    between the cards.

    ## Symptoms

    - `Connection closed by peer`
    - `Segmentation fault`

    ## Sources

    S5000 measurements with Toolkit 4.3.5 and MCCL 2.1.5 (2026-07): with `MCCL_ALGO=Ring` or `Tree`
    24 of 24 runs ended by SIGSEGV.
    """
    algorithm = None if isinstance(environment, Unknown) else environment.get("MCCL_ALGO")
    for name, steps in _by_name(rank_steps).items():
        stalled = any(step.state == "hung" for step in steps)
        # Its own watchdog ends a rank that has waited long enough for another one.
        dead = [
            step
            for step in steps
            if step.state == "crashed" and not (stalled and "SIGABRT" in step.message)
        ]
        if not dead:
            continue
        message = f"{_task(name)}: the process of {_ranks(dead, steps)} ended: {dead[0].message}"
        fix = Fix("See what MCCL says before it ends", (DEBUG,))
        if algorithm is not None:
            here = f"; this host has {mccl}" if isinstance(mccl, ComponentLibrary) else ""
            message += (
                f"; MCCL_ALGO={algorithm} is set, with which every run crashed on MCCL"
                f" {CRASHING_ALGORITHM}{here}"
            )
            fix = Fix("Unset MCCL_ALGO", ("unset MCCL_ALGO",))
        yield Finding(message, where=dead[0].device, fix=fix)
    yield from _unjudged(rank_steps, {"not taken"})


# ---- errors and wrong results ----------------------------------------------------------------


@check("collective-fails", layer=Layer.COLLECTIVES, severity="error")
def collective_fails(rank_steps: Steps, visible_devices: Steps | Absent | Unknown) -> Judgement:
    """A collective raises an error.

    ## Why it matters

    Training on several cards needs it. Where one rank raises, the others wait for it in vain and
    report a timeout: the finding names the rank that failed first.

    ## How to fix

    Run `musadoctor` first: an MCCL that does not belong to the Toolkit shows there. Then run again
    with `MCCL_DEBUG=INFO`, whose last lines name the call that failed. One type alone, as
    bfloat16, is avoided by casting until MCCL has it.

    ## Symptoms

    - `MCCL error`
    - `unhandled system error`
    - `torch.distributed knows no backend "mccl"`

    ## Sources

    Measured on this host.
    """
    for name, steps in _by_name(rank_steps).items():
        failed = sorted((s for s in steps if s.state in FAILED), key=lambda step: step.seconds)
        if any(step.state in LOST for step in steps):
            continue  # the others' errors are due to the rank that was lost
        if name == GROUP and failed and all(step.state == "missing" for step in steps):
            yield from _no_backend(steps, visible_devices)
        elif failed:
            yield Finding(
                f"{_task(name)} fails on {_failures(failed, steps)}",
                where=failed[0].device,
                fix=Fix("See which call of MCCL's fails", (DEBUG,)),
            )
        for told, kinds in _type_errors(steps).items():
            yield Finding(
                f"{_task(name)} of {', '.join(kinds)} fails on {told}",
                fix=Fix("Use another type for it, until MCCL has this one"),
            )
    yield from _unjudged(rank_steps, {"not taken"})


def _no_backend(steps: list[Step], visible: Steps | Absent | Unknown) -> Judgement:
    listed = rows(visible.items[0].value, "devices") if isinstance(visible, Steps) else []
    names = list(dict.fromkeys(str(device.get("name")) for device in listed))
    if len(steps) == 1:
        yield Absent(f"one device needs no collectives, and {steps[0].message}")
    elif names and not any(model in name for name in names for model in WITH_MCCL):
        yield Absent(f"the vendor supplies no MCCL for {', '.join(names)}")
    else:
        yield Finding(
            f"{len(steps)} devices cannot work together: {steps[0].message}",
            fix=Fix("See what musadoctor says of MCCL and torch_musa", ("musadoctor",)),
        )


def _failures(failed: list[Step], steps: list[Step]) -> str:
    """The rank that failed first, and what the others said afterwards."""
    first = failed[0]
    same = [step for step in failed if step.message == first.message]
    told = f"{_ranks(same, steps)}: {first.message}"
    others = [step for step in failed if step.message != first.message]
    for step in others[:1]:
        told += f"; afterwards on {_ranks(others, steps)}: {step.message}"
    return told


def _type_errors(steps: list[Step]) -> dict[str, list[str]]:
    """The types that failed, by ranks and error."""
    ranks: dict[tuple[str, str], list[Step]] = {}
    for step in steps:
        for kind, told in _types(step).items():
            if isinstance(error := told.get("error"), str):
                ranks.setdefault((kind, error), []).append(step)
    found: dict[str, list[str]] = {}
    for (kind, error), failed in ranks.items():
        found.setdefault(f"{_ranks(failed, steps)}: {error}", []).append(kind)
    return found


def _types(step: Step) -> dict[str, Mapping[str, object]]:
    """What a step found, by type or by size."""
    told = step.value.get("types")
    found = {size(number(row, "bytes") or 0): row for row in rows(step.value, "sizes")}
    if isinstance(told, dict):
        found.update(cast("Mapping[str, Mapping[str, object]]", told))
    return found


@check("collective-result-wrong", layer=Layer.COLLECTIVES, severity="error")
def collective_result_wrong(rank_steps: Steps) -> Judgement:
    """A collective ends without an error, and its result is wrong.

    ## Why it matters

    Nothing stops. Ranks train with different gradients or different weights, and the loss leaves
    its curve hours later.

    ## How to fix

    Where one rank alone is wrong, take its card out and look at its links and memory. Where all are
    wrong, the MCCL is: take the one that belongs to the Toolkit.

    ## Sources

    The values are whole numbers below 256, which int32, float32, float16 and bfloat16 hold exactly,
    and so do all their sums: there is no tolerance.
    """
    for name, steps in _by_name(rank_steps).items():
        early = [step for step in steps if step.value.get("passed before")]
        if early:
            late = some([f"rank {rank}" for rank in texts(early[0].value, "passed before")])
            yield Finding(
                f"{_task(name)} lets {_ranks(early, steps)} pass before {late} has come to it",
                where=early[0].device,
                fix=Fix("See which MCCL belongs to the Toolkit", ("musadoctor",)),
            )
        for (told, example), kinds in _wrong(steps).items():
            yield Finding(
                f"{_task(name)} gives wrong results on {told} in {some(kinds, 5)}: {example}",
                fix=Fix("See which MCCL belongs to the Toolkit", ("musadoctor",)),
            )
    yield from _unjudged(rank_steps, {"not taken", *FAILED, *LOST})


def _wrong(steps: list[Step]) -> dict[tuple[str, str], list[str]]:
    """Types or sizes with wrong results, by the ranks that have them, with an example."""
    ranks: dict[str, list[Step]] = {}
    for step in steps:
        for kind, told in _types(step).items():
            if number(told, "wrong"):
                ranks.setdefault(kind, []).append(step)
    found: dict[tuple[str, str], list[str]] = {}
    examples: dict[str, str] = {}
    for kind, wrong in ranks.items():
        where = _ranks(wrong, steps)
        example = examples.setdefault(where, _example(_types(wrong[0])[kind]))
        found.setdefault((where, example), []).append(kind)
    return found


def _example(told: Mapping[str, object]) -> str:
    at, seen, wanted = cast("list[float | str]", told["first"])
    count = number(told, "wrong") or 0
    values = f"{float(seen):g} instead of {float(wanted):g}"
    return f"{count:.0f} elements, the first one at {at}, {values}"


@check("ddp-gradients-differ", layer=Layer.COLLECTIVES, severity="error")
def ddp_gradients_differ(rank_steps: Steps) -> Judgement:
    """Gradients that the ranks average differ from those of one device.

    ## Why it matters

    Data-parallel training is equal to training on one device with the larger batch; where it is
    not, the ranks' weights drift apart.

    ## How to fix

    Compare the rank that is named with the others: its own computation
    (`musadoctor verify --devices N`) and its links.

    ## Sources

    The weights and inputs are small whole numbers, so that all sums are exact: no difference is
    tolerated where the number of ranks is a power of two, else one rounding of each rank's share
    (2^-23 of the largest gradient).
    """
    names = _by_name(rank_steps)
    summing = names.get(f"{FAMILY}all-reduce", [])
    if _wrong(summing):
        yield Unknown("all-reduce itself gives wrong results, by which gradients are averaged")
        return
    for name in TRAINING:
        steps = names.get(name, [])
        for step in steps:
            error, most = number(step.value, "error"), number(step.value, "tolerance")
            if step.state != "done" or (error is not None and most is not None and error <= most):
                continue
            much = "are not finite" if error is None else f"differ by {error:g}"
            yield Finding(
                f"{_task(name)}: gradients on {_rank(step)} {much} from those of one device"
                f" (largest {number(step.value, 'largest'):g}, tolerance {most:g})",
                where=step.device,
                fix=Fix("See whether that device computes rightly by itself"),
            )
        for words in dict.fromkeys(
            step.message or step.state for step in steps if step.state not in {"done", "skipped"}
        ):
            yield Unknown(f"{_task(name)}: {words}")


# ---- figures ---------------------------------------------------------------------------------


@check("collective-pair-slow", layer=Layer.COLLECTIVES, severity="note")
def collective_pair_slow(rank_steps: Steps) -> Judgement:
    """Two ranks exchange data much slower than the other pairs do.

    ## Why it matters

    Rings and trees over all cards run at the speed of their slowest link.

    ## How to fix

    Compare the pair in `mthreads-gmi topo -m` and the links in `mthreads-gmi mtlink -s`. Cards of
    different sockets may be slower by the way they are built.

    ## Sources

    Measured on this host by `--deep`, with 8 MiB there and back, the best of three: less than a
    third of the median of all pairs. With fewer than four ranks no pair can be called odd.
    """
    speeds = [
        (step, other, rate)
        for step in rank_steps.of(f"{FAMILY}pairs")
        for other, rate in _rates(step).items()
    ]
    if len(speeds) < LEAST_PAIRS:
        yield Absent(
            f"{len(speeds)} pairs were measured, fewer than the {LEAST_PAIRS} of four ranks"
        )
        return
    usual = median(rate for _, _, rate in speeds)
    for step, other, rate in speeds:
        if rate * FAR < usual:
            yield Finding(
                f"{_rank(step)} and rank {other} exchange {speed(rate)}, the median of"
                f" {len(speeds)} pairs is {speed(usual)}",
                where=step.device,
                fix=Fix("Compare the links of the two", ("mthreads-gmi topo -m",)),
            )


def _rates(step: Step) -> dict[str, float]:
    told = step.value.get("to")
    return cast("dict[str, float]", told) if isinstance(told, dict) else {}


@check("collectives-of-one-rank", layer=Layer.COLLECTIVES, severity="note")
def collectives_of_one_rank(rank_steps: Steps) -> Judgement:
    """There was one device only, so that the collectives say nothing of links.

    ## Why it matters

    A group of one starts and computes without sending anything.

    ## How to fix

    Nothing on a host with one card. Else make all cards visible: `MUSA_VISIBLE_DEVICES`,
    `--devices`.
    """
    steps = list(rank_steps.of(GROUP))
    if len(steps) == 1 and steps[0].state == "done":
        yield Finding(f"the group had one rank, {_rank(steps[0])}")


# ---- between hosts ---------------------------------------------------------------------------


def _roce(rdma: Rdma) -> list[RdmaPort]:
    return [p for p in rdma.ports if p.state == "ACTIVE" and p.link_layer == "Ethernet"]


def _entry(port: RdmaPort, index: int) -> str:
    """The type of an entry in a port's table; empty for one that is not in use or was not read."""
    return port.gid_types[index] if index < len(port.gid_types) else ""


@check("roce-gid-index-unset", layer=Layer.COLLECTIVES, severity="warning")
def roce_gid_index_unset(rdma: Rdma, gpus: Gpus, environment: Environment) -> Judgement:
    """MCCL is not told which address of the RoCE adapter to use.

    ## Why it matters

    On the S5000 MCCL needs `MCCL_IB_GID_INDEX=3` for RoCE. Without it ranks of different hosts do
    not reach each other through these adapters.

    ## How to fix

    Set `MCCL_IB_GID_INDEX=3` on all hosts, or another entry of the adapters' tables that is of the
    type RoCE v2. On a single host nothing needs it.

    ## Sources

    MUSA SDK 5.2.0 install guide (2026).
    """
    ports = _roce(rdma)
    if "MTT S5000" not in gpus.products or not ports or environment.get(GID_INDEX):
        return
    other = [port for port in ports if _entry(port, GID_WANTED) != ROCE_V2]
    message = f"{GID_INDEX} is not set; active RoCE ports: {some([str(port) for port in ports])}"
    if other:
        message += (
            f"; not of the type {ROCE_V2} is entry {GID_WANTED} of {some(list(map(str, other)))}"
        )
        fix = Fix(f"Choose an entry of the type {ROCE_V2}, which are in {rdma.source}")
    else:
        set_it = f"export {GID_INDEX}={GID_WANTED}"
        fix = Fix(f"Set it to {GID_WANTED}, on all hosts", (set_it,))
    yield Finding(message, where=GID_INDEX, fix=fix)


@check("roce-gid-index-wrong", layer=Layer.COLLECTIVES, severity="warning")
def roce_gid_index_wrong(rdma: Rdma, environment: Environment) -> Judgement:
    """MCCL_IB_GID_INDEX names an address that is not of the type RoCE v2.

    ## Why it matters

    RoCE v1 is not routed, and an entry that is not in use reaches nobody.

    ## How to fix

    Choose an entry whose type is RoCE v2; the order in the table is that in which the addresses of
    the network interface came.

    ## Sources

    Linux, sysfs-class-infiniband; MUSA SDK 5.2.0 install guide (2026) for the index 3.
    """
    value = environment.get(GID_INDEX)
    ports = _roce(rdma)
    if not value or not ports:
        return
    if not value.isdecimal():
        yield Finding(f"{GID_INDEX}={value} is no number", where=GID_INDEX, fix=Fix("Set it to 3"))
        return
    index = int(value)
    for port in ports:
        if index >= len(port.gid_types):
            yield Unknown(f"entry {index} of {port} was not read")
        elif (found := _entry(port, index)) != ROCE_V2:
            right = [str(n) for n, kind in enumerate(port.gid_types) if kind == ROCE_V2]
            yield Finding(
                f"{GID_INDEX}={value}, but entry {index} of {port} is"
                f" {f'of the type {found}' if found else 'not in use'}; {ROCE_V2}:"
                f" {some(right, 8) or 'none'}",
                where=GID_INDEX,
                fix=Fix("Choose an entry of that type that all hosts have"),
            )


@check("rdma-port-down", layer=Layer.COLLECTIVES, severity="note")
def rdma_port_down(rdma: Rdma) -> Judgement:
    """A port of an RDMA adapter is not active.

    ## Why it matters

    MCCL does not use it. Where the ranks of other hosts have one more port, traffic is uneven.

    ## How to fix

    Connect it, or leave it out of `MCCL_IB_HCA`.

    ## Sources

    Linux, sysfs-class-infiniband.
    """
    for port in rdma.ports:
        if not port.state:
            yield Unknown(f"the state of {port} cannot be read")
        elif port.state != "ACTIVE":
            layer = f" ({port.link_layer})" if port.link_layer else ""
            link = f", link {port.physical}" if port.physical else ""
            yield Finding(f"{port}{layer} is {port.state}{link}", where=port.device)


@check("rdma-far-from-cards", layer=Layer.COLLECTIVES, severity="note")
def rdma_far_from_cards(rdma: Rdma, gpus: Gpus) -> Judgement:
    """Cards have no active RDMA adapter on their own NUMA node.

    ## Why it matters

    What they send to other hosts crosses to the other processor first.

    ## How to fix

    Put an adapter into a slot of that processor. On hosts with eight S5000 cards 0 to 3 are on node
    0, cards 4 to 7 on node 1.

    ## Sources

    sysfs `numa_node`; S5000 hosts (2026).
    """
    near = {device.numa_node for device in rdma.active}
    if not near or None in near:
        return
    for node in sorted({c.numa_node for c in gpus.cards if c.numa_node is not None} - near):
        cards = [card.address for card in gpus.cards if card.numa_node == node]
        adapters = [f"{device.name} on node {device.numa_node}" for device in rdma.active]
        yield Finding(
            f"no active RDMA adapter on NUMA node {node}, where {some(cards)} are: {some(adapters)}"
        )


@check("peer-memory-module-missing", layer=Layer.COLLECTIVES, severity="warning")
def peer_memory_module_missing(rdma: Rdma, gpus: Gpus) -> Judgement:
    """The module by which RDMA adapters reach the cards' memory is not loaded.

    ## Why it matters

    GPUDirect RDMA needs `mt_peermem` (or `mthreads-peermem`). Without it data for other hosts goes
    through the host's memory.

    ## How to fix

    Load the module that the driver package brings, and have it loaded at each start of the machine.
    On a single host nothing needs it.

    ## Sources

    MUSA SDK 5.2.0 install guide (2026); musa-deploy 0.7.0 (2025-08).
    """
    if rdma.peer_memory is None and rdma.active:
        names = [device.name for device in rdma.active]
        yield Finding(
            f"neither mt_peermem nor mthreads-peermem is loaded, with {some(names)} active and"
            f" {gpus}",
            where="/sys/module",
            fix=Fix("Load the one that the driver package brings, by modprobe under sudo"),
        )
