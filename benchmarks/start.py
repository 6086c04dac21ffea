"""What a report costs, as ratios measured in one run.

    python benchmarks/start.py [--torch PYTHON] [--also NAME=COMMAND ...] [--runs N]

``--torch`` names an interpreter with a real torch; without it the torch figures are left out.
``--also`` measures other tools beside ours. Each figure is the median of N runs (at least 7), the
candidates taking turns, so that a busy moment hits all of them.
"""

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# As after an installation: byte code is there, or is written by the first run.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
OURS = [str(Path(sys.executable).with_name("musadoctor"))]


class Row(NamedTuple):
    """One thing that is measured."""

    name: str
    command: list[str]
    base: str
    """The row that it is divided by."""
    bound: float | None = None
    """The most that the ratio may be."""


def rows(torch: str | None, bare: str) -> list[Row]:
    """What is measured, bases first."""
    plain = [
        Row("python -c pass", [sys.executable, "-c", "pass"], ""),
        Row("musadoctor --version", [*OURS, "--version"], "python -c pass", 6),
        Row(
            "musadoctor --json, no torch", [*OURS, "--json", "--python", bare], "python -c pass", 12
        ),
        Row("musadoctor, no torch", [*OURS, "--python", bare], "python -c pass", 16),
    ]
    if torch is None:
        return plain
    return [
        *plain,
        Row("import torch", [torch, "-c", "import torch"], ""),
        Row("musadoctor, torch", [*OURS, "--python", torch], "import torch", 1.25),
        Row(
            "python -m torch.utils.collect_env",
            [torch, "-m", "torch.utils.collect_env"],
            "import torch",
        ),
    ]


def seconds(command: Sequence[str]) -> float:
    """How long a command takes."""
    begun = time.perf_counter()
    subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        env=ENVIRONMENT,
    )
    return time.perf_counter() - begun


def peak_mib(command: Sequence[str]) -> float:
    """Peak memory of a command's own process, in MiB."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT
    )
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_maxrss / 1024


def main() -> int:
    """Measure, print a table, and fail where a bound is passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter with a real torch")
    parser.add_argument("--also", metavar="NAME=COMMAND", action="append", default=[])
    parser.add_argument("--runs", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        measured = rows(arguments.torch, str(Path(folder, "bin", "python")))
        for given in arguments.also:
            name, _, command = given.partition("=")
            measured.append(Row(name, shlex.split(command), "python -c pass"))
        times: dict[str, list[float]] = {row.name: [] for row in measured}
        for turn in range(max(7, arguments.runs) + 1):
            for row in measured:
                took = seconds(row.command)
                if turn:  # the first warms the caches
                    times[row.name].append(took)
        memory = peak_mib(measured[2].command)

    median = {name: statistics.median(values) for name, values in times.items()}
    passed = True
    print("| what | median ms | ratio | to | bound |\n|---|--:|--:|---|--:|")
    for row in measured:
        ratio = median[row.name] / median[row.base] if row.base else 1.0
        passed &= row.bound is None or ratio <= row.bound
        bound = "" if row.bound is None else f"{row.bound:g}"
        shown = f"{ratio:.2f}" if row.base else ""
        print(f"| {row.name} | {median[row.name] * 1000:.0f} | {shown} | {row.base} | {bound} |")
    most = 40
    passed &= memory <= most
    print(f"\nPeak memory of `musadoctor --json`: {memory:.1f} MiB (bound {most}).")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
