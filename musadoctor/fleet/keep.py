"""Keeps answers in a file as they come, so that what has arrived outlives whatever follows."""

import gzip
from pathlib import Path
from typing import IO, cast


class KeepError(Exception):
    """The file cannot be written; one sentence."""


class Kept:
    """A file of lines, open to the end of a run; each line is on the disk when it was put."""

    def __init__(self, path: Path) -> None:
        """Begin the file anew; one that ends in ``.gz`` is compressed.

        Raises:
            KeepError: it cannot be written.
        """
        self._path = path
        try:
            if path.suffix == ".gz":
                self._file = cast("IO[str]", gzip.open(path, "wt", encoding="utf-8"))  # noqa: SIM115
            else:
                self._file = path.open("w", encoding="utf-8")
        except OSError as error:
            raise KeepError(f"cannot write {path}: {error.strerror}") from None

    def put(self, line: str) -> None:
        """Add a line.

        Raises:
            KeepError: the disk is full, say; the lines before it are kept.
        """
        try:
            self._file.write(f"{line}\n")
            self._file.flush()
        except OSError as error:
            raise KeepError(f"cannot write {self._path}: {error.strerror}") from None

    def close(self) -> None:
        """End the file.

        Raises:
            KeepError: its end cannot be written.
        """
        try:
            self._file.close()
        except OSError as error:
            raise KeepError(f"cannot write {self._path}: {error.strerror}") from None
