"""Reports of many hosts, in any form, and whatever else lies beside them."""

import gc
import gzip
import io
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deadly
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import as_nobody, open_folder
from recorded import recorded, whole

from musadoctor.doctor import Options, examine
from musadoctor.fleet import documents, gather, sources, workers
from musadoctor.fleet.answer import DAMAGED, SILENT, TIMED_OUT, UNREACHABLE, Answer, envelope
from musadoctor.fleet.gather import Collected, Gathered, NothingError
from musadoctor.fleet.sources import Piece
from musadoctor.fleet.state import LeftOut, Unanswered
from musadoctor.fleet.whole import whole_report
from musadoctor.fleet.workers import Lost, side_by_side
from musadoctor.render import json as json_renderer
from musadoctor.report import Report

MADE = json_renderer.render(examine(recorded("s5000-5.2.0"), Options(plugins=False)))
PLAIN: dict[str, Any] = json.loads(MADE)
MONDAY, TUESDAY = "2026-11-30T12:00:00Z", "2026-12-01T12:00:00Z"


def report(host: str | None, **changed: object) -> dict[str, Any]:
    """A report that is no longer than it has to be."""
    return {
        **PLAIN,
        "vantage": {**PLAIN["vantage"], "host": host},
        "results": PLAIN["results"][:3],
        "facts": {"mcc": {"version": "5.2.0"}, "python": {"version": "3.10.12"}},
        **changed,
    }


def line(host: str, taken: str = MONDAY) -> str:
    return envelope(Answer(host, json.dumps(report(None))), via="ssh", taken=taken) + "\n"


def unanswered(host: str, taken: str = MONDAY) -> str:
    answer = Answer(host, None, UNREACHABLE, "No route to host")
    return envelope(answer, via="ssh", taken=taken) + "\n"


