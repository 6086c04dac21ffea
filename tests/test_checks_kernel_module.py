"""Why the module is not loaded: one cause, and the commands that are right for this host."""

import pytest
from given import ALINUX, CARDS, DOCKER, KYLIN, S5000, advice, fixes, gpus, judged, said, unknown

from musadoctor.api import (
    Absent,
    Check,
    DkmsTree,
    KernelLog,
    KernelMessage,
    ModuleFile,
    Unknown,
)
from musadoctor_checks import driver
from musadoctor_checks import kernel_module as family
from musadoctor_checks.knowledge import refusals

KERNEL = "5.15.0-105-generic"
NOT_LOADED = Absent("the kernel module mtgpu is not loaded: no /sys/module/mtgpu")
UNSEEN = Unknown("not found out")
TREE = DkmsTree("mtgpu/3.3.5", has_source=True, built_for=(KERNEL,), failed_log=None)
FAILED = TREE._replace(built_for=(), failed_log="/var/lib/dkms/mtgpu/3.3.5/build/make.log")
FILE = ModuleFile(
    KERNEL,
    f"/lib/modules/{KERNEL}/updates/dkms/mtgpu.ko",
    (),
    (),
    headers=True,
    dkms=(TREE,),
    blocked_by=(),
)
NOTHING = FILE._replace(path=None, headers=False, dkms=())
BLOCKED = FILE._replace(blocked_by=("/etc/modprobe.d/a.conf: blacklist mtgpu",))
EMPTY = KernelLog((), since_start=True)
SIBLINGS = [
    family.driver_not_installed,
    family.driver_module_not_built,
    family.driver_module_for_other_kernel,
    family.driver_module_blacklisted,
    family.driver_module_refused,
]
ALL = [*SIBLINGS, driver.driver_not_loaded]
BUILD = f"sudo dkms install mtgpu/3.3.5 -k {KERNEL}"
LOAD = "sudo modprobe -v mtgpu"


def log(*lines: str) -> KernelLog:
    return KernelLog(tuple(KernelMessage(214.1, line) for line in lines), since_start=True)


REFUSED = log(
    "mtgpu: module verification failed: signature and/or required key missing - tainting kernel",
    "mtgpu: disagrees about version of symbol module_layout",
)


@pytest.mark.parametrize(
    ("module", "kernel_log", "cause"),
    [
        (NOTHING, REFUSED, family.driver_not_installed),
        (NOTHING._replace(dkms=(FAILED,)), EMPTY, family.driver_module_not_built),
        (NOTHING._replace(others=("5.4.0-42",)), EMPTY, family.driver_module_for_other_kernel),
        (NOTHING._replace(dkms=(TREE,)), REFUSED, family.driver_module_for_other_kernel),
        (BLOCKED, EMPTY, family.driver_module_blacklisted),
        (BLOCKED, REFUSED, family.driver_module_refused),
        (FILE, REFUSED, family.driver_module_refused),
        (FILE, EMPTY, driver.driver_not_loaded),
        (FILE, log("mtgpu: module verification failed: signature"), driver.driver_not_loaded),
        (FILE, UNSEEN, driver.driver_not_loaded),
        (Absent("no /lib/modules"), REFUSED, driver.driver_not_loaded),
        (UNSEEN, REFUSED, family.driver_module_refused),
        (UNSEEN, EMPTY, driver.driver_not_loaded),
    ],
)
def test_there_is_one_cause(module: object, kernel_log: object, cause: Check) -> None:
    facts = {"kernel_driver": NOT_LOADED, "module_file": module, "kernel_log": kernel_log}
    results = {check.id: judged(check, **facts) for check in ALL}
    assert [id for id, result in results.items() if result.findings] == [cause.id]
    assert not any(result.traceback for result in results.values())
    if isinstance(module, Unknown):
        # What was not found out clears nobody.
        assert {results[check.id].status for check in SIBLINGS[:-1]} == {"unknown"}
    if cause is not driver.driver_not_loaded:
        assert results["driver-not-loaded"].status == "skipped"
        assert results["driver-not-loaded"].reason.endswith(f"{cause.id} says why")


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
@pytest.mark.parametrize("module", [NOTHING, BLOCKED, UNSEEN])
def test_a_loaded_driver_has_no_cause(check: Check, module: object) -> None:
    assert said(check, module_file=module, kernel_log=REFUSED) == ()


