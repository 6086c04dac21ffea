"""What the loader takes for each MUSA library, and whether the runtime can start with it."""

import posixpath
import shlex
from collections.abc import Iterator, Mapping

from musadoctor.api import (
    Absent,
    Environment,
    Finding,
    Fix,
    Gpus,
    Import,
    Judgement,
    Layer,
    Libraries,
    LoadableLibrary,
    Machine,
    Messages,
    MissingLibrary,
    Python,
    ToolAnswer,
    Toolkit,
    Toolkits,
    ToolkitVersion,
    TorchMusa,
    TorchMusaBuild,
    Unknown,
    check,
)
from musadoctor_checks._advice import boot_parameters, install, owner, uses_apt
from musadoctor_checks._exports import prepended, without
from musadoctor_checks._messages import FIRST_OF_ITS_SONAME, by_message, other_generation
from musadoctor_checks.knowledge import explained

LIBRARY_PATH = "LD_LIBRARY_PATH"
CANNOT_EXECUTE = 126
"""A shell's exit code for a file that is there and cannot be started."""
NOT_SUPPORTED = 801
"""The MUSA error code "operation not supported"."""


def _append(folder: str) -> tuple[str, ...]:
    """The export that adds a folder after the others: an earlier one may hold the right libmusa."""
    return (f'export LD_LIBRARY_PATH="${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}{folder}"',)


def _works(torch_musa_import: Import | Absent | Unknown) -> bool:
    """Whether torch_musa found its libraries: that weighs more than what the rules lead to."""
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
    - `libmusa.so.4.0: cannot open shared object file: No such file or directory`

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
    - `/usr/lib/x86_64-linux-gnu/libmusa.so.4: file too short`

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


def _runtime_lost(
    id: str,  # noqa: A002
    told: Messages,
    facts: Mapping[str, object],
) -> Iterator[Finding]:
    if not other_generation(told, facts)[1]:  # else torch-musa-for-other-generation says so
        yield from by_message(id, told, facts)


@check("libmusart-not-found", layer=Layer.LIBRARIES, severity="error", said=_runtime_lost)
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
    - `libdrm.so.2, needed by .../libsrv_um_MUSA.so, not found`

    ## Sources

    agent-skills musa-pytorch-python (2026-09); vllm-musa installation notes (2026).
    """
    if _works(torch_musa_import):
        return
    mpi = [lib for lib in libraries.missing if lib.soname.startswith("libmpi")]
    mkl = [lib for lib in libraries.missing if lib.soname.startswith("libmkl")]
    if mpi:
        note = "" if uses_apt(machine) else ", and put the folder of libmpi on the loader's path"
        yield Finding(
            _missed(torch_musa_build, mpi),
            where=mpi[0].asked_by,
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
            where=mkl[0].asked_by,
            fix=Fix(
                "Install MKL 2024.0, a newer one does not fit, and put its folder on the loader's"
                " path",
                commands,
            ),
        )


def _missed(wheel: TorchMusaBuild, missing: list[MissingLibrary]) -> str:
    named = f"torch_musa {wheel.version}"
    names = ", ".join(library.soname for library in missing)
    others = [lib.asked_by for lib in missing if not lib.asked_by.startswith(f"{wheel.path}/")]
    who = f"{named} loads {others[0]}, which" if len(others) == len(missing) else named
    return f"{who} needs {names}, which the loader does not find"


@check(
    "musa-library-missing",
    layer=Layer.LIBRARIES,
    severity="error",
    follows_from=Layer.CONTAINER,
    said=by_message,
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

    The libraries are looked for as the loader does it: by the RPATH and RUNPATH of the libraries
    that need them, LD_LIBRARY_PATH, the loader's cache and the default folders.

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
    - `libmufft.so.1: cannot open shared object file: No such file or directory`

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
    fixes: dict[Fix, list[MissingLibrary]] = {}
    for library in libraries.missing:
        if not library.soname.startswith(("libmpi", "libmkl")):
            fix = _remedy(library.soname, libraries, torch_musa_build, toolkits)
            fixes.setdefault(fix, []).append(library)
    for fix, missing in fixes.items():
        yield Finding(_missed(torch_musa_build, missing), where=missing[0].asked_by, fix=fix)


def _of_other_generation(wheel: TorchMusaBuild, toolkit: Toolkit | Absent | Unknown) -> bool:
    """Whether the whole wheel is for another Toolkit, which a check of pairs says."""
    if not isinstance(toolkit, Toolkit) or toolkit.version is None or wheel.runtime_major is None:
        return False
    return _majors_differ(wheel.runtime_major, toolkit.version.major)


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


def _majors_differ(one: int, other: int) -> bool:
    # Before Toolkit 4 the runtime was libmusart.so.1.0, whatever the Toolkit's number.
    return one != other and max(one, other) >= FIRST_OF_ITS_SONAME


def _unfit(library: LoadableLibrary, wheel: TorchMusaBuild) -> str:
    """Why a library from LD_LIBRARY_PATH cannot stand in for the wheel's own, empty if it may."""
    if library.problem:
        return library.problem
    own = library.hides.toolkit if library.hides else None
    expected = own.major if own else wheel.runtime_major
    if library.toolkit and expected and _majors_differ(library.toolkit.major, expected):
        return f"of Toolkit {library.toolkit}, torch_musa is for {own or f'{expected}.x'}"
    return ""


