"""Machine types and accelerators of Vertex AI training, without TPUs and the largest machines.

Source: "Configure compute resources for training" (cloud.google.com/vertex-ai/docs/training/configure-compute) on
2026-11-22.
"""

_STANDARD = {
    "n1": (4, 8, 16, 32, 64, 96),
    "n2": (4, 8, 16, 32, 48, 64, 80),
    "e2": (4, 8, 16, 32),
    "c2": (4, 8, 16, 30, 60),
}
_SIZES = {
    **{f"{family}-standard": sizes for family, sizes in _STANDARD.items()},
    "n1-highmem": (2, 4, 8, 16, 32, 64, 96),
    "n1-highcpu": (16, 32, 64, 96),
    "n2-highmem": (2, 4, 8, 16, 32, 48, 64, 80),
    "n2-highcpu": (16, 32, 48, 64, 80),
    "e2-highmem": (2, 4, 8, 16),
    "e2-highcpu": (16, 32),
    "c3-standard": (4, 8, 22, 44, 88, 176),
    "g2-standard": (4, 8, 12, 16, 24, 32, 48, 96),
}
# Fixed accelerator type and number of machines with built-in accelerators.
_BUILT_IN = {
    "g2-standard-4": ("NVIDIA_L4", 1),
    "g2-standard-8": ("NVIDIA_L4", 1),
    "g2-standard-12": ("NVIDIA_L4", 1),
    "g2-standard-16": ("NVIDIA_L4", 1),
    "g2-standard-24": ("NVIDIA_L4", 2),
    "g2-standard-32": ("NVIDIA_L4", 1),
    "g2-standard-48": ("NVIDIA_L4", 4),
    "g2-standard-96": ("NVIDIA_L4", 8),
    "a2-highgpu-1g": ("NVIDIA_TESLA_A100", 1),
    "a2-highgpu-2g": ("NVIDIA_TESLA_A100", 2),
    "a2-highgpu-4g": ("NVIDIA_TESLA_A100", 4),
    "a2-highgpu-8g": ("NVIDIA_TESLA_A100", 8),
    "a2-megagpu-16g": ("NVIDIA_TESLA_A100", 16),
    "a2-ultragpu-1g": ("NVIDIA_A100_80GB", 1),
    "a2-ultragpu-2g": ("NVIDIA_A100_80GB", 2),
    "a2-ultragpu-4g": ("NVIDIA_A100_80GB", 4),
    "a2-ultragpu-8g": ("NVIDIA_A100_80GB", 8),
    "a3-highgpu-8g": ("NVIDIA_H100_80GB", 8),
    "a3-megagpu-8g": ("NVIDIA_H100_MEGA_80GB", 8),
    "a3-ultragpu-8g": ("NVIDIA_H200_141GB", 8),
    "a4-highgpu-8g": ("NVIDIA_B200", 8),
}
# Accelerators that can be attached to n1 machines.
_ADDED = {"NVIDIA_TESLA_T4", "NVIDIA_TESLA_P4", "NVIDIA_TESLA_P100", "NVIDIA_TESLA_V100"}
_TYPES = {f"{family}-{size}" for family, sizes in _SIZES.items() for size in sizes} | set(_BUILT_IN)


def unsupported_reason(machine: str, accelerator: str, count: int) -> str:
    """Return why a machine type does not support accelerators, or an empty text if it does.

    Args:
        machine: Machine type.
        accelerator: Accelerator type, empty for no accelerators.
        count: Number of accelerators.
    """
    if machine not in _TYPES:
        return f"Machine type {machine!r} is not supported."
    if bool(accelerator) != bool(count):
        return "Accelerator type and accelerator count must be set together."
    if machine in _BUILT_IN and (accelerator, count) != _BUILT_IN[machine]:
        wanted, number = _BUILT_IN[machine]
        return f"Machine type {machine!r} needs {number} accelerator(s) of type {wanted}."
    if accelerator and machine not in _BUILT_IN:
        if accelerator not in _ADDED:
            return f"Accelerator type {accelerator} is not supported by machine type {machine!r}."
        if not machine.startswith("n1-"):
            return f"Machine type {machine!r} takes no accelerators."
        if count not in (1, 2, 4, 8):
            return f"Accelerator count must be 1, 2, 4 or 8. Given: {count}"
    return ""
