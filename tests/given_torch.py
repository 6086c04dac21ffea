"""The rest of the healthy host of :mod:`given`: Python's side of it, and the routes."""

from given import HEALTHY, TOOLKIT, judged, said, unknown

from musadoctor.api import (
    Check,
    ChildFailure,
    Collectives,
    Distribution,
    Distributions,
    Environment,
    Import,
    MusaDevice,
    MusaInfo,
    Probe,
    Route,
    SearchEntry,
    Toolkit,
    ToolkitRoutes,
    Torch,
    TorchBuild,
    TorchMusa,
    TorchMusaBuild,
    Triton,
    WheelVersion,
)
from musadoctor.versions import DriverApiVersion, ToolkitVersion

SITE = "/opt/venv/lib/python3.10/site-packages"
WORKED = Probe(done=True, failure=None)
NOT_TRIED = Probe(done=False, failure=None)


def version(number: str) -> WheelVersion:
    parsed = WheelVersion.parse(number)
    assert parsed is not None
    return parsed


def distribution(name: str, number: str, *requires: str, tag: str = "") -> Distribution:
    tags = (tag,) if tag else ()
    return Distribution(name, version(number), SITE, tags, requires, None)


def distributions(*items: Distribution) -> Distributions:
    return Distributions(items, "the search path of /opt/venv/bin/python")


def torch_build(number: str, flavour: str = "MUSA", path: str = f"{SITE}/torch") -> TorchBuild:
    dist = distribution("torch", number)
    return TorchBuild(version(number), flavour, ("its files",), path, dist)


def wheel(number: str, runtime: int | None = 5, path: str = f"{SITE}/torch_musa") -> TorchMusaBuild:
    """An installed torch_musa that loads itself with torch."""
    built = version(number)
    return TorchMusaBuild(built, path, built.toolkit, runtime, (), True, f"{path}.dist-info")


def environment(*library_path: SearchEntry, **variables: str) -> Environment:
    return Environment(variables, (), library_path)


def entry(
    path: str, *libraries: str, state: str = "ok", toolkit: str = "", real: str = ""
) -> SearchEntry:
    number = ToolkitVersion.parse(toolkit) if toolkit else None
    return SearchEntry(path, state, real or path, libraries, number)


def device(
    ordinal: int = 0,
    *,
    name: str | None = "MTT S5000",
    capability: tuple[int, int] | None = (3, 1),
    add: Probe = WORKED,
    bf16: Probe = WORKED,
) -> MusaDevice:
    return MusaDevice(ordinal, name, capability, 80 * 2**30, add, bf16)


def failed(message: str, kind: str = "exception", step: str = "device 0: add") -> Probe:
    return Probe(done=False, failure=ChildFailure(step, kind, message))


def torch_musa(*devices: MusaDevice, available: bool = True) -> TorchMusa:
    return TorchMusa(
        version="2.9.1",
        toolkit="5020",
        available=available,
        warnings=(),
        device_count=len(devices),
        devices=devices,
        bf16_supported=True,
        architectures=(),
        mudnn="3400",
        mapped=(),
        failures=(),
    )


def broken(module: str, message: str, kind: str = "exception") -> Import:
    outer = "ImportError: Please try running Python from a different directory!"
    chain = (outer, message) if kind == "exception" else ()
    return Import(module, ChildFailure(f"import {module}", kind, message, chain), 1.0)


def musa_info(driver: str | None, runtime: str | None) -> MusaInfo:
    levels = [DriverApiVersion.parse(text) if text else None for text in (driver, runtime)]
    return MusaInfo((), levels[0], levels[1], "/usr/local/musa-5.2.0/bin/musaInfo")


def route(name: str, number: str, target: str = "") -> Route:
    known = ToolkitVersion.parse(number)
    major = known.major if known else int(number) if number else None
    return Route(name, target or f"/usr/local/musa-{number}", known, major)


def versionless(tree: Toolkit = TOOLKIT) -> Toolkit:
    return tree._replace(version=None, source="nothing states it")


DEVICES = tuple(device(ordinal) for ordinal in range(8))
ABOVE: dict[str, object] = {
    "triton": Triton(version("3.2.0"), f"{SITE}/triton", ("mtgpu",)),
    "toolkit_routes": ToolkitRoutes(
        (route("MUSA_HOME", "5.2.0"), route("loader", "5.2.0"), route("wheel", "5.2.0"))
    ),
    "torch_build": torch_build("2.9.1"),
    "torch_musa_build": wheel("2.9.1+musa5.2.0"),
    "torch_import": Import("torch", None, 3.0),
    "torch": Torch("2.9.1", None, f"{torch_build('2.9.1').path}/__init__.py"),
    "torch_musa_import": Import("torch_musa", None, 1.0),
    "torch_musa": torch_musa(*DEVICES),
    "collectives": Collectives(available=True, version="2.11.4"),
    "distributions": distributions(
        distribution("torch", "2.9.1", tag="cp310-cp310-linux_x86_64"),
        distribution("torch-musa", "2.9.1+musa5.2.0", tag="cp310-cp310-linux_x86_64"),
        distribution("numpy", "1.26.4", tag="cp310-cp310-manylinux_2_17_x86_64"),
    ),
    "musa_info": musa_info("5.2", "5.2"),
}
WHOLE = {**HEALTHY, **ABOVE}


def finds(check: Check, **changes: object) -> tuple[str, ...]:
    """The messages; none where the check passed."""
    return said(check, **{**ABOVE, **changes})


def cannot_tell(check: Check, **changes: object) -> str:
    """Why the check cannot decide."""
    return unknown(check, **{**ABOVE, **changes})


def skips(check: Check, **changes: object) -> bool:
    """Whether the question does not arise."""
    return judged(check, **{**ABOVE, **changes}).status == "skipped"


def fix(check: Check, **changes: object) -> tuple[str, tuple[str, ...], bool]:
    """The text, the commands and the danger of the one finding's fix."""
    (finding,) = judged(check, **{**ABOVE, **changes}).findings
    assert finding.fix is not None
    return finding.fix.text, finding.fix.commands, finding.fix.destructive
