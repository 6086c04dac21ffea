"""The command line as a user has it: in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from recorded import whole
from support import BUSY

from musadoctor import __version__

ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR", "PYTHONPATH"}},
    "COLUMNS": "100",
    "TERM": "xterm",
}


class Done(NamedTuple):
    """How a run ended."""

    code: int
    out: str
    err: str


def musadoctor(
    *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "musadoctor", *arguments],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=cwd,
        env={**ENVIRONMENT, **(environment or {})},
        timeout=60,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for case in ("s5000-4.3.5", "cuda-torch", "gmi-hangs", "environment-traps"):
        (folder / f"{case}.json").write_text(json.dumps(whole(case)), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("case", "arguments", "code"),
    [
        ("s5000-4.3.5", [], 0),
        ("cuda-torch", [], 1),
        ("cuda-torch", ["--json"], 1),
        ("cuda-torch", ["--quiet"], 1),
        ("cuda-torch", ["--ignore", "torch=moved by hand, see #12", "--ignore", "torch-musa"], 0),
        ("gmi-hangs", [], 3),
        ("gmi-hangs", ["--strict"], 1),
        ("gmi-hangs", ["--select", "environment"], 0),
        ("environment-traps", [], 0),
        ("environment-traps", ["--fail-on", "warning"], 1),
    ],
)
def test_exit_codes(recordings: Path, case: str, arguments: list[str], code: int) -> None:
    done = musadoctor("--recording", f"{case}.json", *arguments, cwd=recordings)
    assert done.code == code, done
    assert done.err == ""


def test_a_reason_to_ignore_is_kept(recordings: Path) -> None:
    arguments = ("--recording", "cuda-torch.json", "--ignore", "torch=by hand", "--json")
    results = json.loads(musadoctor(*arguments, cwd=recordings).out)["results"]
    reasons = {r["status"]: r["reason"] for r in results if r["family"] == "torch"}
    assert reasons == {"skipped": "ignored: by hand"}
    text = musadoctor(
        "--recording", "cuda-torch.json", "--ignore", "no-gpu=why", cwd=recordings
    ).out
    assert " -  no-gpu: why" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--select", "no-gpus"], "'no-gpus' is no check and no family; did you mean 'no-gpu'?"),
        (["--select", "no-gpu", "--ignore", "hardware"], "no check is left to run"),
        (["--recording", "gone.json"], "gone.json: No such file or directory"),
        (["--recording", "."], ".: Is a directory"),
        (["--recording", "junk.json"], "junk.json: expected a recording"),
        (["--recording", "latin.json"], "latin.json: "),
        (["explain", "no-gpus"], "'no-gpus' is no check; did you mean 'no-gpu'?"),
        (["--json", "--recording", "s5000-4.3.5.json", "-o", "no/such/folder.json"], "cannot write no/such/folder.json: No such file"),
        *((["--json", "--recording", "s5000-4.3.5.json", "-o", to], "cannot write ") for to in (".", "..", "/", "", "loop")),
    ],
)  # fmt: skip
def test_wrong_use_is_one_sentence(recordings: Path, arguments: list[str], sentence: str) -> None:
    (recordings / "junk.json").write_text('{"a": 1}')
    (recordings / "latin.json").write_bytes(b"\xe9\xff")
    if not (recordings / "loop").is_symlink():
        (recordings / "loop").symlink_to("loop")
    done = musadoctor(*arguments, cwd=recordings)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"musadoctor: {sentence}")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["--python", "/x", "capture", "-o", "x.json"], "--python"),
        (["--json", "list"], "--json"),
        (["--no-plugins", "explain", "no-gpu"], "--no-plugins"),
        (["--recording", "s5000-4.3.5.json", "--python", "/x"], "--python"),
        (["--recording", "s5000-4.3.5.json", "--timeout", "5"], "--timeout"),
    ],
)
def test_an_option_without_effect_is_refused(
    recordings: Path, arguments: list[str], option: str
) -> None:
    done = musadoctor(*arguments, cwd=recordings)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"musadoctor: {option} ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["--nope"], ["--timeout", "0"], ["--timeout", "nan"], ["--format", "yaml"], ["x"]]
)
def test_wrong_options_are_wrong_use(arguments: list[str]) -> None:
    done = musadoctor(*arguments)
    assert (done.code, done.out) == (2, "")


def test_version() -> None:
    assert musadoctor("--version") == (0, f"musadoctor {__version__}\n", "")
    assert musadoctor("--quiet", "--version") == (0, f"musadoctor {__version__}\n", "")


def test_output_goes_to_the_file_alone_and_whole(recordings: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("old")
    source = str(recordings / "s5000-4.3.5.json")
    done = musadoctor("--recording", source, "--json", "-o", str(target))
    assert done == (0, "", "")
    assert json.loads(target.read_text())["verdict"] == "healthy"
    done = musadoctor("--recording", source, "--output", str(tmp_path / "report.txt"))
    assert done == (0, "", "")
    assert "\x1b" not in (tmp_path / "report.txt").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.json", "report.txt"]


def test_output_leaves_a_pipe_a_pipe_and_a_link_a_link(recordings: Path, tmp_path: Path) -> None:
    arguments = ("--recording", str(recordings / "s5000-4.3.5.json"), "--json", "-o")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert musadoctor(*arguments, str(pipe), "--select", "no-gpu") == (0, "", "")
    assert os.read(reader, 1) == b"{"
    os.close(reader)
    assert pipe.is_fifo()

    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    assert musadoctor(*arguments, str(tmp_path / "link.json")) == (0, "", "")
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["verdict"] == "healthy"
    assert {p.name for p in tmp_path.iterdir()} == {"pipe", "real.json", "link.json"}

    # What stands for a stream of the program's own, as a device or through /proc.
    out = musadoctor(*arguments, "/proc/self/fd/1")
    assert (out.code, json.loads(out.out)["verdict"]) == (0, "healthy")


def test_a_locale_without_its_characters(recordings: Path) -> None:
    source = str(recordings / "cuda-torch.json")
    done = musadoctor(
        "--recording",
        source,
        environment={"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    assert done.code == 1
    assert done.err == ""
    assert done.out.isascii()


def test_a_reader_that_leaves(recordings: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "musadoctor", "--recording", str(recordings / "cuda-torch.json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() in {1, 141}


def test_a_full_disk(recordings: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "musadoctor",
                "--recording",
                str(recordings / "cuda-torch.json"),
            ],
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            check=False,
            env=ENVIRONMENT,
        )
    assert done.returncode == 2
    assert done.stderr == "musadoctor: cannot write the report: No space left on device\n"


def test_list_and_explain() -> None:
    listed = musadoctor("list")
    assert listed.code == 0
    assert "\nhardware\n" in listed.out
    rows = json.loads(musadoctor("list", "--json", "--no-plugins").out)
    assert {row["id"] for row in rows} >= {"no-gpu", "torch-missing", "torch-pin-mismatch"}
    for id in ("no-gpu", "plugin-broken", "torch-pin-mismatch"):
        page = musadoctor("explain", id)
        assert page.code == 0
        assert page.out.startswith(f"# {id}\n")


def test_completion_knows_the_checks() -> None:
    done = musadoctor(
        environment={
            "_MUSADOCTOR_COMPLETE": "complete_bash",
            "COMP_WORDS": "musadoctor explain no-g",
            "COMP_CWORD": "2",
        }
    )
    assert done.out.split() == ["no-gpu"]


HANGING = "#!/bin/sh\necho $$ >> {pids}\nsleep 300 &\necho $! >> {pids}\nwait\n"


@pytest.fixture
def stuck(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """A PATH whose mthreads-gmi never comes back, and the file that names its processes."""
    pids = tmp_path / "pids"
    tool = tmp_path / "bin" / "mthreads-gmi"
    tool.parent.mkdir()
    tool.write_text(HANGING.format(pids=pids))
    tool.chmod(0o755)
    return {"PATH": f"{tool.parent}:{os.environ['PATH']}", "VIRTUAL_ENV": ""}, pids


def alive(pids: Path) -> list[int]:
    found = []
    for pid in pids.read_text().split():
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
        except OSError:
            continue
        if state != "Z":
            found.append(int(pid))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_an_interruption_ends_at_once_and_leaves_nothing(
    stuck: tuple[dict[str, str], Path], more: list[str], number: signal.Signals
) -> None:
    environment, pids = stuck
    process = subprocess.Popen(
        [sys.executable, "-m", "musadoctor", "--select", "driver", *more],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**ENVIRONMENT, **environment},
    )
    while not pids.exists() or len(pids.read_text().split()) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(number)
    begun = time.monotonic()
    _, said = process.communicate(timeout=10)
    assert process.returncode == 130
    assert time.monotonic() - begun < 2 + BUSY
    assert b"Traceback" not in said
    assert alive(pids) == []


def test_a_tool_that_hangs_costs_the_limit_and_a_second(stuck: tuple[dict[str, str], Path]) -> None:
    environment, pids = stuck
    begun = time.monotonic()
    done = musadoctor("--timeout", "2", "--select", "driver", "--json", environment=environment)
    took = time.monotonic() - begun
    report = json.loads(done.out)
    assert took < 2 + 1 + 1 + BUSY  # the limit, a second, and the start of Python
    assert re.search(r"no answer in (1\.\d+|2) s, killed", report["facts"]["gmi"]["unknown"])
    assert report["bugs"] == []
    assert alive(pids) == []


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("arguments", ["--json", "", "list", "explain no-gpu"])
def test_a_stream_that_is_closed_is_written_to_in_vain(
    recordings: Path, arguments: str, closed: str
) -> None:
    """The exit code is the report's, and nothing is called a bug."""
    source = "" if "no-gpu" in arguments or arguments == "list" else "--recording cuda-torch.json"
    shell = f"{sys.executable} -m musadoctor {source} {arguments} {closed}"
    done = subprocess.run(
        ["sh", "-c", shell], cwd=recordings, env=ENVIRONMENT, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (1 if source else 0, b"")


def test_our_own_fault_is_said_to_be_ours(recordings: Path, tmp_path: Path) -> None:
    broken = (
        "import musadoctor.cli, musadoctor.doctor, sys\n"
        "def examine(*a): raise ZeroDivisionError('half-way')\n"
        "musadoctor.doctor.examine = examine\n"
        "musadoctor.cli.run()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", broken, "--json"],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env=ENVIRONMENT,
    )
    assert done.returncode == 4
    assert "ZeroDivisionError: half-way" in done.stderr
    assert done.stderr.endswith(
        f"musadoctor: a bug in musadoctor {__version__}; please report it\n"
    )


