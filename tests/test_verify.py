"""How ``verify`` takes steps: children that end in every way, in programs of their own."""

import io
import json
import os
import pkgutil
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from processes import Brood
from support import host

from musadoctor.commands import verify_child
from musadoctor.facts.steps import Step
from musadoctor.live import Live
from musadoctor.recording import Recorder, Recording, write_recording
from musadoctor.system import Ran
from musadoctor.verify.children.base import STEPS, limit_of
from musadoctor.verify.phases import CENSUS
from musadoctor.verify.progress import ProgressLine
from musadoctor.verify.taken import MOST_CHILDREN, Job, Pair, take

A, B, C, D = (
    "compute: matmul float32",
    "compute: softmax float32",
    "compute: sort float32",
    "memory: totals",
)
CPU: tuple[Pair, ...] = tuple(("cpu", name) for name in (A, B, C, D))

# An interpreter that takes no step and does as the file "script" in its folder says: a line a
# child, each word an act.
INTERPRETER = """\
#!{python}
import json, os, signal, sys, time
plan, descriptor = json.loads(sys.argv[-2]), int(sys.argv[-1])
folder = os.path.dirname(os.path.abspath(__file__))
with open(folder + "/script") as file:
    acts = file.read().splitlines()
number = len([name for name in os.listdir(folder) if name.startswith("child")])
with open(folder + "/child%d" % number, "w") as file:
    file.write(sys.argv[-2])
left = list(plan["take"])
def say(**line):
    os.write(descriptor, (json.dumps(line) + "\\n").encode())
def begin(at=0.1):
    say(begin=left[0][1], device=left[0][0], at=at)
def end(state="done", **more):
    device, name = left.pop(0)
    say(end=name, device=device, state=state, seconds=0.5, **more)
for act in acts[number].split():
    if act == "import":
        say(begin="import torch", device="", at=0.0)
        say(end="import torch", device="", state="done")
    elif act == "importing":
        say(begin="import torch", device="", at=0.0)
    elif act == "fails":
        say(begin="import torch", device="", at=0.0)
        chain = ["ImportError: Please try", "ImportError: libmudnn.so.3: no such file"]
        say(end="import torch", device="", state="failed", chain=chain)
    elif act == "begin":
        begin()
    elif act == "done":
        begin()
        end(value={{"tflops": 1.5, "size": 64}})
    elif act == "failed":
        begin()
        end("failed", chain=["RuntimeError: MUSA error"])
    elif act == "odd":
        begin()
        end("perplexed", value=[1], chain="x")
    elif act == "nan":
        begin()
        end(value={{"a": float("nan"), "b": [float("inf"), 1, {{"c": -float("inf")}}], "d": "x"}})
    elif act == "twice":
        begin()
        device, name = left[0]
        end(value={{"n": 1}})
        say(end=name, device=device, state="failed", seconds=1.0, chain=["E: again"])
        say(end="compute: never asked for", device=device, state="done")
    elif act == "rubbish":
        os.write(descriptor, b"[1]\\nnot json\\n\\xff\\n" + b"[" * 5000 + b"\\n{{}}\\n")
    elif act == "all":
        say(end="all")
    elif act == "lost":
        say(begin="still there", device=plan["take"][0][0], at=0.2)
        say(end="still there", device=plan["take"][0][0], state="failed", chain=["E: gone"])
    elif act == "closes":
        os.close(descriptor)
        sys.stderr.write("OSError: the descriptor to answer on was closed\\n")
        sys.exit(1)
    elif act == "floods":
        while True:
            os.write(2, b"x" * 65536)
    elif act == "talks":
        os.write(descriptor, b" " * (9 << 20))
    elif act == "sleeps":
        time.sleep(60)
    elif act == "waits":
        time.sleep(0.5)
    elif act == "dumps":
        sys.stderr.write('Timeout (0:00:02.500000)!\\nThread 0x1 (most recent call first):\\n'
                         '  File "<compute>", line 40 in matmul\\n  File "<base>", line 9 in take\\n')
        sys.exit(1)
    elif act.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, act))
        time.sleep(60)
    elif act.isdigit():
        os._exit(int(act))
    else:
        raise ValueError(act)
"""


