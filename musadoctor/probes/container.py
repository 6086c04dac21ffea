"""Whether this is a container, what runs it, and which driver files it was given.

No one weak sign decides: ``/.dockerenv`` is in every machine image that was made of a docker
image, overlays are the root of live systems and small virtual machines, and anybody can set a
variable. What decides alone is what only an engine writes: its storage behind ``/`` or
``/etc/hosts`` in ``/proc/self/mountinfo``, a container's id in a control group, a filled
``/run/.containerenv``, systemd's ``/run/systemd/container``. Two weak signs together decide
too, unless the process lives in the machine's own PID namespace.

``/proc/self/mountinfo``, of which the mount's root, its place, its type and its options matter::

    36 35 0:52 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/QK:...
    41 36 8:1 /var/lib/docker/containers/0a1b.../hosts /etc/hosts rw - ext4 /dev/sda1 rw

``/proc/self/cgroup``: ``0::/system.slice/docker-0a1b....scope``, ``4:memory:/kubepods/pod0a1b/..``.
"""

import re
from typing import NamedTuple

from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.machine import Container, ContainerFact, InjectedFile
from musadoctor.probes.gmi import Located, locate
from musadoctor.probes.once import once
from musadoctor.system import NOT_THERE, Failure, Stat, System

FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""The number that the kernel gives to the machine's own PID namespace (PROC_PID_INIT_INO)."""
RUNTIMES = ("kubernetes", "podman", "docker")
"""Where several speak, the first of these is named: what a user deals with, not what it uses."""

