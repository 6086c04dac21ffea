"""torch_musa: whether it is there, loads, sees the cards, and computes on them."""

import posixpath
import re

from musadoctor.api import (
    Absent,
    ChildFailure,
    Container,
    Environment,
    Finding,
    Fix,
    Gpus,
    Import,
    Judgement,
    Layer,
    Libraries,
    MusaDevice,
    Python,
    Toolkit,
    Toolkits,
    TorchBuild,
    TorchMusa,
    TorchMusaBuild,
    Unknown,
    check,
)
from musadoctor_checks._children import command, remedy, told
from musadoctor_checks._messages import by_message
from musadoctor_checks._wheels import INDEX, reinstall, wanted
from musadoctor_checks.knowledge import explained

BF16_FROM = (2, 2)
"""The first compute capability that computes in bfloat16 (torch_musa issue 122; 2025-12)."""
IMPORT = "import torch, torch_musa"
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"


@check("torch-musa-missing", layer=Layer.TORCH_MUSA, severity="error", said=by_message)
def torch_musa_missing(
    gpus: Gpus | Unknown,
    torch_build: TorchBuild,
    torch_musa_build: TorchMusaBuild | Absent,
    toolkit: Toolkit | Absent | Unknown,
) -> Judgement:
    """torch_musa is not installed beside torch.

    ## Why it matters

    torch alone does not know Moore Threads GPUs: the device `musa` comes with torch_musa. The
    vendor's torch of some releases does not even work without it.

    ## How to fix

    Install the torch_musa that pairs with the installed torch and was built for the Toolkit, from
    the vendor's index. It is not in the public index, neither as `torch_musa` nor as `torch-musa`.

    ## Symptoms

    - `ModuleNotFoundError: No module named 'torch_musa'`
    - `AttributeError: module 'torch' has no attribute 'musa'`

    ## Sources

    MUSA SDK 5.2.0 install guide (2026); torch_musa issue 87 (2025-05-09).
    """
    number = toolkit.version if isinstance(toolkit, Toolkit) else None
    if isinstance(torch_musa_build, Absent):
        state = str(torch_musa_build)
    elif not torch_musa_build.path:
        state = f"torch_musa {torch_musa_build.version} has metadata only"
    else:
        return
    if isinstance(gpus, Unknown):
        yield gpus
        return
    yield Finding(
        f"{state}, with torch {torch_build.version} and {gpus}",
        where=torch_build.path,
        fix=Fix(
            f"Install {wanted(None, number)}, the Moore Threads builds of both, from {INDEX}; this"
            " replaces the torch that is there",
            destructive=True,
        ),
    )


@check(
    "torch-musa-import-fails", layer=Layer.TORCH_MUSA, severity="error", follows_from=Layer.DRIVER
)
def torch_musa_import_fails(
    torch_musa_import: Import,
    torch_musa_build: TorchMusaBuild | Absent | Unknown,
    environment: Environment | Unknown,
    python: Python | Absent | Unknown,
) -> Judgement:
    """torch_musa cannot be imported.

    ## Why it matters

    Without it there is no device `musa`. The exception that Python shows last, "Please try running
    Python from a different directory!", hides the cause, which is the innermost one.

    From 2.1 on torch imports torch_musa by itself, through an entry point. Then a plain
    `import torch` fails too, in every program, also in one that needs no GPU.

    ## How to fix

    It depends on the innermost exception:

    - a library that cannot be opened: it is missing, or its folder is not on the loader's path
    - an undefined symbol: torch is not the build that torch_musa was linked against
    - a text about torch's version: the two are not of one release

    Until it is repaired, `TORCH_DEVICE_BACKEND_AUTOLOAD=0` keeps torch usable on the CPU.

    ## Symptoms

    - `ImportError: Please try running Python from a different directory!`
    - `RuntimeError: Failed to load the backend extension: torch_musa`
    - `libmusa_kernels.so: undefined symbol: ...`
    - `libmudnn.so.1: cannot open shared object file: No such file or directory`

    ## Sources

    torch_musa issues 9, 63, 83, 100, 102 and 117; torch_musa source (2026).
    """
    failure = torch_musa_import.failure
    if failure is None:
        return
    build = torch_musa_build if isinstance(torch_musa_build, TorchMusaBuild) else None
    fix = remedy(failure, python, IMPORT, reinstall(python, build.version if build else None))
    message = told(failure)
    off = isinstance(environment, Environment) and environment.get(AUTOLOAD) == "0"
    if build and build.autoloads and not off:
        message += "; `import torch` alone fails with it, as torch loads it by itself"
        fix = fix._replace(
            text=f"{fix.text}; until then {AUTOLOAD}=0 keeps torch usable on the CPU",
            commands=(*fix.commands, f"export {AUTOLOAD}=0"),
        )
    yield Finding(message, where=build.path if build else "", fix=fix)


