"""What is installed for the examined interpreter, read as files: nothing of it is imported.

A distribution is a folder on the search path, ``torch_musa-2.7.1+musa4.3.6.dist-info``, that holds
METADATA, WHEEL, perhaps ``direct_url.json`` and ``entry_points.txt``::

    Metadata-Version: 2.1
    Name: torch
    Version: 2.4.1
    Requires-Dist: nvidia-cublas-cu12 (==12.1.3.1) ; platform_system == "Linux"

What torch was built for is told by ``torch/version.py`` first, since metadata survive when the
package is overwritten::

    __version__ = '2.4.1+cu121'
    cuda: Optional[str] = '12.1'
"""

import json
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple, cast

from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.python import (
    Distribution,
    Distributions,
    DistributionsFact,
    Python,
    PythonFact,
    TorchBuild,
    TorchBuildFact,
    TorchMusaBuild,
    TorchMusaBuildFact,
)
from musadoctor.probes.once import once
from musadoctor.probes.python import python
from musadoctor.probes.stated import SEARCH_PATH, SITE
from musadoctor.system import NOT_THERE, UNRECORDED, Failure, System
from musadoctor.versions import WheelVersion

WANTED = frozenset(
    (
        *("torch", "torch-musa", "torchvision", "torchaudio", "torchada", "triton", "numpy"),
        *("accelerate", "apache-tvm-ffi", "apex", "bitsandbytes", "deep-ep", "deep-gemm"),
        *("deepspeed", "flash-attn", "flash-attn-3", "flash-mla", "flashinfer-python"),
        *("liteccl-ops", "mate", "mate-flash-attention", "mate-mubin", "megatron-core", "mkl"),
        *("mooncake-transfer-engine", "mooncake-transfer-engine-musa", "mthreads-ml-py", "pymtml"),
        "nvitop-musa-exporter",
        *("nvidia-ml-py", "onnxruntime-gpu", "pynvml", "ray", "sageattention", "sgl-kernel"),
        *("sglang", "sglang-musa", "slime", "tilelang", "tilelang-musa", "torch-c-dlpack-ext"),
        *("transformer-engine", "transformers", "verl", "vllm", "vllm-musa", "xformers"),
    )
)
"""Normalised names of the distributions that matter to MUSA."""

_METADATA_FOLDER = re.compile(
    r"(?P<name>.+?)(?:-(?P<version>[^-]+)(?:-py\d.*)?)?\.(?:dist|egg)-info"
)
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
_ASSIGNMENT = re.compile(
    r"""^(?P<name>\w+)(?:\s*:[^=\n]+)?\s*=\s*(?P<quote>['"])(?P<value>[^'"\n]+)(?P=quote)""",
    re.MULTILINE,
)
_RUNTIME = re.compile(r"libmusart\.so\.(\d+)")
_LABELS = {"cu": "CUDA", "rocm": "ROCm", "musa": "MUSA", "mu": "MUSA", "cpu": "CPU"}
_LABEL = re.compile(r"(?:^|\.)(musa|rocm|cpu|cu|mu)(?:[.\d]|$)")
_LIBRARIES = {
    "libtorch_cuda.so": "CUDA",
    "libc10_cuda.so": "CUDA",
    "libtorch_hip.so": "ROCm",
    "libc10_hip.so": "ROCm",
}


class Package(NamedTuple):
    """A module's folder on the search path."""

    path: str
    regular: bool
    """Whether it holds an ``__init__.py``: without one it is what an uninstall left over."""


def package(system: System, interpreter: Python, name: str) -> Package | Absent | Unknown:
    """The folder that ``import name`` would take: the first with an ``__init__.py``, else any."""
    leftover: Package | None = None
    unread: list[str] = []
    for folder in interpreter.search_path:
        names = system.list(folder)
        if isinstance(names, Failure):
            unread += [names.detail] if names.kind != NOT_THERE else []
        elif name in names:
            path = f"{folder}/{name}"
            inside = system.list(path)
            if not isinstance(inside, Failure):
                if "__init__.py" in inside:
                    return Package(path, regular=True)
                leftover = leftover or Package(path, regular=False)
    if leftover is not None:
        return leftover
    if unread:
        return Unknown("; ".join(unread))
    return Absent(f"{name} is not installed for {interpreter.path}")


def examined(system: System) -> PythonFact:
    """The examined interpreter; of a transcript one that is not told, with its packages."""
    found = python(system)
    if isinstance(found, Unknown):
        told = system.find("python3")
        if isinstance(told, Failure) and told.kind == UNRECORDED:
            folder = system.list(SITE)
            if not isinstance(folder, Failure):
                return Python("python3", "not told", "", "", "", SEARCH_PATH)
    return found


