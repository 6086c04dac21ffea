"""Raw answers, kept and given again."""

import json
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import LINUX, host

from musadoctor.commands import Command, gmi_table
from musadoctor.live import Live
from musadoctor.recording import (
    FORMAT,
    MOST_BYTES,
    Recorder,
    Recording,
    RecordingError,
    read_recording,
    write_recording,
)
from musadoctor.redact import Redaction
from musadoctor.system import (
    DAMAGED,
    ERROR,
    NOT_ALLOWED,
    NOT_THERE,
    UNRECORDED,
    Elf,
    Failure,
    Found,
    Platform,
    Ran,
    Resources,
    Stat,
    System,
)

GMI = gmi_table("mthreads-gmi")
PLAIN = Command("x", "x", (), 1.0)
STAT = Stat("file", 7, 0o644, "root", usable=True, executable=False, real="/real")


def kept(system: Recorder, redaction: Redaction | None = None) -> str:
    return write_recording(
        system.answers(), musadoctor="1.0", taken="2026-11-30T00:00:00Z", redaction=redaction
    )


def replay(system: Recorder, redaction: Redaction | None = None) -> Recording:
    return Recording(kept(system, redaction), "host.json")


Ask = Callable[[System], object]

QUESTIONS: list[tuple[str, Ask]] = [
    ("run", lambda s: s.run(GMI)),
    ("read", lambda s: s.read("/f")),
    ("list", lambda s: s.list("/d")),
    ("stat", lambda s: s.stat("/s")),
    ("env", lambda s: s.env("V")),
    ("find", lambda s: s.find("p")),
    ("elf", lambda s: s.elf("/l.so")),
    ("cached", lambda s: s.cached("libmusa")),
    ("platform", lambda s: s.platform()),
    ("resources", lambda s: s.resources()),
]
FAILURES = [
    Failure(NOT_THERE, "no x"),
    Failure(NOT_ALLOWED, "x: Permission denied"),
    Failure(DAMAGED, "x: empty file"),
    Failure(ERROR, "x: Input/output error"),
    Failure("a kind of a newer version", "x"),
]
ANSWERS: list[tuple[str, str, object, Ask]] = [
    ("runs", "mthreads-gmi", Ran("ok"), QUESTIONS[0][1]),
    (
        "runs",
        "mthreads-gmi",
        Ran("failed", 8, "out\n", "err\0\x1b", "{}\n", "exit code 8", 1.25),
        QUESTIONS[0][1],
    ),
    ("runs", "mthreads-gmi", Ran("timed out", None, note="no answer in 10 s"), QUESTIONS[0][1]),
    ("files", "/f", "", QUESTIONS[1][1]),
    ("files", "/f", "驱动\n\0\udcff'\"\\", QUESTIONS[1][1]),
    ("folders", "/d", (), QUESTIONS[2][1]),
    ("folders", "/d", ("a", "\udcff", "b"), QUESTIONS[2][1]),
    ("stats", "/s", STAT, QUESTIONS[3][1]),
    ("variables", "V", "a:b", QUESTIONS[4][1]),
    ("variables", "V", "", QUESTIONS[4][1]),
    ("variables", "V", None, QUESTIONS[4][1]),
    ("programs", "p", Found("/bin/p", "/x/p", ("/closed",)), QUESTIONS[5][1]),
    ("programs", "p", Found(""), QUESTIONS[5][1]),
    ("libraries", "/l.so", Elf("x86_64", "l.so.1", ("libc.so.6",), ("/a",), ()), QUESTIONS[6][1]),
    ("libraries", "/l.so", Elf("i386", None, (), (), ()), QUESTIONS[6][1]),
    ("loader_cache", "libmusa", {"libmusa.so.1": "/x"}, QUESTIONS[7][1]),
    ("loader_cache", "libmusa", {}, QUESTIONS[7][1]),
    ("platform", "", LINUX, QUESTIONS[8][1]),
    (
        "platform",
        "",
        Platform("5", "x", "h", None, 0, (), "/p", "/chosen"),
        QUESTIONS[8][1],
    ),
    ("resources", "", Resources(8, 2**34), QUESTIONS[9][1]),
    ("resources", "", Resources(None, None), QUESTIONS[9][1]),
    *(
        (kind, subject, failure, ask)
        for failure in FAILURES
        for kind, subject, ask in [
            ("files", "/f", QUESTIONS[1][1]),
            ("folders", "/d", QUESTIONS[2][1]),
            ("stats", "/s", QUESTIONS[3][1]),
            ("variables", "V", QUESTIONS[4][1]),
            ("programs", "p", QUESTIONS[5][1]),
            ("libraries", "/l.so", QUESTIONS[6][1]),
            ("loader_cache", "libmusa", QUESTIONS[7][1]),
            ("platform", "", QUESTIONS[8][1]),
            ("resources", "", QUESTIONS[9][1]),
        ]
    ),
]


