"""The version grammars, by every string that the vendor's world is known to write."""

import operator
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.versions import (
    ComponentVersion,
    DriverApiVersion,
    KernelDriverVersion,
    ToolkitVersion,
    WheelVersion,
    _Version,
)

Kind = type[_Version]
KINDS: list[Kind] = [
    KernelDriverVersion,
    DriverApiVersion,
    ToolkitVersion,
    ComponentVersion,
    WheelVersion,
]


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("1.2.0", "1.2.0"),
        ("2.7.0", "2.7.0"),
        ("2.7.0-rc3-0822", "2.7.0"),
        ("2.7.0-rc4-0822", "2.7.0"),
        ("2.9.2-000", "2.9.2"),
        ("3.0.0-rc-KuaE2.0", "3.0.0"),
        ("3.0.0-rc4.0.0-server", "3.0.0"),
        ("3.1.0-rc4.2.0", "3.1.0"),
        ("3.1.0-rc4.2.0-server-Ubuntu", "3.1.0"),
        ("3.3.5-server", "3.3.5"),
        ("3.3.8-server", "3.3.8"),
        ("3.3.10-server", "3.3.10"),
        ("5.1.0-server", "5.1.0"),
        ("  5.2.0\n", "5.2.0"),
    ],
)
def test_a_kernel_driver(text: str, release: str) -> None:
    version = KernelDriverVersion.parse(text)
    assert version is not None
    assert (str(version), version.release) == (text.strip(), release)
    assert ".".join(map(str, version.key)) == release


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (KernelDriverVersion, "kuae1.3.0_musa3.1.0"),
        (KernelDriverVersion, "20241025 release kuae1.3.0_musa3.1.0 0a1b2c3@20241025"),
        (KernelDriverVersion, "KuaE2.0"),
        (KernelDriverVersion, "musa_2.1.1"),
        (KernelDriverVersion, "5.2"),
        (KernelDriverVersion, "N/A"),
        (KernelDriverVersion, ""),
        (DriverApiVersion, "5.2.0"),
        (DriverApiVersion, "5"),
        (DriverApiVersion, "50200"),
        (ToolkitVersion, "KUAE 2.0"),
        (ToolkitVersion, "kuae1.3.1"),
        (ToolkitVersion, "5"),
        (ToolkitVersion, "5.2.0.1"),
        (ToolkitVersion, "5.2.0-server"),
        (ToolkitVersion, "musa-5.2.0"),
        (ToolkitVersion, "v5.2.0"),
        (ToolkitVersion, "\N{FULLWIDTH DIGIT FIVE}.2.0"),
        (ToolkitVersion, "1234567890.0"),
        (ComponentVersion, "rtm_2.1.1"),
        (ComponentVersion, "20230627"),
        (ComponentVersion, "unknown"),
        (WheelVersion, "2.7.1.musa"),
        (WheelVersion, "2.7.1+"),
        (WheelVersion, "2.2.0_git"),
        (WheelVersion, "9" * 5000),
        (ToolkitVersion, "9" * 5000 + ".1"),
    ],
)
def test_what_is_no_number_of_this_kind(kind: Kind, text: str) -> None:
    assert kind.parse(text) is None


@pytest.mark.parametrize(
    ("kind", "text", "shown", "key"),
    [
        (DriverApiVersion, "5.2", "5.2", (5, 2)),
        (DriverApiVersion, "4.3", "4.3", (4, 3)),
        (ToolkitVersion, "rc4.3.1", "4.3.1", (4, 3, 1)),
        (ToolkitVersion, "rc1.4.0", "1.4.0", (1, 4, 0)),
        (ToolkitVersion, "5.2", "5.2", (5, 2)),
        (ToolkitVersion, "5.2.0", "5.2.0", (5, 2, 0)),
        (ToolkitVersion, "4.3.10", "4.3.10", (4, 3, 10)),
        (ComponentVersion, "3.4.0", "3.4.0", (3, 4, 0)),
        (ComponentVersion, "2.11.4", "2.11.4", (2, 11, 4)),
        (ComponentVersion, "rc2.5.0", "2.5.0", (2, 5, 0)),
        (ComponentVersion, "1.14.0", "1.14.0", (1, 14, 0)),
        (ComponentVersion, "9.1.0.70", "9.1.0.70", (9, 1, 0, 70)),
        (ComponentVersion, "2.4.0-rc1", "2.4.0-rc1", (2, 4, 0)),
    ],
)
def test_the_other_numbers_of_the_vendor(
    kind: Kind, text: str, shown: str, key: tuple[int, ...]
) -> None:
    version = kind.parse(text)
    assert version is not None
    assert (str(version), version.key) == (shown, key)


