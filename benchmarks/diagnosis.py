"""How often ``musadoctor triage`` names the right cause: over the public failures in the tests.

Run from the repository's root: ``python benchmarks/diagnosis.py [--verbose]``.
"""

import importlib
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple, cast

from musadoctor.doctor import Options
from musadoctor.triage import diagnose_transcript

toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

CASES = Path(__file__).parent.parent / "tests" / "transcripts"
OUTCOMES = ("right first", "right in the first three", "wrong", "silent")


class Diagnosed(NamedTuple):
    """One case with what came of it."""

    name: str
    observable: str
    expected: tuple[str, ...]
    causes: tuple[str, ...]
    """What was named, the most basic first; notes only where a note is expected."""
    outcome: str


def expected() -> dict[str, dict[str, object]]:
    """The cases with what has to be named."""
    text = (CASES / "expected.toml").read_text(encoding="utf-8")
    return cast("dict[str, dict[str, object]]", toml.loads(text))


def diagnosed(name: str, row: dict[str, object]) -> Diagnosed:
    """Run one case."""
    text = (CASES / f"{name}.txt").read_bytes()
    _, report = diagnose_transcript([(name, text)], Options(plugins=False))
    wanted = tuple(cast("list[str]", row["first"]))
    causes = tuple(
        cause.check.id
        for cause in report.causes
        if cause.check.severity != "note" or cause.check.id in wanted
    )
    if not wanted:
        outcome = "wrong" if causes else "right first"
    elif not causes:
        outcome = "silent"
    elif causes[0] in wanted:
        outcome = "right first"
    else:
        within = any(cause in wanted for cause in causes[:3])
        outcome = "right in the first three" if within else "wrong"
    return Diagnosed(name, str(row["observable"]), wanted, causes, outcome)


def main() -> None:
    """Print the table."""
    cases = [diagnosed(name, row) for name, row in expected().items()]
    for case in cases:
        if "--verbose" in sys.argv or case.outcome != "right first":
            print(f"{case.name}: {case.outcome}: {', '.join(case.causes) or '-'}", end="")
            print(f"; expected {' or '.join(case.expected) or 'nothing'}")
    print(f"{'':28}{'all':>6}{'yes':>6}{'partly':>8}{'no':>6}")
    for outcome in OUTCOMES:
        kinds = Counter(case.observable for case in cases if case.outcome == outcome)
        print(
            f"{outcome:28}{kinds.total():>6}{kinds['yes']:>6}{kinds['partly']:>8}{kinds['no']:>6}"
        )


if __name__ == "__main__":
    main()
