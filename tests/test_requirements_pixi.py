"""pixi.toml, [tool.pixi] and pixi.lock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.facts.requirements import Entry
from musadoctor.requirements import pixi, pyproject

MANIFEST = """\
[workspace]
name = "x"
channels = ["nvidia/label/cuda-11.8.0", {channel = "pytorch", priority = 1},
  "https://a.invalid/t/secret/c"]
platforms = ["linux-64"]
pypi-options = { index-url = "https://u:p@a.invalid/simple" }

[system-requirements]
libc = { family = "glibc", version = "2.30" }
cuda = "12"

[tasks]
setup = "python -c 'import x' || python -m pip install git+https://a.invalid/tiny-cuda-nn"
listed = ["pip", "install", "a b"]
table = { cmd = "pip install torch", env = { CUDA_HOME = "/usr/local/cuda" }, depends-on = ["x"] }
args = { cmd = ["pip", "install", "y"] }
alias = { depends-on = ["setup"] }

[dependencies]
python = ">=3.8,<3.11"
pytorch-cuda = {version = "11.8.*", channel = "pytorch"}
pytorch = { version = ">=2.2.0,<2.3", build = "*cuda*", channel = "pytorch" }
opencv = "*"
local = { path = "../x" }
source = { git = "https://a.invalid/x.git" }
file = { url = "https://a.invalid/linux-64/pytorch-2.1-cuda_0.conda" }
wrong = 3

[host-dependencies]
cmake = "*"

[pypi-dependencies]
torch = ">=2.4"
vllm = { version = "==0.8", extras = ["gpu"], index = "https://a.invalid/whl/cu121" }
wheel = { url = "https://a.invalid/torch-2.4.0%2Bcu121-cp310-cp310-linux_x86_64.whl" }
me = { path = ".", editable = true }
near = { path = "./near" }
odd = []

[pypi-options]
extra-index-urls = ["https://a.invalid/whl/cu118", 3]
find-links = [{ path = "./links" }, { url = "https://b.invalid" }]

[activation.env]
TORCH_CUDA_ARCH_LIST = "8.0"
OTHER = "x"

[target.win-64.dependencies]
winpkg = "1"

[target.linux.pypi-dependencies]
linuxpkg = "*"
marked = { version = "*", markers = "python_version > '3'" }

[feature.gpu]
channels = ["rapidsai"]
system-requirements = { cuda = { version = "11" } }

[feature.gpu.dependencies]
cudf = "*"

[feature.gpu.target.osx-arm64.tasks]
mac = "pip install z"