@pytest.mark.parametrize(
    ("text", "base", "toolkit"),
    [
        ("2.0.0", "2.0.0", None),
        ("2.2.0a0+git8ac9b20", "2.2.0", None),
        ("1.3.0+87a0b4f", "1.3.0", None),
        ("2.9.0+0680da1", "2.9.0", None),
        ("2.7.1a0", "2.7.1", None),
        ("2.7.1+musa.4.0.0", "2.7.1", "4.0.0"),
        ("2.7.1+musa4.3.6", "2.7.1", "4.3.6"),
        ("2.9.0+musa5.2.0", "2.9.0", "5.2.0"),
        ("2.11.0.post2", "2.11.0", None),
        ("2.11.0.post2+musa5.2.0", "2.11.0", "5.2.0"),
        ("0.24.1.post1+musa5.2.0", "0.24.1", "5.2.0"),
        ("0.1.3+mu436torch2.7", "0.1.3", "4.3.6"),
        ("0.1.5+musa5.2.0torch2.9.1", "0.1.5", "5.2.0"),
        ("1.1.0+musa5.2.0torch2.11.0.post2", "1.1.0", "5.2.0"),
        ("0.1.8+musa.3", "0.1.8", None),
        ("0.1.9.post3+musa.1", "0.1.9", None),
        ("0.2.7+musa", "0.2.7", None),
        ("2.4.1+cu121", "2.4.1", None),
        ("2.13.0+cpu", "2.13.0", None),
        ("2.0.0+9c789c6", "2.0.0", None),
        ("1.0.0+mu4361", "1.0.0", None),
        ("1.0.0+amusa5.2.0", "1.0.0", None),
        ("1.0.0+musa5.2.0rc1", "1.0.0", None),
        ("1.0.0+cu121.musa5.2.0", "1.0.0", "5.2.0"),
    ],
)
def test_a_wheel(text: str, base: str, toolkit: str | None) -> None:
    version = WheelVersion.parse(text)
    assert version is not None
    assert (str(version), ".".join(map(str, version.key))) == (text, base)
    assert version.toolkit == (ToolkitVersion.parse(toolkit) if toolkit else None)


def parsed(kind: Kind, text: str) -> _Version:
    version = kind.parse(text)
    assert version is not None
    return version


@pytest.mark.parametrize(
    ("kind", "smaller", "greater"),
    [
        (KernelDriverVersion, "2.7.0", "3.0.0-rc4.0.0-server"),
        (KernelDriverVersion, "3.3.5-server", "3.3.10"),
        (DriverApiVersion, "4.3", "5.2"),
        (ToolkitVersion, "4.3.6", "5.2.0"),
        (ToolkitVersion, "4.3.9", "4.3.10"),
        (ToolkitVersion, "5.2", "5.2.1"),
        (ComponentVersion, "3.1.5", "3.4.0"),
        (WheelVersion, "2.9.1+musa5.2.0", "2.11.0.post2"),
    ],
)
def test_the_order_within_a_kind(kind: Kind, smaller: str, greater: str) -> None:
    low, high = parsed(kind, smaller), parsed(kind, greater)
    assert low < high
    assert low <= high
    assert high > low
    assert high >= low
    assert not high < low
    assert not high <= low
    assert not low > high
    assert not low >= high
    assert low != high


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (ToolkitVersion, "5.2", "5.2.0"),
        (KernelDriverVersion, "3.3.5", "3.3.5-server"),
        (WheelVersion, "2.7.1", "2.7.1+musa4.3.6"),
        (ComponentVersion, "0.0", "0.0.0"),
    ],
)
def test_numbers_of_one_rank_that_are_not_the_same(kind: Kind, one: str, other: str) -> None:
    left, right = parsed(kind, one), parsed(kind, other)
    assert left <= right
    assert left >= right
    assert not left < right
    assert not left > right
    assert left != right


@pytest.mark.parametrize(
    "compare", [operator.lt, operator.le, operator.gt, operator.ge], ids=lambda o: o.__name__
)
@pytest.mark.parametrize("left", KINDS)
@pytest.mark.parametrize("right", [*KINDS, str])
def test_kinds_have_no_order(
    left: Kind, right: Kind | type[str], compare: Callable[[object, object], bool]
) -> None:
    one = parsed(left, "5.2" if left is DriverApiVersion else "5.2.0")
    if issubclass(right, str):
        other: object = "5.2.0"
    else:
        other = parsed(right, "5.2" if right is DriverApiVersion else "5.2.0")
    if left is right:
        assert compare(one, other) == (compare in {operator.le, operator.ge})
    else:
        with pytest.raises(TypeError):
            compare(one, other)
        assert one != other


def test_equal_is_what_has_the_same_text_and_kind() -> None:
    one, same = parsed(ToolkitVersion, "rc4.3.1"), parsed(ToolkitVersion, "4.3.1")
    assert one == same
    assert len({one, same, parsed(ComponentVersion, "4.3.1")}) == 2
    assert one != "4.3.1"
    assert repr(one) == "ToolkitVersion('4.3.1')"


def test_the_generation_of_a_number() -> None:
    toolkit = parsed(ToolkitVersion, "4.3.6")
    assert (toolkit.major, toolkit.minor) == (4, 3)
    wheel = parsed(WheelVersion, "2")
    assert (wheel.major, wheel.minor) == (2, 0)


NUMBERS = st.from_regex(
    r"\A\s?(rc|v|[0-9]!)?[0-9]{1,11}(\.[0-9]{1,3}){0,4}([-+.]?[a-zA-Z0-9.+_-]{0,12})\s?\Z"
)


@pytest.mark.parametrize("kind", KINDS)
@given(text=NUMBERS | st.text())
def test_whatever_the_text_it_is_a_number_that_reads_the_same_again_or_none(
    kind: Kind, text: str
) -> None:
    version = kind.parse(text)
    if version is None:
        return
    again = kind.parse(str(version))
    assert again == version
    assert hash(again) == hash(version)
    assert str(again) in text
    assert version.key
