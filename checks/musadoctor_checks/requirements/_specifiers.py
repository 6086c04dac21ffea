"""Whether an installed version satisfies a specifier, as PEP 440 compares.

The common ones, releases against a release, are compared here: to import ``packaging.specifiers``
takes as long as a start of Python.
"""

import functools
import re

_CLAUSE = r"(?a)\s*(~=|==|!=|<=|>=|<|>)\s*v?(\d{1,9}(?:\.\d{1,9})*)(\.\*)?\s*"
_INSTALLED = (
    r"(?a)(\d{1,9}(?:\.\d{1,9})*)(?:(a|b|rc)(\d{1,9}))?(?:\.post(\d{1,9}))?(?:\+([a-z\d.]+))?"
)

Key = tuple[tuple[int, ...], tuple[str, int], int]
"""What versions are ordered by: release, pre-release, post-release."""


@functools.lru_cache(maxsize=1024)
def satisfied(specifier: str, version: str) -> bool | None:
    """Whether pip would keep an installed version; ``None`` where it refuses the specifier."""
    if not specifier:
        return True
    found = plain(specifier, version)
    if found is not None:
        return found
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - see above

    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except ValueError:  # InvalidSpecifier, InvalidVersion, a very long number
        return None


def plain(specifier: str, version: str) -> bool | None:
    """The answer where all that is asked for is a release; ``None`` of anything else."""
    installed = re.fullmatch(_INSTALLED, version)
    clauses = [re.fullmatch(_CLAUSE, part) for part in specifier.rstrip().rstrip(",").split(",")]
    if installed is None:
        return None
    result = True
    for clause in clauses:
        if clause is None:
            return None
        operator, release, any_below = clause[1], _numbers(clause[2]), bool(clause[3])
        if any_below and operator not in {"==", "!="}:
            return None
        if operator == "~=" and len(release) == 1:
            return None
        result = result and _holds(operator, release, installed, any_below=any_below)
    return result


def _holds(
    operator: str, release: tuple[int, ...], installed: re.Match[str], *, any_below: bool
) -> bool:
    """One clause; a local label counts for nothing but ``>``."""
    mine = _numbers(installed[1])
    if any_below:
        return (_padded(mine, len(release))[: len(release)] == release) == (operator == "==")
    have, want = _key(mine, installed), (_trimmed(release), ("z", 0), -1)
    same_release = have[0] == want[0]
    if operator == "~=":
        inner = release[:-1]
        return have >= want and _padded(mine, len(inner))[: len(inner)] == inner
    if operator == "<":
        return have < want and not same_release
    if operator == ">":
        return have > want and not same_release
    if operator in {"==", "!="}:
        return (have == want) == (operator == "==")
    return have >= want if operator == ">=" else have <= want


def _key(release: tuple[int, ...], installed: re.Match[str]) -> Key:
    before = (installed[2], int(installed[3])) if installed[2] else ("z", 0)
    return _trimmed(release), before, int(installed[4]) if installed[4] else -1


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _trimmed(release: tuple[int, ...]) -> tuple[int, ...]:
    """Without zeros at the end, which count for nothing."""
    end = len(release)
    while end > 1 and release[end - 1] == 0:
        end -= 1
    return release[:end]


def _padded(release: tuple[int, ...], length: int) -> tuple[int, ...]:
    return release + (0,) * (length - len(release))
