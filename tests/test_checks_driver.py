"""The checks of the driver and its tool: what they fire on, stay silent on, and cannot tell."""

import pytest
from given import (
    ALINUX,
    CARDS,
    DOCKER,
    HEALTHY,
    KYLIN,
    NODES,
    S80,
    S4000,
    S5000,
    advice,
    fixes,
    gmi,
    gmi_card,
    gpus,
    kernel_driver,
    said,
    skipped,
    unknown,
)

from musadoctor.api import (
    Absent,
    Check,
    Container,
    DeviceNode,
    DeviceNodes,
    InjectedFile,
    KernelDriver,
    KernelLog,
    KernelMessage,
    ToolAnswer,
    Unknown,
)
from musadoctor_checks import driver as family

NOT_LOADED = Absent("the kernel module mtgpu is not loaded: no /sys/module/mtgpu")
NO_NODES = Absent("no /dev/mtgpu.N, and no node of vendor 1ed5 in /dev/dri")
NOT_CONTAINER = HEALTHY["container"]
UNSEEN = Unknown("not found out")
AT_VM = S5000._replace(kernel_module="vfio-pci")
IDLE = S5000._replace(kernel_module=None)


def test_the_driver_is_not_loaded() -> None:
    (message,) = said(family.driver_not_loaded, kernel_driver=NOT_LOADED)
    assert message == f"{NOT_LOADED.reason}, with {CARDS} on the bus"
    assert said(family.driver_not_loaded) == ()
    assert skipped(family.driver_not_loaded, kernel_driver=NOT_LOADED, gpus=Absent("none"))


@pytest.mark.parametrize(
    ("machine", "headers"),
    [
        (HEALTHY["machine"], ["sudo apt install linux-headers-5.15.0-105-generic"]),
        (ALINUX, ["sudo dnf install kernel-devel-5.15.0-105-generic"]),
        (KYLIN, []),
        (UNSEEN, []),
    ],
)
def test_the_module_is_built_with_the_headers_of_this_kernel(
    machine: object, headers: list[str]
) -> None:
    commands = ("dkms status", *headers, "sudo modprobe -v mtgpu")
    found = fixes(family.driver_not_loaded, kernel_driver=NOT_LOADED, machine=machine)
    assert found == (commands,)


def test_a_container_cannot_load_the_driver() -> None:
    facts = {"kernel_driver": NOT_LOADED, "container": DOCKER}
    assert fixes(family.driver_not_loaded, **facts) == ((),)
    assert "container's host" in advice(family.driver_not_loaded, **facts)


def test_cards_of_virtual_machines_need_no_driver_here() -> None:
    facts = {"kernel_driver": NOT_LOADED, "gpus": gpus(AT_VM, AT_VM)}
    assert "virtual machine" in unknown(family.driver_not_loaded, **facts)
    facts["gpus"] = gpus(AT_VM, IDLE)
    assert len(said(family.driver_not_loaded, **facts)) == 1


@pytest.mark.parametrize(
    ("driver", "tool", "fires"),
    [
        (kernel_driver("3.3.5-server", "3.3.5"), gmi(CARDS, "3.3.5-server"), False),
        (kernel_driver("3.3.5"), gmi(CARDS, "5.1.0-server"), True),
        (kernel_driver("3.3.5", "5.1.0"), UNSEEN, True),
        (kernel_driver("3.3.5"), gmi(CARDS)._replace(driver=None), False),
        (kernel_driver(), gmi(CARDS), False),
    ],
)
def test_the_versions_of_the_driver_disagree(
    driver: KernelDriver, tool: object, *, fires: bool
) -> None:
    messages = said(family.kernel_driver_versions_disagree, kernel_driver=driver, gmi=tool)
    assert bool(messages) is fires
    assert all("3.3.5" in message and "5.1.0" in message for message in messages)


