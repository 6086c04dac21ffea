"""The torch child in real interpreters: on stub packages, sick and well, and on a real torch."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from musadoctor.facts import (
    Absent,
    Collectives,
    Distributions,
    Import,
    Probe,
    Python,
    Torch,
    TorchBuild,
    TorchMusa,
    TorchMusaBuild,
)
from musadoctor.facts.torch import TorchImportFact
from musadoctor.live import Live
from musadoctor.probes.distributions import distributions, torch_build, torch_musa_build
from musadoctor.probes.python import python
from musadoctor.probes.torch import (
    collectives,
    torch,
    torch_import,
    torch_musa,
    torch_musa_import,
)
from musadoctor.recording import Recorder

PYTHONS = os.environ.get("MUSADOCTOR_TEST_PYTHONS", sys.executable).split(":")
# Of the musa stubs: pure Python, so that they run on every interpreter.
STUB_TORCH = """
import sys, types
__version__ = "2.7.1"
version = types.SimpleNamespace(cuda=None)
backends = types.SimpleNamespace(mudnn=types.SimpleNamespace(version=lambda: 3105))
float32, bfloat16 = "float32", "bfloat16"
broken = None

class Tensor:
    def __init__(self, numbers, dtype, device="cpu"):
        self.numbers, self.dtype, self.device = numbers, dtype, device
    def to(self, what):
        if what in (float32, bfloat16):
            return Tensor(self.numbers, what, self.device)
        return Tensor(self.numbers, self.dtype, what)
    def cpu(self):
        return Tensor(self.numbers, self.dtype)
    def __add__(self, other):
        if broken:
            broken(self.device, self.dtype)
        return Tensor([a + b for a, b in zip(self.numbers, other.numbers)], self.dtype, self.device)
    def tolist(self):
        assert (self.device, self.dtype) == ("cpu", float32)
        return self.numbers

def tensor(numbers, dtype):
    return Tensor(numbers, dtype)

class distributed:
    class Backend:
        pass
    known = {"gloo"}
    @staticmethod
    def is_available():
        return True
    @classmethod
    def is_backend_available(cls, name):
        return name in cls.known
"""
STUB_MUSA = """
import sys, types, warnings, torch
__version__ = "2.7.1+abc1234"
torch.version.musa = "4035"
torch.musa = sys.modules[__name__]
torch.distributed.known.add("mccl")
torch.distributed.Backend.MCCL = "mccl"
mccl = types.SimpleNamespace(version=lambda: (2, 11, 4))
def device_count(): return 2
def is_available(): return device_count() > 0
def get_device_name(i): return "MTT S5000"
def get_device_capability(i): return (3, 1)
def get_device_properties(i): return types.SimpleNamespace(total_memory=85899345920)
def mem_get_info(i): return (1, 2)
def get_arch_list(): return ["mp_31"]
def is_bf16_supported(): return True
"""
MTT = "MTT S5000"
DONE = Probe(done=True, failure=None)
UNTRIED = Probe(done=False, failure=None)


def install(folder: Path, body: str, name: str = "torch") -> None:
    """A package of one module and its metadata."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(body)
    (folder / name / "version.py").write_text("__version__ = '2.7.1'\n")
    metadata = folder / f"{name}-2.7.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {name}\nVersion: 2.7.1\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the examined interpreter looks into first."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def live(path: str = sys.executable, seconds: float = 30) -> Recorder:
    return Recorder(Live(time.monotonic() + seconds, path))


def failure_of(imported: TorchImportFact) -> tuple[str, str, str]:
    assert isinstance(imported, Import), imported
    assert imported.failure is not None
    return imported.failure.step, imported.failure.kind, imported.failure.message


