"""The machine below the GPU: processor, operating system, kernel."""

from typing import cast

from musadoctor.api import (
    Absent,
    Finding,
    Fix,
    Gpus,
    Judgement,
    KernelDriver,
    Layer,
    Machine,
    Unknown,
    check,
)
from musadoctor_checks._advice import uses_apt
from musadoctor_checks.knowledge import rows


@check("unsupported-cpu-architecture", layer=Layer.MACHINE, severity="error")
def unsupported_cpu_architecture(
    machine: Machine, kernel_driver: KernelDriver | Absent | Unknown
) -> Judgement:
    """The processor is not of the architecture that the MUSA SDK is built for.

    ## Why it matters

    The public driver packages, Toolkits and wheels are x86_64 programs. For ARM (Kunpeng, Phytium)
    and LoongArch hosts with a Moore Threads card there is no public SDK.

    ## How to fix

    Move the card to an x86_64 host. Products with a Moore Threads SoC, such as the M1000, come with
    wheels of their own from their maker; musadoctor does not judge those.

    ## Symptoms

    - `kylin + 飞腾 没有相应的musa驱动`

    ## Sources

    MUSA SDK 5.2.0 release notes (2026); torch_musa issues 35, 115, 130, 140 (2024 to 2026).
    """
    if not machine.architecture:
        yield Unknown("which processor it is")
        return
    if machine.architecture == "x86_64":
        return
    if isinstance(kernel_driver, KernelDriver) and kernel_driver.loaded:
        yield Unknown(
            f"the processor is {machine.architecture}, for which no SDK is public, yet"
            f" {kernel_driver} is loaded: a product with an SDK of its own"
        )
        return
    yield Finding(
        f"the processor is {machine.architecture}; driver, Toolkit and wheels are public for x86_64"
        " only",
        fix=Fix("Use an x86_64 host, or the SDK that came with the product if it is a SoC"),
    )


@check("windows-subsystem-for-linux", layer=Layer.MACHINE, severity="error")
def windows_subsystem_for_linux(machine: Machine) -> Judgement:
    """This is the Windows Subsystem for Linux, where the MUSA driver does not run.

    ## Why it matters

    torch_musa has no Windows build, the kernel driver cannot be installed for the kernel of WSL,
    and WSL shows no Moore Threads card to Linux programs.

    ## How to fix

    Install Linux on the machine itself.

    ## Symptoms

    - `modprobe: FATAL: Module drm_kms_helper not found in directory /lib/modules/...-microsoft-...`
    - `dpkg: error processing archive musa_..._amd64.deb (--install)`

    ## Sources

    torch_musa issues 27 and 28 (2024-02 and 2024-03).
    """
    if machine.wsl:
        kernel = f"kernel {machine.kernel}" if machine.kernel else "the kernel"
        yield Finding(
            f"{kernel} is that of the Windows Subsystem for Linux",
            fix=Fix("Run a native Linux, for instance Ubuntu 22.04, on this machine"),
        )
    elif not machine.kernel:
        yield Unknown("which kernel runs")


def _is_build(kernel: str, build: str) -> bool:
    """Whether ``5.15.0-105-generic`` is the build ``5.15.0-105``."""
    return kernel.startswith(build) and not kernel[len(build) : len(build) + 1].isdigit()


def _hold(machine: Machine) -> tuple[str, ...]:
    if uses_apt(machine):
        return ("sudo apt-mark hold linux-image-generic linux-headers-generic",)
    return ()


@check("kernel-breaks-driver", layer=Layer.MACHINE, severity="warning")
def kernel_breaks_driver(machine: Machine, kernel_driver: KernelDriver) -> Judgement:
    """This kernel is known to fail with this kernel driver.

    ## Why it matters

    The driver's module is compiled for the running kernel. The vendor's own checker names kernels
    that are bad for a driver.

    ## How to fix

    Boot a kernel that the vendor names for the driver, and keep the distribution from replacing it.

    ## Sources

    musa-deploy 0.7.0 (2025-08), for kernel 5.15.0-127 with driver 2.7.0.
    """
    if kernel_driver.version is None:
        return
    if not machine.kernel:
        yield Unknown("which kernel runs")
        return
    for row in rows("bad_kernel"):
        known = row["driver"] == kernel_driver.version.release
        if known and _is_build(machine.kernel, cast("str", row["build"])):
            yield Finding(
                f"kernel {machine.kernel} is known to fail with {kernel_driver} ({row['source']})",
                fix=Fix(f"Boot kernel {row['instead']} and hold it", _hold(machine)),
            )


@check("kernel-not-tested", layer=Layer.MACHINE, severity="note")
def kernel_not_tested(machine: Machine, gpus: Gpus) -> Judgement:
    """The vendor does not name this kernel for this card.

    ## Why it matters

    The driver's module is compiled for each kernel, and the vendor names exact kernel builds that
    it has tested. Others often work. An automatic kernel upgrade is a common reason for a driver
    that worked until the last restart.

    ## How to fix

    Nothing, while the driver is loaded and the cards answer. Otherwise boot one of the kernels that
    the message names, and keep the distribution from replacing it.

    ## Sources

    MUSA SDK 5.2.0 release notes and install guide (2026); musa-deploy 0.7.0 (2025-08); an upgrade
    to 5.15.0-113 that broke a host: MobiMaliangSDK issue 23 (2024-07).
    """
    if not machine.kernel:
        yield Unknown("which kernel runs")
        return
    for row in rows("tested_kernels"):
        builds = cast("list[str]", row["builds"])
        architectures = cast("list[str]", row["architectures"])
        products = dict.fromkeys(
            str(card.product) for card in gpus.cards if card.architecture in architectures
        )
        if products and not any(_is_build(machine.kernel, build) for build in builds):
            yield Finding(
                f"kernel {machine.kernel} ({machine.distribution}) is not among those that the"
                f" vendor names for {', '.join(products)}: {', '.join(builds)} ({row['source']})",
                fix=Fix(
                    "Only if the driver does not load: boot one of these kernels and hold it",
                    _hold(machine),
                ),
            )
