"""``musadoctor guard`` as a user has it: some in a process of its own, most in this one."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from recorded import whole
from support import TESTS
from typer.testing import CliRunner

from musadoctor.cli import app

MUSA = ("--assume", "musa=2.9.1.post1+musa5.2.0")
REQUIREMENTS = """\
--extra-index-url https://user:secret@download.pytorch.org/whl/cu121
torch==2.4.0+cu121
numpy
torchvision>=0.19
nvidia-cublas-cu12==12.1.3.1
"""
REFUSED_LINES = [
    ("cuda-index", "requirements.txt:1"),
    ("cuda-local-version", "requirements.txt:2"),
    ("nvidia-runtime", "requirements.txt:5"),
]


class Done(NamedTuple):
    """How a run ended."""

    code: int
    out: str
    err: str


def guard(
    *arguments: str,
    cwd: Path,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "musadoctor", "guard", *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100", **(environment or {})},
        timeout=60,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def here(*arguments: str) -> Done:
    """The same in this process, which takes a tenth of the time."""
    done = CliRunner().invoke(app, ["guard", *arguments], env={"NO_COLOR": "1"})
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS, encoding="utf-8")
    (tmp_path / "fine.txt").write_text("numpy\nrequests>=2\n", encoding="utf-8")
    return tmp_path


def found(done: Done) -> list[tuple[str, str]]:
    """The errors of a JSON report: id and place."""
    return sorted(
        (result["id"], finding["where"])
        for result in json.loads(done.out)["results"]
        for finding in result["findings"]
        if result["severity"] == "error"
    )


def test_the_text_is_what_the_documentation_shows(
    folder: Path, pytestconfig: pytest.Config
) -> None:
    done = guard(*MUSA, "requirements.txt", cwd=folder)
    assert (done.code, done.err) == (1, "")
    kept = TESTS / "outputs" / "guard.txt"
    if pytestconfig.getoption("--update"):
        kept.write_text(done.out, encoding="utf-8")
    assert done.out == kept.read_text(encoding="utf-8")
    assert "secret" not in done.out


@pytest.mark.usefixtures("folder")
def test_the_json_names_the_lines() -> None:
    done = here(*MUSA, "--json", "requirements.txt")
    assert (done.code, found(done)) == (1, REFUSED_LINES)
    assert json.loads(done.out)["verdict"] == "broken"
    assert "secret" not in done.out


@pytest.mark.usefixtures("folder")
def test_findings_stand_on_their_lines_for_github() -> None:
    done = here(*MUSA, "--format", "github", "requirements.txt")
    errors = [line for line in done.out.splitlines() if line.startswith("::error ")]
    assert sorted(line.split(",")[:2] for line in errors) == [
        [f"::error file={file}", f"line={number}"]
        for file, number in (where.split(":") for _, where in REFUSED_LINES)
    ]


def test_standard_input_and_a_file_of_findings(folder: Path) -> None:
    done = guard(*MUSA, "--json", "-o", "out.json", "-", cwd=folder, stdin=b"nvidia-cublas-cu12\n")
    assert (done.code, done.out, done.err) == (1, "", "")
    report = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert [r["id"] for r in report["results"] if r["status"] == "failed"] == ["nvidia-runtime"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((*MUSA, "fine.txt"), 0),
        ((*MUSA, "requirements.txt", "--select", "torch-satisfied"), 0),
        ((*MUSA, "requirements.txt", "--select", "torch-satisfied", "--fail-on", "warning"), 1),
        ((*MUSA, "."), 1),
        (("--assume", "new", "fine.txt"), 0),
        (("fine.txt", *MUSA, "nowhere.txt"), 2),
        ((*MUSA, "nowhere.txt", "requirements.txt"), 1),
    ],
)
@pytest.mark.usefixtures("folder")
def test_exit_codes(arguments: tuple[str, ...], code: int) -> None:
    assert here(*arguments).code == code


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "name files or folders to judge, or an installer's command after --"),
        (
            ("--assume", "cuda", "fine.txt"),
            (
                "--assume cuda: expected musa, musa=VERSION with the version of the vendor's torch, or"
                " new"
            ),
        ),
        (
            ("--assume", "musa", "--python", "python3", "fine.txt"),
            "--assume and --python each name a host to judge for; give one of them",
        ),
        (
            (*MUSA, "--deep", "fine.txt"),
            "--deep asks what this host's environment would get; leave --assume and --recording",
        ),
        (
            (*MUSA, "--select", "cuda-indx", "fine.txt"),
            (
                "'cuda-indx' is no check and no family; did you mean 'cuda-index'? (see musadoctor"
                " list)"
            ),
        ),
        ((*MUSA, "--force", "fine.txt"), "--force says what --write may do; give both"),
        (
            ("--",),
            "name the installer's command after --: guard -- pip install -r requirements.txt",
        ),
        (("--", "make", "all"), "make all: no installer that the guard understands"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_wrong_use_is_one_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    assert here(*arguments) == Done(2, "", f"musadoctor: {sentence}\n")


def test_nothing_to_protect(folder: Path) -> None:
    recording = folder / "host.json"
    recording.write_text(json.dumps(whole("no-gpu")), encoding="utf-8")
    done = here("--recording", "host.json", "requirements.txt")
    assert done.code == 0
    assert done.out.startswith("Nothing to protect: nothing of Moore Threads is here: ")


def test_a_recorded_host_is_protected(folder: Path) -> None:
    recording = folder / "host.json"
    recording.write_text(json.dumps(whole("s5000-4.3.5")), encoding="utf-8")
    done = here("--recording", "host.json", "--json", "requirements.txt")
    # That host has no torchvision of the vendor's.
    missing = ("torch-missing-vendor", "requirements.txt:4")
    assert (done.code, found(done)) == (1, [*REFUSED_LINES, missing])


def test_an_installer_s_own_exit_code(folder: Path) -> None:
    done = guard("--", sys.executable, "-m", "pip", "--version", cwd=folder)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("pip ")
