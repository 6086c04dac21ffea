"""The torch family against what is installed, as pip compares."""

import re

from musadoctor.api import Entry, Fix, Stack
from musadoctor_checks.requirements._case import INDEX, Case, requirement
from musadoctor_checks.requirements._specifiers import satisfied

FAMILY = frozenset({"torch", "torchvision", "torchaudio", "triton"})
_ONE_BY_NAME = ("--upgrade-package", "--reinstall-package")
_EAGER = ("--force-reinstall", "--reinstall", "--ignore-installed")
_MINOR = re.compile(r"[\d]+\.\d+")
_FLOOR = re.compile(r">=(\d+(?:\.\d+)*)(?=,|$)")
_ALPHA = re.compile(r"(\d+)\.(\d+)(?:\.0)*a0\b")


def eager(flags: tuple[str, ...]) -> str:
    """The flag by which a command reaches what is only depended on; empty without one."""
    if "--no-deps" in flags:
        return ""
    if "--upgrade" in flags and "--upgrade-strategy=eager" in flags:
        return "--upgrade (eager)"
    named = (f"{flag}={name}" for flag in _ONE_BY_NAME for name in FAMILY)
    return next((flag for flag in (*_EAGER, *named) if flag in flags), "")


def family(entry: Entry, stack: Stack) -> Case:
    """torch, torchvision, torchaudio or triton, without a label that names a build."""
    asked = f"{entry.name}{entry.specifier}"
    if entry.scope == "build":
        return Case(
            "build-isolation-torch",
            f"{asked} in build-system.requires: an isolated build downloads NVIDIA's torch",
            Fix("install the project with --no-build-isolation, against the vendor's build"),
        )
    if entry.fresh or not stack.vendor:
        return _missing(entry, stack)
    installed = stack.versions.get(entry.name)
    if installed is None:
        return _not_installed(entry, asked)
    return _compared(entry, installed)


def _compared(entry: Entry, installed: str) -> Case:
    """A requirement against the vendor's build that is there."""
    name, asked = entry.name, f"{entry.name}{entry.specifier}"
    kept = satisfied(entry.specifier, installed)
    if kept is None:
        return Case(
            "unparsable-torch",
            f"{asked} is no valid requirement, and {name} {installed} is installed",
            Fix("write the version as PEP 440 has it", instead=""),
        )
    if not kept:
        return _mismatch(entry, installed)
    named = [f"{flag}={name}" for flag in _ONE_BY_NAME]
    if flag := next((flag for flag in ("--upgrade", *_EAGER, *named) if flag in entry.flags), ""):
        return Case(
            "upgrade-flag",
            f"{flag} with {asked} would replace the vendor's {installed}, though it satisfies that",
            Fix(f"leave {flag} out, or {name}"),
        )
    return Case(
        "torch-satisfied",
        f"{asked} is satisfied by the installed {installed}: kept, unless something upgrades it",
        Fix("nothing to do; keep --upgrade, --force-reinstall and a new environment away from it"),
    )


def vendor_pin(entry: Entry, stack: Stack) -> Case | None:
    """A build of the vendor's, ``==X+musaY``, or a name that only the vendor has."""
    installed = stack.versions.get(entry.name)
    if installed and satisfied(entry.specifier, installed):
        return None
    there = f"{installed} is installed" if installed else "it is not installed here"
    return Case(
        "musa-vendor-pin",
        f"{entry.name}{entry.specifier} is the vendor's, and {there}",
        Fix(f"install the vendor's builds together, from {INDEX} alone and with --no-deps"),
    )


def _missing(entry: Entry, stack: Stack) -> Case:
    if entry.fresh and "--target" in entry.flags:
        into = "--target installs it beside the vendor's build"
    elif entry.fresh:
        into = "it goes into an environment of its own, where the vendor's build is not"
    elif "torch" in stack.versions:
        into = f"the torch {stack.versions['torch']} that is installed is not the vendor's"
    else:
        into = f"there is no vendor's torch ({stack.source})"
    return Case(
        "torch-missing-vendor",
        f"{entry.name}{entry.specifier}: {into}, so NVIDIA's build would come",
        Fix(
            f"leave it out, and install the vendor's {entry.name} first, pinned and from {INDEX}",
            instead="",
        ),
    )


def _not_installed(entry: Entry, asked: str) -> Case:
    if entry.name == "triton":
        return Case(
            "torch-dependent",
            f"{asked}: the vendor's Triton is not installed, and upstream's has no MUSA back end",
            Fix(f"take the vendor's Triton from {INDEX}"),
        )
    return Case(
        "torch-missing-vendor",
        f"{asked}: the vendor's {entry.name} is not installed, and upstream's pins its own torch",
        Fix(f"install the vendor's {entry.name}, from {INDEX} alone with --no-deps", instead=""),
    )


def _mismatch(entry: Entry, installed: str) -> Case:
    asked = f"{entry.name}{entry.specifier}"
    lowered = _lowered(entry.specifier, installed)
    if lowered:
        fix = Fix(
            f"{installed} is an alpha, which sorts below its release: lower the floor",
            instead=requirement(entry, entry.name, lowered, entry.extras),
        )
    else:
        fix = Fix(f"leave it out: {installed} stays{_drift(entry, installed)}", instead="")
    return Case(
        "torch-pin-mismatch",
        f"{asked} is not what is installed, {installed}: pip would replace the vendor's build",
        fix,
    )


def _lowered(specifier: str, installed: str) -> str:
    """The specifier with a floor that the alpha reaches, where that is all that it lacks."""
    alpha = _ALPHA.match(installed)
    if not alpha:
        return ""
    base = f"{alpha[1]}.{alpha[2]}"

    def lower(floor: re.Match[str]) -> str:
        release = floor[1]
        while release.endswith(".0") and release.count(".") > 1:
            release = release.removesuffix(".0")
        return f">={base}.0a0" if release == base else floor[0]

    lowered = _FLOOR.sub(lower, specifier)
    return lowered if satisfied(lowered, installed) else ""


def _drift(entry: Entry, installed: str) -> str:
    """What to look out for where the project was made for another torch."""
    asked, there = _MINOR.search(entry.specifier), _MINOR.search(installed)
    if not asked or not there or asked[0] == there[0]:
        return ""
    return f"; the file asks for {asked[0]}, so see whether the code works with {there[0]}"
