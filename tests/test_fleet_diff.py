"""What changed between two reports, or two days of a fleet, and which of it matters."""

import copy
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import HOSTS
from summaries import LOCKUP, NARROW, NOT_LOADED, answered

from musadoctor.doctor import Options, examine
from musadoctor.fleet.diff import NO_ANSWER, TraitChange, diff_fleets, diff_reports
from musadoctor.fleet.diff_facts import FactChange, fact_changes
from musadoctor.fleet.gather import Gathered
from musadoctor.fleet.state import Unanswered
from musadoctor.fleet.summary import ForeignError, HostSummary
from musadoctor.recording import Recording
from musadoctor.render.json import document
from musadoctor.report import JSON

NAMES = ("gpu1", "gpu2")


@cache
def diagnosed(host: str = "s5000-5.2.0") -> dict[str, Any]:
    path = HOSTS / host / "recording.json"
    recording = Recording(path.read_text(encoding="utf-8"), str(path))
    return document(examine(recording, Options(recording=str(path))))


def changed(**facts: Any) -> dict[str, Any]:
    """The healthy report with other facts."""
    report = copy.deepcopy(diagnosed())
    report["facts"].update(facts)
    return report


def judged(report: Mapping[str, JSON], check: str, status: str, **more: Any) -> dict[str, Any]:
    """The same report with another status for a check."""
    other: dict[str, Any] = copy.deepcopy(dict(report))
    (result,) = [result for result in other["results"] if result["id"] == check]
    result.update(status=status, **more)
    return other


def failing(check: str, message: str = "it is so", **more: Any) -> dict[str, Any]:
    finding = {"message": message, "where": "", "fix": None}
    return judged(diagnosed(), check, "failed", findings=[finding], **more)


def paths(changes: tuple[FactChange, ...]) -> list[str]:
    return [change.path for change in changes]


def test_the_same_report_twice_differs_in_nothing() -> None:
    diff = diff_reports(diagnosed(), copy.deepcopy(diagnosed()), NAMES)
    assert diff[2:] == ((), (), (), (), (), (), False)
    assert diff.before == ("gpu1", "healthy", diagnosed()["musadoctor"])


def test_hosts_with_another_driver_differ_in_what_comes_with_it() -> None:
    diff = diff_reports(diagnosed("s5000-4.3.5"), diagnosed(), NAMES)
    assert TraitChange("kernel driver", 5, "3.3.5-server", "5.2.0-server") in diff.traits
    weights = [change.weight for change in diff.traits]
    assert weights == sorted(weights, reverse=True)
    assert FactChange("gmi.driver", '"3.3.5-server"', '"5.2.0-server"') in diff.facts
    assert not diff.cut


def test_what_got_worse_is_sorted_by_severity_then_by_layer() -> None:
    after = diagnosed()
    for check, status in {
        "pcie-link-narrow": "failed",  # a note
        "torch-musa-import-fails": "failed",
        "iommu-on": "failed",  # a warning
        "driver-not-loaded": "unknown",
    }.items():
        after = judged(after, check, status, findings=[], reason="why")
    diff = diff_reports(diagnosed(), after, NAMES)
    assert [(c.id, c.before, c.after) for c in diff.worse] == [
        ("driver-not-loaded", "passed", "unknown"),
        ("torch-musa-import-fails", "passed", "failed"),
        ("iommu-on", "passed", "failed"),
        ("pcie-link-narrow", "passed", "failed"),
    ]
    assert diff.better == ()
    assert diff.worse[0].message == "why"
    back = diff_reports(after, diagnosed(), NAMES)
    assert [c.id for c in back.better] == [c.id for c in diff.worse]
    assert back.worse == ()


def test_what_fails_now_is_told_with_its_words_and_what_explains_it() -> None:
    after = failing("gmi-not-found", "no mthreads-gmi on PATH", caused_by="driver-not-loaded")
    (change,) = diff_reports(diagnosed(), after, NAMES).worse
    assert change.severity == "warning"
    assert change.title == "The management tool mthreads-gmi is not on PATH"
    assert change.message == "no mthreads-gmi on PATH"
    assert change.caused_by == "driver-not-loaded"


def test_what_no_longer_fails_is_told_with_what_it_said() -> None:
    (change,) = diff_reports(failing("gpu-lockup", "card 3 hung"), diagnosed(), NAMES).better
    assert (change.before, change.after, change.message) == ("failed", "passed", "card 3 hung")


