"""The report for a person at a terminal, and the live line while it is being made.

Layer lines appear as soon as a layer is decided; what is wrong follows at the end, nearest to the
prompt, causes first.
"""

import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from musadoctor import __version__
from musadoctor.api import Finding, Layer, Severity
from musadoctor.plugins import plugin_broken
from musadoctor.printable import printable
from musadoctor.redact import Redaction
from musadoctor.report import Report, Result, Verdict, rank

MARKS = {"passed": "\u2713", "failed": "\u2717", "warning": "!", "skipped": "-", "unknown": "?"}
PLAIN_MARKS = {"passed": "+", "failed": "x", "warning": "!", "skipped": "-", "unknown": "?"}
STYLES = {
    "passed": "green",
    "failed": "bold red",
    "warning": "yellow",
    "skipped": "dim",
    "unknown": "magenta",
    "error": "bold red",
    "note": "cyan",
    "command": "bold",
    "dim": "dim",
}
VERDICT_STYLES: dict[Verdict, str] = {
    "healthy": "bold green",
    "degraded": "bold yellow",
    "broken": "bold red",
    "unknown": "bold magenta",
}
SHOWN: dict[Layer, tuple[str, ...]] = {
    Layer.MACHINE: ("machine",),
    Layer.HARDWARE: ("gpus",),
    Layer.DRIVER: ("kernel_driver", "gmi", "device_nodes"),
    Layer.CONTAINER: ("container", "container_runtime"),
    Layer.TOOLKIT: ("toolkit", "mudnn", "mccl"),
    Layer.ENVIRONMENT: ("environment",),
    Layer.LIBRARIES: ("user_driver", "musa_info"),
    Layer.PYTHON: ("python",),
    Layer.TORCH: ("torch_build", "torch_import"),
    Layer.TORCH_MUSA: ("torch_musa_build", "torch_musa"),
    Layer.COLLECTIVES: ("collectives",),
}
"""The facts that stand for a layer on its green line."""
SLOW = {
    "python": "Python",
    "torch_import": "torch",
    "gmi_answer": "mthreads-gmi",
    "musa_info_answer": "musaInfo",
    "version_query": "musa_version_query",
    "mcc": "mcc",
}
"""The facts that stand for a program which is run, and what the live line calls it."""
LABEL = 13
VERBOSE_LABEL = 34
NARROWEST, WIDEST = 40, 100


