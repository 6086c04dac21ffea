"""environment.yml, conda's match specs, and YAML within bounds."""

import contextlib

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from musadoctor.facts.requirements import Entry
from musadoctor.requirements import conda, yaml_text
from musadoctor.requirements.broken import BrokenError
from musadoctor.requirements.match_spec import LONGEST, spec_entry

ENVIRONMENT = """\
name: gpu
channels:
  - nvidia/label/cuda-11.8.0
  - pytorch # or pytorch-nightly
  - https://conda.example.invalid/t/secret-token/private
dependencies:
  - python=3.10
  - pytorch::pytorch=2.1=py3.10_cuda12*
  - cudatoolkit >=11.3   # [linux]
  - {name: x}
  - sel(osx): coreml
  - sel(linux):
      - a
      - b
  - pip
  - pip:
    - -r requirements.txt
    - --extra-index-url https://download.pytorch.org/whl/cu118
    - torch==2.0.1+cu118 ; python_version < '3.12'
    - git+https://a.invalid/dllogger.git
    - -e .
variables:
  CUDA_HOME: /usr/local/cuda
  MAX_JOBS: 4
prefix: /opt/conda/envs/gpu
"""


def read(text: str) -> list[Entry]:
    return list(conda.read("e.yml", text))


def found(text: str) -> list[tuple[int, str, str]]:
    return [
        (int(entry.where.removeprefix("e.yml:")), entry.kind, entry.name or entry.url)
        for entry in read(text)
    ]


def test_an_environment_with_everything() -> None:
    assert found(ENVIRONMENT) == [
        (3, "channel", "nvidia/label/cuda-11.8.0"),
        (4, "channel", "pytorch"),
        (5, "channel", "https://conda.example.invalid/private"),
        (7, "conda", "python"),
        (8, "conda", "pytorch"),
        (9, "conda", "cudatoolkit"),
        (10, "unreadable", ""),
        (11, "conda", "coreml"),
        (13, "conda", "a"),
        (14, "conda", "b"),
        (15, "conda", "pip"),
        (17, "include", "requirements.txt"),
        (18, "index", "https://download.pytorch.org/whl/cu118"),
        (19, "requirement", "torch"),
        (20, "source", "dllogger"),
        (21, "source", "."),
        (23, "variable", "CUDA_HOME"),
    ]
    entries = {entry.name: entry for entry in read(ENVIRONMENT)}
    assert entries["cudatoolkit"].marker == 'sys_platform == "linux"'
    assert entries["coreml"].marker == 'sys_platform == "darwin"'
    assert entries["torch"].marker == "python_version < '3.12'"
    assert entries["torch"].scope == "conda-pip"
    assert entries["torch"].text == "torch==2.0.1+cu118 ; python_version < '3.12'"
    assert all(entry.fresh for entry in entries.values())
    assert not any("secret" in str(entry) for entry in entries.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "{channels: [pytorch], dependencies: [pytorch, pip: [torch]]}",
            ["pytorch", "pytorch", "torch"],
        ),
        ("channels: pytorch\ndependencies:\n- x", ["pytorch", "x"]),
        ("dependencies:\r\n- pytorch\r\n- pip:\r\n  - torch\r\n", ["pytorch", "torch"]),
        ("a: &d [x, y]\ndependencies: *d", ["x", "y"]),
        ("a: &p {pip: [torch]}\ndependencies: [*p, *none]", ["torch", ""]),
        ("dependencies:\n- a\n---\ndependencies:\n- b\n", ["a", "b"]),
        ("name: x\n", []),
        ("", []),
        ("# nothing\n", []),
        ("''", []),
    ],
)
def test_every_way_to_write_it(text: str, expected: list[str]) -> None:
    assert [entry.name for entry in read(text)] == expected


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("- a\n- b", 1, "no conda environment"),
        ("just words", 1, "no conda environment"),
        ("name: x\ndependencies: pytorch", 2, "dependencies is no list"),
        ("dependencies:\n- a\n- [pytorch]", 3, "neither a package"),
        ("dependencies:\n- {{ pytorch }}", 2, "neither a package"),
        ("dependencies:\n- ${PYTORCH}", 2, "placeholder"),
        ("dependencies:\n- a\n- '=2'", 3, "not a conda match spec"),
        ("dependencies:\n- a\n  - b: [", 3, "no valid YAML"),
        ("dependencies:\n- a: 'b", 2, "no valid YAML"),
        ("{% if gpu %}\ndependencies:\n", 1, "no valid YAML"),
        ("a\x01b", 1, "no valid YAML"),
        ("a: \ud800", 1, "no valid YAML"),
        ("[" * 100_000, 1, "nest"),
        ("dependencies:\n" + "".join(" " * n + "- \n" for n in range(99)), 51, "nested too deeply"),
        ("a: " + "x" * yaml_text.LARGEST, 1, "characters of YAML"),
        ("dependencies:\n- pip:\n  - torch==$V\n", 3, "placeholder"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, line: int, reason: str) -> None:
    entry = read(text)[-1]
    assert (entry.kind, entry.where) == ("unreadable", f"e.yml:{line}")
    assert reason in entry.reason
    assert entry.fresh


