"""Where experiments are sent, and how they are followed there: one folder a target, and a line here."""

import functools
import importlib
from typing import TypeVar, cast

from qcnn.errors import ConfigError, format_value
from qcnn.targets.base import Target

# Each is loaded when it is first asked for.
TARGETS = {
    "local": "qcnn.targets.local.target:LocalTarget",
    "kubeflow": "qcnn.targets.kubeflow.target:KubeflowTarget",
    "tfjob": "qcnn.targets.tfjob.target:TFJobTarget",
    "vertex": "qcnn.targets.vertex.target:VertexTarget",
    "vertex-job": "qcnn.targets.vertex.job_target:VertexJobTarget",
}

Capability = TypeVar("Capability", bound=Target)


@functools.cache
def _loaded(line: str) -> Target:
    module, _, kind = line.partition(":")
    return cast(Target, getattr(importlib.import_module(module), kind)())


def targets_that(capability: type[Capability]) -> dict[str, Capability]:
    """Return the targets that have the methods of a protocol, by their names."""
    found = {name: _loaded(line) for name, line in TARGETS.items()}
    return {name: target for name, target in found.items() if isinstance(target, capability)}


def target_that(capability: type[Capability], name: str) -> Capability:
    """Return a target by its name.

    Raises:
        ConfigError: there is none of this name with the methods of this protocol.
    """
    known = targets_that(capability)
    if name not in known:
        raise ConfigError(f"target: must be one of {', '.join(known)}. Given: {format_value(name)}")
    return known[name]
