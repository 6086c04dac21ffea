"""The kernel driver, its device nodes, and what the management tool says of them."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from musadoctor.api import (
    Absent,
    Container,
    DeviceNode,
    DeviceNodes,
    Finding,
    Fix,
    Gmi,
    Gpu,
    Gpus,
    Judgement,
    KernelDriver,
    KernelLog,
    Layer,
    Machine,
    Messages,
    ModuleFile,
    ToolAnswer,
    Unknown,
    check,
)
from musadoctor_checks._advice import BUG_REPORT, boot_parameters, install, some
from musadoctor_checks._messages import by_message, unless
from musadoctor_checks.hardware import OTHER_OWNERS
from musadoctor_checks.kernel_module import LOAD, cause, wanted

KERNEL_LOG = "sudo dmesg | grep -i mtgpu"
_FAILED = r"(?i)mtgpu.*\b(?:fail|error|can't|cannot)"


@check(
    "driver-not-loaded",
    layer=Layer.DRIVER,
    severity="error",
    said=unless("driver-module-refused", "driver-module-not-built"),
)
def driver_not_loaded(
    gpus: Gpus,
    kernel_driver: KernelDriver | Absent,
    machine: Machine | Unknown,
    container: Container | Absent | Unknown,
    module_file: ModuleFile | Absent | Unknown,
    kernel_log: KernelLog | Absent | Unknown,
) -> Judgement:
    """The kernel module mtgpu is not loaded, though a card is there.

    ## Why it matters

    Without the module there are no device nodes, and no program can reach the card.

    ## How to fix

    Where a cause is seen, another check names it: `driver-not-installed`,
    `driver-module-not-built`, `driver-module-for-other-kernel`, `driver-module-blacklisted`,
    `driver-module-refused`. Otherwise load the module, `modprobe -v mtgpu`; what stands against it
    is then in the kernel log, which may be for root only. In a container all this is to be done on
    the container's host.

    A driver of another release is never the way to get a missing Toolkit library; driver and
    Toolkit are installed separately.

    ## Symptoms

    - `Error: failed to load driver.` (exit code 8)
    - `modprobe: ERROR: could not insert 'mtgpu': Invalid argument`
    - `modprobe: FATAL: Module mtgpu not found`

    ## Sources

    musa-deploy 0.7.0 (2025-08); tutorial_on_musa issue 64 (2025); torch_musa issue 117 (2025-12).
    """
    if isinstance(kernel_driver, KernelDriver):
        if not kernel_driver.loaded:
            yield Unknown(f"whether mtgpu is loaded is not shown: {kernel_driver}")
        return
    if not wanted(gpus):
        yield Unknown("every card is kept for a virtual machine, so mtgpu has nothing to drive")
        return
    if isinstance(container, Container):
        fix = Fix("Load the driver on the container's host, then start the container anew")
    elif explained := cause(module_file, kernel_log):
        yield Absent(f"{kernel_driver}; {explained} says why")
        return
    elif isinstance(module_file, ModuleFile):
        fix = Fix(
            "Load the module; if that fails, the kernel log says why",
            (LOAD, KERNEL_LOG),
        )
    else:
        kernel = machine.kernel if isinstance(machine, Machine) else ""
        headers = install(machine, apt=f"linux-headers-{kernel}", dnf=f"kernel-devel-{kernel}")
        fix = Fix(
            "Install the vendor's driver package if none is installed; otherwise see whether its"
            " module was built for this kernel, and load it",
            ("dkms status", *headers, LOAD),
        )
    built = (
        f"; its file is there: {module_file.path}" if isinstance(module_file, ModuleFile) else ""
    )
    yield Finding(f"{kernel_driver}, with {gpus} on the bus{built}", where="mtgpu", fix=fix)


@check("kernel-driver-versions-disagree", layer=Layer.DRIVER, severity="warning")
def kernel_driver_versions_disagree(
    kernel_driver: KernelDriver, gmi: Gmi | Absent | Unknown
) -> Judgement:
    """The places that state the kernel driver's version do not agree.

    ## Why it matters

    Several places name the version of one loaded driver. When they differ, the usual reason is that
    a driver package was installed and the machine has not been restarted since, so that programs of
    one release talk to a module of another.

    ## How to fix

    Restart the machine when its work allows it, and look again. If the numbers still differ, a
    second driver is installed: `dkms status` lists the modules.

    ## Sources

    `/sys/module/mtgpu/version`, `/proc/driver/musa/version` and `mthreads-gmi`; the reading is
    musadoctor's own.
    """
    stated = [(item.version, item.source) for item in kernel_driver.stated]
    if isinstance(gmi, Gmi) and gmi.driver:
        stated.append((gmi.driver, gmi.source))
    if len({version.key for version, _ in stated}) > 1:
        yield Finding(
            "one driver, several versions: " + ", ".join(f"{v} ({source})" for v, source in stated),
            where=kernel_driver.source,
            fix=Fix(
                "Restart the machine when its work allows it, and look again", ("dkms status",)
            ),
        )


@check("device-nodes-missing", layer=Layer.DRIVER, severity="error")
def device_nodes_missing(
    gpus: Gpus,
    kernel_driver: KernelDriver,
    device_nodes: DeviceNodes | Absent,
    container: Container | Absent | Unknown,
    kernel_log: KernelLog | Absent | Unknown,
) -> Judgement:
    """The driver is loaded, but there are no device nodes for the cards.

    ## Why it matters

    Programs reach a card through `/dev/mtgpu.N` and `/dev/dri/renderD*`. A loaded driver without
    nodes has not taken any card into use.

    ## How to fix

    Read in the kernel log why the driver did not take the card. On a PC, Above 4G Decoding and
    Resizable BAR must be on in the BIOS; on servers the IOMMU has to be as the card needs it.

    ## Symptoms

    - `Error: No MT GPU device found.`
    - `no CUDA-capable device is detected`

    ## Sources

    MUSA SDK 5.2.0 install guide (2026); torch_musa issue 50 (2024-05).
    """
    if isinstance(device_nodes, DeviceNodes):
        return
    if not kernel_driver.loaded:
        yield Unknown(f"whether mtgpu is loaded is not shown: {kernel_driver}")
        return
    if isinstance(container, Container):
        yield Unknown("a container's /dev shows what was passed in, not what the driver made")
        return
    idle = [str(card) for card in gpus.cards if card.kernel_module is None]
    unbound = f"; bound to no module: {some(idle)}" if idle else ""
    messages = kernel_log.messages if isinstance(kernel_log, KernelLog) else ()
    failed = [message.text for message in messages if re.search(_FAILED, message.text)]
    log = f"; the kernel log says {failed[-1]!r}" if failed else ""
    yield Finding(
        f"{device_nodes}, though {kernel_driver} is loaded{unbound}{log}",
        where="/dev",
        fix=Fix("Read in the kernel log why the driver did not take the cards", (KERNEL_LOG,)),
    )


def _not_permitted(id: str, messages: Messages, facts: Mapping[str, object]) -> Judgement:  # noqa: A002
    """A tool's word for it, unless the nodes are shown: then those tell."""
    if not isinstance(facts["device_nodes"], DeviceNodes):
        yield from by_message(id, messages, facts)