class Interpreter:
    """A folder with such a program in it."""

    def __init__(self, folder: Path, *children: str) -> None:
        self.path = folder / "python"
        self.path.write_text(INTERPRETER.format(python=sys.executable))
        self.path.chmod(0o755)
        (folder / "script").write_text("\n".join(children))

    def asked(self, child: int) -> list[list[str]]:
        """The steps that were left for a child."""
        plan: dict[str, Any] = json.loads((self.path.parent / f"child{child}").read_text())
        steps: list[list[str]] = plan["take"]
        return steps

    @property
    def children(self) -> int:
        """How many were started."""
        return sum(path.name.startswith("child") for path in self.path.parent.iterdir())


def taken(
    interpreter: Interpreter,
    steps: tuple[Pair, ...] = CPU,
    *,
    seconds: float = 20.0,
    options: dict[str, object] | None = None,
) -> tuple[Step, ...]:
    system = Live(time.monotonic() + 60)
    job = Job("test", ("compute", "memory"), steps, seconds)
    found = take(system, str(interpreter.path), "cpu", job, options or {})
    assert tuple((step.device, step.name) for step in found) == steps, "each once, in order"
    return found


@pytest.mark.parametrize(
    ("children", "states", "message"),
    [
        (("import done done done done all",), "done done done done", ""),
        (("import done failed done done all",), "done failed done done", "RuntimeError: MUSA"),
        (("import done odd done done all",), "done failed done done", ""),
        (("import twice done done rubbish done all",), "done done done done", ""),
        # What ends in the middle costs the step that had begun.
        (("import done begin SIGSEGV", "import done done all"), "done crashed done done", "SEGV"),
        (("import done begin SIGBUS", "import done done all"), "done crashed done done", "BUS"),
        (
            ("import done begin SIGKILL", "import done done all"),
            "done crashed done done",
            "killed by SIGKILL, as the kernel does when the host's memory runs out",
        ),
        (("import done begin 0", "import done done all"), "done crashed done done", "exit code 0"),
        (("import done begin 7", "import done done all"), "done crashed done done", "exit code 7"),
        (
            ("import done begin closes", "import done done all"),
            "done crashed done done",
            "exit code 1 (OSError: the descriptor to answer on was closed)",
        ),
        (
            ("import done begin floods", "import done done all"),
            "done crashed done done",
            "more than 16 MiB of output",
        ),
        (
            ("import done begin dumps", "import done done all"),
            "done hung done done",
            "no end after 2.5 s, in matmul (<compute>:40); take (<base>:9)",
        ),
        # Between two steps it costs none.
        (("import done 0", "import done done done all"), "done done done done", ""),
        (("import done lost 0", "import done done done all"), "done done done done", ""),
        (("import done SIGSEGV", "import done done done all"), "done done done done", ""),
        # Where the answer was cut, what is missing is taken again.
        (("import done talks done", "import done done done all"), "done done done done", ""),
    ],
)
def test_what_a_child_does_costs_only_its_step(
    tmp_path: Path, children: tuple[str, ...], states: str, message: str
) -> None:
    interpreter = Interpreter(tmp_path, *children)
    steps = taken(interpreter)
    assert [step.state for step in steps] == states.split()
    assert message in steps[1].message
    assert interpreter.children == len(children)
    first = steps[0]
    assert (first.seconds, first.family) == (0.5, "compute")
    assert first.value in ({"tflops": 1.5, "size": 64}, {"n": 1})


def test_the_next_child_gets_what_is_left(tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path, "import done begin SIGSEGV", "import done done all")
    taken(interpreter)
    assert interpreter.asked(0) == [list(pair) for pair in CPU]
    assert interpreter.asked(1) == [list(pair) for pair in CPU[2:]]


def test_a_device_that_ends_everything_is_not_tried_for_ever(tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path, *["import begin SIGSEGV"] * 9)
    steps = CPU + tuple(("cpu", name) for name in list(STEPS)[-3:])
    found = taken(interpreter, steps)
    assert [step.state for step in found] == ["crashed"] * 4 + ["not taken"] * 3
    assert found[-1].message == f"the device ended {MOST_CHILDREN} processes before it"
    assert interpreter.children == MOST_CHILDREN


