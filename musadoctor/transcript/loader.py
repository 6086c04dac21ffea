"""What a library needs and the loader knows: ``ldd`` and ``ldconfig -p``."""

import re
from collections.abc import Iterator, Sequence

from musadoctor.probes.environment import STEMS
from musadoctor.probes.libraries import CACHED_PREFIXES
from musadoctor.probes.stated import SITE
from musadoctor.system import Elf
from musadoctor.transcript.pieces import NEEDED, Answer, Piece
from musadoctor.transcript.text import Line

_LDD = re.compile(r"[ \t]*(lib\S{1,80}) => (not found|/\S{1,200})")
_LDD_OF = re.compile(r"(?i)\bldd\b[^\n]{0,300}?(?:/|\s)(_MUSAC[\w.+-]*\.so|libmusa_[\w.+-]+\.so)")
_OF_MUSA = re.compile(r"(?i)musa|mccl|mudnn|mupti|mublas|mufft|libsrv_um|mthreads")
_CACHE_HEAD = re.compile(r"[ \t]*(\d{1,6}) libs found in cache")
_CACHED = re.compile(r"[ \t]*(lib\S{1,80}) \([^)\n]{1,60}\) => (/\S{1,200})")


def ldd(lines: Sequence[Line]) -> list[Piece]:
    """What a library of torch_musa needs, by ``ldd``."""
    needed = [(line, found[1]) for line in lines if (found := _LDD.match(line.text))]
    if not any(_OF_MUSA.search(name) for _, name in needed):
        return []
    file = next((m[1] for line in lines if (m := _LDD_OF.search(line.text))), "libmusa_kernels.so")
    elf = Elf("x86_64", None, tuple(dict.fromkeys(name for _, name in needed)), (), ())
    return [Piece(f"ldd {file}", needed[0][0], needed[-1][0], tuple(_library(file, elf)))]


def _library(file: str, elf: Elf) -> Iterator[Answer]:
    folder = f"{SITE}/torch_musa" if file.startswith("_MUSAC") else f"{SITE}/torch_musa/lib"
    yield "libraries", f"{folder}/{file}", elf
    yield NEEDED, folder, file


def ldconfig(lines: Sequence[Line]) -> list[Piece]:
    """The loader's cache. Only what a list with its head lacks is certainly not there."""
    listed = [(line, found) for line in lines if (found := _CACHED.match(line.text))]
    head = next((found for line in lines if (found := _CACHE_HEAD.match(line.text))), None)
    if not listed:
        return []
    answers: tuple[Answer, ...] = ()
    if head and len(listed) >= int(head[1]):
        entries: dict[str, str] = {}
        for _, found in listed:
            entries.setdefault(found[1], found[2])
        prefixes = (*CACHED_PREFIXES, *(f"{stem}.so" for stem in STEMS))
        answers = tuple(
            ("loader_cache", prefix, {n: p for n, p in entries.items() if n.startswith(prefix)})
            for prefix in prefixes
        )
    return [Piece("ldconfig -p", listed[0][0], listed[-1][0], answers)]
