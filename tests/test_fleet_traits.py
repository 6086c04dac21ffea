"""What is compared between hosts, as the facts of a report tell it."""

import json
from typing import Any

import pytest
from recorded import recorded

from musadoctor.doctor import Options, examine
from musadoctor.fleet.tellers import installed_gib
from musadoctor.fleet.traits import LONGEST_VALUE, NONE, TRAITS, traits, with_none
from musadoctor.probes import PROBES, further
from musadoctor.render import json as json_renderer
from musadoctor.report import JSON


def facts(case: str) -> dict[str, Any]:
    options = Options(plugins=False, facts=tuple(further()))
    made: dict[str, Any] = json.loads(json_renderer.render(examine(recorded(case), options)))
    found: dict[str, Any] = made["facts"]
    return found


HEALTHY = facts("s5000-5.2.0")


def changed(fact: str, **fields: Any) -> dict[str, str]:
    """The traits of a healthy host with some fields of a fact changed."""
    return traits({**HEALTHY, fact: {**HEALTHY[fact], **fields}})


def test_each_trait_has_a_name_of_its_own_and_a_weight() -> None:
    assert len({trait.name for trait in TRAITS}) == len(TRAITS)
    assert {trait.weight for trait in TRAITS} == {1, 2, 3, 4, 5}


def test_a_healthy_host() -> None:
    assert traits(HEALTHY) == {
        "kernel driver": "5.2.0-server",
        "user-space driver": "1.5.4",
        "cards": "8 x MTT S5000",
        "card memory": "8 x 81920 MiB",
        "card firmware": "4.3.41",
        "link width": "8 x x16 of x16",
        "link speed": "8 x 16.0 GT/s PCIe of 16.0 GT/s PCIe",
        "card NUMA nodes": "0 0 0 0 0 0 0 0",
        "gmi tool": "2.4.1",
        "toolkit in use": "5.2.0",
        "installed toolkits": "5.2.0",
        "mcc": "5.2.0",
        "muDNN": "3.4.0",
        "MCCL": "2.4.0",
        "driver API": "5.2",
        "runtime API": "5.2",
        "torch build": "MUSA",
        "torch collectives": "2.11.4",
        "triton backends": "mtgpu",
        "Python": "3.10.12",
        "wheel torch": "2.9.1+musa5.2.0",
        "wheel torch-musa": "2.9.1+musa5.2.0",
        "wheel numpy": "1.26.4",
        "wheel triton": "3.2.0",
        "RDMA adapters": NONE,
        "RDMA ports active": NONE,
        "RDMA to card memory": NONE,
        "container": NONE,
        "virtual machine": NONE,
        "kernel": "5.15.0-105-generic",
        "boot parameters": "intel_iommu=off iommu.passthrough=1 iommu=off ro",
        "IOMMU": "off",
        "architecture": "x86_64",
        "distribution": "Ubuntu 22.04.4 LTS",
        "glibc": "2.35",
        "board": "Inspur NF5468",
        "BIOS": "4.1.21 of 03/15/2024",
        "logical CPUs": "128",
        "memory": "2048 GiB",
        "environment MUSA_HOME": "/usr/local/musa",
        "environment PATH": "/opt/env/bin:/usr/local/musa/bin:/usr/bin:/bin",
        "environment LD_LIBRARY_PATH": "/usr/local/musa/lib",
    }


def test_every_fact_that_is_compared_is_one_that_there_is() -> None:
    found = traits(HEALTHY)
    assert found.keys() <= {trait.name for trait in TRAITS}
    assert HEALTHY.keys() <= {*PROBES, *further()}


@pytest.mark.parametrize("fact", sorted(HEALTHY))
def test_what_is_unknown_or_damaged_is_not_compared(fact: str) -> None:
    usual = traits(HEALTHY)
    damages: list[Any] = [{"unknown": "no answer"}, None, [], "5.2.0", {}, {"version": 7}]
    for damaged in damages:
        found = traits({**HEALTHY, fact: damaged})
        assert found.items() <= usual.items()
    assert traits({}) == {}


