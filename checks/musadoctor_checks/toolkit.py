"""The MUSA Toolkit, and muDNN and MCCL beside it."""

from musadoctor.api import (
    Absent,
    Component,
    ComponentLibrary,
    Finding,
    Fix,
    Gpus,
    Judgement,
    Layer,
    Libraries,
    Machine,
    Mcc,
    Toolkit,
    Toolkits,
    TorchMusaBuild,
    Unknown,
    VersionQuery,
    check,
)
from musadoctor_checks._advice import install, some
from musadoctor_checks._exports import exports
from musadoctor_checks._messages import by_message


def _has_runtime(toolkit: Toolkit) -> bool:
    return any(name.startswith("libmusart.so") for name in toolkit.libraries)


def _loader_has_runtime(libraries: Libraries | Absent) -> bool:
    return isinstance(libraries, Libraries) and bool(libraries.of_name("libmusart"))


@check("toolkit-missing", layer=Layer.TOOLKIT, severity="error", said=by_message)
def toolkit_missing(
    gpus: Gpus,
    toolkits: Toolkits | Absent,
    libraries: Libraries | Absent,
    torch_musa_build: TorchMusaBuild | Absent | Unknown,
    machine: Machine | Unknown,
) -> Judgement:
    """No MUSA Toolkit is installed.

    ## Why it matters

    torch_musa needs the runtime `libmusart` and the mathematical libraries of the Toolkit. The
    driver package holds neither.

    ## How to fix

    Install the Toolkit that the torch_musa wheel was built for: by APT the package `musa-toolkit`,
    otherwise the archive `musa_toolkits_X.Y.Z.tar.gz` with its `install.sh`. Its number is not that
    of the driver, and the driver is not to be changed for it.

    ## Symptoms

    - `libmusart.so.5: cannot open shared object file`
    - `mcc: command not found`
    - `musa_runtime.h: No such file or directory`

    ## Sources

    MUSA SDK 5.2.0 install guide (2026).
    """
    if isinstance(toolkits, Toolkits) or _loader_has_runtime(libraries):
        return
    wheel = torch_musa_build if isinstance(torch_musa_build, TorchMusaBuild) else None
    number = str(wheel.built_for) if wheel and wheel.built_for else "X.Y.Z"
    needed = f"; torch_musa {wheel.version} needs one" if wheel else ""
    yield Finding(
        f"{toolkits}, with {gpus} on the bus{needed}",
        where="/usr/local",
        fix=Fix(
            f"Install the Toolkit: musa-toolkit from the vendor's APT source, or"
            f" musa_toolkits_{number}.tar.gz with its install.sh",
            install(machine, apt="musa-toolkit"),
        ),
    )


@check("toolkit-without-runtime", layer=Layer.TOOLKIT, severity="error")
def toolkit_without_runtime(
    toolkit: Toolkit, toolkits: Toolkits | Absent | Unknown, libraries: Libraries | Absent
) -> Judgement:
    """The Toolkit in use holds no runtime library libmusart.

    ## Why it matters

    Every MUSA program loads `libmusart`. A tree without it is what stays after packages of two
    releases were mixed (each of `musa-5.1` and `musa-5.2` half filled), or after an install that
    broke off.

    ## How to fix

    Use another installed Toolkit that is whole, or install this one again.

    ## Symptoms

    - `libmusart.so.5: cannot open shared object file`

    ## Sources

    vllm-musa installation notes on mixed 5.1 and 5.2 packages (2026).
    """
    if _has_runtime(toolkit) or _loader_has_runtime(libraries):
        return
    if not toolkit.libraries and "no lib" not in (toolkit.problem or ""):
        yield Unknown(f"what is in {toolkit.root}/lib could not be seen")
        return
    installed = toolkits.installed if isinstance(toolkits, Toolkits) else ()
    whole = next((tree for tree in installed if _has_runtime(tree)), None)
    fix = Fix(f"Install {toolkit} again; its folder is {toolkit.root}")
    if whole:
        fix = Fix(
            f"Use the one in {whole.root}, which has a runtime",
            exports(whole),
        )
    yield Finding(f"{toolkit}: no libmusart in {toolkit.root}/lib", where=toolkit.root, fix=fix)


