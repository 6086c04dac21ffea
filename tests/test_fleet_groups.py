"""Which hosts are compared with each other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from summaries import answered

from musadoctor.fleet.groups import GroupsError, group_by
from musadoctor.fleet.summary import HostSummary

RACKS = """\
rack:
  r1: gpu[1-2]
  r2: 'gpu[3-4],login1'
partition:
  batch: [gpu1, 'gpu[3-4]']
  debug: '@rack:r1!gpu1'
  spare:
"""


def hosts(*names: str) -> list[HostSummary]:
    return [answered(name) for name in names]


FOUR = hosts("gpu1", "gpu2", "gpu3", "gpu4")


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "groups.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def refusal(tmp_path: Path, text: str, by: str = "rack") -> str:
    with pytest.raises(GroupsError) as refused:
        group_by(FOUR, by, written(tmp_path, text))
    said = str(refused.value)
    assert "\n" not in said
    return said.replace(str(tmp_path / "groups.yaml"), "FILE")


@pytest.mark.parametrize(
    ("cards", "group"),
    [
        ("8 x MTT S5000", "MTT S5000"),
        # A host of which one card is gone, or is another, stays with its like: there it is odd.
        ("7 x MTT S5000", "MTT S5000"),
        ("7 x MTT S5000, 1 x MTT S4000", "MTT S5000"),
        ("2 x PCI 0323", "PCI 0323"),
        ("none", "no card"),
        (None, "cards not known"),
    ],
)
def test_hosts_of_one_kind_of_card_belong_together(cards: str | None, group: str) -> None:
    host = answered("gpu1", traits={} if cards is None else {"cards": cards})
    assert group_by([host], "card", None) == {"gpu1": group}


def test_racks_are_taken_from_a_file_in_the_format_of_clustershell(tmp_path: Path) -> None:
    groups = group_by(FOUR, "rack", written(tmp_path, RACKS))
    assert groups == {"gpu1": "r1", "gpu2": "r1", "gpu3": "r2", "gpu4": "r2", "login1": "r2"}


def test_sets_may_be_lists_and_name_other_groups(tmp_path: Path) -> None:
    groups = group_by(FOUR, "partition", written(tmp_path, RACKS))
    assert groups == {"gpu1": "batch", "gpu2": "debug", "gpu3": "batch", "gpu4": "batch"}


def test_hosts_in_no_group_are_compared_with_each_other(tmp_path: Path) -> None:
    groups = group_by(hosts("gpu1", "gpu7", "gpu8"), "rack", written(tmp_path, RACKS))
    assert (groups["gpu1"], groups["gpu7"], groups["gpu8"]) == ("r1", "no rack", "no rack")


def test_a_group_of_all_hosts_is_no_group(tmp_path: Path) -> None:
    file = written(tmp_path, f"{RACKS}".replace("rack:\n", "rack:\n  all: gpu[1-4]\n"))
    assert set(group_by(FOUR, "rack", file).values()) == {"r1", "r2"}


def test_the_word_card_may_be_one_of_the_site(tmp_path: Path) -> None:
    file = written(tmp_path, "card: {new: 'gpu[1-4]'}")
    assert set(group_by(FOUR, "card", file).values()) == {"new"}


def test_no_hosts_have_no_groups(tmp_path: Path) -> None:
    assert group_by([], "card", None) == {}
    assert set(group_by([], "rack", written(tmp_path, RACKS)).values()) == {"r1", "r2"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rack: [", "FILE: no YAML: "),
        ("rack: \x00", "FILE: no YAML: "),
        ("[" * 3000, "FILE: no YAML: "),
        ("", "FILE: expected `rack: {r1: 'gpu[01-16]', ...}`, found nothing"),
        ("- gpu1", "FILE: expected `rack: {r1: 'gpu[01-16]', ...}`, found a list"),
        ("rack: gpu1", "FILE: rack: expected `rack: {r1: 'gpu[01-16]', ...}`, found \"gpu1\""),
        ("rack: {1: gpu1}", "FILE: rack: expected a name, found 1; put it in quotes"),
        ("rack: {r1: 7}", "FILE: rack: r1: expected 'gpu[01-16]', found a number"),
        ("rack: {r1: [gpu1, {}]}", "FILE: rack: r1: expected 'gpu[01-16]', found an object"),
        (
            "rack: {r1: 'gpu[1-'}",
            "the groups 'rack' in FILE: r1: \"gpu[1-\" is no set of hosts: missing",
        ),
        ("rack: {r1: '@other:x'}", "there is no group source other"),
        ("rack: {r1: '@r2', r2: '@r1'}", "is no set of hosts: maximum recursion depth"),
        ("row: {a: gpu1}\nroom: {}", "FILE: expected groups 'rack', found row, room"),
        ("{}", "FILE: expected groups 'rack', found none"),
        (
            "rack: {a: 'gpu[1-2]', b: 'gpu[2-4]'}",
            "gpu2 is in two groups of the groups 'rack' in FILE, a and b",
        ),
        ("rack: {a: 'node[1-2]'}", "have names like gpu1, those there like node1"),
        ("rack: {a: }", "have names like gpu1, those there like none at all"),
        (f"#{'x' * (1 << 20)}", "FILE: more than 1 MiB"),
    ],
)
def test_a_file_that_groups_nothing_is_refused_in_a_sentence(
    tmp_path: Path, text: str, says: str
) -> None:
    assert says in refusal(tmp_path, text)


def test_that_a_host_which_was_not_asked_is_in_two_groups_does_no_harm(tmp_path: Path) -> None:
    file = written(tmp_path, "rack: {a: 'gpu[1-2],x', b: 'gpu[3-4],x'}")
    assert group_by(FOUR, "rack", file)["gpu4"] == "b"


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        GroupsError, match=r"racks.yaml: No such file or directory; expected `rack:"
    ):
        group_by(FOUR, "rack", str(tmp_path / "racks.yaml"))


OF_SITE = """
import sys
from musadoctor.fleet.groups import GroupsError, group_by
from summaries import answered
try:
    groups = group_by([answered(f"gpu{n}") for n in range(1, 5)], sys.argv[1], None)
