"""Versions that have to fit each other: driver, Toolkit, its components, torch_musa, torch.

The four kinds of number are related by the tables in ``knowledge/pairs.toml``, by what the runtime
itself says, and by nothing else. A pair that no table names is unknown to musadoctor, not wrong.
"""

import re
from collections.abc import Iterator, Mapping

from musadoctor.api import (
    Absent,
    ComponentLibrary,
    Finding,
    Fix,
    Import,
    Judgement,
    KernelDriver,
    Layer,
    LoadableLibrary,
    Mcc,
    Messages,
    MusaInfo,
    Python,
    ToolAnswer,
    Toolkit,
    Toolkits,
    ToolkitVersion,
    TorchBuild,
    TorchMusa,
    TorchMusaBuild,
    Unknown,
    VersionQuery,
    check,
)
from musadoctor_checks._exports import exports
from musadoctor_checks._messages import by_message, other_generation, quoted
from musadoctor_checks._wheels import reinstall
from musadoctor_checks.knowledge import (
    covers,
    dated,
    driver_toolkit,
    public,
    toolkit_components,
    toolkit_wheels,
    torch_for,
    torch_musa_for,
    torch_pairs,
)

OTHER_GPUS = {"CUDA", "ROCm"}
REFUSED = 803
REFUSAL = re.compile(
    r"\b803\b|unsupported display driver|musa driver combination|undefined symbol: PVRSRV",
    re.IGNORECASE,
)
SONAME_FROM = 4
"""From this generation on ``libmusart.so.N`` has the Toolkit's N; before it was ``.so.1``."""
MCC_EQUAL_FROM = (4, 2)
"""From this Toolkit on mcc has the Toolkit's number; 4.0 and 4.1 brought mcc 3.1.0."""


@check("driver-toolkit-mismatch", layer=Layer.TOOLKIT, severity="warning", said=by_message)
def driver_toolkit_mismatch(
    kernel_driver: KernelDriver,
    toolkit: Toolkit,
    toolkits: Toolkits | Absent | Unknown,
    torch_musa_build: TorchMusaBuild | Absent | Unknown,
) -> Judgement:
    """The kernel driver and the Toolkit in use are known not to go together.

    ## Why it matters

    The vendor numbers the two independently and publishes no table of what fits. musadoctor knows
    pairs from real hosts. With the driver 5.2.0 and the Toolkit 4.3.5 basic operations work and
    graph capture fails, so that it looks like a fault of the library that uses it.

    ## How to fix

    Use the Toolkit, or the container image, of the driver's SDK release.

    ## Symptoms

    - `operation not permitted when stream is capturing`

    ## Sources

    `knowledge/pairs.toml`; FlagGems issue 6124 (2026-09-21); MUSA SDK 5.2.0 install guide on the
    numbers being independent.
    """
    if kernel_driver.version is None or toolkit.version is None:
        yield Unknown(f"a number is missing: {kernel_driver}, {toolkit}")
        return
    driver, number = kernel_driver.version, toolkit.version
    table = driver_toolkit()
    row = next((r for r in table if covers(r.driver, driver) and covers(r.toolkit, number)), None)
    if row is None:
        yield Unknown(
            f"kernel driver {driver} with Toolkit {number}: a pair unknown to musadoctor, whose"
            f" table is of {dated([r.origin for r in table])}"
        )
    elif not row.works:
        good = [r.toolkit for r in table if covers(r.driver, driver) and r.works]
        fitting = next(
            (
                tree
                for tree in _of_generation(toolkits, _needed(torch_musa_build))
                if tree.version and any(covers(listed, tree.version) for listed in good)
            ),
            None,
        )
        fix = Fix(
            "Use a Toolkit, or a container image, that is known with this driver:"
            f" {', '.join(good)}"
        )
        if fitting:
            fix = Fix(
                f"Use {fitting.root}, which is installed too and known with this driver",
                exports(fitting),
            )
        yield Finding(
            f"{kernel_driver} with {toolkit}: {row.note} ({row.origin})",
            where=toolkit.root,
            fix=fix,
        )


