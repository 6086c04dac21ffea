"""The checks of the fall-back audit, on steps given directly."""

import pytest
from given import fixes, judged, said, skipped, unknown
from given_verify import step, steps

from musadoctor.api import Check, Steps
from musadoctor_checks.verify.fallback import (
    common_operator_fails,
    model_does_not_run,
    model_leaves_device,
    operator_falls_back,
    operators_not_on_device,
    required_operator_off_device,
)

STATIC, COMMON = "fallback: static", "fallback: common operators"
TOPK = {"operator": "aten::topk", "count": 3, "seconds": 0.02, "share": 0.4, "bytes": 4096}
MANY = [{**TOPK, "operator": f"aten::op{n}", "bytes": 3 << 20} for n in range(6)]
COVERED = step(STATIC, operators=3110, falls_back=[], missing=[], required={})
WELL = step(COMMON, tried=126, calls_on_device=900, operators=[], missing={}, failed={})
MODEL = step("fallback: model transformer", calls_on_device=500, operators=[], share=0.0)
NOT_NAMED = step(
    "fallback: model own",
    "musa:0",
    "skipped",
    "Skip: no function of your own was named with --audit",
)
HEALTHY = steps(COVERED, WELL, MODEL, NOT_NAMED)
ALL = (
    common_operator_fails,
    model_does_not_run,
    model_leaves_device,
    operator_falls_back,
    operators_not_on_device,
)


@pytest.mark.parametrize("check", ALL)
def test_healthy(check: Check) -> None:
    assert said(check, device_steps=HEALTHY) == ()


def test_nothing_was_required() -> None:
    result = judged(required_operator_off_device, device_steps=HEALTHY)
    assert (result.status, result.reason) == (
        "skipped",
        "no operator was named with --require-ops",
    )


def required(**states: str) -> Steps:
    names = {name.replace("__", "::"): state for name, state in states.items()}
    row = step("fallback: model own", operators=[TOPK], calls_on_device=1)
    return steps(COVERED._replace(value={"required": names}), row)


def test_required_operators() -> None:
    given = required(
        mm="covered",
        softmax="composite",
        aten__sort="falls back",
        fft_rfft="missing",
        cudnn_convolution="elsewhere",
        typo="no such operator",
        aten__topk="covered",
    )
    assert said(required_operator_off_device, device_steps=given) == (
        "musa:0: the required operator aten::sort is computed on the CPU",
        "musa:0: the required operator fft_rfft is missing: a call raises NotImplementedError",
        (
            "musa:0: the required operator cudnn_convolution has no kernel on this device, and none on"
            " the CPU"
        ),
        "musa:0: the required operator typo is no operator of this torch",
        "musa:0: the required operator aten::topk copies to the CPU inside its kernel (model own)",
    )
    assert set(fixes(required_operator_off_device, device_steps=given)) == {
        ("musadoctor verify --select fallback --json",)
    }
    assert said(required_operator_off_device, device_steps=required(mm="covered")) == ()
    assert skipped(required_operator_off_device, device_steps=steps(step(STATIC)))


def test_tables() -> None:
    given = steps(
        COVERED._replace(
            value={
                "operators": 3110,
                "missing": ["_foo", "bar_backward", "fft_rfft", "sort.stable"],
                "falls_back": [f"op{n}" for n in range(10)],
            }
        )
    )
    assert said(operators_not_on_device, device_steps=given) == (
        "musa:0: 4 of 3110 operators are missing: fft_rfft, bar_backward, sort.stable, _foo",
    )
    assert said(operator_falls_back, device_steps=given) == (
        (
            "musa:0: 10 of 3110 operators are computed on the CPU: op0, op1, op2, op3, op4, op5, op6,"
            " op7 and 2 more"
        ),
    )


