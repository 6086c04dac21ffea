"""Lines that touch the torch family, or what depends on it."""

from musadoctor.api import Judgement, Layer, Requirements, Stack, check
from musadoctor_checks.requirements._classify import findings


@check("torch-pin-mismatch", layer=Layer.REQUIREMENTS, severity="error")
def torch_pin_mismatch(requirements: Requirements, stack: Stack) -> Judgement:
    """A line asks for another torch, torchvision, torchaudio or triton than the vendor's.

    ## Why it matters

    pip replaces what does not satisfy a requirement. It fetches NVIDIA's build from the public
    index and uninstalls the vendor's, and ends with exit code 0. A program that ran on the MUSA GPU
    then finds no GPU.

    What satisfies a requirement is PEP 440's business and easily misread. A post-release such as
    `2.9.1.post1+musa5.2.0` satisfies neither `==2.9.1` nor `<=2.9.1`; an alpha such as
    `2.2.0a0+git8ac9b20` sorts below `>=2.2`. The comparison here is pip's own for an installed
    version.

    ## How to fix

    Leave the line out: the vendor's build stays. On a host with an alpha lower the floor to that
    alpha, `torch>=2.2.0a0`. Where the project was made for another minor release, see whether its
    code works with the installed one.

    ## Symptoms

    - `torch==2.4.0`
    - `torch<=2.9.1` beside an installed `2.9.1.post1+musa5.2.0`
    - `torchvision==0.19.0`
    - `triton>=3.3.0`

    ## Sources

    pip 26.3 on stand-in wheels with the vendor's version strings, 2026-11-30; PEP 440.
    """
    return findings("torch-pin-mismatch", requirements, stack)


@check("torch-missing-vendor", layer=Layer.REQUIREMENTS, severity="error")
def torch_missing_vendor(requirements: Requirements, stack: Stack) -> Judgement:
    """Torch would go into an environment that has no vendor's build to keep.

    ## Why it matters

    A lock file, a Pipfile, a conda file and an image that starts from a plain base each make an
    environment of their own. Nothing of the vendor's is in it, so that even a bare `torch` brings
    NVIDIA's build. The same holds for `pip install --target`, for a torchvision that is missing
    beside the vendor's torch (upstream's pins its own torch), and for a host on which the installed
    torch is not the vendor's.

    ## How to fix

    Leave the line out, and install the vendor's torch, torch_musa, torchvision and torchaudio
    first, pinned (`==X+musaY`), with `--no-deps`, and from the Moore Threads package index alone.
    With `--extra-index-url` pip takes the highest version of any index.

    ## Symptoms

    - `name = "torch"` in a uv.lock or poetry.lock
    - `torch = "*"` in a Pipfile
    - `RUN pip install torch` after `FROM ubuntu:22.04`

    ## Sources

    pip 26.3, uv 0.13 and poetry 2.5 on stand-in wheels, 2026-11-30.
    """
    return findings("torch-missing-vendor", requirements, stack)


@check("torch-satisfied", layer=Layer.REQUIREMENTS, severity="warning")
def torch_satisfied(requirements: Requirements, stack: Stack) -> Judgement:
    """A torch requirement that the vendor's build satisfies, as long as nothing upgrades it.

    ## Why it matters

    pip leaves alone what satisfies a requirement. The same line replaces the vendor's build with
    `--upgrade`, `--force-reinstall` or `--ignore-installed`, under `uv sync` and `poetry install`,
    and in a new environment.

    ## How to fix

    Nothing has to be done. To be safe, install with `musadoctor guard -- pip install ...`, which
    gives pip the installed versions as constraints.

    ## Symptoms

    - `torch`
    - `torch>=2.2`

    ## Sources

    pip 26.3 and uv 0.13 on stand-in wheels, 2026-11-30.
    """
    return findings("torch-satisfied", requirements, stack)


@check("upgrade-flag", layer=Layer.REQUIREMENTS, severity="error")
def upgrade_flag(requirements: Requirements, stack: Stack) -> Judgement:
    """A flag makes the installer replace a torch that satisfies the requirement.

    ## Why it matters

    `pip install --upgrade torch` takes the newest torch of the index, which is NVIDIA's, and so do
    `--force-reinstall` and `--ignore-installed`. With `--upgrade-strategy eager`, which is what
    uv's `--upgrade` always does, it is enough that a package depends on torch: accelerate, peft,
    lightning. After `--ignore-installed` over a plain `2.5.0`, `pip list` even goes on showing the
    vendor's version.

    ## How to fix

    Leave the flag out, or the torch family; upgrade other packages by name. `--no-deps` keeps an
    upgrade from reaching torch.

    ## Symptoms

    - `pip install -U torch`
    - `uv pip install -U accelerate`
    - `pip install --force-reinstall peft`

    ## Sources

    pip 23.2 to 26.3 and uv 0.13 on stand-in wheels, 2026-11-30.
    """
    return findings("upgrade-flag", requirements, stack)


@check("torch-source-url", layer=Layer.REQUIREMENTS, severity="error")
def torch_source_url(requirements: Requirements, stack: Stack) -> Judgement:
    """The torch family is taken from an address of its own.

    ## Why it matters

    What comes from a URL or a repository is installed whatever is there, and it is not the vendor's
    build.

    ## How to fix

    Leave the line out: the vendor's build stays.

    ## Symptoms

    - `torch @ https://example.com/torch-2.4.0-cp310-cp310-linux_x86_64.whl`
    - `git+https://github.com/pytorch/vision.git`

    ## Sources

    pip's documentation on direct URLs, 2026-11.
    """
    return findings("torch-source-url", requirements, stack)


