"""Reports as people write them: languages, marks, several hosts; what is asked, what is kept."""

import io

import pytest
from test_triage import causes, triage

from musadoctor.doctor import Options
from musadoctor.render.reading import render
from musadoctor.transcript import read
from musadoctor.triage import MOST_QUESTIONS, OPEN, diagnose_transcript

LOST = "cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("first", "text"),
    [
        ("mccl-missing", "S80上面import torch报错OSError: libmccl.so.2: 无法打开共享对象文件: 没有"),
        ("library-damaged", "musa 容器 ImportError: /usr/lib/libmusa.so.4: 文件过短"),
        ("torch-without-musa", "ImportError: /x/torch_musa/lib/libmusa_kernels.so:未定义符号: _Z"),
        ("mudnn-missing", "S80 ImportErorr: libmudnn.so.3: canot open shared: No such file"),
        ("not-linux", "想在windows 10上面用S80显卡跑模型"),
        ("bf16-asked-of-card-without-it", "在S3000上用bf16报错,musa"),
        ("driver-module-refused", "<pre>could not insert &#39;mtgpu&#39;: Invalid argument</pre>"),
        ("torch-for-other-gpus", "S80<br>torch&nbsp;2.5.1+cu124<br>torch_musa 2.5.0"),
        ("container-runtime-broken", "fork/exec /usr/bin/musa/mthreads-container-runtime: no such"),
        ("cxx-headers-missing", "fatal error: 'type_traits' file not found\n1 error generated when compiling for mp_10"),
        ("gpu-memory-exhausted", "alloc_tensor_range: failed to allocate MUSA0 buffer of size 194"),
        ("gmi-reports-error", "容器里执行mthreads-gmi后啥也不显示"),
        ("gmi-reports-error", "inside the container mthreads-gmi prints nothing"),
        ("unsupported-cpu-architecture", "musa_2.7.0_amd64.deb: does not match system (arm64)"),
    ],
)  # fmt: skip
def test_the_cause_is_named_in_any_words(first: str, text: str) -> None:
    assert causes(triage(text))[:1] == [first]


@pytest.mark.parametrize(
    "text",
    [
        "torch_musa 2.7.1\n>>> import torch\n>>> torch.__version__\n'2.7.1+cu126'",
        "torch_musa 2.7.1, torch 2.7.1\n>>> torch.version.cuda\n'12.6'",
        "pytorch  2.1.2  py3.10_cuda12.1_cudnn8.9.2_0  pytorch\ntorch-musa 1.3.0 pypi_0 pypi",
        "pytorch-cuda  12.1  ha16c6d3_5  pytorch\npytorch 2.1.2\ntorch-musa 1.3.0 pypi_0 pypi",
        "nvidia-cublas-cu12  12.4.5.8\ntorch  2.5.0\ntorch_musa  2.5.0",
    ],
)
def test_a_torch_for_cuda_is_known_by_its_number_its_build_and_its_company(text: str) -> None:
    assert causes(triage(text))[:1] == ["torch-for-other-gpus"]


