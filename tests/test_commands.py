"""The closed list of what musadoctor runs, and that nothing passes it by."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import sample

import musadoctor
from musadoctor import commands
from musadoctor.commands import Command

ROOT = Path(musadoctor.__file__).parent.parent
SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("musadoctor", "checks")
    for path in (ROOT / folder).rglob("*.py")
    # The children run elsewhere, and import nothing of musadoctor.
    if not path.name.endswith("_child.py") and path.parent.name != "children"
)

BUILDERS = {
    "gmi_table": ("{}",),
    "gmi_json": ("{}", "-q", "--json"),
    "gmi_topology": ("{}", "topo", "-m"),
    "musa_info": ("{}",),
    "mcc_version": ("{}", "--version"),
    "version_query": ("{}",),
    "kernel_log": ("dmesg",),
    "python_child": ("{}", "-B", "-c", "SOURCE"),
    "torch_child": ("{}", "-B", "-c", "SOURCE"),
    "verify_child": ("{}", "-B", "-c", "BASE", "STEPS", "PLAN"),
    "uv_version": ("{}", "--version"),
    "uv_plan": (
        *("{}", "pip", "install", "--dry-run", "--no-build", "--no-progress", "--python", "{}"),
        *("--break-system-packages", "--index-strategy", "unsafe-best-match"),
        *("--constraints", "/dev/stdin", "ARGUMENT"),
    ),
    "pip_version": ("{}", "-c", commands.RUN_PIP, "--version"),
    "pip_plan": (
        *("OWN", "-c", commands.RUN_PIP, "--python", "{}", "install", "--dry-run"),
        *("--report", "-", "--quiet", "--no-input", "--only-binary=:all:"),
        *("--use-feature=fast-deps", "--disable-pip-version-check", "--retries", "1"),
        *("--constraint", "/dev/stdin", "ARGUMENT"),
    ),
    "poetry_environment": (
        *("{}", "--directory", "PROJECT", "--no-interaction", "env", "info", "--path"),
    ),
    "pipenv_environment": ("{}", "--venv"),
}
PLANS = {"uv_plan", "pip_plan"}
"""What asks an index, and reads constraints."""
CHILDREN = {
    "python_child": "child:python",
    "torch_child": "child:torch",
    "verify_child": "child:verify:KEY",
}


def built(name: str) -> Command:
    build = getattr(commands, name)
    more = {
        "program": "PROGRAM",
        "path": "PROGRAM",
        "python": "PROGRAM",
        "source": "SOURCE",
        "own": "OWN",
        "project": "PROJECT",
        "arguments": ("ARGUMENT",),
        "constraints": "torch==2.5.0",
        "key": "KEY",
        "sources": ("BASE", "STEPS"),
        "plan": "PLAN",
        "seconds": 9.0,
    }
    parameters = inspect.signature(build).parameters.values()
    command = build(*(more[one.name] for one in parameters if one.default is one.empty))
    assert isinstance(command, Command)
    return command


def test_no_other_command_can_be_built() -> None:
    builders = {
        name
        for name, function in inspect.getmembers(commands, inspect.isfunction)
        if function.__module__ == commands.__name__ and not name.startswith("_")
    }
    assert builders == set(BUILDERS)
    assert commands.GMI_NAMES == ("mthreads-gmi", "zjlab-gmi", "mthreads-smi")


@pytest.mark.parametrize("name", BUILDERS)
def test_what_is_run(name: str) -> None:
    command = built(name)
    argv = (command.program, *command.arguments)
    assert argv == tuple(word.format("PROGRAM") for word in BUILDERS[name])
    assert str(command) == CHILDREN.get(name, " ".join(argv))
    assert command.answers == (name in CHILDREN)
    autoload = (("TORCH_DEVICE_BACKEND_AUTOLOAD", "0"),)
    variables = {
        "torch_child": autoload,
        "verify_child": autoload,
        "uv_plan": (("UV_HTTP_RETRIES", "1"),),
    }
    assert command.environment == variables.get(name, ())
    assert command.given == ("torch==2.5.0" if name in PLANS else "")
    assert bool(command.room) == (name in {*PLANS, "verify_child"})
    assert 0 < command.seconds <= 600


def test_a_plan_needs_no_constraints_and_can_be_explained() -> None:
    assert commands.pip_plan("PYTHON", "PYTHON", (), "").given == "\n"
    own = commands.pip_plan("PYTHON", "PYTHON", (), "").arguments
    assert "--python" not in own, "its own environment"
    explained = commands.uv_plan("uv", "PYTHON", (), "", log=True)
    assert explained.given == "\n"
    assert ("RUST_LOG", "uv_resolver=debug") in explained.environment


def test_of_the_kernel_log_only_what_concerns_the_cards_is_let_in() -> None:
    assert {name for name in BUILDERS if built(name).keeps} == {"kernel_log"}
    pattern = re.compile(built("kernel_log").keeps)
    lines = [
        "[    0.000000] Linux version 5.15.0-105-generic (buildd@lcy02) (gcc 11.4.0)",
        "[   11.402817] mtgpu: loading out-of-tree module taints kernel.",
        *sample("dmesg-mtgpu-lockup.txt").splitlines(),
        "[   12.0] MTGPU:(Error): 812: XID 0x07000001",
        "[   12.0] XID: 0x02000007 card 0",
        "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
        "mtgpu: Loading of module with unavailable key is rejected",
    ]
    assert all(map(pattern.search, lines))
    private = [
        "[    0.000000] Command line: BOOT_IMAGE=/vmlinuz root=UUID=1234 password=x",
        "[    1.0] DMI: Inspur NF5468, BIOS 4.0",
        "[   12.0] NVRM: Xid (PCI:0000:01:00): 13, Graphics SM Warp Exception: ESR 0x505730=0x1",
        "[   12.0] usb 1-1: SerialNumber: 0123",
        "[   12.0] Out of memory: Killed process 1 (secret)",
    ]
    assert not any(map(pattern.search, private))


@pytest.mark.parametrize("name", BUILDERS)
def test_no_command_changes_the_machine(name: str) -> None:
    """``-r`` resets a card, ``-e`` its memory's mode, the others set modes and virtual cards."""
    forbidden = {
        "-r",
        "-e",
        "-pm",
        "-mm",
        "-cf",
        "-l",
        "-es",
        "-ds",
        "-eu",
        "vgpu",
        "mtlink",
        "event",
    }
    assert not forbidden & set(built(name).arguments)


