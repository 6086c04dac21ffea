"""The vendor's stack that must stay: this host's, a recorded one's, or an assumed one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.hardware import Gpus
from musadoctor.facts.python import Distributions, Python, TorchBuild, TorchMusaBuild
from musadoctor.facts.requirements import Stack, StackFact
from musadoctor.facts.toolkit import Toolkits

if TYPE_CHECKING:
    from musadoctor.system import System

NEWEST = "2.9.1.post1+musa5.2.0"
"""The vendor's torch that ``--assume musa`` stands for: the newest that is publicly documented."""
ASSUMED_PYTHON = "3.10"
"""What the vendor publishes most wheels for."""
TWINS = {"2.2": "0.17", "2.5": "0.20", "2.7": "0.22", "2.9": "0.24", "2.11": "0.26"}
"""The torchvision that goes with a torch, as upstream releases them."""
PUBLISHED = {
    "2.2.0a0+git8ac9b20": {
        "torchvision": "0.17.2+c1d70fe",
        "torchaudio": "2.2.2+cefdb36",
        "torch-musa": "1.3.0",
    },
    "2.5.0": {
        "torchvision": "0.20.0+afc54f7",
        "torchaudio": "2.5.0+56bc006",
        "torch-musa": "2.5.0",
        "triton": "3.2.0",
    },
    NEWEST: {
        "torchvision": "0.24.1.post1+musa5.2.0",
        "torchaudio": "2.9.1+musa5.2.0",
        "torch-musa": NEWEST,
        "triton": "3.2.0",
    },
}
"""What is installed beside a torch, where the vendor's files or an installed set tell it."""


class AssumptionError(ValueError):
    """``--assume`` names nothing that can be assumed."""


def stack_of(system: "System") -> StackFact:
    """The vendor's builds in the examined environment.

    ``Absent`` where nothing of Moore Threads is there, so that nothing needs protection.
    """
    from musadoctor.probes.distributions import (  # noqa: PLC0415 - an assumed host is not asked
        distributions,
        torch_build,
        torch_musa_build,
    )
    from musadoctor.probes.python import python  # noqa: PLC0415
    from musadoctor.system import Failure  # noqa: PLC0415

    interpreter = python(system)
    build = torch_build(system)
    musa = torch_musa_build(system)
    found = distributions(system)
    if not isinstance(interpreter, Python):
        missing = _nothing_to_protect(system)
        return missing or Unknown(str(interpreter))
    versions = (
        {item.name: str(item.version) for item in found.items}
        if isinstance(found, Distributions)
        else {}
    )
    if isinstance(build, TorchBuild):
        versions["torch"] = str(build.version)
    if isinstance(musa, TorchMusaBuild):
        versions["torch-musa"] = str(musa.version)
    vendor = isinstance(build, TorchBuild) and (
        build.flavour == "MUSA" or (build.flavour == "unknown" and "torch-musa" in versions)
    )
    if not vendor and "torch-musa" not in versions:
        if isinstance(build, Unknown):
            return build
        if missing := _nothing_to_protect(system):
            return missing
    platform = system.platform()
    machine = "x86_64" if isinstance(platform, Failure) else platform.architecture
    return Stack(versions, vendor, markers(interpreter.version, machine), str(interpreter.path))


def assumed(text: str) -> Stack:
    """The stack of ``--assume``: ``musa``, ``musa=VERSION`` (of torch), or ``new``.

    Raises:
        AssumptionError: it is none of these.
    """
    known = markers(f"{ASSUMED_PYTHON}.0", "x86_64")
    if text == "new":
        return Stack({}, vendor=False, markers=known, source="a new environment")
    name, given, version = text.partition("=")
    version = version if given else NEWEST
    if name != "musa" or not version[:1].isdigit():
        raise AssumptionError(
            f"--assume {text}: expected musa, musa=VERSION with the version of the vendor's torch,"
            " or new"
        )
    if version in PUBLISHED:
        versions = {"torch": version, **PUBLISHED[version]}
        return Stack(versions, vendor=True, markers=known, source=f"--assume {text}")
    minor = ".".join(version.split(".")[:2])
    label = version.partition("+")[2]
    versions = {"torch": version, "torchaudio": version, "torch-musa": version, "triton": "3.2.0"}
    if minor in TWINS:
        patch = version.partition("+")[0].removeprefix(minor)
        versions["torchvision"] = f"{TWINS[minor]}{patch}" + (f"+{label}" if label else "")
    return Stack(versions, vendor=True, markers=known, source=f"--assume {text}")


def markers(version: str, machine: str) -> Mapping[str, str]:
    """The environment of PEP 508 markers on Linux for a release of CPython, ``3.10.12``."""
    return {
        "implementation_name": "cpython",
        "implementation_version": version,
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": version,
        "python_version": ".".join(version.split(".")[:2]),
        "sys_platform": "linux",
        "extra": "",
    }


def _nothing_to_protect(system: "System") -> Absent | None:
    """Why nothing needs protection; ``None`` where something of Moore Threads is there."""
    from musadoctor.probes.pci import gpus  # noqa: PLC0415 - an assumed host is not asked
    from musadoctor.probes.toolkit import toolkits  # noqa: PLC0415

    cards = gpus(system)
    trees = toolkits(system)
    if isinstance(cards, Gpus) or isinstance(trees, Toolkits):
        return None
    if isinstance(cards, Unknown) and isinstance(trees, Unknown):
        return None
    return Absent(f"nothing of Moore Threads is here: {cards}; {trees}")