@pytest.mark.parametrize(
    ("child", "message"),
    [
        ("fails 0", "import torch failed: ImportError: libmudnn.so.3: no such file"),
        ("SIGSEGV", "killed by SIGSEGV"),
        ("importing SIGSEGV", "import torch: killed by SIGSEGV"),
        ("import 0", "exit code 0"),
        ("0", "exit code 0"),
    ],
)
def test_a_child_that_begins_no_step_is_not_followed_by_another(
    tmp_path: Path, child: str, message: str
) -> None:
    interpreter = Interpreter(tmp_path, child)
    steps = taken(interpreter)
    assert {(step.state, step.message) for step in steps} == {("not taken", message)}
    assert interpreter.children == 1


def test_nothing_to_take_starts_nothing(tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path)
    assert taken(interpreter, ()) == ()
    assert interpreter.children == 0


def test_no_interpreter() -> None:
    job = Job("test", ("compute",), CPU, 5.0)
    steps = take(Live(time.monotonic() + 5), "/nowhere/python", "cpu", job, {})
    assert {(step.state, step.message) for step in steps} == {("not taken", "no /nowhere/python")}


def test_the_run_s_time_ends_before_the_step_s(tmp_path: Path) -> None:
    """It is not said to hang, for it may just have begun."""
    interpreter = Interpreter(tmp_path, "import done begin sleeps", *["import begin sleeps"] * 3)
    steps = taken(interpreter, seconds=0.7)
    assert [step.state for step in steps] == ["done", "not taken", "not taken", "not taken"]
    assert steps[1].message == "had begun and was given up: no answer in 0.7 s, killed"


def test_a_step_that_cannot_end_itself_hangs_all_the_same(tmp_path: Path) -> None:
    """A child that was stopped, or is in a call to the kernel, has no word of its own."""
    interpreter = Interpreter(tmp_path, "import done begin SIGSTOP", "import done done all")
    steps = taken(interpreter, seconds=1.0, options={"step_seconds": 0.5})
    assert [step.state for step in steps] == ["done", "hung", "done", "done"]
    assert steps[1].message == "no end after 1 s: no answer in 1 s, killed"


def test_a_hang_whose_traceback_was_cut_off(tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path, "import done begin waits 1", "import done done all")
    steps = taken(interpreter, options={"step_seconds": 0.3})
    assert steps[1].state == "hung"
    assert steps[1].message.endswith("exit code 1")


def test_numbers_that_are_none_are_told_by_name(tmp_path: Path) -> None:
    (step,) = taken(Interpreter(tmp_path, "import nan all"), CPU[:1])
    assert step.value == {"a": "nan", "b": ["inf", 1, {"c": "-inf"}], "d": "x"}
    assert json.loads(json.dumps(step.value, allow_nan=False)) == step.value


def test_a_process_that_does_not_die_is_named_by_where_it_waits() -> None:
    """State D can be made by no test: what the runner would say of it."""
    stuck = "no answer in 60 s, and it cannot be killed: process 7 (python), state D, waiting in x"
    said = json.dumps({"begin": A, "device": "cpu", "at": 3.0})
    ran = Ran("timed out", None, "", "", f"{said}\n", stuck, 61.0)
    system = host(runs={"child:verify:test:1": ran})
    hung, *others = take(system, "python", "cpu", Job("test", ("compute",), CPU, 60.0), {})
    assert (hung.state, hung.message) == ("hung", f"no end after 58 s: {stuck}")
    assert {step.state for step in others} == {"not taken"}


def test_what_was_cancelled_was_not_hung(tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path, "import done begin sleeps")
    live = Live(time.monotonic() + 60)
    job = Job("test", ("compute", "memory"), CPU, 60.0)
    found: list[Step] = []
    thread = threading.Thread(
        target=lambda: found.extend(take(live, str(interpreter.path), "cpu", job, {}))
    )
    thread.start()
    while not (tmp_path / "child0").exists():
        time.sleep(0.01)
    time.sleep(0.3)
    live.cancel()
    thread.join(10)
    assert [step.state for step in found] == ["done", "not taken", "not taken", "not taken"]
    assert found[1].message == "had begun and was given up: cancelled, killed"
    assert found[2].message == "not started: cancelled"


