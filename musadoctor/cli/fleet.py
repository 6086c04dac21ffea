"""``musadoctor fleet``: many hosts. Here: the report on what was gathered."""

from typing import Annotated

import typer

from musadoctor.cli import fleet_diff, fleet_run, fleet_zipapp
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
from musadoctor.cli.shared import (
    FailOn,
    FailOnOption,
    JsonOption,
    OutputOption,
    QuietOption,
    StrictOption,
    refuse,
)

app = typer.Typer(
    name="fleet",
    add_completion=False,
    no_args_is_help=True,
    help="Report on many hosts: which are healthy, which are odd, and what to fix first.",
)
app.command("run", cls=fleet_run.WithEngineOptions)(fleet_run.run)
app.command("diff")(fleet_diff.diff)
app.command("zipapp")(fleet_zipapp.zipapp)


@app.command()
def report(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR|-...",
            help="JSON reports, recordings and files of --keep, in any mix; - is standard input.",
        ),
    ],
    *,
    format: FleetFormatOption = FleetFormat.text,  # noqa: A002 - the option's name
    json: JsonOption = False,
    verbose: FullOption = False,
    quiet: QuietOption = False,
    group_by: GroupByOption = None,
    groups: GroupsOption = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            "--expect",
            metavar="NODESET",
            help="Hosts that ought to be there, as gpu[01-64]; others of them did not answer. "
            "Repeatable.",
        ),
    ] = None,
    fail_on: FailOnOption = FailOn.error,
    strict: StrictOption = False,
    fail_on_skew: FailOnSkewOption = False,
    min_healthy: MinHealthyOption = None,
    print_healthy: PrintHealthyOption = None,
    output: OutputOption = None,
) -> None:
    """Report on hosts whose reports were gathered: what is wrong with which, and how they differ.

    musadoctor fleet report reports/ more.jsonl.gz
    """
    from musadoctor.fleet.gather import NothingError, gather  # noqa: PLC0415 - others need it not
    from musadoctor.fleet.nodes import NodesError, expand  # noqa: PLC0415

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
    try:
        gathered = gather(files, expected=expand(*(expect or ())))
    except (NodesError, NothingError) as error:
        refuse(str(error))
    raise typer.Exit(say(gathered, wanted))
