"""Copies that are safe on MUSA: what changes, what does not, and that they pass the guard."""

import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadoctor.api import Finding, Fix, Judgement, Layer, Requirements, check
from musadoctor.guard.direct import MANIFESTS
from musadoctor.guard.host import assumed
from musadoctor.guard.judge import judge
from musadoctor.guard.rewrite import RewriteError, Rewritten, rewrite, save
from musadoctor.report import Report, Result, Vantage
from musadoctor.requirements.files import read

HOSTS = {
    "A": assumed("musa=2.9.1.post1+musa5.2.0"),
    "B": assumed("musa=2.5.0"),
    "C": assumed("musa=2.2.0a0+git8ac9b20"),
}


def judging(host: str) -> Callable[[Requirements], Report]:
    return partial(judge, stack=HOSTS[host])


def copied(folder: Path, data: bytes | str, host: str = "A") -> Rewritten:
    """What becomes of a requirements file, having been seen to pass the guard and to be final."""
    source = folder / "requirements.txt"
    source.write_bytes(data if isinstance(data, bytes) else data.encode())
    made = rewrite(read([str(source)]), judging(host), str(folder / "requirements.musa.txt"))
    assert source.read_bytes() == (data if isinstance(data, bytes) else data.encode())
    save(made.files, force=True)
    (copy, content), *_ = made.files
    assert refused(copy, host) == []
    again = rewrite(read([copy]), judging(host), str(folder / "again.txt"))
    assert again == Rewritten(((str(folder / "again.txt"), content),), (), ())
    return made


def refused(path: str, host: str) -> list[str]:
    return [
        finding.message
        for result in judging(host)(read([path])).results
        for finding in result.findings
        if result.check.severity == "error"
    ]


def text_of(made: Rewritten) -> str:
    return made.files[0][1].decode()


LINUX = "sys_platform == 'linux'"
LEFT_OUT = "..."
"""The line becomes a comment that holds it and the reason."""
GOLDEN = [
    ("torch==2.4.0+cu121", "ABC", LEFT_OUT),
    ("torch==2.4.0", "A", LEFT_OUT),
    ("torch>=2.4", "A", "torch>=2.4"),
    ("torch<=2.9.1", "A", LEFT_OUT),
    ("torch>=2.2", "C", "torch>=2.2.0a0"),
    ("torchvision==0.19.0", "A", LEFT_OUT),
    ("triton==3.0.0", "A", LEFT_OUT),
    ("--extra-index-url https://download.pytorch.org/whl/cu121", "ABC", LEFT_OUT),
    ("nvidia-cublas-cu12==12.1.3.1", "ABC", LEFT_OUT),
    ("flash-attn==2.6.3", "A", LEFT_OUT),
    ("xformers==0.0.27", "ABC", LEFT_OUT),
    ("bitsandbytes", "ABC", LEFT_OUT),
    (f"onnxruntime-gpu==1.18.0; {LINUX}", "ABC", f"onnxruntime==1.18.0; {LINUX}"),
    ("faiss-gpu-cu12>=1.8", "ABC", "faiss-cpu>=1.8"),
    ("cupy-cuda12x==13.6.0", "ABC", LEFT_OUT),
    ("jax[cuda12]>=0.4", "ABC", "jax>=0.4"),
    ("tensorflow[and-cuda]==2.17.0", "ABC", "tensorflow==2.17.0"),
    ("torch==2.10.0+cu128; sys_platform != 'win32' and sys_platform != 'darwin'", "A", LEFT_OUT),
    (
        "torch==2.7.1+cu128; sys_platform == 'win32'",
        "A",
        "torch==2.7.1+cu128; sys_platform == 'win32'",
    ),
    ("git+https://github.com/facebookresearch/pytorch3d.git", "ABC", LEFT_OUT),
    ("llama-cpp-python -C cmake.args=-DGGML_CUDA=on", "ABC", LEFT_OUT),
    ("numpy==1.26  # torch==2.4.0", "ABC", "numpy==1.26  # torch==2.4.0"),
    ("{{ torch }}", "ABC", LEFT_OUT),
]


