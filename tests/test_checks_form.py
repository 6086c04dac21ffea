"""The form of all built-in checks: ids, documentation, the facts that they ask for."""

import re
from typing import get_args, get_type_hints

import pytest

from musadoctor.api import Absent, Check, Layer, Unknown
from musadoctor.facts.accepted import AcceptedFact
from musadoctor.facts.network import RdmaFact
from musadoctor.facts.requirements import RequirementsFact, ResolutionFact, StackFact
from musadoctor.facts.steps import StepsFact
from musadoctor.facts.topology import TopologyFact
from musadoctor.plugins import load, load_requirements, load_verify
from musadoctor.probes import PROBES

CHECKS = (*load(plugins=False).checks, *load_requirements(), *load_verify())
FACTS = {
    **{name: get_type_hints(probe)["return"] for name, probe in PROBES.items()},
    "requirements": RequirementsFact,
    "stack": StackFact,
    "resolution": ResolutionFact,
    "visible_devices": StepsFact,
    "device_steps": StepsFact,
    "transfer_steps": StepsFact,
    "rank_steps": StepsFact,
    "extension_steps": StepsFact,
    "rdma": RdmaFact,
    "topology": TopologyFact,
    "soak_steps": StepsFact,
    "accepted": AcceptedFact,
}
"""The states of each fact, those of the guard and of `verify` included, which no report asks for."""
HEADINGS = ("Why it matters", "How to fix", "Symptoms", "Sources")

each = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)


def sections(check: Check) -> dict[str, str]:
    """The text under each heading of a check's documentation."""
    found = re.split(r"(?m)^\s*## (.+)$", check.function.__doc__ or "")
    return {name.strip(): text.strip() for name, text in zip(found[1::2], found[2::2], strict=True)}


def test_there_are_checks_in_every_layer() -> None:
    assert {check.layer for check in CHECKS} == set(Layer)


def test_no_two_checks_share_an_id() -> None:
    names = [name for check in CHECKS for name in (check.id, *check.aliases)]
    assert len(names) == len(set(names))
    assert not set(names) & {check.family for check in CHECKS}, "--select takes both"


@each
def test_the_id_names_the_problem(check: Check) -> None:
    for name in (check.id, *check.aliases):
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name), "kebab case, two words or more"
        assert not re.search(r"^(check|test|is|has)-|-(check|ok|works|valid)$", name)


@each
def test_the_function_has_the_name_of_the_check(check: Check) -> None:
    assert check.function.__name__ == check.id.replace("-", "_")


@each
def test_the_title_is_a_sentence(check: Check) -> None:
    first, blank, *_ = (check.function.__doc__ or "").splitlines()
    assert first.endswith("."), "the docstring's first line is a sentence"
    assert blank == ""
    assert not check.title.endswith(".")
    assert len(check.title.split()) > 2, "a sentence that states the problem"


@each
def test_the_documentation_is_whole(check: Check) -> None:
    written = sections(check)
    assert [name for name in HEADINGS if name in written] == list(written), "order of headings"
    assert {"Why it matters", "How to fix"} <= set(written)
    assert all(written.values()), "an empty section"


@each
def test_symptoms_are_texts_to_search_for(check: Check) -> None:
    listed = sections(check).get("Symptoms", "- `none`")
    items = re.split(r"(?m)^\s*- ", f"\n{listed}")[1:]
    assert items
    assert all("`" in item or '"' in item for item in items)


@each
def test_its_parameters_are_facts_in_possible_states(check: Check) -> None:
    hints = {
        name: hint for name, hint in get_type_hints(check.function).items() if name != "return"
    }
    assert set(hints) == set(check.needs)
    assert hints or check.id == "plugin-broken"
    for name, accepted in check.needs.items():
        assert name in FACTS, f"no fact {name}"
        stated = FACTS[name]
        possible = set(get_args(stated) or (stated,))
        assert set(accepted) <= possible, f"{name} is never {set(accepted) - possible}"
        records = possible - {Absent, Unknown}
        assert records & set(accepted), f"{name}: the engine hands every record over"


@each
def test_a_check_that_only_shows_something_below_is_not_the_lowest(check: Check) -> None:
    assert check.follows_from is None or check.follows_from <= check.layer
