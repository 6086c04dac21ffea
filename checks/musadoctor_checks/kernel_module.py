"""Why the kernel module mtgpu is not loaded: one cause a check."""

import shlex

from musadoctor.api import (
    Absent,
    DkmsTree,
    Finding,
    Fix,
    Gpus,
    Judgement,
    KernelDriver,
    KernelLog,
    Layer,
    Machine,
    ModuleFile,
    Unknown,
    check,
)
from musadoctor_checks._advice import install, some
from musadoctor_checks._messages import by_message
from musadoctor_checks.hardware import OTHER_OWNERS
from musadoctor_checks.knowledge import Refusal, refusals

LOAD = "sudo modprobe -v mtgpu"


def refusal(log: KernelLog | Absent | Unknown) -> tuple[Refusal, str] | None:
    """The last line of the kernel log in which it refuses the module, and what that means."""
    for message in reversed(log.messages if isinstance(log, KernelLog) else ()):
        for row in refusals():
            if row.pattern.search(message.text):
                return row, message.text
    return None


def cause(module_file: ModuleFile | Absent | Unknown, log: KernelLog | Absent | Unknown) -> str:
    """The id of the check that tells why the module is not loaded, empty where none can."""
    if not isinstance(module_file, ModuleFile):
        seen = isinstance(module_file, Unknown) and refusal(log)
        return "driver-module-refused" if seen else ""
    if module_file.path is None:
        if module_file.others or any(tree.built_for for tree in module_file.dkms):
            return "driver-module-for-other-kernel"
        return "driver-module-not-built" if module_file.dkms else "driver-not-installed"
    if refusal(log):
        return "driver-module-refused"
    return "driver-module-blacklisted" if module_file.blocked_by else ""


def wanted(gpus: Gpus) -> bool:
    """Whether there is a card for the module to drive."""
    return not all(card.kernel_module in OTHER_OWNERS for card in gpus.cards)


def missing(kernel_driver: KernelDriver | Absent, gpus: Gpus) -> bool:
    """Whether there is a card without the module that drives it."""
    return isinstance(kernel_driver, Absent) and wanted(gpus)


def build_commands(
    machine: Machine | Unknown, module_file: ModuleFile, *, anew: bool = False
) -> tuple[str, ...]:
    """What builds the module for the running kernel and loads it, even if it is built already."""
    kernel = module_file.kernel
    headers: tuple[str, ...] = ()
    if not module_file.headers:
        headers = install(machine, apt=f"linux-headers-{kernel}", dnf=f"kernel-devel-{kernel}")
    builds = tuple(
        f"sudo dkms install {shlex.quote(tree.name)} -k {kernel}{' --force' if anew else ''}"
        for tree in module_file.dkms[-1:]
        if tree.has_source
    )
    return (*headers, *builds, LOAD) if builds else headers


def _without_source(trees: tuple[DkmsTree, ...]) -> str:
    if not trees:
        return "DKMS knows no source of it, so install the driver package again under this kernel"
    if not trees[-1].has_source:
        return f"the source of {trees[-1]} is gone, so install the driver package again"
    return "build it with DKMS for this kernel"


def _explained(
    id: str,  # noqa: A002 - it is the check's id
    kernel_driver: KernelDriver | Absent,
    gpus: Gpus,
    module_file: ModuleFile | Absent | Unknown,
    log: KernelLog | Absent | Unknown,
) -> ModuleFile | Unknown | None:
    """The module's file where the check ``id`` tells the cause, ``None`` where another does."""
    if not missing(kernel_driver, gpus) or isinstance(module_file, Absent):
        return None
    if isinstance(module_file, Unknown):
        return module_file
    return module_file if cause(module_file, log) == id else None


def _hindrances(module_file: ModuleFile) -> tuple[tuple[str, ...], str]:
    """The logs of failed builds, and what a message says of them and of missing headers."""
    logs = tuple(tree.failed_log for tree in module_file.dkms if tree.failed_log)
    headers = "" if module_file.headers else "; its headers are not installed"
    return logs, headers + (f"; the last build failed ({some(logs)})" if logs else "")


@check("driver-not-installed", layer=Layer.DRIVER, severity="error")
def driver_not_installed(
    gpus: Gpus,
    kernel_driver: KernelDriver | Absent,
    module_file: ModuleFile | Absent | Unknown,
    kernel_log: KernelLog | Absent | Unknown,
) -> Judgement:
    """No kernel driver for the cards is installed.

    ## Why it matters

    A card is there, but no installed kernel has the module mtgpu, and DKMS has no source of it.
    Without the module there are no device nodes, and no program can reach the card.

    ## How to fix

    Install the vendor's driver package: `mthreads-driver` from its APT source, or the offline
    package `musa`. The kernel's headers have to be there first. A driver comes without a Toolkit,
    and a Toolkit without a driver.

    ## Symptoms

    - `modprobe: FATAL: Module mtgpu not found in directory /lib/modules/...`
    - `Error: failed to load driver.`

    ## Sources

    MUSA SDK 5.2.0 install guide (2026); musa-deploy 0.7.0 (2025-08); the places are those of DKMS
    and of the distributions.
    """
    found = _explained("driver-not-installed", kernel_driver, gpus, module_file, kernel_log)
    if isinstance(found, Unknown):
        yield found
    if not isinstance(found, ModuleFile):
        return
    yield Finding(
        f"no mtgpu.ko for the running kernel {found.kernel} or another one, and no source of"
        f" it in /var/lib/dkms/mtgpu, with {gpus} on the bus",
        where="mtgpu",
        fix=Fix(
            "Install the vendor's driver package for this card: mthreads-driver from its APT"
            " source, or the offline package musa"
        ),
    )