@pytest.mark.parametrize(("line", "hosts", "expected"), GOLDEN)
def test_lines(tmp_path: Path, line: str, hosts: str, expected: str) -> None:
    for host in hosts:
        made = text_of(copied(tmp_path, f"# top\n{line}\nrequests\n", host))
        first, changed, last = made.splitlines()
        assert (first, last) == ("# top", "requests")
        if expected == LEFT_OUT:
            assert changed.startswith(f"# musadoctor: {line} -> ")
            assert changed.partition(" -> ")[2]
        else:
            assert changed == expected


def test_the_reason_says_that_the_project_was_made_for_another_release(tmp_path: Path) -> None:
    made = text_of(copied(tmp_path, "torch==2.4.0\n"))
    assert "2.9.1.post1+musa5.2.0 stays" in made
    assert "2.4" in made.partition(" -> ")[2]


ENDS = ("\n", "\r\n", "\r")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("end", ENDS)
def test_encoding_and_line_ends_stay(tmp_path: Path, encoding: str, end: str) -> None:
    """Of each line on its own, and that the last one has none."""
    lines = [
        "# \u4f9d\u8d56 \u540d\u5355",
        "numpy  # \u6570",
        "torch==2.4.0",
        "",
        "jax[cuda12]  # \u52a0\u901f",
        "six",
    ]
    if encoding == "gb18030":
        lines[0] += "\u3002"
    text = f"{lines[0]}\n{lines[1]}\r\n{end.join(lines[2:])}"
    made = copied(tmp_path, text.encode(encoding)).files[0][1]
    reason = "leave it out: 2.9.1.post1+musa5.2.0 stays"
    found = re.search(f"{re.escape(reason)}[^\r\n]*", made.decode(encoding))
    assert found
    expected = text.replace("torch==2.4.0", f"# musadoctor: torch==2.4.0 -> {found[0]}")
    assert made == expected.replace("jax[cuda12]", "jax").encode(encoding)


def test_what_an_encoding_lacks_is_spelled_out(tmp_path: Path) -> None:
    source = tmp_path / "r.txt"
    source.write_text("# coding: ascii\nthing\n", encoding="ascii")
    said = finding("r.txt:2", Fix("leave it out \u2013 now", instead=""))
    made = rewrite(read([str(source)]), once(said, tmp_path), str(tmp_path / "x"))
    assert made.files[0][1].decode("ascii").splitlines()[1].endswith(r"-> leave it out \u2013 now")


def test_continued_lines_are_left_out_whole(tmp_path: Path) -> None:
    text = (
        "torch==2.4.0 \\\n"
        "    --hash=sha256:aa \\\n"
        "    # why \\\n"
        "six==1.16.0 \\\n"
        "    --hash=sha256:bb\n"
        "onnxruntime-gpu==1.18.0 --hash=sha256:cc\n"
    )
    made = text_of(copied(tmp_path, text)).splitlines()
    assert made[0].startswith("# musadoctor: torch==2.4.0 -> leave it out")
    assert made[1:5] == [
        "# musadoctor: --hash=sha256:aa",
        "    # why \\",
        "six==1.16.0 \\",
        "    --hash=sha256:bb",
    ]
    # In a file with hashes nothing can be put in.
    assert made[5].startswith("# musadoctor: onnxruntime-gpu==1.18.0 --hash=sha256:cc -> ")
    assert made[5].endswith("; no line is put into a file with hashes")


def test_a_continued_line_is_replaced_whole(tmp_path: Path) -> None:
    made = text_of(copied(tmp_path, "jax[cuda12] \\\n  >=0.4\nsix\n"))
    assert made == "jax>=0.4\n# musadoctor: >=0.4\nsix\n"


