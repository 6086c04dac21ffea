"""The stand-in of MCCL: the backend is known to torch.distributed, collectives it has none yet."""

import torch.distributed


def version() -> "tuple[int, int, int]":
    return (2, 11, 4)


def _create(*_arguments: object) -> None:
    raise NotImplementedError("the stand-in has no collectives")


if torch.distributed.is_available():
    torch.distributed.Backend.register_backend("mccl", _create, devices=["musa"])
