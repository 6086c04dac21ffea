"""What a report costs, as ratios measured in one run.

    python benchmarks/start.py [--torch PYTHON] [--also NAME=COMMAND ...] [--runs N]

``--torch`` names an interpreter with a real torch; without it the torch figures are left out.
``--also`` measures other tools beside ours. Each figure is the median of N runs (at least 7), the
candidates taking turns, so that a busy moment hits all of them.
"""

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from ratios import Row, compared, peak_mib

OURS = [str(Path(sys.executable).with_name("musadoctor"))]


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
        passed = compared(measured, arguments.runs)
        memory = peak_mib(measured[2].command)
    most = 40
    passed &= memory <= most
    print(f"\nPeak memory of `musadoctor --json`: {memory:.1f} MiB (bound {most}).")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
