"""Where experiments are sent, and how they are followed there: one folder a target, and a line here."""

import importlib
from typing import cast

from qcnn.errors import ConfigError, given
from qcnn.targets.base import Target

# Each is loaded when it is first asked for.
TARGETS = {
    "kubeflow": "qcnn.targets.kubeflow.target:KubeflowTarget",
    "tfjob": "qcnn.targets.tfjob.target:TFJobTarget",
    "vertex": "qcnn.targets.vertex.target:VertexTarget",
    "vertex-job": "qcnn.targets.vertex.job_target:VertexJobTarget",
}


def load_target(name: str) -> Target:
    """Return a target by its name.

    Raises:
        ConfigError: there is none of this name.
    """
    if name not in TARGETS:
        raise ConfigError(f"target: must be one of {', '.join(TARGETS)}. Given: {given(name)}")
    module, _, kind = TARGETS[name].partition(":")
    return cast(Target, getattr(importlib.import_module(module), kind)())
