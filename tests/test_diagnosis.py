"""``benchmarks/diagnosis.py``: what it says of the cases that are known to be missed."""

import pytest
from diagnosed import EXPECTED, diagnosed, diagnosis

MISSED = diagnosis.known_misses()


@pytest.mark.parametrize("name", MISSED)
def test_a_known_miss_is_one(name: str) -> None:
    case = diagnosis.diagnosed(name, MISSED[name], diagnosis.MISSED)
    assert case.outcome != "right first", "it is named now: move it to the others"


def test_every_known_miss_has_a_transcript_and_a_reason() -> None:
    assert {path.stem for path in diagnosis.MISSED.glob("*.txt")} == set(MISSED)
    assert all(row["why"] for row in MISSED.values())


def test_the_tables_count_every_case_once(capsys: pytest.CaptureFixture[str]) -> None:
    misses = [diagnosis.diagnosed(name, row, diagnosis.MISSED) for name, row in MISSED.items()]
    diagnosis.tables([*map(diagnosed, EXPECTED), *misses])
    lines = capsys.readouterr().out.splitlines()
    outcomes = [line for line in lines if line.startswith(diagnosis.OUTCOMES)]
    columns = [line[26:].split() for line in outcomes]
    assert sum(int(row[3]) for row in columns) == len(EXPECTED) + len(MISSED)
    assert sum(int(row[0]) for row in columns) == 54  # the public collection
    for row in columns:
        assert sum(map(int, row[:3])) == int(row[3]) == sum(map(int, row[4:]))
