"""Typed knowledge about a host, one module a layer.

A fact is its record, :class:`Absent` or :class:`Unknown`. Every record's ``str()`` is one line of
evidence. Records are named tuples: fifty frozen dataclasses cost 70 ms of start-up, these 12.
"""

from musadoctor.facts.accepted import Accepted, Curve
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
from musadoctor.facts.machine import Container, ContainerRuntime, InjectedFile, Machine
from musadoctor.facts.messages import MessageLine, Messages
from musadoctor.facts.network import Rdma, RdmaDevice, RdmaPort
from musadoctor.facts.python import (
    Distribution,
    Distributions,
    Python,
    TorchBuild,
    TorchMusaBuild,
    Triton,
)
from musadoctor.facts.requirements import (
    Entry,
    Replacement,
    Requirements,
    RequirementsFile,
    Resolution,
    Stack,
    Unresolved,
)
from musadoctor.facts.steps import Rate, Step, Steps
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
from musadoctor.facts.topology import CardPair, Topology
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
    "Accepted",
    "CardPair",
    "ChildFailure",
    "Collectives",
    "Component",
    "ComponentLibrary",
    "Container",
    "ContainerRuntime",
    "Curve",
    "DeviceNode",
    "DeviceNodes",
    "Distribution",
    "Distributions",
    "DkmsTree",
    "DriverFolder",
    "DriverFolders",
    "Entry",
    "Environment",
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
    "Rate",
    "Rdma",
    "RdmaDevice",
    "RdmaPort",
    "Replacement",
    "Requirements",
    "RequirementsFile",
    "Resolution",
    "Route",
    "SearchEntry",
    "Stack",
    "StatedVersion",
    "Step",
    "Steps",
    "ToolAnswer",
    "Toolkit",
    "ToolkitRoutes",
    "Toolkits",
    "Topology",
    "Torch",
    "TorchBuild",
    "TorchMusa",
    "TorchMusaBuild",
    "Triton",
    "Unknown",
    "Unresolved",
    "VersionQuery",
]
