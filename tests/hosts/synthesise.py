"""Write the healthy synthetic hosts, from which the other cases differ in one thing each.

    python tests/hosts/synthesise.py

Tool outputs have the form of the samples in ``tests/samples``; where a value of the described host
is not public, it is one that the public sources do not contradict. Each host says all that is
there (``"unlisted": "not there"``), so a probe that asks something new finds it absent here.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

HOSTS = Path(__file__).parent
LIB = "/usr/lib/x86_64-linux-gnu"
SITE = "/opt/env/lib/python3.10/site-packages"
PYTHON = "/opt/env/bin/python"


class Card(NamedTuple):
    """A product as its host shows it."""

    name: str
    device_id: str
    class_code: str
    memory_mib: int
    capability: tuple[int, int]
    audio: bool


class Software(NamedTuple):
    """One set of versions that goes together."""

    driver: str
    gmi: str
    toolkit: str
    mudnn: str
    mccl: str | None
    torch: str
    torch_musa: str
    label: str
    driver_api: str
    branch: str


S5000 = Card("MTT S5000", "0400", "0x030200", 81920, (3, 1), audio=False)
S4000 = Card("MTT S4000", "0323", "0x030000", 49152, (2, 2), audio=True)
S80 = Card("MTT S80", "0201", "0x030000", 16384, (2, 1), audio=True)

SETS = {
    "4.3.5": Software(
        "3.3.5-server", "2.3.2", "4.3.5", "3.1.5", "2.1.5", "2.7.1", "2.7.1", "", "4.3",
        "release_musa_4.3.5",
    ),
    "5.2.0": Software(
        "5.2.0-server", "2.4.1", "5.2.0", "3.4.0", "2.4.0", "2.9.1", "2.9.1", "+musa5.2.0", "5.2",
        "release_musa_5.2.0",
    ),
    "4.3.1": Software(
        "3.3.1-server", "2.3.2", "4.3.1", "3.1.1", "2.1.1", "2.5.0", "2.5.0", "", "4.3",
        "release_musa_4.3.1",
    ),
    "4.2.0": Software(
        "3.1.0-rc4.2.0-server", "2.1.0", "4.2.0", "3.0.0", None, "2.5.0", "2.5.0", "", "4.2",
        "release_musa_4.2.0",
    ),
}  # fmt: skip

Tables = dict[str, dict[str, Any]]


def synthesise(card: Card, count: int, software: Software, memory_gib: int) -> Tables:
    """The answers of a healthy host."""
    answers: Tables = {
        kind: {}
        for kind in (
            *("files", "folders", "stats", "variables", "programs", "libraries", "loader_cache"),
            *("runs", "platform"),
        )
    }
    machine(answers, memory_gib, iommu=card is S4000)
    hardware(answers, card, count)
    driver(answers, card, count, software)
    toolkit(answers, software, in_use=True)
    runtime(answers, card, count, software)
    python(answers)
    wheels(answers, software)
    torch_child(answers, card, count, software)
    return answers


def machine(answers: Tables, memory_gib: int, *, iommu: bool) -> None:
    """An Ubuntu host of the vendor's list, and a user in the right groups."""
    setting = (
        "intel_iommu=on iommu.passthrough=0"
        if iommu
        else "intel_iommu=off iommu=off iommu.passthrough=1"
    )
    answers["platform"][""] = {
        "kernel": "5.15.0-105-generic",
        "architecture": "x86_64",
        "host_name": None,
        "glibc": "2.35",
        "uid": 1000,
        "groups": ["user", "video", "render"],
        "own_python": "/opt/musadoctor/bin/python",
    }
    answers["resources"] = {"": {"logical_cpus": 128, "memory_bytes": memory_gib * 2**30}}
    answers["files"] |= {
        "/etc/os-release": 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\nID=ubuntu\nVERSION_ID="22.04"\n',
        "/proc/cmdline": f"BOOT_IMAGE=/vmlinuz-5.15.0-105-generic root=/dev/sda2 ro {setting}\n",
        "/proc/version": "Linux version 5.15.0-105-generic (buildd@lcy02) (gcc 11.4.0)\n",
        "/sys/class/dmi/id/sys_vendor": "Inspur\n",
        "/sys/class/dmi/id/product_name": "NF5468\n",
        "/sys/class/dmi/id/bios_vendor": "American Megatrends Inc.\n",
        "/sys/class/dmi/id/bios_version": "4.1.21\n",
        "/sys/class/dmi/id/bios_date": "03/15/2024\n",
        "/sys/class/dmi/id/board_vendor": "Inspur\n",
        "/sys/class/dmi/id/board_name": "NF5468\n",
        "/proc/1/cgroup": "0::/init.scope\n",
        "/proc/self/mountinfo": "25 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw\n",
    }
    answers["variables"] |= {
        "HOME": "~",
        "PATH": "/opt/env/bin:/usr/local/musa/bin:/usr/bin:/bin",
        "VIRTUAL_ENV": "/opt/env",
        "MUSA_HOME": "/usr/local/musa",
        "LD_LIBRARY_PATH": "/usr/local/musa/lib",
    }
    for path in ("/usr/bin", "/bin", "/opt/env/bin", "/usr/lib", LIB):
        folder(answers, path)
    answers["folders"] |= {
        "/sys/kernel/iommu_groups": [str(group) for group in range(40)] if iommu else [],
        "/sys/class/iommu": ["dmar0", "dmar1"] if iommu else [],
    }