def test_no_credentials_are_copied_into_a_comment(tmp_path: Path) -> None:
    text = "--extra-index-url https://me:secret@download.pytorch.org/whl/cu121\n"
    assert "secret" not in text_of(copied(tmp_path, text))


def test_notes_and_commands(tmp_path: Path) -> None:
    made = copied(
        tmp_path,
        "torch==2.4.0\nfaiss-gpu\nflash-attn\ndeep_gemm\ndeep-gemm==1.0\nnvidia-nccl-cu12\n",
    )
    assert made.notes[0] == "faiss-gpu became faiss-cpu: use faiss-cpu"
    assert made.notes[1].startswith("flash-attn was left out: use ")
    assert "import name differs" in made.notes[1], "so nothing is put in its place"
    assert [note.partition(" was")[0] for note in made.notes[2:]] == ["deep_gemm", "deep-gemm==1.0"]
    assert made.commands == tuple(
        f"pip install --no-deps --index-url \"$MOORE_THREADS_INDEX\" '{name}==X+musaY'"
        "  # from the Moore Threads package index alone"
        for name in ("flash_attn_3", "deep_gemm")
    )
    assert "MOORE" not in text_of(made)


# ---- Includes ------------------------------------------------------------------------------------


def tree(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_included_files_get_copies_and_includes_point_at_them(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "base.txt": "six\n",
            "gpu.txt": "cupy-cuda12x\n-r deep/er.txt\n",
            "deep/er.txt": "-c 'my pins.txt'  # hold\n-r ../base.txt\n",
            "deep/my pins.txt": "torch==2.4.0\n",
        },
    )
    lines = "-r base.txt\n--requirement=gpu.txt -c \\\n  gpu.txt\n-rnone.txt\n-r https://example.invalid/r.txt\n"
    made = copied(tmp_path, lines)
    named = {os.path.relpath(path, tmp_path): data.decode() for path, data in made.files}
    assert list(named) == [
        *("requirements.musa.txt", "gpu.musa.txt", "deep/er.musa.txt", "deep/my pins.musa.txt")
    ]
    assert named["requirements.musa.txt"] == (
        "-r base.txt\n-r gpu.musa.txt -c gpu.musa.txt\n# musadoctor: gpu.txt\n"
        "-rnone.txt\n-r https://example.invalid/r.txt\n"
    )
    assert named["gpu.musa.txt"].splitlines()[1:] == ["-r deep/er.musa.txt"]
    assert named["deep/er.musa.txt"] == "-c 'my pins.musa.txt'  # hold\n-r ../base.txt\n"
    assert named["deep/my pins.musa.txt"].startswith("# musadoctor: torch==2.4.0 -> ")


def test_from_another_folder_includes_still_lead_there(tmp_path: Path) -> None:
    tree(tmp_path, {"in/gpu.txt": "cupy-cuda12x\n", "in/base.txt": "six\n", "out/x": ""})
    absolute = tmp_path / "in" / "gpu.txt"
    tree(tmp_path, {"in/r.txt": f"-r gpu.txt\n-r base.txt\n-r {absolute}\n--pre\n-c\n"})
    target = str(tmp_path / "out" / "r.txt")
    made = rewrite(read([str(tmp_path / "in" / "r.txt")]), judging("A"), target)
    assert text_of(made) == (
        f"-r ../in/gpu.musa.txt\n-r ../in/base.txt\n-r {tmp_path}/in/gpu.musa.txt\n--pre\n-c\n"
    )
    assert [path for path, _ in made.files] == [target, f"{tmp_path}/in/gpu.musa.txt"]