def test_device_nodes_are_missing() -> None:
    (message,) = said(family.device_nodes_missing, device_nodes=NO_NODES)
    assert message.endswith("is loaded")
    cards = gpus(IDLE, S5000)
    (message,) = said(family.device_nodes_missing, device_nodes=NO_NODES, gpus=cards)
    assert message.endswith("bound to no module: MTT S5000 at 0000:10:00.0")
    lines = ("mtgpu: init", "mtgpu 0000:10:00.0: probe failed", "mtgpu: error -12", "mtgpu: end")
    log = KernelLog(tuple(KernelMessage(1.0, line) for line in lines), since_start=True)
    (message,) = said(family.device_nodes_missing, device_nodes=NO_NODES, kernel_log=log)
    assert message.endswith("is loaded; the kernel log says 'mtgpu: error -12'")
    (message,) = said(family.device_nodes_missing, device_nodes=NO_NODES, kernel_log=UNSEEN)
    assert message.endswith("is loaded")
    assert said(family.device_nodes_missing) == ()
    stated = kernel_driver("3.3.5-server")._replace(loaded=False)
    reason = unknown(family.device_nodes_missing, device_nodes=NO_NODES, kernel_driver=stated)
    assert reason == f"whether mtgpu is loaded is not shown: {stated}"
    assert "container" in unknown(
        family.device_nodes_missing, device_nodes=NO_NODES, container=DOCKER
    )


def nodes(user: str, groups: tuple[str, ...], *owners: tuple[str, str]) -> DeviceNodes:
    """Nodes that the user may not open, by kind and group; a card's node beside them."""
    closed = [
        DeviceNode(f"/dev/{kind}{i}", kind, 0o660, group, usable=False)
        for i, (kind, group) in enumerate(owners)
    ]
    card = DeviceNode("/dev/dri/card0", "card", 0o660, "video", usable=False)
    return DeviceNodes((*closed, card), user, groups)


def test_device_nodes_that_this_user_may_not_open() -> None:
    closed = nodes("uid 1000", ("user",), ("mtgpu", "render"), ("render", "render"))
    assert said(family.device_nodes_not_permitted, device_nodes=closed) == (
        "uid 1000, in groups user, may not open /dev/mtgpu0 (group render, mode 0660)",
        "uid 1000, in groups user, may not open /dev/render1 (group render, mode 0660)",
    )
    join = ('sudo usermod -aG render,video "$USER"',)
    assert fixes(family.device_nodes_not_permitted, device_nodes=closed) == (join, join)


def test_only_the_lacking_group_is_joined() -> None:
    closed = nodes("uid 1000", ("video",), ("render", "render"))
    assert fixes(family.device_nodes_not_permitted, device_nodes=closed) == (
        ('sudo usermod -aG render "$USER"',),
    )
    assert "log out" in advice(family.device_nodes_not_permitted, device_nodes=closed)


@pytest.mark.parametrize(
    "closed",
    [
        nodes("uid 1000", (), ("mtgpu", "root")),
        nodes("uid 1000", ("render", "video"), ("mtgpu", "render")),
    ],
)
def test_nodes_with_other_owners_or_modes_need_a_rule(closed: DeviceNodes) -> None:
    assert fixes(family.device_nodes_not_permitted, device_nodes=closed) == ((),)
    assert "udev rule" in advice(family.device_nodes_not_permitted, device_nodes=closed)


def test_a_container_takes_the_numbers_of_its_hosts_groups() -> None:
    closed = nodes("uid 1000", ("user",), ("render", "109"), ("render", "109"))
    facts = {"device_nodes": closed, "container": DOCKER}
    assert fixes(family.device_nodes_not_permitted, **facts) == ((),)
    assert "--group-add $(stat -c %g /dev/render1)" in advice(
        family.device_nodes_not_permitted, **facts
    )


def test_nodes_of_which_some_can_be_opened_are_not_cleared() -> None:
    first, *others = NODES.nodes
    shut = first._replace(path="/dev/mtgpu.9", usable=False)
    mixed = NODES._replace(nodes=(first, shut, *others))
    reason = unknown(family.device_nodes_not_permitted, device_nodes=mixed)
    assert "may not open /dev/mtgpu.9, but " in reason
    assert said(family.device_nodes_not_permitted) == ()


