"""One pass over all entries: each falls to the most specific check, and to one only.

The checks of this package take their findings from it. The pass is linear and made once for the
same requirements and stack.
"""

import functools
import os
import re
from collections.abc import Iterator, Sequence

from musadoctor.api import Entry, Finding, Fix, Requirements, Stack
from musadoctor_checks.knowledge.requirements import GENERAL, Package, package
from musadoctor_checks.requirements._addresses import Kind, based, label, labelled, served
from musadoctor_checks.requirements._case import Case, requirement
from musadoctor_checks.requirements._torch import FAMILY, eager, family, vendor_pin

REFUSED = frozenset({
    "conda-cuda",
    "conda-cuda-build",
    "conda-cuda-channel",
    "conda-torch",
    "cuda-base-image",
    "cuda-build-flag",
    "cuda-ext-build",
    "cuda-extra",
    "cuda-index",
    "cuda-local-version",
    "cuda-only-package",
    "cuda-system-requirement",
    "cuda-wheel-url",
    "foreign-index",
    "foreign-local-version",
    "foreign-wheel-url",
    "include-refused",
    "nvidia-runtime",
    "other-accelerator",
    "script-install",
    "torch-missing-vendor",
    "torch-pin-mismatch",
    "torch-pinning-dependent",
    "torch-source-url",
    "unparsable-torch",
    "upgrade-flag",
})  # fmt: skip
"""The checks of severity error."""

_CUDA_EXTRA = re.compile(r"(?:and-)?cuda(?:-?[\d.]+x?)?(?:-.*)?|cu\d\d\d?(?:-.*)?")
_FOREIGN_EXTRA = re.compile(r"(?:rocm|xpu|npu|tpu|neuronx?|ascend|hpu|openvino|directml)[\d.-]*")
_CUDA_FLAG = re.compile(r"-D\w*(?:CUDA|CUBLAS|CUDNN)\w*=['\"]?(?:ON|1|TRUE|YES)\b", re.IGNORECASE)
_CUDA_VARIABLE = re.compile(
    r"""
    .*CUDA_ARCH.*           # TORCH_CUDA_ARCH_LIST, CUDA_ARCHITECTURES, NVTE_CUDA_ARCHS
    | CUDA_(?:HOME|PATH|ROOT|TOOLKIT_ROOT_DIR|BIN_PATH)
    | CUDACXX | NVCC_\w+ | NVTE_FRAMEWORK
    | (?:.*_)?(?:FORCE|USE|WITH|BUILD|ENABLE)_CUDA(?:_\w+)?
    """,
    re.VERBOSE,
)
_OFF = frozenset({"0", "off", "false", "no"})
_CUDA_BUILD = re.compile(r"(?:^|[_.])(?:cuda|cu\d\d|gpu)")
_EXTRA_NAMED = re.compile(r"extra\s*==\s*['\"]([^'\"]+)")
_MENTION = re.compile(r"torch|cuda|nvidia|cudnn|triton|(?<![a-z])cu1\d\d(?!\d)", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9][\w.-]*[A-Za-z0-9]")
_SEPARATORS = re.compile(r"[-_.]+")
_PLACEHOLDER = re.compile(r"\$\{|\{\{|\{%|\$\(|<[\w-]+>|%\(|@\w+@")
_REFERENCE = re.compile(r"(?<=[^/@:])@[^/@:]+$")
_SUBDIRECTORY = re.compile(r"subdirectory=([^&]+)")

Findings = dict[str, list[Finding]]
_made: list[tuple[Requirements, Stack, Findings]] = []


def findings(check: str, requirements: Requirements, stack: Stack) -> Iterator[Finding]:
    """What one check says of the entries."""
    if not _made or _made[0][0] is not requirements or _made[0][1] is not stack:
        _made[:] = [(requirements, stack, _findings(requirements, stack))]
    yield from _made[0][2].get(check, ())


