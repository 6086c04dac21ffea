"""The script that is carried to hosts, run by every shell that is here."""

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from engine_lab import Lab
from processes import Brood

from musadoctor.fleet.answer import DAMAGED, NO_MUSADOCTOR, NO_PYTHON, Answer
from musadoctor.fleet.carry.errand import Errand
from musadoctor.fleet.carry.frames import Frames
from musadoctor.fleet.carry.script import STARTER, from_stdin, script, self_contained

NONCE = "5eed"
SHELLS = ("dash", "bash", "mksh", "zsh", "busybox")
"""As ``sh``; those that this machine has not are run in the lab."""
LOGIN_SHELLS = ("dash", "bash", "mksh", "zsh", "tcsh")
REPORT = '{\n"verdict": "healthy"\n}'
SAYS_REPORT = f"printf '%s\\n' '{REPORT}'"
NEEDED = (
    *("gzip", "base64", "sed", "tr", "head", "dd", "uname", "cat", "sleep", "env"),
    *("true", "touch"),
)
LAB_PATH = "/usr/bin:/bin"


class Host:
    """A PATH of its own, and a shell."""

    def __init__(self, folder: Path, lab: Lab | None = None) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.lab = lab
        self.variables: dict[str, str] = {}
        for name in NEEDED:
            (self.bin / name).symlink_to(_program(name))

    def shell(self, name: str) -> None:
        """Let ``sh`` be this one."""
        path = f"/usr/bin/{name}" if self.lab else _program(name)
        (self.bin / "sh").symlink_to(path)

    def program(self, name: str, text: str) -> None:
        path = self.bin / name
        path.unlink(missing_ok=True)  # it may be a link to the machine's own
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def python(self) -> None:
        self.program("python3", f'exec {shlex.quote(sys.executable)} "$@"')

    def start(self, argv: Sequence[str]) -> "subprocess.Popen[bytes]":
        first = shutil.which(argv[0], path=str(self.bin)) or argv[0]
        command = ["env", f"PATH={self.bin}", first, *argv[1:]]
        return subprocess.Popen(
            self.lab.command(command) if self.lab else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **self.variables},
        )

    def do(
        self,
        errand: Errand,
        payload: str = "installed",
        *,
        watched: bool = False,
        name: str | None = None,
        login: str = "sh",
    ) -> list[Answer]:
        """All answers of a run, whose standard input stays open until it has ended."""
        text = _script(errand, payload, watched=watched, name=name)
        argv = [login, "-c", from_stdin(text)]
        given = text.encode()
        if payload == "file":
            assert errand.zipapp is not None
            file = self.bin.parent / "carried"
            file.write_bytes(self_contained(text, errand.zipapp))
            argv, given = ["sh", str(file)], b""
        elif payload == "stdin":
            given += errand.zipapp or b""
        process = self.start(argv)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(given)
        process.stdin.flush()
        out = process.stdout.read()
        process.stdin.close()
        process.stdout.close()
        process.wait(20)
        return Frames(NONCE).feed(out)


def _program(name: str) -> str:
    path = shutil.which(name)
    assert path is not None
    return path


def _script(errand: Errand, payload: str, *, watched: bool, name: str | None = None) -> str:
    more = {} if name is None else {"name": name}
    return script(errand, NONCE, payload=payload, watched=watched, **more)  # type: ignore[arg-type]


