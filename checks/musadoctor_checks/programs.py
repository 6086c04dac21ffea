"""Faults of programs and of builds, which only an error text in a transcript shows.

Their texts are in ``knowledge/messages.toml``.
"""

from musadoctor.api import Judgement, Layer, Messages, Unknown, check
from musadoctor_checks._messages import by_message


def _undecided(messages: Messages) -> Unknown:
    """What a check says by itself; a known text makes it a finding (``said``)."""
    return Unknown(f"none of {len(messages.lines)} lines that could tell of it does")


@check("driver-bound-while-building", layer=Layer.CONTAINER, severity="error", said=by_message)
def driver_bound_while_building(messages: Messages) -> Judgement:
    """An image is built with the host's driver files bound into it.

    ## Why it matters

    `MTHREADS_VISIBLE_DEVICES` in an `ARG` or `ENV` line of a Dockerfile is in force while the image
    is built. The vendor's runtime then binds the driver's files of the host, and packages that
    bring files of the same names cannot be installed over them.

    ## How to fix

    Take the variable out of the build, and set it when the container is started.

    ## Symptoms

    - `Invalid cross-device link`

    ## Sources

    MUSA SDK 5.2.0 container guide; vllm-musa Dockerfile (2026).
    """
    yield _undecided(messages)


@check("package-pins-other-torch", layer=Layer.TORCH, severity="warning", said=by_message)
def package_pins_other_torch(messages: Messages) -> Judgement:
    """A package asks for another torch than the vendor's build.

    ## Why it matters

    pip counts `2.7.1+musa4.0.0` as another release than the one that a package pins. It refuses, or
    where it can it replaces the vendor's torch by the one from the public index.

    ## How to fix

    Install that package with `--no-deps`, then the requirements that it has beside torch.

    ## Symptoms

    - `Cannot install ... torch==2.7.1+musa4.0.0 because these package versions have conflicting
      dependencies`

    ## Sources

    FlagGems issue 3724 (2026).
    """
    yield _undecided(messages)


@check("flash-attention-missing", layer=Layer.TORCH, severity="warning", said=by_message)
def flash_attention_missing(messages: Messages) -> Judgement:
    """A program asks for flash attention, whose MUSA build is not installed.

    ## Why it matters

    Back ends such as MLA of vLLM have no other way to compute attention.

    ## How to fix

    Install `flash_attn_3` of the vendor's index, of the release that belongs to torch_musa. It is
    for mp_31 (S5000) only.

    ## Symptoms

    - `FlashAttention version not detected`

    ## Sources

    vllm-plugin-FL issue 339 and PR 176 (2026); MATE README.
    """
    yield _undecided(messages)


@check("forked-after-initialisation", layer=Layer.TORCH_MUSA, severity="warning", said=by_message)
def forked_after_initialisation(messages: Messages) -> Judgement:
    """A process that had used a card was forked.

    ## Why it matters

    The child of a fork has a copy of the parent's state, which the driver knows nothing of. It is a
    matter of the program; nothing is wrong with the installation.

    ## How to fix

    Start workers with the method `spawn`; for vLLM set `VLLM_WORKER_MULTIPROC_METHOD=spawn`.

    ## Symptoms

    - `Cannot re-initialize MUSA in forked subprocess`

    ## Sources

    torch_musa source (2026); vllm-musa README (2026).
    """
    yield _undecided(messages)
