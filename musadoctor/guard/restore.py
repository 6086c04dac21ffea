"""How the vendor's builds come back after an installer has replaced them."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from musadoctor.guard.constraints import Pin

INDEX = "VENDOR_INDEX"
"""Stands in a command for the address that only the user knows."""


class Restoration(NamedTuple):
    """What to type, and what to know of it."""

    text: str
    commands: tuple[str, ...]


def restoration(
    pins: Sequence[Pin], python: str, *, pip: bool, twice: Sequence[str] = ()
) -> Restoration:
    """The commands that reinstall ``pins`` for the interpreter ``python``.

    ``pip`` tells whether that interpreter has one; else uv is named. Of the distributions in
    ``twice`` there are two sets of metadata, as after ``pip install -I``, and one must go first.
    """
    install = f"{shlex.quote(python)} -m pip install --force-reinstall --no-deps"
    remove = f"{shlex.quote(python)} -m pip uninstall --yes"
    if not pip:
        install = f"uv pip install --python {shlex.quote(python)} --reinstall --no-deps"
        remove = f"uv pip uninstall --python {shlex.quote(python)}"
    at_hand = [pin.file or pin.url for pin in pins if pin.file or pin.url]
    elsewhere = [str(pin) for pin in pins if not pin.file and not pin.url]
    commands: list[str] = []
    if twice:
        commands.append(f"{remove} {shlex.join(twice)}")
    if at_hand:
        commands.append(f"{install} {shlex.join(at_hand)}")
    if elsewhere:
        commands.append(f"{install} --index-url {INDEX} {shlex.join(elsewhere)}")
    text = "reinstall the vendor's builds"
    if elsewhere:
        text += f"; {INDEX} is the index or folder of wheels that they came from"
    return Restoration(text, tuple(commands))
