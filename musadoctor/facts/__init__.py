"""Typed knowledge about a host, one module a layer.

A fact is its record, :class:`Absent` or :class:`Unknown`. Every record's ``str()`` is one line of
evidence. Records are named tuples: fifty frozen dataclasses cost 70 ms of start-up, these 12.
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
from musadoctor.facts.machine import Container, InjectedFile, Machine
from musadoctor.facts.messages import MessageLine, Messages
from musadoctor.facts.python import (
    Distribution,
    Distributions,
    Python,
    TorchBuild,
    TorchMusaBuild,
)
from musadoctor.facts.toolkit import (
    Component,
    ComponentLibrary,
    Libraries,
    LoadableLibrary,
    Mcc,
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
    "DeviceNode",
    "DeviceNodes",
    "Distribution",
    "Distributions",
    "Environment",
    "Gmi",
    "GmiCard",
    "GmiProcess",
    "Gpu",
    "Gpus",
    "Import",
    "InjectedFile",
    "KernelDriver",
    "Libraries",
    "LoadableLibrary",
    "Machine",
    "Mcc",
    "MessageLine",
    "Messages",
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
    "Unknown",
    "VersionQuery",
]
