"""The checks of torch_musa: what they fire on, stay silent on, and cannot tell."""

import pytest
from given import CARDS, DOCKER, S5000, TOOLKIT, gpus, judged, library, toolkit
from given_torch import (
    DEVICES,
    NOT_TRIED,
    SITE,
    WHOLE,
    broken,
    cannot_tell,
    device,
    environment,
    failed,
    finds,
    fix,
    skips,
    torch_musa,
    wheel,
)

from musadoctor.api import (
    Absent,
    Check,
    ChildFailure,
    Libraries,
    MusaDevice,
    Toolkits,
    TorchMusa,
    Unknown,
)
from musadoctor_checks import torch_musa as family

UNSEEN = Unknown("not found out")
NO_GPU = Absent("no GPU of vendor 1ed5")
NO_MUSA = Absent("torch_musa is not installed for /opt/venv/bin/python")
ALL = [check for check in vars(family).values() if isinstance(check, Check)]
REPEAT = "TORCH_DEVICE_BACKEND_AUTOLOAD=0 /opt/venv/bin/python -X faulthandler -c "


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
def test_a_healthy_host_gives_nothing(check: Check) -> None:
    assert judged(check, **WHOLE).status == "passed"


def test_torch_musa_is_missing() -> None:
    check = family.torch_musa_missing
    assert finds(check, torch_musa_build=NO_MUSA) == (f"{NO_MUSA}, with torch 2.9.1 and {CARDS}",)
    rest = wheel("2.9.1", path="")
    assert finds(check, torch_musa_build=rest) == (
        f"torch_musa 2.9.1 has metadata only, with torch 2.9.1 and {CARDS}",
    )
    text, commands, destructive = fix(check, torch_musa_build=NO_MUSA)
    assert "torch and torch_musa 2.9.1 or 2.11.0.post2 (known with Toolkit 5.2.0)" in text
    assert (commands, destructive) == ((), True)
    for tree in (Absent("none"), toolkit("6.0.0")):
        text, _, _ = fix(check, torch_musa_build=NO_MUSA, toolkit=tree)
        assert text.startswith("Install torch and torch_musa of one release, the Moore Threads")
    assert cannot_tell(check, torch_musa_build=NO_MUSA, gpus=UNSEEN) == UNSEEN.reason
    assert finds(check, gpus=UNSEEN) == ()
    assert skips(check, torch_musa_build=NO_MUSA, gpus=NO_GPU)
    assert skips(check, torch_musa_build=NO_MUSA, torch_build=Absent("no torch"))


UNDEFINED = "ImportError: libmusa_kernels.so: undefined symbol: _ZNK2at10TensorBase"


def test_torch_musa_cannot_be_imported() -> None:
    check = family.torch_musa_import_fails
    imported = broken("torch_musa", UNDEFINED)
    alone = environment(TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    message = (
        f"import torch_musa fails: {UNDEFINED} (torch is not the build that torch_musa was"
        " compiled against)"
    )
    assert finds(check, torch_musa_import=imported, environment=alone) == (message,)
    breaks = "; `import torch` alone fails with it, as torch loads it by itself"
    assert finds(check, torch_musa_import=imported) == (message + breaks,)
    old = wheel("1.3.0")._replace(autoloads=False)
    assert finds(check, torch_musa_import=imported, torch_musa_build=old) == (message,)
    assert finds(check, torch_musa_import=imported, torch_musa_build=UNSEEN) == (message,)


def test_torch_stays_usable() -> None:
    check = family.torch_musa_import_fails
    imported = broken("torch_musa", UNDEFINED)
    text, commands, destructive = fix(check, torch_musa_import=imported)
    assert text.endswith("TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch usable on the CPU")
    assert commands == (
        f"{REPEAT}'import torch, torch_musa'",
        "export TORCH_DEVICE_BACKEND_AUTOLOAD=0",
    )
    assert not destructive
    other = broken("torch_musa", "KeyError: 'x'")
    text, commands, destructive = fix(check, torch_musa_import=other, environment=UNSEEN)
    assert text.startswith("Reinstall the Moore Threads builds, torch 2.9.1 for torch_musa 2.9.1,")
    assert commands[0] == "/opt/venv/bin/python -m pip freeze"
    assert destructive
    text, _, _ = fix(check, torch_musa_import=other, torch_musa_build=UNSEEN)
    assert "torch and torch_musa of one release" in text


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("hang", "import torch_musa does not come back: it"),
        ("signal", "import torch_musa crashes: it"),
        ("exit", "import torch_musa ends the interpreter: it"),
        ("memory", "import torch_musa is killed: it"),
        ("flooded", "import torch_musa floods its output: it"),
    ],
)
def test_each_way_to_die_is_named(kind: str, says: str) -> None:
    imported = broken("torch_musa", "it", kind)
    (found,) = finds(family.torch_musa_import_fails, torch_musa_import=imported)
    assert found.startswith(says)