SIGNALLED = "import os, signal; os.kill(os.getpid(), signal.{})"
CLOSED = "import os; os.closerange(3, 256)"
WITHOUT_A_WORD = "left the interpreter without a word, exit code"


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (SIGNALLED.format("SIGSEGV"), "signal", "killed by SIGSEGV"),
        ("import ctypes; ctypes.string_at(0)", "signal", "killed by SIGSEGV"),
        (
            "import os, sys\nsys.stderr.write('terminate called: std::bad_alloc\\n')\nos.abort()",
            "signal",
            "killed by SIGABRT (terminate called: std::bad_alloc)",
        ),
        (SIGNALLED.format("SIGBUS"), "signal", "killed by SIGBUS"),
        (SIGNALLED.format("SIGKILL"), "memory", "killed by SIGKILL: the kernel's out-of-memory"),
        ("import time; time.sleep(60)", "hang", "no answer in "),
        # A hang that will not hear of it.
        (
            "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)",
            "hang",
            "no answer in ",
        ),
        ("import os; os._exit(0)", "exit", f"{WITHOUT_A_WORD} 0"),
        (
            "import os, sys\nsys.stderr.write('x: undefined symbol: muNew\\n'); os._exit(127)",
            "exit",
            f"{WITHOUT_A_WORD} 127 (x: undefined symbol: muNew)",
        ),
        ("import os\nos.write(1, b'x' * 100_000_000)", "flooded", "more than 16 MiB of output"),
        ("import os\nwhile True: os.write(2, b'x' * 65536)", "flooded", "more than 16 MiB"),
        (CLOSED, "exit", f"{WITHOUT_A_WORD} 1 (OSError: [Errno 9] Bad file descriptor)"),
        # What looks like an answer on stdout is none.
        (
            'import os; os.write(1, b\'{"end": "import torch"}\\n{"end": "all"}\\n\'); os._exit(0)',
            "exit",
            f"{WITHOUT_A_WORD} 0",
        ),
        ("raise SystemExit(3)", "exception", "SystemExit: 3"),
        ("import sys; sys.exit()", "exception", "SystemExit"),
        ("raise KeyboardInterrupt", "exception", "KeyboardInterrupt"),
        ("raise MemoryError('no memory')", "exception", "MemoryError: no memory"),
        (
            "raise ImportError('libcudnn.so.9: cannot open shared object file')",
            "exception",
            "ImportError: libcudnn.so.9: cannot open shared object file",
        ),
        ("import typing_extension_s", "exception", "ModuleNotFoundError: No module named 'typing"),
        ("def", "exception", "SyntaxError: invalid syntax (__init__.py, line 1)"),
        ("raise RuntimeError('first\\nsecond')", "exception", "RuntimeError: first"),
        (
            "class Sick(Exception):\n    def __str__(self): return 1 / 0\nraise Sick",
            "exception",
            "Sick: (its text cannot be had: ZeroDivisionError)",
        ),
        ("version = 3", "exception", "is not PyTorch: it has no __version__"),
    ],
)
def test_sick_torch(site: Path, body: str, kind: str, message: str) -> None:
    install(site, body)
    system = live(seconds=5 if kind == "hang" else 30)
    step, found, said = failure_of(torch_import(system))
    assert (step, found) == ("import torch", kind)
    assert message in said
    left = Absent(f"import torch failed: {said}")
    for probe in (torch, torch_musa_import, torch_musa, collectives):
        assert probe(system) == left
    # All that is read as files stands.
    assert isinstance(python(system), Python)
    build = torch_build(system)
    assert isinstance(build, TorchBuild)
    assert str(build.version) == "2.7.1"


@pytest.mark.parametrize(
    "body",
    [
        "import sys; sys.stdout = 42; sys.stderr = None",
        "import os; os.close(0); os.close(1); os.close(2)",
        "import os; os.write(1, b'\\xff\\x00\\x1b[2J' * 1000)",
        "import os; os.chdir('/')",
        "import atexit, time; atexit.register(time.sleep, 60)",
        "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()",
        "import os, time\nif os.fork() == 0: time.sleep(60)",
        "import sys; sys.argv.clear(); sys.path.clear()",
        "import json; json.dumps = None",
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    ],
)
def test_odd_torch_that_works(site: Path, body: str) -> None:
    install(site, f"{STUB_TORCH}\n{body}\n")
    system = live(seconds=10)
    begun = time.monotonic()
    imported = torch_import(system)
    assert isinstance(imported, Import)
    assert imported.failure is None
    assert torch(system) == Torch("2.7.1", None, str(site / "torch" / "__init__.py"))
    assert time.monotonic() - begun < 8


