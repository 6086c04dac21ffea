"""mthreads-gmi: what its samples say, how its failures come out, and that no text is too much."""

import json
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import SAMPLES, file, host, sample

from musadoctor.facts import Absent, Gmi, GmiCard, GmiProcess, ToolAnswer, Unknown
from musadoctor.live import Live
from musadoctor.probes.gmi import (
    gmi,
    gmi_answer,
    locate,
    merged,
    parse_json,
    parse_table,
)
from musadoctor.recording import Recorder
from musadoctor.system import NOT_ALLOWED, Failure, Found, Ran
from musadoctor.versions import KernelDriverVersion


def card(
    ordinal: int,
    name: str,
    bus: str,
    used: int | None,
    total: int | None,
    lanes: int | None = 16,
    max_lanes: int | None = 16,
    device_type: str | None = "Physical",
    mtbios: str | None = None,
) -> GmiCard:
    return GmiCard(ordinal, name, bus, used, total, device_type, lanes, max_lanes, mtbios)


def cards(name: str, total: int, *rows: tuple[str, int]) -> tuple[GmiCard, ...]:
    return tuple(
        card(ordinal, name, f"0000:{bus}:00.0", used, total)
        for ordinal, (bus, used) in enumerate(rows)
    )


S80_PROCESSES = (
    GmiProcess(0, 1123, "/usr/lib/xorg/Xorg", 134),
    GmiProcess(0, 1361, "/usr/sbin/unity-greeter", 1),
)
S4000_3_1_0 = cards("MTT S4000", 49152, ("08", 562), ("09", 562), ("0e", 562))
S4000_2_7_0 = cards("MTT S4000", 49152, ("0f", 2), ("10", 2), ("11", 2), ("13", 2))
S4000_KUAE = cards("MTT S4000", 49152, ("16", 519), ("27", 3), ("38", 3), ("49", 3))
S5000_5_1_0 = cards(
    "MTT S5000", 81920, *((bus, 0) for bus in ["18", "3a", "4b", "5c", "9a", "ba", "ca", "da"])
)
S4000_WRONG_MEMORY = cards("MTT S4000", 32768, ("08", 44302))
S80_X4 = (card(0, "MTT S80", "0000:04:00.0", 2, 16384, lanes=4),)
S80_1016 = cards("MTT S80", 16384, ("01", 1016))
S80_662 = cards("MTT S80", 16384, ("01", 662))

