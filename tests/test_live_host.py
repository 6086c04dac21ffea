"""Whole reports on a live host: sysfs, device nodes, tools, libraries and a real torch."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hosts.synthesise import SETS
from live_host import CARDS, TOOLKIT, Done, LiveHost, add_toolkit, add_torch, build_host, run
from recorded import whole
from support import sample

pytestmark = [pytest.mark.host, pytest.mark.torch]

THIS_MACHINE = {"kernel-not-tested"}
"""A note on the one thing of a live host that is not its own: the kernel."""
ADDED = [{"done": True, "failure": None}] * CARDS
WATCHED = """
import os, runpy, sys
log = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def watch(event, arguments):
    if event in {"os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.spawn", "os.system"}:
        os.write(log, f"{event} {arguments}\\n".encode())
    elif event == "subprocess.Popen":
        words = [word if len(word) < 200 else word[3:16] for word in arguments[1]]
        os.write(log, ("run " + " ".join(words) + "\\n").encode())
    elif event == "ctypes.dlopen" or event == "import" and arguments[0].startswith("torch"):
        os.write(log, f"{event} {arguments[0]}\\n".encode())
sys.addaudithook(watch)
runpy.run_module("musadoctor", run_name="__main__", alter_sys=True)
"""
"""musadoctor as ``python -m`` runs it, with an account of what its own process starts and loads."""


@pytest.fixture(scope="module")
def healthy(
    torch_python: str, fake_musa: Path, tmp_path_factory: pytest.TempPathFactory
) -> LiveHost:
    host = build_host(tmp_path_factory.mktemp("live") / "host")
    return add_torch(host, torch_python, fake_musa)


@pytest.fixture
def host(healthy: LiveHost, tmp_path: Path) -> LiveHost:
    """One to be broken."""
    return healthy.copy(tmp_path / "host")


class Examined(NamedTuple):
    """A report, and what musadoctor's process did for it."""

    done: Done
    log: list[str]


@pytest.fixture(scope="module")
def examined(healthy: LiveHost) -> Examined:
    log = healthy.tree / "log"
    done = healthy.run(sys.executable, "-c", WATCHED, str(log), "--json")
    return Examined(done, log.read_text().splitlines())


def test_a_healthy_host_passes_on_every_layer(examined: Examined) -> None:
    done = examined.done
    assert (done.code, done.err) == (0, ""), done
    report = done.report
    assert (report["verdict"], report["bugs"]) == ("healthy", [])
    assert report["vantage"]["python"].endswith("/env/bin/python, VIRTUAL_ENV)")
    assert done.raised.keys() <= THIS_MACHINE, done.raised
    passed = {result["layer"] for result in report["results"] if result["status"] == "passed"}
    layers = {result["layer"] for result in report["results"]}
    assert layers - passed <= {"container"}


def test_each_layer_was_read_off_the_live_host(examined: Examined) -> None:
    facts = examined.done.report["facts"]
    assert [gpu["kernel_module"] for gpu in facts["gpus"]["cards"]] == ["mtgpu"] * CARDS
    assert [stated["version"] for stated in facts["kernel_driver"]["stated"]] == [
        "5.2.0-server",
        "5.2.0",
    ]
    assert [node["path"] for node in facts["device_nodes"]["nodes"]] == [
        f"/dev/mtgpu.{index}" for index in range(CARDS)
    ]
    log = facts["kernel_log"]
    assert [line["text"] for line in log["messages"]] == [
        "mtgpu: loading out-of-tree module taints kernel."
    ]
    assert facts["machine"]["iommu"] is False
    assert facts["triton"]["backends"] == ["mtgpu"]
    assert facts["user_driver"]["found_by"] == "ld.so.cache"
    assert facts["toolkit"]["root"] == TOOLKIT
    assert facts["torch_musa"]["device_count"] == CARDS
    assert [device["add"] for device in facts["torch_musa"]["devices"]] == ADDED
    assert [device["bf16_add"] for device in facts["torch_musa"]["devices"]] == ADDED
    # The loader and musadoctor's reading of its rules took the same files.
    mapped = set(facts["torch_musa"]["mapped"])
    taken = {library["soname"]: library["real_path"] for library in facts["libraries"]["found"]}
    needed = {taken[name] for name in ("libmusart.so.5", "libmudnn.so.3", "libmccl.so.2")}
    assert needed < mapped
    assert facts["user_driver"]["real_path"] in mapped


def test_a_report_runs_each_program_once_and_loads_nothing_of_the_vendor(
    healthy: LiveHost, examined: Examined
) -> None:
    python = f"{healthy.tree}/env/bin/python -B -c"
    wanted = [
        "/usr/bin/mthreads-gmi",
        "/usr/bin/mthreads-gmi -q --json",
        "/usr/bin/dmesg",
        "/usr/local/musa/bin/mcc --version",
        f"{TOOLKIT}/bin/musaInfo",
        f"{TOOLKIT}/bin/musa_version_query",
        f"{python} Tells what an",
        f"{python} Imports torch",
    ]
    started = [re.sub(r" [0-9]+$", "", line) for line in examined.log]
    assert sorted(started) == sorted(f"run {line}" for line in wanted)
    assert len(started) <= 12


