"""What ``fleet report`` and ``fleet run`` share: by what hosts are judged, and what is written."""

import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from musadoctor.cli.shared import FailOn, Show, put, refuse, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from musadoctor.fleet.gather import Gathered
    from musadoctor.fleet.state import Fleet, Gate
    from musadoctor.fleet.summary import HostSummary
    from musadoctor.fleet.together import Together


ALL = 100
"""Per cent."""


class FleetFormat(str, Enum):
    """How the report on many hosts is written."""

    text = "text"
    json = "json"
    prometheus = "prometheus"


class Notation(str, Enum):
    """How a set of hosts is written."""

    nodeset = "nodeset"
    comma = "comma"
    lines = "lines"


def _min_healthy(value: str | None) -> str | None:
    if value is not None:
        number = value.removesuffix("%")
        if not (number.isascii() and number.isdecimal() and len(number) <= len("1000000")):
            raise typer.BadParameter(f"{value!r}: expected a number of hosts, or a share as 95%")
        if value != number and int(number) > ALL:
            raise typer.BadParameter(f"{value!r}: a share of the hosts is at most 100%")
    return value


FleetFormatOption = Annotated[
    FleetFormat, typer.Option("--format", help="How the report is written.")
]
FullOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Every list in full, however long.")
]
GroupByOption = Annotated[
    str | None,
    typer.Option(
        "--group-by",
        metavar="card|rack|partition|WORD",
        help="Compare hosts within groups: of the same card, or of ClusterShell's groups WORD.",
    ),
]
GroupsOption = Annotated[
    Path | None,
    typer.Option("--groups", metavar="FILE", help="Where the groups of --group-by are: YAML."),
]
FailOnSkewOption = Annotated[
    bool, typer.Option("--fail-on-skew", help="A host that is odd counts as failed.")
]
MinHealthyOption = Annotated[
    str | None,
    typer.Option(
        "--min-healthy",
        metavar="N|N%",
        callback=_min_healthy,
        help="So many healthy hosts are enough for exit code 0.",
    ),
]
PrintHealthyOption = Annotated[
    Notation | None,
    typer.Option(
        "--print-healthy",
        help="Print the healthy hosts and nothing else, as gpu[01-31], gpu01,gpu02 or one a line; "
        "the report goes to --output alone.",
    ),
]


class Wanted(NamedTuple):
    """What a user asks of the report on many hosts."""

    format: FleetFormat = FleetFormat.text
    verbose: bool = False
    quiet: bool = False
    output: Path | None = None
    print_healthy: Notation | None = None
    group_by: str | None = None
    groups: Path | None = None
    fail_on: FailOn = FailOn.error
    strict: bool = False
    fail_on_skew: bool = False
    min_healthy: str | None = None


def check(wanted: Wanted) -> None:
    """Refuse what cannot be done, before anything is read or any host is asked."""
    if wanted.groups is not None and wanted.group_by is None:
        refuse("--groups says where groups are; name the kind as well: --group-by rack")
    if wanted.print_healthy and wanted.output is None and wanted.format is not FleetFormat.text:
        refuse("--print-healthy leaves standard output to the hosts; give the report an --output")
    from musadoctor.fleet.groups import GroupsError  # noqa: PLC0415 - other commands start faster

    try:
        _groups((), wanted)
    except GroupsError as error:
        refuse(str(error))


def say(
    gathered: "Gathered",
    wanted: Wanted,
    further: "Callable[[Sequence[str]], Together | None]" = lambda _: None,
) -> int:
    """Compare the hosts, write what was asked for, and give the exit code.

    ``further`` is what is still to be done with those that are healthy. Where the hosts that came
    are not those of the groups, that is said, and the report is without groups: it may have taken
    long to ask them.
    """
    from musadoctor.fleet.groups import GroupsError  # noqa: PLC0415 - as above
    from musadoctor.fleet.skew import skews  # noqa: PLC0415
    from musadoctor.fleet.state import Fleet, exit_code, healthy  # noqa: PLC0415

    problem = ""
    groups: Mapping[str, str] = {}
    try:
        groups = _groups(gathered.hosts, wanted)
    except GroupsError as error:
        problem = str(error)
    grouped_by = "" if problem else wanted.group_by or ""
    fleet = Fleet(*gathered, groups, skews(gathered.hosts, groups), grouped_by)
    gate = _gate(fleet, wanted)
    fleet = fleet._replace(together=further(healthy(fleet, gate)))
    if wanted.output is not None or wanted.print_healthy is None:
        write(_show(fleet, gate, wanted), wanted.output)
    if wanted.print_healthy is not None:
        text = _listed(healthy(fleet, gate), wanted.print_healthy)
        write(lambda stream: put(stream, text), None)
    if problem:
        refuse(problem)
    return exit_code(fleet, gate)


def _groups(hosts: "Sequence[HostSummary]", wanted: Wanted) -> Mapping[str, str]:
    if wanted.group_by is None:
        return {}
    from musadoctor.fleet.groups import group_by  # noqa: PLC0415 - as above

    file = None if wanted.groups is None else os.fspath(wanted.groups)
    return group_by(hosts, wanted.group_by, file)


def _gate(fleet: "Fleet", wanted: Wanted) -> "Gate":
    from musadoctor.fleet.state import Gate, of_all  # noqa: PLC0415 - as above

    least = None
    if wanted.min_healthy is not None:
        number = int(wanted.min_healthy.removesuffix("%"))
        share = wanted.min_healthy.endswith("%")
        # A part of a host is a host.
        least = -(-number * len(of_all(fleet)) // ALL) if share else number
    return Gate(wanted.fail_on.value, wanted.strict, wanted.fail_on_skew, least)


def _show(fleet: "Fleet", gate: "Gate", wanted: Wanted) -> Show:
    if wanted.format is FleetFormat.json:
        from musadoctor.render import fleet_json  # noqa: PLC0415 - one renderer a run

        return lambda stream: fleet_json.render(fleet, gate, stream)
    if wanted.format is FleetFormat.prometheus:
        from musadoctor.render import prometheus  # noqa: PLC0415

        return lambda stream: prometheus.render(fleet, stream)
    from musadoctor.render import fleet as text  # noqa: PLC0415 - rich takes 50 ms

    return lambda stream: text.render(
        fleet, gate, stream, verbose=wanted.verbose, quiet=wanted.quiet
    )


def _listed(hosts: "Sequence[str]", notation: Notation) -> str:
    if not hosts:
        return ""
    if notation is Notation.nodeset:
        from musadoctor.fleet.nodes import fold  # noqa: PLC0415 - as above

        return f"{fold(hosts)}\n"
    return (("," if notation is Notation.comma else "\n").join(hosts)) + "\n"
