"""Targets that experiments are submitted to: one package per target, registered in `TARGETS`."""

import functools
import importlib
from typing import TypeVar, cast

from qcnn.errors import ConfigError, format_value
from qcnn.targets.base import Target

# Imported on first use: each target imports its own client libraries.
TARGETS = {
    "local": "qcnn.targets.local.target:LocalTarget",
    "kubeflow": "qcnn.targets.kubeflow.target:KubeflowTarget",
    "tfjob": "qcnn.targets.tfjob.target:TFJobTarget",
    "vertex": "qcnn.targets.vertex.target:VertexTarget",
    "vertex-job": "qcnn.targets.vertex.job_target:VertexJobTarget",
}

Capability = TypeVar("Capability", bound=Target)


@functools.cache
def _load(line: str) -> Target:
    module, _, kind = line.partition(":")
    return cast(Target, getattr(importlib.import_module(module), kind)())


def targets_that(capability: type[Capability]) -> dict[str, Capability]:
    """Return the targets that implement a protocol, by name."""
    found = {name: _load(line) for name, line in TARGETS.items()}
    return {name: target for name, target in found.items() if isinstance(target, capability)}


def target_that(capability: type[Capability], name: str) -> Capability:
    """Return a target by name.

    Raises:
        ConfigError: If no target of this name implements the protocol.
    """
    targets = targets_that(capability)
    if name not in targets:
        raise ConfigError(f"target: must be one of {', '.join(targets)}. Given: {format_value(name)}")
    return targets[name]