def test_what_children_said_is_recorded_and_gives_the_same_steps(tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path, "import done begin SIGSEGV", "import failed done all")
    asked = Recorder(Live(time.monotonic() + 60))
    job = Job("test", ("compute", "memory"), CPU, 20.0)
    first = take(asked, str(interpreter.path), "cpu", job, {})
    text = write_recording(asked.answers(), musadoctor="1", taken="today", redaction=None)
    again = take(Recording(text, "x"), str(interpreter.path), "cpu", job, {})
    assert again == first


# ---- the child itself ------------------------------------------------------------------------

STUB_TORCH = """\
__version__ = "2.7.1"
class Tensor:
    def __add__(self, other): return self
    def cpu(self): return self
    def tolist(self): return [2.0] * 4
def ones(number, device): return Tensor()
def set_num_threads(number): pass
class cpu: pass
"""
OWN_STEPS = """\
import os, sys, time, warnings
from musadoctor.verify.children.base import Skip, register
def fine(device):
    print("not a word of this")
    warnings.warn("careful")
    return {"device": device.name, "kind": device.kind, "option": device.options["x"]}
def fails(device):
    try:
        raise ValueError("inner")
    except ValueError as error:
        raise RuntimeError("outer") from error
def skips(device): raise Skip("no such thing")
def missing(device): raise NotImplementedError("aten::x")
def memory(device): raise RuntimeError("MUSA out of memory")
def leaves(device): sys.exit(3)
def closes(device):
    os.closerange(3, 64)
    return {}
def hangs(device): time.sleep(60)
class Mute(Exception):
    def __str__(self): raise KeyError
def mute(device): raise Mute()
for function in (fine, fails, skips, missing, memory, leaves, mute, hangs, closes):
    register("own: " + function.__name__, function)
"""


def child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *steps: str, torch: str = STUB_TORCH
) -> Ran:
    """What a child with steps of its own answers."""
    package = tmp_path / "site" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(torch)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    base = pkgutil.get_data("musadoctor.verify.children", "base.py")
    assert base is not None
    plan = {
        "kind": "cpu",
        "modules": ["own"],
        "take": [["cpu", f"own: {name}"] for name in steps],
        "options": {"x": 1, "step_seconds": 1.0},
    }
    sources = [base.decode(), OWN_STEPS]
    command = verify_child(sys.executable, "own", sources, json.dumps(plan), 30.0)
    return Live(time.monotonic() + 30).run(command)


def lines(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.answer.splitlines()]


def test_a_child_tells_of_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("fine", "fails", "skips", "missing", "memory", "leaves", "mute")
    ran = child(tmp_path, monkeypatch, *names)
    assert ran.status == "ok"
    said = lines(ran)
    assert said[0] == {"steps": len(names)}
    assert said[-1] == {"end": "all"}
    ends = {line["end"]: line for line in said if line.get("end", "").startswith("own")}
    assert [ends[f"own: {name}"]["state"] for name in names] == [
        "done",
        "failed",
        "skipped",
        "missing",
        "out of memory",
        "failed",
        "failed",
    ]
    assert ends["own: fine"]["value"] == {"device": "cpu", "kind": "cpu", "option": 1}
    assert ends["own: fine"]["warnings"] == ["careful"]
    assert ends["own: fails"]["chain"] == ["RuntimeError: outer", "ValueError: inner"]
    assert ends["own: skips"]["chain"] == ["Skip: no such thing"]
    assert ends["own: mute"]["chain"] == ["Mute: (its text cannot be had: KeyError)"]
    begun = [line["at"] for line in said if "begin" in line]
    assert begun == sorted(begun)
    assert sum(line.get("end") == "still there" for line in said) == 3, "after each failure"


def test_a_step_that_hangs_ends_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = child(tmp_path, monkeypatch, "fine", "hangs", "fine")
    assert (ran.status, ran.code) == ("failed", 1)
    assert lines(ran)[-1]["begin"] == "own: hangs"
    assert "Timeout (0:00:01)!" in ran.err
    assert ran.seconds < 20


def test_a_step_that_closes_the_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = child(tmp_path, monkeypatch, "closes", "fine")
    assert lines(ran)[-1]["begin"] == "own: closes"
    assert ran.status == "failed"
    assert "Bad file descriptor" in ran.err


