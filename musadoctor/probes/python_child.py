"""Tells what an interpreter is, in one JSON line on the descriptor that the last argument names.

Run with ``-c`` by the examined interpreter. Python 2.7 still understands it, so that a Python that
is too old can be told from one that is broken.
"""

import json
import os
import sys

version = ".".join(str(part) for part in sys.version_info[:3])
answer = json.dumps({"version": version})
if sys.version_info >= (3, 8):  # noqa: UP036 - older ones run this too
    from importlib.machinery import EXTENSION_SUFFIXES

    if sys.path[:1] == [""]:
        del sys.path[0]  # the working directory, which -c puts there
    answer = json.dumps(
        {
            "version": version,
            "implementation": sys.implementation.name,
            "cache_tag": sys.implementation.cache_tag,
            "extension_suffixes": EXTENSION_SUFFIXES,
            "abiflags": sys.abiflags,
            "prefix": sys.prefix,
            "base_prefix": sys.base_prefix,
            "search_path": [os.path.abspath(str(entry)) for entry in sys.path],
        }
    )
os.write(int(sys.argv[-1]), (answer + "\n").encode("ascii"))
