"""Accelerators of Google Cloud: names, and published peak rates and memory.

Accelerators have one name on every platform: the GPU model of Compute Engine, as in the GKE node label
(cloud.google.com/kubernetes-engine/docs/how-to/gpus, 2026-11). The rates are those of the variant that Compute Engine
offers (cloud.google.com/compute/docs/gpus, 2026-11), without tensor cores and sparsity.
"""

import dataclasses

# Month in which the table was written.
DATE = "2026-11"


@dataclasses.dataclass(frozen=True)
class Accelerator:
    """Peak rates and memory of a GPU.

    Attributes:
        flops: Operations per second on 32-bit numbers.
        double_flops: Operations per second on 64-bit numbers.
        traffic: Memory bandwidth, in bytes per second.
        memory: Memory, in bytes.
        source: Source of the numbers.
    """

    flops: float
    double_flops: float
    traffic: float
    memory: float
    source: str


def _accelerator(teraflops: float, double_teraflops: float, traffic: float, memory: float, source: str) -> Accelerator:
    return Accelerator(teraflops * 1e12, double_teraflops * 1e12, traffic * 1e9, memory * 1e9, source)


# TFLOPS in 32 and in 64 bits, GB per second, GB. Data sheets of GPUs for inference have no 64-bit rate. The white paper
# of the architecture has it as a fraction of the 32-bit rate.
ACCELERATORS = {
    "nvidia-l4": _accelerator(30.3, 30.3 / 64, 300, 24, "NVIDIA L4 data sheet; Ada: 64-bit rate 1/64"),
    "nvidia-tesla-t4": _accelerator(8.1, 8.1 / 32, 320, 16, "NVIDIA T4 product brief; Turing: 64-bit rate 1/32"),
    "nvidia-tesla-v100": _accelerator(15.7, 7.8, 900, 16, "NVIDIA V100 data sheet, SXM2"),
    "nvidia-tesla-p4": _accelerator(5.5, 5.5 / 32, 192, 8, "NVIDIA P4 data sheet; Pascal GP104: 64-bit rate 1/32"),
    "nvidia-tesla-p100": _accelerator(9.3, 4.7, 732, 16, "NVIDIA P100 data sheet, PCIe with 16 GB"),
    "nvidia-tesla-a100": _accelerator(19.5, 9.7, 1555, 40, "NVIDIA A100 data sheet, SXM with 40 GB"),
    "nvidia-a100-80gb": _accelerator(19.5, 9.7, 2039, 80, "NVIDIA A100 data sheet, SXM with 80 GB"),
    "nvidia-h100-80gb": _accelerator(67, 34, 3350, 80, "NVIDIA H100 data sheet, SXM"),
    "nvidia-h100-mega-80gb": _accelerator(67, 34, 3350, 80, "NVIDIA H100 data sheet, SXM"),
    "nvidia-h200-141gb": _accelerator(67, 34, 4800, 141, "NVIDIA H200 data sheet, SXM"),
    "nvidia-b200": _accelerator(75, 37, 8000, 180, "NVIDIA HGX B200 and DGX B200 data sheets, an eighth of 8 GPUs"),
}


def check_name(name: str) -> str:
    """Return the name of an accelerator, or an empty name.

    Raises:
        ValueError: If there is no such accelerator.
    """
    if name and name not in ACCELERATORS:
        raise ValueError(name)
    return name


def on_vertex(accelerator: str) -> str:
    """Return the Vertex AI name of an accelerator: uppercase, with underscores.

    Source: google.cloud.aiplatform_v1.AcceleratorType of google-cloud-aiplatform 1.165.1.

    >>> on_vertex("nvidia-l4")
    'NVIDIA_L4'
    """
    return accelerator.upper().replace("-", "_")