@pytest.mark.parametrize("check", SIBLINGS, ids=lambda check: check.id)
def test_cards_of_virtual_machines_need_no_module(check: Check) -> None:
    card = gpus(S5000._replace(kernel_module="vfio-pci"))
    facts = {"gpus": card, "kernel_driver": NOT_LOADED, "kernel_log": REFUSED}
    assert said(check, **facts, module_file=NOTHING) == ()


def test_in_a_container_only_its_host_can_load_the_driver() -> None:
    facts = {
        "kernel_driver": NOT_LOADED,
        "module_file": Absent("the host's"),
        "kernel_log": REFUSED,
        "container": DOCKER,
    }
    found = [check.id for check in ALL if judged(check, **facts).findings]
    assert found == ["driver-not-loaded"]
    assert fixes(driver.driver_not_loaded, **facts) == ((),)


def test_whether_it_was_refused_may_be_for_root_to_see() -> None:
    facts = {"kernel_driver": NOT_LOADED, "module_file": FILE, "kernel_log": UNSEEN}
    assert unknown(family.driver_module_refused, **facts) == "not found out"


def test_it_is_there_and_not_loaded() -> None:
    facts = {"kernel_driver": NOT_LOADED, "module_file": FILE}
    (message,) = said(driver.driver_not_loaded, **facts)
    assert message.endswith(f"on the bus; its file is there: {FILE.path}")
    assert fixes(driver.driver_not_loaded, **facts) == ((LOAD, driver.KERNEL_LOG),)


def test_it_is_not_installed() -> None:
    facts = {"kernel_driver": NOT_LOADED, "module_file": NOTHING}
    assert said(family.driver_not_installed, **facts) == (
        (
            f"no mtgpu.ko for the running kernel {KERNEL} or another one, and no source of it in"
            f" /var/lib/dkms/mtgpu, with {CARDS} on the bus"
        ),
    )
    assert "mthreads-driver" in advice(family.driver_not_installed, **facts)


@pytest.mark.parametrize(
    ("changes", "message", "commands"),
    [
        (
            {"dkms": (FAILED,)},
            (
                f"mtgpu/3.3.5 is with DKMS, but built for no kernel, so not for the running {KERNEL};"
                f" its headers are not installed; the last build failed ({FAILED.failed_log})"
            ),
            (
                f"tail -n 40 {FAILED.failed_log}",
                f"sudo apt install linux-headers-{KERNEL}",
                BUILD,
                LOAD,
            ),
        ),
        (
            {"dkms": (FAILED._replace(failed_log=None),), "headers": True},
            f"mtgpu/3.3.5 is with DKMS, but built for no kernel, so not for the running {KERNEL}",
            (BUILD, LOAD),
        ),
        (
            {"dkms": (FAILED._replace(failed_log=None, has_source=False),)},
            (
                f"mtgpu/3.3.5 is with DKMS, but built for no kernel, so not for the running {KERNEL};"
                " its headers are not installed"
            ),
            (f"sudo apt install linux-headers-{KERNEL}",),
        ),
    ],
)
def test_it_was_never_built(
    changes: dict[str, object], message: str, commands: tuple[str, ...]
) -> None:
    module = NOTHING._replace(**changes)  # type: ignore[arg-type]
    facts = {"kernel_driver": NOT_LOADED, "module_file": module}
    assert said(family.driver_module_not_built, **facts) == (message,)
    assert fixes(family.driver_module_not_built, **facts) == (commands,)


@pytest.mark.parametrize(
    ("machine", "headers"),
    [
        (ALINUX, (f"sudo dnf install kernel-devel-{KERNEL}",)),
        (KYLIN, ()),
        (UNSEEN, ()),
    ],
)
def test_headers_by_distribution(machine: object, headers: tuple[str, ...]) -> None:
    module = NOTHING._replace(dkms=(FAILED._replace(failed_log=None),))
    facts = {"kernel_driver": NOT_LOADED, "module_file": module, "machine": machine}
    assert fixes(family.driver_module_not_built, **facts) == ((*headers, BUILD, LOAD),)


