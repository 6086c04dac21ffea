"""The variables that MUSA software reads, by name, and the folders on its search paths.

The list is closed: a whole environment holds secrets.
"""

import re

from musadoctor.facts import Environment, SearchEntry, Toolkit, Toolkits, Unknown
from musadoctor.facts.environment import EnvironmentFact
from musadoctor.probes.once import once
from musadoctor.probes.toolkit import toolkits, version_of_path
from musadoctor.system import NOT_THERE, UNRECORDED, Failure, System

SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH")

PLACES = (
    *("MUSA_HOME", "MUSA_PATH", "MUSA_INSTALL_PATH", *SEARCH_PATHS, "LD_PRELOAD"),
    *("MUDNN_HOME", "MUDNN_PATH", "MCCL_INCLUDE_DIR", "MCCL_LIB_DIR", "PYTORCH_MCC"),
    "MUSA_DRIVER_LIB_DIR",
)
DEVICES = (
    *("MUSA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    *("MTHREADS_VISIBLE_DEVICES", "MTHREADS_DRIVER_CAPABILITIES", "MTHREADS_QOS_MEMORY_LIMIT"),
    "RAY_EXPERIMENTAL_NOSET_MUSA_VISIBLE_DEVICES",
)
TORCH = (
    *("TORCH_DEVICE_BACKEND_AUTOLOAD", "PYTORCH_MUSA_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"),
    *("PYTORCH_NO_MUSA_MEMORY_CACHING", "TORCH_USE_MUSA_DOUBLE_CAST", "USE_MCCL"),
    *("TORCH_MUSA_ARCH_LIST", "TORCH_MUSA_ARCH", "MTGPU_TARGET", "MATE_MUSA_ARCH_LIST"),
    *("TVM_FFI_MUSA_ARCH_LIST", "TORCHADA_PLATFORM", "TORCHADA_FORCE_CUDA_AVAILABLE"),
    *("TORCH_MUSA_OP_DEBUG", "TORCH_MUSA_OP_DEBUG_LEVEL", "TORCH_MUSA_OP_DEBUG_LENGTH"),
    *("TORCH_MUSA_OP_DEBUG_LIST", "TORCH_MUSA_OP_DEBUG_BLACK_LIST", "TORCH_MUSA_OP_DEBUG_DIR"),
)
RUNTIME = (
    *("MUSA_LAUNCH_BLOCKING", "MUSA_EXECUTION_TIMEOUT", "MUSA_KERNEL_TIMEOUT"),
    *("MUSA_BLOCK_SCHEDULE_MODE", "MUSA_BLOCK_DISTRIBUTION_GRANULARITY", "MUSA_EXECUTE_COUNT"),
    *("MUSA_USERQ", "MUSA_PRINT_ENV", "MUSA_LOG", "MUSA_DEVICE_MAX_CONNECTIONS"),
    *("MUSA_MAX_CONCURRENT_LAUNCHES", "MUSA_ERROR_DUMP_PATH"),
)
FRAMEWORKS = (
    *("MUSA_PATCH_PATH", "ACCELERATOR_BACKEND", "SLIME_ACCELERATOR"),
    *("SLIME_ENABLE_EXPANDABLE_SEGMENTS", "MUSA_CPU_AFFINITY", "MUSA_CPU_AFFINITY_MODE"),
    *("MUSA_CPU_AFFINITY_MAP", "VLLM_PLUGINS", "VLLM_WORKER_MULTIPROC_METHOD"),
    "VLLM_NCCL_SO_PATH",
)
_COMMON = (
    *("DEBUG", "ALGO", "PROTO", "SOCKET_IFNAME", "IB_GID_INDEX", "IB_HCA", "IB_TC", "IB_TIMEOUT"),
    *("IB_RETRY_CNT", "IB_QPS_PER_CONNECTION", "BUFFSIZE", "CROSS_NIC", "TOPO_DUMP_FILE"),
    *("GRAPH_FILE", "CHECK_POINTERS", "NET_SHARED_BUFFERS"),
)
COLLECTIVES = (
    *(f"MCCL_{name}" for name in (*_COMMON, "ALGOS", "PROTOS")),
    *(f"NCCL_{name}" for name in (*_COMMON, "IB_DISABLE", "P2P_DISABLE", "P2P_LEVEL")),
    *(
        f"TORCH_MCCL_{name}"
        for name in (
            *("BLOCKING_WAIT", "ASYNC_ERROR_HANDLING", "DUMP_ON_TIMEOUT", "DESYNC_DEBUG"),
            *("ENABLE_TIMING", "ENABLE_MONITORING", "HEARTBEAT_TIMEOUT_SEC"),
            *("TRACE_BUFFER_SIZE", "AVOID_RECORD_STREAMS", "NAN_CHECK", "HIGH_PRIORITY"),
            "USE_DEFAULT_STREAM",
        )
    ),
)
VARIABLES = (*PLACES, *DEVICES, *TORCH, *RUNTIME, *FRAMEWORKS, *COLLECTIVES)
"""All names that are asked for, after the documents and sources of MUSA software. The meaning of
those in ``RUNTIME`` is not documented publicly, apart from MUSA_LAUNCH_BLOCKING."""

STEMS = (
    *("libmusa", "libmusart", "libmudnn", "libmccl", "libmublas", "libmublasLt", "libmufft"),
    *("libmurand", "libmusolver", "libmusparse", "libmupti", "libmtml", "libmtjpeg"),
    "libsrv_um_MUSA",
)
"""The names of MUSA's libraries, without ``.so`` and what follows it."""

_MUSA_LIBRARY = re.compile(rf"({'|'.join(STEMS)})\.so(\.[0-9]+)*")


def stem_of(name: str) -> str | None:
    """``libmusart`` of the file name ``libmusart.so.5``; ``None`` for what is not MUSA's."""
    found = _MUSA_LIBRARY.fullmatch(name)
    return found[1] if found else None


@once
def environment(system: System) -> EnvironmentFact:
    """The known variables that are set, with the folders of PATH and LD_LIBRARY_PATH looked up."""
    answers = {name: system.env(name) for name in VARIABLES}
    partial = False
    for name in ("MUSA_HOME", *SEARCH_PATHS):
        answer = answers[name]
        if isinstance(answer, Failure):
            if answer.kind == UNRECORDED and any(isinstance(a, str) for a in answers.values()):
                partial = True
            else:
                return Unknown(str(answer))
    # A recording of an older version may lack the names that were added since.
    known = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
    installed = toolkits(system)
    trees = installed.installed if isinstance(installed, Toolkits) else ()
    path = known["PATH"].split(":") if "PATH" in known else []
    # The loader takes an empty value for none at all, and a semicolon for a colon.
    library_path = re.split("[:;]", value) if (value := known.get("LD_LIBRARY_PATH")) else []
    return Environment(
        known,
        tuple(_entry(system, trees, folder, libraries=False) for folder in path),
        tuple(_entry(system, trees, folder, libraries=True) for folder in library_path),
        partial,
    )


def _entry(
    system: System, trees: tuple[Toolkit, ...], folder: str, *, libraries: bool
) -> SearchEntry:
    """Look one folder up; only where libraries are searched for does it matter what is in it."""
    stat = system.stat(folder or ".")
    if isinstance(stat, Failure):
        state = "missing" if stat.kind == NOT_THERE else "unreadable"
        return SearchEntry(folder, state if folder else "empty", folder)
    real = stat.real or folder
    if stat.kind != "folder":
        state = "missing" if stat.kind == "dangling" else "not a folder"
        return SearchEntry(folder, state, real)
    names = system.list(folder or ".") if libraries else ()
    state = "unreadable" if isinstance(names, Failure) or not stat.executable else "ok"
    return SearchEntry(
        path=folder,
        state=state if folder else "empty",
        real_path=real,
        libraries=() if isinstance(names, Failure) else tuple(filter(stem_of, names)),
        toolkit=version_of_path(trees, real),
    )
