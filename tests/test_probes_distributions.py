import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from python_host import PYTHON, SITE, TORCH_FILES, python_host
from support import host

from musadoctor.facts import (
    Absent,
    Distribution,
    Distributions,
    TorchBuild,
    TorchMusaBuild,
    Unknown,
)
from musadoctor.live import Live
from musadoctor.probes.distributions import distributions, torch_build, torch_musa_build
from musadoctor.recording import Recorder
from musadoctor.system import DAMAGED, NOT_ALLOWED, Elf, Failure, Ran

LOCAL = "/opt/local"
CLOSED = Failure(NOT_ALLOWED, f"{LOCAL}: Permission denied")


def names(fact: object) -> list[str]:
    assert isinstance(fact, Distributions), fact
    return [str(item) for item in fact.items]


def metadata(
    name: str, version: str, *, at: str = SITE, header: str = "", wheel: str = ""
) -> dict[str, str]:
    folder = f"{at}/{name}-{version}.dist-info"
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{header}\n\nVersion: 0\n"
    return {f"{folder}/METADATA": text, f"{folder}/WHEEL": f"Wheel-Version: 1.0\n{wheel}"}


def torch(version_py: str, *libraries: str) -> dict[str, str]:
    return {
        f"{SITE}/torch/__init__.py": "",
        f"{SITE}/torch/version.py": version_py,
        **{f"{SITE}/torch/lib/{name}": "" for name in libraries},
    }


def test_a_distribution_in_full() -> None:
    at = f"{SITE}/torch_musa-2.7.1+musa4.3.6.dist-info"
    header = "Requires-Dist: packaging\nRequires-Dist: numpy (<2)"
    fact = distributions(
        python_host(
            files={
                **metadata(
                    "torch_musa",
                    "2.7.1+musa4.3.6",
                    header=header,
                    wheel="Tag: cp310-cp310-linux_x86_64\n",
                ),
                f"{at}/direct_url.json": '{"url": "https://me:word@host/a.whl?sig=1", "archive_info": {}}',
            }
        )
    )
    assert isinstance(fact, Distributions)
    assert fact.items == (
        Distribution(
            name="torch-musa",
            version=fact.items[0].version,
            location=SITE,
            tags=("cp310-cp310-linux_x86_64",),
            requires=("packaging", "numpy (<2)"),
            direct_url="https://host/a.whl",
        ),
    )
    assert str(fact.items[0].version) == "2.7.1+musa4.3.6"
    assert fact.get("torch-musa") == fact.items[0]
    assert fact.get("torch") is None
    assert fact.source == f"the search path of {PYTHON}"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, []),
        # Only known names are looked into.
        ({**metadata("requests", "2.32"), **metadata("NumPy", "1.26.4")}, ["numpy 1.26.4"]),
        ({f"{SITE}/flash_attn_3-0.2.7+musa.dist-info/METADATA": ""}, ["flash-attn-3 0.2.7+musa"]),
        ({f"{SITE}/torch-musa-2.7.1.dist-info/METADATA": ""}, ["torch-musa 2.7.1"]),
        # The folder's name stands in for what METADATA lacks.
        ({f"{SITE}/torch-2.5.0.dist-info/RECORD": ""}, ["torch 2.5.0"]),
        ({f"{SITE}/torch-2.5.0.dist-info/METADATA": "\0\ufffd junk"}, ["torch 2.5.0"]),
        ({f"{SITE}/torch-2.5.0.dist-info/METADATA": "Version: ?\n"}, ["torch 2.5.0"]),
        ({f"{SITE}/torch-2.5.0.dist-info/METADATA": Failure(NOT_ALLOWED, "no")}, ["torch 2.5.0"]),
        ({f"{SITE}/torch-odd.dist-info/METADATA": "Version: 2.5.0\r\n\r\n"}, ["torch 2.5.0"]),
        ({f"{SITE}/torch-odd.dist-info/METADATA": ""}, []),
        ({f"{SITE}/~orch-2.5.0.dist-info/METADATA": ""}, []),
        ({f"{SITE}/-info/x": "", f"{SITE}/torch-info/x": ""}, []),
        # The older forms.
        ({f"{SITE}/torch-2.0.0-py3.8.egg-info": "Version: 2.0.0\n"}, ["torch 2.0.0"]),
        ({f"{SITE}/torch-2.0.0-py3.8-linux-x86_64.egg-info/PKG-INFO": "x"}, ["torch 2.0.0"]),
        (
            {f"{SITE}/torch.egg-info/PKG-INFO": "Version: 2.2.0a0+git8ac9b20\n"},
            ["torch 2.2.0a0+git8ac9b20"],
        ),
        # Files of one release under the metadata of two: both are told.
        (
            {**metadata("torch", "2.5.0"), **metadata("torch", "2.9.1")},
            ["torch 2.5.0", "torch 2.9.1"],
        ),
    ],
)
def test_which_distributions_are_found(files: dict[str, str], expected: list[str]) -> None:
    assert names(distributions(python_host(files=files))) == expected


