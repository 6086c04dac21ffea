"""What is read out of the noise that engines let through."""

import base64
import gzip
import random
import tracemalloc
import zlib
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.fleet.answer import DAMAGED, NO_MUSADOCTOR, NO_PYTHON, TOO_LARGE, Answer
from musadoctor.fleet.carry import frames
from musadoctor.fleet.carry.frames import LONGEST_DATA, OTHER_KEPT, Frames
from musadoctor.fleet.carry.script import MARK

NONCE = "5eed"
REPORT = '{\n"verdict": "healthy"\n}'
MIB = 1 << 20


def packed(said: str, code: int = 0) -> bytes:
    return gzip.compress(f"{said}\nexit code {code}\n".encode())


def lines(host: str, data: bytes, *, width: int = 76, nonce: str = NONCE) -> list[bytes]:
    """As the script prints them."""
    text = base64.b64encode(data).decode()
    pieces = [text[at : at + width] for at in range(0, len(text), width)]
    begin = f"{MARK} {nonce} {host}"
    return [*(f"{begin} data {one}\n".encode() for one in pieces), f"{begin} end\n".encode()]


def printed(host: str, said: str = REPORT, code: int = 0) -> bytes:
    return b"".join(lines(host, packed(said, code)))


def read(*pieces: bytes) -> list[Answer]:
    reader = Frames(NONCE)
    return [answer for piece in pieces for answer in reader.feed(piece)]


def only(piece: bytes) -> Answer:
    (answer,) = read(piece)
    return answer


HEALTHY = Answer("h1", REPORT)


def test_an_answer_is_the_report_and_the_name() -> None:
    assert only(printed("h1")) == HEALTHY


def test_it_is_there_as_soon_as_its_end_is() -> None:
    *most, end = lines("h1", packed(REPORT))
    reader = Frames(NONCE)
    assert reader.feed(b"".join(most)) == []
    assert list(reader.begun) == ["h1"]
    assert reader.feed(end[:-1]) == []
    assert reader.feed(b"\n") == [HEALTHY]
    assert not reader.begun


@pytest.mark.parametrize("label", ["0: ", "[1,0]<stdout>:", "h1 | ", "\x1b[32mh1\x1b[0m: "])
def test_labels_in_front_of_lines_do_no_harm(label: str) -> None:
    piece = b"".join(label.encode() + line for line in lines("h1", packed(REPORT)))
    assert only(piece) == HEALTHY


def test_ends_of_lines_may_be_those_of_a_terminal() -> None:
    assert only(printed("h1").replace(b"\n", b"\r\n")) == HEALTHY
    assert only(printed("h1").replace(b"\n", b"\r\r\n")) == HEALTHY


def test_banners_and_empty_lines_in_between_do_no_harm() -> None:
    piece = b"\n**** no entry ****\n".join([b"", *lines("h1", packed(REPORT)), b""])
    assert only(piece) == HEALTHY


def test_our_lines_are_shorter_than_any_engine_cuts_them() -> None:
    longest = "n" * 255
    assert max(map(len, lines(longest, packed(REPORT), nonce="f" * 16))) < 1024


def test_hosts_may_come_in_between_each_other() -> None:
    many = {f"h{i}": lines(f"h{i}", packed(REPORT)) for i in range(5)}
    longest = max(map(len, many.values()))
    mixed = [ls[at] for at in range(longest) for ls in many.values() if at < len(ls)]
    assert {a.host: a.report for a in read(b"".join(mixed))} == dict.fromkeys(many, REPORT)


def test_of_a_host_the_first_answer_counts() -> None:
    second = printed("h1", '{\n"verdict": "broken"\n}')
    assert read(printed("h1") + second, second) == [HEALTHY]


def test_what_comes_after_a_failure_is_nothing_new() -> None:
    failed = f"{MARK} {NONCE} h1 failed no-tool there is no gzip\n".encode()
    assert read(failed + printed("h1") + failed) == [
        Answer("h1", None, NO_MUSADOCTOR, "there is no gzip")
    ]