def test_the_tool_is_missing() -> None:
    absent = Absent("no mthreads-gmi, zjlab-gmi, mthreads-smi on PATH")
    (message,) = said(family.gmi_not_found, gmi_answer=absent)
    assert message.startswith(absent.reason)
    assert said(family.gmi_not_found) == ()
    assert skipped(family.gmi_not_found, gmi_answer=absent, kernel_driver=NOT_LOADED)
    assert "container" in unknown(family.gmi_not_found, gmi_answer=absent, container=DOCKER)


def answer(error: str, code: int = 1) -> ToolAnswer:
    return ToolAnswer("mthreads-gmi", code, error)


@pytest.mark.parametrize(
    ("error", "code", "meaning", "command"),
    [
        ("Error: failed to load driver.", 8, "mtgpu is not loaded", "sudo modprobe -v mtgpu"),
        ("Error: No MT GPU device found.", 0, "IOMMU", "lspci -nnk -d 1ed5:"),
        ("Error: there no exist gpu device", 1, "IOMMU", "lspci -nnk -d 1ed5:"),
        (
            "Error: failed to initialize mtml.",
            1,
            "may not open",
            'sudo usermod -aG render,video "$USER"',
        ),
        ("no output", 0, "an empty file", "ls -lL $(command -v mthreads-gmi)"),
        (
            "/usr/bin/mthreads-gmi is an empty file",
            126,
            "an empty file",
            "ls -lL $(command -v mthreads-gmi)",
        ),
    ],
)
def test_known_errors_of_the_tool(error: str, code: int, meaning: str, command: str) -> None:
    shut = NODES._replace(nodes=tuple(node._replace(usable=False) for node in NODES.nodes))
    facts = {"gmi_answer": answer(error, code), "device_nodes": shut}
    (message,) = said(family.gmi_reports_error, **facts)
    assert message.startswith(f"mthreads-gmi: {error} (exit code {code}): ")
    assert meaning in message
    assert command in fixes(family.gmi_reports_error, **facts)[0]
    assert said(family.gmi_query_fails, **facts) == ()


def test_mtml_that_does_not_start_with_all_rights() -> None:
    facts = {"gmi_answer": answer("Error: failed to initialize mtml.", 1)}
    (message,) = said(family.gmi_reports_error, **facts)
    assert message.endswith(f"missing rights, but {NODES.user} may open all device nodes")
    assert "right after the module was loaded" in advice(family.gmi_reports_error, **facts)


@pytest.mark.parametrize(
    "error",
    [
        "Error: the requested operation is not available on target device",
        "exit code 4, no output",
    ],
)
def test_other_errors_of_the_tool(error: str) -> None:
    facts = {"gmi_answer": answer(error)}
    assert said(family.gmi_query_fails, **facts) == (f"mthreads-gmi: {error} (exit code 1)",)
    assert said(family.gmi_reports_error, **facts) == ()


def test_a_tool_that_answers() -> None:
    assert said(family.gmi_reports_error) == ()
    assert said(family.gmi_query_fails) == ()


@pytest.mark.parametrize("check", [family.gmi_reports_error, family.gmi_query_fails])
def test_the_tool_says_nothing_of_the_driver_in_a_broken_container(check: Check) -> None:
    known = check is family.gmi_reports_error
    facts: dict[str, object] = {"gmi_answer": answer("no output" if known else "something new")}
    empty = InjectedFile("/usr/bin/mthreads-gmi", "empty")
    broken = Container("docker", (), (InjectedFile("/lib/libmusa.so.1", "ok"), empty))
    assert "/usr/bin/mthreads-gmi (empty)" in unknown(check, container=broken, **facts)
    assert NO_NODES.reason in unknown(check, container=DOCKER, device_nodes=NO_NODES, **facts)
    assert len(said(check, container=DOCKER, **facts)) == 1