def _overriding(libraries: Libraries, wheel: TorchMusaBuild) -> dict[str, list[LoadableLibrary]]:
    """By entry of LD_LIBRARY_PATH what wins there over a copy in torch_musa's own RUNPATH."""
    entries: dict[str, list[LoadableLibrary]] = {}
    for library in libraries.found:
        if library.hides and library.asked_by.startswith(f"{wheel.path}/"):
            entries.setdefault(library.entry, []).append(library)
    return entries


def _hidden(
    libraries: Libraries, environment: Environment, chosen: list[LoadableLibrary], note: str
) -> Finding:
    """The finding for what one entry of LD_LIBRARY_PATH hides."""
    entry = chosen[0].entry
    own = {posixpath.dirname(lib.hides.path): lib.hides.entry for lib in chosen if lib.hides}
    folder = next(iter(own))
    names = ", ".join(lib.soname for lib in chosen)
    others = [
        lib.soname
        for lib in libraries.found
        if (lib.found_by, lib.entry) == (LIBRARY_PATH, entry) and lib.asked_by and not lib.hides
    ]
    if others:
        fix = Fix(
            f"Put {folder} before it, as {', '.join(others)} comes from {entry} alone",
            prepended(folder),
        )
    else:
        dropped = tuple(part for part in environment.library_path if (part.path or ".") == entry)
        fix = Fix(
            f"Take {entry} out of LD_LIBRARY_PATH, here and where the shell's settings are kept",
            without(environment.library_path, dropped),
        )
    return Finding(
        f"{entry} in LD_LIBRARY_PATH comes before torch_musa's own RUNPATH {own[folder]}:"
        f" {posixpath.dirname(chosen[0].real_path)} gives {names}, not {folder}{note}",
        where=LIBRARY_PATH,
        fix=fix,
    )


@check("library-path-breaks-wheel", layer=Layer.ENVIRONMENT, severity="error")
def library_path_breaks_wheel(
    libraries: Libraries, torch_musa_build: TorchMusaBuild, environment: Environment
) -> Judgement:
    """LD_LIBRARY_PATH gives torch_musa a library that does not fit, before its own good one.

    ## Why it matters

    A wheel names the folder of its libraries in its RUNPATH. The loader goes through
    LD_LIBRARY_PATH before it, so that a folder of an older Toolkit in a profile, or one with an
    empty file, wins. The names of muDNN and libmusa do not change between generations: such a file
    loads without a word, and then lacks symbols or crashes.

    ## How to fix

    Take the folder out of LD_LIBRARY_PATH. If other libraries come from it alone, put the folder
    that the wheel names before it.

    ## Symptoms

    - `undefined symbol` in `libmusa_python.so` or `libmusa_kernels.so`
    - `libmudnn.so.3: file too short`

    ## Sources

    ld.so(8); compared with what glibc really maps.
    """
    for chosen in _overriding(libraries, torch_musa_build).values():
        unfit = [lib for lib in chosen if _unfit(lib, torch_musa_build)]
        if unfit:
            note = f"; {unfit[0].soname} is unfit: {_unfit(unfit[0], torch_musa_build)}"
            yield _hidden(libraries, environment, unfit, note)


