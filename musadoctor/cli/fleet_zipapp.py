"""``musadoctor fleet zipapp``: musadoctor in one file, for machines where it is not installed."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from musadoctor.cli.shared import refuse


def zipapp(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where the file is written.")
    ] = Path("musadoctor.pyz"),
) -> None:
    """Write musadoctor as a single file that needs only Python 3.10: python3 FILE --help."""
    from musadoctor.fleet.carry.bring import zipapp as make  # noqa: PLC0415 - for this command alone
    from musadoctor.fleet.carry.errand import EngineError  # noqa: PLC0415

    try:
        made = make(full=True)
    except EngineError as error:
        refuse(str(error))
    part = output.with_name(f".{output.name}.part")
    try:
        part.write_bytes(made)
        part.chmod(0o755)
        part.replace(output)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        refuse(f"cannot write {output}: {error.strerror}")
