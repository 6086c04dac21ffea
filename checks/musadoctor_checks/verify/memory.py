"""Memory of the devices, and copies between them and the host."""

from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import median

from musadoctor.api import (
    Absent,
    Environment,
    Finding,
    Fix,
    Gpu,
    Gpus,
    Judgement,
    Layer,
    PcieLink,
    Step,
    Steps,
    Topology,
    Unknown,
    check,
)
from musadoctor_checks._advice import BUG_REPORT, some
from musadoctor_checks.verify._steps import (
    done,
    grouped,
    number,
    size,
    speed,
    texts,
    unanswered,
)

TOTALS, FILL, PEAK = "memory: totals", "memory: fill", "memory: peak figures"
HOST, DEVICE = "memory: host copies", "memory: device copies"
WAYS = {"to_device": "host to device", "to_host": "device to host"}
PLAUSIBLE = 0.9
"""Share of the product's memory below which the size is wrong; ECC may take a little of it."""
OF_LINK = 0.5
"""Share of a PCIe link's figure below which a copy is too slow. Headers of packets with 128 to 512
bytes take 5 to 17 % of a link, and flow control some more: 0.7 and above is usual. A link that lost
half of its lanes or a generation gives less than 0.5."""
OF_OTHERS = 0.6
"""Share of the others' median below which a device is the odd one: half of the lanes gives 0.5, and
a NUMA node that is further away takes less than that."""
FEW = 0.25
"""Pairs are odd where they are fewer than this share; more of them are how the host is built, as
with two sockets, where at least half of the pairs cross."""
LEAST_TO_COMPARE = 3
"""Of two that differ, none is the odd one."""


@check("device-memory-fails", layer=Layer.DRIVER, severity="error")
def device_memory_fails(transfer_steps: Steps) -> Judgement:
    """Memory of a device cannot be used, or a copy between host and devices fails or hangs.

    ## Why it matters

    Training needs both. A pair of cards whose copy hangs is what stops eight cards that work alone.

    ## How to fix

    Look for the pair or card that all failures have in common. For pairs look at MTLink
    (`mthreads-gmi mtlink -s`) and at PCIe access control, which a host can switch off for direct
    copies (`pci=disable_acs_redir=...`); for one card at the kernel log, which `musadoctor` reads.

    ## Sources

    Each step runs in a process of its own with a limit. tutorial_on_musa (2024/2025) on PCIe access
    control.
    """
    told = list(transfer_steps.of("memory"))
    broken = [step for step in told if step.state not in {"done", "skipped", "not taken"}]
    for words, names in grouped(broken).items():
        yield Finding(
            f"{names}: {words}",
            where=names,
            fix=Fix("See whether musadoctor finds a cause below", ("musadoctor",)),
        )
    if not broken:
        yield from unanswered(transfer_steps, "memory")


@check("device-memory-less-than-product", layer=Layer.DRIVER, severity="warning")
def device_memory_less_than_product(transfer_steps: Steps, gpus: Gpus) -> Judgement:
    """torch sees less memory on a device than its product has.

    ## Why it matters

    Programs cannot use the rest. On the S4000, 32 GiB in place of 48 GiB is the sign that the IOMMU
    is off or not in effect, and `used` may then be larger than `total`.

    ## How to fix

    `musadoctor` judges the same from what `mthreads-gmi` shows, and says what to set on this host:
    see its checks `gpu-memory-misreported` and `iommu-off`. On a card that is shared (sGPU, vGPU)
    less memory is what was asked for.

    ## Sources

    tutorial_on_musa, environment FAQ item 5 (2024-11); product table of musa-deploy 0.7.0
    (2025-08).
    """
    yield from unanswered(transfer_steps, TOTALS)
    sizes = {card.product: card.memory_mib for card in gpus.cards}
    for step in done(transfer_steps, TOTALS):
        expected = sizes.get(str(step.value.get("name")))
        total = number(step.value, "properties_bytes")
        if expected and total is not None and total < expected * 2**20 * PLAUSIBLE:
            yield Finding(
                f"{step.device}: torch sees {total / 2**20:.0f} MiB, and {step.value['name']} has"
                f" {expected} MiB",
                where=step.device,
                fix=Fix(
                    "See what musadoctor says of gpu-memory-misreported and iommu-off on this host",
                    ("musadoctor", "musadoctor explain gpu-memory-misreported"),
                ),
            )


