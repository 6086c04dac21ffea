"""The stand-in of torch_musa's C extension: loads the device, or fails as it was asked to.

FAKE_MUSA_IMPORT: ``missing-library`` (as when a library is not on the loader's path), ``hang``,
``crash`` (SIGSEGV), ``exit`` (leaves the interpreter with code 0).
"""

# ruff: noqa: N999 - the real one bears this name
import ctypes
import os
import signal
import time

import torch

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libmusa_python.so")

fault = os.environ.get("FAKE_MUSA_IMPORT")
if fault == "missing-library":
    raise ImportError(
        "libmudnn.so.3: cannot open shared object file: No such file or directory",
    )
if fault == "hang":
    time.sleep(3600)
if fault == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if fault == "exit":
    os._exit(0)

torch.utils.rename_privateuse1_backend("musa")
torch.ops.load_library(LIBRARY)
library = ctypes.CDLL(LIBRARY)
library.fake_musa_memory_bytes.restype = ctypes.c_size_t
library.fake_musa_used_bytes.restype = ctypes.c_size_t
library.fake_musa_peak_bytes.restype = ctypes.c_size_t
library.fake_musa_seed.argtypes = (ctypes.c_int, ctypes.c_uint64)