def test_a_failure_forgets_what_came_before() -> None:
    begun = lines("h1", packed(REPORT))[0]
    reader = Frames(NONCE)
    reader.feed(begun)
    (answer,) = reader.feed(f"{MARK} {NONCE} h1 failed no-python none on PATH\n".encode())
    assert answer == Answer(
        "h1", None, NO_PYTHON, "Python 3.10 or later is needed there; found: none on PATH"
    )
    assert reader.begun == ()


def test_a_failure_that_we_do_not_know_is_quoted_without_what_a_terminal_obeys() -> None:
    said = f"{MARK} {NONCE} h1 failed \x1b[2Jboo {'x' * 9000}\n".encode()
    answer = only(said)
    assert answer.kind == DAMAGED
    assert answer.reason.startswith("\N{REPLACEMENT CHARACTER}[2Jboo xxx")
    assert len(answer.reason) <= 500


@pytest.mark.parametrize(
    "begin",
    [f"{MARK} other h1", f"{MARK}  h1", f"{MARK} {NONCE}", f"{MARK} {NONCE} ../h1", NONCE],
)
def test_marks_that_are_not_those_of_this_run_are_other_text(begin: str) -> None:
    assert read(f"{begin} data H4sI\n{begin} end\n{begin} failed no-python x\n".encode()) == []


@pytest.mark.parametrize("lost", [0, 1, -2])
def test_a_lost_line_makes_a_damaged_answer(lost: int) -> None:
    text = lines("h1", packed('{\n"a": "' + random.Random(1).randbytes(400).hex() + '"\n}'))
    del text[lost]
    answer = only(b"".join(text))
    assert (answer.report, answer.kind) == (None, DAMAGED)


def test_a_cut_answer_is_missing_a_part() -> None:
    data = packed('{\n"a": "' + "b" * 10_000 + '"\n}')[:-12]
    assert only(b"".join(lines("h1", data))).reason == "a part of the answer is missing"


def test_lines_that_are_no_base64_make_a_damaged_answer() -> None:
    begin = f"{MARK} {NONCE} h1"
    answer = only(f"{begin} data \x1b[2J!!\n{begin} end\n".encode())
    assert answer.kind == DAMAGED


def test_no_data_at_all_makes_a_damaged_answer() -> None:
    assert only(f"{MARK} {NONCE} h1 end\n".encode()).reason == "a part of the answer is missing"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Segmentation fault", "no report, exit code 139: Segmentation fault"),
        ("", "no report, exit code 139: nothing was said"),
        ("one\n\x1b[2Jtwo", "no report, exit code 139: \N{REPLACEMENT CHARACTER}[2Jtwo"),
        ("{ no end", "no report, exit code 139: { no end"),
        ("}\n} no begin", "no report, exit code 139: } no begin"),
    ],
)
def test_what_was_said_in_place_of_a_report_is_told(said: str, reason: str) -> None:
    assert only(printed("h1", said, 139)) == Answer("h1", None, DAMAGED, reason)


def test_a_report_without_an_exit_code_was_cut_off() -> None:
    data = gzip.compress(REPORT.encode())
    assert only(b"".join(lines("h1", data))).kind == DAMAGED


def test_warnings_around_a_report_are_left_out() -> None:
    assert only(printed("h1", f"Warning: a\n{REPORT}\nWarning: b", 1)) == HEALTHY


