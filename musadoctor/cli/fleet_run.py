"""``musadoctor fleet run``: the report on many hosts, by the engine that the site already runs."""

import shlex
import shutil
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from musadoctor.cli.shared import (
    INTERRUPTED,
    IgnoreOption,
    PythonOption,
    RedactOption,
    SelectOption,
    TimeoutOption,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from musadoctor.fleet.carry.errand import Engine, Errand
    from musadoctor.fleet.gather import Gathered
    from musadoctor.fleet.keep import Kept

ENGINE_OPTIONS = "musadoctor.fleet.options"
"""Where a context keeps what stands behind ``--``."""
LAST_WORDS = 8.0
"""Seconds that an engine gets to end what runs on the hosts."""


class Via(str, Enum):
    """The engines."""

    ssh = "ssh"
    ansible = "ansible"
    slurm = "slurm"
    mpi = "mpi"
    kubernetes = "kubernetes"


HEARD = {
    "fanout": {Via.ssh, Via.ansible},
    "inventory": {Via.ansible},
    "become": {Via.ansible},
    "nodelist": {Via.slurm},
    "partition": {Via.slurm},
    "gres": {Via.slurm},
    "nodes": {Via.slurm},
    "image": {Via.kubernetes},
    "namespace": {Via.kubernetes},
    "selector": {Via.kubernetes},
    "resource": {Via.kubernetes},
    "dry_run": {Via.kubernetes},
    "command": {Via.ssh, Via.ansible, Via.slurm, Via.mpi, Via.kubernetes},
}
"""The engines that an option says something to."""


class WithEngineOptions(TyperCommand):
    """``fleet run ... -- OPTIONS`` hands the options to the engine's own command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own click
        """Put what stands behind ``--`` aside."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[ENGINE_OPTIONS] = tuple(args[at + 1 :])
            args = args[:at]
        left: list[str] = super().parse_args(ctx, args)
        return left


def run(
    context: typer.Context,
    *,
    via: Annotated[Via, typer.Option("--via", help="The engine that reaches the hosts.")],
    hosts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="HOSTS...",
            help="For ssh and mpi: sets of hosts, gpu[01-64]. For ansible: a pattern.",
            show_default=False,
        ),
    ] = None,
    inventory: Annotated[
        list[str] | None,
        typer.Option("--inventory", "-i", metavar="FILE", help="Ansible's inventory. Repeatable."),
    ] = None,
    become: Annotated[
        bool, typer.Option("--become", help="Ansible becomes root on the hosts.")
    ] = False,
    nodelist: Annotated[
        str | None, typer.Option("--nodelist", "-w", metavar="NODES", help="Slurm's nodes.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", "-p", metavar="NAME", help="Slurm's partition.")
    ] = None,
    gres: Annotated[
        str | None,
        typer.Option("--gres", metavar="NAME:N", help="What a report asks Slurm for, a node."),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="IMAGE", help="Kubernetes: an image with musadoctor."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NAME", help="Kubernetes' namespace.")
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option("--selector", "-l", metavar="LABELS", help="Kubernetes' nodes, by labels."),
    ] = None,
    resource: Annotated[
        str | None,
        typer.Option("--resource", metavar="NAME=N", help="What a pod asks the device plugin for."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Kubernetes: print the manifest, apply nothing.")
    ] = False,
    fanout: Annotated[
        int | None,
        typer.Option("--fanout", "-f", metavar="N", min=1, help="So many hosts at a time."),
    ] = None,
    bring: Annotated[
        bool, typer.Option("--bring", help="Take musadoctor along; it needs Python 3.10 there.")
    ] = False,
    command: Annotated[
        str, typer.Option("--command", metavar="COMMAND", help="musadoctor on the hosts.")
    ] = "musadoctor",
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="FILE", help="Keep every answer, as JSON Lines (.gz)."),
    ] = None,
    timeout: TimeoutOption = 60.0,
    python: PythonOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    no_redact: RedactOption = False,
) -> None:
    """Report on many hosts, by the engine that the site already runs."""
