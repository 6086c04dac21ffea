"""Poetry's version constraints as PEP 440 has them.

After poetry's documentation, "Dependency specification"; poetry-core itself is not needed for it.
"""

import re

_PART = re.compile(
    r"""
    (?P<operator> \^ | ~=? | ={1,3} | != | <=? | >=? )? [ \t]*
    v? (?P<version> [\w.+!*-]+ )
    """,
    re.VERBOSE | re.ASCII,
)
_BOUND = re.compile(r"(?P<operator>[~=!<>]+)(?P<version>[^,]+)")
_RELEASE = re.compile(r"(?:\d+!)?(\d+(?:\.\d+)*)")
_WILDCARD = re.compile(r"(?:\.[xX*])+$")


def pep440(constraint: str) -> str | None:
    """``^2.1`` as ``>=2.1,<3``; ``None`` of what PEP 440 cannot say, as ``^1 || ^3``."""
    at = 0
    made: list[str] = []
    constraint = constraint.strip()
    while at < len(constraint):
        part = _PART.match(constraint, at)
        bound = part and _bound(part["operator"] or "", part["version"])
        if not part or bound is None:
            return None
        made += [bound] if bound else []
        at = part.end()
        while constraint[at : at + 1] in (" ", ",", "\t"):
            at += 1
    return ",".join(made)


def _bound(operator: str, version: str) -> str | None:
    if version in ("*", "x", "X"):
        return "" if operator in ("", "=", "==", "^", "~", ">=") else None
    wild = _WILDCARD.sub(".*", version)
    if operator not in ("^", "~"):
        return f"{'==' if operator in ('', '=') else operator}{wild}"
    lower = _WILDCARD.sub("", version)
    release = _RELEASE.match(lower)
    if not release or len(release[0]) > len(lower) or not lower[:1].isdigit():
        return None
    try:
        numbers = [int(number) for number in release[1].split(".")]
    except ValueError:  # thousands of digits
        return None
    if operator == "^":
        last = next((i for i, number in enumerate(numbers) if number), len(numbers) - 1)
    else:
        last = min(1, len(numbers) - 1)
    upper = [*numbers[:last], numbers[last] + 1]
    epoch = lower[: release.start(1)]
    return f">={lower},<{epoch}{'.'.join(map(str, upper))}"


def python_marker(constraint: str) -> str:
    """``^3.8`` as a marker; empty where it is none or excludes no Python."""
    parts: list[str] = []
    for bound in _BOUND.finditer(pep440(constraint) or ""):
        precise = bound["version"].count(".") > 1 or "*" in bound["version"]
        variable = "python_full_version" if precise else "python_version"
        parts.append(f'{variable} {bound["operator"]} "{bound["version"]}"')
    return " and ".join(parts)