def names(gathered: Gathered) -> list[str]:
    return [host.host for host in gathered.hosts]


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str, str | bytes], str]:
    """Write a file; its path."""

    def put(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return put


Put = Callable[[str, str | bytes], str]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few reports, so that little files have many."""
    monkeypatch.setattr(sources, "PIECE", 10_000)
    monkeypatch.setattr(sources, "LONGEST_REPORT", 200_000)
    monkeypatch.setattr(sources, "MOST_WITHOUT_END", 800_000)


HOSTS = [f"gpu{number:03}" for number in range(40)]
REPORTS = [report(host) for host in HOSTS]
FORMS = {
    "one a line": "\n".join(map(json.dumps, REPORTS)),
    "one a line, as Windows ends them": "\r\n".join(map(json.dumps, REPORTS)),
    "with blank lines between": "\n\n".join(map(json.dumps, REPORTS)),
    "with a mark of the byte order": "\ufeff" + "\n".join(map(json.dumps, REPORTS)),
    "as musadoctor writes them, one after the other": "".join(
        MADE.replace('"host": null', f'"host": "{host}"') for host in HOSTS[:20]
    ),
    "indented, one after the other": "\n".join(json.dumps(one, indent=2) for one in REPORTS),
    "without anything between them": "".join(map(json.dumps, REPORTS)),
    "an array on one line": json.dumps(REPORTS),
    "an array, one a line": "[\n" + ",\n".join(map(json.dumps, REPORTS)) + "\n]\n",
    "an array, indented": json.dumps(REPORTS, indent=2),
    "kept answers": "".join(line(host) for host in HOSTS),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("packed", ["plain", "gzip", "gzip members", "zstd", "zstd frames"])
def test_every_form(put: Put, form: str, packed: str) -> None:
    text = FORMS[form].encode()
    half = len(text) // 2
    compress = zstandard.ZstdCompressor().compress
    content = {
        "plain": text,
        "gzip": gzip.compress(text, 1),
        "gzip members": gzip.compress(text[:half])
        + gzip.compress(b"")
        + gzip.compress(text[half:])
        + b"\0" * 20_000,
        "zstd": compress(text),
        "zstd frames": compress(text[:half]) + compress(text[half:]),
    }[packed]
    found = gather.gather([path := put("any name at all", content)])
    assert names(found) == HOSTS[: len(found.hosts)]
    for host in found.hosts[::13]:
        again = whole_report(path, host.source, host.host)
        assert isinstance(again, dict)
        # What stands in a kept answer has no name.
        assert again["vantage"]["host"] == (None if form == "kept answers" else host.host)
    assert len(found.hosts) >= 20
    assert (found.left_out, found.unanswered) == ((), ())
    assert {host.traits["mcc"] for host in found.hosts} == {"5.2.0"}
    assert all(", line " in host.source for host in found.hosts)


def test_one_host_is_found_again_among_all_that_a_folder_holds(put: Put, tmp_path: Path) -> None:
    put("gpu1.json", json.dumps(report(None)))
    put("gpu2.json", json.dumps(whole("no-gpu")))
    put("gpu3.json.gz", gzip.compress(line("gpu3").encode())[:-9])
    put("more.json", json.dumps([report("gpu4")]))
    put("zzz.jsonl", unanswered("gpu5") + "{\n")
    found = gather.gather([str(tmp_path)])
    assert names(found) == ["gpu1", "gpu2", "gpu3", "gpu4"]
    reports = [whole_report(str(tmp_path), host.source, host.host) for host in found.hosts]
    assert [type(one) for one in reports] == [dict, Report, dict, dict]
    assert whole_report(str(tmp_path), f"{tmp_path}/zzz.jsonl, line 1", "gpu5") is None


def test_what_gather_takes_is_found_again_whatever_its_numbers_are(put: Put) -> None:
    long = json.dumps(report("gpu1", spare="digits")).replace('"digits"', "9" * 9000)
    found = gather.gather([path := put("a.jsonl", f"{long}\n{json.dumps(report('gpu2'))}\n")])
    assert names(found) == ["gpu1", "gpu2"]
    assert all(whole_report(path, host.source, host.host) for host in found.hosts)


def test_of_recordings_in_one_place_each_is_its_own_hosts(put: Put) -> None:
    recordings = [whole("no-gpu") for _ in "12"]
    for number, recording in enumerate(recordings, 1):
        recording["answers"]["platform"][""]["host_name"] = f"gpu{number}"
    found = gather.gather([path := put("a.json", json.dumps(recordings))])
    assert names(found) == ["gpu1", "gpu2"]
    again = [whole_report(path, host.source, host.host) for host in found.hosts]
    assert [one.vantage.host for one in again if isinstance(one, Report)] == ["gpu1", "gpu2"]


@pytest.mark.parametrize("now", ["", "{", "[7]", "\n7", "\n{", "\n" + json.dumps(report("other"))])
def test_a_report_that_is_there_no_more_is_none(put: Put, now: str) -> None:
    (host,) = gather.gather([path := put("a.jsonl", "\n" + json.dumps(report("gpu1")))]).hosts
    put("a.jsonl", now)
    assert whole_report(path, host.source, host.host) is None


def test_the_standard_librarys_zstd_is_taken_where_there_is_one(
    put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(file: io.BufferedReader) -> io.BytesIO:
        return io.BytesIO(zstandard.ZstdDecompressor().decompressobj().decompress(file.read()))

    library = types.ModuleType("compression.zstd")
    library.ZstdFile = opened  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "compression", types.ModuleType("compression"))
    monkeypatch.setitem(sys.modules, "compression.zstd", library)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = put("gpu07", zstandard.ZstdCompressor().compress(json.dumps(report(None)).encode()))
    assert names(gather.gather([path])) == ["gpu07"]


def test_a_report_that_is_no_json_is_kept_as_a_damaged_answer(put: Put) -> None:
    kept = envelope(Answer("gpu01", "Killed"), via="ssh", taken=MONDAY)
    (one,) = gather.gather([put("a.jsonl", kept)]).unanswered
    assert (one.host, one.kind) == ("gpu01", DAMAGED)
    assert one.reason.startswith("no JSON: Expecting value")


def test_without_a_package_for_zstd_the_file_is_left_out(
    put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = zstandard.ZstdCompressor().compress(b"{}")
    for name in ("compression.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    path = put("a.zst", packed)
    found = gather.gather([path, put("gpu07.json", json.dumps(report(None)))])
    assert found.left_out == (
        LeftOut(
            path,
            'needs the package zstandard: pip install "musadoctor[zstd]", '
            "or give what `zstd -d` makes of it",
        ),
    )


def test_a_folder_of_reports_recordings_and_kept_answers(put: Put, tmp_path: Path) -> None:
    put("gpu10.json", json.dumps(report(None)))
    put("gpu2.json.gz", gzip.compress(json.dumps(report(None)).encode()))
    put("captured.json", json.dumps(whole("cuda-torch")))
    put("kept.jsonl", line("gpu7", TUESDAY) + unanswered("gpu8"))
    put("notes.txt", "by hand")
    (tmp_path / "older.json").mkdir()
    found = gather.gather([str(tmp_path)], expected=("gpu7", "gpu8", "gpu9"))
    assert names(found) == ["captured", "gpu2", "gpu7", "gpu10"]
    captured, _, kept, _ = found.hosts
    assert (captured.verdict, captured.source) == ("broken", str(tmp_path / "captured.json"))
    assert captured.causes[0].id == "torch-for-other-gpus"
    assert captured.traits["RDMA adapters"] == "none"
    assert (kept.taken, kept.source) == (TUESDAY, f"{tmp_path}/kept.jsonl, line 1")
    assert found.unanswered == (
        Unanswered("gpu8", UNREACHABLE, "No route to host"),
        Unanswered("gpu9", SILENT, "nothing was given that tells of it"),
    )
    assert found.left_out == (
        LeftOut(f"{tmp_path}/older.json", "a folder in a folder, expected a file of reports"),
        LeftOut(
            str(tmp_path),
            "not looked at: 1 of other kinds (notes.txt); "
            "in a folder, files in .json .jsonl .ndjson .gz .zst are read",
        ),
    )


def test_the_hosts_name_is_the_envelopes_else_the_reports_else_the_files(put: Put) -> None:
    told = json.loads(line("gpu01"))
    told["report"]["vantage"]["host"] = "other"
    paths = [
        put("x.json", json.dumps(told)),
        put("y.json", json.dumps(report("gpu02.cluster"))),
        put("gpu03.json", json.dumps(report("\x1b[31m"))),
    ]
    assert names(gather.gather(paths)) == ["gpu01", "gpu02.cluster", "gpu03"]


def test_a_recording_that_was_not_redacted_names_its_host(put: Put) -> None:
    recording = whole("s5000-5.2.0")
    recording["answers"]["platform"][""]["host_name"] = "gpu07"
    (host,) = gather.gather([put("x.json", json.dumps(recording))]).hosts
    assert (host.host, host.verdict, host.taken) == ("gpu07", "healthy", recording["taken"])


@pytest.mark.parametrize("name", ["my host.json", "\u673a.json", ".json"])
def test_a_report_that_nothing_names_is_left_out(put: Put, name: str) -> None:
    with pytest.raises(NothingError, match="names no host: make it with --no-redact, or keep one"):
        gather.gather([put(name, json.dumps(report(None)))])


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    given = gzip.compress((line("gpu01") + json.dumps(report(None))).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(given))))
    found = gather.gather(["-", "-"])
    assert names(found) == ["gpu01"]
    assert found.left_out == (LeftOut("standard input, line 2", documents.NAMELESS),)


def test_of_a_host_that_is_told_of_twice_the_newest_is_taken(put: Put) -> None:
    first = put("a.jsonl", line("gpu01") + line("gpu02", TUESDAY) + unanswered("gpu03"))
    second = put("b.jsonl", line("gpu01", TUESDAY) + line("gpu02") + line("gpu03"))
    third = put("gpu01.json", json.dumps(report(None)))
    found = gather.gather([first, second, third])
    assert [host.source for host in found.hosts] == [
        f"{second}, line 1",
        f"{first}, line 2",
        f"{second}, line 3",
    ]
    assert found.unanswered == ()
    assert found.left_out == (
        LeftOut(f"{first}, line 1", f"gpu01 stands in {second}, line 1 too, which is newer"),
        LeftOut(f"{second}, line 2", f"gpu02 stands in {first}, line 2 too, which is newer"),
        LeftOut(f"{first}, line 3", f"gpu03 stands in {second}, line 3 too, which was taken"),
        LeftOut(third, f"gpu01 stands in {second}, line 1 too, which is newer"),
    )


def test_a_host_that_no_longer_answers_is_unanswered(put: Put) -> None:
    found = gather.gather([put("a.jsonl", line("gpu01") + unanswered("gpu01", TUESDAY))])
    assert found.hosts == ()
    assert found.unanswered == (Unanswered("gpu01", UNREACHABLE, "No route to host"),)


def test_of_two_reports_of_no_day_the_first_is_taken(put: Put) -> None:
    paths = [put("a.json", json.dumps(report("gpu01"))), put("b.json", json.dumps(report("gpu01")))]
    found = gather.gather(paths)
    assert [host.source for host in found.hosts] == paths[:1]
    assert [one.source for one in found.left_out] == paths[1:]


ODD: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "empty"),
    "blanks": (" \n\n", "empty"),
    "an array of nothing": (" []\n", "holds nothing"),
    "a text": ("All is well.\n", "no JSON, or a part of it: Expecting value"),
    "half a report": (MADE[: len(MADE) // 2], "no JSON, or a part of it: "),
    "bytes": (bytes(range(256)), "no JSON, or a part of it"),
    "deep": ("[" * 100 + '{"a":' * 100_000, "nested too deeply"),
    "a number": ("7", "expected a report, found a number"),
    "a very long number": ("9" * 1_000_000, "expected a report, found a number"),
    "texts": ('"a"', 'expected a report, found "a"'),
    "true": ("true", "expected a report, found true"),
    "null": ("null", "expected a report, found nothing"),
    "foreign": ('{"a": 1}', 'expected a musadoctor report of schema_version "1", found nothing'),
    "of an older schema": (json.dumps(report("a", schema_version="0")), 'schema_version "1", found "0"'),
    "not a number": (json.dumps(report("a", schema_version=float("nan"))), "found a number"),
    "an older recording": ('{"format": "musadoctor-recording", "version": 0}', "expected recording version 1, found 0"),
    "a newer envelope": ('{"musadoctor_fleet": "2", "host": "a"}', 'expected an answer of version "1", found "2"'),
    "an envelope of nobody": ('{"musadoctor_fleet": "1"}', "nothing is no name of a host"),
    "an envelope of a bad name": ('{"musadoctor_fleet": "1", "host": "a b"}', '"a b" is no name of a host'),
    "very many values": (b'{"a":[' + b"[]," * 1_500_000, "more values than a report can have"),
    "gzip that ends too soon": (gzip.compress(MADE.encode())[:5000], "damaged: the end is missing"),
    "gzip that is none": (b"\x1f\x8b" + b"x" * 100, "damaged: Error -3 while decompressing data"),
    "zstd that is none": (b"\x28\xb5\x2f\xfd" + b"x" * 100, "damaged: zstd decompress error"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
def test_what_cannot_be_used_is_named_and_the_rest_is_read(put: Put, kind: str) -> None:
    content, reason = ODD[kind]
    odd = put("odd", content)
    found = gather.gather([put("gpu01.json", MADE), odd, put("gpu02.json", MADE)])
    assert names(found) == ["gpu01", "gpu02"]
    assert any(one.source == odd and reason in one.reason for one in found.left_out)
    assert all(one.reason.isprintable() for one in found.left_out)


def test_only_what_is_damaged_in_a_file_is_lost(put: Put) -> None:
    middle = line("gpu02")
    text = line("gpu01") + middle[:300] + "\n" + line("gpu03") + '7\n{"a": [{},\n' + line("gpu04")
    found = gather.gather([path := put("a.jsonl", text)])
    assert names(found) == ["gpu01", "gpu03", "gpu04"]
    assert [one.source for one in found.left_out] == [
        f"{path}, line 2",
        f"{path}, line 4",
        f"{path}, line 5",
    ]


def test_what_came_before_a_damage_in_gzip_is_read(put: Put) -> None:
    text = "".join(line(host) for host in HOSTS)
    found = gather.gather([path := put("a.gz", gzip.compress(text.encode())[:-9])])
    assert len(found.hosts) >= len(HOSTS) - 1
    assert found.left_out[0] == LeftOut(
        path, "damaged: the end is missing; what stands before that was read"
    )


def test_a_report_in_an_answer_that_is_none_of_ours_leaves_its_host_unanswered(put: Put) -> None:
    answers = [
        {"musadoctor_fleet": "1", "host": "gpu01", "report": {"a": 1}},
        {"musadoctor_fleet": "1", "host": "gpu02", "report": 7, "taken": "today"},
        {"musadoctor_fleet": "1", "host": "gpu03", "unanswered": {"kind": "fine", "reason": "x"}},
        {"musadoctor_fleet": "1", "host": "gpu04", "unanswered": {"kind": TIMED_OUT, "reason": 7}},
        {"musadoctor_fleet": "1", "host": "gpu05", "unanswered": {"kind": TIMED_OUT, "reason": "\x1b" + "x" * 999}},
    ]  # fmt: skip
    found = gather.gather([put("a.jsonl", "\n".join(map(json.dumps, answers)))])
    nothing = "the answer has no report and no reason"
    schema = 'expected a musadoctor report of schema_version "1", found nothing'
    assert found.unanswered[:-1] == (
        Unanswered("gpu01", DAMAGED, schema),
        Unanswered("gpu02", DAMAGED, nothing),
        Unanswered("gpu03", DAMAGED, nothing),
        Unanswered("gpu04", TIMED_OUT, ""),
    )
    assert found.unanswered[-1].reason == "\ufffd" + "x" * 496 + "..."


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("sizes", [(190_000, 0), (230_000, 1), (600_000, 1)])
def test_a_line_that_is_too_long_is_passed_over(put: Put, sizes: tuple[int, int]) -> None:
    size, longer = sizes
    odd = json.dumps({"padding": "x" * size}) + "\n"
    text = line("gpu01") + odd + line("gpu02") + odd + line("gpu03")
    found = gather.gather([path := put("a.jsonl", text)])
    assert names(found) == ["gpu01", "gpu02", "gpu03"]
    assert [one.source for one in found.left_out] == [f"{path}, line 2", f"{path}, line 4"]
    said = "longer than 0 MiB" if longer else "schema_version"
    assert all(said in one.reason for one in found.left_out)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("size", [300_000, 5_000_000])
def test_what_has_no_end_is_not_read_for_ever(put: Put, size: int) -> None:
    path = put("bomb.gz", gzip.compress((line("gpu01") + "[" + "x" * size).encode()))
    found = gather.gather([path])
    assert names(found) == ["gpu01"]
    assert LeftOut(f"{path}, line 2", "longer than 0 MiB") in found.left_out
    endless = "damaged: no end of a document in 0 GiB; what stands before that was read"
    assert (LeftOut(path, endless) in found.left_out) is (size > 800_000)


@pytest.mark.usefixtures("small")
def test_a_line_that_begins_with_the_next_block_is_found_after_one_that_is_too_long(
    put: Put,
) -> None:
    for size in (259_990, 259_999, 260_000, 260_001):
        found = gather.gather([put("a", "x" * (size - 1) + "\n" + line("gpu01"))])
        assert names(found) == ["gpu01"]
        assert found.hosts[0].source.endswith(", line 2")


@pytest.mark.usefixtures("small")
def test_a_long_report_that_is_all_of_its_file_is_named_by_it(put: Put) -> None:
    for padding in (9_000, 10_000, 20_000, 50_000):
        content = json.dumps(report(None, padding="x" * padding)) + "\n"
        (host,) = gather.gather([path := put("gpu07.json", content)]).hosts
        assert (host.host, host.source) == ("gpu07", path)
    exactly = json.dumps(report(None))
    text = exactly[:-1] + " " * (10_000 - len(exactly)) + "}" + "\n" * 20
    (host,) = gather.gather([put("gpu07.json", text)]).hosts
    assert host.host == "gpu07"


@pytest.mark.usefixtures("small")
def test_very_many_values_in_a_long_document_are_not_looked_at(
    put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("musadoctor.fleet.answer.MOST_VALUES", 5_000)
    text = '[{"a": [' + "[]," * 8_000 + "[]]}, " + json.dumps(report("gpu01")) + "]"
    with pytest.raises(NothingError, match="more values than a report can have"):
        gather.gather([put("a", text)])
    lines = line("gpu01") + '{"a": [' + "[]," * 8_000 + "\n" + line("gpu02")
    found = gather.gather([path := put("b", lines)])
    assert {one.source for one in found.left_out} <= {f"{path}, line 1", f"{path}, line 2"}


def test_after_very_many_damaged_ones_nothing_more_is_looked_at(put: Put) -> None:
    text = "{\n" * 150 + line("gpu01")
    with pytest.raises(NothingError, match=r"line 1: .* \(and 99 more\)"):
        gather.gather([put("a", text)])


def test_of_a_file_with_very_many_foreign_ones_some_are_named(put: Put) -> None:
    found = gather.gather([path := put("a", line("gpu01") * 250)])
    assert names(found) == ["gpu01"]
    assert len(found.left_out) == 101
    assert found.left_out[-1] == LeftOut(path, "149 more are left out")


def test_no_pipe_device_socket_or_broken_link_holds_anything_up(tmp_path: Path, put: Put) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "link.json").symlink_to(tmp_path / "nowhere")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.json"))
        put("gpu01.json", MADE)
        found = gather.gather(
            [str(tmp_path), "/dev/zero", "/proc/self/mem", "a\0b", str(tmp_path / "gone")]
        )
    said = {one.source.rpartition("/")[2]: one.reason for one in found.left_out}
    assert "embedded null" in said.pop("a\ufffdb")
    assert said == {
        "pipe.json": "a named pipe; give what it carries on standard input, as -, "
        "expected a file of reports",
        "link.json": "cannot be read: No such file or directory",
        "socket.json": "cannot be read: No such device or address",
        "zero": "a device, expected a file of reports",
        "mem": "cannot be read: Input/output error",
        "gone": "cannot be read: No such file or directory",
    }


def test_a_file_that_may_not_be_read() -> None:
    with open_folder() as folder:
        for name, mode in (("gpu01.json", 0o644), ("gpu02.json", 0)):
            (folder / name).write_text(MADE, encoding="utf-8")
            (folder / name).chmod(mode)
        found = as_nobody(lambda: gather.gather([str(folder)]))
    assert names(found) == ["gpu01"]
    assert found.left_out == (LeftOut(f"{folder}/gpu02.json", "cannot be read: Permission denied"),)


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str) -> Iterator[os.DirEntry[str]]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(NothingError, match="cannot be listed: Permission denied"):
        gather.gather([str(tmp_path)])


def test_a_folder_without_reports(tmp_path: Path, put: Put) -> None:
    with pytest.raises(NothingError, match=f"no report was found: {tmp_path}: empty; in a folder"):
        gather.gather([str(tmp_path)])
    for number in range(9):
        put(f"{number}.txt", "")
    with pytest.raises(NothingError, match=r"9 of other kinds \(0.txt, 1.txt, 2.txt, ...\);"):
        gather.gather([str(tmp_path)])


def test_nothing_named() -> None:
    with pytest.raises(NothingError, match="no report was found: no file named"):
        gather.gather([], expected=["gpu01"])


PARTS = (
    *(b"{", b"}", b"\n", b"[", b"]", b",", b'"', b"\\", b"\0", b"\xff", b"\x1f\x8b", b"9" * 50),
    *(b"\n{", b"}\n{", b"\xef\xbb\xbf", b"NaN", line("gpu01").encode(), b"\x28\xb5\x2f\xfd"),
)
NASTY = st.lists(st.sampled_from(PARTS) | st.binary(max_size=8), max_size=30).map(b"".join)


@pytest.mark.usefixtures("small")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(NASTY, st.sampled_from([bytes, gzip.compress, zstandard.compress]), st.integers(0, 40))
def test_no_bytes_are_too_much(
    tmp_path: Path, data: bytes, pack: Callable[[bytes], bytes], cut: int
) -> None:
    packed = pack(data)
    (tmp_path / "odd").write_bytes(packed[: max(0, len(packed) - cut)] if cut % 3 == 0 else packed)
    (tmp_path / "gpu99.json").write_text(json.dumps(report(None)))
    found = gather.gather([str(tmp_path / "odd"), str(tmp_path / "gpu99.json")])
    assert "gpu99" in names(found)
    assert all(one.reason.isprintable() for one in found.left_out)


SMALLEST = whole("no-gpu")
KINDS = ("files", "folders", "stats", "variables", "runs", "platform", "programs", "new")


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(KINDS), st.text(max_size=3), st.none() | st.text() | st.integers())
def test_no_recording_is_too_much(kind: str, subject: str, value: object) -> None:
    answers = {**SMALLEST["answers"], kind: {subject: value}}
    text = json.dumps({**SMALLEST, "answers": answers})
    (found,) = documents.documents(Piece("gpu01.json", 1, text.encode(), whole=True))
    assert isinstance(found, documents.Told) or found.reason.isprintable()


def test_answers_that_come_one_by_one() -> None:
    collected = Collected(("gpu01", "gpu09"))
    long = "[" + "[]," * 1_500_000
    for answer in (
        Answer("gpu10", json.dumps(report("other"))),
        Answer("gpu2", MADE),
        Answer("gpu01", None, TIMED_OUT, "no answer\nin 80 s"),
        Answer("gpu03", '{"a": 1}'),
        Answer("gpu04", "Segmentation fault"),
        Answer("gpu05", long),
        Answer("gpu06", '{"a": 1} {"a": 2}'),
        Answer("gpu07", ""),
    ):
        collected.add(answer)
    found = collected.gathered()
    assert names(found) == ["gpu2", "gpu10"]
    assert found.hosts[0].source == "the answer of gpu2"
    one = "expected one report and nothing else"
    assert found.unanswered == (
        Unanswered("gpu01", TIMED_OUT, "no answer in 80 s"),
        Unanswered("gpu03", DAMAGED, 'expected a musadoctor report of schema_version "1", found nothing'),
        Unanswered("gpu04", DAMAGED, "no JSON, or a part of it: Expecting value"),
        Unanswered("gpu05", DAMAGED, "more values than a report can have"),
        Unanswered("gpu06", DAMAGED, one),
        Unanswered("gpu07", DAMAGED, one),
        Unanswered("gpu09", SILENT, "nothing was given that tells of it"),
    )  # fmt: skip


def test_nothing_has_come_yet() -> None:
    assert Collected(("gpu01",)).empty
    assert [one.host for one in Collected(("gpu01",)).gathered().unanswered] == ["gpu01"]


def test_equal_texts_of_many_hosts_are_held_once() -> None:
    collected = Collected()
    for host in ("gpu01", "gpu02"):
        collected.add(Answer(host, MADE))
    one, other = collected.gathered().hosts
    assert all(one.traits[name] is other.traits[name] for name in one.traits)


def test_many_are_read_by_other_processes(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "ALONE", -1)
    monkeypatch.setattr(gather, "PIECE", 20_000)
    paths = [put(f"gpu{number:02}.json", MADE) for number in range(12)]
    found = gather.gather([*paths, put("odd", "odd")])
    assert names(found) == [f"gpu{number:02}" for number in range(12)]
    assert [one.source for one in found.left_out] == [str(Path(paths[0]).parent / "odd")]
    assert multiprocessing.active_children() == []


@pytest.mark.usefixtures("small")
def test_what_kills_its_reader_is_named_and_the_rest_is_read(
    put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "ALONE", -1)
    monkeypatch.setattr(gather, "PIECE", 20_000)
    monkeypatch.setattr(gather, "_told", deadly.told)
    lines = [line(host) for host in HOSTS[:12]]
    lines[7] = json.dumps({"deadly": True}) + "\n"
    found = gather.gather([put("gpu99.json", MADE), path := put("a.jsonl", "".join(lines))])
    assert names(found) == [*HOSTS[:7], *HOSTS[8:12], "gpu99"]
    died = "the process that read it died; was it out of memory?"
    assert found.left_out == (LeftOut(f"{path}, line 8", died),)


def test_batches_keep_their_order_and_a_deadly_one_takes_nothing_with_it() -> None:
    batches = [(1, 2), (3, 13, 4, 5), *((number,) for number in range(20, 30)), (13,), (6,)]
    found = list(side_by_side(deadly.doubled, iter(batches), processes=2))
    lost = [("lost", some.item) if isinstance(some, Lost) else some for some in found]
    assert lost == [
        [2, 4],
        [6],
        ("lost", 13),
        [8, 10],
        *([2 * n] for n in range(20, 30)),
        ("lost", 13),
        [12],
    ]


def test_without_shared_memory_all_is_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(processes: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(workers, "_pool", refused)
    assert list(side_by_side(deadly.doubled, [(1, 2), (3,)], processes=2)) == [[2, 4], [6]]


def test_who_stops_listening_leaves_no_process_behind() -> None:
    results = side_by_side(deadly.doubled, ((number,) for number in range(1000)), processes=2)
    assert next(iter(results)) == [0]
    results.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


WAITING = """
import time
import deadly
from musadoctor.fleet.workers import side_by_side

for pids in side_by_side(deadly.own, ((number,) for number in range(9)), processes=1):
    print(*pids, flush=True)
    time.sleep(60)
"""


def test_a_reader_does_not_outlive_whoever_was_killed() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(
        [sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        reader = int(parent.stdout.readline())
        parent.kill()
    until = time.monotonic() + 20
    while alive(reader):
        assert time.monotonic() < until
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; nobody may be there to bury a dead one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


class Parent:
    """A process that ends when it is told to."""

    def join(self) -> None:
        """It has ended."""


@pytest.mark.parametrize(("parent", "left"), [(Parent(), [1]), (None, [])])
def test_a_reader_ends_with_whoever_has_started_it(
    monkeypatch: pytest.MonkeyPatch, parent: Parent | None, left: list[int]
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(workers, "parent_process", lambda: parent)
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(gc, "disable", lambda: None)
    before = signal.getsignal(signal.SIGINT)
    try:
        workers.prepare().join(10)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert codes == left