def test_aliases_of_aliases_are_not_copied_out() -> None:
    text = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40)
    )
    assert len(read(f"{text}dependencies: *a39\n")) == 9
    assert len(read("dependencies: &d [*d, a]")) == 2


SPECS = {
    "pytorch": ("pytorch", "", "", ""),
    "pytorch=2.1": ("pytorch", "=2.1", "", ""),
    "pytorch==2.1": ("pytorch", "==2.1", "", ""),
    "pytorch>=2,<3": ("pytorch", ">=2,<3", "", ""),
    "python >= 3.8 , <4": ("python", ">=3.8,<4", "", ""),
    "pytorch 2.1": ("pytorch", "2.1", "", ""),
    "pytorch 2.1 py3.10_cuda11.8_0": ("pytorch", "2.1", "py3.10_cuda11.8_0", ""),
    "pytorch=2.1=py3.10_cuda12*": ("pytorch", "=2.1", "py3.10_cuda12*", ""),
    "pytorch==2.1=py3*": ("pytorch", "==2.1", "py3*", ""),
    "pytorch >=2 *cuda*": ("pytorch", ">=2", "*cuda*", ""),
    "pytorch=*=*cuda*": ("pytorch", "=*", "*cuda*", ""),
    "pytorch * *cuda*": ("pytorch", "*", "*cuda*", ""),
    "pytorch 1.8|1.9": ("pytorch", "1.8|1.9", "", ""),
    "pytorch!=2": ("pytorch", "!=2", "", ""),
    "PyTorch~=2.1": ("pytorch", "~=2.1", "", ""),
    "conda-forge::pytorch": ("pytorch", "", "", "conda-forge"),
    "nvidia/label/cuda-12.1.0::cuda": ("cuda", "", "", "nvidia/label/cuda-12.1.0"),
    "conda-forge/linux-64::x=1": ("x", "=1", "", "conda-forge/linux-64"),
    "https://u:p@a.invalid/t/abc/c::x": ("x", "", "", "https://a.invalid/c"),
    "pytorch[version='>=2,<3',build=*cuda*,channel=pytorch]": (
        "pytorch",
        ">=2,<3",
        "*cuda*",
        "pytorch",
    ),
    'pytorch=2[build="*cuda*"]': ("pytorch", "=2", "*cuda*", ""),
    "*[name=pytorch]": ("pytorch", "", "", ""),
    "cuda-cudart_linux-64": ("cuda-cudart_linux-64", "", "", ""),
    "pytorch # a comment": ("pytorch", "", "", ""),
    "https://a.invalid/c/linux-64/pytorch-2.1.0-py3.10_cuda11.8_0.tar.bz2#abc": (
        "pytorch",
        "==2.1.0",
        "py3.10_cuda11.8_0",
        "https://a.invalid/c/linux-64",
    ),
    "./pytorch-cuda-11.8-h7_5.conda": ("pytorch-cuda", "==11.8", "h7_5", "."),
}


@pytest.mark.parametrize(("spec", "expected"), SPECS.items())
def test_a_match_spec(spec: str, expected: tuple[str, str, str, str]) -> None:
    entry = spec_entry(spec, "x:1")
    assert entry.kind == "conda"
    assert (entry.name, entry.specifier, entry.build, entry.url) == expected


