"""The two states of a fact that is not known as a record."""

from typing import NamedTuple


class Absent(NamedTuple):
    """The thing is certainly not there; ``reason`` says where it was looked for."""

    reason: str

    def __str__(self) -> str:
        return self.reason


class Unknown(NamedTuple):
    """It could not be found out; ``reason`` says why. Never to be read as good news."""

    reason: str

    def __str__(self) -> str:
        return self.reason
