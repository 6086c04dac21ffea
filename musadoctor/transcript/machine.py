"""What ordinary tools say of the machine: uname, os-release, lspci, lsmod, the environment."""

import re
from collections.abc import Sequence

from musadoctor.probes.environment import VARIABLES
from musadoctor.probes.pci import BUS
from musadoctor.system import Stat
from musadoctor.transcript.pieces import PLATFORM, STATED, Answer, Piece
from musadoctor.transcript.text import Line

FOLDER = Stat("folder", 0, 0o755, "root", usable=False, executable=True, real="")

_UNAME = re.compile(r"^Linux \S{1,64} (\d\S{2,80}) .{0,200}\b(x86_64|aarch64|loongarch64)\b")
_KERNEL = re.compile(
    r"(?i)(?:kernel|内核)\D{0,24}?(?<![\d.])"
    r"(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?-\d{1,4}[\w.-]{0,40}|[2-7]\.\d{1,3}\.\d{1,3}\b|4\.19\b)"
)
_KERNEL_BUILD = re.compile(
    r"(?<![\w.])(\d\.\d{1,2}\.\d{1,3}(?:-\d{1,4})?-(?:generic|server|microsoft\S{0,40}|lowlatency))"
)
_RELEASE_OF = re.compile(r"^(?:NAME|VERSION|VERSION_ID|PRETTY_NAME|ID)=\S")
_DESCRIPTION = re.compile(
    r"(?i)\b(Ubuntu|Debian|CentOS|Kylin|UOS|openEuler|Fedora|Anolis)[ \t-]?(?:Linux[ \t])?V?(\d{1,2}(?:\.\d{1,2})?)?"
)
_CHINESE_OS = (("麒麟", "Kylin"), ("统信", "UOS"))
_ARCHITECTURES = (
    (
        "aarch64",
        re.compile(
            r"(?i)\b(?:aarch64|arm64|arm架构|kunpeng|phytium|ft-2000\w*|d2000)\b|鲲鹏|飞腾|\bARM (?:CPU|server|host|machine|平台|架构|服务器)|(?-i:\bARM\b)"
        ),
    ),
    ("loongarch64", re.compile(r"(?i)\b(?:loongarch\w*|loongson\w*|3a[56]000)\b|龙芯")),
    ("x86_64", re.compile(r"(?i)\b(?:x86_64|amd64|x86-64)\b")),
)
_WSL = re.compile(r"(?i)\bWSL ?2?\b|microsoft-(?:standard-)?wsl")
_WINDOWS = re.compile(
    r"(?i)\bwindows ?(?:1[01]|7|8|server)?(?= *(?:$|[.,;!?\u3002\uff0c)]|系统|平台|下|上|版|环境|host|machine|pc|platform|support))"
    r"|\bwin ?(?:10|11)\b|\bwin_amd64\b"
)
_LINUX = re.compile(r"(?i)\b(?:ubuntu|debian|centos|kylin|uos|wsl)\b|/usr/|/home/|麒麟")
_LSPCI = re.compile(
    r"^[ \t]*((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])[ \t]+(.{1,200})", re.IGNORECASE
)
_LSPCI_N = re.compile(r"\b(03\d\d):[ \t]*1ed5:([0-9a-f]{4})", re.IGNORECASE)
_LSPCI_NN = re.compile(r"\[(03\d\d)\].*\[1ed5:([0-9a-f]{4})\]", re.IGNORECASE)
_LSPCI_DEVICE = re.compile(
    r"(?:VGA|3D|Display).*(?:Moore Threads.*Device|1ed5)[ :]([0-9a-f]{4})\b", re.IGNORECASE
)
_DRIVER_IN_USE = re.compile(r"^[ \t]*Kernel driver in use:[ \t]*(\S{1,40})")
_LSMOD = re.compile(r"^(\w{2,40})[ \t]+\d{3,12}[ \t]+\d{1,4}\b")
_LSMOD_HEAD = re.compile(r"^Module[ \t]+Size[ \t]+Used")
_NAMES = "|".join(sorted(map(re.escape, VARIABLES), key=len, reverse=True))
_ASSIGNED = re.compile(
    rf"^[ \t]*(?:export[ \t]+|ENV[ \t]+|set[ \t]+|declare -x )?({_NAMES})[ \t]?[:=][ \t]?([^\s;&|]*)"
    rf"(?=$|[ \t]*(?:\\|[;&|#]|$))"
)