def test_capture_then_diagnose_elsewhere(tmp_path: Path) -> None:
    home = tmp_path / "home" / "alice"
    home.mkdir(parents=True)
    environment = {"HOME": str(home), "MUSA_HOME": str(home / "musa")}
    captured = musadoctor("capture", "-o", "host.json", cwd=tmp_path, environment=environment)
    assert captured.code == 0, captured
    assert re.search(r"^host.json: \d+ KiB: \d+ programs run, \d+ files read, ", captured.out)
    assert "Redacted: " in captured.out
    text = (tmp_path / "host.json").read_text(encoding="utf-8")
    assert str(home) not in text
    assert "~/musa" in text
    here = musadoctor("--json", environment=environment)
    there = musadoctor("--json", "--recording", "host.json", cwd=tmp_path)
    assert there.code == here.code
    mine, theirs = json.loads(here.out), json.loads(there.out)
    for report in (mine, theirs):
        for result in report["results"]:
            del result["seconds"]
    assert theirs["results"] == mine["results"]
    assert theirs["facts"] == mine["facts"]
    open_hearted = musadoctor(
        "capture", "--no-redact", "-o", "open.json", cwd=tmp_path, environment=environment
    )
    assert "Not redacted" in open_hearted.out
    assert str(home) in (tmp_path / "open.json").read_text(encoding="utf-8")