def test_nothing_is_written_into_a_file_that_took_over_the_descriptor(site: Path) -> None:
    victim = site / "victim"
    body = f"{CLOSED}\nfiles = [open({str(victim)!r}, 'a') for _ in range(250)]\n"
    install(site, f"{STUB_TORCH}\n{body}")
    assert failure_of(torch_import(live()))[1] == "exit"
    assert victim.read_text() == ""


def test_the_whole_chain_is_kept(site: Path) -> None:
    install(site, STUB_TORCH)
    body = """
def native():
    try:
        raise OSError("libmudnn.so.3: cannot open shared object file: No such file or directory")
    except OSError as error:
        raise ImportError("_MUSAC") from error
try:
    native()
except ImportError as error:
    try:
        {}["lookup"]
    except KeyError:
        raise ImportError("Please try running Python from a different directory!") from error
"""
    install(site, body, "torch_musa")
    imported = torch_musa_import(live())
    assert isinstance(imported, Import)
    assert imported.failure is not None
    reason = "OSError: libmudnn.so.3: cannot open shared object file: No such file or directory"
    assert imported.failure.message == reason
    assert imported.failure.chain == (
        "ImportError: Please try running Python from a different directory!",
        "ImportError: _MUSAC",
        reason,
    )


@pytest.mark.parametrize(
    ("body", "chain"),
    [
        ("try:\n  1 / 0\nexcept Exception:\n  raise OSError('x')", 2),
        ("try:\n  1 / 0\nexcept Exception:\n  raise OSError('x') from None", 1),
        ("a, b = OSError('a'), OSError('b')\na.__cause__, b.__cause__ = b, a\nraise a", 2),
        ("raise OSError('x' * 5000)", 1),
    ],
)
def test_chains(site: Path, body: str, chain: int) -> None:
    install(site, body)
    imported = torch_import(live())
    assert isinstance(imported, Import)
    assert imported.failure is not None
    assert len(imported.failure.chain) == chain
    assert len(imported.failure.chain[0]) <= len("OSError: ") + 2000


def test_warnings_of_an_import_are_kept(site: Path) -> None:
    body = """
import warnings
warnings.warn("Failed to initialize NumPy")
warnings.warn("old", DeprecationWarning)
for number in range(50):
    warnings.warn(f"again {number}", RuntimeWarning)
"""
    install(site, STUB_TORCH + body)
    imported = torch_import(live())
    assert isinstance(imported, Import)
    assert len(imported.warnings) == 20
    assert imported.warnings[:2] == ("Failed to initialize NumPy", "again 0")


def test_a_leftover_folder_is_not_torch(site: Path) -> None:
    (site / "torch" / "lib").mkdir(parents=True)
    _, kind, message = failure_of(torch_import(live()))
    assert kind == "exception"
    assert message == f"ImportError: {site}/torch is not PyTorch: it has no __version__"


def test_a_leftover_folder_is_not_torch_musa(site: Path) -> None:
    install(site, STUB_TORCH)
    (site / "torch_musa" / "lib").mkdir(parents=True)
    _, _, message = failure_of(torch_musa_import(live()))
    assert message == f"ImportError: {site}/torch_musa is not torch_musa: it has no __init__.py"