def uname(lines: Sequence[Line]) -> list[Piece]:
    """The kernel and the processor."""
    pieces: list[Piece] = []
    for line in lines:
        answers: list[Answer] = []
        text = line.text
        if found := _UNAME.search(text):
            answers += [(PLATFORM, "kernel", found[1]), (PLATFORM, "architecture", found[2])]
        elif found := (_KERNEL_BUILD.search(text) or _KERNEL.search(text)):
            answers.append((PLATFORM, "kernel", _full(found[1])))
        elif _WSL.search(text):
            answers += [
                (PLATFORM, "wsl", text),
                ("files", "/proc/version", "stated: Microsoft WSL"),
            ]
        if not (answers and answers[0][1] == "wsl"):
            for name, pattern in _ARCHITECTURES:
                if pattern.search(text):
                    answers.append((PLATFORM, "architecture", name))
                    break
        if answers:
            pieces.append(Piece("kernel or processor", line, line, tuple(answers)))
    return pieces


def _full(kernel: str) -> str:
    """``5.15.0-113`` of ``5.15-113``."""
    number, dash, build = kernel.partition("-")
    return f"{number}.0{dash}{build}" if number.count(".") == 1 and dash else kernel


def distribution(lines: Sequence[Line]) -> list[Piece]:
    """The operating system, by os-release, lsb_release or a sentence."""
    release = [line for line in lines if _RELEASE_OF.match(line.text)]
    if release:
        text = "".join(f"{line.text}\n" for line in release)
        return [Piece("os-release", release[0], release[-1], (("files", "/etc/os-release", text),))]
    for line in lines:
        found = _DESCRIPTION.search(line.text)
        chinese = next((name for word, name in _CHINESE_OS if word in line.text), "")
        if found or chinese:
            name = found[1] if found else chinese
            number = (found[2] or "") if found else ""
            text = (
                f'NAME="{name}"\nVERSION_ID="{number}"\nID={name.lower()}\n'
                f'PRETTY_NAME="{f"{name} {number}".strip()} (stated)"\n'
            )
            answers: tuple[Answer, ...] = (
                ("files", "/etc/os-release", text),
                (PLATFORM, "distribution", name),
            )
            return [Piece("operating system", line, line, answers)]
    return []


def windows(lines: Sequence[Line]) -> list[Piece]:
    """Windows, where nothing in the text is of Linux."""
    if any(_LINUX.search(line.text) for line in lines):
        return []
    named = [line for line in lines if _WINDOWS.search(line.text)]
    return [Piece("Windows", line, line, ((STATED, "windows", line.text),)) for line in named[:1]]


def lspci(lines: Sequence[Line]) -> list[Piece]:
    """Cards on the bus, by ``lspci`` in any of its forms."""
    answers: list[Answer] = []
    addresses: list[str] = []
    shown: list[Line] = []
    for line in lines:
        if (
            addresses
            and (driver := _DRIVER_IN_USE.match(line.text))
            and shown[-1].number + 4 > line.number
        ):
            real = f"/sys/bus/pci/drivers/{driver[1]}"
            answers.append(("stats", f"{BUS}/{addresses[-1]}/driver", FOLDER._replace(real=real)))
            continue
        placed = _LSPCI.match(line.text)
        if placed is None:
            continue
        rest = placed[2]
        found = _LSPCI_N.search(rest) or _LSPCI_NN.search(rest)
        device = found[2] if found else ""
        if not device and (plain := _LSPCI_DEVICE.search(rest)):
            device = plain[1]
        if not device:
            continue
        short = placed[1].lower()
        address = short if short.count(":") == 2 else f"0000:{short}"  # noqa: PLR2004
        if address in addresses:
            continue
        addresses.append(address)
        shown.append(line)
        path = f"{BUS}/{address}"
        answers += [
            ("files", f"{path}/vendor", "0x1ed5\n"),
            ("files", f"{path}/device", f"0x{device.lower()}\n"),
            ("files", f"{path}/class", f"0x{found[1] if found else '0300'}00\n"),
        ]
    if not addresses:
        return []
    answers.append(("folders", BUS, tuple(addresses)))
    return [Piece("lspci", shown[0], shown[-1], tuple(answers))]


def lsmod(lines: Sequence[Line]) -> list[Piece]:
    """Whether ``mtgpu`` is loaded."""
    for line in lines:
        found = _LSMOD.match(line.text)
        if found and found[1] == "mtgpu":
            answer: Answer = (
                "stats",
                "/sys/module/mtgpu",
                FOLDER._replace(real="/sys/module/mtgpu"),
            )
            return [Piece("lsmod", line, line, (answer,))]
    return []


def variables(lines: Sequence[Line]) -> list[Piece]:
    """Assignments of MUSA's variables, as a shell, ``env`` or a Dockerfile has them."""
    pieces: list[Piece] = []
    for line in lines:
        text = line.text.replace("ENV ", "", 1)
        if found := _ASSIGNED.match(text):
            answer: Answer = ("variables", found[1], found[2].strip("\"'"))
            pieces.append(Piece(f"{found[1]}", line, line, (answer,)))
    return pieces
