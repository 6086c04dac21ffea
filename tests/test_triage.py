"""``musadoctor triage``: the public failures, healthy version sets, and texts that are damaged."""

import json
import os
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from diagnosed import EXPECTED, diagnosed
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support import SAMPLES, TESTS

from musadoctor.doctor import Options
from musadoctor.report import Report
from musadoctor.transcript import TranscriptError, read
from musadoctor.transcript.text import MOST_BYTES, lines_of
from musadoctor.triage import diagnose_transcript

CASES = TESTS / "transcripts"
SECOND = {"027-check-status-undefined-pvrsrv"}
"""Where the right cause comes behind one that is at a lower layer and right as well."""
HEALTHY = [
    *sorted(path.name for path in SAMPLES.glob("sglang-check_env*")),
    *sorted(path.name for path in SAMPLES.glob("musa_report*")),
    *sorted(
        path.name
        for path in SAMPLES.glob("*gmi*drv*.txt")
        if "32g" not in path.name and "error" not in path.name
    ),
    *sorted(path.name for path in SAMPLES.glob("musa_version_query*")),
    *sorted(path.name for path in SAMPLES.glob("lspci-*n*")),
]


def triage(text: str | bytes) -> Report:
    data = text.encode() if isinstance(text, str) else text
    return diagnose_transcript([("report", data)], Options(plugins=False))[1]


def causes(report: Report) -> list[str]:
    return [cause.check.id for cause in report.causes if cause.check.severity != "note"]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_public_failure_is_named_first(name: str) -> None:
    case = diagnosed(name)
    wanted = "right in the first three" if name in SECOND else "right first"
    assert case.outcome == wanted, case


def test_every_case_has_a_transcript() -> None:
    assert {path.stem for path in CASES.glob("*.txt")} == set(EXPECTED)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_working_version_set_has_no_cause(name: str) -> None:
    assert causes(triage((SAMPLES / name).read_bytes())) == []


OTHER_WORDS = [
    ("mccl-missing", "S3000, SDK 4.0.1\nOSError: libmccl.so.2: cannot open shared object file"),
    ("mudnn-missing", "按照文档装好 musa toolkit 后 import torch_musa 报错:找不到 libmudnn.so.3"),
    ("libmusart-not-found", "> ImportError: libmusart.so.5: cannot open shared object file\n"),
    ("libmusa-not-found", "RuntimeError: Found no driver on your system. torch_musa 2.7.1"),
    ("driver-refuses-runtime", "error: 'no such combination'(803) at musaInfo.cpp:155"),
    ("driver-toolkit-mismatch", "驱动版本: 5.2.0\nMUSA toolkits 4.3.5\nS5000 跑 vllm 报错"),
    ("torch-for-other-gpus", "pip list\ntorch      2.7.1+cu126\ntorch_musa  2.7.1"),
    ("torch-of-other-release", "| torch | 2.5.0 |\n| torch_musa | 2.7.1 |"),
    ("driver-not-loaded", "modprobe: FATAL: Module mtgpu not found in directory /lib/modules/6.8"),
    ("device-nodes-not-permitted", "Error: failed to initialize mtml.\nwith sudo it works"),
    ("windows-subsystem-for-linux", "Running on WSL2 with MTT S80, Ubuntu 22.04"),
    ("not-linux", "Windows 11, MTT S70, where are the wheels of torch_musa"),
    ("unsupported-cpu-architecture", "华为鲲鹏 920 服务器 + S4000, 装不了 musa 驱动"),
    ("gpu-reports-xid", "[ 1.0] mtgpu: XID 0x07000003"),
    ("runtime-unknown-error", "[ 1.0] mtgpu: XID 0x07000003\nMUSA error: unknown error"),
    ("gmi-reports-error", "容器里执行 mthreads-gmi 没有任何输出, 宿主机正常"),
    ("bf16-asked-of-card-without-it", "S3000 上 bf16 计算报错, musa"),
    ("torch-musa-for-other-generation", "torch_musa 2.9.1+musa5.2.0, MUSA Toolkit 4.3.5"),
    ("gpu-memory-misreported", "0    MTT S4000   |00000000:1a:00.0   |0%    2MiB(32768MiB)"),
    ("gpu-memory-misreported", "0 MTT S4000 00000000:1a:00.0 0% 2MiB(32768MiB)"),
    ("gpu-generation-unsupported", "MTT S50, Ubuntu 20.04, torch_musa 1.3.0"),
]


@pytest.mark.parametrize(("first", "text"), OTHER_WORDS)
def test_other_words_name_the_same_cause(first: str, text: str) -> None:
    assert causes(triage(text))[:1] == [first]


@pytest.mark.parametrize(
    "text",
    [
        "MTT S5000, driver 3.3.5-server, toolkit 4.3.5, torch_musa 2.7.1, is_available() True",
        "S4000 driver 3.3.1-server, MUSA SDK 4.3.1, torch 2.5.0 torch_musa 2.5.0, Ubuntu 22.04",
    ],
)
def test_a_healthy_environment_has_no_cause(text: str) -> None:
    assert causes(triage(text)) == []


