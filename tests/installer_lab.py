"""Real installers, an index on this machine, and environments that have the vendor's stack."""

import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from wheel_index import VENDORS, Wheel, write_wheel

from musadoctor.facts.python import TorchBuild
from musadoctor.guard.state import states
from musadoctor.live import Live
from musadoctor.probes.distributions import torch_build
from musadoctor.recording import Recorder
from musadoctor.system import System

OLDEST_PIP = "22.0.2" if sys.version_info < (3, 12) else "23.2.1"
"""What Ubuntu 22.04 has; where Python is newer, the first that knows it."""
STACK = ("torch", "torch-musa", "torchvision", "torchaudio", "triton")
OURS = ("PIP_", "UV_", "VIRTUAL_ENV", "CONDA", "POETRY", "PDM", "PIPENV", "XDG_", "PYTHON")


class Lab(NamedTuple):
    """What the tests of installers share, made once a session."""

    root: Path
    url: str
    """The address of the index."""
    tools: Path
    """The folder of uv and poetry."""
    pips: Mapping[str, Path]
    """By version: a folder that holds this pip."""

    def wheels(self, generation: str) -> Path:
        """The folder with the vendor's wheels."""
        return self.root / "vendor" / generation

    def variables(self, home: Path) -> dict[str, str]:
        """Of a process that knows this index and nothing of the machine's settings."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        return {
            **kept,
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "HOME": str(home),
            "XDG_CONFIG_DIRS": str(home / "none"),
            "PIP_INDEX_URL": self.url,
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_CACHE_DIR": "1",
            "UV_DEFAULT_INDEX": self.url,
            "UV_CACHE_DIR": str(self.root / "cache"),
            "UV_PYTHON_DOWNLOADS": "never",
            "POETRY_CACHE_DIR": str(home / "poetry-cache"),
            "POETRY_CONFIG_DIR": str(home / "poetry"),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        }

    def environment(self, target: Path, generation: str, pip: str) -> Path:
        """A virtual environment with the vendor's stack, a copy of one made before, and this pip."""
        made = self.root / "environments" / generation
        if not made.exists():
            uv = str(self.tools / "uv")
            wheels = sorted(map(str, self.wheels(generation).iterdir()))
            variables = self.variables(self.root)
            for command in (
                [uv, "venv", "-q", "-p", sys.executable, str(made)],
                [uv, "pip", "install", "-q", "-p", str(made), *wheels],
            ):
                subprocess.run(command, env=variables, check=True)
        shutil.copytree(made, target, symlinks=True)
        (site,) = target.glob("lib/python3*/site-packages")
        for package in self.pips[pip].glob("pip*"):
            (site / package.name).symlink_to(package)
        return target / "bin" / "python"


def unpacked(target: Path, generation: str, *more: Wheel) -> Path:
    """An environment with the vendor's stack, made without any installer; its interpreter."""
    site = target / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    (target / "bin").mkdir()
    base = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    (target / "bin" / "python").symlink_to(base)
    (target / "pyvenv.cfg").write_text(f"home = {os.path.dirname(base)}\n")
    for wheel in (*VENDORS.get(generation, ()), *more):
        with zipfile.ZipFile(write_wheel(target, wheel)) as archive:
            archive.extractall(site)
    return target / "bin" / "python"


def own_prefix(target: Path, generation: str) -> Path:
    """The same in an interpreter of its own, no virtual environment: as conda has it."""
    python = unpacked(target, generation)
    base = python.resolve()
    (target / "pyvenv.cfg").unlink()
    python.unlink()
    shutil.copy(base, python)
    (library,) = (target / "lib").iterdir()
    for entry in Path(os.__file__).parent.iterdir():
        if entry.name not in {"site-packages", "EXTERNALLY-MANAGED"}:
            (library / entry.name).symlink_to(entry)
    return python


def make_lab(root: Path, url: str) -> Lab:
    """Fetch the installers from wherever this machine has its packages.

    Raises:
        OSError: there is no way to them.
    """
    for generation, wheels in VENDORS.items():
        folder = root / "vendor" / generation
        folder.mkdir(parents=True)
        for wheel in wheels:
            write_wheel(folder, wheel)
    environment = root / "tools"
    tools = environment / "bin"
    _fetch(sys.executable, "-m", "venv", str(environment))
    _fetch(str(tools / "python"), "-m", "pip", "install", "-q", "uv")
    uv = [str(tools / "uv"), "pip", "install", "-q", "--compile-bytecode", "-p", str(environment)]
    _fetch(*uv, "poetry>=2,<3")
    pips = {"oldest": f"pip=={OLDEST_PIP}", "newest": "pip"}
    folders = {name: root / "pips" / name for name in pips}
    for name, wanted in pips.items():
        _fetch(*uv, "--target", str(folders[name]), wanted)
    return Lab(root, url, tools, folders)


def _fetch(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")


def system_of(python: str | None) -> System:
    """This machine, asked anew."""
    return Recorder(Live(time.monotonic() + 60, python))


def vendors(python: Path) -> bool:
    """Whether the torch of an interpreter is the vendor's by its content."""
    return stack(python)["flavour"] == "MUSA"


def stack(python: Path) -> dict[str, str]:
    """The vendor's stack as it is, and what its torch was built for."""
    system = system_of(str(python))
    build = torch_build(system)
    flavour = build.flavour if isinstance(build, TorchBuild) else str(build)
    return {"flavour": flavour, **states(system, STACK)}
