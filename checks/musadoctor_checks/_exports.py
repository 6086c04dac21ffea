"""The commands that make one installed Toolkit the one in use, or change its search path."""

import shlex

from musadoctor.api import SearchEntry, Toolkit

FITTING = 'eval "$(musadoctor env)"'
"""For the Toolkit that fits the wheel, where there are several."""


def exports(tree: Toolkit) -> tuple[str, ...]:
    """For a shell: by its number, else by its folder, before whatever is in the search paths."""
    if tree.version is not None:
        return (f'eval "$(musadoctor env --toolkit {tree.version})"',)
    programs, libraries = (shlex.quote(f"{tree.root}/{name}") for name in ("bin", "lib"))
    return (
        f"export MUSA_HOME={shlex.quote(tree.root)}",
        f'export PATH={programs}:"$PATH"',
        f'export LD_LIBRARY_PATH={libraries}"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"',
    )


def without(entries: tuple[SearchEntry, ...], dropped: tuple[SearchEntry, ...]) -> tuple[str, ...]:
    """LD_LIBRARY_PATH with some entries taken out."""
    kept = ":".join(entry.path for entry in entries if entry not in dropped and entry.path)
    return (f'export LD_LIBRARY_PATH="{kept}"',) if kept else ("unset LD_LIBRARY_PATH",)


def prepended(folder: str) -> tuple[str, ...]:
    """LD_LIBRARY_PATH with a folder before all others."""
    return (f'export LD_LIBRARY_PATH="{folder}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"',)
