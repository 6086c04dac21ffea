"""The checks of memory and copies, on steps given directly."""

from itertools import combinations, permutations

import pytest
from given import S5000, fixes, judged, said, skipped, unknown
from given_verify import step, steps

from musadoctor.api import (
    Absent,
    CardPair,
    Check,
    Environment,
    Gpus,
    PcieLink,
    Step,
    Steps,
    Topology,
)
from musadoctor_checks.verify.memory import (
    carries,
    copy_content_wrong,
    device_copies_slower_than_others,
    device_memory_fails,
    device_memory_less_than_product,
    free_memory_not_usable,
    host_copies_slower_than_link,
    memory_content_wrong,
    memory_not_given_back,
    no_direct_access_between_devices,
    pair_copies_slower_than_others,
    pair_without_its_link,
    peak_memory_figures_wrong,
)

MIB, GIB = 2**20, 2**30
TOTALS, FILL, PEAK = "memory: totals", "memory: fill", "memory: peak figures"
HOST, PAIR = "memory: host copies", "memory: device copies"
S4000 = S5000._replace(product="MTT S4000", memory_mib=49152)
CARDS = 8
DEVICES = [f"musa:{n}" for n in range(CARDS)]


def totals(device: str, total: float = 79.91 * GIB, name: str = "MTT S5000") -> Step:
    return step(TOTALS, device, name=name, properties_bytes=int(total))


def fill(device: str, **changes: object) -> Step:
    value = {
        "free_before": 79 * GIB,
        "free_after": 79 * GIB - 8 * MIB,
        "reserved_after": 0,
        "wanted_bytes": 71 * GIB,
        "allocated_bytes": 71 * GIB,
        "chunk_bytes": 2 * GIB,
        "refused": "",
        "spoilt": [],
    }
    return step(FILL, device, **{**value, **changes})


def peak(device: str, **changes: object) -> Step:
    value = {
        "bytes": 16 * MIB,
        "before": MIB,
        "allocated": 17 * MIB,
        "peak": 17 * MIB,
        "peak_after_reset": MIB,
    }
    return step(PEAK, device, **{**value, **changes})


def host(device: str, rate: float = 25e9, **changes: object) -> Step:
    ways = ("to_device_pinned", "to_host_pinned", "to_device_pageable", "to_host_pageable")
    wrong = {"wrong_bytes_pinned": 0, "wrong_bytes_pageable": 0}
    value = {"bytes": 8 * MIB, **dict.fromkeys(ways, rate), **wrong}
    return step(HOST, device, **{**value, **changes})


def pair(devices: str, speed: float = 45e9, *, peer: bool | None = True, wrong: int = 0) -> Step:
    return step(PAIR, devices, bytes=8 * MIB, speed=speed, peer=peer, wrong_bytes=wrong)


PAIRS = [f"{one} {other}" for one, other in permutations(DEVICES, 2)]
HEALTHY = steps(
    *(make(device) for make in (totals, fill, peak, host) for device in DEVICES),
    *map(pair, PAIRS),
)
ALL = (
    copy_content_wrong,
    device_copies_slower_than_others,
    device_memory_fails,
    device_memory_less_than_product,
    free_memory_not_usable,
    host_copies_slower_than_link,
    memory_content_wrong,
    memory_not_given_back,
    no_direct_access_between_devices,
    pair_copies_slower_than_others,
    peak_memory_figures_wrong,
)


def with_(*changed: Step) -> Steps:
    """The healthy host with some steps in the place of its own."""
    own = {(item.device, item.name): item for item in HEALTHY.items}
    own.update({(item.device, item.name): item for item in changed})
    return steps(*own.values())


@pytest.mark.parametrize("check", ALL)
def test_healthy(check: Check) -> None:
    assert said(check, transfer_steps=HEALTHY) == ()


@pytest.mark.parametrize("check", ALL)
def test_what_was_not_seen_is_not_green(check: Check) -> None:
    why = "the device ended 4 processes before it"
    lost = steps(
        *(
            item._replace(state="not taken", message=why, value={})
            for item in HEALTHY.items
            if item.device in {"musa:0", "musa:0 musa:1"}
        )
    )
    assert why in unknown(check, transfer_steps=lost)


