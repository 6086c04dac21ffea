"""Packages that are for other GPUs, and what is not known of a package."""

from musadoctor.api import Judgement, Layer, Requirements, Stack, check
from musadoctor_checks.requirements._classify import findings


@check("nvidia-runtime", layer=Layer.REQUIREMENTS, severity="error")
def nvidia_runtime(requirements: Requirements, stack: Stack) -> Judgement:
    """A part of NVIDIA's CUDA runtime would be installed.

    ## Why it matters

    These wheels come with NVIDIA's torch; a file that lists them was frozen from such an
    environment. Those for CUDA 13 have no suffix any more: `nvidia-cublas`, `cuda-toolkit`.

    ## How to fix

    Leave them out: nothing of them is used here.

    ## Symptoms

    - `nvidia-cublas-cu12==12.1.3.1`
    - `nvidia-cuda-runtime`
    - `cuda-bindings`

    ## Sources

    pip's dry runs of torch for CUDA 12 and 13, 2026-11-30.
    """
    return findings("nvidia-runtime", requirements, stack)


@check("cuda-only-package", layer=Layer.REQUIREMENTS, severity="error")
def cuda_only_package(requirements: Requirements, stack: Stack) -> Judgement:
    """A package works on NVIDIA GPUs only.

    ## Why it matters

    It installs without a word, and fails on import or at the first call, often by a missing
    `libcuda.so.1`. Some bring NVIDIA's torch with them.

    ## How to fix

    Some have a twin of the same versions for the CPU: `onnxruntime` for `onnxruntime-gpu`,
    `faiss-cpu` for `faiss-gpu`, `tensorflow` for `tensorflow-gpu`. Others have none; then the code
    that imports them has to do without.

    ## Symptoms

    - `onnxruntime-gpu==1.18.0`
    - `cupy-cuda12x`
    - `ImportError: libcuda.so.1: cannot open shared object file`

    ## Sources

    Evidence for each package in `knowledge/requirements.csv`.
    """
    return findings("cuda-only-package", requirements, stack)


@check("cuda-ext-build", layer=Layer.REQUIREMENTS, severity="error")
def cuda_ext_build(requirements: Requirements, stack: Stack) -> Judgement:
    """A package compiles CUDA code against torch, or is a wheel of such code.

    ## Why it matters

    Without nvcc its build fails, often after it has fetched NVIDIA's torch into a build
    environment. Its wheels are bound to one torch with CUDA and do not load on the vendor's.

    ## How to fix

    The message names a port or a counterpart, where one is known; flash-attn's has another import
    name, so that the code has to change, too. torchada can map `CUDAExtension` to the MUSA compiler
    for code that is to be ported.

    ## Symptoms

    - `flash-attn==2.6.3`
    - `git+https://github.com/facebookresearch/pytorch3d.git`
    - `OSError: CUDA_HOME environment variable is not set.`

    ## Sources

    The setup.py of the repositories; evidence for each package in `knowledge/requirements.csv`.
    """
    return findings("cuda-ext-build", requirements, stack)


@check("cuda-ext-optional", layer=Layer.REQUIREMENTS, severity="warning")
def cuda_ext_optional(requirements: Requirements, stack: Stack) -> Judgement:
    """A package has CUDA code that it compiles only on request.

    ## Why it matters

    It installs and works without that code. With `CUDA_HOME` or its own switch set, it tries to
    compile it and fails.

    ## How to fix

    Install it without the switch that the message names.

    ## Symptoms

    - `fairscale==0.4.13`

    ## Sources

    Evidence for each package in `knowledge/requirements.csv`.
    """
    return findings("cuda-ext-optional", requirements, stack)


@check("own-cuda-extension", layer=Layer.REQUIREMENTS, severity="warning")
def own_cuda_extension(requirements: Requirements, stack: Stack) -> Judgement:
    """The project itself compiles CUDA code.

    ## Why it matters

    Its setup.py makes a `CUDAExtension`, which is compiled with nvcc. There is none on a MUSA host.

    ## How to fix

    torchada maps `CUDAExtension` to the MUSA compiler: import it at the head of setup.py, and build
    with `--no-build-isolation`, so that it is the vendor's torch that is compiled against.

    ## Symptoms

    - `ext_modules=[CUDAExtension("ops", ["ops.cu"])]`

    ## Sources

    torchada's README, 2026-11.
    """
    return findings("own-cuda-extension", requirements, stack)