@check(
    "torch-musa-unavailable",
    layer=Layer.TORCH_MUSA,
    severity="error",
    follows_from=Layer.HARDWARE,
    said=by_message,
)
def torch_musa_unavailable(
    torch_musa: TorchMusa, gpus: Gpus | Unknown, python: Python | Absent | Unknown
) -> Judgement:
    """torch_musa finds no device.

    ## Why it matters

    torch_musa loads, but `torch.musa.is_available()` is False or does not come back: the runtime
    counts no device. The reason is said in a warning only, which most programs do not show.

    ## How to fix

    Follow the warning in the message: the driver, the IOMMU, the mask of visible devices or the
    rights on the device nodes.

    ## Symptoms

    - `UserWarning: MUSA initialization: Unexpected error from musaGetDeviceCount()`
    - `RuntimeError: No MUSA GPUs are available`
    - `Found no driver on your system`
    - `MUSA error: no CUDA-capable device is detected`
    - `cannot import name 'GPUEvent' from 'tilelang.utils.device'`
    - `muInit err: 101`

    ## Sources

    torch_musa source (2026); tutorial_on_musa FAQ (2025-08).
    """
    if torch_musa.available:
        return
    said = [*torch_musa.warnings, *map(told, torch_musa.failures)]
    known = explained(said)
    reason = "; ".join(said) or "without a warning that would say why"
    meaning = f" ({known.meaning})" if known and known.meaning not in reason else ""
    cards = f", with {gpus}" if isinstance(gpus, Gpus) else ""
    outcome = "is False" if torch_musa.available is False else "has no answer"
    yield Finding(
        f"torch.musa.is_available() {outcome}{cards}: {reason}{meaning}",
        fix=Fix(
            known.fix if known else "See whether musaInfo lists the cards: if not, it is not torch",
            (command(python, f"{IMPORT}; print(torch.musa.device_count())"),),
        ),
    )


def _expected(mask: str | None, cards: int) -> int | None:
    """How many devices there should be, ``None`` where the mask is no list of present cards."""
    if mask is None:
        return cards
    parts = [part.strip() for part in mask.split(",")]
    there = all(re.fullmatch(r"[0-9]{1,4}", part) and int(part) < cards for part in parts)
    return len(parts) if there else None


@check(
    "torch-musa-device-count",
    layer=Layer.TORCH_MUSA,
    severity="warning",
    follows_from=Layer.HARDWARE,
)
def torch_musa_device_count(
    torch_musa: TorchMusa,
    gpus: Gpus,
    environment: Environment,
    container: Container | Absent | Unknown,
) -> Judgement:
    """torch_musa counts another number of cards than the host has.

    ## Why it matters

    A card that the runtime does not show is missing for training, and the numbers of the others are
    not those of `mthreads-gmi`.

    ## How to fix

    Compare with `mthreads-gmi` and `musaInfo`: a card that is missing there too is not driven, or
    held for a virtual machine.

    ## Symptoms

    - `[INF0] device count 0`

    ## Sources

    Own comparison of sysfs and torch.musa.device_count().
    """
    count = torch_musa.device_count
    if not torch_musa.available or count is None:
        return
    if not gpus.counted:
        yield Unknown(f"how many cards there are is not shown: {gpus}")
        return
    mask = environment.get("MUSA_VISIBLE_DEVICES")
    cards = len(gpus.cards)
    expected = _expected(mask, cards)
    if expected is None or expected == count:
        return
    if mask is None and not isinstance(container, Absent):
        yield Unknown(
            f"{count} devices of the host's {cards}: a container may have been given fewer"
        )
        return
    source = f"MUSA_VISIBLE_DEVICES={mask} lists {expected}" if mask else f"the host has {gpus}"
    yield Finding(
        f"torch.musa.device_count() is {count}, but {source}",
        fix=Fix("Compare with what the tools list", ("mthreads-gmi", "musaInfo")),
    )


def _row(devices: list[MusaDevice]) -> str:
    return ", ".join(f"device {d.ordinal} ({d.name or 'unnamed'})" for d in devices)


def _on(device: MusaDevice, failure: ChildFailure) -> str:
    """How a step named ``device 0: add`` failed, the device named once."""
    return f"{_row([device])}: {told(failure._replace(step=failure.step.partition(': ')[2]))}"


