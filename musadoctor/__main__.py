"""The program's entry: ``musadoctor`` and ``python -m musadoctor``."""

import gc
import sys


def main() -> None:
    """Run the command line; ``--version`` alone is answered without loading it."""
    if sys.argv[1:] == ["--version"]:
        from musadoctor import __version__  # noqa: PLC0415 - keeps the start small

        print(f"musadoctor {__version__}")
        return
    # A report is over before there is garbage worth looking for.
    gc.disable()
    from musadoctor.cli import run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
