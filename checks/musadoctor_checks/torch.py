"""The examined Python, and the torch that is installed for it."""

import re
from collections.abc import Mapping

from musadoctor.api import (
    Absent,
    Distribution,
    Distributions,
    Finding,
    Fix,
    Gpus,
    Import,
    Judgement,
    Layer,
    Messages,
    Python,
    Toolkit,
    Torch,
    TorchBuild,
    TorchMusaBuild,
    Triton,
    Unknown,
    WheelVersion,
    check,
)
from musadoctor_checks._children import remedy, told
from musadoctor_checks._messages import by_message
from musadoctor_checks._wheels import INDEX, pip, reinstall
from musadoctor_checks.knowledge import covers, dated, numpy_1, placeholders, wheel_pythons

OTHER_GPUS = {"CUDA", "ROCm"}
STOCK_BACK_ENDS = {"amd", "nvidia"}
"""What the stock Triton can compile for."""
COMPANIONS = ("torchvision", "torchaudio")
NUMPY_2_FROM = (2, 3)
"""The first torch that was built against numpy 2 (PyTorch 2.3 release notes, 2024)."""

_PIN = re.compile(r"torch\s*\(?\s*==\s*([^\s;,)]+)")
_FOREIGN_LABEL = re.compile(r"(?:cu\d+|rocm[\d.]*|cpu)(?:\.|$)")


def _version(build: TorchMusaBuild | Absent | Unknown) -> WheelVersion | None:
    return build.version if isinstance(build, TorchMusaBuild) else None


@check("python-not-usable", layer=Layer.PYTHON, severity="error")
def python_not_usable(python: Python | Absent | Unknown) -> Judgement:
    """There is no Python that could be examined.

    ## Why it matters

    Which torch is installed, and whether it works, depends on the interpreter. Without one nothing
    can be said of either.

    ## How to fix

    Activate the environment that the application runs in, or name its interpreter with
    `--python PATH`. An environment whose base interpreter was removed or updated has to be made
    anew.
    """
    if isinstance(python, Absent):
        yield Finding(
            str(python),
            fix=Fix("Install Python, or name an interpreter with musadoctor --python PATH"),
        )
    elif isinstance(python, Unknown):
        yield python


@check("python-without-wheels", layer=Layer.PYTHON, severity="error")
def python_without_wheels(
    python: Python, gpus: Gpus | Unknown, torch_build: TorchBuild | Absent
) -> Judgement:
    """No MUSA build of torch is known for this release of Python.

    ## Why it matters

    The vendor publishes torch and torch_musa for a few releases of Python only. pip then finds no
    fitting file, or takes a torch without MUSA from elsewhere.

    ## How to fix

    Make an environment with Python 3.10 or 3.12 and install torch there.

    ## Symptoms

    - `Could not find a version that satisfies the requirement torch_musa`
    - `... is not a supported wheel on this platform`

    ## Sources

    MUSA SDK 5.2.0 install guide (2026-08); vllm-musa PR 119 (2026).
    """
    if isinstance(torch_build, TorchBuild):
        return
    if isinstance(gpus, Unknown):
        yield gpus
        return
    table = wheel_pythons()
    release = ".".join(map(str, python.release))
    if release not in {row.python for row in table}:
        known = ", ".join(f"{row.python} (torch_musa {row.torch_musa})" for row in table)
        yield Finding(
            f"{python}: no wheels of torch_musa are known for {release}, and no torch is installed"
            f" for {gpus}; known as of {dated([row.origin for row in table])}: {known}",
            where=python.path,
            fix=Fix("Make an environment with Python 3.10 or 3.12 and examine that"),
        )


@check("torch-missing", layer=Layer.TORCH, severity="error")
def torch_missing(
    gpus: Gpus | Unknown,
    python: Python,
    torch_build: TorchBuild | Absent,
    toolkit: Toolkit | Absent | Unknown,
) -> Judgement:
    """torch is not installed for the examined Python.

    ## Why it matters

    There is nothing that could run on the cards. If torch is installed somewhere else, another
    Python is examined than the application uses.

    ## How to fix

    Activate the right environment or name it with `--python`; else install the Moore Threads builds
    of torch and torch_musa from the vendor's index, in a pip command of its own. torch from
    elsewhere has no MUSA support, and torch_musa is to be had from the vendor only.

    ## Symptoms

    - `ModuleNotFoundError: No module named 'torch'`

    ## Sources

    MUSA SDK 5.2.0 install guide (2026).
    """
    if isinstance(torch_build, TorchBuild):
        return
    if isinstance(gpus, Unknown):
        yield gpus
    else:
        number = toolkit.version if isinstance(toolkit, Toolkit) else None
        fitting = f" that are built for Toolkit {number}" if number else ""
        yield Finding(
            f"{torch_build}, with {gpus} in this host",
            where=python.path,
            fix=Fix(
                "If the application uses another Python, name it with --python PATH; else install"
                f" the Moore Threads builds of torch and torch_musa{fitting} from {INDEX}"
            ),
        )