@check("driver-module-not-built", layer=Layer.DRIVER, severity="error", said=by_message)
def driver_module_not_built(
    gpus: Gpus,
    kernel_driver: KernelDriver | Absent,
    module_file: ModuleFile | Absent | Unknown,
    kernel_log: KernelLog | Absent | Unknown,
    machine: Machine | Unknown,
) -> Judgement:
    """The driver is installed, but its kernel module could not be built.

    ## Why it matters

    The driver package leaves the module's source with DKMS, which compiles it for each kernel. When
    that fails (no headers, another compiler, a kernel that the driver's source does not know) the
    package is there and the module is not.

    ## How to fix

    Install the headers of the running kernel and build again. The compiler's log says what failed.
    If the source does not know this kernel, boot one that the vendor names for the driver.

    ## Symptoms

    - `Module build for kernel ... was skipped since the kernel headers for this kernel does not seem to be installed.`
    - `Error! Bad return status for module build on kernel: ...`
    - `Consult /var/lib/dkms/mtgpu/.../build/make.log for more information.`
    - `mtgpu/...: added`

    ## Sources

    tutorial_on_musa, environment FAQ item 7 (2025); the folders are those of DKMS.
    """  # noqa: E501 - texts to search for
    found = _explained("driver-module-not-built", kernel_driver, gpus, module_file, kernel_log)
    if isinstance(found, Unknown):
        yield found
    if not isinstance(found, ModuleFile):
        return
    trees = found.dkms
    logs, lacking = _hindrances(found)
    yield Finding(
        f"{some([tree.name for tree in trees])} is with DKMS, but built for no kernel, so not for"
        f" the running {found.kernel}{lacking}",
        where=f"/var/lib/dkms/{trees[-1].name}",
        fix=Fix(
            f"Have the headers of the running kernel, then {_without_source(trees)}",
            (
                *(f"tail -n 40 {shlex.quote(log)}" for log in logs[-1:]),
                *build_commands(machine, found),
            ),
        ),
    )


@check("driver-module-for-other-kernel", layer=Layer.DRIVER, severity="error")
def driver_module_for_other_kernel(
    gpus: Gpus,
    kernel_driver: KernelDriver | Absent,
    module_file: ModuleFile | Absent | Unknown,
    kernel_log: KernelLog | Absent | Unknown,
    machine: Machine | Unknown,
) -> Judgement:
    """The kernel module was built for another kernel than the running one.

    ## Why it matters

    A module fits one kernel. After an upgrade of the kernel, which many distributions do by
    themselves, the machine starts without the driver until the module is built anew.

    ## How to fix

    Boot a kernel that has the module, or install the headers of the running one and build it. Keep
    the distribution from replacing the kernel: the vendor names exact kernels for each driver.

    ## Symptoms

    - `modprobe: FATAL: Module mtgpu not found in directory /lib/modules/...`
    - `Error: failed to load driver.` after a restart
    - "after an upgrade of the kernel the desktop no longer starts"

    ## Sources

    MobiMaliangSDK issue 23 (2024-07); tutorial_on_musa issue 64 (2025); musa-deploy 0.7.0
    (2025-08).
    """
    found = _explained(
        "driver-module-for-other-kernel", kernel_driver, gpus, module_file, kernel_log
    )
    if isinstance(found, Unknown):
        yield found
    if not isinstance(found, ModuleFile):
        return
    trees = found.dkms
    built = [*found.others, *(kernel for tree in trees for kernel in tree.built_for)]
    kernels = list(dict.fromkeys(kernel for kernel in built if kernel != found.kernel))
    logs, lacking = _hindrances(found)
    advice = f"have the headers of the running kernel, then {_without_source(trees)}"
    if found.others:
        advice = f"boot {found.others[0]}, or {advice}"
    where = f"there is one for {some(kernels)}" if kernels else f"DKMS built {trees[-1]} for it"
    yield Finding(
        f"no mtgpu.ko for the running kernel {found.kernel}; {where}{lacking}",
        where=f"/lib/modules/{found.kernel}",
        fix=Fix(
            advice[0].upper() + advice[1:],
            (
                *(f"tail -n 40 {shlex.quote(log)}" for log in logs[-1:]),
                *build_commands(machine, found),
            ),
        ),
    )