[environments]
gpu = ["gpu"]
"""


def found(entries: list[Entry]) -> list[tuple[int, str, str, str]]:
    return [
        (
            int(entry.where.rpartition(":")[2]),
            entry.kind,
            entry.name or entry.url,
            entry.specifier or entry.reason,
        )
        for entry in entries
    ]


def manifest(text: str) -> list[Entry]:
    return list(pixi.read_manifest("pixi.toml", text))


def lock(text: str) -> list[Entry]:
    return list(pixi.read_lock("pixi.lock", text))


def test_a_manifest_with_everything() -> None:
    entries = manifest(MANIFEST)
    assert found(entries) == [
        (3, "channel", "nvidia/label/cuda-11.8.0", ""),
        (3, "channel", "pytorch", ""),
        (4, "channel", "https://a.invalid/c", ""),
        (6, "index", "https://a.invalid/simple", ""),
        (20, "conda", "python", ">=3.8,<3.11"),
        (21, "conda", "pytorch-cuda", "11.8.*"),
        (22, "conda", "pytorch", ">=2.2.0,<2.3"),
        (23, "conda", "opencv", ""),
        (24, "source", "local", ""),
        (25, "source", "source", ""),
        (26, "conda", "pytorch", "==2.1"),
        (27, "unreadable", "", "no version of wrong"),
        (30, "conda", "cmake", ""),
        (33, "requirement", "torch", ">=2.4"),
        (34, "requirement", "vllm", "==0.8"),
        (34, "index", "vllm", ""),
        (35, "requirement", "torch", "==2.4.0+cu121"),
        (37, "source", "near", ""),
        (38, "unreadable", "", "no version of odd"),
        (41, "index", "https://a.invalid/whl/cu118", ""),
        (42, "index", "https://b.invalid", ""),
        (10, "variable", "cuda", "12"),
        (45, "variable", "TORCH_CUDA_ARCH_LIST", "8.0"),
        (13, "source", "tiny-cuda-nn", ""),
        (14, "unreadable", "", "Expected semicolon (after name with no version specifier) or end"),
        (15, "requirement", "torch", ""),
        (15, "variable", "CUDA_HOME", "/usr/local/cuda"),
        (16, "requirement", "y", ""),
        (49, "conda", "winpkg", "1"),
        (52, "requirement", "linuxpkg", ""),
        (53, "requirement", "marked", ""),
        (56, "channel", "rapidsai", ""),
        (60, "conda", "cudf", ""),
        (57, "variable", "cuda", "11"),
        (63, "requirement", "z", ""),
    ]
    named = {entry.name: entry for entry in entries}
    assert (named["pytorch-cuda"].url, named["pytorch"].build) == ("pytorch", "cuda_0")
    assert named["winpkg"].marker.startswith('sys_platform == "win32"')
    assert named["linuxpkg"].marker == 'sys_platform == "linux"'
    assert named["marked"].marker == "python_version > '3'"
    assert named["tiny-cuda-nn"].scope == named["z"].scope == "task"
    assert named["cuda"].option == "system-requirements.cuda"
    assert all(entry.fresh for entry in entries)
    assert "secret" not in str(entries)
    assert "u:p" not in str(entries)


def test_a_pyproject_has_the_same_tables() -> None:
    text = '[tool.pixi.workspace]\nchannels = ["nvidia"]\n[tool.pixi.dependencies]\ncuda = "*"\n'
    assert found(list(pyproject.read("pyproject.toml", text))) == [
        (2, "channel", "nvidia", ""),
        (4, "conda", "cuda", ""),
    ]


@pytest.mark.parametrize("text", ["", "[project]\n", "dependencies = 1\nfeature = []\n[workspace]"])
def test_a_manifest_without_anything(text: str) -> None:
    assert manifest(text) == []


@pytest.mark.parametrize(
    ("text", "line"), [("[dependencies]\npytorch = \n", 2), ("a = " + "[" * 99_999, 1)]
)
def test_a_broken_manifest_is_one_entry(text: str, line: int) -> None:
    (entry,) = manifest(text)
    assert (entry.kind, entry.where, entry.fresh) == ("unreadable", f"pixi.toml:{line}", True)


LOCK = """\
version: 6
environments:
  default:
    channels:
    - url: https://a.invalid/t/secret/nvidia/
    - url: https://a.invalid/conda-forge/
    indexes:
    - https://a.invalid/whl/cu121
    options:
    - x
    packages:
      linux-64:
      - conda: https://a.invalid/linux-64/x-1-0.conda
  gpu:
    channels:
    - url: https://a.invalid/conda-forge/
    find-links:
    - "https://links.invalid"
packages:
- conda: https://a.invalid/c/linux-64/pytorch-2.1.0-cuda118_py311_0.conda
  sha256: ab
  depends:
  - python >=3.11
  - name: x
- sha256: cd
  conda: https://a.invalid/c/noarch/y-1-0.tar.bz2
- pypi: https://a.invalid/torch-2.4.0%2Bcu121-cp311-cp311-manylinux_2_17_x86_64.whl
  name: torch
  version: 2.4.0
- pypi: https://a.invalid/Vision-1.0-cp311-cp311-win_amd64.whl
  name: Vision
  version: '1.0'
