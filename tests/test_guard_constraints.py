"""What the vendor's builds are pinned to, where their wheels are, and how they come back."""

from collections.abc import Mapping

import pytest
from python_host import SITE, python_host
from support import file, host

from musadoctor.facts.base import Absent, Unknown
from musadoctor.guard.constraints import (
    Pin,
    Pinned,
    configured,
    file_url,
    listed,
    pinned,
    requirement,
    unlabelled,
    written,
)
from musadoctor.guard.protect import plan
from musadoctor.guard.restore import restoration
from musadoctor.guard.state import states, twice
from musadoctor.recording import Recorder
from musadoctor.system import NOT_ALLOWED, Failure

LINUX = "cp310-cp310-linux_x86_64"
WHEEL = f"torch-2.5.0-{LINUX}.whl"


def installed(
    name: str, version: str, *requires: str, tag: str = LINUX, url: str = ""
) -> dict[str, str]:
    at = f"{SITE}/{name.replace('-', '_')}-{version}.dist-info"
    header = "".join(f"Requires-Dist: {line}\n" for line in requires)
    files = {
        f"{at}/METADATA": f"Name: {name}\nVersion: {version}\n{header}\n",
        f"{at}/WHEEL": f"Tag: {tag}\n",
    }
    return files | ({f"{at}/direct_url.json": f'{{"url": "{url}"}}'} if url else {})


