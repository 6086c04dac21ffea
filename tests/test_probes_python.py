import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from python_host import PYTHON, SITE, python_answer
from support import LINUX, host

from musadoctor.facts import Absent, Python, Unknown
from musadoctor.live import Live
from musadoctor.probes.python import python
from musadoctor.recording import Recorder, Recording
from musadoctor.system import UNRECORDED, Failure, Found, Platform, Ran

PYTHONS = os.environ.get("MUSADOCTOR_TEST_PYTHONS", sys.executable).split(":")
PLAIN = {"child:python": python_answer()}


def live(path: str | None, seconds: float = 20) -> Recorder:
    return Recorder(Live(time.monotonic() + seconds, path))


def chosen(
    platform: Platform | None,
    variables: dict[str, str],
    programs: dict[str, Found | Failure],
) -> tuple[str, str] | str:
    """The path and why, or why none."""
    tables: dict[str, Mapping[str, object]] = {
        "platform": {} if platform is None else {"": platform},
        "variables": variables,
        "programs": programs,
        "runs": PLAIN,
    }
    fact = python(Recording.of_answers(tables, closed=True))
    return (fact.path, fact.chosen_by) if isinstance(fact, Python) else str(fact)


VENV, CONDA, ON_PATH = "/v/bin/python", "/c/bin/python", "/usr/local/bin/python3"
ALL = {
    VENV: Found(VENV),
    CONDA: Found(CONDA),
    "python3": Found(ON_PATH),
    "/mine": Found("/mine"),
}
BOTH = {"VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c"}
NO_VENV = "VIRTUAL_ENV=/v has no bin/python that can be executed"
NO_CONDA = "CONDA_PREFIX=/c has no bin/python that can be executed"


@pytest.mark.parametrize(
    ("asked", "variables", "programs", "expected"),
    [
        ("/mine", BOTH, ALL, ("/mine", "--python")),
        (None, BOTH, ALL, (VENV, "VIRTUAL_ENV")),
        (None, {"VIRTUAL_ENV": "/v/"}, ALL, (VENV, "VIRTUAL_ENV")),
        (None, {"VIRTUAL_ENV": "", "CONDA_PREFIX": "/c"}, ALL, (CONDA, "CONDA_PREFIX")),
        (None, {}, ALL, (ON_PATH, "python3 on PATH")),
        (None, {}, {}, ("/usr/bin/python3", "runs musadoctor")),
        # An environment that is named but not there is said.
        (None, BOTH, {CONDA: Found(CONDA)}, (CONDA, f"CONDA_PREFIX ({NO_VENV})")),
        (
            None,
            BOTH,
            {VENV: Found("", blocked=VENV), "python3": Found(ON_PATH)},
            (ON_PATH, f"python3 on PATH ({NO_VENV}; {NO_CONDA})"),
        ),
        (None, {"VIRTUAL_ENV": "/v"}, {}, ("/usr/bin/python3", f"runs musadoctor ({NO_VENV})")),
        ("/gone", BOTH, ALL, "--python /gone: no such program"),
        (
            "/mine",
            {},
            {"/mine": Found("", blocked="/mine")},
            "--python /mine: /mine may not be executed",
        ),
        ("/mine", {}, {"/mine": Failure(UNRECORDED, "/mine: not kept")}, "/mine: not kept"),
    ],
)
def test_which_python_is_examined(
    asked: str | None,
    variables: dict[str, str],
    programs: dict[str, Found | Failure],
    expected: tuple[str, str] | str,
) -> None:
    platform = LINUX._replace(chosen_python=asked)
    assert chosen(platform, variables, programs) == expected


def test_without_a_platform_there_may_still_be_a_python_on_path() -> None:
    assert chosen(None, {}, {"python3": Found(PYTHON)}) == (PYTHON, "python3 on PATH")
    assert chosen(None, {}, {}) == "no python3 on PATH"


def test_an_answer_in_full() -> None:
    fact = python(host(programs={"python3": Found(PYTHON)}, runs=PLAIN))
    assert fact == Python(PYTHON, "python3 on PATH", "3.10.12", "cp310", "/opt/env", (SITE,))
    assert fact.release == (3, 10)


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (python_answer(abiflags="t", version="3.13.1"), "cp313t"),
        (python_answer(implementation="pypy"), "pp310"),
        (python_answer(implementation="graalpy"), "graalpy310"),
        # What it said stands, however it ended.
        (python_answer()._replace(status="signal", code=-11, note="SIGSEGV"), "cp310"),
    ],
)
def test_tag(ran: Ran, expected: str) -> None:
    fact = python(host(programs={"python3": Found(PYTHON)}, runs={"child:python": ran}))
    assert isinstance(fact, Python)
    assert fact.tag == expected


