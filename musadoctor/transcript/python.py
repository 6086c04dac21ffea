"""What Python and pip print: packages, exceptions, the answers of torch and torch_musa."""

import re
from collections.abc import Iterator, Sequence

from musadoctor.probes.distributions import WANTED
from musadoctor.probes.stated import SITE
from musadoctor.system import Elf
from musadoctor.transcript.pieces import CHILD, PACKAGE, PLATFORM, Answer, Piece
from musadoctor.transcript.text import Line

_NUMBER = r"v?(\d{1,4}\.\d{1,4}(?:\.\d{1,6}){0,2}(?:(?:a|b|rc|\.?post|\.?dev)\d{0,9}\w{0,20})?(?:\+[\w.]{1,40})?)"
_PACKAGE = re.compile(
    r"(?<![\w./-])(torch[ ]musa|[A-Za-z](?:[A-Za-z0-9]|[-_](?=[A-Za-z])){2,40})"
    r"(?:[ \t]{0,3}(?:version|版本|\.__version__))?[\"'`*]{0,3}"
    rf"(?:[ \t]{{0,40}}(?:==|[:=@|(]|is|为|是)[ \t]{{0,40}}|[ \t]{{1,60}}|-){_NUMBER}(?![\w.]{{0,20}}x\b)"
)
_WHEEL = re.compile(
    rf"(?<![A-Za-z0-9])([A-Za-z](?:[A-Za-z0-9]|[-_](?=[A-Za-z])){{2,40}})-{_NUMBER}-cp\d"
)
_KNOWN = {name.replace("-", "_") for name in WANTED}
_NOW = re.compile(rf"now torch version is {_NUMBER}")
_SHOW_NAME = re.compile(r"^Name:[ \t]*(\S{1,60})$")
_SHOW_VERSION = re.compile(r"^Version:[ \t]*(\S{1,60})$")
_PYTHON = re.compile(
    r"(?i)(?<![\w/.-])python(?: version)?[ \t]*[:=]?[ \t]*v?(3\.\d{1,2}(?:\.\d{1,2})?)\b|(?<![\w.])(?:cp|py)(3)(\d{1,2})\b"
)
_EXCEPTION = re.compile(
    r"^[ \t|]*(?:E[ \t]+)?((?:[A-Za-z_][\w.]{0,60})?(?:Error|Exception|Warning)|AssertionError)\b(?::[ \t]*(.{1,600}))?$"
)
_EMBEDDED = re.compile(r"((?:[A-Za-z_]\w{0,40})?(?:Error|Warning)): (.{1,600})$")
_OPENED = re.compile(
    r"(?i)\b(lib[\w+-]{2,40}\.so[\d.]*)\S{0,2}:? (?:cannot open|file too short|=> not found)|file too short|undefined symbol"
)
_OF_MUSA = re.compile(
    r"(?i)musa|mccl|mudnn|mupti|mublas|mufft|libsrv_um|different directory|mthreads"
)
_AVAILABLE = re.compile(
    r"(?i)(?:torch[._]musa[.:]?is_available\(?\)?|(?<!cuda )\bmusa available|\bis_available(?:\(\))?)\W{0,4}"
    r"(?:it |also |still )*(?:returned|returns?|returning|is|prints?|为|是|返回)?\W{0,4}(True|False)\b"
)
_COUNT = re.compile(r"(?i)\bdevice[ _]count(?:\(\))?\W{0,4}(?:is )?(\d{1,2})\b")
_LDD = re.compile(r"^[ \t]*(lib\S{1,80}) => (not found|/\S{1,200})")
_LDD_OF = re.compile(r"(?i)\bldd\b.*?([\w.+-]*(?:_MUSAC|libmusa_\w+)\S*\.so)")


def packages(lines: Sequence[Line]) -> list[Piece]:
    """Installed distributions: pip's lists, ``pip show``, requirements, sentences."""
    pieces: list[Piece] = []
    shown = ""
    for line in lines:
        text = line.text
        if name := _SHOW_NAME.match(text):
            shown = name[1]
        elif shown and (version := _SHOW_VERSION.match(text)):
            pieces.append(_package(line, shown, version[1]))
            shown = ""
        found: list[tuple[str, str]] = []
        if any(character.isdigit() for character in text):
            named = (*_PACKAGE.finditer(text), *_WHEEL.finditer(text))
            found = [(m[1], m[2]) for m in named if _known(m[1])]
        found += [("torch", m[1]) for m in _NOW.finditer(text)]
        if "torch version should be" in text or "must not be less" in text:
            found = [item for item in found if f"now torch version is {item[1]}" in text]
        pieces += [_package(line, name, version) for name, version in found]
    return pieces


