"""An accepted host's figures, and what a long run changes: files, checks and real runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from given_verify import step, steps
from support import host

from musadoctor.api import Check
from musadoctor.engine import judge
from musadoctor.facts import Absent, Unknown
from musadoctor.facts.accepted import Accepted
from musadoctor.facts.steps import Rate, Step
from musadoctor.render.verify import render
from musadoctor.report import JSON, encode
from musadoctor.system import Found, Ran
from musadoctor.verify.phases import Settings
from musadoctor.verify.record import RecordError, read, record
from musadoctor.verify.run import recorded_settings, settings_to_record
from musadoctor.verify.soak import soak_steps
from musadoctor_checks.verify.devices import device_to_verify_not_there, no_device_to_verify
from musadoctor_checks.verify.record import (
    loss_curve_leaves_record,
    loss_curve_leaves_reference,
    new_fallback,
    record_of_other_host,
    throughput_lost,
)
from musadoctor_checks.verify.soak import (
    soak_breaks_off,
    soak_results_change,
    soak_throughput_drifts,
)
from musadoctor_checks.verify.throughput import device_computes_slower_than_others

CARD = "MTT S5000"
DEFAULT = Settings()
LOSSES = [2.0 - 0.01 * n for n in range(60)]


def census(*names: str, missing: tuple[int, ...] = ()) -> Step:
    devices = [{"name": name} for name in names]
    return step("census: devices", "musa", devices=devices, torch="2.7.1", missing=list(missing))


def matmul(device: str, speed: float, *, dtype: str = "float32") -> Step:
    return Step(
        device,
        f"throughput: matmul {dtype}",
        "done",
        {"tflops 256": speed / 2, "tflops 512": speed},
    )


def curve(device: str, losses: list[Any], *, dtype: str = "float32") -> Step:
    value = {"curve": losses, "reference": LOSSES}
    return Step(device, f"record: loss curve {dtype}", "done", value)


TODAY: dict[str, Any] = {
    "visible_devices": steps(census(CARD, CARD)),
    "transfer_steps": steps(
        matmul("musa:0", 20.0),
        matmul("musa:1", 22.0),
        step("memory: host copies", "musa:0", bytes=8, pinned="", to_host_pinned=24e9),
        step("memory: device copies", "musa:0 musa:1", speed=30e9, peer=True, bytes=8),
    ),
    "device_steps": steps(
        curve("musa:0", LOSSES),
        curve("musa:0", LOSSES, dtype="bfloat16"),
        step("fallback: static", "musa:0", falls_back=["aten::a"], missing=["aten::b"]),
        step("fallback: model transformer", "musa:0", operators=[{"operator": "aten::x"}]),
    ),
    "rank_steps": steps(
        step("collectives: all-reduce", "rank 0", sizes=[{"bytes": 1024, "bus": 5e9}, {"bytes": 1}])
    ),
}
FACTS: dict[str, JSON] = {name: encode(fact) for name, fact in TODAY.items()}


def saved(folder: Path, settings: Settings = DEFAULT, tolerance: float = 0.1) -> Accepted:
    file = folder / "accepted.json"
    file.write_text(record(FACTS, settings, "2026-11-30T12:00:00Z"))
    return read(str(file), tolerance)


def judged(check: Check, **facts: object) -> tuple[str, list[str], str]:
    given = {**TODAY, "accepted": Absent("no record"), "soak_steps": Absent("no soak"), **facts}
    result = judge(check, {name: given[name] for name in check.needs})
    assert not result.traceback, result.traceback
    return result.status, [finding.message for finding in result.findings], result.reason


# ---- the file --------------------------------------------------------------------------------


def test_a_record_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    accepted = saved(tmp_path, Settings(level="deep"))
    assert accepted.devices == (CARD, CARD)
    assert (accepted.kind, accepted.level, accepted.torch) == ("musa", "deep", "2.7.1")
    assert accepted.off_device == ("aten::a", "aten::b")
    assert accepted.left_device == ("aten::x",)
    assert [curve.name for curve in accepted.curves] == [
        "record: loss curve float32",
        "record: loss curve bfloat16",
    ]
    assert accepted.curves[0].losses == tuple(LOSSES)
    assert Rate("musa:1", "throughput: matmul float32, 512", 22.0, "TFLOPS") in accepted.rates
    assert Rate("musa:0", "memory: host copies, to host pinned", 24.0, "GB/s") in accepted.rates
    assert Rate("musa:0 musa:1", "memory: device copies", 30.0, "GB/s") in accepted.rates
    assert Rate("rank 0", "collectives: all-reduce, 1024 bytes", 5.0, "GB/s") in accepted.rates
    assert len(accepted.rates) == 7
    assert str(accepted) == f"{tmp_path}/accepted.json of 2026-11-30: 2 {CARD}"


def test_a_record_of_a_host_where_nothing_was_found_out(tmp_path: Path) -> None:
    file = tmp_path / "empty.json"
    facts: dict[str, JSON] = {"device_steps": {"unknown": "x"}, "visible_devices": {"absent": "y"}}
    file.write_text(record(facts, Settings(), "today"))
    accepted = read(str(file), 0.1)
    assert (accepted.devices, accepted.rates, accepted.curves) == ((), (), ())


def damaged(**changed: object) -> str:
    whole = json.loads(record(FACTS, Settings(), "today"))
    return json.dumps({**whole, **changed})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "found no JSON"),
        ("[" * 100000, "found no JSON"),
        ("[1]", 'expected a record of verify --save ("format": "musadoctor-accepted")'),
        ('{"format": "musadoctor-recording"}', "expected a record of verify --save"),
        (damaged(version=2), "expected version 1 of records"),
        (damaged(saved=1), "a damaged record: expected a text, found 1"),
        (damaged(rates=None), "a damaged record: expected a list, found null"),
        (damaged(rates=[1]), "a damaged record: expected an object, found 1"),
        (damaged(rates=[{"device": "musa:0"}]), "a damaged record: no 'name'"),
        (damaged(curves=[{"device": "d", "name": "n", "losses": ["nan"]}]), "expected a number"),
        (damaged(curves=[{"device": "d", "name": "n", "losses": [True]}]), "expected a number"),
        (damaged(devices=[None]), "expected a text, found null"),
        (" " * ((16 << 20) + 1), "larger than 16 MiB"),
    ],
)
def test_a_damaged_or_foreign_file(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    with pytest.raises(RecordError, match=r"file\.json") as error:
        read(str(file), 0.1)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="No such file or directory"):
        read(str(tmp_path / "none"), 0.1)


def test_settings_come_back_from_a_recording() -> None:
    settings = Settings("deep", "cuda", (0, 3), 9.5, {"x": 1}, soak_seconds=3.0)
    told = json.loads(json.dumps(settings_to_record(settings)))
    assert recorded_settings(told, "file") == settings


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        {**settings_to_record(Settings()), "level": "deepest"},
        {**settings_to_record(Settings()), "devices": 3},
        {**settings_to_record(Settings()), "devices": ["0"]},
        {**settings_to_record(Settings()), "options": []},
        {**settings_to_record(Settings()), "seconds": None},
        {**settings_to_record(Settings()), "soak_seconds": "1"},
        {**settings_to_record(Settings()), "kind": "xpu"},
    ],
)
def test_a_recording_of_no_such_run(told: dict[str, object] | None) -> None:
    with pytest.raises(ValueError, match="musadoctor verify --capture"):
        recorded_settings(told, "file")


# ---- against an accepted host ----------------------------------------------------------------


def test_a_host_like_the_record_passes(tmp_path: Path) -> None:
    accepted = saved(tmp_path)
    for check in (
        throughput_lost,
        loss_curve_leaves_record,
        loss_curve_leaves_reference,
        new_fallback,
        record_of_other_host,
    ):
        assert judged(check, accepted=accepted) == ("passed", [], ""), check.id


def test_without_a_record_there_is_nothing_to_compare_with() -> None:
    for check in (throughput_lost, loss_curve_leaves_record, new_fallback, record_of_other_host):
        assert judged(check) == ("skipped", [], "no record")


def test_a_speed_below_the_record_s(tmp_path: Path) -> None:
    # The record's median is 21 at 512 and 10.5 at 256.
    now = steps(matmul("musa:0", 18.0), matmul("musa:1", 12.0))
    status, found, _ = judged(throughput_lost, accepted=saved(tmp_path), transfer_steps=now)
    assert status == "failed"
    as_well = "(musa:0 as well)"
    assert found == [
        f"throughput: matmul float32, {size}, 43 % below the record's {record} {as_well}"
        for size, record in (("256: musa:1 6 TFLOPS", "10.5"), ("512: musa:1 12 TFLOPS", "21"))
    ]
    accepted = saved(tmp_path, tolerance=0.2)
    status, found, _ = judged(throughput_lost, accepted=accepted, transfer_steps=now)
    assert [message.partition(" (")[2] for message in found] == ["", ""]
    accepted = saved(tmp_path, tolerance=0.5)
    assert judged(throughput_lost, accepted=accepted, transfer_steps=now)[0] == "passed"


def test_a_step_in_a_line() -> None:
    told = step("compute: x", "musa:0", "hung", "no end after 30 s")
    assert str(told) == "musa:0 compute: x hung: no end after 30 s"
    assert str(step("compute: x")) == "musa:0 compute: x done"


def test_a_rank_s_speeds_of_no_number() -> None:
    odd = step("collectives: x", "rank 0", sizes=[{"bytes": 1}, {"bytes": 2, "bus": "nan"}], n="x")
    assert odd.rates == ()
    assert step("memory: x", "musa:0", to_host_pinned="none", pinned="", bytes=3).rates == ()
    training = step("throughput: training", "musa:0", **{"per_second 64": 3, "tflops": 1.0})
    assert training.rates == (
        Rate("musa:0", "throughput: training, 64", 3.0, "a second"),
        Rate("musa:0", "throughput: training", 1.0, "TFLOPS"),
    )
    assert str(Rate("musa:0", "x", 12.34567, "TFLOPS")) == "12.35 TFLOPS"


def test_a_speed_that_was_not_measured_today(tmp_path: Path) -> None:
    now = steps(matmul("musa:0", 21.0), step("throughput: matmul float32", "musa:1", "hung", "x"))
    status, _, reason = judged(throughput_lost, accepted=saved(tmp_path), transfer_steps=now)
    assert status == "unknown"
    assert reason == "not measured today: musa:1 throughput: matmul float32 hung"
    nothing = {name: Unknown("x") for name in ("transfer_steps", "device_steps", "rank_steps")}
    status, _, reason = judged(throughput_lost, accepted=saved(tmp_path), **nothing)
    assert (status, reason.startswith("no speed of")) == ("skipped", True)


def bent(at: int, factor: float) -> list[Any]:
    return [loss * (factor if at <= n < at + 10 else 1.0) for n, loss in enumerate(LOSSES)]


@pytest.mark.parametrize(
    ("dtype", "losses", "told"),
    [
        ("float32", bent(20, 1.0005), ""),
        ("float32", bent(20, 1.002), "0.2 % off at steps 20 to 29, 0.1 % may be"),
        ("bfloat16", bent(20, 1.01), ""),
        ("bfloat16", bent(50, 0.97), "3 % off at steps 50 to 59, 2 % may be"),
        ("float32", [*LOSSES[:-1], "nan"], "is not finite or not whole"),
        ("float32", LOSSES[:-1], "is not finite or not whole"),
        ("float32", [], "is not finite or not whole"),
    ],
)
def test_a_loss_curve_that_leaves_its_band(
    tmp_path: Path, dtype: str, losses: list[Any], told: str
) -> None:
    now = steps(curve("musa:1", losses, dtype=dtype))
    for check in (loss_curve_leaves_record, loss_curve_leaves_reference):
        status, found, _ = judged(check, accepted=saved(tmp_path), device_steps=now)
        assert status == ("failed" if told else "passed")
        assert all(f"musa:1: the loss curve {dtype}" in message for message in found)
        assert all(told in message for message in found)


def test_a_record_without_curves(tmp_path: Path) -> None:
    accepted = saved(tmp_path)._replace(curves=())
    status, _, reason = judged(loss_curve_leaves_record, accepted=accepted)
    assert (status, reason) == ("skipped", f"{accepted.file} holds no loss curve")
    lost = steps(step("record: loss curve float32", "musa:0", "hung", "no end"))
    assert judged(loss_curve_leaves_reference, device_steps=lost)[0] == "unknown"


def test_an_operator_that_leaves_the_device_now(tmp_path: Path) -> None:
    now = steps(
        step("fallback: static", "musa:0", falls_back=["aten::a", "aten::c"], missing=[]),
        step("fallback: model convnet", "musa:0", operators=[{"operator": "aten::y"}]),
    )
    accepted = saved(tmp_path)
    status, found, _ = judged(new_fallback, accepted=accepted, device_steps=now)
    assert status == "failed"
    assert found == [
        (
            "musa:0: aten::y left the device in model convnet, and did not on the host of "
            f"{accepted.file}"
        ),
        f"1 operators are not on the device and were on the host of {accepted.file}: aten::c",
    ]
    # A record of no audit says nothing of operators.
    accepted = accepted._replace(off_device=())
    status, found, _ = judged(new_fallback, accepted=accepted, device_steps=now)
    assert len(found) == 1


def test_a_record_of_other_cards(tmp_path: Path) -> None:
    accepted = saved(tmp_path)
    now = steps(census("MTT S4000"))
    status, found, _ = judged(record_of_other_host, accepted=accepted, visible_devices=now)
    assert status == "failed"
    assert found == [
        f"{accepted.file} is of 2 {CARD} (musa), today's devices are 1 MTT S4000 (musa)"
    ]
    none = steps(census())
    assert (
        "today's devices are none"
        in judged(record_of_other_host, accepted=accepted, visible_devices=none)[1][0]
    )


# ---- devices among themselves ----------------------------------------------------------------


def test_a_device_that_is_slower_than_the_others() -> None:
    now = steps(matmul("musa:0", 20.0), matmul("musa:1", 4.0), matmul("musa:2", 22.0))
    status, found, _ = judged(device_computes_slower_than_others, transfer_steps=now)
    assert status == "failed"
    assert found == [
        (
            "musa:1 computes slower than the others: matmul float32 at 512 4 TFLOPS, 19 % of the "
            "others' 21"
        )
    ]


def test_a_device_that_is_slow_at_one_size_was_disturbed() -> None:
    odd = Step(
        "musa:1", "throughput: matmul float32", "done", {"tflops 256": 10, "tflops 512": 2.0}
    )
    now = steps(matmul("musa:0", 20.0), odd)
    assert judged(device_computes_slower_than_others, transfer_steps=now)[0] == "passed"


def test_one_device_has_no_other() -> None:
    now = steps(matmul("musa:0", 20.0))
    status, _, reason = judged(device_computes_slower_than_others, transfer_steps=now)
    assert (status, reason) == ("skipped", "there is one device, and no other to compare it to")
    none = steps(step("throughput: matmul float32", "musa:0", "hung", "x"))
    assert judged(device_computes_slower_than_others, transfer_steps=none)[0] == "unknown"
    sizes = steps(matmul("musa:0", 20.0), step("throughput: matmul float32", "musa:1"))
    assert judged(device_computes_slower_than_others, transfer_steps=sizes)[0] == "passed"


def test_devices_that_were_asked_for_and_are_not_there() -> None:
    now = steps(census(CARD, CARD, missing=(2, 7)))
    status, found, _ = judged(device_to_verify_not_there, visible_devices=now)
    assert (status, found) == (
        "failed",
        ["--devices names musa:2, musa:7, and torch sees 2 (0 to 1)"],
    )
    none = steps(census(missing=(0,)))
    assert judged(device_to_verify_not_there, visible_devices=none)[1] == [
        "--devices names musa:0, and torch sees none"
    ]
    assert judged(no_device_to_verify, visible_devices=none)[1] == [
        "torch of /opt/venv/bin/python3 sees no musa device"
    ]
    assert judged(no_device_to_verify)[0] == judged(device_to_verify_not_there)[0] == "passed"


# ---- a long run ------------------------------------------------------------------------------


def soaked(speeds: list[float], **changed: object) -> Step:
    windows = [
        {"tflops": speed, "per_second": 10.0, "products": 5, "differing": 0, "loss": 1.0, **changed}
        for speed in speeds
    ]
    return step("soak: compute", "musa:0", windows=windows, size=1024, seconds=600.0)


WARM = step("soak: temperature", "host", cards={"0": "40 C at first, 91 C at most, 91 C at last"})


def test_a_device_that_becomes_slower_in_a_long_run() -> None:
    falling = steps(soaked([20.0, 20, 20, 19, 18, 17, 17, 16, 16]), WARM)
    status, found, _ = judged(soak_throughput_drifts, soak_steps=falling)
    assert status == "failed"
    assert found == [
        (
            "musa:0: products 20 % slower at the end: 20 TFLOPS at first, 16 at last; "
            "card 0: 40 C at first, 91 C at most, 91 C at last"
        )
    ]
    steady = steps(soaked([20.0, 21, 19, 20, 19, 20]))
    assert judged(soak_throughput_drifts, soak_steps=steady)[0] == "passed"
    cold = steps(soaked([20.0, 20, 10, 10]), step("soak: temperature", "host", cards={}))
    assert judged(soak_throughput_drifts, soak_steps=cold)[1][0].endswith("10 at last")
    few = steps(soaked([20.0, 1.0]))
    assert judged(soak_throughput_drifts, soak_steps=few)[0] == "passed"


def test_a_run_that_was_too_short_to_drift() -> None:
    short = steps(step("soak: compute", "musa:0", windows=[], seconds=3.0))
    status, _, reason = judged(soak_throughput_drifts, soak_steps=short)
    assert (status, reason) == ("skipped", "in 3 s nothing drifts; soak for minutes or hours")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"differing": 1}, "musa:0: 3 of 15 equal products of matrices differed from the first"),
        ({"loss": "nan"}, "musa:0: the loss became nan in window 1 of 3"),
    ],
)
def test_results_that_change_in_a_long_run(changed: dict[str, object], told: str) -> None:
    status, found, _ = judged(soak_results_change, soak_steps=steps(soaked([1.0] * 3, **changed)))
    assert status == "failed"
    assert told in found[0]
    assert judged(soak_results_change, soak_steps=steps(soaked([1.0] * 3)))[0] == "passed"


@pytest.mark.parametrize("state", ["failed", "hung", "crashed", "out of memory", "missing"])
def test_a_long_run_that_breaks_off(state: Any) -> None:
    broken = Step("musa:1", "soak: compute", state, {}, "killed by SIGSEGV", (), 12.0)
    status, found, _ = judged(soak_breaks_off, soak_steps=steps(broken, WARM))
    assert status == "failed"
    assert found == [
        (
            f"musa:1: the soak run {state} after 12 s: killed by SIGSEGV; "
            "card 0: 40 C at first, 91 C at most, 91 C at last"
        )
    ]
    assert judged(soak_results_change, soak_steps=steps(broken))[0] == "unknown"


def test_a_long_run_that_lasts() -> None:
    assert judged(soak_breaks_off, soak_steps=steps(soaked([1.0] * 3)))[0] == "passed"


def test_a_long_run_that_was_given_up() -> None:
    left = steps(step("soak: compute", "musa:0", "not taken", "cancelled"))
    assert judged(soak_breaks_off, soak_steps=left)[0] == "unknown"


# ---- watching the cards ----------------------------------------------------------------------

GMI = '{{"GPU": {{"Temperature": {{"GPU Current Temp": "{}C"}}}}, "x": {{"GPU Current Temp": "3{}C"}}}}'


def test_the_cards_temperatures_are_asked_for_meanwhile() -> None:
    answers = {
        f"mthreads-gmi -q --json (soak {n})": Ran("ok", 0, GMI.format(40 + n, n)) for n in range(1)
    }
    system = host(programs={"mthreads-gmi": Found("/usr/bin/mthreads-gmi")}, runs=answers)
    *taken, told = soak_steps(system, "python", "musa", ("musa:0", "musa:1"), 0.1)
    assert [step.state for step in taken] == ["not taken", "not taken"]
    assert told.value == {
        "cards": {
            "0": "40 C at first, 40 C at most, 40 C at last",
            "1": "30 C at first, 30 C at most, 30 C at last",
        }
    }


@pytest.mark.parametrize("ran", [Ran("not allowed", note="no"), Ran("ok", 0, "{}")])
def test_a_tool_that_tells_no_temperature(ran: Ran) -> None:
    runs = {"mthreads-gmi -q --json (soak 0)": ran}
    system = host(programs={"mthreads-gmi": Found("/usr/bin/mthreads-gmi")}, runs=runs)
    *_, told = soak_steps(system, "python", "musa", ("musa:0",), 0.1)
    assert told.state == "skipped"


def test_without_the_tool_no_temperature_is_told() -> None:
    *_, told = soak_steps(host(), "python", "cpu", ("cpu",), 0.1)
    assert (told.state, told.message) == ("skipped", "the management tool tells no temperature")


# ---- the tables ------------------------------------------------------------------------------


def test_tables_of_what_was_measured() -> None:
    text = render(FACTS, 80)
    assert (
        "          record  fallback  throughput  memory\n  musa:0     2/2       2/2         1/1     1/1\n"
        in text
    )
    assert "  matmul float32  musa:0 20, musa:1 22 TFLOPS\n" in text
    assert "  to host pinned  musa:0 24 GB/s\n" in text
    assert "  device copies   musa:0 to musa:1 30 GB/s\n" in text
    assert "  all-reduce  rank 0 5 GB/s\n" in text


def test_of_many_devices_the_range_is_told() -> None:
    many = steps(*(matmul(f"musa:{n}", 20.0 + n) for n in range(8)))
    text = render({"transfer_steps": encode(many)}, 200)
    assert "  matmul float32  20 (musa:0) to 27 (musa:7) TFLOPS\n" in text


def test_tables_keep_to_the_width() -> None:
    families = steps(
        *(step(f"family{n}: x", "musa:0") for n in range(12)),
        *(step(f"family{n}: x", "musa:0", "skipped") for n in range(12, 14)),
    )
    text = render({"device_steps": encode(families)}, 40)
    assert all(len(line) <= 40 for line in text.splitlines())
    assert text.count("musa:0") > 2
    assert text.rstrip().endswith("-")


def test_nothing_measured_gives_no_table() -> None:
    assert render({"device_steps": {"absent": "x"}}, 80) == ""
    ranks = steps(step("collectives: barrier", "rank 0"))
    assert render({"rank_steps": encode(ranks)}, 80) == ""
