"""Docker's configuration on a host, and the vendor's runtime in it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import file, folder, host

from musadoctor.facts import Absent, ContainerRuntime, Unknown
from musadoctor.probes.container_runtime import BINARY, CONFIG, container_runtime
from musadoctor.system import NOT_ALLOWED, UNRECORDED, Failure, Found, Stat

BOUND = json.dumps({"default-runtime": "mthreads", "runtimes": {"mthreads": {"path": BINARY}}})
THERE = {BINARY: file(2_000_000, executable=True)}
DOCKER = {"docker": Found("/usr/bin/docker")}
RUNTIMES = (("mthreads", BINARY),)


@pytest.mark.parametrize(
    ("text", "expected", "line"),
    [
        (
            BOUND,
            ContainerRuntime(CONFIG, None, RUNTIMES, "mthreads", BINARY, "ok"),
            f"docker's runtime mthreads is {BINARY} ({CONFIG})",
        ),
        (
            '{"runtimes": {"mthreads": {"path": 3}, "x": null}}',
            ContainerRuntime(CONFIG, None, (("mthreads", ""), ("x", "")), None, BINARY, "ok"),
            f"docker's runtime mthreads is {BINARY} ({CONFIG})",
        ),
        (
            '{"runtimes": [], "default-runtime": 1}',
            ContainerRuntime(CONFIG, None, (), None, BINARY, "ok"),
            f"docker has no runtime mthreads ({CONFIG})",
        ),
        (
            " \n",
            ContainerRuntime(CONFIG, None, (), None, BINARY, "ok"),
            f"docker has no runtime mthreads ({CONFIG})",
        ),
        (
            "[]",
            ContainerRuntime(CONFIG, "no JSON object", (), None, BINARY, "ok"),
            f"docker has no runtime mthreads ({CONFIG})",
        ),
        (
            "{",
            ContainerRuntime(
                CONFIG,
                "no JSON: Expecting property name enclosed in double quotes: line 1 column 2"
                " (char 1)",
                (),
                None,
                BINARY,
                "ok",
            ),
            f"docker has no runtime mthreads ({CONFIG})",
        ),
    ],
)
def test_the_configuration(text: str, expected: ContainerRuntime, line: str) -> None:
    found = container_runtime(host(files={CONFIG: text}, stats=THERE, programs=DOCKER))
    assert found == expected
    assert str(found) == line


@pytest.mark.parametrize(
    ("stat", "state"),
    [
        (None, "missing"),
        (Failure(NOT_ALLOWED, "x"), ""),
        (file(0, executable=True), "empty"),
        (file(9), "not executable"),
        (folder(BINARY), "folder"),
        (Stat("dangling", 0, 0, "", usable=False, executable=False, real=""), "dangling"),
        (Stat("device", 0, 0, "", usable=False, executable=False, real=""), "other"),
    ],
)
def test_the_program(stat: Stat | Failure | None, state: str) -> None:
    stats = {} if stat is None else {BINARY: stat}
    found = container_runtime(host(files={CONFIG: BOUND}, stats=stats))
    assert isinstance(found, ContainerRuntime)
    assert found.state == state


@pytest.mark.parametrize(
    ("program", "state"),
    [
        (Found("/usr/bin/mthreads-container-runtime"), "ok"),
        (Found(""), "missing"),
        (Failure(UNRECORDED, "x"), ""),
    ],
)
def test_a_program_that_docker_looks_up_on_path(program: Found | Failure, state: str) -> None:
    name = "mthreads-container-runtime"
    text = json.dumps({"runtimes": {"mthreads": {"path": name}}})
    found = container_runtime(host(files={CONFIG: text}, programs={name: program}))  # type: ignore[dict-item]
    assert isinstance(found, ContainerRuntime)
    assert (found.binary, found.state) == (name, state)


def test_docker_without_a_configuration() -> None:
    unbound = ContainerRuntime(CONFIG, None, (), None, BINARY, "missing")
    assert container_runtime(host(programs=DOCKER)) == unbound
    assert container_runtime(host(stats=THERE)) == unbound._replace(state="ok")


def test_neither_docker_nor_the_runtime() -> None:
    assert container_runtime(host()) == Absent(f"no docker on PATH, no {CONFIG}, and no {BINARY}")
    programs = {"docker": Failure(UNRECORDED, "docker: not in this recording")}
    assert container_runtime(host(programs=programs)) == Unknown("docker: not in this recording")  # type: ignore[arg-type]


def test_in_a_container_its_host_is_not_seen() -> None:
    inside = host(files={"/run/.containerenv": 'engine="podman"\n', CONFIG: BOUND})
    found = container_runtime(inside)
    assert isinstance(found, Absent)
    assert found.reason.startswith("this is a podman")


def test_a_configuration_for_root_only() -> None:
    closed = host(files={CONFIG: Failure(NOT_ALLOWED, f"{CONFIG}: Permission denied")})
    assert container_runtime(closed) == Unknown(f"{CONFIG}: Permission denied")


@given(st.text() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_any_configuration_is_read(text: str) -> None:
    found = container_runtime(host(files={CONFIG: text}))
    assert isinstance(found, ContainerRuntime)
    assert not found.bound


def test_a_deeply_nested_configuration() -> None:
    found = container_runtime(host(files={CONFIG: "[" * 10**5}))
    assert isinstance(found, ContainerRuntime)
    assert found.problem
