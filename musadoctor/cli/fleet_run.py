"""``musadoctor fleet run``: the report on many hosts, by the engine that the site already runs."""

import secrets
import shlex
import shutil
import sys
import threading
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperCommand

from musadoctor.cli.fleet_shared import (
    FailOnSkewOption,
    FleetFormat,
    FleetFormatOption,
    FullOption,
    GroupByOption,
    GroupsOption,
    MinHealthyOption,
    PrintHealthyOption,
    Wanted,
    check,
    say,
)
from musadoctor.cli.interruptible import interruptible
from musadoctor.cli.shared import (
    INTERRUPTED,
    USAGE,
    FailOn,
    FailOnOption,
    IgnoreOption,
    JsonOption,
    OutputOption,
    PythonOption,
    QuietOption,
    RedactOption,
    SelectOption,
    StrictOption,
    TimeoutOption,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from musadoctor.fleet.carry.errand import Engine, Errand
    from musadoctor.fleet.collectives import Plan
    from musadoctor.fleet.gather import Gathered
    from musadoctor.fleet.keep import Kept
    from musadoctor.fleet.together import Together

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
    "hosts": {Via.ssh, Via.mpi, Via.ansible},
    "fanout": {Via.ssh, Via.ansible, Via.mpi},
    "inventory": {Via.ansible},
    "become": {Via.ansible},
    "nodelist": {Via.slurm},
    "partition": {Via.slurm},
    "gres": {Via.slurm},
    "image": {Via.kubernetes},
    "namespace": {Via.kubernetes},
    "selector": {Via.kubernetes},
    "resource": {Via.kubernetes},
    "dry_run": {Via.kubernetes},
}
"""Parameters that say something to some engines only."""


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
    hosts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="HOSTS...",
            help="For ssh and mpi: sets of hosts, gpu[01-64]. For ansible: a pattern.",
            show_default=False,
        ),
    ] = None,
    *,
    via: Annotated[Via, typer.Option("--via", help="The engine that reaches the hosts.")],
    fanout: Annotated[
        int | None,
        typer.Option("--fanout", metavar="N", min=1, help="ssh, mpi, ansible: so many at a time."),
    ] = None,
    inventory: Annotated[
        list[str] | None,
        typer.Option("--inventory", "-i", metavar="FILE", help="ansible: hosts. Repeatable."),
    ] = None,
    become: Annotated[bool, typer.Option("--become", help="ansible: as root.")] = False,
    nodelist: Annotated[
        str | None, typer.Option("--nodelist", "-w", metavar="NODES", help="slurm: these nodes.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", "-p", metavar="NAME", help="slurm: of these.")
    ] = None,
    gres: Annotated[
        str | None, typer.Option("--gres", metavar="GRES", help="slurm: what a report asks for.")
    ] = None,
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="IMAGE", help="kubernetes: one that holds musadoctor."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NAME", help="kubernetes: where it runs.")
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option("--selector", "-l", metavar="LABELS", help="kubernetes: these nodes."),
    ] = None,
    resource: Annotated[
        str | None,
        typer.Option("--resource", metavar="NAME=N", help="kubernetes: of the device plugin."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="kubernetes: print the manifest, and do nothing.")
    ] = False,
    bring: Annotated[
        bool, typer.Option("--bring", help="Take musadoctor along; needs Python 3.10 there.")
    ] = False,
    command: Annotated[
        str, typer.Option("--command", metavar="COMMAND", help="musadoctor on the hosts.")
    ] = "musadoctor",
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="FILE", help="Keep every answer, as JSON Lines (or .gz)."),
    ] = None,
    timeout: TimeoutOption = 60.0,
    python: PythonOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    no_redact: RedactOption = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Then run the collectives over the hosts that passed.")
    ] = False,
    master_addr: Annotated[
        str | None,
        typer.Option(
            "--master-addr",
            metavar="ADDRESS",
            help="By what others reach the first host; {} is its name.",
        ),
    ] = None,
    format: FleetFormatOption = FleetFormat.text,  # noqa: A002 - the option's name
    json: JsonOption = False,
    verbose: FullOption = False,
    quiet: QuietOption = False,
    group_by: GroupByOption = None,
    groups: GroupsOption = None,
    fail_on: FailOnOption = FailOn.error,
    strict: StrictOption = False,
    fail_on_skew: FailOnSkewOption = False,
    min_healthy: MinHealthyOption = None,
    print_healthy: PrintHealthyOption = None,
    output: OutputOption = None,
) -> None:
    """Report on many hosts, by the engine that the site already runs.

    What stands behind -- goes to the engine's own command:

    musadoctor fleet run --via ssh 'gpu[01-64]' -- -J login
    """
    from musadoctor.fleet.carry.errand import EngineError  # noqa: PLC0415 - for this command alone
    from musadoctor.fleet.collectives import Plan  # noqa: PLC0415

    wanted = Wanted(
        FleetFormat.json if json else format,
        verbose,
        quiet,
        output,
        print_healthy,
        group_by,
        groups,
        fail_on,
        strict,
        fail_on_skew,
        min_healthy,
    )
    check(wanted)
    _refuse_unheard(context, via)
    chosen = Chosen(
        tuple(hosts or ()),
        context.meta.get(ENGINE_OPTIONS, ()),
        fanout,
        tuple(inventory or ()),
        become,
        nodelist,
        partition,
        gres,
        image,
        namespace,
        selector,
        resource,
    )
    report = _report(timeout, python, select, ignore, redact=not no_redact)
    interrupted = False
    try:
        engine = _engine(via, chosen)
        errand = _errand(report, timeout, command, bring=bring)
        if dry_run:
            _print_manifest(engine, errand)
        gathered, interrupted, not_kept = _carried(engine, errand, keep)
    except EngineError as error:
        refuse(str(error))

    def further(hosts: "Sequence[str]") -> "Together | None":
        nonlocal interrupted
        if not verify or interrupted:
            return None
        options = () if python is None else ("--python", python)
        plan = Plan(errand.command, errand.zipapp, options, master_addr or "", _port())
        together, interrupted = _verified(engine, hosts, plan)
        return together

    code = say(gathered, wanted, further)
    if not_kept:
        print(f"musadoctor: {not_kept}; what came later is not in it", file=sys.stderr)
        code = code or USAGE
    raise typer.Exit(INTERRUPTED if interrupted else code)


