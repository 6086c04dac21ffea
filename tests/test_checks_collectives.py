"""The checks of MCCL's backend: what they fire on, and stay silent on."""

import pytest
from given import judged
from given_torch import WHOLE, device, finds, skips, torch_musa

from musadoctor.api import Absent, Check, Collectives
from musadoctor_checks import collectives as family

WITHOUT = Collectives(available=False, version=None, reason='knows no backend "mccl"')
SAYS = 'mccl is not available (knows no backend "mccl")'
ALL = [check for check in vars(family).values() if isinstance(check, Check)]


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
def test_a_healthy_host_gives_nothing(check: Check) -> None:
    assert judged(check, **WHOLE).status == "passed"


@pytest.mark.parametrize(
    ("names", "missing", "unneeded"),
    [
        (["MTT S5000"] * 2, True, ""),
        (["MTT S4000"] * 2, True, ""),
        (["X10000"] * 2, True, ""),
        (["MTT S5000"], False, "with 1 visible devices"),
        (["MTT S80"] * 2, False, "with 2 visible devices; the vendor supplies no MCCL for MTT S80"),
        (["MTT S80"], False, "with 1 visible devices; the vendor supplies no MCCL for MTT S80"),
        ([None] * 2, False, "with 2 visible devices; the vendor supplies no MCCL for the card"),
        ([], False, ""),
    ],
)
def test_there_is_no_mccl(names: list[str | None], *, missing: bool, unneeded: str) -> None:
    visible = torch_musa(*[device(i, name=name) for i, name in enumerate(names)])
    given = {"collectives": WITHOUT, "torch_musa": visible}
    end = f"with {len(names)} visible devices and torch_musa 2.9.1+musa5.2.0"
    found = finds(family.mccl_backend_missing, **given)
    assert found == ((f"{SAYS}, {end}",) if missing else ())
    found = finds(family.mccl_backend_not_needed, **given)
    assert found == ((f"{SAYS}, {unneeded}",) if unneeded else ())


def test_devices_that_could_not_be_counted() -> None:
    uncounted = torch_musa()._replace(device_count=None)
    for check in ALL:
        assert finds(check, collectives=WITHOUT, torch_musa=uncounted) == ()
        assert skips(check, torch_musa=Absent("import torch_musa failed"))