@pytest.mark.parametrize("spec", ["", "=2", "[a]", "pytorch]", "::x", "a b[c", "x" * (LONGEST + 1)])
def test_what_is_no_match_spec(spec: str) -> None:
    assert spec_entry(spec, "x:1").kind == "unreadable"


@given(st.text("abp.0123*=<>!~|, :/[]'#_-", max_size=60), st.text(max_size=20))
@example("a" * LONGEST, "")
def test_no_spec_is_too_odd(spec: str, odd: str) -> None:
    for text in (spec, spec + odd):
        entry = spec_entry(text, "x:1")
        assert entry.kind in {"conda", "unreadable"}
        assert entry.text.isprintable()


@given(
    st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True),
    st.from_regex(r"([=<>!~]=|[=<>])[0-9]{1,2}(\.[0-9]){0,2}", fullmatch=True),
    st.sampled_from(["", "py310_cuda118_0", "*cuda*"]),
    st.sampled_from(["", "pytorch", "a/b"]),
)
def test_a_spec_of_parts_gives_the_parts(name: str, version: str, build: str, channel: str) -> None:
    written = f"{channel}::{name}" if channel else name
    for blank, equals in ((" ", " "), ("", "=")):
        tail = f"{equals}{build}" if build else ""
        entry = spec_entry(f"{written}{blank}{version}{tail}", "x:1")
        parts = (entry.url, entry.name, entry.specifier, entry.build)
        assert parts == (channel, name, version, build)


@pytest.mark.parametrize(
    ("selector", "marker"),
    [
        ("linux", 'sys_platform == "linux"'),
        ("not win", 'sys_platform != "win32"'),
        ("unix", 'sys_platform != "win32"'),
        ("not unix", 'sys_platform == "win32"'),
        ("linux64", 'sys_platform == "linux" and platform_machine == "x86_64"'),
        ("win-64", 'sys_platform == "win32" and platform_machine == "AMD64"'),
        ("not linux-aarch64", '(sys_platform != "linux" or platform_machine != "aarch64")'),
        ("osx and arm64", 'sys_platform == "darwin" and platform_machine == "arm64"'),
        ("linux or osx", 'sys_platform == "linux" or sys_platform == "darwin"'),
        ("x86_64", 'platform_machine == "x86_64"'),
        ("cuda", ""),
        ("linux and py310", ""),
    ],
)
def test_a_selector_is_a_marker(selector: str, marker: str) -> None:
    assert conda.selector_marker(selector) == marker


@pytest.mark.parametrize("platform", ["noarch", "emscripten-wasm32", "linux-68k", ""])
def test_a_platform_without_a_marker(platform: str) -> None:
    assert conda.platform_marker(platform) == ""


def plain(node: yaml_text.Node) -> object:
    if node.table:
        return {key: plain(value) for key, value in node.table.items()}
    return [plain(item) for item in node.items] if isinstance(node.value, list) else node.value


DOCUMENTS = st.recursive(
    st.text("ab:-#'\"[]{}&* \n", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc-", min_size=1, max_size=3), inner, min_size=1, max_size=3)
    ),
    max_leaves=10,
)


@given(DOCUMENTS)
def test_the_library_reads_the_same(value: object) -> None:
    text = yaml.safe_dump(value, default_style='"')
    (node,) = yaml_text.load(text)
    assert plain(node) == value


@given(st.text("-ab:#'\"[]{}&*!|>%@ \n\t", max_size=60))
@example("? [a]\n: b")
@example("dependencies: [? a]")
def test_no_text_is_too_odd(text: str) -> None:
    with contextlib.suppress(BrokenError):
        yaml_text.load(text)
    for entry in read(f"dependencies:\n- pytorch\n{text}"):
        assert entry.where.startswith("e.yml:")


def test_a_key_that_is_not_there_is_empty() -> None:
    (node,) = yaml_text.load("a: {b: c}\n? [d]\n: e")
    assert node.get("a", "b").text == "c"
    assert node.get("a", "x", "y") == yaml_text.NOTHING
    assert node.get("").text == "e"
    assert node.text == ""