def _port() -> int:
    """Another one than that of a run beside this one."""
    from musadoctor.fleet.collectives import FIRST_PORT, PORTS  # noqa: PLC0415 - as above

    return FIRST_PORT + secrets.randbelow(PORTS)


def _verified(
    engine: "Engine", hosts: "Sequence[str]", plan: "Plan"
) -> "tuple[Together | None, bool]":
    """What came of the collectives, and whether they were cut short."""
    from musadoctor.fleet.carry.errand import EngineError  # noqa: PLC0415 - as above
    from musadoctor.fleet.collectives import verify_together  # noqa: PLC0415
    from musadoctor.fleet.together import Together  # noqa: PLC0415

    cancelled = threading.Event()

    def told(sentence: str) -> None:
        print(f"musadoctor: {sentence}", file=sys.stderr)

    try:
        made, interrupted = interruptible(
            lambda: verify_together(engine, hosts, plan, cancelled, told),
            watch=lambda: None,
            stop=cancelled.set,
            patience=LAST_WORDS,
        )
    except EngineError as error:
        return Together(tuple(hosts), "not run", (), None, str(error), 0.0), False
    return (made[0] if made else None), interrupted


class Chosen(NamedTuple):
    """What a user asks of the engine."""

    hosts: tuple[str, ...]
    options: tuple[str, ...]
    """Of the engine's own command."""
    fanout: int | None
    inventory: tuple[str, ...]
    become: bool
    nodelist: str | None
    partition: str | None
    gres: str | None
    image: str | None
    namespace: str | None
    selector: str | None
    resource: str | None


def _refuse_unheard(context: typer.Context, via: Via) -> None:
    for name, engines in HEARD.items():
        source = context.get_parameter_source(name)
        if via not in engines and source is not None and source.name == "COMMANDLINE":
            option = "HOSTS" if name == "hosts" else f"--{name.replace('_', '-')}"
            heard = " and ".join(sorted(one.value for one in engines))
            refuse(f"{option} says nothing to {via.value}; it is for {heard}")


def _report(
    timeout: float,
    python: str | None,
    select: "Sequence[str] | None",
    ignore: "Sequence[str] | None",
    *,
    redact: bool,
) -> tuple[str, ...]:
    """The arguments of musadoctor on a host."""
    from musadoctor.fleet.documents import FURTHER_FACTS  # noqa: PLC0415 - for this command alone

    return (
        *("--json", "--timeout", f"{timeout:g}"),
        *(() if python is None else ("--python", python)),
        *(word for one in select or () for word in ("--select", one)),
        *(word for one in ignore or () for word in ("--ignore", one)),
        *(word for fact in FURTHER_FACTS for word in ("--facts", fact)),
        *(() if redact else ("--no-redact",)),
    )