@pytest.mark.parametrize(("kind", "subject", "answer", "ask"), ANSWERS)
def test_every_answer_comes_back_as_it_was_given(
    kind: str, subject: str, answer: object, ask: Ask
) -> None:
    system = Recorder(Recording.of_answers({kind: {subject: answer}}, closed=False))
    assert ask(system) == answer
    again = ask(replay(system))
    assert again == answer
    assert type(again) is type(answer)


@pytest.mark.parametrize(("name", "ask"), QUESTIONS)
def test_what_was_never_asked_is_unrecorded(name: str, ask: Ask) -> None:
    empty = replay(host(platform=None, unlisted="unrecorded"))
    answer = ask(empty)
    subject = {"run": "mthreads-gmi", "read": "/f", "list": "/d", "stat": "/s", "env": "V"} | {
        "find": "p", "elf": "/l.so", "cached": "libmusa", "platform": "platform", "resources": "resources"
    }  # fmt: skip
    words = f"{subject[name]}: not in this recording"
    if name == "run":
        assert answer == Ran("not in this recording", note=words)
    else:
        assert answer == Failure(UNRECORDED, words)


@pytest.mark.parametrize(
    ("name", "ask", "expected"),
    [
        (*QUESTIONS[0], Ran("not there", note="no mthreads-gmi")),
        (*QUESTIONS[1], Failure(NOT_THERE, "no /f")),
        (*QUESTIONS[2], Failure(NOT_THERE, "no /d")),
        (*QUESTIONS[3], Failure(NOT_THERE, "no /s")),
        (*QUESTIONS[4], None),
        (*QUESTIONS[5], Found("")),
        (*QUESTIONS[6], Failure(NOT_THERE, "no /l.so")),
        (*QUESTIONS[7], {}),
        (*QUESTIONS[8], Failure(NOT_THERE, "no platform")),
        (*QUESTIONS[9], Failure(NOT_THERE, "no resources")),
    ],
)
def test_what_a_host_written_by_hand_does_not_list_is_not_there(
    name: str, ask: Ask, expected: object
) -> None:
    text = text_of({}, unlisted="not there")
    assert ask(Recording(text, name)) == expected
    assert ask(host(platform=None, resources=None)) == expected


def text_of(answers: object, **header: object) -> str:
    return json.dumps({"format": FORMAT, "version": 1, "answers": answers, **header})


