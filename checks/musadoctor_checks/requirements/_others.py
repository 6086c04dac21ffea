"""Entries other than requirements: indexes, conda, images, variables, what cannot be read."""

import re

from musadoctor.api import Entry, Fix
from musadoctor_checks.requirements._addresses import Kind, based, served
from musadoctor_checks.requirements._case import REFUSED, Case
from musadoctor_checks.requirements._known import package
from musadoctor_checks.requirements._packages import IS

# Texts, which re compiles when they are first needed.
_CUDA_FLAG = r"(?i)-D\w*(?:CUDA|CUBLAS|CUDNN)\w*=['\"]?(?:ON|1|TRUE|YES)\b"
_CUDA_VARIABLE = r"""(?x)
    .*CUDA_ARCH.*           # TORCH_CUDA_ARCH_LIST, CUDA_ARCHITECTURES, NVTE_CUDA_ARCHS
    | CUDA_(?:HOME|PATH|ROOT|TOOLKIT_ROOT_DIR|BIN_PATH)
    | CUDACXX | NVCC_\w+ | NVTE_FRAMEWORK
    | (?:.*_)?(?:FORCE|USE|WITH|BUILD|ENABLE)_CUDA(?:_\w+)?
    """
_CUDA_BUILD = r"cuda|(?:^|[_.*])(?:cu(?:\d\d|\*)|gpu)"
_CUDA_CHANNEL = r"cu(?:da)?-?\d\d|rapidsai"
_MENTION = r"(?i)torch|cuda|nvidia|cudnn|triton|(?<![a-z])cu1\d\d(?!\d)"
_PLACEHOLDER = r"\$\{|\{\{|\{%|\$\(|<[\w-]+>|%\(|@\w+@"
_WORD = r"[A-Za-z0-9][\w.-]*[A-Za-z0-9]"
_OFF = frozenset({"0", "off", "false", "no"})
_NO_INDEX = "leave it out, and put no other index in its place: it would hold for every line"
_OWN_INDEX = "leave it out, with what names it"


def _index(entry: Entry) -> Case | None:
    named = "the lock's source" if entry.option == "lock" else entry.option
    own = entry.option.startswith("tool.")
    what = f"{named} {entry.url}".strip()
    return _served(what, served(entry.url), _OWN_INDEX if own else _NO_INDEX)


def _served(what: str, kind: Kind, advice: str) -> Case | None:
    gone = Fix(advice, instead="")
    if kind == "cuda":
        return Case("cuda-index", f"{what} serves builds for CUDA", gone)
    if kind == "foreign":
        return Case("foreign-index", f"{what} serves builds for another accelerator", gone)
    if kind == "cpu":
        message = f"{what} serves builds for the CPU: a torch of it would replace the vendor's"
        return Case("cpu-index", message, Fix("leave it out", instead=""))
    return None


def _conda(entry: Entry) -> Case | None:
    asked = f"{entry.name}{entry.specifier}"
    found = (package(entry.name, ecosystem) for ecosystem in ("conda", "pypi", "vcs"))
    row = next(filter(None, found), None)
    channel = _channel_case(entry.url)
    if row and row.ecosystem == "conda":
        said = "upstream's torch" if row.check == "conda-torch" else "a package for NVIDIA's CUDA"
        return Case(row.check, f"{asked} of conda is {said}", Fix(row.action, instead=""))
    if re.search(_CUDA_BUILD, entry.build):
        message = f"{asked}: the build {entry.build} is for CUDA"
        return Case("conda-cuda-build", message, Fix("take a build for the CPU", instead=""))
    if channel == "conda-cuda-channel":
        message = f"{asked} comes from the channel {entry.url}, NVIDIA's"
        return Case("conda-cuda", message, Fix("leave it out", instead=""))
    if row and row.check:
        message = f"{asked} of conda {IS[row.check]}"
        return Case(
            row.check, message, Fix(row.action, instead="" if row.check in REFUSED else None)
        )
    return None


