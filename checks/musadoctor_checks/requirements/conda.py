"""Packages and channels of conda, none of which has builds for MUSA."""

from musadoctor.api import Judgement, Layer, Requirements, Stack, check
from musadoctor_checks.requirements._classify import findings


@check("conda-torch", layer=Layer.REQUIREMENTS, severity="error")
def conda_torch(requirements: Requirements, stack: Stack) -> Judgement:
    """Conda would install a torch of its own.

    ## Why it matters

    No conda channel has the vendor's build. Whatever conda calls pytorch computes with CUDA or on
    the CPU, and pip's torch beside it overwrites its files, or the other way round.

    ## How to fix

    Make the environment without pytorch, torchvision, torchaudio and triton, and install the
    vendor's wheels into it with pip.

    ## Symptoms

    - `- pytorch=2.5`
    - `- pytorch::torchvision`

    ## Sources

    The channels' package lists, 2026-11.
    """
    return findings("conda-torch", requirements, stack)


@check("conda-cuda", layer=Layer.REQUIREMENTS, severity="error")
def conda_cuda(requirements: Requirements, stack: Stack) -> Judgement:
    """Conda would install a package for NVIDIA's CUDA.

    ## Why it matters

    It is of no use on a MUSA host, and it makes conda choose CUDA builds of other packages.

    ## How to fix

    Leave it out.

    ## Symptoms

    - `- cudatoolkit=11.1`
    - `- pytorch-cuda=12.4`
    - `- cuda-nvcc`

    ## Sources

    The channels' package lists, 2026-11.
    """
    return findings("conda-cuda", requirements, stack)


@check("conda-cuda-build", layer=Layer.REQUIREMENTS, severity="error")
def conda_cuda_build(requirements: Requirements, stack: Stack) -> Judgement:
    """A conda package is pinned to a build for CUDA.

    ## Why it matters

    The build string fixes the very file that was made for CUDA, with CUDA packages behind it.

    ## How to fix

    Leave the build string out, or ask for a build for the CPU: `=*=cpu*`.

    ## Symptoms

    - `- kaldi=5.5.1172=cuda129h7da9cb1_1`

    ## Sources

    conda's documentation of match specifications, 2026-11.
    """
    return findings("conda-cuda-build", requirements, stack)


@check("conda-cuda-channel", layer=Layer.REQUIREMENTS, severity="error")
def conda_cuda_channel(requirements: Requirements, stack: Stack) -> Judgement:
    """A conda channel has builds for CUDA.

    ## Why it matters

    Conda prefers a channel that stands above others, so that a package that several have comes from
    NVIDIA's.

    ## How to fix

    Leave the channel out.

    ## Symptoms

    - `- nvidia`
    - `- nvidia/label/cuda-11.8.0`

    ## Sources

    conda's documentation of channel priority, 2026-11.
    """
    return findings("conda-cuda-channel", requirements, stack)


@check("conda-torch-channel", layer=Layer.REQUIREMENTS, severity="warning")
def conda_torch_channel(requirements: Requirements, stack: Stack) -> Judgement:
    """A conda channel has upstream's torch only.

    ## Why it matters

    By itself it installs nothing. A torch that is asked for comes from it, and is not the vendor's.

    ## How to fix

    Leave the channel out.

    ## Symptoms

    - `- pytorch` under `channels:`

    ## Sources

    The channel's package list, 2026-11.
    """
    return findings("conda-torch-channel", requirements, stack)
