"""Work that Ctrl-C, SIGTERM or SIGHUP cut short, and that still tells what it has found."""

import signal
import threading
from collections.abc import Callable
from typing import TypeVar

from musadoctor.cli.shared import interrupt_by

TICK = 0.1
T = TypeVar("T")


def interruptible(
    work: Callable[[], T],
    *,
    watch: Callable[[], None],
    stop: Callable[[], None],
    patience: float,
) -> tuple[list[T], bool]:
    """Do ``work`` in a thread, and ``watch`` it; its result, and whether it was interrupted.

    When interrupted it is told to ``stop``, and has ``patience`` seconds for its last words; where
    it does not end in them there is no result. An exception of ``work`` is raised here.
    """
    made: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            made.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            failed.append(error)
        finally:
            over.set()

    # To join a thread would not do: one that is interrupted takes the thread to have ended.
    over = threading.Event()
    interrupted = False
    try:
        interrupt_by(signal.SIGTERM, signal.SIGHUP)
        threading.Thread(target=run, daemon=True).start()
        while not over.wait(TICK):
            watch()
    except KeyboardInterrupt:
        interrupted = True
        # A second one would only lose what the first one kept.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        stop()
        over.wait(patience)
    if failed:
        raise failed[0]
    return made, interrupted