def test_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names as a user types them, without folders."""
    monkeypatch.chdir(tmp_path)
    tree(tmp_path, {"r.txt": "-r sub/gpu.txt\n", "sub/gpu.txt": "cupy-cuda12x\n-r ../r.txt\n"})
    made = rewrite(read(["r.txt"]), judging("A"), "r.musa.txt")
    assert [path for path, _ in made.files] == ["r.musa.txt", "sub/gpu.musa.txt"]
    assert text_of(made) == "-r sub/gpu.musa.txt\n"
    # A circle is no include that pip could follow; the copy has it as it was.
    assert made.files[1][1].decode().splitlines()[1].startswith("-r ../r.musa.txt")


def test_an_include_that_may_concern_torch_and_is_not_there_is_left_out(tmp_path: Path) -> None:
    made = text_of(copied(tmp_path, "-r https://example.invalid/torch.txt\nsix\n"))
    assert made.startswith("# musadoctor: -r https://example.invalid/torch.txt -> ")


# ---- Files of other forms ------------------------------------------------------------------------

PYPROJECT = """\
[build-system]
requires = ["setuptools", "torch"]
[project]
name = "demo"
version = "1"
dependencies = ["numpy>=1.26", "torch==2.4.0", "onnxruntime-gpu==1.18.0", "numpy>=1.26",
  "thing @ git+https://github.com/example/thing.git@v1 ; python_version > '3'"]
[project.optional-dependencies]
gpu = ["cupy-cuda12x", "six"]
"""
UV_LOCK = """\
version = 1
requires-python = ">=3.10"

[[package]]
name = "demo"
version = "1"
source = { virtual = "." }
dependencies = [
    { name = "numpy" },
    { name = "Torch" },
]

[[package]]
name = "numpy"
version = "2.0.0"
source = { registry = "https://example.invalid/simple" }

[[package]]
name = "torch"
version = "2.4.0"
source = { registry = "https://example.invalid/simple" }

[[package]]
name = "sympy"
version = "1.13.0"
source = { registry = "https://example.invalid/simple" }
"""
POETRY_LOCK = """\
[[package]]
name = "numpy"
version = "2.0.0"

[[package]]
name = "sympy"
version = "1.13.0"

