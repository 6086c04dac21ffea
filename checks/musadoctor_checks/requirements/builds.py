"""Lines that choose a build by its label, its address or its index."""

from musadoctor.api import Judgement, Layer, Requirements, Stack, check
from musadoctor_checks.requirements._classify import findings


@check("cuda-local-version", layer=Layer.REQUIREMENTS, severity="error")
def cuda_local_version(requirements: Requirements, stack: Stack) -> Judgement:
    """A version names a build for CUDA.

    ## Why it matters

    `+cu121` is a local version label: it asks for the build that was made with CUDA 12.1, and no
    other satisfies it. No such build runs on a MUSA GPU.

    ## How to fix

    Leave the line out where it is the torch family, whose vendor's build stays; otherwise see
    whether there is a build for MUSA or for the CPU.

    ## Symptoms

    - `torch==2.4.0+cu121`
    - `torch~=2.3.1+cu121`, which pip does not even accept

    ## Sources

    PEP 440 on local version identifiers.
    """
    return findings("cuda-local-version", requirements, stack)


@check("foreign-local-version", layer=Layer.REQUIREMENTS, severity="error")
def foreign_local_version(requirements: Requirements, stack: Stack) -> Judgement:
    """A version names a build for ROCm, XPU or another back end, or torch for the CPU.

    ## Why it matters

    Only that very build satisfies the line. A torch for the CPU or for another vendor's GPU takes
    the place of the one that knows the MUSA GPU.

    ## How to fix

    Leave the line out: the vendor's build stays.

    ## Symptoms

    - `torch==2.4.1+cpu`
    - `torch==2.7.1+rocm6.3`

    ## Sources

    PEP 440 on local version identifiers.
    """
    return findings("foreign-local-version", requirements, stack)


@check("cpu-local-version", layer=Layer.REQUIREMENTS, severity="warning")
def cpu_local_version(requirements: Requirements, stack: Stack) -> Judgement:
    """A package other than torch is taken as a build for the CPU.

    ## Why it matters

    It works and replaces nothing of the vendor's, but computes on the CPU.

    ## How to fix

    See whether there is a build for MUSA, if its speed matters.

    ## Symptoms

    - `llama-cpp-python==0.3.1+cpu`

    ## Sources

    PEP 440 on local version identifiers.
    """
    return findings("cpu-local-version", requirements, stack)


@check("cuda-wheel-url", layer=Layer.REQUIREMENTS, severity="error")
def cuda_wheel_url(requirements: Requirements, stack: Stack) -> Judgement:
    """A wheel built for CUDA is named by its address.

    ## Why it matters

    pip installs what a URL or a path points to, whatever is installed. `%2Bcu121` in it is
    `+cu121`.

    ## How to fix

    Leave the line out, or take a build for MUSA or for the CPU.

    ## Symptoms

    - `https://download.pytorch.org/whl/cu121/torch-2.4.0%2Bcu121-cp310-cp310-linux_x86_64.whl`
    - `./wheels/flash_attn-2.6.3+cu123torch2.4cxx11abiFALSE-cp310-cp310-linux_x86_64.whl`

    ## Sources

    The wheel specification on file names.
    """
    return findings("cuda-wheel-url", requirements, stack)


@check("foreign-wheel-url", layer=Layer.REQUIREMENTS, severity="error")
def foreign_wheel_url(requirements: Requirements, stack: Stack) -> Judgement:
    """A wheel built for another back end is named by its address.

    ## Why it matters

    pip installs what a URL points to. A torch for the CPU, for ROCm or for XPU replaces the
    vendor's.

    ## How to fix

    Leave the line out: the vendor's build stays.

    ## Symptoms

    - `https://download.pytorch.org/whl/cpu/torch-1.10.0%2Bcpu-cp37-cp37m-linux_x86_64.whl`

    ## Sources

    The wheel specification on file names.
    """
    return findings("foreign-wheel-url", requirements, stack)


@check("cuda-index", layer=Layer.REQUIREMENTS, severity="error")
def cuda_index(requirements: Requirements, stack: Stack) -> Judgement:
    """An index or a page of links serves builds for CUDA.

    ## Why it matters

    An index holds for every line of the run, whichever file it stands in. With
    `--extra-index-url` pip takes the highest version of any index, and `2.4.0+cu121` is higher
    than `2.4.0`.

    ## How to fix

    Leave the index out, and put none in its place: the vendor's index, too, would hold for every
    line, and it has old versions of ordinary packages. Install the vendor's builds in a command of
    their own.

    ## Symptoms

    - `--extra-index-url https://download.pytorch.org/whl/cu121`
    - `-f https://download.pytorch.org/whl/torch_stable.html`
    - `torch = [{ index = "pytorch-cu128" }]` under `[tool.uv.sources]`

    ## Sources

    pip's documentation of `--extra-index-url`; uv's of `tool.uv.sources`, 2026-11.
    """
    return findings("cuda-index", requirements, stack)