PLATFORM: dict[str, object] = {
    "kernel": "5", "architecture": "x", "host_name": None, "glibc": None,
    "uid": 0, "groups": [], "own_python": "p",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a recording, found no JSON: Expecting value: line 1 column 1 (char 0)"),
        ("Driver Version", "expected a recording, found no JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"format": ', "expected a recording, found no JSON: Expecting value: line 1 column 12 (char 11)"),
        ("[]", 'expected a recording (a JSON object with "format": "musadoctor-recording"), as `musadoctor capture` writes it'),
        ('{"results": []}', 'expected a recording (a JSON object with "format": "musadoctor-recording"), as `musadoctor capture` writes it'),
        (text_of({}, version=2), "expected recording version 1, found 2"),
        (text_of({}, version="1"), "expected recording version 1, found a string"),
        (text_of({}, version={"a": 1}), "expected recording version 1, found an object"),
        (text_of({}, version=None), "expected recording version 1, found null"),
        (text_of([]), 'expected "answers" to be an object'),
        (json.dumps({"format": FORMAT, "version": 1}), 'expected "answers" to be an object'),
        (text_of({"files": []}), "expected answers.files to be an object"),
        (text_of({"files": {"/f": 1}}), 'answers.files["/f"]: expected a string, found an integer'),
        (text_of({"files": {"/f": {"text": ""}}}), 'answers.files["/f"]: expected a string, found an object'),
        (text_of({"files": {"/f": {"failure": "x"}}}), 'answers.files["/f"]: expected a string, found null'),
        (text_of({"files": {"/f": {"failure": 1, "detail": ""}}}), 'answers.files["/f"]: expected a string, found an integer'),
        (text_of({"folders": {"/d": "a"}}), 'answers.folders["/d"]: expected a list of strings, found a string'),
        (text_of({"folders": {"/d": ["a", 1.5]}}), 'answers.folders["/d"]: expected a string, found a number'),
        (text_of({"variables": {"V": False}}), 'answers.variables["V"]: expected a string, found true or false'),
        (text_of({"runs": {"r": "ok"}}), 'answers.runs["r"]: expected an object, found a string'),
        (text_of({"runs": {"r": {}}}), 'answers.runs["r"]: expected "status", found none'),
        (text_of({"runs": {"r": {"status": "ok", "code": "0"}}}), 'answers.runs["r"]: expected "code" to be an integer or null, found a string'),
        (text_of({"runs": {"r": {"status": "ok", "code": True}}}), 'answers.runs["r"]: expected "code" to be an integer or null, found true or false'),
        (text_of({"runs": {"r": {"status": "ok", "seconds": "1"}}}), 'answers.runs["r"]: expected "seconds" to be a number, found a string'),
        (text_of({"runs": {"r": {"status": "ok", "out": None}}}), 'answers.runs["r"]: expected "out" to be a string, found null'),
        (text_of({"stats": {"/s": {"kind": "file"}}}), 'answers.stats["/s"]: expected "size", found none'),
        (text_of({"stats": {"/s": STAT._asdict() | {"size": 1.0}}}), 'answers.stats["/s"]: expected "size" to be an integer, found a number'),
        (text_of({"stats": {"/s": STAT._asdict() | {"usable": 1}}}), 'answers.stats["/s"]: expected "usable" to be true or false, found an integer'),
        (text_of({"programs": {"p": {"path": ["/p"]}}}), 'answers.programs["p"]: expected "path" to be a string, found a list'),
        (text_of({"libraries": {"/l": {"machine": "x", "soname": 1}}}), 'answers.libraries["/l"]: expected "soname" to be a string or null, found an integer'),
        (text_of({"libraries": {"/l": {"machine": "x", "soname": None, "needed": "a"}}}), 'answers.libraries["/l"]: expected a list of strings, found a string'),
        (text_of({"loader_cache": {"lib": ["a"]}}), 'answers.loader_cache["lib"]: expected an object, found a list'),
        (text_of({"loader_cache": {"lib": {"a": None}}}), 'answers.loader_cache["lib"]: expected a string, found null'),
        (text_of({"platform": {"": PLATFORM | {"uid": None}}}), 'answers.platform[""]: expected "uid" to be an integer, found null'),
        (text_of({"platform": PLATFORM}), 'answers.platform["kernel"]: expected an object, found a string'),
    ],
)  # fmt: skip
def test_what_is_no_recording_is_said_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(RecordingError) as raised:
        Recording(text, "host.json")
    assert str(raised.value) == f"host.json: {words}"


def test_json_that_is_too_deep_is_said_too() -> None:
    for deep in ("[" * 200_000, '{"a":' * 200_000, text_of({"x": 0}).replace("0", "[" * 200_000)):
        with pytest.raises(
            RecordingError, match=r"^host\.json: expected a recording, found no JSON"
        ):
            Recording(deep, "host.json")


def test_tables_and_fields_of_a_newer_version_are_passed_over() -> None:
    text = text_of(
        {
            "smells": {"gpu": "burnt"},
            "sounds": 7,
            "runs": {"mthreads-gmi": {"status": "ok", "seconds": 1, "joules": 3}},
            "platform": {"": {**PLATFORM, "moon": "full"}},
        },
        colour="red",
    )
    recording = Recording(text, "host.json")
    assert recording.run(GMI) == Ran("ok", seconds=1.0)
    assert isinstance(recording.platform(), Platform)


def test_a_recorded_failure_to_run_keeps_its_kind() -> None:
    failure = {"failure": "not allowed", "detail": "closed"}
    recording = Recording(text_of({"runs": {"mthreads-gmi": failure}}), "host.json")
    assert recording.run(GMI) == Ran("not allowed", note="closed")


