"""Diagnose from what people paste: the same checks, and what to ask the reporter for."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from musadoctor.doctor import Options, examine
from musadoctor.report import JSON, Question, Reading, Report, Result, redacted
from musadoctor.transcript import Piece, Transcript, read
from musadoctor.transcript.pieces import described


class Shown(NamedTuple):
    """What shows a fact."""

    what: str
    """In a person's words, where it is not shown."""
    command: str
    """For a reporter to copy."""
    fact: str = ""
    """What is known where it is shown, and need not be asked for."""


_MACHINE = Shown("the machine", "uname -a; cat /etc/os-release", "machine")
_CARDS = Shown("the cards on the bus", "lspci -nn -d 1ed5:", "gpus")
_MODULE = Shown(
    "the kernel module",
    "ls -d /sys/module/mtgpu; cat /proc/driver/musa/version; dkms status",
    "module_file",
)
_LOG = Shown("the kernel log", "sudo dmesg | grep -i mtgpu | tail -50", "kernel_log")
_GMI = Shown("mthreads-gmi", "mthreads-gmi", "gmi_answer")
_NODES = Shown(
    "the device nodes and who may open them", "id; ls -l /dev/mtgpu* /dev/dri", "device_nodes"
)
_TOOLKIT = Shown("the Toolkit and its components", "musa_version_query; mcc --version", "toolkit")
_MCC = Shown("the compiler", _TOOLKIT.command)
_VARIABLES = Shown(
    "the environment variables", "env | grep -e MUSA -e MTHREADS -e CCL -e PATH", "environment"
)
_LIBRARIES = Shown(
    "the libraries that would be loaded",
    "ldd $(pip show torch_musa | sed -n 's/^Location: //p')/torch_musa/lib/libmusa_kernels.so",
    "libraries",
)
_INFO = Shown("musaInfo", "musaInfo")
_PACKAGES = Shown(
    "the Python packages",
    "python --version; pip list | grep -i -e torch -e triton -e numpy",
    "torch_build",
)
_PYTHON = Shown("the Python", _PACKAGES.command)
_TORCH = Shown("import torch", "TORCH_DEVICE_BACKEND_AUTOLOAD=0 python -c 'import torch'")
_TORCH_MUSA = Shown(
    "import torch_musa",
    "python -c 'import torch, torch_musa; print(torch.musa.is_available(),"
    " torch.musa.device_count())'",
    "torch_musa_import",
)
_CONTAINER = Shown(
    "docker and its runtimes",
    "docker info | grep -i runtime; docker inspect NAME",
    "container_runtime",
)