@pytest.mark.parametrize(
    ("changes", "message", "text"),
    [
        (
            {"others": ("5.15.0-91-generic", "5.4.0-42-generic"), "dkms": (FAILED,)},
            (
                "there is one for 5.15.0-91-generic, 5.4.0-42-generic; its headers are not installed;"
                f" the last build failed ({FAILED.failed_log})"
            ),
            (
                "Boot 5.15.0-91-generic, or have the headers of the running kernel, then build it with"
                " DKMS for this kernel"
            ),
        ),
        (
            {"others": ("5.4.0-42-generic",), "headers": True},
            "there is one for 5.4.0-42-generic",
            (
                "Boot 5.4.0-42-generic, or have the headers of the running kernel, then DKMS knows no"
                " source of it, so install the driver package again under this kernel"
            ),
        ),
        (
            {"dkms": (TREE._replace(built_for=("5.4.0-42-generic",), has_source=False),)},
            "there is one for 5.4.0-42-generic; its headers are not installed",
            (
                "Have the headers of the running kernel, then the source of mtgpu/3.3.5 is gone, so"
                " install the driver package again"
            ),
        ),
        (
            {"dkms": (TREE,), "headers": True},
            "DKMS built mtgpu/3.3.5 for it",
            "Have the headers of the running kernel, then build it with DKMS for this kernel",
        ),
    ],
)
def test_it_was_built_for_another_kernel(
    changes: dict[str, object], message: str, text: str
) -> None:
    module = NOTHING._replace(**changes)  # type: ignore[arg-type]
    facts = {"kernel_driver": NOT_LOADED, "module_file": module}
    (found,) = said(family.driver_module_for_other_kernel, **facts)
    assert found == f"no mtgpu.ko for the running kernel {KERNEL}; {message}"
    assert advice(family.driver_module_for_other_kernel, **facts) == text


def test_it_is_on_a_blacklist() -> None:
    module = BLOCKED._replace(
        blocked_by=(*BLOCKED.blocked_by, "/proc/cmdline: modprobe.blacklist=mtgpu")
    )
    facts = {"kernel_driver": NOT_LOADED, "module_file": module}
    assert said(family.driver_module_blacklisted, **facts) == (
        f"{FILE.path} is there, and /etc/modprobe.d/a.conf says blacklist mtgpu",
        f"{FILE.path} is there, and /proc/cmdline says modprobe.blacklist=mtgpu",
    )
    assert fixes(family.driver_module_blacklisted, **facts) == (
        ("grep -n mtgpu /etc/modprobe.d/a.conf", LOAD),
        (),
    )


@pytest.mark.parametrize(
    ("line", "meaning", "commands"),
    [
        (
            "mtgpu: version magic '5.4.0 SMP mod_unload' should be '5.15.0 SMP mod_unload'",
            "another kernel",
            (f"{BUILD} --force", LOAD),
        ),
        ("mtgpu: Unknown symbol drm_dev_put (err -22)", "needs is not there", None),
        ("mtgpu: Loading of unsigned module is rejected", "Secure Boot", ("mokutil --sb-state",)),
        (
            "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
            "not signed",
            ("mokutil --sb-state",),
        ),
        (
            "mtgpu: `x' invalid for parameter `display'",
            "option",
            ("grep -rn mtgpu /etc/modprobe.d", LOAD),
        ),
    ],
)
def test_the_kernel_refused_it(line: str, meaning: str, commands: tuple[str, ...] | None) -> None:
    facts = {"kernel_driver": NOT_LOADED, "module_file": FILE, "kernel_log": log(line)}
    (message,) = said(family.driver_module_refused, **facts)
    assert message.startswith(f"the kernel log says {line!r}: ")
    assert meaning in message
    if commands:
        assert fixes(family.driver_module_refused, **facts) == (commands,)


def test_the_kernel_refused_a_module_that_nothing_is_known_of() -> None:
    facts: dict[str, object] = {"kernel_driver": NOT_LOADED, "kernel_log": REFUSED}
    assert fixes(family.driver_module_refused, **facts, module_file=UNSEEN) == (
        ("dkms status", LOAD),
    )
    alone = FILE._replace(dkms=())
    assert fixes(family.driver_module_refused, **facts, module_file=alone) == (
        ("dkms status", LOAD),
    )


def test_the_kinds_of_refusal_are_those_that_the_check_knows() -> None:
    assert {row.kind for row in refusals()} == {"other kernel", "signature", "option"}


def test_a_newer_kernel_without_the_module() -> None:
    check = family.newer_kernel_without_module
    newer = FILE._replace(newer_without=("6.8.0-52-generic",))
    assert said(check, module_file=newer) == (
        (
            f"6.8.0-52-generic, newer than the running {KERNEL}, has no mtgpu.ko, which {CARDS} will"
            " need after a restart"
        ),
    )
    assert fixes(check, module_file=newer) == (
        ("sudo dkms install mtgpu/3.3.5 -k 6.8.0-52-generic",),
    )
    assert fixes(check, module_file=newer._replace(dkms=())) == ((),)
    assert said(check, module_file=FILE) == ()
    assert said(check, module_file=newer._replace(path=None)) == ()