def _known(name: str) -> str:
    """A package's name in one spelling, empty for one that does not matter to MUSA."""
    proper = re.sub(r"[-_. ]+", "_", name).lower()
    proper = {"pytorch": "torch", "torchmusa": "torch_musa"}.get(proper, proper)
    # S3000_S80_torch_musa-1.2.1-cp39: wheels of 2024 name the cards.
    proper = "torch_musa" if proper.endswith("_torch_musa") else proper
    return proper if proper in _KNOWN else ""


def _package(line: Line, name: str, version: str) -> Piece:
    proper = _known(name) or name.lower()
    return Piece(f"{proper} {version}", line, line, ((PACKAGE, proper, version),))


def interpreter(lines: Sequence[Line]) -> list[Piece]:
    """The release of Python."""
    for line in lines:
        if found := _PYTHON.search(line.text):
            release = found[1] or f"3.{found[3]}"
            answer: Answer = (
                PLATFORM,
                "python",
                release if release.count(".") > 1 else f"{release}.0",
            )
            return [Piece(f"Python {release}", line, line, (answer,))]
    return []


def exceptions(lines: Sequence[Line]) -> list[Piece]:
    """A failed import of torch_musa, with its chain.

    Python prints the innermost exception first; "Please try running Python from a different
    directory!" is what torch_musa puts around any of them.
    """
    chain: list[tuple[Line, str]] = []
    for line in lines:
        found = _EXCEPTION.match(line.text) or _EMBEDDED.search(line.text)
        if found and found[2] and not found[1].endswith("Warning"):
            text = f"{found[1]}: {found[2].strip()}"
            if chain and line.number > chain[-1][0].number + 60:
                break
            if _OF_MUSA.search(text) and (
                "Import" in found[1] or "OSError" in found[1] or _OPENED.search(text)
            ):
                chain.append((line, text))
    if not chain:
        return []
    texts = list(dict.fromkeys(text for _, text in reversed(chain)))
    answers: tuple[Answer, ...] = (
        (CHILD, "import torch_musa", {"end": "import torch_musa", "chain": texts}),
    )
    return [Piece("failed import of torch_musa", chain[0][0], chain[-1][0], answers)]


def answers_of_torch(lines: Sequence[Line]) -> list[Piece]:
    """What ``torch.musa.is_available()`` and ``device_count()`` said, and their warnings."""
    pieces: list[Piece] = []
    for line, following in zip(lines, (*lines[1:], None)):
        text = line.text
        if following is not None and text.rstrip().endswith(("is_available()", "is_available())")):
            text = f"{text} {following.text.strip()}"
        if "cuda.is_available" not in text and (found := _AVAILABLE.search(text)):
            value = found[1] == "True"
            step = {"end": "is_available", "value": value}
            pieces.append(
                Piece("torch.musa.is_available()", line, line, ((CHILD, "is_available", step),))
            )
        elif found := _COUNT.search(text):
            counted = {"end": "device_count", "value": int(found[1])}
            pieces.append(
                Piece("torch.musa.device_count()", line, line, ((CHILD, "device_count", counted),))
            )
        elif "MUSA initialization:" in text:
            warned = {"end": "is_available", "value": False, "warnings": [text.strip()]}
            pieces.append(
                Piece("warning of is_available()", line, line, ((CHILD, "is_available", warned),))
            )
    return pieces


def ldd(lines: Sequence[Line]) -> list[Piece]:
    """What a library of torch_musa needs, by ``ldd``."""
    needed = [(line, found[1]) for line in lines if (found := _LDD.match(line.text))]
    if not any(_OF_MUSA.search(name) for _, name in needed):
        return []
    name = next((m[1] for line in lines if (m := _LDD_OF.search(line.text))), "libmusa_kernels.so")
    elf = Elf("x86_64", None, tuple(dict.fromkeys(n for _, n in needed)), (), ())
    file = name.rpartition("/")[2]
    answers: tuple[Answer, ...] = tuple(_library(file, elf))
    return [Piece(f"ldd {file}", needed[0][0], needed[-1][0], answers)]


def _library(file: str, elf: Elf) -> Iterator[Answer]:
    folder = f"{SITE}/torch_musa" if file.startswith("_MUSAC") else f"{SITE}/torch_musa/lib"
    yield "libraries", f"{folder}/{file}", elf
    yield "ldd", folder, file
