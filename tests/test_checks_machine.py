"""The checks of the machine: what they fire on, stay silent on, and cannot tell."""

import pytest
from given import ALINUX, CARDS, MACHINE, S30, S80, S4000, fixes, gpus, kernel_driver, said, unknown

from musadoctor.api import Absent, Unknown
from musadoctor_checks import machine as family

NO_DRIVER = Absent("the kernel module mtgpu is not loaded")
OLD_DRIVER = kernel_driver("2.7.0")


@pytest.mark.parametrize("architecture", ["aarch64", "loongarch64", "i686"])
def test_other_processors_have_no_sdk(architecture: str) -> None:
    host = MACHINE._replace(architecture=architecture)
    for driver in (NO_DRIVER, Unknown("no /sys")):
        (message,) = said(family.unsupported_cpu_architecture, machine=host, kernel_driver=driver)
        assert message.startswith(f"the processor is {architecture};")


def test_a_driver_on_another_processor_is_a_product_of_its_own() -> None:
    host = MACHINE._replace(architecture="aarch64")
    reason = unknown(family.unsupported_cpu_architecture, machine=host)
    assert "aarch64" in reason
    assert "3.3.5-server" in reason


def test_x86_64_is_supported() -> None:
    assert said(family.unsupported_cpu_architecture) == ()


def test_wsl() -> None:
    host = MACHINE._replace(wsl=True, kernel="5.15.153.1-microsoft-standard-WSL2")
    assert said(family.windows_subsystem_for_linux, machine=host) == (
        "kernel 5.15.153.1-microsoft-standard-WSL2 is that of the Windows Subsystem for Linux",
    )
    assert said(family.windows_subsystem_for_linux) == ()


@pytest.mark.parametrize(
    ("kernel", "driver", "fires"),
    [
        ("5.15.0-127-generic", OLD_DRIVER, True),
        ("5.15.0-127-lowlatency", kernel_driver("2.7.0-rc3-0822"), True),
        ("5.15.0-1270-generic", OLD_DRIVER, False),
        ("5.15.0-105-generic", OLD_DRIVER, False),
        ("5.15.0-127-generic", kernel_driver("3.3.5-server"), False),
        ("5.15.0-127-generic", kernel_driver(), False),
    ],
)
def test_a_kernel_that_breaks_a_driver(kernel: str, driver: object, *, fires: bool) -> None:
    host = MACHINE._replace(kernel=kernel)
    messages = said(family.kernel_breaks_driver, machine=host, kernel_driver=driver)
    assert bool(messages) is fires
    assert all(kernel in message and "2.7.0" in message for message in messages)


@pytest.mark.parametrize(
    ("kernel", "cards", "named"),
    [
        ("5.15.0-105-generic", CARDS, None),
        ("4.19.90-89.11.v2401.ky10.x86_64", CARDS, None),
        ("5.15.0-113-generic", CARDS, "MTT S5000"),
        ("5.4.0-42-generic", CARDS, "MTT S5000"),
        ("5.4.0-42-generic", gpus(S80), None),
        ("6.8.0-124-generic", gpus(S80, S4000, S80), "MTT S80, MTT S4000"),
        ("5.15.0-113-generic", gpus(S30), None),
    ],
)
def test_a_kernel_that_the_vendor_does_not_name(
    kernel: str, cards: object, named: str | None
) -> None:
    host = MACHINE._replace(kernel=kernel)
    messages = said(family.kernel_not_tested, machine=host, gpus=cards)
    if named is None:
        assert messages == ()
    else:
        (message,) = messages
        assert message.startswith(
            f"kernel {kernel} (Ubuntu 22.04.5 LTS) is not among those that the vendor names for"
            f" {named}: "
        )


def test_only_apt_hosts_are_told_how_to_hold_a_kernel() -> None:
    host = MACHINE._replace(kernel="5.15.0-113-generic")
    hold = ("sudo apt-mark hold linux-image-generic linux-headers-generic",)
    assert fixes(family.kernel_not_tested, machine=host) == (hold,)
    host = ALINUX._replace(kernel="5.10.134-14.al8.x86_64")
    assert fixes(family.kernel_not_tested, machine=host) == ((),)