def test_the_first_folder_with_a_name_wins() -> None:
    files = {
        **metadata("torch", "2.5.0", at=LOCAL),
        **metadata("torch", "2.9.1"),
        **metadata("numpy", "1.26.4"),
    }
    fact = distributions(python_host(files=files, search_path=(LOCAL, SITE)))
    assert names(fact) == ["torch 2.5.0", "numpy 1.26.4"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("[]", None),
        ("[" * 100_000, None),
        ('{"url": 1}', None),
        ('{"url": "file:///home/x/t.whl"}', "file:///home/x/t.whl"),
        ('{"url": "git+https://token@host/t.git"}', "git+https://host/t.git"),
    ],
)
def test_direct_url(text: str, expected: str | None) -> None:
    at = f"{SITE}/torch-2.5.0.dist-info/direct_url.json"
    fact = distributions(python_host(files={at: text}))
    assert isinstance(fact, Distributions)
    assert fact.items[0].direct_url == expected


def test_an_unreadable_folder_is_said() -> None:
    path = (LOCAL, "/not/there", SITE)
    alone = python_host(folders={LOCAL: CLOSED}, search_path=path)
    assert distributions(alone) == Unknown(CLOSED.detail)
    assert torch_build(alone) == Unknown(CLOSED.detail)
    assert torch_musa_build(alone) == Unknown(CLOSED.detail)
    both = python_host(folders={LOCAL: CLOSED}, files=metadata("torch", "2.5.0"), search_path=path)
    fact = distributions(both)
    assert names(fact) == ["torch 2.5.0"]
    assert isinstance(fact, Distributions)
    assert CLOSED.detail in fact.source
    build = torch_build(both)
    assert isinstance(build, TorchBuild)
    assert CLOSED.detail in build.evidence


@pytest.mark.parametrize("probe", [distributions, torch_build, torch_musa_build])
def test_without_an_interpreter(probe: Callable[[Recorder], object]) -> None:
    sick = host(runs={"child:python": Ran("signal", -11, note="SIGSEGV")})
    assert isinstance(probe(sick), Absent)


def test_nothing_installed() -> None:
    assert torch_build(python_host()) == Absent(f"torch is not installed for {PYTHON}")
    assert torch_musa_build(python_host()) == Absent(f"torch_musa is not installed for {PYTHON}")


STOCK = "__version__ = '2.4.1+cu121'\ndebug = False\ncuda: Optional[str] = '12.1'\nhip: Optional[str] = None\n"
PLAIN = "__version__ = '2.9.1'\ncuda: Optional[str] = None\ngit_version = 'abc'\nhip: Optional[str] = None\n"
LINUX_TAG = "Tag: cp310-cp310-linux_x86_64\n"
MANYLINUX = "Tag: cp311-cp311-manylinux_2_28_aarch64\n"
NVIDIA = "Requires-Dist: filelock\nRequires-Dist: nvidia-cublas-cu12 (==12.1.3.1) ; platform_system\nRequires-Dist: nvidia-nccl-cu12"
MUSA_BESIDE = {f"{SITE}/torch_musa/__init__.py": ""}
UNMARKED = "no mark of CUDA, ROCm or MUSA in it"


