"""``musadoctor env`` in a process of its own, and its output in real shells."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import whole
from test_cli import musadoctor

from musadoctor.render.shell import render

NEW, OLD = "/usr/local/musa-5.2.0", "/usr/local/musa-4.3.5"
CASES = ("side-by-side", "driver-folder-left-behind", "no-torch", "old-recording", "no-proc")
SHELLS = {"bash": ("--norc", "--noprofile"), "zsh": ("-f",), "fish": ("--no-config",)}


def shell(name: str) -> list[str]:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} here")
    return [path, *SHELLS[name]]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for case in CASES:
        (folder / f"{case}.json").write_text(json.dumps(whole(case)), encoding="utf-8")
    (folder / "empty.json").write_text(
        '{"format": "musadoctor-recording", "version": 1, "answers": {}}'
    )
    return folder


COMMANDS = f"""\
export MUSA_HOME='{NEW}'
unset MUSA_PATH
export MUSA_DRIVER_LIB_DIR='/opt/runtime-deps/5.2.0/lib'
export PATH='{NEW}/bin:/opt/env/bin:/usr/bin:/bin'
export LD_LIBRARY_PATH='/opt/runtime-deps/5.2.0/lib:{NEW}/lib'
"""
FISH = f"""\
set -gx MUSA_HOME '{NEW}'
set -eg MUSA_PATH
set -gx MUSA_DRIVER_LIB_DIR '/opt/runtime-deps/5.2.0/lib'
set -gx PATH '{NEW}/bin:/opt/env/bin:/usr/bin:/bin'
set -gx LD_LIBRARY_PATH '/opt/runtime-deps/5.2.0/lib:{NEW}/lib'
"""


@pytest.mark.parametrize(
    ("arguments", "own_shell", "out"),
    [
        ([], "/bin/bash", COMMANDS),
        ([], "/usr/bin/zsh", COMMANDS),
        ([], "/usr/local/bin/fish", FISH),
        ([], "/bin/tcsh", COMMANDS),
        ([], "", COMMANDS),
        (["--shell", "fish"], "/bin/bash", FISH),
        (["--shell", "zsh"], "/usr/bin/fish", COMMANDS),
    ],
)
def test_what_is_printed(recordings: Path, arguments: list[str], own_shell: str, out: str) -> None:
    done = musadoctor(
        "env",
        *("--toolkit", "5.2.0", "--recording", "driver-folder-left-behind.json", *arguments),
        cwd=recordings,
        environment={"SHELL": own_shell},
    )
    assert done == (0, out, "")


@pytest.mark.parametrize(
    ("case", "arguments", "code", "sentence"),
    [
        ("side-by-side", ["--toolkit", "9.9.0"], 2, f"Toolkit 9.9.0 is not installed; installed: 5.2.0 in {NEW}, 4.3.5 in {OLD}\n"),
        ("side-by-side", ["--toolkit", "x\ny"], 2, "Toolkit x?y is not installed; installed: "),
        ("side-by-side", ["--toolkit", "9.9.0", "--force"], 2, "Toolkit 9.9.0 is not installed; "),
        ("side-by-side", ["--toolkit", "4.3.5"], 1, "Toolkit 4.3.5 cannot be used here (--force overrides this): torch_musa 2.9.1+musa5.2.0 needs Toolkit 5.x "),
        ("no-proc", ["--toolkit", "9"], 2, "Toolkit 9 is not installed; "),
        ("empty", [], 3, "which Toolkits are installed is not known: "),
        ("gone", [], 2, "gone.json: No such file or directory"),
    ],
)  # fmt: skip
def test_a_refusal_is_one_sentence_and_nothing_to_eval(
    recordings: Path, case: str, arguments: list[str], code: int, sentence: str
) -> None:
    done = musadoctor("env", "--recording", f"{case}.json", *arguments, cwd=recordings)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(f"musadoctor: {sentence}")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--shell", "tcsh"], ["--nope"], ["5.2.0"]])
def test_wrong_options_leave_nothing_to_eval(arguments: list[str]) -> None:
    done = musadoctor("env", *arguments)
    assert (done.code, done.out) == (2, "")


def test_it_says_which_one_and_why(recordings: Path) -> None:
    done = musadoctor("env", "--recording", "side-by-side.json", cwd=recordings)
    assert done.code == 0
    assert done.err == "# Toolkit 5.2.0: torch_musa 2.9.1+musa5.2.0 was built for it\n"
    assert done.out.startswith(f"export MUSA_HOME='{NEW}'\n")


def test_force_prints_it_and_warns(recordings: Path) -> None:
    arguments = ("--toolkit", "4.3.5", "--force", "--recording", "side-by-side.json")
    done = musadoctor("env", *arguments, cwd=recordings)
    assert done.code == 0
    assert done.out.startswith(f"export MUSA_HOME='{OLD}'\n")
    warnings = done.err.splitlines()
    assert [line.partition(" ")[0] for line in warnings] == ["#", "#"]
    assert warnings[0].startswith("# warning: torch_musa 2.9.1+musa5.2.0 needs Toolkit 5.x")
    assert warnings[1].startswith("# warning: kernel driver 5.2.0-server")


def test_a_pair_that_no_table_has_is_only_warned_of(recordings: Path, tmp_path: Path) -> None:
    changed = json.loads((recordings / "no-torch.json").read_text(encoding="utf-8"))
    for path, text in changed["answers"]["files"].items():
        changed["answers"]["files"][path] = text.replace("3.3.5", "3.3.9")
    (tmp_path / "host.json").write_text(json.dumps(changed), encoding="utf-8")
    done = musadoctor("env", "--toolkit", "4.3.5", "--recording", "host.json", cwd=tmp_path)
    assert done.code == 0
    assert done.out.startswith(f"export MUSA_HOME='{OLD}'\n")
    assert done.err.startswith("# warning: kernel driver 3.3.9-server with Toolkit 4.3.5: a pair")


NAMES = ["MUSA_HOME", "MUSA_PATH", "MUSA_DRIVER_LIB_DIR", "PATH", "LD_LIBRARY_PATH"]
TREES = 'it\'s a $HOME `x` "y" \\ \n*~ é 中'
"""The folder of this test's Toolkits."""


