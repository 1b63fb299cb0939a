"""The image that every step runs in, and what each step is given."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pydantic

from qcnn.errors import ConfigError, format_value
from qcnn.jobs.pod_settings import PodSettings, Quantity

# The name that a local build gives it; `compile.py --image` replaces it with a pushed, pinned one.
IMAGE = "qcnn:latest"


def is_pinned(image: str) -> bool:
    """Whether an image's name fixes its content by a digest."""
    return "@sha256:" in image


# The key of these settings beside those of the training's pods.
KEY = "steps"


@dataclasses.dataclass(frozen=True)
class StepResources:
    """CPU and memory that a node must have free for a step, and the memory at which the step is ended.

    CPU has no limit: a step may use what the node has idle.
    """

    cpu: str
    memory: str
    memory_limit: str


class _StepOverrides(pydantic.BaseModel):
    """What a person may give a step; `memory` is request and limit."""

    model_config = pydantic.ConfigDict(extra="forbid")

    cpu: Quantity | None = None
    memory: Quantity | None = None


# Measured at the experiment's defaults: the launcher takes 83 MiB, other steps less than 60, and steps that load
# TensorFlow 740 MiB plus the simulator's states (word simulator_memory_gib, 2 GiB).
_LIGHT = StepResources("100m", "256Mi", "2Gi")
_TENSORFLOW = StepResources("250m", "1Gi", "4Gi")
DEFAULTS = {
    "generate-data": _LIGHT,
    "train": _LIGHT,
    "tensorboard": _LIGHT,
    "export-weights": _TENSORFLOW,
    "evaluate": _TENSORFLOW,
    "plan-study": _LIGHT,
    "plan-tuning": _LIGHT,
    "trial-data": _LIGHT,
    "select-best": _TENSORFLOW,
    "tune": _LIGHT,
}
_ADAPTER = pydantic.TypeAdapter(dict[str, _StepOverrides])
_ALLOWED = {name: str(PodSettings.model_fields[name].description) for name in _StepOverrides.model_fields}


def step_resources(values: Mapping[str, Any] | None) -> dict[str, StepResources]:
    """Return what each step is given: the defaults, with a person's {step: {cpu: ..., memory: ...}} laid over them.

    Raises:
        ConfigError: one line with the first that is wrong, its value and what is allowed.
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
            f"pod.{KEY}.{unknown[0]}: unknown step; the steps are {', '.join(DEFAULTS)}. Given: {unknown[0]}"
        )
    return {name: _laid_over(default, found.get(name, _StepOverrides())) for name, default in DEFAULTS.items()}


def _laid_over(default: StepResources, asked: _StepOverrides) -> StepResources:
    memory = {"memory": asked.memory, "memory_limit": asked.memory} if asked.memory else {}
    return dataclasses.replace(default, **({"cpu": asked.cpu} if asked.cpu else {}), **memory)
