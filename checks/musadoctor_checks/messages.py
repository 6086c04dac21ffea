"""Faults that only an error text shows: in a transcript, not in what a machine answers.

Their texts are in ``knowledge/messages.toml``; the other checks of a cause know theirs too.
"""

import re

from musadoctor.api import (
    Finding,
    Fix,
    Gpus,
    Judgement,
    Layer,
    Messages,
    TorchMusaBuild,
    Unknown,
    check,
)
from musadoctor_checks._messages import by_message, quoted

# Compiled when first needed: a live host has no lines to search.
_BF16 = r"(?ai)\bbf(?:loat)?16\b"
_FAILS = r"(?i)fail|error|not support|unsupported|cannot|wrong|不支持|失败|报错"


def _told(id: str, messages: Messages) -> Judgement:  # noqa: A002
    """The finding, else not known: that a text does not show a fault clears nothing."""
    found = list(by_message(id, messages, {}))
    yield from found
    if not found:
        yield Unknown("no line of the transcript tells of it")


@check("driver-does-not-know-card", layer=Layer.HARDWARE, severity="error")
def driver_does_not_know_card(messages: Messages) -> Judgement:
    """The driver's user space does not know this card.

    ## Why it matters

    The library refuses the card as soon as a process starts. The kernel driver and the card may
    be in order: what is wrong is the release of the user space, often that of an image made for
    other cards.

    ## How to fix

    Use an image or SDK whose notes name this card.

    ## Symptoms

    - `mtgpu_device_initialize: mtgpu_query_marketing_name failed (-22)`
    - `mtgpu_query_dev_info failed (-22)`

    ## Sources

    torch_musa issue 134; vllm-musa issue 227 (2026-09).
    """
    yield from _told("driver-does-not-know-card", messages)


@check("glibc-too-old", layer=Layer.MACHINE, severity="error")
def glibc_too_old(messages: Messages) -> Judgement:
    """The C library of this system is older than the software asks for.

    ## Why it matters

    A program that was built on a newer distribution asks the C library for functions that this
    one does not have.

    ## How to fix

    Use the distribution that the vendor builds for (Ubuntu 22.04), or a container of it.

    ## Symptoms

    - `/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found`

    ## Sources

    torch_musa issue 73 (2024-12).
    """
    yield from _told("glibc-too-old", messages)


@check("container-started-without-runtime", layer=Layer.CONTAINER, severity="error")
def container_started_without_runtime(messages: Messages) -> Judgement:
    """Docker starts containers without the vendor's runtime.

    ## Why it matters

    Images carry neither the driver's libraries nor `mthreads-gmi`: the runtime `mthreads` puts
    the host's into the container. With `runc` as the default runtime they are not there.

    ## How to fix

    Install mt-container-toolkit on the host, bind it with `(cd /usr/bin/musa && sudo ./docker
    setup $PWD)`, restart docker, and start the container anew.

    ## Symptoms

    - `exec: "mthreads-gmi": executable file not found in $PATH`
    - `unknown or invalid runtime name: mthreads`
    - `Default Runtime: runc`

    ## Sources

    musa-deploy 0.7.0 (2025-08).
    """
    yield from _told("container-started-without-runtime", messages)


@check("cxx-headers-missing", layer=Layer.ENVIRONMENT, severity="warning")
def cxx_headers_missing(messages: Messages) -> Judgement:
    """The compiler does not find C++ headers.

    ## Why it matters

    mcc is a clang and takes the newest gcc folder that it finds. Where that gcc came without
    its C++ part, no header of the C++ library is found.

    ## How to fix

    Install the C++ part of the newest gcc that is there, or remove that gcc.

    ## Symptoms

    - `fatal error: 'type_traits' file not found`
    - `thrust/complex.h: No such file or directory`

    ## Sources

    torch_musa issues 127 and 141 (2026).
    """
    yield from _told("cxx-headers-missing", messages)


@check("build-for-other-architecture", layer=Layer.ENVIRONMENT, severity="warning")
def build_for_other_architecture(messages: Messages) -> Judgement:
    """Code is compiled for an architecture that it is not made for.

    ## Why it matters

    Without an architecture mcc compiles for several, mp_10 among them, whose limits are
    smaller.

    ## How to fix

    Name the card's architecture: `--offload-arch=mp_22`, or `TORCH_MUSA_ARCH_LIST` for
    extensions.

    ## Symptoms

    - `error: shared memory (42904) exceeds limit (28672) in function`
    - `7 errors generated when compiling for mp_10`

    ## Sources

    tutorial_on_musa, mmcv port (2025-08).
    """
    yield from _told("build-for-other-architecture", messages)


