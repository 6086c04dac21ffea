"""``fleet report`` and ``fleet diff`` as a user has them: in a process of its own."""

import copy
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families
from recorded import recorded, whole
from test_cli import ENVIRONMENT, Done, musadoctor

from musadoctor.doctor import Options, examine
from musadoctor.render.json import document

DOCS = Path(__file__).parent.parent / "docs"
SILENT = {"kind": "unreachable", "reason": "connect to host gpu9 port 22: No route to host"}


@cache
def diagnosed(case: str) -> str:
    return json.dumps(document(examine(recorded(case), Options(recording=case))))


def report(host: str | None, case: str = "s5000-5.2.0", **facts: Any) -> dict[str, Any]:
    """The report of a recorded host under another name, with other facts."""
    made: dict[str, Any] = json.loads(diagnosed(case))
    made["vantage"]["host"] = host
    made["facts"].update(facts)
    return made


def kept(host: str, day: str, told: Mapping[str, Any], key: str = "report") -> str:
    head = {"musadoctor_fleet": "1", "host": host, "via": "ssh", "taken": f"{day}T00:00:00Z"}
    return f"{json.dumps({**head, key: told})}\n"


def other_driver() -> dict[str, Any]:
    """The kernel driver's fact, of another version."""
    fact: dict[str, Any] = copy.deepcopy(report(None)["facts"]["kernel_driver"])
    fact["stated"][0]["version"] = "3.1.0-server"
    return fact


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of nine hosts, and single files of hosts."""
    folder = tmp_path_factory.mktemp("fleet")
    broken = "cuda-torch"
    monday = [kept(f"gpu{n}", "2026-01-05", report(f"gpu{n}")) for n in range(1, 9)]
    monday.append(kept("gpu9", "2026-01-05", SILENT, "unanswered"))
    tuesday = [
        kept(f"gpu{n}", "2026-01-06", report(f"gpu{n}", broken if n == 3 else "s5000-5.2.0"))
        for n in range(1, 8)
    ]
    odd = report("gpu8", kernel_driver=other_driver())
    tuesday.append(kept("gpu8", "2026-01-06", odd))
    well = folder / "reports"
    well.mkdir()
    for n in (1, 2, 10):
        (well / f"gpu{n}.json").write_text(json.dumps(report(f"gpu{n}"), indent=1))
    for name, lines in (("monday.jsonl", monday), ("tuesday.jsonl", tuesday)):
        (folder / name).write_text("".join(lines), encoding="utf-8")
    (folder / "rack.yaml").write_text("rack: {r1: 'gpu[1-4]', r2: 'gpu[5-9]'}\n")
    (folder / "nameless.json").write_text(json.dumps(report(None)))
    (folder / "odd-name.json").write_text(json.dumps(report("no name")))
    (folder / "gpu7.json").write_text(json.dumps(whole(broken)))
    (folder / "junk.json").write_text("{")
    (folder / "of:colon.json").write_text(json.dumps(report("gpu1")))
    (folder / "array.json").write_text(json.dumps([report("gpu1"), report("gpu3", broken)]))
    return folder


def fleet(folder: Path, *arguments: str, given: str = "") -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "musadoctor", "fleet", *arguments],
        input=given,
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=folder,
        env={**ENVIRONMENT, "CLUSTERSHELL_CFGDIR": str(folder)},
        timeout=120,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["reports"], 0),
        (["monday.jsonl"], 3),
        (["monday.jsonl", "--strict"], 1),
        (["monday.jsonl", "--min-healthy", "8"], 0),
        (["monday.jsonl", "--min-healthy", "9"], 1),
        # 88 % of nine hosts are eight, and 89 % are more.
        (["monday.jsonl", "--min-healthy", "88%"], 0),
        (["monday.jsonl", "--min-healthy", "89%"], 1),
        (["tuesday.jsonl"], 1),
        (["tuesday.jsonl", "--min-healthy", "7"], 0),
        (["tuesday.jsonl", "--min-healthy", "7", "--fail-on-skew"], 1),
        (["reports", "--expect", "gpu[1-2,10]"], 0),
        (["reports", "--expect", "gpu[1-10]"], 3),
    ],
)
def test_exit_codes(folder: Path, arguments: list[str], code: int) -> None:
    done = fleet(folder, "report", *arguments)
    assert done.code == code, done
    assert done.err == ""


def test_the_report_names_causes_odd_hosts_and_what_to_do(folder: Path) -> None:
    lines = fleet(folder, "report", "tuesday.jsonl").out.splitlines()
    assert " error    torch-for-other-gpus: gpu3" in lines
    assert " odd      gpu8, 1 of 8; it is not broken, 1 of the others is" in lines
    assert "Take out first: gpu3" in lines
    assert lines[-1] == "More: musadoctor explain torch-for-other-gpus"


def test_standard_input_and_several_files_are_one_fleet(folder: Path) -> None:
    given = (folder / "monday.jsonl").read_text()
    done = fleet(folder, "report", "-", "reports", "gpu7.json", "--json", given=given)
    made = json.loads(done.out)
    assert made["counts"]["hosts"] == 10
    assert {row["source"] for row in made["left_out"]} == {
        *(os.path.join("reports", f"gpu{n}.json") for n in (1, 2)),
        *(f"standard input, line {n}" for n in (7,)),
    }


def test_json_is_after_its_schema_and_alone_on_standard_output(folder: Path) -> None:
    done = fleet(folder, "report", "tuesday.jsonl", "--json", "--group-by", "card")
    made = json.loads(done.out)
    Draft202012Validator(json.loads((DOCS / "fleet.schema.json").read_text())).validate(made)
    assert made["exit_code"] == done.code == 1
    assert made["healthy"]["nodes"] == "gpu[1-2,4-8]"
    assert {row["group"] for row in made["hosts"]} == {"MTT S5000"}
    assert fleet(folder, "report", "tuesday.jsonl", "--format", "json").out.startswith("{")


def test_prometheus_is_put_in_the_place_of_the_file_that_was_there(
    folder: Path, tmp_path: Path
) -> None:
    target = tmp_path / "musadoctor.prom"
    target.write_text("old")
    done = fleet(folder, "report", "tuesday.jsonl", "--format", "prometheus", "-o", str(target))
    assert (done.code, done.out) == (1, "")
    families = text_string_to_metric_families(target.read_text())
    hosts = {
        s.labels["verdict"]: s.value
        for f in families
        for s in f.samples
        if f.name == "musadoctor_fleet_hosts"
    }
    assert hosts == {"healthy": 7, "degraded": 0, "broken": 1, "unknown": 0, "unanswered": 0}
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("notation", "out"),
    [
        ("nodeset", "gpu[1-2,4-8]\n"),
        ("comma", "gpu1,gpu2,gpu4,gpu5,gpu6,gpu7,gpu8\n"),
        ("lines", "gpu1\ngpu2\ngpu4\ngpu5\ngpu6\ngpu7\ngpu8\n"),
    ],
)
def test_the_healthy_hosts_alone_are_printed_for_a_script(
    folder: Path, tmp_path: Path, notation: str, out: str
) -> None:
    arguments = ("report", "tuesday.jsonl", "--min-healthy", "7", "--print-healthy", notation)
    assert fleet(folder, *arguments) == (0, out, "")
    target = tmp_path / "report.json"
    assert fleet(folder, *arguments, "--json", "-o", str(target)) == (0, out, "")
    assert json.loads(target.read_text())["exit_code"] == 0


def test_where_no_host_is_healthy_nothing_is_printed(folder: Path) -> None:
    assert fleet(folder, "report", "gpu7.json", "--print-healthy", "nodeset") == (1, "", "")


def test_hosts_are_compared_within_the_groups_of_a_file(folder: Path) -> None:
    arguments = ("report", "monday.jsonl", "--group-by", "rack", "--groups", "rack.yaml")
    lines = fleet(folder, *arguments).out.splitlines()
    assert lines[2] == "By rack"
    assert [line.split() for line in lines[4:6]] == [
        ["r1", "4", "4", "0", "0", "0", "0"],
        ["r2", "5", "4", "0", "0", "0", "1"],
    ]


def test_hosts_that_are_in_no_group_are_reported_all_the_same(folder: Path) -> None:
    (folder / "row.yaml").write_text("row: {a: 'cpu[1-4]'}\n")
    done = fleet(folder, "report", "reports", "--group-by", "row", "--groups", "row.yaml")
    assert done.code == 2
    assert done.out.splitlines()[-1] == "healthy: 3 healthy"
    assert done.err.startswith("musadoctor: no host is in the groups 'row' in row.yaml")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["report", "gone"], "no report was found: gone: cannot be read: No such file or directory"),
        (["report", "junk.json"], "no report was found: junk.json: no JSON"),
        (["report", "reports", "--expect", "gpu[1-"], "'gpu[1-' is no set of hosts: "),
        (["report", "reports", "--groups", "rack.yaml"], "--groups says where groups are"),
        (["report", "reports", "--group-by", "rack", "--groups", "gone"], "gone: No such file"),
        (["report", "reports", "--group-by", "row", "--groups", "rack.yaml"], "rack.yaml: expected groups 'row', found rack"),
        (["report", "gone", "--group-by", "row"], "ClusterShell on this machine knows no groups 'row'"),
        (["report", "reports", "--print-healthy", "lines", "--json"], "--print-healthy leaves standard output"),
        (["report", "reports", "-o", "no/such/file"], "cannot write no/such/file: No such file"),
        (["diff", "-", "reports"], "fleet diff reads its files twice"),
        (["diff", "reports", "gone"], "no report was found: gone: "),
        (["diff", "monday.jsonl:gpu99", "reports"], "monday.jsonl tells nothing of gpu99"),
        (["diff", "tuesday.jsonl", "monday.jsonl:gpu9"], "tuesday.jsonl tells nothing of gpu9"),
        (["diff", "monday.jsonl:gpu9", "gpu7.json"], "gpu9 did not answer in monday.jsonl: unreachable: connect to "),
        (["diff", "monday.jsonl:gpu 1", "reports"], "no report was found: monday.jsonl:gpu 1: "),
    ],
)  # fmt: skip
def test_wrong_use_is_one_sentence(folder: Path, arguments: list[str], sentence: str) -> None:
    done = fleet(folder, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"musadoctor: {sentence}")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["report"],
        ["diff", "monday.jsonl"],
        *(["report", "reports", "--min-healthy", bad] for bad in ("", "%", "-1", "1.5", "101%", "x", "9" * 99)),
        ["report", "reports", "--print-healthy", "yaml"],
        ["report", "reports", "--format", "line"],
        ["gone"],
    ],
)  # fmt: skip
def test_wrong_options_are_wrong_use(folder: Path, arguments: list[str]) -> None:
    done = fleet(folder, *arguments)
    assert (done.code, done.out) == (2, "")


def test_two_days_are_compared_host_by_host(folder: Path) -> None:
    done = fleet(folder, "diff", "monday.jsonl", "tuesday.jsonl")
    assert (done.code, done.err) == (1, "")
    lines = done.out.splitlines()
    assert " worse    gpu3: healthy -> broken" in lines
    assert "          gpu9" not in lines
    assert lines[-3].startswith("worse: 1 worse, 1 gone, ")
    back = fleet(folder, "diff", "tuesday.jsonl", "monday.jsonl")
    assert " better   gpu3: broken -> healthy" in back.out.splitlines()
    assert back.code == 0


@pytest.mark.parametrize(
    ("before", "after", "heading"),
    [
        ("tuesday.jsonl:gpu1", "tuesday.jsonl:gpu3", "gpu1 (healthy) -> gpu3 (broken)"),
        ("monday.jsonl:gpu3", "tuesday.jsonl", "gpu3 in monday.jsonl (healthy) -> in tuesday.jsonl (broken)"),
        ("monday.jsonl", "tuesday.jsonl:gpu3", "gpu3 in monday.jsonl (healthy) -> in tuesday.jsonl (broken)"),
        ("nameless.json", "gpu7.json", "nameless (healthy) -> gpu7 (broken)"),
        ("odd-name.json", "gpu7.json", "odd-name (healthy) -> gpu7 (broken)"),
        ("reports:gpu10", "gpu7.json", "gpu10 (healthy) -> gpu7 (broken)"),
        ("monday.jsonl:gpu2", "gpu7.json", "gpu2 (healthy) -> gpu7 (broken)"),
        ("of:colon.json", "gpu7.json", "gpu1 (healthy) -> gpu7 (broken)"),
        ("of:colon.json:gpu1", "gpu7.json", "gpu1 (healthy) -> gpu7 (broken)"),
        # Both stand on one line.
        ("array.json:gpu1", "array.json:gpu3", "gpu1 (healthy) -> gpu3 (broken)"),
    ],
)  # fmt: skip
def test_two_hosts_are_compared_value_by_value(
    folder: Path, before: str, after: str, heading: str
) -> None:
    done = fleet(folder, "diff", before, after)
    assert (done.code, done.err) == (1, "")
    lines = done.out.splitlines()
    assert lines[0].endswith(f" fleet diff: {heading}")
    assert " error    torch-for-other-gpus: passed -> failed" in lines
    assert " torch build         MUSA -> CUDA" in lines


def test_a_comparison_as_json(folder: Path, tmp_path: Path) -> None:
    schema = Draft202012Validator(json.loads((DOCS / "fleet-diff.schema.json").read_text()))
    done = fleet(folder, "diff", "tuesday.jsonl:gpu1", "tuesday.jsonl:gpu8", "--json")
    made = json.loads(done.out)
    schema.validate(made)
    assert made["kind"] == "hosts"
    assert [row["after"] for row in made["traits"]] == ["3.1.0-server"]
    # A difference alone is nothing that got worse.
    assert done.code == 0
    target = tmp_path / "diff.json"
    done = fleet(folder, "diff", "monday.jsonl", "tuesday.jsonl", "--json", "-o", str(target))
    assert (done.code, done.out) == (1, "")
    made = json.loads(target.read_text())
    schema.validate(made)
    assert made["vanished"]["nodes"] == "gpu9"


def test_what_is_left_out_of_a_comparison_is_said(folder: Path, tmp_path: Path) -> None:
    for name in ("gpu1.json", "gpu2.json"):
        (tmp_path / name).write_text((folder / "reports" / name).read_text())
    (tmp_path / "junk.json").write_text("{")
    done = fleet(folder, "diff", "reports", str(tmp_path))
    assert done.code == 0
    assert done.err == (
        f"musadoctor: left out {tmp_path}/junk.json: no JSON, or a part of it: "
        "Expecting property name enclosed in double quotes\n"
    )


def test_the_report_starts_without_what_it_has_no_use_for(folder: Path) -> None:
    code = (
        "import sys; from musadoctor.cli import app\n"
        "try: app(['fleet', 'report', 'reports', '--json'], prog_name='musadoctor')\n"
        "except SystemExit: print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        check=True,
        cwd=folder,
        env=ENVIRONMENT,
    )
    loaded = set(done.stderr.replace("'", "").strip("[]\n").split(", "))
    assert loaded.isdisjoint({"rich", "yaml", "musadoctor.doctor", "musadoctor.engine", "pydantic"})


def test_help_names_the_commands() -> None:
    done = musadoctor("fleet", "--help")
    assert done.code == 0
    for command in ("report", "diff"):
        assert f"│ {command} " in done.out