NOTHING = torch_musa(available=False)
WARNED = NOTHING._replace(warnings=("Error 801: operation not supported",))


@pytest.mark.parametrize(
    ("fact", "cards", "message"),
    [
        (
            NOTHING,
            CARDS,
            (
                f"torch.musa.is_available() is False, with {CARDS}: without a warning that would say"
                " why"
            ),
        ),
        (
            WARNED,
            UNSEEN,
            (
                "torch.musa.is_available() is False: Error 801: operation not supported (the cards"
                " cannot be used as they are set up: the IOMMU, or cards of two kinds in one host)"
            ),
        ),
        (
            NOTHING._replace(failures=(ChildFailure("is_available", "hang", "no answer"),)),
            UNSEEN,
            "torch.musa.is_available() is False: is_available does not come back: no answer",
        ),
        (
            NOTHING._replace(failures=(ChildFailure("device_count", "exception", "(803)"),)),
            UNSEEN,
            (
                "torch.musa.is_available() is False: device_count fails: (803) (the driver cannot carry"
                " this runtime)"
            ),
        ),
    ],
)
def test_torch_musa_is_not_available(fact: TorchMusa, cards: object, message: str) -> None:
    assert finds(family.torch_musa_unavailable, torch_musa=fact, gpus=cards) == (message,)


def test_the_warning_gives_the_fix() -> None:
    check = family.torch_musa_unavailable
    text, commands, _ = fix(check, torch_musa=WARNED)
    assert text.startswith("Set the IOMMU as the card needs it")
    assert commands == (f"{REPEAT}'import torch, torch_musa; print(torch.musa.device_count())'",)
    text, _, _ = fix(check, torch_musa=NOTHING)
    assert text.startswith("See whether musaInfo lists the cards")
    # On a machine without cards it is as it should be.
    assert skips(check, torch_musa=NOTHING, gpus=NO_GPU)


SEVEN = torch_musa(*DEVICES[:7])
TWO = torch_musa(*DEVICES[:2])


@pytest.mark.parametrize(
    ("fact", "mask", "message"),
    [
        (SEVEN, None, f"torch.musa.device_count() is 7, but the host has {CARDS}"),
        (SEVEN, "0, 1", "torch.musa.device_count() is 7, but MUSA_VISIBLE_DEVICES=0, 1 lists 2"),
        (TWO, "6,7", ""),
        # What these leave visible is not known, and other checks speak of them.
        (SEVEN, "0,9", ""),
        (SEVEN, "all", ""),
        (SEVEN, "", ""),
        (SEVEN._replace(device_count=None), None, ""),
        (SEVEN._replace(available=False), None, ""),
    ],
)
def test_the_number_of_devices(fact: TorchMusa, mask: str | None, message: str) -> None:
    at = environment() if mask is None else environment(MUSA_VISIBLE_DEVICES=mask)
    found = finds(family.torch_musa_device_count, torch_musa=fact, environment=at)
    assert found == ((message,) if message else ())


