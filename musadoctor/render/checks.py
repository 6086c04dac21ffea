"""The list of checks, and the documentation of one."""

import json
from itertools import groupby

from musadoctor.api import Check, Layer
from musadoctor.plugins import Loaded
from musadoctor.render.names import docs_url


def listing(loaded: Loaded) -> str:
    """One line a check, by layer."""
    checks = sorted(loaded.checks, key=lambda check: (check.layer, check.id))
    width = max(len(check.id) for check in checks)
    blocks = [
        "\n".join(
            [
                _name(layer),
                *(f"  {c.id:<{width}}  {c.severity:<7}  {c.title}" for c in members),
            ]
        )
        for layer, members in groupby(checks, key=lambda check: check.layer)
    ]
    broken = [
        f"not loaded: {failure.package} ({failure.origin}): {failure.reason}"
        for failure in loaded.failures
    ]
    return "\n\n".join([*blocks, *broken]) + "\n"


def listing_json(loaded: Loaded) -> str:
    """A JSON list of the checks."""
    rows = [
        {
            "id": check.id,
            "family": check.family,
            "layer": str(check.layer),
            "severity": check.severity,
            "title": check.title,
            "facts": sorted(check.needs),
            "aliases": list(check.aliases),
            "docs_url": docs_url(check),
        }
        for check in loaded.checks
    ]
    return json.dumps(rows, indent=2) + "\n"


def explanation(check: Check) -> str:
    """A check's page, as Markdown that reads well as plain text."""
    return f"{page(check)}\n"


def page(check: Check) -> str:
    """The documentation of one check in Markdown, from its docstring."""
    lines = (check.function.__doc__ or "").strip().splitlines()
    body = [line.removeprefix("    ").rstrip() for line in lines[1:]]
    facts = ", ".join(f"`{name}`" for name in check.needs) or "nothing"
    head = [
        f"# {check.id}",
        "",
        f"{check.title}.",
        "",
        f"Severity **{check.severity}**, layer **{_name(check.layer)}**, family `{check.family}`.",
        "",
        f"Judges {facts}.",
    ]
    if check.follows_from is not None:
        head += [
            "",
            f"A symptom: a failure of a layer from {_name(check.follows_from)} up explains it.",
        ]
    if check.aliases:
        head += ["", f"Formerly: {', '.join(f'`{alias}`' for alias in check.aliases)}."]
    return "\n".join([*head, *body]).rstrip()


def _name(layer: Layer) -> str:
    return str(layer).replace("_", "-")
