"""What ``musadoctor verify --quick`` costs on the stand-in device, beside an import of torch.

    python benchmarks/verify.py --torch PYTHON [--devices N] [--runs N]

PYTHON has a real torch. The two take turns, N times each (3), and medians are compared. The static
audit of the dispatcher's tables is timed in the child that makes it. Exit code 1 where a bound is
passed.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from ratios import seconds

from musadoctor.live import Live
from musadoctor.verify.taken import Job, take

MOST_RATIO = 3.0
MOST_AUDIT_SECONDS = 2.0
LEAST_OPERATORS = 3000
BUILD = Path(__file__).parents[1] / "tests" / "fake_musa" / "build.py"


def main() -> int:
    """Measure, print a table, and fail where a bound is passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--torch", metavar="PYTHON", required=True, help="one with a real torch")
    parser.add_argument("--devices", type=int, default=2, help="of the stand-in (2)")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    built = subprocess.run(
        [sys.executable, BUILD, given.torch], check=True, capture_output=True, text=True
    )
    path = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{built.stdout.strip()}:{path}".rstrip(":")
    os.environ["FAKE_MUSA_DEVICES"] = str(given.devices)

    base = [given.torch, "-c", "import torch"]
    ours = [sys.executable, "-m", "musadoctor", "verify", "--quick", "--json"]
    times: dict[str, list[float]] = {"import torch": [], "musadoctor verify --quick": []}
    for turn in range(given.runs + 1):
        took = (seconds(base), seconds([*ours, "--python", given.torch]))
        if turn:  # the first warms the caches
            for name, one in zip(times, took, strict=True):
                times[name].append(one)
    imported, verified = (statistics.median(values) for values in times.values())
    operators, audited = audit(given.torch)

    ratio = verified / imported
    print("| what | seconds | ratio | bound |\n|---|--:|--:|--:|")
    print(f"| import torch | {imported:.2f} | | |")
    print(
        f"| musadoctor verify --quick, {given.devices} devices | {verified:.2f} | {ratio:.2f} |"
        f" {MOST_RATIO:g} |"
    )
    print(f"| static audit of {operators} operators | {audited:.2f} | | {MOST_AUDIT_SECONDS:g} s |")
    within = ratio <= MOST_RATIO and audited <= MOST_AUDIT_SECONDS
    return 0 if within and operators >= LEAST_OPERATORS else 1


def audit(python: str) -> tuple[int, float]:
    """How many operators the static audit judges, and the seconds that it takes."""
    job = Job("audit", ("fallback",), (("musa:0", "fallback: static"),), 60.0)
    (step,) = take(Live(time.monotonic() + 60), python, "musa", job, {})
    if step.state != "done":
        raise SystemExit(f"the static audit did not end: {step}")
    operators, took = step.value["operators"], step.value["seconds"]
    assert isinstance(operators, int)
    assert isinstance(took, float)
    return operators, took


if __name__ == "__main__":
    sys.exit(main())