def test_common_operators() -> None:
    value = {
        "tried": 126,
        "missing": {"unique": "NotImplementedError: no unique", "conv2d": "..."},
        "failed": {"sort": "RuntimeError: MUSA error: the kernel failed"},
    }
    assert said(common_operator_fails, device_steps=steps(WELL._replace(value=value))) == (
        (
            "musa:0: of 126 common operators 2 are not implemented: unique, conv2d; unique:"
            " NotImplementedError: no unique"
        ),
        (
            "musa:0: of 126 common operators 1 fail: sort; sort: RuntimeError: MUSA error: the kernel"
            " failed"
        ),
    )


def test_models_that_do_not_run() -> None:
    name = "fallback: model convnet"
    given = steps(
        MODEL,
        step(name, "musa:0", "missing", "NotImplementedError: no convolution"),
        step(name, "musa:0", "out of memory", "OutOfMemoryError: MUSA out of memory"),
        step(name, "musa:0", "hung", "no end after 60 s, in linear (functional.py:9)"),
        step(name, "musa:0", "crashed", "killed by SIGSEGV"),
        step("fallback: model own", "musa:0", "failed", "ModuleNotFoundError: No module 'x'"),
    )
    assert said(model_does_not_run, device_steps=given) == (
        (
            "musa:0: model convnet needs an operator that is not implemented: NotImplementedError: no"
            " convolution"
        ),
        "musa:0: model convnet runs out of memory: OutOfMemoryError: MUSA out of memory",
        "musa:0: model convnet hangs: no end after 60 s, in linear (functional.py:9)",
        "musa:0: model convnet crashes: killed by SIGSEGV",
        "musa:0: model own fails: ModuleNotFoundError: No module 'x'",
    )


def test_models_that_leave() -> None:
    value = {"operators": [TOPK], "leaving": 1, "share": 0.4, "seconds": 0.05}
    own = {**value, "function": "train:step", "operators": MANY, "leaving": 6, "share": 0.999}
    given = steps(
        COVERED,
        WELL,
        MODEL._replace(value=value),
        step("fallback: model own", **own),
    )
    assert said(model_leaves_device, device_steps=given) == (
        (
            "musa:0: model transformer: 1 operators leave the device in 3 calls, 40% of 50 ms, 4.0 KiB"
            " copied: topk (3 x)"
        ),
        (
            "musa:0: train:step: 6 operators leave the device in 18 calls, 100% of 50 ms, 18.0 MiB"
            " copied: op0 (3 x), op1 (3 x), op2 (3 x), op3 (3 x) and 2 more"
        ),
    )


def test_a_model_that_never_was_on_the_device() -> None:
    given = steps(step("fallback: model own", function="train:step", operators=[]))
    assert unknown(model_leaves_device, device_steps=given) == (
        "musa:0: train:step called no operator on the device"
    )


def test_what_one_model_does_is_not_known_of_another() -> None:
    given = steps(WELL, MODEL, step("fallback: model convnet", "musa:0", "hung", "no end"))
    assert unknown(model_leaves_device, device_steps=given) == "musa:0: model convnet hung: no end"


@pytest.mark.parametrize("check", [*ALL, required_operator_off_device])
def test_what_was_not_seen_is_not_green(check: Check) -> None:
    why = "the device ended 4 processes before it"
    names = (STATIC, COMMON, "fallback: model transformer")
    lost = steps(*(step(name, "musa:0", "not taken", why) for name in names))
    assert why in unknown(check, device_steps=lost)
    assert skipped(check, device_steps=steps(NOT_NAMED))


@pytest.mark.parametrize("check", [common_operator_fails, model_leaves_device])
def test_a_cpu_is_no_device(check: Check) -> None:
    why = "Skip: the CPU is where operators fall back to"
    names = (COMMON, "fallback: model transformer", "fallback: model convnet")
    given = steps(*(step(name, "cpu", "skipped", why) for name in names))
    result = judged(check, device_steps=given)
    assert result.status == "skipped"
    assert "the CPU is where operators fall back to" in result.reason