@pytest.mark.parametrize(
    ("files", "version", "flavour", "evidence"),
    [
        (
            {**torch(STOCK, "libtorch_cuda.so", "libc10.so"), **metadata("torch", "2.4.1", header=NVIDIA)},
            "2.4.1+cu121",
            "CUDA",
            ["torch/version.py: cuda = '12.1'", "torch/lib/libtorch_cuda.so", "version label +cu121"],
        ),
        (
            {**torch("cuda = '11.7'\n"), **metadata("torch", "2.0.0")},
            "2.0.0",
            "CUDA",
            ["torch/version.py: cuda = '11.7'"],
        ),
        (
            {**torch("__version__ = '2.5.0'\nhip: Optional[str] = '6.2.41133'\n", "libc10_hip.so"), **metadata("torch", "2.5.0+rocm6.2")},
            "2.5.0",
            "ROCm",
            ["torch/version.py: hip = '6.2.41133'", "torch/lib/libc10_hip.so", "metadata say 2.5.0+rocm6.2"],
        ),
        (torch("__version__ = '2.13.0+cpu'\n"), "2.13.0+cpu", "CPU", ["version label +cpu", f"{SITE}/torch has no metadata"]),
        (
            {**torch("__version__ = '2.9.1'\nmusa = '5.2.0'\n"), **metadata("torch", "2.9.1")},
            "2.9.1",
            "MUSA",
            ["torch/version.py: musa = '5.2.0'"],
        ),
        *(
            ({**torch(f"__version__ = '{v}'\n"), **metadata("torch", v)}, v, "MUSA", [f"version label +{v.partition('+')[2]}"])
            for v in ("2.11.0.post2+musa5.2.0", "2.7.1+musa.4.0.0", "2.7.1+mu436torch2.7")
        ),
        # The files of one build under the metadata of another: the files are what runs.
        (
            {**torch(STOCK), **metadata("torch", "2.9.1+musa5.2.0")},
            "2.4.1+cu121",
            "CUDA",
            ["torch/version.py: cuda = '12.1'", "version label +cu121", "metadata say 2.9.1+musa5.2.0"],
        ),
        # Without files the metadata are all there is.
        (
            metadata("torch", "2.4.1", header=NVIDIA),
            "2.4.1",
            "CUDA",
            ["requires nvidia-cublas-cu12 and 1 more", f"metadata in {SITE} without a torch folder"],
        ),
        (
            metadata("torch", "2.14.1", header="Requires-Dist: nvidia-cublas>=13"),
            "2.14.1",
            "CUDA",
            ["requires nvidia-cublas", f"metadata in {SITE} without a torch folder"],
        ),
        # One release lists the same requirements for machines that it has no CUDA build for.
        (
            {**torch(PLAIN), **metadata("torch", "2.9.1", header=NVIDIA, wheel=MANYLINUX)},
            "2.9.1",
            "CPU",
            [f"{UNMARKED}, wheel tag manylinux_2_28_aarch64"],
        ),
        # The vendor's own builds often bear no mark.
        (
            {**torch(PLAIN), **metadata("torch", "2.9.1", wheel=LINUX_TAG), **MUSA_BESIDE},
            "2.9.1",
            "MUSA",
            [f"{UNMARKED}, wheel tag linux_x86_64 (not manylinux), torch_musa beside it"],
        ),
        ({**torch(PLAIN), **metadata("torch", "2.9.1", wheel=LINUX_TAG)}, "2.9.1", "unknown", [f"{UNMARKED}, wheel tag linux_x86_64"]),
        ({**torch(PLAIN), **metadata("torch", "2.9.1", wheel=MANYLINUX), **MUSA_BESIDE}, "2.9.1", "unknown", [f"{UNMARKED}, wheel tag manylinux_2_28_aarch64"]),
        ({**torch(PLAIN), **metadata("torch", "2.9.1"), **MUSA_BESIDE}, "2.9.1", "unknown", [UNMARKED]),
        ({**torch("__version__ = '2.2.0a0+git8ac9b20'\n"), **metadata("torch", "2.2.0a0+git8ac9b20")}, "2.2.0a0+git8ac9b20", "unknown", [UNMARKED]),
        (torch("__version__ = '2.6.0+xpu'\nxpu: Optional[str] = '2025'\n"), "2.6.0+xpu", "unknown", [UNMARKED, f"{SITE}/torch has no metadata"]),
        # What an uninstall leaves.
        (
            {f"{SITE}/torch/lib/libtorch_cuda.so": "", **metadata("torch", "2.5.0")},
            "2.5.0",
            "CUDA",
            ["torch/lib/libtorch_cuda.so", f"{SITE}/torch has no __init__.py"],
        ),
    ],
)  # fmt: skip
def test_what_torch_was_built_for(
    files: dict[str, str], version: str, flavour: str, evidence: list[str]
) -> None:
    fact = torch_build(python_host(files=files))
    assert isinstance(fact, TorchBuild)
    assert (str(fact.version), fact.flavour, list(fact.evidence)) == (version, flavour, evidence)