def test_when_a_recording_was_taken() -> None:
    assert replay(host()).taken == "2026-11-30T00:00:00Z"
    assert Recording(text_of({}), "x").taken == "on an unknown day"
    assert Recording(text_of({}, taken=7), "x").taken == "on an unknown day"
    assert json.loads(kept(host()))["redacted"] is False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [
        "failure",
        "detail",
        *Ran._fields,
        *Stat._fields,
        *Found._fields,
        *Elf._fields,
        *Platform._fields,
    ]
)
KINDS = [
    "runs",
    "files",
    "folders",
    "stats",
    "variables",
    "programs",
    "libraries",
    "loader_cache",
    "platform",
]
TABLES = st.dictionaries(
    st.sampled_from(KINDS),
    JSON | st.dictionaries(st.text(max_size=3), JSON | st.dictionaries(FIELDS, JSON), max_size=2),
)


@settings(max_examples=400, deadline=None)
@given(
    data=JSON
    | st.fixed_dictionaries(
        {},
        optional={
            "format": st.just(FORMAT),
            "version": st.just(1) | JSON,
            "answers": TABLES | JSON,
            "taken": JSON,
            "unlisted": JSON,
        },
    )
)
def test_any_json_is_a_recording_or_an_error(data: object) -> None:
    words = "read"
    try:
        recording = Recording(json.dumps(data), "host.json")
        for _, ask in QUESTIONS:
            ask(recording)
    except RecordingError as error:
        words = str(error)
    assert re.fullmatch(r"read|host\.json: (expected|answers\.).*", words)


class Counting(Live):
    """A machine that is slow to answer, and counts who asks."""

    def __init__(self) -> None:
        super().__init__(time.monotonic() + 60)
        self.asked: list[str] = []
        self._noting = threading.Lock()

    def note(self, question: str) -> None:
        with self._noting:
            self.asked.append(question)
        time.sleep(0.05)

    def run(self, command: Command) -> Ran:
        self.note(f"run {command}")
        return Ran("ok", 0, out=command.key)

    def read(self, path: str) -> str:
        self.note(f"read {path}")
        return path

    def env(self, name: str) -> str | None:
        self.note(f"env {name}")
        return None


def test_each_question_is_asked_once_however_many_ask() -> None:
    machine = Counting()
    system = Recorder(machine)
    answers: list[tuple[object, ...]] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        answers.append((system.run(GMI), system.read("/a"), system.env("A"), system.run(PLAIN)))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        system.answers()  # may be asked for at any time
    assert answers == [(Ran("ok", 0, out="mthreads-gmi"), "/a", None, Ran("ok", 0, out="x"))] * 8
    assert sorted(machine.asked) == ["env A", "read /a", "run mthreads-gmi", "run x"]


def test_slow_questions_do_not_hold_up_others() -> None:
    class Stuck(Counting):
        def read(self, path: str) -> str:
            never.wait()
            return path

    never = threading.Event()
    system = Recorder(Stuck())
    thread = threading.Thread(target=lambda: system.read("/stuck"))
    thread.start()
    try:
        assert system.env("A") is None
        assert system.answers() == {"variables": {"A": None}}
    finally:
        never.set()
        thread.join()


def test_a_live_machine_and_its_recording_give_the_same_answers(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).write_text("x")
    system = Recorder(Live(time.monotonic() + 60))

    def asked(of: System) -> list[object]:
        return [
            of.run(Command("sh -c echo", "sh", ("-c", "echo out; exit 3"), 5.0)),
            of.run(Command("absent", "no-such-tool", (), 5.0)),
            of.read("/proc/version"),
            of.read("/no/such/file"),
            of.list(str(tmp_path)),
            of.stat(str(tmp_path)),
            of.env("HOME"),
            of.env("NO_SUCH_VARIABLE"),
            of.find("sh"),
            of.elf("/bin/sh"),
            of.elf("/proc/version"),
            of.cached("libc"),
            of.platform(),
            of.resources(),
        ]

    answers = asked(system)
    text = kept(system)
    (tmp_path / "host.json").write_text(text, encoding="utf-8")
    assert asked(read_recording(str(tmp_path / "host.json"))) == answers