@pytest.mark.parametrize("container", [DOCKER, UNSEEN])
def test_a_container_may_have_fewer(container: object) -> None:
    check = family.torch_musa_device_count
    reason = cannot_tell(check, torch_musa=SEVEN, container=container)
    assert reason == "7 devices of the host's 8: a container may have been given fewer"
    assert finds(check, container=container) == ()
    masked = environment(MUSA_VISIBLE_DEVICES="0,1")
    assert finds(check, torch_musa=SEVEN, container=container, environment=masked)


BAD = failed("RuntimeError: err 98 = invalid device function")
NO_CODE = "(a library has no code for the architecture of the card)"


def test_an_addition_fails() -> None:
    check = family.tensor_add_fails
    one = torch_musa(device(0), device(1, add=BAD))
    assert finds(check, torch_musa=one) == (
        (f"device 1 (MTT S5000): add fails: {BAD.failure and BAD.failure.message} {NO_CODE}"),
    )
    text, commands, _ = fix(check, torch_musa=one)
    assert text.startswith("Use an SDK and wheels whose notes name the card")
    assert "musa:1" in commands[0]
    both = torch_musa(device(0, add=BAD), device(1, add=BAD))
    assert len(finds(check, torch_musa=both)) == 2


def test_a_crash_keeps_the_others_from_being_tried() -> None:
    crash = failed("killed by SIGSEGV", "signal")
    devices = torch_musa(
        device(0),
        device(1, add=crash),
        device(2, add=NOT_TRIED),
        device(3, name=None, add=NOT_TRIED),
    )
    assert finds(family.tensor_add_fails, torch_musa=devices) == (
        (
            "device 1 (MTT S5000): add crashes: killed by SIGSEGV; not tried after it:"
            " device 2 (MTT S5000), device 3 (unnamed)"
        ),
    )


HANG = ChildFailure("device 3: memory", "hang", "no answer in 60 s, killed")
NO_COUNT = ChildFailure("device_count", "exception", "RuntimeError: no count")
UNTRIED = torch_musa(*(device(n, add=NOT_TRIED, bf16=NOT_TRIED) for n in range(2)))
ROW = "device 0 (MTT S5000), device 1 (MTT S5000)"
WHY = ": device 3: memory does not come back: no answer in 60 s, killed"


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        (UNTRIED, f"addition not tried on {ROW}"),
        (UNTRIED._replace(failures=(HANG,)), f"addition not tried on {ROW}{WHY}"),
        (
            UNTRIED._replace(failures=(HANG, NO_COUNT._replace(step="architectures"))),
            f"addition not tried on {ROW}{WHY}",
        ),
        (
            torch_musa()._replace(device_count=None, failures=(NO_COUNT,)),
            "addition not tried on any device: device_count fails: RuntimeError: no count",
        ),
        (
            torch_musa(device(0), device(1, add=NOT_TRIED)),
            "addition not tried on device 1 (MTT S5000)",
        ),
    ],
)
def test_an_addition_that_was_not_tried_is_not_green(fact: TorchMusa, reason: str) -> None:
    assert cannot_tell(family.tensor_add_fails, torch_musa=fact) == reason


def test_no_device_leaves_nothing_to_add_on() -> None:
    assert skips(family.tensor_add_fails, torch_musa=torch_musa(available=False))


@pytest.mark.parametrize(
    ("second", "untried"),
    [
        (device(1, bf16=NOT_TRIED), True),
        (device(1, add=NOT_TRIED, bf16=NOT_TRIED), True),
        (device(1, add=BAD, bf16=NOT_TRIED), False),
        (device(1, capability=(2, 1), bf16=NOT_TRIED), False),
    ],
)
def test_an_addition_in_bf16_that_was_not_tried(second: MusaDevice, *, untried: bool) -> None:
    """What has bfloat16 is not green before it was tried; a plain addition's failure says more."""
    fact = torch_musa(device(0), second)
    if untried:
        reason = "addition in bfloat16 not tried on device 1 (MTT S5000)"
        assert cannot_tell(family.bf16_add_fails, torch_musa=fact) == reason
    else:
        assert finds(family.bf16_add_fails, torch_musa=fact) == ()


