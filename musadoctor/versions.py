"""The version grammars of a MUSA host: one type per kind of number, compared within a kind only.

The vendor numbers its kernel driver, user-space driver, Toolkit and wheels independently, so
``3.3.5`` and ``4.3.5`` say nothing about each other. Kinds are related by the knowledge tables of
the checks and by nothing else; comparing two kinds is a ``TypeError`` and a type error.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from typing_extensions import Self


_N = "[0-9]{1,9}"
_SUFFIX = r"(?:[-+.][0-9A-Za-z][0-9A-Za-z.+-]*)?"


class _Version:
    """What the kinds share: a sort key, and the text that it was read from.

    Equal are numbers of the same text; in order, ``5.2`` is ``5.2.0``.
    """

    __slots__ = ("key", "text")

    grammar: ClassVar[re.Pattern[str]]
    key: tuple[int, ...]
    text: str

    def __init__(self, text: str, key: tuple[int, ...]) -> None:
        self.text = text
        self.key = key

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a number of this kind, or ``None`` when the text is of another form."""
        found = cls.grammar.fullmatch(text.strip())
        if found is None:
            return None
        return cls(found["text"], tuple(int(part) for part in found["release"].split(".")))

    @property
    def major(self) -> int:
        """The first part: the generation."""
        return self.key[0]

    @property
    def minor(self) -> int:
        """The second part, 0 where the number has only one."""
        return self.key[1] if len(self.key) > 1 else 0

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def __hash__(self) -> int:
        return hash((type(self), self.text))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.text == str(other)

    @property
    def _rank(self) -> tuple[int, ...]:
        last = max((place for place, part in enumerate(self.key, 1) if part), default=0)
        return self.key[:last]

    def __lt__(self, other: Self) -> bool:
        return self._rank < other._rank if type(other) is type(self) else NotImplemented

    def __le__(self, other: Self) -> bool:
        return self._rank <= other._rank if type(other) is type(self) else NotImplemented

    def __gt__(self, other: Self) -> bool:
        return self._rank > other._rank if type(other) is type(self) else NotImplemented

    def __ge__(self, other: Self) -> bool:
        return self._rank >= other._rank if type(other) is type(self) else NotImplemented


class KernelDriverVersion(_Version):
    """The kernel driver's package number.

    ``Driver Version:3.1.0-rc4.2.0-server-Ubuntu`` in ``mthreads-gmi``, ``package version:3.3.5``
    in ``/proc/driver/musa/version``. Not the ``Driver Version: 5.2`` of ``musaInfo``, which is
    :class:`DriverApiVersion`.
    """

    __slots__ = ()
    grammar = re.compile(rf"(?P<text>(?P<release>{_N}\.{_N}\.{_N}){_SUFFIX})")

    @property
    def release(self) -> str:
        """The dotted number without its suffix: ``3.3.5`` of ``3.3.5-server``."""
        return ".".join(str(part) for part in self.key)


class DriverApiVersion(_Version):
    """The API level of the user-space driver ``libmusa``, or of the runtime ``libmusart``.

    ``Driver Version: 5.2`` and ``Runtime Version: 5.2`` in ``musaInfo``: major and minor only.
    """

    __slots__ = ()
    grammar = re.compile(rf"(?P<text>(?P<release>{_N}\.{_N}))")


class ToolkitVersion(_Version):
    """The MUSA Toolkit's number.

    ``"musa_toolkits": {"version": "5.2.0"}`` in ``version.json``, ``musa-5.2.0`` as a folder,
    the ``5.2.0`` in a wheel's ``+musa5.2.0``.
    """

    __slots__ = ()
    grammar = re.compile(rf"(?:rc)?(?P<text>(?P<release>{_N}\.{_N}(?:\.{_N})?))")


class ComponentVersion(_Version):
    """The number of one component of an SDK: muDNN ``3.4.0``, MCCL ``2.4.0``, mcc ``5.2.0``.

    muDNN ``rc2.5.0`` of 2024 is read as ``2.5.0``.
    """

    __slots__ = ()
    grammar = re.compile(rf"(?:rc)?(?P<text>(?P<release>{_N}(?:\.{_N})+){_SUFFIX})")


# ``+musa5.2.0``, ``+musa.4.0.0``, ``+musa5.2.0torch2.9.1``, and MATE's ``+mu436torch2.7``.
_LOCAL_TOOLKIT = re.compile(rf"(?:^|\.)musa\.?({_N}\.{_N}(?:\.{_N})?)(?=$|\.(?![0-9])|torch)")
_LOCAL_TOOLKIT_SHORT = re.compile(r"^mu([0-9])([0-9])([0-9])(?=$|torch)")


class WheelVersion(_Version):
    """The number of a Python distribution, as PEP 440 has it.

    ``2.7.1``, ``2.11.0.post2+musa5.2.0``. ``key`` is the release alone; a local label never takes
    part in an order.
    """

    __slots__ = ("local",)

    local: str | None
    """What follows the ``+``, in PEP 440's spelling."""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a PEP 440 version, or ``None`` when the text is none."""
        from packaging.version import Version  # noqa: PLC0415 - 20 ms

        try:
            version = Version(text)
        except ValueError:  # InvalidVersion is one; so is what int says of 5000 digits
            return None
        wheel = cls(text.strip(), version.release)
        wheel.local = version.local
        return wheel

    @property
    def toolkit(self) -> ToolkitVersion | None:
        """The Toolkit that the local label names, where it names one."""
        if self.local is None:
            return None
        if named := _LOCAL_TOOLKIT.search(self.local):
            return ToolkitVersion.parse(named[1])
        if short := _LOCAL_TOOLKIT_SHORT.search(self.local):
            return ToolkitVersion.parse(".".join(short.groups()))
        return None
