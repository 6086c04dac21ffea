"""Tells what an interpreter is, in one JSON line on the descriptor that the last argument names.

Run with ``-c`` by the examined interpreter. Python 2.7 still understands it, so that a Python that
is too old can be told from one that is broken.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# pyright: basic
# ruff: noqa: PLR2004, UP031 - codes of characters; Python 2.7 has no other way to format

import os
import sys


def quoted(text):  # noqa: ANN001, ANN201 - for Python 2.7
    """A JSON string. To import the json module takes as long as to start Python."""
    units = bytearray(text.encode("utf-16-be", "surrogatepass"))
    codes = [high << 8 | low for high, low in zip(units[::2], units[1::2])]
    plain = [32 <= code < 127 and code not in (34, 92) for code in codes]
    return '"%s"' % "".join(
        chr(code) if as_it_is else "\\u%04x" % code for code, as_it_is in zip(codes, plain)
    )


def listed(texts):  # noqa: ANN001, ANN201
    """A JSON list of strings."""
    return "[%s]" % ", ".join(map(quoted, texts))


version = ".".join(str(part) for part in sys.version_info[:3])
answer = '{"version": "%s"}' % version
if sys.version_info >= (3, 8):  # noqa: UP036 - older ones run this too
    if sys.path[:1] == [""]:
        del sys.path[0]  # the working directory, which -c puts there
    answer = (
        '{"version": "%s", "implementation": "%s", "cache_tag": %s, "abiflags": "%s", '
        '"prefix": %s, "base_prefix": %s, "search_path": %s}'
    ) % (
        version,
        sys.implementation.name,
        quoted(str(sys.implementation.cache_tag)),
        sys.abiflags,
        quoted(sys.prefix),
        quoted(sys.base_prefix),
        listed(os.path.abspath(str(entry)) for entry in sys.path),
    )
os.write(int(sys.argv[-1]), (answer + "\n").encode("ascii"))