def _channel_case(channel: str) -> str:
    name = channel.lower()
    if "nvidia" in name.split("/") or re.search(_CUDA_CHANNEL, name):
        return "conda-cuda-channel"
    if name.rstrip("/").rpartition("/")[2] in {"pytorch", "pytorch-nightly", "pytorch-test"}:
        return "conda-torch-channel"
    return ""


def _channel(entry: Entry) -> Case | None:
    check = _channel_case(entry.name or entry.url)
    gone = Fix("leave the channel out: no conda channel has MUSA builds", instead="")
    if check == "conda-cuda-channel":
        return Case(check, f"the conda channel {entry.name} has builds for CUDA", gone)
    if check:
        return Case(check, f"the conda channel {entry.name} has upstream's torch only", gone)
    return None


def _image(entry: Entry) -> Case | None:
    kind = based(entry.name)
    other = Fix("start from an image of Moore Threads, whose torch then stays")
    if kind == "cuda":
        return Case("cuda-base-image", f"{entry.name} is an image for NVIDIA's CUDA", other)
    if kind == "foreign":
        return Case("other-accelerator", f"{entry.name} is an image for another accelerator", other)
    return None


def _variable(entry: Entry) -> Case | None:
    name, value = entry.name, entry.specifier
    if name == "cuda" or entry.option == "system-requirements.cuda":
        message = f"the system requirement cuda = {value}: not met here, or CUDA builds are chosen"
        return Case("cuda-system-requirement", message, Fix("leave it out", instead=""))
    if re.search(_CUDA_FLAG, value):
        return _build_flag(f"{name}={value}")
    if re.fullmatch(_CUDA_VARIABLE, name) and value.strip("\"'").lower() not in _OFF:
        shown = f"{name}={value}" if value else name
        message = f"{shown} is for building CUDA code"
        return Case("cuda-build-env", message, Fix("leave it out, with what it is set for"))
    return None


def _build_flag(shown: str) -> Case:
    fix = Fix("leave the flag out; llama.cpp's for MUSA is -DGGML_MUSA=on", instead="")
    return Case("cuda-build-flag", f"{shown} builds for CUDA", fix)


def _option(entry: Entry) -> Case | None:
    shown = f"{entry.option} {entry.specifier}"
    return _build_flag(shown) if re.search(_CUDA_FLAG, shown) else None


def _extension(entry: Entry) -> Case | None:
    if "cuda" not in entry.name.lower():
        return None
    fix = Fix("build it through torchada, which maps CUDAExtension to the MUSA compiler")
    return Case("own-cuda-extension", f"{entry.name}: the project compiles CUDA code", fix)


def of_unreadable(entry: Entry) -> Case:
    placeholder = re.search(_PLACEHOLDER, entry.text)
    why = "a placeholder that is not filled in" if placeholder else entry.reason or "not readable"
    advice = "fill it in first" if placeholder else "write it so that the installer can read it"
    if concerns(entry.text):
        message = f"{entry.text}: {why}; it may concern torch or CUDA"
        return Case("unparsable-torch", message, Fix(f"{advice}, or leave it out", instead=""))
    return Case("unparsable-line", f"{entry.text}: {why}", Fix(advice))


def concerns(text: str) -> bool:
    """Whether a text that cannot be read may have to do with torch or CUDA."""
    if re.search(_MENTION, text):
        return True
    names = (re.sub(r"[-_.]+", "-", word).lower() for word in re.findall(_WORD, text))
    rows = (package(name, "pypi") for name in names)
    return any(row is not None and row.verdict == "refuse" for row in rows)


JUDGES = {
    "index": _index,
    "conda": _conda,
    "channel": _channel,
    "image": _image,
    "variable": _variable,
    "option": _option,
    "extension": _extension,
    "unreadable": of_unreadable,
}
"""By kind of entry."""
