"""Targets that experiments are submitted to: one package per target, registered in `TARGETS`."""

import functools
import importlib
from typing import TypeGuard, TypeVar, cast

from qcnn import plugins
from qcnn.errors import ConfigError, format_value
from qcnn.targets.base import Target

# Imported on first use: each target imports its own client libraries.
TARGETS = {
    "local": "qcnn.targets.local.target:LocalTarget",
    "kubeflow": "qcnn.targets.kubeflow.target:KubeflowTarget",
    "kubernetes": "qcnn.targets.kubernetes.target:KubernetesTarget",
    "kserve": "qcnn.targets.kserve.target:KServeTarget",
    "tfjob": "qcnn.targets.kubernetes.tfjob:TFJobTarget",
    "trainjob": "qcnn.targets.kubernetes.trainjob:TrainJobTarget",
    "vertex": "qcnn.targets.vertex.target:VertexTarget",
    "vertex-job": "qcnn.targets.vertex.job_target:VertexJobTarget",
}

Capability = TypeVar("Capability", bound=Target)


@functools.cache
def _load(line: str) -> type[Target]:
    module, _, kind = line.partition(":")
    return cast(type[Target], getattr(importlib.import_module(module), kind))


def has_capability(kind: type[Target], capability: type[Capability]) -> TypeGuard[type[Capability]]:
    """Return whether a target class inherits from the protocol of a capability."""
    return capability in kind.__mro__


def target_classes(capability: type[Capability]) -> dict[str, type[Capability]]:
    """Return the classes of the targets that have a capability, by name."""
    found = {name: _load(line) for name, line in TARGETS.items()}
    return {name: kind for name, kind in found.items() if has_capability(kind, capability)}


def target_class(name: str, capability: type[Capability]) -> type[Capability]:
    """Return the class of a target.

    Raises:
        ConfigError: If no target of this name has the capability, or its plug-in cannot be imported.
    """
    classes = target_classes(capability)
    if name in classes:
        return classes[name]
    own = f"one of {', '.join(classes)}"
    if name not in TARGETS and name in plugins.installed(plugins.TARGETS):
        kind: type[Target] = plugins.load("target", plugins.TARGETS, name, own)
        if has_capability(kind, capability):
            return kind
    raise ConfigError(f"target: must be {own}, or {plugins.allowed(plugins.TARGETS)}. Given: {format_value(name)}")


def open_target(name: str, capability: type[Capability], /, **connection: object) -> Capability:
    """Return a target that is bound to connection settings, such as namespace, host, project and location.

    Raises:
        ConfigError: If no target of this name has the capability, or a setting is unknown, missing or invalid.

    >>> with open_target("local", ReadsJobs, runs="runs") as target:  # doctest: +SKIP
    ...     target.list_jobs()
    """
    # Settings of pods are pydantic models, whose import is slow.
    from qcnn.targets.settings import settings_from

    kind = target_class(name, capability)
    return kind(settings_from(kind.connection_settings, connection, name))
