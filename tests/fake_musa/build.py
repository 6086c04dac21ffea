"""Build the stand-in ``musa`` device for the torch of an interpreter, once.

``python build.py PYTHON`` prints the folder to put on PYTHONPATH.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ASK = """
import importlib.util, json, os, runpy
folder = os.path.dirname(importlib.util.find_spec("torch").origin)
version = runpy.run_path(os.path.join(folder, "version.py"))["__version__"]
print(json.dumps([folder, version]))
"""
METADATA = """\
Metadata-Version: 2.1
Name: torch_musa
Version: {version}+musa5.2.0
Requires-Dist: packaging
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: bdist_wheel
Root-Is-Purelib: false
Tag: cp311-cp311-linux_x86_64
"""
ENTRY_POINTS = """\
[torch.backends]
torch_musa = torch_musa:_autoload
"""


def build(python: str) -> Path:
    """The folder of the stand-in for this interpreter's torch, taken from the cache if it is there.

    Takes about a minute where it is not. Needs g++.
    """
    asked = subprocess.run([python, "-c", ASK], check=True, capture_output=True, text=True)
    torch, version = json.loads(asked.stdout)
    sources = [path for path in sorted(HERE.rglob("*")) if path.suffix in {".cpp", ".h", ".py"}]
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    cache = os.environ.get("MUSADOCTOR_TEST_CACHE", "~/.cache/musadoctor-tests")
    built = Path(cache).expanduser() / f"fake_musa-{version}-{digest}"
    if built.is_dir():
        return built

    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as temporary:
        site = Path(temporary) / "site"
        shutil.copytree(HERE / "site", site, ignore=shutil.ignore_patterns("__pycache__"))
        (site / "torch_musa" / "lib").mkdir()
        _compile(Path(torch), site / "torch_musa" / "lib" / "libmusa_python.so")
        metadata = site / f"torch_musa-{version.partition('+')[0]}+musa5.2.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(METADATA.format(version=version.partition("+")[0]))
        (metadata / "WHEEL").write_text(WHEEL)
        (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
        try:
            site.rename(built)
        except OSError:
            if not built.is_dir():  # else another process was faster
                raise
    return built


def _compile(torch: Path, library: Path) -> None:
    includes = [f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include"]
    subprocess.run(
        [
            *("g++", "-std=c++20", "-O0", "-g0", "-fPIC", "-shared", "-w"),
            *includes,
            *("-D_GLIBCXX_USE_CXX11_ABI=1", str(HERE / "device.cpp"), "-o", str(library)),
            *(f"-L{torch}/lib", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"),
        ],
        check=True,
    )


if __name__ == "__main__":
    print(build(sys.argv[1]))  # noqa: T201 - it is the answer
