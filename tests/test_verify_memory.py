"""Memory and copies, measured on the stand-in device, well and with faults."""

from pathlib import Path

import pytest
from given import S5000, judged, said
from given_verify import steps
from verify_steps import Taken, taken, value

from musadoctor.api import Gpus, Steps
from musadoctor_checks.verify.memory import (
    copy_content_wrong,
    device_copies_slower_than_others,
    device_memory_fails,
    device_memory_less_than_product,
    free_memory_not_usable,
    memory_content_wrong,
    memory_not_given_back,
    no_direct_access_between_devices,
    pair_copies_slower_than_others,
    peak_memory_figures_wrong,
)

MIB = 2**20
pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def site(fake_musa: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in for whoever runs torch."""
    monkeypatch.setenv("PYTHONPATH", str(fake_musa))


def phase(found: Taken) -> Steps:
    return steps(*found.values())


def test_devices_that_are_well(torch_python: str) -> None:
    found = taken(torch_python, "musa", ("memory",), "default", devices=2)
    given = phase(found)
    assert {step.state for step in given.items} == {"done"}
    assert list(found) == [
        *(f"musa:{n} memory: {name}" for name in ("totals", "peak figures") for n in (0, 1)),
        *(f"musa:{n} memory: {name}" for name in ("fill", "host copies") for n in (0, 1)),
        "musa:0 musa:1 memory: device copies",
        "musa:1 musa:0 memory: device copies",
    ]
    fill = value(found["musa:1 memory: fill"])
    allocated = fill["allocated_bytes"]
    assert 512 * MIB < allocated == fill["wanted_bytes"]
    assert fill["free_before"] - fill["free_during"] == allocated == fill["peak_bytes"]
    host = value(found["musa:0 memory: host copies"])
    for way in ("to_device", "to_host"):
        for memory in ("pageable", "pinned"):
            assert 1e7 < host[f"{way}_{memory}"] < 1e12
    pair = value(found["musa:1 musa:0 memory: device copies"])
    assert 1e7 < pair["speed"] < 1e12
    assert pair["peer"] is True
    for check in (
        copy_content_wrong,
        device_memory_fails,
        free_memory_not_usable,
        memory_content_wrong,
        memory_not_given_back,
        no_direct_access_between_devices,
        pair_copies_slower_than_others,
        peak_memory_figures_wrong,
    ):
        assert said(check, transfer_steps=given) == ()


def test_memory_that_is_short(torch_python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than the device says, and never given back."""
    monkeypatch.setenv("FAKE_MUSA_MEMORY_MIB", "2048")
    monkeypatch.setenv("FAKE_MUSA_ROOM_MIB", "1024")
    monkeypatch.setenv("FAKE_MUSA_LEAK_MIB", "40")
    given = phase(taken(torch_python, "musa", ("memory",), "default", devices=2))
    # By the figures there was room for 32 chunks of 56 MiB.
    (refused, _) = said(free_memory_not_usable, transfer_steps=given)
    assert refused.startswith("musa:0: 2.0 GiB are said to be free, and of 1.8 GiB asked for only ")
    assert "MiB are given: MUSA out of memory: " in refused
    (_, lost) = said(memory_not_given_back, transfer_steps=given)
    assert lost.startswith("musa:1: ")
    assert "that were freed are not free again: 2.0 GiB before, " in lost
    failed = said(device_memory_fails, transfer_steps=given)
    assert failed[0].startswith("musa:0, musa:1: host copies out of memory: ")
    gpus = Gpus((S5000,), "sysfs")
    assert said(device_memory_less_than_product, transfer_steps=given, gpus=gpus) == tuple(
        f"musa:{n}: torch sees 2048 MiB, and MTT S5000 has 81920 MiB" for n in range(2)
    )


def test_copies_that_are_damaged_or_slow(
    torch_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_MUSA_DEVICES", "3")
    monkeypatch.setenv("FAKE_MUSA_CORRUPT", "1>*")
    monkeypatch.setenv("FAKE_MUSA_CORRUPT_BYTES", "4096")
    monkeypatch.setenv("FAKE_MUSA_NO_PEER", "1")
    monkeypatch.setenv("FAKE_MUSA_SLOW", "aten::_copy_from@2")
    monkeypatch.setenv("FAKE_MUSA_SLOW_FACTOR", "8")
    given = phase(taken(torch_python, "musa", ("memory",), "default", devices=3))
    assert said(memory_content_wrong, transfer_steps=given) == (
        (
            "musa:1: 32 chunks of 24.0 MiB hold other numbers than were written: chunk 0, 1, 2, 3 and"
            " 28 more"
        ),
    )
    assert said(copy_content_wrong, transfer_steps=given) == (
        "musa:1, 1 of 67108864 bytes there and back are not those that were sent",
        "musa:1, 1 of 67108864 bytes there and back by pinned memory are not those that were sent",
        # What is read back from it is damaged too.
        *(
            f"musa:{one} to musa:{other}, 1 of 67108864 bytes are not those that were sent"
            for one, other in ((0, 1), (1, 0), (1, 2), (2, 1))
        ),
    )
    (without,) = said(no_direct_access_between_devices, transfer_steps=given)
    assert without.startswith("6 of 6 pairs have no direct access (P2P)")
    odd = said(device_copies_slower_than_others, transfer_steps=given)
    assert any(message.startswith("musa:2: host to device from pinned memory") for message in odd)


def test_a_cpu(torch_python: str) -> None:
    found = taken(torch_python, "cpu", ("memory", "extension"), "deep")
    assert {step.state for step in found.values()} == {"skipped"}
    assert found.pop("cpu extension: build").message == "Skip: mcc compiles for MUSA devices"
    result = judged(device_memory_fails, transfer_steps=phase(found))
    assert (result.status, result.reason) == (
        "skipped",
        "the CPU's memory is the host's; the CPU is the host",
    )
