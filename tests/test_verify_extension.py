"""The build of an extension, with stand-ins for mcc and for torch_musa's builder.

They prove how the step goes about it and what it says of failures; that mcc compiles the kernel,
only a real host can show.
"""

import subprocess
from pathlib import Path

import pytest
from given import judged, said, unknown
from given_verify import step, steps
from verify_steps import taken, value

from musadoctor.api import Absent
from musadoctor.facts.steps import Step
from musadoctor.verify.children.extension import first_error
from musadoctor_checks.verify.extension import extension_does_not_build

# "Compiles" by asking mcc whether it likes the sources, and links what a test provides.
BUILDER = """
import os, shutil, subprocess
from setuptools import Extension
from setuptools.command.build_ext import build_ext

def MUSAExtension(name, sources):
    return Extension(name, sources)

class BuildExtension(build_ext):
    def run(self):
        (extension,) = self.extensions
        arch = "-offload-arch=mp_" + os.environ["TORCH_MUSA_ARCH_LIST"]
        for source in extension.sources:
            subprocess.run(["mcc", arch, source], check=True)
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O0", "-I", os.environ["FAKE_INCLUDE"], "-x", "c", "-",
             "-o", self.get_ext_fullpath(extension.name)],
            input=os.environ["FAKE_MODULE"], text=True, check=True,
        )
"""
# What the real binding would be: `run(source, target)`.
MODULE = r"""
#include <Python.h>
static PyObject *run(PyObject *self, PyObject *args) {
  PyObject *from, *to;
  if (!PyArg_ParseTuple(args, "OO", &from, &to)) return NULL;
  PyObject *twice = PyObject_CallMethod(from, "mul", "i", FACTOR);
  return twice ? PyObject_CallMethod(to, "copy_", "O", twice) : NULL;
}
static PyMethodDef all[] = {{"run", run, METH_VARARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "musadoctor_twice", "", -1, all};
PyMODINIT_FUNC PyInit_musadoctor_twice(void) { return PyModule_Create(&module); }
"""
MCC = """#!/bin/sh
echo "$@" >> "{log}"
{body}
"""
FAILS = """
echo "twice.mu:1:10: note: in file included from here"
echo "twice.mu:1:10: fatal error: 'musa_runtime.h' file not found"
echo "1 error generated." >&2
exit 1
"""