def test_the_tool_tells_of_a_driver_that_sys_does_not_show() -> None:
    absent: JSON = {"absent": "no /sys/module/mtgpu"}
    told = traits({**HEALTHY, "kernel_driver": absent})
    assert told["kernel driver"] == traits({"gmi": HEALTHY["gmi"]})["kernel driver"] != NONE
    assert traits({"gmi": absent, "kernel_driver": absent})["kernel driver"] == NONE


@pytest.mark.parametrize(
    ("fact", "names"),
    [
        ("user_driver", {"user-space driver"}),
        ("gpus", {"cards"}),
        ("toolkit", {"toolkit in use"}),
        ("toolkits", {"installed toolkits"}),
        ("mcc", {"mcc"}),
        ("mudnn", {"muDNN"}),
        ("mccl", {"MCCL"}),
        ("torch_build", {"torch build"}),
        ("collectives", {"torch collectives"}),
        ("triton", {"triton backends"}),
        ("rdma", {"RDMA adapters", "RDMA ports active", "RDMA to card memory"}),
        ("container", {"container"}),
    ],
)
def test_what_is_certainly_absent_is_none(fact: str, names: set[str]) -> None:
    found = traits({**HEALTHY, fact: {"absent": "looked for in vain"}})
    usual = traits({**HEALTHY, fact: {"unknown": "not looked for"}})
    assert {name for name, value in found.items() if usual.get(name) != value} <= names
    assert all(found[name] == NONE for name in names)


def test_the_tool_tells_the_driver_that_nothing_else_states() -> None:
    assert changed("kernel_driver", stated=[])["kernel driver"] == "5.2.0-server"
    other = {**HEALTHY, "gmi": {**HEALTHY["gmi"], "driver": "9.9.9"}}
    assert traits(other)["kernel driver"] == "5.2.0-server"
    assert traits({**other, "kernel_driver": {"unknown": ""}})["kernel driver"] == "9.9.9"


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/usr/lib/libmusa.so.1.5.4", "1.5.4"),
        ("/usr/lib/libmusa.so.1", "1"),
        ("/usr/lib/libmusa.so", None),
        (None, None),
    ],
)
def test_the_user_space_driver_has_the_number_of_its_file(
    path: str | None, version: str | None
) -> None:
    assert changed("user_driver", real_path=path).get("user-space driver") == version


def test_one_odd_card_shows() -> None:
    cards = [dict(card) for card in HEALTHY["gpus"]["cards"]]
    cards[3] |= {"product": None, "device_id": "0499", "numa_node": 1}
    cards[3]["link"] = {**cards[3]["link"], "width": 8, "speed": "8.0 GT/s PCIe"}
    found = changed("gpus", cards=cards)
    assert found["cards"] == "7 x MTT S5000, 1 x PCI 0499"
    assert found["card NUMA nodes"] == "0 0 0 1 0 0 0 0"
    assert found["link width"] == "7 x x16 of x16, 1 x x8 of x16"
    assert found["link speed"] == (
        "7 x 16.0 GT/s PCIe of 16.0 GT/s PCIe, 1 x 8.0 GT/s PCIe of 16.0 GT/s PCIe"
    )
    listed = [dict(card) for card in HEALTHY["gmi"]["cards"]]
    listed[3] |= {"mtbios": "4.3.40", "total_mib": 40960}
    found = changed("gmi", cards=listed)
    assert found["card firmware"] == "7 x 4.3.41, 1 x 4.3.40"
    assert found["card memory"] == "7 x 81920 MiB, 1 x 40960 MiB"


def test_what_is_not_known_of_one_card_is_not_compared() -> None:
    cards = [dict(card) for card in HEALTHY["gpus"]["cards"]]
    cards[0] |= {"link": None, "numa_node": None}
    found = changed("gpus", cards=cards)
    assert found.keys().isdisjoint({"link width", "link speed", "card NUMA nodes"})
    cards[0]["link"] = {"width": None, "speed": ""}
    assert changed("gpus", cards=cards).keys().isdisjoint({"link width", "link speed"})
    listed = [dict(card) for card in HEALTHY["gmi"]["cards"]]
    listed[0] |= {"mtbios": None, "total_mib": None}
    assert changed("gmi", cards=listed).keys().isdisjoint({"card firmware", "card memory"})
    assert "cards" not in changed("gpus", cards=[*cards, 7])


