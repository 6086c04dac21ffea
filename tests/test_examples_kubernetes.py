"""The files for node-problem-detector: what it documents of its custom plugins, and the script.

It was not run itself. https://github.com/kubernetes/node-problem-detector/blob/master/docs/custom_plugin_monitor.md
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "examples" / "kubernetes" / "node-problem-detector"
SCRIPT = FOLDER / "check-musadoctor.sh"


def seconds(duration: str) -> float:
    """A duration in Go's notation, as far as it is used here."""
    found = re.fullmatch(r"(\d+)([sm])", duration)
    assert found, duration
    return int(found[1]) * {"s": 1, "m": 60}[found[2]]


def test_the_configuration_is_one_of_a_custom_plugin() -> None:
    config: dict[str, Any] = json.loads((FOLDER / "musadoctor.json").read_text())
    assert set(config) == {
        *("plugin", "pluginConfig", "source", "metricsReporting", "conditions", "rules"),
    }
    assert config["plugin"] == "custom"
    (condition,) = config["conditions"]
    assert set(condition) == {"type", "reason", "message"}
    (rule,) = config["rules"]
    assert set(rule) == {"type", "condition", "reason", "path", "timeout"}
    assert rule["type"] == "permanent"
    assert rule["condition"] == condition["type"]
    assert rule["reason"] != condition["reason"]
    assert Path(rule["path"]).name == SCRIPT.name
    limits = config["pluginConfig"]
    assert (
        seconds(rule["timeout"]) <= seconds(limits["timeout"]) < seconds(limits["invoke_interval"])
    )


def checked(
    folder: Path, script: str | None, shell: str = "sh", **variables: str
) -> tuple[int, str]:
    if script is not None:
        program = folder / "musadoctor"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    done = subprocess.run(
        [shell, SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{folder}:{os.environ['PATH']}", **variables},
        timeout=30,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("code", "word", "expected"),
    [(0, "healthy", 0), (1, "broken: no-gpu: none", 1), (3, "unknown: x", 2), (4, "bug", 2)],
)
def test_the_exit_codes_of_musadoctor_are_those_of_the_plugin(
    code: int, word: str, expected: int, tmp_path: Path
) -> None:
    assert checked(tmp_path, f"echo '{word}'; exit {code}") == (expected, f"{word}\n")


def test_the_message_has_room(tmp_path: Path) -> None:
    code, said = checked(tmp_path, f"echo '{'x' * 200}'; exit 1")
    assert (code, said) == (1, f"{'x' * 80}\n")


def test_the_room_is_counted_in_bytes(tmp_path: Path) -> None:
    for shell in ("sh", "bash"):
        _, said = checked(tmp_path, f"echo '{'é' * 100}'; exit 1", shell, LC_ALL="C.UTF-8")
        assert said == f"{'é' * 40}\n"


def test_what_is_not_known_is_never_well(tmp_path: Path) -> None:
    assert checked(tmp_path, "exit 7") == (2, "musadoctor ended with 7 and said nothing\n")
    absent = checked(tmp_path, None, MUSADOCTOR="musadoctor-of-nowhere -x")
    assert absent == (2, "no musadoctor-of-nowhere on PATH\n")


def test_a_musadoctor_that_hangs_is_ended(tmp_path: Path) -> None:
    code, said = checked(tmp_path, "exec sleep 1000", SECONDS_MAX="-9")
    assert (code, said) == (2, "musadoctor ended with 124 and said nothing\n")
