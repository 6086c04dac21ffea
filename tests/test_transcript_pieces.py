"""What the reader makes of each kind of piece: the facts that the probes then find."""

import json
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import SAMPLES

from musadoctor.doctor import Options
from musadoctor.probes import PROBES
from musadoctor.report import Report, encode
from musadoctor.transcript import read
from musadoctor.transcript.text import LONGEST_LINE, WHOLE, lines_of
from musadoctor.triage import diagnose_transcript


def sample(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8")


def fact(text: str, name: str) -> dict[str, object]:
    made = encode(PROBES[name](read([("text", text.encode())]).system))
    assert isinstance(made, dict)
    return cast("dict[str, object]", made)


def field(text: str, path: str) -> object:
    name, *keys = path.split(".")
    value: object = fact(text, name)
    for key in keys:
        if isinstance(value, list):
            value = value[int(key)]
        else:
            assert isinstance(value, dict), (value, key)
            value = value[key]
    return value


def recognised(text: str) -> list[str]:
    return [piece.what for piece in read([("text", text.encode())]).pieces]


def triage(text: str) -> Report:
    return diagnose_transcript([("text", text.encode())], Options(plugins=False))[1]


def failed(text: str) -> set[str]:
    return {result.check.id for result in triage(text).results if result.status == "failed"}


Q_TEXT = sample("mthreads-gmi-q_driver2.7.0_s90.txt")
Q_JSON = sample("mthreads-gmi-q-json_driver3.3.5-server_s5000.txt")
TOLD = object()
"""Any reason will do."""
MODULES = "Module                  Size  Used by\n" + "".join(
    f"module_{n}    {4096 * (n + 1)}  {n}\n" for n in range(30)
)
CARD = "MTT S80\n"
ID = "uid=1000(user) gid=1000(user) groups=1000(user),4(adm),27(sudo)\n"
NODES = """\
crw-rw---- 1 root render 510,   0 Nov 30 12:00 /dev/mtgpu.0
crw-rw----+ 1 root render 226, 128 Nov 30 12:00 renderD128
crw-rw---- 1 root video 226, 0 Nov 30 12:00 card0
"""
ENV = """\
SHELL=/bin/bash
PWD=/home/user
HOME=/home/user
LANG=C.UTF-8
MUSA_HOME=/usr/local/musa
TERM=xterm
SHLVL=1
PATH=/usr/local/musa/bin:/usr/bin
"""
DAEMON = """\
{
    "default-runtime": "mthreads",
    "runtimes": {
        "mthreads": {
            "path": "/usr/bin/musa/mthreads-container-runtime",
            "runtimeArgs": []
        }
    }
}
"""
COLLECT_ENV = """\
torch_musa issue
PyTorch version: 2.5.0
CUDA used to build PyTorch: 12.4
OS: Ubuntu 22.04.4 LTS (x86_64)
Libc version: glibc-2.35
Python version: 3.10.12 (main, Nov 20 2023, 15:14:05) [GCC 11.4.0] (64-bit runtime)
Python platform: Linux-5.15.0-105-generic-x86_64-with-glibc2.35
[pip3] numpy==1.26.4
"""
LOCKUP = "MTGPU:(Error): 56377:  PID 1747 experienced error Guilty Lockup (0x1) caller[x] [188]"
CACHE = "3 libs found in cache `/etc/ld.so.cache'\n" + "".join(
    f"\t{name} (libc6,x86-64) => /usr/lib/{name}\n"
    for name in ("libmusa.so.4", "libmtml.so", "libz.so.1")
)

READ = [
    # text, fact and field, value
    (Q_TEXT, "gmi.cards.0.name", "MTT S90"),
    (Q_TEXT, "gmi.cards.0.bus_id", "0000:01:00.0"),
    (Q_TEXT, "gmi.cards.0.total_mib", 24576),
    (Q_TEXT, "gmi.cards.0.lanes", 16),
    (Q_TEXT, "gmi.driver", "2.7.0"),
    (Q_TEXT, "kernel_driver.stated.0.version", "2.7.0"),
    (Q_JSON, "gmi.cards.0.name", "MTT S5000"),
    (Q_JSON, "gmi.driver", "3.3.5-server"),
    (Q_JSON, "gpus.cards.0.product", "MTT S5000"),
    (Q_JSON.replace("\n", ""), "gmi.cards.0.total_mib", 81920),
    (Q_JSON[: len(Q_JSON) // 2], "gmi.cards.0.name", "MTT S5000"),
    ('"Product Name": "MTT S70",\n"Driver Version": "2.7.0",', "gpus.cards.0.product", "MTT S70"),
    (sample("mthreads-gmi-L_reconstructed_s4000.txt"), "gpus.cards.0.product", "MTT S4000"),
    ("GPU 0: S4000 (UUID: 0)", "gpus.cards.0.product", "MTT S4000"),
    (CARD + MODULES, "kernel_driver.absent", TOLD),
    (CARD + MODULES + "driver 2.7.0 stated", "kernel_driver.absent", TOLD),
    (MODULES + "mtgpu   3076096  109 mt_peermem\n", "kernel_driver.loaded", True),
    ("driver 2.7.0\nmtgpu   3076096  109", "kernel_driver.stated.0.version", "2.7.0"),
    ("driver 2.7.0\nmtgpu   3076096  109", "kernel_driver.loaded", True),
    ("driver 2.7.0", "kernel_driver.loaded", False),
    ("\n".join(MODULES.splitlines()[:5]), "kernel_driver.unknown", TOLD),
    ("/sys/module/mtgpu\n", "kernel_driver.loaded", True),
    ("package version: 3.3.5-server", "kernel_driver.stated.0.version", "3.3.5-server"),
    (
        (
            "ls: cannot access '/sys/module/mtgpu': No such file or directory\n"
            "cat: /proc/driver/musa/version: No such file or directory"
        ),
        "kernel_driver.absent",
        TOLD,
    ),
    (ID + NODES, "device_nodes.nodes.0.usable", False),
    (ID + NODES, "device_nodes.nodes.0.mode", 0o660),
    (ID.replace("27(sudo)", "109(render)") + NODES, "device_nodes.nodes.0.usable", True),
    ("uid=0(root) gid=0(root) groups=0(root)\n" + NODES, "device_nodes.user", "root"),
    ("用户id=1000(user) 组id=1000(user) 组=1000(user)\n" + NODES, "device_nodes.user", "uid 1000"),
    (ID + NODES.replace(" root ", " user "), "device_nodes.nodes.0.usable", True),
    (ID + NODES.replace("rw-rw----", "rw-rw-rw-"), "device_nodes.nodes.0.usable", True),
    (NODES, "device_nodes.unknown", TOLD),
    (ID.replace("27(sudo)", "109(render)") + NODES.splitlines()[0], "device_nodes.unknown", TOLD),
    (ID + "ls: cannot access '/dev/mtgpu*': No such file", "device_nodes.unknown", TOLD),
    (ENV, "environment.partial", False),
    (ENV, "environment.variables.MUSA_HOME", "/usr/local/musa"),
    ("export MUSA_HOME=/usr/local/musa\n", "environment.partial", True),
    (
        '"Env": [\n"MUSA_VISIBLE_DEVICES=all",\n]',
        "environment.variables.MUSA_VISIBLE_DEVICES",
        "all",
    ),
    (ENV + "\nafter it\nA=1\n", "environment.partial", False),
    (sample("docker-info-mthreads.txt"), "container_runtime.default", "mthreads"),
    (" Default Runtime: mthreads\n", "container_runtime.runtimes.0.0", "mthreads"),
    (" Default Runtime: runc\n", "container_runtime.unknown", TOLD),
    (" Runtimes: runc\n", "container_runtime.runtimes", []),
    (DAEMON, "container_runtime.runtimes.0.1", "/usr/bin/musa/mthreads-container-runtime"),
    (DAEMON[:60], "container_runtime.default", "mthreads"),
    ("{[{{" + DAEMON[:40], "container_runtime.default", "mthreads"),
    ('{ "runtimes": {\n"mthreads": {\n"path": "/a/b"', "container_runtime.runtimes.0.1", "/a/b"),
    (COLLECT_ENV, "machine.glibc", "2.35"),
    (COLLECT_ENV, "machine.kernel", "5.15.0-105-generic"),
    (COLLECT_ENV, "machine.architecture", "x86_64"),
    (COLLECT_ENV, "torch_build.flavour", "CUDA"),
    (COLLECT_ENV, "distributions.items.1.version", "1.26.4"),
    (COLLECT_ENV.replace("CUDA used", "ROCM used"), "torch_build.flavour", "ROCm"),
    (sample("pip-show_torch_stock-cu.txt"), "torch_build.flavour", "CUDA"),
    (sample("pip-show_torch_musa_1.3.0.txt"), "torch_musa_build.version", "1.3.0"),
    ("Name: torch\nRequires: nvidia-nccl-cu12\nmusa", "torch_build.unknown", TOLD),
    (f"[24078.925037] {LOCKUP}", "kernel_log.messages.0.seconds", 24078.925037),
    (f"<3>[   12.5] {LOCKUP}", "kernel_log.messages.0.seconds", 12.5),
    (f"Nov 30 12:00:00 host kernel: [   12.5] {LOCKUP}", "kernel_log.messages.0.seconds", 12.5),
    (f"Nov 30 12:00:00 host kernel: {LOCKUP}", "kernel_log.messages.0.text", LOCKUP),
    (f"[Mon Nov 30 19:50:31 2026] {LOCKUP}", "kernel_log.messages.0.text", LOCKUP),
    (f"2026-11-30T12:00:00,123456+08:00 {LOCKUP}", "kernel_log.messages.0.text", LOCKUP),
    (LOCKUP, "kernel_log.messages.0.text", LOCKUP),
    (LOCKUP, "kernel_log.excerpt", True),
    ("the mtgpu module is fine", "kernel_log.unknown", TOLD),
    (
        (
            "03:00.0 VGA compatible controller: Moore Threads Technology Co.,Ltd Device 0301\n"
            "\tKernel driver in use: mtgpu\n03:00.0 VGA compatible controller [0300]: [1ed5:0301]\n"
            "03:00.1 Audio device [0403]: Device [1ed5:03ff]\nKernel driver in use: snd\n\n\n\n\n"
            "Kernel driver in use: other"
        ),
        "gpus.cards.0.kernel_module",
        "mtgpu",
    ),
    (
        (
            "0000:03:00.0 VGA compatible controller [0300]: [1ed5:0301]\n"
            "03:00.1 Audio device [0403]: Device [1ed5:03ff]\n\tKernel driver in use: snd\n"
        ),
        "gpus.cards.0.kernel_module",
        None,
    ),
    ("Kernel driver in use: mtgpu", "gpus.unknown", TOLD),
    (sample("musaInfo_5.2.0_s5000_as-published.txt"), "musa_info.devices.0.name", "MTT S5000"),
    (
        'NAME="Ubuntu"\nVERSION_ID="22.04"\nkernel 5.15.0-105',
        "machine.distribution_version",
        "22.04",
    ),
    (
        "0 MTT S80 00000000:01:00.0 0%\n" + "-\n" * 40 + "1 MTT S70 00000000:02:00.0 0%",
        "gpus.source",
        "mthreads-gmi",
    ),
    (
        "Product Name : MTT S80\n" + "-\n" * 80 + "Product Name : Other",
        "gpus.cards.0.product",
        "MTT S80",
    ),
    (
        "musa_toolkits:\n{\n" + '"version": "4.1.0",\n',
        "version_query.components.0.version",
        "4.1.0",
    ),
    ("mccl:\nnothing", "version_query.unknown", TOLD),
    ('{"a": {}}\n{"default-runtime": "runc"}', "container_runtime.default", "runc"),
    ('{"a": {}}\n' * 30 + '"default-runtime": "runc"', "container_runtime.default", "runc"),
    (
        "Name: numpy\nVersion: 2.1.0\nRequires:\nName: six\nVersion: 1.0\nmusa",
        "distributions.items.0.name",
        "numpy",
    ),
    ("ldd torch_musa/_MUSAC.so\nlibmusart.so.4 => not found", "torch_musa_build.unknown", TOLD),
    (
        "torch_musa 2.7.0\nMUSA initialization: one\nMUSA initialization: two",
        "torch_musa.warnings",
        ["MUSA initialization: one", "MUSA initialization: two"],
    ),
]


@pytest.mark.parametrize(("text", "path", "expected"), READ)
def test_a_piece_answers_what_the_probe_asks(text: str, path: str, expected: object) -> None:
    found = field(text, path)
    if expected is TOLD:
        assert isinstance(found, str)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (sample("mthreads-gmi-topo-m_header_s5000x8.txt"), "mthreads-gmi topo"),
        (sample("mthreads-gmi-topo-m_legend_s4000.txt"), "mthreads-gmi topo"),
        (sample("clinfo_driver-2.7.0-kuae1.3.0.txt"), "clinfo"),
        (sample("clinfo_no-permission.txt"), "clinfo"),
        (NODES, "ls -l of device nodes"),
        ("\tlibmusa.so.4 (libc6,x86-64) => /usr/lib/libmusa.so.4\n", "ldconfig -p"),
    ],
)
def test_what_no_check_asks_for_is_recognised_all_the_same(text: str, what: str) -> None:
    assert what in recognised(text)


def test_only_a_whole_cache_says_what_is_not_in_it() -> None:
    whole = read([("text", CACHE.encode())]).system
    assert whole.cached("libm") == {
        "libmusa.so.4": "/usr/lib/libmusa.so.4",
        "libmtml.so": "/usr/lib/libmtml.so",
    }
    cut = read([("text", CACHE.rpartition("\tlibz")[0].encode())]).system
    assert not isinstance(cut.cached("libm"), dict)


def test_a_table_that_was_pasted_twice_has_its_cards_once() -> None:
    table = sample("mthreads-gmi_2.4.1_driver5.1.0-server_s5000x8.txt")
    assert fact(f"{table}\n{table}", "gmi") == fact(table, "gmi")
    assert len(cast("list[object]", fact(table, "gmi")["cards"])) == 8


@pytest.mark.parametrize("name", ["gmi", "gpus", "kernel_driver"])
def test_text_and_json_of_one_query_say_the_same(name: str) -> None:
    plain = "Driver Version : 3.3.5-server\nGPU0 00000000:2a:00.0\nProduct Name : MTT S5000\n"
    as_json = json.dumps(
        {
            "Driver Version": "3.3.5-server",
            "GPU": [
                {"Index": "0", "Product Name": "MTT S5000", "PCI": {"Bus ID": "00000000:2a:00.0"}}
            ],
        },
        indent=4,
    )
    assert fact(plain, name) == fact(as_json, name)


WRAPPED = """\
Traceback (most recent call last):
ImportError: libmccl.so.2: cannot open shared object file: No such file or directory

{link}

Traceback (most recent call last):
RuntimeError: MUSA error: unknown error
"""
CAUSED = "The above exception was the direct cause of the following exception:"
DURING = "During handling of the above exception, another exception occurred:"


@pytest.mark.parametrize("link", [CAUSED, DURING])
def test_the_innermost_exception_counts(link: str) -> None:
    found = failed(f"torch_musa\n{WRAPPED.format(link=link)}")
    assert "mccl-missing" in found
    assert "runtime-unknown-error" not in found


def test_exceptions_that_are_not_chained_all_count() -> None:
    assert {"mccl-missing", "runtime-unknown-error"} <= failed(WRAPPED.format(link="later:"))


def test_a_wrapper_counts_where_the_inner_exception_is_not_known() -> None:
    text = WRAPPED.replace("ImportError: libmccl.so.2: cannot open", "KeyError: 'a'; cannot open")
    assert "runtime-unknown-error" in failed(text.format(link=CAUSED).replace("shared object", ""))


MTML = "$ mthreads-gmi\nError: failed to initialize mtml.\n"


def test_one_text_means_what_the_host_makes_of_it() -> None:
    assert "device-nodes-not-permitted" in failed(CARD + MTML)
    assert "device-nodes-not-permitted" in failed(CARD + ID + NODES + MTML)
    allowed = ID.replace("27(sudo)", "109(render),44(video)")
    found = failed(CARD + allowed + NODES + MTML)
    assert "device-nodes-not-permitted" not in found
    assert "gmi-reports-error" in found


def test_a_tool_that_was_asked_too_early_lacks_no_rights() -> None:
    found = failed(CARD + "$ sudo modprobe mtgpu\n" + MTML)
    assert "device-nodes-not-permitted" not in found
    assert "gmi-reports-error" in found


def test_a_later_failure_is_no_part_of_the_first() -> None:
    text = "ImportError: libmusa.so.4: cannot open\n" + "-\n" * 80
    chain = field(f"{text}ImportError: libmccl.so.2: cannot open\n", "torch_musa_import.failure")
    assert "libmccl" not in json.dumps(chain)


def test_an_image_that_holds_what_its_tag_names_is_not_blamed() -> None:
    tag = "registry.example.invalid/musa:rc3.0.1-v{}-S4000-py38, inside torch_musa 1.2.1"
    assert "image-holds-other-torch-musa" in failed(tag.format("1.3.0"))
    assert "image-holds-other-torch-musa" not in failed(tag.format("1.2.1"))


def test_pieces_of_a_kind_share_a_line() -> None:
    text = "torch 2.5.0\ntorch_musa 2.5.0\nMTT S80\n" + "\n".join(
        f"export MUSA_HOME=/{n}\nexport MCCL_{name}=1"
        for n, name in enumerate(
            ("DEBUG", "ALGO", "PROTO", "IB_TC", "IB_HCA", "IB_TIMEOUT", "CROSS_NIC")
        )
    )
    reading = triage(text).reading
    assert reading is not None
    assert reading.recognised[0] == "lines 1-2: package torch 2.5.0, torch_musa 2.5.0"
    assert reading.recognised[-1].endswith(", and 2 more")
    assert "musaInfo" in reading.not_shown


def test_what_was_not_asked_for_is_not_called_missing() -> None:
    options = Options(plugins=False, select=("gmi-reports-error",))
    reading = diagnose_transcript([("text", b"MTT S80")], options)[1].reading
    assert reading is not None
    assert "mthreads-gmi" in reading.not_shown
    assert "musaInfo" not in reading.not_shown


def test_the_kernel_log_explains_an_unknown_error() -> None:
    report = triage(f"[1.0] {LOCKUP}\nRuntimeError: MUSA error: unknown error")
    by_id = {result.check.id: result for result in report.results}
    assert by_id["gpu-lockup-stops-torch"].status == "failed"
    assert by_id["gpu-lockup"].status == "failed"
    assert by_id["runtime-unknown-error"].caused_by == "gpu-lockup-stops-torch"
    works = "[1.0] mtgpu: loading module\ntorch_musa 2.7.0\nMUSA initialization: unknown error"
    clear = {r.check.id: r for r in triage(works).results}
    assert clear["gpu-lockup-stops-torch"].status == "unknown"
    silent = {r.check.id: r for r in triage("[1.0] mtgpu: loading module\nMTT S80").results}
    assert silent["gpu-lockup"].status == "unknown"
    assert silent["gpu-reports-xid"].status == "unknown"


@pytest.mark.parametrize("line", [b"musa\n", b"musa ", b"\n", b"A=1\n", b"\0", b"MTT S80 error\r"])
def test_what_is_looked_at_does_not_grow_with_the_text(line: bytes) -> None:
    looked = [
        sum(len(one.text) for one in lines_of(line * (size // len(line)), ""))
        for size in (8 << 20, 16 << 20)
    ]
    assert max(looked) <= 2 * WHOLE + (1 << 17)
    assert looked[1] <= looked[0] + LONGEST_LINE


def test_an_error_amid_a_long_log_is_found_with_its_line() -> None:
    log = "step 1 of musa: loss 0.1\n" * 100_000
    text = f"{log}OSError: libmccl.so.2: cannot open shared object file\n{log}"
    lines = lines_of(text.encode(), "")
    assert [line.number for line in lines if "libmccl" in line.text] == [100_001]


def test_a_line_without_an_end_is_taken_in_parts() -> None:
    lines = lines_of(b"a" * (LONGEST_LINE + 5) + b"\nb", "x", 10)
    assert [(line.number, line.at, len(line.text)) for line in lines] == [
        (1, 11, LONGEST_LINE),
        (1, 11, 5),
        (2, 12, 1),
    ]
    assert lines[0].where == "x, line 1"


ALL_READ = [text for text, _, _ in READ]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ALL_READ), st.data())
def test_a_cut_piece_breaks_nothing(text: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, len(text)))
    report = triage(text[begin:end])
    assert report.bugs == ()
    assert not any(result.traceback for result in report.results)
    assert report.verdict in {"broken", "degraded", "unknown"}
    assert not any(result.status == "passed" for result in report.results)
