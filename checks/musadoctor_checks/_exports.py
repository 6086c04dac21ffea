"""The lines that make one installed Toolkit the one in use."""


def exports(root: str) -> tuple[str, ...]:
    """For a shell; whatever is in the search paths already stays behind it."""
    rest = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    return (
        f"export MUSA_HOME={root}",
        f'export PATH="{root}/bin:$PATH"',
        f'export LD_LIBRARY_PATH="{root}/lib{rest}"',
    )
