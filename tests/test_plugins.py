"""Packages of checks: the built-ins, others, and broken ones."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from musadoctor.api import Layer
from musadoctor.plugins import (
    BUILTIN,
    Loaded,
    PluginFailure,
    entry_points,
    load,
    load_requirements,
    unloaded,
)
from musadoctor.probes import PROBES

CHECK = '''
from musadoctor.api import Finding, Gpus, Judgement, Layer, check

@check("{id}", layer=Layer.HARDWARE, severity="note")
def rack(gpus: Gpus) -> Judgement:
    """The rack is upside down."""
    yield Finding("upside down")
'''


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on sys.path, whose modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def install(site: Path, package: str, entry: str = "", **modules: str) -> None:
    (site / package).mkdir()
    (site / package / "__init__.py").write_text(modules.pop("init", ""))
    for name, text in modules.items():
        (site / package / f"{name}.py").write_text(text)
    dist = site / f"{package}-1.0.dist-info"
    dist.mkdir()
    (dist / "entry_points.txt").write_text(entry or f"[musadoctor.checks]\nchecks = {package}\n")


def loaded_from(site: Path) -> Loaded:
    return load(plugins=True, path=[str(site)])


def test_the_built_ins_are_there_without_any_entry_point() -> None:
    built_in = load(plugins=True, path=[])
    assert len(built_in.checks) > 40
    assert {c.function.__module__.partition(".")[0] for c in built_in.checks} == {BUILTIN}
    assert built_in.failures == ()
    assert load(plugins=False).checks == built_in.checks


def test_a_foreign_check_stands_beside_them(site: Path) -> None:
    install(site, "acme_checks", rack=CHECK.format(id="rack-upside-down"))
    found = loaded_from(site)
    assert found.failures == ()
    (rack,) = (c for c in found.checks if c.id == "rack-upside-down")
    assert (rack.family, rack.layer, rack.title) == (
        "rack",
        Layer.HARDWARE,
        "The rack is upside down",
    )
    assert not any(c.id == "rack-upside-down" for c in load(plugins=False, path=[str(site)]).checks)


def test_checks_in_the_package_itself_and_imported_ones_count_once(site: Path) -> None:
    install(site, "acme_checks", init=CHECK.format(id="a"), other="from acme_checks import rack\n")
    assert [c.id for c in loaded_from(site).checks if c.family == "acme-checks"] == ["a"]


@pytest.mark.parametrize(
    ("modules", "reason"),
    [
        (
            {"rack": "import no_such_module\n"},
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ({"rack": "raise SystemExit(3)\n"}, "SystemExit: 3"),
        ({"rack": "def (:\n"}, "SyntaxError: "),
        ({"rack": "x = 1\n"}, "no check in any of its modules"),
        (
            {"rack": CHECK.format(id="driver-not-loaded")},
            "its check 'driver-not-loaded' has the id of one of musadoctor_checks",
        ),
        (
            {"rack": CHECK.format(id="twice"), "shelf": CHECK.format(id="twice")},
            "its check 'twice' has the id of one of acme_checks",
        ),
        (
            {"rack": "from __future__ import annotations\n" + CHECK.format(id="late")},
            "TypeError: late: the parameter 'gpus' is not annotated with types of facts",
        ),
        (
            {"rack": CHECK.format(id="bare").replace(": Gpus", "")},
            "TypeError: bare: the parameter 'gpus' is not annotated with types of facts",
        ),
        ({"rack": CHECK.format(id="a, b")}, "TypeError: 'a, b' is no id of a check"),
        (
            {"rack": CHECK.format(id="grave").replace('"note"', '"fatal"')},
            "TypeError: grave: expected a Layer and one of ('error', 'warning', 'note'): ",
        ),
        (
            {"rack": CHECK.format(id="low").replace("Layer.HARDWARE", "'hardware'")},
            "TypeError: low: expected a Layer and one of ",
        ),
    ],
)
def test_a_broken_package_is_shown_and_takes_nothing_with_it(
    site: Path, modules: dict[str, str], reason: str
) -> None:
    install(site, "acme_checks", **modules)
    install(site, "good_checks", fine=CHECK.format(id="fine"))
    found = loaded_from(site)
    (failure,) = found.failures
    assert failure.package == "acme_checks"
    assert failure.reason.startswith(reason)
    assert failure.origin == str(site / "acme_checks-1.0.dist-info" / "entry_points.txt")
    assert "fine" in {c.id for c in found.checks}
    assert len(found.checks) == len(load(plugins=False).checks) + 1


def test_a_package_that_is_not_there(site: Path) -> None:
    dist = site / "ghost-1.0.dist-info"
    dist.mkdir()
    (dist / "entry_points.txt").write_text("[musadoctor.checks]\nghost = ghost_checks\n")
    (failure,) = loaded_from(site).failures
    assert failure.reason == "ModuleNotFoundError: No module named 'ghost_checks'"


def test_foreign_damage_is_stepped_over(tmp_path: Path) -> None:
    (tmp_path / "-oken_b-1.0.dist-info").mkdir()  # a half-removed distribution
    junk = tmp_path / "junk-1.0.dist-info"
    junk.mkdir()
    (junk / "entry_points.txt").write_bytes(b"\xff\xfe[musadoctor.checks\nno equals sign\n= = =\n")
    (tmp_path / "file-1.0.dist-info").write_text("not a folder")
    good = tmp_path / "good-1.0.dist-info"
    good.mkdir()
    (good / "entry_points.txt").write_text(
        "[console_scripts]\nx = y:main\n\n"
        "[musadoctor.checks]\n# a comment = not one\nno equals sign\n"
        "one = good_checks\ntwo = good_checks:attribute\nthree = more_checks [extra]\n"
        f"builtin = {BUILTIN}\n\n[other]\nz = other_checks\n"
    )
    path = [str(tmp_path / "no such folder"), str(tmp_path), str(tmp_path)]
    assert [package for package, _ in entry_points(path)] == ["good_checks", "more_checks"]


def test_what_the_report_shows_of_a_broken_package() -> None:
    (result,) = unloaded([PluginFailure("acme", "acme.dist-info", "ImportError: x", "Traceback")])
    assert (result.check.id, result.status, result.check.severity) == (
        "plugin-broken",
        "unknown",
        "warning",
    )
    assert result.reason == "acme, named in acme.dist-info: ImportError: x"
    assert result.traceback == "Traceback"
    assert list(result.check.function()) == []


def test_every_fact_is_judged_by_a_check() -> None:
    judged = {name for check in load(plugins=False).checks for name in check.needs}
    assert judged == set(PROBES)


def test_the_guard_s_checks_are_loaded_by_themselves() -> None:
    guards = load_requirements()
    assert {check.family for check in guards} == {"requirements"}
    assert {check.layer for check in guards} == {Layer.REQUIREMENTS}
    assert not {check.id for check in guards} & {check.id for check in load(plugins=False).checks}
    judged = {name for check in guards for name in check.needs}
    assert judged == {"requirements", "stack", "resolution"}
    assert not judged & set(PROBES), "they are given, no machine is asked for them"
