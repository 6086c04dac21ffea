"""The guard's findings as text."""

import io
from collections.abc import Mapping
from pathlib import Path

import pytest

from musadoctor.guard.host import assumed
from musadoctor.guard.judge import judge
from musadoctor.render import guard
from musadoctor.requirements.files import read

RUNTIME = "".join(f"nvidia-nccl-cu{number}\n" for number in range(11, 19))


def told(files: Mapping[str, str], *paths: str, advise: bool = False, **how: bool) -> list[str]:
    """The lines of the report on files that are written here."""
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    found = read(paths or list(files))
    stream = io.StringIO()
    guard.render(judge(found, assumed("musa")), found, stream, advise=advise, **how)
    return stream.getvalue().splitlines()


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_advice_is_given_once_and_what_is_alike_is_counted() -> None:
    lines = told({"requirements.txt": RUNTIME})
    assert lines[0].startswith("requirements.txt:1: error: nvidia-nccl-cu11 is a part of ")
    assert lines[1] == "  leave it out: NVIDIA's libraries do nothing here"
    assert [line.partition(" ")[0] for line in lines[2:]] == [
        *(f"requirements.txt:{number}:" for number in range(2, 6)),
        "requirements.txt:",
        "",
        "Refused:",
    ]
    assert lines[6] == "requirements.txt: 3 more of nvidia-runtime (--verbose)"
    assert len(told({"requirements.txt": RUNTIME}, verbose=True)) == 8 + 1 + 2


def test_how_much_is_in_each_of_many_files() -> None:
    files = {"a.txt": "torch==2.4\n", "b.txt": "xformers\nbitsandbytes\n", "c.txt": "numpy\n"}
    assert told(files)[-1].startswith("Refused: 2 errors, 1 warning (4 entries in 3 files; torch ")
    assert "a.txt: 1 error" not in told(files)
    lines = told({**files, "c.txt": "cupy\n"})
    assert lines[-5:-1] == ["a.txt: 1 error", "b.txt: 1 error, 1 warning", "c.txt: 1 error", ""]


def test_what_holds_for_a_file_and_for_an_image_is_said_once() -> None:
    image = "FROM python\nRUN pip install -r requirements.txt\n"
    lines = told({"Dockerfile": image, "requirements.txt": "cupy\ntorch\n"}, ".")
    places = [line.partition(" (")[0] for line in lines if line.startswith("requirements.txt")]
    assert places == [
        "requirements.txt:1: error: cupy works on NVIDIA GPUs only [cuda-only-package]",
        (
            "requirements.txt:2: error: torch: it goes into an environment of its own, where the"
            " vendor's build is not, so NVIDIA's build would come"
        ),
        (
            "requirements.txt:2: warning: torch is satisfied by the installed 2.9.1.post1+musa5.2.0:"
            " kept, unless something upgrades it [torch-satisfied]"
        ),
    ]
    assert lines[-1].startswith("Refused: 3 errors, 1 warning (4 entries in 2 files; ")


@pytest.mark.parametrize(
    ("files", "advice"),
    [
        ({"my pins.txt": "cupy\n"}, "--write 'my pins.musa.txt'"),
        ({"requirements.txt": "torch\n"}, ""),
        ({"requirements.txt": "cupy\n", "b.txt": "cupy\n"}, ""),
        ({"Pipfile": "[packages]\ncupy = '*'\n"}, ""),
    ],
)
def test_the_way_to_a_copy(files: Mapping[str, str], advice: str) -> None:
    last = told(files, advise=True)[-1]
    assert last.endswith(advice) if advice else last.partition(":")[0] in {"Refused", "Not refused"}


def test_a_lock_s_package_from_an_index_for_cuda_is_one_cause() -> None:
    head = 'version = 1\n\n[[package]]\nname = "{}"\nversion = "2.7.1"\nsource = '
    source = '{ registry = "https://download.pytorch.org/whl/cu128" }\n'
    (torch, *_), (numpy, *_) = (
        told({"uv.lock": head.format(name) + source}) for name in ("torch", "numpy")
    )
    assert "[torch-missing-vendor]" in torch
    assert numpy == (
        "uv.lock:4: error: the lock's source https://download.pytorch.org/whl/cu128 serves builds for CUDA"
        " [cuda-index]"
    )
