"""``musadoctor list`` and ``musadoctor explain``: the checks and their documentation."""

import sys
from typing import Annotated

import typer

from musadoctor.cli.shared import PluginsOption, refuse
from musadoctor.plugins import Loaded, load, load_requirements, not_loaded, plugin_broken
from musadoctor.selection import SelectionError, find


def list_checks(
    *,
    json: Annotated[bool, typer.Option("--json", help="As a JSON list.")] = False,
    no_plugins: PluginsOption = False,
) -> None:
    """List the checks."""
    from musadoctor.render import checks  # noqa: PLC0415 - only these commands need it

    loaded = _loaded(plugins=not no_plugins)
    sys.stdout.write(checks.listing_json(loaded) if json else checks.listing(loaded))


def _loaded(*, plugins: bool) -> Loaded:
    """The checks of hosts and those of the guard."""
    loaded = load(plugins=plugins)
    return loaded._replace(checks=(*loaded.checks, *load_requirements()))


def _complete_check(incomplete: str) -> list[str]:
    return [c.id for c in _loaded(plugins=True).checks if c.id.startswith(incomplete)]


def explain(
    check: Annotated[
        str, typer.Argument(metavar="ID", help="The check.", autocompletion=_complete_check)
    ],
) -> None:
    """Explain one check: why it matters, how to fix what it finds."""
    from musadoctor.render import checks  # noqa: PLC0415 - only these commands need it

    loaded = _loaded(plugins=True)
    try:
        found = find((*loaded.checks, plugin_broken), check)
    except SelectionError as error:
        refuse(f"{error}{not_loaded(loaded.failures)}")
    sys.stdout.write(checks.explanation(found))