def test_the_working_directory_is_not_looked_into(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, STUB_TORCH)
    (tmp_path / "torch_musa").mkdir()
    (tmp_path / "torch_musa" / "__init__.py").write_text("raise ImportError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    assert isinstance(torch_musa_import(live()), Absent)


def test_nothing_is_written_and_no_core_dumped(site: Path) -> None:
    install(site, STUB_TORCH + "import resource\nversion.cuda = str(resource.getrlimit(4)[0])\n")
    fact = torch(live())
    assert isinstance(fact, Torch)
    assert fact.cuda == "0"
    assert not list(site.rglob("__pycache__"))


def test_autoload_is_off(site: Path) -> None:
    install(
        site, STUB_TORCH + "import os\nversion.cuda = os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD']\n"
    )
    fact = torch(live())
    assert isinstance(fact, Torch)
    assert fact.cuda == "0"


@pytest.mark.parametrize("path", PYTHONS)
def test_every_interpreter_runs_all_steps(site: Path, path: str) -> None:
    install(site, STUB_TORCH)
    install(site, STUB_MUSA, "torch_musa")
    system = live(path)
    if not isinstance(python(system), Python):  # too old; tests/test_probes_python.py says so
        assert torch_musa(system) == python(system)
        return
    musa = torch_musa(system)
    assert isinstance(musa, TorchMusa)
    assert musa.failures == ()
    assert (musa.version, musa.toolkit, musa.mudnn) == ("2.7.1+abc1234", "4035", "3105")
    assert (musa.available, musa.device_count, musa.bf16_supported) == (True, 2, True)
    assert musa.architectures == ("mp_31",)
    for device in musa.devices:
        assert (device.name, device.capability) == (MTT, (3, 1))
        assert device.memory_bytes == 85899345920
        assert (device.add, device.bf16_add) == (DONE, DONE)
    assert collectives(system) == Collectives(available=True, version="2.11.4")


def used(site: Path, change: str, seconds: float = 30) -> tuple[TorchMusa, Recorder]:
    """What the well stub says after a change."""
    install(site, STUB_TORCH)
    install(site, f"{STUB_MUSA}\n{change}\n", "torch_musa")
    system = live(seconds=seconds)
    musa = torch_musa(system)
    assert isinstance(musa, TorchMusa), musa
    return musa, system


def test_an_old_release_lacks_functions(site: Path) -> None:
    change = """
del get_arch_list, is_bf16_supported, torch.distributed.is_backend_available, mccl
torch.backends = types.SimpleNamespace()
get_device_properties = lambda i: types.SimpleNamespace()
del __version__
"""
    musa, system = used(site, change)
    assert musa.failures == ()
    assert (musa.version, musa.mudnn, musa.architectures) == (None, None, ())
    assert musa.bf16_supported is None
    assert [device.memory_bytes for device in musa.devices] == [2, 2]
    assert collectives(system) == Collectives(available=True, version=None)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("torch.distributed.known.clear()", 'torch.distributed knows no backend "mccl"'),
        (
            "torch.distributed.is_available = lambda: False",
            "this torch was built without torch.distributed",
        ),
        ("del torch.distributed", "this torch was built without torch.distributed"),
        ("torch.distributed.is_backend_available = lambda name: 1 / 0", "ZeroDivisionError: "),
    ],
)
def test_no_mccl(site: Path, change: str, reason: str) -> None:
    fact = collectives(used(site, change)[1])
    assert isinstance(fact, Collectives)
    assert not fact.available
    assert fact.reason is not None
    assert reason in fact.reason


def test_no_device_says_why(site: Path) -> None:
    change = """
def device_count():
    warnings.warn("MUSA initialization: Error 801: operation not supported")
    return 0
"""
    musa, _ = used(site, change)
    assert (musa.available, musa.device_count, musa.devices) == (False, 0, ())
    assert musa.warnings == ("MUSA initialization: Error 801: operation not supported",)
    assert (musa.bf16_supported, musa.failures) == (None, ())


