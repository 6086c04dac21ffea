"""The kernel module ``mtgpu`` and the device nodes of the cards.

``/sys/module/mtgpu/version`` holds a version alone, ``/proc/driver/musa/version`` a line
``package version:3.3.5`` (the one line of that file that is known; it may be for root only).
"""

import re

from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.driver import (
    DeviceNode,
    DeviceNodes,
    DeviceNodesFact,
    Gmi,
    KernelDriver,
    KernelDriverFact,
    StatedVersion,
)
from musadoctor.probes.gmi import gmi
from musadoctor.probes.once import once
from musadoctor.probes.pci import VENDOR, gpus
from musadoctor.probes.stated import stated as in_prose
from musadoctor.system import NOT_THERE, UNRECORDED, Failure, System
from musadoctor.versions import KernelDriverVersion

MODULE = "/sys/module/mtgpu"
PROCFS = "/proc/driver/musa/version"

_PACKAGE_VERSION = re.compile(r"(?im)^[ \t]*package version:[ \t]*(\S{1,99})[ \t]*$")
# With a dot on every host met; without one in the container guide of the MUSA SDK 5.2.0.
_MTGPU = re.compile(r"mtgpu\.?\d+")
_DRM = re.compile(r"(card|renderD)\d+")


@once
def kernel_driver(system: System) -> KernelDriverFact:
    """The loaded module, and every place that states its version."""
    module = system.stat(MODULE)
    procfs = system.read(PROCFS)
    if isinstance(module, Failure) and isinstance(procfs, Failure):
        return _by_word(system, module) or _not_loaded(system, module)
    stated: list[StatedVersion] = []
    version = system.read(f"{MODULE}/version")
    if isinstance(version, str) and (parsed := KernelDriverVersion.parse(version)):
        stated.append(StatedVersion(parsed, f"{MODULE}/version"))
    if isinstance(procfs, str) and (parsed := package_version(procfs)):
        stated.append(StatedVersion(parsed, PROCFS))
    source = PROCFS if isinstance(module, Failure) else MODULE
    if not stated and (told := _by_word(system, Failure(UNRECORDED, ""))):
        return told._replace(loaded=True, source=f"{source}, {told.source}")
    return KernelDriver(tuple(stated), source)


def _by_word(system: System, module: Failure) -> KernelDriver | None:
    """Of a transcript: what the management tool or a sentence says, where sysfs is not shown."""
    if module.kind != UNRECORDED:
        return None
    listed = gmi(system)
    if isinstance(listed, Gmi) and listed.driver:
        return KernelDriver((StatedVersion(listed.driver, listed.source),), listed.source)
    for item in in_prose(system, "driver", module):
        if version := KernelDriverVersion.parse(item.value):
            return KernelDriver((StatedVersion(version, item.source),), item.source, loaded=False)
    return None


def _not_loaded(system: System, module: Failure) -> Absent | Unknown:
    if module.kind != NOT_THERE:
        return Unknown(str(module))
    if isinstance(system.stat("/sys/module"), Failure) and isinstance(gpus(system), Unknown):
        return Unknown(f"no {MODULE}, but /sys does not show its other folders either")
    return Absent(f"the kernel module mtgpu is not loaded: no {MODULE}")


def package_version(text: str) -> KernelDriverVersion | None:
    """The version in ``/proc/driver/musa/version``."""
    found = _PACKAGE_VERSION.search(text)
    return KernelDriverVersion.parse(found[1]) if found else None


def device_nodes(system: System) -> DeviceNodesFact:
    """``/dev/mtgpu.N`` and the nodes in ``/dev/dri`` that belong to a Moore Threads card.

    Whether a node may be used is what its permission bits say; a container's own rules for
    devices may still forbid it.
    """
    platform = system.platform()
    names = system.list("/dev")
    drm = system.list("/dev/dri")
    if isinstance(names, Failure):
        return names.state
    if isinstance(platform, Failure):
        return Unknown(str(platform))
    candidates = [("mtgpu", f"/dev/{name}") for name in names if _MTGPU.fullmatch(name)]
    for name in () if isinstance(drm, Failure) else drm:
        kind = _DRM.fullmatch(name)
        vendor = system.read(f"/sys/class/drm/{name}/device/vendor") if kind else ""
        if kind and isinstance(vendor, str) and vendor.strip().lower() == VENDOR:
            candidates.append(("card" if kind[1] == "card" else "render", f"/dev/dri/{name}"))
    nodes: list[DeviceNode] = []
    wrong = ""
    for kind_name, path in candidates:
        stat = system.stat(path)
        if isinstance(stat, Failure):
            continue
        if stat.kind != "device":
            # Docker makes a folder of a mount whose source is not there.
            wrong = f"; {path} is a {stat.kind}, not a device"
            continue
        nodes.append(DeviceNode(path, kind_name, stat.mode, stat.group, stat.usable))
    if nodes:
        user = "root" if platform.uid == 0 else f"uid {platform.uid}"
        return DeviceNodes(tuple(nodes), user, platform.groups)
    if isinstance(drm, Failure) and drm.kind != NOT_THERE:
        return Unknown(str(drm))
    return Absent(f"no /dev/mtgpu.N, and no node of vendor 1ed5 in /dev/dri{wrong}")
