"""Does work on many pieces in processes of its own, in order, with few of them held at a time.

A process that dies, for it was out of memory perhaps, takes nothing with it but the piece that
killed it.
"""

import gc
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Work = Callable[[Sequence[T]], R]


class Lost(Generic[T]):
    """What a process died of."""

    def __init__(self, item: T) -> None:
        self.item = item


def side_by_side(
    work: Work[T, R], batches: Iterable[Sequence[T]], *, processes: int
) -> Iterator[R | Lost[T]]:
    """``work`` on every batch, in their order; of an item that kills its process, :class:`Lost`."""
    begun: deque[tuple[Sequence[T], Future[R]]] = deque()
    try:
        pool = _pool(processes)
    except (ImportError, OSError):  # no shared memory, as in some containers
        yield from map(work, batches)
        return
    try:
        for batch in batches:
            try:
                result = pool.submit(work, batch)
            except BrokenProcessPool:
                pool.shutdown()
                pool = _pool(processes)
                result = pool.submit(work, batch)
            begun.append((batch, result))
            if len(begun) > 2 * processes:
                yield from _result(work, *begun.popleft())
        while begun:
            yield from _result(work, *begun.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _result(work: Work[T, R], batch: Sequence[T], result: "Future[R]") -> Iterator[R | Lost[T]]:
    try:
        yield result.result()
    except BrokenProcessPool:
        # Another batch may have killed it.
        yield from _again(work, batch)


def _again(work: Work[T, R], batch: Sequence[T]) -> Iterator[R | Lost[T]]:
    """The same in a new process, half by half where it dies again."""
    try:
        with _pool(1) as alone:
            yield alone.submit(work, batch).result()
    except BrokenProcessPool:
        if len(batch) == 1:
            yield Lost(batch[0])
            return
        half = len(batch) // 2
        yield from _again(work, batch[:half])
        yield from _again(work, batch[half:])


def _pool(processes: int) -> ProcessPoolExecutor:
    # A fork would take over locks that other threads hold.
    return ProcessPoolExecutor(processes, get_context("spawn"), initializer=prepare)


def prepare() -> threading.Thread:
    """Make a process one that ends with the one that has started it; the thread that sees to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other one, which ends this
    gc.disable()  # parsing leaves no cycles, and looking for them takes a fifth of the time
    watch = threading.Thread(target=_end_with_parent, daemon=True)
    watch.start()
    return watch


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
