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
from given_torch import entry, environment, torch_musa, versionless

from musadoctor.api import (
    Absent,
    ChildFailure,
    Gpus,
    HiddenLibrary,
    Import,
    Libraries,
    LoadableLibrary,
    MissingLibrary,
    ToolAnswer,
    Toolkits,
    ToolkitVersion,
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


def test_who_needs_what_is_missing() -> None:
    below = "/usr/local/musa-5.2.0/lib/libmudnn.so.3"
    facts = lacking()
    facts["libraries"] = LIBRARIES._replace(missing=(MissingLibrary("libmublas.so.1", below),))
    assert said(family.musa_library_missing, **facts) == (
        (
            f"torch_musa {WHEEL.version} loads {below}, which needs libmublas.so.1, which the loader"
            " does not find"
        ),
    )


# What LD_LIBRARY_PATH hides

OLD, NEW, OTHER = "/usr/local/musa-4.3.5/lib", "/usr/local/musa-5.2.0/lib", "/opt/mudnn/lib"
BUNDLED = f"{WHEEL.path}/lib"
BOTH = (family.library_path_breaks_wheel, family.library_path_overrides_wheel)


def number(folder: str) -> ToolkitVersion | None:
    return ToolkitVersion.parse(folder.removeprefix("/usr/local/musa-").removesuffix("/lib"))


def taken(
    soname: str, folder: str, own: str = "", asked_by: str = WHEEL_LIBRARY
) -> LoadableLibrary:
    """What LD_LIBRARY_PATH gives, and what it hides."""
    hidden = HiddenLibrary(f"{own}/{soname}", own, number(own)) if own else None
    return library(soname, folder)._replace(
        found_by="LD_LIBRARY_PATH",
        entry=folder,
        asked_by=asked_by,
        toolkit=number(folder),
        hides=hidden,
    )


def searched(*found: LoadableLibrary, **changes: object) -> dict[str, object]:
    entries = tuple(entry(folder) for folder in dict.fromkeys(lib.entry for lib in found))
    return {
        "libraries": Libraries(found, ()),
        "environment": environment(entry(""), *entries, entry("/usr/lib")),
        **changes,
    }


@pytest.mark.parametrize(
    ("library", "unfit", "strange"),
    [
        (taken("libmudnn.so.3", OLD, NEW), True, False),
        (taken("libmudnn.so.3", OLD, BUNDLED), True, False),
        (taken("libmudnn.so.3", OTHER, BUNDLED)._replace(problem="empty file"), True, False),
        (taken("libmudnn.so.3", OTHER, BUNDLED), False, True),
        (taken("libmudnn.so.3", OTHER, NEW), False, True),
        (taken("libmudnn.so.3", "/usr/local/musa-5.1.0/lib", NEW), False, True),
        (taken("libmudnn.so.3", "/usr/local/musa-5.1.0/lib", BUNDLED), False, True),
        # The Toolkit that belongs here.
        (taken("libmudnn.so.3", NEW, BUNDLED), False, False),
        (taken("libmudnn.so.3", NEW, NEW), False, False),
        (taken("libmudnn.so.3", NEW), False, False),
        (taken("libmudnn.so.3", OLD, NEW, asked_by=f"{NEW}/libmusart.so.5"), False, False),
    ],
)
def test_what_library_path_hides(library: LoadableLibrary, *, unfit: bool, strange: bool) -> None:
    facts = searched(library)
    assert [bool(said(check, **facts)) for check in BOTH] == [unfit, strange]


def test_an_unfit_library_before_the_wheel_s_own() -> None:
    facts = searched(taken("libmudnn.so.3", OLD, NEW), taken("libmccl.so.2", OLD, NEW))
    assert said(family.library_path_breaks_wheel, **facts) == (
        (
            f"{OLD} in LD_LIBRARY_PATH comes before torch_musa's own RUNPATH {NEW}: {OLD} gives"
            f" libmudnn.so.3, libmccl.so.2, not {NEW}; libmudnn.so.3 is unfit: of Toolkit 4.3.5,"
            " torch_musa is for 5.2.0"
        ),
    )
    assert fixes(family.library_path_breaks_wheel, **facts) == (
        ('export LD_LIBRARY_PATH="/usr/lib"',),
    )
    bundled = searched(taken("libmudnn.so.3", OLD, BUNDLED))
    (message,) = said(family.library_path_breaks_wheel, **bundled)
    assert message.endswith("of Toolkit 4.3.5, torch_musa is for 5.x")
    unstated = bundled | {"torch_musa_build": WHEEL._replace(runtime_major=None)}
    assert said(family.library_path_breaks_wheel, **unstated) == ()


def test_a_folder_that_other_libraries_come_from_stays() -> None:
    facts = searched(
        taken("libmudnn.so.3", OTHER, BUNDLED),
        taken("libmublas.so.1", OTHER),
        taken("libmufft.so.1", OTHER, asked_by=""),
        taken("libmusart.so.5", NEW),
    )
    assert advice(family.library_path_overrides_wheel, **facts) == (
        f"Put {BUNDLED} before it, as libmublas.so.1 comes from {OTHER} alone"
    )
    assert fixes(family.library_path_overrides_wheel, **facts) == (
        (f'export LD_LIBRARY_PATH="{BUNDLED}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"',),
    )


def test_the_current_folder_in_library_path() -> None:
    here = taken("libmudnn.so.3", OTHER, BUNDLED)._replace(entry=".")
    facts = searched(here, environment=environment(entry(""), entry("/usr/lib")))
    assert fixes(family.library_path_overrides_wheel, **facts) == (
        ('export LD_LIBRARY_PATH="/usr/lib"',),
    )


@pytest.mark.parametrize("in_use", [NO_TOOLKIT, Unknown("not found out"), versionless()])
def test_the_toolkit_in_use_may_be_unknown(in_use: object) -> None:
    unlabelled = WHEEL._replace(built_for=None)
    facts = searched(taken("libmudnn.so.3", NEW, BUNDLED), torch_musa_build=unlabelled)
    assert said(family.library_path_overrides_wheel, **facts) == ()
    assert len(said(family.library_path_overrides_wheel, **facts, toolkit=in_use)) == 1


# What is really mapped


def running(*mapped: str, **changes: object) -> dict[str, object]:
    """torch_musa with these files mapped; muDNN is expected in the Toolkit."""
    mudnn = library("libmudnn.so.3")._replace(asked_by=WHEEL_LIBRARY)
    lost = (MissingLibrary("libmccl.so.2", WHEEL_LIBRARY),)
    return {
        "torch_musa": torch_musa()._replace(mapped=mapped),
        "libraries": Libraries((mudnn, library("libmufft.so.1")), lost),
        "environment": environment(),
        **changes,
    }


@pytest.mark.parametrize(
    "mapped",
    [
        (),
        (f"{NEW}/libmudnn.so.3",),
        # Two copies: several-toolkits-mapped says so.
        (f"{NEW}/libmudnn.so.3", f"{OTHER}/libmudnn.so.3.1"),
        (f"{OTHER}/libmudnn.so.30", f"{OTHER}/libmudnn_ops.so.3"),
        # Nothing is known of what nobody asks for.
        (f"{OTHER}/libmufft.so.1",),
    ],
)
def test_what_is_mapped_as_expected(mapped: tuple[str, ...]) -> None:
    assert said(family.library_loaded_from_elsewhere, **running(*mapped)) == ()


def test_another_file_is_mapped() -> None:
    facts = running(f"{OTHER}/libmccl.so.2.1", f"{OTHER}/libmudnn.so.3.1")
    assert said(family.library_loaded_from_elsewhere, **facts) == (
        (
            f"libmudnn.so.3 is mapped from {OTHER}/libmudnn.so.3.1, but the loader's rules lead to"
            f" libmudnn.so.3 -> {NEW}/libmudnn.so.3 (by ld.so.cache)"
        ),
        f"libmccl.so.2 is mapped from {OTHER}/libmccl.so.2.1, but the loader's rules find none",
    )
    command = "LD_DEBUG=files {} -c 'import torch, torch_musa' 2>&1 | grep -F libmudnn"
    facts = running(f"{OTHER}/libmudnn.so.3.1")
    check = family.library_loaded_from_elsewhere
    assert fixes(check, **facts) == ((command.format("/opt/venv/bin/python"),),)
    assert advice(check, **facts) == "Something opens it by its path: see who asks for it"
    facts["python"] = Absent("no python")
    assert fixes(check, **facts) == ((command.format("python3"),),)


def test_a_preloaded_file_is_mapped() -> None:
    path = f"{OTHER}/libmudnn.so.3"
    check = family.library_loaded_from_elsewhere
    preloaded = running(path, environment=environment(LD_PRELOAD=path))
    assert advice(check, **preloaded) == f"LD_PRELOAD={path} may bring it: see who asks for it"
    assert "by its path" in advice(check, **running(path, environment=Unknown("lost")))


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
