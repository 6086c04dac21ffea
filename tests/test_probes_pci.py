"""The PCI bus: which functions are GPUs, and what is known of them."""

import importlib
import pkgutil
import sys
from collections.abc import Mapping

import pytest
from support import folder, host, sample

from musadoctor.facts import Absent, Gpu, Gpus, PcieLink, Unknown
from musadoctor.probes.pci import BUS, gpus
from musadoctor.probes.products import Product, product
from musadoctor.recording import Recorder
from musadoctor.system import ERROR, NOT_ALLOWED, NOT_THERE, UNRECORDED, Failure

LINK = {
    "current_link_width": "16\n",
    "max_link_width": "16\n",
    "current_link_speed": "16.0 GT/s PCIe\n",
    "max_link_speed": "32.0 GT/s PCIe\n",
}


def bus(
    devices: Mapping[str, Mapping[str, str | Failure]], drivers: Mapping[str, str] | None = None
) -> Recorder:
    return host(
        folders={BUS: list(devices)},
        files={
            f"{BUS}/{address}/{name}": text
            for address, files in devices.items()
            for name, text in files.items()
        },
        stats={
            f"{BUS}/{address}/driver": folder(f"/sys/bus/pci/drivers/{name}")
            for address, name in (drivers or {}).items()
        },
    )


def device(vendor: str, number: str, kind: str, **more: str) -> dict[str, str | Failure]:
    return {"vendor": f"{vendor}\n", "device": f"{number}\n", "class": f"{kind}\n", **more}


def test_one_card_with_all_that_is_known() -> None:
    card = device("0x1ed5", "0x0400", "0x030200", numa_node="1\n", **LINK)
    found = gpus(bus({"0000:2a:00.0": card}, {"0000:2a:00.0": "mtgpu"}))
    link = PcieLink(16, 16, "16.0 GT/s PCIe", "32.0 GT/s PCIe")
    assert found == Gpus(
        (Gpu("0000:2a:00.0", "0400", "MTT S5000", "mp_31", 81920, "mtgpu", 1, link),), BUS
    )
    assert str(found) == "1 x MTT S5000 (/sys/bus/pci/devices)"


def test_one_card_of_which_little_is_known() -> None:
    card = device("0x1ED5", "0x0FFF", "0x030000", numa_node="-1\n", current_link_width="x")
    found = gpus(bus({"0000:01:00.0": card}))
    assert found == Gpus((Gpu("0000:01:00.0", "0fff", None, None, None, None, None, None),), BUS)
    assert str(found) == "1 x 1ed5:0fff (/sys/bus/pci/devices)"


@pytest.mark.parametrize(
    ("files", "link"),
    [
        (LINK | {"current_link_width": "4"}, PcieLink(4, 16, "16.0 GT/s PCIe", "32.0 GT/s PCIe")),
        (LINK | {"current_link_width": ""}, None),
        (LINK | {"max_link_width": "9" * 5000}, None),
        ({"current_link_width": "8", "max_link_width": "8"}, PcieLink(8, 8, "", "")),
    ],
)
def test_link(files: dict[str, str], link: PcieLink | None) -> None:
    found = gpus(bus({"0000:01:00.0": device("0x1ed5", "0x0201", "0x030000", **files)}))
    assert isinstance(found, Gpus)
    assert found.cards[0].link == link


def test_functions_that_are_no_gpu() -> None:
    listed = sample("lspci-n_s4000x8.txt").split("\n")
    devices: dict[str, dict[str, str | Failure]] = {}
    for line in filter(None, listed):
        address, kind, number = line.split()
        devices[f"0000:{address}"] = device(
            "0x1ed5", f"0x{number.partition(':')[2]}", f"0x{kind.strip(':')}00"
        )
    devices["0000:00:00.0"] = device("0x8086", "0x0400", "0x030000")
    found = gpus(bus(devices, dict.fromkeys(devices, "vfio-pci")))
    assert isinstance(found, Gpus)
    assert [c.address for c in found.cards] == [
        f"0000:{n}:00.0" for n in ["08", "09", "0e", "11", "32", "38", "3b", "3c"]
    ]
    assert {(c.product, c.kernel_module) for c in found.cards} == {("MTT S4000", "vfio-pci")}
    assert found.architectures == ("mp_22",)


