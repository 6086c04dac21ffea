"""The answers themselves."""

import pytest

from musadoctor.facts.base import Absent, Unknown
from musadoctor.system import (
    DAMAGED,
    ERROR,
    NOT_ALLOWED,
    NOT_THERE,
    TIMED_OUT,
    UNRECORDED,
    Failure,
    Ran,
)


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (NOT_THERE, Absent),
        *((kind, Unknown) for kind in (NOT_ALLOWED, TIMED_OUT, UNRECORDED, DAMAGED, ERROR)),
        ("a kind of a newer version", Unknown),
    ],
)
def test_only_what_is_certainly_not_there_is_absent(
    kind: str, state: type[Absent | Unknown]
) -> None:
    failure = Failure(kind, "/proc/cmdline: the machine's words")
    assert str(failure) == "/proc/cmdline: the machine's words"
    assert failure.state == state("/proc/cmdline: the machine's words")
    assert type(failure.state) is state


@pytest.mark.parametrize(
    ("status", "started"),
    [
        *((status, True) for status in ("ok", "failed", "signal", "timed out", "flooded")),
        *((status, False) for status in ("not there", "not executable", "not allowed")),
        *((status, False) for status in ("wrong format", "not in this recording", "error")),
    ],
)
def test_what_has_been_started(status: str, started: bool) -> None:  # noqa: FBT001 - a table's
    assert Ran(status).started == started