def distributions(system: System) -> DistributionsFact:
    """The known distributions; all of a name that the first folder with the name holds."""
    interpreter = examined(system)
    if not isinstance(interpreter, Python):
        return interpreter
    items = [item for _, item in _installed(system, interpreter, WANTED)]
    unread = [
        names.detail
        for folder in interpreter.search_path
        if isinstance(names := system.list(folder), Failure) and names.kind != NOT_THERE
    ]
    if unread and not items:
        return Unknown("; ".join(unread))
    source = f"the search path of {interpreter.path}"
    return Distributions(tuple(items), "; ".join([source, *unread]))


def torch_build(system: System) -> TorchBuildFact:
    """The installed torch and what it was built for, told by its content."""
    interpreter = examined(system)
    if not isinstance(interpreter, Python):
        return interpreter
    found = package(system, interpreter, "torch")
    named = [item for _, item in _installed(system, interpreter, {"torch"})]
    if not isinstance(found, Package) and not named:
        return found
    path = found.path if isinstance(found, Package) else ""
    stated = _stated(system, path) if path else {}
    version = WheelVersion.parse(stated.get("__version__", ""))
    # Of several the one whose files these are.
    distribution = next((d for d in named if d.version == version), next(iter(named), None))
    if version is None and distribution is None:
        return Unknown(f"{path} has no metadata, and its version.py states no version")
    number = version or cast("Distribution", distribution).version

    evidence: list[str] = []
    if isinstance(found, Unknown):
        evidence.append(found.reason)
    elif not path:
        evidence.append(f"metadata in {named[0].location} without a torch folder")
    elif found != Package(path, regular=True):
        evidence.append(f"{path} has no __init__.py")
    elif distribution is None:
        evidence.append(f"{path} has no metadata")
    beside = package(system, interpreter, "torch_musa")
    marks = list(_marks(system, path, stated, number, distribution))
    if marks:
        flavour = marks[0][0]
    else:
        flavour, told = _by_circumstances(
            distribution, read=bool(stated), beside=isinstance(beside, Package)
        )
        marks.append((flavour, told))
    evidence = [told for _, told in marks] + evidence
    return TorchBuild(number, flavour, tuple(evidence), path, distribution)


@once
def torch_musa_build(system: System) -> TorchMusaBuildFact:
    """The installed torch_musa, what it was built for and what it needs."""
    interpreter = examined(system)
    if not isinstance(interpreter, Python):
        return interpreter
    found = package(system, interpreter, "torch_musa")
    named = _installed(system, interpreter, {"torch-musa"})
    if not isinstance(found, Package) and not named:
        return found
    path = found.path if isinstance(found, Package) else ""
    stated = WheelVersion.parse(_stated(system, path).get("__version__", "")) if path else None
    version = named[0][1].version if named else stated
    if version is None:
        return Unknown(f"{path} has no metadata, and its version.py states no version")

    needed, sources = _needed(system, path) if path else ((), [])
    shipped = {
        name
        for folder in (path, *_folder(package(system, interpreter, "torch")))
        for name in _names(system, f"{folder}/lib")
    }
    runtimes = [int(runtime[1]) for name in needed if (runtime := _RUNTIME.match(name))]
    if not path:
        sources.append("no torch_musa folder")
    return TorchMusaBuild(
        version=version,
        path=path,
        built_for=version.toolkit or (stated.toolkit if stated else None),
        runtime_major=max(runtimes, default=None),
        needs=tuple(name for name in needed if name not in shipped),
        autoloads=bool(named) and _autoloads(system, named[0][0]),
        source="; ".join([named[0][0] if named else f"{path}/version.py", *sources]),
    )


def _installed(
    system: System, interpreter: Python, wanted: AbstractSet[str]
) -> list[tuple[str, Distribution]]:
    """The distributions of these names, each with the folder or file of its metadata."""
    found: dict[str, list[tuple[str, Distribution]]] = {}
    for folder in interpreter.search_path:
        here: dict[str, list[tuple[str, Distribution]]] = {}
        for entry in _names(system, folder):
            if not entry.endswith("-info"):
                continue
            named = _METADATA_FOLDER.fullmatch(entry)
            name = re.sub(r"[-_.]+", "-", named["name"]).lower() if named else ""
            if named is None or name not in wanted or name in found:
                continue
            item = _distribution(system, folder, entry, name, named["version"] or "")
            if item is not None:
                here.setdefault(name, []).append((f"{folder}/{entry}", item))
        found |= here
    return [item for items in found.values() for item in items]


def _distribution(
    system: System, folder: str, entry: str, name: str, version: str
) -> Distribution | None:
    """A distribution by its metadata, or as far as its folder's name tells."""
    at = f"{folder}/{entry}"
    texts = (system.read(path) for path in (f"{at}/METADATA", f"{at}/PKG-INFO", at))
    metadata = next((text for text in texts if isinstance(text, str)), "")
    header = metadata.replace("\r\n", "\n").partition("\n\n")[0]
    number = WheelVersion.parse(next(_fields(header, "Version"), "")) or WheelVersion.parse(version)
    if number is None:
        return None
    return Distribution(
        name=name,
        version=number,
        location=folder,
        tags=tuple(_fields(_text(system, f"{at}/WHEEL"), "Tag")),
        requires=tuple(_fields(header, "Requires-Dist")),
        direct_url=_direct_url(_text(system, f"{at}/direct_url.json")),
    )


