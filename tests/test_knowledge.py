"""The knowledge tables: every row complete, readable, and what the sources say."""

import datetime as dt
import re

import pytest
from support import sample

from musadoctor.api import KernelDriverVersion, ToolkitVersion, WheelVersion
from musadoctor_checks import knowledge
from musadoctor_checks.knowledge import (
    FILES,
    Row,
    covers,
    dated,
    explained,
    rows,
    torch_for,
    torch_musa_for,
)

TABLES = [table for tables in FILES.values() for table in tables]
FIELDS = {
    "driver_toolkit": {"driver", "toolkit", "works"},
    "toolkit_components": {"toolkit", "mudnn", "mccl"},
    "torch_pair": {"torch_musa", "torch"},
    "toolkit_wheel": {"toolkit", "torch_musa"},
    "placeholder": {"name", "version"},
    "wheel_python": {"python", "torch_musa"},
    "numpy_1": {"torch"},
    "alloc_conf_key": {"key"},
    "message": {"pattern", "meaning", "fix"},
    "tested_kernels": {"architectures", "builds"},
    "bad_kernel": {"build", "driver", "instead"},
    "refusal": {"pattern", "kind", "meaning", "fix"},
    "xid": {"code", "meaning"},
    "device_limit": {"subject", "below", "meaning", "instead"},
}
OPTIONAL = {"note", "instead", "cause", "alone", "before"}


def wheel(text: str) -> WheelVersion:
    version = WheelVersion.parse(text)
    assert version is not None
    return version


def toolkit(text: str) -> ToolkitVersion:
    version = ToolkitVersion.parse(text)
    assert version is not None
    return version


@pytest.mark.parametrize("table", TABLES)
def test_every_row_is_complete(table: str) -> None:
    found = rows(table)
    assert found
    for row in found:
        assert FIELDS[table] <= set(row), row
        assert set(row) <= FIELDS[table] | OPTIONAL | {"source", "date", "confidence"}, row
        assert isinstance(row["date"], dt.date)
        assert dt.date(2023, 1, 1) < row["date"] <= dt.date(2026, 11, 30)
        assert row["confidence"] in {"high", "medium", "low"}
        assert isinstance(row["source"], str)
        assert len(row["source"]) > 5
        assert all(value not in {"", None} for value in row.values() if isinstance(value, str))


@pytest.mark.parametrize("file", FILES)
def test_every_table_of_a_file_is_read(file: str) -> None:
    assert set(knowledge.read(file)) == set(FILES[file])


def test_no_row_is_there_twice() -> None:
    keys: dict[str, tuple[str, ...]] = {
        "driver_toolkit": ("driver", "toolkit"),
        "toolkit_components": ("toolkit",),
        "torch_pair": ("torch_musa",),
        "toolkit_wheel": ("toolkit",),
        "placeholder": ("name", "version"),
        "wheel_python": ("python",),
        "alloc_conf_key": ("key",),
        "message": ("pattern",),
        "refusal": ("pattern",),
        "xid": ("code",),
        "device_limit": ("subject",),
    }
    for table, names in keys.items():
        found: list[tuple[object, ...]] = [tuple(row[n] for n in names) for row in rows(table)]
        assert len(found) == len(set(found)), table


def test_typed_rows_are_the_raw_rows() -> None:
    loaders = {
        "driver_toolkit": knowledge.driver_toolkit,
        "toolkit_components": knowledge.toolkit_components,
        "torch_pair": knowledge.torch_pairs,
        "toolkit_wheel": knowledge.toolkit_wheels,
        "placeholder": knowledge.placeholders,
        "wheel_python": knowledge.wheel_pythons,
        "numpy_1": knowledge.numpy_1,
        "alloc_conf_key": knowledge.alloc_conf_keys,
        "message": knowledge.messages,
        "refusal": knowledge.refusals,
        "xid": knowledge.xids,
        "device_limit": knowledge.device_limits,
    }
    for table, load in loaders.items():
        typed = load()
        assert load() is typed
        assert [_raw(row) for row in typed] == [_filled(row) for row in rows(table)]


def _raw(row: object) -> Row:
    assert isinstance(row, tuple)
    fields: Row = dict(row._asdict())  # type: ignore[attr-defined]
    origin = fields.pop("origin")
    assert isinstance(origin, knowledge.Origin)
    plain = {
        name: value.pattern if isinstance(value, re.Pattern) else value
        for name, value in fields.items()
        if value not in {"", None}
    }
    return {**plain, **origin._asdict()}


def _filled(row: Row) -> Row:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


GOOD = {
    *(("1.2.0", "3.0.1"), ("2.7.0", "3.1.0"), ("3.0.0", "4.0.0"), ("3.0.0", "4.0.1")),
    *(("3.1.0-rc4.2.0-server", "4.2.0"), ("3.3.1-server", "4.3.1"), ("3.3.3-server", "4.3.4")),
    *(("3.3.5-server", "4.3.5"), ("3.3.5-server", "5.2.0"), ("5.1.0-server", "5.1.0")),
    *(("5.2.0-server", "5.2.0"), ("5.2.0-server", "4.3.6")),
}
BAD = {("5.2.0-server", "4.3.5")}
UNLISTED = {("3.3.5-server", "5.1.0"), ("2.7.0-server", "4.3.5"), ("5.1.0-server", "4.3.5")}


@pytest.mark.parametrize(
    ("driver", "number", "works"),
    [
        *[(*pair, True) for pair in sorted(GOOD)],
        *[(*pair, False) for pair in sorted(BAD)],
        *[(*pair, None) for pair in sorted(UNLISTED)],
    ],
)
def test_drivers_and_toolkits(driver: str, number: str, works: object) -> None:
    version = KernelDriverVersion.parse(driver)
    assert version is not None
    found = [
        row.works
        for row in knowledge.driver_toolkit()
        if covers(row.driver, version) and covers(row.toolkit, toolkit(number))
    ]
    assert found == ([] if works is None else [works])