TABLES: dict[str, tuple[str, str, tuple[GmiCard, ...], tuple[GmiProcess, ...]]] = {
    "gmi-s4000-32g-drv1.2.0-gmi1.12.2.txt": ("1.12.2", "1.2.0", S4000_WRONG_MEMORY, ()),
    "gmi-s4000-drv2.7.0-gmi1.14.0.partial.txt": ("1.14.0", "2.7.0", S4000_2_7_0, ()),
    "gmi-s4000-drv3.0.0-gmi2.2.0.partial.txt": (
        "2.2.0",
        "3.0.0",
        cards("MTT S4000", 49152, ("08", 0), ("09", 0)),
        (),
    ),
    "gmi-s4000-drv3.0.0-rc-KuaE2.0-gmi2.1.0.partial.txt": (
        "2.1.0",
        "3.0.0-rc-KuaE2.0",
        S4000_KUAE,
        (),
    ),
    "gmi-s4000-drv3.1.0-rc4.2.0-server-gmi2.1.0.partial.txt": (
        "2.1.0",
        "3.1.0-rc4.2.0-server-Ubuntu",
        S4000_3_1_0,
        (),
    ),
    "gmi-s5000-drv5.1.0-server-gmi2.4.1.partial.txt": (
        "2.4.1",
        "5.1.0-server",
        S5000_5_1_0[:2],
        (),
    ),
    "gmi-s80-drv2.7.0-gmi1.14.0.txt": ("1.14.0", "2.7.0", S80_X4, ()),
    "gmi-s80-drv2.7.0-gmi1.9.0.txt": (
        "1.9.0",
        "2.7.0",
        S80_1016,
        (
            GmiProcess(0, 4307, "/usr/local/bin/Xorg", 149),
            GmiProcess(0, 5034, "/usr/bin/gnome-shell", 381),
            GmiProcess(0, 5519, "/usr/lib/firefox/firefox", 240),
            GmiProcess(0, 6173, "N/A", 224),
        ),
    ),
    "gmi-s80-drv3.0.0-gmi2.0.0.txt": ("2.0.0", "3.0.0", S80_662, S80_PROCESSES),
    "mthreads-gmi_1.12.2_driver1.2.0_s4000-wrong-memory.txt": (
        "1.12.2",
        "1.2.0",
        S4000_WRONG_MEMORY,
        (),
    ),
    "mthreads-gmi_1.14.0_driver2.7.0_s4000-head.txt": ("1.14.0", "2.7.0", S4000_2_7_0[:3], ()),
    "mthreads-gmi_1.14.0_driver2.7.0_s80.txt": ("1.14.0", "2.7.0", S80_X4, ()),
    "mthreads-gmi_1.9.0_driver2.7.0_s80.txt": (
        "1.9.0",
        "2.7.0",
        S80_1016,
        (GmiProcess(0, 6173, "N/A", 224),),
    ),
    "mthreads-gmi_2.0.0_driver3.0.0_s80.txt": ("2.0.0", "3.0.0", S80_662, S80_PROCESSES),
    "mthreads-gmi_2.1.0_driver3.1.0-rc4.2.0-server-Ubuntu_s4000-head.txt": (
        "2.1.0",
        "3.1.0-rc4.2.0-server-Ubuntu",
        S4000_3_1_0,
        (),
    ),
    "mthreads-gmi_2.3.2_driver3.3.5-server_s5000-head.txt": (
        "2.3.2",
        "3.3.5-server",
        cards("MTT S5000", 81920, ("2a", 66641), ("3a", 64889), ("4c", 10)),
        (),
    ),
    "mthreads-gmi_2.4.1_driver5.1.0-server_s5000x8.txt": ("2.4.1", "5.1.0-server", S5000_5_1_0, ()),
}


def samples_of(*patterns: str) -> set[str]:
    return {path.name for pattern in patterns for path in SAMPLES.glob(pattern)}


def test_every_table_sample_is_listed() -> None:
    assert set(TABLES) == samples_of("gmi-s[0-9]*.txt", "mthreads-gmi_[0-9]*.txt")


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("stripped", [False, True])
def test_table(name: str, *, stripped: bool) -> None:
    text = sample(name)
    if stripped:
        text = "\n".join(line.rstrip() for line in text.splitlines())
    version, driver, expected, processes = TABLES[name]
    table = parse_table(text)
    assert table.tool_version == version
    assert str(table.driver) == driver
    assert table.cards == expected
    assert table.processes == processes
    assert table.error is None
    assert table.recognised


def test_process_table_of_the_wide_layout_without_its_head() -> None:
    table = parse_table(sample("mthreads-gmi-processes_2.3.3_x10000.txt"))
    assert table.processes == (GmiProcess(0, 12345, "/path/gpu_smoke", 111),)
    assert not table.recognised


ROW = "0    MTT S5000            |00000000:2a:00.0    |0%    0MiB(81920MiB)"
HEADER = "    mthreads-gmi:2.1.0           Driver Version:3.3.5-server"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # A card's name without its memory, and a second row of which nothing is known.
        (
            [ROW.replace("0MiB(81920MiB)", "N/A(N/A)"), "     N/A    N/A |N/A   |N/A  NO"],
            card(0, "MTT S5000", "0000:2a:00.0", None, None, None, None, device_type=None),
        ),
        ([ROW.partition("0MiB")[0]], card(0, "MTT S5000", "0000:2a:00.0", None, None, None, None, None)),
        # The guest's device types; with and without the column Perf.
        (
            [ROW, "     MPC Parent    P12    |8x(16x)             |52C   YES"],
            card(0, "MTT S5000", "0000:2a:00.0", 0, 81920, 8, 16, "MPC Parent"),
        ),
        (
            [ROW, "     Virtual       |1x(1x)             |52C   NO"],
            card(0, "MTT S5000", "0000:2a:00.0", 0, 81920, 1, 1, "Virtual"),
        ),
        # A domain of its own, as sysfs writes it, and upper case.
        (
            [ROW.replace("00000000:2a", "0001000A:2A"), ""],
            card(0, "MTT S5000", "1000a:2a:00.0", 0, 81920, None, None, None),
        ),
    ],
)  # fmt: skip
def test_rows_that_no_sample_has(rows: list[str], expected: GmiCard) -> None:
    table = parse_table("\n".join([HEADER, *rows]))
    assert table.cards == (expected,)


