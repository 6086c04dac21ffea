"""A package index on this machine, with stand-ins of the vendor's wheels and of the stock ones.

Names, versions and requirements are the real ones; of the content there is what tells a build.
"""

import base64
import functools
import hashlib
import http.server
import os
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

MACHINE = os.uname().machine
VENDORS_TAG = f"py3-none-linux_{MACHINE}"
STOCK_TAG = f"py3-none-manylinux_2_17_{MACHINE}"
ANY = "py3-none-any"


class Wheel(NamedTuple):
    """A tiny wheel."""

    name: str
    version: str
    requires: tuple[str, ...] = ()
    files: Mapping[str, str] = {}
    tag: str = ANY


def _version_py(version: str, **marks: str) -> str:
    lines = [f"__version__ = {version!r}", "debug = False"]
    marks = {"cuda": "", "hip": "", **marks}
    lines += [f"{name}: Optional[str] = {value or None!r}" for name, value in marks.items()]
    return "from typing import Optional\n" + "\n".join(lines) + "\n"


def _vendors_torch(version: str, **marks: str) -> Wheel:
    files = {"torch/version.py": _version_py(version, **marks), "torch/lib/libtorch.so": "vendor"}
    return Wheel("torch", version, ("filelock",), files, VENDORS_TAG)


def _vendors(name: str, version: str, **files: str) -> Wheel:
    package = name.replace("-", "_")
    content = {f"{package}/version.py": _version_py(version)}
    content |= {f"{package}/{path}": text for path, text in files.items()}
    return Wheel(name, version, (), content, VENDORS_TAG)


def _stock_torch(version: str, triton: str, *nvidia: str) -> Wheel:
    files = {
        "torch/version.py": _version_py(version, cuda="12.8"),
        "torch/lib/libtorch.so": "stock",
        "torch/lib/libtorch_cuda.so": "stock",
    }
    return Wheel("torch", version, ("filelock", f"triton=={triton}", *nvidia), files, STOCK_TAG)


_MTGPU = {"backends/mtgpu/driver.py": ""}
VENDORS: dict[str, tuple[Wheel, ...]] = {
    # Of the newest generation, whose version tells all.
    "tagged": (
        _vendors_torch("2.9.1.post1+musa5.2.0", musa="5.2.0"),
        _vendors("torch-musa", "2.9.1.post1+musa5.2.0"),
        _vendors("torchvision", "0.24.1.post1+musa5.2.0"),
        _vendors("torchaudio", "2.9.1+musa5.2.0"),
        _vendors("triton", "3.2.0", **_MTGPU),
    ),
    # Of an older one, which bears the numbers of upstream's own wheels.
    "plain": (
        _vendors_torch("2.5.0"),
        _vendors("torch-musa", "2.5.0"),
        _vendors("torchvision", "0.20.0+afc54f7"),
        _vendors("torchaudio", "2.5.0+56bc006"),
        _vendors("triton", "3.2.0", **_MTGPU),
    ),
}
"""The vendor's stack by generation."""

_NVIDIA_12 = ("nvidia-cublas-cu12", "nvidia-cuda-runtime-cu12")
_NVIDIA_13 = ("nvidia-cublas", "nvidia-cuda-runtime")


def _stock(name: str, version: str, *requires: str) -> Wheel:
    files = {f"{name.replace('-', '_')}/version.py": _version_py(version)}
    return Wheel(name, version, requires, files)


STOCK: tuple[Wheel, ...] = (
    _stock_torch("2.5.0", "3.1.0", *_NVIDIA_12),
    _stock_torch("2.9.1", "3.5.1", *_NVIDIA_12),
    _stock_torch("2.14.0", "3.8.0", *_NVIDIA_13),
    *(_stock("triton", version) for version in ("3.1.0", "3.2.0", "3.5.1", "3.8.0")),
    *(_stock(name, "12.8.90") for name in _NVIDIA_12),
    *(_stock(name, "13.0.88") for name in _NVIDIA_13),
    _stock("torchvision", "0.20.0", "torch==2.5.0"),
    _stock("torchvision", "0.24.1", "torch==2.9.1"),
    _stock("torchaudio", "2.5.0", "torch==2.5.0"),
    _stock("torchaudio", "2.9.1", "torch==2.9.1"),
    _stock("accelerate", "1.0.0", "torch>=2.0", "filelock"),
    _stock("accelerate", "1.1.0", "torch>=2.0", "filelock"),
    _stock("peft", "0.18.0", "accelerate>=0.21", "torch>=1.13"),
    _stock("timm", "1.0.0", "torch", "torchvision"),
    _stock("vllm", "0.12.0", "torch==2.9.1", "torchvision==0.24.1", "torchaudio==2.9.1"),
    # No table knows these, so that what they lead to must be stopped by something else.
    _stock("capped-by-somebody", "1.0", "torch<2.6"),
    _stock("new-by-somebody", "1.0", "torch>=2.10"),
    _stock("filelock", "3.20.0"),
)
"""What the index serves."""


def write_wheel(folder: Path, wheel: Wheel) -> Path:
    """Build a wheel; its file."""
    package = wheel.name.replace("-", "_")
    metadata = f"{package}-{wheel.version}.dist-info"
    requires = "".join(f"Requires-Dist: {line}\n" for line in wheel.requires)
    files = {
        f"{package}/__init__.py": "",
        **wheel.files,
        f"{metadata}/METADATA": (
            f"Metadata-Version: 2.1\nName: {wheel.name}\nVersion: {wheel.version}\n{requires}"
        ),
        f"{metadata}/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: stand-in\nRoot-Is-Purelib: true\nTag: {wheel.tag}\n"
        ),
    }
    record = "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in files.items())
    files[f"{metadata}/RECORD"] = f"{record}{metadata}/RECORD,,\n"
    target = folder / f"{package}-{wheel.version}-{wheel.tag}.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return target


def _digest(text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"sha256={digest.decode().rstrip('=')}"


def write_index(folder: Path, wheels: tuple[Wheel, ...] = STOCK) -> None:
    """Lay a simple index (PEP 503) down in ``folder/simple``."""
    files = folder / "files"
    files.mkdir(parents=True)
    links: dict[str, list[str]] = {}
    for wheel in wheels:
        path = write_wheel(files, wheel)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        link = f'<a href="../../files/{path.name}#sha256={digest}">{path.name}</a><br>\n'
        links.setdefault(wheel.name, []).append(link)
    for name, lines in links.items():
        page = folder / "simple" / name
        page.mkdir(parents=True)
        (page / "index.html").write_text(
            f"<!DOCTYPE html><html><body>{''.join(lines)}</body></html>"
        )


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve an index; the address of its simple pages."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/simple/"
        server.shutdown()
