"""Whole reports on hosts that other tools of this kind do not survive."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from live_host import Done, LiveHost, add_stub_torch, build_host, run, unable
from processes import open_folder, stuck_files
from support import BUSY
from test_torch_child import STUB_MUSA, STUB_TORCH, install

MUSADOCTOR = (sys.executable, "-m", "musadoctor")
START = 1.0 + BUSY
"""Seconds that Python and its imports may take, beside the report itself."""
WELL = '__version__ = "2.7.1"\n'
KILL = "import os, signal; os.kill(os.getpid(), signal.{})"


def plain(site: Path) -> dict[str, str]:
    """The environment of this machine's reports."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(site), "PYTHONPATH": str(site)}


def examine(site: Path, *arguments: str, before: tuple[str, ...] = (), **environment: str) -> Done:
    """Run musadoctor on this machine, with what is in ``site`` installed for our Python."""
    command = (*before, *MUSADOCTOR, "--python", sys.executable, *arguments)
    return run(command, {**plain(site), **environment})


def verdicts(done: Done) -> dict[str, tuple[object, ...]]:
    """How each check came out, apart from times and from reasons for having nothing to say."""
    return {
        result["id"]: (result["status"], result["caused_by"], json.dumps(result["findings"]))
        for result in done.report["results"]
    }


