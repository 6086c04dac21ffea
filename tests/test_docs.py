"""What the pages written by hand name is there."""

import re
from pathlib import Path

import pytest

from musadoctor.plugins import load, load_requirements, plugin_broken

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "checks" / "README.md"]
LOADED = (*load(plugins=False).checks, *load_requirements(), plugin_broken)
IDS = {check.id for check in LOADED}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_checks_that_a_page_names(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"musadoctor explain ([a-z0-9-]+)", text)
    named += re.findall(r"checks/([a-z0-9-]+)\.md", text)
    assert set(named) <= IDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_that_a_page_links_to(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
