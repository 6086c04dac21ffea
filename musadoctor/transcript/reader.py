"""From texts to a machine that answers what they show, and nothing else.

Every recogniser looks at all lines and gives pieces; each piece holds answers as the machine would
have given them. What no piece answers is "not in this transcript", so that facts come out unknown.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from musadoctor.probes.stated import LINES, SEARCH_PATH, SITE, key
from musadoctor.recording import Recording
from musadoctor.system import Found, Platform, Ran
from musadoctor.transcript import machine, prose, python, tools
from musadoctor.transcript.pieces import CHILD, PACKAGE, PLATFORM, STATED, Piece, Recogniser
from musadoctor.transcript.text import MOST_BYTES, Line, TranscriptError, decode, lines_of

RECOGNISERS: tuple[Recogniser, ...] = (
    # The first answer to a question counts: tools come before sentences.
    tools.gmi,
    tools.versions,
    tools.info,
    tools.mcc,
    machine.lspci,
    machine.lsmod,
    machine.uname,
    machine.distribution,
    machine.windows,
    machine.variables,
    python.exceptions,
    python.answers_of_torch,
    python.ldd,
    python.packages,
    python.interpreter,
    tools.gmi_query,
    prose.stated,
)
_OF_MUSA = re.compile(
    r"(?i)musa|mthreads|mtgpu|moore[ -]?threads|摩尔线程|\bmtt[ -]|\b1ed5\b|libmccl|libmudnn|mudnn|\bmcc version|\bMT GPU\b|\bmtml\b|\bmtlink\b|\bmtbios|failed to load driver"
)
_TELLING = re.compile(
    r"(?i)error|fail|cannot|could not|not found|not supported|unsupported|undefined|denied|invalid"
    r"|lockup|XID|no such|no usable|unknown|exceed|must not|should be|too (?:old|new|short)|out of memory"
    r"|is not (?:a|avail|on)|no output|not output|\bbf(?:loat)?16\b|is_available|default runtime"
    r"|default-runtime|no cuda|no device|no matching|unable|not permitted|only supports|incompatible"
    r"|No module|no active|active drivers|compiled using|\.so\.?\d?|GLIBC|dkms|silent"
    r"|错误|失败|找不到|没有|不支持|无法|不能|未找到"
)
MOST_LINES = 2000
"""Of more telling lines the first and the last are kept."""


class Transcript(NamedTuple):
    """What was recognised in one or several texts."""

    system: Recording
    pieces: tuple[Piece, ...]
    of_musa: bool
    """Whether anything in it is of Moore Threads or MUSA."""


def read(texts: Sequence[tuple[str, bytes]]) -> Transcript:
    """Read texts, each with its name, as one report.

    Raises:
        TranscriptError: a text is too long.
    """
    several = len(texts) > 1
    lines: list[Line] = []
    for name, data in texts:
        if len(data) > MOST_BYTES:
            raise TranscriptError(f"{name}: longer than {MOST_BYTES >> 20} MiB")
        at = lines[-1].number + 1000 if lines else 0
        lines += [
            line._replace(number=line.number + at)
            for line in lines_of(decode(data), name if several else "")
        ]
    pieces = [piece for recognise in RECOGNISERS for piece in recognise(lines)]
    of_musa = any(_OF_MUSA.search(line.text) for line in lines)
    tables = _tables(pieces)
    tables["files"][LINES] = json.dumps(_telling(lines))
    system = Recording.of_answers(tables, closed=False, called="transcript")
    return Transcript(system, _shown(pieces), of_musa)


def _shown(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """The pieces whose answers count, in the order of the text."""
    seen: set[tuple[str, object]] = set()
    kept: list[Piece] = []
    for piece in pieces:
        subjects = {(kind, subject) for kind, subject, _ in piece.answers}
        if not subjects <= seen:
            kept.append(piece)
        seen |= subjects
    return tuple(sorted(kept, key=lambda piece: piece.first.number))


def _telling(lines: Sequence[Line]) -> list[tuple[str, str, str]]:
    """Lines that may tell a cause, each text once, with the lines above."""
    told: dict[str, tuple[str, str, str]] = {}
    before: list[str] = []
    for line in lines:
        text = line.text.strip()
        if not text:
            continue
        if text not in told and _TELLING.search(text):
            told[text] = (line.where, text, "\n".join(before))
        before = [*before[-3:], text]
    rows = list(told.values())
    half = MOST_LINES // 2
    return rows if len(rows) <= MOST_LINES else [*rows[:half], *rows[-half:]]


def _tables(pieces: Sequence[Piece]) -> dict[str, dict[str, object]]:
    """The answers as a recording keeps them; the first to a question counts."""
    tables: dict[str, dict[str, object]] = {"files": {}, "folders": {}, "runs": {}, "programs": {}}
    stated: dict[str, list[tuple[str, str]]] = {}
    for piece in pieces:
        for kind, subject, answer in piece.answers:
            if kind == STATED:
                value = (str(answer), piece.first.where)
                known = stated.setdefault(subject, [])
                if all(value[0] != other for other, _ in known):
                    known.append(value)
            elif kind == CHILD and subject in tables.get(CHILD, {}):
                _merge_step(tables[CHILD][subject], answer)
            else:
                tables.setdefault(kind, {}).setdefault(subject, answer)
    for kind, values in stated.items():
        tables["files"][key(kind)] = json.dumps(values)
    _platform(tables, tables.pop(PLATFORM, {}))
    _packages(tables, tables.pop(PACKAGE, {}), tables.pop(CHILD, {}), tables.pop("ldd", {}))
    return tables


def _merge_step(known: object, further: object) -> None:
    """A step that was told twice keeps its first value and every warning."""
    if isinstance(known, dict) and isinstance(further, dict) and "warnings" in further:
        known.setdefault("warnings", []).extend(further["warnings"])


def _platform(tables: dict[str, dict[str, object]], fields: dict[str, object]) -> None:
    """The kernel and the processor; empty where they are not told."""
    python_version = str(fields.pop("python", ""))
    if fields or "/etc/os-release" in tables["files"]:
        tables["platform"] = {
            "": Platform(
                kernel=str(fields.get("kernel", "")),
                architecture=str(fields.get("architecture", "")),
                host_name=None,
                glibc=None,
                uid=-1,
                groups=(),
                own_python="",
            )
        }
    if python_version:
        answer = {
            "version": python_version,
            "implementation": "cpython",
            "abiflags": "",
            "prefix": "",
            "search_path": SEARCH_PATH,
        }
        tables["programs"]["python3"] = Found("python3")
        tables["runs"]["child:python"] = Ran("ok", 0, answer=json.dumps(answer))


def _packages(
    tables: dict[str, dict[str, object]],
    packages: dict[str, object],
    steps: dict[str, object],
    needed: dict[str, object],
) -> None:
    """The distributions as files, and what the torch child would have said."""
    names = dict(packages)
    if steps or needed:  # who imports torch_musa has both
        names.setdefault("torch", None)
        names.setdefault("torch_musa", None)
    if not names:
        return
    entries = [f"{name}-{version}.dist-info" for name, version in names.items() if version]
    folders = [name for name in ("torch", "torch_musa") if name in names]
    tables["folders"][SITE] = (*entries, *folders)
    for name in folders:
        tables["folders"][f"{SITE}/{name}"] = ("__init__.py",)
    for folder, file in needed.items():
        if folder.endswith("/lib"):
            tables["folders"][folder] = (str(file),)
        else:
            tables["folders"][folder] = ("__init__.py", str(file))
    if steps:
        tables["runs"]["child:torch"] = Ran("ok", 0, answer=_child(names, steps))


def _child(names: dict[str, object], steps: dict[str, object]) -> str:
    """The torch child's lines: an import that failed ends them."""
    told: list[dict[str, object]] = [
        {"begin": "import torch"},
        {
            "end": "import torch",
            "value": {"version": names.get("torch"), "file": f"{SITE}/torch/__init__.py"},
        },
        {"begin": "import torch_musa"},
    ]
    failed = steps.get("import torch_musa")
    works = {"is_available", "device_count"} & set(steps)
    if isinstance(failed, dict) and not _true(steps.get("is_available")):
        told.append(failed)
    else:
        value = {"version": names.get("torch_musa"), "file": f"{SITE}/torch_musa/__init__.py"}
        told.append({"end": "import torch_musa", "value": value})
        for step in sorted(works, reverse=True):
            answer = steps[step]
            told += [{"begin": step}, answer if isinstance(answer, dict) else {}]
    told.append({"end": "all"})
    return "\n".join(map(json.dumps, told))


def _true(step: object) -> bool:
    return isinstance(step, dict) and step.get("value") is True