@pytest.mark.parametrize(
    "text",
    [
        "torch_musa 2.7.1, torch 2.7.1\n>>> torch.version.cuda\n>>> torch.version.cuda\nNone",
        "torch_musa 2.7.1\n>>> torch.__version__\n>>> torch_musa.__version__\n2.7.1+87a0b4f",
        "nvidia-cublas-cu12  12.4.5.8\ntorch  2.5.0\ntorch_musa  2.5.0\nis_available() True",
        "nvidia-cublas-cu12  12.4.5.8\ntorch  2.5.0a0+git8ac9b20\ntorch_musa  2.5.0",
        "nvidia-cublas-cu12  12.4.5.8\ntorch_musa  2.5.0",
        "torch==2.99999999999 torch_musa==2.7.1",
    ],
)
def test_a_torch_is_not_one_for_cuda_without_a_sign(text: str) -> None:
    assert causes(triage(text)) == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"toolkit 4.3.1\nImportError: libmusart.so.5: {LOST}", "torch-musa-for-other-generation"),
        (f"toolkit 5.2.0\nImportError: libmusart.so.4: {LOST}", "torch-musa-for-other-generation"),
        (
            f"toolkit 4.3.1\nImportError: libmusart.so.1.0: {LOST}",
            "torch-musa-for-other-generation",
        ),
        (
            f"lrwxrwxrwx 1 root root 10 musa -> musa-4.3.5\nImportError: libmusart.so.5: {LOST}",
            "torch-musa-for-other-generation",
        ),
        (f"toolkit 5.2.0\nImportError: libmusart.so.5: {LOST}", "libmusart-not-found"),
        (f"toolkit 3.1.0\nImportError: libmusart.so.1.0: {LOST}", "libmusart-not-found"),
        (f"musa\nImportError: libmusart.so.5: {LOST}", "libmusart-not-found"),
        (
            f"toolkit 4.3.5, torch_musa 2.7.1\nimport tilelang\nOSError: libmusart.so.5: {LOST}",
            "musa-library-missing",
        ),
    ],
)
def test_the_soname_of_the_runtime_tells_the_generation(text: str, named: str) -> None:
    assert causes(triage(text)) == [named]


@pytest.mark.parametrize(
    "text",
    [
        "MusaDB, a database. Works on ARM and x86, Windows and Linux.",
        "Musa acuminata: how to grow bananas",
    ],
)
def test_another_thing_of_the_name_is_not_of_musa(text: str) -> None:
    assert not read([("text", text.encode())]).of_musa


@pytest.mark.parametrize("text", ["torch_musa: for x86_64 and aarch64", "musa sdk: arm64/amd64"])
def test_what_software_is_made_for_is_no_machine(text: str) -> None:
    assert causes(triage(text)) == []


def test_a_driver_is_no_kernel() -> None:
    report = triage("driver 3.3.5-server, torch_musa 2.7.1")
    assert report.reading is not None
    assert report.reading.recognised[-1] == "line 1: driver 3.3.5-server"
    assert not any("machine" in piece for piece in report.reading.recognised)


def test_a_module_that_is_refused_is_not_named_again_as_not_loaded() -> None:
    text = "Error: failed to load driver.\nmodprobe: ERROR: could not insert 'mtgpu': Invalid"
    assert causes(triage(text)) == ["driver-module-refused"]


TABLE = """\
mthreads-gmi:1.14.0           Driver Version:2.7.0
0    MTT S80      |00000000:01:00.0    |0%    220MiB(16384MiB)
"""


@pytest.mark.parametrize(
    ("end", "named"),
    [("Processes:\n", ["visible-devices-hide-all"]), ("...\n", [])],
)
def test_a_mask_is_held_against_a_table_that_is_whole(end: str, named: list[str]) -> None:
    text = f"{TABLE}{end}export MUSA_VISIBLE_DEVICES=1\n"
    assert causes(triage(text)) == named


def commands(text: str) -> list[str]:
    report = triage(text)
    assert report.reading is not None
    assert all(question.undecided for question in report.reading.ask)
    return [question.command.split(";")[0].split(" | ")[0] for question in report.reading.ask]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (
            "S80 torch.musa.is_available() False",
            ["mthreads-gmi", "sudo dmesg", "lspci -nn -d 1ed5:", "env"],
        ),
        (
            "ImportError: Please try running Python from a different directory! torch_musa",
            [
                "TORCH_DEVICE_BACKEND_AUTOLOAD=0 python -c 'import torch, torch_musa'",
                "python --version",
                "musa_version_query",
                "ldd $(pip show torch_musa",
            ],
        ),
        (
            "modprobe: ERROR: could not insert 'mtgpu': Invalid argument",
            ["sudo dmesg", "ls -d /sys/module/mtgpu", "uname -a"],
        ),
        (
            "kernel 5.15.0-105-generic\nmodprobe: could not insert 'mtgpu': Invalid argument",
            ["sudo dmesg", "ls -d /sys/module/mtgpu"],
        ),
        ("torch 2.5.0+cu124, torch_musa 2.5.0", []),
        ("S5000: something with MUSA", ["mthreads-gmi", "musa_version_query", "python --version",
         "python -c 'import torch, torch_musa"]),
    ],
)  # fmt: skip
def test_only_what_would_settle_it_is_asked_for(text: str, asked: list[str]) -> None:
    shown = commands(text)
    assert len(shown) == len(asked) <= MOST_QUESTIONS
    assert all(command.startswith(start) for command, start in zip(shown, asked, strict=True))