def _findings(requirements: Requirements, stack: Stack) -> Findings:
    cases: list[tuple[Entry, Case]] = []
    environment = tuple(stack.markers.items())
    for entry in requirements.entries:
        holds = not entry.marker or _holds(entry.marker, entry.scope, environment)
        case = _case(entry, stack) if holds else _bad_marker(entry) if holds is None else None
        if case:
            cases.append((entry, _of_a_task(entry, case)))
    cases += _included(requirements, cases)
    chains = _chains(requirements)
    found: Findings = {}
    for entry, case in cases:
        chain = chains.get(entry.where.rpartition(":")[0], "") if chains else ""
        found.setdefault(case.check, []).append(
            Finding(f"{case.message}{chain}", entry.where, case.fix)
        )
    return found


@functools.lru_cache(maxsize=4096)
def _holds(marker: str, scope: str, environment: tuple[tuple[str, str], ...]) -> bool | None:
    """Whether a marker is true; ``None`` where it is none.

    An extra is a choice: outside of an extra's own scope it counts as chosen.
    """
    from packaging.markers import (  # noqa: PLC0415 - 25 ms, and many files have no markers
        InvalidMarker,
        Marker,
        UndefinedComparison,
        UndefinedEnvironmentName,
    )

    own = scope.removeprefix("extra:") if scope.startswith("extra:") else ""
    extras = [own] if own else ["", *_EXTRA_NAMED.findall(marker)]
    try:
        parsed = Marker(marker)
        return any(parsed.evaluate({**dict(environment), "extra": extra}) for extra in extras)
    except InvalidMarker:
        return None
    except (UndefinedComparison, UndefinedEnvironmentName):
        return True


def _bad_marker(entry: Entry) -> Case:
    return _unreadable(entry._replace(reason=f"its marker is not valid: {entry.marker}"))


def _case(entry: Entry, stack: Stack) -> Case | None:
    if entry.kind == "requirement":
        return _requirement(entry, stack)
    judge = _JUDGES.get(entry.kind)
    return judge(entry) if judge else None


def _requirement(entry: Entry, stack: Stack) -> Case | None:
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
    row = package(entry.name, "pypi")
    return None if row is None else _known(entry, row, stack)


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


_IS_CPU = Fix("it works, without the GPU: see whether there is a build for MUSA")


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
    if foreign := next(filter(_FOREIGN_EXTRA.fullmatch, entry.extras), ""):
        message = f"{said}: the extra {foreign} is for another accelerator"
        return Case("other-accelerator", message, Fix("leave it out", instead=""))
    if "gpu" in entry.extras and not refused:
        message = f"{said}: what the extra gpu brings is not known, most likely CUDA packages"
        return Case("gpu-extra", message, Fix("see what it brings, or leave the extra out"))
    return None


