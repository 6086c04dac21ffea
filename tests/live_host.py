"""A synthetic host of ``hosts/synthesise.py`` made real, in a mount namespace of its own.

The tree that a :class:`LiveHost` holds is laid over this machine's: the PCI bus, the kernel module,
device nodes, ``/proc/driver/musa``, tools that print what the synthetic host's tools print, and
libraries that the loader loads. What runs in it needs no switch that tells it so. Needs root and
cc; nothing of it stays behind.
"""

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest
from hosts.synthesise import LIB as SYNTHETIC_LIB
from hosts.synthesise import S5000, SETS, Software, synthesise, toolkit

Answers = dict[str, dict[str, Any]]
CARDS = 2
SOFTWARE = SETS["5.2.0"]
WHEEL = SOFTWARE.torch + SOFTWARE.label
TOOLKIT = f"/usr/local/musa-{SOFTWARE.toolkit}"
LIB = f"/usr/lib/{platform.machine()}-linux-gnu"
CC = ("cc", "-shared", "-fPIC", "-O1", "-g0", "-x", "c", "-")
ENVIRONMENT = {
    "PATH": "/usr/local/musa/bin:/usr/bin:/bin",
    "MUSA_HOME": "/usr/local/musa",
    "LD_LIBRARY_PATH": "/usr/local/musa/lib",
    "FAKE_MUSA_DEVICES": str(CARDS),
    "FAKE_MUSA_MEMORY_MIB": str(S5000.memory_mib),
}
ENTER = """
tree=$1; shift
over() { mount -t overlay overlay -o "ro,lowerdir=$tree$1:$1" "$1"; }
bind() { [ ! -e "$tree$1" ] || [ ! -e "$1" ] || mount --bind "$tree$1" "$1"; }
nodes=$(ls "$tree/dev")
mount -t tmpfs nodes "$tree/dev"
for node in $nodes; do mknod -m 660 "$tree/dev/$node" c 1 3; done
over /dev
over /usr/bin
over /usr/local
over LIB
bind /sys/bus/pci
bind /sys/module
bind /sys/class/dmi/id
bind /etc/os-release
bind /proc/cmdline
bind /proc/cpuinfo
bind /proc/driver
"$tree/torch-version.sh"
PATH=$PATH:/usr/sbin:/sbin ldconfig -C "$tree/ld.so.cache" 2>/dev/null
mount --bind "$tree/ld.so.cache" /etc/ld.so.cache
""".replace("LIB", LIB)
CODES = {
    # What the version functions of the public headers answer.
    "libmusa": "int muInit(unsigned f){return 0;} int muDriverGetVersion(int*v){*v=50200;return 0;}",
    "libmusart": "int muInit(unsigned); int musaRuntimeGetVersion(int*v){*v=50200;return muInit(0);}",
    "libmccl": "int mcclGetVersion(int*v){*v=21104;return 0;}",
}
KERNELS = """
int musaRuntimeGetVersion(int*), mcclGetVersion(int*), libmudnn(void);
int kernels(int*v){return musaRuntimeGetVersion(v)+mcclGetVersion(v)+libmudnn();}
"""
LOADED = """\
import ctypes as _ctypes, os as _os
try:
    _ctypes.CDLL(_os.path.join(_os.path.dirname(__file__), "lib", "libmusa_kernels.so"))
except OSError as _error:
    raise ImportError(str(_error)) from None
"""
"""So does the loader speak where an extension module needs a library in vain."""


class Done(NamedTuple):
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        """What ``--json`` gave."""
        assert self.out.startswith("{"), self
        report: dict[str, Any] = json.loads(self.out)
        return report

    @property
    def raised(self) -> dict[str, tuple[str, str]]:
        """Status and severity of whatever is neither passed nor skipped."""
        return {
            result["id"]: (result["status"], result["severity"])
            for result in self.report["results"]
            if result["status"] not in {"passed", "skipped"}
        }

    def result(self, check: str) -> dict[str, Any]:
        """One check's."""
        (found,) = (result for result in self.report["results"] if result["id"] == check)
        assert isinstance(found, dict)
        return found


