"""How often ``musadoctor triage`` names the right cause: on the public failures and further ones.

Run from the repository's root: ``python benchmarks/diagnosis.py [--verbose]``. The public ones are
transcripts of the reports that the rules were written from; the further ones are of the same kinds
with other cards, versions and words. ``held-out`` ones were scored before anything was changed for
them and are never looked at when a rule is written.
"""

import importlib
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

from musadoctor.doctor import Options
from musadoctor.triage import diagnose_transcript

toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

CASES = Path(__file__).parent.parent / "tests" / "transcripts"
MISSED = CASES / "missed"
"""Transcripts whose cause is not named, kept so that nobody has to find them again."""
OUTCOMES = ("right first", "right in the first three", "wrong", "silent")
SHORT = ("first", "in 3", "wrong", "silent")
SETS = ("public", "further", "held-out")

Rows = dict[str, dict[str, object]]


class Diagnosed(NamedTuple):
    """One case with what came of it."""

    name: str
    kind: str
    observable: str
    expected: tuple[str, ...]
    causes: tuple[str, ...]
    """What was named, the most basic first; notes only where a note is expected."""
    outcome: str
    set: str
    """``public``, ``further`` or ``held-out``."""


def expected() -> Rows:
    """The cases with what has to be named."""
    return {**_rows(CASES / "expected.toml"), **_rows(CASES / "further.toml")}


def known_misses() -> Rows:
    """The cases that are known not to be named, with what should be and ``why`` it is not."""
    return _rows(MISSED / "expected.toml")


def _rows(path: Path) -> Rows:
    return cast("Rows", toml.loads(path.read_text(encoding="utf-8")))


def diagnosed(name: str, row: dict[str, object], folder: Path = CASES) -> Diagnosed:
    """Run one case."""
    text = (folder / f"{name}.txt").read_bytes()
    transcript, report = diagnose_transcript([(name, text)], Options(plugins=False))
    wanted = tuple(cast("list[str]", row["first"]))
    causes = tuple(
        cause.check.id
        for cause in (report.causes if transcript.of_musa else ())  # else the command refuses
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
    return Diagnosed(
        name,
        str(row["kind"]),
        str(row["observable"]),
        wanted,
        causes,
        outcome,
        str(row.get("set", "public")),
    )


def main() -> None:
    """Print the tables."""
    cases = [diagnosed(name, row) for name, row in expected().items()]
    misses = [diagnosed(name, row, MISSED) for name, row in known_misses().items()]
    everything = [*cases, *misses]
    for case in everything:
        if "--verbose" in sys.argv or case.outcome != "right first":
            print(f"{case.name}: {case.outcome}: {', '.join(case.causes) or '-'}", end="")
            print(f"; expected {' or '.join(case.expected) or 'nothing'}")
    tables(everything)


def tables(everything: Sequence[Diagnosed]) -> None:
    """Print how many came out how: all, and by kind."""
    print(f"\n{'':26}" + "".join(f"{name:>10}" for name in (*SETS, "all")) + "   yes partly    no")
    for outcome in OUTCOMES:
        of_outcome = [case for case in everything if case.outcome == outcome]
        counts = [sum(case.set == name for case in of_outcome) for name in SETS]
        print(f"{outcome:26}" + "".join(f"{n:>10}" for n in (*counts, sum(counts))), end="")
        seen = Counter(case.observable for case in of_outcome)
        print(f"{seen['yes']:>6}{seen['partly']:>7}{seen['no']:>6}")
    print(f"\n{'kind':26}{'public':>27}{'further and held-out':>27}")
    print(f"{'':26}" + 2 * "".join(f"{name:>6}" for name in ("", *SHORT))[3:])
    for kind in sorted({case.kind for case in everything}):
        members = [case for case in everything if case.kind == kind]
        public = _counted([case for case in members if case.set == "public"])
        print(f"{kind:26}{public}{_counted([case for case in members if case.set != 'public'])}")


def _counted(cases: Sequence[Diagnosed]) -> str:
    seen = Counter(case.outcome for case in cases)
    return "   " + "".join(f"{seen[outcome] or '-':>6}" for outcome in OUTCOMES)


if __name__ == "__main__":
    main()