def hardware(answers: Tables, card: Card, count: int) -> None:
    """The PCI bus with the cards, their audio functions, and a card of another vendor."""
    bus = "/sys/bus/pci/devices"
    names = ["0000:00:1f.0"]
    pci(answers, f"{bus}/0000:00:1f.0", {"vendor": "0x8086", "class": "0x060100"})
    for address in addresses(count):
        names.append(address)
        pci(
            answers,
            f"{bus}/{address}",
            {
                "vendor": "0x1ed5",
                "device": f"0x{card.device_id}",
                "class": card.class_code,
                "current_link_width": "16",
                "max_link_width": "16",
                "current_link_speed": "16.0 GT/s PCIe",
                "max_link_speed": "16.0 GT/s PCIe",
                "numa_node": "0",
            },
        )
        answers["stats"][f"{bus}/{address}/driver"] = stat(
            "folder", real="/sys/bus/pci/drivers/mtgpu"
        )
        if card.audio:
            sound = f"{address[:-1]}1"
            names.append(sound)
            facts = {"vendor": "0x1ed5", "device": "0x03ff", "class": "0x040100"}
            pci(answers, f"{bus}/{sound}", facts)
    answers["folders"][bus] = names


def driver(answers: Tables, card: Card, count: int, software: Software) -> None:
    """The loaded module and its file, its nodes, libmusa, and the management tool."""
    folder(answers, "/sys/module/mtgpu", ["version"])
    release = software.driver.partition("-")[0]
    module(answers, software.driver)
    answers["runs"]["dmesg"] = {
        "status": "ok",
        "code": 0,
        "out": f"[    0.000000] {answers['files']['/proc/version']}"
        "[   11.402817] mtgpu: loading out-of-tree module taints kernel.\n",
        "note": "2 of 1873 lines kept",
    }
    answers["files"] |= {
        "/sys/module/mtgpu/version": f"{software.driver}\n",
        "/proc/driver/musa/version": f"package version:{release}\n",
    }
    nodes = [f"mtgpu.{index}" for index in range(count)]
    shown = [f"card{index}" for index in range(count)]
    render = [f"renderD{128 + index}" for index in range(count)]
    answers["folders"] |= {"/dev": ["dri", *nodes], "/dev/dri": [*shown, *render]}
    for node in nodes:
        answers["stats"][f"/dev/{node}"] = stat("device", group="render", mode=0o660, usable=True)
    for node in (*shown, *render):
        group = "render" if node.startswith("render") else "video"
        answers["stats"][f"/dev/dri/{node}"] = stat("device", group=group, mode=0o660, usable=True)
        answers["files"][f"/sys/class/drm/{node}/device/vendor"] = "0x1ed5\n"

    library(answers, f"{LIB}/libmusa.so.1", "libmusa.so.1.5.4", ("libc.so.6",))
    library(answers, f"{LIB}/libmtml.so.2", "libmtml.so.2.4.2", ("libc.so.6",))
    answers["loader_cache"]["libm"] = {
        name: f"{LIB}/{name}" for name in ("libmusa.so.1", "libmtml.so.2")
    }
    program(answers, "mthreads-gmi", "/usr/bin/mthreads-gmi")
    answers["runs"]["mthreads-gmi"] = {
        "status": "ok",
        "code": 0,
        "out": table(card, count, software),
    }
    if software.gmi >= "2.3":
        answers["runs"]["mthreads-gmi -q --json"] = {
            "status": "ok",
            "code": 0,
            "out": json.dumps(gmi_json(card, count, software), indent=4) + "\n",
        }


