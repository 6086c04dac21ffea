"""The connections between cards, by the management tool."""

import pytest
from support import SAMPLES, host

from musadoctor.facts import Absent, Unknown
from musadoctor.facts.topology import CardPair, Topology
from musadoctor.probes.topology import parse_topology, topology
from musadoctor.system import Found, Ran, System

TABLE = (SAMPLES / "mthreads-gmi_1.14.0_driver2.7.0_s80.txt").read_text(encoding="utf-8")
HEADER = (SAMPLES / "mthreads-gmi-topo-m_header_s5000x8.txt").read_text(encoding="utf-8")
LEGEND = (SAMPLES / "mthreads-gmi-topo-m_legend_s4000.txt").read_text(encoding="utf-8")
WHOLE = f"""\
         GPU0     GPU1     GPU2     NIC0     CPU Affinity    NUMA Affinity
GPU0     X        MT2      SYS      NODE     0-47            0
GPU1     MT2      X        SPB      SYS      0-47            0
GPU2     SYS      SPB      X        ?        48-95           1
NIC0     NODE     SYS      NODE     X

Legend:
{LEGEND}"""


LISTED = Ran("ok", 0, out=TABLE)


def asked(ran: Ran, table: Ran = LISTED) -> System:
    return host(
        programs={"mthreads-gmi": Found("/usr/bin/mthreads-gmi")},
        runs={"mthreads-gmi": table, "mthreads-gmi topo -m": ran},
    )


@pytest.mark.parametrize(
    ("out", "pairs"),
    [
        (HEADER, [(0, 1, "MT2"), (0, 2, "MT2")]),
        (LEGEND, []),
        ("", []),
        (
            WHOLE,
            [
                *((0, 1, "MT2"), (0, 2, "SYS"), (0, 1, "MT2"), (1, 2, "SPB")),
                *((0, 2, "SYS"), (1, 2, "SPB")),
            ],
        ),
    ],
)
def test_pairs_are_read(out: str, pairs: list[tuple[int, int, str]]) -> None:
    assert list(parse_topology(out)) == [CardPair(*pair) for pair in pairs]


def test_each_pair_is_told_once() -> None:
    found = topology(asked(Ran("ok", 0, out=WHOLE)))
    assert isinstance(found, Topology)
    assert str(found) == "3 pairs of cards: 1 MT2, 1 SYS, 1 SPB"
    assert (found.path(2, 1), found.path(0, 3)) == ("SPB", "")


def test_a_tool_that_shows_no_pair() -> None:
    told = "the requested operation is not available on target device"
    found = topology(asked(Ran("failed", 1, out=f"{told}\n")))
    assert found == Unknown(f"mthreads-gmi topo -m shows no pair of cards: {told}")
    found = topology(asked(Ran("signal", -11, note="SIGSEGV")))
    assert found == Unknown("mthreads-gmi topo -m shows no pair of cards: killed by SIGSEGV")


def test_a_tool_that_does_not_answer_is_not_asked_again() -> None:
    assert isinstance(topology(host()), Absent)
    error = Ran("failed", 1, out="Error: failed to load driver.\n")
    assert isinstance(topology(asked(Ran("ok", 0, out=WHOLE), error)), Absent)
    hung = Ran("timed out", note="no answer in 10 s, killed")
    assert isinstance(topology(asked(Ran("ok", 0, out=WHOLE), hung)), Unknown)