@check("build-isolation-torch", layer=Layer.REQUIREMENTS, severity="warning")
def build_isolation_torch(requirements: Requirements, stack: Stack) -> Judgement:
    """A project needs torch to be built.

    ## Why it matters

    pip builds in an environment of its own, into which it downloads what `build-system.requires`
    names: NVIDIA's torch with its libraries, several gigabytes. What is compiled there is compiled
    against that torch, not against the one that will load it.

    ## How to fix

    Install the project with `--no-build-isolation`, with its other build requirements installed
    before.

    ## Symptoms

    - `requires = ["setuptools", "torch"]` under `[build-system]`

    ## Sources

    PEP 518; pip's documentation on build isolation, 2026-11.
    """
    return findings("build-isolation-torch", requirements, stack)


@check("torch-pinning-dependent", layer=Layer.REQUIREMENTS, severity="error")
def torch_pinning_dependent(requirements: Requirements, stack: Stack) -> Judgement:
    """A package pins torch, so that installing it replaces the vendor's build.

    ## Why it matters

    The metadata of vllm, sglang, xformers, unsloth, torchtext and their like name one torch or a
    newer one. The line does not name torch, and still pip replaces it. `vllm-musa` of the public
    index is among them: it asks for upstream's vllm.

    ## How to fix

    The message names the counterpart for MUSA, where one is known. With `--no-deps` the package
    comes without its torch; whether it works is another question.

    ## Symptoms

    - `vllm>=0.4.2`
    - `xformers==0.0.27`
    - `unsloth`

    ## Sources

    pip's and uv's dry runs on hosts with three vendor versions, 2026-11-30; evidence for each
    package in `knowledge/requirements.csv`.
    """
    return findings("torch-pinning-dependent", requirements, stack)


@check("torch-pinning-no-deps", layer=Layer.REQUIREMENTS, severity="warning")
def torch_pinning_no_deps(requirements: Requirements, stack: Stack) -> Judgement:
    """A package that pins torch is installed without its dependencies.

    ## Why it matters

    `--no-deps` keeps the vendor's torch. The package was still made for another one, and its
    compiled parts for CUDA.

    ## How to fix

    Take the counterpart for MUSA, where the message names one; otherwise test what is needed of it.

    ## Symptoms

    - `pip install --no-deps vllm`

    ## Sources

    pip 26.3 on stand-in wheels, 2026-11-30.
    """
    return findings("torch-pinning-no-deps", requirements, stack)


@check("torch-dependent", layer=Layer.REQUIREMENTS, severity="warning")
def torch_dependent(requirements: Requirements, stack: Stack) -> Judgement:
    """A package works only in part on the vendor's torch and Triton.

    ## Why it matters

    Its kernels are written in Triton or compiled at run time. They need the vendor's Triton, which
    has upstream's name and a plain version; a requirement for a newer triton would replace it.

    ## How to fix

    Keep the vendor's Triton, and test the parts that are needed.

    ## Symptoms

    - `flash-linear-attention`
    - `liger-kernel`
    - `torchao`

    ## Sources

    Evidence for each package in `knowledge/requirements.csv`.
    """
    return findings("torch-dependent", requirements, stack)


@check("musa-vendor-pin", layer=Layer.REQUIREMENTS, severity="warning")
def musa_vendor_pin(requirements: Requirements, stack: Stack) -> Judgement:
    """A line asks for a vendor's build that is not the installed one.

    ## Why it matters

    torch, torch_musa, torchvision and torchaudio of the vendor's go together. One of another
    release beside the rest does not load, and the public index has none of them: a line without the
    vendor's index fails or finds something else of that name.

    ## How to fix

    Install the set that belongs together from the Moore Threads package index alone, each pinned
    and with `--no-deps`; or let the line say what is installed.

    ## Symptoms

    - `torch==2.7.1+musa4.3.6` beside an installed `2.9.1.post1+musa5.2.0`
    - `torch_musa==2.7.0`

    ## Sources

    MooreThreads/torch_musa README and MooreThreads/vllm-musa requirements/musa_private.txt,
    2026-11.
    """
    return findings("musa-vendor-pin", requirements, stack)


@check("musa-native", layer=Layer.REQUIREMENTS, severity="warning")
def musa_native(requirements: Requirements, stack: Stack) -> Judgement:
    """A package for MUSA whose name means something else, or nothing, on the public index.

    ## Why it matters

    Anybody may register a name that only the vendor's index serves. `mate` of the public index is
    a project of its own, `sglang-musa` an empty demonstration, and `mate-mubin` and `tilelang-musa`
    are free to be taken.

    ## How to fix

    Install it from the Moore Threads package index alone, pinned with its `+musa` label and with
    `--no-deps`, in a command of its own.

    ## Symptoms

    - `mate`
    - `tilelang_musa`

    ## Sources

    MooreThreads/vllm-musa requirements/musa_private.txt; the public index, asked on 2026-11-30.
    """
    return findings("musa-native", requirements, stack)
