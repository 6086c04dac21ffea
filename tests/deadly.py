"""Work for other processes, some of which kills them as the kernel does when memory runs out."""

import os
import signal
from collections.abc import Sequence

from musadoctor.fleet.documents import Told, documents
from musadoctor.fleet.sources import Piece
from musadoctor.fleet.state import LeftOut


def doubled(batch: Sequence[int]) -> list[int]:
    """Twice each number; none comes back of what holds a 13."""
    if 13 in batch:
        os.kill(os.getpid(), signal.SIGKILL)
    return [2 * number for number in batch]


def own(batch: Sequence[int]) -> list[int]:
    """The number of the process, for each."""
    return [os.getpid() for _ in batch]


def told(batch: Sequence[Piece | LeftOut]) -> list[Told | LeftOut]:
    """What pieces tell; what has the word ``deadly`` in it kills its reader."""
    found: list[Told | LeftOut] = []
    for one in batch:
        if isinstance(one, LeftOut):
            found.append(one)
        elif b"deadly" in one.data:
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            found += documents(one)
    return found
