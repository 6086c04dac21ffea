"""Small dependency files of every form, read and judged as a whole.

``tests/guard/expected.toml`` says what is found in which file; a line is ``number check``.
"""

import importlib
import sys
from pathlib import Path

import pytest

from musadoctor.guard.host import assumed
from musadoctor.guard.judge import judge
from musadoctor.plugins import load_requirements
from musadoctor.requirements.files import read

TOML = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
GUARD = Path(__file__).parent / "guard"
EXPECTED = TOML.loads((GUARD / "expected.toml").read_text(encoding="utf-8"))


def test_every_file_is_expected() -> None:
    there = {
        str(path.relative_to(GUARD / "cases"))
        for path in (GUARD / "cases").rglob("*")
        if path.is_file()
    }
    told = {*EXPECTED, *(file for case in EXPECTED.values() for file in case.get("included", {}))}
    assert there == told


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_found_in_a_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GUARD / "cases")
    case = EXPECTED[name]
    requirements = read([name])
    assert requirements.files[0].format == case["format"]
    report = judge(requirements, assumed(case.get("assume", "musa")))
    assert report.bugs == ()
    found: dict[str, list[str]] = {}
    for result in report.results:
        for finding in result.findings:
            path, _, number = finding.where.rpartition(":")
            found.setdefault(path, []).append(f"{number} {result.check.id}")
    expected = {name: case["found"], **case.get("included", {})}
    assert {path: sorted(lines) for path, lines in found.items()} == {
        path: sorted(lines) for path, lines in expected.items() if lines
    }


def test_every_check_of_entries_has_a_case() -> None:
    shown = {
        line.partition(" ")[2]
        for case in EXPECTED.values()
        for lines in (case["found"], *case.get("included", {}).values())
        for line in lines
    }
    assert shown == {
        check.id
        for check in load_requirements()
        if check.function.__module__.rpartition(".")[2] not in {"deep", "stack"}
    }