def test_a_capture_tells_elsewhere_what_was_seen_here(
    healthy: LiveHost, examined: Examined, tmp_path: Path
) -> None:
    recording = tmp_path / "host.json"
    captured = healthy.musadoctor("capture", "-o", str(recording))
    assert (captured.code, captured.err) == (0, ""), captured
    assert "private line" not in recording.read_text()
    # Outside there is neither a card nor a Toolkit.
    command = (sys.executable, "-m", "musadoctor", "--json", "--recording", str(recording))
    done = run(command, {"PATH": "/usr/bin:/bin"})
    assert (done.code, done.err) == (0, ""), done
    mine, theirs = timeless(examined.done.report), timeless(done.report)
    assert theirs["vantage"]["kind"] == "recording"
    assert theirs["results"] == mine["results"]
    assert theirs["facts"] == mine["facts"]


def timeless(report: dict[str, Any]) -> dict[str, Any]:
    """A report without the times that something took."""
    text = re.sub(r'("seconds": )[0-9.e-]+', r"\g<1>0", json.dumps(report))
    timeless: dict[str, Any] = json.loads(re.sub(r" works, [0-9.]+ s", " works", text))
    return timeless


def driver_not_loaded(host: LiveHost) -> dict[str, str]:
    for path in ("/sys/module/mtgpu", "/proc/driver/musa"):
        shutil.rmtree(host.at(path))
    for gone in (*host.at("/dev").iterdir(), *host.at("/sys/bus/pci/devices").glob("*/driver")):
        gone.unlink()
    text = sample("mthreads-gmi_error-driver-not-loaded_rc8.txt")
    host.tool("/usr/bin/mthreads-gmi", {"": text}, code=8)
    info = whole("no-driver")["answers"]["runs"]["/usr/local/musa/bin/musaInfo"]
    host.tool(f"{TOOLKIT}/bin/musaInfo", {"": info["out"]}, code=info["code"])
    return {"FAKE_MUSA_WARNING": "Found no driver on your system"}


def library_path_on_another_toolkit(host: LiveHost) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": f"{add_toolkit(host, SETS['4.3.5'])}/lib"}


def bf16_add_fails(host: LiveHost) -> dict[str, str]:
    return {"FAKE_MUSA_RAISE_BF16": "aten::add.Tensor"}


def empty_tool(host: LiveHost) -> dict[str, str]:
    host.at("/usr/bin/mthreads-gmi").write_bytes(b"")
    return {}


def cut_runtime(host: LiveHost) -> dict[str, str]:
    whole_file = host.at(f"{TOOLKIT}/lib/libmusart.so.5").read_bytes()
    folder = host.tree / "cut"
    folder.mkdir()
    (folder / "libmusart.so.5").write_bytes(whole_file[:700])
    return {"LD_LIBRARY_PATH": f"{folder}:/usr/local/musa/lib"}


def chained_import_error(host: LiveHost) -> dict[str, str]:
    return {"FAKE_MUSA_IMPORT": "missing-library"}


@pytest.mark.parametrize(
    ("harm", "errors", "warnings", "words"),
    [
        (
            driver_not_loaded,
            {
                "driver-not-loaded": None,
                "gmi-reports-error": "driver-not-loaded",
                "musa-info-reports-error": "driver-not-loaded",
                "torch-musa-unavailable": "driver-not-loaded",
            },
            set(),
            "no /sys/module/mtgpu, with 2 x MTT S5000",
        ),
        (
            library_path_on_another_toolkit,
            {
                "toolkit-generations-mixed": None,
                "musa-library-missing": "toolkit-generations-mixed",
                "torch-musa-import-fails": "toolkit-generations-mixed",
            },
            {"mccl-of-other-release", "mudnn-of-other-release"},
            "loader -> /usr/local/musa-4.3.5/lib/libmusart.so.4 (4.3.5)",
        ),
        (
            bf16_add_fails,
            {"bf16-add-fails": None},
            set(),
            "the kernel of aten::add.Tensor failed on bfloat16",
        ),
        (empty_tool, {"gmi-reports-error": None}, set(), "/usr/bin/mthreads-gmi is an empty file"),
        (
            cut_runtime,
            {"library-damaged": None, "torch-musa-import-fails": "library-damaged"},
            set(),
            "/cut/libmusart.so.5 (by LD_LIBRARY_PATH): cut ELF file",
        ),
        (
            chained_import_error,
            {"torch-musa-import-fails": None},
            set(),
            "ImportError: libmudnn.so.3: cannot open shared object file",
        ),
    ],
)
def test_one_harm_one_cause(
    host: LiveHost,
    harm: Callable[[LiveHost], dict[str, str]],
    errors: dict[str, str | None],
    warnings: set[str],
    words: str,
) -> None:
    environment = harm(host)
    done = host.musadoctor("--json", **environment)
    assert (done.code, done.err) == (1, ""), done
    report = done.report
    assert (report["verdict"], report["bugs"]) == ("broken", [])
    raised = done.raised
    assert {status for status, _ in raised.values()} == {"failed"}
    found = {check for check, (_, severity) in raised.items() if severity == "error"}
    assert {check: done.result(check)["caused_by"] for check in found} == errors
    assert raised.keys() - found - THIS_MACHINE == warnings
    cause = report["causes"][0]
    assert errors[cause] is None
    messages = [finding["message"] for finding in done.result(cause)["findings"]]
    assert all(words in message for message in messages), messages
    if harm is bf16_add_fails:
        assert len(messages) == CARDS


def test_the_crash_of_a_cut_library_is_the_real_one(host: LiveHost) -> None:
    """What musadoctor read off the file is what the loader makes of it, in the child."""
    done = host.musadoctor("--json", "--select", "torch-musa", **cut_runtime(host))
    (finding,) = done.result("torch-musa-import-fails")["findings"]
    assert "import torch_musa crashes: killed by SIGBUS" in finding["message"]
