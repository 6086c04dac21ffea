"""Whether an extension for the device can be built: a kernel, compiled by mcc, bound and called.

The way is the one that torch_musa's own extensions go: ``MUSAExtension`` and ``BuildExtension`` of
``torch_musa.utils.musa_extension`` in a ``setup.py``, with ``.mu`` files for mcc (unconfirmed: no
real build of this one has been seen).
"""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import shutil
import subprocess  # noqa: TID251 - this runs in the examined interpreter
import sys
import tempfile
import time

from musadoctor.verify.children.base import Device, Skip, register

MODULE = "torch_musa.utils.musa_extension"
NAME = "musadoctor_twice"
SECONDS = 240.0
"""Limit of the build: torch's headers alone take a minute on a slow host."""
SETUP = f"""\
import torch
import torch_musa
from setuptools import setup
from {MODULE} import BuildExtension, MUSAExtension

setup(
    name="{NAME}",
    ext_modules=[MUSAExtension("{NAME}", ["binding.cpp", "twice.mu"])],
    cmdclass={{"build_ext": BuildExtension}},
)
"""
BINDING = """\
#include <torch/extension.h>

int twice(const float* from, float* to, int count);

void run(const torch::Tensor& from, torch::Tensor& to) {
  const int code = twice(from.data_ptr<float>(), to.data_ptr<float>(), from.numel());
  TORCH_CHECK(code == 0, "MUSA error ", code);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("run", &run); }
"""
KERNEL = """\
#include <musa_runtime.h>

__global__ void twice_kernel(const float* from, float* to, int count) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) to[at] = 2 * from[at];
}

int twice(const float* from, float* to, int count) {
  twice_kernel<<<(count + 255) / 256, 256>>>(from, to, count);
  const musaError_t launched = musaGetLastError();
  return launched != musaSuccess ? launched : musaDeviceSynchronize();
}
"""
_ERROR = re.compile(r"(^|[\s:])(fatal )?error\s*:|undefined (symbol|reference)|^\w*Error: ")


class BuildError(Exception):
    """The extension was not built."""


def build(device: Device) -> dict[str, object]:
    """Build an extension for the card's architecture, and call it."""
    if device.kind != "musa":
        raise Skip("mcc compiles for MUSA devices")
    if not has(MODULE):
        raise Skip(f"this torch_musa has no {MODULE}")
    if not has("setuptools"):
        raise Skip("setuptools, which builds extensions, is not installed")
    mcc = find_mcc()
    major, minor = device.capability or (0, 0)
    with tempfile.TemporaryDirectory(prefix="musadoctor-") as folder:
        write(folder)
        built, seconds = compile_in(folder, f"{major}{minor}", mcc)
        spec = importlib.util.spec_from_file_location(NAME, built)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        given = device.torch.arange(1000, dtype=device.torch.float32)
        source, target = given.to(device.name), device.torch.zeros(1000).to(device.name)
        device.synchronize()
        module.run(source, target)
        wrong = int((target.cpu() != given * 2).sum())
    return {
        "mcc": mcc,
        "architecture": f"mp_{major}{minor}",
        "build_seconds": seconds,
        "numbers": 1000,
        "wrong": wrong,
    }


def has(module: str) -> bool:
    """Whether a module is there to be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # of what holds it
        return False


def find_mcc() -> str:
    """The compiler, from where torch_musa's builder takes it (unconfirmed) or from PATH."""
    given = os.environ  # noqa: TID251 - this runs in the examined interpreter
    home = given.get("MUSA_HOME") or given.get("MUSA_PATH") or "/usr/local/musa"
    found = shutil.which(os.path.join(home, "bin", "mcc")) or shutil.which("mcc")
    if found is None:
        raise Skip(f"no mcc in {home}/bin and none on PATH")
    return found


def write(folder: str) -> None:
    """The sources."""
    for name, text in (("setup.py", SETUP), ("binding.cpp", BINDING), ("twice.mu", KERNEL)):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(text)


def compile_in(folder: str, architecture: str, mcc: str) -> tuple[str, float]:
    """The built module, and the seconds that it took.

    ``TORCH_MUSA_ARCH_LIST`` names the architectures to compile for, as ``21;22;31``.
    """
    begun = time.monotonic()
    given = os.environ  # noqa: TID251 - this runs in the examined interpreter
    environment = {
        **given,
        "TORCH_MUSA_ARCH_LIST": architecture,
        "PATH": os.path.dirname(mcc) + os.pathsep + given.get("PATH", os.defpath),
        "MAX_JOBS": "2",
    }
    try:
        done = subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--inplace"],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"no end of the build after {SECONDS:.0f} s") from None
    said = done.stdout.decode("utf-8", "replace")
    built = glob.glob(os.path.join(folder, f"{NAME}*.so"))
    if done.returncode != 0 or not built:
        raise BuildError(f"exit code {done.returncode}: {first_error(said)}")
    return built[0], round(time.monotonic() - begun, 1)


def first_error(said: str) -> str:
    """The line of a build's output that says what went wrong first."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    return (errors or lines[-1:] or ["without a word"])[0]


register("extension: build", build, level="deep", where="first", seconds=SECONDS + 30)
