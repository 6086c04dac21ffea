"""The checks of a container: what they fire on, stay silent on, and cannot tell."""

import pytest
from given import CARDS, DOCKER, LIBMUSA, advice, fixes, judged, library, said, skipped, unknown

from musadoctor.api import (
    Absent,
    Check,
    Container,
    ContainerRuntime,
    Environment,
    InjectedFile,
    LoadableLibrary,
    Unknown,
)
from musadoctor.engine import explain
from musadoctor_checks import container as family

NO_NODES = Absent("no /dev/mtgpu.N, and no node of vendor 1ed5 in /dev/dri")
NO_LIBMUSA = Absent("no libmusa.so.* in LD_LIBRARY_PATH, the loader's cache or default folders")
MISSING = Container(
    "docker",
    ("/.dockerenv",),
    (
        InjectedFile("/usr/lib/x86_64-linux-gnu/libmusa.so", "missing"),
        InjectedFile("/usr/bin/mthreads-gmi", "missing"),
    ),
)


def variables(**values: str) -> Environment:
    return Environment(values, (), ())


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        (variables(), "MTHREADS_VISIBLE_DEVICES is not set"),
        (Unknown("not in this recording"), "not in this recording"),
        (variables(MTHREADS_VISIBLE_DEVICES="all"), "MTHREADS_VISIBLE_DEVICES=all"),
        (
            variables(
                MTHREADS_VISIBLE_DEVICES="0,1", MTHREADS_DRIVER_CAPABILITIES="compute,utility"
            ),
            "MTHREADS_VISIBLE_DEVICES=0,1",
        ),
        (
            variables(MTHREADS_VISIBLE_DEVICES="0", MTHREADS_DRIVER_CAPABILITIES="utility"),
            "MTHREADS_VISIBLE_DEVICES=0, and MTHREADS_DRIVER_CAPABILITIES=utility lacks compute",
        ),
    ],
)
def test_no_device_nodes(environment: object, asked: str) -> None:
    (message,) = said(
        family.container_without_device_nodes,
        container=DOCKER,
        device_nodes=NO_NODES,
        environment=environment,
    )
    assert message == f"{NO_NODES.reason}, while the bus has {CARDS}; {asked}"


def test_device_nodes_are_there() -> None:
    assert said(family.container_without_device_nodes, container=DOCKER) == ()


@pytest.mark.parametrize(
    ("runtime", "commands", "word"),
    [
        ("docker", ("(cd /usr/bin/musa && sudo ./docker setup $PWD)",), "--runtime=mthreads"),
        ("kubernetes", (), "mthreads.com/gpu"),
        ("podman", (), "--device"),
        (None, (), "--device"),
    ],
)
def test_how_a_container_is_started_depends_on_what_runs_it(
    runtime: str | None, commands: tuple[str, ...], word: str
) -> None:
    facts = {"container": DOCKER._replace(runtime=runtime), "device_nodes": NO_NODES}
    assert fixes(family.container_without_device_nodes, **facts) == (commands,)
    assert word in advice(family.container_without_device_nodes, **facts)


def test_no_driver_was_passed_in() -> None:
    (message,) = said(family.container_without_driver, container=MISSING, user_driver=NO_LIBMUSA)
    assert message == (
        f"{NO_LIBMUSA.reason}, while the bus has {CARDS}; not here:"
        " /usr/lib/x86_64-linux-gnu/libmusa.so, /usr/bin/mthreads-gmi;"
        " MTHREADS_VISIBLE_DEVICES is not set"
    )
    assert said(family.container_without_driver, container=MISSING) == ()


