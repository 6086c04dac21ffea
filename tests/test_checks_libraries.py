"""The checks of the loader's path: what they fire on, stay silent on, and cannot tell."""

import pytest
from given import (
    ALINUX,
    CARDS,
    HEALTHY,
    KYLIN,
    LIBMUSA,
    LIBRARIES,
    S80,
    S3000,
    S4000,
    TOOLKIT,
    WHEEL,
    advice,
    fixes,
    gpus,
    judged,
    library,
    said,
    skipped,
    toolkit,
    unknown,
    wheel,
)

from musadoctor.api import (
    Absent,
    ChildFailure,
    Gpus,
    Import,
    Libraries,
    MissingLibrary,
    ToolAnswer,
    Toolkits,
    Unknown,
)
from musadoctor_checks import libraries as family

NO_LIBMUSA = Absent("no libmusa.so.* in LD_LIBRARY_PATH, the loader's cache or default folders")
NO_LIBRARIES = Absent("no MUSA library in LD_LIBRARY_PATH, the loader's cache or default folders")
NO_TOOLKIT = Absent("no Toolkit in /usr/local")
FAILED = Import("torch_musa", ChildFailure("import torch_musa", "exception", "ImportError"), None)
HUNG = Unknown("child:torch: timed out")
WORKS = HEALTHY["torch_musa_import"]
WHEEL_LIBRARY = f"{WHEEL.path}/lib/libmusa_python.so.1"


def append(folder: str) -> str:
    return f'export LD_LIBRARY_PATH="${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}{folder}"'


def test_no_libmusa() -> None:
    assert said(family.libmusa_not_found, user_driver=NO_LIBMUSA) == (
        f"{NO_LIBMUSA.reason}, with {CARDS}",
    )
    look = ("ls -l /usr/lib/x86_64-linux-gnu/libmusa.so*", "sudo ldconfig")
    assert fixes(family.libmusa_not_found, user_driver=NO_LIBMUSA) == (
        (*look, "sudo apt install libmthreads-compute"),
    )
    assert fixes(family.libmusa_not_found, user_driver=NO_LIBMUSA, machine=KYLIN) == (look,)
    assert said(family.libmusa_not_found) == ()
    assert skipped(family.libmusa_not_found, user_driver=NO_LIBMUSA, gpus=Absent("none"))


@pytest.mark.parametrize(
    ("machine", "owner"),
    [
        (HEALTHY["machine"], ["dpkg -S /opt/lib/libmusa.so.4"]),
        (ALINUX, ["rpm -qf /opt/lib/libmusa.so.4"]),
        (KYLIN, []),
        (Unknown("not found out"), []),
    ],
)
def test_a_damaged_library(machine: object, owner: list[str]) -> None:
    empty = library("libmusa.so.4", "/opt/lib")._replace(problem="empty file")
    facts = {"libraries": Libraries((*LIBRARIES.found, empty), ()), "machine": machine}
    assert said(family.library_damaged, **facts) == (
        "libmusa.so.4 -> /opt/lib/libmusa.so.4 (by ld.so.cache): empty file",
    )
    assert fixes(family.library_damaged, **facts) == (("ls -lL /opt/lib/libmusa.so.4", *owner),)


def test_good_libraries() -> None:
    assert said(family.library_damaged) == ()
    assert skipped(family.library_damaged, libraries=NO_LIBRARIES)


@pytest.mark.parametrize("libraries", [NO_LIBRARIES, Libraries((LIBMUSA,), ())])
@pytest.mark.parametrize("tried", [FAILED, HUNG, Absent("no torch_musa")])
def test_the_loader_does_not_find_the_runtime(libraries: object, tried: object) -> None:
    facts = {"libraries": libraries, "torch_musa_import": tried}
    (message,) = said(family.libmusart_not_found, **facts)
    assert message.startswith("libmusart is in /usr/local/musa-5.2.0/lib, which neither ")
    assert fixes(family.libmusart_not_found, **facts) == ((append(f"{TOOLKIT.root}/lib"),),)


