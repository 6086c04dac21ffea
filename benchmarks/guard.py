"""How well and how fast the guard judges dependency files.

    python benchmarks/guard.py CORPUS [--wrong] [--speed [--runs N] [--also NAME=COMMAND ...]]

CORPUS is a folder with ``labels.jsonl`` and the files that it names: a record a file with its
labelled lines, each with a class, a verdict and, where that depends on the host, ``by_host``.
Listings of a Dockerfile or a setup.py (``*.tsv``: a line number and what stands there) are laid out
as such a file again, every line in its place, and read like any other.

A line is refused where the guard finds an error on it, and a file where it finds one in it. A label
``torch-missing-vendor`` is of what goes into an environment of its own, so that it holds for every
host, whatever its ``by_host`` says. ``--wrong`` names the lines on which labels and guard differ.

``--speed`` measures instead; ``--also`` adds commands, with ``{}`` for the 1,000 lines. Figures are
medians of N runs (at least 7), the candidates taking turns, as ratios.
"""

import argparse
import collections
import json
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

from ratios import Row, compared, peak_mib

from musadoctor.guard.host import assumed
from musadoctor.guard.judge import judge
from musadoctor.requirements.files import read

PROFILES = {
    "A": "musa=2.9.1.post1+musa5.2.0",
    "B": "musa=2.5.0",
    "C": "musa=2.2.0a0+git8ac9b20",
    "N": "new",
}
LEAST = 0.97
"""Precision and recall of refused lines."""
MOST_HARMLESS = 0.02
"""Of harmless files, the part that may be refused."""
OURS = [str(Path(sys.executable).with_name("musadoctor")), "guard", "--assume", "musa"]

Place = tuple[str, int]
"""A file's id and a line."""


class Label(TypedDict, total=False):
    """A labelled line, as far as it is looked at."""

    line: int
    text: str
    verdict: str
    by_host: dict[str, str]


class Labelled(NamedTuple):
    """A file of the corpus."""

    id: str
    path: str
    labels: list[tuple[str, Label]]
    """With the class."""


class Outcome(NamedTuple):
    """What labels and guard say of the corpus on one host."""

    wanted: dict[Place, str]
    """Lines to be refused, with the class."""
    refused: dict[Place, str]
    """Lines that were, with the check."""
    must: set[str]
    """Files to be refused."""
    were: set[str]
    files: int