def _brings_cuda(name: str, extra: str) -> bool:
    rows = (package(f"{name}[{extra}]", "pypi"), package(extra, "pypi"))
    return _CUDA_EXTRA.fullmatch(extra) is not None or any(
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
    message = f"{entry.name}{entry.specifier} {_IS[check]}{unsure}"
    if not row.twin:
        return Case(check, message, Fix(row.action, instead="" if refused else None))
    if row.twin == "none":
        return Case(check, message, Fix(row.action, instead=""))
    instead = requirement(entry, row.twin, entry.specifier, entry.extras)
    return Case(check, message, Fix(row.action, instead=instead))


_IS = {
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
    "unchecked-package": "is likely to want an NVIDIA GPU",
}


def _source(entry: Entry) -> Case:
    """What is fetched from a repository or taken from a folder, and built."""
    fork = "github.com/moorethreads/" in entry.url.lower()
    for name in () if fork else _repositories(entry):
        row = package(name, "vcs") or package(name, "pypi")
        if name in FAMILY:
            message = f"{entry.url} would replace the vendor's {name} by another source's"
            return Case("torch-source-url", message, Fix("leave it out", instead=""))
        if row and row.verdict == "refuse" and row.check != "nvidia-runtime":
            pinning = row.check == "torch-pinning-dependent"
            message = f"{entry.url} is {name}, which {_IS['cuda-ext-build']}"
            check = row.check if pinning else "cuda-ext-build"
            return Case(check, message, Fix(row.action, instead=""))
    return Case(
        "unvetted-source",
        f"{entry.url or entry.text} is built from source that was not read",
        Fix("see what it depends on and compiles; install it with --no-build-isolation --no-deps"),
    )


def _repositories(entry: Entry) -> Iterator[str]:
    """Names that a source may be known by: its repository's or folder's, its own, a part's."""
    address, _, fragment = entry.url.partition("#")
    yield _last(_REFERENCE.sub("", address.rstrip("/")).removesuffix(".git"))
    if entry.name:
        yield entry.name
    inner = _SUBDIRECTORY.search(fragment)
    if inner and (part := _last(inner[1])) not in FAMILY:
        yield part


def _last(path: str) -> str:
    return _SEPARATORS.sub("-", re.split(r"[/\\:]", path.rstrip("/"))[-1]).lower()


def _index(entry: Entry) -> Case | None:
    return _served(f"{entry.option} {entry.url}".strip(), served(entry.url))


def _served(what: str, kind: Kind) -> Case | None:
    gone = Fix(
        "leave it out, and put no other index in its place: it would hold for every line",
        instead="",
    )
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
    row = package(entry.name, "conda") or package(entry.name, "pypi")
    channel = _channel_case(entry.url)
    if row and row.ecosystem == "conda":
        said = "upstream's torch" if row.check == "conda-torch" else "a package for NVIDIA's CUDA"
        return Case(row.check, f"{asked} of conda is {said}", Fix(row.action, instead=""))
    if _CUDA_BUILD.search(entry.build):
        message = f"{asked}: the build {entry.build} is for CUDA"
        return Case("conda-cuda-build", message, Fix("take a build for the CPU", instead=""))
    if channel == "conda-cuda-channel":
        message = f"{asked} comes from the channel {entry.url}, NVIDIA's"
        return Case("conda-cuda", message, Fix("leave it out", instead=""))
    if row and row.check:
        message = f"{asked} of conda {_IS[row.check]}"
        return Case(
            row.check, message, Fix(row.action, instead="" if row.check in REFUSED else None)
        )
    return None


def _channel_case(channel: str) -> str:
    name = channel.lower()
    if "nvidia" in name.split("/") or re.search(r"cu(?:da)?-?\d\d|rapidsai", name):
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
    if _CUDA_FLAG.search(value):
        return _build_flag(f"{name}={value}")
    if _CUDA_VARIABLE.fullmatch(name) and value.strip("\"'").lower() not in _OFF:
        shown = f"{name}={value}" if value else name
        message = f"{shown} is for building CUDA code"
        return Case("cuda-build-env", message, Fix("leave it out, with what it is set for"))
    return None


def _build_flag(shown: str) -> Case:
    fix = Fix("leave the flag out; llama.cpp's for MUSA is -DGGML_MUSA=on", instead="")
    return Case("cuda-build-flag", f"{shown} builds for CUDA", fix)


def _option(entry: Entry) -> Case | None:
    shown = f"{entry.option} {entry.specifier}"
    if entry.option in {"--torch-backend", "UV_TORCH_BACKEND"}:
        backend = "cuda" if entry.specifier == "auto" else labelled(entry.specifier)
        return _served(shown, backend)
    return _build_flag(shown) if _CUDA_FLAG.search(shown) else None


def _extension(entry: Entry) -> Case | None:
    if "cuda" not in entry.name.lower():
        return None
    fix = Fix("build it through torchada, which maps CUDAExtension to the MUSA compiler")
    return Case("own-cuda-extension", f"{entry.name}: the project compiles CUDA code", fix)


def _unreadable(entry: Entry) -> Case:
    placeholder = _PLACEHOLDER.search(entry.text)
    why = "a placeholder that is not filled in" if placeholder else entry.reason or "not readable"
    advice = "fill it in first" if placeholder else "write it as pip can read it"
    if _concerns(entry.text):
        message = f"{entry.text}: {why}; it may concern torch or CUDA"
        return Case("unparsable-torch", message, Fix(f"{advice}, or leave it out", instead=""))
    return Case("unparsable-line", f"{entry.text}: {why}", Fix(advice))


def _concerns(text: str) -> bool:
    """Whether a text that cannot be read may have to do with torch or CUDA."""
    if _MENTION.search(text):
        return True
    names = (_SEPARATORS.sub("-", word).lower() for word in _WORD.findall(text))
    return any(row is not None and row.verdict == "refuse" for row in map(_pypi, names))


def _pypi(name: str) -> Package | None:
    return package(name, "pypi")


def _of_a_task(entry: Entry, case: Case) -> Case:
    """A command in a task is refused as such: nobody expects an installation there."""
    if entry.scope != "task" or case.check not in REFUSED:
        return case
    return Case("script-install", f"a task installs it: {case.message}", case.fix)


_JUDGES = {
    "source": _source,
    "index": _index,
    "conda": _conda,
    "channel": _channel,
    "image": _image,
    "variable": _variable,
    "option": _option,
    "extension": _extension,
    "unreadable": _unreadable,
}


def _included(
    requirements: Requirements, cases: list[tuple[Entry, Case]]
) -> list[tuple[Entry, Case]]:
    """What is to be said of the lines that include other files."""
    includes = [entry for entry in requirements.entries if entry.kind == "include"]
    if not includes:
        return []
    read = {os.path.normpath(f.path) for f in requirements.files if not f.problem}
    into: dict[str, list[str]] = {}
    followed: dict[str, list[str]] = {}
    for file in requirements.files:
        followed.setdefault(file.included_by, []).append(file.path)
    targets = [_target(entry, followed.get(entry.where, ())) for entry in includes]
    for entry, target in zip(includes, targets, strict=True):
        into.setdefault(target, []).append(_file(entry))
    refused = {_file(entry) for entry, case in cases if case.check in REFUSED}
    pending = list(refused)
    while pending:
        above = [path for path in into.get(pending.pop(), ()) if path not in refused]
        refused.update(above)
        pending += above
    found: list[tuple[Entry, Case]] = []
    for entry, target in zip(includes, targets, strict=True):
        written = f"{entry.option} {entry.url}".strip()
        if target not in read:
            message = f"{written} was not read, so nothing is known of what it asks for"
            fix = Fix("put the file where the line says, and judge it, too")
            found.append((entry, Case("include-unread", message, fix)))
        elif target in refused:
            stem, suffix = os.path.splitext(written)
            fix = Fix("include a copy that is safe on MUSA", instead=f"{stem}.musa{suffix}")
            message = f"{written} asks for what is refused"
            found.append((entry, Case("include-refused", message, fix)))
    return found


def _file(entry: Entry) -> str:
    return os.path.normpath(entry.where.rpartition(":")[0])


def _target(entry: Entry, followed: Sequence[str]) -> str:
    """The path of an included file: of those that its line led to, or one that was read before."""
    name = os.path.basename(entry.url)
    path = next((path for path in followed if os.path.basename(path) == name), "")
    folder = os.path.dirname(entry.where.rpartition(":")[0])
    return os.path.normpath(path or os.path.join(folder, entry.url))


def _chains(requirements: Requirements) -> dict[str, str]:
    """By path, what is said of a file that was included."""
    above = {f.path: f.included_by for f in requirements.files if f.included_by}
    chains: dict[str, str] = {}
    for path, where in above.items():
        seen = [where]
        while (up := above.get(seen[-1].rpartition(":")[0])) and up not in seen:
            seen.append(up)
        chains[path] = f" (included by {', '.join(seen)})"
    return chains
