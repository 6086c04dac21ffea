"""Settings as commands of a shell, for ``eval``. Every value is quoted, whatever is in it."""

from collections.abc import Sequence


def render(settings: Sequence[tuple[str, str | None]], shell: str) -> str:
    """One command a variable; ``None`` unsets it.

    fish, from 3.0 on, makes a list of a variable whose name ends in PATH by itself.
    """
    if shell == "fish":
        lines = [
            f"set -eg {name}" if value is None else f"set -gx {name} {_fish(value)}"
            for name, value in settings
        ]
    else:
        lines = [
            f"unset {name}" if value is None else f"export {name}={_posix(value)}"
            for name, value in settings
        ]
    return "".join(f"{line}\n" for line in lines)


def _posix(value: str) -> str:
    # Not shlex.quote, which leaves words unquoted that zsh expands, such as `=ls`.
    return "'" + value.replace("'", "'\\''") + "'"


def _fish(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
