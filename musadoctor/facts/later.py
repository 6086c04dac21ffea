"""The facts of the guard and of ``verify``, which no report on a host asks for."""

from musadoctor.facts.accepted import Accepted, Curve
from musadoctor.facts.network import Rdma, RdmaDevice, RdmaPort
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
from musadoctor.facts.topology import CardPair, Topology

__all__ = [
    "Accepted",
    "CardPair",
    "Curve",
    "Entry",
    "Rate",
    "Rdma",
    "RdmaDevice",
    "RdmaPort",
    "Replacement",
    "Requirements",
    "RequirementsFile",
    "Resolution",
    "Stack",
    "Step",
    "Steps",
    "Topology",
    "Unresolved",
]
