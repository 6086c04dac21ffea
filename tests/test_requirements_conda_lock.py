"""conda-lock.yml item by item, and explicit lists."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from musadoctor.facts.requirements import Entry
from musadoctor.requirements import conda_lock, yaml_text
from musadoctor.requirements.broken import BrokenError
from musadoctor.requirements.yaml_text import BrokenPiece, Node

HEAD = """\
# generated
version: 1
metadata:
  content_hash:
    linux-64: 34fc
  channels:
  - url: conda-forge
    used_env_vars: []
  - url: https://a.invalid/t/secret/nvidia
  - pytorch
  platforms:
  - linux-64
"""
PYTORCH = """\
- name: pytorch
  version: 2.7.1
  manager: conda
  platform: linux-64
  dependencies:
    python: '>=3.11,<3.12.0a0'
    name: '*'
  url: https://conda.example.invalid/conda-forge/linux-64/pytorch-2.7.1-cuda129_py311_103.conda
  hash:
    md5: af75
  category: main
  optional: false
"""
TORCH = """\
- name: Torch_Vision
  version: '0.15.2+cu118'
  manager: pip
  platform: linux-aarch64
  dependencies: {}
  url: https://a.invalid/torchvision-0.15.2-cp311-cp311-linux_aarch64.whl
"""


def read(text: str) -> list[Entry]:
    return list(conda_lock.read("c.yml", text))


def found(text: str) -> list[tuple[int, str, str, str]]:
    return [
        (
            int(entry.where.removeprefix("c.yml:")),
            entry.kind,
            entry.name,
            entry.specifier or entry.reason,
        )
        for entry in read(text)
    ]


EXPECTED = [
    (7, "channel", "conda-forge", ""),
    (9, "channel", "https://a.invalid/nvidia", ""),
    (10, "channel", "pytorch", ""),
    (14, "conda", "pytorch", "==2.7.1"),
    (26, "requirement", "torch-vision", "==0.15.2+cu118"),
]


def indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "package:\n" + PYTORCH + TORCH,
        HEAD + "package:\n" + indented(PYTORCH + TORCH),
        HEAD + "package:\n" + PYTORCH + TORCH + "version: 1\nother:\n- name: x\n",
        (HEAD + "package:\n" + PYTORCH + TORCH).replace("\n", "\r\n"),
        HEAD + "package:\n" + PYTORCH.replace("2.7.1\n", "!!str 2.7.1\n") + TORCH,
        HEAD + "package:\n" + PYTORCH + TORCH.replace("dependencies: {}", "x: |\n    - name: y"),
        HEAD
        + "package:\n"
        + PYTORCH.replace("- name", "-   name").replace("\n  ", "\n    ")
        + TORCH,
        HEAD + "package:\n" + PYTORCH + "# a comment\n".replace("# a comment\n", "") + TORCH,
    ],
)
def test_every_layout_of_a_lock(text: str) -> None:
    assert found(text) == EXPECTED
    entries = {entry.name: entry for entry in read(text)}
    pytorch, torch = entries["pytorch"], entries["torch-vision"]
    assert (pytorch.build, pytorch.text) == (
        "cuda129_py311_103",
        "pytorch 2.7.1 cuda129_py311_103",
    )
    assert pytorch.url == "https://conda.example.invalid/conda-forge/linux-64"
    assert pytorch.marker == 'sys_platform == "linux" and platform_machine == "x86_64"'
    assert torch.marker == 'sys_platform == "linux" and platform_machine == "aarch64"'
    assert pytorch.scope == torch.scope == "lock"
    assert all(entry.fresh for entry in entries.values())
    assert "secret" not in str(entries)


def test_a_lock_in_flow_style() -> None:
    text = '{"metadata": {"channels": ["x"]},\n"package": [{"name": "a",\n"version": "1"}]}'
    assert found(text) == [
        (1, "channel", "x", ""),
        (2, "conda", "a", "==1"),
    ]


def test_a_package_without_a_file_has_no_build() -> None:
    (entry,) = read("package:\n- name: x\n  version: 1\n")
    assert (entry.build, entry.url, entry.text) == ("", "", "x 1")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("package:\n- version: 1\n  url: torch\n", 2, "a package without a name"),
        ("package:\n- version: 1\n  name: *x\n", 3, "a package without a name"),
        ("package:\n- name: a\n- name: 'torch\n", 4, "no valid YAML"),
        ("metadata: [\npackage:\n- name: a\n", 2, "no valid YAML"),
        ("package: [\n", 2, "no valid YAML"),
        ("package: " + "x" * yaml_text.LARGEST, 1, "characters of YAML"),
        (
            "package:\n- name: a\n  x: |\n" + "    y\n" * 1_000_000 + "  version: 'b\n",
            2,
            "characters",
        ),
    ],
)
def test_what_cannot_be_read_is_said(text: str, line: int, reason: str) -> None:
    unread = [entry for entry in read(text) if entry.kind == "unreadable"]
    assert {entry.where for entry in unread} == {f"c.yml:{line}"}
    assert all(reason in entry.reason and entry.fresh for entry in unread)


def test_what_is_broken_leaves_the_rest_readable() -> None:
    text = "package:\n" + PYTORCH + "- name: 'torch\n  x: [\n" + PYTORCH + PYTORCH
    assert [(number, name) for number, kind, name, _ in found(text) if kind == "conda"] == [
        (2, "pytorch"),
        (16, "pytorch"),
        (28, "pytorch"),
    ]
    (unreadable,) = [entry for entry in read(text) if entry.kind == "unreadable"]
    assert unreadable.where in {"c.yml:14", "c.yml:15", "c.yml:16"}
    assert "torch" in unreadable.text


def test_a_long_lock_is_read_in_pieces() -> None:
    many = 3000
    text = "package:\n" + PYTORCH * many
    pieces = list(yaml_text.pieces(text, "package"))
    assert len(pieces) > 3
    assert "".join(piece for piece, _ in pieces) == PYTORCH * many
    assert [line for line, *_ in found(text)] == [2 + 12 * number for number in range(many)]


def test_an_explicit_list() -> None:
    text = (
        "# platform: linux-64\n# generated\n@EXPLICIT\n\n"
        "https://u:p@a.invalid/pytorch/linux-64/pytorch-2.1.0-py3.10_cuda11.8_0.tar.bz2#9f2\n"
        "https://a.invalid/c/noarch/x-1-0.conda\n"
        "# pip torch @ https://a.invalid/torch-2.4.0%2Bcu121-cp310-cp310-linux_x86_64.whl"
        " --hash=sha256:ab\n"
        "# pip numpy==1.26\n"
        "rubbish\n"
    )
    assert found(text) == [
        (5, "conda", "pytorch", "==2.1.0"),
        (6, "conda", "x", "==1"),
        (7, "requirement", "torch", "==2.4.0+cu121"),
        (8, "requirement", "numpy", "==1.26"),
        (9, "unreadable", "", "not the address of a conda package"),
    ]
    assert read(text)[0].url == "https://a.invalid/pytorch/linux-64"
    assert all(entry.fresh and entry.scope == "lock" for entry in read(text))


ITEM = st.lists(
    st.sampled_from([
        "- name: x\n", "  version: 1\n", "  version: '2'\n", "  url: a#b\n",  '  name: "y"\n',
        "  deps:\n", "  - a\n", "    name: z\n", "  x: |\n", "\n", "# c\n", "-\n", "- {name: w}\n",
        "  manager: pip # c\n", "-  name: v\n", "  ? a\n", "end:\n", "  name: &a b\n",
    ]),
    max_size=12,
).map("".join)  # fmt: skip


@given(ITEM)
@example("- name: x\n-\n  name: y\n")
@example("- name: x\n  name: *y\n")
def test_the_fast_way_reads_what_the_library_reads(items: str) -> None:
    text = f"package:\n{items}"
    wanted = frozenset({"name", "version", "manager"})
    try:
        (document,) = yaml_text.load(text)
    except BrokenError:
        return
    expected = [
        {key: (value.text, value.line) for key, value in node.table.items() if key in wanted}
        for node in document.get("package").items
    ]
    nodes = list(yaml_text.nodes(text, "package", wanted))
    assert not any(isinstance(node, BrokenPiece) for node in nodes)
    assert [
        {key: (value.text, value.line) for key, value in node.table.items() if key in wanted}
        for node in nodes
        if isinstance(node, Node)
    ] == expected


@given(st.text("-ab:@#'\"[]{}&* \n", max_size=60))
def test_no_lock_is_too_odd(text: str) -> None:
    for whole in (text, f"package:\n- name: a\n{text}", f"@EXPLICIT\n{text}"):
        for entry in read(whole):
            assert entry.where.startswith("c.yml:")