@check("toolkit-damaged", layer=Layer.TOOLKIT, severity="warning")
def toolkit_damaged(toolkit: Toolkit) -> Judgement:
    """Parts of the Toolkit in use are missing or cannot be read.

    ## Why it matters

    What works depends on the part. A Toolkit without compiler, as in the vendor's runtime images,
    is not meant here: see `mcc-missing`.

    ## How to fix

    Install this Toolkit again, or use another one.

    ## Sources

    vllm-musa installation notes on mixed 5.1 and 5.2 packages (2026).
    """
    if toolkit.assumed:
        yield Unknown(f"what is in it is not shown: {toolkit}")
        return
    problem = (toolkit.problem or "").removeprefix("no bin/mcc").removeprefix(", ")
    if problem:
        yield Finding(
            f"{toolkit} in {toolkit.root}: {problem}",
            where=toolkit.root,
            fix=Fix("Install this Toolkit again, or use another one"),
        )


@check("mcc-missing", layer=Layer.TOOLKIT, severity="note")
def mcc_missing(toolkit: Toolkit, mcc: Mcc | Absent) -> Judgement:
    """The compiler mcc is not there.

    ## Why it matters

    Ready-made wheels run without it. It is needed to build extensions, and the vendor's runtime
    images leave it out.

    ## How to fix

    Nothing, unless extensions are to be built here. Then install the whole Toolkit, or take an
    image of the kind `devel`.

    ## Sources

    Image names of MUSA SDK 5.2.0 (2026); torch_musa issue 117 (2025-12).
    """
    if isinstance(mcc, Absent):
        yield Finding(
            f"{mcc}, nor in {toolkit.root}/bin",
            where=f"{toolkit.root}/bin",
            fix=Fix("Only to build extensions: install the whole Toolkit, or take a devel image"),
        )


def _needs(wheel: TorchMusaBuild | Absent | Unknown, stem: str) -> bool | None:
    """Whether torch_musa needs a library, ``None`` where that is not known."""
    if not isinstance(wheel, TorchMusaBuild) or not wheel.needs:
        return None
    return any(name.startswith(f"{stem}.so") for name in wheel.needs)


@check("mudnn-missing", layer=Layer.TOOLKIT, severity="error", said=by_message)
def mudnn_missing(
    gpus: Gpus,
    toolkit: Toolkit,
    mudnn: ComponentLibrary | Absent,
    torch_musa_build: TorchMusaBuild | Absent | Unknown,
    machine: Machine | Unknown,
) -> Judgement:
    """muDNN is not installed.

    ## Why it matters

    torch_musa is linked against `libmudnn` and cannot be imported without it. It is not part of the
    Toolkit.

    ## How to fix

    Install the muDNN of the Toolkit's SDK release: by APT the package `mudnn`, otherwise its own
    archive. It belongs into the `lib` folder of the Toolkit.

    ## Symptoms

    - `libmudnn.so.1: cannot open shared object file: No such file or directory`
    - `mudnn.h: No such file or directory`

    ## Sources

    MUSA SDK 5.2.0 install guide (2026); tutorial_on_musa, torch_musa FAQ (2024/2025).
    """
    if isinstance(mudnn, ComponentLibrary) or _needs(torch_musa_build, "libmudnn") is False:
        return
    yield Finding(
        f"{mudnn}, with {gpus}",
        where=f"{toolkit.root}/lib",
        fix=Fix(
            f"Install the muDNN of the SDK release that {toolkit} belongs to",
            install(machine, apt="mudnn"),
        ),
    )


_MCCL_PACKAGES = {"MTT S4000": "mccl-s4000", "MTT S5000": "mccl-s5000"}
"""MUSA SDK 5.2.0 install guide (2026). For other cards the vendor supplies no MCCL."""


def _mccl_package(gpus: Gpus) -> str:
    named = [_MCCL_PACKAGES[name] for name in gpus.products if name in _MCCL_PACKAGES]
    return named[0] if named else ""


@check("mccl-missing", layer=Layer.TOOLKIT, severity="error", said=by_message)
def mccl_missing(
    gpus: Gpus,
    toolkit: Toolkit,
    mccl: ComponentLibrary | Absent,
    torch_musa_build: TorchMusaBuild,
    machine: Machine | Unknown,
) -> Judgement:
    """torch_musa needs MCCL, which is not installed.

    ## Why it matters

    A torch_musa that was built with MCCL cannot be imported without `libmccl`, even on a single
    card. From 2.5 on `import torch` fails with it, because torch loads torch_musa by itself.

    ## How to fix

    - S4000, S5000: install the MCCL of the Toolkit's SDK release, by APT `mccl-s4000` or
      `mccl-s5000`.
    - S80, S3000 and other cards: the vendor supplies no MCCL. Install a torch_musa for this card,
      which is built with `USE_MCCL=0`.

    ## Symptoms

    - `libmccl.so.2: cannot open shared object file: No such file or directory`
    - `mccl.h: No such file or directory`

    ## Sources

    torch_musa issues 5 and 102 (2023-07, 2025-10); README of torch_musa 2.1.1; MUSA SDK 5.2.0
    install guide (2026).
    """
    if isinstance(mccl, ComponentLibrary) or not _needs(torch_musa_build, "libmccl"):
        return
    package = _mccl_package(gpus)
    cards = ", ".join(gpus.products)
    fix = Fix(
        f"For {cards} the vendor supplies no MCCL: install a torch_musa for this card, built with"
        " USE_MCCL=0"
    )
    if package:
        fix = Fix(
            f"Install the MCCL of the SDK release that {toolkit} belongs to (package {package})",
            install(machine, apt=package),
        )
    yield Finding(
        f"{mccl}, but torch_musa {torch_musa_build.version} needs it",
        where=f"{toolkit.root}/lib",
        fix=fix,
    )


