"""Requirements and sources: what a package, its label, its address or its extras say."""

import re
from collections.abc import Iterator

from musadoctor.api import Entry, Fix, Stack
from musadoctor_checks.requirements._addresses import Kind, label, labelled, served
from musadoctor_checks.requirements._case import REFUSED, Case, requirement
from musadoctor_checks.requirements._known import GENERAL, Package, package
from musadoctor_checks.requirements._torch import FAMILY, eager, family, vendor_pin

# Texts, which re compiles when they are first needed.
_CUDA_EXTRA = r"(?:and-)?cuda(?:-?[\d.]+x?)?(?:-.*)?|cu\d\d\d?(?:-.*)?"
_FOREIGN_EXTRA = r"(?:rocm|xpu|npu|tpu|neuronx?|ascend|hpu|habana|openvino|directml)[\d.-]*"
_GPU_EXTRA = r"(?:.*-)?gpu(?:-.*)?"
_TORCH_LABEL = r"(?:torch|pt)_?(\d[\d.]*).*"
_REFERENCE = r"(?<=[^/@:])@[^/@:]+$"
_SUBDIRECTORY = r"subdirectory=([^&]+)"
_UPSTREAM = r"[/:]pytorch/(pytorch|vision|audio)$"
_UPSTREAMS = {"pytorch": "torch", "vision": "torchvision", "audio": "torchaudio"}
"""The torch family by its repositories of upstream, which have other names."""
IS = {
    "cuda-default-package": "is built for CUDA where nothing else is said, but installs",
    "cuda-ext-build": "compiles CUDA code against torch, or is a wheel of it",
    "cuda-ext-optional": "has CUDA code that it compiles on request only",
    "cuda-only-package": "works on NVIDIA GPUs only",
    "cuda-optional-package": "works, without the MUSA GPU",
    "musa-native": "is a name that not every package index has right",
    "nvidia-monitor": "asks NVIDIA's driver, which is not there",
    "nvidia-runtime": "is a part of NVIDIA's CUDA runtime",
    "other-accelerator": "is for another accelerator",
    "torch-dependent": "depends on torch or triton and works only in part",
    "torch-pinning-dependent": "pins or floors torch: pip would replace the vendor's build",
    "torch-pinning-no-deps": "was made for another torch, and --no-deps leaves it at that",
    "unchecked-package": "is likely to need CUDA, another accelerator or another torch",
}
"""What is said of a package, by its check."""
_IS_CPU = Fix("it works, without the GPU: see whether there is a build for MUSA")


def of_requirement(entry: Entry, stack: Stack) -> Case | None:
    kind: Kind = labelled(label(entry.specifier)) if "+" in entry.specifier else ""
    if entry.url:
        case = _wheel(entry, kind or served(entry.url))
        if case:
            return case
    elif kind:
        case = _label(entry, kind)
        if case:
            return case
    if kind == "musa":
        return vendor_pin(entry, stack)
    if entry.extras and (case := _extras(entry)):
        return case
    if entry.name in FAMILY:
        return family(entry, stack)
    row = package(entry.name, "pypi") or (package(entry.name, "vcs") if entry.url else None)
    return _compiled(entry) if row is None else _known(entry, row, stack)


def _wheel(entry: Entry, kind: Kind) -> Case | None:
    """A wheel or an archive by its address."""
    core = entry.name in FAMILY
    gone = Fix(f"leave it out{_way_on(entry)}", instead="")
    if kind == "cuda":
        return Case("cuda-wheel-url", f"{entry.url} is built for CUDA", gone)
    if kind == "foreign" or (kind == "cpu" and core):
        return Case("foreign-wheel-url", f"{entry.url} is built for another back end", gone)
    if kind == "cpu":
        return Case("cpu-local-version", f"{entry.url} is built for the CPU", _IS_CPU)
    if core and kind != "musa":
        message = f"{entry.url} would replace the vendor's {entry.name} by another source's"
        return Case("torch-source-url", message, gone)
    return None


def _compiled(entry: Entry) -> Case | None:
    """Of a package that no row has: whether its label tells the torch that it was compiled for."""
    made_for = (
        re.fullmatch(_TORCH_LABEL, label(entry.specifier)) if "+" in entry.specifier else None
    )
    if not made_for:
        return None
    message = f"{entry.name}{entry.specifier} was compiled for upstream's torch {made_for[1]}"
    return Case("torch-dependent", message, Fix("build it against the vendor's torch"))


def _way_on(entry: Entry) -> str:
    if entry.name in FAMILY:
        return f": the vendor's {entry.name} stays"
    row = package(entry.name, "pypi")
    return f"; {row.action}" if row and row.action and "leave it out" not in row.action else ""


