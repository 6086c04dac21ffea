"""Faults of the cards in the kernel log."""

import pytest
from given import CARDS, DOCKER, HEALTHY, fixes, judged, said, skipped, unknown
from given_torch import device
from support import sample

from musadoctor.api import (
    Absent,
    Check,
    ChildFailure,
    KernelLog,
    KernelMessage,
    Probe,
    TorchMusa,
    Unknown,
)
from musadoctor.probes.kernel import parse_kernel_log
from musadoctor_checks import kernel_log as family
from musadoctor_checks.knowledge import Xid, xids

EMPTY = KernelLog((), since_start=True)
LOCKUPS = parse_kernel_log(sample("dmesg-mtgpu-lockup.txt"))
TOLD = (
    "the kernel log tells of Guilty Lockup of PID 1747 (3 times, last 6 h 41 min after the start),"
    " Innocent Lockup of PID 115094 (6 h 41 min after the start)"
)
BUG_REPORT = "sudo mthreads-bug-report.sh"


def log(*lines: str) -> KernelLog:
    return KernelLog(tuple(KernelMessage(None, line) for line in lines), since_start=True)


def test_lockups() -> None:
    assert said(family.gpu_lockup, kernel_log=LOCKUPS) == (TOLD,)
    assert fixes(family.gpu_lockup, kernel_log=LOCKUPS) == (
        ("ps -o pid,lstart,args -p 1747", BUG_REPORT),
    )
    # The numbers in the log are those of the host.
    assert fixes(family.gpu_lockup, kernel_log=LOCKUPS, container=DOCKER) == ((BUG_REPORT,),)
    assert said(family.gpu_lockup, kernel_log=EMPTY) == ()
    assert said(family.gpu_lockup, kernel_log=log("mtgpu: loading out-of-tree module")) == ()
    assert unknown(family.gpu_lockup, kernel_log=Unknown("for root only")) == "for root only"
    assert skipped(family.gpu_lockup, kernel_log=LOCKUPS, gpus=Absent("no card"))


def test_only_victims() -> None:
    found = log("MTGPU:(Error): 1:  PID 7 experienced error Innocent Lockup (0x2)")
    assert said(family.gpu_lockup, kernel_log=found) == (
        "the kernel log tells of Innocent Lockup of PID 7 (at an unknown time)",
    )
    assert fixes(family.gpu_lockup, kernel_log=found) == ((BUG_REPORT,),)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "at an unknown time"),
        (12.7, "13 s after the start"),
        (600.0, "10 min after the start"),
        (90000.0, "25 h 0 min after the start"),
    ],
)
def test_times(seconds: float | None, words: str) -> None:
    assert family.when(seconds) == words


def torch_musa(*, add: str = "", step: ChildFailure | None = None) -> TorchMusa:
    failure = ChildFailure("device 0: add", "exception", add) if add else None
    return TorchMusa(
        version="2.9.1",
        toolkit="50200",
        available=True,
        warnings=(),
        device_count=1,
        devices=(device(add=Probe(done=not failure, failure=failure)),),
        bf16_supported=True,
        architectures=(),
        mudnn=None,
        mapped=(),
        failures=(step,) if step else (),
    )


@pytest.mark.parametrize(
    ("torch", "begin"),
    [
        (torch_musa(add="MUSA error: unknown error"), "device 0: add: MUSA error: unknown error"),
        (
            torch_musa(step=ChildFailure("device 0: name", "hang", "no answer in 60 s")),
            "device 0: name: no answer in 60 s",
        ),
    ],
)
def test_torch_fails_after_a_lockup(torch: TorchMusa, begin: str) -> None:
    check = family.gpu_lockup_stops_torch
    assert said(check, torch_musa=torch, kernel_log=LOCKUPS) == (f"{begin}, and {TOLD}",)
    assert said(check, torch_musa=torch, kernel_log=EMPTY) == ()
    assert said(check, torch_musa=torch, kernel_log=Absent("no driver")) == ()
    assert unknown(check, torch_musa=torch, kernel_log=Unknown("root's")) == "root's"


@pytest.mark.parametrize(
    "check", [family.gpu_lockup, family.gpu_lockup_stops_torch, family.gpu_reports_xid]
)
def test_a_part_of_a_log_clears_nothing(check: Check) -> None:
    part = EMPTY._replace(excerpt=True)
    torch = torch_musa(add="MUSA error: unknown error")
    assert "left out" in str(unknown(check, torch_musa=torch, kernel_log=part))


@pytest.mark.parametrize("torch", [torch_musa(), torch_musa(add="invalid device function")])
def test_torch_does_not_fail_by_a_lockup(torch: TorchMusa) -> None:
    for kernel_log in (LOCKUPS, Unknown("root's")):
        check = family.gpu_lockup_stops_torch
        assert said(check, torch_musa=torch, kernel_log=kernel_log) == ()


@pytest.mark.parametrize("row", xids(), ids=lambda row: row.code)
def test_known_numbers(row: Xid) -> None:
    code, meaning = row.code, row.meaning
    line = f"MTGPU:(Error): XID: {code.upper().replace('X', 'x')} card 0"
    assert said(family.gpu_reports_xid, kernel_log=log(line)) == (
        f"the kernel log tells of XID {code}, {meaning} (at an unknown time): {line}",
    )


def test_numbers_that_are_not_in_the_table() -> None:
    found = log("mtgpu: xid=0x0900ABCD", "mtgpu: xid=0x0900abcd")
    (message,) = said(family.gpu_reports_xid, kernel_log=found)
    assert message.startswith(
        "the kernel log tells of XID 0x0900abcd, a number that musadoctor does not know (2 times"
    )


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:01:00): 13, Graphics SM Warp Exception: ESR 0x505730=0x1",
        "mtgpu: 0x07000001",
        "mtgpu: maxid 0x07000001",
    ],
)
def test_no_number_of_the_vendor(line: str) -> None:
    assert said(family.gpu_reports_xid, kernel_log=log(line)) == ()


def test_a_healthy_host_says_nothing() -> None:
    assert HEALTHY["kernel_log"] == EMPTY
    assert judged(family.gpu_reports_xid).status == "passed"
    assert CARDS.cards