@pytest.mark.parametrize("check", ALL)
def test_a_cpu_has_no_memory_of_its_own(check: Check) -> None:
    why = "Skip: the CPU's memory is the host's"
    given = steps(*(step(name, "cpu", "skipped", why) for name in (TOTALS, FILL, PEAK, HOST)))
    assert skipped(check, transfer_steps=given)


def test_steps_that_fail() -> None:
    why = "no end after 30 s, in copy_"
    given = with_(
        fill("musa:2")._replace(state="failed", message="RuntimeError: MUSA error"),
        *(pair(f"musa:3 musa:{n}")._replace(state="hung", message=why) for n in (0, 1, 2, 4, 5)),
    )
    assert said(device_memory_fails, transfer_steps=given) == (
        "musa:2: fill failed: RuntimeError: MUSA error",
        (
            "musa:3 to musa:0, musa:3 to musa:1, musa:3 to musa:2, musa:3 to musa:4 and 1 more: device"
            f" copies hung: {why}"
        ),
    )
    assert fixes(device_memory_fails, transfer_steps=given) == (("musadoctor",),) * 2


@pytest.mark.parametrize(
    ("step_", "gpus", "messages"),
    [
        (
            totals("musa:0", 32 * GIB, "MTT S4000"),
            (S4000,),
            ("musa:0: torch sees 32768 MiB, and MTT S4000 has 49152 MiB",),
        ),
        (totals("musa:0", 47.9 * GIB, "MTT S4000"), (S4000,), ()),
        (totals("musa:0", 32 * GIB, "MTT S9999"), (S4000,), ()),
        (totals("musa:0", 1 * GIB), (S5000._replace(memory_mib=None),), ()),
    ],
)
def test_less_than_the_product(step_: Step, gpus: tuple[object, ...], messages: object) -> None:
    changes = {"transfer_steps": steps(step_), "gpus": Gpus(gpus, "sysfs")}  # type: ignore[arg-type]
    assert said(device_memory_less_than_product, **changes) == messages


def test_refused() -> None:
    given = with_(fill("musa:1", allocated_bytes=32 * GIB, refused="MUSA out of memory"))
    assert said(free_memory_not_usable, transfer_steps=given) == (
        (
            "musa:1: 79.0 GiB are said to be free, and of 71.0 GiB asked for only 32.0 GiB are given:"
            " MUSA out of memory"
        ),
    )


@pytest.mark.parametrize(("reserved", "tail"), [(0, "; torch holds 0.0 KiB of it"), (None, "")])
def test_not_given_back(reserved: int | None, tail: str) -> None:
    given = with_(fill("musa:1", free_after=69 * GIB, reserved_after=reserved))
    assert said(memory_not_given_back, transfer_steps=given) == (
        (
            "musa:1: 10.0 GiB of 71.0 GiB that were freed are not free again: 79.0 GiB before, 69.0 GiB"
            f" after{tail}"
        ),
    )


def test_figures_that_are_not_there() -> None:
    given = steps(step(FILL, free_before=1))
    assert unknown(memory_not_given_back, transfer_steps=given) == (
        "musa:0: the figures of its memory are not whole"
    )


def test_spoilt() -> None:
    given = with_(fill("musa:1", spoilt=list(range(16, 32))))
    assert said(memory_content_wrong, transfer_steps=given) == (
        (
            "musa:1: 16 chunks of 2.0 GiB hold other numbers than were written: chunk 16, 17, 18, 19"
            " and 12 more"
        ),
    )


def test_wrong_copies() -> None:
    given = with_(
        host("musa:1", wrong_bytes_pinned=4),
        host("musa:2", wrong_bytes_pageable=5),
        pair("musa:3 musa:4", wrong=4096),
    )
    assert said(copy_content_wrong, transfer_steps=given) == (
        "musa:1, 4 of 8388608 bytes there and back by pinned memory are not those that were sent",
        "musa:2, 5 of 8388608 bytes there and back are not those that were sent",
        "musa:3 to musa:4, 4096 of 8388608 bytes are not those that were sent",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peak": MIB}, "it is 1.0 MiB after 16.0 MiB were allocated above 1.0 MiB"),
        ({"peak_after_reset": 17 * MIB}, "it is still 17.0 MiB when it was reset"),
        ({"allocated": MIB}, "memory_allocated is 1.0 MiB with 16.0 MiB in use"),
    ],
)
def test_peak_figures(changes: dict[str, object], message: str) -> None:
    given = with_(peak("musa:1", **changes))
    (found,) = said(peak_memory_figures_wrong, transfer_steps=given)
    assert found.startswith("musa:1: peak memory: ")
    assert message in found