def corpus(folder: Path, scratch: Path) -> Iterator[Labelled]:
    """The files with their labels; listings are laid out in ``scratch``."""
    with Path(folder, "labels.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            path = Path(folder, record["file"])
            if path.suffix == ".tsv":
                laid_out = _setup_py if path.name.startswith("setup.py") else _dockerfile
                name = "setup.py" if laid_out is _setup_py else "Dockerfile"
                rows = [row.split("\t") for row in path.read_text(encoding="utf-8").splitlines()]
                path = scratch / record["id"] / name
                path.parent.mkdir()
                path.write_text(laid_out(rows), encoding="utf-8")
            labels = [(label["class"], label) for label in record["labels"]]
            yield Labelled(record["id"], str(path), labels)


def _dockerfile(rows: list[list[str]]) -> str:
    """One instruction a line; what the listing has twice of a line are parts of one command."""
    lines: dict[int, str] = {}
    for number, text in rows:
        instruction, _, rest = text.partition(" ")
        # What is left of a shell's condition that the listing has taken apart.
        command = rest.removeprefix("then ").removeprefix("else ").removeprefix("do ")
        before = lines.get(int(number))
        lines[int(number)] = f"{before} && {command}" if before else f"{instruction} {command}"
    return _at_their_lines(lines)


def _setup_py(rows: list[list[str]]) -> str:
    """An assignment for each string; a list that has another name is made the requirements."""
    lines: dict[int, str] = {}
    for number, name, text in rows:
        added = f"{name} += [{text!r}]"
        before = lines.get(int(number))
        lines[int(number)] = f"{before}; {added}" if before else added
    names = {name for _, name, _ in rows} - {"install_requires", "setup_requires", "extras_require"}
    given = "".join(f", install_requires={name}" for name in sorted(names))
    lines[max(lines, default=0) + 1] = f"setup(name='x'{given})"
    return _at_their_lines(lines)


def _at_their_lines(lines: dict[int, str]) -> str:
    return "".join(f"{lines.get(number, '')}\n" for number in range(1, max(lines) + 1))


def judged(files: Sequence[Labelled], profile: str) -> Outcome:
    """Judge the corpus for one host."""
    stack = assumed(PROFILES[profile])
    outcome = Outcome({}, {}, set(), set(), len(files))
    for file in files:
        for kind, label in file.labels:
            everywhere = kind == "torch-missing-vendor"
            by_host = {} if everywhere else label.get("by_host") or {}
            if by_host.get(profile, label["verdict"]) == "refuse":
                outcome.wanted[file.id, label["line"]] = kind
                outcome.must.add(file.id)
        for result in judge(read([file.path]), stack).results:
            if result.check.severity != "error":
                continue
            for finding in result.findings:
                line = int(finding.where.rpartition(":")[2])
                outcome.refused[file.id, line] = f"{result.check.id}: {finding.message}"
                outcome.were.add(file.id)
    return outcome


def table(outcome: Outcome) -> Iterator[str]:
    """Lines by class: how many there are, how many were refused."""
    yield "| class of the label | lines | refused |\n|---|--:|--:|"
    lines = collections.Counter(outcome.wanted.values())
    found = collections.Counter(
        k for place, k in outcome.wanted.items() if place in outcome.refused
    )
    for kind in sorted(lines):
        yield f"| {kind} | {lines[kind]} | {found[kind]} |"
    yield "\n| check | lines | rightly |\n|---|--:|--:|"
    checks = collections.Counter(said.partition(":")[0] for said in outcome.refused.values())
    right = collections.Counter(
        said.partition(":")[0] for at, said in outcome.refused.items() if at in outcome.wanted
    )
    for check in sorted(checks):
        yield f"| {check} | {checks[check]} | {right[check]} |"


def quality(files: Sequence[Labelled], *, wrong: bool) -> bool:
    """Print what comes of each host; whether all bars are met."""
    passed = True
    outcomes = {profile: judged(files, profile) for profile in PROFILES}
    print("\n".join(table(outcomes["A"])))
    print(
        "\n| host | lines | precision | recall | files to refuse | refused | harmless | refused |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for profile, outcome in outcomes.items():
        right = len(outcome.wanted.keys() & outcome.refused.keys())
        precision = right / len(outcome.refused)
        recall = right / len(outcome.wanted)
        caught, harmless = outcome.must & outcome.were, outcome.files - len(outcome.must)
        falsely = outcome.were - outcome.must
        print(
            f"| {profile} {PROFILES[profile]} | {len(outcome.wanted)} | {precision:.3f}"
            f" | {recall:.3f} | {len(outcome.must)} | {len(caught)} | {harmless} | {len(falsely)} |"
        )
        passed &= min(precision, recall) >= LEAST and caught == outcome.must
        passed &= len(falsely) <= MOST_HARMLESS * harmless
        if wrong:
            for at in sorted(outcome.wanted.keys() ^ outcome.refused.keys()):
                how = "missed" if at in outcome.wanted else "refused"
                print(f"{at[0]}:{at[1]} {how}", outcome.wanted.get(at) or outcome.refused[at])
    return passed


def requirements_lines(count: int, *, hashes: bool = False) -> str:
    """A file of ``count`` requirements, every tenth of which names something known."""
    known = ("torch>=2.2", "transformers", "numpy", "nvidia-cublas-cu12==12.1.3.1", "einops")
    lines: list[str] = []
    for number in range(count):
        name = known[number // 10 % len(known)] if number % 10 == 0 else f"package-{number}==1.0"
        tail = "" if number % 3 else "; python_version >= '3.8'"
        hashed = " \\\n    --hash=sha256:" + "0" * 64 if hashes else ""
        lines.append(f"{name}{tail}{hashed}")
    return "\n".join(lines) + "\n"


def lock(size: int) -> Iterator[str]:
    """A uv.lock of ``size`` bytes."""
    yield 'version = 1\nrequires-python = ">=3.10"\n'
    host, digest = "https://files.example.invalid", "0" * 64
    written = number = 0
    while written < size:
        wheels = "".join(
            f'    {{ url = "{host}/{number}/{n}.whl", hash = "sha256:{digest}", size = 1 }},\n'
            for n in range(20)
        )
        block = (
            f'\n[[package]]\nname = "package-{number}"\nversion = "1.0"\n'
            f'source = {{ registry = "{host}/simple" }}\nwheels = [\n{wheels}]\n'
        )
        yield block
        written += len(block)
        number += 1


def rows(folder: Path, files: Sequence[Labelled], also: Sequence[str]) -> list[Row]:
    """What is measured, bases first."""
    paths: dict[str, str] = {}
    for count in (1_000, 10_000, 100_000):
        path = Path(folder, f"requirements-{count}.txt")
        path.write_text(requirements_lines(count), encoding="utf-8")
        paths[str(count)] = str(path)
    hashed = Path(folder, "requirements-hashed.txt")
    hashed.write_text(requirements_lines(5_000, hashes=True), encoding="utf-8")
    strings = Path(folder, "strings")
    entries = read([file.path for file in files]).entries
    texts = {
        f"{entry.name}{entry.specifier}" + (f"; {entry.marker}" if entry.marker else "")
        for entry in entries
        if entry.kind == "requirement" and not entry.url
    }
    strings.write_text("\n".join(sorted(texts)), encoding="utf-8")
    parse = (
        "import sys\nfrom packaging.requirements import InvalidRequirement, Requirement\n"
        f"for line in open({str(strings)!r}, encoding='utf-8'):\n"
        "    try: Requirement(line)\n    except InvalidRequirement: pass"
    )
    start = "python -c pass"
    return [
        Row(start, [sys.executable, "-c", "pass"], ""),
        Row("packaging on the corpus' strings", [sys.executable, "-c", parse], start),
        Row("10,000 lines", [*OURS, "--quiet", paths["10000"]], start),
        Row("1,000 lines", [*OURS, paths["1000"]], start, 10),
        Row("5,000 hashed lines", [*OURS, "--quiet", str(hashed)], start, 16),
        Row("100,000 lines", [*OURS, "--quiet", paths["100000"]], "10,000 lines", 11),
        Row(
            f"the corpus, {len(files)} files",
            [*OURS, "--quiet", *(file.path for file in files)],
            "packaging on the corpus' strings",
            6,
        ),
        *(
            Row(name, shlex.split(command.replace("{}", paths["1000"])))
            for name, _, command in (given.partition("=") for given in also)
        ),
    ]


def speed(folder: Path, files: Sequence[Labelled], runs: int, also: Sequence[str]) -> bool:
    """Print ratios; whether all bounds are kept."""
    print()
    passed = compared(rows(folder, files, also), runs)
    large = Path(folder, "uv.lock")
    with large.open("w", encoding="utf-8") as written:
        written.writelines(lock(50 << 20))
    memory = peak_mib([*OURS, "--quiet", str(large)])
    print(f"\nPeak memory on a uv.lock of 50 MiB: {memory:.0f} MiB (bound 200).")
    return passed and memory < 200  # noqa: PLR2004 - said in the line above


def main() -> int:
    """Judge or measure, print, and fail where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--wrong", action="store_true", help="name the lines that differ")
    parser.add_argument("--speed", action="store_true", help="measure time and memory")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--also", metavar="NAME=COMMAND", action="append", default=[])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = list(corpus(arguments.corpus, Path(folder)))
        if arguments.speed:
            return 0 if speed(Path(folder), files, arguments.runs, arguments.also) else 1
        return 0 if quality(files, wrong=arguments.wrong) else 1


if __name__ == "__main__":
    sys.exit(main())
