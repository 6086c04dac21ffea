"""Whose Triton is installed, told by its back ends."""

import pytest
from python_host import PYTHON, SITE, python_host
from support import host

from musadoctor.facts import Absent, Triton, Unknown
from musadoctor.probes.triton import triton
from musadoctor.recording import Recorder
from musadoctor.system import NOT_ALLOWED, Failure
from musadoctor.versions import WheelVersion

AT = f"{SITE}/triton"
METADATA = {f"{SITE}/triton-3.2.0.dist-info/METADATA": "Name: triton\nVersion: 3.2.0\n"}
MODULE = {f"{AT}/__init__.py": ""}
VERSION = WheelVersion.parse("3.2.0")


def back_ends(*names: str) -> dict[str, str]:
    files = {f"{AT}/backends/{name}": "" for name in ("__init__.py", "driver.py", "compiler.py")}
    return files | {f"{AT}/backends/{name}/driver.py": "" for name in (*names, "__pycache__")}


@pytest.mark.parametrize(
    ("files", "expected", "line"),
    [
        (
            {**METADATA, **MODULE, **back_ends("mtgpu")},
            Triton(VERSION, AT, ("mtgpu",)),
            "triton 3.2.0, back ends: mtgpu",
        ),
        (
            {**METADATA, **MODULE, **back_ends("nvidia", "amd")},
            Triton(VERSION, AT, ("amd", "nvidia")),
            "triton 3.2.0, back ends: amd, nvidia",
        ),
        (MODULE, Triton(None, AT, ()), "triton of unknown version, back ends: none"),
    ],
)
def test_the_back_ends(files: dict[str, str], expected: Triton, line: str) -> None:
    assert triton(python_host(files=files)) == expected
    assert str(expected) == line


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        (python_host(), Absent(f"triton is not installed for {PYTHON}")),
        (
            python_host(files=back_ends("mtgpu")),
            Absent(f"{AT} has no __init__.py, so it is no triton"),
        ),
        (
            python_host(files=MODULE, folders={f"{AT}/backends": Failure(NOT_ALLOWED, "closed")}),
            Unknown("closed"),
        ),
        (
            python_host(folders={SITE: Failure(NOT_ALLOWED, "closed")}),
            Unknown("closed"),
        ),
        (host(), Absent("/usr/bin/python3 (runs musadoctor) does not work: no /usr/bin/python3")),
    ],
)
def test_no_triton_to_speak_of(system: Recorder, expected: object) -> None:
    assert triton(system) == expected


def test_a_triton_whose_metadata_cannot_be_read() -> None:
    closed = Failure(NOT_ALLOWED, "closed")
    system = python_host(files=MODULE, folders={"/closed": closed}, search_path=(SITE, "/closed"))
    assert triton(system) == Triton(None, AT, ())
