"""musaInfo: its samples, its error codes, and where it is looked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import file, folder, host, sample

from musadoctor.facts import Absent, MusaInfo, MusaInfoDevice, ToolAnswer, Unknown
from musadoctor.probes.musa_info import musa_info, musa_info_answer, parse
from musadoctor.recording import Recorder
from musadoctor.system import Found, Ran
from musadoctor.versions import DriverApiVersion

API_5_2 = DriverApiVersion.parse("5.2")
S5000 = MusaInfoDevice(0, "MTT S5000", "3.1", 81828)


@pytest.mark.parametrize(
    "name",
    [
        "musaInfo_5.2.0_s5000_as-published.txt",
        "musaInfo_5.2.0_s5000_padding-reconstructed.txt",
        "musainfo-s5000-5.2.txt",
    ],
)
def test_samples(name: str) -> None:
    assert parse(sample(name), "musaInfo") == MusaInfo((S5000,), API_5_2, API_5_2, "musaInfo")


RULER = "-" * 80
TWO = f"""
compiler: mcc
{RULER}
device#                           0
Name:                             MTT S5000
Driver Version:                   5.1
Runtime Version:                  5.2
compute capability:               3.1
totalGlobalMem:                   79.91 GB
peers:                            device#1
non-peers:                        device#0