def test_what_can_no_longer_be_decided_where_it_failed_is_told_with_the_reason() -> None:
    after = judged(diagnosed(), "gpu-lockup", "unknown", reason="the kernel log is not readable")
    (change,) = diff_reports(failing("gpu-lockup"), after, NAMES).better
    assert change.message == "the kernel log is not readable"


def test_a_check_that_fails_as_before_and_says_something_else_is_told() -> None:
    one, two = failing("pcie-link-narrow", "card 3"), failing("pcie-link-narrow", "cards 3, 5")
    diff = diff_reports(one, two, NAMES)
    assert [(c.id, c.message) for c in diff.otherwise] == [("pcie-link-narrow", "cards 3, 5")]
    assert diff_reports(one, copy.deepcopy(one), NAMES).otherwise == ()


def test_checks_that_only_one_report_has_are_told_where_they_fail() -> None:
    fewer = copy.deepcopy(diagnosed())
    fewer["results"] = [r for r in fewer["results"] if r["id"] not in {"gpu-lockup", "no-gpu"}]
    (change,) = diff_reports(fewer, failing("gpu-lockup"), NAMES).worse
    assert (change.id, change.before, change.after) == ("gpu-lockup", "", "failed")
    (change,) = diff_reports(failing("gpu-lockup"), fewer, NAMES).better
    assert (change.before, change.after, change.caused_by) == ("failed", "", "")


def test_facts_that_the_changed_checks_rest_on_come_first() -> None:
    more = changed(
        collectives={"available": True, "version": "2.9"},
        kernel_driver={"absent": "no module"},
    )
    after = {**more, "results": failing("driver-not-loaded")["results"]}
    assert paths(diff_reports(diagnosed(), more, NAMES).facts)[0].startswith("collectives")
    assert paths(diff_reports(diagnosed(), after, NAMES).facts)[0].startswith("kernel_driver")


def test_what_is_another_every_time_is_told_apart() -> None:
    gmi = copy.deepcopy(diagnosed()["facts"]["gmi"])
    gmi["cards"][3]["used_mib"] = 512
    gmi["processes"] = [{"card": 3, "pid": 4711, "name": "python", "used_mib": 512}]
    torch = {**diagnosed()["facts"]["torch_import"], "seconds": 9.0}
    after = changed(gmi=gmi, torch_import=torch, kernel_log={"unknown": "not readable"})
    diff = diff_reports(diagnosed(), after, NAMES)
    assert diff.facts == ()
    assert FactChange("gmi.cards[3].used_mib", "0", "512") in diff.volatile
    assert {path.partition("[")[0] for path in paths(diff.volatile)} == {
        "gmi.cards",
        "gmi.processes",
        "torch_import.seconds",
        "kernel_log",
    }


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (1, 1, []),
        (1, True, [("f", "1", "true")]),
        (0, None, [("f", "0", "")]),
        (None, "", [("f", "", '""')]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [("f.a.b", "1", "2")]),
        ({"a": 1}, {"a": 1, "b": 2}, [("f.b", "", "2")]),
        # A fact that is not there any more is one change, not one a field.
        ({"a": 1, "b": 2}, {"absent": "gone"}, [("f", '{"a": 1, "b": 2}', "absent: gone")]),
        ({"absent": "gone"}, {"unknown": "hung"}, [("f", "absent: gone", "unknown: hung")]),
        ({"absent": ["x"]}, {"absent": "gone"}, [("f", "absent: ?", "absent: gone")]),
        # Of a list of texts what came and what went.
        (["a", "b"], ["b", "c", "d"], [("f", '["a"]', '["c", "d"]')]),
        (["a"], ["a", "b"], [("f", "", '["b"]')]),
        (["a", "b"], ["b", "a"], [("f", '["a", "b"]', '["b", "a"]')]),
        (["a"], ["a"], []),
        # Records by their name, else by their place.
        (
            [{"name": "torch", "v": 1}, {"name": "numpy", "v": 1}],
            [{"name": "apex", "v": 1}, {"name": "numpy", "v": 1}, {"name": "torch", "v": 2}],
            [("f[torch].v", "1", "2"), ("f[apex]", "", '{"name": "apex", "v": 1}')],
        ),
        (
            [{"name": "S5000", "ordinal": 0, "v": 1}, {"name": "S5000", "ordinal": 1, "v": 1}],
            [{"name": "S5000", "ordinal": 1, "v": 2}],
            [("f[0]", '{"name": "S5000", "ordinal": 0, "v": 1}', ""), ("f[1].v", "1", "2")],
        ),
        ([{"v": 1}, {"v": 2}], [{"v": 1}, {"v": 3}], [("f[1].v", "2", "3")]),
        ([1, 2], [1, 3], [("f[1]", "2", "3")]),
        (["a", 1], ["b", 1], [("f[0]", '"a"', '"b"')]),
        ("x" * 300, "y", [("f", f'"{"x" * 196}...', '"y"')]),
        ("x" * 300, f"{'x' * 300}y", [("f", f'"{"x" * 196}...', f'"{"x" * 196}...')]),
        ({"\x1b[1m": 1}, {}, [("f.\ufffd[1m", "1", "")]),
        ("\x1b[1m", None, [("f", '"\\u001b[1m"', "")]),
    ],
)
def test_values_are_compared_by_their_place_and_meaning(
    before: JSON, after: JSON, changes: list[tuple[str, str, str]]
) -> None:
    assert list(fact_changes({"f": before}, {"f": after})) == changes


