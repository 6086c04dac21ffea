"""musadoctor in one file, run by interpreters that have nothing installed."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import zipfile
import zipimport
from pathlib import Path
from typing import Any

import pytest

from musadoctor import __version__
from musadoctor.fleet.carry import bring
from musadoctor.fleet.carry.bring import zipapp
from musadoctor.fleet.carry.errand import EngineError

BASE = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
COMPILED = (".so", ".pyc", ".pyd", ".dll")


def _interpreters() -> dict[str, str]:
    """This one, and others of the versions that we support, where they do start."""
    found = {"this": BASE}
    for minor in range(10, 15):
        path = shutil.which(f"python3.{minor}")
        if path is None or minor == sys.version_info.minor:
            continue
        check = f"import sys, zlib; sys.exit(sys.version_info[:2] != (3, {minor}))"
        done = subprocess.run([path, "-c", check], capture_output=True, check=False)
        if done.returncode == 0:
            found[f"3.{minor}"] = path
    return found


INTERPRETERS = _interpreters()


@pytest.fixture(scope="module")
def lean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``--bring`` sends."""
    file = tmp_path_factory.mktemp("lean") / "musadoctor.pyz"
    file.write_bytes(zipapp())
    return file


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``fleet zipapp`` writes."""
    folder = tmp_path_factory.mktemp("full")
    command = [sys.executable, "-m", "musadoctor", "fleet", "zipapp", "-o", "doctor.pyz"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in folder.iterdir()] == ["doctor.pyz"]
    return folder / "doctor.pyz"


def run(
    interpreter: str, file: Path, *arguments: str, cwd: str = "/"
) -> "subprocess.CompletedProcess[str]":
    """With nothing but the interpreter's own library."""
    return subprocess.run(
        [interpreter, "-I", "-S", "-B", str(file), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        timeout=120,
    )


def report(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", INTERPRETERS)
def test_it_reports_in_json_with_every_check(name: str, lean: Path) -> None:
    told = report(run(INTERPRETERS[name], lean, "--json", "--no-plugins"))
    command = [sys.executable, "-m", "musadoctor", "--json", "--no-plugins"]
    own = json.loads(subprocess.run(command, capture_output=True, check=False, text=True).stdout)
    assert told["musadoctor"] == __version__
    assert told["bugs"] == []
    assert [r["id"] for r in told["results"]] == [r["id"] for r in own["results"]]
    assert [r["traceback"] for r in told["results"]] == [""] * len(told["results"])


@pytest.mark.parametrize("name", INTERPRETERS)
def test_it_verifies(name: str, lean: Path, tmp_path: Path) -> None:
    """The children's sources are in it; they find no torch, and say so themselves."""
    done = run(INTERPRETERS[name], lean, "verify", "--json", "--python", BASE, cwd=str(tmp_path))
    assert "Traceback" not in done.stderr
    told = json.loads(done.stdout)
    assert told["results"]
    assert "No such file" not in done.stdout


@pytest.mark.parametrize("name", INTERPRETERS)
def test_it_lists_and_explains_the_checks(name: str, lean: Path) -> None:
    listed = run(INTERPRETERS[name], lean, "list")
    assert "driver-not-loaded" in listed.stdout
    assert listed.stderr == ""
    explained = run(INTERPRETERS[name], lean, "explain", "driver-not-loaded")
    assert "## Why it matters" in explained.stdout


@pytest.mark.parametrize("name", INTERPRETERS)
def test_the_full_one_reports_as_text_too(name: str, full: Path) -> None:
    done = run(INTERPRETERS[name], full)
    assert done.stderr == ""
    assert "More on the first: musadoctor explain " in done.stdout or "healthy" in done.stdout


def test_the_full_one_helps_and_compares_hosts(full: Path, lean: Path, tmp_path: Path) -> None:
    assert "Usage: musadoctor fleet run" in run(BASE, full, "fleet", "run", "--help").stdout
    (tmp_path / "gpu1.json").write_text(run(BASE, lean, "--json").stdout)
    done = run(BASE, full, "fleet", "report", "--json", str(tmp_path))
    assert "gpu1" in done.stdout
    assert json.loads(done.stdout)["hosts"]


def test_it_is_a_program_of_its_own(full: Path) -> None:
    done = subprocess.run(
        [str(full), "--version"], capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stdout == f"musadoctor {__version__}\n"


def test_an_interpreter_that_is_too_old_is_told_what_is_needed(lean: Path) -> None:
    """``__main__`` is understood by every Python that can run a zip file."""
    with zipfile.ZipFile(lean) as archive:
        start = archive.read("__main__.py").decode()
    pretend = "import sys; sys.version_info = (3, 6, 8, 'final', 0)\n"
    done = subprocess.run(
        [BASE, "-c", pretend + start], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "musadoctor: Python 3.10 or later is needed, this is 3.6\n",
    )
    assert "f'" not in start
    assert 'f"' not in start


def test_the_same_installation_makes_the_same_bytes() -> None:
    assert zipapp() == zipapp()


def test_nothing_compiled_is_in_it_and_nothing_that_draws(lean: Path, full: Path) -> None:
    names = {file: set(zipfile.ZipFile(file).namelist()) for file in (lean, full)}
    for found in names.values():
        assert not [name for name in found if name.endswith(COMPILED) or "__pycache__" in name]
        assert {"musadoctor/probes/torch_child.py", "tomli/__init__.py"} <= found
        assert "musadoctor_checks/knowledge/__init__.py" in found
        assert [n for n in found if n.startswith("packaging-") and "LICENSE" in n.upper()]
    tops = {name.partition("/")[0] for name in names[lean]}
    assert tops.isdisjoint({"rich", "pygments", "ClusterShell", "tests", "docs"})
    assert {"rich", "ClusterShell"} <= {name.partition("/")[0] for name in names[full]}


def test_it_is_small_enough_for_every_host(lean: Path) -> None:
    assert lean.stat().st_size < 1_500_000


def test_from_a_zipapp_that_file_itself_is_brought(lean: Path, full: Path, tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from musadoctor.fleet.carry.bring import zipapp;"
        "sys.stdout.buffer.write(zipapp(full=len(sys.argv) > 2))"
    )

    def made(file: Path, *full: str) -> "subprocess.CompletedProcess[bytes]":
        command = [BASE, "-I", "-S", "-B", "-c", script, str(file), *full]
        return subprocess.run(command, capture_output=True, check=False)

    assert made(lean).stdout == lean.read_bytes()
    assert made(full).stdout == full.read_bytes()
    assert made(full, "full").stdout == full.read_bytes()
    refused = made(lean, "full").stderr.decode()
    assert refused.endswith("can only report in JSON, and makes none that can more\n")


def test_a_zipapp_for_hosts_makes_none_that_can_more(
    lean: Path, full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bring, "_loader", lambda: zipimport.zipimporter(str(full)))
    assert zipapp(full=True) == zipapp() == full.read_bytes()
    monkeypatch.setattr(bring, "_loader", lambda: zipimport.zipimporter(str(lean)))
    monkeypatch.setattr(bring, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match="can only report in JSON"):
        zipapp(full=True)


class _Distribution(importlib.metadata.PathDistribution):
    """One that is damaged in a way."""

    files: Any = ()
    requires: Any = ()


def test_a_distribution_that_does_not_list_its_files_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = _Distribution(tmp_path)
    monkeypatch.setattr(_Distribution, "metadata", {"Name": "typer"})
    monkeypatch.setattr(bring, "_needed", lambda without: iter([found]))
    with pytest.raises(EngineError, match=r"not known which files typer consists of: install"):
        zipapp()


def test_a_listed_file_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "gone-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: gone\nVersion: 1.0\n")
    (folder / "RECORD").write_text("gone/__init__.py,,\n../../bin/gone.py,,\n")
    found = importlib.metadata.PathDistribution(folder)
    monkeypatch.setattr(bring, "_needed", lambda without: iter([found]))
    with pytest.raises(EngineError, match=r"gone/__init__.py cannot be read: install musadoctor"):
        zipapp()


def test_a_distribution_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.distribution

    def without(name: str) -> importlib.metadata.Distribution:
        if name == "pyyaml":
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "distribution", without)
    with pytest.raises(EngineError, match="pyyaml is not installed: install musadoctor again"):
        zipapp()


def test_checks_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bring, "OWN", ("musadoctor", "musadoctor_cheques"))
    with pytest.raises(EngineError, match="musadoctor_cheques is not where it belongs"):
        zipapp()


def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere = tmp_path / "file" / "doctor.pyz"
    command = [sys.executable, "-m", "musadoctor", "fleet", "zipapp", "-o", str(nowhere)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"musadoctor: cannot write {nowhere}: Not a directory\n"
