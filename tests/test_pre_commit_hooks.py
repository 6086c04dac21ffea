"""The hook for pre-commit: which files it is run for, and that its command is one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.requirements.formats import by_name

ROOT = Path(__file__).parent.parent
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
FILES = re.compile(HOOK["files"])


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("requirements.txt", True),
        ("requirements/cuda.txt", False),  # read when named, or in a folder that is
        ("docker/Requirements-GPU.TXT", True),
        ("requirements", True),
        ("requirements.dev", False),
        ("requirements.py", False),
        ("reqs.in", True),
        ("request.txt", False),
        ("my-req.pip", True),
        ("constraints.txt.j2", True),
        ("pyproject.toml", True),
        ("pylock.dev.toml", True),
        ("uv.lock", True),
        ("Cargo.lock", False),
        ("Pipfile", True),
        ("environment-gpu.yml", True),
        ("gpu.conda-lock.yml", True),
        ("Dockerfile.cuda", True),
        ("app.dockerfile", True),
        ("install.sh", True),
        ("setup.py", True),
        ("setup.pyc", False),
        ("pixi.toml", True),
        ("README.md", False),
    ],
)
def test_files(name: str, *, taken: bool) -> None:
    assert bool(FILES.search(name)) is taken
    assert bool(by_name(name)) is taken


PIECES = st.sampled_from(
    [
        *(
            "requirements",
            "requir",
            "constraint",
            "req",
            "reqs",
            "Req",
            "dev",
            "s",
            "1",
            "environment",
        ),
        *(
            "conda-lock",
            "docker",
            "Dockerfile",
            "containerfile",
            "file",
            "pylock",
            "pyproject",
            "uv",
        ),
        *("poetry", "pdm", "pixi", "setup", "pipfile", ".", ".", ".", "-", "_", "/", " "),
        *(
            "txt",
            "in",
            "pip",
            "lock",
            "toml",
            "yml",
            "yaml",
            "py",
            "cfg",
            "sh",
            "bash",
            "j2",
            "tpl",
        ),
    ]
)


@given(st.lists(PIECES, min_size=1, max_size=7).map("".join).filter(lambda n: not n.endswith("/")))
def test_the_hook_and_the_guard_know_the_same_names(name: str) -> None:
    assert bool(FILES.search(name)) == bool(by_name(name))


def test_the_hook_refuses(tmp_path: Path) -> None:
    """As pre-commit runs it: the entry, its arguments, the files."""
    bad, good = tmp_path / "requirements.txt", tmp_path / "requirements-dev.txt"
    bad.write_text("torch==2.4.0+cu121\n")
    good.write_text("requests\n")
    program, *words = HOOK["entry"].split()
    assert program == "musadoctor"
    command = [sys.executable, "-m", program, *words, *HOOK["args"]]
    for files, code in (([good], 0), ([good, bad], 1)):
        done = subprocess.run([*command, *files], check=False, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
    assert f"{bad}:1: error: " in done.stdout