@check("free-memory-not-usable", layer=Layer.DRIVER, severity="warning")
def free_memory_not_usable(transfer_steps: Steps) -> Judgement:
    """A device refuses memory that it says is free.

    ## Why it matters

    A model that fits by the figures does not fit. Memory is asked for in 32 chunks, so one that is
    in pieces does not explain it.

    ## How to fix

    See whether another process took it meanwhile. A limit that only the card knows (sGPU,
    `MTHREADS_QOS_MEMORY_LIMIT`) and a wrong IOMMU setting show here too.

    ## Symptoms

    - `MUSA out of memory`

    ## Sources

    `torch.musa.mem_get_info` beside what could be allocated.
    """
    yield from unanswered(transfer_steps, FILL)
    for step in done(transfer_steps, FILL):
        refused = str(step.value.get("refused") or "")
        if refused:
            free = number(step.value, "free_before") or 0
            wanted = number(step.value, "wanted_bytes") or 0
            held = number(step.value, "allocated_bytes") or 0
            yield Finding(
                f"{step.device}: {size(free)} are said to be free, and of {size(wanted)} asked for"
                f" only {size(held)} are given: {refused}",
                where=step.device,
                fix=Fix("See whether another process uses the device", ("mthreads-gmi",)),
            )


@check("memory-not-given-back", layer=Layer.DRIVER, severity="warning")
def memory_not_given_back(transfer_steps: Steps) -> Judgement:
    """Memory that was freed does not come back.

    ## Why it matters

    Each run leaves less for the next one, until the first allocation fails.

    ## How to fix

    See whether another process took it meanwhile. If not, the rest is held by the driver: report it
    with the vendor's archive, and restart the host to have it back.

    ## Sources

    `torch.musa.mem_get_info` before and after; what is missing counts where it is at least half of
    one of the chunks that were allocated, which nothing smaller is.
    """
    yield from unanswered(transfer_steps, FILL)
    for step in done(transfer_steps, FILL):
        value = step.value
        before, after = number(value, "free_before"), number(value, "free_after")
        chunk = number(value, "chunk_bytes")
        if before is None or after is None or chunk is None:
            yield Unknown(f"{step.device}: the figures of its memory are not whole")
        elif before - after >= chunk / 2:
            reserved = number(value, "reserved_after")
            kept = "" if reserved is None else f"; torch holds {size(reserved)} of it"
            held = number(value, "allocated_bytes") or 0
            yield Finding(
                f"{step.device}: {size(before - after)} of {size(held)} that were freed are not"
                f" free again: {size(before)} before, {size(after)} after{kept}",
                where=step.device,
                fix=Fix("See whether another process uses the device", ("mthreads-gmi",)),
            )


@check("memory-content-wrong", layer=Layer.HARDWARE, severity="error")
def memory_content_wrong(transfer_steps: Steps) -> Judgement:
    """What was written to a device's memory is not what is read from it.

    ## Why it matters

    Nothing that is computed there can be trusted. Chunks that share memory show here too: the first
    then holds what was written to the second.

    ## How to fix

    Take the card out of use, gather the vendor's report, and look at the ECC counts of
    `mthreads-gmi -q`.

    ## Sources

    Two pages of each of 32 chunks over the free memory are written and read back.
    """
    yield from unanswered(transfer_steps, FILL)
    for step in done(transfer_steps, FILL):
        spoilt = texts(step.value, "spoilt")
        if spoilt:
            yield Finding(
                f"{step.device}: {len(spoilt)} chunks of"
                f" {size(number(step.value, 'chunk_bytes') or 0)} hold other numbers than were"
                f" written: chunk {some(spoilt)}",
                where=step.device,
                fix=Fix("Take the card out of use and gather the vendor's report", (BUG_REPORT,)),
            )