def test_failures_stop_nothing(site: Path) -> None:
    change = """
def fail(*_): raise RuntimeError("lost")
is_available = get_device_name = get_device_capability = get_arch_list = fail
"""
    musa, _ = used(site, change)
    assert [str(failure) for failure in musa.failures] == [
        f"{step}: RuntimeError: lost"
        for step in (
            "is_available",
            "architectures",
            *("device 0: name", "device 0: capability"),
            *("device 1: name", "device 1: capability"),
        )
    ]
    assert [device.add for device in musa.devices] == [DONE, DONE]


def test_torch_musa_that_is_not_in_torch(site: Path) -> None:
    musa, _ = used(site, "del torch.musa")
    assert (musa.available, musa.device_count) == (None, None)
    missing = "AttributeError: module 'torch' has no attribute 'musa'"
    assert str(musa.failures[0]) == f"is_available: {missing}"


def test_one_device_fails_in_bfloat16(site: Path) -> None:
    change = """
def broken(device, dtype):
    if (device, dtype) == ("musa:1", "bfloat16"):
        raise RuntimeError("not implemented for 'BFloat16'")
torch.broken = broken
"""
    musa, _ = used(site, change)
    assert [device.add for device in musa.devices] == [DONE, DONE]
    assert musa.devices[0].bf16_add == DONE
    assert str(musa.devices[1].bf16_add.failure) == (
        "device 1: bf16 add: RuntimeError: not implemented for 'BFloat16'"
    )


def test_a_wrong_sum_is_seen(site: Path) -> None:
    change = """
torch.Tensor.__add__ = lambda self, other: torch.Tensor(
    [n + n + (n == 127) for n in self.numbers], self.dtype, self.device)
"""
    musa, _ = used(site, change)
    assert str(musa.devices[1].add.failure) == (
        "device 1: add: ArithmeticError: 127.0 + 127.0 gave 255.0 on musa:1"
    )


def test_a_device_that_hangs_keeps_the_rest(site: Path) -> None:
    change = """
import time
torch.broken = lambda device, dtype: device == "musa:1" and time.sleep(60)
"""
    musa, system = used(site, change, seconds=5)
    assert [device.name for device in musa.devices] == [MTT, MTT]
    assert musa.devices[0].add == DONE
    assert musa.devices[0].bf16_add == UNTRIED
    assert musa.devices[1].add.failure is not None
    assert musa.devices[1].add.failure.kind == "hang"
    assert isinstance(collectives(system), Collectives)


# ---- a real torch, and the stand-in device on it ---------------------------------------------


@pytest.mark.torch
def test_real_torch_without_torch_musa(torch_python: str) -> None:
    system = live(torch_python, seconds=120)
    fact = torch(system)
    assert isinstance(fact, Torch)
    assert fact.cuda is None
    build = torch_build(system)
    assert isinstance(build, TorchBuild)
    assert (str(build.version), build.flavour) == (fact.version, "CPU")
    assert fact.file == f"{build.path}/__init__.py"
    absent = Absent(f"torch_musa is not installed for {torch_python}")
    assert torch_musa_import(system) == torch_musa(system) == collectives(system) == absent