class TextReport:
    """Prints a report piece by piece; also the engine's :class:`Progress`."""

    def __init__(
        self,
        stream: TextIO,
        *,
        verbose: bool = False,
        quiet: bool = False,
        subject: str = "",
        redaction: Redaction | None = None,
        status: TextIO | None = None,
    ) -> None:
        """Print on ``stream``, and the live line on ``status`` where that is a terminal.

        ``subject`` is what is examined where it is not this host.
        """
        self._console = Console(
            file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True
        )
        self._width = max(NARROWEST, min(WIDEST, self._console.width))
        self._marks = MARKS if _can_show(stream, MARKS["passed"]) else PLAIN_MARKS
        self._verbose = verbose
        self._quiet = quiet
        self._redaction = redaction
        self._status = status if status is not None and status.isatty() and not quiet else None
        self._known: dict[str, str] = {}
        self._begun = False
        self._subject = subject

    def decided(self, layer: Layer, results: Sequence[Result]) -> None:
        """Print the lines of a layer."""
        if self._quiet:
            return
        self._clear()
        self._begin()
        self._known.update((e.fact, self._text(e.text)) for r in results for e in r.evidence)
        shown = [r for r in results if not r.reason.startswith("ignored:")]
        if self._verbose and shown:
            self._print(Text(f" {_name(layer)}", STYLES["dim"]))
            for result in shown:
                self._line(_state(result), result.check.id, self._explanation(result))
        if shown and not self._verbose:
            state, texts = self._layer(layer, shown)
            self._line(state, _name(layer), texts)

    def waiting(self, facts: Sequence[str], seconds: float) -> None:
        """Renew the live line."""
        if self._status is not None and seconds >= 1:
            # What most facts wait for is named; the others wait for it, or are quick.
            names = dict.fromkeys(SLOW[fact] for fact in facts if fact in SLOW)
            subject = ", ".join(names) or facts[0].replace("_", " ")
            passed = f", {seconds:.0f} s"
            # A line that the terminal wraps could not be renewed.
            room = min(self._width, self._console.width) - len(passed)
            self._status.write(f"\r\x1b[K{f'waiting for {subject}'[:room]}{passed}")
            self._status.flush()

    def finish(self, report: Report) -> None:
        """Print what is wrong, what is not known, and the verdict."""
        self._clear()
        if not self._quiet:
            self._begin()
        self._findings("Fix first", "error", report)
        if not self._quiet:
            self._findings("Warnings", "warning", report)
            self._findings("Notes", "note", report)
        self._unknown(report)
        ignored = [r for r in report.results if r.reason.startswith("ignored:")]
        if ignored and not self._quiet:
            self._heading("Ignored")
            for result in ignored:
                self._item("-", "dim", f"{result.check.id}: {result.reason[9:]}", style="dim")
        self._bugs(report)
        self._verdict(report)

    def _bugs(self, report: Report) -> None:
        for bug in report.bugs:
            self._heading(f"A bug in musadoctor: {bug.where}")
            self._print(Text(textwrap.indent(bug.traceback.rstrip(), "    "), STYLES["dim"]))

    def _findings(self, title: str, severity: Severity, report: Report) -> None:
        chosen = [cause for cause in report.causes if cause.check.severity == severity]
        if chosen:
            self._heading(title)
        for number, cause in enumerate(chosen, 1):
            if severity == "note" and not self._verbose:
                for finding in cause.findings:
                    text = f"{cause.check.id}: {finding.message}"
                    self._item(f"{number}.", STYLES["note"], text)
            else:
                self._cause(number, cause, report.results)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            heading = Text(f"musadoctor {__version__}", "bold")
            if self._subject:
                heading.append(f" on {self._subject}", "not bold")
            self._print(heading)

    def _layer(self, layer: Layer, results: Sequence[Result]) -> tuple[str, list[str]]:
        """One mark and a few lines for all checks of a layer."""
        failed = sorted((r for r in results if r.status == "failed"), key=rank)
        if failed:
            return _state(failed[0]), [self._brief(result) for result in failed]
        unknown = [r for r in results if r.status == "unknown"]
        passed = [r for r in results if r.status == "passed"]
        if any(r.check.severity == "error" for r in unknown) or (unknown and not passed):
            return "unknown", list(dict.fromkeys(self._text(r.reason) for r in unknown))
        if not passed:
            reasons = [result.reason for result in results]
            return "skipped", [self._text(max(reasons, key=reasons.count))]
        shown = [self._known[name] for name in SHOWN[layer] if name in self._known]
        return "passed", shown or [f"passed: {', '.join(r.check.id for r in passed)}"]

    def _brief(self, result: Result) -> str:
        if result.caused_by:
            return f"{result.check.id} (follows from {result.caused_by})"
        return f"{result.check.id}: {result.check.title}"

    def _explanation(self, result: Result) -> list[str]:
        if result.status == "passed":
            return [self._text(e.text) for e in result.evidence]
        if result.status == "failed":
            follows = f" (follows from {result.caused_by})" if result.caused_by else ""
            return [result.check.title + follows]
        return [self._text(result.reason)]

    def _cause(self, number: int, cause: Result, results: Sequence[Result]) -> None:
        check = cause.check
        style = STYLES["failed" if check.severity == "error" else check.severity]
        self._item(f"{number}.", style, check.title, suffix=f"  [{check.id}]", style="bold")
        for finding in cause.findings:
            self._finding(finding)
        if cause.traceback:
            self._block(cause.reason, STYLES["unknown"])
        following = [r.check.id for r in results if r.caused_by == check.id]
        if following:
            self._block(f"Follows from it: {', '.join(following)}", STYLES["dim"])

    def _finding(self, finding: Finding) -> None:
        where = "" if finding.where in finding.message else f" ({finding.where})"
        self._block(finding.message + where)
        if finding.fix is None:
            return
        caution = "Fix (it can lose something): " if finding.fix.destructive else "Fix: "
        self._block(caution + finding.fix.text, STYLES["passed"])
        for command in finding.fix.commands:
            self._print(Text(f"        {printable(command)}", STYLES["command"]))

    def _unknown(self, report: Report) -> None:
        """What could not be found out, each reason once with the checks that wait for it."""
        reasons: dict[str, list[str]] = {}
        for result in report.results:
            if result.status == "unknown" and (not self._quiet or result.check.severity == "error"):
                reasons.setdefault(result.reason, []).append(result.check.id)
        if not reasons or (self._quiet and report.verdict != "unknown"):
            return
        self._heading("Not known")
        for reason, ids in reasons.items():
            self._item(self._marks["unknown"], STYLES["unknown"], reason)
            self._block(f"undecided: {', '.join(ids)}", STYLES["dim"])

    def _verdict(self, report: Report) -> None:
        counts = [
            f"{number} {severity}{'s' if number > 1 else ''}"
            for severity in ("error", "warning", "note")
            if (number := sum(c.check.severity == severity for c in report.causes))
        ]
        unknown = sum(r.status == "unknown" for r in report.results)
        if unknown:
            counts.append(f"{unknown} undecided")
        passed = sum(r.status == "passed" for r in report.results)
        counts.append(f"{passed} passed")
        line = Text()
        line.append(report.verdict, VERDICT_STYLES[report.verdict])
        line.append(f": {', '.join(counts)}, {report.seconds:.1f} s")
        if not self._quiet:
            self._print(Text())
        self._print(line)
        errors = [cause for cause in report.causes if cause.check.severity == "error"]
        if errors and not self._quiet:
            first = errors[0].check.id
            self._print(Text(f"More on the first: musadoctor explain {first}", STYLES["dim"]))

    def _heading(self, text: str) -> None:
        if not self._quiet:
            self._print(Text())
        self._print(Text(text, "bold underline" if self._console.is_terminal else "bold"))

    def _line(self, state: str, label: str, texts: Sequence[str]) -> None:
        """A mark, a label, and texts in a column of their own."""
        width = max(VERBOSE_LABEL if self._verbose else LABEL, len(label) + 1)
        indent = " " * (3 + width)
        wrapped = [part for text in texts for part in self._wrap(text, indent)] or [""]
        for index, part in enumerate(wrapped):
            line = Text()
            if index == 0:
                line.append(f" {self._marks[state]} ", STYLES[state])
                line.append(f"{label:<{width}}", STYLES["dim"] if state == "skipped" else "")
            else:
                line.append(indent)
            line.append(part, STYLES["dim"] if state in {"skipped", "unknown"} else "")
            self._print(line)

    def _item(
        self, mark: str, mark_style: str, text: str, *, suffix: str = "", style: str = ""
    ) -> None:
        wrapped = self._wrap(text, "    ")
        for index, part in enumerate(wrapped):
            line = Text()
            line.append(f"{mark:>2}  " if index == 0 else "    ", mark_style)
            line.append(part, style)
            if index == len(wrapped) - 1:
                line.append(suffix, STYLES["dim"])
            self._print(line)

    def _block(self, text: str, style: str = "") -> None:
        for paragraph in text.splitlines():
            for part in self._wrap(paragraph, "    "):
                self._print(Text(f"    {part}", style))

    def _wrap(self, text: str, indent: str) -> list[str]:
        return textwrap.wrap(
            printable(text),
            self._width - len(indent),
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]

    def _text(self, text: str) -> str:
        return text if self._redaction is None else self._redaction.text(text)

    def _print(self, text: Text) -> None:
        self._console.print(text)

    def _clear(self) -> None:
        if self._status is not None:
            self._status.write("\r\x1b[K")
            self._status.flush()


def render(report: Report, stream: TextIO, *, verbose: bool = False, quiet: bool = False) -> None:
    """Print a finished report, as for a recording."""
    printer = TextReport(stream, verbose=verbose, quiet=quiet, subject=report.vantage.note)
    checked = [r for r in report.results if r.check is not plugin_broken]
    for layer in Layer:
        if members := [r for r in checked if r.check.layer == layer]:
            printer.decided(layer, members)
    printer.finish(report)


def _state(result: Result) -> str:
    """The mark of a result: a failed check of less than an error is a warning."""
    if result.status == "failed" and result.check.severity != "error":
        return "warning"
    return result.status


def _name(layer: Layer) -> str:
    return str(layer).replace("_", "-")


def _can_show(stream: TextIO, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or sys.getdefaultencoding())
    except (UnicodeEncodeError, LookupError):
        return False
    return True