def differences(done: Done, other: Done) -> set[str]:
    """The checks that came out in another way."""
    mine, theirs = verdicts(done), verdicts(other)
    assert mine.keys() == theirs.keys()
    return {check for check in mine if mine[check] != theirs[check]}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a well torch is installed, which does nothing."""
    folder = tmp_path_factory.mktemp("well")
    install(folder, WELL)
    return folder


@pytest.fixture(scope="module")
def control(site: Path) -> Done:
    """This machine with that torch."""
    done = examine(site, "--json")
    assert done.result("torch-import-fails")["status"] == "passed"
    assert (done.report["bugs"], done.err) == ([], "")
    return done


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import ctypes; ctypes.string_at(0)", "crashes: killed by SIGSEGV"),
        ("import os; os.abort()", "crashes: killed by SIGABRT"),
        ("import time; time.sleep(300)", "does not come back: no answer in "),
        ("import os; os._exit(0)", "ends the interpreter: left the interpreter without a word, "),
        ("while True: print('x' * 65536)", "floods its output: more than 16 MiB of output"),
        (KILL.format("SIGKILL"), "is killed: killed by SIGKILL"),
        ("import torch._C", "fails: ModuleNotFoundError: No module named 'torch._C'"),
    ],
)
def test_a_torch_that_others_die_of(tmp_path: Path, control: Done, body: str, words: str) -> None:
    install(tmp_path, body)
    seconds = 3 if "sleep" in body else 20
    begun = time.monotonic()
    done = examine(tmp_path, "--json", "--timeout", str(seconds))
    assert time.monotonic() - begun < seconds + 1 + START
    assert (done.code, done.err) == (1, ""), done
    report = done.report
    assert report["bugs"] == []
    result = done.result("torch-import-fails")
    assert (result["status"], result["caused_by"]) == ("failed", None)
    (finding,) = result["findings"]
    assert finding["message"].startswith(f"import torch {words}")
    assert "torch-import-fails" in report["causes"]
    # Which torch was imported is no question where none was.
    unasked = "torch-imported-from-elsewhere"
    assert differences(done, control) == {"torch-import-fails", unasked}
    assert done.result(unasked)["status"] == "skipped"


def test_only_the_sick_torch_gives_the_exit_code(tmp_path: Path, site: Path) -> None:
    """``os._exit(0)``: other doctors report nothing, and a success."""
    install(tmp_path, "import os; os._exit(0)")
    assert examine(site, "--select", "torch").code == 0
    done = examine(tmp_path, "--select", "torch")
    assert (done.code, done.err) == (1, "")
    assert "import torch ends the interpreter" in " ".join(done.out.split())
    assert "Traceback" not in done.out


@pytest.mark.parametrize(
    "body",
    [
        "import io, sys; sys.stdout = sys.stderr = io.StringIO()",
        "import sys; sys.stdout = sys.stderr = None",
        "import os; os.close(1); os.close(2)",
        'print(\'{"begin": "import torch"}\\n{"end": "all"}\')',
        "import atexit, os; atexit.register(os._exit, 3)",
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    ],
)
def test_a_torch_that_is_only_rude(tmp_path: Path, control: Done, body: str) -> None:
    install(tmp_path, f"{body}\n{WELL}")
    done = examine(tmp_path, "--json")
    assert (done.code, done.err) == (control.code, "")
    assert differences(done, control) == set()


def test_an_interpreter_that_does_not_start(tmp_path: Path, control: Done) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'Fatal Python error: no filesystem encoding' >&2\nexit 1\n")
    python.chmod(0o755)
    done = run((*MUSADOCTOR, "--json", "--python", str(python)), plain(tmp_path))
    assert (done.code, done.err) == (1, "")
    assert done.report["bugs"] == []
    (finding,) = done.result("python-not-usable")["findings"]
    assert "exit code 1 (Fatal Python error: no filesystem encoding)" in finding["message"]
    assert "python-not-usable" in done.report["causes"]
    changed = {done.result(check)["layer"] for check in differences(done, control)}
    assert changed <= {"python", "torch", "torch_musa", "collectives"}


@pytest.mark.parametrize("lost", [{"HOME"}, {"PATH"}, {"HOME", "PATH", "PYTHONPATH"}])
def test_variables_that_are_not_set(site: Path, control: Done, lost: set[str]) -> None:
    kept = {name: value for name, value in plain(site).items() if name not in lost}
    done = run((*MUSADOCTOR, "--json", "--python", sys.executable), kept)
    assert (done.code, done.err) == (1, "")
    assert done.report["bugs"] == []
    if "PYTHONPATH" not in lost:
        assert differences(done, control) == set()
    text = run((*MUSADOCTOR, "--python", sys.executable), kept)
    assert (text.code, text.err) == (1, "")
    assert text.out


def test_a_folder_on_path_that_may_not_be_looked_into(site: Path) -> None:
    with open_folder() as folder:
        shut = folder / "bin"
        shut.mkdir()
        (shut / "mthreads-gmi").write_text("#!/bin/sh\n")
        (shut / "mthreads-gmi").chmod(0o755)
        shut.chmod(0)
        # Root without its powers owns its files, and no more.
        powerless = ("setpriv", "--inh-caps=-all", "--bounding-set=-all", "--ambient-caps=-all")
        before = () if os.getuid() else powerless
        if before and (shutil.which("setpriv") is None or run((*before, "true"), {}).code != 0):
            pytest.skip("no setpriv here that takes root's powers")
        done = examine(site, "--json", before=before, PATH=f"{shut}:/usr/bin:/bin")
        shut.chmod(0o700)
    assert (done.code, done.err) == (1, "")
    assert done.report["bugs"] == []
    assert f"unreadable: {shut}" in json.dumps(done.report["facts"]["gmi"])


def namespace(mounts: str) -> tuple[str, ...]:
    """What runs a command where more is mounted, for this user."""
    if os.getuid() != 0:
        unable("only root may mount")
    before = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", mounts, "sh")
    tried = run((*before, "true"), {"PATH": os.environ["PATH"]})
    if tried.code != 0:
        unable(f"this system lets us mount nothing: {tried.err.strip()}")
    return before


@pytest.mark.host
def test_nothing_can_be_written(tmp_path: Path, site: Path, control: Done) -> None:
    mounts = f'mount --bind {site} {site}; mount -o remount,bind,ro {site}; cd {site}; exec "$@"'
    before = namespace(mounts)
    assert run((*before, "touch", "new"), plain(site)).code != 0
    held = sorted(site.iterdir())
    done = examine(site, "--json", before=before)
    assert (done.code, done.err) == (control.code, "")
    assert differences(done, control) == set()
    assert sorted(site.iterdir()) == held
    refused = examine(site, "--output", "report.txt", before=before)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "musadoctor: cannot write report.txt: Read-only file system\n"


@pytest.mark.host
@pytest.mark.parametrize("arguments", [["--json"], []])
def test_neither_proc_nor_sys(site: Path, arguments: list[str]) -> None:
    hidden = 'mount -t tmpfs none /sys; mount -t tmpfs none /proc; exec "$@"'
    done = examine(site, *arguments, before=namespace(hidden))
    assert "Traceback" not in done.out
    assert (done.code, done.err) == (3, "")
    if arguments:
        assert done.report["bugs"] == []
        assert {"unknown"} == done.report["facts"]["gpus"].keys()
        assert done.result("no-gpu")["status"] == "unknown"
        assert done.result("torch-import-fails")["status"] == "passed"


@pytest.fixture(scope="module")
def well(tmp_path_factory: pytest.TempPathFactory) -> LiveHost:
    """A live host on which everything passes, with stubs for torch and torch_musa."""
    host = build_host(tmp_path_factory.mktemp("sick") / "host")
    return add_stub_torch(host, STUB_TORCH, STUB_MUSA)


@pytest.fixture(scope="module")
def cleared(well: LiveHost) -> Done:
    """Its report."""
    done = well.musadoctor("--json")
    assert (done.code, done.err) == (0, ""), done
    assert done.report["verdict"] == "healthy", done.raised
    return done


def not_cleared(done: Done, cleared: Done, seconds: float, took: float) -> str:
    """What a report says of the management tool, if that alone is what it lacks."""
    assert (done.code, done.err) == (3, ""), done
    report = done.report
    assert took < seconds + 1 + START
    assert report["seconds"] < seconds + 1 + BUSY
    assert (report["verdict"], report["bugs"]) == ("unknown", [])
    changed = differences(done, cleared)
    assert "gmi-reports-error" in changed
    for check in changed:
        result = done.result(check)
        assert (result["status"], result["findings"]) == ("unknown", [])
        assert result["reason"].startswith("mthreads-gmi: no answer in "), result
    reason: str = report["facts"]["gmi"]["unknown"]
    return reason


@pytest.mark.host
def test_a_tool_that_sleeps_for_ever(well: LiveHost, cleared: Done, tmp_path: Path) -> None:
    host = well.copy(tmp_path / "host")
    pids = tmp_path / "pids"
    script = f"echo $$ >> {pids}\nsleep 300 &\necho $! >> {pids}\nwait\n"
    host.program("/usr/bin/mthreads-gmi", script)
    begun = time.monotonic()
    done = host.musadoctor("--json", "--timeout", "3")
    took = time.monotonic() - begun
    said = not_cleared(done, cleared, 3, took)
    assert re.fullmatch(r"mthreads-gmi: no answer in (2\.\d+|3) s, killed", said)
    started = pids.read_text().split()
    assert len(started) == 2
    # Whom nobody has buried has no command line.
    assert not any(command_line(pid) for pid in started)


def command_line(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


STUCK = "echo $$ > {pids}\nexec cat {file}\n"
WHERE = r"process (\d+) \(cat\), state D, waiting in \w+"


@pytest.mark.host
def test_a_tool_that_is_stuck_in_the_kernel(well: LiveHost, cleared: Done, tmp_path: Path) -> None:
    host = well.copy(tmp_path / "host")
    with open_folder() as folder, stuck_files(folder):
        script = STUCK.format(pids=tmp_path / "pid", file=folder / "stuck")
        host.program("/usr/bin/mthreads-gmi", script)
        begun = time.monotonic()
        done = host.musadoctor("--json", "--timeout", "3")
        took = time.monotonic() - begun
    said = not_cleared(done, cleared, 3, took)
    found = re.search(rf"and it cannot be killed: {WHERE}$", said)
    assert found, said
    assert found[1] == (tmp_path / "pid").read_text().strip()


@pytest.mark.host
@pytest.mark.parametrize("arguments", [["--json"], []])
def test_ctrl_c_while_a_tool_is_stuck_in_the_kernel(
    well: LiveHost, tmp_path: Path, arguments: list[str]
) -> None:
    host = well.copy(tmp_path / "host")
    pid = tmp_path / "pid"
    with open_folder() as folder, stuck_files(folder):
        host.program("/usr/bin/mthreads-gmi", STUCK.format(pids=pid, file=folder / "stuck"))
        process = subprocess.Popen(
            host.argv(*MUSADOCTOR, *arguments),
            env=host.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        until = time.monotonic() + 20
        while not (pid.exists() and reads(pid.read_text().strip())):
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        _, said = process.communicate(timeout=20)
        took = time.monotonic() - begun
    assert process.returncode == 130
    assert took < 2 + BUSY
    assert b"Traceback" not in said


def reads(pid: str) -> bool:
    """Whether the tool has become the reader of the stuck file."""
    try:
        with open(f"/proc/{pid}/wchan", encoding="utf-8") as file:
            return file.read() == "request_wait_answer"
    except OSError:
        return False
