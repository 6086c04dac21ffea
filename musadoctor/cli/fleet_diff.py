"""``musadoctor fleet diff``: what changed between two hosts or two days, and what matters of it."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from musadoctor.cli.fleet_shared import FullOption
from musadoctor.cli.shared import JsonOption, OutputOption, Show, refuse, write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from musadoctor.fleet.gather import Gathered
    from musadoctor.report import JSON

WORSE = 1
"""The exit code where something got worse."""


class _Side(NamedTuple):
    """A file or folder, and what was read there."""

    path: str
    host: str
    """The one that is meant; ``""`` for all."""
    gathered: "Gathered"


def diff(
    before: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="A report, recording, kept file or folder; FILE:HOST is one host of it.",
        ),
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="The other one.")],
    *,
    json: JsonOption = False,
    verbose: FullOption = False,
    output: OutputOption = None,
) -> None:
    """Say what changed between two hosts, or two days, and which of it matters.

    Of one host each, or one that FILE:HOST names, all values are compared;
    of more, what each host that both tell of has become.
    The exit code is 1 where a host or a check of severity error is worse.

    musadoctor fleet diff monday.jsonl tuesday.jsonl

    musadoctor fleet diff tuesday.jsonl:gpu017 tuesday.jsonl:gpu018
    """
    one, other = _side(before), _side(after)
    hosts = _of_one_host(one, other)
    show, worse = (
        _hosts(one, other, hosts, json=json, verbose=verbose)
        if hosts
        else _fleets(one, other, json=json, verbose=verbose)
    )
    write(show, output)
    raise typer.Exit(WORSE if worse else 0)


def _side(text: str) -> _Side:
    """Read what an argument names."""
    from musadoctor.fleet.answer import HOST  # noqa: PLC0415 - other commands start faster
    from musadoctor.fleet.gather import NothingError, gather  # noqa: PLC0415

    if text == "-":
        refuse("fleet diff reads its files twice; keep what comes on standard input in one")
    path, host = text, ""
    if not os.path.exists(text):
        ends = (place for place, letter in enumerate(text) if letter == ":")
        cuts = ((text[:end], text[end + 1 :]) for end in ends)
        found = (cut for cut in cuts if os.path.exists(cut[0]) and HOST.fullmatch(cut[1]))
        path, host = next(found, (text, ""))
    try:
        gathered = gather([path])
    except NothingError as error:
        refuse(str(error))
    for left in gathered.left_out[:1]:
        more = len(gathered.left_out) - 1
        rest = f" ({more} more; musadoctor fleet report names all)" if more else ""
        print(f"musadoctor: left out {left.source}: {left.reason}{rest}", file=sys.stderr)
    return _Side(path, host, gathered)


def _of_one_host(one: _Side, other: _Side) -> tuple[str, str] | None:
    """The two hosts whose reports are to be compared, if it is about two."""
    alone, other_alone = _alone(one), _alone(other)
    if one.host or other.host:
        # Where one side names no host, it is the same one, or the only one.
        return (
            one.host or alone or other.host,
            other.host or other_alone or one.host,
        )
    return (alone, other_alone) if alone and other_alone else None


def _alone(side: _Side) -> str:
    """The only host of which a file tells."""
    hosts, unanswered, _ = side.gathered
    return hosts[0].host if len(hosts) == 1 and not unanswered else ""


def _hosts(
    one: _Side, other: _Side, hosts: tuple[str, str], *, json: bool, verbose: bool
) -> tuple[Show, bool]:
    from musadoctor.fleet.diff import diff_reports  # noqa: PLC0415 - as above

    reports = (
        _report(one.gathered, one.path, hosts[0]),
        _report(other.gathered, other.path, hosts[1]),
    )
    # Of one host on two days, the files' names tell the days apart.
    names = hosts if hosts[0] != hosts[1] else (f"{hosts[0]} in {one.path}", f"in {other.path}")
    made = diff_reports(*reports, names)
    worse = any(change.severity == "error" for change in made.worse)
    if json:
        from musadoctor.render import fleet_json  # noqa: PLC0415 - one renderer a run

        return lambda stream: fleet_json.render_hosts_diff(made, stream), worse
    from musadoctor.render import fleet_diff  # noqa: PLC0415 - rich takes 50 ms

    return lambda stream: fleet_diff.render_hosts(made, stream, verbose=verbose), worse


def _fleets(one: _Side, other: _Side, *, json: bool, verbose: bool) -> tuple[Show, bool]:
    from musadoctor.fleet.diff import diff_fleets  # noqa: PLC0415 - as above

    made = diff_fleets(one.gathered, other.gathered)
    names = one.path, other.path
    worse = any(change.worse for change in made.changes)
    if json:
        from musadoctor.render import fleet_json  # noqa: PLC0415 - one renderer a run

        return lambda stream: fleet_json.render_fleets_diff(made, names, stream), worse
    from musadoctor.render import fleet_diff  # noqa: PLC0415 - rich takes 50 ms

    return lambda stream: fleet_diff.render_fleets(made, names, stream, verbose=verbose), worse


def _report(gathered: "Gathered", path: str, host: str) -> "Mapping[str, JSON]":
    """The whole report of a host, of which ``gather`` has kept a summary alone."""
    from musadoctor.fleet.whole import whole_report  # noqa: PLC0415 - as above
    from musadoctor.render.json import document  # noqa: PLC0415
    from musadoctor.report import Report  # noqa: PLC0415

    for unanswered in gathered.unanswered:
        if unanswered.host == host:
            refuse(f"{host} did not answer in {path}: {unanswered.kind}: {unanswered.reason}")
    source = next((one.source for one in gathered.hosts if one.host == host), "")
    if not source:
        refuse(f"{path} tells nothing of {host}")
    found = whole_report(path, source, host)
    if found is None:
        refuse(f"{path} has changed while it was read")
    return document(found) if isinstance(found, Report) else found