def test_facts_that_are_nested_deeper_than_ours_are_not_looked_at() -> None:
    deep: JSON = 1
    for _ in range(20_000):
        deep = {"a": deep}
    assert list(fact_changes({"f": {"a": deep}}, {"f": {"a": {"a": 1}}})) == [
        FactChange("f.a.a", "nested too deeply", "1")
    ]
    assert list(fact_changes({"f": deep}, {"f": {"a": deep}})) == []


def test_a_flood_of_facts_is_cut_and_this_is_said() -> None:
    diff = diff_reports(diagnosed(), changed(flood=list(range(5000))), NAMES)
    assert len(diff.facts) == 1  # as a whole, where the other has none
    diff = diff_reports(changed(flood=[]), changed(flood=list(range(5000))), NAMES)
    assert len(diff.facts) == 2000
    assert diff.cut


def test_what_is_no_report_is_refused() -> None:
    with pytest.raises(ForeignError, match="schema_version"):
        diff_reports(diagnosed(), {"hello": 1}, NAMES)


def test_parts_of_another_form_than_ours_are_passed_over() -> None:
    strange = failing("gpu-lockup", layer=["x"], evidence=[1, {"fact": 2}], caused_by=3)
    strange["musadoctor"] = None
    diff = diff_reports(diagnosed(), strange, NAMES)
    assert [(c.id, c.caused_by) for c in diff.worse] == [("gpu-lockup", "")]
    assert diff.after.musadoctor == ""
    strange = failing("gpu-lockup", layer="attic", evidence=7)
    assert len(diff_reports(diagnosed(), strange, NAMES).worse) == 1
    strange = judged(diagnosed(), "gpu-lockup", "unknown", reason=None)
    assert [c.message for c in diff_reports(diagnosed(), strange, NAMES).worse] == [""]


def test_no_escape_codes_come_through() -> None:
    after = failing("gpu-lockup", "\x1b[31mred\x07")
    (change,) = diff_reports(diagnosed(), after, NAMES).worse
    assert change.message.isprintable() or "\ufffd" in change.message
    assert "\x1b" not in change.message