@check("torch-half-removed", layer=Layer.TORCH, severity="error")
def torch_half_removed(
    python: Python,
    torch_build: TorchBuild,
    torch_musa_build: TorchMusaBuild | Absent | Unknown,
) -> Judgement:
    """torch's metadata are there, but torch itself is not.

    ## Why it matters

    pip believes that torch is installed and leaves it alone, while `import torch` fails. It is what
    an uninstall or an upgrade leaves that was broken off.

    ## How to fix

    Install the Moore Threads build of torch again.

    ## Symptoms

    - `ModuleNotFoundError: No module named 'torch'` although `pip list` shows it
    """
    if not torch_build.path:
        yield Finding(
            f"torch {torch_build.version} has metadata only: {'; '.join(torch_build.evidence)}",
            where=torch_build.distribution.location if torch_build.distribution else "",
            fix=reinstall(python, _version(torch_musa_build)),
        )


def _in_a_report(id: str, messages: Messages, facts: Mapping[str, object]) -> Judgement:  # noqa: A002, ARG001
    """A report about MUSA with such a torch needs no card to be shown."""
    build = facts["torch_build"]
    if isinstance(build, TorchBuild) and build.flavour in OTHER_GPUS:
        yield Finding(
            f"{build} in a report about MUSA",
            where=build.path,
            fix=reinstall(Unknown("not told")),
        )


@check("torch-for-other-gpus", layer=Layer.TORCH, severity="error", said=_in_a_report)
def torch_for_other_gpus(
    torch_build: TorchBuild,
    torch_musa_build: TorchMusaBuild | Absent | Unknown,
    gpus: Gpus | Absent | Unknown,
    python: Python | Absent | Unknown,
    toolkit: Toolkit | Absent | Unknown,
) -> Judgement:
    """torch is a CUDA or ROCm build, which cannot use Moore Threads GPUs.

    ## Why it matters

    This is the commonest break of a MUSA host: a `pip install` of some requirements replaces the
    Moore Threads build of torch by the one from the public index, which has the same name and often
    the same number. torch_musa then does not find the functions that it was linked against.

    ## How to fix

    Install the vendor's torch and torch_musa again from the vendor's index, in a pip command that
    names no other index, and what the requirements ask for with `--no-deps`.

    ## Symptoms

    - `libmusa_kernels.so: undefined symbol: _ZNK2at10TensorBase...`
    - `Please try running Python from a different directory!`
    - `torch version should be v2.0.0 when using torch_musa, but now torch version is 2.4.1+cu121`

    ## Sources

    musa-deploy 0.7.0 (2025-08); torch_musa issues 63 and 119; MUSA SDK 5.2.0 install guide (2026).
    """
    if torch_build.flavour not in OTHER_GPUS:
        return
    number = toolkit.version if isinstance(toolkit, Toolkit) else None
    wheel = torch_musa_build if isinstance(torch_musa_build, TorchMusaBuild) else None
    if wheel is not None:
        reason = f"under torch_musa {wheel.version}"
    elif isinstance(gpus, Gpus):
        reason = f"on a host with {gpus}"
    else:
        if isinstance(gpus, Unknown) and isinstance(torch_musa_build, Unknown):
            yield gpus
        return
    yield Finding(
        f"{torch_build} {reason}",
        where=torch_build.path,
        fix=reinstall(python, wheel.version if wheel else None, number),
    )


