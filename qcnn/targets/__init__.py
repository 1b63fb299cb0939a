"""Targets that experiments are submitted to: one package per target, registered in `TARGETS`."""

import functools
import importlib
from typing import TypeVar, cast

from qcnn import plugins
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


def _plugin_that(capability: type[Capability], name: str) -> Capability | None:
    """Return the target of a plug-in, or None if no installed package has one that implements the protocol.

    Raises:
        ConfigError: If the plug-in cannot be imported.
    """
    if name in TARGETS or name not in plugins.installed(plugins.TARGETS):
        return None
    target = plugins.load("target", plugins.TARGETS, name, f"one of {', '.join(TARGETS)}")()
    return target if isinstance(target, capability) else None


def targets_that(capability: type[Capability]) -> dict[str, Capability]:
    """Return the targets that implement a protocol, by name."""
    found = {name: _load(line) for name, line in TARGETS.items()}
    return {name: target for name, target in found.items() if isinstance(target, capability)}


def target_that(capability: type[Capability], name: str) -> Capability:
    """Return a target by name.

    Raises:
        ConfigError: If no target of this name implements the protocol, or its plug-in cannot be imported.
    """
    targets = targets_that(capability)
    if found := targets.get(name) or _plugin_that(capability, name):
        return found
    plugin = plugins.allowed(plugins.TARGETS)
    raise ConfigError(f"target: must be one of {', '.join(targets)}, or {plugin}. Given: {format_value(name)}")
