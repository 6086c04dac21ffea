"""What becomes of an installer's command, with a stand-in for pip that does as it is told."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from installer_lab import system_of, unpacked
from wheel_index import Wheel

from musadoctor.api import Check, Layer
from musadoctor.facts.base import Unknown
from musadoctor.guard import intercept
from musadoctor.guard.intercept import Decision, Outcome, decide, refused
from musadoctor.guard.protect import Plan, apply, plan
from musadoctor.report import Bug, Report, Result, Vantage
from musadoctor.runner import stand_by
from musadoctor.system import NOT_ALLOWED, Failure, System

PIP = Wheel("pip", "99", (), {"pip/__main__.py": "import os; exec(os.environ.get('DOES', ''))\n"})


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of this machine's installers."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "XDG_", "VIRTUAL_ENV", "CONDA")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "etc"))
    monkeypatch.setattr("musadoctor.guard.constraints.PLATFORM_CONFIGURATION", "/nowhere/pip.conf")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def python(tmp_path: Path) -> Path:
    return unpacked(tmp_path / "env", "tagged", PIP)


@pytest.fixture
def site(python: Path) -> Path:
    (folder,) = python.parent.parent.glob("lib/*/site-packages")
    return folder


def decided(*argv: str) -> Decision:
    return decide(argv, system_of)


def install(python: Path, *arguments: str) -> Decision:
    return decided(str(python), "-m", "pip", "install", *arguments)


def done(
    monkeypatch: pytest.MonkeyPatch, python: Path, does: str, *arguments: str
) -> tuple[Decision, Outcome]:
    monkeypatch.setenv("DOES", does)
    argv = (str(python), "-m", "pip", "install", *(arguments or ("numpy",)))
    decision = decide(argv, system_of)
    assert decision.verdict == "run", decision
    return decision, intercept.run(decision, argv, system_of)


TELLS = "import stat\nfor name in ('PIP_CONSTRAINT', 'UV_CONSTRAINT'):\n    print(name, '|', os.environ[name])\n    file = os.environ[name].split()[-1]\n    print(open(file).read())\n    print(oct(os.stat(os.path.dirname(file)).st_mode))\n"


def test_the_tool_runs_with_the_stack_held(
    python: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_CONSTRAINT", "/a.txt  /b.txt")
    monkeypatch.setenv("UV_CONSTRAINT", "/u.txt")
    decision, outcome = done(monkeypatch, python, f"{TELLS}raise SystemExit(7)")
    assert outcome == Outcome(7)
    assert decision.report is not None
    told = capfd.readouterr().out
    assert "PIP_CONSTRAINT | /a.txt /b.txt /" in told
    assert "UV_CONSTRAINT | /u.txt /" in told
    assert told.count("\ntorch==2.9.1.post1+musa5.2.0\n") == 2
    assert told.count("0o40700") == 2
    folder = Path(told.partition("\n")[0].split()[-1]).parent
    assert folder.name.startswith("musadoctor-")
    assert not folder.exists()


def test_what_its_configuration_says_is_kept(
    python: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (python.parent.parent / "pip.conf").write_text("[install]\nconstraint = /mine.txt\n")
    done(monkeypatch, python, TELLS)
    told = capfd.readouterr().out
    assert "PIP_CONSTRAINT | /mine.txt /" in told
    assert "UV_CONSTRAINT | /" in told
    monkeypatch.setenv("PIP_CONSTRAINT", "")
    done(monkeypatch, python, TELLS)
    assert "PIP_CONSTRAINT | /" in capfd.readouterr().out
    assert "mine" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line", "variable", "form"),
    [
        (("numpy",), "", "", "torch @ file://"),
        (("numpy",), "", "off", "torch @ file://"),
        (("numpy",), "", "true", "torch=="),
        (("--require-hashes", "numpy"), "", "", "torch=="),
        (("-r", "a.txt"), "numpy==1.26.4 --hash=sha256:00\n", "", "torch=="),
        (("-r", "a.txt"), "numpy==1.26.4\n", "", "torch @ file://"),
    ],
)
def test_a_file_is_named_unless_hashes_are_demanded(
    python: Path,
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: Sequence[str],
    line: str,
    variable: str,
    form: str,
) -> None:
    Path("a.txt").write_text(line)
    (wheel,) = python.parent.parent.glob("torch-2*.whl")
    (metadata,) = site.glob("torch-2*.dist-info")
    (metadata / "direct_url.json").write_text(f'{{"url": "{wheel.as_uri()}"}}')
    if variable:
        monkeypatch.setenv("PIP_REQUIRE_HASHES", variable)
    done(monkeypatch, python, TELLS, *arguments)
    of_pip, of_uv = capfd.readouterr().out.split("UV_CONSTRAINT")
    assert form in of_pip
    assert "torch @ file://" in of_uv


HARM = {
    "import shutil; shutil.rmtree('SITE/torch_musa'); [shutil.rmtree(p) for p in __import__('glob').glob('SITE/torch_musa-*')]": (
        "torch-musa 2.9.1.post1+musa5.2.0 is gone"
    ),
    "import glob; os.rename(glob.glob('SITE/torchvision-*')[0], 'SITE/torchvision-0.24.1.dist-info')": (
        "torchvision 0.24.1.post1+musa5.2.0 was replaced by 0.24.1"
    ),
    "open('SITE/torchaudio/version.py', 'a').write('#')": (
        "files of torchaudio 2.9.1+musa5.2.0 were overwritten"
    ),
    "open('SITE/torch/version.py', 'w').write('cuda = \"12.8\"')": (
        "torch is the vendor's no more: torch 2.9.1.post1+musa5.2.0, CUDA build"
    ),
    "import shutil; shutil.rmtree('SITE/torch'); shutil.rmtree('SITE/torch-2.9.1.post1+musa5.2.0.dist-info')": (
        "torch is the vendor's no more: torch is not installed for"
    ),
}


@pytest.mark.parametrize("does", HARM)
def test_harm_is_told(python: Path, site: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    _, outcome = done(monkeypatch, python, does.replace("SITE", str(site)))
    assert outcome.code == 1
    assert HARM[does] in outcome.sentence
    assert (
        f"{python} -m pip install numpy ended with exit code 0 and has harmed" in outcome.sentence
    )
    assert outcome.commands[0].startswith(
        f"{python} -m pip install --force-reinstall --no-deps --index-url VENDOR_INDEX torch=="
    )


def test_what_installers_write_themselves_is_no_harm(
    python: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    does = (
        "import glob\n"
        "file = glob.glob('SITE/torch-*.dist-info/RECORD')[0]\n"
        "open(file, 'a').write('torch/__pycache__/a.pyc,,\\ntorch-2.9.1.post1+musa5.2.0.dist-info/REQUESTED,,\\n')"
    )
    _, outcome = done(monkeypatch, python, does.replace("SITE", str(site)))
    assert outcome == Outcome(0)


@pytest.mark.parametrize(
    ("argv", "verdict", "sentence"),
    [
        ([], "usage", "nothing: no installer that the guard understands"),
        (["ls", "-l"], "usage", "ls -l: no installer that the guard understands"),
        (["/gone/pip", "install", "a"], "usage", "/gone/pip: command not found"),
        (["PIP_USER=1", "pip", "install", "a"], "usage", "PIP_USER=1: command not found"),
        (["PYTHON", "-m", "pip", "list"], "run", ""),
        (["PYTHON", "-m", "pip", "install", "--dry-run", "torch==2.4.0"], "run", ""),
        (["PYTHON", "-m", "pip", "uninstall", "-y", "numpy"], "run", ""),
        (["PYTHON", "-m", "pip", "install", "numpy"], "run", ""),
        (["nice", "PYTHON", "-m", "pip", "install", "numpy"], "run", ""),
        (["env", "PIP_CONSTRAINT=", "PYTHON", "-m", "pip", "install", "a"], "refuse", "not run: env need not hand on"),
        (["PYTHON", "-m", "pip", "install", "torch==2.4.0"], "refuse", "not run"),
        (["PYTHON", "-m", "pip", "install", "-r", "gone.txt"], "refuse", "not run: gone.txt cannot be read: "),
        (["PYTHON", "-m", "pip", "install", "-r", "bad.txt"], "refuse", "not run"),
        (["PYTHON", "-m", "pip", "install", "-c", "bad.txt", "numpy"], "refuse", "not run"),
        (["PYTHON", "-m", "pip", "install", "-r", "good.txt", "-c", "good.txt"], "run", ""),
        (["PYTHON", "-m", "pip", "install", "-U", "-r", "good.txt"], "refuse", "not run"),
        (["PYTHON", "-m", "pip", "install", "--isolated", "numpy"], "refuse", "not run: --isolated makes pip deaf"),
        (["PYTHON", "-m", "pip", "uninstall", "-y", "-r", "bad.txt"], "refuse", "not run: it would remove the vendor's torch"),
        (["PYTHON", "-m", "pip", "uninstall", "-y", "-r", "other.txt"], "run", ""),
        (["PYTHON", "-m", "pip", "uninstall", "-y", "torch"], "refuse", "not run: it would remove the vendor's torch"),
        (["PYTHON", "-m", "pip", "--python", "/gone", "install", "a"], "refuse", "not run: --python: no /gone that can be executed"),
    ],
)  # fmt: skip
def test_what_becomes_of_a_command(
    python: Path, argv: list[str], verdict: str, sentence: str
) -> None:
    Path("bad.txt").write_text("torch==2.4.0\n")
    Path("good.txt").write_text("torch\n")
    Path("other.txt").write_text("onnxruntime-gpu\n")
    decision = decided(*(str(python) if word == "PYTHON" else word for word in argv))
    assert (decision.verdict, decision.sentence[: len(sentence)]) == (verdict, sentence)
    assert decision.code == {"run": 0, "refuse": 1, "usage": 2}[verdict]
    findings = [f for r in (decision.report.results if decision.report else ()) for f in r.findings]
    assert bool(findings) >= (decision.sentence == "not run")


def test_what_detours_say_to_type(python: Path, tmp_path: Path) -> None:
    for name in ("sudo", "conda"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    sudo = decided(f"{tmp_path}/sudo", str(python), "-m", "pip", "install", "a b")
    assert sudo.commands == (f"sudo musadoctor guard -- {python} -m pip install 'a b'",)
    conda = decided(f"{tmp_path}/conda", "run", "-n", "gpu", "pip", "install", "a")
    assert "conda chooses the environment of" in conda.sentence
    assert conda.commands == ("musadoctor guard -- ENVIRONMENT/bin/python -m pip install ...",)
    assigned = decided("/usr/bin/nice", "A=1", str(python), "-m", "pip", "install", "a")
    assert assigned.sentence == "not run: put assignments before musadoctor, not behind --"


def test_variables_count_as_options(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert install(python, "torch").verdict == "run"
    for value, verdict in (("1", "refuse"), ("yes", "refuse"), ("0", "run"), ("", "run")):
        monkeypatch.setenv("PIP_FORCE_REINSTALL", value)
        assert install(python, "torch").verdict == verdict
    monkeypatch.delenv("PIP_FORCE_REINSTALL")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://download.pytorch.org/whl/cu121")
    assert install(python, "numpy").verdict == "refuse"


def test_protected_for_good_isolated_is_let_through(python: Path) -> None:
    made = plan(system_of(str(python)))
    assert isinstance(made, Plan)
    apply(made)
    assert install(python, "--isolated", "numpy").verdict == "run"


def test_where_nothing_is_the_vendors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = unpacked(tmp_path / "bare", "none", PIP)
    decision, outcome = done(monkeypatch, python, "raise SystemExit(3)", "torch==2.4.0")
    assert decision.sentence.startswith("nothing to protect: nothing of Moore Threads is here")
    assert outcome == Outcome(3)
    (tmp_path / "uv").write_text("#!/bin/sh\n")
    (tmp_path / "uv").chmod(0o755)
    own = decided(f"{tmp_path}/uv", "tool", "install", "ruff")
    assert own.sentence == "nothing to protect: uv tool install has an environment of its own"


def test_a_host_that_lost_its_torch_is_judged_but_not_held(
    python: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site / "torch" / "version.py").write_text("__version__ = '2.9.1'\ncuda = '12.8'\n")
    decision, outcome = done(monkeypatch, python, "", "numpy")
    assert decision.held is None
    assert decision.report is not None
    assert outcome == Outcome(0)
    assert install(python, "onnxruntime-gpu").verdict == "refuse"


def closed(python: str | None) -> System:
    """This machine, where the folder of packages cannot be looked into."""
    system = system_of(python)
    ask = system.list

    def listing(path: str) -> tuple[str, ...] | Failure:
        hidden = path.endswith("site-packages")
        return Failure(NOT_ALLOWED, f"{path}: Permission denied") if hidden else ask(path)

    system.list = listing  # type: ignore[method-assign]
    return system


def test_what_is_not_known_is_refused(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    argv = (str(python), "-m", "pip", "install", "numpy")
    decision = decide(argv, closed)
    assert decision.verdict == "refuse"
    assert f"what is installed for {python} is not known: " in decision.sentence
    assert "Permission denied" in decision.sentence

    monkeypatch.setattr(intercept, "pinned", lambda system: Unknown("nobody knows"))
    decision = decide(argv, system_of)
    assert (
        decision.sentence == f"not run: what is installed for {python} is not known: nobody knows"
    )


@pytest.mark.parametrize(
    ("severity", "status", "expected"),
    [
        ("error", "failed", True),
        ("error", "unknown", True),
        ("error", "passed", False),
        ("warning", "failed", False),
        ("warning", "unknown", False),
    ],
)
def test_the_guard_is_strict(*, severity: str, status: str, expected: bool) -> None:
    check = Check("a", Layer.REQUIREMENTS, severity, None, print, (), {})  # type: ignore[arg-type]
    report = Report(Vantage("requirements", None, None), (Result(check, status),), {}, (), 0.0)  # type: ignore[arg-type]
    assert refused(report) == expected
    assert refused(report._replace(bugs=(Bug("check a", "..."),)))


def test_a_tool_that_does_not_start_is_told(python: Path) -> None:
    decision = install(python, "numpy")
    outcome = intercept.run(decision, ("/gone/pip", "install"), system_of)
    assert outcome == Outcome(2, "not started: /gone/pip: No such file or directory")
    assert intercept.run(Decision("run", ""), ("a\0",), system_of).code == 2


def test_a_tool_that_a_signal_ends() -> None:
    assert stand_by(("sh", "-c", "kill -9 $$"), {}) == 137
    assert stand_by(("sh", "-c", 'exit "$CODE"'), {"CODE": "9"}) == 9


STANDING = (
    "import sys; from musadoctor.runner import stand_by;"
    " sys.exit(stand_by(['sh', '-c', sys.argv[1]], {}))"
)


def code_after(process: "subprocess.Popen[bytes]", sent: signal.Signals) -> int:
    """How a process ends that gets a signal once its program says that it is on."""
    assert process.stdout is not None
    with process:
        try:
            assert process.stdout.readline() == b"on\n"
            process.send_signal(sent)
            return process.wait(timeout=20)
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("sent", "script", "code"),
    [
        (signal.SIGTERM, "trap 'exit 5' TERM; echo on; while :; do sleep 0.05; done", 5),
        (signal.SIGHUP, "trap 'exit 6' HUP; echo on; while :; do sleep 0.05; done", 6),
        # It reaches musadoctor alone here, which leaves it to the program to end.
        (signal.SIGINT, "echo on; sleep 0.5; exit 7", 7),
    ],
)
def test_signals_are_passed_on(sent: signal.Signals, script: str, code: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STANDING, script],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert code_after(process, sent) == code


def test_a_signal_before_the_program_is_known_is_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = subprocess.Popen

    def signalled(*given: Any, **named: Any) -> "subprocess.Popen[bytes]":
        process: subprocess.Popen[bytes] = start(*given, **named)
        os.kill(os.getpid(), signal.SIGTERM)
        return process

    monkeypatch.setattr("musadoctor.runner.subprocess.Popen", signalled)
    assert stand_by(("sh", "-c", "sleep 20"), {}) == 128 + signal.SIGTERM


def test_an_ignored_signal_stays_ignored() -> None:
    """As under nohup."""
    script = "trap '' HUP; exec \"$@\""
    begun = time.monotonic()
    process = subprocess.Popen(
        ["sh", "-c", script, "sh", sys.executable, "-c", STANDING, "echo on; sleep 0.5; exit 8"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert code_after(process, signal.SIGHUP) == 8
    assert time.monotonic() - begun >= 0.5
