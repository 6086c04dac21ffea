"""The kernel log, and the file of the kernel module mtgpu.

``dmesg``, of which the door keeps the lines that concern the cards::

    [    0.000000] Linux version 5.15.0-105-generic (buildd@lcy02) (gcc 11.4.0) ...
    [24078.925037] MTGPU:(Error): 56377:  PID 1747 experienced error Guilty Lockup (0x1) caller[...]

DKMS keeps ``/var/lib/dkms/mtgpu/3.3.5/`` with a link ``source`` to the sources, a folder for each
kernel that the module was built for, and, after a build that failed, ``build/make.log``.
"""

import re

from musadoctor.commands import kernel_log as dmesg
from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.kernel import (
    DkmsTree,
    KernelLog,
    KernelLogFact,
    KernelMessage,
    ModuleFile,
    ModuleFileFact,
)
from musadoctor.facts.machine import Container
from musadoctor.probes.container import container
from musadoctor.probes.driver import kernel_driver
from musadoctor.probes.pci import gpus
from musadoctor.probes.stated import is_transcript
from musadoctor.probes.tools import LONGEST_LINE, complaint
from musadoctor.system import NOT_THERE, Failure, System

MODULES = "/lib/modules"
DKMS = "/var/lib/dkms/mtgpu"
PLACES = (
    # Of DKMS on Debian and its like, on SUSE, on Red Hat and its like; of packages for one kernel.
    *("updates/dkms", "updates", "extra", "extra/mtgpu", "weak-updates", "weak-updates/mtgpu"),
    *("kernel/drivers/gpu/drm/mtgpu", "kernel/drivers/gpu/drm"),
)
CONFIGURATIONS = ("/etc/modprobe.d", "/run/modprobe.d", "/lib/modprobe.d")
MOST_KERNELS = 16

# Compiled when first needed: many a host asks for none of them.
_MODULE = r"mtgpu\.ko(?:\.(?:zst|xz|gz))?"
_TIMED = r"(?:<\d+>)?\[\s*(?P<seconds>\d{1,12}\.\d{1,9})\](?:\[[^\]]*\])?\s*(?P<text>.*)"
_START = r"Linux version \d"
_BLOCK = (
    r"(?m)^[ \t]*(blacklist[ \t]+mtgpu|install[ \t]+mtgpu[ \t]+(?:/usr)?/bin/(?:false|true))[ \t]*$"
)
_BLOCK_PARAMETER = r"(?:modprobe\.blacklist|module_blacklist)=(?:\S*,)?mtgpu(?:,\S*)?"


def kernel_log(system: System) -> KernelLogFact:
    """What the kernel says of the cards since the machine started; in a container of its host's."""
    if isinstance(kernel_driver(system), Absent) and isinstance(gpus(system), Absent):
        return Absent("no card and no driver that the kernel could speak of")
    ran = system.run(dmesg())
    if ran.status == "ok" and not (ran.out or ran.note):
        return Unknown("dmesg shows no kernel log at all")
    if ran.status == "ok":
        return parse_kernel_log(ran.out)._replace(excerpt=is_transcript(system))
    if ran.status == "failed" and "not permitted" in ran.err:
        return Unknown(f"{complaint(ran)}: under sudo the kernel log can be read")
    return Unknown(f"dmesg: {complaint(ran) if ran.status == 'failed' else ran.note or ran.status}")


def parse_kernel_log(text: str) -> KernelLog:
    """The lines of ``dmesg``, with or without times."""
    messages: list[KernelMessage] = []
    since_start = False
    for line in text.splitlines():
        found = re.match(_TIMED, line[:LONGEST_LINE])
        said = found["text"] if found else line[:LONGEST_LINE].strip()
        if re.match(_START, said):
            since_start = True
        elif said:
            messages.append(KernelMessage(float(found["seconds"]) if found else None, said))
    return KernelLog(tuple(messages), since_start)


def module_file(system: System) -> ModuleFileFact:
    """Where the module mtgpu lies, for this kernel and for others, and what forbids to load it."""
    platform = system.platform()
    if isinstance(platform, Failure):
        return Unknown(str(platform))
    if isinstance(gpus(system), Absent):
        return Absent("no card that needs the module")
    if isinstance(container(system), Container):
        return Absent("the kernel's modules are the matter of the container's host")
    kernels = system.list(MODULES)
    if isinstance(kernels, Failure):
        return kernels.state
    running = platform.kernel
    installed = sorted((k for k in kernels if k != running), key=kernel_order, reverse=True)
    here = _module_of(system, running)
    if isinstance(here, Failure):
        return Unknown(str(here))
    others = {
        kernel: _module_of(system, kernel)
        for kernel in installed[:MOST_KERNELS]
        # The folder of a kernel that was removed holds leftovers only.
        if not isinstance(system.stat(f"{MODULES}/{kernel}/modules.builtin"), Failure)
    }
    return ModuleFile(
        kernel=running,
        path=here or None,
        others=tuple(k for k, path in others.items() if isinstance(path, str) and path),
        newer_without=tuple(
            kernel
            for kernel, path in others.items()
            if path == "" and kernel_order(kernel) > kernel_order(running)
        ),
        headers=not isinstance(system.stat(f"{MODULES}/{running}/build/Makefile"), Failure),
        dkms=_dkms(system),
        blocked_by=_blocks(system) if isinstance(kernel_driver(system), Absent) else (),
    )


def kernel_order(release: str) -> tuple[int, ...]:
    """A key that sorts kernel releases by age."""
    return tuple(map(int, re.findall(r"\d+", release)))


def _module_of(system: System, kernel: str) -> str | Failure:
    """The module's file for a kernel, empty where there is none."""
    for place in PLACES:
        folder = f"{MODULES}/{kernel}/{place}"
        names = system.list(folder)
        if isinstance(names, Failure) and names.kind != NOT_THERE:
            return names
        for name in () if isinstance(names, Failure) else names:
            if re.fullmatch(_MODULE, name):
                return f"{folder}/{name}"
    return ""


def _dkms(system: System) -> tuple[DkmsTree, ...]:
    trees: list[DkmsTree] = []
    for version in _names(system, DKMS):
        folder = f"{DKMS}/{version}"
        inside = _names(system, folder)
        # Beside the versions there are links: kernel-5.15.0-105-generic-x86_64.
        if version.startswith("kernel-") or not inside:
            continue
        source = system.stat(f"{folder}/source")
        log = f"{folder}/build/make.log"
        trees.append(
            DkmsTree(
                name=f"mtgpu/{version}",
                has_source=not isinstance(source, Failure) and source.kind == "folder",
                built_for=tuple(name for name in inside if name not in {"build", "source"}),
                failed_log=None if isinstance(system.stat(log), Failure) else log,
            )
        )
    return tuple(trees)


def _blocks(system: System) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for folder in CONFIGURATIONS:
        for name in _names(system, folder):
            text = system.read(f"{folder}/{name}") if name.endswith(".conf") else ""
            if isinstance(text, str):
                said = (" ".join(line.split()) for line in re.findall(_BLOCK, text))
                found |= dict.fromkeys(f"{folder}/{name}: {line}" for line in said)
    boot = system.read("/proc/cmdline")
    words = () if isinstance(boot, Failure) else boot.split()
    found |= {
        f"/proc/cmdline: {word}": None for word in words if re.fullmatch(_BLOCK_PARAMETER, word)
    }
    return tuple(found)


def _names(system: System, folder: str) -> tuple[str, ...]:
    names = system.list(folder)
    return () if isinstance(names, Failure) else names
