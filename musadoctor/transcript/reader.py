"""From texts to pieces, to the machine that they show, and to their telling lines.

Every recogniser looks at all lines and gives pieces; each piece holds answers as the machine would
have given them. What no piece answers is "not in this transcript", so that facts come out unknown.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from musadoctor.facts.messages import MessageLine
from musadoctor.probes.stated import LINES
from musadoctor.recording import Recording
from musadoctor.redact import Redaction
from musadoctor.transcript import (
    cards,
    gmi,
    loader,
    machine,
    prose,
    python,
    settings,
    toolkit,
    torch,
)
from musadoctor.transcript.answers import tables
from musadoctor.transcript.people import people
from musadoctor.transcript.pieces import STATED, Piece, Recogniser
from musadoctor.transcript.text import MOST_BYTES, Line, TranscriptError, lines_of, refuse_binary

RECOGNISERS: tuple[Recogniser, ...] = (
    # The first answer to a question counts: tools come before sentences.
    gmi.table,
    gmi.query,
    gmi.listing,
    toolkit.versions,
    toolkit.info,
    toolkit.mcc,
    toolkit.clinfo,
    cards.lspci,
    cards.lsmod,
    cards.module,
    cards.dmesg,
    machine.uname,
    machine.distribution,
    machine.windows,
    machine.device_nodes,
    machine.boot,
    settings.environment,
    settings.variables,
    settings.docker_info,
    settings.daemon_json,
    torch.exceptions,
    torch.answers_of_torch,
    loader.ldd,
    loader.ldconfig,
    python.shown,
    python.packages,
    python.build,
    python.interpreter,
    prose.stated,
)
_OF_MUSA = re.compile(
    r"""
      torch[_ -]?musa | musa[_-][a-z\d] | [a-z]_musa | MUSA_[A-Z] | libmu[a-z]+\.so | libmccl
    | mudnn
    | musa (?:info|rt) | \b musa [ ] (?: error | sdk | toolkits? | driver | devices? | kernel
                                      | runtime | out[ ]of | initiali[sz]ation )
    | mthreads | mtgpu | moore[ -]?threads | 摩尔线程 | \b mtt [ -] | \b 1ed5 \b
    | \b mt[ ]gpu \b | \b mcc[ ]version | \b mtml \b | \b mtlink \b | \b mtbios
    | \b sgpu | mt[ -]container | failed[ ]to[ ]load[ ]driver
    | \b mp_[123]\d \b | \b mp [ ] version \b | \b on [ ] (?: a[ ] )? mp [ ] \d\.\d
    | \b mcc [ ] .{0,200} \.mu \b
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_NAMES_MUSA = re.compile(
    r"""
      (?-i:MUSA)
    | (?<![\w-]) S (?: 3000E? | 4000 | 5000 ) (?!\w)
    | ^ (?=.{0,400} (?: musa | (?<![\w-]) S (?: [1356789]0 | 1000M? | 2000 ) (?!\w) ) )
        .{0,400} (?: \b (?: gpu | card | driver | kernel | linux | ubuntu | uos | torch | cuda )
                  | 显卡 | 驱动 | 内核 | 报错 )
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
"""A card's number counts beside a word of computers, as does "musa" in small letters: S80, S10 and
Musa are names of other things too."""
_OF_OTHERS = re.compile(
    r"""
      \b nvidia (?!-[a-z]) | \b RTX[ ]?\d | geforce | \b [AH][12]00 \b | \b CUDA[ ]error
    | \b HIP[ ](?:error|out) | \b rocm \b | \b gfx\d{3} | \b musa [a-z]{2}
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
"""Beside these the bare word MUSA is a remark ("said to run on MUSA"), or the number no card's."""
_TELLING = re.compile(
    r"""
      error | fail | cannot | could[ ]not | not[ ]found | not[ ]supported | unsupported
    | undefined | denied | invalid | lockup | XID | no[ ]such | no[ ]usable | unknown | exceed
    | must[ ]not | should[ ]be | too[ ](?:old|new|short) | out[ ]of[ ]memory
    | is[ ]not[ ](?:a|avail|on) | no[ ]output | not[ ]output | \b bf(?:loat)?16 \b | is_available
    | default[ -]runtime | no[ ]cuda | no[ ]device | no[ ]matching | unable | not[ ]permitted
    | only[ ]supports | incompatible | No[ ]module | no[ ]active | active[ ]drivers
    | compiled[ ]using | not[ ]seem | \.so\.?\d? | GLIBC | dkms | silent
    | not[ ]detected | segfault | SIGSEGV
    | segmentation | number[ ]of[ ]platforms | muInit | cross-device | : [ ]added$
    | ^-[rwx-]{9}\S?\s+\d+\s+\S+\s+\S+\s+0\s | 显存
    | 错误 | 失败 | 找不到 | 没有 | 不支持 | 无法 | 不能 | 未找到
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
MOST_LINES = 2000
"""Of more telling lines the first and the last are kept."""
LINES_BEFORE = 4
"""So many lines above a telling one may say what it is about."""


class Transcript(NamedTuple):
    """What was recognised in one or several texts."""

    system: Recording
    pieces: tuple[Piece, ...]
    of_musa: bool
    """Whether anything in it is of Moore Threads or MUSA."""
    people: tuple[Redaction, ...]
    """Whose names are to be redacted."""


def read(texts: Sequence[tuple[str, bytes]]) -> Transcript:
    """Read texts, each with its name, as one report.

    Raises:
        TranscriptError: a text is too long, or is none.
    """
    lines: list[Line] = []
    for name, data in texts:
        if len(data) > MOST_BYTES:
            raise TranscriptError(f"{name}: longer than {MOST_BYTES >> 20} MiB")
        refuse_binary(data, name)
        after = lines[-1].at + _APART if lines else 0
        lines += lines_of(data, name if len(texts) > 1 else "", after)
    pieces = [piece for recognise in RECOGNISERS for piece in recognise(lines)]
    answers = tables(pieces)
    answers["files"][LINES] = json.dumps(_telling(lines))
    system = Recording.of_answers(answers, closed=False, called="transcript")
    return Transcript(system, _shown(pieces), _is_of_musa(lines), people(lines))


def _is_of_musa(lines: Sequence[Line]) -> bool:
    if any(_OF_MUSA.search(line.text) for line in lines):
        return True
    named = any(_NAMES_MUSA.search(line.text) for line in lines)
    return named and not any(_OF_OTHERS.search(line.text) for line in lines)


_APART = 1000
"""Lines between two texts: the end of one and the beginning of the next are not near."""


def _shown(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """The pieces whose answers count, in the order of the text."""
    seen: set[tuple[str, object]] = set()
    kept: list[Piece] = []
    for piece in pieces:
        subjects = {
            (kind, f"{subject} {answer}" if kind == STATED else subject)
            for kind, subject, answer in piece.answers
        }
        if not subjects or not subjects <= seen:
            kept.append(piece)
        seen |= subjects
    return tuple(sorted(kept, key=lambda piece: piece.first.at))


def _telling(lines: Sequence[Line]) -> list[MessageLine]:
    """Lines that may tell a cause, each text once, with the lines above."""
    inside = {
        raised.line.at: chain[0].line.where
        for chain in torch.chains(lines)
        for raised in chain
        if len(chain) > 1
    }
    told: dict[tuple[str, bool], MessageLine] = {}
    before: list[str] = []
    for line in lines:
        text = line.text.strip(" \t|")
        if not text:
            continue
        key = (text, line.at in inside)
        if key not in told and _TELLING.search(text):
            told[key] = MessageLine(line.where, text, "\n".join(before), inside.get(line.at, ""))
        before = [*before[1 - LINES_BEFORE :], text]
    rows = list(told.values())
    half = MOST_LINES // 2
    return rows if len(rows) <= MOST_LINES else [*rows[:half], *rows[-half:]]