def test_causes_that_leave_something_open_are_checks() -> None:
    ids = {result.check.id for result in triage("torch_musa").results}
    assert set(OPEN) <= ids


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("MUSA out of memory", "The first thing to look at is gpu-memory-exhausted"),
        ("torch 2.5.0+cu124, torch_musa 2.5.0", "The first thing to fix is torch-for-other-gpus"),
        ("S80 torch.musa.is_available() False", "torch_musa finds no device (torch-musa-unav"),
    ],
)
def test_the_last_sentence_says_what_to_do(text: str, summary: str) -> None:
    report = triage(text)
    assert report.reading is not None
    assert report.reading.summary.startswith(summary)


def test_the_memory_is_read_as_the_question_would_show_it() -> None:
    system = read([("text", b"torch_musa\nMemTotal:       528280977 kB\n")]).system
    assert getattr(system.resources(), "memory_bytes", None) == 528280977 << 10


PRIVATE = """\
(base) zhangsan@corp-gpu-node17:~/secret$ MUSA_HOME=/home/zhangsan/musa python x.py
ImportError: libmccl.so.2: cannot open shared object file (host corp-gpu-node17, 10.2.3.4)
[lisi@login-west04 data]# id
uid=1001(lisi99) gid=1001(lisi99) groups=1001(lisi99),44(video)
May 06 22:10:07 rack-b-07 kernel: MTGPU:(Error): 901: PID 7 experienced error Guilty Lockup (0x1)
Linux compute-x9 5.15.0-105-generic #1 SMP x86_64 GNU/Linux: error on compute-x9, login-west04
"""
NAMES = ("corp-gpu-node17", "login-west04", "rack-b-07", "compute-x9", "/home/zhangsan", "10.2.3.4")


def test_users_and_hosts_of_a_transcript_are_not_told() -> None:
    shown = _shown(PRIVATE, redact=True)
    assert [name for name in (*NAMES, "lisi99", "zhangsan") if name in shown] == []
    kept = _shown(PRIVATE, redact=False)
    assert [name for name in ("corp-gpu-node17", "/home/zhangsan", "10.2.3.4") if name in kept] == [
        "corp-gpu-node17",
        "/home/zhangsan",
        "10.2.3.4",
    ]


def test_of_very_many_hosts_the_first_are_looked_for() -> None:
    text = "".join(f"root@machine-{n}:/# echo musa\n" for n in range(40))
    people = read([("text", text.encode())]).people
    assert [person.host_name for person in people] == [f"machine-{n}" for n in range(16)]


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]0;title\x07\x1b[31mMUSA error:\x1b[0m unknown error \x9b2J \u202e \x7f\x08",
        "MUSA error: unknown error\u2028second\x85third",
        "[red]MUSA error: unknown error[/red] [link=x]y[/] [/] [bold",
    ],
)
def test_nothing_that_steers_a_terminal_is_shown(text: str) -> None:
    shown = _shown(text, redact=True)
    assert "MUSA error" in shown
    assert all(character.isprintable() or character == "\n" for character in shown)
    quoted = [line for line in shown.splitlines() if "unknown error" in line]
    assert quoted


def _shown(text: str, *, redact: bool) -> str:
    stream = io.StringIO()
    options = Options(plugins=False, redact=redact)
    render(diagnose_transcript([("report", text.encode())], options)[1], stream, verbose=True)
    return stream.getvalue()
