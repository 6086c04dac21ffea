"""Which hosts are compared with each other."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ClusterShell.NodeSet import set_std_group_resolver, set_std_group_resolver_config
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
        ("[" * 1200, "FILE: no YAML: "),
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


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Sets ClusterShell up by a configuration file, with ``RACKS`` in the folder that it may name."""
    (tmp_path / "groups.d").mkdir()
    (tmp_path / "groups.d/racks.yaml").write_text(RACKS, encoding="utf-8")

    def set_up(conf: str) -> None:
        path = tmp_path / "groups.conf"
        path.write_text(conf, encoding="utf-8")
        set_std_group_resolver_config(str(path))

    yield set_up
    set_std_group_resolver(None)


AUTO = "[Main]\nautodir: $CFGDIR/groups.d\n"


def test_without_a_file_the_groups_of_the_site_are_taken(site: Callable[[str], None]) -> None:
    site(AUTO)
    assert group_by(FOUR, "rack", None)["gpu4"] == "r2"


def test_a_source_may_be_a_command_as_for_the_partitions_of_slurm(
    site: Callable[[str], None],
) -> None:
    batch = "[ $GROUP = batch ] && echo 'gpu[1-3]' || echo gpu4"
    site(f"[partition]\nmap: {batch}\nlist: echo batch debug\n")
    groups = group_by(FOUR, "partition", None)
    assert groups == {"gpu1": "batch", "gpu2": "batch", "gpu3": "batch", "gpu4": "debug"}


def test_clustershell_reads_its_files_where_it_does_for_its_own_commands(tmp_path: Path) -> None:
    (tmp_path / "groups.conf").write_text(
        "[pod]\nmap: echo gpu1\nlist: echo p7\n", encoding="utf-8"
    )
    asked = (
        "from summaries import answered; from musadoctor.fleet.groups import group_by;"
        "print(group_by([answered('gpu1')], 'pod', None))"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked],
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            "CLUSTERSHELL_CFGDIR": str(tmp_path),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        },
    )
    assert done.stdout == "{'gpu1': 'p7'}\n"


@pytest.mark.parametrize(
    ("conf", "says"),
    [
        (
            AUTO,
            (
                "ClusterShell on this machine knows no groups 'row' (it knows rack, partition); set them up "
                "in its groups.d, or name a file with --groups FILE"
            ),
        ),
        ("", "knows no groups 'row' (it knows none)"),
        (
            "[Main]\ndefault: rocks\n",
            "ClusterShell's groups 'row' cannot be listed: Default group source not found: \"rocks\"",
        ),
        ("[row]\nlist: echo a\n", "cannot be listed: No option 'map'"),
        ("row\n", "cannot be listed: File contains no section headers"),
        ("[row]\nmap: echo gpu1\n", "cannot be listed: its source has no command for list"),
        ("[row]\nmap: echo a\nlist: exit 1\n", "cannot be listed: its source failed: exit 1"),
        ("[row]\nmap: exit 1\nlist: echo a\n", 'row:a" is no set of hosts: exit 1'),
        ("[row]\nmap: echo 'gpu[1-'\nlist: echo a\n", 'row:a" is no set of hosts: missing bracket'),
    ],
)
def test_groups_that_the_site_has_not_set_up_are_told_in_a_sentence(
    site: Callable[[str], None], conf: str, says: str
) -> None:
    site(conf)
    with pytest.raises(GroupsError) as refused:
        group_by(FOUR, "row", None)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