def pins(
    *distributions: Mapping[str, str],
    more: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Pinned:
    files = {path: text for one in distributions for path, text in one.items()} | dict(more or {})
    found = pinned(with_variables(files, variables or {}))
    assert isinstance(found, Pinned)
    return found


def with_variables(files: Mapping[str, str], variables: Mapping[str, str]) -> Recorder:
    class Answering(Recorder):
        def env(self, name: str) -> str | Failure | None:
            return variables.get(name) or super().env(name)

    return Answering(python_host(files=files))


def test_the_family_and_what_is_labelled_is_pinned() -> None:
    found = pins(
        installed("torch", "2.9.1.post1+musa5.2.0"),
        installed("torch_musa", "2.9.1.post1+musa5.2.0"),
        installed("torchaudio", "2.9.0+eaa9e4e"),
        installed("mate", "0.2.7+musa"),
        installed("deep-ep", "1.0.0"),
        installed("transformers", "5.0.0"),
        installed("numpy", "1.26.4"),
    )
    assert [str(pin) for pin in found.pins] == [
        "torch==2.9.1.post1+musa5.2.0",
        "torch-musa==2.9.1.post1+musa5.2.0",
        "torchaudio==2.9.0+eaa9e4e",
        "mate==0.2.7+musa",
    ]
    assert found.left_out == ()


NVIDIA = {f"{SITE}/triton/__init__.py": "", f"{SITE}/triton/backends/nvidia/driver.py": ""}
MTGPU = {f"{SITE}/triton/__init__.py": "", f"{SITE}/triton/backends/mtgpu/driver.py": ""}


@pytest.mark.parametrize(
    ("name", "version", "requires", "files", "why"),
    [
        ("triton", "3.5.1", (), NVIDIA, "not the vendor's: its back ends are nvidia"),
        ("triton", "3.2.0", (), MTGPU, ""),
        ("triton", "3.2.0", (), {**MTGPU, **NVIDIA}, ""),
        ("triton", "2.1.0", (), {}, ""),
        ("torchvision", "0.24.1", ("torch==2.9.1",), {}, "it goes with torch==2.9.1, not with 2.5.0"),
        ("torchvision", "0.24.1", ("torch (==2.9.1) ; a == 'b'",), {}, "it goes with torch==2.9.1, not with 2.5.0"),
        ("torchvision", "0.20.0", ("torch==2.5.0", "numpy==9", "torchada==1"), {}, ""),
        ("torchvision", "0.20.0", ("torch==2.5.0.*.*",), {}, ""),
        ("torchaudio", "2.9.1+musa5.2.0", ("torch==2.9.1",), {}, ""),
    ],
)  # fmt: skip
def test_what_is_not_the_vendors_is_left_out(
    name: str, version: str, requires: tuple[str, ...], files: dict[str, str], why: str
) -> None:
    found = pins(installed("torch", "2.5.0"), installed(name, version, *requires), more=files)
    assert found.left_out == ((f"{name} {version}: {why}",) if why else ())
    assert (name in [pin.name for pin in found.pins]) == (not why)


def test_twins_alone_are_pinned() -> None:
    assert pins(installed("torchvision", "0.20.0", "torch==9")).left_out == ()


@pytest.mark.parametrize(
    ("url", "files", "variables", "expected"),
    [
        (f"file:///my%20wheels/{WHEEL}", {f"/my wheels/{WHEEL}": ""}, {}, Pin("torch", "2.5.0", f"/my wheels/{WHEEL}", by_file=True)),
        (f"file:///gone/{WHEEL}", {}, {}, Pin("torch", "2.5.0")),
        ("file:///w/torch-2.6.0-cp310-cp310-linux_x86_64.whl", {"/w/torch-2.6.0-cp310-cp310-linux_x86_64.whl": ""}, {}, Pin("torch", "2.5.0")),
        (f"https://example.invalid/{WHEEL}", {}, {}, Pin("torch", "2.5.0", url=f"https://example.invalid/{WHEEL}")),
        ("ftp://example.invalid/a", {}, {}, Pin("torch", "2.5.0")),
        ("", {f"/w/{WHEEL}": "", "/w/torch-2.5.0-cp310-cp310-manylinux_2_28_x86_64.whl": "", "/w/torch-2.5.0.txt": "", "/w/torch.whl": ""},
         {"PIP_FIND_LINKS": "/gone file:///w https://example.invalid/w"}, Pin("torch", "2.5.0", f"/w/{WHEEL}")),
        ("", {"/w/torch.whl": "", "/w/a": ""}, {"PIP_FIND_LINKS": "/w"}, Pin("torch", "2.5.0")),
        ("", {f"/w/{WHEEL}": ""}, {"UV_FIND_LINKS": "w,/w/"}, Pin("torch", "2.5.0", f"/w/{WHEEL}")),
        ("", {"/w/torch-2.5.0-1-cp310.cp311-cp310-linux_x86_64.whl": ""}, {"PIP_FIND_LINKS": "/w"}, Pin("torch", "2.5.0", "/w/torch-2.5.0-1-cp310.cp311-cp310-linux_x86_64.whl")),
    ],
)  # fmt: skip
def test_where_the_wheel_is(
    url: str, files: dict[str, str], variables: dict[str, str], expected: Pin
) -> None:
    files = {**files, **installed("torch", "2.5.0", url=url)}
    system = with_variables(files, variables)
    stats = host(files=files, stats={path: file(real=path) for path in files})
    system.stat = stats.stat  # type: ignore[method-assign]
    found = pinned(system)
    assert isinstance(found, Pinned)
    assert found.pins == (expected,)


def test_a_wheel_beside_another_is_found() -> None:
    audio = "torchaudio-2.5.0+56bc006-cp310-cp310-linux_x86_64.whl"
    found = pins(
        installed("torch", "2.5.0"),
        installed("torchaudio", "2.5.0+56bc006", url=f"file:///w/{audio.replace('+', '%2B')}"),
        more={f"/w/{WHEEL}": "", f"/w/{audio}": ""},
    )
    assert [pin.file for pin in found.pins] == [f"/w/{WHEEL}", f"/w/{audio}"]


def test_what_is_not_known_is_told() -> None:
    assert isinstance(pinned(host()), Absent)
    closed = Failure(NOT_ALLOWED, f"{SITE}: Permission denied")
    hidden = python_host(folders={SITE: closed})
    assert isinstance(pinned(hidden), Unknown)
    assert isinstance(plan(hidden), Unknown)
    assert isinstance(plan(host()), (Absent, Unknown))
    bare = {f"{SITE}/torch/version.py": "musa = '5'\n__version__ = '2.9.1'\n"}
    bare[f"{SITE}/torch/__init__.py"] = ""
    unnamed = python_host(files=bare, folders={"/x": closed}, search_path=(SITE, "/x"))
    assert isinstance(plan(unnamed), Unknown)


BY_FILE = Pin("torch", "2.5.0", "/my wheels/a+b.whl", by_file=True)
AT_HAND = BY_FILE._replace(by_file=False)
URL = "torch @ file:///my%20wheels/a%2Bb.whl"


@pytest.mark.parametrize(
    ("pin", "form", "expected"),
    [
        (BY_FILE, "files", URL),
        (BY_FILE, "installed", URL),
        (BY_FILE, "versions", "torch==2.5.0"),
        (AT_HAND, "files", URL),
        (AT_HAND, "installed", "torch==2.5.0"),
        (Pin("torch", "2.5.0"), "files", "torch==2.5.0"),
    ],
)
def test_a_constraint(pin: Pin, form: str, expected: str) -> None:
    assert requirement(pin, form) == expected  # type: ignore[arg-type]


def test_texts() -> None:
    assert unlabelled(Pin("torch", "2.5.0"))
    assert not unlabelled(Pin("torch", "2.5.0+musa1"))
    assert (listed("/a/b"), listed("/a b/c")) == ("/a/b", "file:///a%20b/c")
    assert file_url("/a#b?c") == "file:///a%23b%3Fc"
    assert written(["a==1", "b==2"], "/opt/venv").splitlines()[1:] == ["a==1", "b==2"]


GLOBAL, INSTALL = "[global]\nconstraint = /g\n", "[install]\nconstraint = /i /j\n"
HOME = "/home/u"


@pytest.mark.parametrize(
    ("files", "variables", "expected"),
    [
        ({}, {}, ()),
        ({"/etc/pip.conf": GLOBAL}, {}, ("/g",)),
        ({"/etc/xdg/pip/pip.conf": INSTALL}, {}, ("/i", "/j")),
        ({"/a/pip/pip.conf": GLOBAL, "/b/pip/pip.conf": "[global]\nconstraint=/b"}, {"XDG_CONFIG_DIRS": "/a:/b"}, ("/g",)),
        ({"/etc/pip.conf": INSTALL, "/p/pip.conf": GLOBAL}, {}, ("/i", "/j")),
        ({"/etc/pip.conf": GLOBAL, f"{HOME}/.pip/pip.conf": "[global]\n--Constraint=/h"}, {}, ("/h",)),
        ({f"{HOME}/.config/pip/pip.conf": GLOBAL}, {}, ("/g",)),
        ({"/x/pip/pip.conf": GLOBAL}, {"XDG_CONFIG_HOME": "/x"}, ("/g",)),
        ({"/p/pip.conf": INSTALL, "/mine": "[install]\nconstraint = /m\n"}, {"PIP_CONFIG_FILE": "/mine"}, ("/m",)),
        ({f"{HOME}/.pip/pip.conf": GLOBAL, "/mine": ""}, {"PIP_CONFIG_FILE": "/mine"}, ()),
        ({f"{HOME}/.pip/pip.conf": GLOBAL}, {"PIP_CONFIG_FILE": "/gone"}, ("/g",)),
        ({"/p/pip.conf": INSTALL}, {"PIP_CONFIG_FILE": "/dev/null"}, ()),
        ({"/p/pip.conf": "constraint = a"}, {}, ()),
        ({"/p/pip.conf": "[install]\nuser = no\n[list]\nconstraint = a"}, {}, ()),
    ],
)  # fmt: skip
def test_what_pip_is_bound_to(
    files: dict[str, str], variables: dict[str, str], expected: tuple[str, ...]
) -> None:
    machine = host(
        files=files,
        stats={path: file() for path in files},
        variables={"HOME": HOME, **variables},
    )
    assert configured(machine, "/p") == expected


def test_the_environments_own_file_can_be_given() -> None:
    machine = host(files={"/p/pip.conf": GLOBAL})
    assert configured(machine, "/p", INSTALL) == ("/i", "/j")


@pytest.mark.parametrize(
    ("pins", "pip", "twice", "commands"),
    [
        (
            (Pin("torch", "2.5.0", "/my wheels/t.whl"), Pin("triton", "3.2.0", url="https://example.invalid/t.whl"), Pin("a", "1+musa")),
            True,
            (),
            (
                "/v/python -m pip install --force-reinstall --no-deps '/my wheels/t.whl' https://example.invalid/t.whl",
                "/v/python -m pip install --force-reinstall --no-deps --index-url VENDOR_INDEX a==1+musa",
            ),
        ),
        (
            (Pin("torch", "2.5.0", "/t.whl"),),
            False,
            ("torch",),
            (
                "uv pip uninstall --python /v/python torch",
                "uv pip install --python /v/python --reinstall --no-deps /t.whl",
            ),
        ),
        (
            (Pin("torch", "2.5.0"),),
            True,
            (),
            ("/v/python -m pip install --force-reinstall --no-deps --index-url VENDOR_INDEX torch==2.5.0",),
        ),
    ],
)  # fmt: skip
def test_how_it_comes_back(
    *, pins: tuple[Pin, ...], pip: bool, twice: tuple[str, ...], commands: tuple[str, ...]
) -> None:
    made = restoration(pins, "/v/python", pip=pip, twice=twice)
    assert made.commands == commands
    assert ("VENDOR_INDEX" in made.text) == any("VENDOR_INDEX" in line for line in commands)


RECORD = f"{SITE}/torch-2.5.0.dist-info/RECORD"
LINES = (
    "torch/__init__.py,sha256=a,1\ntorch/lib/libtorch.so,sha256=b,5\n"
    '"torch/lib/a.so.1",sha256=c,5\ntorch/x.py,sha256=d,5\n'
)


def digest(record: str | None, sizes: Mapping[str, int] | None = None) -> str:
    files = {f"{SITE}/torch-2.5.0.dist-info/METADATA": ""} | ({RECORD: record} if record else {})
    sizes = {"__init__.py": 1, "lib/libtorch.so": 5, "lib/a.so.1": 5, **(sizes or {})}
    stats = {f"{SITE}/torch/{path}": file(size) for path, size in sizes.items()}
    system = python_host(files=files)
    system.stat = host(stats=stats).stat  # type: ignore[method-assign]
    return states(system, ("torch", "triton"))["torch"]


@pytest.mark.parametrize(
    ("record", "sizes", "same"),
    [
        (LINES, {}, True),
        (LINES + "torch/__pycache__/x.pyc,,\ntorch-2.5.0.dist-info/RECORD,,\n../../bin/x,sha256=e,1\n", {}, True),
        ("".join(reversed(LINES.splitlines(keepends=True))), {}, True),
        (LINES.replace("=d", "=e"), {}, False),
        (LINES, {"lib/libtorch.so": 6}, False),
        (LINES, {"lib/a.so.1": 6}, False),
        (LINES, {"__init__.py": 2}, False),
        (LINES, {"x.py": 9}, True),
        (None, {}, False),
    ],
)  # fmt: skip
def test_what_of_a_distribution_is_compared(
    *, record: str | None, sizes: Mapping[str, int], same: bool
) -> None:
    assert (digest(record, sizes) == digest(LINES)) == same


def test_what_is_not_there_has_no_state() -> None:
    other = python_host(files={f"{SITE}/torch/a.py": ""})
    assert states(other, ("torch",)) == {"torch": ""}
    assert states(host(), ("torch",)) == {"torch": ""}
    two = {f"{SITE}/torch-{v}.dist-info/METADATA": "" for v in ("2.5.0", "2.9.1")}
    machine = python_host(files=two, search_path=("/gone", SITE))
    assert twice(machine, ("torch", "triton")) == ("torch",)
    assert states(machine, ("torch",)) == {"torch": "2.5.0 unread"}
