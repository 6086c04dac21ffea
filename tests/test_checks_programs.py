"""The checks of programs and builds: a text that tells of them, and nothing where none does."""

import pytest

from musadoctor.api import Check
from musadoctor.doctor import Options
from musadoctor.report import Report
from musadoctor.triage import diagnose_transcript
from musadoctor_checks import programs as family

ALL = [check for check in vars(family).values() if isinstance(check, Check)]
TEXTS = [
    (
        family.driver_bound_while_building,
        (
            "dpkg: error: unable to install new version of '/usr/bin/mthreads-gmi':"
            " Invalid cross-device link"
        ),
    ),
    (
        family.package_pins_other_torch,
        (
            "ERROR: Cannot install flag-gems and torch==2.7.1+musa4.0.0 because these package versions"
            " have conflicting dependencies."
        ),
    ),
    (family.flash_attention_missing, "ValueError: FlashAttention version not detected on MUSA"),
    (
        family.forked_after_initialisation,
        "RuntimeError: Cannot re-initialize MUSA in forked subprocess.",
    ),
]


def triage(text: str) -> Report:
    return diagnose_transcript([("report", text.encode())], Options(plugins=False))[1]


@pytest.mark.parametrize(("check", "text"), TEXTS, ids=lambda value: str(value)[:30])
def test_a_text_names_the_cause(check: Check, text: str) -> None:
    named = [cause.check.id for cause in triage(f"MTT S5000\nerror: failed\n{text}").causes]
    assert named == [check.id]


def test_every_check_has_a_text() -> None:
    assert {check.id for check, _ in TEXTS} == {check.id for check in ALL}


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
def test_another_text_leaves_it_undecided(check: Check) -> None:
    (result,) = (r for r in triage("MTT S5000\nerror: failed").results if r.check.id == check.id)
    assert (result.status, result.reason) == (
        "unknown",
        "none of 1 lines that could tell of it does",
    )
