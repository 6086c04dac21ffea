"""The checks of Python and torch: what they fire on, stay silent on, and cannot tell."""

import pytest
from given import CARDS, PYTHON, judged
from given_torch import (
    SITE,
    WHOLE,
    broken,
    cannot_tell,
    distribution,
    distributions,
    finds,
    fix,
    skips,
    torch_build,
    wheel,
)

from musadoctor.api import Absent, Check, Import, Torch, Triton, Unknown
from musadoctor_checks import torch as family

UNSEEN = Unknown("not found out")
NO_GPU = Absent("no GPU of vendor 1ed5")
NO_TORCH = Absent("torch is not installed for /opt/venv/bin/python")
NO_MUSA = Absent("torch_musa is not installed for /opt/venv/bin/python")
PY311 = PYTHON._replace(version="3.11.7", tag="cp311")
CUDA = torch_build("2.9.1+cu121", "CUDA")
CPU = torch_build("2.9.1+cpu", "CPU")
UNMARKED = torch_build("2.9.1", "unknown")
ALL = [check for check in vars(family).values() if isinstance(check, Check)]


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
def test_a_healthy_host_gives_nothing(check: Check) -> None:
    assert judged(check, **WHOLE).status == "passed"


def test_there_is_no_python() -> None:
    check = family.python_not_usable
    assert finds(check, python=Absent("no python3 on PATH")) == ("no python3 on PATH",)
    reason = "/opt/venv/bin/python (VIRTUAL_ENV) does not work: exit code 1"
    assert cannot_tell(check, python=Unknown(reason)) == reason


@pytest.mark.parametrize(
    ("release", "fires"),
    [
        ("3.8", False),
        ("3.9", False),
        ("3.10", False),
        ("3.12", False),
        ("3.11", True),
        ("3.13", True),
        ("3.14", True),
    ],
)
def test_a_python_without_wheels(release: str, *, fires: bool) -> None:
    check = family.python_without_wheels
    python = PYTHON._replace(version=f"{release}.1")
    found = finds(check, python=python, torch_build=NO_TORCH)
    assert bool(found) == fires
    if fires:
        assert f"no wheels of torch_musa are known for {release}" in found[0]
        assert "as of 2026-08-01: 3.8 (torch_musa 1.x)" in found[0]
    assert finds(check, python=python) == ()


def test_a_python_without_wheels_matters_with_cards_only() -> None:
    check = family.python_without_wheels
    assert skips(check, python=PY311, torch_build=NO_TORCH, gpus=NO_GPU)
    reason = cannot_tell(check, python=PY311, torch_build=NO_TORCH, gpus=UNSEEN)
    assert reason == UNSEEN.reason
    assert finds(check, python=PY311, gpus=UNSEEN) == ()


def test_torch_is_missing() -> None:
    check = family.torch_missing
    assert finds(check, torch_build=NO_TORCH) == (f"{NO_TORCH}, with {CARDS} in this host",)
    text, commands, _ = fix(check, torch_build=NO_TORCH)
    assert "built for Toolkit 5.2.0" in text
    assert commands == ()
    text, _, _ = fix(check, torch_build=NO_TORCH, toolkit=Absent("none"))
    assert "built for" not in text
    assert skips(check, torch_build=NO_TORCH, gpus=NO_GPU)
    assert cannot_tell(check, torch_build=NO_TORCH, gpus=UNSEEN) == UNSEEN.reason
    assert finds(check, gpus=UNSEEN) == ()


def test_torch_is_half_removed() -> None:
    check = family.torch_half_removed
    rest = torch_build("2.9.1", "unknown", path="")._replace(evidence=("metadata in X",))
    assert finds(check, torch_build=rest) == ("torch 2.9.1 has metadata only: metadata in X",)
    text, commands, destructive = fix(check, torch_build=rest, torch_musa_build=UNSEEN)
    assert "torch and torch_musa of one release" in text
    assert commands == ("/opt/venv/bin/python -m pip freeze",)
    assert destructive
    assert finds(check, torch_build=rest._replace(distribution=None))
    # It is not said a second time that such a torch is of no build.
    assert finds(family.torch_without_musa, torch_build=rest) == ()


@pytest.mark.parametrize("flavour", ["CUDA", "ROCm"])
def test_torch_is_for_other_gpus(flavour: str) -> None:
    check = family.torch_for_other_gpus
    build = torch_build("2.4.1+cu121", flavour)
    start = f"torch 2.4.1+cu121, {flavour} build (its files)"
    assert finds(check, torch_build=build) == (f"{start} under torch_musa 2.9.1+musa5.2.0",)
    bare = {"torch_build": build, "torch_musa_build": NO_MUSA}
    assert finds(check, **bare) == (f"{start} on a host with {CARDS}",)
    # A CUDA torch on a machine that has nothing of MUSA is as it should be.
    assert finds(check, **bare, gpus=NO_GPU) == ()
    assert finds(check, **bare, gpus=UNSEEN) == ()
    assert finds(check, torch_build=CPU) == ()