@pytest.mark.parametrize(
    "row",
    [
        "x    MTT S5000            |00000000:2a:00.0    |0%    0MiB(81920MiB)",
        "0    MTT S5000            |somewhere           |0%    0MiB(81920MiB)",
        "0    MTT S5000            |00000000:2a:00.0",
        ROW + " " * 400 + "|",
    ],
)
def test_rows_that_are_none(row: str) -> None:
    assert parse_table(row).cards == ()


@pytest.mark.parametrize(
    "row",
    [
        "0    1123   134MiB",
        "0    1123   /usr/lib/xorg/Xorg   134",
        "x    1123   /usr/lib/xorg/Xorg   134MiB",
        "0    x      /usr/lib/xorg/Xorg   134MiB",
    ],
)
def test_process_rows_that_are_none(row: str) -> None:
    assert parse_table(f"Processes:\n{row}").processes == ()


def test_a_process_row_outside_its_table() -> None:
    assert parse_table("0    1123   /usr/lib/xorg/Xorg   134MiB").processes == ()


def test_process_name_with_blanks() -> None:
    (process,) = parse_table("Processes:\n 3  77  python train.py --fp16   5MiB").processes
    assert process == GmiProcess(3, 77, "python train.py --fp16", 5)


JSON = {
    "mthreads-gmi-q-json_driver3.3.5-server_s5000.txt": (
        card(0, "MTT S5000", "0000:2a:00.0", 0, 81920, None, None, None, "4.3.41"),
        card(1, "MTT S5000", "", 0, 81920, None, None, None, "4.3.41"),
    ),
    "mthreads-gmi-q-json_2.3.3_driver3.3.8-server_x10000.txt": (
        card(0, "X10000", "0000:03:00.0", 1024, 81920, None, None, None),
        card(3, "X10000", "0000:07:00.0", None, 81920, None, None, None),
    ),
}


def test_every_json_sample_is_listed() -> None:
    assert set(JSON) == samples_of("mthreads-gmi-q-json_*.txt")


@pytest.mark.parametrize("name", JSON)
def test_json(name: str) -> None:
    assert parse_json(sample(name)) == JSON[name]


def test_json_keys_that_end_in_a_blank_and_links() -> None:
    element = sample("mthreads-gmi-q-json-gpu-element_s4000.txt")
    element = element.replace('"Index"', '"Index "').replace('"5", "Current"', '"N/A", "Current"')
    assert parse_json(f'{{"GPU": [{element}]}}') == (
        card(0, "MTT S4000", "0000:12:00.0", None, 49152, 16, 16, None, "3.4.8"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Error: unknown option --json",
        "[]",
        '{"GPU": 1}',
        '{"GPU": [1, {}, {"Index": 0}, {"Index": "x"}]}',
        "[" * 200_000,
        sample("mthreads-gmi-q-json_driver3.3.5-server_s5000.txt")[:900],
        '{"GPU": [{"Index": ' + "9" * 5000 + "}]}",
    ],
)
def test_json_of_another_kind_gives_no_card(text: str) -> None:
    assert parse_json(text) == ()


def test_merged_completes_the_table_and_appends_what_it_lacks() -> None:
    table = (
        card(0, "MTT S5000", "0000:2a:00.0", 0, 81920),
        card(1, "MTT S5000", "0000:3a:00.0", None, None),
    )
    from_json = (
        card(0, "MTT S5000", "0000:2a:00.0", 7, 81920, None, None, None, "4.3.41"),
        card(1, "MTT S5000", "", 9, 81920, None, None, None, "4.3.42"),
        card(2, "MTT S5000", "0000:4c:00.0", 1, 81920, None, None, None, "4.3.41"),
        card(3, "MTT S5000", "", 1, 81920, None, None, None, "4.3.41"),
    )
    assert merged(table, from_json) == (
        card(0, "MTT S5000", "0000:2a:00.0", 0, 81920, mtbios="4.3.41"),
        card(1, "MTT S5000", "0000:3a:00.0", 9, 81920, mtbios="4.3.42"),
        from_json[2],
    )