def _not_tried(torch_musa: TorchMusa, what: str, left: list[MusaDevice]) -> Absent | Unknown:
    """Why nothing was computed on some devices, or on none."""
    if torch_musa.device_count == 0:
        return Absent("torch_musa counts no device to compute on")
    # An exception ends its step only.
    ends = [f for f in torch_musa.failures if f.kind != "exception" or f.step == "device_count"]
    why = "".join(f": {told(failure)}" for failure in ends[-1:])
    return Unknown(f"{what} not tried on {_row(left) or 'any device'}{why}")


ADD = f"{IMPORT}; print(torch.ones(4, device='musa:{{}}') + 1)"


@check("tensor-add-fails", layer=Layer.TORCH_MUSA, severity="error", follows_from=Layer.HARDWARE)
def tensor_add_fails(torch_musa: TorchMusa, python: Python | Absent | Unknown) -> Judgement:
    """A small addition fails on a card.

    ## Why it matters

    `is_available()` only counts devices. The addition is the first thing that loads muDNN and runs
    code on the card.

    ## How to fix

    "invalid device function" means that a library has no code for this card: use an SDK and wheels
    whose notes name it. Where only one card of several fails, look for its faults in the kernel
    log.

    ## Symptoms

    - `err 98 = invalid device function`
    - `RuntimeError: BinaryCall MUDNN failed in: Run AddTensor`
    - `MUSA error: unknown error`

    ## Sources

    torch_musa issues 75 and 149 (2026-08).
    """
    failed = [device for device in torch_musa.devices if device.add.failure]
    left = [device for device in torch_musa.devices if not device.add.done]
    if not failed and (left or not torch_musa.devices):
        yield _not_tried(torch_musa, "addition", left)
    for device in failed:
        failure = device.add.failure
        assert failure is not None
        untried = [
            other for other in torch_musa.devices if not other.add.done and not other.add.failure
        ]
        rest = f"; not tried after it: {_row(untried)}" if untried else ""
        yield Finding(
            f"{_on(device, failure)}{rest}",
            where=f"musa:{device.ordinal}",
            fix=remedy(
                failure,
                python,
                ADD.format(device.ordinal),
                Fix(
                    "Repeat it alone with MUSA_LAUNCH_BLOCKING=1, and look into the kernel log",
                    (f"MUSA_LAUNCH_BLOCKING=1 {command(python, ADD.format(device.ordinal))}",),
                ),
            ),
        )


@check("bf16-add-fails", layer=Layer.TORCH_MUSA, severity="error", follows_from=Layer.HARDWARE)
def bf16_add_fails(torch_musa: TorchMusa, python: Python | Absent | Unknown) -> Judgement:
    """A small addition in bfloat16 fails on a card that has bfloat16.

    ## Why it matters

    Most models are loaded in bfloat16. Cards from compute capability 2.2 on (S4000, S5000) compute
    in it, so a failure points at muDNN or the wheel.

    ## How to fix

    Follow the message. Check that muDNN is the one of the Toolkit's SDK release.

    ## Sources

    torch_musa source (2026); torch_musa issues 21 and 122.
    """
    able = [d for d in torch_musa.devices if d.capability and d.capability >= BF16_FROM]
    left = [d for d in able if not (d.bf16_add.done or d.bf16_add.failure or d.add.failure)]
    if left:
        yield _not_tried(torch_musa, "addition in bfloat16", left)
    for device in able:
        failure = device.bf16_add.failure
        if failure and device.add.done:
            operand = f"torch.ones(4, device='musa:{device.ordinal}').bfloat16()"
            code = f"{IMPORT}; t = {operand}; print(t + t)"
            yield Finding(
                _on(device, failure),
                where=f"musa:{device.ordinal}",
                fix=remedy(
                    failure,
                    python,
                    code,
                    Fix("Compare muDNN with the Toolkit's release", (command(python, code),)),
                ),
            )


@check("card-without-bf16", layer=Layer.TORCH_MUSA, severity="note")
def card_without_bf16(torch_musa: TorchMusa) -> Judgement:
    """The card does not compute in bfloat16.

    ## Why it matters

    Cards of compute capability 2.1 (S80, S70, S3000) can hold bfloat16 tensors, but not compute
    with them. `torch.musa.is_bf16_supported()` may say True all the same: below 2.2 it only tries
    to create a tensor.

    ## How to fix

    Load models in float16 or float32.

    ## Sources

    torch_musa issues 21 and 122 (2025-12-24); torch_musa source.
    """
    devices = [d for d in torch_musa.devices if d.capability and d.capability < BF16_FROM]
    if devices:
        wrong = "; is_bf16_supported() says True all the same" if torch_musa.bf16_supported else ""
        yield Finding(
            f"{_row(devices)}: no arithmetic in bfloat16 below compute capability 2.2{wrong}",
            fix=Fix("Load models in float16 or float32"),
        )


