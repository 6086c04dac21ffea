"""Whether a marker is true, after PEP 508.

The common ones are compared here: to import ``packaging.markers`` takes as long as two starts of
Python.
"""

import functools
import re
from collections.abc import Mapping

_CLAUSE = re.compile(r"""\s*(\w+)\s*(==|!=|<=|>=|<|>)\s*(['"])([^'"]*)\3\s*""")
_RELEASE = re.compile(r"\d{1,9}(?:\.\d{1,9})*", re.ASCII)
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)")
_TEXTS = frozenset({"os_name", "platform_machine", "platform_system", "sys_platform"})
_VERSIONS = frozenset({"python_full_version", "python_version"})

Environment = tuple[tuple[str, str], ...]


@functools.lru_cache(maxsize=4096)
def holds(marker: str, scope: str, environment: Environment) -> bool | None:
    """Whether a marker is true; ``None`` where it is none.

    An extra is a choice: outside of an extra's own scope it counts as chosen.
    """
    known = dict(environment)
    found = plain(marker, known)
    if found is not None:
        return found
    from packaging.markers import (  # noqa: PLC0415 - see above
        Marker,
        UndefinedComparison,
        UndefinedEnvironmentName,
    )

    own = scope.removeprefix("extra:") if scope.startswith("extra:") else ""
    extras = [own] if own else ["", *_EXTRA.findall(marker)]
    try:
        parsed = Marker(marker)
        return any(parsed.evaluate({**known, "extra": extra}) for extra in extras)
    except (UndefinedComparison, UndefinedEnvironmentName):
        return True
    except (ValueError, RecursionError):  # InvalidMarker, a very long number, ((((
        return None


def plain(marker: str, known: Mapping[str, str]) -> bool | None:
    """The answer to comparisons of a platform's name or Python's release, joined by and and or."""
    result = False
    for alternative in marker.split(" or "):
        true = True
        for clause in alternative.split(" and "):
            found = _compared(clause, known)
            if found is None:
                return None
            true = true and found
        result = result or true
    return result


def _compared(text: str, known: Mapping[str, str]) -> bool | None:
    clause = _CLAUSE.fullmatch(text)
    if clause is None or clause[1] not in known:
        return None
    name, operator, value = clause[1], clause[2], clause[4]
    if name in _TEXTS and operator in {"==", "!="}:
        return (known[name] == value) == (operator == "==")
    if name not in _VERSIONS:
        return None
    mine, theirs = _RELEASE.fullmatch(known[name]), _RELEASE.fullmatch(value)
    if not mine or not theirs:
        return None
    order = _compare(mine[0], theirs[0])
    return {"==": order == 0, "!=": order != 0, "<": order < 0, ">": order > 0}.get(
        operator, order == 0 or (order < 0) == (operator == "<=")
    )


def _compare(mine: str, theirs: str) -> int:
    """Less than, equal to or greater than nought, as one release is to the other."""
    left, right = ([int(part) for part in release.split(".")] for release in (mine, theirs))
    width = max(len(left), len(right))
    left += [0] * (width - len(left))
    right += [0] * (width - len(right))
    return (left > right) - (left < right)
