"""From options to a report: the vantage, what is ignored, what is kept private."""

import json
import threading
from pathlib import Path

import pytest
from recorded import recorded, whole
from support import host

from musadoctor.doctor import Options, capture_answers, examine, redaction
from musadoctor.recording import Recorder, Recording
from musadoctor.render import json as json_renderer
from musadoctor.report import Report
from musadoctor.selection import SelectionError
from musadoctor.system import Failure, Found

PLAIN = Options(plugins=False)


def test_the_vantage() -> None:
    on_host = examine(recorded("s5000-4.3.5"), PLAIN)
    assert on_host.vantage.kind == "host"
    assert on_host.vantage.python == "Python 3.10.12 (/opt/env/bin/python, VIRTUAL_ENV)"
    inside = examine(recorded("container-not-injected"), PLAIN)
    assert inside.vantage.kind == "container"
    replayed = examine(recorded("s5000-4.3.5"), PLAIN._replace(recording="host.json"))
    assert (replayed.vantage.kind, replayed.vantage.note) == ("recording", "host.json")


def test_a_python_that_nobody_asked_for_is_not_looked_at() -> None:
    report = examine(recorded("s5000-4.3.5"), PLAIN._replace(select=("hardware",)))
    assert report.vantage.python is None
    assert not any(name.startswith("torch") for name in report.facts)


def named() -> Recording:
    recording = whole("s5000-4.3.5")
    recording["answers"]["platform"][""]["host_name"] = "gpu07"
    return Recording(json.dumps(recording), "named")


def test_the_host_is_named_only_on_request() -> None:
    assert examine(named(), PLAIN).vantage.host is None
    assert examine(named(), PLAIN._replace(redact=False)).vantage.host == "gpu07"


class Stuck(Recorder):
    """A machine with a folder on PATH that does not answer before the test is over."""

    over = threading.Event()

    def find(self, name: str) -> Found | Failure:
        self.over.wait()
        return Failure("error", name)


def test_a_path_that_never_answers_does_not_keep_the_report() -> None:
    """A container's driver files are looked for on PATH, also where no check asks for them."""
    made: list[Report] = []
    options = PLAIN._replace(select=("no-gpu",), seconds=0.2)
    stuck = Stuck(recorded("container-not-injected"))
    worker = threading.Thread(target=lambda: made.append(examine(stuck, options)), daemon=True)
    worker.start()
    worker.join(10)
    stuck.over.set()
    (report,) = made
    assert report.vantage.kind == "host"
    assert [result.status for result in report.results] == ["passed"]
    assert report.facts["container"] == {"unknown": "container: no answer in 0 s"}


def test_a_check_of_a_package_that_is_broken_is_not_just_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "acme-1.0.dist-info").mkdir()
    entry = tmp_path / "acme-1.0.dist-info" / "entry_points.txt"
    entry.write_text("[musadoctor.checks]\nacme = acme_not_there\n")
    with pytest.raises(SelectionError, match=r"; acme_not_there could not be loaded: ModuleNot"):
        examine(recorded("no-gpu"), Options(select=("acme-check",)))
    with pytest.raises(SelectionError, match=r"\(see musadoctor list\)$"):
        examine(recorded("no-gpu"), PLAIN._replace(select=("acme-check",)))


def test_a_fact_that_no_check_needs_is_found_out_where_it_is_asked_for() -> None:
    plain = examine(recorded("s5000-4.3.5"), PLAIN)
    assert plain.facts.keys().isdisjoint({"rdma", "topology"})
    asked = examine(recorded("s5000-4.3.5"), PLAIN._replace(facts=("rdma", "topology")))
    assert asked.facts["rdma"] == {"absent": "no /sys/class/infiniband"}
    assert asked.facts.keys() - plain.facts.keys() == {"rdma", "topology"}
    with pytest.raises(SelectionError, match="'rdna' is no fact"):
        examine(recorded("s5000-4.3.5"), PLAIN._replace(facts=("rdna",)))


def test_a_recording_holds_what_those_facts_ask() -> None:
    adapters = "/sys/class/infiniband"
    assert adapters in capture_answers(recorded("s5000-4.3.5"), 10)["folders"]


def test_a_machine_that_says_nothing_of_itself() -> None:
    silent = host(platform=Failure("error", "no uname"))
    assert redaction(silent).host_name is None
    report = examine(silent, PLAIN)
    assert report.bugs == ()
    assert report.facts["machine"] == {"unknown": "no uname"}


def test_what_is_ignored_is_kept_with_its_reason() -> None:
    report = examine(recorded("no-torch"), PLAIN._replace(ignore=("torch-missing=on purpose",)))
    (ignored,) = (r for r in report.results if r.check.id == "torch-missing")
    assert (ignored.status, ignored.reason) == ("skipped", "ignored: on purpose")
    assert report.verdict == "healthy"


def test_a_capture_answers_all_that_a_report_asks() -> None:
    captured = capture_answers(recorded("side-by-side-mixed"), 10)
    text = json.dumps(
        {"format": "musadoctor-recording", "version": 1, "answers": captured, "taken": "today"}
    )
    there = examine(Recording(text, "captured"), PLAIN)
    here = examine(recorded("side-by-side-mixed"), PLAIN)
    assert json_renderer.document(there)["facts"] == json_renderer.document(here)["facts"]
    assert [r.status for r in there.results] == [r.status for r in here.results]