@check("library-path-overrides-wheel", layer=Layer.ENVIRONMENT, severity="warning")
def library_path_overrides_wheel(
    libraries: Libraries,
    torch_musa_build: TorchMusaBuild,
    environment: Environment,
    toolkit: Toolkit | Absent | Unknown,
) -> Judgement:
    """LD_LIBRARY_PATH gives torch_musa another copy of a library than its own.

    ## Why it matters

    A wheel names the folder of its libraries in its RUNPATH, and was tested with those. The loader
    goes through LD_LIBRARY_PATH before it, so that a folder that was left behind in a profile wins.

    A folder of the Toolkit in use, or of the release that the wheel was built for, is not reported.

    ## How to fix

    Take the folder out of LD_LIBRARY_PATH. If other libraries come from it alone, put the folder
    that the wheel names before it.

    ## Sources

    ld.so(8); compared with what glibc really maps.
    """
    in_use = toolkit.version if isinstance(toolkit, Toolkit) else None
    for chosen in _overriding(libraries, torch_musa_build).values():
        strange = [
            lib
            for lib in chosen
            if not _unfit(lib, torch_musa_build)
            and not _expected(lib, torch_musa_build.built_for, in_use)
        ]
        if strange:
            yield _hidden(libraries, environment, strange, "")


def _expected(
    library: LoadableLibrary, built_for: ToolkitVersion | None, in_use: ToolkitVersion | None
) -> bool:
    """Whether a library is of the Toolkit that belongs here."""
    if library.toolkit is None:
        return False
    own = library.hides.toolkit if library.hides else None
    return library.toolkit in ([own] if own else [built_for, in_use])


@check("library-loaded-from-elsewhere", layer=Layer.TORCH_MUSA, severity="warning")
def library_loaded_from_elsewhere(
    torch_musa: TorchMusa,
    libraries: Libraries,
    environment: Environment | Unknown,
    python: Python | Absent | Unknown,
) -> Judgement:
    """torch_musa runs with another file of a library than the loader's rules lead to.

    ## Why it matters

    musadoctor works out by the rules of the loader which file each library is, and compares that
    with what is mapped after the import. If they differ, something else than RPATH,
    LD_LIBRARY_PATH, RUNPATH and the loader's cache decides: LD_PRELOAD, or a package that opens a
    library of its own first. What this environment seems to use is then not what runs.

    ## How to fix

    Find out who opens the file. `LD_DEBUG=files` shows who asks for each library, in order; a file
    that was preloaded comes first.

    ## Sources

    ld.so(8); `/proc/PID/maps`.
    """
    preload = environment.get("LD_PRELOAD") if isinstance(environment, Environment) else None
    rules = {library.soname: library for library in libraries.found if library.asked_by}
    names = [*rules, *(library.soname for library in libraries.missing)]
    for soname in names:
        library = rules.get(soname)
        mapped = [
            path
            for path in torch_musa.mapped
            if f"{posixpath.basename(path)}.".startswith(f"{soname}.")
        ]
        if not mapped or (library and library.real_path in torch_musa.mapped):
            continue
        rule = f"lead to {library}" if library else "find none"
        why = f"LD_PRELOAD={preload} may bring it" if preload else "Something opens it by its path"
        code = shlex.quote("import torch, torch_musa")
        path = shlex.quote(python.path) if isinstance(python, Python) else "python3"
        stem = soname.partition(".so")[0]
        yield Finding(
            f"{soname} is mapped from {mapped[0]}, but the loader's rules {rule}",
            where=mapped[0],
            fix=Fix(
                f"{why}: see who asks for it",
                (f"LD_DEBUG=files {path} -c {code} 2>&1 | grep -F {stem}",),
            ),
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