def test_the_fix_names_the_pair() -> None:
    check = family.torch_for_other_gpus
    text, commands, destructive = fix(check, torch_build=CUDA, torch_musa_build=wheel("2.7.0"))
    assert "torch 2.7.1 for torch_musa 2.7.0" in text
    assert "replaces the torch that is there" in text
    assert commands == ("/opt/venv/bin/python -m pip freeze",)
    assert destructive
    text, _, _ = fix(check, torch_build=CUDA, torch_musa_build=NO_MUSA)
    assert "torch and torch_musa 2.9.1 or 2.11.0.post2 (known with Toolkit 5.2.0)" in text
    text, commands, _ = fix(
        check, torch_build=CUDA, torch_musa_build=wheel("1.2.0"), toolkit=UNSEEN, python=UNSEEN
    )
    assert "torch and torch_musa of one release" in text
    assert commands == ()


def test_a_path_with_a_blank_is_quoted() -> None:
    python = PYTHON._replace(path="/opt/my env/bin/python")
    _, commands, _ = fix(family.torch_for_other_gpus, torch_build=CUDA, python=python)
    assert commands == ("'/opt/my env/bin/python' -m pip freeze",)


UNDEFINED = broken("torch_musa", "ImportError: libmusa_kernels.so: undefined symbol: _ZN2at18_Gen")


def test_torch_is_a_cpu_build() -> None:
    check = family.torch_without_musa
    found = finds(check, torch_build=CPU, torch_musa_import=UNDEFINED)
    assert found == ("torch 2.9.1+cpu, CPU build (its files) beside torch_musa 2.9.1+musa5.2.0",)
    bare = {"torch_build": CPU, "torch_musa_build": NO_MUSA, "torch_musa_import": NO_MUSA}
    assert finds(check, **bare) == (f"torch 2.9.1+cpu, CPU build (its files) beside {CARDS}",)
    assert finds(check, **bare, gpus=NO_GPU) == ()
    # torch_musa that loads proves the build.
    assert finds(check, torch_build=CPU) == ()


def test_the_build_of_torch_is_not_known() -> None:
    check = family.torch_without_musa
    assert finds(check, torch_build=UNMARKED) == ()
    reason = cannot_tell(check, torch_build=UNMARKED, torch_musa_import=UNDEFINED)
    assert reason.startswith("which build torch is: torch 2.9.1, unknown build (its files);")
    assert finds(check, torch_build=CUDA, torch_musa_import=UNDEFINED) == ()


@pytest.mark.parametrize(
    ("kind", "message", "start", "command"),
    [
        ("exception", "ImportError: x", "import torch fails: ImportError: x", "pip freeze"),
        ("hang", "no answer in 60 s", "import torch does not come back: no", "timeout 60"),
        ("signal", "killed by SIGSEGV", "import torch crashes: killed by SIGSEGV", "faulthandler"),
        ("exit", "exit code 0", "import torch ends the interpreter: exit code 0", "tail -20"),
        ("memory", "killed by SIGKILL", "import torch is killed: killed by SIGKILL", "dmesg"),
        ("flooded", "more than 1 MB", "import torch floods its output: more than", "head -50"),
    ],
)
def test_torch_cannot_be_imported(kind: str, message: str, start: str, command: str) -> None:
    check = family.torch_import_fails
    failed = broken("torch", message, kind)
    (found,) = finds(check, torch_import=failed)
    assert found.startswith(start)
    assert found.endswith("(/opt/venv/bin/python)")
    assert command in fix(check, torch_import=failed)[1][0]
    (found,) = finds(check, torch_import=failed, python=UNSEEN)
    assert not found.endswith(")")


def test_a_known_message_gives_its_own_fix() -> None:
    check = family.torch_import_fails
    failed = broken("torch", "OSError: libmpi.so.40: cannot open shared object file")
    (found,) = finds(check, torch_import=failed)
    assert "(OpenMPI is not installed, or not on the loader's path)" in found
    text, commands, destructive = fix(check, torch_import=failed)
    assert text.startswith("Install OpenMPI 4.1")
    assert commands == (
        "TORCH_DEVICE_BACKEND_AUTOLOAD=0 /opt/venv/bin/python -X faulthandler -c 'import torch'",
    )
    assert not destructive
    assert "python3 -X" in fix(check, torch_import=failed, python=UNSEEN)[1][0]


