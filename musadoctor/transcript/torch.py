"""What happened in Python: exceptions with their chains, the answers of torch_musa."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from musadoctor.transcript.pieces import CHILD, Answer, Piece
from musadoctor.transcript.text import Line

NEAR = 60
"""Lines between the exceptions of one failed import."""

_EXCEPTION = re.compile(
    r"""
    [ \t|]* (?: E[ \t]+ )?
    ( (?: [A-Za-z_][\w.]{0,60} )? (?: Error | Exception | Warning ) ) \b
    (?: : [ \t]* (.{1,600}) )? $
    """,
    re.VERBOSE | re.ASCII,
)
_EMBEDDED = re.compile(r"\b([A-Za-z_]\w{0,40}(?:Error|Warning)): (.{1,600})$")
_LINK = re.compile(
    r"The above exception was the direct cause|During handling of the above exception"
)
_OPENED = re.compile(
    r"""
      \b lib [\w+-]{2,40} \.so [\d.]* \S{0,2} :? [ ]
      (?: cannot[ ]open | file[ ]too[ ]short | =>[ ]not[ ]found )
    | file[ ]too[ ]short
    | undefined[ ]symbol
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_OF_MUSA = re.compile(
    r"(?ai)musa|mccl|mudnn|mupti|mublas|mufft|libsrv_um|different directory|mthreads"
)
_AVAILABLE = re.compile(
    r"""
    (?: torch[._]musa[.:]? is_available \(? \)?
      | (?<! cuda[ ] ) \b musa[ ]available
      | \b is_available (?: \(\) )?
    ) \W{0,4}
    (?: it[ ] | also[ ] | still[ ] ){0,4}
    (?: returned | returns? | returning | is | prints? | 为 | 是 | 返回 )? \W{0,4}
    (True|False) \b
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_COUNT = re.compile(r"(?ai)\bdevice[ _]count(?:\(\))?\W{0,4}(?:is )?(\d{1,2})\b")


class Raised(NamedTuple):
    """An exception in a traceback."""

    line: Line
    kind: str
    """``ImportError``, ``torch.OutOfMemoryError``."""
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def chains(lines: Sequence[Line]) -> list[list[Raised]]:
    """Exceptions as Python chains them, the innermost first, which is the one that tells why."""
    found: list[list[Raised]] = []
    linked = False
    for line in lines:
        if "rror" not in line.text and "xception" not in line.text:
            continue
        if _LINK.search(line.text):
            linked = bool(found)
        elif raised := _raised(line):
            if linked:
                found[-1].append(raised)
            else:
                found.append([raised])
            linked = False
    return found


def _raised(line: Line) -> Raised | None:
    found = _EXCEPTION.match(line.text) or _EMBEDDED.search(line.text)
    if found is None or not found[2] or found[1].endswith("Warning"):
        return None
    return Raised(line, found[1], found[2].strip())


def exceptions(lines: Sequence[Line]) -> list[Piece]:
    """A failed import of torch_musa, with its chain.

    "Please try running Python from a different directory!" is what torch_musa puts around any
    failure of its own import.
    """
    failed: list[Raised] = []
    for chain in chains(lines):
        if failed and chain[0].line.at > failed[-1].line.at + NEAR:
            break
        if any(map(_of_import, chain)):
            failed += [raised for raised in chain if _of_import(raised) or len(chain) > 1]
    if not failed:
        return []
    texts = list(dict.fromkeys(map(str, reversed(failed))))
    answers: tuple[Answer, ...] = (
        (CHILD, "import torch_musa", {"end": "import torch_musa", "chain": texts}),
    )
    return [Piece("failed import of torch_musa", failed[0].line, failed[-1].line, answers)]


def _of_import(raised: Raised) -> bool:
    imported = "Import" in raised.kind or raised.kind == "OSError" or _OPENED.search(raised.text)
    return bool(imported and _OF_MUSA.search(str(raised)))


def answers_of_torch(lines: Sequence[Line]) -> list[Piece]:
    """What ``torch.musa.is_available()`` and ``device_count()`` said, and their warnings."""
    pieces: list[Piece] = []
    for index, line in enumerate(lines):
        text = line.text
        if text.endswith("is_available()") and index + 1 < len(lines):
            text = f"{text} {lines[index + 1].text.strip()}"  # the answer of an interactive Python
        if "cuda.is_available" not in text and (found := _AVAILABLE.search(text)):
            available: Answer = _step("is_available", found[1] == "True")
            pieces.append(Piece("torch.musa.is_available()", line, line, (available,), found[1]))
        elif found := _COUNT.search(text):
            counted: Answer = _step("device_count", int(found[1]))
            pieces.append(Piece("torch.musa.device_count()", line, line, (counted,), found[1]))
        elif "MUSA initialization:" in text:
            warned = {"end": "is_available", "value": False, "warnings": [text.strip()]}
            answer: Answer = (CHILD, "is_available", warned)
            pieces.append(Piece("warning of is_available()", line, line, (answer,)))
    return pieces


def _step(name: str, value: object) -> Answer:
    return CHILD, name, {"end": name, "value": value}
