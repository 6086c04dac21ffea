"""What is said of the machine: uname, os-release, sentences, ``id`` and device nodes."""

import re
from collections.abc import Sequence

from musadoctor.system import Resources, Stat
from musadoctor.transcript.pieces import PLATFORM, STATED, Answer, Piece
from musadoctor.transcript.text import Line

FOLDER = Stat("folder", 0, 0o755, "root", usable=False, executable=True, real="")

_UNAME = re.compile(
    r"Linux \S{1,64} (\d\S{2,80}) .{0,200}\b(x86_64|aarch64|loongarch64)\b"
    r"|.{0,40}\bLinux-(\d[\w.-]{2,80}?)-(x86_64|aarch64|loongarch64)-with-glibc"
)
_KERNEL = re.compile(
    r"""
    (?:kernel|内核) \D{0,24}? (?<![\d.])
    ( \d{1,2} \. \d{1,3} (?:\.\d{1,3})? - \d{1,4} [\w.-]{0,40}
    | [2-7] \. \d{1,3} \. \d{1,3} \b
    | 4\.19 \b
    )
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_KERNEL_BUILD = re.compile(
    r"""
    (?<![\w.])
    ( \d \. \d{1,2} \. \d{1,3}
      (?: -\d{1,4} - (?: generic | server | lowlatency )  # "driver 3.3.5-server" is no kernel
        | (?:-\d{1,4})? -microsoft\S{0,40} )
    )
    """,
    re.VERBOSE | re.ASCII,
)
_GLIBC = re.compile(r"(?ai)(?:\bglibc-|^ldd \([^)\n]{1,60}\) |^libc version: glibc-)(2\.\d{1,2})\b")
_RELEASE_OF = re.compile(r"(?:NAME|VERSION|VERSION_ID|PRETTY_NAME|ID)=\S")
_DESCRIPTION = re.compile(
    r"""
    \b (Ubuntu|Debian|CentOS|Kylin|UOS|openEuler|Fedora|Anolis)
    [ \t-]? (?:Linux[ \t])? V? (\d{1,2} (?:\.\d{1,2})? )?
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_CHINESE_OS = (("麒麟", "Kylin"), ("统信", "UOS"))
_ARCHITECTURES = (
    (
        "aarch64",
        re.compile(
            r"""
              (?i:\b (?:aarch64|arm64|arm架构|kunpeng|phytium|ft-2000\w*|d2000) \b)
            | 鲲鹏 | 飞腾
            | (?i:\bARM[ ](?:CPU|server|host|machine|平台|架构|服务器))
            | \bARM\b
            """,
            re.VERBOSE | re.ASCII,
        ),
    ),
    ("loongarch64", re.compile(r"(?ai)\b(?:loongarch\w*|loongson\w*|3a[56]000)\b|龙芯")),
    ("x86_64", re.compile(r"(?ai)\b(?:x86_64|amd64|x86-64)\b")),
)
_BOTH = re.compile(
    r"""
      (?: x86 \S{0,3} | amd64 ) [ ]? (?: and | or | [/,&和或、及] ) [ ]? (?: arm | aarch64 )
    | (?: arm \S{0,2} | aarch64 ) [ ]? (?: and | or | [/,&和或、及] ) [ ]? (?: x86 | amd64 )
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
"""Who names both speaks of what software is made for."""
_WSL = re.compile(r"(?ai)\bWSL ?2?\b|microsoft-(?:standard-)?wsl")
_WINDOWS = re.compile(
    r"""
      \b windows [ ]? (?:1[01]|7|8|server)?
      (?= [ ]* (?: $ | [.,;!?\u3002\uff0c)]
                 | 系统 | 平台 | 下 | 上 | 版 | 环境
                 | host | machine | pc | platform | support ) )
    | \b win [ ]? (?:10|11) \b
    | \b win_amd64 \b
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_LINUX = re.compile(r"(?ai)\b(?:ubuntu|debian|centos|kylin|uos|wsl)\b|/usr/|/home/|麒麟")

_CMDLINE = re.compile(
    r"\bBOOT_IMAGE=(?:\S{0,80}vmlinuz-(\d\S{1,60}))?\S{0,200}[ \t].{0,600}|^ro(?=[ \t]).{1,600}()"
)
_MEMORY = re.compile(
    r"""
      (?<![\d.]) (\d{1,4}) [ ]? ([GT]) i?B? [ ] (?: of[ ] )? (?: host[ ]|system[ ] )?
      (?: RAM | (?:host|system|main)[ ]memory ) \b
    | (?: (?<!显) (?: 主机 | 系统 )? 内存 | \b RAM ) [ ]? [:=]? [ ]?
      (\d{1,4}) [ ]? ([GT]) (?![\d.])
    | ^ MemTotal: [ \t]+ (\d{6,12}) [ ] (k) B $
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
"""Of the host; what a card has is VRAM, "GPU memory" or 显存."""

_ID = re.compile(r"(?:用户)?\s{0,2}(?i:u?id)=(\d{1,10})\((\S{1,40}?)\).{0,80}?(?:groups|组)=(\d.*)")
_GROUP = re.compile(r"\d{1,10}\(([^()\s]{1,40})\)")
_NODE = re.compile(
    r"""
    c ([r-][w-].{7}) \S? [ ]+ \d+ [ ]+ (?P<owner>\S+) [ ]+ (?P<group>\S+) [ ]+
    \d+ , [ ]* \d+ [ ] .{3,40}? [ ]
    (?P<name> (?:/dev/)? mtgpu\.\d+ | (?:/dev/dri/)? (?:card\d+|renderD\d+) ) $
    """,
    re.VERBOSE | re.ASCII,
)
_NO_NODE = re.compile(r"(?:ls|stat|find): .{0,60}/dev/mtgpu\S{0,6}:? (?:No such file|没有那个文件)")


def uname(lines: Sequence[Line]) -> list[Piece]:
    """The kernel, the processor and the C library."""
    pieces: list[Piece] = []
    for line in lines:
        answers = _kernel(line.text)
        if found := _GLIBC.search(line.text):
            answers.append((PLATFORM, "glibc", found[1]))
        if answers:
            detail = " ".join(str(answer[2]) for answer in answers if answer[0] == PLATFORM)
            pieces.append(Piece("machine", line, line, tuple(answers), detail[:60]))
    return pieces


def _kernel(text: str) -> list[Answer]:
    if found := _UNAME.match(text):
        return [
            (PLATFORM, "kernel", found[1] or found[3]),
            (PLATFORM, "architecture", found[2] or found[4]),
        ]
    answers: list[Answer] = []
    if found := _KERNEL_BUILD.search(text) or _KERNEL.search(text):
        answers.append((PLATFORM, "kernel", _full(found[1])))
    elif _WSL.search(text):
        said = "stated: Microsoft WSL"
        return [(PLATFORM, "wsl", "WSL"), ("files", "/proc/version", said)]
    if _BOTH.search(text):
        return answers
    for name, pattern in _ARCHITECTURES:
        if pattern.search(text):
            return [*answers, (PLATFORM, "architecture", name)]
    return answers


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
        name, number = (found[1], found[2] or "") if found else (_chinese(line.text), "")
        if name:
            shown = f"{name} {number}".strip()
            text = (
                f'NAME="{name}"\nVERSION_ID="{number}"\nID={name.lower()}\n'
                f'PRETTY_NAME="{shown} (stated)"\n'
            )
            answers: tuple[Answer, ...] = (
                ("files", "/etc/os-release", text),
                (PLATFORM, "distribution", name),
            )
            return [Piece("operating system", line, line, answers, shown)]
    return []


def _chinese(text: str) -> str:
    return next((name for word, name in _CHINESE_OS if word in text), "")


def windows(lines: Sequence[Line]) -> list[Piece]:
    """Windows, where nothing in the text is of Linux."""
    if any(_LINUX.search(line.text) for line in lines):
        return []
    named = [line for line in lines if _WINDOWS.search(line.text)]
    return [Piece("Windows", line, line, ((STATED, "windows", line.text),)) for line in named[:1]]


def boot(lines: Sequence[Line]) -> list[Piece]:
    """``/proc/cmdline``, with the kernel that it names, and the size of the memory."""
    pieces: list[Piece] = []
    for line in lines:
        if found := _CMDLINE.search(line.text):
            answers: list[Answer] = [("files", "/proc/cmdline", found[0])]
            if found[1]:
                answers.append((PLATFORM, "kernel", found[1]))
            pieces.append(Piece("/proc/cmdline", line, line, tuple(answers)))
        elif found := _MEMORY.search(line.text):
            number, unit = (part for part in found.groups() if part)
            size = int(number) << {"K": 10, "G": 30, "T": 40}[unit.upper()]
            answer: Answer = ("resources", "", Resources(None, size))
            pieces.append(Piece("memory", line, line, (answer,), f"{number} {unit}"))
    return pieces


def device_nodes(lines: Sequence[Line]) -> list[Piece]:
    """``ls -l`` of ``/dev/mtgpu*`` and ``/dev/dri``, judged by ``id``.

    Without ``id`` nothing is answered, as nobody knows who may open them; neither where the nodes
    of one kind alone are shown and those may be opened.
    """
    user = next(((line, found) for line in lines if (found := _ID.match(line.text))), None)
    pieces: list[Piece] = []
    groups: tuple[str, ...] = ()
    if user:
        line, found = user
        groups = tuple(_GROUP.findall(found[3]))
        answers: tuple[Answer, ...] = (
            (PLATFORM, "uid", int(found[1])),
            (PLATFORM, "groups", groups),
        )
        others = [name for name in groups if name != found[2]]
        pieces.append(Piece("id", line, line, answers, f"in {', '.join(others) or 'no group'}"))
    listed = [(line, node) for line in lines if (node := _NODE.match(line.text))]
    if listed:
        answered = _nodes([node for _, node in listed], user[1][2], groups) if user else ()
        last = listed[-1][0]
        pieces.append(Piece("ls -l of device nodes", listed[0][0], last, answered))
    elif missing := next((line for line in lines if _NO_NODE.search(line.text)), None):
        # That /dev/dri holds none of these cards is not shown by it.
        pieces.append(
            Piece("ls of device nodes: none", missing, missing, (("folders", "/dev", ()),))
        )
    return pieces


def _nodes(
    found: Sequence["re.Match[str]"], user: str, groups: Sequence[str]
) -> tuple[Answer, ...]:
    nodes: dict[str, Stat] = {}
    for node in found:
        name = node["name"].rpartition("/")[2]
        path = f"/dev/{name}" if name.startswith("mtgpu") else f"/dev/dri/{name}"
        bits = node[1]
        usable = user == "root" or "rw" in {
            bits[6:8],
            bits[3:5] if node["group"] in groups else "",
            bits[0:2] if node["owner"] == user else "",
        }
        nodes[path] = Stat("device", 0, _mode(bits), node["group"], usable, False, path)
    kinds = {path[: len("/dev/dri/r")] for path in nodes if "/card" not in path}
    if len(kinds) == 1 and all(stat.usable for stat in nodes.values()):
        return ()
    dri = tuple(sorted(path.rpartition("/")[2] for path in nodes if "/dri/" in path))
    return (
        ("folders", "/dev", tuple(sorted(p.rpartition("/")[2] for p in nodes if "/dri/" not in p))),
        ("folders", "/dev/dri", dri),
        *(("files", f"/sys/class/drm/{name}/device/vendor", "0x1ed5\n") for name in dri),
        *(("stats", path, stat) for path, stat in nodes.items()),
    )


def _mode(bits: str) -> int:
    """``0o660`` of ``rw-rw----``."""
    return int("".join("0" if bit == "-" else "1" for bit in bits[:9]), 2)