def test_a_kind_of_a_later_version_is_a_failure_too() -> None:
    failed = broken("torch", "gone", "vanished")
    (found,) = finds(family.torch_import_fails, torch_import=failed)
    assert found.startswith("import torch fails: gone")


def test_torch_that_was_not_reached_is_not_judged() -> None:
    assert skips(family.torch_import_fails, torch_import=NO_TORCH)
    assert cannot_tell(family.torch_import_fails, torch_import=UNSEEN) == UNSEEN.reason


NUMPY_2 = distribution("numpy", "2.2.1")


@pytest.mark.parametrize(
    ("torch", "reason"),
    [
        ("2.2.0", "torch 2.2.0 was built for numpy 1"),
        ("2.9.1", "torch 2.9.1 is published with numpy 1 (MUSA SDK 5.2.0 install guide"),
        ("2.11.0.post2+musa5.2.0", "torch 2.11.0.post2+musa5.2.0 is published with numpy 1"),
    ],
)
def test_numpy_is_too_new(torch: str, reason: str) -> None:
    check = family.numpy_too_new
    installed = {"distributions": distributions(NUMPY_2), "torch_build": torch_build(torch)}
    (found,) = finds(check, **installed)
    assert found.startswith(f"numpy 2.2.1 is installed, but {reason}")
    text, commands, destructive = fix(check, **installed)
    assert "/opt/venv/bin/python -m pip install --no-deps numpy==1.26.4" in text
    assert (commands, destructive) == ((), True)


def test_numpy_of_which_nothing_is_known() -> None:
    check = family.numpy_too_new
    installed = {"distributions": distributions(NUMPY_2), "torch_build": torch_build("2.7.1")}
    assert "numpy 2.2.1" in cannot_tell(check, **installed)
    assert finds(check, distributions=distributions()) == ()
    assert skips(check, **installed, torch_musa_build=NO_MUSA)


@pytest.mark.parametrize(
    ("tag", "python", "fires"),
    [
        ("cp310-cp310-linux_x86_64", PYTHON, False),
        ("cp312-cp312-linux_x86_64", PYTHON, True),
        ("cp39.cp310-abi3-linux_x86_64", PYTHON, False),
        ("cp38-abi3-linux_x86_64", PYTHON, False),
        ("cp311-abi3-linux_x86_64", PYTHON, True),
        ("cp38-cp38-linux_x86_64", PYTHON, True),
        ("py3-none-any", PYTHON, False),
        ("py2.py3-none-any", PYTHON, False),
        ("py2-none-any", PYTHON, True),
        ("pp310-pypy310_pp73-linux_x86_64", PYTHON, True),
        ("cp38-abi3-linux_x86_64", PYTHON._replace(tag="pp310"), True),
    ],
)
def test_a_wheel_for_another_python(tag: str, python: object, *, fires: bool) -> None:
    check = family.wheel_for_other_python
    for name in ("torch", "torch-musa", "torchvision"):
        installed = distributions(distribution(name, "2.9.1", tag=tag))
        found = finds(check, distributions=installed, python=python)
        assert bool(found) == fires
        if fires:
            assert found[0].startswith(f"{name} 2.9.1 in {SITE} is built for {tag}, but /opt")
    fitting = distribution("torch", "2.9.1", tag="py3-none-any")
    numpy = distributions(fitting, distribution("numpy", "1.26.4", tag=tag))
    assert finds(check, distributions=numpy, python=python) == ()


def test_what_is_no_wheel() -> None:
    installed = distributions(distribution("torch", "2.9.1", tag=""))
    result = judged(family.wheel_for_other_python, distributions=installed)
    reason = "no metadata name a Python that it was built for"
    assert (result.status, result.reason) == ("skipped", reason)


def test_no_wheel_to_look_at() -> None:
    result = judged(family.wheel_for_other_python, distributions=distributions())
    assert (result.status, result.reason) == (
        "skipped",
        f"neither torch nor what goes with it is installed for {PYTHON.path}",
    )