@pytest.mark.parametrize(
    ("torch", "chain"),
    [
        ("raise ImportError('libmusa.so')", ["ImportError: libmusa.so"]),
        ("import sys; sys.exit('no')", ["SystemExit: no"]),
    ],
)
def test_a_torch_that_does_not_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: str, chain: list[str]
) -> None:
    said = lines(child(tmp_path, monkeypatch, "fine", torch=torch))
    assert said[-1] == {"end": "all"} or said[-1]["end"] == "import torch"
    (imported,) = (line for line in said if line.get("end") == "import torch")
    assert (imported["state"], imported["chain"]) == ("failed", chain)
    assert not any(line.get("begin") == "own: fine" for line in said)


def test_a_device_that_does_not_add_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt = STUB_TORCH.replace("[2.0]", "[3.0]")
    said = lines(child(tmp_path, monkeypatch, "fails", "fine", torch=spoilt))
    assert said[-1]["end"] == "still there"
    assert said[-1]["chain"] == ["ArithmeticError: 1 + 1 is not 2 any more on cpu"]


def test_the_limit_of_a_step() -> None:
    assert limit_of(A, {}) == STEPS[A].seconds
    assert CENSUS in STEPS
    assert limit_of(A, {"step_seconds": 1.5}) == 1.5
    assert limit_of(A, {"step_seconds": 1e9}) == STEPS[A].seconds
    assert limit_of("import torch", {"step_seconds": 1.5}) > 60


# ---- the line that tells how it gets on ------------------------------------------------------


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True


def said(**line: object) -> bytes:
    return json.dumps(line).encode() + b"\n"


def test_the_line_follows_what_children_say() -> None:
    line = ProgressLine(Terminal(), 120)
    assert "0/0" in line.line()
    assert line.line().endswith("starting")
    one, two = "child:verify:devices:musa:0:1", "child:verify:devices:musa:1:1"
    line.heard(one, said(steps=4) + said(begin="import torch", device="", at=0.0))
    line.heard(two, said(steps=4) + said(begin=A, device="musa:1", at=1.0)[:20])
    assert line.line().endswith(": import torch")
    line.heard(two, said(begin=A, device="musa:1", at=1.0)[20:])
    line.heard(one, said(end="import torch", device="", state="done"))
    for name in (A, B):
        line.heard(one, said(begin=name, device="musa:0"))
        line.heard(one, said(end=name, device="musa:0"))
    line.heard(one, said(begin="still there", device="musa:0"))
    line.heard(one, said(end="still there", device="musa:0") + b"[1]\nrubbish\n")
    line.heard(one, said(begin=C, device="musa:0"))
    assert line.line().startswith("\u2588" * 5 + "\u2591" * 15)
    assert "2/8" in line.line()
    assert line.line().endswith(f"musa:0 {C}, musa:1 {A}")
    # It crashed; another child takes what is left.
    line.heard("child:verify:devices:musa:0:2", said(steps=1))
    assert "3/8" in line.line()
    assert line.line().endswith(f": musa:1 {A}")
    line.heard(two, said(end="all"))
    assert line.line().endswith("starting")


def test_the_line_keeps_to_the_terminal_s_width() -> None:
    stream = Terminal()
    line = ProgressLine(stream, 40)
    line.heard("child:verify:x:1", said(begin="compute: " + "x" * 99, device="musa:0"))
    line.draw()
    written = stream.getvalue()
    assert all(len(part) <= 39 for part in written.split("\r"))
    assert written.endswith("...")
    assert "\x1b" not in written
    line.clear()
    assert stream.getvalue().split("\r")[-2:] == [" " * 39, ""]


@pytest.mark.parametrize("encoding", ["ascii", "no-such-codec"])
def test_the_line_is_plain_where_blocks_cannot_be_shown(encoding: str) -> None:
    line = ProgressLine(Terminal(encoding), 80)
    line.heard("child:verify:x:1", said(steps=2) + said(end=A, device="cpu"))
    assert line.line().startswith("##########..........")


def test_there_is_no_line_in_a_pipe() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, 80)
    line.heard("child:verify:x:1", said(begin=A, device="cpu"))
    line.draw()
    line.clear()
    assert stream.getvalue() == ""


# ---- the command -----------------------------------------------------------------------------

WAITING_TORCH = (
    STUB_TORCH
    + """\
import os, time
class Generator:
    def __init__(self):
        with open(os.environ["STUB_MARK"], "w"): pass
        time.sleep(60)
"""
)