def zipped(source: str) -> bytes:
    """A zipapp of one module, of a size that no pipe holds."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("__main__.py", source)
        archive.writestr("ballast", os.urandom(300_000))
    return made.getvalue()


TELLS_ITSELF = zipped(
    "import json, sys\n"
    "print(json.dumps({'argv': sys.argv[1:], 'isolated': sys.flags.isolated,"
    " 'given': sys.stdin.read()}, indent=0))"
)


def errand(*arguments: str, zipapp: bytes | None = None) -> Errand:
    return Errand(arguments, 60, zipapp=zipapp)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path)
    made.shell("dash" if shutil.which("dash") else "sh")
    return made


@pytest.fixture(params=SHELLS)
def any_host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    """A host with each shell as its ``sh``."""
    shell = str(request.param)
    lab = None if shutil.which(shell) else request.getfixturevalue("engine_lab")
    made = Host(tmp_path, lab)
    made.shell(shell)
    return made


@pytest.mark.parametrize("watched", [False, True])
def test_what_is_installed_there_is_run_with_its_arguments(
    any_host: Host, *, watched: bool
) -> None:
    any_host.program("musadoctor", f'[ "$*" = "--json --ignore a b" ] && {SAYS_REPORT}')
    asked = Errand(("--json", "--ignore", "a b"), 60)
    (answer,) = any_host.do(asked, watched=watched)
    assert (answer.report, answer.reason) == (REPORT, "")


@pytest.mark.parametrize("payload", ["stdin", "file"])
@pytest.mark.parametrize("watched", [False, True])
def test_what_is_brought_is_run_with_its_arguments(
    any_host: Host, payload: str, *, watched: bool
) -> None:
    any_host.python()
    (answer,) = any_host.do(
        errand("--json", "a  'b'", zipapp=TELLS_ITSELF), payload, watched=watched
    )
    assert answer.report is not None, answer
    assert json.loads(answer.report) == {"argv": ["--json", "a  'b'"], "isolated": 1, "given": ""}


@pytest.mark.parametrize("payload", ["installed", "stdin", "file"])
def test_nothing_is_left_once_it_has_answered(
    any_host: Host, payload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    brood = Brood(monkeypatch)
    any_host.program("musadoctor", SAYS_REPORT)
    any_host.python()
    any_host.do(errand("--json", zipapp=TELLS_ITSELF), payload, watched=True)
    until(lambda: not brood.alive())


@pytest.mark.parametrize("payload", ["installed", "stdin", "file"])
def test_the_end_of_its_input_ends_what_runs(
    any_host: Host, payload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    brood = Brood(monkeypatch)
    begun = any_host.bin.parent / "begun"
    any_host.python()
    any_host.program("musadoctor", f"touch {begun}; exec sleep 1000")
    slow = f"import time, pathlib; pathlib.Path({str(begun)!r}).touch(); time.sleep(1000)"
    zipapp = zipped(slow)
    asked = errand("--json", zipapp=zipapp)
    text = _script(asked, payload, watched=True)
    file = any_host.bin.parent / "carried"
    file.write_bytes(self_contained(text, zipapp))
    given = text.encode() + (zipapp if payload == "stdin" else b"")
    is_file = payload == "file"
    process = any_host.start(["sh", str(file)] if is_file else ["sh", "-c", from_stdin(text)])
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"" if is_file else given)
    process.stdin.flush()
    until(begun.exists)
    assert brood.alive()
    process.stdin.close()
    until(lambda: not brood.alive())
    (answer,) = Frames(NONCE).feed(process.stdout.read())
    assert answer.kind == DAMAGED
    process.stdout.close()
    process.wait()


def test_the_end_of_its_input_ends_an_interpreter_that_does_not_start(
    any_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    brood = Brood(monkeypatch)
    begun = any_host.bin.parent / "begun"
    any_host.program("python3", f"touch {begun}; exec sleep 1000")
    text = _script(errand("--json", zipapp=TELLS_ITSELF), "stdin", watched=True)
    process = any_host.start(["sh", "-c", from_stdin(text)])
    assert process.stdin is not None
    process.stdin.write(text.encode() + TELLS_ITSELF)
    process.stdin.flush()
    until(begun.exists)
    process.stdin.close()
    until(lambda: not brood.alive())
    assert process.stdout is not None
    process.stdout.close()
    process.wait()


@pytest.mark.parametrize("login", LOGIN_SHELLS)
def test_every_login_shell_can_start_it(
    login: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    lab = None if shutil.which(login) else request.getfixturevalue("engine_lab")
    host = Host(tmp_path, lab)
    host.shell("bash")
    host.python()
    place = f"/usr/bin/{login}" if lab else _program(login)
    (answer,) = host.do(errand(zipapp=TELLS_ITSELF), "stdin", watched=True, login=place)
    assert answer.report is not None


def test_a_host_without_musadoctor_says_so(host: Host) -> None:
    (answer,) = host.do(errand("--json"))
    assert (answer.kind, answer.reason) == (
        NO_MUSADOCTOR,
        "musadoctor is not installed there (no musadoctor on PATH); --bring takes it along",
    )


def test_a_host_without_python_says_so(host: Host) -> None:
    (answer,) = host.do(errand(zipapp=TELLS_ITSELF), "stdin")
    assert (answer.kind, answer.reason) == (
        NO_PYTHON,
        "Python 3.10 or later is needed there; found: none on PATH",
    )


def test_a_host_with_old_pythons_names_them(host: Host) -> None:
    refuses = 'case "$1" in --version) echo "Python {}";; *) exit 1;; esac'
    host.program("python3", refuses.format("3.6.8"))
    host.program("python3.11", refuses.format("3.9.1"))
    for watched in (False, True):
        (answer,) = host.do(errand(zipapp=TELLS_ITSELF), "stdin", watched=watched)
        assert (answer.kind, answer.reason.rpartition("; ")[2]) == (
            NO_PYTHON,
            "found: Python 3.6.8 Python 3.9.1",
        )


def test_a_newer_python_is_found_by_its_own_name(host: Host) -> None:
    host.program("python3", "exit 1")
    host.python()
    (host.bin / "python3").rename(host.bin / "python3.12")
    host.program("python3", "exit 1")
    (answer,) = host.do(errand(zipapp=TELLS_ITSELF), "stdin")
    assert answer.report is not None


def test_a_host_without_a_tool_says_which(host: Host) -> None:
    (host.bin / "base64").unlink()
    host.program("musadoctor", SAYS_REPORT)
    (answer,) = host.do(errand("--json"))
    assert (answer.kind, answer.reason) == (NO_MUSADOCTOR, "there is no base64")


def test_what_musadoctor_says_in_place_of_a_report_is_told(host: Host) -> None:
    host.program("musadoctor", "echo; echo 'Error: no space' >&2; exit 7")
    (answer,) = host.do(errand("--json"))
    assert (answer.kind, answer.reason) == (DAMAGED, "no report, exit code 7: Error: no space")


def test_a_report_is_found_between_warnings(host: Host) -> None:
    host.program("musadoctor", f"echo '{{ odd' >&2; {SAYS_REPORT}; echo odd}} >&2; exit 1")
    (answer,) = host.do(errand("--json"))
    assert answer.report == REPORT


def test_a_program_that_the_kernel_refuses_is_told(host: Host) -> None:
    host.program("musadoctor", "")
    (host.bin / "musadoctor").write_bytes(b"\x7fELF nothing")
    (answer,) = host.do(errand("--json"))
    assert answer.kind == DAMAGED
    assert answer.reason.startswith("no report, exit code 12")


def test_no_variable_of_the_host_disturbs_it(any_host: Host) -> None:
    any_host.python()
    any_host.variables = {
        "GZIP": "-d",
        "SHELLOPTS": "nounset:errexit",
        "IFS": "a/",
        "CDPATH": "/",
        "POSIXLY_CORRECT": "1",
        "PS4": "$(exit)",
        "LC_ALL": "zh_CN.UTF-8",
        "PYTHONHOME": "/nowhere",
        "PYTHONPATH": str(any_host.bin),
        # What is exported under our names would be handed on, and is too long for that.
        **dict.fromkeys(("zip", "name", "mark", "python", "old", "one", "self", "tool"), "x y"),
    }
    if any_host.lab:  # nsenter is a program, too
        del any_host.variables["LC_ALL"]
    for payload in ("stdin", "file"):
        (answer,) = any_host.do(errand("--json", zipapp=TELLS_ITSELF), payload, watched=True)
        assert answer.report is not None, answer


@pytest.mark.parametrize(
    ("called", "shown"),
    [
        ("gpu017.cluster", "gpu017.cluster"),
        ("../a&b/$(touch x)\\z", "..abtouchxz"),
        ("\u00e9t\u00e9-1", "t-1"),
        ("n" * 300, "n" * 255),
    ],
)
def test_a_host_may_call_itself_what_it_likes(any_host: Host, called: str, shown: str) -> None:
    any_host.variables["SLURMD_NODENAME"] = f"{called}\nmore"
    any_host.program("musadoctor", SAYS_REPORT)
    (answer,) = any_host.do(errand("--json"))
    more = "more" if len(called) < 255 else ""
    assert answer == Answer((shown + more), REPORT)


def test_a_host_without_a_name_has_one(host: Host) -> None:
    host.program("uname", "printf '***\\n'")
    host.program("musadoctor", SAYS_REPORT)
    (answer,) = host.do(errand("--json"))
    assert answer.host == "unnamed"


def test_slurm_knows_the_name_of_a_node(host: Host) -> None:
    host.variables["SLURMD_NODENAME"] = "node7"
    host.program("musadoctor", SAYS_REPORT)
    (answer,) = host.do(errand("--json"))
    assert answer.host == "node7"


def test_each_host_gets_its_own_variables(any_host: Host) -> None:
    any_host.program("musadoctor", 'printf \'{\\n"is": "%s"\\n}\\n\' "$RANK $ROOT"')
    asked = errand("--json")._replace(
        variables={"h1": {"RANK": "0", "ROOT": "a'b"}, "h2": {"RANK": "1", "ROOT": "$HOME"}}
    )
    told = [any_host.do(asked, name=name)[0] for name in ("h1", "h2", "h3")]
    assert [(a.host, json.loads(a.report or "")["is"]) for a in told] == [
        ("h1", "0 a'b"),
        ("h2", "1 $HOME"),
        ("h3", " "),
    ]


def test_an_interpreter_for_an_old_c_library_takes_it_from_memory_too(host: Host) -> None:
    """Its ``os`` has no ``memfd_create``."""
    forget = f"import os; del os.memfd_create; exec({STARTER!r})"
    done = subprocess.run(
        [sys.executable, "-I", "-c", forget, "an argument"],
        input=TELLS_ITSELF,
        capture_output=True,
        check=True,
        timeout=20,
    )
    assert json.loads(done.stdout)["argv"] == ["an argument"]


def test_hosts_that_share_a_disk_are_told_apart_by_their_answers(host: Host) -> None:
    host.program("musadoctor", SAYS_REPORT)
    reader = Frames(NONCE)
    text = _script(errand("--json"), "installed", watched=False, name="$1")
    told = []
    for name in ("a", "b"):
        process = host.start(["sh", "-c", text, "sh", name])
        out, _ = process.communicate(timeout=20)
        told += reader.feed(out)
    assert told == [Answer("a", REPORT), Answer("b", REPORT)]
