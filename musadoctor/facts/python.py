"""The examined interpreter, and what is installed for it, read without importing any of it."""

from typing import NamedTuple

from musadoctor.facts.base import Absent, Unknown
from musadoctor.versions import ToolkitVersion, WheelVersion


class Python(NamedTuple):
    """The interpreter that is examined."""

    path: str
    chosen_by: str
    """``--python``, ``VIRTUAL_ENV``, ``CONDA_PREFIX``, ``python3 on PATH`` or ``runs musadoctor``;
    after it, in parentheses, the variables that name an environment without an interpreter."""
    version: str
    """``3.10.12``."""
    tag: str
    """``cp310``."""
    prefix: str
    search_path: tuple[str, ...]
    """``sys.path`` without the working directory."""

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor."""
        major, minor, *_ = self.version.split(".")
        return int(major), int(minor)

    def __str__(self) -> str:
        return f"Python {self.version} ({self.path}, {self.chosen_by})"


class Distribution(NamedTuple):
    """One installed distribution."""

    name: str
    """Normalised: ``torch-musa``."""
    version: WheelVersion
    location: str
    """The folder that holds its ``.dist-info``."""
    tags: tuple[str, ...]
    """``Tag`` lines of WHEEL: ``cp310-cp310-linux_x86_64``."""
    requires: tuple[str, ...]
    """``Requires-Dist`` lines."""
    direct_url: str | None
    """The address that it was installed from, without credentials."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Distributions(NamedTuple):
    """The distributions that matter to MUSA, of the examined interpreter."""

    items: tuple[Distribution, ...]
    source: str

    def get(self, name: str) -> Distribution | None:
        """A distribution by its normalised name."""
        return next((item for item in self.items if item.name == name), None)

    def __str__(self) -> str:
        return ", ".join(str(item) for item in self.items) or "none of the known packages"


class TorchBuild(NamedTuple):
    """torch as its files describe it."""

    version: WheelVersion
    """``torch/version.py``'s, else the distribution's."""
    flavour: str
    """``MUSA``, ``CUDA``, ``ROCm``, ``CPU`` or ``unknown``."""
    evidence: tuple[str, ...]
    """What told the flavour."""
    path: str
    """The package's folder; empty where there is only its metadata."""
    distribution: Distribution | None

    def __str__(self) -> str:
        return f"torch {self.version}, {self.flavour} build ({'; '.join(self.evidence)})"


class TorchMusaBuild(NamedTuple):
    """torch_musa as its files describe it."""

    version: WheelVersion
    path: str
    built_for: ToolkitVersion | None
    """The Toolkit that the local version label names."""
    runtime_major: int | None
    """The ``N`` of the ``libmusart.so.N`` that its libraries need."""
    needs: tuple[str, ...]
    """The sonames that its libraries need, MUSA's and others, without those it ships."""
    autoloads: bool
    """Whether ``import torch`` imports it, by a ``torch.backends`` entry point."""
    source: str

    def __str__(self) -> str:
        toolkit = f", for Toolkit {self.built_for}" if self.built_for else ""
        return f"torch_musa {self.version}{toolkit} ({self.source})"


class Triton(NamedTuple):
    """The installed package triton, whose name and number do not tell whose it is."""

    version: WheelVersion | None
    """By its metadata."""
    path: str
    backends: tuple[str, ...]
    """The folders in ``triton/backends``: ``mtgpu`` in the vendor's, ``amd`` and ``nvidia`` in the
    stock one. Empty where there is no such folder, as before Triton 3."""

    def __str__(self) -> str:
        back_ends = ", ".join(self.backends) or "none"
        return f"triton {self.version or 'of unknown version'}, back ends: {back_ends}"


PythonFact = Python | Absent | Unknown
DistributionsFact = Distributions | Absent | Unknown
TorchBuildFact = TorchBuild | Absent | Unknown
TorchMusaBuildFact = TorchMusaBuild | Absent | Unknown
TritonFact = Triton | Absent | Unknown
