"""Dockerfiles: images, stages, variables and commands, each on its instruction's first line."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from musadoctor.facts.requirements import Entry
from musadoctor.requirements import dockerfile


def read(text: str) -> list[Entry]:
    return list(dockerfile.read("D", text))


def found(text: str) -> list[tuple[int, str, str]]:
    return [
        (int(entry.where.removeprefix("D:")), entry.kind, entry.name or entry.url)
        for entry in read(text)
    ]


INSTRUCTIONS = {
    "FROM nvidia/cuda:12.1.1-cudnn8-devel-ubuntu22.04": [
        (1, "image", "nvidia/cuda:12.1.1-cudnn8-devel-ubuntu22.04")
    ],
    "# syntax=docker/dockerfile:1\n\n# a comment\nfrom --platform=linux/amd64 a AS b": [
        (4, "image", "a")
    ],
    "FROM": [],
    "ARG V=11.8.0\nFROM nvidia/cuda:${V}-devel-ubuntu${UBUNTU} as b": [
        (2, "image", "nvidia/cuda:11.8.0-devel-ubuntu${UBUNTU}")
    ],
    "\nARG BASE=nvidia/cuda:1\nFROM $BASE AS a\nFROM ${BASE} AS b\nFROM ${BASE:-x}": [
        (2, "image", "nvidia/cuda:1")
    ],
    "FROM ${BASE:-nvidia/cuda:1}": [(1, "image", "nvidia/cuda:1")],
    "FROM ${BASE}": [(1, "image", "${BASE}")],
    "FROM scratch AS source_copy\nFROM source_${V:+no_}copy AS s\nFROM S": [
        (1, "image", "scratch")
    ],
    "FROM a\nRUN pip install \\\n  # why\n\n  torch \\\n  numpy\nRUN pip install x": [
        (1, "image", "a"),
        (2, "requirement", "torch"),
        (2, "requirement", "numpy"),
        (7, "requirement", "x"),
    ],
    "FROM a\r\nRUN pip install \\\r\n  torch\r\n": [(1, "image", "a"), (2, "requirement", "torch")],
    "# escape=`\nFROM a\nRUN pip install `\n  torch": [
        (2, "image", "a"),
        (3, "requirement", "torch"),
    ],
    "# escape=x\n# other=1\nFROM a \\\n\\\n": [(3, "image", "a")],
    "RUN pip install torch": [(1, "requirement", "torch")],
    'RUN ["pip", "install", "torch"]': [(1, "requirement", "torch")],
    'RUN ["bash", "-c", "pip install torch && pip install x"]': [
        (1, "requirement", "torch"),
        (1, "requirement", "x"),
    ],
    "RUN [ -f x ] && pip install torch": [(1, "requirement", "torch")],
    'RUN ["pip", 1]': [],
    "RUN " + "[" * 100_000: [],
    "RUN --mount=type=cache,target=/root/.cache --network=none pip install torch": [
        (1, "requirement", "torch")
    ],
    "CMD pip install torch\nENTRYPOINT pip install x\nONBUILD RUN pip install y\nONBUILD": [
        (1, "requirement", "torch"),
        (2, "requirement", "x"),
        (3, "requirement", "y"),
    ],
    "RUN if x; then pip install torch; else mamba install pytorch; fi": [
        (1, "requirement", "torch"),
        (1, "conda", "pytorch"),
    ],
    "\nRUN <<EOF\nset -e\npip install torch\nEOF\nRUN pip install x": [
        (2, "requirement", "torch"),
        (6, "requirement", "x"),
    ],
    "RUN <<-'A' bash && <<B python3\n\tpip install torch\n\tA\npip install x\nB\nRUN pip install y": [
        (1, "requirement", "torch"),
        (6, "requirement", "y"),
    ],
    "RUN cat > requirements.txt <<E\ntorch\nE": [(1, "requirement", "torch")],
    "RUN bash <<EOF\npip install torch": [],
    "RUN cat <<EOF\nRUN pip install torch": [(2, "requirement", "torch")],
    "FROM a\nCOPY <<EOF <<requirements.txt /app/\nx\nEOF\nc\n\ntorch\nrequirements.txt\nRUN pip install y": [
        (1, "image", "a"),
        (5, "requirement", "c"),
        (7, "requirement", "torch"),
        (9, "requirement", "y"),
    ],
    "ADD --chown=1 <<E /app/requirements.txt\ntorch\nE": [(2, "requirement", "torch")],
    "COPY requirements.txt /app/\nWORKDIR /app\nLABEL a=<<E\nE": [],
    'ARG CUDA_ARCHITECTURES="90;89"\nFROM a\nARG CUDA_ARCHITECTURES\nENV A=1 FORCE_CUDA="1"': [
        (1, "variable", "CUDA_ARCHITECTURES"),
        (2, "image", "a"),
        (3, "variable", "CUDA_ARCHITECTURES"),
        (4, "variable", "FORCE_CUDA"),
    ],
    "ENV TORCH_CUDA_ARCH_LIST 7.0 8.0": [(1, "variable", "TORCH_CUDA_ARCH_LIST")],
    "ENV CUDA_HOME /usr/local/musa": [],
    "ENV": [],
    "ENV PIP_EXTRA_INDEX_URL=https://u:p@a.invalid/whl/cu121": [
        (1, "index", "https://a.invalid/whl/cu121")
    ],
    "# syntax=docker/dockerfile:1": [],
    "RUN <<A\n" * 20_000: [],
    "garbage\n\x00\n\\": [],
    "": [],
}


@pytest.mark.parametrize(("text", "expected"), INSTRUCTIONS.items())
def test_what_a_dockerfile_asks_for(text: str, expected: list[tuple[int, str, str]]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("text", "specifier"),
    [
        ("ARG V=2.4.0\nRUN pip install torch==$V", "==2.4.0"),
        ("ARG V=2.4.0\nFROM a\nARG V\nRUN pip install torch==${V}", "==2.4.0"),
        ("ARG V=2.4.0\nFROM a\nARG V=2.5\nENV W=${V}.1\nRUN pip install torch==${W}", "==2.5.1"),
        ("FROM a AS b\nENV V=2.4\nFROM b\nRUN pip install torch==$V", "==2.4"),
        ("FROM a\nRUN V=2.4 && pip install torch==$V", "==2.4"),
    ],
)
def test_variables_are_filled_in(text: str, specifier: str) -> None:
    assert read(text)[-1].specifier == specifier


@pytest.mark.parametrize(
    "text",
    [
        "ARG V=2.4.0\nFROM a\nRUN pip install torch==${V}",
        "FROM a\nENV V=2.4\nFROM b\nRUN pip install torch==$V",
        "FROM a\nRUN V=2.4\nRUN pip install torch==$V",
        f"ENV V={'9' * 20_000}\nRUN pip install torch==$V",
    ],
)
def test_variables_of_elsewhere_are_not(text: str) -> None:
    entry = read(text)[-1]
    assert (entry.kind, entry.reason) == ("unreadable", "placeholder")


@pytest.mark.parametrize(
    ("images", "fresh"),
    [
        ("FROM ubuntu:22.04", True),
        ("FROM $BASE", True),
        ("FROM registry.mthreads.com/mcconline/mtt-vllm-public:v0.2.1-kuae1.3.0-s4000-py38", False),
        ("FROM a.invalid/mt-ai/pytorch", False),
        ("FROM a.invalid/torch_musa:rc4.2.0", False),
        ("FROM a.invalid/musashi:1", True),
        ("FROM a.invalid/fmt-tool:1", True),
        ("ARG BASE=a.invalid/musa:1\nFROM $BASE", False),
        ("FROM a.invalid/musa:1\nFROM ubuntu", True),
        ("FROM a.invalid/musa:1 AS m\nFROM ubuntu AS u\nFROM m", False),
        ("FROM ubuntu AS m\nFROM m", True),
    ],
)
def test_only_the_vendors_image_holds_the_vendors_torch(images: str, fresh: object) -> None:
    (*_, entry) = read(f"{images}\nRUN pip install torch")
    assert entry.fresh == fresh
    (*_, entry) = read(f"{images}\nCOPY <<requirements.txt .\ntorch\nrequirements.txt")
    assert entry.fresh == fresh
    (*_, entry) = read(f"{images}\nENV FORCE_CUDA=1")
    assert entry.fresh == fresh


def test_an_image_of_an_arg_is_shown_where_it_can_be_changed() -> None:
    (image,) = read("ARG BASE=nvidia/cuda:1\nFROM ${BASE}")
    assert image.text == "ARG BASE=nvidia/cuda:1"
    (image,) = read("FROM  nvidia/cuda:1   AS x")
    assert image.text == "FROM nvidia/cuda:1 AS x"


def test_real_shapes() -> None:
    """Lines of public Dockerfiles."""
    assert found(
        "FROM nvidia/cuda:11.1.1-cudnn8-devel-ubuntu18.04\n"
        "RUN pip install --user torch==1.10 torchvision==0.11.1 -f https://a.invalid/whl/cu111\n"
        "RUN pip install --user 'git+https://github.com/facebookresearch/fvcore'\n"
        'ENV FORCE_CUDA="1"\n'
        'ARG TORCH_CUDA_ARCH_LIST="Kepler;Kepler+Tesla;Maxwell"\n'
        'ENV TORCH_CUDA_ARCH_LIST="${TORCH_CUDA_ARCH_LIST}"\n'
        "RUN pip install --user -e detectron2_repo\n"
        "RUN mamba env update -n base --file /opt/openfold/environment.yml && mamba clean --all\n"
    ) == [
        (1, "image", "nvidia/cuda:11.1.1-cudnn8-devel-ubuntu18.04"),
        (2, "requirement", "torch"),
        (2, "requirement", "torchvision"),
        (2, "index", "https://a.invalid/whl/cu111"),
        (3, "source", "fvcore"),
        (4, "variable", "FORCE_CUDA"),
        (5, "variable", "TORCH_CUDA_ARCH_LIST"),
        (6, "variable", "TORCH_CUDA_ARCH_LIST"),
        (7, "source", "detectron2_repo"),
        (8, "include", "/opt/openfold/environment.yml"),
    ]


@given(st.text("FROMRUNENVARGCOPY \\\n\r\t#<-EA=$\"'[]{}`&", max_size=120))
@example("COPY <<E requirements.txt\n-r\nE")
def test_no_dockerfile_is_too_odd(text: str) -> None:
    lines = text.count("\n") + 1
    for entry in read(f"{text}\nRUN pip install torch {text}"):
        assert 1 <= int(entry.where.removeprefix("D:")) <= 2 * lines