_ENGINE_PATHS = (
    # What the mounts of a container come from, in whatever folder the engine keeps its data.
    (re.compile(r"/kubelet/pods/"), "kubernetes"),
    (re.compile(r"/containers/storage/|/overlay-containers/"), "podman"),
    (re.compile(r"/overlay2/(?:l/|[0-9a-f]{32})|/docker/containers/"), "docker"),
    (re.compile(r"/(?:apptainer|singularity)/mnt/session"), "apptainer"),
    (re.compile(r"/io\.containerd\."), "containerd"),
)
_CGROUPS = (
    (re.compile(r"/kubepods[./-]|/kubepods$"), "kubernetes"),
    (re.compile(r"[/-]libpod-[0-9a-f]{12}"), "podman"),
    (re.compile(r"/docker[/-][0-9a-f]{12}"), "docker"),
    (re.compile(r"/lxc(?:\.payload)?[./]"), "lxc"),
    (re.compile(r"/(?:cri-containerd|containerd|crio)[/-][0-9a-f]{12}"), "containerd"),
)
_ENGINE_MOUNTS = {"/", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
_NOT_CONTAINERS = {"", "wsl"}
_SHOWN = 60


class Sign(NamedTuple):
    """One thing that speaks for a container."""

    text: str
    runtime: str | None
    decides: bool = False


@once
def container(system: System) -> ContainerFact:
    """The container that this is, and the driver files in it."""
    mounts = system.read("/proc/self/mountinfo")
    cgroups = [system.read(path) for path in ("/proc/1/cgroup", "/proc/self/cgroup")]
    signs = [
        *(mount_signs(mounts) if isinstance(mounts, str) else ()),
        *(sign for text in cgroups if isinstance(text, str) for sign in cgroup_signs(text)),
        *_file_signs(system),
        *_variable_signs(system),
    ]
    namespace = system.stat("/proc/self/ns/pid")
    inside: bool | None = None
    if isinstance(namespace, Stat) and namespace.real.rpartition("/")[2].startswith("pid:["):
        inside = not namespace.real.endswith(FIRST_PID_NAMESPACE)
    if inside:
        signs.append(Sign("a PID namespace of its own", None))
    signs = list(dict.fromkeys(signs))
    texts = tuple(sign.text for sign in signs)
    if any(sign.decides for sign in signs) or (len(signs) > 1 and inside is not False):
        spoken = [sign.runtime for sign in signs if sign.runtime]
        ranked = [*(name for name in RUNTIMES if name in spoken), *spoken, None]
        return Container(ranked[0], texts, _injected_files(system))
    unread = [
        answer
        for answer in (mounts, *cgroups)
        if isinstance(answer, Failure) and answer.kind != NOT_THERE
    ]
    if unread:
        return Unknown(f"whether this is a container: {unread[0]}")
    return Absent(_reason(texts, inside=inside))


def _reason(texts: tuple[str, ...], *, inside: bool | None) -> str:
    where = "; this process is in the machine's own PID namespace" if inside is False else ""
    if texts:
        return f"not a container: {' and '.join(texts)} alone does not tell{where}"
    return f"not a container: nothing shows one{where}"


def mount_signs(text: str) -> list[Sign]:
    """The signs in ``/proc/self/mountinfo``."""
    signs: list[Sign] = []
    for line in text.splitlines():
        mount, separator, storage = line.partition(" - ")
        fields = mount.split(" ")
        if not separator or len(fields) < 5 or fields[4] not in _ENGINE_MOUNTS:  # noqa: PLR2004
            continue
        root, place = fields[3:5]
        kind = storage.partition(" ")[0]
        for pattern, runtime in _ENGINE_PATHS:
            if found := pattern.search(f"{root} {storage}"):
                signs.append(Sign(f"{place} comes from {found[0]}", runtime, decides=True))
                break
        else:
            if place == "/" and kind in {"overlay", "aufs", "fuse-overlayfs"}:
                signs.append(Sign(f"/ is of type {kind}", None))
    return signs


def cgroup_signs(text: str) -> list[Sign]:
    """The signs in a ``cgroup`` file of ``/proc``."""
    for line in text.splitlines():
        path = line.split(":", 2)[-1]
        for pattern, runtime in _CGROUPS:
            if pattern.search(path):
                return [Sign(f"control group of {runtime}", runtime, decides=True)]
    return []


def _file_signs(system: System) -> list[Sign]:
    signs: list[Sign] = []
    if isinstance(system.stat("/.dockerenv"), Stat):
        signs.append(Sign("/.dockerenv", "docker"))
    marker = system.read("/run/.containerenv")
    if isinstance(marker, str):
        # Empty in a container without privileges, else with `engine="podman-4.9.3"`.
        signs.append(Sign("/run/.containerenv", "podman", decides="engine=" in marker))
    named = system.read("/run/systemd/container")
    if isinstance(named, str) and (name := named.strip()) not in _NOT_CONTAINERS:
        signs.append(Sign(f"/run/systemd/container says {name[:_SHOWN]}", name, decides=True))
    return signs


def _variable_signs(system: System) -> list[Sign]:
    signs: list[Sign] = []
    named = system.env("container")
    if isinstance(named, str) and named not in _NOT_CONTAINERS:
        signs.append(Sign(f"container={named[:_SHOWN]}", named))
    if isinstance(system.env("KUBERNETES_SERVICE_HOST"), str):
        signs.append(Sign("KUBERNETES_SERVICE_HOST", "kubernetes"))
    return signs


def _injected_files(system: System) -> tuple[InjectedFile, ...]:
    """The driver files that a container gets from its host, in the places that are known for them.

    ``libsrv_um_MUSA.so`` belongs to older drivers: it is listed where it is, and never missing.
    """
    platform = system.platform()
    machine = "x86_64" if isinstance(platform, Failure) else platform.architecture
    libraries = f"/usr/lib/{machine}-linux-gnu"
    paths: list[str] = []
    for stem, needed in (("libmusa.so", True), ("libmtml.so", True), ("libsrv_um_MUSA.so", False)):
        found = _files_of(system, stem, (libraries, f"{libraries}/musa"))
        paths += found or ([f"{libraries}/{stem}"] if needed else [])
    tool = locate(system)
    paths.append(tool.path if isinstance(tool, Located) else "/usr/bin/mthreads-gmi")
    states = ((path, _state(system.stat(path))) for path in paths)
    return tuple(InjectedFile(path, state) for path, state in states if state)


def _files_of(system: System, stem: str, folders: tuple[str, ...]) -> list[str]:
    paths: list[str] = []
    for folder in folders:
        names = system.list(folder)
        if not isinstance(names, Failure):
            paths += [f"{folder}/{name}" for name in names if name.startswith(stem)]
    cached = system.cached(stem)
    if not isinstance(cached, Failure):
        paths += cached.values()
    return list(dict.fromkeys(paths))


def _state(stat: Stat | Failure) -> str:
    """Empty where it could not be found out."""
    if isinstance(stat, Failure):
        return "missing" if stat.kind == NOT_THERE else ""
    if stat.kind == "file":
        return "ok" if stat.size else "empty"
    return "other" if stat.kind == "device" else stat.kind