@check("copy-content-wrong", layer=Layer.HARDWARE, severity="error")
def copy_content_wrong(transfer_steps: Steps) -> Judgement:
    """A copy arrives with other bytes than were sent.

    ## Why it matters

    Weights and gradients are wrong after it, with no error.

    ## How to fix

    Of a pair: switch direct access off where the host allows it, and look at MTLink and at PCIe
    access control. Of one card: look at its seating and riser, and gather the vendor's report.

    ## Sources

    Bytes of which no four repeat, compared after a copy to the device and back, and from device to
    device.
    """
    if not any(done(transfer_steps, name) for name in (HOST, DEVICE)):
        yield from unanswered(transfer_steps, HOST)
    wrong = {
        f"{step.device.replace(' ', ' to ')}, {count:.0f} of {sent:.0f} bytes{how}": step.device
        for step in (*done(transfer_steps, HOST), *done(transfer_steps, DEVICE))
        for key, how in _WRONG.items()
        if (count := number(step.value, key)) and (sent := number(step.value, "bytes"))
    }
    for words, where in wrong.items():
        yield Finding(
            f"{words} are not those that were sent",
            where=where,
            fix=Fix("Gather the vendor's report", (BUG_REPORT,)),
        )


_WRONG = {
    "wrong_bytes": "",
    "wrong_bytes_pageable": " there and back",
    "wrong_bytes_pinned": " there and back by pinned memory",
}


@check("peak-memory-figures-wrong", layer=Layer.TORCH_MUSA, severity="note")
def peak_memory_figures_wrong(transfer_steps: Steps) -> Judgement:
    """The figures of peak memory do not follow what is allocated.

    ## Why it matters

    Batch sizes are chosen by `torch.musa.max_memory_allocated()`, and reports quote it.

    ## How to fix

    Read the memory in use from `mthreads-gmi` instead, and report it to torch_musa's tracker.

    ## Sources

    An allocation between two calls of `reset_peak_memory_stats`.
    """
    yield from unanswered(transfer_steps, PEAK)
    for step in done(transfer_steps, PEAK):
        names = ("bytes", "before", "allocated", "peak", "peak_after_reset")
        asked, before, held, peak, reset = (number(step.value, name) or 0 for name in names)
        wrong: list[str] = []
        if peak < before + asked:
            wrong.append(
                f"it is {size(peak)} after {size(asked)} were allocated above {size(before)}"
            )
        if reset > peak - asked:
            wrong.append(f"it is still {size(reset)} when it was reset")
        if held < asked:
            wrong.append(f"memory_allocated is {size(held)} with {size(asked)} in use")
        if wrong:
            yield Finding(f"{step.device}: peak memory: {'; '.join(wrong)}", where=step.device)


@check("host-copies-slower-than-link", layer=Layer.HARDWARE, severity="warning")
def host_copies_slower_than_link(transfer_steps: Steps, gpus: Gpus) -> Judgement:
    """Copies between host and device are much slower than the card's PCIe link.

    ## Why it matters

    Every batch and every checkpoint goes this way, and between cards without MTLink each gradient.

    ## How to fix

    Run it again on a host that does nothing else. Then look whether the process runs on the card's
    NUMA node (`numactl`), at the IOMMU setting for this card, and at the link under load: the width
    and speed are in the message as sysfs states them.

    ## Sources

    PCI Express Base Specification: 8 and 16 GT/s carry 128 bits in 130, 2.5 and 5 GT/s 8 in 10.
    Copies from pinned memory are judged; from ordinary memory the host's own copying is the limit.
    Figures of real cards are not yet known to musadoctor.
    """
    yield from unanswered(transfer_steps, HOST)
    names = {step.device: str(step.value.get("name")) for step in done(transfer_steps, TOTALS)}
    for step in done(transfer_steps, HOST):
        link = _slowest_link(gpus, names.get(step.device))
        rates = {
            way: rate
            for key, way in WAYS.items()
            if (rate := number(step.value, f"{key}_pinned")) is not None
        }
        if not rates:
            yield Unknown(f"{step.device}: no pinned memory: {step.value.get('pinned')}")
        elif link is None:
            yield Unknown(f"{step.device}: sysfs does not tell the link of its card")
        else:
            slow = [
                f"{way} {speed(rate)}" for way, rate in rates.items() if rate < link[0] * OF_LINK
            ]
            if slow:
                yield Finding(
                    f"{step.device}: {', '.join(slow)} from pinned memory, and the link"
                    f" ({link[1].width} lanes, {link[1].speed}, sysfs) carries {speed(link[0])}",
                    where=step.device,
                    fix=Fix("Run it again on the NUMA node of the card, with nothing else running"),
                )