@pytest.fixture
def host(tmp_path: Path, fake_musa: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in torch_musa with a builder, and a Toolkit's folder without mcc."""
    package = tmp_path / "site" / "torch_musa"
    package.mkdir(parents=True)
    # The stand-in's own folder with one more module in it.
    for item in (fake_musa / "torch_musa").iterdir():
        (package / item.name).symlink_to(item)
    (package / "utils").mkdir()
    (package / "utils" / "__init__.py").write_text("")
    (package / "utils" / "musa_extension.py").write_text(BUILDER)
    (tmp_path / "musa" / "bin").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("MUSA_HOME", str(tmp_path / "musa"))
    monkeypatch.setenv("FAKE_MODULE", MODULE.replace("FACTOR", "2"))
    return tmp_path


def mcc(host: Path, body: str) -> Path:
    program = host / "musa" / "bin" / "mcc"
    program.write_text(MCC.format(log=host / "log", body=body))
    program.chmod(0o755)
    return program


@pytest.mark.torch
def test_a_build(torch_python: str, host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    include(torch_python, monkeypatch)
    program = mcc(host, 'grep -q "<<<" twice.mu && grep -q PYBIND11_MODULE binding.cpp')
    found = build(torch_python)
    made = value(found)
    assert made["mcc"] == str(program)
    assert (made["architecture"], made["wrong"]) == ("mp_31", 0)
    assert said(extension_does_not_build, extension_steps=steps(found)) == ()
    # Compiled for this card, and by the program that the Toolkit has.
    log = (host / "log").read_text()
    assert "-offload-arch=mp_31 twice.mu" in log
    assert "-offload-arch=mp_31 binding.cpp" in log


@pytest.mark.torch
def test_a_kernel_that_is_wrong(
    torch_python: str, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    include(torch_python, monkeypatch)
    monkeypatch.setenv("FAKE_MODULE", MODULE.replace("FACTOR", "3"))
    program = mcc(host, "")
    assert said(extension_does_not_build, extension_steps=steps(build(torch_python))) == (
        f"musa:0: an extension built by {program} for mp_31 gives 999 of 1000 numbers wrong",
    )


@pytest.mark.torch
def test_a_build_that_fails(torch_python: str, host: Path) -> None:
    mcc(host, FAILS)
    found = build(torch_python)
    assert found.state == "failed"
    assert said(extension_does_not_build, extension_steps=steps(found)) == (
        (
            "musa:0: a small extension does not build or run: BuildError: exit code 1:"
            " twice.mu:1:10: fatal error: 'musa_runtime.h' file not found"
        ),
    )


@pytest.mark.torch
def test_what_keeps_it_from_being_tried(
    torch_python: str, host: Path, fake_musa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    no_mcc = build(torch_python)
    assert no_mcc.message == f"Skip: no mcc in {host}/musa/bin and none on PATH"
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    no_module = build(torch_python)
    assert no_module.message == ("Skip: this torch_musa has no torch_musa.utils.musa_extension")
    for found in (no_mcc, no_module):
        result = judged(extension_does_not_build, extension_steps=steps(found))
        assert (result.status, result.reason) == ("skipped", found.message[6:])


def include(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the examined interpreter's own headers are."""
    ask = "import sysconfig; print(sysconfig.get_paths()['include'])"
    asked = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    monkeypatch.setenv("FAKE_INCLUDE", asked.stdout.strip())


def build(python: str) -> Step:
    (found,) = taken(python, "musa", ("extension",), "deep").values()
    return found


def test_it_is_deep() -> None:
    absent = Absent("no step of this level")
    result = judged(extension_does_not_build, extension_steps=absent)
    assert (result.status, result.reason) == ("skipped", "an extension is built by --deep only")


def test_numbers_that_are_wrong() -> None:
    built = {"mcc": "/usr/local/musa/bin/mcc", "architecture": "mp_31", "numbers": 1000}
    given = steps(step("extension: build", **built, wrong=7))
    assert said(extension_does_not_build, extension_steps=given) == (
        (
            "musa:0: an extension built by /usr/local/musa/bin/mcc for mp_31 gives 7 of 1000 numbers"
            " wrong"
        ),
    )


def test_a_build_that_hangs_or_crashes() -> None:
    why = "no end after 270 s"
    assert said(
        extension_does_not_build,
        extension_steps=steps(
            step("extension: build", "musa:0", "hung", why),
            step("extension: build", "musa:0", "crashed", "killed by SIGSEGV"),
        ),
    ) == (
        f"musa:0: a small extension does not build or run: {why}",
        "musa:0: a small extension does not build or run: killed by SIGSEGV",
    )
    lost = steps(step("extension: build", "musa:0", "not taken", "no torch"))
    assert unknown(extension_does_not_build, extension_steps=lost) == (
        "musa:0: build not taken: no torch"
    )


@pytest.mark.parametrize(
    ("said_by_build", "line"),
    [
        ("running build_ext\nx.mu:3: error: no such thing\n1 error generated.\n", "x.mu:3: error: no such thing"),
        ("Traceback\n  File x\nOSError: MUSA_HOME environment variable is not set\n", "OSError: MUSA_HOME environment variable is not set"),
        ("a.o: undefined reference to `muX'\nld failed", "a.o: undefined reference to `muX'"),
        ("one\n\ntwo\n\n", "two"),
        ("", "without a word"),
    ],
)  # fmt: skip
def test_the_first_error(said_by_build: str, line: str) -> None:
    assert first_error(said_by_build) == line