def test_an_addition_fails_for_an_unknown_reason() -> None:
    devices = torch_musa(device(0, add=failed("ArithmeticError: 1.0 + 1.0 gave 0.0 on musa:0")))
    text, (command,), _ = fix(family.tensor_add_fails, torch_musa=devices)
    assert text.startswith("Repeat it alone with MUSA_LAUNCH_BLOCKING=1")
    assert command.startswith("MUSA_LAUNCH_BLOCKING=1 TORCH_DEVICE_BACKEND_AUTOLOAD=0 /opt/venv")


BF16 = failed("RuntimeError: NOT_SUPPORTED", step="device 0: bf16 add")


@pytest.mark.parametrize(
    ("shown", "fires"),
    [
        (device(bf16=BF16), True),
        (device(bf16=BF16, capability=(2, 2)), True),
        (device(bf16=BF16, capability=(2, 1)), False),
        (device(bf16=BF16, capability=None), False),
        (device(bf16=BF16, add=BAD), False),
        (device(), False),
    ],
)
def test_an_addition_in_bf16_fails(shown: MusaDevice, *, fires: bool) -> None:
    found = finds(family.bf16_add_fails, torch_musa=torch_musa(shown))
    message = "device 0 (MTT S5000): bf16 add fails: RuntimeError: NOT_SUPPORTED"
    assert found == ((message,) if fires else ())


def test_the_fix_of_bf16() -> None:
    text, (command,), _ = fix(family.bf16_add_fails, torch_musa=torch_musa(device(bf16=BF16)))
    assert text == "Compare muDNN with the Toolkit's release"
    assert "bfloat16()" in command


def test_a_card_without_bf16() -> None:
    check = family.card_without_bf16
    old = torch_musa(device(0, name="MTT S80", capability=(2, 1)), device(1, capability=None))
    says = "device 0 (MTT S80): no arithmetic in bfloat16 below compute capability 2.2"
    assert finds(check, torch_musa=old) == (f"{says}; is_bf16_supported() says True all the same",)
    assert finds(check, torch_musa=old._replace(bf16_supported=False)) == (says,)
    assert finds(check, torch_musa=torch_musa(device(capability=(2, 2)))) == ()


@pytest.mark.parametrize(
    ("shown", "built", "fires"),
    [
        (device(add=BAD), ("mp_21", "mp_22"), True),
        (device(add=NOT_TRIED), ("22",), True),
        (device(add=BAD), ("mp_22", "mp_31"), False),
        (device(add=BAD), ("22;31",), False),
        (device(add=BAD), (), False),
        (device(add=BAD, capability=None), ("mp_21",), False),
        # What works is not to be doubted, whatever the list says.
        (device(), ("mp_21",), False),
    ],
)
def test_torch_musa_lacks_an_architecture(
    shown: MusaDevice, built: tuple[str, ...], *, fires: bool
) -> None:
    fact = torch_musa(shown)._replace(architectures=built)
    found = finds(family.torch_musa_lacks_architecture, torch_musa=fact)
    message = f"device 0 (MTT S5000) is mp_31, but torch_musa 2.9.1 is built for {', '.join(built)}"
    assert found == ((message,) if fires else ())


NEW = "/usr/local/musa-5.2.0/lib"
OLD = "/usr/local/musa-4.3.5/lib"
BOTH = Toolkits((TOOLKIT, toolkit("4.3.5")), "/usr/local")


@pytest.mark.parametrize(
    ("mapped", "listed"),
    [
        ((f"{NEW}/libmusart.so.5.2.0", f"{OLD}/libmudnn.so.3.1.5"), True),
        ((f"{NEW}/libmusart.so.5.2.0", f"{NEW}/libmudnn.so.3.4.0", "/opt/libmusa.so.1"), False),
        (("/a/libmusart.so.5", "/b/libmusart.so.4"), True),
        (("/a/libmublas.so.1", "/a/libmublasLt.so.1"), False),
        ((f"{SITE}/torch_musa/lib/libmusa_kernels.so",), False),
        ((), False),
    ],
)
def test_several_toolkits_are_mapped(mapped: tuple[str, ...], *, listed: bool) -> None:
    fact = torch_musa(*DEVICES)._replace(mapped=mapped)
    found = finds(family.several_toolkits_mapped, torch_musa=fact, toolkits=BOTH)
    assert found == ((f"mapped at the same time: {', '.join(mapped)}",) if listed else ())