@pytest.fixture
def live(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """Two real Toolkits in a folder with a hard name, 4.3.5 in use, with a libmusa for each."""
    trees = tmp_path / TREES
    for number in ("4.3.5", "5.2.0"):
        root = trees / f"musa-{number}"
        for name in ("bin", "lib"):
            (root / name).mkdir(parents=True)
        (root / "bin" / "mcc").write_text("#!/bin/sh\n")
        (root / "bin" / "mcc").chmod(0o755)
        (root / "lib" / f"libmusart.so.{number[0]}").write_bytes(b"")
        version = {"musa_toolkits": {"version": number}}
        (root / "version.json").write_text(json.dumps(version))
        driver = trees / "runtime-deps" / number / "lib"
        driver.mkdir(parents=True)
        (driver / "libmusa.so.1").write_bytes(b"\x7fELF")
    old, new = trees / "musa-4.3.5", trees / "musa-5.2.0"
    deps = trees / "runtime-deps" / "4.3.5" / "lib"
    return trees, {
        "HOME": str(tmp_path),
        "MUSA_HOME": str(old),
        "MUSA_PATH": str(new),
        "MUSA_DRIVER_LIB_DIR": str(deps),
        "PATH": f"{old}/bin:/no/such:/usr/bin:/bin",
        "LD_LIBRARY_PATH": f"{deps}::{old}/lib:{trees}",
    }


@pytest.mark.parametrize("name", SHELLS)
def test_eval_in_a_real_shell(live: tuple[Path, dict[str, str]], name: str) -> None:
    trees, variables = live
    new, old = trees / "musa-5.2.0", trees / "musa-4.3.5"
    here = [sys.executable, "-m", "musadoctor", "env", "--toolkit", "5.2.0", "--shell", name]
    command = " ".join(f"'{word}'" for word in here)
    script = f"""
        {command} > first
        eval "$(cat first)"
        {command} > second; echo ran
        env -0 > after
    """
    if name == "fish":
        script = script.replace('eval "$(cat first)"', "source first")
    done = subprocess.run(
        [*shell(name), "-c", script],
        capture_output=True,
        check=False,
        cwd=trees.parent,
        env={**variables, "PYTHONPATH": os.pathsep.join(map(str, sys.path)), "LANG": "C.UTF-8"},
        timeout=60,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", b"ran\n")
    first = (trees.parent / "first").read_bytes()
    assert (trees.parent / "second").read_bytes() == first
    after = dict(
        line.split(b"=", 1) for line in (trees.parent / "after").read_bytes().split(b"\0") if line
    )
    deps = trees / "runtime-deps" / "5.2.0" / "lib"
    assert {key: after.get(key.encode(), b"").decode() for key in NAMES} == {
        "MUSA_HOME": str(new),
        "MUSA_PATH": str(new),
        "MUSA_DRIVER_LIB_DIR": str(deps),
        "PATH": f"{new}/bin:/no/such:/usr/bin:/bin",
        "LD_LIBRARY_PATH": f"{deps}:{new}/lib:{trees}",
    }
    assert str(old) not in first.decode()


def test_a_name_that_is_no_text_comes_out_as_it_went_in(
    live: tuple[Path, dict[str, str]],
) -> None:
    _, variables = live
    environment = {
        **{os.fsencode(k): os.fsencode(v) for k, v in variables.items()},
        b"PATH": b"/caf\xe9:/usr/bin:/bin",
        b"PYTHONPATH": os.fsencode(os.pathsep.join(map(str, sys.path))),
    }
    done = subprocess.run(
        [sys.executable, "-m", "musadoctor", "env", "--toolkit", "4.3.5"],
        capture_output=True,
        check=False,
        env=environment,
        timeout=60,
    )
    assert done.returncode == 0
    assert b"/bin:/caf\xe9:/usr/bin:/bin'\n" in done.stdout


words = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs", "Co", "Cn")))
hard = st.text("'\"\\$`!*?[]{}()<>|&;#~=^%@:,. \n\t\r\x1baé中")


@pytest.mark.parametrize("name", SHELLS)
def test_every_value_comes_through_a_real_shell(name: str) -> None:
    command = shell(name)

    @settings(max_examples=12, deadline=None)
    @given(st.lists(words | hard, min_size=1, max_size=60))
    def through(values: list[str]) -> None:
        """One process for all of them."""
        script = render([(f"V{index}", value) for index, value in enumerate(values)], name)
        script += "".join(f"printf '%s\\0' \"$V{index}\"\n" for index in range(len(values)))
        done = subprocess.run(
            [*command, "-c", script],
            capture_output=True,
            check=True,
            env={"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"], "HOME": "/"},
        )
        assert done.stdout.decode().split("\0")[:-1] == values
        assert done.stderr == b""

    through()


@pytest.mark.parametrize("name", SHELLS)
def test_what_is_unset_is_not_there(name: str) -> None:
    script = render([("GONE", None), ("KEPT", "a:b"), ("NEVER", None)], name) + "env -0\n"
    done = subprocess.run(
        [*shell(name), "-c", script],
        capture_output=True,
        check=True,
        env={"GONE": "x", "KEPT": "y", "PATH": os.environ["PATH"], "HOME": "/"},
    )
    lines = done.stdout.split(b"\0")
    assert b"KEPT=a:b" in lines
    assert not [line for line in lines if line.startswith((b"GONE", b"NEVER"))]
    assert done.stderr == b""
