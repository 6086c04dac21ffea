"""The checks of collectives, on steps and adapters given directly."""

import pytest
from given import MCCL, S4000, S5000, advice, fixes, gpus, judged, said, skipped, unknown
from given_verify import step, steps

from musadoctor.api import Absent, Check, Environment, Rdma, RdmaDevice, RdmaPort, Step, Unknown
from musadoctor_checks.verify.collectives import (
    collective_fails,
    collective_pair_slow,
    collective_result_wrong,
    collectives_of_one_rank,
    ddp_gradients_differ,
    peer_memory_module_missing,
    rank_dies,
    rank_stalls,
    rdma_far_from_cards,
    rdma_port_down,
    roce_gid_index_unset,
    roce_gid_index_wrong,
)

R0, R1 = "rank 0 musa:0", "rank 1 musa:1"
GROUP, REDUCE = "collectives: group", "collectives: all-reduce"
AVERAGED = "collectives: gradients averaged by hand"
RIGHT = {"elements": 32897, "wrong": 0, "first": None}
OFF = {"elements": 32897, "wrong": 7, "first": [3, 4.0, 3.0]}
WELL = {"int32": RIGHT, "bfloat16": RIGHT}
SIZES: list[dict[str, object]] = [
    {"bytes": 1024, "seconds": 1e-4, "bus": 1e7, "wrong": 0, "first": None}
]
EXACT = {"error": 0.0, "tolerance": 0.0, "largest": 17.0}
NOBODY: list[int] = []
HEALTHY = steps(
    *(
        made
        for rank in (R0, R1)
        for made in (
            step(GROUP, rank, backend="mccl", world=2),
            step("collectives: barrier", rank, **{"passed before": NOBODY}),
            step(REDUCE, rank, types=WELL),
            step(f"{REDUCE} by size", rank, sizes=SIZES),
            step(AVERAGED, rank, **EXACT),
            step("collectives: pairs", rank, to={"1": 5e10} if rank == R0 else {}),
            step(
                "collectives: both backends", rank, "skipped", "Skip: the CPU has one backend only"
            ),
        )
    )
)
DEVICES = steps(step("census: devices", devices=[{"name": "MTT S5000"}, {"name": "MTT S5000"}]))
OF_STEPS = (
    *(collective_fails, collective_result_wrong, collectives_of_one_rank, ddp_gradients_differ),
    *(rank_dies, rank_stalls),
)


def environment(**variables: str) -> Environment:
    return Environment(variables, (), ())


@pytest.mark.parametrize("check", OF_STEPS)
def test_healthy(check: Check) -> None:
    assert said(check, rank_steps=HEALTHY, visible_devices=DEVICES) == ()


@pytest.mark.parametrize("check", [*OF_STEPS, collective_pair_slow])
def test_without_ranks(check: Check) -> None:
    none = {"rank_steps": Absent("no step of this level"), "visible_devices": DEVICES}
    assert skipped(check, **none)


NOT_TAKEN = [step(REDUCE, rank, "not taken", "there is no process group") for rank in (R0, R1)]


@pytest.mark.parametrize(
    "check", [collective_fails, collective_result_wrong, rank_dies, rank_stalls]
)
def test_steps_that_were_not_taken(check: Check) -> None:
    given = {"rank_steps": steps(*NOT_TAKEN), "visible_devices": DEVICES}
    assert unknown(check, **given) == "all-reduce: there is no process group"


def lost(first: Step, second: Step) -> dict[str, object]:
    return {"rank_steps": steps(first, second), "visible_devices": DEVICES}


TIMED_OUT = "RuntimeError: Timed out waiting 15000ms"
HUNG = "no end after 30 s, in wait (c10d.py:4)"


