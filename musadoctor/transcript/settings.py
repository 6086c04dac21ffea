"""Environment variables and docker's configuration."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import cast

from musadoctor.probes.container_runtime import CONFIG, NAME
from musadoctor.probes.environment import VARIABLES
from musadoctor.transcript.pieces import Answer, Piece
from musadoctor.transcript.text import Line

LEAST_VARIABLES = 8
"""So many lines, PATH and one of a session's own names among them, are a whole ``env``."""
_OF_SESSIONS = frozenset(("HOME", "PWD", "SHLVL", "_", "USER", "HOSTNAME"))
_VARIABLE = re.compile(r"(?:declare -x |export )?([A-Za-z_]\w{0,80})=(.*)")
_NAMES = "|".join(sorted(map(re.escape, VARIABLES), key=len, reverse=True))
_ASSIGNED = re.compile(
    rf"""
    [ \t]* (?: export[ \t]+ | ENV[ \t]+ | set[ \t]+ | declare[ ]-x[ ] | -e[ \t]+ | ["'] )?
    ({_NAMES})
    [ \t]? [:=] [ \t]? ([^\s;&|]*)
    (?= [ \t]* (?: \\ | [;&|#] | $ ) )
    """,
    re.VERBOSE,
)
_OPTION = re.compile(rf"[ ](?:-e|--env)[ =][\"']?({_NAMES})=([^\s\"']{{0,400}})")
"""``docker run -e NAME=value``."""
_PREFIX = re.compile(r"(?:[A-Za-z_]\w{0,60}=\S{0,200} ){1,9}(?=[a-z./])")
"""``NAME=value OTHER=value python3 ...``."""
_KNOWN = frozenset(VARIABLES)

_RUNTIMES = re.compile(r"[ \t]*Runtimes:[ \t]*(\S.{0,400})")
_DEFAULT = re.compile(r"[ \t]*Default Runtime:[ \t]*(\S{1,60})")
_BUILT_IN = ("runc", "io.containerd.")
_NEAR = 12
_JSON_MARK = re.compile(r'"default-runtime"|"runtimes"[ \t]*:[ \t]*(?:\{|$)')
_JSON_DEFAULT = re.compile(r'"default-runtime"\s{0,9}:\s{0,9}"([^"\n]{1,60})"')
_JSON_RUNTIME = re.compile(
    r'"([\w.-]{1,60})"\s{0,99}:\s{0,99}\{\s{0,99}"(?:path|args|runtimeType)"\s{0,9}:\s{0,9}'
    r'(?:"([^"\n]{0,200})")?'
)
_BEFORE, _AFTER = 10, 40
_MOST_BRACES = 20


def environment(lines: Sequence[Line]) -> list[Piece]:
    """A whole ``env`` or ``export -p``: the names that it lacks are not set."""
    block: list[tuple[Line, str, str]] = []
    for line in lines:
        if found := _VARIABLE.match(line.text):
            block.append((line, found[1], found[2].strip("\"'")))
        elif _is_whole(block):
            break
        else:
            block = []
    if not _is_whole(block):
        return []
    values: dict[str, str | None] = dict.fromkeys(VARIABLES)
    values |= {name: value for _, name, value in block if name in _KNOWN}
    answers: tuple[Answer, ...] = tuple(("variables", *item) for item in values.items())
    return [Piece("env", block[0][0], block[-1][0], answers)]


def _is_whole(block: Sequence[tuple[Line, str, str]]) -> bool:
    names = {name for _, name, _ in block}
    return len(block) >= LEAST_VARIABLES and "PATH" in names and bool(names & _OF_SESSIONS)


def variables(lines: Sequence[Line]) -> list[Piece]:
    """Assignments of MUSA's variables, as a shell, a Dockerfile or ``docker inspect`` has them."""
    pieces: list[Piece] = []
    for line in lines:
        text = line.text.rstrip("\"',")
        if ("=" in text or ":" in text) and (found := _ASSIGNED.match(text)):
            value = found[2].strip("\"'")
            pieces.append(_variable(line, found[1], value))
        elif "=" in text:
            pieces += [_variable(line, *item) for item in _inline(text)]
    return pieces


def _inline(text: str) -> Iterator[tuple[str, str]]:
    yield from ((found[1], found[2]) for found in _OPTION.finditer(text))
    if prefix := _PREFIX.match(text):
        pairs = (part.partition("=") for part in prefix[0].split())
        yield from ((name, value.strip("\"'")) for name, _, value in pairs if name in _KNOWN)


def _variable(line: Line, name: str, value: str) -> Piece:
    answer: Answer = ("variables", name, value)
    return Piece("variable", line, line, (answer,), f"{name}={value}"[:80])


def docker_info(lines: Sequence[Line]) -> list[Piece]:
    """The runtimes that docker knows, by ``docker info``, as ``daemon.json`` would have them."""
    names: list[str] | None = None
    default = ""
    first: Line | None = None
    last: Line | None = None
    for line in lines:
        runtimes, named = _RUNTIMES.match(line.text), _DEFAULT.match(line.text)
        if (runtimes or named) and (first is None or line.at < first.at + _NEAR):
            first, last = first or line, line
            names = runtimes[1].split() if runtimes and names is None else names
            default = default or (named[1] if named else "")
    if first is None or last is None:
        return []
    if names is None and default == NAME:
        names = [NAME]
    answers: tuple[Answer, ...] = ()
    if names is not None:  # else whether docker knows the vendor's is not shown
        own = {name: {"path": ""} for name in names if not name.startswith(_BUILT_IN)}
        settings: dict[str, object] = {"runtimes": own}
        settings |= {"default-runtime": default} if default else {}
        answers = (("files", CONFIG, json.dumps(settings)),)
    detail = " ".join((*(names or ()), f"(default {default})" if default else "")).rstrip()
    return [Piece("docker info: runtimes", first, last, answers, detail)]


def daemon_json(lines: Sequence[Line]) -> list[Piece]:
    """``/etc/docker/daemon.json``, also one that lost a brace when it was pasted."""
    for index, line in enumerate(lines):
        if not _JSON_MARK.search(line.text):
            continue
        begin = max(0, index - _BEFORE)
        near = [other.text for other in lines[begin : index + _AFTER]]
        text = "\n".join(near)
        settings = next(_objects(text), None) or _settings("\n".join(near[index - begin :]))
        return [Piece("daemon.json", line, line, (("files", CONFIG, json.dumps(settings)),))]
    return []


def _objects(text: str) -> Iterator[dict[str, object]]:
    """The JSON objects in a text that configure docker's runtimes."""
    decoder = json.JSONDecoder()
    at = -1
    for _ in range(_MOST_BRACES):
        at = text.find("{", at + 1)
        if at < 0:
            return
        try:
            found: object = decoder.raw_decode(text, at)[0]
        except (ValueError, RecursionError):
            continue
        settings = cast("dict[str, object]", found)
        if settings.keys() & {"runtimes", "default-runtime"}:
            yield settings


def _settings(text: str) -> dict[str, object]:
    default = _JSON_DEFAULT.search(text)
    runtimes = {found[1]: {"path": found[2] or ""} for found in _JSON_RUNTIME.finditer(text)}
    if default and default[1] == NAME:  # what that is may have been cut off
        runtimes.setdefault(NAME, {"path": ""})
    settings: dict[str, object] = {"runtimes": runtimes}
    return settings | ({"default-runtime": default[1]} if default else {})
