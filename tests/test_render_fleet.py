"""Whole outputs of the report on many hosts, and of what changed."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import made_fleets
import pytest
from jsonschema import Draft202012Validator
from made_fleets import NOT_LOADED, host, made, timed_out
from summaries import LOCKUP, NARROW, answered
from test_render import Screen, same

from musadoctor.fleet.diff import (
    Diff,
    FleetDiff,
    FleetTraitChange,
    HostChange,
    Side,
    TraitChange,
    diff_fleets,
)
from musadoctor.fleet.diff_checks import StatusChange
from musadoctor.fleet.diff_facts import FactChange
from musadoctor.fleet.gather import Gathered
from musadoctor.fleet.nodes import expand
from musadoctor.fleet.state import Fleet, Gate, LeftOut, Unanswered, healthy
from musadoctor.fleet.summary import Cause
from musadoctor.render import fleet_json
from musadoctor.render.fleet import MOST_CAUSES, MOST_GROUPS, MOST_LEFT_OUT, MOST_SKEWS, render
from musadoctor.render.fleet_diff import render_fleets, render_hosts

DOCS = Path(__file__).parent.parent / "docs"
SCHEMA = Draft202012Validator(json.loads((DOCS / "fleet.schema.json").read_text()))
DIFF_SCHEMA = Draft202012Validator(json.loads((DOCS / "fleet-diff.schema.json").read_text()))
THOUSAND = made_fleets.thousand()
RACKS = made_fleets.racks()


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    for variable in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)


def told(
    fleet: Fleet,
    gate: Gate | None = None,
    *,
    screen: Screen | None = None,
    verbose: bool = False,
    quiet: bool = False,
) -> str:
    screen = screen or Screen()
    render(fleet, gate or Gate(), screen, verbose=verbose, quiet=quiet)
    return screen.getvalue()


def lines(
    fleet: Fleet, gate: Gate | None = None, *, verbose: bool = False, quiet: bool = False
) -> list[str]:
    return told(fleet, gate, verbose=verbose, quiet=quiet).splitlines()


class Whole(NamedTuple):
    """One whole output."""

    name: str
    fleet: Fleet
    width: int = 80
    verbose: bool = False
    quiet: bool = False
    terminal: bool = False
    gate: Gate = Gate()


@pytest.mark.parametrize(
    "whole",
    [
        Whole("thousand", THOUSAND),
        Whole("thousand-wide", THOUSAND, width=200),
        Whole("thousand-narrow", THOUSAND, width=30),
        Whole("thousand-colour", THOUSAND, width=100, terminal=True),
        Whole("thousand-verbose", THOUSAND, width=100, verbose=True),
        Whole("thousand-quiet", THOUSAND, quiet=True, gate=Gate(min_healthy=990)),
        Whole("racks", RACKS),
        Whole("one", made_fleets.ONE),
        Whole("none-healthy", made_fleets.NONE_HEALTHY),
        Whole("nobody", made_fleets.NOBODY),
        Whole("empty", made_fleets.EMPTY),
        Whole("all-well", made_fleets.ALL_WELL),
        Whole("hostile", made_fleets.HOSTILE, terminal=True),
    ],
    ids=lambda whole: whole.name,
)
def test_text(
    whole: Whole, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(whole.width))
    monkeypatch.setattr("musadoctor.render.fleet.__version__", "0.0.0")
    screen = Screen(terminal=whole.terminal)
    text = told(whole.fleet, whole.gate, screen=screen, verbose=whole.verbose, quiet=whole.quiet)
    same(f"fleet-{whole.name}.txt", text, request)


def test_no_color_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in told(THOUSAND, screen=Screen(terminal=True))


def test_a_terminal_of_a_posix_locale_can_show_it() -> None:
    assert told(THOUSAND).isascii()


def test_no_escape_and_no_markup_of_a_host_is_obeyed() -> None:
    text = told(made_fleets.HOSTILE, screen=Screen(terminal=True))
    assert "\ufffd[31m" in text
    assert "[red]m[/red]" in text
    assert "[link=x]c" in text
    for code in ("\x1b]", "\x1b[2J", "\x1b[5m", "\x07"):
        assert code not in text


def test_an_id_that_a_shell_would_obey_is_quoted() -> None:
    cause = Cause("$(reboot)", "error", "t", "", "")
    assert lines(made([answered("gpu1", cause)]))[-1] == "More: musadoctor explain '$(reboot)'"


def test_causes_come_by_severity_each_with_its_hosts_and_what_one_of_them_says() -> None:
    assert lines(RACKS)[8:13] == [
        "Causes",
        " error    driver-not-loaded: r2n8",
        "          on r2n8: mtgpu is not loaded (/proc/modules), and no package of its",
        "          source is left to build it for kernel 5.15.0-107-generic",
        "          $ sudo modprobe mtgpu",
    ]
    labels = [
        line.split()[0] for line in lines(THOUSAND) if line.startswith((" err", " warn", " note"))
    ]
    assert labels == ["error", "error", "warning", "note"]


def test_a_note_is_told_without_its_command() -> None:
    note = Cause("x", "note", "t", "m", "make it so")
    fleet = made([answered("gpu1", note)])
    assert "make it so" not in told(fleet)
    assert "          $ make it so" in lines(fleet, verbose=True)


@pytest.mark.parametrize(
    ("broken", "odd_is_broken", "words"),
    [
        (0, False, "gpu1, 1 of 40"),
        (0, True, "gpu1, 1 of 40; it is broken, none of the others is"),
        (1, True, "gpu1, 1 of 40; it is broken, 1 of the others is"),
        (2, False, "gpu1, 1 of 40; it is not broken, 2 of the others are"),
    ],
)
def test_with_a_difference_stands_how_it_goes_with_what_fails(
    broken: int, *, odd_is_broken: bool, words: str
) -> None:
    sick = [NOT_LOADED] if odd_is_broken else []
    hosts = [host("gpu1", *sick, BIOS="old")]
    hosts += [host(f"gpu{n}", *([NOT_LOADED] if n < 2 + broken else [])) for n in range(2, 41)]
    assert f" odd      {words}" in lines(made(hosts))


def test_of_many_odd_hosts_it_is_told_how_many_are_broken() -> None:
    hosts = [host("gpu1", NOT_LOADED, BIOS="old"), host("gpu2", NOT_LOADED, BIOS="old")]
    hosts += [host(f"gpu{n}") for n in range(3, 41)]
    expected = " odd      gpu[1-2] (2 hosts) of 40; 2 of them are broken, none of the others is"
    assert expected in lines(made(hosts))


def test_a_long_value_is_told_by_the_words_in_which_it_differs() -> None:
    boot = made_fleets.USUAL["boot parameters"]
    others = [host(f"gpu{n}") for n in range(2, 41)]

    def said(value: str) -> str:
        odd = [host("gpu1", boot_parameters=value)]
        (line,) = [
            one for one in lines(made([*odd, *others])) if "boot par" in one and "Odd" not in one
        ]
        return line.strip()

    assert said(boot.replace("=pt", "=off")) == "boot parameters  with iommu=off, without iommu=pt"
    assert said(f"{boot} debug") == "boot parameters  with debug"
    assert said(boot.removesuffix(" nokaslr")) == "boot parameters  without nokaslr"
    assert said(" ".join(boot.split()[::-1])) == "boot parameters  the same in another order"
    odd = made([host("gpu1", boot_parameters="x" * 99), *others])
    assert f"{'x' * 57}..., without" in told(odd)
    assert "x" * 99 in told(odd, verbose=True)


@pytest.mark.parametrize("verbose", [False, True])
def test_long_lists_are_cut_and_it_is_said_how_to_have_them_whole(*, verbose: bool) -> None:
    causes = [Cause(f"cause-{n}", "error", "t", "m", "") for n in range(MOST_CAUSES + 3)]
    hosts = [
        host(f"gpu{n}", *(causes if n == 0 else []), BIOS=str(n) if n < MOST_SKEWS + 2 else "new")
        for n in range(200)
    ]
    left_out = [LeftOut(f"f{n}", "empty") for n in range(MOST_LEFT_OUT + 1)]
    silent = [Unanswered(f"x{n}", "refused", f"reason {'i' * n}") for n in range(13)]
    found = lines(made(hosts, silent, left_out), verbose=verbose)
    cut = [
        " 3 more causes: --verbose",
        " 2 more differences: --verbose",
        " 3 more reasons, of 3 hosts: --verbose",
        " 1 more left out: --verbose",
    ]
    assert [line for line in found if line.endswith(": --verbose")] == ([] if verbose else cut)
    assert (" error    cause-9: gpu0" in found) == verbose


def test_a_long_set_of_hosts_is_cut_and_counted() -> None:
    names = [f"ip-10-{n * 7 % 251}-{n * 13 % 241}-{n}x{n * 31 % 97}" for n in range(300)]
    fleet = made([host(name, NOT_LOADED) for name in names])
    found = lines(fleet)
    at = found.index("Causes")
    end = next(n for n, line in enumerate(found) if "on ip-" in line)
    assert end - at <= 5
    assert found[end - 1].endswith("... (300 hosts)")
    assert max(map(len, found)) <= 80
    whole = lines(fleet, verbose=True)
    cut = whole[whole.index("Causes") + 1 :]
    text = "".join(
        line[10:] for line in cut[: cut.index("          The mtgpu kernel module is not loaded")]
    )
    nodes = text.removeprefix("driver-not-loaded: ").removesuffix("(300 hosts)")
    assert set(expand(nodes.strip())) == set(names)


def test_hosts_that_do_not_answer_for_the_same_reason_are_one_line() -> None:
    unanswered = [
        timed_out("a"),
        timed_out("gpu-1"),
        timed_out("gpu-10"),
        Unanswered("z", "silent", ""),
    ]
    found = lines(made([], unanswered))
    assert found[3:6] == [
        " unreachable  a,gpu-[1,10] (3 hosts): connect to host HOST port 22: Connection",
        "              timed out",
        " silent       z",
    ]


def test_a_host_is_not_found_within_another_name() -> None:
    unanswered = [
        Unanswered(name, "refused", "gpu-1.example gpu-1 gpu-12") for name in ("gpu-1", "b")
    ]
    found = lines(made([], unanswered))
    assert " refused  gpu-1: gpu-1.example gpu-1 gpu-12" in found


def test_uncleared_hosts_are_told_with_what_was_not_decided() -> None:
    hosts = [answered("gpu1", verdict="unknown"), answered("gpu2", undecided=("no-gpu",))]
    found = lines(made([*hosts, answered("gpu3", NOT_LOADED, bugs=1)]))
    at = found.index("Not cleared")
    assert found[at + 1 : at + 4] == [
        " unknown  gpu1: undecided: for a reason that its report tells",
        " unknown  gpu2: undecided: no-gpu",
        " unknown  gpu3: musadoctor itself broke there",
    ]


def test_of_many_groups_the_sickest_are_shown() -> None:
    hosts = [host(f"r{n}n1", *([NOT_LOADED] if n == 29 else [])) for n in range(30)]
    groups = {one.host: one.host.partition("n")[0] for one in hosts}
    found = lines(made(hosts, groups=groups, grouped_by="rack"))
    table = found[4 : found.index("Causes") - 1]
    assert len(table) == MOST_GROUPS + 1
    assert table[-2].split() == ["r29", "1", "0", "0", "1", "0", "0"]
    assert table[-1] == " 10 more groups: --verbose"


@pytest.mark.parametrize(
    ("gate", "last"),
    [
        (Gate(), ["broken: 1 healthy, 1 degraded, 1 broken", "Take out first: gpu1"]),
        (Gate(fail_on="warning"), ["broken: 1 healthy, 1 degraded, 1 broken", "Take out first: gpu[1-2] (2 hosts)"]),
        (
            Gate(min_healthy=2),
            ["broken: 1 healthy, 1 degraded, 1 broken", "enough: 2 hosts pass, 2 needed", "Take out first: gpu1"],
        ),
        (
            Gate(min_healthy=3),
            ["broken: 1 healthy, 1 degraded, 1 broken", "not enough: 2 hosts pass, 3 needed", "Take out first: gpu1"],
        ),
    ],
)  # fmt: skip
def test_the_end_says_which_hosts_to_take_out_and_what_to_type(gate: Gate, last: list[str]) -> None:
    fleet = made([answered("gpu1", NOT_LOADED), answered("gpu2", LOCKUP), answered("gpu3")])
    command = ["Type on gpu1: sudo modprobe mtgpu", "More: musadoctor explain driver-not-loaded"]
    found = lines(fleet, gate)
    assert found[-len(last) - 3 :] == ["", *last, *command]


def test_the_end_names_the_odd_host() -> None:
    hosts = [host(f"gpu{n}", kernel_driver="3.1" if n == 3 else "3.3") for n in range(32)]
    assert lines(made(hosts))[-2:] == [
        "healthy: 32 healthy",
        "Odd: gpu3: kernel driver 3.1, others have 3.3",
    ]
    assert lines(made(hosts), Gate(fail_on_skew=True))[-2] == "Take out first: gpu3"


def test_quiet_is_the_errors_and_the_end() -> None:
    quiet = lines(THOUSAND, quiet=True)
    assert quiet[0] == " error    driver-not-loaded: gpu[0017,0233] (2 hosts)"
    end = quiet.index("broken: 981 healthy, 2 degraded, 3 broken, 4 unknown, 10 did not answer")
    assert not any("warning" in line or "Differences" in line for line in quiet[:end])
    assert lines(made_fleets.ALL_WELL, quiet=True) == ["healthy: 32 healthy"]


def parsed(show: Callable[[io.StringIO], None], schema: Draft202012Validator) -> Any:
    stream = io.StringIO()
    show(stream)
    document = json.loads(stream.getvalue())
    schema.validate(document)
    return document


@pytest.mark.parametrize(
    "fleet",
    [
        THOUSAND,
        RACKS,
        made_fleets.ALL_WELL,
        made_fleets.ONE,
        made_fleets.NONE_HEALTHY,
        made_fleets.NOBODY,
        made_fleets.EMPTY,
        made_fleets.HOSTILE,
    ],
)
@pytest.mark.parametrize("gate", [Gate(), Gate("warning", True, True, 3)])
def test_json_is_after_its_schema(fleet: Fleet, gate: Gate) -> None:
    document = parsed(lambda stream: fleet_json.render(fleet, gate, stream), SCHEMA)
    assert document["healthy"]["hosts"] == list(healthy(fleet, gate))
    assert [row["host"] for row in document["hosts"]] == [one.host for one in fleet.hosts]
    for row in (*document["causes"], *document["skews"]):
        assert set(expand(row["nodes"])) == set(row["hosts"])


def test_json(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("musadoctor.render.fleet_json.__version__", "0.0.0")
    stream = io.StringIO()
    fleet_json.render(RACKS, Gate(min_healthy=16), stream)
    same("fleet.json", stream.getvalue(), request)


def test_a_host_is_one_line_of_the_json() -> None:
    stream = io.StringIO()
    fleet_json.render(THOUSAND, Gate(), stream)
    rows = [line for line in stream.getvalue().splitlines() if line.startswith(' {"host": "gpu')]
    assert len(rows) == 1000


def status(name: str, before: str, after: str, **more: Any) -> StatusChange:
    worse = {"failed": 2, "unknown": 1}
    way = worse.get(after, 0) - worse.get(before, 0)
    change = StatusChange(
        name, "error", f"{name} is bad", before, after, f"the message of {name}", "",
        way > 0 if way else None, frozenset(),
    )  # fmt: skip
    return change._replace(**more)


DIFF = Diff(
    Side("gpu017", "healthy", "0.1.0"),
    Side("gpu018", "broken", "0.2.0"),
    (
        status("driver-not-loaded", "passed", "failed"),
        status("torch-musa-import-fails", "passed", "failed", caused_by="driver-not-loaded"),
        status("gmi-fails", "", "unknown", message=""),
    ),
    (status("pcie-link-narrow", "failed", "passed", severity="note"), status("gone", "failed", "")),
    (status("card-memory-low", "failed", "failed", severity="warning"),),
    (
        TraitChange("kernel driver", 5, "3.1.0", "3.3.5"),
        TraitChange("boot parameters", 3, made_fleets.USUAL["boot parameters"], "quiet"),
    ),
    (
        *(FactChange(f"gmi.cards[{n}].mtbios", '"1.0"', '"1.1"') for n in range(17)),
        FactChange("kernel_driver.loaded", "", "true"),
    ),
    (FactChange("gmi.cards[0].used_mib", "0", "1"),),
    cut=True,
)
SAME = DIFF._replace(
    worse=(),
    better=(),
    otherwise=(),
    traits=(),
    facts=(),
    volatile=(),
    cut=False,
    after=DIFF.before,
)


@pytest.mark.parametrize(
    ("name", "verbose", "terminal"),
    [
        ("diff-hosts", False, False),
        ("diff-hosts-verbose", True, False),
        ("diff-hosts-colour", False, True),
    ],
)
def test_what_differs_between_two_hosts(
    name: str,
    *,
    verbose: bool,
    terminal: bool,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("musadoctor.render.fleet_diff.__version__", "0.0.0")
    screen = Screen(terminal=terminal)
    render_hosts(DIFF, screen, verbose=verbose)
    same(f"fleet-{name}.txt", screen.getvalue(), request)


@pytest.mark.parametrize(
    ("diff", "last"),
    [
        (SAME, "equal: nothing differs that means anything"),
        (SAME._replace(volatile=DIFF.volatile), "equal: nothing differs that means anything"),
        (SAME._replace(better=DIFF.better[:1]), "better: checks: 1 better"),
        (SAME._replace(otherwise=DIFF.otherwise), "changed: checks: 1 failing in another way"),
        (SAME._replace(facts=DIFF.facts[:1]), "changed: values: 1 other"),
    ],
)
def test_the_end_of_a_comparison_says_what_to_make_of_it(diff: Diff, last: str) -> None:
    screen = Screen()
    render_hosts(diff, screen)
    assert screen.getvalue().splitlines()[-1] == last
    assert "used_mib" not in screen.getvalue()


@pytest.mark.parametrize("diff", [DIFF, SAME])
def test_a_comparison_as_json_is_after_its_schema(diff: Diff) -> None:
    document = parsed(lambda stream: fleet_json.render_hosts_diff(diff, stream), DIFF_SCHEMA)
    assert document["kind"] == "hosts"
    assert len(document["worse"]) == len(diff.worse)


def week() -> FleetDiff:
    """Monday and Tuesday of a fleet."""
    monday = [host(f"gpu{n}", *([LOCKUP] if n == 5 else [])) for n in range(1, 33)]
    tuesday = [
        host(
            f"gpu{n}",
            *([NOT_LOADED] if n in {3, 4} else [NARROW] if n == 7 else []),
            kernel_driver="3.4.0" if 10 <= n < 20 else "3.3.5-server",
            undecided=("no-gpu",) if n == 6 else (),
        )
        for n in range(1, 32)
    ]
    return diff_fleets(
        Gathered(tuple(monday), (timed_out("gpu33"),), ()),
        Gathered((*tuesday, host("gpu40")), (timed_out("gpu33"), timed_out("gpu32")), ()),
    )


@pytest.mark.parametrize("verbose", [False, True])
def test_what_changed_in_a_fleet(
    *, verbose: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("musadoctor.render.fleet_diff.__version__", "0.0.0")
    screen = Screen()
    render_fleets(week(), ("monday.jsonl", "tuesday.jsonl"), screen, verbose=verbose)
    same(f"fleet-diff{'-verbose' if verbose else ''}.txt", screen.getvalue(), request)


NOTHING = FleetDiff(32, 32, (), (), (), ())
CHANGE = HostChange(("gpu1",), "broken", "healthy", (), ("driver-not-loaded",), "", worse=False)


@pytest.mark.parametrize(
    ("diff", "last"),
    [
        (NOTHING, "equal: 32 unchanged"),
        (NOTHING._replace(vanished=("gpu1",)), "changed: 1 gone, 32 unchanged"),
        (NOTHING._replace(changes=(CHANGE,), unchanged=31), "changed: 1 better or changed, 31 unchanged"),
        (
            NOTHING._replace(traits=(FleetTraitChange(DIFF.traits[0], ("gpu1",)),), unchanged=31),
            "changed: 31 unchanged",
        ),
        (
            NOTHING._replace(changes=(CHANGE._replace(before="healthy", after="no answer", worse=True),)),
            "Look first at gpu1: healthy -> no answer",
        ),
    ],
)  # fmt: skip
def test_the_end_says_what_to_make_of_two_days(diff: FleetDiff, last: str) -> None:
    screen = Screen()
    render_fleets(diff, ("a", "b"), screen)
    assert screen.getvalue().splitlines()[-1] == last


def test_a_host_of_which_nothing_is_known_any_more_is_not_called_better() -> None:
    changes = (
        CHANGE._replace(after="no answer"),
        CHANGE,
        CHANGE._replace(before="broken", after="broken"),
    )
    screen = Screen()
    render_fleets(NOTHING._replace(changes=changes), ("a", "b"), screen)
    rows = [line for line in screen.getvalue().splitlines() if "gpu1" in line]
    assert rows == [
        " changed  gpu1: broken -> no answer",
        " better   gpu1: broken -> healthy",
        " better   gpu1: still broken",
    ]


@pytest.mark.parametrize("diff", [week(), NOTHING])
def test_two_days_as_json_are_after_their_schema(diff: FleetDiff) -> None:
    document = parsed(
        lambda stream: fleet_json.render_fleets_diff(diff, ("a", "b"), stream), DIFF_SCHEMA
    )
    assert document["kind"] == "fleets"
    assert document["compared"] == diff.compared
