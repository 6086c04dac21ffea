"""The guard's checks on entries given directly: each class, what stands in a line's place."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.markers import Marker
from packaging.specifiers import SpecifierSet

from musadoctor.api import Check, Entry, Finding, Requirements, RequirementsFile, Stack
from musadoctor.guard.host import assumed
from musadoctor.plugins import load_requirements
from musadoctor.requirements.requirement import entry_of
from musadoctor_checks.requirements import _classify, _specifiers
from musadoctor_checks.requirements._case import REFUSED
from musadoctor_checks.requirements._known import package
from musadoctor_checks.requirements._markers import plain

A = assumed("musa=2.9.1.post1+musa5.2.0")
B = assumed("musa=2.5.0")
C = assumed("musa=2.2.0a0+git8ac9b20")
N = assumed("new")
CHECKS: Mapping[str, Check] = {
    check.id: check
    for check in load_requirements()
    if check.function.__module__.rpartition(".")[2] not in {"deep", "stack"}
}
"""Those that judge entries."""


def line(text: str, **fields: object) -> Entry:
    made = entry_of(text, "requirements.txt:1")
    return made._replace(**fields)  # type: ignore[arg-type]


def entry(kind: str, **fields: object) -> Entry:
    made = Entry("source", "requirements.txt:1", "text")
    return made._replace(kind=kind, **fields)  # type: ignore[arg-type]


def found(
    *entries: Entry, stack: Stack = A, files: tuple[RequirementsFile, ...] = ()
) -> list[tuple[str, Finding]]:
    requirements = Requirements(files, entries)
    return [
        (check.id, finding)
        for check in CHECKS.values()
        for finding in check.function(requirements, stack)
        if isinstance(finding, Finding)
    ]


def one(*entries: Entry, stack: Stack = A) -> tuple[str, Finding]:
    (single,) = found(*entries, stack=stack)
    return single


def ids(*entries: Entry, stack: Stack = A) -> list[str]:
    return [check for check, _ in found(*entries, stack=stack)]


def test_what_is_refused_is_what_errors_say() -> None:
    errors = {check.id for check in CHECKS.values() if check.severity == "error"}
    assert errors == REFUSED


# README of the findings, section 1: tried with real pip and stand-in wheels, or with packaging.
@pytest.mark.parametrize(
    ("requirement", "kept"),
    [
        ("torch", "ABC"),
        ("torch>=2.2", "AB"),
        ("torch==2.9.1", ""),
        ("torch<=2.9.1", "BC"),
        ("torch>2.9.1", ""),
        ("torch~=2.9.1", "A"),
        ("torch==2.9.*", "A"),
        ("torch==2.9.1.post1", "A"),
        ("torch!=2.9.1", "ABC"),
        ("torchvision==0.24.1", ""),
        ("torch==2.5.0", "B"),
        ("torch>=2.2.0a0,<2.2.1", "C"),
        ("torch==2.2.0a0+git8ac9b20", "C"),
        ("torchvision==0.17.2+c1d70fe", "C"),
        ("torchaudio==2.9.1", "A"),
        ("torch===2.5.0", "B"),
        ("triton==3.2.0", "AB"),
    ],
)
def test_a_version_is_compared_as_pip_compares_it(requirement: str, kept: str) -> None:
    for name, stack in {"A": A, "B": B, "C": C}.items():
        expected = "torch-satisfied" if name in kept else "torch-pin-mismatch"
        if requirement.startswith("triton") and name == "C":
            expected = "torch-dependent"  # the alpha came without a Triton
        assert ids(line(requirement), stack=stack) == [expected], name
    assert ids(line(requirement), stack=N) == ["torch-missing-vendor"]


def test_the_message_names_both_versions() -> None:
    check, finding = one(line("torch==2.4.0"))
    assert check == "torch-pin-mismatch"
    assert finding.message == (
        "torch==2.4.0 is not what is installed, 2.9.1.post1+musa5.2.0:"
        " pip would replace the vendor's build"
    )
    assert finding.where == "requirements.txt:1"
    assert finding.fix
    assert finding.fix.text == (
        "leave it out: 2.9.1.post1+musa5.2.0 stays;"
        " the file asks for 2.4, so see whether the code works with 2.9"
    )
    assert finding.fix.instead == ""
    _, same = one(line("torch<=2.9.1"))
    assert same.fix
    assert same.fix.text == "leave it out: 2.9.1.post1+musa5.2.0 stays"


@pytest.mark.parametrize(
    ("requirement", "check"),
    [
        ("torch==2.4.0+cu121", "cuda-local-version"),
        ("torch~=2.3.1+cu121", "cuda-local-version"),
        ("llama-cpp-python==0.3.1+cu124", "cuda-local-version"),
        ("mmcv==2.1.0+pt2.1cu121", "cuda-local-version"),
        ("torch==2.4.1+cpu", "foreign-local-version"),
        ("torch==2.7.1+rocm6.3", "foreign-local-version"),
        ("torch==2.7.1+xpu", "foreign-local-version"),
        ("numpy==1.0+rocm6.3", "foreign-local-version"),
        ("llama-cpp-python==0.3.1+cpu", "cpu-local-version"),
        ("https://e.invalid/whl/cu121/torch-2.4.0%2Bcu121-cp310-cp310-linux_x86_64.whl",
         "cuda-wheel-url"),
        ("https://e.invalid/whl/cu121/spam-2.4.0-cp310-cp310-linux_x86_64.whl", "cuda-wheel-url"),
        ("https://e.invalid/whl/cpu/torch-1.10.0%2Bcpu-cp37-cp37m-linux_x86_64.whl",
         "foreign-wheel-url"),
        ("https://e.invalid/ipex_stable/xpu/spam-2.1.0-cp310-cp310-linux_x86_64.whl",
         "foreign-wheel-url"),
        ("https://e.invalid/whl/cpu/spam-1.0-py3-none-any.whl", "cpu-local-version"),
        ("torch @ https://e.invalid/torch-2.4.0-cp310-cp310-linux_x86_64.whl", "torch-source-url"),
        ("git+https://github.com/pytorch/torchvision.git", "torch-source-url"),
        ("https://e.invalid/flash_attn-2.6.3-cp310-cp310-linux_x86_64.whl", "cuda-ext-build"),
        ("nvidia-cublas-cu12==12.1.3.1", "nvidia-runtime"),
        ("nvidia-cuda-runtime", "nvidia-runtime"),
        ("nvidia-nvjpeg2k-cu13", "nvidia-runtime"),
        ("cuda-tile", "nvidia-runtime"),
        ("nvidia-sphinx-theme", ""),
        ("nvidia-something", "unchecked-package"),
        ("nvidia-ml-py", "nvidia-monitor"),
        ("onnxruntime_gpu", "cuda-only-package"),
        ("spam-cu118", "cuda-only-package"),
        ("spam-cu12-libs", "cuda-only-package"),
        ("spam-cuda12x", "cuda-only-package"),
        ("spam-gpu", "unchecked-package"),
        ("spam-cuda", "unchecked-package"),
        ("Flash.Attn==2.6.3", "cuda-ext-build"),
        ("fairscale", "cuda-ext-optional"),
        ("vllm>=0.4.2", "torch-pinning-dependent"),
        ("vllm-musa", "torch-pinning-dependent"),
        ("jax[cuda12]>=0.4", "cuda-extra"),
        ("jax[cuda12-local]", "cuda-extra"),
        ("tensorflow[and-cuda]", "cuda-extra"),
        ("optimum[onnxruntime-gpu]", "cuda-extra"),
        ("rembg[gpu]", "cuda-extra"),
        ("nvidia-cutlass-dsl[cu13]", "cuda-extra"),
        ("transformer-engine[pytorch,core_cu13]", "cuda-ext-build"),
        ("nvidia-modelopt[torch]", "cuda-optional-package"),
        ("spam[gpu]", "gpu-extra"),
        ("spam[dev]", ""),
        ("jax[tpu]", "other-accelerator"),
        ("onnxruntime-rocm", "other-accelerator"),
        ("bitsandbytes", "cuda-default-package"),
        ("tensorflow==2.18.0", "cuda-optional-package"),
        ("liger-kernel", "torch-dependent"),
        ("somebodys-ops==1.0+pt25", "torch-dependent"),
        ("somebodys-ops==1.0+torch2.8.0", "torch-dependent"),
        ("pynvml", "nvidia-monitor"),
        ("mate", "musa-native"),
        ("torch-musa", ""),
        ("torch_musa==2.9.1.post1+musa5.2.0", ""),
        ("torch_musa==2.7.0", "musa-vendor-pin"),
        ("torch==2.9.1.post1+musa5.2.0", ""),
        ("torch==2.7.1+musa4.3.6", "musa-vendor-pin"),
        ("deep-gemm==0.2.7+musa", "musa-vendor-pin"),
        ("file:///wheels/torch-2.9.1.post1+musa5.2.0-cp310-cp310-linux_x86_64.whl", ""),
        ("torch-vision", ""),
        ("torch.audio==2.4.0", ""),
        ("transformers", ""),
        ("numpy", ""),
        ("torchvision==0.19.0#not a comment", "unparsable-torch"),
        ("!pip install flash-attn", "unparsable-torch"),
        ("torch=={{ version }}", "unparsable-torch"),
        ("numpy=={{ version }}", "unparsable-line"),
        ("<your-package-here>", "unparsable-line"),
        ("-e .", "unparsable-line"),
        ("torch==2.4.x", "unparsable-torch"),
        ("git+https://github.com/someone/something.git@v1#egg=something", "unvetted-source"),
        ("git+https://github.com/MooreThreads/pytorch3d@musa-dev", "unvetted-source"),
        ("git+https://github.com/facebookresearch/pytorch3d.git@stable", "cuda-ext-build"),
        ("git+ssh://git@github.com/Dao-AILab/flash-attention.git@v2.6.3", "cuda-ext-build"),
        ("tcnn @ git+https://github.com/NVlabs/tiny-cuda-nn/#subdirectory=bindings/torch",
         "cuda-ext-build"),
        ("git+https://github.com/someone/splats#subdirectory=submodules/simple-knn",
         "cuda-ext-build"),
        ("git+https://github.com/someone/things#subdirectory=bindings/torch", "unvetted-source"),
        ("flash-attn @ git+https://github.com/someone/fork", "cuda-ext-build"),
        ("git+https://github.com/vllm-project/vllm.git", "torch-pinning-dependent"),
        ("./submodules/diff-gaussian-rasterization", "cuda-ext-build"),
        ("https://github.com/NVIDIA/apex/archive/master.zip", "cuda-ext-build"),
        ("deepspeed @ git+https://github.com/microsoft/DeepSpeed.git", "unvetted-source"),
    ],
)  # fmt: skip
def test_a_line_falls_to_the_most_specific_check(requirement: str, check: str) -> None:
    assert ids(line(requirement)) == ([check] if check else [])


@pytest.mark.parametrize(
    ("made", "check"),
    [
        (entry("index", url="https://download.pytorch.org/whl/cu121"), "cuda-index"),
        (entry("index", url="https://mirror.invalid/pytorch-wheels/cu118/"), "cuda-index"),
        (entry("index", url="https://download.pytorch.org/whl/torch_stable.html"), "cuda-index"),
        (entry("index", url="https://pypi.nvidia.com"), "cuda-index"),
        (entry("index", url="https://e.invalid/onnxruntime-cuda-12/pypi/simple/"), "cuda-index"),
        (entry("index", url="https://data.invalid/whl/torch-2.10.0+cu130.html"), "cuda-index"),
        (entry("index", url="https://flashinfer.ai/whl/"), "cuda-index"),
        (entry("index", url="https://download.pytorch.org/whl/cu${CUDA}"), "cuda-index"),
        (entry("index", url="https://download.pytorch.org/whl/${CUDA_TAG}"), "cuda-index"),
        (entry("index", url="https://download.pytorch.org/whl/lts/1.8/torch_lts.html"),
         "cuda-index"),
        (entry("index", url="https://developer.download.nvidia.com/compute/redist"), "cuda-index"),
        (entry("index", url="https://e.invalid/ipex-whl-stable-xpu"), "foreign-index"),
        (entry("index", url="pytorch-cuda", name="torch"), "cuda-index"),
        (entry("index", url="https://download.pytorch.org/whl/rocm6.3"), "foreign-index"),
        (entry("index", url="https://e.invalid/libtpu_releases.html"), "foreign-index"),
        (entry("index", url="https://download.pytorch.org/whl/cpu"), "cpu-index"),
        (entry("index", url="https://e.invalid/simple"), ""),
        (entry("option", option="--pre"), ""),
        (entry("option", option="--config-settings", specifier="cmake.args=-DGGML_CUDA=on"),
         "cuda-build-flag"),
        (entry("variable", name="CMAKE_ARGS", specifier="-DLLAMA_CUBLAS=ON"), "cuda-build-flag"),
        (entry("variable", name="CMAKE_ARGS", specifier="-DGGML_MUSA=ON"), ""),
        (entry("variable", name="TORCH_CUDA_ARCH_LIST", specifier="8.0"), "cuda-build-env"),
        (entry("variable", name="CUDA_ARCHITECTURES"), "cuda-build-env"),
        (entry("variable", name="FORCE_CUDA", specifier="1"), "cuda-build-env"),
        (entry("variable", name="FORCE_CUDA", specifier='"0"'), ""),
        (entry("variable", name="CUDA_VERSION", specifier="12"), ""),
        (entry("variable", name="cuda", specifier="12"), "cuda-system-requirement"),
        (entry("extension", name="CUDAExtension"), "own-cuda-extension"),
        (entry("extension", name="CppExtension"), ""),
        (entry("image", name="nvidia/cuda:12.1.1-cudnn8-devel-ubuntu22.04"), "cuda-base-image"),
        (entry("image", name="pytorch/pytorch"), "cuda-base-image"),
        (entry("image", name="nvcr.io/nvidia/pytorch:24.01-py3"), "cuda-base-image"),
        (entry("image", name="someone/torch-base:cu${CUDA_VERSION}-${BASE}"), "cuda-base-image"),
        (entry("image", name="lmsysorg/sglang:latest"), "cuda-base-image"),
        (entry("image", name="vllm/vllm-openai"), "cuda-base-image"),
        (entry("image", name="huggingface/transformers-pytorch-gpu:4.29"), "cuda-base-image"),
        (entry("image", name="tensorflow/tensorflow:2.15.0-gpu"), "cuda-base-image"),
        (entry("image", name="lmsysorg/sglang:latest-rocm630"), "other-accelerator"),
        (entry("image", name="rocm/pytorch:latest"), "other-accelerator"),
        (entry("image", name="intel/vllm-cpu:latest"), ""),
        (entry("image", name="registry.mthreads.com/x/sglang:v1"), ""),
        (entry("image", name="python:3.10-slim"), ""),
        (entry("channel", name="nvidia"), "conda-cuda-channel"),
        (entry("channel", name="nvidia/label/cuda-11.8.0"), "conda-cuda-channel"),
        (entry("channel", name="dglteam/label/cu118"), "conda-cuda-channel"),
        (entry("channel", name="https://conda.anaconda.org/pytorch"), "conda-torch-channel"),
        (entry("channel", name="conda-forge"), ""),
        (entry("conda", name="pytorch", specifier="=2.5"), "conda-torch"),
        (entry("conda", name="pytorch-cuda", specifier="=12.4"), "conda-cuda"),
        (entry("conda", name="cudatoolkit"), "conda-cuda"),
        (entry("conda", name="cuda-cudart_linux-64"), "conda-cuda"),
        (entry("conda", name="libcusparse", specifier="12.5"), "conda-cuda"),
        (entry("conda", name="magma-cuda118"), "conda-cuda"),
        (entry("conda", name="kaldi", build="cuda129h7da9cb1_1"), "conda-cuda-build"),
        (entry("conda", name="kaldi", build="py310_cu118"), "conda-cuda-build"),
        (entry("conda", name="kaldi", build="cpu_py310"), ""),
        (entry("conda", name="spam", url="nvidia"), "conda-cuda"),
        (entry("conda", name="torchcodec", build="cpu_py311"), "cuda-optional-package"),
        (entry("conda", name="xformers"), "torch-pinning-dependent"),
        (entry("conda", name="pytorch-lightning"), ""),
        (entry("conda", name="numpy"), ""),
        (entry("unreadable", text="torch ???", reason="a bad line"), "unparsable-torch"),
        (entry("unreadable", text="what cu121 is"), "unparsable-torch"),
        (entry("unreadable", text="cu1219"), "unparsable-line"),
        (entry("source", url=".", text="-e ."), "unvetted-source"),
        (entry("source", option="workspace", name="spam", text="spam = {workspace}"),
         "unvetted-source"),
    ],
)  # fmt: skip
def test_an_entry_of_another_kind(made: Entry, check: str) -> None:
    assert ids(made) == ([check] if check else [])


@pytest.mark.parametrize(
    ("flags", "requirement", "check"),
    [
        (("--upgrade",), "torch", "upgrade-flag"),
        (("--force-reinstall",), "torch", "upgrade-flag"),
        (("--ignore-installed",), "torchvision", "upgrade-flag"),
        (("--reinstall",), "torch", "upgrade-flag"),
        (("--upgrade-package=torch",), "torch", "upgrade-flag"),
        (("--upgrade",), "torch==2.4.0", "torch-pin-mismatch"),
        (("--upgrade", "--upgrade-strategy=only-if-needed"), "accelerate", ""),
        (("--upgrade",), "accelerate", ""),
        (("--upgrade", "--upgrade-strategy=eager"), "accelerate", "upgrade-flag"),
        (("--upgrade", "--upgrade-strategy=eager", "--no-deps"), "accelerate", ""),
        (("--upgrade", "--upgrade-strategy=eager"), "numpy", ""),
        (("--force-reinstall",), "peft", "upgrade-flag"),
        (("--ignore-installed",), "fairscale", "upgrade-flag"),
        (("--upgrade-package=torch",), "peft", "upgrade-flag"),
        (("--upgrade-package=numpy",), "peft", ""),
        (("--force-reinstall",), "einops", ""),
        (("--force-reinstall",), "vllm", "torch-pinning-dependent"),
        (("--no-deps",), "vllm", "torch-pinning-no-deps"),
        (("--no-deps",), "torch", "torch-satisfied"),
    ],
)
def test_the_flags_of_a_command(flags: tuple[str, ...], requirement: str, check: str) -> None:
    assert ids(line(requirement, flags=flags)) == ([check] if check else [])


def test_an_eager_upgrade_reaches_no_torch_where_none_of_the_vendor_is() -> None:
    flags = ("--force-reinstall",)
    assert ids(line("peft", flags=flags), stack=N) == []
    assert ids(line("peft", flags=flags, fresh=True)) == []


@pytest.mark.parametrize(
    ("made", "stack", "why"),
    [
        (line("torch", fresh=True), A, "it goes into an environment of its own"),
        (line("torch", fresh=True, flags=("--target",)), A, "--target installs it beside"),
        (line("torch"), N, "there is no vendor's torch (a new environment)"),
        (line("torch"), N._replace(versions={"torch": "2.7.1"}),
         "the torch 2.7.1 that is installed is not the vendor's"),
        (line("torchvision"), A._replace(versions={"torch": "2.9.1"}),
         "the vendor's torchvision is not installed, and upstream's pins its own torch"),
    ],
)  # fmt: skip
def test_why_the_vendor_is_missing(made: Entry, stack: Stack, why: str) -> None:
    check, finding = one(made, stack=stack)
    assert check == "torch-missing-vendor"
    assert why in finding.message
    assert finding.fix
    assert finding.fix.instead == ""


def test_torch_for_a_build_is_a_warning_on_every_host() -> None:
    for stack in (A, B, C, N):
        assert ids(line("torch==2.4", scope="build"), stack=stack) == ["build-isolation-torch"]


def test_a_musa_package_that_is_not_installed() -> None:
    assert ids(line("torch-musa"), stack=N) == ["musa-vendor-pin"]
    assert one(line("torch-musa"), stack=N)[1].message == (
        "torch-musa is the vendor's, and it is not installed here"
    )
    there = A._replace(versions={**A.versions, "mate": "0.2.7"})
    assert ids(line("mate"), stack=there) == []
    assert ids(line("mate==0.3"), stack=there) == ["musa-vendor-pin"]


@pytest.mark.parametrize(
    ("marker", "scope", "holds"),
    [
        ("sys_platform == 'linux'", "", True),
        ("sys_platform == 'win32'", "", False),
        ("python_version >= '3.11'", "", False),
        ("extra == 'gpu'", "", True),
        ("extra != 'gpu'", "", True),
        ("extra == 'gpu'", "extra:gpu", True),
        ("extra == 'cpu'", "extra:gpu", False),
        ("extra == 'gpu' and sys_platform == 'win32'", "", False),
        ("'gpu' in extras", "lock", True),
        ("python_version == '3.10.*'", "", True),
        ("implementation_name == 'pypy'", "", False),
        ("platform_machine >= 'z'", "", False),
        ("(sys_platform == 'win32')", "", False),
        ("sys_platform == 'win32' or python_version < '3.11'", "", True),
    ],
)
def test_markers(marker: str, scope: str, *, holds: bool) -> None:
    made = line("torch==2.4.0", marker=marker, scope=scope)
    assert ids(made) == (["torch-pin-mismatch"] if holds else [])


CLAUSE = st.builds(
    lambda name, operator, value, quote: f"{name} {operator} {quote}{value}{quote}",
    st.sampled_from(["python_version", "python_full_version", "sys_platform", "os_name"]),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.sampled_from(["3", "3.1", "3.10", "3.10.0", "3.10.0.0", "3.11", "4", "linux", "nt", ""]),
    st.sampled_from("'\""),
)


@given(st.lists(st.tuples(CLAUSE, st.sampled_from([" and ", " or "])), min_size=1, max_size=4))
def test_markers_that_are_compared_without_packaging(clauses: list[tuple[str, str]]) -> None:
    marker = "".join(part for clause in clauses for part in clause).removesuffix(clauses[-1][1])
    answer = plain(marker, A.markers)
    if answer is not None:
        assert answer == Marker(marker).evaluate(dict(A.markers))


def test_a_release_that_is_no_number_is_left_to_packaging() -> None:
    assert plain("python_version >= '3'", {"python_version": "3.14.0rc1"}) is None
    assert plain("python_version >= '" + "9" * 5000 + "'", A.markers) is None


NUMBERS = st.lists(st.sampled_from([0, 1, 2, 9, 10]), min_size=1, max_size=4).map(
    lambda parts: ".".join(map(str, parts))
)
SPECIFIER = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["~=", "==", "!=", "<=", ">=", "<", ">", "==="]),
    st.sampled_from(["", " "]),
    NUMBERS,
    st.sampled_from(["", "", ".*", "a1", "+cu121"]),
)
VERSION = st.builds(
    "{}{}{}{}".format,
    NUMBERS,
    st.sampled_from(["", "a0", "b2", "rc1"]),
    st.sampled_from(["", ".post1"]),
    st.sampled_from(["", "+musa5.2.0", "+git8ac9b20"]),
)


@settings(max_examples=300)
@given(st.lists(SPECIFIER, min_size=1, max_size=3), VERSION, st.sampled_from(["", ","]))
def test_versions_that_are_compared_without_packaging(
    parts: list[str], version: str, end: str
) -> None:
    specifier = ",".join(parts) + end
    answer = _specifiers.plain(specifier, version)
    if answer is not None:
        assert answer == SpecifierSet(specifier).contains(version, prereleases=True)


@pytest.mark.parametrize("version", ["2.9.1.dev1", "2.9.1-1", "\uff12.9"])
def test_a_version_that_is_no_release_is_left_to_packaging(version: str) -> None:
    assert _specifiers.plain(">=2", version) is None
    assert _specifiers.plain(">=2", "2.9.1") is True


def test_a_marker_that_is_none() -> None:
    made = line("torch; windows")
    assert ids(made) == ["unparsable-torch"]
    assert ids(line("numpy; windows")) == ["unparsable-line"]


@pytest.mark.parametrize(
    "requirement",
    [
        f"torch=={'9' * 5000}",
        f"torch; python_version >= '{'9' * 5000}'",
        f"torch; {'(' * 4000}os_name == 'nt'",
        "torch>=2,>=not",
    ],
)
def test_what_no_parser_withstands_is_refused(requirement: str) -> None:
    assert ids(line(requirement)) == ["unparsable-torch"]


def test_a_constraint_is_judged_like_a_requirement() -> None:
    assert ids(line("torch==2.4.0", scope="constraint")) == ["torch-pin-mismatch"]


def test_a_task_that_installs_what_is_refused() -> None:
    check, finding = one(line("torch==2.1.0+cu118", scope="task"))
    assert check == "script-install"
    assert finding.message == "a task installs it: torch==2.1.0+cu118 is a build for CUDA"
    assert ids(line("bitsandbytes", scope="task")) == ["cuda-default-package"]


# rewrite_examples.csv of the findings. What is to be a comment stands here as the empty text.
@pytest.mark.parametrize(
    ("requirement", "stack", "instead"),
    [
        ("torch==2.4.0+cu121", A, ""),
        ("torch==2.4.0+cu121", B, ""),
        ("torch==2.4.0+cu121", C, ""),
        ("torch==2.4.0", A, ""),
        ("torch>=2.4", A, None),
        ("torch<=2.9.1", A, ""),
        ("torch>=2.2", C, "torch>=2.2.0a0"),
        ("torch>=2.2.0,<3", C, "torch>=2.2.0a0,<3"),
        ("torch>=2.3", C, ""),
        ("torch>=2.2,!=2.2.0a0", C, ""),
        ("torchvision==0.19.0", A, ""),
        ("triton==3.0.0", A, ""),
        ("nvidia-cublas-cu12==12.1.3.1", A, ""),
        ("flash-attn==2.6.3", A, ""),
        ("xformers==0.0.27", A, ""),
        ("bitsandbytes", A, ""),
        ("onnxruntime-gpu==1.18.0; sys_platform == 'linux'", A,
         "onnxruntime==1.18.0; sys_platform == 'linux'"),
        ("faiss-gpu-cu12>=1.8", A, "faiss-cpu>=1.8"),
        ("cupy-cuda12x==13.6.0", A, ""),
        ("jax[cuda12]>=0.4", A, "jax>=0.4"),
        ("jax[cuda12,k8s]>=0.4", A, "jax[k8s]>=0.4"),
        ("tensorflow[and-cuda]==2.17.0", A, "tensorflow==2.17.0"),
        ("torch==2.10.0+cu128; sys_platform != 'win32' and sys_platform != 'darwin'", A, ""),
        ("git+https://github.com/facebookresearch/pytorch3d.git", A, ""),
        ("torch==2.4.1", A, ""),
        ("nvidia-cutlass-dsl[cu13]", A, ""),
        ("deepspeed", A, None),
    ],
)  # fmt: skip
def test_what_may_stand_in_the_place_of_a_line(
    requirement: str, stack: Stack, instead: str | None
) -> None:
    _, finding = one(line(requirement), stack=stack)
    assert finding.fix
    assert finding.fix.instead == instead


def test_a_line_for_another_platform_stays() -> None:
    assert found(line("torch==2.7.1+cu128; sys_platform == 'win32'")) == []


def test_an_index_is_left_out() -> None:
    _, finding = one(
        entry("index", url="https://download.pytorch.org/whl/cu121", option="--extra-index-url")
    )
    assert finding.message == (
        "--extra-index-url https://download.pytorch.org/whl/cu121 serves builds for CUDA"
    )
    assert finding.fix
    assert finding.fix.instead == ""


def test_the_counterpart_is_named_where_the_line_goes() -> None:
    texts = {
        "git+https://github.com/facebookresearch/pytorch3d.git": "musa-dev",
        "flash-attn==2.6.3": "flash_attn_3",
        "xformers==0.0.27": "scaled_dot_product_attention",
        "spam==1+cu121": "leave it out",
        "vllm==1+cu121": "leave it out; build MooreThreads/vllm-musa from source",
        "torch==2.4.0+cu121": "the vendor's torch stays",
    }
    for requirement, text in texts.items():
        _, finding = one(line(requirement))
        assert finding.fix
        assert text in finding.fix.text


def file(path: str, included_by: str = "", problem: str = "") -> RequirementsFile:
    return RequirementsFile(path, "requirements", "utf-8", 1, problem, included_by)


def include(where: str, url: str, option: str = "-r") -> Entry:
    return Entry("include", where, f"{option} {url}", url=url, option=option)


def test_an_included_file_that_is_refused() -> None:
    files = (
        file("a/base.txt"),
        file("a/b.txt", "a/base.txt:1"),
        file("a/sub/cuda.txt", "a/b.txt:2"),
        file("a/fine.txt", "a/base.txt:3"),
    )
    entries = (
        include("a/base.txt:1", "b.txt"),
        include("a/b.txt:2", "./sub/cuda.txt"),
        entry_of("torch==2.4.0+cu121", "a/sub/cuda.txt:7"),
        include("a/base.txt:3", "fine.txt"),
        include("a/fine.txt:1", "base.txt"),
        entry_of("numpy", "a/fine.txt:2"),
    )
    said = {(check, f.where): f for check, f in found(*entries, files=files)}
    assert set(said) == {
        ("cuda-local-version", "a/sub/cuda.txt:7"),
        ("include-refused", "a/b.txt:2"),
        ("include-refused", "a/base.txt:1"),
        ("include-refused", "a/base.txt:3"),
        ("include-refused", "a/fine.txt:1"),
    }
    assert said["cuda-local-version", "a/sub/cuda.txt:7"].message == (
        "torch==2.4.0+cu121 is a build for CUDA (included by a/b.txt:2, a/base.txt:1)"
    )
    outer = said["include-refused", "a/base.txt:1"]
    assert outer.message == "-r b.txt asks for what is refused"
    assert outer.fix
    assert outer.fix.instead == "-r b.musa.txt"


def test_includes_that_are_harmless_or_not_read() -> None:
    files = (
        file("base.txt"),
        file("fine.txt", "base.txt:1"),
        file("gone.txt", "base.txt:2", "not there"),
        file("../outer/up.txt", "base.txt:4"),
    )
    entries = (
        include("base.txt:1", "fine.txt"),
        include("base.txt:2", "gone.txt"),
        include("base.txt:3", "https://example.invalid/r.txt", "-c"),
        include("base.txt:3", "https://example.invalid/r.txt", "-c")._replace(
            kind="unreadable", reason="not fetched"
        ),
        include("base.txt:4", "up.txt"),
    )
    said = [(check, f.where, f.message) for check, f in found(*entries, files=files)]
    assert said == [
        ("include-unread", "base.txt:3", "-c https://example.invalid/r.txt: not fetched"),
        (
            "include-unread",
            "base.txt:2",
            "-r gone.txt: not read, so nothing is known of what it asks for",
        ),
    ]


def test_an_included_address_that_may_concern_torch_is_refused() -> None:
    remote = include("base.txt:1", "https://example.invalid/torch.txt")
    failed = remote._replace(kind="unreadable", reason="not fetched")
    assert ids(remote, failed) == ["unparsable-torch"]
    circle = include("torch.txt:1", "torch.txt")
    failed = circle._replace(kind="unreadable", reason="includes itself: torch.txt > torch.txt")
    assert ids(circle, failed) == ["include-unread"]


def test_files_that_include_each_other() -> None:
    files = (file("a.txt", "b.txt:1"), file("b.txt", "a.txt:1"))
    entries = (
        include("a.txt:1", "b.txt"),
        include("b.txt:1", "a.txt"),
        entry_of("cupy", "b.txt:2"),
    )
    said = {(check, f.where): f.message for check, f in found(*entries, files=files)}
    assert {where for _, where in said} == {"a.txt:1", "b.txt:1", "b.txt:2"}
    assert said["cuda-only-package", "b.txt:2"].endswith("(included by a.txt:1, b.txt:1)")


def test_one_pass_serves_all_checks() -> None:
    first = Requirements((), (line("cupy"),))
    second = Requirements((), (line("cupy"),))
    said = _classify.findings("cuda-only-package", first, A)
    again = _classify.findings("cuda-only-package", first, A)
    assert next(said) is next(again)
    other = _classify.findings("cuda-only-package", second, A)
    assert next(other) is not next(_classify.findings("cuda-only-package", first, A))
    assert list(_classify.findings("torch-satisfied", Requirements((), (line("torch"),)), A))
    assert not list(_classify.findings("torch-satisfied", Requirements((), (line("torch"),)), N))


@given(st.from_regex(r"[a-z]{1,12}(?:-[a-z]{1,12}){0,2}", fullmatch=True))
def test_an_unknown_name_is_never_refused_for_the_name_alone(name: str) -> None:
    if package(name, "pypi") is None and name not in {"torch", "torchvision", "torchaudio"}:
        assert ids(line(name)) == []


@given(st.text(max_size=80))
def test_whatever_stands_there_is_judged(text: str) -> None:
    made = entry_of(text, "requirements.txt:1")
    for stack in (A, N):
        assert len(found(made, stack=stack)) <= 1
