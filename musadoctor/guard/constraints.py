"""Hold the vendor's builds where they are: constraints as pip and uv read them.

A constraint is ``torch==2.9.1.post1+musa5.2.0``, which no other index can satisfy, or
``torch @ file:///wheels/torch-2.5.0-cp310-cp310-linux_x86_64.whl``, for a version without a label
is also that of the stock build. The second form lets pip reinstall the vendor's own wheel; but it
is refused in ``--require-hashes`` mode, and uv reinstalls what was installed by name.
"""

import configparser
import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from musadoctor.facts.base import Absent, Unknown
from musadoctor.facts.python import Distribution, Distributions, Triton
from musadoctor.probes.distributions import distributions
from musadoctor.probes.triton import triton
from musadoctor.requirements.requirement import normalised
from musadoctor.system import Failure, System

FAMILY = ("torch", "torch-musa", "torchvision", "torchaudio", "triton")
"""What is the vendor's beside torch, whatever its version looks like."""
PLATFORM_CONFIGURATION = "/etc/pip.conf"
Form = Literal["versions", "installed", "files"]
"""By version only; by file where the build was installed from it; by file wherever there is one."""

_MUSA = re.compile(r"(?:^|\.)(?:musa|mu)[.\d]*(?:$|\.)")
_REQUIRES_TORCH = re.compile(r"torch\s*\(?\s*(?P<specifier>[=<>!~][^;)]*)\)?\s*(?:;.*)?")
_WHEEL = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-\d[^-]*)?-(?P<tags>[^-]+-[^-]+-[^-]+)")


class Pin(NamedTuple):
    """One of the vendor's builds, and where it can be had again."""

    name: str
    version: str
    """As its metadata have it, for that is what installers compare."""
    file: str = ""
    """The wheel that it is, on this machine."""
    url: str = ""
    """The address on another machine that it was installed from."""
    by_file: bool = False
    """Whether it was installed from ``file``, and not by name."""

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


class Pinned(NamedTuple):
    """The vendor's builds in one environment."""

    pins: tuple[Pin, ...]
    left_out: tuple[str, ...]
    """What of the family is not pinned, and why: ``triton 3.5.1: not the vendor's``."""


def pinned(system: System) -> Pinned | Absent | Unknown:
    """The builds to hold in an environment that has the vendor's torch."""
    found = distributions(system)
    if not isinstance(found, Distributions):
        return found
    first: dict[str, Distribution] = {}
    for item in found.items:
        first.setdefault(item.name, item)
    torch = first.get("torch")
    pins: list[Pin] = []
    left_out: list[str] = []
    folders = _wheel_folders(system, first.values())
    for name in (*FAMILY, *sorted(set(first) - set(FAMILY))):
        if name not in first:
            continue
        item = first[name]
        labelled = bool(_MUSA.search(item.version.local or ""))
        if name not in FAMILY and not labelled:
            continue
        if not labelled and (why := _foreign(system, item, torch)):
            left_out.append(f"{item}: {why}")
            continue
        pins.append(_pin(system, item, folders))
    return Pinned(tuple(pins), tuple(left_out))


def written(lines: Iterable[str], where: str) -> str:
    """The text of a constraints file."""
    return (
        f"# Written by musadoctor: the vendor's builds in {where}, which nothing may replace.\n"
        + "".join(f"{line}\n" for line in lines)
    )


def requirement(pin: Pin, form: Form) -> str:
    """One constraint."""
    if pin.file and (form == "files" or (form == "installed" and pin.by_file)):
        return f"{pin.name} @ {file_url(pin.file)}"
    return str(pin)


def unlabelled(pin: Pin) -> bool:
    """Whether a stock build bears the same version, so that the version alone holds nothing."""
    return "+" not in pin.version


def file_url(path: str) -> str:
    """A path as pip and uv take it, also where they split a list of paths at blanks."""
    return f"file://{quote(path)}"


def listed(path: str) -> str:
    """A path in a list that is split at blanks: a URL where it holds one."""
    return file_url(path) if re.search(r"\s", path) else path


def configured(system: System, prefix: str, site: str | None = None) -> tuple[str, ...]:
    """The constraints that pip's configuration files name, as pip would read them.

    A later file wins over an earlier one, and ``[install]`` over ``[global]``; nothing is added up.
    ``site`` is taken for the text of the environment's own file, where it is given.
    """
    named: dict[str, str] = {}
    for path in _configuration_files(system, prefix):
        own = site is not None and path == site_file(prefix)
        text = site if own else system.read(path)
        if isinstance(text, str):
            named |= dict(_constraints_in(text))
    value = named.get("install", named.get("global", ""))
    return tuple(value.split())


