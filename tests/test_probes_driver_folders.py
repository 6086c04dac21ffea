"""Folders that hold the libmusa of one SDK release."""

import pytest
from support import file, folder, host

from musadoctor.api import Absent, DriverFolder, DriverFolders, ToolkitVersion, Unknown
from musadoctor.probes.driver_folders import driver_folders
from musadoctor.recording import Recorder
from musadoctor.system import NOT_ALLOWED, Failure, Stat

DEPS = "/opt/runtime-deps"


def machine(
    variables: dict[str, str],
    *releases: str,
    names: tuple[str, ...] = ("libmusa.so.1", "libmtml.so.2"),
    driver: Stat | None = None,
) -> Recorder:
    """A host with a folder for each of these releases."""
    folders = [f"{DEPS}/{release}/lib" for release in releases]
    return host(
        variables=variables,
        folders={DEPS: releases, **dict.fromkeys(folders, names)},
        stats={
            **{path: folder(path) for path in folders},
            **{f"{path}/libmusa.so.1": driver or file() for path in folders},
        },
    )


def release(number: str) -> DriverFolder:
    return DriverFolder(f"{DEPS}/{number}/lib", ToolkitVersion.parse(number))


@pytest.mark.parametrize(
    "variables",
    [
        {"MUSA_DRIVER_LIB_DIR": f"{DEPS}/4.3.5/lib"},
        {"MUSA_DRIVER_LIB_DIR": f"{DEPS}/4.3.5/lib/"},
        {"LD_LIBRARY_PATH": f"/usr/lib::{DEPS}/4.3.5/lib"},
        {"LD_LIBRARY_PATH": f"{DEPS}/3.1.0/lib"},  # left over from one that was removed
    ],
)
def test_those_beside_it_are_looked_at_too(variables: dict[str, str]) -> None:
    found = driver_folders(machine({"PATH": "/bin", **variables}, "4.3.5", "5.2.0", "tools"))
    assert found == DriverFolders((release("4.3.5"), release("5.2.0")))
    assert str(found) == f"libmusa in {DEPS}/4.3.5/lib (4.3.5), {DEPS}/5.2.0/lib (5.2.0)"
    newer, other = ToolkitVersion.parse("5.2"), ToolkitVersion.parse("5.1.0")
    assert newer
    assert other
    assert found.of_release(newer) == release("5.2.0")
    assert found.of_release(other) is None


def test_the_variable_s_own_comes_first() -> None:
    found = driver_folders(machine({"MUSA_DRIVER_LIB_DIR": f"{DEPS}/5.2.0/lib"}, "4.3.5", "5.2.0"))
    assert found == DriverFolders((release("5.2.0"), release("4.3.5")))


def test_a_folder_that_names_no_release_counts_by_the_variable_alone() -> None:
    path = "/opt/driver"
    stats = {path: folder(path), f"{path}/libmusa.so.1": file()}
    held = {path: ("libmusa.so.1",)}
    by_variable = host(variables={"MUSA_DRIVER_LIB_DIR": path}, folders=held, stats=stats)
    assert driver_folders(by_variable) == DriverFolders((DriverFolder(path, None),))
    assert str(DriverFolder(path, None)) == "/opt/driver (of unstated release)"
    by_path = host(variables={"LD_LIBRARY_PATH": path}, folders=held, stats=stats)
    assert isinstance(driver_folders(by_path), Absent)


def test_a_link_is_followed() -> None:
    link = f"{DEPS}/current/lib"
    base = machine({}, "5.2.0")
    linked = host(
        variables={"MUSA_DRIVER_LIB_DIR": link},
        folders={DEPS: ("5.2.0", "current"), f"{DEPS}/5.2.0/lib": ("libmusa.so.1",)},
        stats={link: folder(f"{DEPS}/5.2.0/lib"), f"{DEPS}/5.2.0/lib/libmusa.so.1": file()},
    )
    assert isinstance(driver_folders(base), Absent)
    assert driver_folders(linked) == DriverFolders((release("5.2.0"),))


@pytest.mark.parametrize(
    ("names", "driver"),
    [
        (("libmtml.so.2",), file()),
        (("libmusa.so.1", "libmusart.so.5"), file()),  # a Toolkit's own folder
        (("libmusa.so.1",), file(0)),
        (("libmusa.so.1",), file()._replace(kind="dangling")),
        ((), file()),
    ],
)
def test_a_libmusa_that_is_not_really_there(names: tuple[str, ...], driver: Stat) -> None:
    system = machine(
        {"MUSA_DRIVER_LIB_DIR": f"{DEPS}/5.2.0/lib"}, "5.2.0", names=names, driver=driver
    )
    assert isinstance(driver_folders(system), Absent)


@pytest.mark.parametrize("shut", [DEPS, f"{DEPS}/5.2.0/lib"])
def test_a_folder_that_cannot_be_looked_into(shut: str) -> None:
    variables = {"MUSA_DRIVER_LIB_DIR": f"{DEPS}/5.2.0/lib"}
    failure = Failure(NOT_ALLOWED, f"{shut}: Permission denied")
    found = driver_folders(
        host(
            variables=variables, folders={DEPS: ("5.2.0",), f"{DEPS}/5.2.0/lib": (), shut: failure}
        )
    )
    assert found == Unknown(f"{shut}: Permission denied")


def test_a_recording_without_the_variables() -> None:
    assert isinstance(driver_folders(host(unlisted="unrecorded")), Unknown)
