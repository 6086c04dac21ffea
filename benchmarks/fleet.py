"""What ``musadoctor fleet report`` costs on many made-up hosts, and whether it finds the odd ones.

    python benchmarks/fleet.py [--hosts N] [--runs N] [--keep FOLDER]

Measures the command on N hosts (10,000) and on a tenth of them, in turns, and prints medians: the
seconds, the peak of the memory of all its processes (each with what it shares, so that the sum is
more than what they take), the ratio of the time per host, and by the slope what 100,000 hosts would
cost. Prints how many of the planted hosts were found and how many others were called odd or faulty.
Exit code 1 where a bound is passed. ``--keep`` keeps the files, which take a while to make.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from made_up_hosts import FAULTS, NO_ANSWER, Planted, plan, write
from ratios import environment

MOST_SECONDS = 20.0
MOST_MIB = 300.0
MOST_RATIO = 1.2
"""Of the time per host, to that with a tenth of the hosts."""
EXTRAPOLATED = 100_000
_PERIOD = 0.02
_RSS = re.compile(r"^VmRSS:\s+(\d+) kB", re.MULTILINE)


class Cost(NamedTuple):
    """What one run took."""

    seconds: float
    cpu: float
    """Seconds of all its processes; more cannot be had of two cores than twice ``seconds``."""
    mib: float


class Fleet(NamedTuple):
    """A file of made-up hosts."""

    hosts: int
    file: Path
    racks: Path

    def command(self, output: Path) -> list[str]:
        """The command that is measured."""
        return [
            *(sys.executable, "-m", "musadoctor", "fleet", "report", str(self.file), "--json"),
            *("--group-by", "rack", "--groups", str(self.racks), "--output", str(output)),
        ]


def made(count: int, folder: Path) -> Fleet:
    """The file of so many hosts, made where it is not there."""
    file = folder / f"{count}.jsonl.gz"
    racks = file.with_name(f"{file.name}.groups.yaml")
    if not racks.exists():
        write(count, file)
    return Fleet(count, file, racks)


def run(command: list[str]) -> Cost:
    """The cost of a command with all processes that it starts."""
    begun, used = time.perf_counter(), cpu_of_children()
    process = subprocess.Popen(command, env=environment())
    most = 0
    while process.poll() is None:
        most = max(most, resident(process.pid))
        time.sleep(_PERIOD)
    took = time.perf_counter() - begun
    if process.returncode not in {0, 1, 3}:
        raise SystemExit(f"exit code {process.returncode}: {' '.join(command)}")
    return Cost(took, cpu_of_children() - used, most / 1024)


def cpu_of_children() -> float:
    """CPU seconds of all processes that have ended below this one."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def resident(pid: int) -> int:
    """KiB of a process and of those below it; none of what has ended meanwhile."""
    process = Path(f"/proc/{pid}")
    try:
        found = _RSS.search((process / "status").read_text(encoding="utf-8"))
        children = [
            int(child)
            for task in os.listdir(process / "task")
            for child in (process / "task" / task / "children").read_text("utf-8").split()
        ]
    except OSError:
        return 0
    return (int(found[1]) if found else 0) + sum(map(resident, children))


def found(report: dict[str, Any], planted: Planted) -> bool:
    """Print what was found of what was planted; whether it was all, and nothing else."""
    odd: dict[str, set[str]] = {}
    for skew in report["skews"]:
        if skew["kind"] == "odd":
            for host in skew["hosts"]:
                odd.setdefault(host, set()).update(one["trait"] for one in skew["differences"])
    caused = {host for cause in report["causes"] for host in cause["hosts"]}
    silent = {one["host"] for one in report["unanswered"]}
    named = odd.keys() | caused | silent
    traits = {fault.name: fault.trait for fault in FAULTS}
    right = Counter[str]()
    for host, kind in planted.faulty.items():
        if kind == NO_ANSWER:
            right[kind] += host in silent
        elif traits[kind]:
            right[kind] += traits[kind] in odd.get(host, ())
        else:
            right[kind] += host in caused
    upgrades = [set(skew["hosts"]) for skew in report["skews"] if skew["kind"] == "upgrade"]
    upgrade = upgrades == [planted.left]
    mixed = sum(skew["kind"] == "mixed" for skew in report["skews"])
    recall = right.total() / len(planted.faulty)
    precision = len(named & planted.faulty.keys()) / len(named)
    print("\n| planted | hosts | found |\n|---|--:|--:|")
    for kind, count in Counter(planted.faulty.values()).items():
        print(f"| {kind} | {count} | {right[kind]} |")
    print(
        f"| left of an upgrade | {len(planted.left)} | {len(planted.left) if upgrade else 'no'} |"
    )
    print(f"\nprecision {precision:.4f}, recall {recall:.4f}; mixed groups, of none: {mixed};")
    print(f"lines left out, of none: {len(report['left_out'])}")
    return upgrade and precision == recall == 1 and not mixed and not report["left_out"]


def main() -> int:
    """Measure, print tables, and fail where a bound is passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        fleets = [
            made(count, given.keep or Path(temporary)) for count in (given.hosts // 10, given.hosts)
        ]
        output = Path(temporary) / "report.json"
        costs: list[list[Cost]] = [[], []]
        for turn in range(given.runs + 1):
            for fleet, taken in zip(fleets, costs, strict=True):
                cost = run(fleet.command(output))
                if turn:  # the first warms the caches
                    taken.append(cost)
        report = cast("dict[str, Any]", json.loads(output.read_text(encoding="utf-8")))
    within = told(fleets, [middle(taken) for taken in costs])
    return 0 if found(report, plan(given.hosts)[1]) and within else 1


def middle(costs: Sequence[Cost]) -> Cost:
    """The medians of the times, and the most memory."""
    return Cost(
        statistics.median(one.seconds for one in costs),
        statistics.median(one.cpu for one in costs),
        max(one.mib for one in costs),
    )


def told(fleets: Sequence[Fleet], costs: Sequence[Cost]) -> bool:
    """Print what a few and many hosts cost, and what more would; whether the bounds are kept."""
    (few, many), (one, other) = (fleet.hosts for fleet in fleets), costs
    ratio = (other.seconds / many) / (one.seconds / few)
    slope = Cost(*((b - a) / (many - few) for a, b in zip(one, other, strict=True)))
    more = EXTRAPOLATED - many
    print("| hosts | seconds | ms a host | CPU seconds | MiB |\n|---|--:|--:|--:|--:|")
    for what, cost, each in (
        (few, one, one.seconds / few),
        (many, other, other.seconds / many),
        (
            f"{EXTRAPOLATED}, by the slope",
            Cost(*(end + more * step for end, step in zip(other, slope, strict=True))),
            slope.seconds,
        ),
    ):
        print(
            f"| {what} | {cost.seconds:.2f} | {each * 1000:.2f} | {cost.cpu:.2f} | {cost.mib:.0f} |"
        )
    print(f"\nratio of the time per host {ratio:.2f}; bounds: {MOST_RATIO:g},", end=" ")
    print(f"{MOST_SECONDS:g} s and {MOST_MIB:g} MiB")
    return other.seconds <= MOST_SECONDS and other.mib <= MOST_MIB and ratio <= MOST_RATIO


if __name__ == "__main__":
    sys.exit(main())
