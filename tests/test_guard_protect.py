"""Protecting an environment for good, and taking it back to the byte."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from installer_lab import own_prefix, system_of, unpacked
from python_host import SITE, TORCH_FILES, python_answer, python_host

from musadoctor.facts.base import Absent, Unknown
from musadoctor.guard import protect
from musadoctor.guard.protect import Plan, ProtectError, Protection, apply, plan, plan_back, status

CONSTRAINTS = "share/musadoctor/constraints.txt"
MANIFEST = "share/musadoctor/protected.json"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of this machine's pip and uv."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "XDG_", "VIRTUAL_ENV", "CONDA")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "etc"))
    monkeypatch.setattr("musadoctor.guard.constraints.PLATFORM_CONFIGURATION", "/nowhere/pip.conf")


@pytest.fixture
def python(tmp_path: Path) -> Path:
    return unpacked(tmp_path / "env", "tagged")


def planned(python: Path) -> Plan:
    made = plan(system_of(str(python)))
    assert isinstance(made, Plan), made
    return made


def back(python: Path) -> Plan:
    made = plan_back(system_of(str(python)))
    assert isinstance(made, Plan), made
    return made


def stated(python: Path) -> Protection:
    made = status(system_of(str(python)))
    assert isinstance(made, Protection), made
    return made


def everything(folder: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else "folder"
        for path in folder.rglob("*")
        if not path.is_symlink()
    }


def test_it_is_written_and_taken_back(python: Path, tmp_path: Path) -> None:
    env = tmp_path / "env"
    before = everything(env)
    made = planned(python)
    assert everything(env) == before
    assert [change.path for change in made.changes] == [
        f"{env}/{CONSTRAINTS}",
        f"{env}/pip.conf",
    ]
    assert str(made.changes[1]) == (
        f"--- /dev/null\n+++ {env}/pip.conf\n@@ -0,0 +1,2 @@\n+[install]\n"
        f"+constraint = {env}/{CONSTRAINTS}"
    )
    assert made.notes == (protect._NO_UV,)

    apply(made)
    assert (env / CONSTRAINTS).read_text().splitlines()[1:] == [
        "torch==2.9.1.post1+musa5.2.0",
        "torch-musa==2.9.1.post1+musa5.2.0",
        "torchvision==0.24.1.post1+musa5.2.0",
        "torchaudio==2.9.1+musa5.2.0",
        "triton==3.2.0",
    ]
    assert stated(python).whole
    after = everything(env)
    assert planned(python).changes == ()  # twice is once
    apply(planned(python))
    assert everything(env) == after

    apply(back(python))
    assert everything(env) == before
    assert isinstance(plan_back(system_of(str(python))), Absent)
    assert isinstance(status(system_of(str(python))), Absent)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("", "[install]\nconstraint = OURS\n"),
        ("[install]\n", "[install]\nconstraint = OURS\n"),
        ("[install]", "[install]\nconstraint = OURS\n"),
        ("[global]\ntimeout = 9", "[global]\ntimeout = 9\n[install]\nconstraint = OURS\n"),
        (
            "# top\n[install]\n; why\nuser = no\n[list]\nformat = json\n",
            "# top\n[install]\nconstraint = OURS\n; why\nuser = no\n[list]\nformat = json\n",
        ),
        (
            "[install]\nuser=no\nconstraint: /a.txt\n  /b.txt\n  # mine\n  /c.txt\npre = no\n",
            "[install]\nuser=no\nconstraint = /a.txt /b.txt /c.txt OURS\n  # mine\npre = no\n",
        ),
        (
            "[install]\n--Constraint = /a.txt\n\n[wheel]\nconstraint = /w.txt\n",
            "[install]\nconstraint = /a.txt OURS\n\n[wheel]\nconstraint = /w.txt\n",
        ),
        (
            "[global]\r\nconstraint = /g.txt\r\n",
            "[global]\r\nconstraint = /g.txt\r\n[install]\r\nconstraint = /g.txt OURS\r\n",
        ),
        ("[install]\n# caf\xe9\n", "[install]\nconstraint = OURS\n# caf\xe9\n"),
    ],
)
def test_what_pip_is_bound_to_already_is_kept(
    python: Path, tmp_path: Path, own: str, expected: str
) -> None:
    file = tmp_path / "env" / "pip.conf"
    file.write_bytes(own.encode("latin-1"))
    file.chmod(0o640)
    apply(planned(python))
    text = file.read_bytes().decode("latin-1")
    assert text.replace(f"{tmp_path}/env/{CONSTRAINTS}", "OURS") == expected
    assert file.stat().st_mode & 0o777 == 0o640
    assert stated(python).whole
    assert planned(python).changes == ()
    apply(back(python))
    assert file.read_bytes() == own.encode("latin-1")
    assert file.stat().st_mode & 0o777 == 0o640


def test_what_the_user_has_set_elsewhere_is_kept(python: Path, tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".config" / "pip"
    folder.mkdir(parents=True)
    (folder / "pip.conf").write_text("[global]\nconstraint = /home.txt\n")
    apply(planned(python))
    assert "constraint = /home.txt /" in (tmp_path / "env" / "pip.conf").read_text()


def test_a_link_stays_one(python: Path, tmp_path: Path) -> None:
    (tmp_path / "shared.conf").write_text("[global]\nuser = no\n")
    (tmp_path / "env" / "pip.conf").symlink_to(tmp_path / "shared.conf")
    apply(planned(python))
    assert (tmp_path / "env" / "pip.conf").is_symlink()
    assert "[install]" in (tmp_path / "shared.conf").read_text()
    apply(back(python))
    assert (tmp_path / "shared.conf").read_text() == "[global]\nuser = no\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("constraint = a\n", "is not as pip reads it"),
        ("[install]\n[install]\n", "pip.conf is not as pip reads it"),
        ("[install]\n  user = no\n  constraint = a\n", "pip.conf cannot be changed without harm"),
    ],
)
def test_what_cannot_be_edited_is_left(
    python: Path, tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "env" / "pip.conf").write_text(text)
    before = everything(tmp_path / "env")
    with pytest.raises(ProtectError, match=sentence):
        plan(system_of(str(python)))
    assert everything(tmp_path / "env") == before


def test_what_is_no_file_is_left(python: Path, tmp_path: Path) -> None:
    (tmp_path / "env" / "pip.conf").mkdir()
    with pytest.raises(ProtectError, match="is no regular file"):
        plan(system_of(str(python)))
    (tmp_path / "env" / "pip.conf").rmdir()
    (tmp_path / "env" / "pip.conf").symlink_to("missing")
    apply(planned(python))
    assert stated(python).whole
    apply(back(python))
    assert not (tmp_path / "env" / "missing").exists()


def test_what_was_changed_since_is_not_taken_back(python: Path, tmp_path: Path) -> None:
    apply(planned(python))
    file = tmp_path / "env" / "pip.conf"
    file.write_text(file.read_text() + "# mine\n")
    held = everything(tmp_path / "env")
    for attempt in (plan, plan_back):
        with pytest.raises(ProtectError, match=r"pip\.conf was changed since"):
            attempt(system_of(str(python)))
    assert everything(tmp_path / "env") == held
    (row,) = [text for fine, text in stated(python).rows if not fine]
    assert row == f"{file} was changed since"
    file.unlink()
    assert not stated(python).whole
    assert [change.path for change in planned(python).changes] == [str(file)]
    apply(back(python))
    assert not (tmp_path / "env" / "share").exists()


def test_another_stack_is_protected_anew(python: Path, tmp_path: Path) -> None:
    env = tmp_path / "env"
    before = everything(env)
    apply(planned(python))
    (metadata,) = env.glob("lib/*/site-packages/torchvision-*.dist-info/METADATA")
    old = metadata.read_text()
    metadata.write_text(old.replace("0.24.1.post1", "0.24.1.post2"))
    rows = [text for fine, text in stated(python).rows if not fine]
    assert len(rows) == 1
    assert "does not name what is installed: torchvision==0.24.1.post2+musa5.2.0" in rows[0]
    made = planned(python)
    assert [Path(change.path).name for change in made.changes] == ["constraints.txt"]
    apply(made)
    assert stated(python).whole
    apply(back(python))
    metadata.write_text(old)
    assert everything(env) == before


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_half_done_one_is_undone(
    python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    error: BaseException,
) -> None:
    """The disk is full, or the user gives up, at each of the files in turn."""
    env = tmp_path / "env"
    (env / "pip.conf").write_text("[global]\nuser = no\n")
    before = everything(env)
    made = planned(python)
    replace, calls = os.replace, iter(range(9))

    def failing(source: str, target: str) -> None:
        if next(calls) == step:
            raise error
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(ProtectError if isinstance(error, OSError) else KeyboardInterrupt) as told:
        apply(made)
    assert everything(env) == before
    if isinstance(error, OSError):
        assert "No space left on device; everything was put back" in str(told.value)


def test_a_killed_one_is_undone_later(python: Path, tmp_path: Path) -> None:
    env = tmp_path / "env"
    before = everything(env)
    source = (
        "import os, sys; from installer_lab import system_of; from musadoctor.guard import protect\n"
        "made, replace, calls = protect.plan(system_of(sys.argv[1])), os.replace, []\n"
        "def killed(a, b):\n"
        "    calls.append(a)\n"
        "    os.kill(os.getpid(), 9) if len(calls) == 3 else replace(a, b)\n"
        "os.replace = killed\n"
        "protect.apply(made)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, str(python)],
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == -9
    assert (env / CONSTRAINTS).exists()
    assert not (env / "pip.conf").exists()
    assert not stated(python).whole
    with pytest.raises(ProtectError, match="an earlier run was interrupted: `musadoctor guard unp"):
        plan(system_of(str(python)))
    apply(back(python))
    for part in env.glob(".musadoctor-*"):
        part.unlink()  # what was being written when it died
    assert everything(env) == before


def test_what_cannot_be_put_back_is_told(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = tmp_path / "env"
    before = everything(env)
    apply(planned(python))
    unlink = os.unlink

    def refusing(path: str) -> None:
        if str(path).endswith(name):
            raise PermissionError(1, "Operation not permitted", path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", refusing)
    name = "pip.conf"
    with pytest.raises(
        ProtectError, match=r"could not be put back: .*pip\.conf'; .*keeps what was"
    ):
        apply(back(python))
    name = "protected.json"
    with pytest.raises(ProtectError, match=r"all was put back, but .*protected\.json"):
        apply(back(python))
    assert back(python).changes == ()
    name = "nothing"
    (env / "share" / "musadoctor" / "mine").write_text("")
    apply(back(python))
    (env / "share" / "musadoctor" / "mine").unlink()
    (env / "share" / "musadoctor").rmdir()
    (env / "share").rmdir()
    assert everything(env) == before


def test_what_vanishes_is_told(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "lexists", lambda path: str(path).endswith("pip.conf"))
    monkeypatch.setattr(os.path, "isfile", lambda path: True)
    with pytest.raises(ProtectError, match=r"No such file or directory: .*pip\.conf"):
        plan(system_of(str(python)))


def test_without_a_standard_library_there_is_no_mark(tmp_path: Path) -> None:
    answer = python_answer(prefix=str(tmp_path), search_path=[SITE])
    files = {
        **TORCH_FILES,
        f"{SITE}/torch/__init__.py": "",
        f"{SITE}/torch/version.py": "musa = '5'",
    }
    made = plan(python_host(files=files, runs={"child:python": answer}))
    assert isinstance(made, Plan)
    assert "no EXTERNALLY-MANAGED: where the standard library is is not known" in made.notes


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_where_nothing_may_be_written_nothing_is(python: Path, tmp_path: Path) -> None:
    (tmp_path / "env").chmod(0o500)
    try:
        with pytest.raises(ProtectError, match="Permission denied; everything was put back"):
            apply(planned(python))
    finally:
        (tmp_path / "env").chmod(0o700)


def test_a_read_only_folder_is_told(python: Path, tmp_path: Path) -> None:
    """Even root cannot make a folder where a file is."""
    (tmp_path / "env" / "share").write_text("")
    with pytest.raises(ProtectError, match=r"Not a directory|File exists"):
        apply(planned(python))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 1}', '{"version": 1, "status": "done", "files": [1], "folders": []}',
     '{"version": 1, "status": "done", "files": [{"path": "a", "before": "*", "mode": 1, "sha256": []}], "folders": []}'],
)  # fmt: skip
def test_a_damaged_manifest_is_told(python: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "env" / "share" / "musadoctor").mkdir(parents=True)
    (tmp_path / "env" / MANIFEST).write_text(text)
    for attempt in (plan, plan_back, status):
        with pytest.raises(ProtectError, match=r"protected\.json is damaged"):
            attempt(system_of(str(python)))


def test_a_later_versions_manifest_is_left(python: Path, tmp_path: Path) -> None:
    apply(planned(python))
    file = tmp_path / "env" / MANIFEST
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 2}))
    with pytest.raises(ProtectError, match="another version of musadoctor"):
        plan_back(system_of(str(python)))


def test_status_tells_what_hides_it(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(planned(python))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    assert any("does not come to" in text for fine, text in stated(python).rows if not fine)
    (tmp_path / "other.conf").write_text("[install]\nconstraint = /x\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "other.conf"))
    assert any("does not come to" in text for fine, text in stated(python).rows if not fine)
    monkeypatch.delenv("PIP_CONFIG_FILE")
    monkeypatch.setenv("PIP_CONSTRAINT", "/x")
    assert any("PIP_CONSTRAINT=/x hides" in text for fine, text in stated(python).rows if not fine)
    monkeypatch.setenv("PIP_CONSTRAINT", f"/x {tmp_path}/env/{CONSTRAINTS}")
    assert stated(python).whole
    (version,) = (tmp_path / "env").glob("lib/*/site-packages/torch/version.py")
    version.write_text("__version__ = '2.9.1'\ncuda = '12.8'\n")
    (row,) = [text for fine, text in stated(python).rows if not fine]
    assert row.startswith("installed: no vendor's torch")
    shutil.rmtree(next((tmp_path / "env").glob("lib/*/site-packages")))
    assert any(
        "nothing is known to be installed" in t for fine, t in stated(python).rows if not fine
    )


def test_where_there_is_nothing_to_protect(tmp_path: Path, python: Path) -> None:
    (version,) = (tmp_path / "env").glob("lib/*/site-packages/torch/version.py")
    version.write_text("__version__ = '2.9.1'\ncuda = '12.8'\n")
    assert "has no vendor's torch to protect" in str(plan(system_of(str(python))))
    for attempt in (plan, plan_back, status):
        assert isinstance(attempt(system_of("/gone/python")), (Absent, Unknown))
    assert not protect.in_force(system_of("/gone/python"), ())


def test_a_build_without_a_label_is_held_by_its_file(tmp_path: Path) -> None:
    """Where the wheel is at hand; and by a URL where the path has a blank."""
    python = unpacked(tmp_path / "my env", "plain")
    wheels = tmp_path / "my wheels"
    wheels.mkdir()
    for file in (tmp_path / "my env").glob("*.whl"):
        shutil.move(file, wheels)
    for metadata in (tmp_path / "my env").glob("lib/*/site-packages/torch-*.dist-info"):
        (wheel,) = wheels.glob("torch-*.whl")
        url = wheel.as_uri()
        (metadata / "direct_url.json").write_text(json.dumps({"url": url, "archive_info": {}}))
    apply(planned(python))
    lines = (tmp_path / "my env" / CONSTRAINTS).read_text().splitlines()[1:]
    assert [line.partition(" @ ")[0] for line in lines] == [
        *("torch", "torch-musa", "torchvision==0.20.0+afc54f7", "torchaudio==2.5.0+56bc006"),
        "triton",
    ]
    assert f"torch @ {wheels.as_uri()}/torch-2.5.0-" in lines[0]
    assert (
        f"constraint = file://{tmp_path}/my%20env/"
        in (tmp_path / "my env" / "pip.conf").read_text()
    )
    assert stated(python).whole


@pytest.fixture
def project(tmp_path: Path) -> Path:
    unpacked(tmp_path / ".venv", "tagged")
    return tmp_path


WANTED = (
    '    "torch==2.9.1.post1+musa5.2.0",\n    "torch-musa==2.9.1.post1+musa5.2.0",\n'
    '    "torchvision==0.24.1.post1+musa5.2.0",\n    "torchaudio==2.9.1+musa5.2.0",\n'
    '    "triton==3.2.0",\n'
)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, f"NOTE\nconstraint-dependencies = [\n{WANTED}]\n"),
        (
            "# mine\n[pip]\nstrict = true\n",
            f"NOTE\nconstraint-dependencies = [\n{WANTED}]\n# mine\n[pip]\nstrict = true\n",
        ),
        (
            'offline = true\nconstraint-dependencies = ["numpy<2", # old\n]\n[pip]\n',
            f'offline = true\nconstraint-dependencies = [\n{WANTED}"numpy<2", # old\n]\n[pip]\n',
        ),
    ],
)
def test_uv_is_held_beside_a_dot_venv(project: Path, own: str | None, expected: str) -> None:
    file = project / "uv.toml"
    if own is not None:
        file.write_text(own)
    python = project / ".venv" / "bin" / "python"
    made = planned(python)
    assert made.notes == ()
    apply(made)
    note = "# Written by musadoctor: the vendor's builds, which nothing may replace."
    assert file.read_text().replace(note, "NOTE") == expected
    assert stated(python) == stated(python)._replace(notes=())
    assert stated(python).whole
    assert planned(python).changes == ()
    apply(back(python))
    assert (file.read_text() if file.exists() else None) == own


@pytest.mark.parametrize(
    ("name", "text", "note"),
    [
        ("pyproject.toml", "[tool.uv]\noffline = true\n", "a uv.toml would hide what"),
        ("pyproject.toml", '[[tool.uv.index]]\nurl = "a"\n', "a uv.toml would hide what"),
        ("uv.toml", "[[[", "uv.toml cannot be changed without harm; add"),
        ("uv.toml", 'constraint-dependencies = "a"\n', "uv.toml cannot be changed without harm"),
        (
            "uv.toml",
            'a = """\nconstraint-dependencies = [\n"""\n',
            "cannot be changed without harm",
        ),
    ],
)
def test_where_uv_cannot_be_held_it_is_told(project: Path, name: str, text: str, note: str) -> None:
    (project / name).write_text(text)
    made = planned(project / ".venv" / "bin" / "python")
    assert note in made.notes[0]
    assert '"torch==2.9.1.post1+musa5.2.0"' in made.notes[0]
    assert not any(change.path.endswith("uv.toml") for change in made.changes)


def test_a_pyproject_without_uv_does_not_matter(project: Path) -> None:
    for text in ("[tool.ruff]\n", "[[["):
        (project / "pyproject.toml").write_text(text)
        made = planned(project / ".venv" / "bin" / "python")
        assert any(change.path.endswith("uv.toml") for change in made.changes)


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    own_prefix(tmp_path / "prefix", "tagged")
    return tmp_path / "prefix"


def test_an_environment_that_is_no_virtual_one_is_marked(prefix: Path) -> None:
    python = prefix / "bin" / "python"
    apply(planned(python))
    (marker,) = prefix.glob("lib/python*/EXTERNALLY-MANAGED")
    text = marker.read_text()
    assert f"musadoctor guard -- {python} -m pip install --break-system-packages ..." in text
    assert f"musadoctor guard unprotect --python {python}" in text
    assert stated(python).whole
    assert planned(python).changes == ()
    apply(back(python))
    assert not marker.exists()
    marker.write_text("[externally-managed]\nError=mine\n")
    made = planned(python)
    assert f"{marker} is there already, and stays as it is" in made.notes
    apply(made)
    assert marker.read_text() == "[externally-managed]\nError=mine\n"