LOADED = """
import os, sys, musadoctor.__main__
os._exit = sys.exit
try:
    musadoctor.__main__.main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--version"], {"typer", "rich", "json", "importlib.metadata", "musadoctor.cli"}),
        (["--json"], {"rich", "rich.console", "pydantic", "torch", "importlib.metadata", "dataclasses"}),
        ([], {"pydantic", "torch", "importlib.metadata"}),
        (
            ["guard", "--assume", "musa", "/dev/null"],
            {"rich", "json", "yaml", "tomllib", "musadoctor.probes", "musadoctor.live", "dataclasses"},
        ),
    ],
)  # fmt: skip
def test_what_a_start_loads(arguments: list[str], unwanted: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env=ENVIRONMENT,
    )
    assert "musadoctor.__main__" in done.stderr
    assert unwanted.isdisjoint(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "loaded"), [(["--json"], False), (["--json", "--facts", "rdma"], True)]
)
def test_what_no_check_asks_for_is_loaded_on_request(arguments: list[str], *, loaded: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments, "--select", "no-gpu"],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env=ENVIRONMENT,
    )
    assert ("musadoctor.facts.network" in done.stderr.split()) is loaded
    assert ("rdma" in json.loads(done.stdout)["facts"]) is loaded


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--json", "--facts", "rdna"], "'rdna' is no fact; did you mean 'rdma'?"),
        (["--facts", "rdma"], "--facts says more in the JSON report only: add --json"),
    ],
)
def test_facts_that_cannot_be_told(arguments: list[str], sentence: str) -> None:
    done = musadoctor(*arguments)
    assert (done.code, done.out, done.err) == (2, "", f"musadoctor: {sentence}\n")


PRINTING = '''
from musadoctor.api import Gpus, Absent, Judgement, Layer, check

print("loading")

@check("chatty", layer=Layer.HARDWARE, severity="note")
def chatty(gpus: Gpus | Absent) -> Judgement:
    """Talks."""
    print("judging")
    yield from ()
'''


def test_a_check_that_prints_is_no_part_of_the_report(recordings: Path, tmp_path: Path) -> None:
    (tmp_path / "chatty_checks.py").write_text(PRINTING)
    dist = tmp_path / "chatty-1.0.dist-info"
    dist.mkdir()
    (dist / "entry_points.txt").write_text("[musadoctor.checks]\nchatty = chatty_checks\n")
    arguments = ("--json", "--recording", "s5000-4.3.5.json")
    done = musadoctor(*arguments, cwd=recordings, environment={"PYTHONPATH": str(tmp_path)})
    assert "chatty" in {result["id"] for result in json.loads(done.out)["results"]}
    assert done.err == "loading\njudging\n"
