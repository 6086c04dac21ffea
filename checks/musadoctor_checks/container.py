"""What a container must get from its host: device nodes and the driver's files."""

from musadoctor.api import (
    Absent,
    Container,
    ContainerRuntime,
    DeviceNodes,
    Environment,
    Finding,
    Fix,
    Gpus,
    Judgement,
    Layer,
    LoadableLibrary,
    Unknown,
    check,
)
from musadoctor_checks._advice import some
from musadoctor_checks._messages import by_message

REQUEST = "MTHREADS_VISIBLE_DEVICES"
CAPABILITIES = "MTHREADS_DRIVER_CAPABILITIES"
BIND_RUNTIME = "(cd /usr/bin/musa && sudo ./docker setup $PWD)"
"""On the container's host; of the vendor's mt-container-toolkit (musa-deploy 0.7.0, 2025-08)."""
OPTIONS = (
    "--runtime=mthreads --env MTHREADS_VISIBLE_DEVICES=all"
    " --env MTHREADS_DRIVER_CAPABILITIES=compute,utility"
)


def _asked_for(environment: Environment | Unknown) -> str:
    """What the container was started to ask of the vendor's runtime."""
    if isinstance(environment, Unknown):
        return str(environment)
    devices, capabilities = environment.get(REQUEST), environment.get(CAPABILITIES)
    if devices is None:
        return f"{REQUEST} is not set"
    said = f"{REQUEST}={devices}"
    if capabilities is not None and not {"all", "compute"} & set(capabilities.split(",")):
        return f"{said}, and {CAPABILITIES}={capabilities} lacks compute"
    return said


def _kind(container: Container) -> str:
    return f"{container.runtime} container" if container.runtime else "container"


def _start_anew(container: Container) -> Fix:
    if container.runtime == "kubernetes":
        return Fix("Request cards for the pod, such as mthreads.com/gpu: 1 in its resource limits")
    if container.runtime == "docker":
        return Fix(
            f"Start the container anew with docker run {OPTIONS}; if the host's docker does not"
            " know the runtime, install mt-container-toolkit there and bind it (the command is for"
            " the host)",
            (BIND_RUNTIME,),
        )
    return Fix(
        "Start the container anew with the cards and the driver's files: by the vendor's runtime"
        " mthreads, or with --device for /dev/mtgpu.* and /dev/dri and with mounts of"
        " /usr/lib/x86_64-linux-gnu/libmusa.so*"
    )


@check("container-without-device-nodes", layer=Layer.CONTAINER, severity="error")
def container_without_device_nodes(
    container: Container,
    gpus: Gpus,
    device_nodes: DeviceNodes | Absent,
    environment: Environment | Unknown,
) -> Judgement:
    """The container was not given the device nodes of any card.

    ## Why it matters

    A container sees the machine's PCI bus, but may use only the devices that it was started with.

    ## How to fix

    Start it with the vendor's runtime and `MTHREADS_VISIBLE_DEVICES=all`, or pass `/dev/mtgpu.0`
    (one for each card) and `/dev/dri` with `--device`. In Kubernetes, request `mthreads.com/gpu`.
    Do not set `MTHREADS_VISIBLE_DEVICES` while an image is built.

    ## Symptoms

    - `Error: No MT GPU device found.`
    - `MUSA error: no CUDA-capable device is detected`

    ## Sources

    MUSA SDK 5.2.0 container guide (2026); KUAE Cloud Native Toolkits 2.2.0; musa-deploy 0.7.0
    (2025-08).
    """
    if isinstance(device_nodes, Absent):
        yield Finding(
            f"{device_nodes}, while the bus has {gpus}; {_asked_for(environment)}",
            where="/dev",
            fix=_start_anew(container),
        )


@check(
    "container-without-driver",
    layer=Layer.CONTAINER,
    severity="error",
    follows_from=Layer.CONTAINER,
    said=by_message,
)
def container_without_driver(
    container: Container,
    gpus: Gpus,
    user_driver: LoadableLibrary | Absent,
    environment: Environment | Unknown,
) -> Judgement:
    """The container was not given the driver's libraries from its host.

    ## Why it matters

    Images never carry the driver: `libmusa.so` has to fit the host's kernel driver, so the vendor's
    runtime passes it in when the container starts. Images of before 2025 need `libsrv_um_MUSA.so`
    too.

    ## How to fix

    Start the container with the runtime `mthreads`, `MTHREADS_VISIBLE_DEVICES` and the capability
    `compute`. If docker does not know the runtime, install mt-container-toolkit on the host and
    bind it. Without the runtime, mount the host's `/usr/lib/x86_64-linux-gnu/libmusa.so*`.

    ## Symptoms

    - `libsrv_um_MUSA.so: cannot open shared object file: No such file or directory`
    - `Found no driver on your system`
    - `exec: "mthreads-gmi": executable file not found in $PATH`

    ## Sources

    MUSA SDK 5.2.0 container guide (2026); torch_musa issue 118 (2025-12); musa-deploy 0.7.0
    (2025-08).
    """
    missing = [file.path for file in container.files if file.state == "missing"]
    if isinstance(user_driver, Absent):
        message = f"{user_driver}, while the bus has {gpus}; not here: {some(missing)}"
    elif _wants_old_driver(user_driver) and not _has_old_driver(container):
        message = f"{user_driver.real_path} needs libsrv_um_MUSA.so, which is not here"
    else:
        return
    yield Finding(
        f"{message}; {_asked_for(environment)}",
        where=user_driver.path if isinstance(user_driver, LoadableLibrary) else "libmusa.so",
        fix=_start_anew(container),
    )