@pytest.mark.parametrize("fields", [{"by_name": True}, {"counted": False}, {"counted": None}])
def test_cards_that_a_text_mentions_are_not_counted(fields: dict[str, object]) -> None:
    assert "cards" not in changed("gpus", **fields)


def test_several_toolkits() -> None:
    installed = [{"version": "5.2.0"}, {"version": None}, {"version": "4.3.5"}]
    found = changed("toolkits", installed=installed)
    assert found["installed toolkits"] == "4.3.5, 5.2.0, without a number"


def test_collectives() -> None:
    assert changed("collectives", available=False)["torch collectives"] == NONE
    assert changed("collectives", version=None)["torch collectives"] == "there"
    assert "torch collectives" not in changed("collectives", available="yes")


def test_no_distribution_of_those_that_matter() -> None:
    found = changed("distributions", items=[])
    assert {name: found[name] for name in found if name.startswith("wheel ")} == {
        "wheel torch": NONE
    }
    assert not any(name.startswith("wheel ") for name in changed("distributions", items=[7]))


def test_triton() -> None:
    assert changed("triton", backends=["nvidia", "amd"])["triton backends"] == "amd, nvidia"
    assert changed("triton", backends=[])["triton backends"] == "no folder of backends"
    assert "triton backends" not in changed("triton", backends=None)


def test_wheels() -> None:
    items = [
        {"name": "vllm", "version": "0.9.2"},
        {"name": "vllm", "version": "0.10"},
        {"name": "no-such", "version": "1"},
        {"name": "verl", "version": None},
    ]
    found = changed("distributions", items=items)
    wheels = {name: value for name, value in found.items() if name.startswith("wheel ")}
    assert wheels == {"wheel torch": NONE, "wheel vllm": "0.10, 0.9.2", "wheel verl": NONE}


def adapter(name: str, state: str, rate: str = "200 Gb/sec (4X HDR)") -> dict[str, Any]:
    port = {"device": name, "state": state, "link_layer": "InfiniBand", "rate": rate}
    return {"name": name, "address": "0000:2a:00.0", "numa_node": 0, "ports": [port]}


def test_rdma() -> None:
    devices: list[Any] = [
        *(adapter(f"mlx5_{number}", "ACTIVE") for number in range(7)),
        adapter("mlx5_7", "DOWN", "10 Gb/sec (1X QDR)"),
        adapter("rxe0", "ACTIVE"),
    ]
    found = traits({"rdma": {"devices": devices, "peer_memory": "mt_peermem", "source": ""}})
    assert found == {
        "RDMA adapters": "7 x mlx5 InfiniBand 200 Gb/sec (4X HDR), "
        "1 x mlx5 InfiniBand 10 Gb/sec (1X QDR), 1 x rxe InfiniBand 200 Gb/sec (4X HDR)",
        "RDMA ports active": "8 of 9",
        "RDMA to card memory": "mt_peermem",
    }
    without = traits({"rdma": {"devices": [], "peer_memory": None}})
    assert without == {"RDMA to card memory": NONE}


def test_a_container() -> None:
    assert traits({"container": {"runtime": "docker"}}) == {"container": "docker"}
    assert traits({"container": {"runtime": None}}) == {"container": "of an unknown kind"}


def test_of_the_boot_parameters_those_that_are_a_hosts_own_are_left_out() -> None:
    own = [
        *("BOOT_IMAGE=/vmlinuz-5.15", "root=/dev/sda2", "ip=10.0.0.7::10.0.0.1", "hostname=gpu07"),
        *("resume=UUID=0c1b2a39-1111-2222-3333-444455556666", "BOOTIF=01-aa-bb-cc-dd-ee-ff"),
        *("rd.lvm.lv=vg/root", "systemd.hostname=gpu07", "initrd=/initrd.img", "inst.ks=http://x"),
        *("cryptdevice=UUID=0C1B2A39-1111-2222-3333-444455556666:x", "net=aa:bb:cc:dd:ee:ff"),
    ]
    shared = ["ro", "quiet", "iommu=pt", "rootflags=noatime", "hugepages=64", "console=ttyS0"]
    found = changed("machine", boot_parameters=[*own, *shared])
    assert found["boot parameters"] == " ".join(sorted(shared))
    assert changed("machine", boot_parameters=own)["boot parameters"] == NONE
    for damaged in ({"unknown": "no /proc/cmdline"}, ["x" * 5000], 7):
        assert "boot parameters" not in changed("machine", boot_parameters=damaged)


