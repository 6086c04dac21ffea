"""The checks of what adds up over a training run, on steps given directly."""

import pytest
from given import judged, said, unknown
from given_verify import figures, step, steps

from musadoctor.api import Check, Step, Steps
from musadoctor.plugins import load_verify
from musadoctor.verify.phases import CENSUS
from musadoctor_checks.verify.numerics import (
    accumulation_order_varies,
    attention_fails,
    attention_gradient_not_finite,
    attention_gradient_wrong,
    attention_not_finite,
    attention_wrong,
    autocast_fails,
    grad_scaler_broken,
    gradient_clipping_wrong,
    optimizer_steps_drift,
    random_numbers_wrong,
    results_differ_between_devices,
    results_differ_between_runs,
    rounding_differs,
    sort_order_broken,
    subnormals_flushed,
    top_k_differs,
)

ATTENTION = "numerics: attention bfloat16 head 64 mask causal"
SAME, GRADIENTS = "numerics: same results float32", "numerics: same gradients"
ROUNDING, TIES = "numerics: rounding float32 to bfloat16", "numerics: ties float32"
OF_ATTENTION = (
    attention_wrong,
    attention_gradient_wrong,
    attention_not_finite,
    attention_gradient_not_finite,
)
QUERY = "gradient of query"
EIGHT = steps(step(CENSUS, "musa", devices=[{"name": "MTT S5000"}] * 8))
SCALED = {
    **figures(),
    "scale at first": 1024.0,
    "scale after a step": 1024.0,
    "scale after an overflow": 512.0,
    "steps after a step": 1,
    "steps after an overflow": 1,
}
OFF = "is off by 0.001 at most; 1.25 instead of 1, where 0.002 is allowed"
FLASH = "ScaledDotProductAttentionFlashMusaBackward0"


def attended(**changed: object) -> Step:
    value = {"route": "flash", "derivative": FLASH, **figures(), **figures(QUERY), **changed}
    return step(ATTENTION)._replace(value=value)


def repeated(
    device: str = "musa:0",
    name: str = SAME,
    part: str = "matmul",
    *,
    same: bool = True,
    **told: object,
) -> Step:
    value = {"digest": "7cc4ee70", "sum": 357.9, **told}
    return step(name, device)._replace(
        value={f"{part} same": same, **{f"{part} {key}": one for key, one in value.items()}}
    )


def trained(name: str = "numerics: training with adam", **changed: object) -> Step:
    value = {**figures("parameters", **changed), "last loss": 1.5, "right last loss": 1.25}
    return step(name)._replace(value=value)


WELL = steps(
    attended(),
    step("numerics: autocast bfloat16")._replace(
        value={"type of a product": "bfloat16", **figures("losses")}
    ),
    step("numerics: GradScaler")._replace(value=SCALED),
    trained(),
    step("numerics: clipping float32")._replace(value=figures("result norm before")),
    step(ROUNDING, numbers=100, different=0, flushed=0),
    step(TIES, **{"sort values wrong": 0, "sort indices differ": 0}),
    repeated(),
    repeated(name=GRADIENTS, part="index_add"),
    step("numerics: random numbers", outside=0)._replace(value={"outside": 0, **figures()}),
)
ALL = [check for check in load_verify() if check.family == "numerics"]


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
def test_nothing_is_said_of_what_is_well(check: Check) -> None:
    result = judged(check, device_steps=WELL, visible_devices=EIGHT)
    assert (result.status, result.findings) == ("passed", ())


def test_attention_that_fails() -> None:
    refused = "RuntimeError: Flash attention only supports architecture with mp version >= 2.2"
    other = "numerics: attention float16 head 256 mask none"
    given = [step(ATTENTION, "musa:0", "failed", refused), step(other, "musa:0", "failed", "lost")]
    first, second = said(attention_fails, device_steps=steps(*given))
    assert first == (
        f"musa:0: attention bfloat16 head 64 mask causal fails: {refused} (flash attention needs"
        " compute capability 2.2 (S4000, S5000))"
    )
    assert second == "musa:0: attention float16 head 256 mask none fails: lost"
    missing = "this torch has no scaled_dot_product_attention"
    result = judged(
        attention_fails,
        device_steps=steps(step(ATTENTION, "musa:0", "skipped", f"Skip: {missing}")),
    )
    assert (result.status, result.reason) == ("skipped", missing)