@check("torch-musa-lacks-architecture", layer=Layer.TORCH_MUSA, severity="error", said=by_message)
def torch_musa_lacks_architecture(
    torch_musa: TorchMusa, python: Python | Absent | Unknown
) -> Judgement:
    """torch_musa was not built for the architecture of the card.

    ## Why it matters

    Its kernels are machine code for the architectures in its list. On another card they fail when
    they are called; the import and `is_available()` are fine.

    ## How to fix

    Install the torch_musa that is built for this card. The vendor used to publish one wheel for
    each kind of card.

    ## Symptoms

    - `invalid device function`

    ## Sources

    torch_musa source (`get_arch_list`, since 2.0.0); torch_musa issue 149 (2026-08).
    """
    if torch_musa.available and not torch_musa.devices:
        yield Unknown("torch_musa was not asked for its devices")
        return
    built = {number for text in torch_musa.architectures for number in re.findall(r"\d+", text)}
    for device in torch_musa.devices:
        number = "".join(map(str, device.capability or ()))
        # An addition that worked proves the list wrong, whatever its form.
        if built and number and number not in built and not device.add.done:
            yield Finding(
                f"{_row([device])} is mp_{number}, but torch_musa {torch_musa.version} is built for"
                f" {', '.join(torch_musa.architectures)}",
                where=f"musa:{device.ordinal}",
                fix=reinstall(python),
            )


@check(
    "several-toolkits-mapped",
    layer=Layer.TORCH_MUSA,
    severity="warning",
    follows_from=Layer.ENVIRONMENT,
)
def several_toolkits_mapped(
    torch_musa: TorchMusa | Absent | Unknown,
    libraries: Libraries | Absent | Unknown,
    toolkits: Toolkits | Absent,
) -> Judgement:
    """torch_musa runs with libraries of several Toolkits at once.

    ## Why it matters

    Libraries of one release are tested with each other; a mix loads, and fails later in ways that
    point elsewhere, or stops the import with an undefined symbol.

    The libraries are those that were mapped into the process by the import. Where there was none,
    they are those that the loader's rules lead to.

    ## How to fix

    Set `LD_LIBRARY_PATH` so that all of them come from one Toolkit.

    ## Sources

    brilliantrough/agent-skills (2026); ld.so(8).
    """
    known = libraries.found if isinstance(libraries, Libraries) else ()
    when = "mapped at the same time"
    if isinstance(torch_musa, TorchMusa) and torch_musa.mapped:
        paths = torch_musa.mapped
    elif predicted := [lib.real_path for lib in known if lib.asked_by and not lib.problem]:
        paths = tuple(predicted)
        when = "by the loader's rules torch_musa maps at the same time"
    else:
        if not isinstance(torch_musa, TorchMusa):
            yield torch_musa
        return
    roots = [tree.root for tree in toolkits.installed] if isinstance(toolkits, Toolkits) else []
    used: dict[str, str] = {}
    copies: dict[str, list[str]] = {}
    for path in paths:
        used |= {root: used.get(root, path) for root in roots if path.startswith(f"{root}/")}
        copies.setdefault(posixpath.basename(path).partition(".so")[0], []).append(path)
    twice = [path for same in copies.values() if len(same) > 1 for path in same]
    mixed = list(used.values()) if len(used) > 1 else twice
    if mixed:
        yield Finding(
            f"{when}: {', '.join(mixed)}",
            where="LD_LIBRARY_PATH",
            fix=Fix("Keep one Toolkit in LD_LIBRARY_PATH, the one that torch_musa was built for"),
        )


@check(
    "torch-musa-step-fails", layer=Layer.TORCH_MUSA, severity="warning", follows_from=Layer.HARDWARE
)
def torch_musa_step_fails(torch_musa: TorchMusa, python: Python | Absent | Unknown) -> Judgement:
    """torch_musa was imported, but something that it was asked afterwards failed.

    ## Why it matters

    A question such as the properties of a device came to no answer, so that what depends on it
    could not be judged.

    ## How to fix

    Follow the message.
    """
    for failure in torch_musa.failures if torch_musa.available else ():
        if failure.step.startswith("mccl"):
            continue  # the family collectives says so
        yield Finding(
            told(failure),
            fix=remedy(
                failure, python, IMPORT, Fix("Repeat the import", (command(python, IMPORT),))
            ),
        )
