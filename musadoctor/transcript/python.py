"""What pip, Python and torch's collect_env say of the packages that are installed."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from musadoctor.probes.distributions import WANTED
from musadoctor.probes.stated import SITE
from musadoctor.transcript.pieces import NVIDIA, PACKAGE, PLATFORM, REQUIRES, Answer, Piece
from musadoctor.transcript.text import Line

_NUMBER = r"""
    v? ( \d{1,4} \. \d{1,4} (?: \.\d{1,6} ){0,2}
         (?: (?: a | b | rc | \.?post | \.?dev ) \d{0,9} \w{0,20} )?
         (?: \+ \w{1,20} (?: \.\w{1,20} ){0,3} )? (?!\d) )
"""
_NAME = r"[A-Za-z] (?: [A-Za-z0-9] | [-_] (?=[A-Za-z]) ){2,40}"
_PACKAGE = re.compile(
    rf"""
    (?<![\w./-]) ( torch[ ]musa | {_NAME} )
    (?: [ \t]{{0,3}} (?: version | 版本 | \.__version__ ) )? ["'`*]{{0,3}}
    (?: [ \t]{{0,40}} (?: == | [:=@|(] | is | 为 | 是 ) [ \t]{{0,40}} | [ \t]{{1,60}} | - )
    {_NUMBER} (?! [\w.]{{0,20}} x\b )
    """,
    re.VERBOSE | re.ASCII,
)
_WHEEL = re.compile(rf"(?<![A-Za-z0-9]) ({_NAME}) - {_NUMBER} -cp\d", re.VERBOSE)
_NOW = re.compile(rf"now[ ]torch[ ]version[ ]is[ ] {_NUMBER}", re.VERBOSE)
_KNOWN = {name.replace("-", "_") for name in WANTED}
_MAY_NAME = re.compile("(?ai)torch|numpy|triton|mu|" + "|".join(sorted(_KNOWN)))
_SHOWN = re.compile(r"(Name|Version|Requires):[ \t]*(\S.{0,2000}|)$")
_LONGEST_SHOW = 15
_CUDA_BUILD = re.compile(r"(CUDA|ROCM) used to build PyTorch:[ \t]*(\d[\w.]{0,20})")
_CONDA = re.compile(
    r"(?a)(?:^|[ \t])pytorch[ \t]+\d\S{0,20}[ \t]+\S{0,20}cuda(\d[\d.]{0,6})"
    r"|(?:^|[ \t])pytorch-cuda[ \t=]{1,40}(\d[\d.]{0,6})"
)
_RUNTIME_OF_CUDA = re.compile(r"(nvidia-[a-z-]{3,30}-cu\d{2})(?:[ \t]{1,60}|==|@)\d")
_ASKED = re.compile(r"(?a)\b(torch(?:_musa)?\.__version__|torch\.version\.cuda)[\s)\"';]{0,9}$")
_VERSION = re.compile(rf"['\"]?{_NUMBER}['\"]?$", re.VERBOSE)
_CUDA = re.compile(r"['\"]?(\d{1,2}\.\d{1,2})['\"]?$")
_PYTHON = re.compile(
    r"""
      (?<![\w/.-]) python (?:[ ]version)? [ \t]* [:=]? [ \t]* v? (3\.\d{1,2} (?:\.\d{1,2})?) \b
    | (?<![\w.]) (?:cp|py) (3) (\d{1,2}) \b
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)


def packages(lines: Sequence[Line]) -> list[Piece]:
    """Installed distributions: pip's lists, requirements, names of wheels, sentences."""
    pieces = [
        Piece("package", line, line, ((PACKAGE, name, version),), f"{name} {version}")
        for line in lines
        for name, version in _named(line.text)
    ]
    for asked, line in _answered(lines):
        if asked.endswith("__version__") and (found := _VERSION.match(line.text)):
            answer: Answer = (PACKAGE, asked.partition(".")[0], found[1])
            pieces.append(Piece("package", line, line, (answer,), f"{answer[1]} {found[1]}"))
    return pieces


def _answered(lines: Sequence[Line]) -> Iterator[tuple[str, Line]]:
    """What Python was asked for at the end of a line, and the line below, its answer."""
    for line, below in pairwise(lines):
        if found := _ASKED.search(line.text):
            yield found[1], below


def _named(text: str) -> Iterator[tuple[str, str]]:
    if not _MAY_NAME.search(text):
        return
    now = [found[1] for found in _NOW.finditer(text)]
    wanted = "torch version should be" in text or "must not be less" in text
    for found in (*_PACKAGE.finditer(text), *_WHEEL.finditer(text)):
        name = _known(found[1])
        if name and (not wanted or found[2] in now):
            yield name, found[2]
    yield from (("torch", version) for version in now)


def _known(name: str) -> str:
    """A package's name in one spelling, empty for one that does not matter to MUSA."""
    proper = re.sub(r"[-_. ]+", "_", name).lower()
    proper = {"pytorch": "torch", "torchmusa": "torch_musa"}.get(proper, proper)
    # S3000_S80_torch_musa-1.2.1-cp39: wheels of 2024 name the cards.
    proper = "torch_musa" if proper.endswith("_torch_musa") else proper
    return proper if proper in _KNOWN else ""


def shown(lines: Sequence[Line]) -> list[Piece]:
    """``pip show``: a name, its version below it, and what it requires."""
    pieces: list[Piece] = []
    name, version, first = "", "", None
    for line in lines:
        found = _SHOWN.match(line.text)
        if found is None:
            continue
        if found[1] == "Name":
            name, version, first = _known(found[2].strip()), "", line
        elif name and first and line.at < first.at + _LONGEST_SHOW:
            if found[1] == "Version":
                version = found[2].strip()
                answers: tuple[Answer, ...] = ((PACKAGE, name, version),)
                pieces.append(Piece("pip show", first, line, answers, f"{name} {version}"))
            elif version:
                names = tuple(part.strip() for part in found[2].split(",") if part.strip())
                pieces.append(
                    Piece("pip show", first, line, ((REQUIRES, name, names),), f"{name} Requires")
                )
    return pieces


def build(lines: Sequence[Line]) -> list[Piece]:
    """What torch was built for: by ``collect_env``, by conda, by itself, by what it came with."""
    for line in lines:
        if found := _CUDA_BUILD.search(line.text):
            return [_built("collect_env: torch built for", line, found[1], found[2])]
        if found := _CONDA.search(line.text):
            return [_built("conda: torch built for", line, "CUDA", found[1] or found[2])]
    for asked, line in _answered(lines):
        if asked == "torch.version.cuda" and (found := _CUDA.match(line.text)):
            return [_built(asked, line, "CUDA", found[1])]
    return [
        Piece("package of CUDA", line, line, ((NVIDIA, found[1], True),), found[1])
        for line in lines
        if (found := _RUNTIME_OF_CUDA.match(line.text.strip()))
    ]


def _built(what: str, line: Line, kind: str, number: str) -> Piece:
    text = f"{'cuda' if kind == 'CUDA' else 'hip'} = '{number}'\n"
    answer: Answer = ("files", f"{SITE}/torch/version.py", text)
    return Piece(what, line, line, (answer,), f"{kind} {number}")


def interpreter(lines: Sequence[Line]) -> list[Piece]:
    """The release of Python."""
    for line in lines:
        if found := _PYTHON.search(line.text):
            release = found[1] or f"3.{found[3]}"
            whole = release if release.count(".") > 1 else f"{release}.0"
            return [Piece("Python", line, line, ((PLATFORM, "python", whole),), release)]
    return []