@pytest.mark.parametrize(
    ("link", "rate"),
    [
        (PcieLink(16, 16, "16.0 GT/s PCIe", "16.0 GT/s PCIe"), 31.5e9),
        (PcieLink(8, 16, "8.0 GT/s PCIe", "16.0 GT/s PCIe"), 7.9e9),
        (PcieLink(16, 16, "5.0 GT/s PCIe", "16.0 GT/s PCIe"), 8e9),
        (PcieLink(0, 16, "16.0 GT/s PCIe", "16.0 GT/s PCIe"), None),
        (PcieLink(16, 16, "Unknown", "16.0 GT/s PCIe"), None),
        (PcieLink(16, 16, "", ""), None),
    ],
)
def test_what_a_link_carries(link: PcieLink, rate: float | None) -> None:
    found = carries(link)
    assert found is None if rate is None else found == pytest.approx(rate, rel=0.01)


def test_slower_than_the_link() -> None:
    given = with_(host("musa:1", to_device_pinned=12e9), host("musa:2", 15.9e9))
    assert said(host_copies_slower_than_link, transfer_steps=given) == (
        (
            "musa:1: host to device 12.0 GB/s from pinned memory, and the link (16 lanes, 16.0 GT/s"
            " PCIe, sysfs) carries 31.5 GB/s"
        ),
    )
    # Ordinary memory is the host's own business.
    slow = with_(host("musa:1", to_device_pageable=2e9, to_host_pageable=2e9))
    assert said(host_copies_slower_than_link, transfer_steps=slow) == ()


def test_the_slowest_link_of_the_product_counts() -> None:
    narrow = S5000._replace(link=PcieLink(8, 16, "16.0 GT/s PCIe", "16.0 GT/s PCIe"))
    other = S4000._replace(link=PcieLink(1, 16, "2.5 GT/s PCIe", "16.0 GT/s PCIe"))
    gpus = Gpus((S5000, narrow, other), "sysfs")
    given = steps(totals("musa:0"), host("musa:0", 9e9))
    assert said(host_copies_slower_than_link, transfer_steps=given, gpus=gpus) == ()
    given = steps(totals("musa:0"), host("musa:0", 7e9))
    assert len(said(host_copies_slower_than_link, transfer_steps=given, gpus=gpus)) == 1


def test_no_pinned_memory_and_no_link() -> None:
    without = host("musa:0", pinned="not implemented", to_device_pinned=None, to_host_pinned=None)
    given = steps(without)
    assert unknown(host_copies_slower_than_link, transfer_steps=given) == (
        "musa:0: no pinned memory: not implemented"
    )
    gpus = Gpus((S5000._replace(link=None),), "sysfs")
    assert unknown(
        host_copies_slower_than_link, transfer_steps=steps(host("musa:0")), gpus=gpus
    ) == ("musa:0: sysfs does not tell the link of its card")


def test_no_card_on_the_bus() -> None:
    result = judged(
        host_copies_slower_than_link, transfer_steps=HEALTHY, gpus=Absent("no GPU in /sys")
    )
    assert (result.status, result.reason) == ("skipped", "no GPU in /sys")


def test_the_odd_device() -> None:
    given = with_(host("musa:5", to_host_pinned=12.4e9, to_device_pageable=20e9))
    assert said(device_copies_slower_than_others, transfer_steps=given) == (
        (
            "musa:5: device to host from pinned memory: 12.4 GB/s, and the median of 8 devices is"
            " 25.0 GB/s"
        ),
    )
    # Where most are slow the median is theirs: that is for the link to tell.
    slow = with_(*(host(device, 5e9) for device in DEVICES[:6]))
    assert said(device_copies_slower_than_others, transfer_steps=slow) == ()


