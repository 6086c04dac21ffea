"""pylock.toml, after PEP 751."""

from collections.abc import Iterator

from musadoctor.facts.requirements import Entry
from musadoctor.requirements import lock_package
from musadoctor.requirements.lock_blocks import packages


def read(path: str, text: str) -> Iterator[Entry]:
    """The packages of a lock that goes into whatever environment is in use, and each index once."""
    seen: set[str] = set()
    for found in packages(path, text, fresh=False):
        if isinstance(found, Entry):
            yield found
        else:
            yield from lock_package.entries(found, {}, seen, fresh=False)