@pytest.mark.parametrize(
    ("first", "second", "stalls", "dies"),
    [
        (
            step(REDUCE, R0, "failed", TIMED_OUT),
            step(REDUCE, R1, "hung", HUNG),
            (
                f"all-reduce: rank 1 (musa:1) did not come back: {HUNG}; 1 of 2 ranks waited in vain",
            ),
            (),
        ),
        (
            step(REDUCE, R0, "hung", HUNG),
            step(REDUCE, R1, "hung", HUNG),
            (f"all-reduce: all 2 ranks did not come back: {HUNG}",),
            (),
        ),
        (
            step(REDUCE, R0, "crashed", "killed by SIGABRT"),
            step(REDUCE, "rank 9 musa:1 of node 1", "hung", HUNG),
            (
                (
                    f"all-reduce: rank 9 (musa:1 of node 1) did not come back: {HUNG};"
                    " 1 of 2 ranks waited in vain"
                ),
            ),
            (),
        ),
        (
            step(REDUCE, R0, "failed", "RuntimeError: Connection closed by peer"),
            step(REDUCE, "rank 1", "crashed", "killed by SIGSEGV"),
            (),
            ("all-reduce: the process of rank 1 ended: killed by SIGSEGV",),
        ),
        (
            step(REDUCE, R0, "crashed", "killed by SIGABRT"),
            step(REDUCE, R1, "crashed", "killed by SIGABRT"),
            (),
            ("all-reduce: the process of all 2 ranks ended: killed by SIGABRT",),
        ),
    ],
)
def test_a_rank_that_is_lost(
    first: Step, second: Step, stalls: tuple[str, ...], dies: tuple[str, ...]
) -> None:
    given = lost(first, second)
    assert said(rank_stalls, **given) == stalls
    assert said(rank_dies, **given) == dies
    assert said(collective_fails, **given) == (), "what the others say has that cause"


@pytest.mark.parametrize(
    ("mccl", "more"),
    [(MCCL, f"; this host has {MCCL}"), (Absent("no libmccl"), "")],
)
def test_a_forced_algorithm_explains_a_crash(mccl: object, more: str) -> None:
    crashed = step(REDUCE, R1, "crashed", "killed by SIGSEGV")
    given = {
        **lost(step(REDUCE, R0), crashed),
        "environment": environment(MCCL_ALGO="Ring"),
        "mccl": mccl,
    }
    (message,) = said(rank_dies, **given)
    assert message == (
        "all-reduce: the process of rank 1 (musa:1) ended: killed by SIGSEGV; MCCL_ALGO=Ring is set,"
        f" with which every run crashed on MCCL 2.1.5{more}"
    )
    assert fixes(rank_dies, **given) == (("unset MCCL_ALGO",),)
    blind = {**given, "environment": Unknown("not recorded")}
    assert said(rank_dies, **blind) == (
        "all-reduce: the process of rank 1 (musa:1) ended: killed by SIGSEGV",
    )


ERROR = "RuntimeError: MCCL error: unhandled system error"


@pytest.mark.parametrize(
    ("first", "second", "messages"),
    [
        (
            step(REDUCE, R0, "failed", ERROR),
            step(REDUCE, R1, "failed", ERROR),
            (f"all-reduce fails on all 2 ranks: {ERROR}",),
        ),
        (
            step(REDUCE, R0, "failed", TIMED_OUT)._replace(seconds=15.0),
            step(REDUCE, R1, "failed", ERROR)._replace(seconds=0.1),
            (
                (
                    f"all-reduce fails on rank 1 (musa:1): {ERROR}; afterwards on rank 0 (musa:0):"
                    f" {TIMED_OUT}"
                ),
            ),
        ),
        (
            step(REDUCE, R0, types=WELL),
            step(REDUCE, R1, "out of memory", "OutOfMemoryError: MUSA out of memory"),
            ("all-reduce fails on rank 1 (musa:1): OutOfMemoryError: MUSA out of memory",),
        ),
        (
            step(REDUCE, R0, types={"float32": RIGHT, "bfloat16": {"error": ERROR}}),
            step(REDUCE, R1, types={"float16": {"error": ERROR}, "bfloat16": {"error": ERROR}}),
            (
                f"all-reduce of bfloat16 fails on all 2 ranks: {ERROR}",
                f"all-reduce of float16 fails on rank 1 (musa:1): {ERROR}",
            ),
        ),
        (
            step(REDUCE, R0, types={"bfloat16": {"skipped": "not every device has it"}}),
            step(REDUCE, R1, types={"bfloat16": {"skipped": "not every device has it"}}),
            (),
        ),
        (
            step(GROUP, R0, "missing", "NotImplementedError: no backend mccl"),
            step(GROUP, R1, "missing", "NotImplementedError: no backend mccl"),
            ("2 devices cannot work together: NotImplementedError: no backend mccl",),
        ),
        (
            step(GROUP, R0, "missing", "NotImplementedError: no backend mccl"),
            step(GROUP, R1, "failed", "RuntimeError: rank 0 cannot take part"),
            (
                (
                    "group fails on rank 0 (musa:0): NotImplementedError: no backend mccl; afterwards"
                    " on rank 1 (musa:1): RuntimeError: rank 0 cannot take part"
                ),
            ),
        ),
    ],
)
def test_collectives_that_fail(first: Step, second: Step, messages: tuple[str, ...]) -> None:
    assert said(collective_fails, **lost(first, second)) == messages