def _errand(report: tuple[str, ...], timeout: float, command: str, *, bring: bool) -> "Errand":
    from musadoctor.fleet.carry.bring import zipapp  # noqa: PLC0415 - for this command alone
    from musadoctor.fleet.carry.errand import GRACE_SECONDS, Errand  # noqa: PLC0415

    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        refuse(f"--command {command}: {error}")
    if not words:
        refuse("--command is empty; expected what starts musadoctor on the hosts")
    return Errand(report, timeout + GRACE_SECONDS, words, zipapp() if bring else None)


def _carried(engine: "Engine", errand: "Errand", keep: Path | None) -> "tuple[Gathered, bool, str]":
    """What has come, whether it was cut short, and why answers were no longer kept."""
    from musadoctor.fleet.keep import KeepError  # noqa: PLC0415 - for this command alone
    from musadoctor.fleet.run import Run  # noqa: PLC0415
    from musadoctor.fleet.waiting import WaitingLine  # noqa: PLC0415

    hosts = engine.hosts()
    kept = _kept(keep)
    line = WaitingLine(sys.stderr, hosts, shutil.get_terminal_size().columns)
    carrier = Run(engine, hosts, kept)

    def stop() -> None:
        line.clear()
        print("musadoctor: interrupted; what has arrived:", file=sys.stderr)
        carrier.stop()

    _, interrupted = interruptible(
        lambda: carrier.carry(errand, line.arrived),
        watch=line.draw,
        stop=stop,
        patience=LAST_WORDS,
    )
    line.clear()
    gathered = carrier.gathered()
    not_kept = carrier.not_kept
    if kept is not None:
        try:
            kept.close()
        except KeepError as error:
            not_kept = not_kept or str(error)
    return gathered, interrupted, not_kept


def _kept(path: Path | None) -> "Kept | None":
    from musadoctor.fleet.keep import KeepError, Kept  # noqa: PLC0415 - for this command alone

    try:
        return None if path is None else Kept(path)
    except KeepError as error:
        refuse(str(error))


def _engine(via: Via, chosen: Chosen) -> "Engine":
    """The engine with what was asked of it; each is imported where it is used."""
    if via is Via.ssh:
        from musadoctor.fleet.carry.each import FANOUT  # noqa: PLC0415 - as above
        from musadoctor.fleet.carry.ssh import Ssh  # noqa: PLC0415

        return Ssh(_named(chosen), chosen.fanout or FANOUT, chosen.options)
    if via is Via.ansible:
        from musadoctor.fleet.carry.ansible import FORKS, Ansible  # noqa: PLC0415

        pattern = ":".join(chosen.hosts) or "all"
        forks = chosen.fanout or FORKS
        return Ansible(chosen.inventory, pattern, chosen.become, forks, chosen.options)
    if via is Via.slurm:
        from musadoctor.fleet.carry.slurm import Slurm  # noqa: PLC0415
        from musadoctor.live import Live  # noqa: PLC0415

        job, allocated = map(Live(0.0).env, ("SLURM_JOB_ID", "SLURM_JOB_NODELIST"))
        return Slurm(
            chosen.nodelist,
            chosen.partition,
            chosen.gres,
            chosen.options,
            job if isinstance(job, str) and job else None,
            allocated if isinstance(allocated, str) else None,
        )
    if via is Via.mpi:
        from musadoctor.fleet.carry.each import FANOUT  # noqa: PLC0415
        from musadoctor.fleet.carry.mpi import Mpi  # noqa: PLC0415

        return Mpi(_named(chosen), chosen.options, chosen.fanout or FANOUT)
    from musadoctor.fleet.carry.kubernetes import Kubernetes  # noqa: PLC0415
    from musadoctor.fleet.carry.kubernetes_manifest import RESOURCE  # noqa: PLC0415

    if chosen.image is None:
        refuse("name an image that holds musadoctor: --image (docs/fleet.md tells how one is made)")
    return Kubernetes(
        chosen.image,
        chosen.namespace or "",
        chosen.selector or "",
        RESOURCE if chosen.resource is None else chosen.resource,
        chosen.options,
    )


def _print_manifest(engine: "Engine", errand: "Errand") -> NoReturn:
    from musadoctor.fleet.carry.kubernetes import Kubernetes  # noqa: PLC0415 - for it alone

    assert isinstance(engine, Kubernetes)
    print(engine.manifest_text(errand), end="")
    raise typer.Exit


def _named(chosen: Chosen) -> tuple[str, ...]:
    from musadoctor.fleet.nodes import NodesError, expand  # noqa: PLC0415 - for this command alone

    if not chosen.hosts:
        refuse("name the hosts, as in: musadoctor fleet run --via ssh 'gpu[01-64]'")
    try:
        return expand(*chosen.hosts)
    except NodesError as error:
        refuse(str(error))
