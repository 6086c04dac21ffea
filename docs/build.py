"""Write the generated documentation: the checks' pages, the facts, the README's help, pictures.

``python docs/build.py`` writes, ``--check`` only compares and names what is stale.
"""

import ast
import io
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from musadoctor import facts
from musadoctor.api import Check, Layer
from musadoctor.facts import later
from musadoctor.plugins import load, load_requirements, load_verify, plugin_broken
from musadoctor.probes import PROBES, further
from musadoctor.render.checks import page

DOCS = Path(__file__).parent
ROOT = DOCS.parent
GENERATED = "<!-- Written by docs/build.py; edit the source instead. -->\n"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]
PICTURES = {"broken": "cuda-torch", "healthy": "s5000-4.3.5"}
"""The recorded hosts of the pictures, by the pictures' names."""
FLEET = 2000
"""Hosts of the picture of a fleet, made up as those of the benchmark."""
ISSUE = ROOT / "tests" / "transcripts" / "032-sdk-4.2-s80-no-mccl.txt"
"""The public report of the page on triage."""
ASSUMED = "musa=2.9.1.post1+musa5.2.0"
"""The host of the guard's output in the tests, which its page shows."""
GIVEN = {
    "requirements": ("What dependency files ask for, which the guard reads.", later.Requirements),
    "resolution": ("What a resolver would do, asked with `--deep`.", later.Resolution),
    "stack": ("The vendor's builds that must stay.", later.Stack),
}
"""The facts of the guard's checks, which no machine is asked for."""
VERIFIED = {
    "visible_devices": "Which devices there are, asked with `verify`.",
    "device_steps": "Computation, numerics and the fall-back audit on each device.",
    "transfer_steps": "Memory, and transfer between host and devices.",
    "rank_steps": "Collectives between processes.",
    "extension_steps": "An extension, compiled and called.",
    "soak_steps": "A long run on all devices at once, asked with `verify --soak`.",
}
"""The facts of the checks of `verify`, which only that command finds out."""


def pages() -> Iterator[tuple[Path, str]]:
    """Every generated file with the text that it must have."""
    loaded = (*load(plugins=False).checks, *load_requirements(), *load_verify(), plugin_broken)
    checks = sorted(loaded, key=lambda c: (c.layer, c.id))
    for check in checks:
        yield DOCS / "checks" / f"{check.id}.md", f"{GENERATED}\n{page(check)}\n"
    yield DOCS / "checks" / "README.md", index(checks)
    yield DOCS / "facts.md", fact_page()
    readme = ROOT / "README.md"
    yield readme, with_help(readme.read_text(encoding="utf-8"))
    guard = (ROOT / "tests" / "outputs" / "guard.txt").read_text(encoding="utf-8").strip()
    shown = f"```text\n$ musadoctor guard --assume {ASSUMED} requirements.txt\n{guard}\n```"
    page_on_guard = (DOCS / "guard.md").read_text(encoding="utf-8")
    yield DOCS / "guard.md", between(page_on_guard, "answer", shown)
    yield DOCS / "triage.md", with_example((DOCS / "triage.md").read_text(encoding="utf-8"))
    for name, case in PICTURES.items():
        yield DOCS / "pictures" / f"{name}.svg", picture_of_host(case)
    yield DOCS / "pictures" / "fleet.svg", picture_of_fleet()


def index(checks: list[Check]) -> str:
    """The list of all checks."""
    lines = [
        GENERATED,
        f"# The checks\n\n{len(checks)} built-in checks, the most basic layer first.",
    ]
    for layer in Layer:
        members = [check for check in checks if check.layer == layer]
        lines += [f"\n## {str(layer).replace('_', '-')}\n"]
        lines += [f"- [`{c.id}`]({c.id}.md) ({c.severity}): {c.title}" for c in members]
    return "\n".join(lines) + "\n"