@check("driver-module-blacklisted", layer=Layer.DRIVER, severity="error")
def driver_module_blacklisted(
    gpus: Gpus,
    kernel_driver: KernelDriver | Absent,
    module_file: ModuleFile | Absent | Unknown,
    kernel_log: KernelLog | Absent | Unknown,
) -> Judgement:
    """The kernel module is there, but the configuration forbids to load it.

    ## Why it matters

    A module on a blacklist is not loaded when its card is found. `modprobe mtgpu` may still load it
    by hand, and the next start of the machine does without again.

    ## How to fix

    Take out the line that the message names, if nobody wants it: cards that are passed through to
    virtual machines are a good reason for it. Then load the module.

    ## Sources

    modprobe.d(5); kernel parameters `modprobe.blacklist` and `module_blacklist`.
    """
    found = _explained("driver-module-blacklisted", kernel_driver, gpus, module_file, kernel_log)
    if isinstance(found, Unknown):
        yield found
    if not isinstance(found, ModuleFile):
        return
    for said in found.blocked_by:
        path, _, line = said.partition(": ")
        boot = path == "/proc/cmdline"
        after = "restart the machine" if boot else "load the module"
        yield Finding(
            f"{found.path} is there, and {path} says {line}",
            where=path,
            fix=Fix(
                f"Take {line} out of {'the boot parameters' if boot else path} if nobody wants it"
                f" there, and {after}",
                () if boot else (f"grep -n mtgpu {shlex.quote(path)}", LOAD),
            ),
        )


@check("driver-module-refused", layer=Layer.DRIVER, severity="error", said=by_message)
def driver_module_refused(
    gpus: Gpus,
    kernel_driver: KernelDriver | Absent,
    module_file: ModuleFile | Absent | Unknown,
    kernel_log: KernelLog | Absent | Unknown,
    machine: Machine | Unknown,
) -> Judgement:
    """The kernel refused the module when it was to be loaded.

    ## Why it matters

    `modprobe` only says `Invalid argument` or `Key was rejected by service`. The kernel log says
    why: the module was built for another kernel, is not signed while Secure Boot is on, or was
    given an option with a value that it does not take.

    ## How to fix

    - `disagrees about version of symbol`, `Unknown symbol`, `version magic`: build the module for
      the running kernel.
    - `is rejected`, `module loading is restricted`: enrol the key that signs it, or switch Secure
      Boot off in the firmware.
    - `invalid for parameter`: look for the option in /etc/modprobe.d.

    `module verification failed` alone is no refusal: the module is loaded all the same.

    ## Symptoms

    - `modprobe: ERROR: could not insert 'mtgpu': Invalid argument`
    - `modprobe: ERROR: could not insert 'mtgpu': Exec format error`
    - `modprobe: ERROR: could not insert 'mtgpu': Key was rejected by service`
    - `mtgpu: disagrees about version of symbol`
    - `mtgpu: version magic '...' should be '...'`

    ## Sources

    The Linux kernel's own texts; tutorial_on_musa issue 64 (2025).
    """
    if not missing(kernel_driver, gpus):
        return
    explained = cause(module_file, kernel_log)
    found = refusal(kernel_log)
    if not explained and isinstance(kernel_log, Unknown):
        yield kernel_log
    if explained != "driver-module-refused" or found is None:
        return
    row, line = found
    commands: tuple[str, ...] = ("mokutil --sb-state",)
    if row.kind == "other kernel":
        commands = ("dkms status", LOAD)
        if isinstance(module_file, ModuleFile):
            commands = build_commands(machine, module_file, anew=True) or commands
    elif row.kind == "option":
        commands = ("grep -rn mtgpu /etc/modprobe.d", LOAD)
    yield Finding(
        f"the kernel log says {line!r}: {row.meaning}",
        where=str(module_file.path) if isinstance(module_file, ModuleFile) else "dmesg",
        fix=Fix(row.fix, commands),
    )


@check("newer-kernel-without-module", layer=Layer.DRIVER, severity="note")
def newer_kernel_without_module(gpus: Gpus, module_file: ModuleFile) -> Judgement:
    """A newer kernel is installed that has no module for the cards.

    ## Why it matters

    The machine usually starts the newest kernel that is installed. After the next restart the
    driver would be missing.

    ## How to fix

    Remove the newer kernel, or build the module for it before the restart. Keep the distribution
    from installing more: the vendor names exact kernels for each driver.

    ## Sources

    MobiMaliangSDK issue 23 (2024-07); tutorial_on_musa, environment FAQ item 7 (2025).
    """
    newer = module_file.newer_without
    if newer and module_file.path:
        builds = tuple(
            f"sudo dkms install {shlex.quote(tree.name)} -k {newer[0]}"
            for tree in module_file.dkms[-1:]
            if tree.has_source
        )
        yield Finding(
            f"{some(newer)}, newer than the running {module_file.kernel}, has no mtgpu.ko, which"
            f" {gpus} will need after a restart",
            where=f"/lib/modules/{newer[0]}",
            fix=Fix("Remove the newer kernel or build the module for it before a restart", builds),
        )
