"""Facts given directly: a healthy host with eight MTT S5000, and what its checks say of changes."""

from musadoctor.api import (
    Absent,
    Check,
    Component,
    ComponentLibrary,
    ComponentVersion,
    Container,
    DeviceNode,
    DeviceNodes,
    DriverFolder,
    DriverFolders,
    Environment,
    Gmi,
    GmiCard,
    Gpu,
    Gpus,
    Import,
    KernelDriver,
    KernelDriverVersion,
    KernelLog,
    Libraries,
    LoadableLibrary,
    Machine,
    Mcc,
    PcieLink,
    Python,
    StatedVersion,
    ToolAnswer,
    Toolkit,
    Toolkits,
    ToolkitVersion,
    TorchMusaBuild,
    VersionQuery,
    WheelVersion,
)
from musadoctor.engine import judge
from musadoctor.report import Result

MACHINE = Machine(
    kernel="5.15.0-105-generic",
    architecture="x86_64",
    distribution="Ubuntu 22.04.5 LTS",
    distribution_id="ubuntu",
    distribution_version="22.04",
    glibc="2.35",
    boot_parameters=("quiet", "intel_iommu=off", "iommu=off", "iommu.passthrough=1"),
    wsl=False,
    virtual_machine=None,
    logical_cpus=128,
    memory_bytes=1024 * 2**30,
)
KYLIN = MACHINE._replace(distribution="Kylin V10", distribution_id="kylin")
ALINUX = MACHINE._replace(distribution="Alinux 3", distribution_id="alinux")

WHOLE_LINK = PcieLink(16, 16, "16.0 GT/s PCIe", "16.0 GT/s PCIe")
S5000 = Gpu(
    address="0000:2a:00.0",
    device_id="0400",
    product="MTT S5000",
    architecture="mp_31",
    memory_mib=81920,
    kernel_module="mtgpu",
    numa_node=0,
    link=WHOLE_LINK,
)
S4000 = S5000._replace(
    device_id="0323", product="MTT S4000", architecture="mp_22", memory_mib=49152
)
S3000 = S5000._replace(
    device_id="0222", product="MTT S3000", architecture="mp_21", memory_mib=32768
)
S80 = S5000._replace(device_id="0201", product="MTT S80", architecture="mp_21", memory_mib=16384)
S30 = S5000._replace(device_id="0102", product="MTT S30", architecture="mp_10", memory_mib=4096)


def gpus(*cards: Gpu) -> Gpus:
    """These cards, each at an address of its own: 0000:10:00.0, 0000:11:00.0, ..."""
    placed = (c._replace(address=f"0000:{i + 16:02x}:00.0") for i, c in enumerate(cards))
    return Gpus(tuple(placed), "/sys/bus/pci/devices")


def gmi_card(gpu: Gpu, ordinal: int = 0) -> GmiCard:
    """A card as the management tool shows it when all is well."""
    return GmiCard(
        ordinal, gpu.product or "MTT", gpu.address, 0, gpu.memory_mib, "Physical", 16, 16, "4.3.41"
    )


def gmi(cards: Gpus, driver: str = "3.3.5-server") -> Gmi:
    """The management tool's answer for all cards."""
    listed = tuple(gmi_card(card, i) for i, card in enumerate(cards.cards))
    version = KernelDriverVersion.parse(driver)
    return Gmi("mthreads-gmi", "2.3.2", version, listed, (), "/usr/bin/mthreads-gmi")


def kernel_driver(*versions: str) -> KernelDriver:
    """A loaded driver whose version is stated in as many places."""
    places = ("/sys/module/mtgpu/version", "/proc/driver/musa/version")
    stated: list[StatedVersion] = []
    for text, place in zip(versions, places, strict=False):
        version = KernelDriverVersion.parse(text)
        assert version is not None
        stated.append(StatedVersion(version, place))
    return KernelDriver(tuple(stated), "/sys/module/mtgpu")


def toolkit(number: str, *, libraries: tuple[str, ...] = (), problem: str | None = None) -> Toolkit:
    """A Toolkit in its usual folder; with its usual libraries unless others are given."""
    major = number.partition(".")[0]
    usual = (f"libmusart.so.{major}", f"libmusart.so.{number}", "libmufft.so.1")
    return Toolkit(
        f"/usr/local/musa-{number}",
        ToolkitVersion.parse(number),
        f"/usr/local/musa-{number}/version.json",
        (),
        libraries or usual,
        problem,
    )


def library(soname: str, folder: str = "/usr/local/musa-5.2.0/lib") -> LoadableLibrary:
    """A library that can be loaded."""
    return LoadableLibrary(soname, f"{folder}/{soname}", f"{folder}/{soname}", "ld.so.cache", None)


def component(name: str, number: str, *architectures: str) -> Component:
    """A block of musa_version_query."""
    version = ComponentVersion.parse(number)
    assert version is not None
    return Component(name, version, None, architectures)


