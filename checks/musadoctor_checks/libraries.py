"""What the loader takes for each MUSA library, and whether the runtime can start with it."""

import shlex

from musadoctor.api import (
    Absent,
    Finding,
    Fix,
    Gpus,
    Import,
    Judgement,
    Layer,
    Libraries,
    LoadableLibrary,
    Machine,
    Python,
    ToolAnswer,
    Toolkit,
    Toolkits,
    TorchMusaBuild,
    Unknown,
    check,
)
from musadoctor_checks._messages import by_message
from musadoctor_checks._advice import boot_parameters, install, owner, uses_apt
from musadoctor_checks.knowledge import explained

CANNOT_EXECUTE = 126
"""A shell's exit code for a file that is there and cannot be started."""
FIRST_OF_ITS_SONAME = 4
"""From this generation on the runtime is named after it, ``libmusart.so.4``."""
NOT_SUPPORTED = 801
"""The MUSA error code "operation not supported"."""


def _append(folder: str) -> tuple[str, ...]:
    """The export that adds a folder after the others: an earlier one may hold the right libmusa."""
    return (f'export LD_LIBRARY_PATH="${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}{folder}"',)


def _works(torch_musa_import: Import | Absent | Unknown) -> bool:
    """Whether torch_musa found its libraries all the same, by the paths written into it."""
    return isinstance(torch_musa_import, Import) and torch_musa_import.failure is None


@check(
    "libmusa-not-found",
    layer=Layer.LIBRARIES,
    severity="error",
    follows_from=Layer.DRIVER,
    said=by_message,
)
def libmusa_not_found(
    gpus: Gpus, user_driver: LoadableLibrary | Absent, machine: Machine | Unknown
) -> Judgement:
    """The loader finds no user-space driver libmusa.

    ## Why it matters

    Every MUSA program reaches the kernel driver through `libmusa.so.N`. Without it the runtime
    answers each call with an initialisation error, and PyTorch says that there is no driver.

    ## How to fix

    On a host it comes with the driver package, into `/usr/lib/x86_64-linux-gnu`, or with the
    package `libmthreads-compute`, whose number is that of the SDK. If the file is there, run
    `ldconfig`. In a container it is passed in from the host.

    ## Symptoms

    - `Found no driver on your system`
    - `libmusa.so.4: cannot open shared object file: No such file or directory`

    ## Sources

    MUSA SDK 5.2.0 container guide (2026); torch_musa issue 137 (2026-05).
    """
    if isinstance(user_driver, LoadableLibrary):
        return
    yield Finding(
        f"{user_driver}, with {gpus}",
        where="libmusa.so",
        fix=Fix(
            "See whether the file is there. If it is, refresh the loader's cache; if not, install"
            " libmthreads-compute of the Toolkit's SDK release, or the driver package again",
            (
                "ls -l /usr/lib/x86_64-linux-gnu/libmusa.so*",
                "sudo ldconfig",
                *install(machine, apt="libmthreads-compute"),
            ),
        ),
    )


@check(
    "library-damaged",
    layer=Layer.LIBRARIES,
    severity="error",
    follows_from=Layer.CONTAINER,
    said=by_message,
)
def library_damaged(libraries: Libraries, machine: Machine | Unknown) -> Judgement:
    """A MUSA library that the loader would take cannot be loaded.

    ## Why it matters

    The loader ends its search at the first file of the right name that is no library, and reports
    an error, even if a good file stands further down its path.

    ## How to fix

    Install the package that the file came with again, or remove the folder from LD_LIBRARY_PATH if
    a good file of the name is elsewhere.

    ## Symptoms

    - `file too short`
    - `invalid ELF header`

    ## Sources

    ld.so(8); a 4.3.1 image with an empty libmusa.so.4.3.1 (2026).
    """
    for library in libraries.found:
        if library.problem:
            yield Finding(
                f"{library}: {library.problem}",
                where=library.path,
                fix=Fix(
                    "Install the package again that this file came with; in a container, make a new"
                    " one, or mount the host's file",
                    (f"ls -lL {shlex.quote(library.path)}", *owner(machine, library.path)),
                ),
            )


