"""Typed knowledge about a host, one module a layer.

A fact is its record, :class:`Absent` or :class:`Unknown`. Every record's ``str()`` is one line of
evidence. Records are named tuples: fifty frozen dataclasses cost 70 ms of start-up, these 12. Those
of ``later`` are not imported here: a report on a host starts 5 ms sooner without them.
"""

from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.driver import (
    DeviceNode,
    DeviceNodes,
    Gmi,
    GmiCard,
    GmiProcess,
    KernelDriver,
    MusaInfo,
    MusaInfoDevice,
    StatedVersion,
    ToolAnswer,
)
from musadoctor.facts.environment import Environment, SearchEntry
from musadoctor.facts.hardware import Gpu, Gpus, PcieLink
from musadoctor.facts.kernel import DkmsTree, KernelLog, KernelMessage, ModuleFile
from musadoctor.facts.machine import Container, ContainerRuntime, Firmware, InjectedFile, Machine
from musadoctor.facts.messages import MessageLine, Messages
from musadoctor.facts.python import (
    Distribution,
    Distributions,
    Python,
    TorchBuild,
    TorchMusaBuild,
    Triton,
)
from musadoctor.facts.toolkit import (
    Component,
    ComponentLibrary,
    DriverFolder,
    DriverFolders,
    HiddenLibrary,
    Libraries,
    LoadableLibrary,
    Mcc,
    MissingLibrary,
    Route,
    Toolkit,
    ToolkitRoutes,
    Toolkits,
    VersionQuery,
)
from musadoctor.facts.torch import (
    ChildFailure,
    Collectives,
    Import,
    MusaDevice,
    Probe,
    Torch,
    TorchMusa,
)

__all__ = [
    "Absent",
    "ChildFailure",
    "Collectives",
    "Component",
    "ComponentLibrary",
    "Container",
    "ContainerRuntime",
    "DeviceNode",
    "DeviceNodes",
    "Distribution",
    "Distributions",
    "DkmsTree",
    "DriverFolder",
    "DriverFolders",
    "Environment",
    "Firmware",
    "Gmi",
    "GmiCard",
    "GmiProcess",
    "Gpu",
    "Gpus",
    "HiddenLibrary",
    "Import",
    "InjectedFile",
    "KernelDriver",
    "KernelLog",
    "KernelMessage",
    "Libraries",
    "LoadableLibrary",
    "Machine",
    "Mcc",
    "MessageLine",
    "Messages",
    "MissingLibrary",
    "ModuleFile",
    "MusaDevice",
    "MusaInfo",
    "MusaInfoDevice",
    "PcieLink",
    "Probe",
    "Python",
    "Route",
    "SearchEntry",
    "StatedVersion",
    "ToolAnswer",
    "Toolkit",
    "ToolkitRoutes",
    "Toolkits",
    "Torch",
    "TorchBuild",
    "TorchMusa",
    "TorchMusaBuild",
    "Triton",
    "Unknown",
    "VersionQuery",
]
