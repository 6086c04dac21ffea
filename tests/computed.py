"""Runs of the steps of computation and numerics, and what their checks say of them."""

from pathlib import Path

import pytest
from given import judged
from given_verify import step, steps
from verify_steps import Taken, taken

from musadoctor.plugins import load_verify
from musadoctor.report import Result
from musadoctor.verify.phases import CENSUS

MODULES = ("measure", "elementwise", "compute", "attention", "numerics")
FAMILIES = ("compute", "numerics")
CARDS = steps(step(CENSUS, "musa", devices=[{"name": "MTT S5000", "capability": [3, 1]}] * 3))
CHECKS = [check for check in load_verify() if check.family in FAMILIES]

Results = dict[str, Result]
"""By the checks' ids."""


def judgements(run: Taken) -> Results:
    """What each check says of a run."""
    given = steps(*run.values())
    return {check.id: judged(check, device_steps=given, visible_devices=CARDS) for check in CHECKS}


def messages(result: Result) -> list[str]:
    """Of its findings."""
    return [finding.message for finding in result.findings]


def with_faults(python: str, fake_musa: Path, faults: dict[str, str], *, devices: int = 3) -> Taken:
    """A quick run on the stand-in with these faults, each FAKE_MUSA_... without its beginning."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(fake_musa))
        patch.setenv("FAKE_MUSA_DEVICES", str(devices))
        for name, value in faults.items():
            patch.setenv(f"FAKE_MUSA_{name}", value)
        return taken(python, "musa", MODULES, devices=devices)