def test_the_tool_lists_fewer_cards_than_the_bus() -> None:
    cards = gpus(S5000, S5000, AT_VM)
    tool = gmi(gpus(S5000))
    (message,) = said(family.gmi_and_pci_disagree, gpus=cards, gmi=tool)
    assert message == (
        "mthreads-gmi lists 1 cards, and not MTT S5000 at 0000:11:00.0, which the PCI bus has"
    )
    assert said(family.gmi_and_pci_disagree) == ()
    facts = {"gpus": cards, "gmi": tool, "container": DOCKER}
    assert said(family.gmi_and_pci_disagree, **facts) == ()


def test_the_tool_lists_a_card_that_the_bus_does_not_have() -> None:
    cards = gpus(S80)
    more = gmi(gpus(S80, S80))
    assert said(family.gmi_and_pci_disagree, gpus=cards, gmi=more) == (
        "mthreads-gmi lists MTT S80 at 0000:11:00.0, which /sys/bus/pci/devices does not have",
    )
    virtual = more._replace(cards=(more.cards[0], more.cards[1]._replace(device_type="Virtual")))
    assert said(family.gmi_and_pci_disagree, gpus=cards, gmi=virtual) == ()


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (
            {"total_mib": 32768, "used_mib": 44302},
            "32768 MiB of the 49152 MiB that the product has, and 44302 MiB in use of 32768 MiB",
        ),
        ({"total_mib": 32768}, "32768 MiB of the 49152 MiB that the product has"),
        ({"used_mib": 50000}, "50000 MiB in use of 49152 MiB"),
        ({"total_mib": 46000}, None),
        ({"total_mib": None}, None),
        ({"used_mib": None}, None),
        ({"total_mib": 16384, "device_type": "Virtual"}, None),
        ({"total_mib": 16384, "bus_id": "0000:99:00.0"}, None),
        ({}, None),
    ],
)
def test_the_memory_of_a_card(shown: dict[str, object], message: str | None) -> None:
    cards = gpus(S4000)
    tool = gmi(cards)
    tool = tool._replace(cards=(tool.cards[0]._replace(**shown),))  # type: ignore[arg-type]
    messages = said(family.gpu_memory_misreported, gpus=cards, gmi=tool)
    if message is None:
        assert messages == ()
    else:
        assert messages == (f"card 0, MTT S4000 at 0000:10:00.0: mthreads-gmi shows {message}",)
        assert "intel_iommu=on" in advice(family.gpu_memory_misreported, gpus=cards, gmi=tool)


def test_the_memory_of_other_cards_has_no_known_cause() -> None:
    for card in (S80, S80._replace(memory_mib=None)):
        cards = gpus(card)
        shown = gmi_card(cards.cards[0])._replace(total_mib=8192, used_mib=9000)
        tool = gmi(cards)._replace(cards=(shown,))
        assert fixes(family.gpu_memory_misreported, gpus=cards, gmi=tool) == (
            ("sudo mthreads-bug-report.sh",),
        )


@pytest.mark.parametrize(
    ("card", "mtbios", "driver", "fires"),
    [
        (S5000, "4.3.44", "3.3.5-server", True),
        (S5000, "4.3.43", "3.3.5-server", False),
        (S5000, "4.3.44", "5.2.0", False),
        (S5000, "N/A", "3.3.5-server", False),
        (S5000, None, "3.3.5-server", False),
        (S5000, "5.0.0", "no number", False),
        (S4000, "29358.1.59", "2.7.0", False),
    ],
)
def test_mtbios(card: object, mtbios: str | None, driver: str, *, fires: bool) -> None:
    cards = gpus(card)  # type: ignore[arg-type]
    tool = gmi(cards, driver)
    tool = tool._replace(cards=(tool.cards[0]._replace(mtbios=mtbios),))
    messages = said(family.mtbios_newer_than_driver, gpus=cards, gmi=tool)
    wanted = (
        "card 0 has mtbios 4.3.44, newer than 4.3.43, with driver 3.3.5-server: its EDC counters"
        " need driver 5.2.0"
    )
    assert messages == ((wanted,) if fires else ())
