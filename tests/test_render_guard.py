"""The guard's findings as text."""

import io
from collections.abc import Mapping
from pathlib import Path

import pytest

from musadoctor.api import Finding, Fix, Judgement, Layer, Requirements, Unknown, check
from musadoctor.engine import judge as judge_one
from musadoctor.guard.host import assumed
from musadoctor.guard.judge import judge
from musadoctor.render import guard
from musadoctor.report import Bug
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
    files = {"Dockerfile": image, "requirements.txt": "cupy\ntorch\n"}
    lines = told(files, ".")
    assert told(files, "requirements.txt", "Dockerfile") == lines
    assert not any("requirements.txt:1" in line and "included" in line for line in lines)
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


def test_colour_is_for_severities_and_places() -> None:
    (line, *_) = told({"requirements.txt": "cupy\n"}, colour=True)
    assert line.startswith("\x1b[1mrequirements.txt:1\x1b[0m: \x1b[31;1merror\x1b[0m: cupy works")


def test_what_is_not_known_and_what_broke_is_said() -> None:
    """With the commands of a fix, and findings that have no place."""
    found = read([])

    @check("guessing", layer=Layer.REQUIREMENTS, severity="error")
    def guessing(requirements: Requirements) -> Judgement:
        """Guesses."""
        yield Unknown(f"{requirements} tell nothing")

    @check("bare", layer=Layer.REQUIREMENTS, severity="note")
    def bare(requirements: Requirements) -> Judgement:
        """Finds."""
        yield Finding(f"{requirements} are few", fix=Fix("add some", ("pip install x",)))
        yield Finding("that is all")

    @check("bursting", layer=Layer.REQUIREMENTS, severity="error")
    def bursting(requirements: Requirements) -> Judgement:
        """Breaks."""
        raise ZeroDivisionError(str(requirements))

    checks = (guessing, bare, bursting)
    results = tuple(judge_one(one, {"requirements": found}) for one in checks)
    made = judge(found, assumed("musa"))
    bugs = tuple(Bug(f"check {r.check.id}", r.traceback) for r in results if r.traceback)
    stream = io.StringIO()
    guard.render(made._replace(results=results, bugs=bugs), found, stream)
    lines = stream.getvalue().splitlines()
    assert lines[:5] == [
        "note: 0 entries in 0 files are few [bare]",
        "  add some",
        "    pip install x",
        "note: that is all [bare]",
        "not known: 0 entries in 0 files tell nothing [guessing]",
    ]
    assert lines[5] == "a bug in musadoctor: check bursting"
    assert "ZeroDivisionError: 0 entries in 0 files" in lines[6:]
    assert lines[-1].startswith("Not refused: 2 notes (0 entries in 0 files; torch ")