def test_a_bomb_does_not_go_off() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head, one = (packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    bomb = head + one * 1023 + packer.flush()
    piece = b"".join(lines("h1", bomb))
    tracemalloc.start()
    answer = only(piece)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer == Answer("h1", None, TOO_LARGE, "a report of more than 32 MiB")
    assert most < 200 * MIB


def test_too_much_data_is_not_kept() -> None:
    begin = f"{MARK} {NONCE} h1".encode()
    piece = (begin + b" data " + b"A" * 60_000 + b"\n") * 100
    reader = Frames(NONCE)
    tracemalloc.start()
    for _ in range(17):  # 100 MB
        reader.feed(piece)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 50 * MIB
    (answer,) = reader.feed(begin + b" end\n")
    assert answer == Answer("h1", None, TOO_LARGE, f"more than {LONGEST_DATA >> 20} MiB came")


def test_rubbish_without_ends_of_lines_is_not_kept() -> None:
    reader = Frames(NONCE)
    tracemalloc.start()
    for _ in range(1600):  # 100 MB
        reader.feed(b"x" * 65536)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 * MIB
    assert len(reader.other) <= OTHER_KEPT
    assert reader.feed(b"the end of it\n" + printed("h1")) == [HEALTHY]


def test_many_names_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MOST_HOSTS", 10)
    reader = Frames(NONCE)
    for number in range(1000):
        reader.feed(lines(f"begun{number}", packed(REPORT))[0])
    assert len(reader.begun) == 10
    assert reader.feed(printed("one-more")) == []
    assert [a.host for a in reader.feed(printed("begun0"))] == ["begun0"]


def test_all_unfinished_answers_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MOST_DATA", MIB)
    reader = Frames(NONCE)
    tracemalloc.start()
    for number in range(100):
        reader.feed(f"{MARK} {NONCE} h{number} data ".encode() + b"A" * 60_000 + b"\n")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 3 * MIB
    (answer,) = reader.feed(f"{MARK} {NONCE} h99 end\n".encode())
    assert answer.kind == DAMAGED
    for number in range(20):  # with each that ends there is room again
        reader.feed(f"{MARK} {NONCE} h{number} end\n".encode())
    assert reader.feed(printed("late")) == [Answer("late", REPORT)]


def test_the_last_of_what_is_not_ours_is_kept_for_a_reason() -> None:
    reader = Frames(NONCE)
    assert reader.other == ""
    reader.feed(b"banner\n" * 10_000 + b"\r\n  \n\x1b[31mno such\rprogram\r\nand a half")
    assert reader.other.endswith("banner\n\N{REPLACEMENT CHARACTER}[31mno suchprogram\nand a half")
    reader.feed(b" line\n" + printed("h1")[:40])
    assert reader.other.endswith("and a half line")
    assert len(reader.other) <= OTHER_KEPT


STREAM = b"".join(
    [
        b"Welcome to h1\r\n\x1b[2J",
        b"x" * 70_000,
        b"\n0: ",
        *lines("h1", packed(REPORT)),
        b"no line end",
        f"{MARK} {NONCE} h2 failed no-musadoctor no musadoctor on PATH\n".encode(),
        *lines("h3", packed("Killed", 137), width=1000),
        f"{MARK} other h4 end\n".encode(),
        printed("h1"),
        f"{MARK} {NONCE} h5 data AAAA\n".encode(),
        b"the end",
    ]
)


def pieces(stream: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = [0, *sorted({min(cut, len(stream)) for cut in cuts}), len(stream)]
    return [stream[a:b] for a, b in pairwise(places)]


@given(st.lists(st.integers(0, len(STREAM)), max_size=200))
def test_however_the_stream_is_cut_the_answers_are_the_same(cuts: list[int]) -> None:
    assert read(*pieces(STREAM, cuts)) == read(STREAM)


NOISE = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([b"\n", b"\r\n", f"{MARK} {NONCE} ".encode(), b"h1 ", b"data ", b"end", b"{"]),
    st.sampled_from([*lines("h1", packed(REPORT)), *lines("h2", packed("no\x1b[2J", 3))]),
)


@given(st.lists(NOISE, max_size=40))
def test_whatever_comes_nothing_is_raised_and_nothing_a_terminal_obeys_comes_out(
    noise: list[bytes],
) -> None:
    reader = Frames(NONCE)
    for piece in noise:
        for answer in reader.feed(piece):
            assert "\x1b" not in answer.reason
            assert len(answer.reason) <= 600
    assert "\x1b" not in reader.other