def _slowest_link(gpus: Gpus, product: str | None) -> tuple[float, PcieLink] | None:
    """Of the cards that it may be: torch's numbers need not be in the order of the bus."""
    cards: list[Gpu] = [card for card in gpus.cards if card.product == product]
    links = [card.link for card in cards or gpus.cards if card.link is not None]
    carried = [(rate, link) for link in links if (rate := carries(link)) is not None]
    return min(carried, key=lambda one: one[0], default=None)


def carries(link: PcieLink) -> float | None:
    """Bytes a second of a link in one direction, before the headers of packets."""
    words = link.speed.split()
    try:
        transfers = float(words[0])
    except (IndexError, ValueError):
        return None
    coding = 8 / 10 if transfers < 8 else 128 / 130  # noqa: PLR2004 - GT/s of the third generation
    return transfers * 1e9 * coding * link.width / 8 or None


@check("device-copies-slower-than-others", layer=Layer.HARDWARE, severity="warning")
def device_copies_slower_than_others(transfer_steps: Steps) -> Judgement:
    """One device copies to or from the host much more slowly than the others do.

    ## Why it matters

    In training with several cards all wait for the slowest.

    ## How to fix

    Look at the card's slot, riser and link (`musadoctor` names links that are narrow), and whether
    another process uses it. `torch.musa` numbers need not be in the order of the PCI bus.

    ## Sources

    The median over the devices of this run; half of the lanes gives half of the speed.
    """
    yield from unanswered(transfer_steps, HOST)
    steps = done(transfer_steps, HOST)
    if 0 < len(steps) < LEAST_TO_COMPARE:
        yield Absent(f"{len(steps)} devices: none can be the odd one")
    for key, way in WAYS.items():
        for memory in ("pinned", "pageable"):
            rates = _rates(steps, f"{key}_{memory}")
            yield from _odd(rates, f"{way} from {memory} memory" if memory else way, "devices")


@check("pair-copies-slower-than-others", layer=Layer.HARDWARE, severity="warning")
def pair_copies_slower_than_others(
    transfer_steps: Steps,
    topology: Topology | Absent | Unknown,
    environment: Environment | Unknown,
) -> Judgement:
    """Copies between two devices are much slower than between the others.

    ## Why it matters

    Collectives go round all cards, at the speed of the slowest pair.

    ## How to fix

    Compare with `mthreads-gmi topo -m`: a pair on two sockets is slower by design. Where all pairs
    are alike there, look at the links of these two (`mthreads-gmi mtlink -s`).

    ## Sources

    The median over the pairs of this run. Pairs are named where they are fewer than a quarter, and
    a device where even its fastest pair is slow.
    """
    yield from unanswered(transfer_steps, DEVICE)
    rates = _rates(done(transfer_steps, DEVICE), "speed")
    best: dict[str, float] = {}
    for names, rate in rates.items():
        for name in names.split():
            best[name] = max(best.get(name, 0.0), rate)
    cards = list(_odd(best, "the fastest copy to or from another device", "devices"))
    yield from cards
    if not cards:
        odd = list(_odd(rates, "copies", "pairs"))
        if len(odd) < FEW * len(rates):
            for finding in odd:
                path = _path(finding.where, topology, environment)
                yield finding._replace(message=f"{finding.message}{path}")


