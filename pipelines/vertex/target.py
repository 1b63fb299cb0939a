"""Vertex AI Pipelines, with training as a custom job."""

from collections.abc import Sequence
from typing import Any

from qcnn.components.resources import Resources
from qcnn.jobs.pod import amount
from qcnn.pipelines.compilation import Target
from qcnn.pipelines.vertex.training import train_as_custom_job
from qcnn.pipelines.vertex.tuning import tuned_study

_GIGABYTE = 1e9
# How Kubeflow's compiler (2.13, component_factory.py) has a shell start a step.
_STARTED_BY_SHELL = "_KFP_RUNTIME=true python3 "
_IN_PLACE_OF_SHELL = "_KFP_RUNTIME=true exec python3 "


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


def _told_to_end(command: Sequence[str]) -> list[str]:
    """Return the command of a step whose process takes the place of the shell that starts it.

    When a run is cancelled, SIGTERM goes to the first process of a container alone, and a shell does not pass it on:
    training would go on.
    """
    return [word.replace(_STARTED_BY_SHELL, _IN_PLACE_OF_SHELL) for word in command]


VERTEX = Target(
    train=train_as_custom_job,
    # The name that a local build gives an image is that of no registry.
    image="",
    resources=_machine,
    command=_told_to_end,
    tuner=tuned_study,
)