@check("torch-without-musa", layer=Layer.TORCH, severity="error", said=by_message)
def torch_without_musa(
    torch_build: TorchBuild,
    torch_musa_build: TorchMusaBuild | Absent | Unknown,
    torch_musa_import: Import | Absent | Unknown,
    gpus: Gpus | Absent | Unknown,
    python: Python | Absent | Unknown,
) -> Judgement:
    """torch is not the Moore Threads build.

    ## Why it matters

    torch_musa is linked against a torch that the vendor has patched. A CPU build from elsewhere has
    the right number and lacks those functions. Where files and metadata do not tell the build, the
    import of torch_musa decides.

    ## How to fix

    Install the vendor's torch and torch_musa again from the vendor's index, in a pip command that
    names no other index.

    ## Symptoms

    - `libmusa_kernels.so: undefined symbol: _ZN2at18_GeneratorRegister...`

    ## Sources

    torch_musa issue 63 (2024-10-31).
    """
    wheel = torch_musa_build if isinstance(torch_musa_build, TorchMusaBuild) else None
    if torch_build.flavour in {"MUSA", *OTHER_GPUS} or not torch_build.path:
        return
    if wheel is None and not isinstance(gpus, Gpus):
        return
    if isinstance(torch_musa_import, Import) and torch_musa_import.failure is None:
        return
    if torch_build.flavour == "CPU":
        beside = f"torch_musa {wheel.version}" if wheel else str(gpus)
        yield Finding(
            f"{torch_build} beside {beside}",
            where=torch_build.path,
            fix=reinstall(python, _version(torch_musa_build)),
        )
    else:
        yield Unknown(f"which build torch is: {torch_build}; {torch_musa_import}")


@check("torch-imported-from-elsewhere", layer=Layer.TORCH, severity="warning")
def torch_imported_from_elsewhere(torch: Torch, torch_build: TorchBuild) -> Judgement:
    """The torch that is imported is not the first one on the search path.

    ## Why it matters

    A `.pth` file, an import hook or an editable install puts another torch before the installed
    one. What pip lists, and what was looked at here without importing it, is then not what runs.

    ## How to fix

    Remove the one that is not wanted, or the `.pth` file or hook that puts it first.

    ## Sources

    The import system of Python.
    """
    if not torch.file.startswith(f"{torch_build.path}/"):
        yield Finding(
            f"torch {torch.version} is imported from {torch.file}, but {torch_build.path} holds"
            f" torch {torch_build.version}",
            where=torch.file,
            fix=Fix("Remove the one that is not wanted, or what puts it first"),
        )


@check("torch-import-fails", layer=Layer.TORCH, severity="error", follows_from=Layer.PYTHON)
def torch_import_fails(
    torch_import: Import,
    python: Python | Absent | Unknown,
    torch_musa_build: TorchMusaBuild | Absent | Unknown,
) -> Judgement:
    """torch cannot be imported, even without torch_musa.

    ## Why it matters

    torch was imported in a process of its own with `TORCH_DEVICE_BACKEND_AUTOLOAD=0`, so that
    neither torch_musa nor the cards have a part in it. What is missing or broken is torch itself or
    something that it needs: MKL, OpenMPI, numpy, the C++ library of the environment.

    ## How to fix

    Follow the message. The command repeats the import and prints where it ended.

    ## Symptoms

    - `ImportError: libmkl_intel_lp64.so.2: cannot open shared object file`
    - `ImportError: libmpi.so.40: cannot open shared object file`
    - `undefined symbol: iJIT_NotifyEvent`

    ## Sources

    vllm-musa documentation; brilliantrough/agent-skills (2026).
    """
    if torch_import.failure is not None:
        path = f" ({python.path})" if isinstance(python, Python) else ""
        yield Finding(
            told(torch_import.failure) + path,
            fix=remedy(
                torch_import.failure,
                python,
                "import torch",
                reinstall(python, _version(torch_musa_build)),
            ),
        )


