"""The steps of computation and numerics on a real torch: the CPU keeps the bounds, faults do not."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from computed import FAMILIES, MODULES, Results, judgements, messages, with_faults
from verify_steps import Taken, taken

from musadoctor.facts.steps import Step
from musadoctor.verify.children.base import STEPS

pytestmark = pytest.mark.torch
ALL = "musa:0, musa:1, musa:2"
ROUNDED_ONCE = 1.0
"""A result that is rounded rightly is off by just so much in places."""
MARGIN = 0.8
"""Of what is added up or computed in steps, where more errors come together than on the CPU."""
OLD = os.environ.get("MUSADOCTOR_TEST_OLD_TORCH", "")


def ratios(item: Step) -> Iterator[tuple[str, float]]:
    for key, value in item.value.items():
        if key.endswith(" ratio"):
            assert isinstance(value, float)
            yield key, value


# ---- the CPU ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cpu(torch_python: str) -> Taken:
    return taken(torch_python, "cpu", MODULES, "default")


def test_the_cpu_takes_every_step(cpu: Taken) -> None:
    wanted = {
        name for name, kind in STEPS.items() if name.startswith(FAMILIES) and kind.level != "deep"
    }
    assert {item.name for item in cpu.values()} == wanted
    assert {item.state for item in cpu.values()} == {"done", "skipped"}
    # What the CPU of this torch has no route or need for.
    skipped = {item.name for item in cpu.values() if item.state == "skipped"}
    assert all("efficient route" in name or "below capability" in name for name in skipped)


def test_nothing_is_said_of_the_cpu(cpu: Taken) -> None:
    for name, result in judgements(cpu).items():
        assert result.findings == (), name
        assert result.status in {"passed", "skipped"}, name


def test_the_cpu_keeps_the_bounds_with_a_margin(cpu: Taken) -> None:
    seen = 0
    for item in cpu.values():
        for key, ratio in ratios(item):
            assert ratio <= ROUNDED_ONCE, (item.name, key)
            seen += 1
            wide = "float32" in item.name and "multiply" not in item.name
            if wide or item.name.startswith(("numerics: attention", "numerics: training")):
                assert ratio <= MARGIN, (item.name, key)
    assert seen > 500


def test_every_value_can_be_written_as_json(cpu: Taken) -> None:
    for item in cpu.values():
        for key, value in item.value.items():
            assert isinstance(value, (int, float, str)), (item.name, key)


@pytest.mark.skipif(not OLD, reason="MUSADOCTOR_TEST_OLD_TORCH names no interpreter")
def test_an_old_torch() -> None:
    run = taken(OLD, "cpu", MODULES, "default")
    assert {item.state for item in run.values()} == {"done", "skipped"}
    for name, result in judgements(run).items():
        # The CPU of torch 1.13 adds up and computes functions in bfloat16.
        assert result.findings == () or name == "sixteen-bit-sums", (name, messages(result))


# ---- the stand-in ----------------------------------------------------------------------------


def test_nothing_is_said_of_a_sound_device(torch_python: str, fake_musa: Path) -> None:
    run = with_faults(torch_python, fake_musa, {})
    assert {item.state for item in run.values()} == {"done", "skipped"}
    for name, result in judgements(run).items():
        assert result.findings == (), name
        assert result.status in {"passed", "skipped"}, name


@pytest.fixture(scope="module")
def faulty(torch_python: str, fake_musa: Path) -> Results:
    """Many faults, each of an operator of its own."""
    run = with_faults(
        torch_python,
        fake_musa,
        {
            "WRONG": "aten::mm/float32@1,aten::gelu/float16,aten::_int_mm,"
            "aten::embedding_dense_backward/float32",
            "NAN": "aten::native_layer_norm/float16@2,aten::_softmax_backward_data/bfloat16",
            "RAISE": "aten::exp/float16",
            "MISSING": "aten::topk/bfloat16,aten::index_add",
            "OOM": "aten::sigmoid/bfloat16",
        },
        devices=3,
    )
    return judgements(run)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            "device-computation-fails",
            f"{ALL}: exp float16, extremes float16 fail: RuntimeError: MUSA",
        ),
        (
            "device-out-of-memory",
            f"{ALL}: sigmoid bfloat16, silu bfloat16, extremes bfloat16 run out of memory: ",
        ),
        (
            "computation-not-implemented",
            f"{ALL}: topk bfloat16, ties bfloat16 are not implemented: ",
        ),
        (
            "computation-not-implemented",
            f"{ALL}: same gradients: index_add is not implemented: Could",
        ),
        ("result-wrong", "musa:1: matmul float32: the result is off by "),
        ("result-wrong", f"{ALL}: gelu float16: the result is off by "),
        ("result-wrong", f"{ALL}: matmul int8: the result is off by 1 at most; "),
        ("gradient-wrong", "musa:1: matmul float32: the gradient of a is off by "),
        ("gradient-wrong", f"{ALL}: embedding float32: the gradient of a is off by "),
        ("result-not-finite", "musa:2: layer norm float16: 64 numbers of the result are NaN"),
        (
            "gradient-not-finite",
            f"{ALL}: softmax bfloat16: 48 numbers of the gradient of a are NaN",
        ),
    ],
)
def test_faults_are_found(faulty: Results, check: str, message: str) -> None:
    told = messages(faulty[check])
    assert any(one.startswith(message) for one in told), told


def test_the_odd_card_is_told_from_the_others(faulty: Results) -> None:
    told = [one for one in messages(faulty["result-wrong"]) if "matmul float32" in one]
    assert told
    assert all(one.endswith("; right on 2 other devices") for one in told)


SOUND = ("device-hangs", "device-crashes", "reduced-precision-matmul", "sort-order-broken")


def test_nothing_else_is_red(faulty: Results) -> None:
    assert [faulty[name].findings for name in SOUND] == [()] * len(SOUND)


def test_an_old_card(torch_python: str, fake_musa: Path) -> None:
    """Compute capability 2.1, which fails in bfloat16: a note and nothing more."""
    faults = {"CAPABILITY": "2.1", "RAISE": "*/bfloat16"}
    run = with_faults(torch_python, fake_musa, faults, devices=1)
    results = judgements(run)
    (message,) = messages(results["bfloat16-unsupported"])
    assert message.startswith("musa:0: bfloat16 below capability 2.2 fails, a known limit (MTT S80")
    for name, result in results.items():
        assert result.status in {"passed", "skipped"} or name == "bfloat16-unsupported", name
    skipped = [item for item in run.values() if item.state == "skipped"]
    assert sum(item.message == "Skip: bfloat16 needs capability 2.2" for item in skipped) > 30
