"""The stack that must stay: of recorded hosts, and of assumed ones."""

import json

import pytest
from recorded import recorded, whole

from musadoctor.api import Absent, Stack, Unknown
from musadoctor.guard.host import NEWEST, AssumptionError, assumed, stack_of
from musadoctor.recording import Recording


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("s5000-5.2.0", "torch 2.9.1+musa5.2.0 (/opt/env/bin/python)"),
        # A plain version: upstream's torch of that number is another one.
        ("s4000-4.3.1", "torch 2.5.0 (/opt/env/bin/python)"),
        ("cuda-torch", "no vendor's torch (/opt/env/bin/python)"),
        ("no-torch", "no vendor's torch (/opt/env/bin/python)"),
    ],
)
def test_the_vendor_s_torch_is_told_by_its_content(case: str, said: str) -> None:
    stack = stack_of(recorded(case))
    assert isinstance(stack, Stack)
    assert str(stack) == said
    assert stack.markers["python_version"] == ".".join(
        stack.markers["python_full_version"].split(".")[:2]
    )


def test_where_nothing_is_there_nothing_needs_protection() -> None:
    absent = stack_of(recorded("no-gpu"))
    assert isinstance(absent, Absent)
    assert absent.reason.startswith("nothing of Moore Threads is here: no GPU of vendor 1ed5 ")
    assert isinstance(
        stack_of(Recording(json.dumps({**whole("no-gpu"), "answers": {}}), "")), Absent
    )


def test_what_could_not_be_found_out_is_not_taken_for_nothing() -> None:
    """There is a card, or a Toolkit, and the interpreter or its torch does not tell."""
    unknown = stack_of(recorded("python-does-not-start"))
    assert isinstance(unknown, Unknown)
    assert "does not work: exit code 1" in unknown.reason
    assert isinstance(stack_of(recorded("old-recording")), Unknown)
    host = whole("cuda-torch")
    site = "/opt/env/lib/python3.10/site-packages"
    host["answers"]["folders"][site] = ["torch"]
    del host["answers"]["files"][f"{site}/torch/version.py"]
    untold = stack_of(Recording(json.dumps(host), "x"))
    assert untold == Unknown(f"{site}/torch has no metadata, and its version.py states no version")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("musa", {"torch": NEWEST, "torch-musa": NEWEST, "triton": "3.2.0"}),
        ("musa=2.5.0", {"torch": "2.5.0", "torchvision": "0.20.0+afc54f7"}),
        ("musa=2.9.0", {"torch": "2.9.0", "torchvision": "0.24.0", "torchaudio": "2.9.0"}),
        ("musa=2.7.1+musa4.3.6", {"torchvision": "0.22.1+musa4.3.6"}),
        ("musa=3.0.0", {"torch": "3.0.0"}),
    ],
)
def test_an_assumed_stack(text: str, expected: dict[str, str]) -> None:
    stack = assumed(text)
    assert (stack.vendor, stack.source) == (True, f"--assume {text}")
    assert {name: stack.versions[name] for name in expected} == expected


def test_of_a_torch_that_is_not_known_no_torchvision_is_assumed() -> None:
    assert "torchvision" not in assumed("musa=3.0.0").versions
    assert str(assumed("new")) == "no vendor's torch (a new environment)"


@pytest.mark.parametrize("text", ["", "cuda", "musa=", "musa=newest", "new=1"])
def test_what_cannot_be_assumed(text: str) -> None:
    with pytest.raises(AssumptionError, match="expected musa, musa=VERSION "):
        assumed(text)
