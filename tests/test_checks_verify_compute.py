"""The checks of computation, on steps given directly."""

from typing import get_args

import pytest
from given import fixes, judged, said, unknown
from given_verify import figures, step, steps

from musadoctor.api import Check, Step, Steps
from musadoctor.facts.steps import StepState
from musadoctor.plugins import load_verify
from musadoctor.verify.children.base import STEPS
from musadoctor.verify.phases import CENSUS
from musadoctor_checks.verify.compute import (
    bfloat16_unsupported,
    computation_not_implemented,
    device_computation_fails,
    device_crashes,
    device_hangs,
    device_not_verified,
    device_out_of_memory,
    eight_bit_unsupported,
    gradient_not_finite,
    gradient_wrong,
    reduced_precision_matmul,
    result_not_finite,
    result_wrong,
    sixteen_bit_sums,
)

MATMUL, SINGLE = "compute: matmul bfloat16", "compute: matmul float32"
OLD = "compute: bfloat16 below capability 2.2"
DEVICES = step(CENSUS, "musa", devices=[{"name": "MTT S5000", "capability": [3, 1]}] * 8)
OWN = ("compute", "numerics")
NAMES = [name for name in STEPS if name.startswith(OWN)]
CHECKS = [
    check for check in load_verify() if set(check.needs) <= {"device_steps", "visible_devices"}
]
OF_STEPS = [check for check in CHECKS if check.family in OWN]


def matmul(device: str = "musa:0", name: str = MATMUL, **changed: object) -> Step:
    return step(name, device)._replace(value={**figures(**changed), **figures("gradient of a")})


WELL = steps(
    matmul(),
    matmul(name=SINGLE, reduced_ratio=0.01),
    step("compute: matmul float16", "musa:0")._replace(value=figures()),
    step(OLD, "musa:0", "skipped", "Skip: the device computes in bfloat16"),
    step("compute: matmul int8", result_ratio=0.0),
)


@pytest.mark.parametrize("check", OF_STEPS, ids=lambda check: check.id)
def test_nothing_is_said_of_what_is_well(check: Check) -> None:
    result = judged(check, device_steps=WELL, visible_devices=steps(DEVICES))
    assert result.findings == ()
    assert result.status in {"passed", "skipped"}


@pytest.mark.parametrize("state", [s for s in get_args(StepState) if s not in {"done", "skipped"}])
def test_every_state_of_every_step_leads_to_a_check(state: StepState) -> None:
    """Alone in a run, so that no other step speaks for it."""
    for name in NAMES:
        given = steps(step(name, "musa:0", state, "what came"))
        results = [
            judged(check, device_steps=given, visible_devices=steps(DEVICES)) for check in CHECKS
        ]
        told = [result for result in results if result.status in {"failed", "unknown"}]
        assert told, (name, state)
        said_it = [
            message for result in told for message in (result.reason, *map(str, result.findings))
        ]
        assert any("what came" in message for message in said_it), (name, state)


@pytest.mark.parametrize("check", OF_STEPS, ids=lambda check: check.id)
def test_what_was_not_taken_is_never_green(check: Check) -> None:
    given = steps(*(step(name, "musa:0", "not taken", "the device is gone") for name in NAMES))
    result = judged(check, device_steps=given, visible_devices=steps(DEVICES))
    assert result.status == "unknown" or check.id in {
        # These look for one way to end; device-not-verified speaks for all of them.
        "computation-not-implemented",
        "device-computation-fails",
        "device-crashes",
        "device-hangs",
        "device-out-of-memory",
    }


def test_a_failure_is_told_once_for_all_devices() -> None:
    broken = "RuntimeError: Conv2d MUDNN failed in: RunFusion"
    devices = [f"musa:{n}" for n in range(3)]
    given = [step("compute: conv2d float32", device, "failed", broken) for device in devices]
    other = step(MATMUL, "musa:1", "failed", "RuntimeError: lost")
    assert said(device_computation_fails, device_steps=steps(*given, other)) == (
        (
            "musa:0, musa:1, musa:2: conv2d float32 fails: RuntimeError: Conv2d MUDNN failed in:"
            " RunFusion (muDNN refuses an operation: its release does not support the shape or"
            " type, or does not belong to the Toolkit and torch_musa)"
        ),
        "musa:1: matmul bfloat16 fails: RuntimeError: lost",
    )