@check("driver-far-from-toolkit", layer=Layer.TOOLKIT, severity="warning")
def driver_far_from_toolkit(
    kernel_driver: KernelDriver,
    toolkit: Toolkit,
    musa_info: MusaInfo | Absent | Unknown,
    torch_musa: TorchMusa | Absent | Unknown,
) -> Judgement:
    """The kernel driver is of another time than the Toolkit, and nothing shows that they work.

    ## Why it matters

    The vendor publishes no table of what fits, and most pairs that musadoctor does not know may
    well work. Two kinds are known to fail: a runtime that is newer than what its driver carries
    (error 803), and an old Toolkit's libraries over a much newer driver (undefined `PVRSRV`
    symbols, graph capture). This pair is of one of these kinds: the driver is older than every one
    that is known with this Toolkit, or of a later generation than every one.

    Where `musaInfo` lists devices, or torch_musa is available, the pair is not called into
    question. A pair that is known to fail has a check of its own, `driver-toolkit-mismatch`.

    ## How to fix

    Use the Toolkit, or the container image, of the driver's SDK release; or the driver of the
    Toolkit's.

    ## Symptoms

    - `system has unsupported display driver / musa driver combination`
    - `undefined symbol: PVRSRV...`

    ## Sources

    `knowledge/pairs.toml`; llama.cpp issue 11675 (2025); torch_musa issues 24, 71 and 79
    (2024 to 2025); FlagGems issue 6124 (2026-09). That it holds for this very pair is inferred.
    """
    if isinstance(musa_info, MusaInfo) or (
        isinstance(torch_musa, TorchMusa) and torch_musa.available
    ):
        return
    if kernel_driver.version is None or toolkit.version is None:
        yield Unknown(f"a number is missing: {kernel_driver}, {toolkit}")
        return
    listed = any(
        covers(r.driver, kernel_driver.version) and covers(r.toolkit, toolkit.version)
        for r in driver_toolkit()
    )
    if listed:
        return
    driver, number = kernel_driver.version.key[:3], toolkit.version.key[:3]
    works = [(_numbers(r.driver), _numbers(r.toolkit)) for r in driver_toolkit() if r.works]
    known = sorted(d for d, t in works if t == number[: len(t)])
    carried = [t for d, t in works if d == driver]
    if not known:
        yield Unknown(f"no driver is known with Toolkit {toolkit.version}")
        return
    oldest, newest = known[0], known[-1]
    if driver[:2] < oldest[:2] and all(t < number for t in carried):
        what = f"older than {_dotted(oldest)}, the oldest"
    elif driver[0] > newest[0] and all(t > number for t in carried):
        what = f"of a later generation than {_dotted(newest)}, the newest"
    else:
        return
    yield Finding(
        f"{kernel_driver} is {what} that is known with {toolkit}",
        where=toolkit.root,
        fix=Fix(
            "Use the Toolkit or the container image of the driver's SDK release, or the driver"
            f" that is known with this Toolkit: {', '.join(map(_dotted, known))}"
        ),
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _needed(build: TorchMusaBuild | Absent | Unknown) -> int | None:
    """The generation of the Toolkit that a torch_musa needs."""
    if not isinstance(build, TorchMusaBuild):
        return None
    if build.runtime_major is not None:
        return build.runtime_major
    return build.built_for.major if build.built_for else None


def _of_generation(
    toolkits: Toolkits | Absent | Unknown, needed: int | None
) -> tuple[Toolkit, ...]:
    """The installed Toolkits, of one generation where that is known."""
    return tuple(
        tree
        for tree in (toolkits.installed if isinstance(toolkits, Toolkits) else ())
        if tree.version
        and (needed is None or _generation(tree.version.major) == _generation(needed))
    )


def _refusals(
    answer: ToolAnswer | Absent | Unknown,
    imported: Import | Absent | Unknown,
    torch_musa: TorchMusa | Absent | Unknown,
) -> list[str]:
    """Who says 803."""
    said: list[str] = []
    if isinstance(answer, ToolAnswer) and (
        answer.error_code == REFUSED or REFUSAL.search(answer.error or "")
    ):
        said.append(str(answer))
    if isinstance(imported, Import) and imported.failure:
        said += [str(imported.failure)] if REFUSAL.search(imported.failure.message) else []
    if isinstance(torch_musa, TorchMusa):
        added = [device.add.failure for device in torch_musa.devices if device.add.failure]
        texts = [*torch_musa.warnings, *map(str, torch_musa.failures), *map(str, added)]
        said += [f"torch_musa: {text}" for text in texts if REFUSAL.search(text)]
    return said


@check("driver-refuses-runtime", layer=Layer.LIBRARIES, severity="error", said=by_message)
def driver_refuses_runtime(
    musa_info_answer: ToolAnswer | Absent | Unknown,
    torch_musa_import: Import | Absent | Unknown,
    torch_musa: TorchMusa | Absent | Unknown,
    kernel_driver: KernelDriver | Absent | Unknown,
    user_driver: LoadableLibrary | Absent | Unknown,
    toolkit: Toolkit | Absent | Unknown,
) -> Judgement:
    """The driver does not carry this runtime (error 803).

    ## Why it matters

    803 is the runtime's own word that the user-space driver `libmusa` and the runtime `libmusart`
    do not fit: the runtime is newer than the driver, or in a container another driver was put in
    place than the host's. No MUSA program runs.

    ## How to fix

    Compare the three numbers in the message. Use the Toolkit of the driver's release, or put the
    folder of the `libmusa` that belongs to the Toolkit before all others in `LD_LIBRARY_PATH`. In a
    container, start it anew after a change of the host's driver. A newer driver is the last resort:
    it replaces the one that works for others on this host.

    ## Symptoms

    - `error: '...'(803) at .../musaInfo.cpp`
    - `system has unsupported display driver / musa driver combination`
    - `driver on your system is too old (found version ...)`
    - `libmusa.so.1.0: undefined symbol: PVRSRV...`

    ## Sources

    llama.cpp issue 11675 (2025); musa-deploy 0.7.0 (2025-08).
    """
    said = _refusals(musa_info_answer, torch_musa_import, torch_musa)
    asked = (musa_info_answer, torch_musa_import, torch_musa)
    silent = [item for item in asked if isinstance(item, Unknown)]
    if silent and all(isinstance(item, (Absent, Unknown)) for item in asked):
        yield silent[0]
    if said:
        where = user_driver.real_path if isinstance(user_driver, LoadableLibrary) else ""
        yield Finding(
            f"{'; '.join(dict.fromkeys(said))}; {kernel_driver}; {user_driver}; {toolkit}",
            where=where,
            fix=Fix(
                "Use the Toolkit of the driver's release, or put the folder of the libmusa that"
                " belongs to the Toolkit first in LD_LIBRARY_PATH; only then think of another"
                " driver, which every user of this host gets"
            ),
        )


@check("driver-api-older-than-runtime", layer=Layer.LIBRARIES, severity="error")
def driver_api_older_than_runtime(
    musa_info: MusaInfo, user_driver: LoadableLibrary | Absent | Unknown
) -> Judgement:
    """The user-space driver has an older API than the runtime asks for.

    ## Why it matters

    `musaInfo` prints the API level of `libmusa` as Driver Version and that of `libmusart` as
    Runtime Version. A runtime that is ahead of its driver calls functions that are not there.

    ## How to fix

    Put the folder of the `libmusa` that belongs to the Toolkit first in `LD_LIBRARY_PATH`, or use
    the Toolkit of the driver's release.

    ## Sources

    The two numbers are those of `muDriverGetVersion` and `musaRuntimeGetVersion` (OpenXLA MUSA
    plug-in, 2026); that the order matters is inferred from error 803.
    """
    driver, runtime = musa_info.driver_api, musa_info.runtime_api
    if driver is None or runtime is None:
        yield Unknown(f"{musa_info.source} does not state both API levels")
    elif driver < runtime:
        yield Finding(
            f"driver API {driver} is older than runtime API {runtime} ({musa_info.source});"
            f" libmusa: {user_driver}",
            where=user_driver.real_path if isinstance(user_driver, LoadableLibrary) else "",
            fix=Fix(
                f"Put the folder of the libmusa of SDK {runtime} first in LD_LIBRARY_PATH, or use"
                f" a Toolkit {driver}"
            ),
        )


@check("driver-of-newer-generation", layer=Layer.LIBRARIES, severity="warning")
def driver_of_newer_generation(
    musa_info: MusaInfo, user_driver: LoadableLibrary | Absent | Unknown
) -> Judgement:
    """The user-space driver is of a newer generation than the Toolkit.

    ## Why it matters

    Basic operations work, others need not: with a driver 5.2 under the Toolkit 4.3.5 graph capture
    failed in five of five runs, with a driver of the Toolkit's own generation in none.

    ## How to fix

    Use the Toolkit, or the container image, of the driver's generation, or put the `libmusa` that
    belongs to the Toolkit first in `LD_LIBRARY_PATH`.

    ## Symptoms

    - `operation not permitted when stream is capturing`

    ## Sources

    FlagGems issue 6124 (2026-09-21).
    """
    driver, runtime = musa_info.driver_api, musa_info.runtime_api
    if driver is None or runtime is None:
        yield Unknown(f"{musa_info.source} does not state both API levels")
    elif driver.major > runtime.major:
        yield Finding(
            f"driver API {driver}, but runtime API {runtime} ({musa_info.source}); libmusa:"
            f" {user_driver}",
            where=user_driver.real_path if isinstance(user_driver, LoadableLibrary) else "",
            fix=Fix(f"Use a Toolkit of generation {driver.major}, if graph capture is needed"),
        )


def _component(library: ComponentLibrary, toolkit: Toolkit) -> Judgement:
    """Compare muDNN or MCCL with the table."""
    if library.version is None or toolkit.version is None:
        yield Unknown(f"a number is missing: {library}, {toolkit}")
        return
    number = toolkit.version
    table = toolkit_components()
    row = next((row for row in table if covers(row.toolkit, number)), None)
    if row is None:
        yield Unknown(
            f"{library} with Toolkit {number}: a pair unknown to musadoctor, whose table is of"
            f" {dated([row.origin for row in table])}{_pattern(library, number)}"
        )
        return
    belonging = row.mudnn if library.name == "muDNN" else row.mccl
    if any(covers(listed, library.version) for listed in belonging):
        return
    own = any(name.startswith(f"lib{library.name.lower()}.so") for name in toolkit.libraries)
    places = (library.path, library.source)
    if own and not any(place.startswith(f"{toolkit.root}/") for place in places):
        fix = Fix(
            f"The loader takes {library.path} although {toolkit.root}/lib has its own: put that"
            " folder first in LD_LIBRARY_PATH",
            exports(toolkit),
        )
    else:
        fix = Fix(
            f"Install {library.name} {belonging[-1]}, which replaces the library that other"
            " programs on this host may use",
            destructive=True,
        )
    yield Finding(
        f"{library} beside {toolkit}, to which {library.name} {' or '.join(belonging)} belongs"
        f" ({row.origin})",
        where=library.path,
        fix=fix,
    )


def _pattern(library: ComponentLibrary, toolkit: ToolkitVersion) -> str:
    """What 4.3.5 and 4.3.6 suggest for the other releases 4.3.N; a hint and no more."""
    if toolkit.key[:2] != (4, 3) or len(toolkit.key) < 3:  # noqa: PLR2004 - X.Y.Z
        return ""
    line = "3.1" if library.name == "muDNN" else "2.1"
    return f"; by the pattern of 4.3.5 and 4.3.6 it would be {line}.{toolkit.key[2]}"


@check(
    "mudnn-of-other-release",
    layer=Layer.LIBRARIES,
    severity="warning",
    follows_from=Layer.ENVIRONMENT,
)
def mudnn_of_other_release(mudnn: ComponentLibrary, toolkit: Toolkit) -> Judgement:
    """muDNN is not the one of the Toolkit's SDK release.

    ## Why it matters

    muDNN is installed on its own and easily stays behind when the Toolkit is changed. It then calls
    a runtime that it was not tested with, and operators fail one by one.

    ## How to fix

    Install the muDNN of the SDK release that the Toolkit belongs to.

    ## Symptoms

    - `Conv2d MUDNN failed in: RunFusion`
    - `muDNN ... NOT_SUPPORTED`

    ## Sources

    `knowledge/pairs.toml`: release notes, image tags and real hosts.
    """
    yield from _component(mudnn, toolkit)


@check(
    "mccl-of-other-release",
    layer=Layer.LIBRARIES,
    severity="warning",
    follows_from=Layer.ENVIRONMENT,
)
def mccl_of_other_release(mccl: ComponentLibrary, toolkit: Toolkit) -> Judgement:
    """MCCL is not the one of the Toolkit's SDK release.

    ## Why it matters

    MCCL is installed on its own and easily stays behind when the Toolkit is changed.

    ## How to fix

    Install the MCCL of the SDK release that the Toolkit belongs to. The `2.11.4` that MCCL's banner
    and `musa_version_query` state is the NCCL release that it is compatible with, not its number.

    ## Sources

    `knowledge/pairs.toml`: release notes, image tags and real hosts.
    """
    yield from _component(mccl, toolkit)


def _generation(number: int) -> str:
    return f"{number}.x" if number >= SONAME_FROM else "1.x to 3.x"


def _told_of_generation(
    id: str,  # noqa: A002
    told: Messages,
    facts: Mapping[str, object],
) -> Iterator[Finding]:
    line, why = other_generation(told, facts)
    if why:
        yield quoted(
            line,
            why,
            "Use the Toolkit that this torch_musa was built for, or the torch_musa of the Toolkit"
            " in use",
        )
    else:
        yield from by_message(id, told, facts)


@check(
    "torch-musa-for-other-generation",
    layer=Layer.TORCH_MUSA,
    severity="error",
    said=_told_of_generation,
)
def torch_musa_for_other_generation(
    torch_musa_build: TorchMusaBuild,
    toolkit: Toolkit,
    toolkits: Toolkits | Absent | Unknown,
    python: Python | Absent | Unknown,
) -> Judgement:
    """torch_musa was built for another generation of the Toolkit than the one in use.

    ## Why it matters

    It needs the `libmusart.so.N` of its own generation, which the Toolkit in use does not have.

    ## How to fix

    Use the Toolkit that it was built for, if that is installed too, or install the torch_musa that
    was built for the Toolkit in use.

    ## Symptoms

    - `libmusart.so.5: cannot open shared object file`
    - `libmupti.so.0.9: cannot open shared object file`

    ## Sources

    torch_musa issues 56, 100, 117 and 137; the sonames of Toolkits 4 and 5.
    """
    needed = _needed(torch_musa_build)
    by_soname = torch_musa_build.runtime_major is not None
    by = "by the libmusart that its libraries need" if by_soname else "by its label"
    if needed is None or toolkit.version is None:
        yield Unknown(f"a number is missing: {torch_musa_build}, {toolkit}")
        return
    if _generation(needed) == _generation(toolkit.version.major):
        return
    fitting = next(iter(_of_generation(toolkits, needed)), None)
    if fitting:
        fix = Fix(
            f"Use {fitting.root}, which is installed too",
            exports(fitting),
        )
    else:
        fix = reinstall(python, None, toolkit.version)
    yield Finding(
        f"torch_musa {torch_musa_build.version} needs Toolkit {_generation(needed)}"
        f" ({by}), in use is {toolkit}",
        where=torch_musa_build.path,
        fix=fix,
    )


@check("torch-musa-for-other-release", layer=Layer.TORCH_MUSA, severity="warning")
def torch_musa_for_other_release(
    torch_musa_build: TorchMusaBuild,
    toolkit: Toolkit,
    toolkits: Toolkits | Absent | Unknown,
    python: Python | Absent | Unknown,
) -> Judgement:
    """torch_musa was built for another release of the Toolkit than the one in use.

    ## Why it matters

    Within a generation the libraries load, but not every function is there in every release:
    mublasLt came with 4.3.0, the `scale` of attention with 4.2.0. Wheels of another line are known
    to lack symbols.

    ## How to fix

    Use the Toolkit that the wheel was built for, or the wheel that was built for the Toolkit.

    ## Symptoms

    - `libmusa_python.so.1: undefined symbol`

    ## Sources

    torch_musa issues 57 and 101; `knowledge/pairs.toml`.
    """
    number = toolkit.version
    built = torch_musa_build.built_for
    if number is None:
        yield Unknown(f"a number is missing: {toolkit}")
    elif built is not None:
        if built.major == number.major and not (built <= number <= built):
            of_wheel = next(
                (
                    tree
                    for tree in _of_generation(toolkits, built.major)
                    if tree.version and built <= tree.version <= built
                ),
                None,
            )
            fix = reinstall(python, None, number)
            if of_wheel:
                fix = Fix(f"Use {of_wheel.root}, which is installed too", exports(of_wheel))
            yield Finding(
                f"torch_musa {torch_musa_build.version} is built for Toolkit {built}, in use is"
                f" {toolkit}",
                where=torch_musa_build.path,
                fix=fix,
            )
    else:
        yield from _by_table(torch_musa_build, toolkit, number, python)


def _by_table(
    build: TorchMusaBuild,
    toolkit: Toolkit,
    number: ToolkitVersion,
    python: Python | Absent | Unknown,
) -> Judgement:
    """Judge a wheel without a label: by the Toolkits that its number is known with."""
    needed = build.runtime_major
    if needed is not None and _generation(needed) != _generation(number.major):
        return  # torch-musa-for-other-generation says so
    table = toolkit_wheels()
    known = [
        row for row in table if any(covers(listed, build.version) for listed in row.torch_musa)
    ]
    if not known or not torch_musa_for(number):
        yield Unknown(
            f"torch_musa {build.version} with Toolkit {number}: a pair unknown to musadoctor, whose"
            f" table is of {dated([row.origin for row in table])}"
        )
        return
    lines = {tuple(int(part) for part in row.toolkit.split(".")[:2]) for row in known}
    if number.key[:2] not in lines:
        yield Finding(
            f"torch_musa {build.version} is known with Toolkit"
            f" {', '.join(row.toolkit for row in known)}, in use is {toolkit}",
            where=build.path,
            fix=reinstall(python, None, number),
        )


def _torch_keys(build: TorchMusaBuild) -> list[tuple[int, ...]]:
    return [
        tuple(int(p) for p in text.split(".")[:3] if p.isdigit())
        for text in torch_for(build.version)
    ]


@check("torch-of-other-release", layer=Layer.TORCH_MUSA, severity="error", said=by_message)
def torch_of_other_release(
    torch_build: TorchBuild, torch_musa_build: TorchMusaBuild, python: Python | Absent | Unknown
) -> Judgement:
    """torch and torch_musa are of different releases.

    ## Why it matters

    torch_musa is linked against the C++ interface of one torch release, which changes with every
    second number. It does not load, or crashes later.

    ## How to fix

    Install the pair of one release from the vendor's index. From 2.5.0 on the two have the same
    number, save that torch_musa 2.7.0 goes with torch 2.7.1.

    ## Symptoms

    - `torch version must not be less than ...`
    - `undefined symbol` in `libmusa_kernels.so`
    - a segmentation fault in `libmusa_python.so`

    ## Sources

    torch_musa source, 8b583b3 (2026-01); torch_musa README v1.0.0 to v2.1.1; Torch-FL PR 40.
    """
    if torch_build.flavour in OTHER_GPUS:
        return  # torch-for-other-gpus says so
    lines = {key[:2] for key in _torch_keys(torch_musa_build)}
    low = _refused(torch_build, torch_musa_build)
    if lines and (torch_build.version.key[:2] not in lines or low):
        yield Finding(
            f"torch {torch_build.version} beside torch_musa {torch_musa_build.version}, which needs"
            f" torch {' or '.join(torch_for(torch_musa_build.version))} ({_why(torch_musa_build)})",
            where=torch_build.path,
            fix=reinstall(python, torch_musa_build.version),
        )


def _refused(torch: TorchBuild, torch_musa: TorchMusaBuild) -> bool:
    """torch_musa 2.7 refuses a torch whose release is below 2.7.1, 2.7.1a0 passes."""
    return torch_musa.version.key[:2] == (2, 7) and torch.version.key < (2, 7, 1)


def _why(build: TorchMusaBuild) -> str:
    row = next((row for row in torch_pairs() if covers(row.torch_musa, build.version)), None)
    return str(row.origin) if row else "from 2.5.0 on the numbers are equal"


@check("torch-of-other-patch-release", layer=Layer.TORCH_MUSA, severity="warning")
def torch_of_other_patch_release(
    torch_build: TorchBuild, torch_musa_build: TorchMusaBuild, python: Python | Absent | Unknown
) -> Judgement:
    """torch and torch_musa differ in the third number.

    ## Why it matters

    The vendor's pairs have equal numbers. Others publish mixed ones that work for them, such as
    torch 2.9.0 with torch_musa 2.9.1.

    ## How to fix

    If something fails, install the vendor's pair.

    ## Sources

    MUSA SDK 5.2.0 install guide; FlagOS image page (2026).
    """
    version = torch_build.version
    wanted = torch_for(torch_musa_build.version)
    if not wanted:
        yield Unknown(
            f"torch {version} with torch_musa {torch_musa_build.version}: a pair unknown to"
            f" musadoctor, whose table is of {dated([row.origin for row in torch_pairs()])}"
        )
        return
    keys = _torch_keys(torch_musa_build)
    same_line = version.key[:2] in {key[:2] for key in keys}
    posts = {text.partition(".post")[2] for text in wanted}
    other_post = public(version).partition(".post")[2] not in posts
    if (
        same_line
        and not _refused(torch_build, torch_musa_build)
        and (version.key[:3] not in keys or other_post)
    ):
        yield Finding(
            f"torch {version} beside torch_musa {torch_musa_build.version}, which the vendor pairs"
            f" with torch {' or '.join(wanted)}",
            where=torch_build.path,
            fix=reinstall(python, torch_musa_build.version),
        )


@check("mcc-of-other-release", layer=Layer.TOOLKIT, severity="warning")
def mcc_of_other_release(mcc: Mcc, toolkit: Toolkit) -> Judgement:
    """The compiler mcc is of another release than the Toolkit in use.

    ## Why it matters

    Extensions are then compiled by one release and linked against another. PyTorch itself runs.

    ## How to fix

    Put the `bin` folder of the Toolkit in use first in `PATH`.

    ## Sources

    `mcc --version` and version numbers of real hosts: equal from 4.2.0 on, 3.1.0 with Toolkits 4.0
    and 4.1, 2.1.0 with 2.0.0 (torch_musa issues 56, 100, 102 and 116).
    """
    number = toolkit.version
    if number is None:
        yield Unknown(f"a number is missing: {toolkit}")
    elif number.key >= MCC_EQUAL_FROM and mcc.version.key[: len(number.key)] != number.key:
        yield Finding(
            f"{mcc}, but {toolkit} is in use",
            where=mcc.path,
            fix=Fix("Put the Toolkit's own compiler first", exports(toolkit)),
        )


_BRANCH = re.compile(r"musa_?(\d+\.\d+)\.\d+")
"""``release_musa_4.2.0``, ``release_musa_4.2.0_s4000``, ``kuae1.3.0_musa3.1.0_mudnn2.7.0``; but not
CUB's own ``musa-1.12.1``, ``HEAD`` or ``rc1.4.0``, which are no SDK release."""


@check("toolkit-components-mixed", layer=Layer.TOOLKIT, severity="warning")
def toolkit_components_mixed(version_query: VersionQuery) -> Judgement:
    """The Toolkit's tree holds components of different SDK releases.

    ## Why it matters

    `musa_version_query` states for each library the branch that it was built from. Components of
    two releases in one tree come from packages that were installed over each other.

    ## How to fix

    Install one release into an empty folder, and use that.

    ## Sources

    Samples of `musa_version_query` of Toolkits 2.0.0 to 4.2.0; vllm-musa on mixed 5.1 and 5.2
    packages (2026). Releases that differ in the third number only are not reported.
    """
    releases: dict[str, list[str]] = {}
    for component in version_query.components:
        found = _BRANCH.search(component.branch or "")
        if found:
            releases.setdefault(found[1], []).append(component.name)
    if len(releases) > 1:
        listed = "; ".join(f"{release}: {', '.join(names)}" for release, names in releases.items())
        yield Finding(
            f"components of {len(releases)} SDK releases by their branches: {listed}"
            f" ({version_query.source})",
            where=version_query.source,
            fix=Fix("Install one SDK release into an empty folder, and set MUSA_HOME to it"),
        )
