"""One function a fact: it asks a system and returns the record, ``Absent`` or ``Unknown``.

A probe is straight-line, never raises, and names its source. Probes that share an answer call
each other; the :class:`musadoctor.recording.Recorder` around every system puts each question once.
"""

from collections.abc import Callable

from musadoctor.probes import (
    components,
    container,
    container_runtime,
    distributions,
    driver,
    driver_folders,
    environment,
    gmi,
    host,
    kernel,
    libraries,
    musa_info,
    pci,
    python,
    routes,
    stated,
    toolkit,
    torch,
    triton,
)
from musadoctor.system import System

Probe = Callable[[System], object]

PROBES: dict[str, Probe] = {
    # The torch child takes longest, so it is started first.
    "torch_import": torch.torch_import,
    "torch": torch.torch,
    "torch_musa_import": torch.torch_musa_import,
    "torch_musa": torch.torch_musa,
    "collectives": torch.collectives,
    "python": python.python,
    "gmi_answer": gmi.gmi_answer,
    "gmi": gmi.gmi,
    "musa_info_answer": musa_info.musa_info_answer,
    "musa_info": musa_info.musa_info,
    "version_query": toolkit.version_query,
    "mcc": toolkit.mcc,
    "machine": host.machine,
    "container": container.container,
    "gpus": pci.gpus,
    "kernel_driver": driver.kernel_driver,
    "device_nodes": driver.device_nodes,
    "kernel_log": kernel.kernel_log,
    "module_file": kernel.module_file,
    "container_runtime": container_runtime.container_runtime,
    "toolkits": toolkit.toolkits,
    "toolkit": toolkit.toolkit,
    "toolkit_routes": routes.toolkit_routes,
    "mudnn": components.mudnn,
    "mccl": components.mccl,
    "environment": environment.environment,
    "driver_folders": driver_folders.driver_folders,
    "user_driver": libraries.user_driver,
    "libraries": libraries.libraries,
    "distributions": distributions.distributions,
    "torch_build": distributions.torch_build,
    "torch_musa_build": distributions.torch_musa_build,
    "messages": stated.messages,
    "triton": triton.triton,
}
"""The probe of each fact, by the name that a check's parameter bears."""


def further() -> dict[str, Probe]:
    """Probes of facts that no check of a report asks for; imported for those who want them."""
    from musadoctor.probes.network import rdma  # noqa: PLC0415 - as it says
    from musadoctor.probes.topology import topology  # noqa: PLC0415

    return {"rdma": rdma, "topology": topology}