def test_the_distribution_is_the_one_whose_files_these_are() -> None:
    files = {**TORCH_FILES, **metadata("torch", "2.5.0"), f"{SITE}/torch/__init__.py": ""}
    fact = torch_build(python_host(files=files))
    assert isinstance(fact, TorchBuild)
    assert fact.path == f"{SITE}/torch"
    assert str(fact.distribution) == "torch 2.7.1"


def test_a_torch_folder_that_states_nothing() -> None:
    fact = torch_build(python_host(files={f"{SITE}/torch/lib/x": ""}))
    assert fact == Unknown(f"{SITE}/torch has no metadata, and its version.py states no version")
    musa = torch_musa_build(python_host(files={f"{SITE}/torch_musa/lib/x": ""}))
    assert isinstance(musa, Unknown)


def test_the_package_that_python_would_import() -> None:
    """A regular package goes before a folder that an uninstall left earlier on the path."""
    files = {
        f"{LOCAL}/torch/lib/old.so": "",
        f"{LOCAL}/torch_musa": "a file",
        f"{SITE}/torch_musa/version.py": "__version__ = '2.7.1'",
        f"{SITE}/other/torch_musa/version.py": "__version__ = '2.5.0'",
        **torch(PLAIN),
    }
    system = python_host(
        files=files,
        search_path=(LOCAL, SITE, f"{SITE}/other"),
        folders={f"{LOCAL}/torch_musa": Failure("error", "Not a directory")},
    )
    fact = torch_build(system)
    assert isinstance(fact, TorchBuild)
    assert fact.path == f"{SITE}/torch"
    musa = torch_musa_build(system)
    assert isinstance(musa, TorchMusaBuild)
    assert musa.path == f"{SITE}/torch_musa"


def elf(*needed: str) -> Elf:
    return Elf("x86_64", None, needed, (), ())


MUSAC = f"{SITE}/torch_musa/_MUSAC.cpython-310-x86_64-linux-gnu.so"
KERNELS = f"{SITE}/torch_musa/lib/libmusa_kernels.so"
LIBRARIES: dict[str, Elf | Failure] = {
    MUSAC: elf("libmusa_python.so.1", "libc.so.6"),
    f"{SITE}/torch_musa/lib/libmusa_python.so.1": elf(
        "libmusa_kernels.so", "libc10.so", "libmccl.so.2"
    ),
    KERNELS: elf("libmusart.so.5", "libmudnn.so.3", "libmusa.so.1", "libc.so.6"),
    f"{SITE}/torch/lib/libc10.so": elf(),
    f"{SITE}/torch_musa/_ext.so": elf("libnot.so"),
}
ENTRY_POINTS = f"{SITE}/torch_musa-2.9.1+musa5.2.0.dist-info/entry_points.txt"