@pytest.mark.torch
def test_real_torch_with_the_stand_in(
    torch_python: str, fake_musa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    monkeypatch.setenv("FAKE_MUSA_DEVICES", "3")
    monkeypatch.setenv("FAKE_MUSA_MEMORY_MIB", "48")
    monkeypatch.setenv("FAKE_MUSA_CAPABILITY", "2.2")
    monkeypatch.setenv("FAKE_MUSA_NAME", "MTT S4000")
    system = live(torch_python, seconds=120)
    musa = torch_musa(system)
    assert isinstance(musa, TorchMusa)
    assert musa.failures == ()
    assert (musa.available, musa.device_count, musa.bf16_supported) == (True, 3, True)
    assert (musa.architectures, musa.mudnn) == (("mp_22",), "3400")
    for device in musa.devices:
        assert (device.name, device.capability) == ("MTT S4000", (2, 2))
        assert device.memory_bytes == 48 << 20
        assert (device.add, device.bf16_add) == (DONE, DONE)
    assert musa.mapped == (f"{fake_musa}/torch_musa/lib/libmusa_python.so",)
    assert collectives(system) == Collectives(available=True, version="2.11.4")

    installed = distributions(system)
    assert isinstance(installed, Distributions)
    assert installed.get("torch-musa") is not None
    build = torch_musa_build(system)
    assert isinstance(build, TorchMusaBuild)
    assert build.autoloads
    assert str(build.built_for) == "5.2.0"
    # The stand-in's library needs torch's own, which are not the loader's business.
    assert not any(name.startswith(("libtorch", "libc10")) for name in build.needs)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ("missing-library", "exception", "ImportError: libmudnn.so.3: cannot open shared object"),
        ("hang", "hang", "no answer in "),
        ("crash", "signal", "killed by SIGSEGV"),
        ("exit", "exit", f"{WITHOUT_A_WORD} 0"),
    ],
)
def test_real_torch_with_a_torch_musa_that_does_not_import(
    torch_python: str,
    fake_musa: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    kind: str,
    message: str,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    monkeypatch.setenv("FAKE_MUSA_IMPORT", fault)
    system = live(torch_python, seconds=15 if fault == "hang" else 120)
    step, found, said = failure_of(torch_musa_import(system))
    assert (step, found) == ("import torch_musa", kind)
    assert message in said
    assert isinstance(torch(system), Torch)
    assert torch_musa(system) == Absent(f"import torch_musa failed: {said}")


ADD = "aten::add.Tensor"


@pytest.mark.torch
@pytest.mark.parametrize(
    ("variable", "value", "kinds"),
    [
        # What happened to: add on 0, add on 1, bf16 add on 0.
        ("FAKE_MUSA_RAISE", ADD, ("exception", "exception", "exception")),
        ("FAKE_MUSA_RAISE_BF16", ADD, ("done", "done", "exception")),
        ("FAKE_MUSA_WRONG", ADD, ("exception", "exception", "exception")),
        ("FAKE_MUSA_CRASH", ADD, ("signal", "untried", "untried")),
        ("FAKE_MUSA_HANG", ADD, ("hang", "untried", "untried")),
    ],
)
def test_real_torch_on_a_sick_device(
    torch_python: str,
    fake_musa: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    kinds: tuple[str, ...],
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    monkeypatch.setenv(variable, value)
    musa = torch_musa(live(torch_python, seconds=15 if "HANG" in variable else 120))
    assert isinstance(musa, TorchMusa)
    first, second = musa.devices
    outcomes = [
        "done" if probe.done else probe.failure.kind if probe.failure else "untried"
        for probe in (first.add, second.add, first.bf16_add)
    ]
    assert tuple(outcomes) == kinds


@pytest.mark.torch
def test_real_torch_without_mccl_and_device(
    torch_python: str, fake_musa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    monkeypatch.setenv("FAKE_MUSA_NO_MCCL", "1")
    monkeypatch.setenv("FAKE_MUSA_WARNING", "Error 801: operation not supported")
    system = live(torch_python, seconds=120)
    musa = torch_musa(system)
    assert isinstance(musa, TorchMusa)
    assert (musa.available, musa.device_count) == (False, 0)
    assert musa.warnings == ("MUSA initialization: Error 801: operation not supported",)
    reason = 'torch.distributed knows no backend "mccl"'
    assert collectives(system) == Collectives(available=False, version=None, reason=reason)


@pytest.mark.torch
def test_the_stand_in_autoloads_and_then_breaks_import_torch(
    torch_python: str, fake_musa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why autoload is off in the child: this is what users see."""
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))
    works = [torch_python, "-c", "import torch; assert torch.musa.is_available()"]
    subprocess.run(works, check=True)
    monkeypatch.setenv("FAKE_MUSA_IMPORT", "missing-library")
    broken = subprocess.run(
        [torch_python, "-c", "import torch"], capture_output=True, check=False, text=True
    )
    assert broken.returncode == 1
    assert "Failed to load the backend extension: torch_musa" in broken.stderr
