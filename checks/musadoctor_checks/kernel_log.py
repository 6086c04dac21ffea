"""Faults of the cards that the kernel log tells of."""

import re
from collections.abc import Iterable, Mapping

from musadoctor.api import (
    Absent,
    Container,
    Finding,
    Fix,
    Gpus,
    Judgement,
    KernelLog,
    KernelMessage,
    Layer,
    Messages,
    TorchMusa,
    Unknown,
    check,
)
from musadoctor_checks._advice import BUG_REPORT, some
from musadoctor_checks.knowledge import xids

# Compiled when first needed: on most hosts the kernel log holds nothing to search.
_LOCKUP = r"(?i)\bPID (?P<pid>\d{1,10}) .*?\b(?P<kind>Guilty|Innocent) Lockup"
_XID = r"(?i)\bxid\b.{0,40}?(?P<code>0x0[0-9a-f]{7})\b"

STOPPED = Fix(
    "End what else computes on the cards and try again; if torch still fails, gather the vendor's"
    " report and restart the machine",
    ("mthreads-gmi", BUG_REPORT),
)


def when(seconds: float | None) -> str:
    """A time after the machine's start, for people."""
    if seconds is None:
        return "at an unknown time"
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{seconds:.0f} s after the start"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min after the start" if hours else f"{minutes} min after the start"


def _lockups(messages: Iterable[KernelMessage], kind: str) -> dict[str, list[KernelMessage]]:
    """The messages of a kind, by process."""
    found: dict[str, list[KernelMessage]] = {}
    for message in messages:
        lockup = re.search(_LOCKUP, message.text)
        if lockup and lockup["kind"].lower() == kind:
            found.setdefault(lockup["pid"], []).append(message)
    return found


def _times(messages: list[KernelMessage]) -> str:
    count = f"{len(messages)} times, last " if len(messages) > 1 else ""
    return f"{count}{when(messages[-1].seconds)}"


def _without_cards(id: str, messages: Messages, facts: Mapping[str, object]) -> Judgement:  # noqa: A002, ARG001
    """A transcript may hold the kernel's words and name no card."""
    log = facts["kernel_log"]
    if isinstance(log, KernelLog):
        yield from _lockup(log) if id == "gpu-lockup" else _xid(log)


@check("gpu-lockup", layer=Layer.DRIVER, severity="warning", said=_without_cards)
def gpu_lockup(
    gpus: Gpus, kernel_log: KernelLog, container: Container | Absent | Unknown
) -> Judgement:
    """A card hung since the machine was started, and the driver reset what ran on it.

    ## Why it matters

    The driver calls the process whose work hung guilty, and those that lost theirs with it
    innocent. Both go on with `MUSA error: unknown error`. The card mostly works again for processes
    that are started later.

    ## How to fix

    End the guilty process, or restart it, and start the others again. A desktop on a card for
    computing is a common guilty one: let it use another card. If it comes back, gather the vendor's
    report, restart the machine, and see whether a newer driver is to be had.

    ## Symptoms

    - `experienced error Guilty Lockup (0x1)`
    - `experienced error Innocent Lockup (0x2)`
    - `RuntimeError: MUSA error: unknown error`

    ## Sources

    torch_musa issues 22 and 75 (2024).
    """
    del gpus  # without a card the question does not arise
    yield from _lockup(kernel_log, inside=isinstance(container, Container))


def _lockup(kernel_log: KernelLog, *, inside: bool = False) -> Judgement:
    guilty, said = _told(kernel_log)
    if said:
        pids = ",".join(guilty[:4])
        look = () if inside or not pids else (f"ps -o pid,lstart,args -p {pids}",)
        yield Finding(
            f"the kernel log tells of {some(said)}",
            where="dmesg",
            fix=Fix(
                "End or restart the guilty process, if it still runs, and start the others again;"
                " if it comes back, gather the vendor's report and restart the machine",
                (*look, BUG_REPORT),
            ),
        )
    elif kernel_log.excerpt:
        yield Unknown(f"{kernel_log}: none of them tells of a lockup")


