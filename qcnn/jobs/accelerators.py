"""The accelerators that a job may ask for, in one word for every platform.

The words are Compute Engine's own names of GPU models, as GKE's node label has them
(cloud.google.com/kubernetes-engine/docs/how-to/gpus, 2026-11); Vertex AI writes the same words in capitals, with
underscores (google.cloud.aiplatform_v1.AcceleratorType of google-cloud-aiplatform 1.165.1).
"""

ACCELERATORS = (
    "nvidia-l4",
    "nvidia-tesla-t4",
    "nvidia-tesla-v100",
    "nvidia-tesla-p4",
    "nvidia-tesla-p100",
    "nvidia-tesla-a100",
    "nvidia-a100-80gb",
    "nvidia-h100-80gb",
    "nvidia-h100-mega-80gb",
    "nvidia-h200-141gb",
    "nvidia-b200",
)


def on_vertex(accelerator: str) -> str:
    """Return the name that Vertex AI has for an accelerator."""
    return accelerator.upper().replace("-", "_")