- pypi: https://a.invalid/plain-1.0-py3-none-any.whl
- pypi: git+https://a.invalid/dllogger.git@abc
  name: dllogger
- pypi: ./
  name: me
- pypi: .
- pypi: ./near
- kind: conda
  name: Cuda
  version: 12.1
  build: h_0
- kind: pypi
  name: cupy
  version: 13.0
  url: https://a.invalid/cupy-13.0-cp311-cp311-macosx_11_0_arm64.whl
- kind: pypi
  path: ./a
- conda: ../local
  name: mine
- license: x
- pypi: https://a.invalid/rubbish
  version: 1
- pypi: ==
"""


def test_a_lock_with_everything() -> None:
    entries = lock(LOCK)
    assert found(entries) == [
        (5, "channel", "https://a.invalid/nvidia", ""),
        (6, "channel", "https://a.invalid/conda-forge", ""),
        (8, "index", "https://a.invalid/whl/cu121", ""),
        (18, "index", "https://links.invalid", ""),
        (20, "conda", "pytorch", "==2.1.0"),
        (25, "conda", "y", "==1"),
        (28, "requirement", "torch", "==2.4.0+cu121"),
        (31, "requirement", "vision", "==1.0"),
        (33, "requirement", "plain", "==1.0"),
        (35, "source", "dllogger", ""),
        (39, "source", "./near", ""),
        (41, "conda", "cuda", "==12.1"),
        (45, "requirement", "cupy", "==13.0"),
        (48, "source", "./a", ""),
        (51, "source", "mine", ""),
        (52, "unreadable", "", "a package without a name"),
        (53, "source", "https://a.invalid/rubbish", ""),
        (55, "unreadable", "", "a package without a name"),
    ]
    named = {entry.name: entry for entry in entries}
    assert named["pytorch"].text == "pytorch 2.1.0 cuda118_py311_0"
    assert named["pytorch"].url == "https://a.invalid/c/linux-64"
    linux = 'sys_platform == "linux" and platform_machine == "x86_64"'
    assert named["pytorch"].marker == named["torch"].marker == linux
    assert named["vision"].marker == 'sys_platform == "win32"'
    assert named["cupy"].marker == 'sys_platform == "darwin" and platform_machine == "arm64"'
    assert named["plain"].marker == named["y"].marker == ""
    assert all(entry.fresh and entry.scope == "lock" for entry in entries)
    assert "secret" not in str(entries)


@pytest.mark.parametrize("text", ["", "version: 6\n", "packages: []\n", "packages:\n"])
def test_a_lock_without_anything(text: str) -> None:
    assert lock(text) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [("packages: [\n", 2), ("packages:\n- conda: x\n- conda: 'torch\n", 4)],
)
def test_a_broken_lock_says_where(text: str, line: int) -> None:
    unread = [entry.where for entry in lock(text) if entry.kind == "unreadable"]
    assert f"pixi.lock:{line}" in unread


@given(st.text("-=ab:@#'\"[]{}*. \n", max_size=60))
def test_no_file_is_too_odd(text: str) -> None:
    for entry in (*manifest(f"[dependencies]\na = '*'\n{text}"), *manifest(text)):
        assert entry.where.startswith("pixi.toml:")
    for entry in (*lock(text), *lock(f"packages:\n- pypi: a\n{text}")):
        assert entry.where.startswith("pixi.lock:")


@given(
    st.dictionaries(
        st.sampled_from([
            "dependencies", "pypi-dependencies", "tasks", "feature", "target", "workspace",
            "system-requirements", "pypi-options", "activation", "channels", "cuda", "env",
        ]),
        st.sampled_from(["1", "'x'", "[]", "[1]", "{}", "{a = 1}", "{a = {b = []}}", "true"]),
    )
)  # fmt: skip
def test_no_shape_is_too_odd(tables: dict[str, str]) -> None:
    text = "".join(f"{key} = {value}\n" for key, value in tables.items())
    for entry in manifest(text):
        assert entry.fresh