def test_torch_musa_in_full() -> None:
    files = {
        **torch(PLAIN),
        **metadata("torch_musa", "2.9.1+musa5.2.0"),
        f"{SITE}/torch_musa/__init__.py": "",
        f"{SITE}/torch_musa/version.py": "__version__ = '2.9.1+0680da1'\n",
        f"{SITE}/torch_musa/lib/README": "",
        ENTRY_POINTS: "[console_scripts]\nx = y\n\n[torch.backends]\ntorch_musa = torch_musa:_autoload\n",
    }
    fact = torch_musa_build(python_host(files=files, libraries=LIBRARIES))
    assert isinstance(fact, TorchMusaBuild)
    assert str(fact.version) == "2.9.1+musa5.2.0"
    assert str(fact.built_for) == "5.2.0"
    assert fact.runtime_major == 5
    assert fact.needs == (
        "libc.so.6",
        "libmusart.so.5",
        "libmudnn.so.3",
        "libmusa.so.1",
        "libmccl.so.2",
    )
    assert fact.autoloads
    assert fact.path == f"{SITE}/torch_musa"
    assert fact.source.endswith("torch_musa-2.9.1+musa5.2.0.dist-info; 3 of 3 libraries read")


def test_torch_musa_without_metadata() -> None:
    files = {f"{SITE}/torch_musa/version.py": "__version__ = '2.7.1+musa4.3.6'\n"}
    damaged = Failure(DAMAGED, f"{KERNELS}: empty file")
    fact = torch_musa_build(
        python_host(files=files, libraries={MUSAC: elf("libmusart.so.1.0"), KERNELS: damaged})
    )
    assert isinstance(fact, TorchMusaBuild)
    assert str(fact.built_for) == "4.3.6"
    assert fact.runtime_major == 1
    assert not fact.autoloads
    assert fact.source == f"{SITE}/torch_musa/version.py; 1 of 2 libraries read; {damaged.detail}"


def test_torch_musa_half_removed() -> None:
    fact = torch_musa_build(python_host(files=metadata("torch_musa", "2.7.1")))
    assert isinstance(fact, TorchMusaBuild)
    assert (fact.path, fact.needs, fact.runtime_major, fact.built_for) == ("", (), None, None)
    assert fact.source.endswith("; no torch_musa folder")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("torch_musa = torch_musa:_autoload\n", False),
        ("[console_scripts]\ntorch.backends = x\n", False),
        ("[torch.backends]\n# torch_musa = off\n\n[other]\nx = y\n", False),
        ("[ torch.backends ]\n", False),
        ("[torch.backends]\ntorch_musa = torch_musa:_autoload\n", True),
        ("[torch.backends]\r\ntorch_musa=torch_musa:_autoload\r\n", True),
    ],
)
def test_autoload(text: str, expected: bool) -> None:  # noqa: FBT001 - of a table
    files = {**metadata("torch_musa", "2.9.1+musa5.2.0"), ENTRY_POINTS: text}
    fact = torch_musa_build(python_host(files=files))
    assert isinstance(fact, TorchMusaBuild)
    assert fact.autoloads == expected


def test_300_distributions_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        folder = tmp_path / f"package_{number}-1.{number}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("\udcff", errors="surrogateescape")
    (tmp_path / "torch-2.7.1.dist-info").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    system = Recorder(Live(time.monotonic() + 20, sys.executable))
    fact = distributions(system)
    assert isinstance(fact, Distributions)
    assert str(fact.get("torch")) == "torch 2.7.1"
    # Nothing of the others was opened.
    assert not any("package_" in path for path in system.answers()["files"])
