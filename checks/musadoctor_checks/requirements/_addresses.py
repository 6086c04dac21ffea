"""For which accelerator something is built, by a version's label, an address or an image's name."""

import functools
import re
from typing import Literal

Kind = Literal["musa", "cuda", "foreign", "cpu", ""]

# Texts, which re compiles when they are first needed: many files have no address and no label.
_CUDA = r"cu(?:da)?[\d.]*\d|cuda|nvidia"
_FOREIGN = r"""(?x)
    (?<![a-z])
    (?: rocm | hip | xpu | npu | tpu | hpu | neuronx? | ascend | corex | maca | dtk | das )
    (?![a-z])
    """
_CPU = r"(?<![a-z])cpu(?![a-z])"

_CUDA_ADDRESS = r"""(?x)
    [/_.+-] cu(?:da)? [-_]? (?: \d\d (?! \d{3} ) | [$<{] )  # whl/cu121, +cu121.html, cu${CUDA}
    | [${] \w* cuda
    | torch_(?: stable | lts | nightly )\.html   # of pytorch.org, for CUDA unless labelled
    | (?: pypi | ngc | download )\.nvidia\.com
    | (?:^|[/.]) flashinfer\.ai/whl | wheels\.vllm\.ai
    | (?: download\.pytorch\.org | /pytorch ) /whl (?: /nightly | /test )? /? $  # all of them
    | /pytorch-wheels/? $ | /triton-nightly/
    | [/_-] cuda (?: [-_/] | $ )
    """
_FOREIGN_ADDRESS = r"""(?x)
    [/_.+-] (?: rocm | xpu | npu | tpu | neuron | ascend | hpu ) [\d._]* (?: [-/_.+] | $ )
    | repo\.radeon\.com | libtpu | intel-extension-for-pytorch | neuron\.amazonaws\.com
    """
_CPU_ADDRESS = r"[/_.+-]cpu(?:[-/_.+]|$)"

_MUSA_IMAGE = r"musa|mthreads|mcconline|mtt-"
_CUDA_IMAGE = r"""(?x)
    (?:^|/) (?: nvidia | rapidsai ) /           # nvidia/cuda, nvcr.io/nvidia/pytorch
    | ^ nvcr\.io /
    | (?:^|/) pytorch/ (?: pytorch | manylinux-cuda )
    | (?:^|/) (?: vllm-openai | sglang | text-generation-inference ) (?: [:@] | $ )
    | (?:^|/) huggingface/ [^:]* gpu
    | [:/_.-] cu(?:da)? [-_]? (?: \d\d | \$ )   # a tag cu121, cuda12.4 or cu${VERSION}
    | cuda | cudnn
    | (?:^|/) deepspeed/deepspeed
    | (?<![a-z]) l4t (?![a-z])                  # of Jetson
    | : .* (?<![a-z]) (?: vllm | sglang ) -? v?\d
    | (?<![a-z]) gpu (?![a-z])
    """
_FOREIGN_IMAGE = (
    r"(?:^|[/:_.-])(?:rocm|xpu|npu|ascend|neuronx?|hpu|tpu)(?![a-z])|(?:^|/)intel/(?:oneapi|intel)"
)
_CPU_IMAGE = r"(?<![a-z])cpu(?![a-z])"


def label(specifier: str) -> str:
    """The local label of a specifier, ``cu121`` of ``==2.4.0+cu121``; empty without one."""
    found = re.search(r"\+([\w.]+)", specifier)
    return found[1].lower() if found else ""


@functools.lru_cache(maxsize=256)
def labelled(text: str) -> Kind:
    """What a local label names: ``cu121``, ``pt2.5cu124``, ``rocm6.3``, ``musa5.2.0``."""
    if "musa" in text:
        return "musa"
    if re.search(_CUDA, text):
        return "cuda"
    if re.search(_FOREIGN, text):
        return "foreign"
    return "cpu" if re.search(_CPU, text) else ""


def served(url: str) -> Kind:
    """What builds an index, a page of links or a wheel's address has."""
    address = url.lower()
    if re.search(_CUDA_ADDRESS, address):
        return "cuda"
    if re.search(_FOREIGN_ADDRESS, address):
        return "foreign"
    return "cpu" if re.search(_CPU_ADDRESS, address) else ""


def based(image: str) -> Kind:
    """What an image is made for."""
    name = image.lower()
    if re.search(_MUSA_IMAGE, name):
        return "musa"
    if re.search(_FOREIGN_IMAGE, name):
        return "foreign"
    if re.search(_CPU_IMAGE, name):
        return "cpu"
    return "cuda" if re.search(_CUDA_IMAGE, name) else ""
