"""Standing before an installer: which environment, what is refused, and what comes of the rest."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from installer_lab import STACK, Lab, own_prefix, stack, system_of, vendors

from musadoctor.guard import intercept
from musadoctor.guard.intercept import Decision, Outcome, decide
from musadoctor.guard.protect import Plan, Protection, apply, plan, status

PIPS = ("newest", "oldest")
REPLACED = (
    ["torch==2.9.1"],
    ["torch==2.5.0"],
    ["torch<=2.9.1"],
    ["-U", "torch"],
    ["vllm"],
    ["torchvision==0.24.1"],
    ["torchvision==0.20.0"],
    ["-U", "--upgrade-strategy", "eager", "accelerate"],
    ["--force-reinstall", "accelerate"],
    ["-I", "accelerate"],
    ["capped-by-somebody"],
    ["new-by-somebody"],
)
"""What pip is given when it replaces torch 2.9.1.post1+musa5.2.0, and ends with exit code 0."""
KEPT = (
    ["torch", "torch>=2.2", "torch~=2.9.1", "torchvision"],
    ["accelerate", "peft"],
    ["-U", "accelerate"],
)
BY_UV = (
    ["torch==2.9.1"],
    ["-U", "accelerate"],
    ["--reinstall", "accelerate"],
    ["vllm"],
)
KEPT_BY_UV = (["torch"], ["accelerate", "peft"], ["-P", "accelerate", "accelerate"])


class Place(NamedTuple):
    """An environment with the vendor's stack."""

    python: Path
    before: dict[str, str]

    def is_whole(self) -> bool:
        return stack(self.python) == self.before