@check("device-nodes-not-permitted", layer=Layer.DRIVER, severity="error", said=_not_permitted)
def device_nodes_not_permitted(
    device_nodes: DeviceNodes, container: Container | Absent | Unknown
) -> Judgement:
    """This user may not open the device nodes of the cards.

    ## Why it matters

    The nodes belong to the groups `render` and `video`. A user in neither sees no card at all,
    while the same command works under sudo.

    ## How to fix

    Join the two groups and log in again: a session keeps the groups that it began with. A user of a
    container needs the numbers of these groups as they are on the container's host.

    ## Symptoms

    - `Error: failed to initialize mtml.`
    - `Number of platforms 0` from `clinfo`
    - `/dev/dri/renderD...: Permission denied`

    ## Sources

    MUSA SDK 5.2.0 install guide (2026); musa-deploy 0.7.0 (2025-08).
    """
    for kind in ("mtgpu", "render"):
        of_kind = device_nodes.of_kind(kind)
        nodes = tuple(node for node in of_kind if not node.usable)
        if nodes and len(nodes) < len(of_kind):
            shut = some([node.path for node in nodes], 2)
            yield Unknown(
                f"{device_nodes.user} may not open {shut}, but {len(of_kind) - len(nodes)} of"
                f" {len(of_kind)} {kind} nodes: which cards are meant for it is not known"
            )
        elif nodes:
            shown = some([f"{n.path} (group {n.group}, mode {n.mode:04o})" for n in nodes], 2)
            groups = ", ".join(device_nodes.groups) or "none"
            yield Finding(
                f"{device_nodes.user}, in groups {groups}, may not open {shown}",
                where=nodes[0].path,
                fix=_permission(device_nodes, nodes, container),
            )


