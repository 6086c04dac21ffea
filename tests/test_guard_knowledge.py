"""The guard's table of packages: its form, and that every row holds for a bare name."""

import datetime as dt
import re

import pytest

from musadoctor.api import Entry, Finding, Requirements
from musadoctor.guard.host import assumed
from musadoctor.plugins import load_requirements
from musadoctor.requirements.requirement import entry_of, normalised
from musadoctor_checks.requirements._known import GENERAL, Package, package, packages

ROWS = packages()
STACK = assumed("musa")
CHECKS = {
    check.id: check
    for check in load_requirements()
    if check.function.__module__.rpartition(".")[2] not in {"deep", "stack"}
}
SAYS_CUDA = re.compile(r"cu\d|cu\[0-9|cuda|-gpu")
WORST = {"error": "refuse", "warning": "warn"}

each = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.ecosystem}:{row.name}")


def bare(row: Package) -> Entry:
    """The row's name with nothing said of version or source, as its ecosystem writes it."""
    name = row.name.replace("*", "x").replace("[0-9]", "1")
    if row.ecosystem == "conda":
        return Entry("conda", "environment.yml:1", name, name=name, fresh=True)
    if row.ecosystem == "vcs":
        return entry_of(f"git+https://example.invalid/someone/{name}.git", "requirements.txt:1")
    return entry_of(name, "requirements.txt:1")


def said(entry: Entry) -> list[tuple[str, str]]:
    requirements = Requirements((), (entry,))
    return [
        (check.id, finding.message)
        for check in CHECKS.values()
        for finding in check.function(requirements, STACK)
        if isinstance(finding, Finding)
    ]


@each
def test_the_verdict_holds_for_the_bare_name(row: Package) -> None:
    verdicts = [WORST[CHECKS[check].severity] for check, _ in said(bare(row))]
    assert verdicts == {"ok": [], "host": ["warn"]}.get(row.verdict, [row.verdict])


@each
def test_the_form_of_a_row(row: Package) -> None:
    assert row.ecosystem in {"pypi", "conda", "vcs"}
    assert (row.check in CHECKS) == (row.verdict in {"refuse", "warn"})
    assert row.check == "" or WORST[CHECKS[row.check].severity] == row.verdict
    assert bool(row.action) >= bool(row.check), "what is wrong has a way on"
    assert re.fullmatch(r"[PRCSM]\b.*", row.evidence)
    assert dt.date.fromisoformat(row.date) >= dt.date(2026, 11, 30)
    general = all(part.strip() == "M" for part in row.evidence.split(";"))
    assert row.confidence == (GENERAL if general else "checked")
    assert "http" not in row.action
    if not row.is_kind and row.ecosystem == "pypi":
        assert row.name.partition("[")[0] == normalised(row.name.partition("[")[0])


@each
def test_general_knowledge_refuses_only_what_says_cuda(row: Package) -> None:
    if row.confidence == GENERAL and row.check:
        assert row.verdict == "warn" or SAYS_CUDA.search(row.name)
        assert [message for _, message in said(bare(row))] == [
            message for _, message in said(bare(row)) if "general knowledge" in message
        ]


@each
def test_a_twin_is_no_package_for_cuda(row: Package) -> None:
    if row.twin not in {"", "none"}:
        twin = package(row.twin, "pypi")
        assert twin is None or twin.verdict != "refuse"


def test_no_name_twice() -> None:
    names = [(row.ecosystem, row.name) for row in ROWS]
    assert len(names) == len(set(names))


def test_a_row_of_the_very_name_goes_before_a_kind() -> None:
    exact = package("nvidia-ml-py", "pypi")
    assert exact
    assert exact.check == "nvidia-monitor"
    kind = package("nvidia-whatever", "pypi")
    assert kind
    assert (kind.name, kind.is_kind) == ("nvidia-*", True)
    assert package("numpy", "pypi") is None
    assert package("flash-attention", "pypi") is None
    assert package("flash-attention", "vcs") is not None
