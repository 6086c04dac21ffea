"""Whoever searches for an error text finds the page of its cause."""

import re

import pytest

from musadoctor.plugins import load
from musadoctor.render.checks import page
from musadoctor_checks.knowledge import Message, messages

PAGES = {check.id: page(check) for check in load(plugins=False).checks}
ROWS = messages()


def symptoms(text: str) -> list[str]:
    """The error texts that a page lists, each without its quotes."""
    _, _, after = text.partition("## Symptoms")
    listed, _, _ = after.partition("\n## ")
    items = re.split(r"(?m)^- ", listed)[1:]
    return [" ".join(item.split()).strip("`") for item in items]


def test_symptoms_are_read_from_a_page() -> None:
    text = "# a\n\n## Symptoms\n\n- `one`\n- `two\n  lines`\n\n## Sources\n\n- none\n"
    assert symptoms(text) == ["one", "two lines"]
    assert symptoms("# a\n\n## Sources\n") == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.cause}-{row.pattern.pattern[:30]}")
def test_the_page_of_a_cause_lists_a_text_that_leads_to_it(row: Message) -> None:
    tells = row.alone or row.pattern
    listed = symptoms(PAGES[row.cause])
    assert any(tells.search(text) for text in listed), listed


@pytest.mark.parametrize("id", sorted(PAGES))
def test_no_symptom_is_listed_twice(id: str) -> None:
    listed = symptoms(PAGES[id])
    assert len(set(listed)) == len(listed)