def test_a_runtime_that_is_found_or_not_there_or_not_missed() -> None:
    assert said(family.libmusart_not_found, torch_musa_import=FAILED) == ()
    half = TOOLKIT._replace(libraries=("libmufft.so.1",))
    facts = {"libraries": NO_LIBRARIES, "torch_musa_import": FAILED}
    assert said(family.libmusart_not_found, toolkit=half, **facts) == ()
    assert said(family.libmusart_not_found, libraries=NO_LIBRARIES) == ()


def lacking(*sonames: str, **changes: object) -> dict[str, object]:
    """A host whose torch_musa misses these libraries."""
    return {
        "libraries": LIBRARIES._replace(
            missing=tuple(MissingLibrary(soname, WHEEL_LIBRARY) for soname in sonames)
        ),
        "torch_musa_import": FAILED,
        **changes,
    }


MKL = ("libmkl_core.so.2", "libmkl_intel_lp64.so.2")


def test_mpi_and_mkl() -> None:
    facts = lacking("libmpi.so.40", *MKL)
    assert said(family.system_library_missing, **facts) == (
        f"torch_musa {WHEEL.version} needs libmpi.so.40, which the loader does not find",
        f"torch_musa {WHEEL.version} needs {', '.join(MKL)}, which the loader does not find",
    )
    assert fixes(family.system_library_missing, **facts) == (
        ("sudo apt install openmpi-bin",),
        ("/opt/venv/bin/python -m pip install mkl==2024.0.0", append("/opt/venv/lib")),
    )
    assert said(family.musa_library_missing, **facts) == ()
    facts["torch_musa_import"] = WORKS
    assert said(family.system_library_missing, **facts) == ()


def test_mpi_of_red_hat_is_in_no_folder_of_the_loader() -> None:
    facts = lacking("libmpi.so.40", machine=ALINUX)
    assert fixes(family.system_library_missing, **facts) == (("sudo dnf install openmpi",),)
    assert "folder of libmpi" in advice(family.system_library_missing, **facts)


def test_mkl_for_an_interpreter_that_is_not_known() -> None:
    facts = lacking(*MKL, python=Absent("no python"))
    assert fixes(family.system_library_missing, **facts) == ((),)


@pytest.mark.parametrize(
    ("soname", "changes", "commands", "word"),
    [
        (
            "libmufft.so.1",
            {},
            (append("/usr/local/musa-5.2.0/lib"),),
            "/usr/local/musa-5.2.0/lib, which has it",
        ),
        (
            "libmusart.so.4",
            {"toolkits": Toolkits((TOOLKIT, toolkit("4.3.5")), "/usr/local")},
            (append("/usr/local/musa-4.3.5/lib"),),
            "musa-4.3.5",
        ),
        (
            "libmusart.so.5.2",
            {"toolkits": Toolkits((toolkit("5.2.0", libraries=("libmusart.so.5.2.0",)),), "")},
            (append("/usr/local/musa-5.2.0/lib"),),
            "musa-5.2.0",
        ),
        ("libmusart.so.4", {}, (), "here is libmusart.so.5, of another generation"),
        ("libmudnn.so.2", {}, (), "here is libmudnn.so.3, of another generation"),
        ("libmccl.so.3", {}, (), "here is libmccl.so.2"),
        ("libmupti.so.0.9", {}, (), "Install Toolkit 5.2.0 with its muDNN"),
        ("libmupti.so.0.9", {"toolkits": Unknown("shut")}, (), "Install Toolkit 5.2.0"),
        (
            "libmupti.so.0.9",
            {"torch_musa_build": wheel("libmupti.so.0.9", number="2.1.0")},
            (),
            "Install the Toolkit it was built for",
        ),
        ("libmusa.so.4", {}, (), "user-space driver"),
    ],
)
def test_the_remedy_by_library(
    soname: str, changes: dict[str, object], commands: tuple[str, ...], word: str
) -> None:
    facts = lacking(soname, **changes)
    (message,) = said(family.musa_library_missing, **facts)
    assert message.endswith(f" needs {soname}, which the loader does not find")
    assert fixes(family.musa_library_missing, **facts) == (commands,)
    assert word in advice(family.musa_library_missing, **facts)
    assert said(family.system_library_missing, **facts) == ()