def test_no_backend_where_none_is_supplied_or_needed() -> None:
    missing = [step(GROUP, rank, "missing", "no mccl") for rank in (R0, R1)]
    old = steps(step("census: devices", devices=[{"name": "MTT S80"}, {"name": "MTT S80"}]))
    result = judged(collective_fails, rank_steps=steps(*missing), visible_devices=old)
    assert result.reason == "the vendor supplies no MCCL for MTT S80"
    result = judged(collective_fails, rank_steps=steps(missing[0]), visible_devices=old)
    assert result.reason == "one device needs no collectives, and no mccl"
    launched = {"rank_steps": steps(*missing), "visible_devices": Absent("under a launcher")}
    assert said(collective_fails, **launched) == ("2 devices cannot work together: no mccl",)


@pytest.mark.parametrize(
    ("first", "second", "messages"),
    [
        (
            step(REDUCE, R0, types=WELL),
            step(REDUCE, R1, types={"int32": OFF, "float32": RIGHT, "bfloat16": OFF}),
            (
                (
                    "all-reduce gives wrong results on rank 1 (musa:1) in int32, bfloat16:"
                    " 7 elements, the first one at 3, 4 instead of 3"
                ),
            ),
        ),
        (
            step(f"{REDUCE} by size", R0, sizes=[{**SIZES[0], **OFF, "first": [3, "nan", 3.0]}]),
            step(f"{REDUCE} by size", R1, sizes=[{**SIZES[0], **OFF, "first": [3, "nan", 3.0]}]),
            (
                (
                    "all-reduce by size gives wrong results on all 2 ranks in 1.0 KiB:"
                    " 7 elements, the first one at 3, nan instead of 3"
                ),
            ),
        ),
        (
            step("collectives: barrier", R0, **{"passed before": [1]}),
            step("collectives: barrier", R1, **{"passed before": NOBODY}),
            ("barrier lets rank 0 (musa:0) pass before rank 1 has come to it",),
        ),
    ],
)
def test_wrong_results(first: Step, second: Step, messages: tuple[str, ...]) -> None:
    assert said(collective_result_wrong, rank_steps=steps(first, second)) == messages


@pytest.mark.parametrize("state", ["failed", "hung", "crashed", "not taken"])
def test_results_that_are_not_known(state: str) -> None:
    given = steps(Step(R0, REDUCE, state, {}, "what it says"))  # type: ignore[arg-type]
    assert unknown(collective_result_wrong, rank_steps=given) == "all-reduce: what it says"


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ({"error": 1.5}, "differ by 1.5"),
        ({"error": None}, "are not finite"),
        ({"error": 2e-6, "tolerance": 1e-6}, "differ by 2e-06"),
    ],
)
def test_gradients_that_differ(measured: dict[str, object], words: str) -> None:
    value = {**EXACT, **measured}
    given = steps(step(AVERAGED, R0, **EXACT), step(AVERAGED, R1, **value))
    (message,) = said(ddp_gradients_differ, rank_steps=given)
    assert message == (
        f"gradients averaged by hand: gradients on rank 1 (musa:1) {words} from those of one device"
        f" (largest 17, tolerance {value['tolerance']:g})"
    )