@check("libmusart-not-found", layer=Layer.LIBRARIES, severity="error", said=by_message)
def libmusart_not_found(
    toolkit: Toolkit,
    libraries: Libraries | Absent,
    torch_musa_import: Import | Absent | Unknown,
) -> Judgement:
    """A Toolkit is in use, but the loader does not find its runtime libmusart.

    ## Why it matters

    MUSA_HOME and PATH are for compilers and scripts. The loader looks into LD_LIBRARY_PATH, its
    cache and its default folders only.

    ## How to fix

    Add the Toolkit's `lib` folder to LD_LIBRARY_PATH. On a host with one Toolkit a file in
    `/etc/ld.so.conf.d` does the same for all users; with several it would pin one of them.

    ## Symptoms

    - `libmusart.so.5: cannot open shared object file: No such file or directory`

    ## Sources

    MUSA SDK 5.2.0 install guide (2026); ld.so(8).
    """
    has_runtime = any(name.startswith("libmusart.so") for name in toolkit.libraries)
    found = isinstance(libraries, Libraries) and libraries.of_name("libmusart")
    if has_runtime and not found and not _works(torch_musa_import):
        yield Finding(
            f"libmusart is in {toolkit.root}/lib, which neither LD_LIBRARY_PATH nor the loader's"
            " cache leads to",
            where="LD_LIBRARY_PATH",
            fix=Fix(
                "Add the folder to the loader's path, here and where the shell's settings are kept",
                _append(f"{toolkit.root}/lib"),
            ),
        )


@check("system-library-missing", layer=Layer.LIBRARIES, severity="error", said=by_message)
def system_library_missing(
    libraries: Libraries,
    torch_musa_build: TorchMusaBuild,
    torch_musa_import: Import | Absent | Unknown,
    python: Python | Absent | Unknown,
    machine: Machine | Unknown,
) -> Judgement:
    """torch_musa needs MPI or MKL, which the loader does not find.

    ## Why it matters

    The wheels need these two, and neither is part of the MUSA SDK or installed with the wheel.
    Without them `import torch_musa` fails, from 2.5 on `import torch` too, often with no more than
    "Please try running Python from a different directory!" on the screen.

    ## How to fix

    - `libmpi.so.40`: install OpenMPI 4.1.
    - `libmkl_*.so.2`: install MKL 2024.0. A newer one fails with `iJIT_NotifyEvent`.

    ## Symptoms

    - `libmpi.so.40: cannot open shared object file: No such file or directory`
    - `libmkl_intel_lp64.so.2: cannot open shared object file: No such file or directory`
    - `undefined symbol: iJIT_NotifyEvent`

    ## Sources

    agent-skills musa-pytorch-python (2026-09); vllm-musa installation notes (2026).
    """
    if _works(torch_musa_import):
        return
    mpi = [name for name in libraries.missing if name.startswith("libmpi")]
    mkl = [name for name in libraries.missing if name.startswith("libmkl")]
    if mpi:
        note = "" if uses_apt(machine) else ", and put the folder of libmpi on the loader's path"
        yield Finding(
            _missed(torch_musa_build, mpi),
            where=torch_musa_build.path,
            fix=Fix(
                f"Install OpenMPI 4.1{note}",
                install(machine, apt="openmpi-bin", dnf="openmpi"),
            ),
        )
    if mkl:
        commands: tuple[str, ...] = ()
        if isinstance(python, Python):
            install_it = f"{shlex.quote(python.path)} -m pip install mkl==2024.0.0"
            commands = (install_it, *_append(f"{python.prefix}/lib"))
        yield Finding(
            _missed(torch_musa_build, mkl),
            where=torch_musa_build.path,
            fix=Fix(
                "Install MKL 2024.0, a newer one does not fit, and put its folder on the loader's"
                " path",
                commands,
            ),
        )


def _missed(wheel: TorchMusaBuild, sonames: list[str]) -> str:
    return f"torch_musa {wheel.version} needs {', '.join(sonames)}, which the loader does not find"


@check(
    "musa-library-missing", layer=Layer.LIBRARIES, severity="error", follows_from=Layer.CONTAINER
)
def musa_library_missing(
    libraries: Libraries,
    torch_musa_build: TorchMusaBuild,
    torch_musa_import: Import | Absent | Unknown,
    toolkits: Toolkits | Absent | Unknown,
    toolkit: Toolkit | Absent | Unknown,
) -> Judgement:
    """torch_musa needs MUSA libraries that the loader does not find.

    ## Why it matters

    `import torch_musa` fails, from 2.5 on `import torch` too. The text on the screen is often only
    "Please try running Python from a different directory!"; the cause is in the chained exception.

    ## How to fix

    - An installed Toolkit has the file: put its `lib` folder on LD_LIBRARY_PATH.
    - It has the library with another number: wheel and Toolkit are of different generations.
      Install the Toolkit that the wheel was built for, or the wheel for this Toolkit. Never make a
      link with the wanted number.
    - `libmusa.so.N`: the user-space driver is of another generation than the wheel.

    ## Symptoms

    - `libmusart.so.5: cannot open shared object file: No such file or directory`
    - `libmupti.so.0.2: cannot open shared object file: No such file or directory`
    - `libmusa.so.4.0: cannot open shared object file: No such file or directory`

    ## Sources

    torch_musa issues 56, 83, 100, 117, 137 (2024-08 to 2026-05).
    """
    if _works(torch_musa_import):
        return
    if libraries.missing and _of_other_generation(torch_musa_build, toolkit):
        yield Unknown(
            f"torch_musa {torch_musa_build.version} is of another generation than {toolkit}: what"
            " else it misses shows when they agree"
        )
        return
    fixes: dict[Fix, list[str]] = {}
    for soname in libraries.missing:
        if not soname.startswith(("libmpi", "libmkl")):
            fix = _remedy(soname, libraries, torch_musa_build, toolkits)
            fixes.setdefault(fix, []).append(soname)
    for fix, sonames in fixes.items():
        yield Finding(_missed(torch_musa_build, sonames), where=torch_musa_build.path, fix=fix)


