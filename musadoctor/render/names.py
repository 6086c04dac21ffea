"""Where a check's documentation lives."""

from musadoctor.api import Check

DOCS = "https://github.com/musadoctor/musadoctor/blob/main/docs/checks"


def docs_url(check: Check) -> str:
    """The address of a check's page; empty for a check of another distribution."""
    ours = check.function.__module__.partition(".")[0] in {"musadoctor", "musadoctor_checks"}
    return f"{DOCS}/{check.id}.md" if ours else ""