def test_many_failures_are_cut() -> None:
    given = [step(f"compute: op{n} float32", "musa:0", "failed", f"error {n}") for n in range(8)]
    messages = said(device_computation_fails, device_steps=steps(*given))
    assert len(messages) == 6
    assert messages[-1] == "musa:0: op5 float32, op6 float32, op7 float32 fail too"


@pytest.mark.parametrize(
    ("check", "state", "words"),
    [
        (device_hangs, "hung", "musa:0: matmul bfloat16 hangs: why"),
        (device_crashes, "crashed", "musa:0: matmul bfloat16 ends the process: why"),
        (device_out_of_memory, "out of memory", "musa:0: matmul bfloat16 runs out of memory: why"),
        (
            computation_not_implemented,
            "missing",
            "musa:0: matmul bfloat16 is not implemented: why",
        ),
    ],
)
def test_ways_to_end(check: Check, state: StepState, words: str) -> None:
    assert said(check, device_steps=steps(step(MATMUL, "musa:0", state, "why"))) == (words,)
    assert said(check, device_steps=WELL) == ()


def test_a_part_of_a_step_that_is_missing() -> None:
    given = step("numerics: same gradients", **{"index_add missing": "Could not run it"})
    assert said(computation_not_implemented, device_steps=steps(given)) == (
        "musa:0: same gradients: index_add is not implemented: Could not run it",
    )


def test_steps_that_were_not_taken() -> None:
    given = [step(name, "musa:1", "not taken", "it ended 4 processes") for name in (MATMUL, SINGLE)]
    one = step(MATMUL, "musa:2", "not taken", "no time")
    assert unknown(device_not_verified, device_steps=steps(*given, one)) == (
        "musa:1: 2 steps not taken: it ended 4 processes; musa:2: 1 step not taken: no time"
    )


def test_a_wrong_result_names_the_odd_device() -> None:
    given = [matmul(f"musa:{n}") for n in range(8)]
    given[3] = matmul("musa:3", error=0.25, ratio=125.0)
    assert said(result_wrong, device_steps=steps(*given)) == (
        (
            "musa:3: matmul bfloat16: the result is off by 0.25 at most; 1.25 instead of 1, where 0.002"
            " is allowed; right on 7 other devices"
        ),
    )
    assert fixes(result_wrong, device_steps=steps(*given)) == (("musadoctor verify --device cpu",),)
    assert said(gradient_wrong, device_steps=steps(*given)) == ()


def test_wrong_results_of_many_operations_are_cut() -> None:
    given = [
        matmul(name=f"compute: op{n} float32", ratio=2.0 + n, allowed=0.0, found="nan")
        for n in range(7)
    ]
    messages = said(
        result_wrong, device_steps=steps(*given, matmul("musa:1", "compute: op6 float32"))
    )
    assert messages[0] == (
        "musa:0: op6 float32: the result is off by 0.001 at most; nan instead of 1, where nothing"
        " is allowed; right on 1 other device"
    )
    assert messages[-1] == "musa:0: the same of op1 float32, op0 float32"
    assert len(messages) == 6


def test_wrong_gradients() -> None:
    value = {**figures(), **figures("gradient of the weight", ratio=3.0)}
    given = steps(step("compute: linear float32")._replace(value=value))
    assert said(gradient_wrong, device_steps=given) == (
        (
            "musa:0: linear float32: the gradient of the weight is off by 0.001 at most; 1.25 instead"
            " of 1, where 0.002 is allowed"
        ),
    )
    assert said(result_wrong, device_steps=given) == ()


