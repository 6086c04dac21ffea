"""The stand-in of MCCL: collectives over gloo, on the host's view of the tensors.

FAKE_MCCL=FAULT:OPERATION:RANK[:TYPE],... asks for faults: ``wrong:allreduce:1`` (results are one
too high, a barrier does not wait), ``raise:broadcast:*`` (an error, on all ranks),
``raise:allgather:*:bfloat16``, ``stall:allreduce:1`` (that rank never comes back), ``die:init:1``
(that rank's process is gone). Operations bear the names of ProcessGroup's methods without
underscores, ``init`` is the start of the group.
"""

import os
import signal
import time
from typing import Any

import torch
import torch.distributed as dist


def version() -> "tuple[int, int, int]":
    return (2, 11, 4)


def fault(kind: str, operation: str, rank: int, tensors: Any = ()) -> bool:
    """Whether this fault was asked for here."""
    for asked in filter(None, os.environ.get("FAKE_MCCL", "").split(",")):
        wanted, where, whose, *types = asked.split(":")
        named = not types or types[0] in {str(t.dtype).partition(".")[2] for t in _flat(tensors)}
        if (wanted, where) == (kind, operation) and whose in {"*", str(rank)} and named:
            return True
    return False


def trouble(operation: str, rank: int, tensors: Any = ()) -> None:
    """The faults that come before an operation."""
    if fault("die", operation, rank):
        os.kill(os.getpid(), signal.SIGSEGV)
    while fault("stall", operation, rank):
        time.sleep(3600)
    if fault("raise", operation, rank, tensors):
        raise RuntimeError(f"MCCL error in {operation}: unhandled system error")


def _flat(tensors: Any) -> "list[torch.Tensor]":
    if isinstance(tensors, torch.Tensor):
        return [tensors]
    return [one for part in tensors for one in _flat(part)]


def _on_host(tensors: Any) -> Any:
    if isinstance(tensors, torch.Tensor):
        return tensors.cpu()
    return [_on_host(one) for one in tensors]


def _copy(there: Any, here: Any) -> None:
    for one, other in zip(_flat(there), _flat(here), strict=True):
        one.copy_(other)


class Done(dist._Work):
    """What is over when it is handed out."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._future = torch.futures.Future()
        self._future.set_result(result)

    def wait(self, timeout: object = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def get_future(self) -> Any:
        return self._future


class Mccl(dist.ProcessGroup):
    """A process group whose work is done by gloo."""

    def __init__(self, store: Any, rank: int, size: int, timeout: Any) -> None:
        super().__init__(rank, size)
        trouble("init", rank)
        self._gloo = dist.ProcessGroupGloo(dist.PrefixStore("mccl", store), rank, size, timeout)

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        return "mccl"

    def _run(self, operation: str, results: Any, *inputs: Any, base: str = "") -> Done:
        name = operation.replace("_", "")
        trouble(name, self.rank(), results)
        host = _on_host(results)
        given = [_on_host(one) if isinstance(one, (torch.Tensor, list)) else one for one in inputs]
        getattr(self._gloo, operation)(host, *given).wait()
        if fault("wrong", name, self.rank(), results):
            for one in _flat(host):
                one.add_(1)
        _copy(results, host)
        return Done(results)

    def allreduce(self, tensors: Any, opts: Any = None) -> Done:
        return self._run("allreduce", tensors, opts)

    def broadcast(self, tensors: Any, opts: Any = None) -> Done:
        return self._run("broadcast", tensors, opts)

    def allgather(self, results: Any, given: Any, opts: Any = None) -> Done:
        return self._run("allgather", results, given, opts)

    def _allgather_base(self, result: Any, given: Any, opts: Any = None) -> Done:
        return self._run("_allgather_base", result, given)

    # Their names since torch 2.13.
    all_gather_single = _allgather_base

    def reduce_scatter(self, results: Any, given: Any, opts: Any = None) -> Done:
        return self._run("reduce_scatter", results, given, opts)

    def _reduce_scatter_base(self, result: Any, given: Any, opts: Any = None) -> Done:
        return self._run("_reduce_scatter_base", result, given)

    reduce_scatter_single = _reduce_scatter_base

    def alltoall_base(
        self, result: Any, given: Any, results: Any, shares: Any, opts: Any = None
    ) -> Done:
        trouble("alltoallbase", self.rank(), result)
        host = result.cpu()
        self._gloo.alltoall_base(host, given.cpu(), results, shares, opts).wait()
        result.copy_(host)
        return Done(result)

    def send(self, tensors: Any, target: int, tag: int = 0) -> Done:
        trouble("send", self.rank(), tensors)
        self._gloo.send(_on_host(tensors), target, tag).wait()
        return Done(tensors)

    def recv(self, tensors: Any, source: int, tag: int = 0) -> Done:
        return self._run("recv", tensors, source, tag)

    def barrier(self, opts: Any = None) -> Done:
        trouble("barrier", self.rank())
        if not fault("wrong", "barrier", self.rank()):
            # The caller's options name this device, and gloo knows the CPU only.
            self._gloo.barrier(dist.BarrierOptions()).wait()
        return Done([])


if dist.is_available():
    dist.Backend.register_backend("mccl", Mccl, devices=["musa"])