@pytest.mark.parametrize(
    ("number", "mudnn", "mccl"),
    [
        ("3.0.1", "2.6.1", "1.6.1"),
        ("3.1.0", "2.7.0", "1.7.0"),
        ("3.1.1", "2.7.0", "1.7.0"),
        ("4.0.1", "2.8.0 2.8.1", "1.8.0"),
        ("4.1.1", "2.9.0", "1.9.0"),
        ("4.2.0", "3.0.0", "2.0.0"),
        ("4.3.5", "3.1.5", "2.1.5"),
        ("4.3.6", "3.1.6", "2.1.6"),
        ("5.2.0", "3.4.0", "2.4.0"),
    ],
)
def test_components_of_a_toolkit(number: str, mudnn: str, mccl: str) -> None:
    (row,) = (r for r in knowledge.toolkit_components() if covers(r.toolkit, toolkit(number)))
    assert " ".join(row.mudnn) == mudnn
    assert " ".join(row.mccl) == mccl


@pytest.mark.parametrize(
    ("torch_musa", "torch"),
    [
        ("1.0.0", "2.0.0"),
        ("1.1.0", "2.0.0"),
        ("1.2.1", "2.0.0"),
        ("1.2.0", ""),
        ("1.3.0", "2.2.0"),
        ("1.3.2", "2.2.0"),
        ("2.0.1", "2.2.0 2.5.0"),
        ("2.1.1", "2.5.0"),
        ("2.5.0", "2.5.0"),
        ("2.7.0", "2.7.1"),
        ("2.7.1+musa4.3.6", "2.7.1"),
        ("2.9.1", "2.9.1"),
        ("2.11.0.post2+musa5.2.0", "2.11.0.post2"),
        ("2.3.0", ""),
    ],
)
def test_torch_of_a_torch_musa(torch_musa: str, torch: str) -> None:
    assert " ".join(torch_for(wheel(torch_musa))) == torch


@pytest.mark.parametrize(
    ("number", "expected"),
    [("4.3.5", "2.7.0 2.7.1 2.9.0"), ("5.2.0", "2.9.1 2.11.0.post2"), ("6.0.0", "")],
)
def test_torch_musa_of_a_toolkit(number: str, expected: str) -> None:
    assert " ".join(torch_musa_for(toolkit(number))) == expected


@pytest.mark.parametrize(
    ("number", "version", "expected"),
    [
        ("4.0", "4.0.1", True),
        ("4.0", "4.0", True),
        ("4.0.0", "4.0", False),
        ("4.0", "4.10", False),
        ("5.2.0", "5.2.0", True),
        ("5.2.0", "5.2.1", False),
    ],
)
def test_what_a_number_covers(number: str, version: str, *, expected: bool) -> None:
    assert covers(number, toolkit(version)) == expected


def test_the_newest_row_dates_a_table() -> None:
    assert dated([row.origin for row in knowledge.driver_toolkit()]) == "2026-09-21"
    assert str(knowledge.placeholders()[0].origin).endswith(", 2026-11-30")


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("error: '...'(803) at musaInfo.cpp:155", "cannot carry"),
        ("Unsupported display driver / musa driver combination", "cannot carry"),
        ("Error 801: operation not supported", "IOMMU"),
        ("libmccl.so.2: cannot open shared object file", "MCCL"),
        ("libmudnn.so.1: cannot open shared object file", "muDNN"),
        ("libmupti.so.0.9: cannot open shared object file", "another generation"),
        ("libmusart.so.5: cannot open shared object file", "runtime"),
        ("libmusa.so.4: cannot open shared object file", "user space"),
        ("libmusa.so.1.0: undefined symbol: PVRSRVMap", "newer driver"),
        ("libmusa_kernels.so: undefined symbol: _ZN2at18_Gen", "not the build"),
        ("libmkl_core.so.2: cannot open shared object file", "MKL"),
        ("undefined symbol: iJIT_NotifyEvent", "MKL is newer"),
        ("libmpi.so.40: cannot open shared object file", "OpenMPI"),
        ("libcudart.so.13: cannot open shared object file", "CUDA"),
        ("/usr/lib/libmusa.so.1: file too short", "empty or cut"),
        ("libsrv_um_MUSA.so: cannot open shared object file", "container runtime"),
        ("err 98 = invalid device function", "architecture"),
        ("torch version must not be less than 2.7.1", "one release"),
        ("RuntimeError: MUSA error: unknown error", "failed at some earlier call"),
        ("No MUSA GPUs are available", "counts no device"),
        ("KeyError: 'x'", ""),
        ("error 1803 of 8010", ""),
    ],
)
def test_what_a_message_means(text: str, meaning: str) -> None:
    known = explained(["something else", text])
    assert (meaning in known.meaning) if meaning and known else known is None
    assert bool(known) == bool(meaning)


@pytest.mark.parametrize(
    "name",
    [
        "import-torch-mccl-missing-autoload.txt",
        "import-torch_musa-cu121-torch.txt",
        "torch-import_libmudnn-missing.txt",
        "torch_musa-devicecount-error801_s4000.txt",
        "mudnn-invalid-device-function.txt",
        "musainfo-801.txt",
    ],
)
def test_real_messages_are_known(name: str) -> None:
    assert explained(sample(name).splitlines()) is not None


def test_no_table_names_a_package_index() -> None:
    for file in FILES:
        assert "://" not in str(knowledge.read(file))