def module(answers: Tables, version: str) -> None:
    """The module as DKMS builds it for the running kernel, with the kernel's headers."""
    kernel = answers["platform"][""]["kernel"]
    modules = f"/lib/modules/{kernel}"
    tree = f"/var/lib/dkms/mtgpu/{version}"
    answers["folders"] |= {
        "/lib/modules": [kernel],
        f"{modules}/updates/dkms": ["mtgpu.ko"],
        "/var/lib/dkms/mtgpu": [version, f"kernel-{kernel}-x86_64"],
        tree: [kernel, "build", "source"],
    }
    answers["stats"] |= {
        f"{modules}/modules.builtin": stat("file", real=f"{modules}/modules.builtin"),
        f"{modules}/build/Makefile": stat("file", real=f"/usr/src/linux-headers-{kernel}/Makefile"),
        f"{tree}/source": stat("folder", executable=True, real=f"/usr/src/mtgpu-{version}"),
    }


def table(card: Card, count: int, software: Software) -> str:
    """The management tool's default output, wide from 2.2 on."""
    wide = software.gmi >= "2.2"
    line = "-" * (69 if wide else 63)
    frame = f"+{line[2:]}+"
    ecc = "On-die, EDC" if card is S5000 else "N/A"
    column = 25 if wide else 19
    head = "     Device Type   Perf" if wide else "     Device Type"
    kind = "     Physical      P0" if wide else "     Physical"
    rows = [
        "Tue Jun 23 17:48:04 2026",
        line,
        f"    mthreads-gmi:{software.gmi}           Driver Version:{software.driver}",
        line,
        f"{'ID   Name':<{column + 1}}|PCIe                |%GPU  Mem",
        f"{head:<{column + 1}}|Pcie Lane Width     |Temp  MPC Capable",
        f"{'':<{column + 22}}|      ECC Mode",
    ]
    for index, address in enumerate(addresses(count)):
        named = f"{index:<5}{card.name}"
        rows += [
            frame,
            f"{named:<{column + 1}}|0000{address:<16}|0%    0MiB({card.memory_mib}MiB)",
            f"{kind:<{column + 1}}|16x(16x)            |48C   YES",
            f"{'':<{column + 22}}|      {ecc}",
        ]
    rows += [
        line,
        "",
        line,
        "Processes:",
        "ID   PID       Process name                         GPU Memory",
        "                                                         Usage",
        frame,
        "   No running processes found",
        line,
    ]
    return "\n".join(rows) + "\n"


def gmi_json(card: Card, count: int, software: Software) -> dict[str, Any]:
    """``mthreads-gmi -q --json``, the keys that are read."""
    return {
        "Timestamp": "Tue Jun 23 17:48:04 2026",
        "Driver Version": software.driver,
        "Attached GPUs": str(count),
        "GPU": [
            {
                "Index": str(index),
                "Product Name": card.name,
                "MTBios Version": "4.3.41",
                "PCI": {"Bus ID": f"0000{address}"},
                "FB Memory Usage": {
                    "Total": f"{card.memory_mib}MiB",
                    "Used": "0MiB",
                    "Free": f"{card.memory_mib}MiB",
                },
                "Power Readings": {"Power Draw ": "96.66W"},
            }
            for index, address in enumerate(addresses(count))
        ],
    }


