"""Ask a real resolver what would happen to the examined environment.

uv is asked where it is on PATH, else a pip from 25.3 on: the environment's own, else that of the
Python that runs musadoctor. Older pips download every wheel to plan, so they are never asked.
Nothing is built, and only metadata is fetched.

Limited are the time, and what one question may write. Not limited is what uv reads from an index
that offers neither metadata nor ranges of a file: of such a wheel it reads as much as comes before
its metadata, and keeps none of it. pip writes such a wheel down, so there the limit holds.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple, TextIO

from musadoctor.commands import Command, pip_plan, pip_version, uv_plan, uv_version
from musadoctor.facts.base import Unknown
from musadoctor.facts.requirements import (
    Entry,
    Replacement,
    Requirements,
    Resolution,
    Stack,
    Unresolved,
)
from musadoctor.guard.plans import Plan, pip_plan_of, replacements, uv_plan_of
from musadoctor.system import Failure, Found, System

OLDEST_PIP = (25, 3)
"""Plans with fast-deps without downloading wheels; measured up to 26.3."""
MOST_LINES = 2000
"""Requirements that are put on one command line."""
SOURCE_ONLY = "not judged: source only, would run build code"
ADDRESS = "not judged: an address, which a resolver would download"

_NO_INDEX = re.compile(
    r"""
    .* (?: Failed\ to\ fetch | error\ sending\ request | network\ connectivity\ is\ disabled ) .*
    | .* (?: Retrying\ \(Retry\( | NewConnectionError | NameResolutionError ) .*
    """,
    re.VERBOSE,
)
_REASONS = (
    (re.compile(r"no usable wheels|building from source is disabled"), SOURCE_ONLY),
    (re.compile(r"was not found in the package registry"), "not judged: not on the index"),
    (
        re.compile(r"No matching distribution found"),
        "not judged: no wheel on the index that fits (source only would run build code)",
    ),
)
_UV_FLAGS = {
    "--no-deps": "--no-deps",
    "--pre": "--prerelease=allow",
    "--force-reinstall": "--reinstall",
    "--ignore-installed": "--reinstall",
    "--reinstall": "--reinstall",
    "--upgrade-strategy=eager": "--upgrade",
}
_PIP_FLAGS = {
    "--no-deps": "--no-deps",
    "--pre": "--pre",
    "--force-reinstall": "--force-reinstall",
    "--ignore-installed": "--ignore-installed",
    "--reinstall": "--force-reinstall",
    "--upgrade": "--upgrade",
    "--upgrade-strategy=eager": "--upgrade-strategy=eager",
}
_UV_INDEX = {
    "--index-url": "--default-index",
    "--extra-index-url": "--index",
    "--find-links": "--find-links",
    "--no-index": "--no-index",
    "--pre": "--prerelease=allow",
}
_PIP_INDEX = {
    "--index-url": "--index-url",
    "--extra-index-url": "--extra-index-url",
    "--find-links": "--find-links",
    "--no-index": "--no-index",
    "--pre": "--pre",
}
_PIP = re.compile(r"pip ((\d+)\.(\d+)\S*)")


class Limits(NamedTuple):
    """How far a resolver may go."""

    seconds: float = 120.0
    """For all questions together."""
    written: int = 512 << 20
    """Bytes that one question may write."""


class _Refusal(NamedTuple):
    """No plan."""

    reason: str
    final: bool
    """Whether there is no use in asking about fewer lines."""


class _Resolver(NamedTuple):
    """Whom to ask, and how."""

    named: str
    plan: Callable[[tuple[str, ...], str], Command]
    explained: Callable[[tuple[str, ...], str], Command]
    """The same, and it says who asks for what."""
    read: Callable[[str, str, Stack], Plan]
    flags: Mapping[str, str]
    """What it calls the flags of an entry's command."""
    options: Mapping[str, str]
    """And the options of a requirements file."""


class _Questions(NamedTuple):
    """What all questions have in common."""

    system: System
    resolver: _Resolver
    options: tuple[str, ...]
    constraints: str
    stack: Stack
    end: float
    written: int
    tell: Callable[[str], None]


class _Part(NamedTuple):
    """Requirements that can be installed together, and the plan."""

    entries: tuple[Entry, ...]
    plan: Plan


def resolve(
    system: System,
    requirements: Requirements,
    stack: Stack,
    python: str,
    limits: Limits = Limits(),  # noqa: B008 - a value
    tell: Callable[[str], None] = lambda _: None,
) -> Resolution | Unknown:
    """What installing the requirements would do to the environment of ``python``.

    ``tell`` is told what goes on. What goes into an environment of its own is not asked about.
    Unknown where no resolver is there, no index answers, or the time is over.
    """
    given = [e for e in requirements.entries if not e.fresh and _applies(e, stack)]
    entries, unresolved = _sorted_out(given)
    if len(entries) > MOST_LINES:
        return Unknown(f"{len(entries)} requirements are too many to ask a resolver about")
    resolver = _resolver(system, python)
    if isinstance(resolver, Unknown):
        return resolver
    questions = _Questions(
        system=system,
        resolver=resolver,
        options=tuple(_options(system, given, resolver.options)),
        constraints="".join(f"{_requirement(e)}\n" for e in given if _is_constraint(e)),
        stack=stack,
        end=time.monotonic() + limits.seconds,
        written=limits.written,
        tell=tell,
    )
    found: list[Replacement] = []
    notes: list[str] = []
    resolved = 0
    # What stands in commands with flags of their own is installed by commands of their own.
    for _, group in groupby(sorted(entries, key=_flags_of), key=_flags_of):
        parts = _together(questions, tuple(group), unresolved)
        if isinstance(parts, Unknown):
            return parts
        if len(parts) > 1:
            notes.append(f"the lines cannot be installed together; {len(parts)} parts were judged")
        resolved += sum(len(part.entries) for part in parts)
        for part in parts:
            found += _replaced(questions, part)
    tell("")
    return Resolution(
        resolver.named, resolved, tuple(dict.fromkeys(found)), tuple(unresolved), tuple(notes)
    )


def progress(stream: TextIO) -> Callable[[str], None]:
    """Show what goes on in one line of a terminal, which an empty text clears."""

    def tell(text: str) -> None:
        if stream.isatty():
            stream.write(f"\r\x1b[K{text}")
            stream.flush()

    return tell


def _applies(entry: Entry, stack: Stack) -> bool:
    from packaging.markers import InvalidMarker, Marker  # noqa: PLC0415 - only with --deep

    try:
        return not entry.marker or Marker(entry.marker).evaluate(dict(stack.markers))
    except (InvalidMarker, ValueError):
        return True


def _sorted_out(entries: Iterable[Entry]) -> tuple[list[Entry], list[Unresolved]]:
    """What can be asked about, and what cannot."""
    kept: list[Entry] = []
    unresolved: list[Unresolved] = []
    for entry in entries:
        if entry.scope in {"build", "constraint"}:
            continue
        if entry.kind == "source":
            unresolved.append(Unresolved(entry.where, entry.text, SOURCE_ONLY))
        elif entry.kind == "requirement" and entry.url:
            unresolved.append(Unresolved(entry.where, entry.text, ADDRESS))
        elif entry.kind == "requirement":
            kept.append(entry)
    return kept, unresolved


def _is_constraint(entry: Entry) -> bool:
    return entry.kind == "requirement" and entry.scope == "constraint" and not entry.url


def _requirement(entry: Entry) -> str:
    extras = f"[{','.join(entry.extras)}]" if entry.extras else ""
    return f"{entry.name}{extras}{entry.specifier}"


def _flags_of(entry: Entry) -> tuple[str, ...]:
    return entry.flags


def _resolver(system: System, python: str) -> _Resolver | Unknown:
    found = system.find("uv")
    path = found.path if isinstance(found, Found) else ""
    why = "uv is not on PATH"
    if path:
        ran = system.run(uv_version(path))
        if ran.status == "ok":
            plan = partial(uv_plan, path, python)
            named = " ".join(ran.out.split()[:2])
            return _Resolver(named, plan, partial(plan, log=True), _read_uv, _UV_FLAGS, _UV_INDEX)
        why = f"{path} --version: {ran.note}"
    platform = system.platform()
    own = "" if isinstance(platform, Failure) else platform.own_python
    for candidate in dict.fromkeys(filter(None, (python, own))):
        ran = system.run(pip_version(candidate))
        version = _PIP.match(ran.out)
        if version and (int(version[2]), int(version[3])) >= OLDEST_PIP:
            plan = partial(pip_plan, candidate, python)
            return _Resolver(f"pip {version[1]}", plan, plan, _read_pip, _PIP_FLAGS, _PIP_INDEX)
        why += f"; {f'pip {version[1]}' if version else 'no pip'} in {candidate}"
    return Unknown(
        f"no resolver that leaves wheels where they are: {why}. Install uv, or pip 25.3 or newer"
    )


def _read_uv(_: str, err: str, stack: Stack) -> Plan:
    return uv_plan_of(err, stack)


def _read_pip(out: str, _: str, stack: Stack) -> Plan:
    return pip_plan_of(out, stack)


def _options(system: System, entries: Iterable[Entry], words: Mapping[str, str]) -> Iterator[str]:
    """Where the files say that packages are to be looked for."""
    for entry in entries:
        word = words.get(entry.option)
        if word is None or entry.kind not in {"index", "option"}:
            continue
        yield word
        if entry.kind == "index":
            beside = os.path.join(os.path.dirname(entry.where.rpartition(":")[0]), entry.url)
            is_there = "://" not in entry.url and not isinstance(system.stat(beside), Failure)
            yield beside if is_there else entry.url


def _together(
    questions: _Questions, entries: tuple[Entry, ...], unresolved: list[Unresolved]
) -> list[_Part] | Unknown:
    """The parts, as few as can be, in which requirements resolve; the rest into ``unresolved``."""
    parts = _halved(questions, entries, unresolved)
    if isinstance(parts, Unknown) or len(parts) < 2:  # noqa: PLR2004
        return parts
    whole = tuple(entry for part in parts for entry in part.entries)
    answer = _ask(questions, whole)
    return [_Part(whole, answer)] if isinstance(answer, Plan) else parts


def _halved(
    questions: _Questions, entries: tuple[Entry, ...], unresolved: list[Unresolved]
) -> list[_Part] | Unknown:
    answer = _ask(questions, entries)
    if isinstance(answer, Plan):
        return [_Part(entries, answer)]
    if answer.final:
        return Unknown(answer.reason)
    if len(entries) == 1:
        unresolved.append(Unresolved(entries[0].where, entries[0].text, answer.reason))
        return []
    parts: list[_Part] = []
    middle = len(entries) // 2
    for half in (entries[:middle], entries[middle:]):
        found = _halved(questions, half, unresolved)
        if isinstance(found, Unknown):
            return found
        parts += found
    return parts


def _ask(
    questions: _Questions, entries: tuple[Entry, ...], *, explained: bool = False
) -> Plan | _Refusal:
    resolver = questions.resolver
    left = questions.end - time.monotonic()
    if left <= 0:
        return _Refusal(f"{resolver.named}: the time for it was over", final=True)
    questions.tell(f"{resolver.named}: {len(entries)} requirements, {left:.0f} s left")
    build = resolver.explained if explained else resolver.plan
    arguments = (*questions.options, *_flags(entries, resolver), "--", *map(_requirement, entries))
    command = build(arguments, questions.constraints)
    ran = questions.system.run(command._replace(seconds=left, writes=questions.written))
    if ran.status == "ok":
        try:
            return resolver.read(ran.out, ran.err, questions.stack)
        except ValueError as error:
            return _Refusal(f"{resolver.named}: {error}", final=True)
    if ran.status != "failed":
        return _Refusal(f"{resolver.named}: {ran.note}", final=True)
    return _refusal(ran.err, resolver.named)


def _refusal(err: str, named: str) -> _Refusal:
    if found := _NO_INDEX.search(err):
        return _Refusal(f"{named}: no index answers: {found[0].strip()}", final=True)
    for pattern, reason in _REASONS:
        if pattern.search(err):
            return _Refusal(reason, final=False)
    errors = [line for line in err.splitlines() if line.lower().startswith("error")]
    said = (errors or err.split("\n"))[0].strip()
    return _Refusal(f"not judged: {named}: {said}", final=False)


def _flags(entries: Sequence[Entry], resolver: _Resolver) -> Iterator[str]:
    for flag in entries[0].flags:
        if flag in resolver.flags:
            yield resolver.flags[flag]
        elif flag == "--upgrade":
            # uv would upgrade what it depends on too.
            yield from (f"--upgrade-package={entry.name}" for entry in entries)


def _replaced(questions: _Questions, part: _Part) -> Iterable[Replacement]:
    found = replacements(part.plan, part.entries, questions.stack)
    if not found or questions.resolver.explained is questions.resolver.plan:
        return found
    answer = _ask(questions, part.entries, explained=True)
    plan = answer if isinstance(answer, Plan) else part.plan
    return replacements(plan, part.entries, questions.stack)