@check("foreign-index", layer=Layer.REQUIREMENTS, severity="error")
def foreign_index(requirements: Requirements, stack: Stack) -> Judgement:
    """An index serves builds for another accelerator.

    ## Why it matters

    It holds for every line of the run: a torch of it would be one for ROCm, XPU or a TPU.

    ## How to fix

    Leave the index out.

    ## Symptoms

    - `--extra-index-url https://download.pytorch.org/whl/rocm6.3`
    - `-f https://storage.googleapis.com/jax-releases/libtpu_releases.html`

    ## Sources

    pip's documentation of `--extra-index-url`, 2026-11.
    """
    return findings("foreign-index", requirements, stack)


@check("cpu-index", layer=Layer.REQUIREMENTS, severity="warning")
def cpu_index(requirements: Requirements, stack: Stack) -> Judgement:
    """An index serves builds for the CPU.

    ## Why it matters

    What is installed already is kept, if it satisfies the line. Any torch that does come from this
    index computes on the CPU and replaces the vendor's.

    ## How to fix

    Leave the index out.

    ## Symptoms

    - `--extra-index-url https://download.pytorch.org/whl/cpu`

    ## Sources

    pip's documentation of `--extra-index-url`, 2026-11.
    """
    return findings("cpu-index", requirements, stack)


@check("cuda-build-flag", layer=Layer.REQUIREMENTS, severity="error")
def cuda_build_flag(requirements: Requirements, stack: Stack) -> Judgement:
    """A flag has a package built for CUDA.

    ## Why it matters

    The build looks for nvcc and fails, or links against CUDA libraries that are not there.

    ## How to fix

    Leave the flag out. llama.cpp has a back end for MUSA: `-DGGML_MUSA=on`.

    ## Symptoms

    - `llama-cpp-python -C cmake.args="-DGGML_CUDA=on"`
    - `ENV CMAKE_ARGS="-DGGML_CUDA=on"`

    ## Sources

    ggml-org/llama.cpp docs/build.md, 2026-11.
    """
    return findings("cuda-build-flag", requirements, stack)


@check("cuda-build-env", layer=Layer.REQUIREMENTS, severity="warning")
def cuda_build_env(requirements: Requirements, stack: Stack) -> Judgement:
    """A variable is set for building CUDA code.

    ## Why it matters

    It replaces nothing, but tells that something in this file is compiled with nvcc.

    ## How to fix

    Leave it out together with what it is set for.

    ## Symptoms

    - `ENV TORCH_CUDA_ARCH_LIST="8.0;8.6"`
    - `ARG CUDA_ARCHITECTURES`

    ## Sources

    PyTorch's torch.utils.cpp_extension, 2026-11.
    """
    return findings("cuda-build-env", requirements, stack)


@check("cuda-base-image", layer=Layer.REQUIREMENTS, severity="error")
def cuda_base_image(requirements: Requirements, stack: Stack) -> Judgement:
    """An image starts from one for NVIDIA's CUDA.

    ## Why it matters

    It holds NVIDIA's libraries and often NVIDIA's torch. Nothing in it knows a MUSA GPU, and what
    is installed on top is installed beside that torch.

    ## How to fix

    Start from an image of Moore Threads, which holds the Toolkit and the vendor's torch.

    ## Symptoms

    - `FROM nvidia/cuda:12.1.1-cudnn8-devel-ubuntu22.04`
    - `FROM pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime`

    ## Sources

    The images' pages on Docker Hub and NGC, 2026-11.
    """
    return findings("cuda-base-image", requirements, stack)


@check("cuda-system-requirement", layer=Layer.REQUIREMENTS, severity="error")
def cuda_system_requirement(requirements: Requirements, stack: Stack) -> Judgement:
    """A pixi project requires a host with CUDA.

    ## Why it matters

    pixi refuses to solve for a host without it, or chooses CUDA builds of every package that has
    them.

    ## How to fix

    Leave `cuda` out of `[system-requirements]`.

    ## Symptoms

    - `cuda = "12"` under `[system-requirements]`

    ## Sources

    pixi's documentation of system requirements, 2026-11.
    """
    return findings("cuda-system-requirement", requirements, stack)