def _wants_old_driver(user_driver: LoadableLibrary) -> bool:
    return user_driver.real_path.rpartition("/")[2].startswith("libmusa.so.1.0")


def _has_old_driver(container: Container) -> bool:
    return any("libsrv_um_MUSA.so" in file.path for file in container.files)


@check("container-driver-file-broken", layer=Layer.CONTAINER, severity="error", said=by_message)
def container_driver_file_broken(container: Container) -> Judgement:
    """A driver file in this container is empty, or a link to nothing.

    ## Why it matters

    The container's runtime puts the host's driver files in place when the container starts. An
    empty file or a dangling link is what stays where the host had nothing to give, or where an
    image was made by copying such a placeholder.

    ## How to fix

    Install mt-container-toolkit on the host again, bind it to docker, and make a new container. If
    the file is still empty, it is so in the image: take another image, or mount the host's file of
    the same name over it.

    ## Symptoms

    - `libmusa.so.4: file too short`
    - `libsrv_um_MUSA.so: file too short`
    - `mthreads-gmi` prints nothing at all, with exit code 0
    - `-rwxr-xr-x 1 root root 0 ... /usr/bin/mthreads-gmi`

    ## Sources

    tutorial_on_musa, environment FAQ item 4 (2024/2025); torch_musa issue 79 (2025-04); a 4.3.1
    image with an empty libmusa.so.4.3.1 (2026).
    """
    for file in container.files:
        if file.state not in {"ok", "missing"}:
            state = {"empty": "0 bytes", "dangling": "a link to nothing"}.get(
                file.state, f"a {file.state}"
            )
            yield Finding(
                f"{file.path} is {state} in this {_kind(container)}",
                where=file.path,
                fix=Fix(
                    "Repair mt-container-toolkit on the host and make a new container, or mount the"
                    f" host's file: -v {file.path}:{file.path}:ro"
                ),
            )


STATES = {
    "missing": "is not there",
    "empty": "is an empty file",
    "dangling": "is a link to nothing",
    "not executable": "may not be executed",
}


@check("container-runtime-broken", layer=Layer.CONTAINER, severity="warning", said=by_message)
def container_runtime_broken(container_runtime: ContainerRuntime) -> Judgement:
    """Docker cannot start the vendor's runtime that it is configured with.

    ## Why it matters

    Every container that uses the runtime fails to start; where it is docker's default runtime,
    that is every container. Software on the host itself is not affected.

    ## How to fix

    Install mt-container-toolkit again and bind it to docker. If it was removed on purpose, take the
    runtime out of `/etc/docker/daemon.json` and restart docker.

    ## Symptoms

    - `fork/exec /usr/bin/musa/mthreads-container-runtime: no such file or directory: unknown.`
    - `unable to configure the Docker daemon with file /etc/docker/daemon.json`

    ## Sources

    musa-deploy 0.7.0 (2025-08); MUSA SDK 5.2.0 container guide (2026).
    """
    if container_runtime.problem:
        yield Finding(
            f"{container_runtime.config} is damaged, so docker does not start:"
            f" {container_runtime.problem}",
            where=container_runtime.config,
            fix=Fix(
                "Correct the file, then restart docker",
                (f"python3 -m json.tool {container_runtime.config}",),
            ),
        )
    elif container_runtime.bound and not container_runtime.state:
        yield Unknown(f"{container_runtime.binary} could not be looked at")
    elif container_runtime.bound and container_runtime.state != "ok":
        default = " default" if container_runtime.default == "mthreads" else ""
        yield Finding(
            f"docker's{default} runtime mthreads ({container_runtime.config}) cannot start:"
            f" {container_runtime.binary} {STATES.get(container_runtime.state, 'is no file')}",
            where=container_runtime.binary,
            fix=Fix(
                "Install mt-container-toolkit again, bind it to docker, and restart docker",
                (f"ls -l {container_runtime.binary.rpartition('/')[0] or '.'}", BIND_RUNTIME),
            ),
        )
    elif not container_runtime.bound and container_runtime.default == "mthreads":
        yield Finding(
            f"docker's default runtime is mthreads, and {container_runtime.config} does not say"
            " what that is",
            where=container_runtime.config,
            fix=Fix("Bind the runtime to docker again, and restart docker", (BIND_RUNTIME,)),
        )


@check("container-runtime-not-bound", layer=Layer.CONTAINER, severity="note")
def container_runtime_not_bound(container_runtime: ContainerRuntime) -> Judgement:
    """The vendor's container runtime is installed, but docker does not know it.

    ## Why it matters

    `docker run --runtime=mthreads` fails, and containers without it get neither device nodes nor
    the driver's files. Without containers it does not matter.

    ## How to fix

    Bind the runtime to docker with the script that comes with mt-container-toolkit, and restart
    docker.

    ## Symptoms

    - `exec: "mthreads-gmi": executable file not found in $PATH: unknown.`
    - `Unknown runtime specified mthreads`

    ## Sources

    musa-deploy 0.7.0 (2025-08).
    """
    if not container_runtime.bound and not container_runtime.state:
        yield Unknown(f"{container_runtime.binary} could not be looked at")
    usable = container_runtime.state == "ok" and not container_runtime.problem
    if usable and not container_runtime.bound and container_runtime.default != "mthreads":
        yield Finding(
            f"{container_runtime.binary} is installed, and {container_runtime.config} has no"
            " runtime mthreads",
            where=container_runtime.config,
            fix=Fix("Bind it to docker, if containers are to use the cards", (BIND_RUNTIME,)),
        )
