"""The lines that make one installed Toolkit the one in use, or change its search path."""

from musadoctor.api import SearchEntry


def exports(root: str) -> tuple[str, ...]:
    """For a shell; whatever is in the search paths already stays behind it."""
    rest = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    return (
        f"export MUSA_HOME={root}",
        f'export PATH="{root}/bin:$PATH"',
        f'export LD_LIBRARY_PATH="{root}/lib{rest}"',
    )


def without(entries: tuple[SearchEntry, ...], dropped: tuple[SearchEntry, ...]) -> tuple[str, ...]:
    """LD_LIBRARY_PATH with some entries taken out."""
    kept = ":".join(entry.path for entry in entries if entry not in dropped and entry.path)
    return (f'export LD_LIBRARY_PATH="{kept}"',) if kept else ("unset LD_LIBRARY_PATH",)


def prepended(folder: str) -> tuple[str, ...]:
    """LD_LIBRARY_PATH with a folder before all others."""
    return (f'export LD_LIBRARY_PATH="{folder}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"',)