def test_a_healthy_environment_is_said_to_be_one() -> None:
    report = triage("torch_musa 2.7.1\ntorch.musa.is_available() returns True\ndevice count: 1")
    assert report.reading is not None
    assert "fault of a library" in report.reading.summary


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory. torch 2.5.1+cu124, RTX 4090, nvidia driver 550.54",
        "# A readme\nrun make; error: failed",
        "[ 1.0] usb 1-1: device descriptor read/64, error -71",
        "",
    ],
)
def test_a_text_without_musa_is_known_as_one(text: str) -> None:
    assert not read([("text", text.encode())]).of_musa


def test_nothing_that_was_not_pasted_is_green() -> None:
    report = triage("torch_musa 2.7.1 crashes")
    passed = [r for r in report.results if r.status == "passed" and r.check.severity == "error"]
    assert [r.check.id for r in passed] == []
    assert report.verdict == "unknown"


def test_what_is_asked_for_would_decide_errors() -> None:
    report = triage("torch_musa 2.7.1 crashes on an MTT S80")
    assert report.reading is not None
    assert report.reading.ask
    assert all(question.undecided for question in report.reading.ask)


def test_line_numbers_are_those_of_the_text() -> None:
    report = triage("hello\n\nMTT S80\ndriver 2.7.0\n")
    assert report.reading is not None
    assert report.reading.recognised == ("line 3: card MTT S80", "line 4: driver 2.7.0")


def test_several_texts_are_one_report() -> None:
    texts = [("a.txt", b"torch_musa 2.7.1"), ("b.txt", b"torch 2.5.0")]
    _, report = diagnose_transcript(texts, Options(plugins=False))
    assert causes(report)[0] == "torch-of-other-release"
    assert report.reading is not None
    assert report.reading.recognised[1].startswith("b.txt, line 1")


PASTED = (CASES / "032-sdk-4.2-s80-no-mccl.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "data",
    [
        PASTED.encode("utf-8-sig"),
        PASTED.encode("utf-16"),
        PASTED.encode("utf-16-le"),
        PASTED.replace("\n", "\r\n").encode(),
        ("摩尔线程\n" + PASTED).encode("gbk"),
        PASTED.replace("\n", "\x1b[0m\n").encode(),
        PASTED.replace(" ", " \0").encode(),
        ("> " + PASTED.replace("\n", "\n> ")).encode(),
        (PASTED + PASTED).encode(),
    ],
)
def test_the_cause_survives_how_it_was_pasted(data: bytes) -> None:
    assert causes(triage(data))[0] == "mccl-missing"


def test_chinese_is_read_in_its_old_encoding() -> None:
    assert [line.text for line in lines_of("驱动版本".encode("gb18030"), "")] == ["驱动版本"]


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(TranscriptError, match="64 MiB"):
        read([("long", b" " * (MOST_BYTES + 1))])


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with suppress(TranscriptError):
        read([("any", data)])


ALL = [path.read_text(encoding="utf-8") for path in sorted(CASES.glob("*.txt"))]


@settings(max_examples=60, deadline=None)
@given(st.integers(), st.sampled_from(ALL), st.sampled_from(ALL))
def test_no_damage_breaks_the_report(seed: int, first: str, second: str) -> None:
    chance = random.Random(seed)
    lines = [*first.splitlines(), *second.splitlines()]
    chance.shuffle(lines)
    cut = [line[: chance.randrange(len(line) + 1)] for line in lines for _ in range(2)]
    assert triage("\n".join(cut)).bugs == ()


def test_the_command_reads_standard_input(tmp_path: Path) -> None:
    done = _run(tmp_path, PASTED)
    assert done.returncode == 1
    assert b"mccl-missing" in done.stdout


def test_the_command_refuses_what_is_not_of_musa(tmp_path: Path) -> None:
    done = _run(tmp_path, "hello")
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"nothing of MUSA" in done.stderr


def test_what_is_no_text_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b" \n")
    (tmp_path / "program").write_bytes(b"\x7fELF musa")
    (tmp_path / "noise").write_bytes(bytes(range(1, 8)) * 90 + b"musa")
    os.mkfifo(tmp_path / "pipe")
    for name, why in {
        "none": "cannot read none: No such file or directory",
        ".": "cannot read .: Is a directory",
        "/dev/zero": "cannot read /dev/zero: a device, expected a text",
        "pipe": "pipe is empty",
        "empty": "empty is empty",
        "program": "program: binary data, expected a text",
        "noise": "noise: binary data, expected a text",
    }.items():
        done = _run(tmp_path, "", name)
        assert (done.returncode, done.stdout) == (2, b""), name
        assert done.stderr.decode().splitlines() == [f"musadoctor: {why}"]


def test_the_json_follows_its_schema(tmp_path: Path) -> None:
    report = json.loads(_run(tmp_path, PASTED, "-", "--json").stdout)
    schema = json.loads((TESTS.parent / "docs/report.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(report)
    assert report["vantage"]["kind"] == "transcript"
    assert report["transcript"]["not_shown"]


def _run(folder: Path, text: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "musadoctor", "triage", *(arguments or ("-",))],
        input=text.encode(),
        capture_output=True,
        cwd=folder,
        check=False,
    )