def _path(
    pair: str,
    topology: Topology | Absent | Unknown,
    environment: Environment | Unknown,
) -> str:
    """A clause on the path between two devices, where the tool's numbers are torch's."""
    if not isinstance(topology, Topology) or not isinstance(environment, Environment):
        return ""
    if environment.get("MUSA_VISIBLE_DEVICES") is not None:
        return ""
    one, other = (int(name.partition(":")[2]) for name in pair.split())
    path = topology.path(one, other)
    return f"; {topology.source} shows {path} between them" if path else ""


@check("pair-without-its-link", layer=Layer.HARDWARE, severity="warning")
def pair_without_its_link(topology: Topology) -> Judgement:
    """Two cards are connected by another path than nearly all others.

    ## Why it matters

    Collectives go at the speed of the slowest pair. Where the cards of a host are connected by
    MTLink, a pair that is not, or by fewer links, has a link that is down.

    ## How to fix

    Look at the links of both cards (`mthreads-gmi mtlink -s`) and for XIDs of MTLink in the kernel
    log, which `musadoctor` reads; reseat the bridge or board, or have it exchanged.

    ## Symptoms

    - `SYS` or `NODE` in the row of one card in `mthreads-gmi topo -m`, where the others have `MT2`

    ## Sources

    The legend of `mthreads-gmi topo -m` (SGLang pull requests 10023 and 16959, 2025-09, 2026-01).
    Pairs are named where they are fewer than a quarter.
    """
    paths = Counter(pair.path for pair in topology.pairs)
    ((usual, count),) = paths.most_common(1)
    others = [pair for pair in topology.pairs if pair.path != usual]
    if usual.startswith("MT") and len(others) < FEW * len(topology.pairs):
        for pair in others:
            yield Finding(
                f"GPU{pair.one} and GPU{pair.other} are connected by {pair.path}, {count} of"
                f" {len(topology.pairs)} pairs by {usual} ({topology.source})",
                where=f"GPU{pair.one} GPU{pair.other}",
                fix=Fix("Look at the links of both cards", ("mthreads-gmi mtlink -s",)),
            )


def _rates(steps: list[Step], key: str) -> dict[str, float]:
    return {step.device: rate for step in steps if (rate := number(step.value, key))}


def _odd(rates: Mapping[str, float], what: str, kind: str) -> Iterator[Finding]:
    """Those that are much slower than the median of all."""
    if len(rates) < LEAST_TO_COMPARE:
        return
    usual = median(rates.values())
    for device, rate in rates.items():
        if rate < usual * OF_OTHERS:
            yield Finding(
                f"{device.replace(' ', ' to ')}: {what}: {speed(rate)}, and the median of"
                f" {len(rates)} {kind} is {speed(usual)}",
                where=device,
                fix=Fix("Compare its link with the others'", ("mthreads-gmi topo -m",)),
            )


@check("no-direct-access-between-devices", layer=Layer.HARDWARE, severity="note")
def no_direct_access_between_devices(transfer_steps: Steps) -> Judgement:
    """Some devices cannot reach each other's memory directly (P2P).

    ## Why it matters

    Copies between them go by the host's memory, which is slower and loads its memory and links.

    ## How to fix

    Direct access needs MTLink, or PCIe access control that allows it. Where all pairs lack it, that
    is how the host is set up; where some do, look at those first.

    ## Sources

    `torch.musa.can_device_access_peer`, where this release has it. tutorial_on_musa (2024/2025) on
    PCIe access control.
    """
    yield from unanswered(transfer_steps, DEVICE)
    steps = done(transfer_steps, DEVICE)
    told = [step for step in steps if isinstance(step.value.get("peer"), bool)]
    if steps and not told:
        yield Unknown("this release does not tell which devices have direct access (P2P)")
    without = [step for step in told if not step.value["peer"]]
    if without:
        slowest = min(number(step.value, "speed") or 0 for step in without)
        yield Finding(
            f"{len(without)} of {len(told)} pairs have no direct access (P2P), copies of them take"
            f" {speed(slowest)} or more:"
            f" {some([step.device.replace(' ', ' to ') for step in without])}",
            where=without[0].device,
            fix=Fix("See how the cards are connected", ("mthreads-gmi topo -m",)),
        )