def _permission(
    of_user: DeviceNodes, nodes: tuple[DeviceNode, ...], container: Container | Absent | Unknown
) -> Fix:
    owners = {node.group: node.path for node in nodes}
    if isinstance(container, Container):
        options = " ".join(f"--group-add $(stat -c %g {path})" for path in owners.values())
        return Fix(
            f"Start the container anew with {options}, typed in a shell of the container's host"
        )
    lacking = [group for group in ("render", "video") if group not in of_user.groups]
    if any(group in owners for group in lacking):
        return Fix(
            f"Join {' and '.join(lacking)}, then log out and in again",
            (f'sudo usermod -aG {",".join(lacking)} "$USER"',),
        )
    return Fix(
        f"Group and mode are not what the vendor's guide expects (render or video, which may read"
        f" and write): have a udev rule set them for {nodes[0].path} and its like"
    )


@check("gmi-not-found", layer=Layer.DRIVER, severity="warning", said=by_message)
def gmi_not_found(
    kernel_driver: KernelDriver, gmi_answer: ToolAnswer | Absent, container: Container | Absent
) -> Judgement:
    """The management tool mthreads-gmi is not on PATH.

    ## Why it matters

    PyTorch does not need it, but it comes with the driver package: where it is missing, that
    package is often installed by halves. Memory, processes and topology of the cards cannot be
    seen.

    ## How to fix

    Look for `/usr/bin/mthreads-gmi`. Where it is not there, install the driver package of the
    loaded driver's version again.

    ## Symptoms

    - `mthreads-gmi: not found` (exit code 127)

    ## Sources

    musa-deploy 0.7.0 (2025-08).
    """
    if isinstance(gmi_answer, ToolAnswer):
        return
    if isinstance(container, Container):
        yield Unknown("in a container the tool comes from the host, where the runtime passes it in")
        return
    yield Finding(
        f"{gmi_answer}, though {kernel_driver} is loaded",
        where="PATH",
        fix=Fix(
            "See whether the tool is in a folder outside PATH; it comes with the driver package",
            ("ls -l /usr/bin/mthreads-gmi",),
        ),
    )


class _Meaning(NamedTuple):
    """What an error text of the management tool means."""

    pattern: str
    """What is found in the text, in lower case."""
    meaning: str
    fix: Fix


NO_RIGHTS = _Meaning(
    "failed to initialize mtml",
    "this user may not open the device nodes",
    Fix(
        "Join render and video, then log out and in again",
        ('sudo usermod -aG render,video "$USER"',),
    ),
)
_MEANINGS = (
    _Meaning(
        "failed to load driver",
        "the kernel module mtgpu is not loaded, or the driver is installed by halves",
        Fix(
            "Load the module; if it is loaded, install the driver package again",
            ("dkms status", "sudo modprobe -v mtgpu"),
        ),
    ),
    _Meaning(
        "no mt gpu device found|no exist gpu device",
        "the module is loaded, but it could take no card into use (IOMMU, BAR or pass-through)",
        Fix(
            "Read the kernel log; look at the IOMMU settings, and on a PC at Above 4G Decoding and"
            " Resizable BAR in the BIOS",
            (KERNEL_LOG, "lspci -nnk -d 1ed5:"),
        ),
    ),
    NO_RIGHTS,
    _Meaning(
        "^no output$|is an empty file$",
        "the program is an empty file, as a container runtime leaves it with nothing to mount",
        Fix(
            "In a container: repair mt-container-toolkit on the host and start the container anew;"
            " on a host: install the driver package again",
            ("ls -lL $(command -v mthreads-gmi)",),
        ),
    ),
)


def _meaning(error: str) -> _Meaning | None:
    text = error.lower()
    return next((meaning for meaning in _MEANINGS if re.search(meaning.pattern, text)), None)


def _not_whole(
    container: Container | Absent | Unknown, device_nodes: DeviceNodes | Absent | Unknown
) -> str | None:
    """What is wrong with a container, so that the tool's word says nothing of the driver."""
    if not isinstance(container, Container):
        return None
    broken = [str(file) for file in container.files if file.state in {"empty", "dangling"}]
    if broken:
        return f"this container holds broken driver files: {some(broken)}"
    return f"in this container: {device_nodes}" if isinstance(device_nodes, Absent) else None