@pytest.fixture
def place(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, where nothing of this machine's settings is known."""
    for name in set(os.environ) - set(variables := lab.variables(tmp_path)):
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prepared(lab: Lab, place: Path, generation: str = "tagged", pip: str = "newest") -> Place:
    python = lab.environment(place / ".venv", generation, pip)
    before = stack(python)
    assert before["flavour"] == "MUSA"
    return Place(python, before)


def guarded(*argv: str) -> tuple[Decision, Outcome]:
    decision = decide(argv, system_of)
    if decision.verdict != "run":
        return decision, Outcome(decision.code)
    return decision, intercept.run(decision, argv, system_of)


def pip(python: Path, *arguments: str) -> tuple[str, ...]:
    return (str(python), "-m", "pip", "install", "-q", *arguments)


def unguarded(*argv: str) -> int:
    return subprocess.run(argv, check=False, capture_output=True).returncode


@contextmanager
def harmed(lab: Lab, place: Path, version: str, argv: Sequence[str]) -> Iterator[None]:
    """Meanwhile the same command harms the same stack elsewhere, where nothing guards it."""
    folder = place / "elsewhere"
    folder.mkdir()
    for file in place.glob("*.t*"):
        shutil.copy(file, folder)
    env = prepared(lab, folder, pip=version)
    own = [word.replace(f"{place}/.venv", f"{folder}/.venv") for word in argv]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(own, cwd=folder, stdout=quiet, stderr=quiet) as process:
        yield
    assert process.returncode == 0
    assert not env.is_whole()


def held_in(python: Path) -> Decision:
    """To run with the stack held, whatever the checks say of it."""
    decision = decide(pip(python, "filelock"), system_of)
    assert decision.held is not None
    return decision


@pytest.mark.parametrize(
    ("arguments", "version"),
    [(arguments, PIPS[n % 2]) for n, arguments in enumerate(REPLACED)],
    ids=" ".join,
)
def test_what_pip_replaces_is_kept(
    lab: Lab, place: Path, arguments: Sequence[str], version: str
) -> None:
    env = prepared(lab, place, pip=version)
    argv = pip(env.python, *arguments)
    with harmed(lab, place, version, argv):
        unknown = arguments[0].endswith("by-somebody")
        assert (decide(argv, system_of).verdict == "run") == unknown

        # What no table knows is held by the constraints: pip ends with an error, or without torch.
        outcome = intercept.run(held_in(env.python), argv, system_of)
        assert not outcome.sentence
        assert (outcome.code == 1) == (arguments[0] not in {"-U", "--force-reinstall", "-I"})
        assert env.is_whole()


@pytest.mark.parametrize("version", PIPS)
def test_what_pip_keeps_is_installed(lab: Lab, place: Path, version: str) -> None:
    env = prepared(lab, place, pip=version)
    for arguments in KEPT:
        decision, outcome = guarded(*pip(env.python, *arguments))
        assert (decision.verdict, outcome) == ("run", Outcome(0)), arguments
    assert env.is_whole()


@pytest.mark.parametrize("arguments", BY_UV, ids=" ".join)
def test_what_uv_replaces_is_kept(lab: Lab, place: Path, arguments: Sequence[str]) -> None:
    env = prepared(lab, place)
    argv = ("uv", "pip", "install", "-q", *arguments)
    with harmed(lab, place, "newest", argv):
        guarded(*argv)
        assert env.is_whole()
        outcome = intercept.run(held_in(env.python), argv, system_of)
        assert not outcome.sentence
        assert (outcome.code == 1) == (arguments[0][0] != "-")
        assert env.is_whole()


def test_what_uv_keeps_is_installed(lab: Lab, place: Path) -> None:
    env = prepared(lab, place)
    for arguments in KEPT_BY_UV:
        decision, outcome = guarded("uv", "pip", "install", "-q", *arguments)
        assert (decision.verdict, outcome) == ("run", Outcome(0)), arguments
    for unknown in ("capped-by-somebody", "new-by-somebody"):
        assert guarded("uv", "pip", "install", "-q", unknown)[1] == Outcome(1)
    assert env.is_whole()


def project(place: Path, index: str) -> None:
    """A project for uv and poetry that wants some newer torch."""
    (place / "pyproject.toml").write_text(
        "[project]\nname = 'p'\nversion = '1'\nrequires-python = '>=3.10,<4'\n"
        "dependencies = ['torch>=2.9', 'accelerate']\n"
        "[tool.uv]\npackage = false\n[tool.poetry]\npackage-mode = false\n"
        f"[[tool.poetry.source]]\nname = 'local'\nurl = '{index}'\n"
    )


SYNCING = (
    ["uv", "sync", "-q"],
    ["uv", "sync", "-q", "--inexact"],
    ["uv", "run", "-q", "python", "-c", ""],
    ["uv", "add", "-q", "peft"],
    ["uv", "pip", "sync", "-q", "requirements.txt"],
    ["poetry", "install"],
)


@pytest.mark.parametrize("argv", SYNCING, ids=" ".join)
def test_what_a_lock_replaces_is_refused(lab: Lab, place: Path, argv: Sequence[str]) -> None:
    env = prepared(lab, place)
    project(place, lab.url)
    (place / "requirements.txt").write_text("accelerate==1.1.0\nfilelock\n")
    with harmed(lab, place, "newest", argv):
        assert guarded(*argv)[1].code == 1
        assert env.is_whole()


SAFE = ["--inexact", *(f"--no-install-package={name}" for name in STACK)]


def test_what_leaves_the_environment_alone_is_let_through(lab: Lab, place: Path) -> None:
    env = prepared(lab, place)
    project(place, lab.url)
    for argv in (
        ["uv", "lock", "-q"],
        ["uv", "sync", "-q", "--dry-run"],
        ["uv", "sync", "-q", *SAFE],
        ["uv", "run", "-q", "--no-sync", "python", "-c", ""],
        ["uv", "add", "-q", "--no-sync", "peft"],
        ["uv", "pip", "list", "-q"],
        ["poetry", "install", "-q", "--only-root"],
        pip(env.python, "--dry-run", "vllm"),
    ):
        decision, outcome = guarded(*argv)
        assert (decision.verdict, outcome) == ("run", Outcome(0)), argv
    assert env.is_whole()
    # The advice of a refusal passes.
    for argv in (["poetry", "add", "peft"], ["uv", "remove", "accelerate"]):
        assert decide(argv, system_of).verdict == "refuse"
    refused = decide(("uv", "sync"), system_of)
    assert refused.commands == (f"musadoctor guard -- uv sync {' '.join(SAFE)}",)


@pytest.mark.parametrize("source", ["an index", "files"])
def test_a_build_without_a_label_is_held_too(lab: Lab, place: Path, source: str) -> None:
    """The stock torch 2.5.0 has the very number of the vendor's older one."""
    env = prepared(lab, place, "plain")
    by_name = source == "an index"
    if by_name:
        for file in place.glob(".venv/lib/*/site-packages/*/direct_url.json"):
            file.unlink()
    assert vendors(env.python)
    argv = pip(env.python, "--force-reinstall", "--no-deps", "torch==2.5.0")
    assert guarded(*argv)[1].code == 1
    assert guarded(*pip(env.python, "torch==2.5.0", "accelerate"))[1] == Outcome(0)
    assert vendors(env.python)

    outcome = intercept.run(held_in(env.python), argv, system_of)
    assert (outcome.code == 0) == vendors(env.python) == (not by_name)
    assert bool(outcome.sentence) == by_name


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("pip", ["-I", "accelerate"]),
        ("pip", ["torchvision==0.24.1"]),
        ("uv", ["--reinstall", "accelerate"]),
    ],
)
def test_what_was_harmed_is_told_and_comes_back(
    lab: Lab, place: Path, tool: str, arguments: list[str]
) -> None:
    env = prepared(lab, place)
    argv = pip(env.python, "--isolated", "--index-url", lab.url, *arguments)
    if tool == "uv":
        argv = ("env", "-u", "UV_CONSTRAINT", "uv", "pip", "install", "-q", *arguments)
    decision = held_in(env.python)
    if tool == "uv":
        next(place.glob(".venv/lib/*/site-packages/pip")).unlink()
    outcome = intercept.run(decision, argv, system_of)
    assert outcome.code == 1
    assert "torch is the vendor's no more: torch 2." in outcome.sentence
    assert "CUDA build" in outcome.sentence
    assert f"{' '.join(argv)} ended with exit code 0" in outcome.sentence
    for command in outcome.commands:
        subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert env.is_whole()


