"""What pip, Python and torch's collect_env say of the packages that are installed."""

import re
from collections.abc import Iterator, Sequence

from musadoctor.probes.distributions import WANTED
from musadoctor.probes.stated import SITE
from musadoctor.transcript.pieces import PACKAGE, PLATFORM, REQUIRES, Answer, Piece
from musadoctor.transcript.text import Line

_NUMBER = r"""
    v? ( \d{1,4} \. \d{1,4} (?: \.\d{1,6} ){0,2}
         (?: (?: a | b | rc | \.?post | \.?dev ) \d{0,9} \w{0,20} )?
         (?: \+ \w{1,20} (?: \.\w{1,20} ){0,3} )? )
"""
_NAME = r"[A-Za-z] (?: [A-Za-z0-9] | [-_] (?=[A-Za-z]) ){2,40}"
_PACKAGE = re.compile(
    rf"""
    (?<![\w./-]) ( torch[ ]musa | {_NAME} )
    (?: [ \t]{{0,3}} (?: version | 版本 | \.__version__ ) )? ["'`*]{{0,3}}
    (?: [ \t]{{0,40}} (?: == | [:=@|(] | is | 为 | 是 ) [ \t]{{0,40}} | [ \t]{{1,60}} | - )
    {_NUMBER} (?! [\w.]{{0,20}} x\b )
    """,
    re.VERBOSE,
)
_WHEEL = re.compile(rf"(?<![A-Za-z0-9]) ({_NAME}) - {_NUMBER} -cp\d", re.VERBOSE)
_NOW = re.compile(rf"now[ ]torch[ ]version[ ]is[ ] {_NUMBER}", re.VERBOSE)
_KNOWN = {name.replace("-", "_") for name in WANTED}
_MAY_NAME = re.compile("(?i)torch|numpy|triton|mu|" + "|".join(sorted(_KNOWN)))
_SHOWN = re.compile(r"(Name|Version|Requires):[ \t]*(\S.{0,2000}|)$")
_LONGEST_SHOW = 15
_CUDA_BUILD = re.compile(r"(CUDA|ROCM) used to build PyTorch:[ \t]*(\d[\w.]{0,20})")
_PYTHON = re.compile(
    r"""
      (?<![\w/.-]) python (?:[ ]version)? [ \t]* [:=]? [ \t]* v? (3\.\d{1,2} (?:\.\d{1,2})?) \b
    | (?<![\w.]) (?:cp|py) (3) (\d{1,2}) \b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def packages(lines: Sequence[Line]) -> list[Piece]:
    """Installed distributions: pip's lists, requirements, names of wheels, sentences."""
    return [
        Piece("package", line, line, ((PACKAGE, name, version),), f"{name} {version}")
        for line in lines
        for name, version in _named(line.text)
    ]


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
    """What torch was built for, by ``python -m torch.utils.collect_env``."""
    for line in lines:
        if found := _CUDA_BUILD.search(line.text):
            attribute = "cuda" if found[1] == "CUDA" else "hip"
            text = f"{attribute} = '{found[2]}'\n"
            answers: tuple[Answer, ...] = (("files", f"{SITE}/torch/version.py", text),)
            return [Piece("collect_env: torch built for", line, line, answers, found[1])]
    return []


def interpreter(lines: Sequence[Line]) -> list[Piece]:
    """The release of Python."""
    for line in lines:
        if found := _PYTHON.search(line.text):
            release = found[1] or f"3.{found[3]}"
            whole = release if release.count(".") > 1 else f"{release}.0"
            return [Piece("Python", line, line, ((PLATFORM, "python", whole),), release)]
    return []