def site_file(prefix: str) -> str:
    """The file in an environment that configures its pip."""
    return f"{prefix}/pip.conf"


def parsed(text: str) -> configparser.RawConfigParser | None:
    """A file of pip's configuration; ``None`` where pip could not read it."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    return parser


def option_name(name: str) -> str:
    """The spelling of an option's name by which pip knows it."""
    return name.lower().replace("_", "-").removeprefix("--")


def _constraints_in(text: str) -> Iterator[tuple[str, str]]:
    parser = parsed(text)
    for section in ("global", "install"):
        if parser is not None and parser.has_section(section):
            for name, value in parser.items(section):
                if option_name(name) == "constraint":
                    yield section, value


def _configuration_files(system: System, prefix: str) -> Iterator[str]:
    """pip's configuration files in the order in which it reads them, on Linux."""
    named = _variable(system, "PIP_CONFIG_FILE")
    if named == "/dev/null":
        return
    home = _variable(system, "HOME")
    for folder in reversed((_variable(system, "XDG_CONFIG_DIRS") or "/etc/xdg").split(":")):
        yield f"{folder}/pip/pip.conf"
    yield PLATFORM_CONFIGURATION
    if not named or isinstance(system.stat(named), Failure):
        yield f"{home}/.pip/pip.conf"
        yield f"{_variable(system, 'XDG_CONFIG_HOME') or f'{home}/.config'}/pip/pip.conf"
    yield site_file(prefix)
    if named:
        yield named


def _variable(system: System, name: str) -> str:
    value = system.env(name)
    return value if isinstance(value, str) else ""


def _foreign(system: System, item: Distribution, torch: Distribution | None) -> str:
    """Why one of the family without the vendor's label is not the vendor's; empty where it is."""
    if item.name == "triton":
        found = triton(system)
        backends = found.backends if isinstance(found, Triton) else ()
        if "nvidia" in backends and "mtgpu" not in backends:
            return "not the vendor's: its back ends are " + ", ".join(backends)
    if item.name in {"torchvision", "torchaudio"} and torch is not None:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - 20 ms

        for line in item.requires:
            named = _REQUIRES_TORCH.fullmatch(line)
            try:
                wanted = SpecifierSet(named["specifier"] if named else "")
            except InvalidSpecifier:
                continue
            if not wanted.contains(str(torch.version), prereleases=True):
                return f"it goes with torch{wanted}, not with {torch.version}"
    return ""


def _pin(system: System, item: Distribution, folders: tuple[str, ...]) -> Pin:
    address = item.direct_url or ""
    file = _path(address)
    if file and _is_of(file, item) and not isinstance(system.stat(file), Failure):
        return Pin(item.name, str(item.version), file, by_file=True)
    for folder in folders:
        names = system.list(folder)
        for name in () if isinstance(names, Failure) else names:
            # The stock wheel of the same version bears another tag: manylinux.
            if _is_of(name, item):
                return Pin(item.name, str(item.version), f"{folder}/{name}")
    remote = address if urlsplit(address).scheme in {"http", "https"} else ""
    return Pin(item.name, str(item.version), url=remote)


def _wheel_folders(system: System, items: Iterable[Distribution]) -> tuple[str, ...]:
    """Where wheels of the vendor's may lie: beside those that were installed, or PIP_FIND_LINKS."""
    beside = [
        path.rpartition("/")[0]
        for item in items
        if item.name in FAMILY and (path := _path(item.direct_url or "")).endswith(".whl")
    ]
    linked = [
        _path(word) or word
        for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS")
        for word in re.split(r"[\s,]+", _variable(system, name))
        if word.startswith(("/", "file:"))
    ]
    return tuple(dict.fromkeys(folder.rstrip("/") for folder in (*beside, *linked) if folder))


def _path(url: str) -> str:
    """The path that a file URL names; empty of any other."""
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else ""


def _is_of(path: str, item: Distribution) -> bool:
    """Whether a wheel's name is that of an installed distribution, its tags included."""
    named = _WHEEL.fullmatch(path.rpartition("/")[2].removesuffix(".whl"))
    if named is None or not path.endswith(".whl"):
        return False
    pythons, abis, platforms = (part.split(".") for part in named["tags"].split("-"))
    tags = {f"{p}-{a}-{m}" for p in pythons for a in abis for m in platforms}
    return (
        normalised(named["name"]) == item.name
        and unquote(named["version"]).replace("_", "-").lower()
        == str(item.version).replace("_", "-").lower()
        and bool(tags & set(item.tags))
    )
