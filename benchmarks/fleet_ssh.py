"""What ``musadoctor fleet run --via ssh`` costs on eight hosts, to the slowest of them alone.

    python benchmarks/fleet_ssh.py PACKAGES [--runs N] [--wait SECONDS]

PACKAGES is the folder that MUSADOCTOR_TEST_ENGINES names for the tests; needs root. The hosts are
network namespaces with a real sshd each on this one machine, so they share its processors, which
the hosts of a real fleet do not. As on a real host, most of a report is to wait for the vendor's
tool: it answers after WAIT seconds (1) here. With ``--wait 0`` it is the processors that are
measured, not the carrying. The rows take turns. Exit code 1 where a bound is passed or a host did
not answer.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ratios import seconds

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from engine_lab import Lab
from ssh_hosts import SshHosts

MOST_RATIO = 2.0
LIMIT = "60"


def command(hosts: Sequence[str], output: Path, *more: str) -> list[str]:
    """The command that is measured."""
    run = (sys.executable, "-m", "musadoctor", "fleet", "run", "--via", "ssh", *hosts)
    return [*run, "--timeout", LIMIT, "--json", "--output", str(output), *more]


def measured(hosts: SshHosts, runs: int, folder: Path) -> bool:
    """Print the table; whether all answered within the bound."""
    whole = {
        "8 hosts": (*hosts.names, "--fanout", "8"),
        "8 hosts, --bring": (*hosts.names, "--fanout", "8", "--bring"),
        "1 host, --bring": ("h1", "--bring"),
    }
    commands = {name: command(given, folder / "all.json") for name, given in whole.items()}
    for host in hosts.names:
        commands[host] = command([host], folder / "one.json")
    times: dict[str, list[float]] = {name: [] for name in commands}
    answered = True
    for turn in range(max(7, runs) + 1):
        for name, argv in commands.items():
            took = seconds(argv)
            output = Path(argv[argv.index("--output") + 1])
            answered &= json.loads(output.read_text())["counts"]["unanswered"] == 0
            if turn:  # the first warms the caches
                times[name].append(took)
    median = {name: statistics.median(values) for name, values in times.items()}
    slowest = max(hosts.names, key=lambda host: median[host])
    print("| what | median ms | ratio | to | bound |\n|---|--:|--:|---|--:|")
    print(f"| {slowest}, the slowest host alone | {median[slowest] * 1000:.0f} |  |  |  |")
    ratio = median["8 hosts"] / median[slowest]
    print(
        f"| 8 hosts | {median['8 hosts'] * 1000:.0f} | {ratio:.2f} | {slowest} | {MOST_RATIO:g} |"
    )
    print(f"| 1 host, --bring | {median['1 host, --bring'] * 1000:.0f} |  |  |  |")
    ratio_brought = median["8 hosts, --bring"] / median["1 host, --bring"]
    brought = median["8 hosts, --bring"] * 1000
    print(f"| 8 hosts, --bring | {brought:.0f} | {ratio_brought:.2f} | 1 host, --bring |  |")
    if not answered:
        print("\nA host did not answer.")
    return answered and ratio <= MOST_RATIO


def main() -> int:
    """Make the hosts, measure, and fail where the bound is passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", metavar="PACKAGES", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--wait", metavar="SECONDS", type=float, default=1.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(arguments.packages, Path(folder, "lab"))
        try:
            hosts = SshHosts(lab)
            for host in hosts.names:
                tool = hosts.folder / host / "own" / "mthreads-gmi"
                answer = tool.read_text().partition("\n")[2]
                hosts.program(host, "mthreads-gmi", f"sleep {arguments.wait}\n{answer}")
            os.environ["PATH"] = hosts.path
            passed = measured(hosts, arguments.runs, Path(folder))
        finally:
            lab.close()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
