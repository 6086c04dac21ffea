"""What torch and torch_musa did when they were imported and used, in a child of their own."""

from typing import NamedTuple

from musadoctor.facts.base import Absent, Unknown


class ChildFailure(NamedTuple):
    """How one step of the torch child failed."""

    step: str
    """``import torch``, ``import torch_musa``, ``device 0: add``."""
    kind: str
    """``exception``, ``hang``, ``signal``, ``exit`` (left without a word), ``memory`` (killed from
    outside) or ``flooded`` (too much output)."""
    message: str
    """One line: the innermost exception, the signal's name, the exit code."""
    chain: tuple[str, ...] = ()
    """The exceptions from the outermost to the innermost, ``ImportError: ...`` each."""

    def __str__(self) -> str:
        return f"{self.step}: {self.message}"


class Import(NamedTuple):
    """An import that was tried."""

    module: str
    failure: ChildFailure | None
    """``None`` where it worked."""
    seconds: float | None
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.failure is not None:
            return f"import {self.module}: {self.failure.message}"
        return f"import {self.module} works" + (f", {self.seconds:.1f} s" if self.seconds else "")


class Torch(NamedTuple):
    """torch, imported with device autoload off."""

    version: str
    cuda: str | None
    """``torch.version.cuda``."""
    file: str

    def __str__(self) -> str:
        return f"torch {self.version} imported from {self.file}"


class Probe(NamedTuple):
    """One small computation on one device."""

    done: bool
    failure: ChildFailure | None
    """Why not: ``None`` when done, or when it was not tried."""


class MusaDevice(NamedTuple):
    """One visible device as torch sees it."""

    ordinal: int
    name: str | None
    capability: tuple[int, int] | None
    memory_bytes: int | None
    add: Probe
    """A small float32 addition, checked."""
    bf16_add: Probe
    """The same in bfloat16."""


class TorchMusa(NamedTuple):
    """torch_musa, imported, and what it says of its devices."""

    version: str | None
    """``torch_musa.__version__``."""
    toolkit: str | None
    """``torch.version.musa``: text whose form differs between releases, never to be compared."""
    available: bool | None
    """``torch.musa.is_available()``; ``None`` where it did not answer."""
    warnings: tuple[str, ...]
    """What ``is_available()`` warned of: the only place where the reason for False is said."""
    device_count: int | None
    devices: tuple[MusaDevice, ...]
    bf16_supported: bool | None
    """``torch.musa.is_bf16_supported()``; ``None`` where this release has no such function."""
    architectures: tuple[str, ...]
    """``get_arch_list()``; empty where this release has no such function."""
    mudnn: str | None
    mapped: tuple[str, ...]
    """The MUSA library files that were really mapped."""
    failures: tuple[ChildFailure, ...]
    """Steps after the import that failed, other than the additions."""

    def __str__(self) -> str:
        names = dict.fromkeys(d.name for d in self.devices if d.name)
        cards = f" ({', '.join(names)})" if names else ""
        states = {True: "available", False: "not available", None: "not known to be available"}
        state = states[self.available]
        return f"torch.musa is {state}, {self.device_count} devices{cards}"


class Collectives(NamedTuple):
    """The ``mccl`` backend of torch.distributed."""

    available: bool
    version: str | None
    """``torch.musa.mccl.version()``, dotted."""
    reason: str | None = None
    """Why not."""

    def __str__(self) -> str:
        if not self.available:
            return f"mccl is not available ({self.reason or 'no reason given'})"
        return f"mccl {self.version or ''} is available".replace("  ", " ")


TorchImportFact = Import | Absent | Unknown
TorchFact = Torch | Absent | Unknown
TorchMusaFact = TorchMusa | Absent | Unknown
CollectivesFact = Collectives | Absent | Unknown
