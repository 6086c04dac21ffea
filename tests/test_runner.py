"""Programs of every bad kind, run for real."""

import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from processes import Brood, as_nobody, open_folder, stuck_files, without_proc
from support import BUSY

from musadoctor import runner
from musadoctor.commands import Command
from musadoctor.live import Live
from musadoctor.system import Ran

LIMIT = 1.5
OVERTIME = 1.0 + BUSY
MARK = "\N{REPLACEMENT CHARACTER}"
MIB = 1 << 20


@pytest.fixture
def brood(monkeypatch: pytest.MonkeyPatch) -> Brood:
    return Brood(monkeypatch)


def tool(folder: Path, text: str | bytes, mode: int = 0o755) -> str:
    path = folder / "tool"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return str(path)


def ask(path: str, *arguments: str, seconds: float = LIMIT, answers: bool = False) -> Ran:
    live = Live(time.monotonic() + 60)
    return live.run(Command("tool", path, arguments, seconds, answers=answers))


def shown(ran: Ran) -> Ran:
    """The answer without its time, which is measured on its own."""
    return ran._replace(seconds=0.0)


class Kind(NamedTuple):
    name: str
    text: str
    expected: Ran


TIMED_OUT = "no answer in 1.5 s, killed"
FLOODED = "more than 16 MiB of output, killed, cut:"

