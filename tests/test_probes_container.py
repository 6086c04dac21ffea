"""What makes a container, and what does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import LINUX, file, folder, host

from musadoctor.facts import Absent, Container, InjectedFile, Unknown
from musadoctor.probes.container import cgroup_signs, container, mount_signs
from musadoctor.recording import Recorder
from musadoctor.system import NOT_ALLOWED, UNRECORDED, Failure, Found, Stat

ID = "0a1b2c3d4e5f" * 5 + "0a1b"
PLAIN_ROOT = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"
OVERLAY_ROOT = "27 1 0:31 / / rw,relatime - overlay overlay rw,lowerdir=/ro,upperdir=/rw\n"
DOCKER_ROOT = (
    "586 479 0:52 / / rw,relatime master:1 - overlay overlay"
    " rw,lowerdir=/var/lib/docker/overlay2/l/QK:/var/lib/docker/overlay2/l/AB,upperdir=/x\n"
)
DOCKER_HOSTS = (
    f"41 36 8:1 /var/lib/docker/containers/{ID}/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
)
# On a machine that runs containers, their roots are mounted elsewhere.
DOCKER_SERVER = PLAIN_ROOT + (
    f"99 27 0:60 / /var/lib/docker/overlay2/{ID}/merged rw - overlay overlay"
    " rw,lowerdir=/var/lib/docker/overlay2/l/QK\n"
)


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("", []),
        ("nonsense\n - \n1 2 3 4 - 5\n", []),
        (PLAIN_ROOT, []),
        (DOCKER_SERVER, []),
        (OVERLAY_ROOT, [("/ is of type overlay", None, False)]),
        (OVERLAY_ROOT.replace("overlay overlay", "fuse-overlayfs x"), [("/ is of type fuse-overlayfs", None, False)]),
        (DOCKER_ROOT, [("/ comes from /overlay2/l/", "docker", True)]),
        (DOCKER_HOSTS, [("/etc/hosts comes from /docker/containers/", "docker", True)]),
        (
            OVERLAY_ROOT.replace("/rw\n", f"/data/engine/overlay2/{ID}/diff\n"),
            [(f"/ comes from /overlay2/{ID[:32]}", "docker", True)],
        ),
        (
            OVERLAY_ROOT.replace("/ro", "/var/lib/containers/storage/overlay/l/AB"),
            [("/ comes from /containers/storage/", "podman", True)],
        ),
        (
            OVERLAY_ROOT.replace("/ro", "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/9/fs"),
            [("/ comes from /io.containerd.", "containerd", True)],
        ),
        (
            "9 8 8:1 /var/lib/kubelet/pods/1-2/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n",
            [("/etc/hosts comes from /kubelet/pods/", "kubernetes", True)],
        ),
        (
            OVERLAY_ROOT.replace("/ro", "/var/lib/apptainer/mnt/session/overlay-lowerdir"),
            [("/ comes from /apptainer/mnt/session", "apptainer", True)],
        ),
    ],
)  # fmt: skip
def test_mounts(text: str, signs: list[tuple[str, str | None, bool]]) -> None:
    assert [tuple(sign) for sign in mount_signs(text)] == signs


@pytest.mark.parametrize(
    ("text", "runtime"),
    [
        ("0::/init.scope\n", None),
        ("0::/\n", None),
        ("0::/system.slice/docker.service\n", None),
        ("0::/system.slice/containerd.service\n", None),
        ("0::/system.slice/lxc-monitord.service\n", None),
        ("9:name=systemd:/\n4:memory:/process_api/392bbcbb676fcd183f1c4d804384ddef\n", None),
        (f"0::/system.slice/docker-{ID}.scope\n", "docker"),
        (f"12:pids:/docker/{ID}\n11:cpu:/\n", "docker"),
        (f"0::/../cri-containerd/{ID}\n", "containerd"),
        (f"0::/user.slice/user-1000.slice/libpod-{ID}.scope\n", "podman"),
        ("0::/kubepods.slice/kubepods-burstable.slice/kubepods-pod1.slice/x.scope\n", "kubernetes"),
        (f"4:memory:/kubepods/besteffort/pod1/{ID}\n", "kubernetes"),
        ("0::/kubepods\n", "kubernetes"),
        ("1:name=systemd:/lxc/web\n", "lxc"),
        ("0::/lxc.payload.web/init.scope\n", "lxc"),
        # The path may hold colons.
        (f"0::/a:b/docker-{ID}.scope\n", "docker"),
        ("", None),
        ("nonsense", None),
    ],
)
def test_control_groups(text: str, runtime: str | None) -> None:
    signs = cgroup_signs(text)
    assert [sign.runtime for sign in signs] == ([runtime] if runtime else [])
    assert all(sign.decides for sign in signs)


WORDS = st.sampled_from([" - ", "/", " / ", ":", "overlay", "::", DOCKER_ROOT, DOCKER_HOSTS, "\n"])


@given(st.text() | st.lists(WORDS | st.text()).map("".join))
def test_no_text_is_too_much(text: str) -> None:
    assert all(sign.text for sign in (*mount_signs(text), *cgroup_signs(text)))


def namespace(number: int) -> dict[str, Stat | Failure]:
    return {"/proc/self/ns/pid": file(0, real=f"/proc/77/ns/pid:[{number}]")}


OWN = namespace(4026532177)
MACHINES = namespace(4026531836)
DOCKERENV = {"/.dockerenv": file(0)}
IN_MACHINES = "this process is in the machine's own PID namespace"


@pytest.mark.parametrize(
    ("system", "reason"),
    [
        (host(), "nothing shows one"),
        (host(stats=MACHINES), f"nothing shows one; {IN_MACHINES}"),
        (host(stats=OWN), "a PID namespace of its own alone does not tell"),
        # A small virtual machine made of a docker image, with a program of its own as PID 1.
        (
            host(files={"/proc/self/mountinfo": OVERLAY_ROOT}, stats=DOCKERENV | MACHINES),
            f"/ is of type overlay and /.dockerenv alone does not tell; {IN_MACHINES}",
        ),
        (host(stats=DOCKERENV), "/.dockerenv alone does not tell"),
        (
            host(files={"/proc/self/mountinfo": OVERLAY_ROOT}, stats=MACHINES),
            f"/ is of type overlay alone does not tell; {IN_MACHINES}",
        ),
        (host(variables={"container": "docker"}), "container=docker alone does not tell"),
        (host(variables={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}), "KUBERNETES_SERVICE_HOST alone does not tell"),
        (host(files={"/run/.containerenv": ""}), "/run/.containerenv alone does not tell"),
        # The Windows Subsystem for Linux has a PID namespace of its own.
        (
            host(stats=OWN, files={"/run/systemd/container": "wsl\n"}, variables={"container": ""}),
            "a PID namespace of its own alone does not tell",
        ),
        (host(files={"/proc/self/mountinfo": DOCKER_SERVER, "/proc/1/cgroup": "0::/init.scope"}), "nothing shows one"),
        # A place in /proc that says nothing.
        (host(stats=DOCKERENV | {"/proc/self/ns/pid": file(0, real="/proc/77/ns/pid")}), "/.dockerenv alone does not tell"),
    ],
)  # fmt: skip
def test_no_container(system: Recorder, reason: str) -> None:
    assert container(system) == Absent(f"not a container: {reason}")


@pytest.mark.parametrize(
    ("system", "runtime", "signs"),
    [
        (
            host(files={"/proc/self/mountinfo": DOCKER_ROOT + DOCKER_HOSTS}, stats=DOCKERENV | OWN),
            "docker",
            (
                "/ comes from /overlay2/l/",
                "/etc/hosts comes from /docker/containers/",
                "/.dockerenv",
                "a PID namespace of its own",
            ),
        ),
        # Started with --pid=host: the machine's PID namespace and PID 1.
        (
            host(files={"/proc/1/cgroup": "0::/init.scope", "/proc/self/mountinfo": DOCKER_ROOT}, stats=MACHINES),
            "docker",
            ("/ comes from /overlay2/l/",),
        ),
        # The same words in both control groups are one sign.
        (
            host(files={f"/proc/{pid}/cgroup": f"0::/docker/{ID}\n" for pid in ("1", "self")}),
            "docker",
            ("control group of docker",),
        ),
        (host(stats=DOCKERENV | OWN), "docker", ("/.dockerenv", "a PID namespace of its own")),
        (
            host(
                files={
                    "/proc/self/mountinfo": OVERLAY_ROOT.replace("/ro", "/io.containerd.x/") + DOCKER_HOSTS,
                }
            ),
            "docker",
            ("/ comes from /io.containerd.", "/etc/hosts comes from /docker/containers/"),
        ),
        (
            host(stats=DOCKERENV, files={"/proc/self/mountinfo": OVERLAY_ROOT}),
            "docker",
            ("/ is of type overlay", "/.dockerenv"),
        ),
        (
            host(stats=OWN, files={"/proc/self/mountinfo": OVERLAY_ROOT}),
            None,
            ("/ is of type overlay", "a PID namespace of its own"),
        ),
        (
            host(stats=DOCKERENV | OWN, variables={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}),
            "kubernetes",
            ("/.dockerenv", "KUBERNETES_SERVICE_HOST", "a PID namespace of its own"),
        ),
        (
            host(files={"/run/.containerenv": 'engine="podman-4.9.3"\n'}),
            "podman",
            ("/run/.containerenv",),
        ),
        (
            host(files={"/run/.containerenv": ""}, variables={"container": "oci"}),
            "podman",
            ("/run/.containerenv", "container=oci"),
        ),
        (host(stats=OWN, variables={"container": "oci"}), "oci", ("container=oci", "a PID namespace of its own")),
        (host(files={"/run/systemd/container": "lxc\n"}), "lxc", ("/run/systemd/container says lxc",)),
    ],
)  # fmt: skip
def test_container(system: Recorder, runtime: str | None, signs: tuple[str, ...]) -> None:
    found = container(system)
    assert isinstance(found, Container)
    assert found.runtime == runtime
    assert found.signals == signs
    assert str(found) == f"{runtime or 'container'} ({', '.join(signs)})"


@pytest.mark.parametrize(
    "system",
    [
        host(files={"/proc/self/mountinfo": Failure(NOT_ALLOWED, "x")}, stats=DOCKERENV),
        host(files={"/proc/self/cgroup": Failure(UNRECORDED, "x")}),
    ],
)
def test_unreadable(system: Recorder) -> None:
    assert container(system) == Unknown("whether this is a container: x")


def test_an_unreadable_file_does_not_hide_what_others_say() -> None:
    files: dict[str, str | Failure] = {
        "/proc/self/mountinfo": DOCKER_ROOT,
        "/proc/1/cgroup": Failure(NOT_ALLOWED, "x"),
    }
    assert isinstance(container(host(files=files)), Container)


LIBRARIES = "/usr/lib/x86_64-linux-gnu"
IN_DOCKER = {"/proc/self/mountinfo": DOCKER_ROOT}


def test_nothing_was_injected() -> None:
    found = container(host(files=IN_DOCKER))
    assert isinstance(found, Container)
    assert found.files == (
        InjectedFile(f"{LIBRARIES}/libmusa.so", "missing"),
        InjectedFile(f"{LIBRARIES}/libmtml.so", "missing"),
        InjectedFile("/usr/bin/mthreads-gmi", "missing"),
    )
    assert str(found.files[0]) == f"{LIBRARIES}/libmusa.so (missing)"


def test_what_was_injected() -> None:
    system = host(
        files=IN_DOCKER,
        folders={
            LIBRARIES: ["libmusa.so.4", "libmusa.so.4.3.1", "libmusart.so.4", "musa"],
            f"{LIBRARIES}/musa": ["libsrv_um_MUSA.so", "other.so"],
        },
        stats={
            f"{LIBRARIES}/libmusa.so.4": file(0),
            f"{LIBRARIES}/libmusa.so.4.3.1": file(0),
            f"{LIBRARIES}/musa/libsrv_um_MUSA.so": file(99),
            "/opt/lib/libmtml.so.2": Stat("dangling", 0, 0, "", usable=False, executable=False, real="x"),
            "/opt/bin/mthreads-gmi": file(9, executable=True),
        },
        loader_cache={"libmtml.so": {"libmtml.so.2": "/opt/lib/libmtml.so.2"}, "libmusa.so": {"libmusa.so.4": f"{LIBRARIES}/libmusa.so.4"}},
        programs={"mthreads-gmi": Found("/opt/bin/mthreads-gmi")},
    )  # fmt: skip
    found = container(system)
    assert isinstance(found, Container)
    assert found.files == (
        InjectedFile(f"{LIBRARIES}/libmusa.so.4", "empty"),
        InjectedFile(f"{LIBRARIES}/libmusa.so.4.3.1", "empty"),
        InjectedFile("/opt/lib/libmtml.so.2", "dangling"),
        InjectedFile(f"{LIBRARIES}/musa/libsrv_um_MUSA.so", "ok"),
        InjectedFile("/opt/bin/mthreads-gmi", "ok"),
    )


def test_a_folder_in_place_of_the_tool_and_a_file_that_cannot_be_looked_at() -> None:
    system = host(
        files=IN_DOCKER,
        folders={
            "/usr/lib/aarch64-linux-gnu": ["libmusa.so.1", "libmtml.so.2", "libsrv_um_MUSA.so"]
        },
        stats={
            "/usr/lib/aarch64-linux-gnu/libmusa.so.1": file(9),
            "/usr/lib/aarch64-linux-gnu/libmtml.so.2": Failure(NOT_ALLOWED, "x"),
            "/usr/lib/aarch64-linux-gnu/libsrv_um_MUSA.so": Stat(
                "device", 0, 0o666, "root", usable=True, executable=False, real="/dev/null"
            ),
            "/usr/bin/mthreads-gmi": folder("/usr/bin/mthreads-gmi"),
        },
        loader_cache={"libmusa.so": Failure(NOT_ALLOWED, "x")},
        platform=LINUX._replace(architecture="aarch64"),
    )
    found = container(system)
    assert isinstance(found, Container)
    assert found.files == (
        InjectedFile("/usr/lib/aarch64-linux-gnu/libmusa.so.1", "ok"),
        InjectedFile("/usr/lib/aarch64-linux-gnu/libsrv_um_MUSA.so", "other"),
        InjectedFile("/usr/bin/mthreads-gmi", "folder"),
    )


def test_an_empty_tool_that_may_not_be_executed() -> None:
    system = host(
        files=IN_DOCKER,
        stats={"/usr/bin/mthreads-gmi": file(0)},
        programs={"mthreads-gmi": Found("", "/usr/bin/mthreads-gmi")},
        platform=Failure(UNRECORDED, "x"),
    )
    found = container(system)
    assert isinstance(found, Container)
    assert found.files[-1] == InjectedFile("/usr/bin/mthreads-gmi", "empty")
