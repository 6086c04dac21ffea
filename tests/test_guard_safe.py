"""What no constraint holds, and the flags that make it safe."""

import shlex

import pytest

from musadoctor.guard.safe import Bar, barred
from musadoctor.requirements.installers import parse

NAMES = ("torch", "torch-musa", "triton")
SAFE = "--inexact --no-install-package=torch --no-install-package=torch-musa --no-install-package=triton"


def judged(command: str, *, lasting: bool = False) -> Bar | None:
    argv = shlex.split(command)
    install = parse(argv)
    assert install is not None
    assert not install.harmless
    return barred(install, argv, NAMES, lasting=lasting)


@pytest.mark.parametrize(
    "command",
    [
        "pip install a",
        "pip install --no-deps torch",
        "pip uninstall numpy",
        "uv pip install -U a",
        "uv pip uninstall a",
        f"uv sync {SAFE}",
        "uv run --no-sync a",
        "uv run --no-project a",
        "poetry install --only-root",
        "conda install --no-deps a",
        "mamba update --no-deps a",
    ],
)
def test_let_through(command: str) -> None:
    assert judged(command) is None


@pytest.mark.parametrize(
    ("command", "why", "instead"),
    [
        ("pip install --new-option a", "the guard does not know --new-option of pip", ""),
        ("pip install --isolated a", "--isolated makes pip deaf to PIP_CONSTRAINT", ""),
        ("pip uninstall -y numpy torch_musa torch", "it would remove the vendor's torch, torch-musa", ""),
        ("uv pip uninstall torch", "it would remove the vendor's torch", ""),
        ("conda remove triton", "it would remove the vendor's triton", ""),
        ("poetry remove torch", "it would remove the vendor's torch", ""),
        ("uv pip sync a.txt 'b c.txt'", "uv pip sync removes whatever the file does not list", "uv pip install -r a.txt -r 'b c.txt'"),
        ("uv sync --active", "uv sync replaces the vendor's torch", f"uv sync --active {SAFE}"),
        ("uv sync --inexact --no-install-package torch", "uv sync replaces", "uv sync --inexact --no-install-package torch --no-install-package=torch-musa --no-install-package=triton"),
        (f"uv sync -p 3.12 {SAFE}", "uv sync --python makes the environment anew", ""),
        ("uv run -q pytest -x", "uv run brings the environment to what the lock says", "uv run --no-sync -q pytest -x"),
        ("uv add peft", "uv add brings the environment", "uv add --no-sync peft"),
        ("uv remove peft", "uv remove brings the environment", "uv remove --no-sync peft"),
        ("poetry install", "poetry install knows nothing of the constraints that hold the vendor's builds; `--lock`", ""),
        ("poetry update", "poetry update knows nothing", ""),
        ("pipenv sync", "`pipenv requirements` lists what the lock needs", ""),
        ("pdm install", "`pdm export` lists", ""),
        ("conda install a", "`--no-deps` installs the named packages alone", ""),
        ("micromamba update --all", "micromamba update knows nothing", ""),
        ("conda env update -f a.yml", "conda env update knows nothing", ""),
        ("pixi add a", "`--no-install` leaves the environment alone", ""),
        ("rye sync", "`--no-sync` leaves the environment alone", ""),
    ],
)  # fmt: skip
def test_refused(command: str, why: str, instead: str) -> None:
    bar = judged(command)
    assert bar is not None
    assert why in bar.why
    assert bar.commands == ((f"musadoctor guard -- {instead}",) if instead else ())


def test_what_protects_for_good_holds_against_isolated_too() -> None:
    assert judged("pip install --isolated a", lasting=True) is None