def test_one_fitting_tag_is_enough() -> None:
    torch = distribution("torch", "2.9.1", tag="cp39-cp39-linux_x86_64")
    both = torch._replace(tags=(*torch.tags, "cp310-cp310-linux_x86_64"))
    assert finds(family.wheel_for_other_python, distributions=distributions(both)) == ()


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (distribution("torchvision", "0.24.1+cu126"), "is a +cu126 build"),
        (distribution("torchaudio", "2.9.1+rocm6.2"), "is a +rocm6.2 build"),
        (distribution("torchvision", "0.24.1+cpu"), "is a +cpu build"),
        (distribution("torchvision", "0.19.1", "numpy", "torch==2.4.1"), "requires torch 2.4.1"),
        (distribution("torchaudio", "2.2.2", "torch (==2.2.2) ; x"), "requires torch 2.2.2"),
        (distribution("torchvision", "0.24.1.post1+musa5.2.0", "torch==2.9.1"), ""),
        (distribution("torchvision", "0.24.1", "torch>=1.13"), ""),
        (distribution("torchaudio", "2.2.2+cefdb36"), ""),
        (distribution("torchvision", "0.1", "torchada==1.0", "torch==x.y"), ""),
        (distribution("numpy", "1.26.4+cu1", "torch==1.0"), ""),
    ],
)
def test_a_companion_that_does_not_fit(item: object, reason: str) -> None:
    check = family.torch_companion_mismatch
    installed = distributions(item)  # type: ignore[arg-type]
    end = "but torch is 2.9.1, with torch_musa 2.9.1+musa5.2.0"
    expected = (f"{item} {reason}, {end}",) if reason else ()
    assert finds(check, distributions=installed) == expected
    # With a CUDA torch all of it has to be replaced anyway.
    assert finds(check, distributions=installed, torch_build=CUDA) == ()


@pytest.mark.parametrize(
    ("name", "number", "instead"),
    [
        ("pymtml", "0.0.3", "mthreads-ml-py"),
        ("sglang-musa", "0.0.1", "sglang itself"),
        ("nvitop-musa-exporter", "0.0.0.1", ""),
        ("mooncake-transfer-engine-musa", "0.0.0.1", "0.3.13.post1"),
    ],
)
def test_a_placeholder(name: str, number: str, instead: str) -> None:
    check = family.placeholder_package
    installed = distributions(distribution(name, number))
    assert finds(check, distributions=installed) == (
        f"{name} {number} in {SITE} is a placeholder with nothing of use in it",
    )
    text, commands, destructive = fix(check, distributions=installed)
    assert text.startswith(f"Uninstall it (/opt/venv/bin/python -m pip uninstall {name})")
    assert (instead in text) if instead else text.endswith(")")
    assert (commands, destructive) == ((), True)
    real = distributions(distribution(name, "0.3.13"))
    assert finds(check, distributions=real) == ()


def test_imports_that_worked() -> None:
    assert finds(family.torch_import_fails, torch_import=Import("torch", None, None)) == ()


def test_torch_from_elsewhere() -> None:
    check = family.torch_imported_from_elsewhere
    build = torch_build("2.9.1")
    same = Torch("2.9.1", None, f"{build.path}/__init__.py")
    assert finds(check, torch=same, torch_build=build) == ()
    (message,) = finds(check, torch=same._replace(file="/src/torch/__init__.py"), torch_build=build)
    assert message == (
        f"torch 2.9.1 is imported from /src/torch/__init__.py, but {build.path} holds torch 2.9.1"
    )


TRITON = Triton(None, f"{SITE}/triton", ("mtgpu",))


@pytest.mark.parametrize(
    ("back_ends", "fires"),
    [
        (("mtgpu",), False),
        (("amd", "mtgpu", "nvidia"), False),
        (("amd", "nvidia"), True),
        (("nvidia",), True),
    ],
)
def test_a_triton_that_cannot_compile_for_the_cards(
    back_ends: tuple[str, ...], *, fires: bool
) -> None:
    check = family.triton_without_musa
    found = finds(check, triton=TRITON._replace(backends=back_ends))
    message = (
        f"triton of unknown version, back ends: {', '.join(back_ends)}, so it is a stock build"
        f" without mtgpu ({SITE}/triton)"
    )
    assert found == ((message,) if fires else ())
    if fires:
        _, commands, destructive = fix(check, triton=TRITON._replace(backends=back_ends))
        assert destructive
        assert commands == ("/opt/venv/bin/python -m pip uninstall triton",)


def test_a_triton_of_which_it_cannot_be_told() -> None:
    check = family.triton_without_musa
    assert "no folder backends" in cannot_tell(check, triton=TRITON._replace(backends=()))
    other = TRITON._replace(backends=("amd", "musa"))
    assert "what musa is for" in cannot_tell(check, triton=other)
    assert skips(check, torch_musa_build=NO_MUSA)


def test_no_triton() -> None:
    check = family.triton_missing
    none = Absent("triton is not installed for /opt/venv/bin/python")
    assert finds(check, triton=none, torch_musa_build=wheel("2.9.1")) == (
        f"{none}, beside torch_musa 2.9.1",
    )
    assert skips(check, triton=none, torch_musa_build=NO_MUSA)
    assert skips(family.triton_without_musa, triton=none)
