"""Carrying an errand: what comes is kept at once, and nobody is missed."""

import gzip
import io
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from musadoctor.fleet.answer import NOT_ASKED, SILENT, UNREACHABLE, Answer
from musadoctor.fleet.carry.errand import Arrived, Engine, EngineError, Errand
from musadoctor.fleet.gather import Gathered
from musadoctor.fleet.keep import KeepError, Kept
from musadoctor.fleet.run import Run
from musadoctor.fleet.waiting import WaitingLine

REPORT = json.dumps(
    {
        "schema_version": "1",
        "musadoctor": "0.1",
        "vantage": {"kind": "host", "host": None, "python": None, "note": ""},
        "verdict": "healthy",
        "causes": [],
        "results": [],
        "facts": {},
        "bugs": [],
        "seconds": 0.1,
    }
)
ERRAND = Errand(("--json",), 30)


class Told(NamedTuple):
    """An engine that brings these answers."""

    answers: tuple[Answer, ...]
    cut_after: int | None = None
    name: str = "told"

    def hosts(self) -> Sequence[str]:
        return ("a1", "a2", "a3")

    def only(self, hosts: Sequence[str]) -> Engine:
        return self._replace(answers=tuple(a for a in self.answers if a.host in hosts))

    def address(self, host: str) -> str:
        return host

    def carry(self, errand: Errand, arrived: Arrived, cancelled: threading.Event) -> None:
        if not self.answers:
            raise EngineError("nobody is there")
        for number, answer in enumerate(self.answers):
            if number == self.cut_after:
                cancelled.wait(10)
                return
            arrived(answer)


ANSWERS = (
    Answer("a1", REPORT),
    Answer("a2", None, UNREACHABLE, "no route to it"),
    Answer("a3", REPORT),
)


def told(run: Run) -> tuple[list[str], list[tuple[str, ...]]]:
    gathered: Gathered = run.gathered()
    return [host.host for host in gathered.hosts], [tuple(one) for one in gathered.unanswered]


def test_every_answer_is_in_the_result() -> None:
    run, heard = Run(Told(ANSWERS), ("a1", "a2", "a3"), None), list[str]()
    run.carry(ERRAND, heard.append)
    assert heard == ["a1", "a2", "a3"]
    assert told(run) == (["a1", "a3"], [("a2", UNREACHABLE, "no route to it")])


def test_a_host_that_the_engine_forgets_is_silent() -> None:
    run = Run(Told(ANSWERS[:1]), ("a1", "a9"), None)
    run.carry(ERRAND, lambda _: None)
    assert told(run) == (["a1"], [("a9", SILENT, "told told nothing of it")])


def test_after_an_interrupt_who_had_not_answered_is_listed() -> None:
    run = Run(Told(ANSWERS, cut_after=1), ("a1", "a2", "a3"), None)
    begun = threading.Event()

    def heard(_: str) -> None:
        begun.set()

    thread = threading.Thread(target=run.carry, args=(ERRAND, heard))
    thread.start()
    assert begun.wait(10)
    run.stop()
    thread.join(10)
    assert not thread.is_alive()
    why = "interrupted before it had answered"
    assert told(run) == (["a1"], [("a2", NOT_ASKED, why), ("a3", NOT_ASKED, why)])


def test_an_engine_that_carries_nothing_says_so() -> None:
    with pytest.raises(EngineError, match="nobody is there"):
        Run(Told(()), ("a1",), None).carry(ERRAND, lambda _: None)


def test_each_answer_is_on_the_disk_when_the_next_one_comes(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    kept, seen = Kept(file), list[int]()
    run = Run(Told(ANSWERS), ("a1", "a2", "a3"), kept)
    run.carry(ERRAND, lambda _: seen.append(len(file.read_text().splitlines())))
    kept.close()
    assert seen == [1, 2, 3]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(one["host"], one["via"]) for one in lines] == [
        ("a1", "told"),
        ("a2", "told"),
        ("a3", "told"),
    ]
    assert lines[0]["report"]["verdict"] == "healthy"
    assert lines[1]["unanswered"] == {"kind": UNREACHABLE, "reason": "no route to it"}
    assert run.not_kept == ""


def test_a_file_that_ends_in_gz_is_compressed(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl.gz"
    kept = Kept(file)
    run = Run(Told(ANSWERS), (), kept)
    run.carry(ERRAND, lambda _: None)
    kept.close()
    with gzip.open(file, "rt") as lines:
        assert len(list(lines)) == 3


@pytest.mark.parametrize("name", ["/dev/full", "full.gz"])
def test_a_full_disk_costs_the_file_and_nothing_else(name: str, tmp_path: Path) -> None:
    path = Path(name)
    if not path.is_absolute():
        path = tmp_path / name
        path.symlink_to("/dev/full")
    kept = Kept(path)
    run = Run(Told(ANSWERS), (), kept)
    run.carry(ERRAND, lambda _: None)
    assert run.not_kept == f"cannot write {path}: No space left on device"
    assert told(run)[0] == ["a1", "a3"]
    with pytest.raises(KeepError, match="No space left"):
        kept.close()


def test_a_file_that_cannot_be_begun_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeepError, match=r"cannot write .*: No such file or directory"):
        Kept(tmp_path / "nowhere" / "kept.jsonl")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_line_tells_who_has_not_answered() -> None:
    line = WaitingLine(Terminal(), ["a1", "a2", "a3"], 80)
    assert line.line() == "0 of 3 hosts answered, 0 s; waiting for a[1-3]"
    line.arrived("a2")
    line.arrived("never-asked")
    assert line.line() == "1 of 3 hosts answered, 0 s; waiting for a[1,3]"
    line.arrived("a1")
    line.arrived("a3")
    assert line.line() == "3 of 3 hosts answered, 0 s"


def test_the_line_fits_the_terminal_and_is_wiped() -> None:
    terminal = Terminal()
    line = WaitingLine(terminal, [f"host{i}x" for i in range(0, 60, 7)], 40)
    line.draw()
    assert terminal.getvalue().rpartition("\r")[2].endswith("...")
    assert len(terminal.getvalue().rpartition("\r")[2]) == 39
    line.clear()
    assert terminal.getvalue().endswith(f"\r{' ' * 39}\r")


def test_without_a_terminal_nothing_is_drawn() -> None:
    stream = io.StringIO()
    WaitingLine(stream, ["a1"], 80).draw()
    assert stream.getvalue() == ""