def test_of_two_none_is_the_odd_one() -> None:
    given = steps(host("musa:0"), host("musa:1", 1e9))
    result = judged(device_copies_slower_than_others, transfer_steps=given)
    assert (result.status, result.reason) == ("skipped", "2 devices: none can be the odd one")


def test_the_odd_pair() -> None:
    given = with_(pair("musa:2 musa:6", 9e9))
    assert said(pair_copies_slower_than_others, transfer_steps=given) == (
        "musa:2 to musa:6: copies: 9.0 GB/s, and the median of 56 pairs is 45.0 GB/s",
    )


def links(**other: str) -> Topology:
    """Eight cards, each two by MT2, but ``GPU2_GPU6="SYS"``."""
    return Topology(
        tuple(
            CardPair(one, two, other.get(f"GPU{one}_GPU{two}", "MT2"))
            for one, two in combinations(range(8), 2)
        ),
        "mthreads-gmi topo -m",
    )


def test_the_odd_pair_s_path() -> None:
    facts: dict[str, object] = {
        "transfer_steps": with_(pair("musa:2 musa:6", 9e9)),
        "topology": links(GPU2_GPU6="SYS"),
    }
    (message,) = said(pair_copies_slower_than_others, **facts)
    assert message.endswith("is 45.0 GB/s; mthreads-gmi topo -m shows SYS between them")
    # A mask renumbers the devices.
    masked = Environment({"MUSA_VISIBLE_DEVICES": "1,2,3"}, (), ())
    for unsure in ({"environment": masked}, {"topology": Topology((), "a cut table")}):
        (message,) = said(pair_copies_slower_than_others, **{**facts, **unsure})
        assert message.endswith("is 45.0 GB/s")


def test_a_pair_without_its_link() -> None:
    assert said(pair_without_its_link, topology=links()) == ()
    assert said(pair_without_its_link, topology=links(GPU0_GPU3="SYS", GPU1_GPU2="MT1")) == (
        "GPU0 and GPU3 are connected by SYS, 26 of 28 pairs by MT2 (mthreads-gmi topo -m)",
        "GPU1 and GPU2 are connected by MT1, 26 of 28 pairs by MT2 (mthreads-gmi topo -m)",
    )
    islands = {f"GPU{one}_GPU{two}": "SYS" for one in range(4) for two in range(4, 8)}
    assert said(pair_without_its_link, topology=links(**islands)) == ()


def test_the_odd_device_of_all_pairs() -> None:
    given = with_(*(pair(names, 9e9) for names in PAIRS if "musa:6" in names.split()))
    assert said(pair_copies_slower_than_others, transfer_steps=given) == (
        (
            "musa:6: the fastest copy to or from another device: 9.0 GB/s, and the median of 8 devices"
            " is 45.0 GB/s"
        ),
    )


@pytest.mark.parametrize("near", [2, 4, 6])
def test_two_sockets_are_no_fault(near: int) -> None:
    first = set(DEVICES[:near])
    given = with_(
        *(pair(names, 9e9) for names in PAIRS if len(first.intersection(names.split())) == 1)
    )
    assert said(pair_copies_slower_than_others, transfer_steps=given) == ()


def test_direct_access() -> None:
    given = with_(pair("musa:0 musa:1", 9e9, peer=False), pair("musa:1 musa:0", 8e9, peer=False))
    assert said(no_direct_access_between_devices, transfer_steps=given) == (
        (
            "2 of 56 pairs have no direct access (P2P), copies of them take 8.0 GB/s or more:"
            " musa:0 to musa:1, musa:1 to musa:0"
        ),
    )
    given = steps(pair("musa:0 musa:1", peer=None))
    assert unknown(no_direct_access_between_devices, transfer_steps=given) == (
        "this release does not tell which devices have direct access (P2P)"
    )


def test_one_device_has_no_pairs() -> None:
    given = steps(*(item for item in HEALTHY.items if item.device == "musa:0"))
    for check in (pair_copies_slower_than_others, no_direct_access_between_devices):
        result = judged(check, transfer_steps=given)
        assert (result.status, result.reason) == (
            "skipped",
            "no step 'memory: device copies' was taken",
        )