def _told(kernel_log: KernelLog) -> tuple[list[str], list[str]]:
    """The guilty processes, and all lockups in words."""
    guilty = _lockups(kernel_log.messages, "guilty")
    innocent = _lockups(kernel_log.messages, "innocent")
    said = [f"Guilty Lockup of PID {pid} ({_times(found)})" for pid, found in guilty.items()]
    said += [
        f"Innocent Lockup of PID {pid} ({_times(found)})"
        for pid, found in innocent.items()
        if pid not in guilty
    ]
    return [*guilty], said


def _said(id: str, messages: Messages, facts: Mapping[str, object]) -> Judgement:  # noqa: A002, ARG001
    """The error of a program in a transcript, beside the kernel log."""
    log = facts["kernel_log"]
    lockups = _told(log)[1] if isinstance(log, KernelLog) else []
    for line in messages.lines if lockups else ():
        if "unknown error" in line.text:
            yield Finding(
                f'"{line.text[:240]}", and the kernel log tells of {some(lockups)}',
                where=line.where,
                fix=STOPPED,
            )
            return


@check("gpu-lockup-stops-torch", layer=Layer.TORCH_MUSA, severity="error", said=_said)
def gpu_lockup_stops_torch(
    torch_musa: TorchMusa, kernel_log: KernelLog | Absent | Unknown
) -> Judgement:
    """torch fails with an unknown error or hangs, and the kernel log tells of a card that hung.

    ## Why it matters

    `MUSA error: unknown error` is what a program sees whose card was reset under it. The program's
    own code and the installation may both be sound.

    ## How to fix

    End what else computes on the card, and try again. If torch still fails, gather the vendor's
    report and restart the machine; a newer driver may help.

    ## Symptoms

    - `RuntimeError: MUSA error: unknown error`

    ## Sources

    torch_musa issues 22 and 75 (2024).
    """
    probes = [probe for d in torch_musa.devices for probe in (d.add, d.bf16_add)]
    failures = [*torch_musa.failures, *(p.failure for p in probes if p.failure)]
    like = [f for f in failures if f.kind == "hang" or "unknown error" in f.message]
    if not like:
        return
    if isinstance(kernel_log, Unknown):
        yield kernel_log
        return
    said = _told(kernel_log)[1] if isinstance(kernel_log, KernelLog) else []
    if said:
        yield Finding(
            f"{like[0]}, and the kernel log tells of {some(said)}",
            where="dmesg",
            fix=STOPPED,
        )
    elif isinstance(kernel_log, KernelLog) and kernel_log.excerpt:
        yield Unknown(f"{kernel_log}: none of them tells of a lockup")


@check("gpu-reports-xid", layer=Layer.DRIVER, severity="warning", said=_without_cards)
def gpu_reports_xid(gpus: Gpus, kernel_log: KernelLog) -> Judgement:
    """A card reported a fault by number (XID) since the machine was started.

    ## Why it matters

    The numbers tell of faults in the card, its memory or its links. Some of them end only with a
    restart.

    ## How to fix

    Stop what runs on the card, gather the vendor's report before anything is restarted, and send it
    to the vendor. The records of the driver are in `/var/log/mtgpu/event_report`.

    ## Symptoms

    - `XID` with one of `0x02000007`, `0x07000001`, `0x07000003`, `0x07000004` in the kernel log

    ## Sources

    Moore Threads gpu-debug guide (2026). How the line looks around the number is unconfirmed.
    """
    del gpus
    yield from _xid(kernel_log)


def _xid(kernel_log: KernelLog) -> Judgement:
    meanings = {row.code: row.meaning for row in xids()}
    found: dict[str, list[KernelMessage]] = {}
    for message in kernel_log.messages:
        if xid := re.search(_XID, message.text):
            found.setdefault(xid["code"].lower(), []).append(message)
    for code, messages in found.items():
        meaning = meanings.get(code, "a number that musadoctor does not know")
        yield Finding(
            f"the kernel log tells of XID {code}, {meaning} ({_times(messages)}):"
            f" {messages[-1].text}",
            where="dmesg",
            fix=Fix(
                "Stop what runs on the card, and gather the vendor's report before a restart",
                (BUG_REPORT, "sudo ls -R /var/log/mtgpu/event_report"),
            ),
        )
    if kernel_log.excerpt and not found:
        yield Unknown(f"{kernel_log}: none of them tells of an XID")
