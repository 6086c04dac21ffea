"""Hosts with an examined interpreter, for the tests of what is read through it."""

import json
from collections.abc import Mapping, Sequence

from support import host

from musadoctor.recording import Recorder
from musadoctor.system import Elf, Failure, Found, Ran

PYTHON = "/opt/env/bin/python3"
SITE = "/opt/env/lib/python3.10/site-packages"
TORCH_FILES = {
    f"{SITE}/torch/version.py": "__version__ = '2.7.1'\ncuda: Optional[str] = None\n",
    f"{SITE}/torch-2.7.1.dist-info/METADATA": "Name: torch\nVersion: 2.7.1\n\ntext\n",
}


def python_answer(**changes: object) -> Ran:
    """What the interpreter says of itself, with changes."""
    answer: dict[str, object] = {
        "version": "3.10.12",
        "implementation": "cpython",
        "abiflags": "",
        "prefix": "/opt/env",
        "search_path": [SITE],
    }
    return Ran("ok", 0, answer=json.dumps({**answer, **changes}) + "\n")


def python_host(
    *,
    files: Mapping[str, str | Failure] | None = None,
    folders: Mapping[str, Sequence[str] | Failure] | None = None,
    libraries: Mapping[str, Elf | Failure] | None = None,
    runs: Mapping[str, Ran] | None = None,
    search_path: Sequence[str] = (SITE,),
) -> Recorder:
    """A host whose python3 on PATH looks for packages in these folders.

    The folders of ``files`` and ``libraries`` are there, with what they hold.
    """
    tree: dict[str, set[str]] = {folder: set() for folder in search_path}
    for path in (*(files or {}), *(libraries or {})):
        while "/" in path[1:]:
            path, _, name = path.rpartition("/")  # noqa: PLW2901 - up to the root
            tree.setdefault(path, set()).add(name)
    return host(
        files=files,
        folders={**{path: sorted(names) for path, names in tree.items()}, **(folders or {})},
        libraries=libraries,
        programs={"python3": Found(PYTHON)},
        runs={"child:python": python_answer(search_path=list(search_path)), **(runs or {})},
    )