ROUTE = f"(route flash, {FLASH})"


@pytest.mark.parametrize(
    ("check", "changed", "words"),
    [
        (attention_wrong, figures(ratio=2.0), f"the result {OFF} {ROUTE}"),
        (attention_gradient_wrong, figures(QUERY, ratio=2.0), f"the {QUERY} {OFF} {ROUTE}"),
        (
            attention_not_finite,
            figures(not_finite=2),
            f"2 numbers of the result are NaN or infinite {ROUTE}",
        ),
        (
            attention_gradient_not_finite,
            figures(QUERY, not_finite=1),
            f"1 number of the {QUERY} is NaN or infinite {ROUTE}",
        ),
    ],
)
def test_attention_that_is_wrong(check: Check, changed: dict[str, object], words: str) -> None:
    given = steps(attended(**changed))
    assert said(check, device_steps=given) == (
        f"musa:0: attention bfloat16 head 64 mask causal: {words}",
    )
    for other in OF_ATTENTION:
        assert other == check or said(other, device_steps=given) == ()


def test_autocast() -> None:
    name = "numerics: autocast float16"
    failed = step(name, "musa:0", "failed", "unsupported autocast device_type 'musa'")
    ignored = step(name, "musa:1", **{"type of a product": "float32"})
    assert said(autocast_fails, device_steps=steps(failed, ignored)) == (
        "musa:0: autocast float16 fails: unsupported autocast device_type 'musa'",
        "musa:1: autocast float16: a matrix product comes out as float32",
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"steps after a step": 0, "steps after an overflow": 0}, " left out a step whose"),
        (figures(ratio=2.0), f" steps by other gradients than were scaled: the result {OFF}"),
        ({"scale after a step": 512.0}, " changed the scale from 1024.0 to 512.0 after one good"),
        ({"steps after an overflow": 2}, " took a step though gradients had overflowed"),
        (
            {"scale after an overflow": 1024.0},
            "s scale is 1024.0 after an overflow, where 512.0",
        ),
    ],
)
def test_grad_scaler(changed: dict[str, object], words: str) -> None:
    given = steps(step("numerics: GradScaler")._replace(value={**SCALED, **changed}))
    (message,) = said(grad_scaler_broken, device_steps=given)
    assert message.startswith(f"musa:0: GradScaler: it{words}")


def test_grad_scaler_that_fails() -> None:
    given = steps(step("numerics: GradScaler", "musa:0", "failed", "lost"))
    assert said(grad_scaler_broken, device_steps=given) == ("musa:0: GradScaler fails: lost",)


def test_training_that_drifts() -> None:
    off = "parameters off by 0.001 after a short training, where 0.002 is what rounding explains"
    given = steps(trained(ratio=4.0), trained("numerics: autocast bfloat16", not_finite=3))
    assert said(optimizer_steps_drift, device_steps=given) == (
        f"musa:0: training with adam: {off}; last loss 1.5 instead of 1.25",
        "musa:0: autocast bfloat16: 3 numbers of the parameters are NaN or infinite",
    )
    assert (
        said(optimizer_steps_drift, device_steps=steps(trained(ratio=4.0, reduced_ratio=0.1))) == ()
    )


def test_clipping() -> None:
    value = {**figures("result norm before", ratio=2.0), "norm before": 9.5, "norm after": 1.25}
    endless = step("numerics: clipping float16")._replace(value=figures("result", not_finite=2))
    given = steps(step("numerics: clipping float32")._replace(value=value), endless)
    assert said(gradient_clipping_wrong, device_steps=given) == (
        (
            f"musa:0: clipping float32: the result norm before {OFF}; norm 9.5 before and 1.25 after"
            " clipping to 1"
        ),
        "musa:0: clipping float16: 2 numbers of the result are NaN or infinite",
    )


