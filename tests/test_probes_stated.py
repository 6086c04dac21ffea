"""What a text states and no machine was asked for, in forms that its reader never writes."""

import json

import pytest
from support import host

from musadoctor.facts import Absent, Unknown
from musadoctor.probes.components import mudnn
from musadoctor.probes.distributions import examined
from musadoctor.probes.stated import SITE, key, stated
from musadoctor.probes.toolkit import toolkit
from musadoctor.recording import Recording
from musadoctor.system import NOT_THERE, UNRECORDED, Failure, Found, Ran


def transcript(**kinds: str) -> Recording:
    files = {key(kind): json.dumps([[value, "line 1"]]) for kind, value in kinds.items()}
    return Recording.of_answers({"files": files}, closed=False, called="transcript")


def test_what_is_no_number_states_nothing() -> None:
    system = transcript(toolkit="newest", mudnn="newest")
    assert isinstance(toolkit(system), Unknown)
    assert isinstance(mudnn(system), (Absent, Unknown))


def test_an_interpreter_that_no_package_shows() -> None:
    assert isinstance(examined(transcript()), Unknown)


def test_an_interpreter_that_hangs_is_not_made_up() -> None:
    hung = Ran("timed out", note="no answer in 20 s, killed")
    system = host(
        programs={"python3": Found("/usr/bin/python3")},
        runs={"child:python": hung},
        folders={SITE: ("torch-2.7.1.dist-info",)},
    )
    assert isinstance(examined(system), Unknown)


@pytest.mark.parametrize(("kind", "found"), [(UNRECORDED, ("2.7.0",)), (NOT_THERE, ())])
def test_a_statement_counts_where_no_machine_was_asked(kind: str, found: tuple[str, ...]) -> None:
    told = stated(transcript(driver="2.7.0"), "driver", Failure(kind, ""))
    assert tuple(item.value for item in told) == found