@check("numpy-too-new", layer=Layer.TORCH, severity="warning", said=by_message)
def numpy_too_new(
    distributions: Distributions,
    torch_build: TorchBuild,
    torch_musa_build: TorchMusaBuild,
    python: Python | Absent | Unknown,
) -> Judgement:
    """numpy 2 is installed beside a torch that is made for numpy 1.

    ## Why it matters

    A torch before 2.3 was compiled against numpy 1: turning tensors into arrays and back fails. The
    vendor publishes torch 2.9.1 and 2.11.0.post2 with numpy 1.26.

    ## How to fix

    Install numpy 1.26.4, on which packages that ask for numpy 2 may in turn not work.

    ## Symptoms

    - `A module that was compiled using NumPy 1.x cannot be run in NumPy 2`
    - `RuntimeError: Numpy is not available`

    ## Sources

    MUSA SDK 5.2.0 install guide; vllm-musa requirements (2026).
    """
    numpy = distributions.get("numpy")
    if numpy is None or numpy.version.major < 2:  # noqa: PLR2004 - numpy 2
        return
    version = torch_build.version
    row = next((row for row in numpy_1() if covers(row.torch, version)), None)
    if version.key < NUMPY_2_FROM:
        reason = f"torch {version} was built for numpy 1"
    elif row is not None:
        reason = f"torch {version} is published with numpy 1 ({row.origin})"
    else:
        yield Unknown(
            f"whether torch_musa {torch_musa_build.version} works with numpy {numpy.version}: the"
            " hosts that musadoctor knows have numpy 1.26"
        )
        return
    yield Finding(
        f"numpy {numpy.version} is installed, but {reason}",
        where=numpy.location,
        fix=Fix(
            f"Put numpy 1.26.4 in its place ({pip(python, 'install --no-deps numpy==1.26.4')});"
            " packages that need numpy 2 stop working",
            destructive=True,
        ),
    )


def _fits(tag: str, python: Python) -> bool:
    """Whether a wheel tag, ``cp310-cp310-linux_x86_64``, is for this interpreter."""
    interpreters, _, rest = tag.partition("-")
    abi = rest.partition("-")[0]
    for interpreter in interpreters.split("."):
        if interpreter == python.tag or interpreter == f"py{python.release[0]}":
            return True
        release = re.fullmatch(r"cp(\d)(\d+)", interpreter)
        if release and abi == "abi3" and python.tag.startswith("cp"):
            return (int(release[1]), int(release[2])) <= python.release
    return False


@check("wheel-for-other-python", layer=Layer.TORCH, severity="error", said=by_message)
def wheel_for_other_python(distributions: Distributions, python: Python) -> Judgement:
    """A wheel is installed that was built for another release of Python.

    ## Why it matters

    The compiled modules of a wheel load in the one release of Python that it was built for. A wheel
    that was unpacked by hand, or a folder shared between environments, escapes pip's own look at
    this.

    ## How to fix

    Install the wheel for this release, or use the Python that it was built for.

    ## Symptoms

    - `ModuleNotFoundError: No module named 'torch._C'`
    - `ImportError: cannot import name '_MUSAC'`
    - `torch_musa-...whl is not a supported wheel on this platform`

    ## Sources

    PEP 425.
    """
    wheels = [distributions.get(name) for name in ("torch", "torch-musa", *COMPANIONS)]
    if not any(wheels):
        yield Absent(f"neither torch nor what goes with it is installed for {python.path}")
    elif not any(item.tags for item in wheels if item):
        # conda's packages and a distribution's are no wheels.
        yield Absent("no metadata name a Python that it was built for")
    for item in wheels:
        if item and item.tags and not any(_fits(tag, python) for tag in item.tags):
            yield Finding(
                f"{item} in {item.location} is built for {', '.join(item.tags)},"
                f" but {python.path} is {python.tag}",
                where=item.location,
                fix=Fix(
                    f"Install the {python.tag} wheel of it, or examine the Python that it was"
                    " built for with --python PATH"
                ),
            )


def _misfit(item: Distribution, torch: TorchBuild) -> str | None:
    """Why torchvision or torchaudio does not belong to this torch."""
    if item.version.local and _FOREIGN_LABEL.match(item.version.local):
        return f"is a +{item.version.local} build"
    for line in item.requires:
        pin = _PIN.match(line)
        wanted = WheelVersion.parse(pin[1]) if pin else None
        if wanted is not None and wanted.key != torch.version.key:
            return f"requires torch {wanted}"
    return None