def test_rounding() -> None:
    value = {"from": "1.00390625", "found": "1.0078125", "right": "1.0"}
    given = steps(
        step(ROUNDING, numbers=100, different=7, flushed=3)._replace(
            value={"numbers": 100, "different": 7, "flushed": 3, **value}
        ),
        step("numerics: rounding to whole numbers")._replace(
            value=figures("result round", ratio=9.0)
        ),
    )
    assert said(rounding_differs, device_steps=given) == (
        (
            "musa:0: rounding float32 to bfloat16: 7 of 100 numbers come out otherwise: 1.00390625"
            " becomes 1.0078125 instead of 1.0"
        ),
        f"musa:0: rounding to whole numbers: the result round {OFF}",
    )
    assert said(subnormals_flushed, device_steps=given) == (
        "musa:0: rounding float32 to bfloat16: 3 numbers below the smallest normal one become 0",
    )


def test_order() -> None:
    given = steps(
        step(
            TIES,
            **{
                "sort values wrong": 0,
                "stable sort indices wrong": 12,
                "argmax wrong": 1,
                "topk indices differ": 5,
            },
        )
    )
    assert said(sort_order_broken, device_steps=given) == (
        "musa:0: ties float32: wrong are 12 of stable sort indices, 1 of argmax",
    )
    assert said(top_k_differs, device_steps=given) == (
        "musa:0: ties float32: among equal numbers others come first than on the CPU: 5 of topk",
    )


def test_repetition() -> None:
    given = steps(
        repeated(same=False),
        repeated("musa:1", GRADIENTS, "index_add", same=False),
        repeated("musa:2"),
    )
    assert said(results_differ_between_runs, device_steps=given) == (
        "musa:0: same results float32: matmul: other bits the second time",
    )
    assert said(accumulation_order_varies, device_steps=given) == (
        "musa:1: same gradients: index_add: other bits the second time",
    )


def test_the_odd_device() -> None:
    given = [repeated(f"musa:{n}") for n in range(8)]
    given[5] = repeated("musa:5", digest="0badc0de", sum=358.25)
    given.append(repeated("musa:5", part="softmax", same=False))
    assert said(
        results_differ_between_devices, device_steps=steps(*given), visible_devices=EIGHT
    ) == (
        (
            "musa:5: matmul has other bits than on the 7 others; the numbers add up to 358.25 here and"
            " to 357.9 there (MTT S5000, same results float32)"
        ),
    )


def test_two_devices_that_differ() -> None:
    given = steps(repeated("musa:0"), repeated("musa:1", digest="0badc0de", sum=358.25))
    messages = said(results_differ_between_devices, device_steps=given, visible_devices=steps())
    assert messages == (
        (
            "musa:0, musa:1: matmul has different bits; the numbers add up to 357.9 and 358.25 (cards,"
            " same results float32)"
        ),
    )
    cards = steps(step(CENSUS, "musa", devices=[{"name": "MTT S4000"}, {"name": "MTT S5000"}]))
    assert said(results_differ_between_devices, device_steps=given, visible_devices=cards) == ()


def test_random_numbers() -> None:
    value = {"outside": 2, **figures("result mean of rand", ratio=3.0)}
    given = steps(step("numerics: random numbers")._replace(value=value))
    assert said(random_numbers_wrong, device_steps=given) == (
        "musa:0: random numbers: 2 numbers of torch.rand are not from 0 to below 1",
        f"musa:0: random numbers: the result mean of rand {OFF}",
    )


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
def test_a_step_that_was_lost_leaves_its_check_open(check: Check) -> None:
    lost = steps(*(item._replace(state="hung", value={}, message="no end") for item in WELL.items))
    assert unknown(check, device_steps=lost, visible_devices=EIGHT)
    nothing = judged(check, device_steps=Steps((), "python3"), visible_devices=EIGHT)
    assert (nothing.status, nothing.reason) == ("skipped", "no such step was taken")
