"""Diagnose from what people paste: the same checks, and what to ask the reporter for."""

from collections.abc import Sequence

from musadoctor.doctor import Options, examine
from musadoctor.report import Question, Reading, Report
from musadoctor.transcript import Transcript, read

QUESTIONS: dict[str, str] = {
    "machine": "uname -a; cat /etc/os-release",
    "gpus": "lspci -nn -d 1ed5:",
    "kernel_driver": "lsmod | grep mtgpu; sudo dmesg | grep -i mtgpu | tail -50",
    "gmi": "mthreads-gmi",
    "gmi_answer": "mthreads-gmi",
    "device_nodes": "id; ls -l /dev/mtgpu* /dev/dri",
    "toolkit": "musa_version_query",
    "toolkits": "ls -ld /usr/local/musa*; musa_version_query",
    "version_query": "musa_version_query",
    "mudnn": "musa_version_query",
    "mccl": "musa_version_query",
    "mcc": "mcc --version",
    "environment": "env | grep -e MUSA -e MTHREADS -e MCCL -e LD_LIBRARY_PATH -e ^PATH",
    "toolkit_routes": "env | grep -e MUSA -e MTHREADS -e MCCL -e LD_LIBRARY_PATH -e ^PATH",
    "libraries": "ldd $(python -c 'import torch.utils as u; print(u.__path__[0])')"
    "/../../torch_musa/lib/libmusa_kernels.so",
    "user_driver": "ldconfig -p | grep -e libmusa -e libmtml",
    "musa_info": "musaInfo",
    "musa_info_answer": "musaInfo",
    "torch_build": "pip list | grep -i -e torch -e triton -e numpy",
    "torch_musa_build": "pip list | grep -i -e torch -e triton -e numpy",
    "distributions": "pip list | grep -i -e torch -e triton -e numpy",
    "python": "python --version; which python",
    "torch_import": "TORCH_DEVICE_BACKEND_AUTOLOAD=0 python -c 'import torch'",
    "torch_musa_import": "python -c 'import torch, torch_musa; print(torch.musa.is_available(),"
    " torch.musa.device_count())'",
    "torch_musa": "python -c 'import torch, torch_musa; print(torch.musa.is_available(),"
    " torch.musa.device_count())'",
    "container": "docker info | grep -i runtime; docker inspect NAME",
}
"""For each fact the command that shows it, for a reporter to copy."""
MOST_QUESTIONS = 6


def diagnose_transcript(
    texts: Sequence[tuple[str, bytes]], options: Options
) -> tuple[Transcript, Report]:
    """Read texts as one report and judge what they show.

    Raises:
        TranscriptError: a text is too long.
        SelectionError: the options name a check that is not there, or leave none.
    """
    transcript = read(texts)
    named = ", ".join(name for name, _ in texts)
    report = examine(transcript.system, options._replace(transcript=named))
    recognised = tuple(map(str, transcript.pieces))
    reading = Reading(recognised, tuple(_questions(report)), _summary(report, recognised))
    return transcript, report._replace(reading=reading)


def _questions(report: Report) -> list[Question]:
    """The commands that would decide most of the errors that are undecided."""
    decided: dict[str, list[str]] = {}
    for result in report.results:
        if result.status != "unknown" or result.check.severity != "error":
            continue
        for name in result.check.needs:
            fact = report.facts.get(name)
            if isinstance(fact, dict) and "unknown" in fact and name in QUESTIONS:
                ids = decided.setdefault(QUESTIONS[name], [])
                if result.check.id not in ids:
                    ids.append(result.check.id)
    ranked = sorted(decided.items(), key=lambda item: -len(item[1]))
    return [Question(command, tuple(ids)) for command, ids in ranked[:MOST_QUESTIONS]]


def _summary(report: Report, recognised: Sequence[str]) -> str:
    causes = report.causes
    if any(cause.check.severity == "error" for cause in causes):
        first = causes[0]
        return f"The first thing to fix is {first.check.id}: {first.check.title}."
    if any(cause.check.severity == "warning" for cause in causes):
        first = causes[0]
        return f"Nothing that is shown breaks MUSA; look at {first.check.id}: {first.check.title}."
    torch_musa = report.facts.get("torch_musa")
    works = isinstance(torch_musa, dict) and torch_musa.get("available") is True
    if works:
        return (
            "The environment works as far as it is shown, so this looks like a fault of a library"
            " or of the program: file it at the library's tracker with a program of a few lines,"
            " the whole traceback, and the versions of driver, Toolkit, muDNN, torch and torch_musa."
        )
    if not recognised:
        return "Nothing was recognised: no tool's output, no version, no known error text."
    return (
        "Nothing that is shown is wrong, and much is not shown. Ask for the outputs above; if"
        " they are in order too, it looks like a fault of a library, to be filed at its tracker"
        " with a program of a few lines and these versions."
    )