@pytest.mark.parametrize(
    ("ran", "state", "reason"),
    [
        (
            Ran("wrong format", note="/x: Exec format error"),
            Absent,
            "does not work: /x: Exec format error",
        ),
        (
            Ran("timed out", note="no answer in 20 s, killed"),
            Unknown,
            "does not work: no answer in 20 s",
        ),
        (Ran("not in this recording"), Unknown, "does not work: not in this recording"),
        (Ran("signal", -11, note="SIGSEGV"), Absent, "does not work: killed by SIGSEGV"),
        (
            Ran("failed", 1, err="Fatal Python error: no encodings\n\nwhere\n"),
            Absent,
            "code 1 (Fatal Py",
        ),
        (
            Ran("failed", 127, err="a\nerror: libpython3.so\n"),
            Absent,
            "code 127 (error: libpython3.so)",
        ),
        (Ran("ok", 0, out="hello"), Absent, "does not work: exit code 0"),
        (Ran("ok", 0, answer="[1]\n[[\n"), Absent, "does not work: exit code 0"),
        (
            python_answer(version="2.7.18"),
            Unknown,
            "is Python 2.7.18: 3.8 or later can be examined",
        ),
        (python_answer(version="new"), Unknown, "says that its version is 'new'"),
        (python_answer(version="3"), Unknown, "says that its version is '3'"),
        (python_answer(search_path=None), Unknown, "does not say where it looks for packages"),
    ],
)
def test_no_usable_answer(ran: Ran, state: type[Absent | Unknown], reason: str) -> None:
    fact = python(host(programs={"python3": Found(PYTHON)}, runs={"child:python": ran}))
    assert isinstance(fact, state)
    assert reason in fact.reason
    assert f"{PYTHON} (python3 on PATH)" in fact.reason


@pytest.mark.parametrize("path", PYTHONS)
def test_real_interpreters(path: str) -> None:
    script = "import json, sys; print(json.dumps([sys.version_info[:3], sys.prefix]))"
    told = subprocess.run([path, "-c", script], capture_output=True, check=True, text=True)
    version, prefix = json.loads(told.stdout)
    fact = python(live(path))
    dotted = ".".join(map(str, version))
    if version < [3, 8]:
        assert fact == Unknown(
            f"{path} (--python) is Python {dotted}: 3.8 or later can be examined"
        )
    else:
        assert isinstance(fact, Python)
        assert (fact.version, fact.prefix, fact.path) == (dotted, prefix, path)
        assert fact.tag == f"cp{version[0]}{version[1]}"


def test_the_working_directory_is_not_on_the_search_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "mine"))
    fact = python(live(sys.executable))
    assert isinstance(fact, Python)
    assert fact.search_path[0] == str(tmp_path / "mine")
    assert str(tmp_path) not in fact.search_path
    assert "" not in fact.search_path


def test_odd_names_arrive_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ('"quoted"', "back\\slash", "中文", "\N{GRINNING FACE}", "new\nline", "\udcff")
    folders = [str(tmp_path / name) for name in names]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))
    fact = python(live(sys.executable))
    assert isinstance(fact, Python)
    assert list(fact.search_path[: len(names)]) == folders


def test_a_sitecustomize_fools_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        'print(\'{"version": "9.9.9", "search_path": []}\')\n'
        "sys.stderr.write('noise')\n"
        "sys.stdout = None\n"
        "os.chdir('/')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fact = python(live(sys.executable))
    assert isinstance(fact, Python)
    assert fact.version == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(
    ("text", "state", "reason"),
    [
        ("#!/bin/sh\nsleep 30\n", Unknown, "no answer in "),
        ("#!/bin/sh\nkill -SEGV $$\n", Absent, "killed by SIGSEGV"),
        (
            "#!/bin/sh\necho cannot find libpython >&2\nexit 127\n",
            Absent,
            "exit code 127 (cannot find",
        ),
        ("#!/nonexistent/python\n", Absent, "No such file or directory"),
        ("junk", Absent, "Exec format error"),
    ],
)
def test_interpreters_that_do_not_start(
    tmp_path: Path, text: str, state: type[Absent | Unknown], reason: str
) -> None:
    path = tmp_path / "python"
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    fact = python(live(str(path), seconds=1))
    assert isinstance(fact, state)
    assert reason in fact.reason


def test_the_choice_reaches_the_platform() -> None:
    platform = Live(time.monotonic() + 1, "/x/python").platform()
    assert platform.chosen_python == "/x/python"
    assert Live(time.monotonic() + 1).platform().chosen_python is None