TEXTS = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            [
                *sample("mthreads-gmi_2.0.0_driver3.0.0_s80.txt").splitlines(),
                "0|00000000:01:00.0|(",
                "|||",
                "mthreads-gmi: Driver Version:" + "9" * 5000,
                "mthreads-gmi:1 Driver Version:" + "9" * 90 + ".1.1",
            ]
        )
        | st.text()
    ).map("\n".join),
)


@given(TEXTS)
def test_no_text_is_too_much_for_the_table(text: str) -> None:
    table = parse_table(text)
    assert table.recognised == bool(table.cards or table.tool_version)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(
            st.sampled_from(["GPU", "Index", "PCI", "GPU Link Info", "Link Width", "Bus ID"])
            | st.text(),
            inner,
        ),
    )
)  # fmt: skip
def test_no_json_is_too_much(value: object) -> None:
    assert isinstance(parse_json(json.dumps({"GPU": [value]})), tuple)


def test_a_long_line_costs_no_time() -> None:
    begun = time.monotonic()
    for filler in (" ", "a", "1", "|", ":", "MiB(", "\t"):
        parse_table(f"Processes:\n0 1 {filler * 1_000_000}MiB\n{filler * 1_000_000}")
    assert time.monotonic() - begun < 5


NAME = "mthreads-gmi"
PATH = "/usr/bin/mthreads-gmi"
S5000 = sample("mthreads-gmi_2.3.2_driver3.3.5-server_s5000-head.txt")
S5000_JSON = sample("mthreads-gmi-q-json_driver3.3.5-server_s5000.txt")


def machine(ran: Ran, json_ran: Ran | None = None) -> Recorder:
    runs = {NAME: ran} | ({f"{NAME} -q --json": json_ran} if json_ran else {})
    return host(programs={NAME: Found(PATH)}, runs=runs, stats={PATH: file(9, executable=True)})


# What it printed, its exit code, and the line that says what is wrong. The codes that no source
# states are 1 here.
ERRORS = [
    ("Error: failed to load driver.\n", 8, "Error: failed to load driver."),
    ("Error: No MT GPU device found.\n", 0, "Error: No MT GPU device found."),
    ("Error: there no exist gpu device\n", 0, "Error: there no exist gpu device"),
    ("Error: there no exist gpu device\n", 1, "Error: there no exist gpu device"),
    ("Error: failed to initialize mtml.\n", 1, "Error: failed to initialize mtml."),
    ("failed to initialize mtml\n", 0, "failed to initialize mtml"),
    (
        "Error: the requested operation is not available on target device\n",
        1,
        "Error: the requested operation is not available on target device",
    ),
    (f"{HEADER}\nError: No MT GPU device found.\n", 0, "Error: No MT GPU device found."),
    ("\ufffd[31mError: failed to load driver.\ufffd[0m\n", 8, "Error: failed to load driver."),
    ("", 0, "no output"),
    ("\n \n", 0, "no output"),
    ("", 6, "exit code 6, no output"),
    (f"Mon Nov 11 16:07:07 2024\n{HEADER}\n", 5, "exit code 5"),
    ("something went wrong\nmore\n", 4, "something went wrong"),
]  # fmt: skip


@pytest.mark.parametrize(("out", "code", "error"), ERRORS)
def test_errors(out: str, code: int, error: str) -> None:
    system = machine(Ran("failed" if code else "ok", code, out))
    assert gmi_answer(system) == ToolAnswer(NAME, code, error)
    assert gmi(system) == Absent(f"{NAME}: {error}")


def test_every_error_sample_is_understood() -> None:
    texts = {text for text, _, _ in ERRORS}
    names = samples_of("mthreads-gmi_error-*.txt") - {"mthreads-gmi_error-not-found_rc127.txt"}
    assert {sample(name).strip() for name in names} <= {text.strip() for text in texts}
    said = sample("gmi-errors.txt").splitlines()
    assert {line for line in said if line.startswith("Error")} <= {text.strip() for text in texts}