@check("package-built-for-cuda", layer=Layer.TORCH, severity="error")
def package_built_for_cuda(messages: Messages) -> Judgement:
    """A package asks for a library of CUDA.

    ## Why it matters

    The package was built for CUDA and cannot be loaded here. torch and torch_musa themselves
    may be in order.

    ## How to fix

    Replace the package by its MUSA build, or build it from source against the installed torch.

    ## Symptoms

    - `OSError: libcudart.so.13: cannot open shared object file`

    ## Sources

    torch_musa issue 143 (2026).
    """
    yield from _told("package-built-for-cuda", messages)


@check("mudnn-operation-fails", layer=Layer.TORCH_MUSA, severity="warning")
def mudnn_operation_fails(messages: Messages) -> Judgement:
    """muDNN refuses an operation.

    ## Why it matters

    Either this release of muDNN does not support the type or shape, or muDNN, Toolkit and
    torch_musa are of different releases.

    ## How to fix

    Bring the three to one SDK release. If they are, it is a gap of muDNN: report the operation
    with its types and shapes.

    ## Symptoms

    - `Conv2d MUDNN failed in: RunFusion`
    - `ERROR# NOT_SUPPORTED in Reduce::Run`

    ## Sources

    torch_musa issues 42 and 58 (2024).
    """
    yield from _told("mudnn-operation-fails", messages)


@check("card-without-flash-attention", layer=Layer.TORCH_MUSA, severity="warning")
def card_without_flash_attention(messages: Messages) -> Judgement:
    """Flash attention is asked of a card that does not have it.

    ## Why it matters

    Flash attention needs compute capability 2.2. S80, S70 and S3000 are of 2.1.

    ## How to fix

    Choose the mathematical or the memory-efficient attention.

    ## Symptoms

    - `Flash attention only supports architecture with mp version 2.2. But now attempts to run on a
      mp 2.1 gpu.`

    ## Sources

    torch_musa source (2024-03).
    """
    yield from _told("card-without-flash-attention", messages)


@check("gpu-memory-exhausted", layer=Layer.TORCH_MUSA, severity="warning")
def gpu_memory_exhausted(messages: Messages) -> Judgement:
    """The memory of the card is used up.

    ## Why it matters

    The model, its batch and what other processes hold do not fit. Nothing is wrong with the
    installation.

    ## How to fix

    See who holds memory with `mthreads-gmi`, lower the batch size or the precision. A desktop
    on an S80 takes some hundred MiB.

    ## Symptoms

    - `RuntimeError: MUSA out of memory`

    ## Sources

    torch_musa issues 14 and 16 (2023-09).
    """
    yield from _told("gpu-memory-exhausted", messages)


@check("operator-missing", layer=Layer.TORCH_MUSA, severity="note")
def operator_missing(messages: Messages) -> Judgement:
    """torch_musa has no such operator.

    ## Why it matters

    It is a gap of this release of torch_musa, not a fault of the installation.

    ## How to fix

    Take a newer torch_musa or compute the operator on the CPU; report it with a minimal
    program.

    ## Symptoms

    - `Could not run 'aten::...' with arguments from the 'musa' backend`

    ## Sources

    torch_musa issues 17, 72, 94 and 114 (2025).
    """
    yield from _told("operator-missing", messages)


@check("cuda-api-sees-no-gpu", layer=Layer.TORCH_MUSA, severity="note")
def cuda_api_sees_no_gpu(messages: Messages) -> Judgement:
    """The program asks torch.cuda, which tells nothing of MUSA.

    ## Why it matters

    `torch.cuda.is_available()` is False on MUSA by design, also under torchada, and programs
    that ask it fall back to the CPU silently.

    ## How to fix

    Ask `torch.musa.is_available()`, or `torch.accelerator` where torch has it.

    ## Symptoms

    - `torch.cuda.is_available() returns False`

    ## Sources

    torchada issue 53 (2026-04).
    """
    yield from _told("cuda-api-sees-no-gpu", messages)


@check("mtlink-absent", layer=Layer.COLLECTIVES, severity="note")
def mtlink_absent(messages: Messages) -> Judgement:
    """The cards have no MTLink.

    ## Why it matters

    Cards without MTLink exchange data over PCIe: slower, and nothing is broken.

    ## How to fix

    Nothing on cards that have none. On S4000 and S5000 servers look at the bridges.

    ## Symptoms

    - `mthreads-gmi mtlink -s: the requested operation is not available on target device`

    ## Sources

    musa-deploy 0.7.0 (2025-08).
    """
    yield from _told("mtlink-absent", messages)