def unable(reason: str) -> NoReturn:
    """Skip, or fail where MUSADOCTOR_TEST_REQUIRE says that hosts can be made."""
    if "host" in os.environ.get("MUSADOCTOR_TEST_REQUIRE", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason)


def run(command: Sequence[str], environment: Mapping[str, str], cwd: Path | None = None) -> Done:
    """Run a command to its end."""
    done = subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=cwd,
        env=environment,
        timeout=120,
    )
    return Done(done.returncode, done.stdout, done.stderr)


class LiveHost:
    """A tree, to be changed at will before something is run on it."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.environment = {**ENVIRONMENT, "HOME": str(tree / "home")}
        if (tree / "env").is_dir():
            self.environment["VIRTUAL_ENV"] = str(tree / "env")
            self.environment["PATH"] = f"{tree / 'env'}/bin:{ENVIRONMENT['PATH']}"

    def at(self, path: str) -> Path:
        """Where the tree holds a path of the host."""
        return self.tree / path.lstrip("/")

    def copy(self, tree: Path) -> "LiveHost":
        """Another one like it."""
        shutil.copytree(self.tree, tree, symlinks=True)
        return LiveHost(tree)

    def tool(self, path: str, outputs: Mapping[str, str], code: int = 0) -> None:
        """A program that prints what belongs to its arguments."""
        cases = "".join(
            f"{shlex.quote(arguments)}) cat <<'END'\n{text}END\n;;\n"
            for arguments, text in outputs.items()
        )
        self.program(path, f'case "$*" in\n{cases}*) exit 64;;\nesac\nexit {code}\n')

    def program(self, path: str, script: str) -> None:
        """A shell script."""
        file = self.at(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}")
        file.chmod(0o755)

    def argv(self, *command: str, before: str = "") -> list[str]:
        """What runs a command on the host, after more lines of shell."""
        script = f'set -e\n{ENTER}\n{before}\nexec "$@"'
        unshare = ("unshare", "--mount", "--propagation", "private")
        return [*unshare, "sh", "-c", script, "sh", str(self.tree), *command]

    def run(self, *command: str, before: str = "", **environment: str) -> Done:
        """Run a command on the host."""
        return run(self.argv(*command, before=before), {**self.environment, **environment})

    def musadoctor(self, *arguments: str, before: str = "", **environment: str) -> Done:
        """Run musadoctor on the host."""
        return self.run(
            sys.executable, "-m", "musadoctor", *arguments, before=before, **environment
        )


def _need_what_makes_hosts() -> None:
    if os.getuid() != 0:
        unable("only root may mount and make device nodes")
    places = f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin"
    for program in ("cc", "unshare", "ldconfig", "mknod"):
        if shutil.which(program, path=places) is None:
            unable(f"no {program} here")
    if not os.path.isdir(LIB):
        unable(f"no {LIB} here")


def build_host(tree: Path) -> LiveHost:
    """A healthy host with two S5000 and MUSA 5.2.0, as yet without torch."""
    _need_what_makes_hosts()
    answers = synthesise(S5000, CARDS, SOFTWARE, 2048)
    host = LiveHost(tree)
    for folder in ("home", "dev", "usr/bin", "usr/local", LIB.lstrip("/"), "proc"):
        (tree / folder).mkdir(parents=True)
    for path, text in answers["files"].items():
        if path.startswith(("/sys/bus/", "/sys/module/", "/sys/class/dmi/", "/proc/driver/")):
            host.at(path).parent.mkdir(parents=True, exist_ok=True)
            host.at(path).write_text(text)
    for path in ("/etc/os-release", "/proc/cmdline"):
        host.at(path).parent.mkdir(exist_ok=True)
        host.at(path).write_text(answers["files"][path])
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        host.at("/proc/cpuinfo").write_text(file.read().replace(" hypervisor", ""))
    _drivers(host, answers)
    for index in range(CARDS):
        host.at(f"/dev/mtgpu.{index}").touch()
    _tools(host, answers)
    _libraries(host, answers, SYNTHETIC_LIB, LIB)
    _libraries(host, answers, f"{TOOLKIT}/lib", f"{TOOLKIT}/lib")
    host.program("torch-version.sh", "")
    tried = host.run("true")
    if tried.code != 0:
        unable(f"this system lets us make no host: {tried.err.strip()}")
    return host


def _drivers(host: LiveHost, answers: Answers) -> None:
    for path, stat in answers["stats"].items():
        if path.startswith("/sys/bus/pci/devices/") and path.endswith("/driver"):
            host.at(stat["real"]).mkdir(parents=True, exist_ok=True)
            host.at(path).symlink_to(f"../../drivers/{os.path.basename(stat['real'])}")


def _tools(host: LiveHost, answers: Answers) -> None:
    outputs = {key: ran["out"] for key, ran in answers["runs"].items() if "out" in ran}
    gmi = "mthreads-gmi"
    host.tool(f"/usr/bin/{gmi}", {"": outputs[gmi], "-q --json": outputs[f"{gmi} -q --json"]})
    host.tool("/usr/bin/dmesg", {"": f"{outputs['dmesg']}[   11.5] a private line\n"})
    host.tool(f"{TOOLKIT}/bin/mcc", {"--version": outputs["mcc --version"]})
    for name in ("musaInfo", "musa_version_query"):
        host.tool(f"{TOOLKIT}/bin/{name}", {"": outputs[f"{TOOLKIT}/bin/{name}"]})
    host.at("/usr/local/musa").symlink_to(os.path.basename(TOOLKIT))
    version = host.at(f"{TOOLKIT}/version.json")
    version.write_text(answers["files"][f"{TOOLKIT}/version.json"])


def _libraries(host: LiveHost, answers: Answers, folder: str, place: str) -> None:
    """The libraries of a folder; those of the driver come first, for the runtime needs one."""
    for path, elf in answers["libraries"].items():
        parent, name = os.path.split(path)
        if parent != folder or name != elf["soname"]:
            continue
        real = host.at(place) / os.path.basename(answers["stats"][path]["real"])
        real.parent.mkdir(parents=True, exist_ok=True)
        stem = name.partition(".")[0]
        code = CODES.get(stem, f"int {stem}(void){{return 0;}}")
        needed = [host.at(LIB) / "libmusa.so.1"] if stem == "libmusart" else []
        compile_library(real, name, code, *needed)
        (real.parent / name).symlink_to(real.name)


def add_toolkit(host: LiveHost, software: Software) -> str:
    """One more Toolkit, which is not the one in use; the folder that it is in."""
    answers: Answers = defaultdict(dict)
    root = toolkit(answers, software, in_use=False)
    host.at(f"{root}/bin").mkdir(parents=True)
    host.tool(f"{root}/bin/mcc", {"--version": f"mcc version {software.toolkit}\n"})
    host.at(f"{root}/version.json").write_text(answers["files"][f"{root}/version.json"])
    _libraries(host, answers, f"{root}/lib", f"{root}/lib")
    return root


def compile_library(file: Path, soname: str, code: str, *needed: Path) -> None:
    """A shared library that needs others."""
    links = ("-Wl,--no-as-needed", *map(str, needed), "-Wl,--allow-shlib-undefined")
    subprocess.run(
        [*CC, "-o", str(file), f"-Wl,-soname,{soname}", "-x", "none", *links],
        input=code,
        encoding="utf-8",
        check=True,
    )


def _add_environment(host: LiveHost, interpreter: str, release: str) -> Path:
    """A virtual environment with the metadata of the vendor's pair; its folder for packages."""
    env = host.tree / "env"
    site = env / "lib" / release / "site-packages"
    site.mkdir(parents=True)
    (env / "bin").mkdir()
    (env / "bin" / "python").symlink_to(interpreter)
    (env / "pyvenv.cfg").write_text(
        f"home = {os.path.dirname(interpreter)}\ninclude-system-site-packages = false\n"
    )
    tag = release.replace("python", "cp").replace(".", "")
    for name in ("torch", "torch_musa", "triton"):
        metadata = site / f"{name}-{WHEEL}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {WHEEL}\n"
        )
        (metadata / "WHEEL").write_text(
            f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}-{tag}-linux_x86_64\n"
        )
    (site / "triton" / "backends" / "mtgpu").mkdir(parents=True)
    # Whoever imports it finds none that works, as torch does where there is no Triton.
    (site / "triton" / "__init__.py").write_text("raise ImportError('no Triton')\n")
    (site / f"torch_musa-{WHEEL}.dist-info" / "entry_points.txt").write_text(
        "[torch.backends]\ntorch_musa = torch_musa:_autoload\n"
    )
    return site