def wheel(*needs: str, number: str = "2.9.1+musa5.2.0") -> TorchMusaBuild:
    """An installed torch_musa that needs these libraries."""
    version = WheelVersion.parse(number)
    assert version is not None
    path = "/opt/venv/lib/python3.10/site-packages/torch_musa"
    return TorchMusaBuild(version, path, version.toolkit, 5, needs, True, f"{path}-2.9.1.dist-info")


def driver_folders(*numbers: str) -> DriverFolders:
    """A folder with the libmusa of each of these releases."""
    return DriverFolders(
        tuple(DriverFolder(f"/opt/deps/{n}/lib", ToolkitVersion.parse(n)) for n in numbers)
    )


NODES = DeviceNodes(
    (
        DeviceNode("/dev/mtgpu.0", "mtgpu", 0o660, "render", usable=True),
        DeviceNode("/dev/dri/card0", "card", 0o660, "video", usable=True),
        DeviceNode("/dev/dri/renderD128", "render", 0o660, "render", usable=True),
    ),
    "uid 1000",
    ("user", "render", "video"),
)
DOCKER = Container("docker", ("/.dockerenv",), ())
CARDS = gpus(*[S5000] * 8)
TOOLKIT = toolkit("5.2.0")
WHEEL = wheel("libmusart.so.5", "libmudnn.so.3", "libmccl.so.2", "libmusa.so.1")
MUDNN = ComponentLibrary("muDNN", ComponentVersion.parse("3.4.0"), "/lib/libmudnn.so.3", "its name")
MCCL = ComponentLibrary("MCCL", ComponentVersion.parse("2.4.0"), "/lib/libmccl.so.2", "its name")
LIBMUSA = library("libmusa.so.1", "/usr/lib/x86_64-linux-gnu")
LIBRARIES = Libraries(
    (LIBMUSA, library("libmusart.so.5"), library("libmudnn.so.3"), library("libmccl.so.2")), ()
)
PYTHON = Python(
    "/opt/venv/bin/python", "VIRTUAL_ENV", "3.10.12", "cp310", "/opt/venv", ("/opt/venv/lib",)
)
MCC = ComponentVersion.parse("5.2.0")
assert MCC is not None

HEALTHY: dict[str, object] = {
    "machine": MACHINE,
    "container": Absent("not a container: nothing shows one"),
    "gpus": CARDS,
    "kernel_driver": kernel_driver("3.3.5-server", "3.3.5"),
    "topology": Absent("no mthreads-gmi on PATH"),
    "device_nodes": NODES,
    "kernel_log": KernelLog((), since_start=True),
    "module_file": Absent("no /lib/modules"),
    "gmi_answer": ToolAnswer("mthreads-gmi", 0, None),
    "gmi": gmi(CARDS),
    "musa_info_answer": ToolAnswer("/usr/local/musa-5.2.0/bin/musaInfo", 0, None),
    "toolkits": Toolkits((TOOLKIT,), "/usr/local"),
    "toolkit": TOOLKIT,
    "mcc": Mcc("/usr/local/musa-5.2.0/bin/mcc", MCC),
    "mudnn": MUDNN,
    "mccl": MCCL,
    "version_query": VersionQuery(
        (component("musa_toolkits", "5.2.0"), component("mublas", "5.2.0", "mp_22", "mp_31")),
        "musa_version_query",
    ),
    "environment": Environment({}, (), ()),
    "user_driver": LIBMUSA,
    "libraries": LIBRARIES,
    "driver_folders": driver_folders("4.3.5", "5.2.0"),
    "python": PYTHON,
    "torch_musa_build": WHEEL,
    "torch_musa_import": Import("torch_musa", None, 1.0),
}


def judged(check: Check, **changes: object) -> Result:
    """What a check says of the healthy host with some facts changed."""
    return judge(check, {name: {**HEALTHY, **changes}[name] for name in check.needs})


def said(check: Check, **changes: object) -> tuple[str, ...]:
    """The messages of a check that has nothing to complain of but findings."""
    result = judged(check, **changes)
    assert not result.traceback, result.traceback
    assert result.status in {"passed", "failed"}, result.reason
    return tuple(finding.message for finding in result.findings)


def fixes(check: Check, **changes: object) -> tuple[tuple[str, ...], ...]:
    """The commands of each finding."""
    return tuple(f.fix.commands for f in judged(check, **changes).findings if f.fix)


def advice(check: Check, **changes: object) -> str:
    """The text of the one finding's fix."""
    (finding,) = judged(check, **changes).findings
    assert finding.fix is not None
    return finding.fix.text


def unknown(check: Check, **changes: object) -> str:
    """The reason for which a check cannot decide."""
    result = judged(check, **changes)
    assert not result.traceback, result.traceback
    assert result.status == "unknown", result
    return result.reason


def skipped(check: Check, **changes: object) -> bool:
    """Whether the question does not arise."""
    return judged(check, **changes).status == "skipped"
