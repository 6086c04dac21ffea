"""What a text is of, and what single lines of it answer."""

import pytest

from musadoctor.recording import Recording
from musadoctor.system import Failure, Platform, Resources
from musadoctor.transcript import read


def machine(text: str) -> Recording:
    """The machine that a text shows."""
    return read([("text", text.encode())]).system


@pytest.mark.parametrize(
    "text",
    [
        "torch-musa 2.7.1",
        "ggml_cuda_init: failed to initialize MUSA: unknown error",
        "MUSA SDK 4.2.0 with an RTX 4090 beside it",
        "Setting up sgpu-dkms (1.1.1) ...",
        "mt-container-toolkit 2.0.0",
        "S4000, libmpi.so.40: cannot open shared object file",
        "S80 装好驱动后进不了桌面",
        "Ubuntu 20.04, S30",
        "nvidia-cublas-cu12 is left, MUSA torch too",
    ],
)
def test_a_text_is_of_musa(text: str) -> None:
    assert read([("text", text.encode())]).of_musa


@pytest.mark.parametrize(
    "text",
    [
        "The same code runs on MUSA and ROCm. RTX 5090, CUDA error: no kernel image",
        "HIP error: invalid device function on gfx1030, not about MUSA",
        "MusaScore 4.2: libjack.so.0: cannot open shared object file",
        "Galaxy S10: the screen is black",
        "S4000 and an A100: nvidia-smi has failed; NVIDIA driver 550",
    ],
)
def test_a_remark_on_musa_is_no_report_of_it(text: str) -> None:
    assert not read([("text", text.encode())]).of_musa


BOOTED = "BOOT_IMAGE=/boot/vmlinuz-5.15.0-105-generic root=UUID=0 ro intel_iommu=on"


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        (BOOTED, BOOTED),
        (f"cmdline: {BOOTED}", BOOTED),
        ("BOOT_IMAGE=(hd0)/kernel ro amd_iommu=on", "BOOT_IMAGE=(hd0)/kernel ro amd_iommu=on"),
        ("ro quiet intel_iommu=off", "ro quiet intel_iommu=off"),
        ("the board boots", None),
    ],
)
def test_boot_parameters(text: str, parameters: str | None) -> None:
    answer = machine(text).read("/proc/cmdline")
    assert (None if isinstance(answer, Failure) else answer) == parameters


def test_the_boot_parameters_name_the_kernel() -> None:
    platform = machine(BOOTED).platform()
    assert isinstance(platform, Platform)
    assert platform.kernel == "5.15.0-105-generic"


@pytest.mark.parametrize(
    ("text", "gib"),
    [
        ("512 GB RAM", 512),
        ("1 TiB of host memory", 1024),
        ("主机内存 1T", 1024),
        ("内存512G", 512),
        ("RAM: 256 GB", 256),
        ("显存 32G", None),
        ("16 GB of GPU memory", None),
        ("48G memory", None),
        ("内存不足", None),
    ],
)
def test_memory_of_the_host(text: str, gib: int | None) -> None:
    answer = machine(f"MTT S4000\n{text}").resources()
    assert (answer.memory_bytes if isinstance(answer, Resources) else None) == (
        gib << 30 if gib else None
    )


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (
            "docker run --rm -e MUSA_VISIBLE_DEVICES=0,1 --env MTHREADS_VISIBLE_DEVICES=all img",
            {"MUSA_VISIBLE_DEVICES": "0,1", "MTHREADS_VISIBLE_DEVICES": "all"},
        ),
        ("docker run --env=MUSA_VISIBLE_DEVICES=all img", {"MUSA_VISIBLE_DEVICES": "all"}),
        ('docker run -e "MUSA_VISIBLE_DEVICES=1" img', {"MUSA_VISIBLE_DEVICES": "1"}),
        (
            "MCCL_ALGO=Ring OTHER=1 MUSA_VISIBLE_DEVICES='0' torchrun a.py",
            {"MCCL_ALGO": "Ring", "MUSA_VISIBLE_DEVICES": "0"},
        ),
        ("- MUSA_VISIBLE_DEVICES=all", {"MUSA_VISIBLE_DEVICES": "all"}),
        ("a=b says nothing of MUSA_VISIBLE_DEVICES=0", {}),
        ("OTHER=1 python a.py", {}),
    ],
)
def test_variables_within_a_line(text: str, values: dict[str, str]) -> None:
    named = ("MUSA_VISIBLE_DEVICES", "MTHREADS_VISIBLE_DEVICES", "MCCL_ALGO")
    answers = {name: machine(text).env(name) for name in named}
    assert {name: value for name, value in answers.items() if isinstance(value, str)} == values