def _of_other_generation(wheel: TorchMusaBuild, toolkit: Toolkit | Absent | Unknown) -> bool:
    """Whether the whole wheel is for another Toolkit, which a check of pairs says."""
    if not isinstance(toolkit, Toolkit) or toolkit.version is None or wheel.runtime_major is None:
        return False
    # Before Toolkit 4 the runtime was libmusart.so.1.0, whatever the Toolkit's number.
    pair = {wheel.runtime_major, toolkit.version.major}
    return len(pair) > 1 and max(pair) >= FIRST_OF_ITS_SONAME


def _remedy(
    soname: str,
    libraries: Libraries,
    wheel: TorchMusaBuild,
    toolkits: Toolkits | Absent | Unknown,
) -> Fix:
    trees = toolkits.installed if isinstance(toolkits, Toolkits) else ()
    for tree in trees:
        if any(name == soname or name.startswith(f"{soname}.") for name in tree.libraries):
            folder = f"{tree.root}/lib"
            return Fix(f"Put {folder}, which has it, on the loader's path", _append(folder))
    stem = soname.partition(".so")[0]
    built = f"Toolkit {wheel.built_for}" if wheel.built_for else "the Toolkit it was built for"
    there = [library.soname for library in libraries.of_name(stem)]
    other = f"; here is {', '.join(there)}, of another generation" if there else ""
    if stem == "libmusa":
        return Fix(f"Install the user-space driver (libmthreads-compute) that fits {built}{other}")
    return Fix(
        f"Install {built} with its muDNN and MCCL, or the torch_musa that was built for the"
        f" Toolkit that is here{other}"
    )


@check(
    "musa-info-reports-error", layer=Layer.LIBRARIES, severity="error", follows_from=Layer.HARDWARE
)
def musa_info_reports_error(
    musa_info_answer: ToolAnswer,
    gpus: Gpus,
    machine: Machine | Unknown,
) -> Judgement:
    """The Toolkit's own musaInfo cannot use the cards.

    ## Why it matters

    `musaInfo` does no more than start the runtime and list the devices, without Python and without
    PyTorch. What stops it stops every MUSA program.

    ## How to fix

    It depends on the error code:

    - 803: the user-space driver is of another release than the runtime. Use the Toolkit of the
      driver's generation, or put the `libmusa` that belongs to the Toolkit first; in a container,
      start it anew after a change of the host's driver.
    - 801: on an S4000 the IOMMU is off. It also comes when cards of two architectures are in one
      host.
    - 100 and 101, by one report: no device for this process.

    ## Symptoms

    - `error: 'operation not supported'(801) at .../musaInfo.cpp:155`
    - `error: API returned error code.`
    - `error: TEST FAILED`
    - `unsupported display driver / musa driver combination`

    ## Sources

    musa-deploy 0.7.0 (2025-08); tutorial_on_musa, environment FAQ item 3, and issue 26 (2024/2025);
    llama.cpp issue 11675 (2025); ollama pull request 7554 for 100 and 101.
    """
    answer = musa_info_answer
    if answer.error is None:
        return
    if answer.exit_code == CANNOT_EXECUTE:
        yield Unknown(f"{answer}, so it could not be asked")
        return
    known = explained((answer.error,))
    fix = Fix(known.fix) if known else Fix("Look at the driver and at the loader's path first")
    if answer.error_code == NOT_SUPPORTED:
        fix = _not_supported(gpus, machine)
    meaning = f": {known.meaning}" if known else ""
    yield Finding(
        f"{answer} (exit code {answer.exit_code}){meaning}", where=answer.command, fix=fix
    )


def _not_supported(gpus: Gpus, machine: Machine | Unknown) -> Fix:
    if len(gpus.architectures) > 1:
        return Fix("Show the process cards of one architecture only, by MUSA_VISIBLE_DEVICES")
    if "MTT S4000" in gpus.products:
        return Fix(
            "The IOMMU is off or not in effect. Switch VT-d or AMD-Vi on in the BIOS. "
            + boot_parameters(
                machine, "intel_iommu=on (AMD, Hygon: amd_iommu=on) iommu.passthrough=0"
            )
        )
    return Fix("Look at the IOMMU: the S5000 wants it off, the S4000 on")