def _fields(header: str, name: str) -> Iterator[str]:
    prefix = f"{name}:"
    for line in header.splitlines():
        if line.startswith(prefix):
            yield line.removeprefix(prefix).strip()


def _direct_url(text: str) -> str | None:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    url = cast("dict[str, object]", value).get("url") if isinstance(value, dict) else None
    # A query may hold a signature.
    return _CREDENTIALS.sub("", url).partition("?")[0] if isinstance(url, str) else None


def _stated(system: System, path: str) -> dict[str, str]:
    """The texts that a package's ``version.py`` assigns; what is ``None`` there is left out."""
    text = _text(system, f"{path}/version.py")
    return {found["name"]: found["value"] for found in _ASSIGNMENT.finditer(text)}


def _marks(
    system: System,
    path: str,
    stated: dict[str, str],
    number: WheelVersion,
    distribution: Distribution | None,
) -> Iterator[tuple[str, str]]:
    """What tells a build, and which: the files, then the version's label, then the metadata."""
    for name, flavour in (("cuda", "CUDA"), ("hip", "ROCm"), ("musa", "MUSA")):
        if name in stated:
            yield flavour, f"torch/version.py: {name} = {stated[name]!r}"
    for library in _names(system, f"{path}/lib") if path else ():
        if library in _LIBRARIES:
            yield _LIBRARIES[library], f"torch/lib/{library}"
    if label := _LABEL.search(number.local or ""):
        yield _LABELS[label[1]], f"version label +{number.local}"
    if distribution is None:
        return
    local = distribution.version.local or ""
    if local != (number.local or "") and (label := _LABEL.search(local)):
        yield _LABELS[label[1]], f"metadata say {distribution.version}"
    nvidia = [line for line in distribution.requires if line.startswith("nvidia-")]
    # One release lists the same requirements for all machines, so the files come first.
    if nvidia and not stated:
        more = f" and {len(nvidia) - 1} more" if len(nvidia) > 1 else ""
        yield "CUDA", f"requires {re.split('[ ;=(<>~!]', nvidia[0])[0]}{more}"


def _by_circumstances(
    distribution: Distribution | None, *, read: bool, beside: bool
) -> tuple[str, str]:
    """What an unmarked build is: the vendor's bears no mark in several of its generations."""
    tags = distribution.tags if distribution else ()
    tag = min((tag.rpartition("-")[2] for tag in tags), default="")
    unmarked = "no mark of CUDA, ROCm or MUSA in it"
    if read and beside and tag.startswith("linux_"):
        return "MUSA", f"{unmarked}, wheel tag {tag} (not manylinux), torch_musa beside it"
    if read and not beside and tag.startswith("manylinux"):
        return "CPU", f"{unmarked}, wheel tag {tag}"
    return "unknown", unmarked + (f", wheel tag {tag}" if tag else "")


def own_libraries(system: System, path: str) -> tuple[str, ...]:
    """The libraries in torch_musa's folder, the one that Python imports first."""
    modules = [f"{path}/{n}" for n in _names(system, path) if re.fullmatch(r"_MUSAC.*\.so", n)]
    return (*modules, *(f"{path}/lib/{n}" for n in _names(system, f"{path}/lib") if ".so" in n))


def _needed(system: System, path: str) -> tuple[tuple[str, ...], list[str]]:
    """The sonames that torch_musa's own libraries need, and which those are."""
    files = own_libraries(system, path)
    needed: dict[str, None] = {}
    unread: list[str] = []
    for file in files:
        elf = system.elf(file)
        if isinstance(elf, Failure):
            unread.append(elf.detail)
        else:
            needed |= dict.fromkeys(elf.needed)
    read = len(files) - len(unread)
    return tuple(needed), [f"{read} of {len(files)} libraries read", *unread]


def _autoloads(system: System, metadata: str) -> bool:
    """Whether the entry points' group ``torch.backends`` holds anything."""
    group = ""
    for line in _text(system, f"{metadata}/entry_points.txt").splitlines():
        stripped = line.strip()
        if stripped.startswith("["):
            group = stripped
        elif group == "[torch.backends]" and "=" in stripped and not stripped.startswith("#"):
            return True
    return False


def _folder(found: Package | Absent | Unknown) -> tuple[str, ...]:
    return (found.path,) if isinstance(found, Package) else ()


def _names(system: System, folder: str) -> tuple[str, ...]:
    names = system.list(folder)
    return () if isinstance(names, Failure) else names


def _text(system: System, path: str) -> str:
    text = system.read(path)
    return "" if isinstance(text, Failure) else text