class Host:
    """What the command needs to run on this machine with a stub of torch."""

    def __init__(self, folder: Path, torch: str) -> None:
        package = folder / "site" / "torch"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(torch)
        self.mark = folder / "mark"
        ours = os.environ.get("PYTHONPATH", "")
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{folder / 'site'}:{ours}" if ours else str(folder / "site"),
            "STUB_MARK": str(self.mark),
            "COLUMNS": "90",
        }
        self.command = [sys.executable, "-m", "musadoctor", "verify", "--device", "cpu"]
        self.command += ["--python", sys.executable]

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.command, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=self.environment,
            timeout=60,
        )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_keeps_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    brood = Brood(monkeypatch)
    stub = Host(tmp_path, WAITING_TORCH)
    process = subprocess.Popen(
        [*stub.command, "--select", "devices,compute", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=stub.environment,
    )
    while not stub.mark.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    begun = time.monotonic()
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - begun < 10
    assert process.returncode == 130
    assert err == "musadoctor: interrupted; what was found until now:\n"
    results = {result["id"]: result["status"] for result in json.loads(out)["results"]}
    assert results["no-device-to-verify"] == "passed"
    assert results["device-hangs"] != "failed"
    assert results["device-not-verified"] == "unknown"
    assert brood.alive() == set()


def test_a_run_is_kept_and_judged_again(tmp_path: Path) -> None:
    stub = Host(tmp_path, STUB_TORCH)
    kept = str(tmp_path / "kept.json")
    first = stub.run("--json", "--capture", kept, "--select", "devices,memory")
    assert first.stderr == f"musadoctor: raw answers kept in {kept}\n"
    stub.command = stub.command[:4]  # neither --device nor --python
    again = stub.run("--json", "--recording", kept, "--select", "devices,memory")
    assert again.returncode == first.returncode
    one, other = json.loads(first.stdout), json.loads(again.stdout)
    assert other["vantage"]["kind"] == "recording"
    for result in (*one["results"], *other["results"]):
        del result["seconds"]
    assert one["results"] == other["results"]
    assert one["facts"] == other["facts"]


def test_what_cannot_be_compared_or_replayed(tmp_path: Path) -> None:
    stub = Host(tmp_path, STUB_TORCH)
    file = tmp_path / "file.json"
    file.write_text("{}")
    for arguments, said in [
        (["--compare", str(file)], f"{file}: expected a record of verify --save"),
        (["--compare", f"{file}.gone"], "No such file or directory"),
        (["--recording", str(file), "--quick"], "--quick says nothing to a recording"),
        (["--select", "nonsense"], "'nonsense' is no check and no family"),
        (["--quick", "--deep"], "two levels"),
        (["--devices", "0,x"], "expected numbers of devices"),
    ]:
        done = stub.run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("musadoctor: ")
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
    stub.command = stub.command[:4]
    done = stub.run("--recording", str(file))
    assert done.returncode == 2
    assert "expected a recording" in done.stderr


def test_figures_are_saved_and_compared(tmp_path: Path) -> None:
    stub = Host(tmp_path, STUB_TORCH)
    file = str(tmp_path / "accepted.json")
    saved = stub.run("--save", file, "--select", "devices")
    assert saved.stderr == f"musadoctor: figures kept in {file}\n"
    assert json.loads(Path(file).read_text())["devices"] == ["cpu"]
    compared = stub.run("--compare", file, "--select", "record-of-other-host", "--json")
    (result,) = json.loads(compared.stdout)["results"]
    assert result["status"] == "passed"


def test_a_terminal_is_told_what_runs(tmp_path: Path) -> None:
    stub = Host(tmp_path, WAITING_TORCH)
    reader, writer = pty.openpty()
    process = subprocess.Popen(
        [*stub.command, "--select", "compute"],
        stdout=subprocess.DEVNULL,
        stderr=writer,
        env={**stub.environment, "NO_COLOR": "1"},
    )
    os.close(writer)
    shown = b""
    while b"cpu compute: " not in shown:
        shown += os.read(reader, 4096)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    os.close(reader)
    assert b"\x1b" not in shown
    assert re.search(rb" \d+/\d+, \d+ s: cpu compute: ", shown)