def test_lspci_of_a_real_s5000() -> None:
    line = sample("lspci-Dnn_s5000.txt").splitlines()[0]
    assert "[0302]" in line
    assert "[1ed5:0400]" in line
    assert product("0400") == Product("MTT S5000", "mp_31", 81920)


UNREADABLE = Failure(NOT_ALLOWED, f"{BUS}/0000:01:00.0/vendor: Permission denied")
GONE = Failure(NOT_THERE, f"no {BUS}/0000:01:00.0/vendor")


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        (
            bus({"0000:00:00.0": device("0x8086", "0x1", "0x030000")}),
            Absent("no GPU of vendor 1ed5 among 1 PCI devices in /sys/bus/pci/devices"),
        ),
        (bus({}), Absent("no GPU of vendor 1ed5 among 0 PCI devices in /sys/bus/pci/devices")),
        (
            bus({"0000:01:00.1": device("0x1ed5", "0x03ff", "0x040100")}),
            Absent("no GPU of vendor 1ed5 among 1 PCI devices in /sys/bus/pci/devices"),
        ),
        # Unplugged between the two questions.
        (
            bus({"0000:01:00.0": {"vendor": GONE}}),
            Absent("no GPU of vendor 1ed5 among 1 PCI devices in /sys/bus/pci/devices"),
        ),
        (
            bus({"0000:01:00.0": {"vendor": UNREADABLE}}),
            Unknown(f"the PCI bus cannot be read: {UNREADABLE}"),
        ),
        (
            bus({"0000:01:00.0": {"vendor": "0x1ed5", "class": Failure(ERROR, "class: I/O")}}),
            Unknown("the PCI bus cannot be read: class: I/O"),
        ),
        (host(folders={"/sys/bus": ["cpu", "usb"]}), Absent("no PCI bus in /sys/bus")),
        (
            host(folders={"/sys/bus": ["cpu", "pci"]}),
            Unknown("the PCI bus cannot be read: no /sys/bus/pci/devices"),
        ),
        (host(), Unknown("the PCI bus cannot be read: no /sys/bus/pci/devices")),
        (
            host(folders={BUS: Failure(NOT_ALLOWED, f"{BUS}: Permission denied")}),
            Unknown(f"the PCI bus cannot be read: {BUS}: Permission denied"),
        ),
        (
            host(folders={BUS: Failure(UNRECORDED, "x"), "/sys/bus": ["cpu"]}),
            Unknown("the PCI bus cannot be read: x"),
        ),
    ],
)
def test_no_card(system: Recorder, expected: Absent | Unknown) -> None:
    assert gpus(system) == expected


def test_a_readable_card_beside_an_unreadable_device() -> None:
    card = device("0x1ed5", "0x0323", "0x030000")
    found = gpus(bus({"0000:01:00.0": {"vendor": UNREADABLE}, "0000:02:00.0": card}))
    assert isinstance(found, Gpus)
    assert found.products == ("MTT S4000",)


# What the vendor's table says, row by row; where the product table of ours differs, it says why.
DIFFERENT = {
    "0105": Product("MTT S50", "mp_10", None),
    "0106": Product("MTT S60", "mp_10", None),
    "0321": Product(None, None, None),
}


def test_products_against_the_vendors_table() -> None:
    rows = [line.split() for line in sample("pci-ids-1ed5.txt").splitlines() if line[0] != "#"]
    assert len(rows) == 17
    for number, name, architecture, memory in rows:
        expected = Product(f"MTT {name}", architecture, int(memory))
        assert product(number) == DIFFERENT.get(number, expected), number


def test_an_unlisted_product() -> None:
    assert product("0999") == Product(None, None, None)


def test_every_row_of_the_product_table_has_source_date_and_confidence() -> None:
    text = pkgutil.get_data("musadoctor.probes.products", "products.toml")
    assert text is not None
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    rows = toml.loads(text.decode())["product"]
    assert len({row["id"] for row in rows}) == len(rows) == 18
    for row in rows:
        assert row["source"]
        assert row["date"].year in {2025, 2026}
        assert row["confidence"] in {"high", "medium", "low"}
        # A value that is left out has its reason.
        assert "note" in row or {"product", "architecture", "memory_mib"} <= set(row), row
