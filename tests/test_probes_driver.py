"""The kernel module mtgpu and its device nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import LINUX, file, folder, host, sample

from musadoctor.facts import Absent, DeviceNode, DeviceNodes, KernelDriver, StatedVersion, Unknown
from musadoctor.probes.driver import MODULE, PROCFS, device_nodes, kernel_driver, package_version
from musadoctor.probes.pci import BUS
from musadoctor.recording import Recorder
from musadoctor.system import ERROR, NOT_ALLOWED, UNRECORDED, Failure, Stat
from musadoctor.versions import KernelDriverVersion

LOADED = {MODULE: folder(MODULE)}


def stated(text: str, source: str) -> StatedVersion:
    version = KernelDriverVersion.parse(text)
    assert version is not None
    return StatedVersion(version, source)


@pytest.mark.parametrize(
    ("system", "expected", "line"),
    [
        (
            host(
                stats=LOADED,
                files={
                    f"{MODULE}/version": "3.3.5-server\n",
                    PROCFS: sample("proc-driver-musa-version_line.txt"),
                },
            ),
            KernelDriver(
                (stated("3.3.5-server", f"{MODULE}/version"), stated("3.3.5", PROCFS)), MODULE
            ),
            "kernel driver 3.3.5-server (/sys/module/mtgpu/version)",
        ),
        (
            host(stats=LOADED, files={PROCFS: Failure(NOT_ALLOWED, "x")}),
            KernelDriver((), MODULE),
            "kernel driver of unstated version (/sys/module/mtgpu)",
        ),
        (
            host(stats=LOADED, files={f"{MODULE}/version": "9" * 5000, PROCFS: "something\n"}),
            KernelDriver((), MODULE),
            "kernel driver of unstated version (/sys/module/mtgpu)",
        ),
        (
            host(files={PROCFS: "Package Version: 2.7.0-rc3-0822\nother\n"}),
            KernelDriver((stated("2.7.0-rc3-0822", PROCFS),), PROCFS),
            "kernel driver 2.7.0-rc3-0822 (/proc/driver/musa/version)",
        ),
    ],
)
def test_loaded(system: Recorder, expected: KernelDriver, line: str) -> None:
    assert kernel_driver(system) == expected
    assert str(expected) == line


NOT_LOADED = Absent("the kernel module mtgpu is not loaded: no /sys/module/mtgpu")


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        (host(stats={"/sys/module": folder("/sys/module")}), NOT_LOADED),
        (host(folders={BUS: []}), NOT_LOADED),
        (
            host(),
            Unknown("no /sys/module/mtgpu, but /sys does not show its other folders either"),
        ),
        (
            host(stats={MODULE: Failure(NOT_ALLOWED, f"{MODULE}: Permission denied")}),
            Unknown(f"{MODULE}: Permission denied"),
        ),
        (host(unlisted="unrecorded"), Unknown(f"{MODULE}: not in this recording")),
    ],
)
def test_not_loaded(system: Recorder, expected: Absent | Unknown) -> None:
    assert kernel_driver(system) == expected


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("package version:3.3.5", "3.3.5"),
        ("first\n  package version:\t3.1.0-rc4.2.0-server-Ubuntu  \nlast", "3.1.0-rc4.2.0-server-Ubuntu"),
        ("package version:3.3.5 extra", None),
        ("package version:unknown", None),
        ("version:3.3.5", None),
        ("package version:\n3.3.5", None),
    ],
)  # fmt: skip
def test_package_version(text: str, version: str | None) -> None:
    parsed = package_version(text)
    assert (None if parsed is None else str(parsed)) == version


@given(st.text().map("package version:{}".format) | st.text())
def test_no_text_is_too_much(text: str) -> None:
    assert isinstance(package_version(text), (KernelDriverVersion, type(None)))


def node(mode: int = 0o660, group: str = "render", *, usable: bool = True) -> Stat:
    return Stat("device", 0, mode, group, usable=usable, executable=False, real="")


FILES = {
    "/sys/class/drm/card1/device/vendor": "0x1ed5\n",
    "/sys/class/drm/renderD128/device/vendor": "0x1ED5\n",
    "/sys/class/drm/card0/device/vendor": "0x1a03\n",
}
DRI = ["by-path", "card0", "card1", "card2", "renderD128"]


def test_nodes_of_all_kinds() -> None:
    system = host(
        folders={"/dev": ["mtgpu.0", "mtgpu1", "mtgpu", "mtgpu.x", "null"], "/dev/dri": DRI},
        files=FILES,
        stats={
            "/dev/mtgpu.0": node(0o666, "root"),
            "/dev/mtgpu1": node(0o600, "root", usable=False),
            "/dev/mtgpu": node(),
            "/dev/dri/card0": node(),
            "/dev/dri/card1": node(group="video"),
            "/dev/dri/card2": node(),
            "/dev/dri/renderD128": node(group="109", usable=False),
        },
    )
    found = device_nodes(system)
    assert found == DeviceNodes(
        (
            DeviceNode("/dev/mtgpu.0", "mtgpu", 0o666, "root", usable=True),
            DeviceNode("/dev/mtgpu1", "mtgpu", 0o600, "root", usable=False),
            DeviceNode("/dev/dri/card1", "card", 0o660, "video", usable=True),
            DeviceNode("/dev/dri/renderD128", "render", 0o660, "109", usable=False),
        ),
        "uid 1000",
        ("user", "video", "render"),
    )
    assert str(found) == "device nodes in /dev: 2 mtgpu, 1 card, 1 render"


@pytest.mark.parametrize(("uid", "user"), [(0, "root"), (1000, "uid 1000")])
def test_who_asks(uid: int, user: str) -> None:
    system = host(
        folders={"/dev": ["mtgpu.0"]},
        stats={"/dev/mtgpu.0": node()},
        platform=LINUX._replace(uid=uid),
    )
    found = device_nodes(system)
    assert isinstance(found, DeviceNodes)
    assert found.user == user


NO_NODES = "no /dev/mtgpu.N, and no node of vendor 1ed5 in /dev/dri"


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        (host(folders={"/dev": ["null"]}), Absent(NO_NODES)),
        (host(folders={"/dev": ["null"], "/dev/dri": ["card0"]}, files=FILES), Absent(NO_NODES)),
        # Gone between the two questions.
        (host(folders={"/dev": ["mtgpu.0"]}), Absent(NO_NODES)),
        (
            host(folders={"/dev": ["mtgpu.0"]}, stats={"/dev/mtgpu.0": folder("/dev/mtgpu.0")}),
            Absent(f"{NO_NODES}; /dev/mtgpu.0 is a folder, not a device"),
        ),
        (
            host(folders={"/dev": ["mtgpu.0"]}, stats={"/dev/mtgpu.0": file(0)}),
            Absent(f"{NO_NODES}; /dev/mtgpu.0 is a file, not a device"),
        ),
        (host(), Absent("no /dev")),
        (
            host(folders={"/dev": Failure(NOT_ALLOWED, "/dev: Permission denied")}),
            Unknown("/dev: Permission denied"),
        ),
        (
            host(folders={"/dev": [], "/dev/dri": Failure(ERROR, "/dev/dri: I/O error")}),
            Unknown("/dev/dri: I/O error"),
        ),
        (
            host(folders={"/dev": ["mtgpu.0"]}, platform=Failure(UNRECORDED, "platform: none")),
            Unknown("platform: none"),
        ),
    ],
)
def test_no_nodes(system: Recorder, expected: Absent | Unknown) -> None:
    assert device_nodes(system) == expected


def test_nodes_beside_an_unreadable_folder() -> None:
    system = host(
        folders={"/dev": ["mtgpu.0"], "/dev/dri": Failure(NOT_ALLOWED, "no")},
        stats={"/dev/mtgpu.0": node()},
    )
    found = device_nodes(system)
    assert isinstance(found, DeviceNodes)
    assert [n.path for n in found.nodes] == ["/dev/mtgpu.0"]