except GroupsError as error:
    print(error)
else:
    print(" ".join(f"{host}={group}" for host, group in groups.items()))
"""


def of_site(folder: Path, by: str, **files: str) -> str:
    """What is said with a site's own files of ClusterShell, read by it as it is set up."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", OF_SITE, by],
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            "CLUSTERSHELL_CFGDIR": str(folder),
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
            "PYTHONPATH": os.pathsep.join(["tests", *sys.path]),
        },
        cwd=Path(__file__).parent.parent,
    )
    return done.stdout.rstrip("\n")


CONF = """\
[Main]
default: racks
autodir: $CFGDIR/groups.d
"""
SLURM = f"""{CONF}
[partition]
map: [ "$GROUP" != debug ] && echo 'gpu[1-3]' || echo gpu4
list: echo batch debug
"""


def test_without_a_file_the_groups_of_the_site_are_taken(tmp_path: Path) -> None:
    said = of_site(
        tmp_path,
        "rack",
        groups_conf="[Main]\nautodir: $CFGDIR/groups.d\n",
        groups_d__site_yaml=RACKS,
    )
    assert said == "gpu1=r1 gpu2=r1 gpu3=r2 gpu4=r2 login1=r2"


def test_a_source_may_be_a_command_as_for_the_partitions_of_slurm(tmp_path: Path) -> None:
    said = of_site(tmp_path, "partition", groups_conf=SLURM.replace("default: racks\n", ""))
    assert said == "gpu1=batch gpu2=batch gpu3=batch gpu4=debug"


@pytest.mark.parametrize(
    ("by", "conf", "says"),
    [
        ("row", SLURM, "cannot be listed: Default group source not found"),
        ("row", "[row]\nlist: echo a\n", "cannot be listed: No option 'map'"),
        ("row", "row\n", "cannot be listed: File contains no section headers"),
        (
            "row",
            "[row]\nmap: echo gpu1\nlist: exit 1\n",
            "cannot be listed: its source failed: exit 1",
        ),
        ("row", "[row]\nmap: echo gpu1\n", "cannot be listed: its source has no command for list"),
        (
            "row",
            "[row]\nmap: exit 1\nlist: echo a\n",
            'row:a" is no set of hosts: exit 1',
        ),
        (
            "row",
            "[row]\nmap: echo 'gpu[1-'\nlist: echo a\n",
            'row:a" is no set of hosts: missing bracket',
        ),
    ],
)
def test_groups_that_the_site_has_not_set_up_are_told_in_a_sentence(
    tmp_path: Path, by: str, conf: str, says: str
) -> None:
    said = of_site(tmp_path, by, groups_conf=conf)
    assert says in said
    assert "\n" not in said


def test_a_word_that_the_site_does_not_know_is_told_with_those_that_it_knows(
    tmp_path: Path,
) -> None:
    said = of_site(tmp_path, "row", groups_conf=SLURM.replace("default: racks\n", ""))
    assert said.startswith("ClusterShell on this machine knows no groups 'row' (it knows ")
    assert "partition" in said
    assert said.endswith("set them up in its groups.d, or name a file with --groups FILE")