@check(
    "gmi-reports-error",
    layer=Layer.DRIVER,
    severity="error",
    follows_from=Layer.HARDWARE,
    said=by_message,
)
def gmi_reports_error(
    gmi_answer: ToolAnswer,
    container: Container | Absent | Unknown,
    device_nodes: DeviceNodes | Absent | Unknown,
) -> Judgement:
    """The management tool mthreads-gmi says that it cannot use the cards.

    ## Why it matters

    What stops the tool stops PyTorch too. The exit code means little: `No MT GPU device found`
    comes with exit code 0.

    ## How to fix

    It depends on the text:

    - `failed to load driver`: the kernel module mtgpu is not loaded.
    - `No MT GPU device found`, `there no exist gpu device`: the module is loaded, but took no card
      into use. IOMMU, BAR size or pass-through.
    - `failed to initialize mtml`: this user may not open the device nodes. Where it may, the tool
      was asked too early: right after the module was loaded.
    - no output at all: the program is a file of 0 bytes, which a broken container runtime left.

    ## Symptoms

    - `Error: failed to load driver.`
    - `Error: No MT GPU device found.`
    - `Error: failed to initialize mtml.`
    - `mthread-gmi did not output anything`
    - `mthreads-gmi did not output anything! Please check the underlying drivers and container
      tools`

    ## Sources

    musa-deploy 0.7.0 (2025-08); torch_musa issues 73 and 79 (2024-12, 2025-04); tutorial_on_musa,
    environment FAQ item 4 (2024/2025).
    """
    found = _meaning(gmi_answer.error) if gmi_answer.error else None
    if found is None:
        return
    if reason := _not_whole(container, device_nodes):
        yield Unknown(reason)
        return
    meaning, fix = found.meaning, found.fix
    if found is NO_RIGHTS and isinstance(device_nodes, DeviceNodes):
        shut = [node.path for node in device_nodes.nodes if not node.usable]
        if not shut:
            meaning = f"usually missing rights, but {device_nodes.user} may open all device nodes"
            fix = Fix("Read the kernel log; once right after the module was loaded, try again")
    yield Finding(
        f"{gmi_answer} (exit code {gmi_answer.exit_code}): {meaning}",
        where=gmi_answer.command,
        fix=fix,
    )


@check("gmi-query-fails", layer=Layer.DRIVER, severity="warning", follows_from=Layer.HARDWARE)
def gmi_query_fails(
    gmi_answer: ToolAnswer,
    container: Container | Absent | Unknown,
    device_nodes: DeviceNodes | Absent | Unknown,
) -> Judgement:
    """The management tool mthreads-gmi fails for a reason that musadoctor does not know.

    ## Why it matters

    The tool may fail on its own account while PyTorch works. `the requested operation is not
    available on target device` comes now and then on healthy hosts.

    ## How to fix

    Run the tool again, and under sudo. If it goes on failing, gather the vendor's report with
    `sudo mthreads-bug-report.sh`.

    ## Symptoms

    - `Error: the requested operation is not available on target device`

    ## Sources

    musa-deploy 0.7.0 (2025-08); 61 commands on an S5000 with driver 3.3.5-server (2026-07).
    """
    if gmi_answer.error is None or _meaning(gmi_answer.error):
        return
    if reason := _not_whole(container, device_nodes):
        yield Unknown(reason)
        return
    yield Finding(
        f"{gmi_answer} (exit code {gmi_answer.exit_code})",
        where=gmi_answer.command,
        fix=Fix(
            "Run the tool again; if it goes on failing, gather the vendor's report", (BUG_REPORT,)
        ),
    )


@check("gmi-and-pci-disagree", layer=Layer.DRIVER, severity="warning")
def gmi_and_pci_disagree(gpus: Gpus, gmi: Gmi, container: Container | Absent) -> Judgement:
    """The management tool lists other cards than the PCI bus has.

    ## Why it matters

    A card on the bus that the driver does not list has failed or was refused by the driver, and
    PyTorch will not see it either. In a container fewer cards are normal, and not judged.

    ## How to fix

    Read in the kernel log what became of the card. A card that fell off comes back after a restart
    of the machine, if at all.

    ## Sources

    Own comparison of `mthreads-gmi` with `/sys/bus/pci/devices`.
    """
    if isinstance(container, Container):
        return
    listed = {card.bus_id for card in gmi.cards}
    on_bus = {card.address for card in gpus.cards}
    unlisted = [
        str(card)
        for card in gpus.cards
        if card.address not in listed and card.kernel_module not in OTHER_OWNERS
    ]
    extra = [
        f"{card.name} at {card.bus_id}"
        for card in gmi.cards
        if card.bus_id not in on_bus and card.device_type != "Virtual"
    ]
    if unlisted:
        yield Finding(
            f"{gmi.program} lists {len(gmi.cards)} cards, and not {some(unlisted)}, which the PCI"
            " bus has",
            where=gmi.source,
            fix=Fix("Read in the kernel log what became of the card", (KERNEL_LOG,)),
        )
    if extra:
        yield Finding(
            f"{gmi.program} lists {some(extra)}, which {gpus.source} does not have",
            where=gmi.source,
            fix=Fix("Compare with what lspci shows", ("lspci -nnk -d 1ed5:",)),
        )