def test_errors_on_stderr() -> None:
    line = "mthreads-gmi: error while loading shared libraries: libdrm.so.2: cannot open"
    for ran in (Ran("failed", 127, f"\n{line}\n"), Ran("failed", 127, "x", f"\n{line}\n")):
        assert gmi_answer(machine(ran)) == ToolAnswer(NAME, 127, line)
    error = Ran("ok", 0, err="Error: failed to load driver.\n")
    assert gmi_answer(machine(error)) == ToolAnswer(NAME, 0, "Error: failed to load driver.")


def test_text_that_is_not_understood_is_unknown() -> None:
    system = machine(Ran("ok", 0, "M1000 management tool\n"))
    reason = "mthreads-gmi: its output is not understood: M1000 management tool"
    assert gmi_answer(system) == gmi(system) == Unknown(reason)


def test_cards_count_more_than_an_exit_code_or_a_later_error() -> None:
    text = f"{S5000}\nProcesses:\nError: the requested operation is not available\n"
    system = machine(Ran("failed", 5, text))
    assert gmi_answer(system) == ToolAnswer(NAME, 5, None)
    found = gmi(system)
    assert isinstance(found, Gmi)
    assert len(found.cards) == 3


@pytest.mark.parametrize(
    ("ran", "reason"),
    [
        (Ran("timed out", note="no answer in 10 s, killed"), "no answer in 10 s, killed"),
        (Ran("signal", -11, note="SIGSEGV"), "killed by SIGSEGV"),
        (Ran("flooded", -15, S5000, note="more than 16 MiB of output, killed"), "more than 16 MiB"),
        (Ran("not in this recording", note="mthreads-gmi: not in this recording"), "not in this"),
        (Ran("error"), "error"),
    ],
)
def test_a_tool_that_did_not_end_is_unknown(ran: Ran, reason: str) -> None:
    system = machine(ran)
    answer = gmi_answer(system)
    assert isinstance(answer, Unknown)
    assert answer.reason.startswith(f"{NAME}: ")
    assert reason in answer.reason
    assert gmi(system) == answer


def test_a_tool_that_vanished_is_absent() -> None:
    system = machine(Ran("not there", note="no mthreads-gmi on PATH"))
    assert gmi_answer(system) == gmi(system) == Absent("no mthreads-gmi on PATH")


@pytest.mark.parametrize("status", ["wrong format", "not executable", "not allowed"])
@pytest.mark.parametrize(
    ("size", "error"),
    [(0, "/usr/bin/mthreads-gmi is an empty file"), (7, "/usr/bin/mthreads-gmi: Exec format")],
)
def test_a_file_that_cannot_be_started_is_an_error(status: str, size: int, error: str) -> None:
    ran = Ran(status, note="/usr/bin/mthreads-gmi: Exec format")
    system = host(programs={NAME: Found(PATH)}, runs={NAME: ran}, stats={PATH: file(size)})
    assert gmi_answer(system) == ToolAnswer(NAME, 126, error)
    assert gmi(system) == Absent(f"{NAME}: {error}")


@pytest.mark.parametrize(
    ("stats", "error"),
    [
        ({PATH: file(0)}, f"{PATH} is an empty file"),
        ({PATH: file(7)}, f"{PATH} may not be executed"),
        ({PATH: Failure(NOT_ALLOWED, "x")}, f"{PATH} may not be executed"),
    ],
)
def test_a_file_that_may_not_be_executed_is_not_run(stats: dict[str, object], error: str) -> None:
    system = host(programs={NAME: Found("", PATH)}, stats=stats)  # type: ignore[arg-type]
    assert gmi_answer(system) == ToolAnswer(NAME, 126, error)
    assert gmi(system) == Absent(f"{NAME}: {error}")
    assert "runs" not in system.answers()