def test_copies_are_seen_without_toolkits() -> None:
    twice = ("/a/libmusart.so.5", "/b/libmusart.so.4")
    fact = torch_musa(*DEVICES)._replace(mapped=twice)
    none = Absent("no Toolkit in /usr/local")
    assert finds(family.several_toolkits_mapped, torch_musa=fact, toolkits=none)


ASKED = tuple(
    library(name, folder)._replace(asked_by="/site/torch_musa/lib/libmusa_python.so.1")
    for name, folder in (
        ("libmusart.so.5", "/usr/local/musa-5.2.0/lib"),
        ("libmudnn.so.3", "/usr/local/musa-4.3.5/lib"),
    )
)


@pytest.mark.parametrize("tried", [Absent("import torch_musa failed"), Unknown("hangs")])
def test_several_toolkits_would_be_mapped(tried: object) -> None:
    facts = {"torch_musa": tried, "toolkits": BOTH}
    mixed = f"{ASKED[0].real_path}, {ASKED[1].real_path}"
    check = family.several_toolkits_mapped
    assert finds(check, libraries=Libraries(ASKED, ()), **facts) == (
        f"by the loader's rules torch_musa maps at the same time: {mixed}",
    )
    assert finds(check, libraries=Libraries(ASKED[:1], ()), **facts) == ()
    damaged = (ASKED[0], ASKED[1]._replace(problem="empty file"))
    assert finds(check, libraries=Libraries(damaged, ()), **facts) == ()
    for nothing in (Libraries((library("libmusa.so.1"),), ()), Absent("none"), Unknown("lost")):
        result = judged(check, libraries=nothing, **facts)
        assert (result.status, result.reason) == (
            ("skipped" if isinstance(tried, Absent) else "unknown"),
            str(tried),
        )


def test_what_is_mapped_settles_it() -> None:
    """The rules are asked where nothing was mapped, or nothing tells what was."""
    facts = {"libraries": Libraries(ASKED, ()), "toolkits": BOTH}
    check = family.several_toolkits_mapped
    fact = torch_musa(*DEVICES)
    one = fact._replace(mapped=(ASKED[0].real_path,))
    assert finds(check, torch_musa=one, **facts) == ()
    assert len(finds(check, torch_musa=fact, **facts)) == 1


def test_a_later_step_fails() -> None:
    check = family.torch_musa_step_fails
    steps = (
        ChildFailure("device 0: name", "exception", "RuntimeError: x"),
        ChildFailure("mccl backend", "exception", "RuntimeError: y"),
        ChildFailure("after mudnn version", "exit", "exit code 1"),
    )
    fact = torch_musa(*DEVICES)._replace(failures=steps)
    assert finds(check, torch_musa=fact) == (
        "device 0: name fails: RuntimeError: x",
        "after mudnn version ends the interpreter: exit code 1",
    )
    assert finds(check, torch_musa=fact._replace(available=False)) == ()
    text, commands, _ = fix(check, torch_musa=fact._replace(failures=steps[:1]))
    assert (text, commands) == ("Repeat the import", (f"{REPEAT}'import torch, torch_musa'",))


def test_what_was_not_imported_is_not_judged() -> None:
    gone = Absent("import torch_musa failed: ImportError")
    for check in ALL:
        if "torch_musa" in check.needs:
            assert skips(check, torch_musa=gone)
    assert skips(family.torch_musa_import_fails, torch_musa_import=NO_MUSA)


def test_cards_are_counted_as_they_are() -> None:
    one = gpus(S5000)
    fact = torch_musa(device())
    assert finds(family.torch_musa_device_count, torch_musa=fact, gpus=one) == ()
    named = one._replace(counted=False)
    reason = cannot_tell(family.torch_musa_device_count, torch_musa=fact, gpus=named)
    assert reason == f"how many cards there are is not shown: {named}"
