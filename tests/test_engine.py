"""The engine: which facts it asks for, how a check comes out, what is a cause."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support import BUSY, host

from musadoctor.api import (
    Absent,
    Check,
    Finding,
    Fix,
    Gpus,
    Judgement,
    Layer,
    Messages,
    Severity,
    Unknown,
    check,
)
from musadoctor.api import Machine as MachineFact
from musadoctor.engine import diagnose, explain, judge
from musadoctor.report import Evidence, Result
from musadoctor.system import System

GPUS = Gpus((), "the test")
MACHINE = MachineFact("5.15", "x86_64", "Ubuntu", "ubuntu", "22.04", "2.35", (), False, None, 1, 1)


@check("no-cards", layer=Layer.HARDWARE, severity="error")
def no_cards(gpus: Gpus | Absent) -> Judgement:
    """There is no card."""
    if isinstance(gpus, Absent):
        yield Finding(f"none: {gpus}")


@check("needs-cards", layer=Layer.DRIVER, severity="error")
def needs_cards(gpus: Gpus, machine: MachineFact) -> Judgement:
    """Needs cards."""
    yield from ()


@check("undecided", layer=Layer.DRIVER, severity="warning")
def undecided(gpus: Gpus | Absent) -> Judgement:
    """Cannot decide."""
    yield Unknown("no table names it")
    yield Unknown("nor another")


@check("accepts-all", layer=Layer.DRIVER, severity="error")
def accepts_all(gpus: Gpus | Absent | Unknown) -> Judgement:
    """Never finds anything."""
    yield from ()


@check("does-not-arise", layer=Layer.DRIVER, severity="error")
def does_not_arise(gpus: Gpus | Absent) -> Judgement:
    """Has nothing to judge."""
    yield Absent("no card of that kind")


@check("finds-and-doubts", layer=Layer.DRIVER, severity="warning")
def finds_and_doubts(gpus: Gpus | Absent) -> Judgement:
    """Finds something although it cannot tell all."""
    yield Unknown("the rest")
    yield Finding("this")


@check("crashes", layer=Layer.DRIVER, severity="warning")
def crashes(gpus: Gpus | Absent) -> Judgement:
    """Crashes."""
    yield from ()
    raise ZeroDivisionError("half-way")


@check("finds-then-exits", layer=Layer.DRIVER, severity="warning")
def finds_then_exits(gpus: Gpus | Absent) -> Judgement:
    """Finds one thing and then leaves."""
    yield Finding("first")
    raise SystemExit(7)


@pytest.mark.parametrize(
    ("subject", "facts", "status", "reason"),
    [
        (no_cards, {"gpus": GPUS}, "passed", ""),
        (no_cards, {"gpus": Absent("no 1ed5")}, "failed", ""),
        (no_cards, {"gpus": Unknown("no /sys")}, "unknown", "no /sys"),
        # Nothing green rests on nothing.
        (accepts_all, {"gpus": Absent("no 1ed5")}, "skipped", "no 1ed5"),
        (accepts_all, {"gpus": Unknown("no /sys")}, "unknown", "no /sys"),
        (accepts_all, {"gpus": GPUS}, "passed", ""),
        (needs_cards, {"gpus": GPUS, "machine": MACHINE}, "passed", ""),
        (needs_cards, {"gpus": Absent("no 1ed5"), "machine": MACHINE}, "skipped", "no 1ed5"),
        # What is certainly absent settles the question before what is unknown does.
        (
            needs_cards,
            {"gpus": Absent("no 1ed5"), "machine": Unknown("no uname")},
            "skipped",
            "no 1ed5",
        ),
        (
            needs_cards,
            {"gpus": Unknown("no /sys"), "machine": Absent("no machine")},
            "skipped",
            "no machine",
        ),
        (undecided, {"gpus": GPUS}, "unknown", "no table names it; nor another"),
        (does_not_arise, {"gpus": GPUS}, "skipped", "no card of that kind"),
        (finds_and_doubts, {"gpus": GPUS}, "failed", ""),
        (
            crashes,
            {"gpus": GPUS},
            "unknown",
            f"a bug in {__name__}: the check itself failed with ZeroDivisionError: half-way",
        ),
        (
            finds_then_exits,
            {"gpus": GPUS},
            "failed",
            f"a bug in {__name__}: the check itself failed with SystemExit: 7",
        ),
    ],
)
def test_judge(subject: Check, facts: dict[str, object], status: str, reason: str) -> None:
    result = judge(subject, facts)
    assert (result.status, result.reason) == (status, reason)
    assert bool(result.traceback) == (subject.id in {"crashes", "finds-then-exits"})


@pytest.mark.parametrize(
    "said",
    [
        *("a text", None, 3, ("a", "b")),
        *(Unknown(3), Absent(None)),  # type: ignore[arg-type]
        *(Finding(7), Finding("x", where=Path("/a"))),  # type: ignore[arg-type]
        *(Finding("x", fix="do it"), Finding("x", fix=Fix("x", "pip"))),  # type: ignore[arg-type]
        *(Finding("x", fix=Fix(None)), Finding("x", fix=Fix("x", (1,)))),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_what_is_no_judgement_is_the_check_s_own_fault(said: object) -> None:
    """No renderer and no redaction ever sees it, and all else that was found is kept."""

    @check("malformed", layer=Layer.DRIVER, severity="error")
    def malformed(gpus: Gpus) -> Judgement:
        """Yields what it may not."""
        yield Finding("well-formed", fix=Fix("x", ["a"]))  # type: ignore[arg-type]
        yield said  # type: ignore[misc]

    result = judge(malformed, {"gpus": GPUS})
    assert [finding.message for finding in result.findings] == ["well-formed"]
    assert result.reason.startswith(
        f"a bug in {__name__}: the check itself failed with TypeError: expected "
    )


def test_a_passed_check_shows_its_facts() -> None:
    result = judge(needs_cards, {"gpus": GPUS, "machine": MACHINE})
    assert result.evidence == (Evidence("gpus", str(GPUS)), Evidence("machine", str(MACHINE)))


class Heard:
    """Keeps what the engine tells."""

    def __init__(self) -> None:
        self.layers: list[tuple[Layer, list[str]]] = []
        self.waits: list[tuple[str, ...]] = []

    def decided(self, layer: Layer, results: Sequence[Result]) -> None:
        self.layers.append((layer, [result.check.id for result in results]))

    def waiting(self, facts: Sequence[str], seconds: float) -> None:
        assert seconds > 0
        self.waits.append(tuple(facts))


def test_only_what_the_checks_name_is_asked() -> None:
    def forbidden(system: System) -> object:
        raise AssertionError("asked")

    found = diagnose(
        host(), [no_cards], seconds=5, probes={"gpus": lambda _: GPUS, "machine": forbidden}
    )
    assert found.facts == {"gpus": GPUS}
    assert [r.status for r in found.results] == ["passed"]


def test_facts_can_be_asked_for_without_a_check() -> None:
    found = diagnose(host(), [], seconds=5, facts=["gpus"], probes={"gpus": lambda _: GPUS})
    assert found.facts == {"gpus": GPUS}


def test_a_probe_that_raises_is_our_bug_and_ends_nothing() -> None:
    def broken(system: System) -> object:
        raise KeyError("oops")

    found = diagnose(
        host(),
        [no_cards, needs_cards],
        seconds=5,
        probes={"gpus": broken, "machine": lambda _: MACHINE},
    )
    assert [bug.where for bug in found.bugs] == ["probe gpus"]
    assert "KeyError" in found.bugs[0].traceback
    assert {r.status for r in found.results} == {"unknown"}
    assert all(
        "a bug in musadoctor: the probe gpus failed with KeyError" in r.reason
        for r in found.results
    )


def test_a_crash_of_a_built_in_check_is_our_bug() -> None:
    def built_in(gpus: Gpus | Absent) -> Iterator[Finding | Unknown]:
        """Crashes."""
        raise ZeroDivisionError

    built_in.__module__ = "musadoctor_checks.hardware"
    ours = check("ours", layer=Layer.HARDWARE, severity="note")(built_in)
    found = diagnose(host(), [ours, crashes], seconds=5, probes={"gpus": lambda _: GPUS})
    assert [bug.where for bug in found.bugs] == ["check ours"]
    assert found.results[0].reason.startswith("a bug in musadoctor: the check itself failed")


def test_a_fact_that_is_late_is_unknown_and_costs_only_itself() -> None:
    release = threading.Event()

    def late(system: System) -> object:
        release.wait(30)
        return MACHINE

    heard = Heard()
    begun = time.monotonic()
    found = diagnose(
        host(),
        [needs_cards, no_cards],
        seconds=0.5,
        progress=heard,
        probes={"machine": late, "gpus": lambda _: GPUS},
    )
    took = time.monotonic() - begun
    release.set()
    assert 1.4 < took < 2.0 + BUSY  # the limit and a second
    assert [(r.check.id, r.status) for r in found.results] == [
        ("no-cards", "passed"),
        ("needs-cards", "unknown"),
    ]
    assert found.results[1].reason == "machine: no answer in 0 s"
    assert heard.waits[0] == ("machine",)
    assert found.bugs == ()


def test_a_fact_that_nobody_knows_is_unknown() -> None:
    @check("asks-too-much", layer=Layer.DRIVER, severity="note")
    def asks_too_much(tarot: Gpus) -> Judgement:
        """Asks for a fact that is none."""
        yield from ()

    found = diagnose(host(), [asks_too_much], seconds=5, probes={})
    assert found.results[0].reason == "this musadoctor has no fact 'tarot'"


def test_layers_are_told_in_order_each_once_and_when_final() -> None:
    slow = threading.Event()

    def late(system: System) -> object:
        slow.wait(0.3)
        return MACHINE

    @check("basic", layer=Layer.MACHINE, severity="error")
    def basic(machine: MachineFact) -> Judgement:
        """Basic."""
        yield from ()

    heard = Heard()
    diagnose(
        host(),
        [no_cards, basic, undecided],
        seconds=5,
        progress=heard,
        probes={"machine": late, "gpus": lambda _: GPUS},
    )
    assert heard.layers == [
        (Layer.MACHINE, ["basic"]),
        (Layer.HARDWARE, ["no-cards"]),
        (Layer.DRIVER, ["undecided"]),
    ]


def outcome(
    id: str,
    layer: Layer,
    severity: Severity = "error",
    *,
    follows_from: Layer | None = None,
    failed: bool = True,
) -> Result:
    made = check(id, layer=layer, severity=severity, follows_from=follows_from)(no_cards.function)
    return Result(made, "failed" if failed else "passed", (Finding("x"),) if failed else ())


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        # A symptom follows from what is broken below it.
        (
            [
                outcome("sees-none", Layer.TORCH_MUSA, follows_from=Layer.MACHINE),
                outcome("unloaded", Layer.DRIVER),
            ],
            {"unloaded": None, "sees-none": "unloaded"},
        ),
        # From the most basic one.
        (
            [
                outcome("import", Layer.TORCH_MUSA, follows_from=Layer.MACHINE),
                outcome("no-mudnn", Layer.TOOLKIT),
                outcome("unloaded", Layer.DRIVER),
            ],
            {"unloaded": None, "no-mudnn": None, "import": "unloaded"},
        ),
        # From a cause of its own layer, never from a warning, never from a layer above.
        (
            [
                outcome("import", Layer.TORCH, follows_from=Layer.MACHINE),
                outcome("cuda", Layer.TORCH),
            ],
            {"cuda": None, "import": "cuda"},
        ),
        (
            [
                outcome("import", Layer.TORCH, follows_from=Layer.MACHINE),
                outcome("stale", Layer.ENVIRONMENT, "warning"),
                outcome("mccl", Layer.COLLECTIVES),
            ],
            {"stale": None, "import": None, "mccl": None},
        ),
        # A warning follows from a warning too.
        (
            [
                outcome("mapped", Layer.TORCH_MUSA, "warning", follows_from=Layer.ENVIRONMENT),
                outcome("stale", Layer.ENVIRONMENT, "warning"),
                outcome("odd", Layer.ENVIRONMENT, "note"),
            ],
            {"odd": None, "stale": None, "mapped": "stale"},
        ),
        # Never from a layer that cannot bring it about.
        (
            [
                outcome("no-gpu", Layer.HARDWARE),
                outcome("import", Layer.TORCH, follows_from=Layer.PYTHON),
                outcome("add", Layer.TORCH_MUSA, follows_from=Layer.PYTHON),
            ],
            {"no-gpu": None, "import": None, "add": "import"},
        ),
        # From what its own explanation follows from.
        (
            [
                outcome("no-gpu", Layer.HARDWARE),
                outcome("gmi", Layer.DRIVER, follows_from=Layer.HARDWARE),
                outcome("import", Layer.TORCH_MUSA, follows_from=Layer.DRIVER),
            ],
            {"no-gpu": None, "gmi": "no-gpu", "import": "no-gpu"},
        ),
        # A symptom with nothing below it is the cause, also of the symptoms above it.
        (
            [
                outcome("gmi", Layer.DRIVER, follows_from=Layer.MACHINE),
                outcome("import", Layer.TORCH, "warning", follows_from=Layer.MACHINE),
            ],
            {"gmi": None, "import": "gmi"},
        ),
        (
            [
                outcome("import", Layer.TORCH, follows_from=Layer.MACHINE),
                outcome("gmi", Layer.DRIVER, failed=False),
            ],
            {"gmi": None, "import": None},
        ),
    ],
)
def test_causes_and_consequences(results: list[Result], expected: dict[str, str | None]) -> None:
    assert {r.check.id: r.caused_by for r in explain(results)} == expected


def _finds_and_dies(id: str, told: Messages, facts: object) -> Iterator[Finding]:
    yield Finding(f"{id}: {told}")
    raise ZeroDivisionError("in a reader of texts")


@pytest.mark.parametrize("machine", [MACHINE, Unknown("not shown")])
def test_what_reads_texts_may_die_too(machine: object) -> None:
    @check("reads-texts", layer=Layer.DRIVER, severity="error", said=_finds_and_dies)
    def reads_texts(machine: MachineFact) -> Judgement:
        """Reads."""
        yield from ()

    facts = {"machine": machine, "messages": Messages(()), "gpus": GPUS}
    result = judge(reads_texts, facts)
    assert result.status == "failed"
    assert [finding.message for finding in result.findings] == ["reads-texts: 0 telling lines"]
    assert result.reason.endswith("ZeroDivisionError: in a reader of texts")
    assert "test_engine" in result.traceback