@check("bf16-asked-of-card-without-it", layer=Layer.HARDWARE, severity="error")
def bf16_asked_of_card_without_it(messages: Messages, gpus: Gpus) -> Judgement:
    """A program computes in bfloat16 on a card that does not.

    ## Why it matters

    Cards of architecture mp_21 (S80, S70, S3000) can hold bfloat16 tensors, but not compute with
    them. `torch.musa.is_bf16_supported()` may say True all the same.

    ## How to fix

    Load models in float16 or float32.

    ## Sources

    torch_musa issues 21 and 122 (2025-12-24); torch_musa source.
    """
    if gpus.architectures != ("mp_21",):
        return
    for line in messages.lines:
        if re.search(_BF16, line.text) and re.search(_FAILS, line.text):
            yield quoted(
                line,
                f"{', '.join(gpus.products)} has no arithmetic in bfloat16 (mp_21)",
                "Load models in float16 or float32",
            )
            return
    yield Unknown("no line of the transcript tells of it")


@check("not-linux", layer=Layer.MACHINE, severity="error")
def not_linux(messages: Messages) -> Judgement:
    """This is Windows, for which there is no torch_musa.

    ## Why it matters

    torch_musa, the Toolkit and the compute driver are published for Linux on x86_64 only. The
    graphics driver for Windows has nothing to do with them.

    ## How to fix

    Install Linux on the machine itself, for instance Ubuntu 22.04; WSL does not do.

    ## Sources

    torch_musa issues 27 and 28 (2024-02).
    """
    for line in messages.of_kind("windows"):
        yield Finding(
            f"{line}: torch_musa is for Linux only",
            where=line.where,
            fix=Fix("Run a native Linux, for instance Ubuntu 22.04, on this machine"),
        )
    if not messages.of_kind("windows"):
        yield Unknown("no line of the transcript tells of it")


@check("image-holds-other-torch-musa", layer=Layer.CONTAINER, severity="warning")
def image_holds_other_torch_musa(messages: Messages, torch_musa_build: TorchMusaBuild) -> Judgement:
    """The image's tag names another torch_musa than the one in it.

    ## Why it matters

    The vendor's tags name the SDK and torch_musa, `rc3.0.1-v1.2.1-S4000-py38`. Where what is inside
    differs, torch_musa may be made for another Toolkit than the image has.

    ## How to fix

    Install the torch_musa that the tag names into the image, or take a newer image.

    ## Sources

    torch_musa issue 57 (2024-09).
    """
    if not messages.of_kind("image"):
        yield Unknown("no image tag is shown")
    inside = ".".join(map(str, torch_musa_build.version.key[:3]))
    for line in messages.of_kind("image"):
        if line.text != inside:
            yield Finding(
                f"the image's tag names torch_musa {line.text} ({line.where}), in it is"
                f" {torch_musa_build}",
                where=line.where,
                fix=Fix(f"Install torch_musa {line.text} of the vendor, or take another image"),
            )
            return


@check("runtime-refuses-cards", layer=Layer.HARDWARE, severity="error")
def runtime_refuses_cards(messages: Messages) -> Judgement:
    """The runtime refuses the cards as they are set up (error 801).

    ## Why it matters

    `musaGetDeviceCount` fails before any device is counted. The cards and their driver are there:
    it is the IOMMU, or cards of two kinds in one host.

    ## How to fix

    - S4000 in a machine with 256 GB of memory or more: switch the IOMMU on (see `iommu-off`).
    - S5000: switch it off (see `iommu-on`).
    - Cards of two kinds: show one kind only, by `MUSA_VISIBLE_DEVICES`.

    ## Symptoms

    - `Unexpected error from musaGetDeviceCount() ... Error 801: operation not supported`

    ## Sources

    tutorial_on_musa, environment FAQ item 3 (2024/2025) and issue 26.
    """
    yield from _told("runtime-refuses-cards", messages)


@check(
    "runtime-unknown-error", layer=Layer.TORCH_MUSA, severity="error", follows_from=Layer.HARDWARE
)
def runtime_unknown_error(messages: Messages) -> Judgement:
    """The runtime says "unknown error", which names no cause.

    ## Why it matters

    The text comes late: an earlier call failed, and the next one reports it. Known reasons are a
    lock-up of the card, a mask that does not fit the process, and the autotuner of triton 3.2.0.

    ## How to fix

    Run again with `MUSA_LAUNCH_BLOCKING=1`, so that the call that fails is the one that is named,
    and look for `Guilty Lockup` in the kernel log. If it comes from triton, take the newer triton
    that the vendor publishes, or a fixed configuration in place of the autotuner.

    ## Symptoms

    - `RuntimeError: MUSA error: unknown error`
    - `MUSA unknown error ... changing env variable MUSA_VISIBLE_DEVICES after program start`

    ## Sources

    torch_musa issues 22 and 75; FlagGems issue 6080 (2026-09); Miles FSDP2 report.
    """
    yield from _told("runtime-unknown-error", messages)
