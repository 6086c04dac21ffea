"""``[tool.pdm]``, ``[tool.hatch]`` and ``[tool.pixi]`` of a pyproject.toml."""

import shlex
from collections.abc import Iterator

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.dependency_table import dependency, unreadable
from musadoctor.requirements.requirement_list import indexes, listed, named_lists, place
from musadoctor.requirements.toml_text import (
    Document,
    Keys,
    is_array,
    is_table,
    items,
    string,
    table,
)

_COMMANDS = ("cmd", "shell", "composite")


def entries(document: Document) -> Iterator[Entry]:
    """What these tools' tables add to the project's requirements."""
    yield from _pdm(document)
    for name in table(document.get("tool", "hatch", "envs")):
        yield from _hatch_environment(document, name)
    if table(document.get("tool", "pixi")):
        from musadoctor.requirements import pixi  # noqa: PLC0415 - few projects need it

        yield from pixi.entries(document, "tool", "pixi")


def _pdm(document: Document) -> Iterator[Entry]:
    """After pdm's reference of its tables."""
    keys = ("tool", "pdm")
    yield from named_lists(document, *keys, "dev-dependencies", scope="group")
    yield from indexes(document, *keys, "source", option="tool.pdm.source")
    overrides = (*keys, "resolution", "overrides")
    for name, value in table(document.get(*overrides)).items():
        here = place(document, *overrides, name, scope="override")
        version = string(value)
        if version:
            yield dependency(name, {"url" if "://" in version else "version": version}, here)
        else:
            yield unreadable(here, f"no version of {name}")
    for name, script in table(document.get(*keys, "scripts")).items():
        at = (*keys, "scripts", name)
        if is_table(script):
            for key in _COMMANDS:
                yield from _script(document, script.get(key), (*at, key))
        elif is_array(script):
            yield from _command(document, shlex.join(map(string, script)), at)
        else:
            yield from _script(document, script, at)


def _hatch_environment(document: Document, name: str) -> Iterator[Entry]:
    """After hatch's documentation of environments."""
    keys = ("tool", "hatch", "envs", name)
    for key in ("dependencies", "extra-dependencies"):
        yield from listed(document, *keys, key, scope=f"env:{name}")
    for script, commands in table(document.get(*keys, "scripts")).items():
        yield from _script(document, commands, (*keys, "scripts", script))
    for key in ("pre-install-commands", "post-install-commands"):
        yield from _script(document, document.get(*keys, key), (*keys, key))
    for variable, value in table(document.get(*keys, "env-vars")).items():
        line = f"export {variable}={shlex.quote(string(value))}"
        yield from _command(document, line, (*keys, "env-vars", variable))


def _script(document: Document, commands: object, keys: Keys) -> Iterator[Entry]:
    """The entries of a script: of one command, or of a list of them."""
    if isinstance(commands, str):
        yield from _command(document, commands, keys)
    for number, command in enumerate(items(commands)):
        yield from _command(document, string(command), (*keys, number))


def _command(document: Document, command: str, keys: Keys) -> Iterator[Entry]:
    from musadoctor.requirements import shell  # noqa: PLC0415 - few projects have commands

    where = document.where(*keys)
    for entry in shell.read(document.path, command):
        yield entry._replace(where=where, scope="task")