@pytest.mark.parametrize(
    ("programs", "name"),
    [
        ({"zjlab-gmi": Found("/usr/bin/zjlab-gmi")}, "zjlab-gmi"),
        ({"mthreads-smi": Found("/usr/bin/mthreads-smi")}, "mthreads-smi"),
        ({NAME: Found("", PATH), "zjlab-gmi": Found("/usr/bin/zjlab-gmi")}, "zjlab-gmi"),
        ({NAME: Found(PATH), "zjlab-gmi": Found("/usr/bin/zjlab-gmi")}, NAME),
    ],
)
def test_other_names(programs: dict[str, Found], name: str) -> None:
    text = S5000.replace("mthreads-gmi:2.3.2", f"{name}:2.1.2")
    system = host(programs=programs, runs={name: Ran("ok", 0, text)})
    assert gmi_answer(system) == ToolAnswer(name, 0, None)
    found = gmi(system)
    assert isinstance(found, Gmi)
    assert found.program == name
    assert found.tool_version == "2.1.2"
    assert found.source == f"/usr/bin/{name}"


def test_no_tool_at_all() -> None:
    names = "mthreads-gmi, zjlab-gmi, mthreads-smi"
    assert gmi_answer(host()) == gmi(host()) == Absent(f"no {names} on PATH")
    hidden = host(programs={NAME: Found("", "", ("/opt/secret", "/opt/b"))})
    assert locate(hidden) == Absent(f"no {names} on PATH (unreadable: /opt/secret, /opt/b)")
    open_host = host(unlisted="unrecorded")
    assert gmi_answer(open_host) == Unknown("mthreads-gmi: not in this recording")


def test_json_is_asked_from_2_3_on_and_its_failure_costs_nothing() -> None:
    table = parse_table(S5000)
    good = gmi(machine(Ran("ok", 0, S5000), Ran("ok", 0, S5000_JSON)))
    assert isinstance(good, Gmi)
    assert [c.mtbios for c in good.cards] == ["4.3.41", "4.3.41", None]
    assert good.source == "/usr/bin/mthreads-gmi, with -q --json"
    assert good.driver == KernelDriverVersion.parse("3.3.5-server")
    assert str(good) == "mthreads-gmi 2.3.2 lists 3 cards"
    for bad in (
        Ran("timed out", note="killed"),
        Ran("failed", 1, "Error: unknown option"),
        Ran("ok", 0, S5000_JSON[:700]),
    ):
        system = machine(Ran("ok", 0, S5000), bad)
        assert gmi_answer(system) == ToolAnswer(NAME, 0, None)
        assert gmi(system) == Gmi(
            NAME, "2.3.2", table.driver, table.cards, (), "/usr/bin/mthreads-gmi, without -q --json"
        )


@pytest.mark.parametrize(
    ("version", "asked"),
    [
        ("1.14.0", False),
        ("2.2.9", False),
        ("2.3.0", True),
        ("3.0", True),
        ("2", False),
        ("x", False),
    ],
)
def test_which_versions_are_asked_for_json(version: str, *, asked: bool) -> None:
    system = machine(Ran("ok", 0, S5000.replace("2.3.2", version)))
    assert isinstance(gmi(system), Gmi)
    assert (f"{NAME} -q --json" in system.answers()["runs"]) is asked


def test_a_table_without_cards_is_an_answer() -> None:
    system = machine(Ran("ok", 0, HEADER))
    assert gmi_answer(system) == ToolAnswer(NAME, 0, None)
    found = gmi(system)
    assert isinstance(found, Gmi)
    assert found.cards == ()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", ToolAnswer(NAME, 126, "{path} is an empty file")),
        ("#!/bin/sh\necho 'Error: failed to load driver.'; exit 8\n", ToolAnswer(NAME, 8, "Error: failed to load driver.")),
        ("#!/bin/sh\ntrue\n", ToolAnswer(NAME, 0, "no output")),
        ("#!/nowhere/sh\n", ToolAnswer(NAME, 126, "{path}: No such file or directory")),
    ],
)  # fmt: skip
def test_real_files(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch, script: str, expected: ToolAnswer
) -> None:
    path = os.path.join(tmp_path, NAME)
    with open(path, "w", encoding="utf-8") as tool:
        tool.write(script)
    os.chmod(path, 0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = gmi_answer(Recorder(Live(time.monotonic() + 20)))
    assert answer == expected._replace(error=(expected.error or "").format(path=path))