SHOWN: dict[str, Shown] = {
    "machine": _MACHINE,
    "gpus": _CARDS,
    "kernel_driver": _MODULE,
    "module_file": _MODULE,
    "kernel_log": _LOG,
    "gmi": _GMI,
    "gmi_answer": _GMI,
    "device_nodes": _NODES,
    "container": _CONTAINER,
    "container_runtime": _CONTAINER,
    "toolkit": _TOOLKIT,
    "toolkits": _TOOLKIT,
    "version_query": _TOOLKIT,
    "mudnn": _TOOLKIT,
    "mccl": _TOOLKIT,
    "mcc": _MCC,
    "environment": _VARIABLES,
    "toolkit_routes": _VARIABLES,
    "libraries": _LIBRARIES,
    "user_driver": _LIBRARIES,
    "musa_info": _INFO,
    "musa_info_answer": _INFO,
    "python": _PYTHON,
    "distributions": _PACKAGES,
    "torch_build": _PACKAGES,
    "torch_musa_build": _PACKAGES,
    "torch_import": _TORCH,
    "torch_musa_import": _TORCH_MUSA,
    "torch_musa": _TORCH_MUSA,
}
"""What shows each fact, from the hardware up."""
_TRACEBACK = Shown(
    "the whole traceback", "TORCH_DEVICE_BACKEND_AUTOLOAD=0 python -c 'import torch, torch_musa'"
)
_IOMMU = Shown(
    "the IOMMU and the memory",
    "cat /proc/cmdline; grep MemTotal /proc/meminfo; ls /sys/kernel/iommu_groups | wc -l",
)
TELLING = (_GMI, _TOOLKIT, _PACKAGES, _TORCH_MUSA, _LOG, _CARDS, _CONTAINER)
"""What tells most where no cause is shown, as one would ask for it."""
OPEN: dict[str, tuple[Shown, ...]] = {
    "runtime-refuses-cards": (_CARDS, _IOMMU),
    "gpu-memory-misreported": (_IOMMU,),
    "driver-does-not-know-card": (_GMI, _TOOLKIT),
    "driver-not-loaded": (_LOG, _MODULE, _MACHINE),
    "driver-module-refused": (_LOG, _MODULE, _MACHINE),
    "driver-module-not-built": (_MACHINE,),
    "device-nodes-not-permitted": (_NODES,),
    "gmi-reports-error": (_CARDS, _LOG, _NODES, _CONTAINER),
    "gmi-query-fails": (_CARDS, _LOG, _NODES, _CONTAINER),
    "gmi-not-found": (_MODULE, _CONTAINER),
    "gpu-lockup": (_LOG, _GMI),
    "gpu-lockup-stops-torch": (_LOG, _GMI),
    "gpu-reports-xid": (_LOG, _GMI),
    "container-without-driver": (_CONTAINER,),
    "container-driver-file-broken": (_CONTAINER,),
    "container-started-without-runtime": (_CONTAINER,),
    "container-runtime-broken": (_CONTAINER,),
    "driver-toolkit-mismatch": (_GMI, _TOOLKIT),
    "toolkit-missing": (_TOOLKIT,),
    "mudnn-missing": (_TOOLKIT, _PACKAGES),
    "mccl-missing": (_PACKAGES,),
    "visible-devices-missing": (_GMI, _VARIABLES),
    "driver-refuses-runtime": (_GMI, _TOOLKIT),
    "libmusa-not-found": (_GMI, _LIBRARIES, _CONTAINER),
    "libmusart-not-found": (_TOOLKIT, _PACKAGES),
    "library-damaged": (_CONTAINER,),
    "musa-library-missing": (_TOOLKIT, _PACKAGES, _LIBRARIES),
    "musa-info-reports-error": (_GMI, _LOG, _TOOLKIT),
    "torch-without-musa": (_PACKAGES,),
    "torch-import-fails": (_TORCH, _PACKAGES),
    "package-built-for-cuda": (_PACKAGES,),
    "triton-without-musa": (_PACKAGES,),
    "torch-musa-missing": (_PACKAGES,),
    "torch-musa-import-fails": (_TRACEBACK, _PACKAGES, _TOOLKIT, _LIBRARIES),
    "torch-musa-unavailable": (_GMI, _LOG, _CARDS, _VARIABLES),
    "torch-musa-device-count": (_GMI, _VARIABLES),
    "torch-musa-step-fails": (_LOG, _TOOLKIT, _PACKAGES),
    "torch-musa-for-other-generation": (_TOOLKIT, _PACKAGES),
    "torch-musa-lacks-architecture": (_GMI, _TOOLKIT, _PACKAGES),
    "runtime-unknown-error": (_LOG, _GMI, _PACKAGES, _VARIABLES),
    "mudnn-operation-fails": (_TOOLKIT, _PACKAGES),
    "gpu-memory-exhausted": (_GMI,),
}
"""What settles what a cause leaves open; nothing for one that leaves nothing open."""
MOST_QUESTIONS = 4
MOST_DETAILS = 6
"""Of one kind of pieces so many are told apart on a line."""


def diagnose_transcript(
    texts: Sequence[tuple[str, bytes]], options: Options
) -> tuple[Transcript, Report]:
    """Read texts as one report and judge what they show.

    Raises:
        TranscriptError: a text is too long, or is none.
        SelectionError: the options name a check that is not there, or leave none.
    """
    transcript = read(texts)
    named = ", ".join(name for name, _ in texts)
    report = examine(transcript.system, options._replace(transcript=named))
    report = report._replace(results=tuple(map(_not_cleared, report.results)))
    reading = Reading(
        recognised=tuple(_merged(transcript.pieces)),
        not_shown=tuple(_not_shown(report.facts)),
        ask=tuple(_questions(report)),
        summary=_summary(report, recognised=bool(transcript.pieces)),
    )
    report = report._replace(reading=reading)
    for person in transcript.people if options.redact else ():
        report = redacted(report, person)
    return transcript, report