def fact_page() -> str:
    """The facts: what a check may ask for, and the records that answer."""
    lines = [
        GENERATED,
        "# The facts\n",
        "A check names a fact as a parameter; the annotation says which states it can judge.",
        "A fact is its record, `Absent(reason)` or `Unknown(reason)`.\n",
        "| fact | what is asked | record |\n|---|---|---|",
    ]
    for name, probe in sorted({**PROBES, **further()}.items()):
        states = probe.__annotations__["return"].__args__
        records = ", ".join(
            f"[`{state.__name__}`](#{state.__name__.lower()})"
            for state in states
            if state not in {facts.Absent, facts.Unknown}
        )
        summary = plain((probe.__doc__ or "").strip().partition("\n\n")[0])
        lines.append(f"| `{name}` | {summary} | {records} |")
    for name, (summary, record_of) in GIVEN.items():
        link = f"[`{record_of.__name__}`](#{record_of.__name__.lower()})"
        lines.append(f"| `{name}` | {summary} | {link} |")
    accepted = "What an accepted host measured, given to `verify --compare`."
    lines.append(f"| `accepted` | {accepted} | [`Accepted`](#accepted) |")
    for name, summary in VERIFIED.items():
        lines.append(f"| `{name}` | {summary} | [`Steps`](#steps) |")
    for module in sorted((ROOT / "musadoctor" / "facts").glob("*.py")):
        for node in ast.parse(module.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                lines += record(node)
    return "\n".join(lines) + "\n"


def record(node: ast.ClassDef) -> Iterator[str]:
    """One record with its fields and what is said of them."""
    yield f"\n## {node.name}\n\n{plain(ast.get_docstring(node) or '')}\n"
    for field, after in zip(node.body, [*node.body[1:], ast.Pass()], strict=True):
        if isinstance(field, ast.AnnAssign):
            said = (
                f": {plain(str(after.value.value))}"
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                else ""
            )
            yield f"- `{ast.unparse(field.target)}`: `{ast.unparse(field.annotation)}`{said}"


def plain(text: str) -> str:
    """reStructuredText's double back-quotes as Markdown's single ones, lines joined."""
    return re.sub(
        r":class:`([^`]+)`", r"`\1`", re.sub(r"\s+", " ", text).replace("``", "`")
    ).strip()


def with_help(text: str) -> str:
    """The README with the program's own words between its markers."""
    return between(text, "help", f"```text\n{program(['--help'], width=90).strip()}\n```")


def with_example(text: str) -> str:
    """The page on triage with a public report and what is said to it."""
    issue = ISSUE.read_text(encoding="utf-8").strip()
    shown = program(["triage", str(ISSUE.relative_to(ROOT))], width=100)
    shown = re.sub(r", \d+\.\d s\b", ", 0.1 s", shown).replace(
        str(ISSUE.relative_to(ROOT)), "issue.md"
    )
    text = between(text, "issue", f"````markdown\n{issue}\n````")
    return between(text, "answer", f"```text\n$ musadoctor triage issue.md\n{shown.strip()}\n```")


def between(text: str, name: str, block: str) -> str:
    """A text with a block between the two markers of a name."""
    marks = f"<!-- {name} -->", f"<!-- /{name} -->"
    found = re.compile(".*?".join(marks), re.DOTALL)
    return found.sub(lambda _: f"{marks[0]}\n{block}\n{marks[1]}", text)


def program(arguments: list[str], *, width: int) -> str:
    """What musadoctor prints to a pipe."""
    done = subprocess.run(
        [sys.executable, "-m", "musadoctor", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": str(width), "NO_COLOR": "1", "TERM": "dumb"},
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def picture_of_host(case: str) -> str:
    """What a terminal shows of a recorded host, as SVG."""
    from recorded import whole  # noqa: PLC0415 - the tests' hosts

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "host.json").write_text(json.dumps(whole(case)), encoding="utf-8")
        return picture(["--recording", "host.json"], folder)


def picture_of_fleet() -> str:
    """What a terminal shows of many made-up hosts, as SVG."""
    from made_up_hosts import write  # noqa: PLC0415 - the benchmark's

    with tempfile.TemporaryDirectory() as folder:
        write(FLEET, Path(folder, "kept.jsonl.gz"))
        return picture(["fleet", "report", "kept.jsonl.gz", "--group-by", "card"], folder)


def picture(arguments: list[str], folder: str) -> str:
    """What musadoctor shows on a terminal, as SVG."""
    text = Text.from_ansi(on_terminal(arguments, folder))
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(Text(f"$ musadoctor {' '.join(arguments)}\n", "bold"), text)
    svg = console.export_svg(title="musadoctor", unique_id="musadoctor")
    # Nothing is to be fetched when the picture is looked at.
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def on_terminal(arguments: list[str], folder: str) -> str:
    """What musadoctor writes to a terminal of 100 columns, colours included."""
    reader, writer = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "musadoctor", *arguments],
        stdout=writer,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=environment,
    )
    os.close(writer)
    shown = bytearray()
    try:
        while chunk := os.read(reader, 1 << 16):
            shown += chunk
    except OSError:  # the end of a pseudo-terminal
        pass
    process.wait()
    os.close(reader)
    text = shown.decode().replace("\r\n", "\n")
    return re.sub(r", \d+\.\d s\b", ", 0.1 s", text)


def main() -> int:
    """Write or compare."""
    wanted = dict(pages())
    stale = [
        path
        for path, text in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    folder = DOCS / "checks"
    orphans = [path for path in folder.glob("*.md") if path not in wanted]
    if sys.argv[1:] == ["--check"]:
        for path in (*stale, *orphans):
            print(f"stale: {path.relative_to(ROOT)} (run python docs/build.py)")
        return 1 if stale or orphans else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    for path in orphans:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