VALUES = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["absent", "a", "b"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(one=VALUES, other=VALUES)
def test_values_have_changes_if_and_only_if_they_differ(one: JSON, other: JSON) -> None:
    there = [change.path for change in fact_changes({"f": one}, {"f": other})]
    back = [change.path for change in fact_changes({"f": other}, {"f": one})]
    assert sorted(there) == sorted(back)
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (there == []) == same
    assert list(fact_changes({"f": one}, {"f": copy.deepcopy(one)})) == []


def day(*hosts: HostSummary | Unanswered) -> Gathered:
    return Gathered(
        tuple(host for host in hosts if isinstance(host, HostSummary)),
        tuple(host for host in hosts if isinstance(host, Unanswered)),
        (),
    )


DOWN = Unanswered("gpu3", "unreachable", "No route to host")


def test_a_fleet_that_is_the_same_on_both_days_has_no_changes() -> None:
    same = day(answered("gpu1", LOCKUP, traits={"kernel": "5.15"}), DOWN)
    assert diff_fleets(same, same) == (2, 2, (), (), (), ())


def test_hosts_that_came_and_went_are_named_in_order() -> None:
    before = day(answered("gpu1"), answered("gpu10"), answered("gpu2"))
    after = day(answered("gpu1"), answered("gpu11"), answered("gpu3"), Unanswered("gpu4", "", ""))
    diff = diff_fleets(before, after)
    assert diff.appeared == ("gpu3", "gpu4", "gpu11")
    assert diff.vanished == ("gpu2", "gpu10")
    assert (diff.compared, diff.unchanged) == (1, 1)


def test_hosts_that_changed_alike_are_told_together_and_the_worse_first() -> None:
    hosts = [f"gpu{n}" for n in range(1, 6)]
    before = day(*(answered(host) for host in hosts[:3]), *(answered(h, LOCKUP) for h in hosts[3:]))
    after = day(
        *(answered(host) for host in hosts[3:]),
        answered("gpu1", NOT_LOADED),
        answered("gpu2"),
        DOWN,
    )
    diff = diff_fleets(before, after)
    assert [(c.hosts, c.before, c.after, c.worse) for c in diff.changes] == [
        (("gpu1",), "healthy", "broken", True),
        (("gpu3",), "healthy", NO_ANSWER, True),
        (("gpu4", "gpu5"), "degraded", "healthy", False),
    ]
    assert diff.changes[0].new == (NOT_LOADED,)
    assert diff.changes[1].reason == "No route to host"
    assert diff.changes[2].gone == ("gpu-lockup",)
    assert (diff.compared, diff.unchanged) == (5, 1)


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        (answered("gpu1", NARROW), answered("gpu1", NARROW, verdict="broken"), True),
        (answered("gpu1"), answered("gpu1", undecided=("no-gpu",)), True),
        (answered("gpu1", NOT_LOADED), answered("gpu1", LOCKUP), False),
        (answered("gpu1"), answered("gpu1", NARROW), True),
        (answered("gpu1", NARROW), answered("gpu1"), False),
        (Unanswered("gpu1", "", ""), answered("gpu1", NOT_LOADED), True),
        (Unanswered("gpu1", "", ""), answered("gpu1"), False),
    ],
)
def test_what_is_worse_is_told_by_verdict_and_then_by_causes(
    before: HostSummary | Unanswered, after: HostSummary | Unanswered, *, worse: bool
) -> None:
    (change,) = diff_fleets(day(before), day(after)).changes
    assert change.worse is worse


def test_causes_of_a_host_that_does_not_answer_are_not_called_gone() -> None:
    (change,) = diff_fleets(day(answered("gpu3", NOT_LOADED)), day(DOWN)).changes
    assert (change.after, change.gone) == (NO_ANSWER, ())


def test_traits_that_changed_alike_are_told_together_and_the_weightiest_first() -> None:
    old = {"kernel driver": "3.3.0", "wheel torch": "2.7.1", "environment PATH": "/bin"}
    new = {**old, "kernel driver": "3.3.5", "environment PATH": "/usr/bin"}
    before = day(*(answered(f"gpu{n}", traits=old) for n in range(12)))
    after = day(*(answered(f"gpu{n}", traits=new if n in {2, 10} else old) for n in range(12)))
    diff = diff_fleets(before, after)
    assert diff.traits == (
        (TraitChange("kernel driver", 5, "3.3.0", "3.3.5"), ("gpu2", "gpu10")),
        (TraitChange("environment PATH", 1, "/bin", "/usr/bin"), ("gpu2", "gpu10")),
    )
    assert (diff.compared, diff.unchanged) == (12, 10)


def test_a_wheel_that_came_is_a_change_and_what_was_not_known_is_none() -> None:
    old = {"wheel torch": "2.7.1", "muDNN": "3.1.0"}
    new = {"wheel torch": "2.7.1", "wheel triton": "3.1.0", "MCCL": "2.4.0"}
    diff = diff_fleets(day(answered("gpu1", traits=old)), day(answered("gpu1", traits=new)))
    assert [one.change for one in diff.traits] == [TraitChange("wheel triton", 3, "none", "3.1.0")]


def test_a_wheel_that_another_host_has_is_no_change_of_this_one() -> None:
    old = {"wheel torch": "2.7.1"}
    before = day(answered("gpu1", traits=old))
    after = day(answered("gpu1", traits={**old, "wheel triton": "none"}))
    assert diff_fleets(before, after).traits == ()