PLAUSIBLE = 0.9
"""Share of the product's memory below which the size is wrong; ECC may take a little of it."""


@check(
    "gpu-memory-misreported",
    layer=Layer.DRIVER,
    severity="warning",
    follows_from=Layer.HARDWARE,
)
def gpu_memory_misreported(gpus: Gpus, gmi: Gmi, machine: Machine | Unknown) -> Judgement:
    """A card shows less memory than its product has, or more in use than it has.

    ## Why it matters

    Programs cannot use the rest of the memory. On the S4000, 32768 MiB in place of 49152 MiB is the
    sign that the IOMMU is off or not in effect.

    ## How to fix

    S4000: switch on the IOMMU in the BIOS and in the boot parameters, and restart. For other cards
    no cause is known in public: compare with a second card and gather the vendor's report.

    ## Symptoms

    - `44302MiB(32768MiB)` in the table of `mthreads-gmi`

    ## Sources

    tutorial_on_musa, environment FAQ item 5 (2024-11); product table of musa-deploy 0.7.0
    (2025-08).
    """
    of_address = {card.address: card for card in gpus.cards}
    for card in gmi.cards:
        gpu = of_address.get(card.bus_id)
        total = card.total_mib
        if total is None or card.device_type not in {None, "Physical"}:
            continue
        wrong: list[str] = []
        if gpu and gpu.memory_mib and total < gpu.memory_mib * PLAUSIBLE:
            wrong.append(f"{total} MiB of the {gpu.memory_mib} MiB that the product has")
        if card.used_mib is not None and card.used_mib > total:
            wrong.append(f"{card.used_mib} MiB in use of {total} MiB")
        if wrong:
            yield Finding(
                f"card {card.ordinal}, {card.name} at {card.bus_id}: {gmi.program} shows"
                f" {', and '.join(wrong)}",
                where=card.bus_id,
                fix=_memory_fix(gpu, machine),
            )


def _memory_fix(gpu: Gpu | None, machine: Machine | Unknown) -> Fix:
    if gpu and gpu.product == "MTT S4000":
        return Fix(
            "The IOMMU is off or not in effect. Switch VT-d or AMD-Vi on in the BIOS. "
            + boot_parameters(
                machine, "intel_iommu=on (AMD, Hygon: amd_iommu=on) iommu.passthrough=0"
            )
        )
    return Fix(
        "Compare with a second card of this kind, and gather the vendor's report", (BUG_REPORT,)
    )


LAST_FOR_OLDER_DRIVERS = (4, 3, 43)
FIRST_FOR_NEWER_MTBIOS = (5, 2, 0)


@check("mtbios-newer-than-driver", layer=Layer.DRIVER, severity="note")
def mtbios_newer_than_driver(gpus: Gpus, gmi: Gmi) -> Judgement:
    """The firmware of an S5000 is newer than the driver expects.

    ## Why it matters

    With an mtbios newer than 4.3.43, the counters of memory errors (EDC) need driver 5.2.0, dcgm
    1.1.6 and mtml 2.4.2. Computing is not affected.

    ## How to fix

    Nothing, unless the EDC counters are watched. Then take the driver, dcgm and mtml of SDK 5.2.0.

    ## Sources

    MUSA SDK 5.2.0 release notes (2026).
    """
    products = {card.address: card.product for card in gpus.cards}
    for card in gmi.cards:
        numbers = (card.mtbios or "").split(".")
        if products.get(card.bus_id) != "MTT S5000" or not all(n.isdecimal() for n in numbers):
            continue
        newer = tuple(int(n) for n in numbers) > LAST_FOR_OLDER_DRIVERS
        if newer and gmi.driver and gmi.driver.key < FIRST_FOR_NEWER_MTBIOS:
            yield Finding(
                f"card {card.ordinal} has mtbios {card.mtbios}, newer than 4.3.43, with driver"
                f" {gmi.driver}: its EDC counters need driver 5.2.0",
                where=card.bus_id,
                fix=Fix("Nothing, unless the EDC counters of memory errors are watched"),
            )
