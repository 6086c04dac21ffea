"""Faults of what adds up over a training run, on the stand-in device."""

from pathlib import Path

import pytest
from computed import Results, judgements, messages, with_faults

pytestmark = pytest.mark.torch
ALL = "musa:0, musa:1, musa:2"


@pytest.fixture(scope="module")
def faulty(torch_python: str, fake_musa: Path) -> Results:
    """Many faults, each of an operator of its own."""
    faults = {
        "FLAKY": "aten::mm/float32@1,aten::index_add",
        "NUDGE": "aten::gelu/float32@2",
        "UNSTABLE": "aten::sort",
        "TRUNCATE": "bfloat16",
        "BLIND": "aten::_amp_foreach_non_finite_check_and_unscale_",
        "NO_AUTOCAST": "1",
        "NAN": "aten::_softmax_backward_data/float32@0",
        "WRONG": "aten::addcdiv,aten::linalg_vector_norm,aten::uniform_",
        "RAISE": "aten::_safe_softmax/bfloat16@1,aten::bmm/bfloat16@1",
    }
    return judgements(with_faults(torch_python, fake_musa, faults))


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            "attention-gradient-not-finite",
            (
                "musa:0: attention float32 head 64 mask none: 3072 numbers of the gradient of query are"
                " NaN or infinite (route math, "
            ),
        ),
        ("autocast-fails", f"{ALL}: autocast bfloat16: a matrix product comes out as float32"),
        (
            "grad-scaler-broken",
            f"{ALL}: GradScaler: it took a step though gradients had overflowed to infinity",
        ),
        ("optimizer-steps-drift", f"{ALL}: training with adam: parameters off by "),
        ("gradient-clipping-wrong", f"{ALL}: clipping float32: the result norm before is off by "),
        ("rounding-differs", f"{ALL}: rounding float32 to bfloat16: "),
        ("sort-order-broken", f"{ALL}: ties float32: wrong are 778 of stable sort indices"),
        (
            "top-k-differs",
            f"{ALL}: ties float32: among equal numbers others come first than on the CPU: 742 of sort",
        ),
        (
            "results-differ-between-runs",
            "musa:1: same results float32: matmul: other bits the second time",
        ),
        (
            "accumulation-order-varies",
            "musa:0, musa:2: same gradients: index_add: other bits the second time",
        ),
        (
            "results-differ-between-devices",
            "musa:2: gelu has other bits than on the 2 others; the numbers add up to ",
        ),
        ("random-numbers-wrong", f"{ALL}: random numbers: "),
    ],
)
def test_faults_are_found(faulty: Results, check: str, message: str) -> None:
    told = messages(faulty[check])
    assert any(one.startswith(message) for one in told), told