@pytest.mark.parametrize(
    ("runtime", "number", "same"),
    [(5, "4.3.5", False), (1, "4.3.5", False), (4, "3.1.0", False), (1, "3.1.0", True)],
)
def test_a_wheel_of_another_generation_is_told_by_its_own_check(
    runtime: int, number: str, *, same: bool
) -> None:
    facts = lacking("libmupti.so.0.9", toolkit=toolkit(number))
    facts["torch_musa_build"] = wheel("libmupti.so.0.9")._replace(runtime_major=runtime)
    result = judged(family.musa_library_missing, **facts)
    assert result.status == ("failed" if same else "unknown")
    facts["libraries"] = LIBRARIES
    assert said(family.musa_library_missing, **facts) == ()


@pytest.mark.parametrize("in_use", [NO_TOOLKIT, TOOLKIT._replace(version=None)])
def test_a_toolkit_without_number_settles_nothing(in_use: object) -> None:
    facts = lacking("libmupti.so.0.9", toolkit=in_use)
    assert len(said(family.musa_library_missing, **facts)) == 1
    facts["toolkit"] = TOOLKIT
    facts["torch_musa_build"] = wheel("libmupti.so.0.9")._replace(runtime_major=None)
    assert len(said(family.musa_library_missing, **facts)) == 1


def test_one_finding_names_all_that_one_fix_brings() -> None:
    facts = lacking("libmufft.so.1", "libmusart.so.5", "libmusa.so.4", *MKL)
    ends = [
        message.partition(" needs ")[2] for message in said(family.musa_library_missing, **facts)
    ]
    assert ends == [
        "libmufft.so.1, libmusart.so.5, which the loader does not find",
        "libmusa.so.4, which the loader does not find",
    ]


def test_an_import_that_works_needs_nothing() -> None:
    facts = lacking("libmudnn.so.2", torch_musa_import=WORKS)
    assert said(family.musa_library_missing, **facts) == ()
    assert said(family.musa_library_missing, torch_musa_import=FAILED) == ()


def answer(text: str, error_code: int | None, code: int = 1) -> ToolAnswer:
    return ToolAnswer("/usr/local/musa/bin/musaInfo", code, text, error_code)


@pytest.mark.parametrize(
    ("cards", "word"),
    [
        (gpus(S4000), "intel_iommu=on"),
        (gpus(S4000, S3000), "MUSA_VISIBLE_DEVICES"),
        (gpus(S80), "the S5000 wants it off"),
    ],
)
def test_operation_not_supported_depends_on_the_cards(cards: Gpus, word: str) -> None:
    said_by_tool = "error: 'operation not supported'(801)"
    facts = {"musa_info_answer": answer(said_by_tool, 801), "gpus": cards}
    (message,) = said(family.musa_info_reports_error, **facts)
    assert message.startswith(f"/usr/local/musa/bin/musaInfo: {said_by_tool} (exit code 1): ")
    assert word in advice(family.musa_info_reports_error, **facts)


def test_errors_of_the_runtime() -> None:
    known = answer("error: 'unsupported display driver / musa driver combination'(803)", 803)
    (message,) = said(family.musa_info_reports_error, musa_info_answer=known)
    assert message.endswith("(exit code 1): the driver cannot carry this runtime")
    assert "libmusa" in advice(family.musa_info_reports_error, musa_info_answer=known)
    other = answer("exit code 3, no output", None, 3)
    assert said(family.musa_info_reports_error, musa_info_answer=other) == (
        "/usr/local/musa/bin/musaInfo: exit code 3, no output (exit code 3)",
    )
    assert "loader's path" in advice(family.musa_info_reports_error, musa_info_answer=other)
    assert said(family.musa_info_reports_error) == ()


def test_a_tool_that_cannot_be_started_says_nothing() -> None:
    blocked = answer("/usr/local/musa/bin/musaInfo may not be executed", None, 126)
    assert "may not be executed" in unknown(
        family.musa_info_reports_error, musa_info_answer=blocked
    )
    assert (
        judged(family.musa_info_reports_error, musa_info_answer=Unknown("hangs")).reason == "hangs"
    )