def toolkit(answers: Tables, software: Software, *, in_use: bool) -> str:
    """A whole Toolkit tree; where it is in use, ``/usr/local/musa`` leads to it."""
    root = f"/usr/local/musa-{software.toolkit}"
    major = software.toolkit[0]
    present = answers["folders"].setdefault("/usr/local", ["bin", "lib"])
    present.append(f"musa-{software.toolkit}")
    programs = ["mcc", "musaInfo", "musa_version_query"]
    libraries = {
        f"libmusart.so.{major}": f"libmusart.so.{software.toolkit}",
        "libmublas.so.1": "libmublas.so.1.9.0",
        "libmufft.so.1": "libmufft.so.1.9.0",
        "libmupti.so.1": "libmupti.so.1.0",
        f"libmudnn.so.{software.mudnn[0]}": f"libmudnn.so.{software.mudnn}",
    }
    if software.mccl:
        libraries["libmccl.so.2"] = f"libmccl.so.{software.mccl}"
    names = sorted({*libraries, *libraries.values()})
    parts = {"musa_toolkits": software.toolkit, "mcc": software.toolkit, "mudnn": software.mudnn}
    if software.mccl:
        parts["mccl"] = software.mccl
    version_file = json.dumps({name: {"version": number} for name, number in parts.items()})
    for base in (root, "/usr/local/musa") if in_use else (root,):
        answers["stats"][base] = stat("folder", executable=True, real=root)
        folder(answers, f"{base}/bin", programs, real=f"{root}/bin")
        folder(answers, f"{base}/lib", names, real=f"{root}/lib")
        answers["files"][f"{base}/version.json"] = version_file
        for soname, target in libraries.items():
            needed = ("libc.so.6",)
            real = f"{root}/lib/{target}"
            answers["libraries"][f"{base}/lib/{soname}"] = elf(soname, needed)
            answers["libraries"][f"{base}/lib/{target}"] = elf(soname, needed)
            answers["stats"][f"{base}/lib/{soname}"] = stat("file", size=2_000_000, real=real)
            answers["stats"][f"{base}/lib/{target}"] = stat("file", size=2_000_000, real=real)
        for name in programs:
            answers["stats"][f"{base}/bin/{name}"] = stat(
                "file", size=90_000, executable=True, real=f"{root}/bin/{name}"
            )
    if in_use:
        present.append("musa")
    return root


def runtime(answers: Tables, card: Card, count: int, software: Software) -> None:
    """What the tools of the Toolkit in use print."""
    root = f"/usr/local/musa-{software.toolkit}"
    program(answers, "mcc", "/usr/local/musa/bin/mcc")
    target = "Target: x86_64-unknown-linux-gnu"
    answers["runs"]["mcc --version"] = {
        "status": "ok",
        "code": 0,
        "out": f"clang version 14.0.0\nmcc version {software.toolkit}\n{target}\n",
    }
    major, minor = card.capability
    device = [
        f"{'Name:':<34}{card.name}",
        f"{'Driver Version:':<34}{software.driver_api}",
        f"{'Runtime Version:':<34}{software.driver_api}",
        f"{'compute capability:':<34}{major}.{minor}",
        f"{'totalGlobalMem:':<34}{card.memory_mib / 1024 - 0.09:.2f} GB",
    ]
    lines = ["", "compiler: mcc"]
    for index in range(count):
        lines += ["-" * 80, f"{'device#':<34}{index}", *device]
    out = "\n".join(lines) + "\n"
    archs = f"{major}{minor}"
    blocks = {
        "musa_toolkits": (software.toolkit, ""),
        "mcc": (software.toolkit, ""),
        "mublas": ("1.9.0", archs),
        "mudnn": (software.mudnn, ""),
        "musa_runtime": (software.toolkit, ""),
    }
    if software.mccl:
        blocks["mccl"] = ("2.11.4", archs)
    query = "".join(
        f'{name}:\n{{\n\t"version":\t"{number}",\n'
        + (f'\t"build archs":\t"{built}",\n' if built else "")
        + f'\t"git branch":\t"{software.branch}",\n\t"git tag":\t"No tag"\n}}\n'
        for name, (number, built) in blocks.items()
    )
    for base in (root, "/usr/local/musa"):
        program(answers, f"{base}/bin/musaInfo", f"{base}/bin/musaInfo")
        answers["runs"][f"{base}/bin/musaInfo"] = {"status": "ok", "code": 0, "out": out}
        answers["runs"][f"{base}/bin/musa_version_query"] = {
            "status": "ok",
            "code": 0,
            "out": query,
        }


def python(answers: Tables) -> None:
    """The interpreter of the active environment."""
    program(answers, PYTHON, PYTHON)
    program(answers, "python3", PYTHON)
    answer = {
        "version": "3.10.12",
        "implementation": "cpython",
        "abiflags": "",
        "prefix": "/opt/env",
        "base_prefix": "/usr",
        "search_path": ["/usr/lib/python310.zip", "/usr/lib/python3.10", SITE],
    }
    answers["runs"]["child:python"] = {
        "status": "ok",
        "code": 0,
        "answer": json.dumps(answer) + "\n",
    }
    folder(answers, "/usr/lib/python3.10", ["os.py"])
    folder(answers, SITE, [])