def add_stub_torch(host: LiveHost, torch: str, torch_musa: str) -> LiveHost:
    """The same host with modules of these sources as torch and torch_musa, for our own Python."""
    interpreter = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    release = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = _add_environment(host, interpreter, release)
    for name, source in (("torch", torch), ("torch_musa", torch_musa)):
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(source)
    (site / "torch" / "version.py").write_text(f"__version__ = {WHEEL!r}\n")
    return LiveHost(host.tree)


ASK = """
import json, os, sys, sysconfig, importlib.util
torch = os.path.dirname(importlib.util.find_spec("torch").origin)
base = getattr(sys, "_base_executable", sys.executable)
print(json.dumps([os.path.realpath(base), sysconfig.get_path("purelib"), torch]))
"""


def add_torch(host: LiveHost, python: str, stand_in: Path) -> LiveHost:
    """The same host with an environment that has a real torch and a stand-in torch_musa.

    Both bear the versions of the vendor's pair: torch by another ``version.py``, which is mounted
    over its own, and both by metadata. The stand-in loads a library that needs the Toolkit's.
    """
    asked = subprocess.run([python, "-c", ASK], check=True, capture_output=True, text=True)
    interpreter, packages, torch = json.loads(asked.stdout)
    site = _add_environment(host, interpreter, os.path.basename(os.path.dirname(packages)))
    for name in os.listdir(packages):
        # The vendor's torch comes with an older numpy, and works with none.
        if not name.startswith(("numpy", "torch-", "torch_musa", "triton")):
            (site / name).symlink_to(f"{packages}/{name}")

    with open(f"{torch}/version.py", encoding="utf-8") as file:
        lines = file.read().splitlines(keepends=True)
    own = [line for line in lines if not line.startswith("__version__ =")]
    (host.tree / "torch-version.py").write_text("".join([*own, f"__version__ = {WHEEL!r}\n"]))
    host.program(
        "torch-version.sh",
        f'exec mount --bind "${{0%.sh}}.py" {shlex.quote(f"{torch}/version.py")}\n',
    )

    package = site / "torch_musa"
    (package / "lib").mkdir(parents=True)
    for file_of in (stand_in / "torch_musa").glob("*.py"):
        text = file_of.read_text()
        (package / file_of.name).write_text(LOADED + text if file_of.stem == "_MUSAC" else text)
    device = "libmusa_python.so"
    (package / "lib" / device).symlink_to(stand_in / "torch_musa" / "lib" / device)
    lib = host.at(f"{TOOLKIT}/lib")
    needed = (lib / f"libmusart.so.{SOFTWARE.toolkit[0]}", lib / "libmudnn.so.3")
    compile_library(
        package / "lib" / "libmusa_kernels.so",
        "libmusa_kernels.so",
        KERNELS,
        *needed,
        lib / "libmccl.so.2",
        host.at(LIB) / "libmusa.so.1",
    )
    return LiveHost(host.tree)
