"""What the pass over the entries finds in one of them."""

from typing import NamedTuple

from musadoctor.api import Entry, Fix

INDEX = "the Moore Threads package index"
REFUSED = frozenset({
    "conda-cuda",
    "conda-cuda-build",
    "conda-cuda-channel",
    "conda-torch",
    "cuda-base-image",
    "cuda-build-flag",
    "cuda-ext-build",
    "cuda-extra",
    "cuda-index",
    "cuda-local-version",
    "cuda-only-package",
    "cuda-system-requirement",
    "cuda-wheel-url",
    "foreign-index",
    "foreign-local-version",
    "foreign-wheel-url",
    "include-refused",
    "nvidia-runtime",
    "other-accelerator",
    "script-install",
    "torch-missing-vendor",
    "torch-pin-mismatch",
    "torch-pinning-dependent",
    "torch-source-url",
    "unparsable-torch",
    "upgrade-flag",
})  # fmt: skip
"""The checks of severity error."""


class Case(NamedTuple):
    """The check that an entry falls to, and what is said of it."""

    check: str
    message: str
    fix: Fix


def requirement(entry: Entry, name: str, specifier: str, extras: tuple[str, ...]) -> str:
    """A requirement line with the marker that the entry has."""
    listed = f"[{','.join(extras)}]" if extras else ""
    marker = f"; {entry.marker}" if entry.marker else ""
    return f"{name}{listed}{specifier}{marker}"
