"""For which accelerator something is built, by a version's label, an address or an image's name."""

import functools
import re
from typing import Literal

Kind = Literal["musa", "cuda", "foreign", "cpu", ""]

_LABEL = re.compile(r"\+([\w.]+)")
_CUDA = re.compile(r"cu(?:da)?[\d.]*\d|cuda|nvidia")
_FOREIGN = re.compile(
    r"""
    (?<![a-z])
    (?: rocm | hip | xpu | npu | tpu | neuronx? | ascend | corex | maca | dtk | das )
    (?![a-z])
    """,
    re.VERBOSE,
)
_CPU = re.compile(r"(?<![a-z])cpu(?![a-z])")

_CUDA_ADDRESS = re.compile(
    r"""
    [/_.+-] cu(?:da)? [-_]? \d\d (?! \d{3} )    # whl/cu121, torch-2.4.0+cu121.html, cuda-12
    | torch_stable\.html                # of pytorch.org: CUDA, where no label says otherwise
    | pypi\.nvidia\.com | pypi\.ngc\.nvidia\.com
    | (?:^|[/.]) flashinfer\.ai/whl
    | [/_-] cuda (?: [-_/] | $ )
    """,
    re.VERBOSE,
)
_FOREIGN_ADDRESS = re.compile(
    r"""
    [/_.+-] (?: rocm | xpu | npu | tpu | neuron | ascend | hpu ) [\d._]* (?: [-/_.+] | $ )
    | repo\.radeon\.com | libtpu | intel-extension-for-pytorch | neuron\.amazonaws\.com
    """,
    re.VERBOSE,
)
_CPU_ADDRESS = re.compile(r"[/_.+-]cpu(?:[-/_.+]|$)")

_MUSA_IMAGE = re.compile(r"musa|mthreads|mcconline|mtt-")
_CUDA_IMAGE = re.compile(
    r"""
    (?:^|/) (?: nvidia | rapidsai ) /           # nvidia/cuda, nvcr.io/nvidia/pytorch
    | ^ nvcr\.io /
    | (?:^|/) pytorch/ (?: pytorch | manylinux-cuda )
    | (?:^|/) (?: vllm-openai | sglang | text-generation-inference ) (?: [:@] | $ )
    | (?:^|/) huggingface/ [^:]* gpu
    | [:/_.-] cu(?:da)? [-_]? (?: \d\d | \$ )   # a tag cu121, cuda12.4 or cu${VERSION}
    | cuda | cudnn
    | : [^:/]* (?<![a-z]) gpu (?![a-z])
    """,
    re.VERBOSE,
)
_FOREIGN_IMAGE = re.compile(r"(?:^|[/:_.-])(?:rocm|xpu|npu|ascend|neuronx?|hpu|tpu)(?![a-z])")
_CPU_IMAGE = re.compile(r"(?<![a-z])cpu(?![a-z])")


def label(specifier: str) -> str:
    """The local label of a specifier, ``cu121`` of ``==2.4.0+cu121``; empty without one."""
    found = _LABEL.search(specifier)
    return found[1].lower() if found else ""


@functools.lru_cache(maxsize=256)
def labelled(text: str) -> Kind:
    """What a local label names: ``cu121``, ``pt2.5cu124``, ``rocm6.3``, ``musa5.2.0``."""
    if "musa" in text:
        return "musa"
    if _CUDA.search(text):
        return "cuda"
    if _FOREIGN.search(text):
        return "foreign"
    return "cpu" if _CPU.search(text) else ""


def served(url: str) -> Kind:
    """What builds an index, a page of links or a wheel's address has."""
    address = url.lower()
    if _CUDA_ADDRESS.search(address):
        return "cuda"
    if _FOREIGN_ADDRESS.search(address):
        return "foreign"
    return "cpu" if _CPU_ADDRESS.search(address) else ""


def based(image: str) -> Kind:
    """What an image is made for."""
    name = image.lower()
    if _MUSA_IMAGE.search(name):
        return "musa"
    if _FOREIGN_IMAGE.search(name):
        return "foreign"
    if _CPU_IMAGE.search(name):
        return "cpu"
    return "cuda" if _CUDA_IMAGE.search(name) else ""