KINDS = [
    Kind("normal", "#!/bin/sh\necho out; echo err >&2", Ran("ok", 0, "out\n", "err\n")),
    Kind("empty", "#!/bin/sh\n", Ran("ok", 0)),
    Kind(
        "slow lines",
        "#!/bin/sh\nfor i in 1 2 3; do echo $i; sleep 0.3; done",
        Ran("ok", 0, "1\n2\n3\n"),
    ),
    Kind(
        "non-zero exit",
        "#!/bin/sh\necho bad >&2; exit 12",
        Ran("failed", 12, err="bad\n", note="exit code 12"),
    ),
    Kind(
        "hangs",
        "#!/bin/sh\necho begun; exec sleep 60",
        Ran("timed out", -signal.SIGTERM, "begun\n", note=TIMED_OUT),
    ),
    Kind(
        "hangs and ignores TERM",
        "#!/bin/sh\ntrap '' TERM\nsleep 60",
        Ran("timed out", -signal.SIGKILL, note=TIMED_OUT),
    ),
    Kind(
        "closes its output and lives on",
        "#!/bin/sh\necho last\nexec sleep 60 >&- 2>&-",
        Ran("timed out", -signal.SIGTERM, "last\n", note=TIMED_OUT),
    ),
    Kind(
        "closes its output and ends",
        "#!/bin/sh\nexec >&- 2>&-\nsleep 0.3; exit 4",
        Ran("failed", 4, note="exit code 4"),
    ),
    Kind(
        "eight sleeping children",
        "#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8; do sleep 60 & done\nwait",
        Ran("timed out", -signal.SIGTERM, note=TIMED_OUT),
    ),
    Kind(
        "children in groups of their own",
        f"#!{shutil.which('bash')}\nset -m\ntrap '' TERM\nsleep 60 & sleep 60 &\nwait",
        Ran("timed out", -signal.SIGKILL, note=TIMED_OUT),
    ),
    Kind("leaves a child on the pipe", "#!/bin/sh\necho out\nsleep 60 &", Ran("ok", 0, "out\n")),
    Kind(
        "floods stdout with 100 MB",
        "#!/bin/sh\nhead -c 100000000 /dev/zero | tr '\\0' x",
        Ran("flooded", -signal.SIGTERM, "x" * MIB, note=FLOODED),
    ),
    Kind(
        "floods stderr with 100 MB",
        "#!/bin/sh\nhead -c 100000000 /dev/zero | tr '\\0' x >&2",
        Ran("flooded", -signal.SIGTERM, err="x" * MIB, note=FLOODED),
    ),
    Kind(
        "floods stdout for ever",
        "#!/bin/sh\nexec yes",
        Ran("flooded", -signal.SIGTERM, "y\n" * (MIB // 2), note=FLOODED),
    ),
    Kind(
        "floods stderr for ever",
        "#!/bin/sh\nexec yes >&2",
        Ran("flooded", -signal.SIGTERM, err="y\n" * (MIB // 2), note=FLOODED),
    ),
    Kind(
        "writes more than is kept",
        "#!/bin/sh\nyes | head -c 3000000",
        Ran("ok", 0, "y\n" * (MIB // 2), note="output cut: 3000000 bytes"),
    ),
    Kind(
        "fails after more than is kept",
        "#!/bin/sh\nyes | head -c 3000000; exit 7",
        Ran("failed", 7, "y\n" * (MIB // 2), note="exit code 7, cut: 3000000 bytes"),
    ),
    Kind(
        "random bytes",
        "#!/bin/sh\nprintf 'a\\200\\377\\001b'",
        Ran("ok", 0, f"a{MARK * 3}b"),
    ),
    Kind(
        "escape codes",
        "#!/bin/sh\nprintf '\\033[31;1mred\\033[0m \\033]0;title\\007\\033[2J\\033c'",
        Ran("ok", 0, f"red {MARK}c"),
    ),
    Kind("NULs", "#!/bin/sh\nprintf 'a\\000b\\n'", Ran("ok", 0, f"a{MARK}b\n")),
    Kind(
        "every kind of line end",
        "#!/bin/sh\nprintf 'a\\r\\n10%%\\r20%%\\rb\\tc\\n'",
        Ran("ok", 0, "a\n10%\n20%\nb\tc\n"),
    ),
    Kind(
        "killed by SIGSEGV",
        "#!/bin/sh\necho begun\nkill -SEGV $$",
        Ran("signal", -signal.SIGSEGV, "begun\n", note="SIGSEGV"),
    ),
    Kind(
        "killed by a signal without a name",
        "#!/bin/sh\nkill -40 $$",
        Ran("signal", -40, note="signal 40"),
    ),
    Kind(
        "Chinese unless LC_ALL is C",
        '#!/bin/sh\ncase "$LC_ALL$LANGUAGE" in C.UTF-8C) echo driver;; *) echo 驱动;; esac',
        Ran("ok", 0, "driver\n"),
    ),
    Kind("Chinese all the same", "#!/bin/sh\necho 驱动　版本", Ran("ok", 0, "驱动　版本\n")),
    Kind(
        "GB18030 bytes",
        "#!/bin/sh\nprintf '\\307\\375\\266\\257 3.3.5\\n'; exit 1",
        Ran("failed", 1, f"{MARK * 4} 3.3.5\n", note="exit code 1"),
    ),
    Kind(
        "shebang of an absent interpreter",
        "#!/no/such/interpreter\n",
        Ran("wrong format", note="{path}: No such file or directory"),
    ),
    Kind("junk", "no shebang here\n", Ran("wrong format", note="{path}: Exec format error")),
    Kind("empty file", "", Ran("wrong format", note="{path}: Exec format error")),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_tool_of_this_kind_has_this_answer_in_time(
    kind: Kind, tmp_path: Path, brood: Brood, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.GB18030")
    path = tool(tmp_path, kind.text)
    begun = time.monotonic()
    ran = ask(path)
    took = time.monotonic() - begun

    expected = kind.expected._replace(note=kind.expected.note.format(path=path))
    if expected.note == FLOODED:
        assert ran.note.startswith(FLOODED)
        ran = ran._replace(note=FLOODED)
    assert shown(ran) == expected
    assert ran.started == (expected.status != "wrong format")
    assert took < LIMIT + OVERTIME
    assert ran.seconds <= took
    assert brood.alive() == set()


def test_a_tool_that_asks_gets_no_answer_from_our_input(tmp_path: Path) -> None:
    path = tool(tmp_path, "#!/bin/sh\nread answer; echo \"got '$answer'\"")
    reader, writer = os.pipe()
    os.write(writer, b"ours\n")
    ours = os.dup(0)
    os.dup2(reader, 0)
    try:
        ran = ask(path)
    finally:
        os.dup2(ours, 0)
        for descriptor in (reader, writer, ours):
            os.close(descriptor)
    assert shown(ran) == Ran("ok", 0, "got ''\n")


def test_a_crash_leaves_no_core_file(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("no process here may dump a core")
    path = tool(tmp_path, "#!/bin/sh\nsleep 0.1; ulimit -c")
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        ran = ask(path)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    assert shown(ran) == Ran("ok", 0, "0\n")


def test_an_elf_of_another_machine_has_the_wrong_format(tmp_path: Path) -> None:
    own = Path("/bin/true").read_bytes()
    path = tool(tmp_path, own[:18] + b"\x15\0" + own[20:])  # ppc64
    assert shown(ask(path)) == Ran("wrong format", note=f"{path}: Exec format error")


@pytest.mark.parametrize("kept", [16, 63, 64, 100, 300, 700, 4000])
def test_a_cut_elf_is_of_the_wrong_format_or_dies_of_a_signal(tmp_path: Path, kept: int) -> None:
    ran = ask(tool(tmp_path, Path("/bin/true").read_bytes()[:kept]))
    assert ran.status in {"wrong format", "signal"}
    assert ran.note


def test_a_file_without_the_right_to_execute_is_told_from_none(tmp_path: Path) -> None:
    path = tool(tmp_path, "#!/bin/sh\n", mode=0o644)
    assert shown(ask(path)) == Ran("not executable", note=f"{path} may not be executed")
    absent = str(tmp_path / "absent")
    assert shown(ask(absent)) == Ran("not there", note=f"no {absent}")


def test_a_folder_of_that_name_is_no_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tool").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shown(ask("tool")) == Ran("not there", note="no tool on PATH")


def test_a_script_that_may_be_executed_but_not_read_fails() -> None:
    with open_folder() as folder:
        path = tool(folder, "#!/bin/sh\necho never", mode=0o711)
        ran = as_nobody(lambda: ask(path))
    assert (ran.status, ran.out) == ("failed", "")
    assert ran.code in {2, 126, 127}  # the shells do not agree
    assert path in ran.err


def test_a_tool_in_a_closed_folder_is_not_said_to_be_absent() -> None:
    with open_folder() as folder:
        closed = folder / "closed"
        closed.mkdir()
        path = tool(closed, "#!/bin/sh\n")
        closed.chmod(0o700)
        ran = as_nobody(lambda: ask(path))
    assert shown(ran) == Ran("not allowed", note=f"unreadable: {closed}")


def test_an_interpreter_that_may_not_be_executed_is_not_allowed(tmp_path: Path) -> None:
    path = tool(tmp_path, f"#!{tmp_path}\n")
    assert shown(ask(path)) == Ran("not allowed", note=f"{path}: Permission denied")


def test_a_daemon_keeps_the_answer_from_nobody(tmp_path: Path, brood: Brood) -> None:
    """What goes into a session of its own was meant to stay, so it is left alone."""
    begun = time.monotonic()
    ran = ask(tool(tmp_path, "#!/bin/sh\necho out\nsetsid sleep 60 &\nsleep 0.2"))
    took = time.monotonic() - begun
    daemons = brood.alive()
    for daemon in daemons:
        os.kill(daemon, signal.SIGKILL)
    assert shown(ran) == Ran("ok", 0, "out\n")
    assert took < LIMIT + BUSY
    assert len(daemons) == 1


def test_a_child_that_trickles_on_does_not_hold_the_answer(tmp_path: Path, brood: Brood) -> None:
    begun = time.monotonic()
    ran = ask(tool(tmp_path, "#!/bin/sh\n(while echo more; do sleep 0.05; done) & exit 0"))
    assert (ran.status, ran.code) == ("ok", 0)
    assert ran.out.startswith("more\n")
    assert time.monotonic() - begun < LIMIT + BUSY
    assert brood.alive() == set()


ANSWERING = [
    Kind(
        "answers beside its output",
        "print('noise'); os.write(fd, b'{\"a\": 1}\\n')",
        Ran("ok", 0, "noise\n", answer='{"a": 1}\n'),
    ),
    Kind(
        "ends at once, without a word, with exit code 0",
        "os._exit(0)",
        Ran("ok", 0),
    ),
    Kind(
        "crashes in the middle of a line",
        "os.write(fd, b'one\\ntw'); os.kill(os.getpid(), 11)",
        Ran("signal", -signal.SIGSEGV, answer="one\ntw", note="SIGSEGV"),
    ),
    Kind(
        "hangs after the first line",
        "os.write(fd, b'one\\n'); time.sleep(60)",
        Ran("timed out", -signal.SIGTERM, answer="one\n", note=TIMED_OUT),
    ),
    Kind(
        "floods its answer",
        "\nwhile True: os.write(fd, b'x' * 4096)",
        Ran("flooded", -signal.SIGTERM, answer="x" * MIB, note=FLOODED),
    ),
    Kind(
        "floods its output after the answer",
        "os.write(fd, b'one\\n')\nwhile True: os.write(1, b'x' * 4096)",
        Ran("flooded", -signal.SIGTERM, "x" * MIB, answer="one\n", note=FLOODED),
    ),
    Kind(
        "closes its output and answers",
        "os.close(1); os.close(2); time.sleep(0.3); os.write(fd, b'late')",
        Ran("ok", 0, answer="late"),
    ),
]


@pytest.mark.parametrize("kind", ANSWERING, ids=lambda kind: kind.name)
def test_a_child_answers_on_its_private_descriptor(kind: Kind, brood: Brood) -> None:
    begun = time.monotonic()
    source = f"import os, sys, time; fd = int(sys.argv[-1]); {kind.text}"
    ran = ask(sys.executable, "-SIc", source, answers=True)
    if kind.expected.note == FLOODED:
        assert ran.note.startswith(FLOODED)
        ran = ran._replace(note=FLOODED)
    assert shown(ran) == kind.expected
    assert time.monotonic() - begun < LIMIT + OVERTIME
    assert brood.alive() == set()


def test_nothing_else_of_this_process_is_open_in_a_child() -> None:
    source = "import os; print(len(os.listdir('/proc/self/fd')))"
    ran = ask(sys.executable, "-SIc", source, answers=True)
    assert ran.out == "5\n"  # three streams, the private descriptor, the folder being listed


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    path = tool(tmp_path, "#!/bin/sh\necho out")
    (tmp_path / "junk").mkdir()
    junk = tool(tmp_path / "junk", "junk")
    before = os.listdir("/proc/self/fd")
    for answers in (False, True):
        ask(path, answers=answers)
        ask(junk, answers=answers)
    assert os.listdir("/proc/self/fd") == before


def test_cancelling_ends_a_run_at_once(tmp_path: Path, brood: Brood) -> None:
    live = Live(time.monotonic() + 60)
    command = Command("tool", tool(tmp_path, "#!/bin/sh\necho begun; exec sleep 60"), (), 60.0)
    answers: list[Ran] = []
    thread = threading.Thread(target=lambda: answers.append(live.run(command)))
    thread.start()
    time.sleep(0.5)
    begun = time.monotonic()
    live.cancel()
    assert brood.alive() == set()
    thread.join()
    assert time.monotonic() - begun < OVERTIME
    assert [shown(ran) for ran in answers] == [
        Ran("timed out", -signal.SIGTERM, "begun\n", note="cancelled, killed")
    ]
    assert shown(live.run(command)) == Ran("timed out", note="not started: cancelled")


def test_the_time_of_a_report_is_over_for_its_tools_too(tmp_path: Path) -> None:
    path = tool(tmp_path, "#!/bin/sh\nexec sleep 60")
    ran = Live(time.monotonic() + 0.4).run(Command("tool", path, (), 10.0))
    assert ran.status == "timed out"
    assert ran.note.startswith("no answer in 0.4 s") or ran.note.startswith("no answer in 0.39")
    late = Live(time.monotonic() - 1).run(Command("tool", path, (), 10.0))
    assert late == Ran("timed out", note="not started: the time for the report was over")


def test_an_interrupt_leaves_no_child(tmp_path: Path, brood: Brood) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    path = tool(tmp_path, "#!/bin/sh\ntrap '' TERM\nsleep 60")
    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            ask(path, seconds=30)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert brood.alive() == set()


@pytest.mark.parametrize(
    ("argument", "words"),
    [("a\0b", "embedded null byte"), ("x" * 200_000, "Argument list too long")],
    ids=["a NUL", "too long"],
)
def test_arguments_that_no_program_can_have_are_an_error(argument: str, words: str) -> None:
    assert shown(ask("/bin/true", argument)) == Ran("error", note=f"/bin/true: {words}")


@pytest.mark.parametrize("answers", [False, True])
def test_no_descriptor_left_is_an_error_of_the_run(*, answers: bool) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        ran = ask("/bin/true", answers=answers)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert shown(ran) == Ran("error", note="/bin/true: Too many open files")


def test_variables_are_set_for_one_command_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "kept")
    command = Command(
        "env", "/bin/sh", ("-c", "echo $KEPT $NEW"), 5.0, environment=(("NEW", "new"),)
    )
    assert Live(time.monotonic() + 60).run(command).out == "kept new\n"
    assert "NEW" not in os.environ


def test_tools_end_where_there_is_no_proc(tmp_path: Path, brood: Brood) -> None:
    path = tool(tmp_path, "#!/bin/sh\ntrap '' TERM\nsleep 60")
    ran = without_proc(lambda: ask(path, seconds=0.5))
    assert ran.note == "no answer in 0.5 s, killed"
    assert brood.alive() == set()


def test_a_process_that_is_gone_is_named_all_the_same() -> None:
    assert runner._where(1 << 30) == f"process {1 << 30} (), state ?"


# A tool in state D: no signal ends it, and who waits for it waits for ever.


@pytest.fixture
def stuck(brood: Brood) -> Iterator[Path]:
    with open_folder() as folder:
        with stuck_files(folder):
            yield folder / "stuck"
        for process in runner._abandoned:
            process.wait()
        runner._abandoned.clear()
        end = time.monotonic() + 5
        while brood.alive() and time.monotonic() < end:
            time.sleep(0.02)
        assert brood.alive() == set()


def test_a_tool_stuck_in_the_kernel_is_given_up_and_named(
    stuck: Path, tmp_path: Path, brood: Brood
) -> None:
    path = tool(tmp_path, f"#!/bin/sh\necho begun\nexec cat {stuck}")
    begun = time.monotonic()
    ran = ask(path)
    took = time.monotonic() - begun
    (pid,) = brood.alive()
    assert took < LIMIT + OVERTIME
    assert (ran.status, ran.code, ran.out) == ("timed out", None, "begun\n")
    named = f"no answer in 1.5 s, and it cannot be killed: process {pid} (cat), state D"
    assert ran.note.startswith(named)
    channel = Path(f"/proc/{pid}/wchan").read_text()
    assert ran.note.removeprefix(named) == ("" if channel == "0" else f", waiting in {channel}")


def test_who_is_stuck_may_be_a_child_of_the_tool(stuck: Path, tmp_path: Path, brood: Brood) -> None:
    path = tool(tmp_path, f"#!/bin/sh\ncat {stuck}\ntrue")
    begun = time.monotonic()
    ran = ask(path)
    assert time.monotonic() - begun < LIMIT + OVERTIME
    (pid,) = brood.alive()
    assert (ran.status, ran.code) == ("timed out", -signal.SIGTERM)
    assert f"it cannot be killed: process {pid} (cat), state D" in ran.note


@pytest.mark.parametrize(
    ("code", "expected"),
    [(0, "left behind"), (3, "exit code 3; left behind")],
)
def test_a_tool_that_leaves_a_stuck_child_has_answered(
    stuck: Path, tmp_path: Path, brood: Brood, code: int, expected: str
) -> None:
    path = tool(tmp_path, f"#!/bin/sh\necho out\ncat {stuck} &\nsleep 0.3; exit {code}")
    ran = ask(path)
    (pid,) = brood.alive()
    assert (ran.status, ran.code, ran.out) == ("failed" if code else "ok", code, "out\n")
    assert ran.note.startswith(f"{expected}, cannot be killed: process {pid} (cat), state D")


def test_a_cancelled_tool_that_is_stuck_is_given_up(stuck: Path, tmp_path: Path) -> None:
    live = Live(time.monotonic() + 60)
    command = Command("tool", tool(tmp_path, f"#!/bin/sh\nexec cat {stuck}"), (), 60.0)
    timer = threading.Timer(0.5, live.cancel)
    timer.start()
    begun = time.monotonic()
    ran = live.run(command)
    timer.join()
    assert time.monotonic() - begun < 0.5 + OVERTIME
    assert ran.note.startswith("cancelled, and it cannot be killed: process ")


def keep(path: str, pattern: str) -> Ran:
    return Live(time.monotonic() + 60).run(Command("tool", path, (), LIMIT, keeps=pattern))


def test_only_the_lines_that_are_wanted_are_let_in(tmp_path: Path) -> None:
    text = "#!/bin/sh\nprintf 'private\\nMTGPU: a\\r\\nprivate\\n\\033[1mmtgpu\\033[0m: b'; echo err >&2"
    assert shown(keep(tool(tmp_path, text), "(?i)mtgpu")) == Ran(
        "ok", 0, "MTGPU: a\nmtgpu: b\n", "err\n", note="2 of 4 lines kept"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Ran("ok", 0, note="0 of 0 lines kept")),
        ("echo a", Ran("ok", 0, note="0 of 1 lines kept")),
        ("echo b; exit 3", Ran("failed", 3, "b\n", note="exit code 3, 1 of 1 lines kept")),
    ],
)
def test_the_note_says_of_how_many_lines(tmp_path: Path, text: str, expected: Ran) -> None:
    assert shown(keep(tool(tmp_path, f"#!/bin/sh\n{text}"), "b")) == expected


def test_of_very_many_lines_the_first_and_the_last_are_kept(tmp_path: Path) -> None:
    path = tool(tmp_path, "#!/bin/sh\nseq 1 400000; echo end")
    ran = keep(path, "7|end")
    wanted = [str(n) for n in range(1, 400001) if "7" in str(n)] + ["end"]
    half = runner.LINES_KEPT // 2
    assert ran.out.splitlines() == wanted[:half] + wanted[-half:]
    assert ran.note == f"{runner.LINES_KEPT} of 400001 lines kept"


def test_one_endless_line_is_cut(tmp_path: Path) -> None:
    ran = keep(tool(tmp_path, "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x"), "x")
    assert len(ran.out) == runner.KEPT


def test_a_program_reads_what_it_is_given(tmp_path: Path) -> None:
    """Also by name, as programs do that want a file; and all of it, however late they read."""
    path = tool(tmp_path, "#!/bin/sh\nsleep 0.2; wc -c </dev/stdin; wc -c\n")
    live = Live(time.monotonic() + 60)
    ran = live.run(Command("tool", path, (), LIMIT, given="\u4e2d\ud800" * MIB))
    assert (ran.status, ran.out.split()) == ("ok", [str(4 * MIB), str(4 * MIB)])


def test_more_output_is_kept_where_room_is_made(tmp_path: Path) -> None:
    path = tool(tmp_path, "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x\n")
    live = Live(time.monotonic() + 60)
    assert len(live.run(Command("tool", path, (), LIMIT, room=2 * MIB)).out) == 2 * MIB
    ran = live.run(Command("tool", path, (), LIMIT, room=4 * MIB))
    assert (len(ran.out), ran.note) == (3_000_000, "")


@pytest.mark.parametrize("how", ["exec dd", "dd", "dd {} & dd"])
def test_what_writes_too_much_is_stopped(tmp_path: Path, how: str) -> None:
    """A program itself, its children, and what they leave behind."""
    words = f"if=/dev/zero of={tmp_path}/big bs=1M count=20000"
    path = tool(tmp_path, f"#!/bin/sh\n{how.replace('{}', words)} {words} 2>/dev/null\n")
    live = Live(time.monotonic() + 60)
    ran = live.run(Command("tool", path, (), 30.0, writes=8 * MIB))
    assert (ran.status, ran.note) == ("flooded", "more than 8 MiB written, killed")
    assert (tmp_path / "big").stat().st_size < 20_000 * MIB


def test_what_writes_little_is_not_stopped(tmp_path: Path) -> None:
    path = tool(
        tmp_path, f"#!/bin/sh\nfor i in 1 2 3; do echo $i >>{tmp_path}/small; sleep 0.2; done"
    )
    live = Live(time.monotonic() + 60)
    assert live.run(Command("tool", path, (), 30.0, writes=MIB)).status == "ok"


class Heard:
    """What a streamed program printed, until enough of it has come."""

    def __init__(self, enough: bytes = b"\0") -> None:
        self.enough = enough
        self.all = b""
        self.at_once = threading.Event()

    def __call__(self, piece: bytes) -> bool:
        self.all += piece
        self.at_once.set()
        return self.enough not in self.all


def streamed(
    text: str,
    heard: Callable[[bytes], bool],
    *,
    limit: float = 20,
    cancelled: threading.Event | None = None,
    given: bytes = b"",
    changes: Mapping[str, str] | None = None,
) -> Ran:
    return runner.stream(
        ["sh", "-c", text],
        limit=limit,
        cancelled=cancelled or threading.Event(),
        heard=heard,
        given=given,
        changes=changes,
    )


def test_what_a_streamed_program_prints_is_handed_on_and_what_it_says_is_kept() -> None:
    heard = Heard()
    ran = streamed("echo out; echo err >&2; exit 3", heard)
    assert heard.all == b"out\n"
    assert shown(ran) == Ran("failed", 3, "", "err\n", note="exit code 3")


def test_what_is_printed_is_handed_on_while_the_program_runs() -> None:
    heard, cancelled = Heard(), threading.Event()
    thread = threading.Thread(
        target=streamed, args=("echo out; exec sleep 1000", heard), kwargs={"cancelled": cancelled}
    )
    thread.start()
    assert heard.at_once.wait(20)
    cancelled.set()
    thread.join()
    assert heard.all == b"out\n"


def test_what_was_printed_before_the_end_is_handed_on_however_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "DRAIN", 0.0)  # as where we are not given the processor in time
    all_ = bytearray()

    def slow(piece: bytes) -> bool:
        all_.extend(piece)
        time.sleep(1)
        return True

    streamed("echo first; sleep 0.2; echo last", slow)
    assert all_ == b"first\nlast\n"


def test_of_what_a_streamed_program_says_the_last_is_kept() -> None:
    ran = streamed("yes 0123456 | head -c 100000 >&2; printf '\\033[31mend' >&2", Heard())
    assert ran.err.endswith("0123456\nend")
    assert len(ran.err) <= runner.LAST_WORDS


def test_a_streamed_program_is_given_more_than_a_pipe_holds() -> None:
    given = os.urandom(MIB)
    heard = Heard(enough=given)
    ran = streamed("head -c 1048576; exec sleep 1000", heard, given=given)
    assert (ran.status, heard.all == given) == ("flooded", True)


def test_the_input_of_a_streamed_program_stays_open_until_it_ends() -> None:
    ran = streamed("read line; [ $line = x ]; timeout 0.3 cat; exit $?", Heard(), given=b"x\n")
    assert ran.code == 124  # timeout's own: cat found no end


def test_a_streamed_program_need_not_read_what_it_is_given() -> None:
    assert shown(streamed("exit 0", Heard(), given=bytes(MIB))) == Ran("ok", 0)
    assert shown(streamed("exec <&-; sleep 0.1", Heard(), given=bytes(MIB))) == Ran("ok", 0)


def test_a_streamed_program_is_stopped_when_enough_has_come(brood: Brood) -> None:
    heard = Heard(enough=b"y\ny")
    ran = streamed("sleep 1000 & exec yes", heard)
    assert ran.status == "flooded"
    assert heard.all.startswith(b"y\ny\n")
    assert not brood.alive()


def test_a_streamed_program_is_stopped_at_its_limit(brood: Brood) -> None:
    ran = streamed("trap '' TERM; sleep 1000 & sleep 1000", Heard(), limit=0.5)
    assert (ran.status, ran.note) == ("timed out", "no answer in 0.5 s, killed")
    assert not brood.alive()


def test_a_streamed_program_that_has_closed_its_streams_is_stopped_at_its_limit(
    brood: Brood,
) -> None:
    ran = streamed("exec >&- 2>&-; exec sleep 1000", Heard(), limit=0.5)
    assert ran.status == "timed out"
    assert not brood.alive()


def test_a_streamed_program_can_be_cancelled(brood: Brood) -> None:
    cancelled = threading.Event()

    def heard(piece: bytes) -> bool:
        cancelled.set()
        return True

    ran = streamed("echo; exec sleep 1000", heard, cancelled=cancelled)
    assert ran.status == "timed out"
    assert ran.note == "cancelled, killed"
    assert not brood.alive()


def test_what_a_streamed_program_leaves_behind_is_not_waited_for(brood: Brood) -> None:
    """It holds the output, and it floods what it says."""
    begun = time.monotonic()
    ran = streamed("yes >&2 & sleep 1000 & echo out", Heard())
    assert ran.status == "ok"
    assert time.monotonic() - begun < 10
    assert not brood.alive()


def test_a_streamed_program_has_our_variables_and_those_that_are_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OURS", "a")
    heard = Heard()
    streamed("echo $OURS $THEIRS", heard, changes={"THEIRS": "b"})
    assert heard.all == b"a b\n"


def test_a_program_that_cannot_be_streamed_is_told(tmp_path: Path) -> None:
    def status(path: str) -> tuple[str, str]:
        ran = runner.stream([path], limit=5, cancelled=threading.Event(), heard=Heard())
        return ran.status, ran.note

    missing = str(tmp_path / "missing")
    assert status(missing) == ("not there", f"{missing}: No such file or directory")
    assert status(tool(tmp_path, "not a program", 0o644))[0] == "not allowed"
    assert status(tool(tmp_path, b"\x7fELF no"))[0] == "wrong format"
    assert status("with\0zero")[0] == "error"


def test_what_listens_to_a_streamed_program_may_fail(brood: Brood) -> None:
    def heard(piece: bytes) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        streamed("echo; exec sleep 1000", heard)
    assert not brood.alive()


def test_a_streamed_program_that_cannot_be_killed_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "stuck"
    folder.mkdir()
    with stuck_files(folder):
        ran = runner.stream(
            ["cat", str(folder / "stuck")],
            limit=0.5,
            cancelled=threading.Event(),
            heard=Heard(),
        )
        assert ran.status == "timed out"
        assert "it cannot be killed: process " in ran.note