def _label(entry: Entry, kind: Kind) -> Case | None:
    """A local version label that names a build."""
    asked = f"{entry.name}{entry.specifier}"
    gone = Fix(f"leave it out{_way_on(entry)}", instead="")
    if kind == "cuda":
        return Case("cuda-local-version", f"{asked} is a build for CUDA", gone)
    if kind == "foreign" or (kind == "cpu" and entry.name in FAMILY):
        message = f"{asked} is a build for another back end, not the vendor's"
        return Case("foreign-local-version", message, gone)
    if kind == "cpu":
        return Case("cpu-local-version", f"{asked} is a build for the CPU", _IS_CPU)
    return None


def _extras(entry: Entry) -> Case | None:
    """Extras that choose an accelerator."""
    row = package(entry.name, "pypi")
    refused = row is not None and row.verdict == "refuse"
    said = f"{entry.name}[{','.join(entry.extras)}]{entry.specifier}"
    if cuda := [extra for extra in entry.extras if _brings_cuda(entry.name, extra)]:
        kept = tuple(extra for extra in entry.extras if extra not in cuda)
        instead = "" if refused else requirement(entry, entry.name, entry.specifier, kept)
        text = "leave the extra out" if instead else f"leave it out{_way_on(entry)}"
        message = f"{said}: the extra {cuda[0]} brings CUDA packages"
        return Case("cuda-extra", message, Fix(text, instead=instead))
    if foreign := next((e for e in entry.extras if re.fullmatch(_FOREIGN_EXTRA, e)), ""):
        message = f"{said}: the extra {foreign} is for another accelerator"
        return Case("other-accelerator", message, Fix("leave it out", instead=""))
    gpu = next((extra for extra in entry.extras if re.fullmatch(_GPU_EXTRA, extra)), "")
    if gpu and not refused:
        message = f"{said}: what the extra {gpu} brings is not known, most likely CUDA packages"
        return Case("gpu-extra", message, Fix("see what it brings, or leave the extra out"))
    return None


def _brings_cuda(name: str, extra: str) -> bool:
    rows = (package(f"{name}[{extra}]", "pypi"), package(extra, "pypi"))
    return re.fullmatch(_CUDA_EXTRA, extra) is not None or any(
        row is not None and not row.is_kind and row.check in {"cuda-extra", "cuda-only-package"}
        for row in rows
    )


def _known(entry: Entry, row: Package, stack: Stack) -> Case | None:
    """A package that the table has a row for."""
    check = row.check
    if entry.name == "torch-musa" or (check == "musa-native" and entry.name in stack.versions):
        return vendor_pin(entry, stack)
    if check == "torch-pinning-dependent" and "--no-deps" in entry.flags:
        check = "torch-pinning-no-deps"
    refused = check in REFUSED
    flag = "" if refused or not row.needs_torch else eager(entry.flags)
    if flag and stack.vendor and not entry.fresh:
        message = f"{flag} with {entry.name} reaches torch, on which it depends"
        return Case("upgrade-flag", message, Fix(f"leave {flag} out, or add --no-deps"))
    if not check:
        return None
    unsure = f" ({GENERAL}, not checked)" if row.confidence == GENERAL else ""
    message = f"{entry.name}{entry.specifier} {IS[check]}{unsure}"
    instead: str | None = "" if refused or row.twin else None
    if row.twin not in {"", "none"}:
        instead = requirement(entry, row.twin, entry.specifier, entry.extras)
    return Case(check, message, Fix(row.action, instead=instead, counterpart=row.counterpart))


def of_source(entry: Entry) -> Case | None:
    """What is fetched from a repository or taken from a folder, and built."""
    fork = "github.com/moorethreads/" in entry.url.lower()
    for name in () if fork else _repositories(entry):
        row = package(name, "vcs") or package(name, "pypi")
        if name in FAMILY:
            message = f"{entry.url} would replace the vendor's {name} by another source's"
            return Case("torch-source-url", message, Fix("leave it out", instead=""))
        if row and row.verdict == "refuse" and row.check != "nvidia-runtime":
            pinning = row.check == "torch-pinning-dependent"
            message = f"{entry.url} is {name}, which {IS['cuda-ext-build']}"
            check = row.check if pinning else "cuda-ext-build"
            fix = Fix(row.action, instead="", counterpart=row.counterpart)
            return Case(check, message, fix)
        if row and row.verdict == "ok":
            return None
    return Case(
        "unvetted-source",
        f"{entry.reason or entry.url or entry.text} is built from source that was not read",
        Fix("see what it depends on and compiles; install it with --no-build-isolation --no-deps"),
    )


def _repositories(entry: Entry) -> Iterator[str]:
    """Names that a source may be known by: its repository's or folder's, its own, a part's."""
    address, _, fragment = entry.url.partition("#")
    repository = re.sub(_REFERENCE, "", address.rstrip("/")).removesuffix(".git")
    upstream = re.search(_UPSTREAM, repository.lower())
    yield _UPSTREAMS[upstream[1]] if upstream else _last(repository)
    if entry.name:
        yield entry.name
    inner = re.search(_SUBDIRECTORY, fragment)
    if inner and (part := _last(inner[1])) not in FAMILY:
        yield part


def _last(path: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[/\\:]", path.rstrip("/"))[-1]).lower()
