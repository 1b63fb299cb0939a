"""Container image and resources of the pipeline steps."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pydantic

from qcnn.errors import ConfigError, format_value
from qcnn.jobs.pod_settings import PodSettings, Quantity

# Tag of a local build. `compile.py --image` replaces it with a pushed image that is pinned by digest.
IMAGE = "qcnn:latest"


def is_pinned(image: str) -> bool:
    """Return whether an image name is pinned by a digest."""
    return "@sha256:" in image


# Key of the step settings within the settings of the training pods.
KEY = "steps"


@dataclasses.dataclass(frozen=True)
class StepResources:
    """CPU and memory request of a step, and its memory limit.

    There is no CPU limit, so a step can use idle CPU of its node.
    """

    cpu: str
    memory: str
    memory_limit: str


class _StepOverrides(pydantic.BaseModel):
    """Resources that the user sets for a step. `memory` is both request and limit."""

    model_config = pydantic.ConfigDict(extra="forbid")

    cpu: Quantity | None = None
    memory: Quantity | None = None


# Measured with the default experiment: the launcher uses 83 MiB, other steps less than 60 MiB, and steps that load
# TensorFlow 740 MiB plus the simulator's states (field simulator_memory_gib, 2 GiB).
_LIGHT = StepResources("100m", "256Mi", "2Gi")
_TENSORFLOW = StepResources("250m", "1Gi", "4Gi")
DEFAULTS = {
    "generate-data": _LIGHT,
    "train": _LIGHT,
    "tensorboard": _LIGHT,
    "export-weights": _TENSORFLOW,
    "evaluate": _TENSORFLOW,
    "register": _TENSORFLOW,
    "plan-study": _LIGHT,
    "plan-tuning": _LIGHT,
    "trial-data": _LIGHT,
    "select-best": _TENSORFLOW,
    "tune": _LIGHT,
}
_ADAPTER = pydantic.TypeAdapter(dict[str, _StepOverrides])
_ALLOWED = {name: str(PodSettings.model_fields[name].description) for name in _StepOverrides.model_fields}


def step_resources(values: Mapping[str, Any] | None) -> dict[str, StepResources]:
    """Return the resources of each step, where the user's settings override the defaults.

    Args:
        values: User's settings as {step: {cpu: ..., memory: ...}}.

    Raises:
        ConfigError: If a value is not valid. The message names the first one.
    """
    try:
        found = _ADAPTER.validate_python(values or {})
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(("pod", KEY, *map(str, first["loc"])))
        allowed = _ALLOWED.get(str(first["loc"][-1]) if first["loc"] else "", "a mapping of steps to cpu and memory")
        raise ConfigError(f"{name}: must be {allowed}. Given: {format_value(first['input'])}") from None
    unknown = sorted(found.keys() - DEFAULTS.keys())
    if unknown:
        raise ConfigError(
            f"pod.{KEY}.{unknown[0]}: unknown step; valid steps: {', '.join(DEFAULTS)}. Given: {unknown[0]}"
        )
    return {name: _override(default, found.get(name, _StepOverrides())) for name, default in DEFAULTS.items()}


def _override(default: StepResources, override: _StepOverrides) -> StepResources:
    memory = {"memory": override.memory, "memory_limit": override.memory} if override.memory else {}
    return dataclasses.replace(default, **({"cpu": override.cpu} if override.cpu else {}), **memory)