@check("cuda-extra", layer=Layer.REQUIREMENTS, severity="error")
def cuda_extra(requirements: Requirements, stack: Stack) -> Judgement:
    """An extra brings CUDA packages.

    ## Why it matters

    The package itself may run on any host. Its extra names NVIDIA's libraries, or a plugin that
    takes an NVIDIA GPU for granted.

    ## How to fix

    Leave the extra out, and keep the rest of the line.

    ## Symptoms

    - `jax[cuda12]>=0.4`
    - `tensorflow[and-cuda]==2.17.0`

    ## Sources

    The packages' metadata, 2026-11.
    """
    return findings("cuda-extra", requirements, stack)


@check("gpu-extra", layer=Layer.REQUIREMENTS, severity="warning")
def gpu_extra(requirements: Requirements, stack: Stack) -> Judgement:
    """An extra named gpu, of which nothing else is known.

    ## Why it matters

    In most packages it brings CUDA builds.

    ## How to fix

    See in the package's metadata what the extra names, or leave it out.

    ## Symptoms

    - `spam[gpu]`
    """
    return findings("gpu-extra", requirements, stack)


@check("cuda-default-package", layer=Layer.REQUIREMENTS, severity="warning")
def cuda_default_package(requirements: Requirements, stack: Stack) -> Judgement:
    """A package is made for CUDA where nothing else is said, but it installs.

    ## Why it matters

    Its usual wheel is built for CUDA and loads it lazily, or its kernels are compiled at run time.
    It is imported without error, and fails or falls back to the CPU when it is used.

    ## How to fix

    The message names what to set or to take instead.

    ## Symptoms

    - `bitsandbytes`
    - `deepspeed==0.15.1`

    ## Sources

    Evidence for each package in `knowledge/requirements.csv`.
    """
    return findings("cuda-default-package", requirements, stack)


@check("cuda-optional-package", layer=Layer.REQUIREMENTS, severity="warning")
def cuda_optional_package(requirements: Requirements, stack: Stack) -> Judgement:
    """A package works, but without the MUSA GPU.

    ## Why it matters

    It computes on the CPU here, or leaves out what it needs CUDA for.

    ## How to fix

    Nothing has to be done, unless its speed matters; the message names a port, where one is known.

    ## Symptoms

    - `tensorflow==2.18.0`
    - `torchcodec>=0.9.1`

    ## Sources

    Evidence for each package in `knowledge/requirements.csv`.
    """
    return findings("cuda-optional-package", requirements, stack)


@check("nvidia-monitor", layer=Layer.REQUIREMENTS, severity="warning")
def nvidia_monitor(requirements: Requirements, stack: Stack) -> Judgement:
    """A package watches NVIDIA GPUs.

    ## Why it matters

    It loads NVIDIA's management library, which is not there: its first call fails.

    ## How to fix

    `mthreads-ml-py` (import `pymtml`), `nvitop-musa` and `musatop` do the same for Moore Threads
    GPUs.

    ## Symptoms

    - `pynvml==11.5.3`
    - `NVMLError_LibraryNotFound: NVML Shared Library Not Found`

    ## Sources

    The packages' pages on the public index, 2026-11.
    """
    return findings("nvidia-monitor", requirements, stack)


@check("other-accelerator", layer=Layer.REQUIREMENTS, severity="error")
def other_accelerator(requirements: Requirements, stack: Stack) -> Judgement:
    """A package, an extra or an image is for another vendor's accelerator.

    ## Why it matters

    It does nothing on a MUSA GPU, and many of its kind replace torch or triton.

    ## How to fix

    Leave it out, or give the line a marker that is true on the hosts that it is for.

    ## Symptoms

    - `torch-npu==2.10.0`
    - `jax[tpu]`
    - `onnxruntime-rocm`

    ## Sources

    Evidence for each package in `knowledge/requirements.csv`.
    """
    return findings("other-accelerator", requirements, stack)


@check("unchecked-package", layer=Layer.REQUIREMENTS, severity="warning")
def unchecked_package(requirements: Requirements, stack: Stack) -> Judgement:
    """A package is likely to need CUDA, another accelerator or another torch: not checked.

    ## Why it matters

    That it does is general knowledge, or only suggested by its name.
    Too little to refuse it.

    ## How to fix

    See what it depends on: `musadoctor guard --deep` asks a resolver.

    ## Symptoms

    - `dgl`
    - `nvidia-something`

    ## Sources

    General knowledge; the rows are marked so in `knowledge/requirements.csv`.
    """
    return findings("unchecked-package", requirements, stack)