def test_a_machine_of_which_less_is_known() -> None:
    found = changed("machine", iommu=None, logical_cpus=None, memory_bytes=None, firmware=None)
    assert found.keys().isdisjoint({"IOMMU", "logical CPUs", "memory", "BIOS", "board"})
    assert changed("machine", iommu=True, glibc=None, virtual_machine="KVM").items() >= {
        "IOMMU": "on",
        "glibc": NONE,
        "virtual machine": "KVM",
    }.items()  # fmt: skip
    for number in (0, -1, True, 2**70, 1.5):
        assert "memory" not in changed("machine", memory_bytes=number)
    firmware = {**HEALTHY["machine"]["firmware"], "bios_date": "", "board": "YZMB"}
    found = changed("machine", firmware=firmware)
    assert (found["BIOS"], found["board"]) == ("4.1.21", "Inspur NF5468 YZMB")


@pytest.mark.parametrize(
    ("gib", "installed"),
    [
        (2014.9, 2048),
        (2013.0, 2048),
        (1951.7, 1984),  # a module of 64 GiB is gone
        (1007.5, 1024),
        (503.6, 512),
        (251.8, 256),
        (376.9, 384),
        (31.2, 32),
        (7.7, 8),
        (0.4, 1),
    ],
)
def test_memory_that_the_kernel_keeps_for_itself_is_no_difference(
    gib: float, installed: int
) -> None:
    assert installed_gib(int(gib * 2**30)) == installed


def test_the_environment_without_what_a_job_sets() -> None:
    variables: dict[str, Any] = {
        "MUSA_VISIBLE_DEVICES": "0,1",
        "MCCL_IB_HCA": "mlx5",
        "LD_PRELOAD": "",
        "NOT_KNOWN": "x",
        "MUSA_HOME": 7,
    }
    found = traits({"environment": {"variables": variables, "partial": False}})
    assert found == {
        "environment MCCL_IB_HCA": "mlx5",
        "environment LD_PRELOAD": "(empty)",
        "environment PATH": NONE,
    }
    assert traits({"environment": {"variables": variables, "partial": True}}) == {}
    assert traits({"environment": {"variables": [], "partial": False}}) == {}


def test_long_values_stay_different() -> None:
    one, other = (
        changed("environment", variables={"PATH": "/opt/bin:" * 100 + end})["environment PATH"]
        for end in ("a", "b")
    )
    assert len(one) == len(other) == LONGEST_VALUE
    assert one != other


def test_values_are_fit_for_a_terminal() -> None:
    found = changed("mcc", version="\x1b[31m5.2.0\n\ud800")
    assert found["mcc"] == "\ufffd[31m5.2.0 \ufffd"


def test_what_other_hosts_have_is_none_where_it_was_looked_for() -> None:
    hosts = [
        {"wheel torch": "2.9.1", "wheel vllm": "0.9.2", "environment PATH": "/bin"},
        {"wheel torch": "2.9.1", "environment PATH": "/bin", "environment MCCL_DEBUG": "INFO"},
        {"Python": "3.10.12"},
    ]
    with_none(hosts)
    assert hosts == [
        {
            "wheel torch": "2.9.1",
            "wheel vllm": "0.9.2",
            "environment PATH": "/bin",
            "environment MCCL_DEBUG": NONE,
        },
        {
            "wheel torch": "2.9.1",
            "wheel vllm": NONE,
            "environment PATH": "/bin",
            "environment MCCL_DEBUG": "INFO",
        },
        {"Python": "3.10.12"},
    ]