_UNKNOWN: JSON = {"unknown": "not asked"}


def _unknown(fact: JSON) -> bool:
    """Whether it is not shown; a card that is only named is not shown to be there."""
    return isinstance(fact, dict) and ("unknown" in fact or fact.get("by_name") is True)


def _not_cleared(result: Result) -> Result:
    """What is shown in part may tell a fault, but clears nobody: a text never shows all."""
    if result.status != "passed":
        return result
    shown = "; ".join(evidence.text for evidence in result.evidence)
    return result._replace(
        status="unknown", reason=f"no fault in what is shown: {shown}", evidence=()
    )


def _merged(pieces: Sequence[Piece]) -> list[str]:
    """One line for pieces of a kind that follow each other in a text."""
    groups: list[list[Piece]] = []
    for piece in pieces:
        last = groups[-1][-1] if groups else None
        if last and (last.what, last.first.name) == (piece.what, piece.first.name):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    lines: list[str] = []
    for group in groups:
        details = list(dict.fromkeys(piece.detail for piece in group if piece.detail))
        if len(details) > MOST_DETAILS:
            details[MOST_DETAILS:] = [f"and {len(details) - MOST_DETAILS} more"]
        end = max((piece.last for piece in group), key=lambda line: line.at)
        lines.append(described(group[0].what, group[0].first, end, details))
    return lines


def _not_shown(facts: dict[str, JSON]) -> list[str]:
    """What no part of the text shows: each fact that it would give is unknown."""
    given: dict[str, list[JSON]] = {}
    for name, shown in SHOWN.items():
        if name in facts:
            given.setdefault(shown.what, []).append(facts[name])
    return [what for what, known in given.items() if all(map(_unknown, known))]


def _questions(report: Report) -> list[Question]:
    """What would settle what the first cause leaves open; without a cause, what tells most."""
    causes = [cause.check.id for cause in report.causes if cause.check.severity != "note"]
    wanted = OPEN.get(causes[0], ()) if causes else TELLING
    asked = [shown for shown in wanted if _unknown(report.facts.get(shown.fact, _UNKNOWN))]
    return [
        Question(shown.command, tuple(_undecided(shown, report)) or tuple(causes[:1]))
        for shown in asked[:MOST_QUESTIONS]
    ]


def _undecided(shown: Shown, report: Report) -> Iterator[str]:
    """The errors that a command would help to decide."""
    for result in report.results:
        if result.status == "unknown" and result.check.severity == "error":
            needs = [SHOWN[name].command for name in result.check.needs if name in SHOWN]
            if shown.command in needs:
                yield result.check.id


def _summary(report: Report, *, recognised: bool) -> str:
    causes = report.causes
    if causes and (check := causes[0].check).severity != "note":
        if check.follows_from is not None:
            return f"{check.title} ({check.id}); what is behind it is not shown"
        verb = "fix" if check.severity == "error" else "look at"
        return f"The first thing to {verb} is {check.id}: {check.title}"
    torch_musa = report.facts.get("torch_musa")
    if isinstance(torch_musa, dict) and torch_musa.get("available") is True:
        return (
            "The environment works as far as it is shown, so this looks like a fault of a library"
            " or of the program: file it at the library's tracker with a program of a few lines,"
            " the whole traceback, and the versions of driver, Toolkit, muDNN, torch, torch_musa."
        )
    if causes:
        first = causes[0]
        return f"Nothing that is shown is wrong; see the note {first.check.id}: {first.check.title}"
    if not recognised:
        return "Nothing was recognised: no tool's output, no version, no known error text."
    return (
        "Nothing that is shown is wrong, and much is not shown. Ask for the outputs above; if"
        " they are in order too, it looks like a fault of a library, to be filed at its tracker"
        " with a program of a few lines and these versions."
    )
