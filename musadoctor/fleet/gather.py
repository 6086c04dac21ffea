"""Reads reports and recordings of many hosts, in any mix, one after the other."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from musadoctor.fleet.answer import Answer
from musadoctor.fleet.state import LeftOut, Unanswered
from musadoctor.fleet.summary import HostSummary


class Gathered(NamedTuple):
    """All that was read, each host once."""

    hosts: tuple[HostSummary, ...]
    unanswered: tuple[Unanswered, ...]
    left_out: tuple[LeftOut, ...]


class NothingError(Exception):
    """No file can be read at all; one sentence."""


def gather(paths: Sequence[str], *, expected: Iterable[str] = ()) -> Gathered:
    """Read files, folders, and ``-`` for standard input.

    ``expected`` are hosts that ought to be there; those that are not are unanswered.

    Raises:
        NothingError: nothing of what was named is there, or nothing in it is a report.
    """
    raise NotImplementedError


def of_answers(answers: Iterator[Answer]) -> Gathered:
    """The same of answers that an engine brings."""
    raise NotImplementedError