def protected(python: Path) -> None:
    made = plan(system_of(str(python)))
    assert isinstance(made, Plan)
    apply(made)
    found = status(system_of(str(python)))
    assert isinstance(found, Protection)
    assert found.whole


@pytest.mark.parametrize("version", PIPS)
def test_protection_holds_against_pip(lab: Lab, place: Path, version: str) -> None:
    (place / "a place").mkdir()
    env = prepared(lab, place / "a place", pip=version)
    protected(env.python)
    assert unguarded(*pip(env.python, "vllm")) == 1
    assert unguarded(*pip(env.python, "--isolated", "-i", lab.url, "torch==2.9.1")) == 1
    assert unguarded(*pip(env.python, "-U", "--upgrade-strategy", "eager", "accelerate")) == 0
    # The guard's own constraints beside it.
    assert guarded(*pip(env.python, "timm"))[1] == Outcome(0)
    assert env.is_whole()


def test_protection_holds_against_uv_beside_a_dot_venv(lab: Lab, place: Path) -> None:
    env = prepared(lab, place)
    protected(env.python)
    (place / "below").mkdir()
    for folder in (place, place / "below"):
        os.chdir(folder)
        assert unguarded("uv", "pip", "install", "vllm") == 1
    assert unguarded("uv", "pip", "install", "-U", "accelerate") == 0
    assert guarded("uv", "pip", "install", "-q", "timm")[1] == Outcome(0)
    assert env.is_whole()


def test_the_mark_stops_pip_and_uv(lab: Lab, place: Path) -> None:
    """In an interpreter of its own, as conda and base images have it."""
    python = own_prefix(place / "prefix", "tagged")
    (site,) = (place / "prefix").glob("lib/python*/site-packages")
    shutil.copytree(lab.pips["newest"], site, dirs_exist_ok=True)
    before = stack(python)
    protected(python)
    words = "the vendor's build of torch for Moore Threads GPUs"
    for argv in (
        pip(python, "filelock"),
        ("uv", "pip", "install", "-p", str(python), "filelock"),
        (str(python), "-m", "pip", "uninstall", "-y", "torch"),
    ):
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        assert done.returncode in {1, 2}
        assert words in done.stderr
    assert guarded(*pip(python, "--break-system-packages", "accelerate"))[1] == Outcome(0)
    assert guarded(*pip(python, "--break-system-packages", "vllm"))[1].code == 1
    assert stack(python) == before
