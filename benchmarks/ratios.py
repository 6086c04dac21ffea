"""Time commands against each other in one run."""

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """One thing that is measured."""

    name: str
    command: list[str]
    base: str = "python -c pass"
    """The row that it is divided by; empty of one that is a base itself."""
    bound: float | None = None
    """The most that the ratio may be."""


def environment() -> Mapping[str, str]:
    """As after an installation: byte code is there, or is written by the first run."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def compared(rows: Sequence[Row], runs: int) -> bool:
    """Print medians of ``runs`` (at least 7) and their ratios; whether all bounds are kept.

    The rows take turns, so that a busy moment hits all of them.
    """
    times: dict[str, list[float]] = {row.name: [] for row in rows}
    for turn in range(max(7, runs) + 1):
        for row in rows:
            took = seconds(row.command)
            if turn:  # the first warms the caches
                times[row.name].append(took)
    median = {name: statistics.median(values) for name, values in times.items()}
    passed = True
    print("| what | median ms | ratio | to | bound |\n|---|--:|--:|---|--:|")
    for row in rows:
        ratio = median[row.name] / median[row.base] if row.base else 1.0
        passed &= row.bound is None or ratio <= row.bound
        bound = "" if row.bound is None else f"{row.bound:g}"
        shown = f"{ratio:.2f}" if row.base else ""
        print(f"| {row.name} | {median[row.name] * 1000:.0f} | {shown} | {row.base} | {bound} |")
    return passed


def seconds(command: Sequence[str]) -> float:
    """How long a command takes."""
    begun = time.perf_counter()
    subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        env=environment(),
    )
    return time.perf_counter() - begun


def peak_mib(command: Sequence[str]) -> float:
    """Peak memory of a command's own process, in MiB."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_maxrss / 1024
