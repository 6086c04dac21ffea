"""The fleet as Prometheus reads it, parsed by Prometheus' own parser."""

import io
from collections.abc import Iterator

import made_fleets
import pytest
from prometheus_client.parser import text_string_to_metric_families
from summaries import answered

from musadoctor.fleet.skew import Difference, Skew
from musadoctor.fleet.state import Fleet, Unanswered
from musadoctor.fleet.summary import Cause
from musadoctor.render.prometheus import LONGEST_LABEL, render

Sample = tuple[str, tuple[tuple[str, str], ...], float]


def text(fleet: Fleet) -> str:
    stream = io.StringIO()
    render(fleet, stream)
    return stream.getvalue()


def samples(fleet: Fleet) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text(fleet)):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            yield sample.name, tuple(sample.labels.items()), sample.value


def value(fleet: Fleet, name: str, **labels: str) -> float:
    (found,) = [
        number for n, given, number in samples(fleet) if n == name and dict(given) == labels
    ]
    return found


def test_hosts_by_verdict_are_there_also_where_there_are_none() -> None:
    fleet = made_fleets.thousand()
    expected = {"healthy": 981, "degraded": 2, "broken": 3, "unknown": 4, "unanswered": 10}
    for verdict, number in expected.items():
        assert value(fleet, "musadoctor_fleet_hosts", verdict=verdict) == number
        assert value(made_fleets.EMPTY, "musadoctor_fleet_hosts", verdict=verdict) == 0


def test_causes_by_the_number_of_their_hosts() -> None:
    fleet = made_fleets.thousand()
    name = "musadoctor_fleet_cause_hosts"
    assert value(fleet, name, cause="driver-not-loaded", severity="error") == 2
    assert value(fleet, name, cause="pcie-link-narrow", severity="note") == 294


def test_hosts_that_did_not_answer_by_why() -> None:
    fleet = made_fleets.thousand()
    assert value(fleet, "musadoctor_fleet_unanswered_hosts", kind="unreachable") == 8
    assert value(fleet, "musadoctor_fleet_unanswered_hosts", kind="timed out") == 1


def test_odd_hosts_by_what_they_differ_in_and_no_others() -> None:
    fleet = made_fleets.thousand()
    name = "musadoctor_fleet_odd_hosts"
    assert value(fleet, name, trait="kernel driver", group="") == 1
    assert value(fleet, name, trait="boot parameters", group="") == 10
    # An upgrade is not finished; nobody is odd for that.
    assert not [s for s in samples(fleet) if s[0] == name and ("trait", "kernel") in s[1]]
    assert value(made_fleets.racks(), name, trait="cards", group="r2") == 1


def test_a_trait_that_several_skews_differ_in_is_one_sample() -> None:
    def odd(value: str, *hosts: str) -> Skew:
        return Skew("odd", "", hosts, 40, (Difference("BIOS", value, "3"),), 0, 0, 9.0)

    fleet = made_fleets.made([])._replace(skews=(odd("1", "a"), odd("2", "b", "c")))
    assert value(fleet, "musadoctor_fleet_odd_hosts", trait="BIOS", group="") == 3


def test_each_host_has_the_sample_of_its_verdict() -> None:
    fleet = made_fleets.thousand()
    found = [s for s in samples(fleet) if s[0] == "musadoctor_host_verdict"]
    assert len(found) == 1000
    assert {number for _, _, number in found} == {1.0}
    assert value(fleet, "musadoctor_host_verdict", host="gpu0017", verdict="broken") == 1
    assert value(fleet, "musadoctor_host_verdict", host="gpu1000", verdict="unanswered") == 1


@pytest.mark.parametrize(
    "text_of_host", ['say "no"', "back\\slash", "\\n", 'a\\"', "{x}=,", "\u00e9"]
)
def test_labels_come_through_whatever_is_in_them(text_of_host: str) -> None:
    cause = Cause(text_of_host, "error", "", "", "")
    fleet = made_fleets.made([answered("gpu1", cause)])
    name = "musadoctor_fleet_cause_hosts"
    assert value(fleet, name, cause=text_of_host, severity="error") == 1


def test_labels_are_one_line_of_bounded_length_and_no_sample_stands_twice() -> None:
    long = "x" * 3 * LONGEST_LABEL
    causes = [Cause(f"{long}{end}", "error", "", "", "") for end in "ab"]
    fleet = made_fleets.made(
        [answered("gpu1", *causes), answered("gpu2", Cause("a\nb", "note", "", "", ""))]
    )
    name = "musadoctor_fleet_cause_hosts"
    found = [given for n, given, _ in samples(fleet) if n == name]
    assert len(found) == 2
    assert len(dict(found[0])["cause"]) == LONGEST_LABEL
    assert dict(found[1])["cause"] == "a b"


@pytest.mark.parametrize("fleet", [made_fleets.EMPTY, made_fleets.NOBODY, made_fleets.HOSTILE])
def test_every_fleet_can_be_parsed_and_no_escape_code_is_in_it(fleet: Fleet) -> None:
    found = list(samples(fleet))
    assert len({(name, given) for name, given, _ in found}) == len(found)
    assert "\x1b" not in text(fleet)
    assert text(fleet).endswith("\n")


def test_the_kinds_of_silence_are_counted_by_host() -> None:
    twice = [Unanswered("gpu1", "refused", "a"), Unanswered("gpu2", "refused", "b")]
    fleet = made_fleets.made([], twice)
    assert value(fleet, "musadoctor_fleet_unanswered_hosts", kind="refused") == 2