def test_gradients_that_say_nothing() -> None:
    wrong = step(REDUCE, R1, types={"float32": OFF})
    given = steps(wrong, step(AVERAGED, R0, **{**EXACT, "error": 1.0}))
    assert unknown(ddp_gradients_differ, rank_steps=given) == (
        "all-reduce itself gives wrong results, by which gradients are averaged"
    )
    given = steps(step(AVERAGED, R0, "hung", HUNG), step(AVERAGED, R1, "hung", HUNG))
    assert unknown(ddp_gradients_differ, rank_steps=given) == f"gradients averaged by hand: {HUNG}"


def of_four(**slow: float) -> dict[str, object]:
    """The pairs of four ranks, of which one is slow."""
    return {
        "rank_steps": steps(
            *(
                step(
                    "collectives: pairs",
                    f"rank {one} musa:{one}",
                    to={
                        str(other): slow.get(f"from{one}to{other}", 5e10)
                        for other in range(one + 1, 4)
                    },
                )
                for one in range(4)
            )
        )
    }


def test_a_slow_pair() -> None:
    assert said(collective_pair_slow, **of_four()) == ()
    assert said(collective_pair_slow, **of_four(from1to3=2e10)) == (), "less than a third counts"
    assert said(collective_pair_slow, **of_four(from1to3=1.2e10)) == (
        "rank 1 (musa:1) and rank 3 exchange 12.0 GB/s, the median of 6 pairs is 50.0 GB/s",
    )
    assert judged(collective_pair_slow, rank_steps=HEALTHY).reason == (
        "1 pairs were measured, fewer than the 6 of four ranks"
    )


def test_one_rank() -> None:
    assert said(collectives_of_one_rank, rank_steps=steps(step(GROUP, "rank 0 musa:0"))) == (
        "the group had one rank, rank 0 (musa:0)",
    )
    failed = steps(step(GROUP, "rank 0 musa:0", "failed", "x"))
    assert said(collectives_of_one_rank, rank_steps=failed) == ()


# ---- adapters --------------------------------------------------------------------------------

V1, V2 = "IB/RoCE v1", "RoCE v2"
PORT = RdmaPort(
    "mlx5_0", 1, "ACTIVE", "LinkUp", "Ethernet", "200 Gb/sec (4X HDR)", (V1, V2, V1, V2, "", "")
)
NEAR = RdmaDevice("mlx5_0", "0000:19:00.0", 0, (PORT,))
FAR = RdmaDevice("mlx5_1", "0000:99:00.0", 1, (PORT._replace(device="mlx5_1"),))
ADAPTERS = Rdma((NEAR, FAR), "mt_peermem", "/sys/class/infiniband")
CARDS = gpus(S5000, S5000._replace(numa_node=1))
TOLD = environment(MCCL_IB_GID_INDEX="3")
OF_ADAPTERS = (
    *(peer_memory_module_missing, rdma_far_from_cards, rdma_port_down),
    *(roce_gid_index_unset, roce_gid_index_wrong),
)


def with_ports(**changes: object) -> Rdma:
    return ADAPTERS._replace(devices=(NEAR._replace(ports=(PORT._replace(**changes),)),))  # type: ignore[arg-type]


@pytest.mark.parametrize("check", OF_ADAPTERS)
def test_healthy_adapters(check: Check) -> None:
    assert said(check, rdma=ADAPTERS, gpus=CARDS, environment=TOLD) == ()
    assert skipped(check, rdma=Absent("no /sys/class/infiniband"), gpus=CARDS, environment=TOLD)