@pytest.mark.parametrize(
    ("check", "label"), [(result_not_finite, "result"), (gradient_not_finite, "gradient of a")]
)
def test_what_is_not_finite(check: Check, label: str) -> None:
    given = step(MATMUL)._replace(value=figures(label, not_finite=1))
    assert said(check, device_steps=steps(given)) == (
        f"musa:0: matmul bfloat16: 1 number of the {label} is NaN or infinite",
    )
    many = step(MATMUL)._replace(value={f"{label} of gelu not finite": 3})
    assert said(check, device_steps=steps(many)) == (
        f"musa:0: matmul bfloat16: 3 numbers of the {label} of gelu are NaN or infinite",
    )


def test_what_did_not_end_was_not_compared() -> None:
    given = steps(matmul(), step(SINGLE, "musa:0", "hung", "no end"))
    for check in (result_wrong, gradient_wrong, result_not_finite, gradient_not_finite):
        assert unknown(check, device_steps=given) == (
            "there is nothing to compare of musa:0: matmul float32 (hung)"
        )


def test_reduced_precision() -> None:
    given = [
        matmul(f"musa:{n}", SINGLE, ratio=80.0, reduced_ratio=0.1, error=0.01) for n in range(2)
    ]
    training = step("numerics: training with sgd")._replace(
        value=figures("losses", ratio=5.0, reduced_ratio=0.5)
    )
    assert said(reduced_precision_matmul, device_steps=steps(*given, training)) == (
        "musa:0, musa:1: matmul float32: as far off as TF32 is, which has some three digits",
        "musa:0: training with sgd: as far off as TF32 is, which has some three digits",
    )
    assert said(result_wrong, device_steps=steps(*given)) == ()
    worse = matmul(name=SINGLE, ratio=800.0, reduced_ratio=1.1)
    assert said(reduced_precision_matmul, device_steps=steps(worse)) == ()
    assert len(said(result_wrong, device_steps=steps(worse))) == 1


def test_sums_in_sixteen_bits() -> None:
    given = [
        matmul("musa:0", f"compute: {n}", ratio=2.0, reduced_ratio=0.1)
        for n in ("a float16", "b bfloat16")
    ]
    assert said(sixteen_bit_sums, device_steps=steps(*given, *WELL.items)) == (
        "musa:0: a float16, b bfloat16: more is rounded to 16 bits than the result",
    )
    assert said(reduced_precision_matmul, device_steps=steps(*given, *WELL.items)) == ()


def test_cards_without_bfloat16() -> None:
    given = steps(step(OLD, "musa:0", "failed", "MUSA error: invalid"))
    assert said(bfloat16_unsupported, device_steps=given) == (
        (
            "musa:0: bfloat16 below capability 2.2 fails, a known limit (MTT S80 and S3000, of compute"
            " capability 2.1, have no arithmetic in bfloat16; torch_musa issues 21 and 122,"
            " 2025-12-01): MUSA error: invalid"
        ),
    )
    assert judged(device_computation_fails, device_steps=given).findings == ()
    assert (
        judged(bfloat16_unsupported, device_steps=WELL).reason == "the device computes in bfloat16"
    )


def test_products_of_eight_bits() -> None:
    name = "compute: matmul float8_e4m3fn"
    given = steps(
        step("compute: matmul int8", "musa:0", "missing", "no torch._int_mm"),
        step(name, "musa:0", "failed", "not for this card"),
    )
    assert said(eight_bit_unsupported, device_steps=given) == (
        "musa:0: matmul int8 is not implemented: no torch._int_mm",
        "musa:0: matmul float8_e4m3fn fails: not for this card",
    )
    assert judged(device_computation_fails, device_steps=given).findings == ()
    assert judged(computation_not_implemented, device_steps=given).findings == ()
    wrong = steps(step(name)._replace(value=figures(ratio=2.0)))
    assert len(said(result_wrong, device_steps=wrong)) == 1


def test_nothing_was_taken() -> None:
    result = judged(result_wrong, device_steps=Steps((), "python3"))
    assert (result.status, result.reason) == ("skipped", "no such step was taken")