def wheels(answers: Tables, software: Software) -> None:
    """The vendor's pair, and what comes with it."""
    wheel = "cp310-cp310-linux_x86_64"
    distribution(answers, "torch", software.torch + software.label, wheel, ("filelock", "sympy"))
    distribution(answers, "torch_musa", software.torch_musa + software.label, wheel, ("packaging",))
    distribution(answers, "numpy", "1.26.4", "cp310-cp310-manylinux_2_17_x86_64", ())
    distribution(answers, "triton", "3.2.0", wheel, ())
    folder(answers, f"{SITE}/triton/backends", ["__init__.py", "compiler.py", "mtgpu"])
    files = answers["files"]
    files[f"{SITE}/torch_musa-{software.torch_musa}{software.label}.dist-info/entry_points.txt"] = (
        "[torch.backends]\ntorch_musa = torch_musa:_autoload\n"
    )
    torch = f"{SITE}/torch"
    package = ["__init__.py", "_C.cpython-310-x86_64-linux-gnu.so", "lib", "version.py"]
    answers["folders"][torch] = package
    folder(answers, f"{torch}/lib", ["libc10.so", "libtorch.so", "libtorch_cpu.so"])
    files[f"{torch}/version.py"] = (
        f"__version__ = '{software.torch}{software.label}'\ndebug = False\n"
        "cuda: Optional[str] = None\ngit_version = '0bc05bf'\nhip: Optional[str] = None\n"
    )
    musa = f"{SITE}/torch_musa"
    extension = "_MUSAC.cpython-310-x86_64-linux-gnu.so"
    answers["folders"][musa] = ["__init__.py", extension, "lib", "version.py"]
    folder(answers, f"{musa}/lib", ["libmusa_kernels.so", "libmusa_python.so.1"])
    files[f"{musa}/version.py"] = (
        f"__version__ = '{software.torch_musa}+0bc05bf'\ngit_version = '0bc05bf'\n"
    )
    major = software.toolkit[0]
    needs = [f"libmusart.so.{major}", f"libmudnn.so.{software.mudnn[0]}", "libmusa.so.1"]
    needs += ["libmccl.so.2"] if software.mccl else []
    own = elf(None, ("libmusa_python.so.1", "libtorch.so")) | {"runpath": ["$ORIGIN/lib"]}
    answers["libraries"] |= {
        f"{musa}/{extension}": own,
        f"{musa}/lib/libmusa_python.so.1": elf("libmusa_python.so.1", (*needs, "libc10.so")),
        f"{musa}/lib/libmusa_kernels.so": elf("libmusa_kernels.so", (needs[0], "libc10.so")),
    }


def torch_child(answers: Tables, card: Card, count: int, software: Software) -> None:
    """What torch and torch_musa do when they are used."""
    root = f"/usr/local/musa-{software.toolkit}"
    major = software.toolkit[0]
    mapped = [
        f"{LIB}/libmusa.so.1.5.4",
        f"{root}/lib/libmudnn.so.{software.mudnn}",
        f"{root}/lib/libmusart.so.{software.toolkit}",
        f"{SITE}/torch_musa/lib/libmusa_python.so.1",
    ]
    bf16 = card.capability >= (2, 2)
    lines: list[dict[str, Any]] = []

    def step(name: str, value: object, seconds: float = 0.001) -> None:
        lines.append({"begin": name})
        lines.append({"end": name, "value": value, "seconds": seconds, "warnings": []})

    def failed(name: str, *chain: str) -> None:
        lines.append({"begin": name})
        lines.append({"end": name, "chain": list(chain), "seconds": 0.01, "warnings": []})

    version = f"{software.torch}{software.label}"
    file = f"{SITE}/torch/__init__.py"
    step("import torch", {"version": version, "cuda": None, "file": file}, 3.2)
    step(
        "import torch_musa",
        {
            "version": f"{software.torch_musa}+0bc05bf",
            "toolkit": major + "0" + software.toolkit[2] + "0" + software.toolkit[4],
            "file": f"{SITE}/torch_musa/__init__.py",
        },
        1.1,
    )
    step("mapped libraries", mapped)
    step("is_available", value=True)
    step("device_count", count)
    step("architectures", ["mp_{}{}".format(*card.capability)])
    step("mudnn version", int(software.mudnn.replace(".", "0")))
    available = software.mccl is not None
    reason = None if available else 'torch.distributed knows no backend "mccl"'
    step("mccl backend", {"available": available, "reason": reason})
    step("mccl version", [2, 11, 4] if available else None)
    for index in range(count):
        step(f"device {index}: name", card.name)
        step(f"device {index}: capability", list(card.capability))
        step(f"device {index}: memory", (card.memory_mib - 100) << 20)
    step("bf16 supported", bf16)
    for index in range(count):
        step(f"device {index}: add", value=True)
    for index in range(count):
        name = f"device {index}: bf16 add"
        if bf16:
            step(name, value=True)
        else:
            failed(name, "RuntimeError: MUSA error: operation not supported on bfloat16")
    step("mapped libraries", mapped)
    lines.append({"end": "all"})
    answers["runs"]["child:torch"] = {
        "status": "ok",
        "code": 0,
        "answer": "".join(json.dumps(line) + "\n" for line in lines),
        "seconds": 5.4,
    }