@pytest.mark.parametrize(
    ("user_driver", "files", "fires"),
    [
        (library("libmusa.so.1.0", "/usr/local/musa/lib"), (), True),
        (
            library("libmusa.so.1.0", "/usr/local/musa/lib"),
            (InjectedFile("/usr/lib/x86_64-linux-gnu/musa/libsrv_um_MUSA.so", "ok"),),
            False,
        ),
        (LIBMUSA, (), False),
    ],
)
def test_old_images_need_a_second_library(
    user_driver: LoadableLibrary, files: tuple[InjectedFile, ...], *, fires: bool
) -> None:
    messages = said(
        family.container_without_driver,
        container=DOCKER._replace(files=files),
        user_driver=user_driver,
    )
    assert bool(messages) is fires
    assert all("needs libsrv_um_MUSA.so" in message for message in messages)


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("empty", "0 bytes"),
        ("dangling", "a link to nothing"),
        ("folder", "a folder"),
        ("ok", None),
        ("missing", None),
    ],
)
def test_a_broken_driver_file(state: str, shown: str | None) -> None:
    path = "/usr/lib/x86_64-linux-gnu/libmusa.so.4.3.1"
    messages: list[str] = []
    for runtime, name in (("docker", "docker container"), (None, "container")):
        box = Container(runtime, (), (InjectedFile(path, state),))
        messages += said(family.container_driver_file_broken, container=box)
        assert shown is None or messages[-1] == f"{path} is {shown} in this {name}"
    assert len(messages) == (0 if shown is None else 2)


@pytest.mark.parametrize(
    "check",
    [
        family.container_without_device_nodes,
        family.container_without_driver,
        family.container_driver_file_broken,
    ],
)
def test_a_host_is_no_container(check: Check) -> None:
    assert skipped(check, device_nodes=NO_NODES, user_driver=NO_LIBMUSA)


def test_one_container_without_runtime_is_one_cause() -> None:
    facts: dict[str, object] = {
        "container": MISSING,
        "device_nodes": NO_NODES,
        "user_driver": NO_LIBMUSA,
    }
    checks = (family.container_without_device_nodes, family.container_without_driver)
    first, second = explain([judged(check, **facts) for check in checks])
    assert first.caused_by is None
    assert second.caused_by == "container-without-device-nodes"


PROGRAM = "/usr/bin/musa/mthreads-container-runtime"
DAEMON = "/etc/docker/daemon.json"
BOUND = ContainerRuntime(DAEMON, None, (("mthreads", PROGRAM),), None, PROGRAM, "ok")
UNBOUND = BOUND._replace(runtimes=(("runc", "runc"),))


@pytest.mark.parametrize(
    ("runtime", "messages"),
    [
        (BOUND, ()),
        (BOUND._replace(default="mthreads"), ()),
        (UNBOUND, ()),
        (UNBOUND._replace(state="missing"), ()),
        (
            BOUND._replace(state="missing", default="mthreads"),
            (f"docker's default runtime mthreads ({DAEMON}) cannot start: {PROGRAM} is not there",),
        ),
        (
            BOUND._replace(state="folder"),
            (f"docker's runtime mthreads ({DAEMON}) cannot start: {PROGRAM} is no file",),
        ),
        (
            UNBOUND._replace(problem="no JSON: Expecting value", runtimes=()),
            (f"{DAEMON} is damaged, so docker does not start: no JSON: Expecting value",),
        ),
        (
            UNBOUND._replace(default="mthreads"),
            (f"docker's default runtime is mthreads, and {DAEMON} does not say what that is",),
        ),
    ],
)
def test_docker_cannot_start_the_runtime(
    runtime: ContainerRuntime, messages: tuple[str, ...]
) -> None:
    assert said(family.container_runtime_broken, container_runtime=runtime) == messages


UNSEEN_UNBOUND = UNBOUND._replace(state="")


def test_a_runtime_that_could_not_be_looked_at() -> None:
    closed = BOUND._replace(state="")
    reason = unknown(family.container_runtime_broken, container_runtime=closed)
    assert reason == f"{PROGRAM} could not be looked at"
    reason = unknown(family.container_runtime_not_bound, container_runtime=UNSEEN_UNBOUND)
    assert reason == f"{PROGRAM} could not be looked at"


@pytest.mark.parametrize(
    ("runtime", "fires"),
    [
        (BOUND, False),
        (UNBOUND, True),
        (UNBOUND._replace(state="missing"), False),
        (UNBOUND._replace(problem="no JSON"), False),
        (UNBOUND._replace(default="mthreads"), False),
    ],
)
def test_docker_does_not_know_the_runtime(runtime: ContainerRuntime, *, fires: bool) -> None:
    check = family.container_runtime_not_bound
    messages = (f"{PROGRAM} is installed, and {DAEMON} has no runtime mthreads",)
    assert said(check, container_runtime=runtime) == (messages if fires else ())
    if fires:
        assert fixes(check, container_runtime=runtime) == ((family.BIND_RUNTIME,),)
