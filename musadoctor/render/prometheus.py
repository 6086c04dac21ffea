"""The fleet in Prometheus' text format, for a textfile collector or a scraped page."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TextIO, get_args

from musadoctor.fleet.answer import line
from musadoctor.fleet.state import Fleet
from musadoctor.report import Verdict

LONGEST_LABEL = 200
UNANSWERED = "unanswered"
"""The verdict of a host that did not answer."""
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class _Metric(NamedTuple):
    """A gauge: its name, what it means, and its samples."""

    name: str
    help: str
    labels: tuple[str, ...]
    samples: Iterable[tuple[tuple[str, ...], int]]
    """The values of the labels, and the number."""


def render(fleet: Fleet, stream: TextIO) -> None:
    """Write all gauges, one sample a line."""
    for metric in _metrics(fleet):
        stream.write(f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} gauge\n")
        for values, number in metric.samples:
            pairs = zip(metric.labels, values, strict=True)
            labels = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
            stream.write(f"{metric.name}{{{labels}}} {number}\n")


def _metrics(fleet: Fleet) -> Iterator[_Metric]:
    verdicts: tuple[Verdict, ...] = get_args(Verdict)
    counts = Counter(host.verdict for host in fleet.hosts)
    yield _Metric(
        "musadoctor_fleet_hosts",
        "Hosts by verdict.",
        ("verdict",),
        [
            *(((verdict,), counts[verdict]) for verdict in verdicts),
            ((UNANSWERED,), len(fleet.unanswered)),
        ],
    )
    yield _Metric(
        "musadoctor_fleet_cause_hosts",
        "Hosts that have a cause.",
        ("cause", "severity"),
        _counted(((c.cause.id, c.cause.severity), c.hosts) for c in fleet.causes),
    )
    yield _Metric(
        "musadoctor_fleet_unanswered_hosts",
        "Hosts that did not answer, by why.",
        ("kind",),
        _counted(((one.kind,), (one.host,)) for one in fleet.unanswered),
    )
    yield _Metric(
        "musadoctor_fleet_odd_hosts",
        "Hosts that differ from most others of their group.",
        ("trait", "group"),
        _counted(
            ((difference.trait, skew.group), skew.hosts)
            for skew in fleet.skews
            if skew.kind == "odd"
            for difference in skew.differences
        ),
    )
    yield _Metric(
        "musadoctor_host_verdict",
        "1 for the verdict of each host.",
        ("host", "verdict"),
        [
            *(((host.host, host.verdict), 1) for host in fleet.hosts),
            *(((one.host, UNANSWERED), 1) for one in fleet.unanswered),
        ],
    )


def _counted(
    found: Iterable[tuple[tuple[str, ...], Sequence[str]]],
) -> list[tuple[tuple[str, ...], int]]:
    """The number of different hosts for each set of labels, which stands once."""
    hosts: dict[tuple[str, ...], set[str]] = {}
    for labels, those in found:
        key = tuple(line(label, LONGEST_LABEL) for label in labels)
        hosts.setdefault(key, set()).update(those)
    return [(labels, len(those)) for labels, those in hosts.items()]