def addresses(count: int) -> list[str]:
    """PCI addresses, as many as there are cards."""
    return [f"0000:{0x18 + 0x10 * index:02x}:00.0" for index in range(count)]


def pci(answers: Tables, path: str, facts: dict[str, str]) -> None:
    for name, value in facts.items():
        answers["files"][f"{path}/{name}"] = f"{value}\n"


def folder(answers: Tables, path: str, names: list[str] | None = None, real: str = "") -> None:
    answers["folders"].setdefault(path, names or [])
    answers["stats"][path] = stat("folder", executable=True, real=real or path)


def program(answers: Tables, name: str, path: str) -> None:
    answers["programs"][name] = {"path": path}


def library(answers: Tables, path: str, target: str, needed: tuple[str, ...]) -> None:
    parent, _, name = path.rpartition("/")
    answers["folders"].setdefault(parent, []).extend([name, target])
    for each in (name, target):
        answers["libraries"][f"{parent}/{each}"] = elf(name, needed)
        answers["stats"][f"{parent}/{each}"] = stat(
            "file", size=30_000_000, real=f"{parent}/{target}"
        )


def distribution(
    answers: Tables, name: str, version: str, tag: str, requires: tuple[str, ...]
) -> None:
    info = f"{name}-{version}.dist-info"
    answers["folders"][SITE] += [name, info]
    folder(answers, f"{SITE}/{info}", ["METADATA", "WHEEL"])
    folder(answers, f"{SITE}/{name}", ["__init__.py"])
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    answers["files"] |= {
        f"{SITE}/{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}\n",
        f"{SITE}/{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }


def stat(
    kind: str,
    *,
    size: int = 4096,
    mode: int = 0o755,
    group: str = "root",
    usable: bool = False,
    executable: bool = False,
    real: str = "",
) -> dict[str, Any]:
    return {
        "kind": kind,
        "size": size,
        "mode": mode,
        "group": group,
        "usable": usable,
        "executable": executable,
        "real": real,
    }


def elf(soname: str | None, needed: tuple[str, ...]) -> dict[str, Any]:
    return {
        "machine": "x86_64",
        "soname": soname,
        "needed": list(needed),
        "rpath": [],
        "runpath": [],
    }


def write(case: str, answers: Tables) -> None:
    header = {
        "format": "musadoctor-recording",
        "version": 1,
        "musadoctor": "0.1.0",
        "taken": "2026-11-30T12:00:00Z",
        "redacted": True,
        "unlisted": "not there",
    }
    path = HOSTS / case / "recording.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**header, "answers": answers}, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    write("s5000-4.3.5", synthesise(S5000, 8, SETS["4.3.5"], 2048))
    write("s5000-5.2.0", synthesise(S5000, 8, SETS["5.2.0"], 2048))
    write("s4000-4.3.1", synthesise(S4000, 8, SETS["4.3.1"], 512))
    write("s80-4.2.0", synthesise(S80, 1, SETS["4.2.0"], 64))


if __name__ == "__main__":
    main()