memInfo.total:                    79.91 GB
{RULER}
device#                           1
Name:                             MTT S5000: engineering sample
Driver Version:                   5.1
Runtime Version:                  5.2
compute capability:               3.1
totalGlobalMem:                   512.00 MB
"""


def test_two_devices() -> None:
    assert parse(TWO, "x") == MusaInfo(
        (S5000, MusaInfoDevice(1, "MTT S5000: engineering sample", "3.1", 512)),
        DriverApiVersion.parse("5.1"),
        API_5_2,
        "x",
    )


@pytest.mark.parametrize(
    ("fields", "device"),
    [
        (["Name: MTT S80", "major: 2", "minor: 1"], MusaInfoDevice(0, "MTT S80", "2.1", None)),
        (["major: 2"], MusaInfoDevice(0, "", None, None)),
        (["compute capability: 2.2", "major: 9", "minor: 9"], MusaInfoDevice(0, "", "2.2", None)),
        (["totalGlobalMem: 16384.00 KB"], MusaInfoDevice(0, "", None, 16)),
        (["totalGlobalMem: 1 TB"], MusaInfoDevice(0, "", None, 1048576)),
        (["totalGlobalMem: 16 QB"], MusaInfoDevice(0, "", None, None)),
        (["Name"], MusaInfoDevice(0, "", None, None)),
    ],
)
def test_fields_that_no_sample_has(fields: list[str], device: MusaInfoDevice) -> None:
    found = parse("\n".join(["compiler: mcc", "device# 0", *fields]), "x")
    assert found == MusaInfo((device,), None, None, "x")


@given(st.text() | st.lists(st.sampled_from(TWO.splitlines()) | st.text()).map("\n".join))
def test_no_text_is_too_much(text: str) -> None:
    assert len(parse(text, "x").devices) <= text.count("device#")


ROOT = "/usr/local/musa-5.2.0"
PATH = f"{ROOT}/bin/musaInfo"
GOOD = Ran("ok", 0, sample("musaInfo_5.2.0_s5000_padding-reconstructed.txt"))


def machine(ran: Ran, path: str = PATH, *, size: int = 9) -> Recorder:
    return host(
        folders={"/usr/local": ["musa-5.2.0"], ROOT: ["bin"]},
        stats={ROOT: folder(ROOT), path: file(size, executable=True)},
        programs={path: Found(path)},
        runs={path: ran},
    )


def test_the_toolkit_in_use_comes_first() -> None:
    system = host(
        folders={"/usr/local": ["musa-5.2.0"], ROOT: ["bin"]},
        stats={ROOT: folder(ROOT)},
        programs={PATH: Found(PATH), "musaInfo": Found("/usr/bin/musaInfo")},
        runs={PATH: GOOD},
    )
    assert musa_info_answer(system) == ToolAnswer(PATH, 0, None)
    found = musa_info(system)
    assert found == MusaInfo((S5000,), API_5_2, API_5_2, PATH)
    assert str(found) == "musaInfo lists 1 device, driver API 5.2, runtime API 5.2"


@pytest.mark.parametrize("with_toolkit", [False, True])
def test_then_path(*, with_toolkit: bool) -> None:
    system = host(
        folders={"/usr/local": ["musa-5.2.0"], ROOT: ["bin"]} if with_toolkit else {},
        stats={ROOT: folder(ROOT)} if with_toolkit else {},
        programs={"musaInfo": Found("/opt/bin/musaInfo")},
        runs={"/opt/bin/musaInfo": GOOD},
    )
    assert musa_info_answer(system) == ToolAnswer("/opt/bin/musaInfo", 0, None)


def test_not_found() -> None:
    assert musa_info(host()) == musa_info_answer(host()) == Absent("no musaInfo on PATH")
    bare = host(folders={"/usr/local": ["musa-5.2.0"], ROOT: ["bin"]}, stats={ROOT: folder(ROOT)})
    assert musa_info_answer(bare) == Absent(f"no musaInfo in {ROOT}/bin, nor on PATH")
    assert isinstance(musa_info_answer(host(unlisted="unrecorded")), Unknown)


def test_not_found_while_the_toolkit_in_use_is_not_known() -> None:
    class NoToolkits:
        """A recording that heard of programs and of nothing else."""

        def __init__(self) -> None:
            self._closed = host()
            self._open = host(unlisted="unrecorded")

        def __getattr__(self, name: str) -> object:
            return getattr(self._closed if name in {"find", "env"} else self._open, name)

    found = musa_info_answer(NoToolkits())  # type: ignore[arg-type]
    assert isinstance(found, Unknown)
    assert found.reason.startswith("no musaInfo on PATH, and the Toolkit in use is not known: ")


FAILED_801 = sample("musainfo-801.txt")
RED = "\ufffd[31m{}\ufffd[0m"


@pytest.mark.parametrize(
    ("ran", "answer"),
    [
        (Ran("failed", 1, FAILED_801), ("error: 'operation not supported'(801)", 801)),
        (Ran("failed", 1, "", FAILED_801), ("error: 'operation not supported'(801)", 801)),
        (
            Ran("failed", 1, "\n".join(RED.format(line) for line in FAILED_801.splitlines())),
            ("error: 'operation not supported'(801)", 801),
        ),
        (
            # The second device fails.
            Ran("failed", 1, TWO + "error: 'unsupported display driver / musa driver combination'(803) at /a.cpp:9\n"),
            ("error: 'unsupported display driver / musa driver combination'(803)", 803),
        ),
        (Ran("ok", 0, "error: TEST FAILED\n"), ("error: TEST FAILED", None)),
        (
            Ran("failed", 127, "", "musaInfo: error while loading shared libraries: libmusart.so.5: cannot open\n"),
            ("musaInfo: error while loading shared libraries: libmusart.so.5: cannot open", None),
        ),
        (Ran("failed", 1, TWO), ("exit code 1", None)),
        (Ran("failed", 1, TWO, "\nterminate called\n"), ("terminate called", None)),
        (Ran("failed", 3), ("exit code 3, no output", None)),
        (Ran("ok", 0, "\n"), ("no output", None)),
    ],
)  # fmt: skip
def test_errors(ran: Ran, answer: tuple[str, int | None]) -> None:
    error, number = answer
    assert musa_info_answer(machine(ran)) == ToolAnswer(PATH, ran.code or 0, error, number)
    assert musa_info(machine(ran)) == Absent(f"{PATH}: {error}")


def test_no_device_listed_is_an_answer() -> None:
    system = machine(Ran("ok", 0, "compiler: mcc\n"))
    assert musa_info_answer(system) == ToolAnswer(PATH, 0, None)
    assert musa_info(system) == MusaInfo((), None, None, PATH)


@pytest.mark.parametrize(
    ("ran", "reason"),
    [
        (Ran("ok", 0, "hello\n"), f"{PATH}: its output is not understood: hello"),
        (Ran("signal", -6, FAILED_801, note="SIGABRT"), f"{PATH}: killed by SIGABRT"),
        (Ran("timed out", note="no answer in 10 s, killed"), f"{PATH}: no answer in 10 s, killed"),
    ],
)
def test_unknown(ran: Ran, reason: str) -> None:
    assert musa_info_answer(machine(ran)) == musa_info(machine(ran)) == Unknown(reason)


@pytest.mark.parametrize(("size", "error"), [(0, "is an empty file"), (9, "may not be executed")])
def test_a_file_that_may_not_be_executed(size: int, error: str) -> None:
    system = host(
        folders={"/usr/local": ["musa-5.2.0"], ROOT: ["bin"]},
        stats={ROOT: folder(ROOT), PATH: file(size)},
        programs={PATH: Found("", PATH)},
    )
    assert musa_info_answer(system) == ToolAnswer(PATH, 126, f"{PATH} {error}")
    assert musa_info(system) == Absent(f"{PATH}: {PATH} {error}")


def test_a_file_of_another_architecture() -> None:
    system = machine(Ran("wrong format", note=f"{PATH}: Exec format error"))
    assert musa_info_answer(system) == ToolAnswer(PATH, 126, f"{PATH}: Exec format error")