OS_DOORS = {
    *("access", "chdir", "chmod", "chown", "confstr", "environ", "environb", "fork", "forkpty"),
    *("getenv", "getenvb", "getgroups", "getuid", "kill", "killpg", "link", "listdir", "lstat"),
    *("makedirs", "mkdir", "open", "pidfd_open", "popen", "putenv", "readlink", "remove"),
    *("rename", "replace", "rmdir", "scandir", "setsid", "startfile", "stat", "statvfs"),
    *("symlink", "system", "truncate", "uname", "unlink", "utime", "walk"),
}
OS_PREFIXES = ("exec", "spawn", "posix_spawn")
PATH_DOORS = {
    *("exists", "expanduser", "getmtime", "getsize", "isdir", "isfile", "islink", "ismount"),
    *("lexists", "realpath", "samefile"),
}
METHOD_DOORS = {
    *("glob", "is_dir", "is_file", "iterdir", "mkdir", "open", "read_bytes", "read_text"),
    *("resolve", "rglob", "rmdir", "symlink_to", "touch", "unlink", "write_bytes", "write_text"),
}
MODULE_DOORS = {
    *("cffi", "ctypes", "fcntl", "glob", "grp", "mmap", "multiprocessing"),
    *("pty", "pwd", "resource", "selectors", "shutil", "signal", "socket", "ssl", "subprocess"),
    *("tempfile", "torch", "torch_musa", "urllib", "urllib.request"),
}


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def doors(tree: ast.AST) -> Iterator[str]:
    """Whatever in a module could reach the machine past a System."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute):
            names = [dotted(node)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names = [f"{node.func.id}()"]
        for name in names:
            module, _, last = name.rpartition(".")
            if (
                name in MODULE_DOORS
                or name
                in {
                    "importlib.import_module",
                    "open()",
                    "exec()",
                    "eval()",
                    "compile()",
                    "__import__()",
                    "Command()",
                }
                or (module == "os" and (last in OS_DOORS or last.startswith(OS_PREFIXES)))
                or (module in {"os.path", "posixpath"} and last in PATH_DOORS)
                or (module.partition(".")[0] not in {"os", ""} and last in METHOD_DOORS)
            ):
                yield name


EXPECTED = {
    # The two that are the door.
    "musadoctor/live.py": {
        *("grp", "open()", "os.access", "os.confstr", "os.environ", "os.getgroups", "os.getuid"),
        *("os.listdir", "os.lstat", "os.open", "os.path.realpath", "os.stat", "os.uname"),
    },
    "musadoctor/runner.py": {
        *("open()", "os.environ", "os.kill", "os.killpg", "os.listdir", "resource", "selectors"),
        *("signal", "subprocess"),
    },
    "musadoctor/commands.py": {"Command()"},
    # What the user names: the file to write, the recording to read.
    # And how it is ended, and standard streams that were closed.
    "musadoctor/cli/shared.py": {"output.resolve", "part.open", "part.unlink", "signal"},
    "musadoctor/cli/__init__.py": {"importlib.import_module", "os.open"},
    "musadoctor/cli/triage.py": {"os.open"},
    # The terminal's width, the signals that end a run, and the list of operators that is asked for.
    "musadoctor/cli/verifying.py": {"shutil"},
    "musadoctor/cli/interruptible.py": {"signal"},
    "musadoctor/cli/verify.py": {"require_ops.read_text"},
    "musadoctor/verify/record.py": {"open()"},
    "musadoctor/recording.py": {"open()"},
    "musadoctor/requirements/files.py": {
        *("importlib.import_module", "item.is_dir", "open()", "os.open", "os.path.isdir"),
        *("os.path.isfile", "os.path.islink", "os.path.realpath", "os.scandir", "os.stat"),
    },
    # What the user names: reports of many hosts, which are read by several processes.
    "musadoctor/fleet/sources.py": {
        *("importlib.import_module", "os.open", "os.path.isdir", "os.scandir"),
    },
    "musadoctor/cli/fleet_diff.py": {"os.path.exists"},
    "musadoctor/fleet/groups.py": {"?.open"},
    # What answers are kept in, and the single file, which is made of our own installation.
    "musadoctor/fleet/keep.py": {"gzip.open", "path.open"},
    "musadoctor/cli/fleet_zipapp.py": {"part.unlink", "part.write_bytes"},
    "musadoctor/fleet/carry/bring.py": {"open()", "path.is_file", "path.read_bytes", "root.rglob"},
    # Where the programs of the engines are, and the files that they are handed.
    "musadoctor/cli/fleet_run.py": {"shutil"},
    "musadoctor/fleet/carry/ssh.py": {"shutil"},
    "musadoctor/fleet/carry/mpi.py": {"shutil", "tempfile"},
    "musadoctor/fleet/carry/slurm_site.py": {"shutil"},
    "musadoctor/fleet/carry/kubernetes.py": {"file.write_text", "tempfile"},
    "musadoctor/fleet/carry/kubectl.py": {"shutil"},
    "musadoctor/fleet/carry/ansible.py": {
        *("?.write_text", "carried.write_bytes", "plugins.mkdir", "shutil", "tempfile"),
    },
    "musadoctor/fleet/workers.py": {"multiprocessing", "signal"},
    "musadoctor/requirements/toml_text.py": {"importlib.import_module"},
    # Of their own making: a shell's command, and what a resolver says.
    "musadoctor/requirements/shell.py": {"Command()"},
    "musadoctor/cli/guard.py": {"musadoctor.guard.deep.resolve"},
    # What holds the vendor's builds: for one command, and in an environment for good.
    "musadoctor/guard/intercept.py": {"open()", "tempfile"},
    "musadoctor/guard/protect.py": {
        *("importlib.import_module", "open()", "os.makedirs", "os.path.exists", "os.path.isdir"),
        *("os.path.isfile", "os.path.lexists", "os.path.realpath", "os.replace", "os.rmdir"),
        *("os.stat", "os.unlink", "tempfile"),
    },
    # Copies of the files that the user names.
    "musadoctor/guard/rewrite.py": {
        *("open()", "os.path.exists", "os.path.isfile", "os.path.lexists", "os.path.realpath"),
        *("os.replace", "os.unlink"),
    },
    # A port for the ranks to meet at, which is free for now: nothing to record.
    "musadoctor/verify/ranks.py": {"socket"},
    # Our own installation.
    "musadoctor/plugins.py": {"importlib.import_module", "open()", "os.listdir"},
    "musadoctor/probes/products.py": {"importlib.import_module"},
    "checks/musadoctor_checks/knowledge/__init__.py": {"importlib.import_module"},
}


@pytest.mark.parametrize("source", SOURCES)
def test_no_module_passes_the_door_by(source: str) -> None:
    tree = ast.parse((ROOT / source).read_text(encoding="utf-8"))
    assert set(doors(tree)) == EXPECTED.get(source, set())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import subprocess", {"subprocess"}),
        ("from subprocess import run", {"subprocess"}),
        ("from os import environ", {"os.environ"}),
        ("import os\nos.environ['A']", {"os.environ"}),
        ("os.execvp('a', [])", {"os.execvp"}),
        ("with open('a') as f: pass", {"open()"}),
        ("Path('a').read_text()", {"?.read_text"}),
        ("os.path.exists('a')", {"os.path.exists"}),
        ("import ctypes, torch", {"ctypes", "torch"}),
        ("Command('a', 'a', (), 1)", {"Command()"}),
        ("os.path.join('a'); text.replace('a', 'b'); import json", set()),
    ],
)
def test_the_search_for_doors_finds_them(text: str, expected: set[str]) -> None:
    assert set(doors(ast.parse(text))) == expected


def test_children_are_given_scripts_of_ours_only() -> None:
    scripts = {}
    for source in SOURCES:
        for node in ast.walk(ast.parse((ROOT / source).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and dotted(node.func) in CHILDREN:
                # That of verify is told apart by a key, which comes before its scripts.
                place = 2 if dotted(node.func) == "verify_child" else 1
                scripts[dotted(node.func)] = ast.unparse(node.args[place])
    assert scripts == {
        "python_child": "child_source('python_child.py')",
        "torch_child": "child_source('torch_child.py')",
        "verify_child": "sources",
    }