PRIVATE = host(
    files={"/home/alice/musa/version.json": "{}", "/proc/version": "built on gpu01 at 10.0.0.5"},
    folders={"/home/alice/musa": ["version.json", "gpu01"]},
    stats={"/home/alice/musa": STAT._replace(group="alice", real="/home/alice/musa-5.2.0")},
    variables={"MUSA_HOME": "/home/alice/musa", "MASTER_ADDR": "10.0.0.5"},
    programs={"mcc": Found("/home/alice/musa/bin/mcc", "", ("/home/bob/bin",))},
    libraries={"/home/alice/l.so": Elf("x86_64", "l.so", (), (), ("/home/alice/lib",))},
    loader_cache={"libmusa": {"libmusa.so.1": "/home/alice/libmusa.so.1"}},
    runs={
        "mthreads-gmi": Ran("ok", 0, 'Serial Number : MY1XX\n{"Serial Number": "MY1XX"}'),
        "/home/alice/musa/bin/mcc --version": Ran("ok", 0, "on gpu01"),
    },
    platform=LINUX._replace(
        host_name="gpu01", groups=("alice", "video"), own_python="/home/alice/venv/bin/python"
    ),
)
MCC = Command("/home/alice/musa/bin/mcc --version", "mcc", (), 1.0)


def ask_everything_private(system: System, home: str) -> list[object]:
    return [
        system.read(f"{home}/musa/version.json"),
        system.read("/proc/version"),
        system.list(f"{home}/musa"),
        system.stat(f"{home}/musa"),
        system.env("MUSA_HOME"),
        system.env("MASTER_ADDR"),
        system.find("mcc"),
        system.elf(f"{home}/l.so"),
        system.cached("libmusa"),
        system.run(GMI),
        system.run(MCC._replace(key=f"{home}/musa/bin/mcc --version")),
        system.platform(),
    ]


def test_a_redacted_recording_names_nobody_and_answers_by_its_own_paths() -> None:
    assert Failure not in {type(a) for a in ask_everything_private(PRIVATE, "/home/alice")}
    text = kept(PRIVATE, Redaction("/home/alice", "gpu01"))
    for private in ("alice", "bob", "gpu01", "10.0.0.5", "MY1XX"):
        assert private not in text
    header: dict[str, Any] = json.loads(text)
    assert header.pop("answers")
    assert header == {
        "format": FORMAT,
        "version": 1,
        "musadoctor": "1.0",
        "taken": "2026-11-30T00:00:00Z",
        "redacted": True,
    }
    assert ask_everything_private(Recording(text, "host.json"), "~") == [
        "{}",
        "built on host at x.x.x.x",
        ("version.json", "host"),
        STAT._replace(group="user", real="~/musa-5.2.0"),
        "~/musa",
        "x.x.x.x",
        Found("~/musa/bin/mcc", "", ("/home/user/bin",)),
        Elf("x86_64", "l.so", (), (), ("~/lib",)),
        {"libmusa.so.1": "~/libmusa.so.1"},
        Ran("ok", 0, 'Serial Number : REDACTED\n{"Serial Number": "REDACTED"}'),
        Ran("ok", 0, "on host"),
        LINUX._replace(host_name=None, groups=("user", "video"), own_python="~/venv/bin/python"),
    ]


def test_a_platform_that_could_not_be_asked_can_be_redacted_too() -> None:
    system = host(platform=Failure(ERROR, "gpu01: no"))
    system.platform()
    assert replay(system, Redaction(None, "gpu01")).platform() == Failure(ERROR, "host: no")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xfe{}", "expected a recording, found no UTF-8 text"),
        (
            b"[]",
            'expected a recording (a JSON object with "format": "musadoctor-recording"), as `musadoctor capture` writes it',
        ),
    ],
)
def test_a_file_that_is_no_recording(data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    path.write_bytes(data)
    with pytest.raises(RecordingError) as raised:
        read_recording(str(path))
    assert str(raised.value) == f"{path}: {words}"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, words in [
        (tmp_path / "absent", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ]:
        with pytest.raises(RecordingError) as raised:
            read_recording(str(path))
        assert str(raised.value) == f"{path}: {words}"


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(RecordingError, match=r"host\.json: larger than 64 MiB, so no recording$"):
        read_recording(str(path))


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    path.write_bytes(b"\xef\xbb\xbf" + text_of({"files": {"/f": "驱动"}}).encode())
    assert read_recording(str(path)).read("/f") == "驱动"