@check("torch-companion-mismatch", layer=Layer.TORCH, severity="warning", said=by_message)
def torch_companion_mismatch(
    distributions: Distributions, torch_build: TorchBuild, torch_musa_build: TorchMusaBuild
) -> Judgement:
    """torchvision or torchaudio does not belong to the installed torch.

    ## Why it matters

    Both have compiled parts that fit one build of torch only. The import of the package fails, or
    its operators are missing; torch itself works.

    ## How to fix

    Install the vendor's builds of the same release, from the vendor's index. For torchaudio a build
    from source against the installed torch works too.

    ## Symptoms

    - `RuntimeError: operator torchvision::nms does not exist`
    - `OSError: libcudart.so.13: cannot open shared object file`
    - `libtorchaudio.so: undefined symbol: _ZNK5torch8autograd4Node4nameB5cxx11Ev`

    ## Sources

    musa-deploy 0.7.0 (2025-08); torch_musa issue 143 (2026); MUSA SDK 5.2.0 install guide.
    """
    if torch_build.flavour in OTHER_GPUS:
        return
    for name in COMPANIONS:
        item = distributions.get(name)
        reason = _misfit(item, torch_build) if item else None
        if item and reason:
            yield Finding(
                f"{item} {reason}, but torch is {torch_build.version}, with torch_musa"
                f" {torch_musa_build.version}",
                where=item.location,
                fix=Fix(
                    f"Install the Moore Threads build of {name} that belongs to torch"
                    f" {torch_build.version}, with --no-deps, from {INDEX}"
                ),
            )


@check("placeholder-package", layer=Layer.PYTHON, severity="warning")
def placeholder_package(
    distributions: Distributions, python: Python | Absent | Unknown
) -> Judgement:
    """A package is installed that only bears the name of MUSA software.

    ## Why it matters

    Some names in the public index hold demonstration code of an unrelated author. Others are a stub
    that pip falls back to on a Python for which the real package has no wheels.

    ## How to fix

    Uninstall it and install what the message names.

    ## Sources

    The packages themselves, looked into on 2026-11-30.
    """
    # The table is read only where there is something to look up.
    for row in placeholders() if distributions.items else ():
        item = distributions.get(row.name)
        if item and str(item.version) == row.version:
            instead = f"; what you want is {row.instead}" if row.instead else ""
            yield Finding(
                f"{item} in {item.location} is a placeholder with nothing of use in it",
                where=item.location,
                fix=Fix(
                    f"Uninstall it ({pip(python, f'uninstall {row.name}')}){instead}",
                    destructive=True,
                ),
            )


@check("triton-without-musa", layer=Layer.TORCH, severity="warning", said=by_message)
def triton_without_musa(
    torch_musa_build: TorchMusaBuild, triton: Triton, python: Python
) -> Judgement:
    """The installed Triton cannot compile for the cards.

    ## Why it matters

    `torch.compile` and packages with Triton kernels (vLLM, FlagGems, flash attention) need the
    vendor's Triton. The stock one has the same name and number, and takes its place with the next
    `pip install` of something that requires it. What does not use Triton works.

    ## How to fix

    Uninstall triton, then install the vendor's from its own index. The folder `triton/backends`
    tells them apart: it holds `mtgpu`.

    ## Symptoms

    - `0 active drivers ([]). There should only be one.`
    - `No module named 'triton'`

    ## Sources

    MUSA SDK 5.2.0 install guide (2026); FlagTree issue 773 (2026).
    """
    del torch_musa_build  # without it the question does not arise
    others = set(triton.backends) - STOCK_BACK_ENDS
    if not triton.backends:
        yield Unknown(f"{triton.path} has no folder backends, which would tell whose it is")
    elif "mtgpu" in others:
        return
    elif others:
        yield Unknown(f"{triton}: musadoctor does not know what {', '.join(sorted(others))} is for")
    else:
        yield Finding(
            f"{triton}, so it is a stock build without mtgpu ({triton.path})",
            where=triton.path,
            fix=Fix(
                f"Uninstall it, then install the vendor's triton from {INDEX}",
                (pip(python, "uninstall triton"),),
                destructive=True,
            ),
        )


@check("triton-missing", layer=Layer.TORCH, severity="note")
def triton_missing(torch_musa_build: TorchMusaBuild, triton: Triton | Absent) -> Judgement:
    """torch_musa is installed without Triton.

    ## Why it matters

    `torch.compile` and packages with Triton kernels do not work. All else does.

    ## How to fix

    Install triton from the vendor's index if it is needed; the one of the public index cannot
    compile for the cards.

    ## Symptoms

    - `No module named 'triton'`

    ## Sources

    FlagTree issue 621 (2026).
    """
    if isinstance(triton, Absent):
        yield Finding(
            f"{triton}, beside torch_musa {torch_musa_build.version}",
            where="triton",
            fix=Fix(f"If torch.compile is wanted, install triton from {INDEX}"),
        )