def test_roce_without_an_index() -> None:
    given: dict[str, object] = {"rdma": ADAPTERS, "gpus": CARDS, "environment": environment()}
    assert said(roce_gid_index_unset, **given) == (
        "MCCL_IB_GID_INDEX is not set; active RoCE ports: mlx5_0 port 1, mlx5_1 port 1",
    )
    assert fixes(roce_gid_index_unset, **given) == (("export MCCL_IB_GID_INDEX=3",),)
    other = {**given, "rdma": with_ports(gid_types=(V1, V2, "", ""))}
    assert said(roce_gid_index_unset, **other) == (
        (
            "MCCL_IB_GID_INDEX is not set; active RoCE ports: mlx5_0 port 1; not of the type RoCE v2"
            " is entry 3 of mlx5_0 port 1"
        ),
    )
    assert advice(roce_gid_index_unset, **other).startswith("Choose an entry of the type RoCE v2")
    infiniband = with_ports(link_layer="InfiniBand")
    assert said(roce_gid_index_unset, **{**given, "rdma": infiniband}) == ()
    assert said(roce_gid_index_unset, **{**given, "gpus": gpus(S4000)}) == ()


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("2", "MCCL_IB_GID_INDEX=2, but entry 2 of mlx5_0 port 1 is of the type IB/RoCE v1"),
        ("4", "MCCL_IB_GID_INDEX=4, but entry 4 of mlx5_0 port 1 is not in use"),
    ],
)
def test_an_index_of_another_type(index: str, message: str) -> None:
    given = {"rdma": with_ports(), "environment": environment(MCCL_IB_GID_INDEX=index)}
    assert said(roce_gid_index_wrong, **given) == (f"{message}; RoCE v2: 1, 3",)


def test_an_index_that_cannot_be_judged() -> None:
    assert said(roce_gid_index_wrong, rdma=ADAPTERS, environment=environment()) == ()
    far = environment(MCCL_IB_GID_INDEX="77")
    assert unknown(roce_gid_index_wrong, rdma=with_ports(), environment=far) == (
        "entry 77 of mlx5_0 port 1 was not read"
    )
    word = environment(MCCL_IB_GID_INDEX="auto")
    assert said(roce_gid_index_wrong, rdma=with_ports(), environment=word) == (
        "MCCL_IB_GID_INDEX=auto is no number",
    )
    none = with_ports(gid_types=("", V1))
    one = environment(MCCL_IB_GID_INDEX="1")
    (message,) = said(roce_gid_index_wrong, rdma=none, environment=one)
    assert message.endswith("RoCE v2: none")


def test_ports_that_are_down() -> None:
    down = with_ports(state="DOWN", physical="Polling")
    assert said(rdma_port_down, rdma=down) == ("mlx5_0 port 1 (Ethernet) is DOWN, link Polling",)
    bare = with_ports(state="INIT", physical="", link_layer="")
    assert said(rdma_port_down, rdma=bare) == ("mlx5_0 port 1 is INIT",)
    blind = with_ports(state="")
    assert unknown(rdma_port_down, rdma=blind) == "the state of mlx5_0 port 1 cannot be read"


def test_cards_far_from_adapters() -> None:
    one = ADAPTERS._replace(devices=(NEAR,))
    assert said(rdma_far_from_cards, rdma=one, gpus=CARDS) == (
        "no active RDMA adapter on NUMA node 1, where 0000:11:00.0 are: mlx5_0 on node 0",
    )
    unplaced = ADAPTERS._replace(devices=(NEAR._replace(numa_node=None),))
    assert said(rdma_far_from_cards, rdma=unplaced, gpus=CARDS) == ()
    assert said(rdma_far_from_cards, rdma=with_ports(state="DOWN"), gpus=CARDS) == ()


def test_no_module_for_the_memory_of_cards() -> None:
    without = ADAPTERS._replace(peer_memory=None)
    assert said(peer_memory_module_missing, rdma=without, gpus=CARDS) == (
        (
            "neither mt_peermem nor mthreads-peermem is loaded, with mlx5_0, mlx5_1 active and"
            f" {CARDS}"
        ),
    )
    down = with_ports(state="DOWN")._replace(peer_memory=None)
    assert said(peer_memory_module_missing, rdma=down, gpus=CARDS) == ()
