"""The kernel log and the file of the module mtgpu."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import LINUX, file, folder, host, sample

from musadoctor.facts import Absent, DkmsTree, KernelLog, KernelMessage, ModuleFile, Unknown
from musadoctor.probes.driver import MODULE
from musadoctor.probes.kernel import kernel_log, kernel_order, module_file, parse_kernel_log
from musadoctor.probes.pci import BUS
from musadoctor.recording import Recorder
from musadoctor.system import NOT_ALLOWED, Failure, Ran

CARD = f"{BUS}/0000:2a:00.0"
CARDS = {
    f"{CARD}/vendor": "0x1ed5\n",
    f"{CARD}/device": "0x0400\n",
    f"{CARD}/class": "0x030200\n",
}
BUSES = {BUS: ["0000:2a:00.0"]}
SYS = {"/sys/module": folder("/sys/module")}
START = "[    0.000000] Linux version 5.15.0-105-generic (buildd@lcy02) (gcc 11.4.0)\n"
LOCKUPS = sample("dmesg-mtgpu-lockup.txt")


def with_card(ran: Ran) -> Recorder:
    return host(files=CARDS, folders=BUSES, stats=SYS, runs={"dmesg": ran})


def test_the_lines_of_the_kernel_log() -> None:
    log = kernel_log(with_card(Ran("ok", 0, START + LOCKUPS, note="6 of 1200 lines kept")))
    assert isinstance(log, KernelLog)
    assert log.since_start
    assert len(log.messages) == 5
    assert log.messages[0].seconds == 24078.925037
    assert str(log.messages[0]).startswith("MTGPU:(Error): 56377:  PID 1747 experienced error")
    assert str(log) == "5 lines about the cards in the kernel log"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (START, "no lines about the cards in the kernel log"),
        (
            "mtgpu: x\n",
            (
                "1 line about the cards in the kernel log, which no longer goes back to the machine's"
                " start"
            ),
        ),
    ],
)
def test_how_far_the_kernel_log_goes_back(text: str, line: str) -> None:
    assert str(kernel_log(with_card(Ran("ok", 0, text, note="1 of 9 lines kept")))) == line


@pytest.mark.parametrize(
    ("ran", "reason"),
    [
        (Ran("ok", 0), "dmesg shows no kernel log at all"),
        (
            Ran(
                "failed",
                1,
                err="dmesg: read kernel buffer failed: Operation not permitted\n",
                note="exit code 1, 0 of 0 lines kept",
            ),
            (
                "dmesg: read kernel buffer failed: Operation not permitted: under sudo the kernel log"
                " can be read"
            ),
        ),
        (
            Ran("failed", 1, err="dmesg: klogctl: Function not implemented\n"),
            "dmesg: dmesg: klogctl: Function not implemented",
        ),
        (Ran("timed out", note="no answer in 10 s, killed"), "dmesg: no answer in 10 s, killed"),
        (Ran("not in this recording"), "dmesg: not in this recording"),
        (Ran("not there", note="no dmesg on PATH"), "dmesg: no dmesg on PATH"),
    ],
)
def test_a_kernel_log_that_cannot_be_read(ran: Ran, reason: str) -> None:
    assert kernel_log(with_card(ran)) == Unknown(reason)


def test_where_nothing_of_ours_is_the_log_is_not_asked_for() -> None:
    system = host(folders={BUS: []}, runs={"dmesg": Ran("ok", 0, START)})
    assert isinstance(kernel_log(system), Absent)
    assert "runs" not in system.answers()


def test_a_driver_without_a_card_may_have_lost_it() -> None:
    system = host(
        folders={BUS: []}, stats={MODULE: folder(MODULE)}, runs={"dmesg": Ran("ok", 0, START)}
    )
    assert kernel_log(system) == KernelLog((), since_start=True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[   11.402817] mtgpu: a", KernelMessage(11.402817, "mtgpu: a")),
        ("<3>[11.4] mtgpu: a", KernelMessage(11.4, "mtgpu: a")),
        ("[   11.402817][  T512] mtgpu: a", KernelMessage(11.402817, "mtgpu: a")),
        ("mtgpu: a", KernelMessage(None, "mtgpu: a")),
    ],
)
def test_forms_of_a_line(line: str, expected: KernelMessage) -> None:
    assert parse_kernel_log(f"\n{line}\n") == KernelLog((expected,), since_start=False)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    log = parse_kernel_log(text)
    assert len(log.messages) <= len(text.splitlines())


def test_long_lines_are_cut() -> None:
    (message,) = parse_kernel_log("[ 1.0] " + "x" * 10**6).messages
    assert len(message.text) < 500


KERNEL = LINUX.kernel
MODULES = f"/lib/modules/{KERNEL}"
TREE = "/var/lib/dkms/mtgpu/3.3.5"
BUILT = {
    **BUSES,
    "/lib/modules": [KERNEL],
    f"{MODULES}/updates/dkms": ["mtgpu.ko.zst", "other.ko"],
    "/var/lib/dkms/mtgpu": ["3.3.5", f"kernel-{KERNEL}-x86_64", "empty"],
    TREE: [KERNEL, "build", "source"],
}


def installed(kernel: str) -> str:
    return f"/lib/modules/{kernel}/modules.builtin"


def test_a_module_that_dkms_built() -> None:
    found = module_file(
        host(
            files=CARDS,
            folders=BUILT,
            stats={
                **SYS,
                f"{MODULES}/build/Makefile": file(),
                f"{TREE}/source": folder("/usr/src/mtgpu-3.3.5"),
            },
        )
    )
    tree = DkmsTree("mtgpu/3.3.5", has_source=True, built_for=(KERNEL,), failed_log=None)
    path = f"{MODULES}/updates/dkms/mtgpu.ko.zst"
    assert found == ModuleFile(KERNEL, path, (), (), headers=True, dkms=(tree,), blocked_by=())
    assert str(found) == f"module file {path}"
    assert str(tree) == "mtgpu/3.3.5"


def test_modules_of_other_kernels_and_a_build_that_failed() -> None:
    kernels = ["5.15.0-91-generic", "5.15.0-113-generic", "6.8.0-52-generic", "5.4.0-42-generic"]
    found = module_file(
        host(
            files=CARDS,
            folders={
                **BUSES,
                "/lib/modules": [*kernels, KERNEL, "5.15.0-7-removed"],
                "/lib/modules/5.15.0-91-generic/updates": ["iwlwifi.ko", "mtgpu.ko.old"],
                "/lib/modules/5.15.0-91-generic/extra": ["mtgpu.ko"],
                "/lib/modules/5.15.0-113-generic/updates": ["mtgpu.ko.xz"],
                "/lib/modules/6.8.0-52-generic/updates": Failure(NOT_ALLOWED, "x"),
                "/var/lib/dkms/mtgpu": ["3.3.5"],
                TREE: ["build", "source"],
            },
            stats={
                **SYS,
                **{installed(kernel): file() for kernel in kernels},
                f"{TREE}/source": file(),
                f"{TREE}/build/make.log": file(),
            },
        )
    )
    assert isinstance(found, ModuleFile)
    assert (found.path, found.headers) == (None, False)
    assert found.others == ("5.15.0-113-generic", "5.15.0-91-generic")
    assert found.newer_without == ()
    log = f"{TREE}/build/make.log"
    assert found.dkms == (DkmsTree("mtgpu/3.3.5", False, (), log),)
    assert str(found) == f"no mtgpu.ko for the running kernel {KERNEL}"


def test_newer_kernels_without_the_module() -> None:
    kernels = ["5.15.0-113-generic", "6.8.0-52-generic", "5.4.0-42-generic"]
    found = module_file(
        host(
            files=CARDS,
            folders={**BUILT, "/lib/modules": [KERNEL, *kernels]},
            stats={**SYS, **{installed(kernel): file() for kernel in kernels}},
        )
    )
    assert isinstance(found, ModuleFile)
    assert found.newer_without == ("6.8.0-52-generic", "5.15.0-113-generic")


def test_what_forbids_to_load_the_module() -> None:
    files = {
        **CARDS,
        "/etc/modprobe.d/a.conf": "# blacklist mtgpu\nblacklist mtgpu_other\nblacklist  mtgpu\n",
        "/etc/modprobe.d/b.conf": "install mtgpu /bin/false\noptions mtgpu x=1\n",
        "/etc/modprobe.d/c.conf.bak": "blacklist mtgpu\n",
        "/lib/modprobe.d/d.conf": "alias a b\n",
        "/proc/cmdline": "quiet modprobe.blacklist=nouveau,mtgpu module_blacklist=mtgpu2\n",
    }
    folders = {
        **BUILT,
        "/etc/modprobe.d": ["a.conf", "b.conf", "c.conf.bak", "gone.conf"],
        "/lib/modprobe.d": ["d.conf"],
    }
    found = module_file(host(files=files, folders=folders, stats=SYS))
    assert isinstance(found, ModuleFile)
    assert found.blocked_by == (
        "/etc/modprobe.d/a.conf: blacklist mtgpu",
        "/etc/modprobe.d/b.conf: install mtgpu /bin/false",
        "/proc/cmdline: modprobe.blacklist=nouveau,mtgpu",
    )
    loaded = module_file(host(files=files, folders=folders, stats={MODULE: folder(MODULE)}))
    assert isinstance(loaded, ModuleFile)
    assert loaded.blocked_by == ()


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        (host(folders={BUS: []}), Absent("no card that needs the module")),
        (host(files=CARDS, folders=BUSES), Absent("no /lib/modules")),
        (
            host(files={**CARDS, "/run/.containerenv": 'engine="podman"\n'}, folders=BUILT),
            Absent("the kernel's modules are the matter of the container's host"),
        ),
        (
            host(files=CARDS, folders={**BUSES, "/lib/modules": Failure(NOT_ALLOWED, "secret")}),
            Unknown("secret"),
        ),
        (
            host(
                files=CARDS,
                folders={**BUILT, f"{MODULES}/updates/dkms": Failure(NOT_ALLOWED, "secret")},
            ),
            Unknown("secret"),
        ),
        (host(platform=Failure(NOT_ALLOWED, "secret")), Unknown("secret")),
    ],
)
def test_no_module_file_to_speak_of(system: Recorder, expected: object) -> None:
    assert module_file(system) == expected


def test_kernels_by_age() -> None:
    releases = ["5.15.0-105-generic", "5.4.0-42-generic", "6.8.0-52-generic", "5.15.0-91-generic"]
    assert sorted(releases, key=kernel_order) == [
        "5.4.0-42-generic",
        "5.15.0-91-generic",
        "5.15.0-105-generic",
        "6.8.0-52-generic",
    ]
