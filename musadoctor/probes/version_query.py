r"""``musa_version_query``: what a Toolkit's components say of themselves.

A block for each installed component, its name and a JSON object with tabs::

    musa_toolkits:
    {
        "version":      "4.1.0",
        "git branch":   "release_musa_4.1.1",
        "commit id":    "9a3dd9fad4c5c80a64c2badc6228480cde5e7aac"
    }
    mccl:
    {
        "version":      "2.11.4",
        "build archs":  "21,22",

The single helpers (``musa_runtime_version``) print the same form. Real outputs have been cut,
stripped of white space, shortened with ``...`` and, once, lost a quote, so the fields are found
one by one and not as JSON.
"""

import re
from collections.abc import Mapping

from musadoctor.commands import version_query as command_of
from musadoctor.facts import Absent, Component, Unknown, VersionQuery
from musadoctor.facts.toolkit import VersionQueryFact
from musadoctor.system import Ran, System
from musadoctor.versions import ComponentVersion

TOOL = "musa_version_query"

_BLOCK = re.compile(r"(?m)(?:^|\})[ \t]*(\w+)[ \t]*:\s*\{")
_FIELD = re.compile(r'"?([a-z][a-z ]{0,30})"?[ \t]*:[ \t]*"?([^"\n]*)')


def parse_version_query(text: str) -> tuple[Component, ...]:
    """The blocks that state a version; ``driver_dependency`` has none and is left out."""
    blocks = list(_BLOCK.finditer(text))
    ends = [block.start() for block in blocks[1:]] + [len(text)]
    found: list[Component] = []
    for block, end in zip(blocks, ends, strict=False):
        fields = {
            field[1]: field[2].strip(" \t\r,") for field in _FIELD.finditer(text, block.end(), end)
        }
        component = component_of(block[1], fields)
        if component is not None:
            found.append(component)
    return tuple(found)


def component_of(name: str, fields: Mapping[str, object]) -> Component | None:
    """A component from the fields of its block; ``None`` where no version is stated as a text.

    ``build archs`` come as ``21;22``, ``21,22``, ``22`` and ``--cuda-gpu-arch=mp_21``.
    """
    texts = {key.replace(" ", ""): value for key, value in fields.items() if isinstance(value, str)}
    version = ComponentVersion.parse(texts.get("version", ""))
    if version is None:
        return None
    architectures = re.findall(r"[0-9]{2,}", texts.get("buildarchs", ""))
    return Component(
        name=name,
        version=version,
        branch=texts.get("gitbranch") or None,
        architectures=tuple(dict.fromkeys(f"mp_{number}" for number in architectures)),
        commit=texts.get("commitid") or None,
    )


def ask_version_query(system: System, path: str) -> VersionQueryFact:
    """Run the tool at ``path``, or the one of that name on PATH."""
    command = command_of(path)
    ran = system.run(command)
    components = parse_version_query(ran.out)
    # It starts a helper for each component; a failing one is no reason to lose the others.
    if ran.status in {"ok", "failed"} and components:
        return VersionQuery(components, command.key)
    if ran.status == "ok":
        return Unknown(f"{command}: printed no version")
    return not_answered(command.key, ran)


def not_answered(command: str, ran: Ran) -> Absent | Unknown:
    """The state that follows from a program that gave no answer."""
    if ran.status == "not there":
        return Absent(ran.note)
    how = f"killed by {ran.note}" if ran.status == "signal" else ran.note or ran.status
    return Unknown(f"{command}: {how.removeprefix(f'{command}: ')}")