[metadata]
lock-version = "2.0"
"""


def derived(folder: Path, name: str, files: dict[str, str]) -> list[str]:
    tree(folder, files)
    target = str(folder / "requirements.musa.txt")
    made = rewrite(read([str(folder / name)]), judging("A"), target)
    save(made.files, force=False)
    assert refused(target, "A") == []
    return text_of(made).splitlines()


def test_a_project_becomes_a_list_of_what_it_asks_for(tmp_path: Path) -> None:
    made = derived(tmp_path, "pyproject.toml", {"pyproject.toml": PYPROJECT})
    torch = made.pop(2)
    assert made == [
        "# Made by musadoctor from pyproject.toml: what it asks for. pyproject.toml is not changed.",
        "numpy>=1.26",
        "onnxruntime==1.18.0",
        "thing @ git+https://github.com/example/thing.git@v1 ; python_version > '3'",
        "# extra:gpu: cupy-cuda12x",
        "# extra:gpu: six",
    ]
    assert torch.startswith("# musadoctor: torch==2.4.0 -> ")


def test_of_a_lock_what_the_project_asks_for(tmp_path: Path) -> None:
    made = derived(tmp_path, "uv.lock", {"uv.lock": UV_LOCK})
    assert made[:2] == [
        (
            "# Made by musadoctor from uv.lock: of it what its project asks for directly."
            " uv.lock is not changed."
        ),
        "numpy==2.0.0",
    ]
    assert made[2].startswith("# musadoctor: torch==2.4.0 -> ")
    assert len(made) == 3


def test_of_a_lock_what_the_file_beside_it_asks_for(tmp_path: Path) -> None:
    files = {"poetry.lock": POETRY_LOCK, "pyproject.toml": PYPROJECT}
    assert derived(tmp_path, "poetry.lock", files) == [
        (
            "# Made by musadoctor from poetry.lock: of it what pyproject.toml asks for directly."
            " poetry.lock is not changed."
        ),
        "numpy==2.0.0",
    ]


def test_of_a_lock_all_where_nothing_tells(tmp_path: Path) -> None:
    assert derived(tmp_path, "poetry.lock", {"poetry.lock": POETRY_LOCK}) == [
        (
            "# Made by musadoctor from poetry.lock: all of it, as nothing tells what of it is asked for"
            " directly. poetry.lock is not changed."
        ),
        "numpy==2.0.0",
        "sympy==1.13.0",
    ]
    lock = UV_LOCK.replace("virtual", "git")
    assert len(derived(tmp_path / "more", "uv.lock", {"uv.lock": lock})) > 3


def test_what_pip_does_not_install_is_named(tmp_path: Path) -> None:
    conda = (
        "name: demo\nchannels: [conda-forge]\ndependencies:\n  - ffmpeg=6\n  - pip:\n"
        "    - requests[socks]>=2\n    - -e .\n    - git+https://github.com/example/x.git\n"
    )
    assert derived(tmp_path, "environment.yml", {"environment.yml": conda})[1:] == [
        "# Not carried over: ffmpeg=6",
        "requests[socks]>=2",
        "# Not carried over: -e .",
        "x @ git+https://github.com/example/x.git",
    ]


def test_every_lock_has_its_projects_file() -> None:
    assert set(MANIFESTS) == {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pixi.lock"}


# ---- What is refused -----------------------------------------------------------------------------


def finding(where: str, fix: Fix | None) -> Finding:
    return Finding("a message", where, fix)


def once(said: Finding, folder: Path, severity: str = "error") -> Callable[[Requirements], Report]:
    """A judge that finds one thing, as long as the line asks for the thing still."""

    @check("made-up", layer=Layer.REQUIREMENTS, severity=severity)  # type: ignore[arg-type]
    def made_up(requirements: Requirements) -> Judgement:
        """A title."""
        yield from ()

    def judged(requirements: Requirements) -> Report:
        where = f"{folder}/{said.where}"
        still = any((e.where, e.name) == (where, "thing") for e in requirements.entries)
        findings = (said._replace(where=where),) if still else ()
        result = Result(made_up, "failed" if findings else "passed", findings)
        return Report(Vantage("requirements", None, None), (result,), {}, (), 0.0)

    return judged


@pytest.mark.parametrize(
    ("severity", "fix", "expected"),
    [
        ("error", None, "# musadoctor: thing -> a message"),
        ("error", Fix("look at\n it"), "# musadoctor: thing -> look at it"),
        ("error", Fix("no way on", instead="thing"), "# musadoctor: thing -> no way on"),
        ("warning", Fix("look at it"), "thing"),
        ("warning", None, "thing"),
        ("warning", Fix("use it", ("pip install other",), instead="other"), "other"),
    ],
)
def test_what_is_refused_never_stays(
    tmp_path: Path, severity: str, fix: Fix | None, expected: str
) -> None:
    source = tmp_path / "r.txt"
    source.write_text("thing\n")
    said = finding("r.txt:1", fix)
    judged = once(said, tmp_path, severity)
    made = rewrite(read([str(source)]), judged, str(tmp_path / "x"))
    assert text_of(made).splitlines() == [expected]
    assert made.commands == (("pip install other",) if expected == "other" else ())


def test_a_judge_that_is_never_content_is_not_asked_for_ever(tmp_path: Path) -> None:
    source = tmp_path / "r.txt"
    source.write_text("thing\n")
    asked: list[str] = []

    def judged(requirements: Requirements) -> Report:
        (entry,) = requirements.entries
        asked.append(entry.name)
        said = finding("r.txt:1", Fix("use another", instead=f"{entry.name}x"))
        return once(said, tmp_path)(Requirements((), (entry._replace(name="thing"),)))

    made = rewrite(read([str(source)]), judged, str(tmp_path / "x"))
    assert text_of(made) == f"thing{'x' * len(asked)}\n"


def test_what_cannot_be_copied(tmp_path: Path) -> None:
    tree(tmp_path, {"a.txt": "six\n-r b.txt\n", "b.txt": "six\n", "junk.txt": "\0\1\2"})
    a, b, junk = (str(tmp_path / name) for name in ("a.txt", "b.txt", "junk.txt"))
    link = tmp_path / "link"
    link.symlink_to(a)

    def why(paths: Sequence[str], target: str) -> str:
        given = read(paths, stdin=lambda _: b"six\n")
        with pytest.raises(RewriteError) as error:
            rewrite(given, judging("A"), target)
        return str(error.value)

    for target in (a, b, str(link)):
        assert why([a], target) == f"{target} is a file that is read; name another one for the copy"
    assert why([a], "-") == "a copy goes into a file, and - is none"
    assert why([a, junk], "x") == "a copy is of one file, and 2 are given"
    assert why(["-"], "x") == "a copy is of a file, and standard input is given"
    assert why([junk], "x").startswith(f"{junk} cannot be read: binary")
    given = read([a])
    (tmp_path / "b.txt").unlink()
    with pytest.raises(RewriteError, match=r"b\.txt cannot be read: no such file"):
        rewrite(given, judging("A"), "x")


def test_saving(tmp_path: Path) -> None:
    """All or nothing, nothing half, and nothing over what is there."""
    new, there = str(tmp_path / "new.txt"), tmp_path / "there.txt"
    there.write_text("old")
    for files in (((new, b"1"), (str(there), b"2")), ((str(there), b"2"), (new, b"1"))):
        with pytest.raises(RewriteError, match=r"there\.txt is there already; --force replaces it"):
            save(files, force=False)
    with pytest.raises(RewriteError, match=r"cannot write .*gone/x: No such file or directory"):
        save([(new, b"1"), (str(tmp_path / "gone" / "x"), b"2")], force=True)
    with pytest.raises(RewriteError, match=r"cannot write .*: embedded null byte"):
        save([(new, b"1"), (str(tmp_path / "a\0b"), b"2")], force=True)
    assert sorted(os.listdir(tmp_path)) == ["there.txt"]
    assert there.read_text() == "old"
    link = tmp_path / "link"
    link.symlink_to(there)
    save([(new, b"1"), (str(link), b"2")], force=True)
    assert (link.is_symlink(), there.read_text(), Path(new).read_text()) == (True, "2", "1")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("pipe", "dangling", ""):
        with pytest.raises(RewriteError, match="is no file"):
            save([(str(tmp_path / name), b"1")], force=True)
    assert sorted(os.listdir(tmp_path)) == ["dangling", "link", "new.txt", "pipe", "there.txt"]


# ---- Any file ------------------------------------------------------------------------------------

LINES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *(line for line, _, _ in GOLDEN),
                *("", "# a comment", "six==1.16.0 \\", "  --hash=sha256:ab", "--pre", "-e ./here"),
                *(
                    "torch",
                    "torchaudio",
                    "./wheels/x.whl",
                    "-r none.txt",
                    "   ",
                    "vllm",
                    "\x0c",
                    "\\",
                ),
            ]
        ),
        st.sampled_from(ENDS),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(LINES, st.sampled_from(ENCODINGS), st.booleans(), st.sampled_from("ABC"))
def test_any_file(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[tuple[str, str]],
    encoding: str,
    final: bool,  # noqa: FBT001 - given by hypothesis
    host: str,
) -> None:
    """A copy passes, is final, and has every other line as it was."""
    text = "".join(line + end for line, end in lines)
    text = text if final else text.rstrip("\r\n")
    made = copied(tmp_path_factory.mktemp("any"), text.encode(encoding), host)
    before = text.encode(encoding).decode(encoding).splitlines(keepends=True)
    after = made.files[0][1].decode(encoding).splitlines(keepends=True)
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        kept = old == new or new.startswith("# musadoctor:") or (host, new) == ("C", old)
        assert kept or re.match(r"onnxruntime|faiss-cpu|jax>|tensorflow=|torch>=2\.2\.0a0", new)
