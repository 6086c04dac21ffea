"""What is about to be installed, and what is installed that it must not replace."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from musadoctor.facts.base import Absent, Unknown

EntryKind = Literal[
    "requirement",
    "source",
    "index",
    "include",
    "conda",
    "channel",
    "image",
    "variable",
    "option",
    "extension",
    "unreadable",
]


class Entry(NamedTuple):
    """One thing that a dependency file asks for.

    Of each kind these fields are set beside ``where`` and ``text``:

    - ``requirement``: ``name``; of ``extras``, ``specifier``, ``url`` and ``marker`` what there is.
      A wheel's URL or path is one too, with the name and version of its file name.
    - ``source``: a VCS address, an editable or a local project: ``url``, and a ``name`` if it tells
      one.
    - ``index``: ``url``, ``option`` (``--extra-index-url``, ``--find-links``, ``tool.uv.index``).
    - ``include``: ``url`` (the path as written), ``option`` (``-r``, ``-c``, ``file:``).
    - ``conda``: ``name``, ``specifier``, ``build``, ``channel`` in ``url``.
    - ``channel``: ``name``. ``image``: ``name`` (with tag). ``variable``: ``name``, value in
      ``specifier``. ``option``: ``option``, value in ``specifier``. ``extension``: ``name``.
    - ``unreadable``: ``reason``.

    Of a ``source`` that may not be shown, ``reason`` is what is said in its place.
    """

    kind: EntryKind
    where: str
    """``requirements.txt:12``, ``command line``."""
    text: str
    """As written, on one line, without credentials, at most 200 characters."""
    name: str = ""
    """Of a project: normalised, ``flash-attn``."""
    specifier: str = ""
    """As written: ``==2.4.0+cu121``, ``>=2.2,<3``; empty for any version."""
    extras: tuple[str, ...] = ()
    url: str = ""
    """Without credentials, percent-encoding undone."""
    marker: str = ""
    """A PEP 508 marker, as written."""
    option: str = ""
    build: str = ""
    """A conda build string: ``py310_cu118``."""
    scope: str = ""
    """Where it stands: ``extra:gpu``, ``group:dev``, ``build`` (build-system.requires),
    ``constraint``, ``lock``, ``task`` (a command in a hatch, pdm or pixi script)."""
    fresh: bool = False
    """It goes into an environment of its own, where nothing of the vendor's is: what a lock file, a
    Pipfile, a conda file or an image's base makes."""
    flags: tuple[str, ...] = ()
    """The flags of the command that it stands in, long forms: ``--upgrade``, ``--no-deps``."""
    reason: str = ""


class RequirementsFile(NamedTuple):
    """A dependency file that was read, or why it was not."""

    path: str
    format: str
    """``requirements``, ``pyproject.toml``, ``uv.lock``, ``conda environment``, ..."""
    encoding: str
    """``utf-8``, ``utf-8-sig``, ``utf-16-le``, ``gb18030``; empty of one that was not read."""
    lines: int
    problem: str = ""
    """Why it could not be read: one clause."""
    included_by: str = ""
    """``where`` of the entry that includes it; empty for a file that the user named."""


class Requirements(NamedTuple):
    """Everything that is about to be installed, in the order of the files."""

    files: tuple[RequirementsFile, ...]
    entries: tuple[Entry, ...]

    def __str__(self) -> str:
        return f"{len(self.entries)} entries in {len(self.files)} files"


class Stack(NamedTuple):
    """The vendor's builds that must stay, and the environment that markers are judged in."""

    versions: Mapping[str, str]
    """The installed version of torch, torchvision, torchaudio, triton, torch-musa and whatever else
    matters, by normalised name. Empty in a new environment."""
    vendor: bool
    """Whether torch is the vendor's build, by its content."""
    markers: Mapping[str, str]
    """``sys_platform``, ``platform_machine``, ``python_version``, ... after PEP 508."""
    source: str
    """``/opt/venv/bin/python``, ``--assume musa=2.9.1``, ``a new environment``."""

    def __str__(self) -> str:
        if not self.vendor:
            return f"no vendor's torch ({self.source})"
        return f"torch {self.versions.get('torch', 'of unknown version')} ({self.source})"


class Replacement(NamedTuple):
    """A build of the vendor's that an installer would replace, and what makes it do so."""

    name: str
    installed: str
    """Empty where none is there yet, and another one than the vendor's would come."""
    planned: str
    """Empty where it would only be removed."""
    chain: tuple[str, ...]
    """From a requirement to the new version: ``vllm-musa``, ``vllm``, ``torch==2.7.1``."""
    where: str
    """Of the requirement at the chain's head; empty where the resolver does not tell it."""


class Unresolved(NamedTuple):
    """A requirement that no resolver was asked about, or that none could answer for."""

    where: str
    text: str
    reason: str


class Resolution(NamedTuple):
    """What a real resolver would do to the examined environment."""

    resolver: str
    """``uv 0.13.9``, ``pip 26.3``."""
    resolved: int
    """Requirements that it found a plan for."""
    replacements: tuple[Replacement, ...]
    unresolved: tuple[Unresolved, ...]
    notes: tuple[str, ...] = ()
    """What limits the answer: one clause each."""

    def __str__(self) -> str:
        return f"{self.resolver} resolved {self.resolved} requirements"


RequirementsFact = Requirements | Absent | Unknown
StackFact = Stack | Absent | Unknown
ResolutionFact = Resolution | Absent | Unknown
