"""uv.lock, poetry.lock and pdm.lock: what goes into an environment that their tools make.

uv.lock of version 1, poetry.lock from 1.0 to 2.1, pdm.lock from 2 to 4.5.
"""

from collections.abc import Iterator

from musadoctor.facts.requirements import Entry
from musadoctor.requirements import lock_package
from musadoctor.requirements.lock_blocks import packages, versions

_FILES = "\n[metadata.files]"


def read(path: str, text: str) -> Iterator[Entry]:
    """The packages of a lock, each index once, and projects that are from no index."""
    # Before poetry 1.3 and pdm 2.8 all wheels' names stand in one table at the end.
    files = text.rfind(_FILES)
    known = versions(text, files) if files >= 0 else {}
    seen: set[str] = set()
    for found in packages(path, text, fresh=True):
        if isinstance(found, Entry):
            yield found
        else:
            yield from lock_package.entries(found, known, seen, fresh=True)
