"""Vertex AI Pipelines, with training as a custom job."""

from typing import Any

from components.resources import Resources
from launchers.pod import amount
from pipelines.compilation import Target
from pipelines.vertex.training import train_as_custom_job

_GIGABYTE = 1e9


def _machine(given: Resources) -> dict[str, Any]:
    """Return what a step is given in the words of a compiled pipeline (ResourceSpec).

    Vertex AI chooses a machine by limits alone, of CPU too (cloud.google.com/vertex-ai/docs/pipelines/machine-types).
    Numbers stand beside the texts as Kubeflow's compiler writes them (pipeline_spec_builder.py), for readers of either.
    """
    return {
        "resourceCpuLimit": given.cpu,
        "cpuLimit": amount(given.cpu),
        "resourceMemoryLimit": given.memory_limit,
        "memoryLimit": amount(given.memory_limit) / _GIGABYTE,
    }


VERTEX = Target(train=train_as_custom_job, resources=_machine)