@check("mccl-not-installed", layer=Layer.TOOLKIT, severity="note")
def mccl_not_installed(
    gpus: Gpus,
    toolkit: Toolkit,
    mccl: ComponentLibrary | Absent,
    torch_musa_build: TorchMusaBuild | Absent,
) -> Judgement:
    """This host has several cards, but no MCCL for them to work together.

    ## Why it matters

    Each card works on its own. Training across cards with the `mccl` backend does not.

    ## How to fix

    S4000, S5000: install the MCCL of the Toolkit's SDK release. For other cards the vendor supplies
    none.

    ## Sources

    MUSA SDK 5.2.0 install guide (2026); README of torch_musa 2.1.1.
    """
    if isinstance(mccl, ComponentLibrary) or _needs(torch_musa_build, "libmccl"):
        return
    if len(gpus.cards) > 1:
        package = _mccl_package(gpus)
        yield Finding(
            f"{mccl}, with {gpus}",
            where=f"{toolkit.root}/lib",
            fix=Fix(
                f"To use several cards together: install the package {package}"
                if package
                else "Nothing: the vendor supplies no MCCL for these cards"
            ),
        )


@check("component-built-for-other-gpu", layer=Layer.TOOLKIT, severity="warning")
def component_built_for_other_gpu(gpus: Gpus, version_query: VersionQuery) -> Judgement:
    """Libraries of the Toolkit are not built for the architecture of this card.

    ## Why it matters

    A library holds machine code for the architectures that its build names. On another card its
    functions fail when they are called, while the import and `is_available()` are fine.

    ## How to fix

    Install the build of the SDK for this card. The vendor's downloads name the card.

    ## Symptoms

    - `invalid device function` (error 98)

    ## Sources

    `build archs` in the output of `musa_version_query`, samples of Toolkits 2.0.0 to 4.2.0; an
    S3000 with error 98 (a torch_musa issue).
    """
    for architecture in gpus.architectures:
        unfit = [
            _named(component)
            for component in version_query.components
            if component.architectures and architecture not in component.architectures
        ]
        if unfit:
            cards = dict.fromkeys(
                str(c.product) for c in gpus.cards if c.architecture == architecture
            )
            yield Finding(
                f"not built for {architecture} ({', '.join(cards)}): {some(unfit)}"
                f" ({version_query.source})",
                where=version_query.source,
                fix=Fix(f"Install the SDK build for {', '.join(cards)} in place of this one"),
            )


def _named(component: Component) -> str:
    return f"{component.name} {component.version} for {'/'.join(component.architectures)}"


@check("version-query-disagrees", layer=Layer.TOOLKIT, severity="warning")
def version_query_disagrees(toolkit: Toolkit, version_query: VersionQuery) -> Judgement:
    """The Toolkit states two version numbers.

    ## Why it matters

    `version.json`, or the folder's name, says one release, and the Toolkit's own tool another. The
    usual reason is that one release was unpacked over another, so that the tree is a mixture.

    ## How to fix

    Remove this tree and install one release into an empty folder.

    ## Sources

    Own comparison; that the tool may lag behind the SDK's number in the third place (4.0.1 says
    4.0.0) is left out of it.
    """
    whole = version_query.component("musa_toolkits")
    if whole and toolkit.version and whole.version.key[:2] != toolkit.version.key[:2]:
        yield Finding(
            f"{toolkit}, but {version_query.source} says {whole.version}",
            where=toolkit.root,
            fix=Fix(
                f"Move {toolkit.root} away and install one release into an empty folder; whatever"
                " was added to the tree by hand has to be added again",
                destructive=True,
            ),
        )
