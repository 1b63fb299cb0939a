"""Requirements of distribution strategies: roles, devices, simulators and fields.

This module does not import TensorFlow.
"""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from qcnn.errors import ConfigError
from qcnn.process.roles import CHIEF, EVALUATOR, PS, WORKER
from qcnn.simulators import registry


class Chief(enum.Enum):
    """Task of the chief of a strategy."""

    NONE = "no chief"
    TRAINS = "an optional training process"
    COORDINATES = "a process that distributes batches to the workers and does not train"


@dataclasses.dataclass(frozen=True)
class StrategyRequirements:
    """Requirements of a distribution strategy.

    Attributes:
        multiple_processes: Whether several processes can train together.
        devices: Whether one process can train on several devices.
        is_synchronous: Whether training is synchronous. All replicas then split each batch, so that results do not
            depend on their number.
        chief: Task of the chief.
        fields: Experiment fields that require this strategy.
        builtin_operations: Whether its servers or devices run only the built-in operations of TensorFlow.
        tpu: Whether it requires a TPU.
    """

    multiple_processes: bool = False
    devices: bool = False
    is_synchronous: bool = True
    chief: Chief = Chief.NONE
    fields: tuple[str, ...] = ()
    builtin_operations: bool = False
    tpu: bool = False


# A new strategy needs a line here, and a function in `qcnn.trainer.distribution.strategies` that creates it.
STRATEGIES: Mapping[str, StrategyRequirements] = {
    "multi_worker": StrategyRequirements(
        multiple_processes=True, chief=Chief.TRAINS, fields=("chief", "communication", "communication_timeout")
    ),
    "mirrored": StrategyRequirements(devices=True, fields=("devices", "reduction")),
    "central_storage": StrategyRequirements(devices=True, fields=("devices",)),
    # TensorFlow's server runs built-in operations only.
    "parameter_server": StrategyRequirements(
        multiple_processes=True, is_synchronous=False, chief=Chief.COORDINATES, fields=("ps",), builtin_operations=True
    ),
    "tpu": StrategyRequirements(builtin_operations=True, tpu=True),
    "none": StrategyRequirements(),
}
# Synchronous strategy of several processes, and strategy of a single process, with which others are compared.
SYNCHRONOUS, SINGLE_PROCESS = "multi_worker", "none"
_STRATEGY_FIELDS = {field for each in STRATEGIES.values() for field in each.fields}


def replicas(values: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of processes of each role in an experiment, without roles of 0 processes.

    >>> replicas({"strategy": "multi_worker", "workers": 4, "chief": 1, "ps": 0, "evaluator": 1})
    {'chief': 1, 'worker': 3, 'evaluator': 1}
    """
    strategy, workers = STRATEGIES[values["strategy"]], values["workers"]
    if strategy.chief is Chief.COORDINATES:
        counts = {CHIEF: 1, WORKER: workers, PS: max(1, values["ps"])}
    else:
        counts = {CHIEF: values["chief"], WORKER: workers - values["chief"]}
    counts[EVALUATOR] = values["evaluator"]
    return {role: count for role, count in counts.items() if count}


def serving(strategy: str) -> tuple[str, ...]:
    """Return the roles that serve requests of the chief until it exits."""
    return (WORKER, PS) if STRATEGIES[strategy].chief is Chief.COORDINATES else ()


def ignore_exit(strategy: str) -> tuple[str, ...]:
    """Return the roles whose processes may still run when training is complete."""
    return (*serving(strategy), EVALUATOR)


def restart_individually(strategy: str) -> tuple[str, ...]:
    """Return the roles of which a failed process is restarted while the others continue."""
    return (WORKER, EVALUATOR) if STRATEGIES[strategy].chief is Chief.COORDINATES else (EVALUATOR,)


def gpu_fields(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of an experiment that require a GPU, with their values."""
    given = {field: str(values[field]) for field in ("visible_gpus", "gpu_memory") if values[field]}
    return given | {field: values[field] for field in ("communication", "reduction") if values[field] == "nccl"}


def check_gpus(fields: Mapping[str, str], gpus: int) -> None:
    """Check that a machine has the GPUs that experiment fields require.

    Args:
        fields: Fields that require a GPU, see `gpu_fields`.
        gpus: Number of GPUs of the machine.

    Raises:
        ConfigError: If it has none, or not all of `visible_gpus`. The message names the first field.
    """
    for field, value in fields.items():
        if not gpus:
            raise ConfigError(f"{field}: this machine has no GPU. Given: {value}")
    numbers = [int(number) for number in fields.get("visible_gpus", "").split(",") if number]
    if numbers and (max(numbers) >= gpus or len(set(numbers)) < len(numbers)):
        raise ConfigError(
            f"visible_gpus: must be different numbers below {gpus}, the GPUs of this machine. "
            f"Given: {fields['visible_gpus']}"
        )


def num_replicas_in_sync(values: Mapping[str, Any]) -> int:
    """Return the number of replicas that split each batch, from the values of an experiment."""
    strategy = STRATEGIES[values["strategy"]]
    if strategy.devices:
        return max(1, int(values["devices"]))
    return int(values["workers"]) if strategy.is_synchronous else 1


def strategies_with(field: str, joined_by: str = " and ") -> str:
    """Return the names of the strategies that use a field.

    >>> strategies_with("devices", " or ")
    'mirrored or central_storage'
    """
    return joined_by.join(name for name, each in STRATEGIES.items() if field in each.fields)


def check(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise ConfigError if the values of an experiment do not fit its strategy.

    Raises:
        ConfigError: If a field is invalid with the strategy. The message names the first one.
    """
    strategy, workers = values["strategy"], values["workers"]
    required = STRATEGIES[strategy]
    if workers != 1 and not required.multiple_processes:
        valid = " or ".join(name for name, each in STRATEGIES.items() if each.multiple_processes)
        raise ConfigError(
            f"workers: must be 1 with strategy {strategy}; several workers require strategy {valid}. Given: {workers}"
        )
    for field in sorted(_STRATEGY_FIELDS - set(required.fields)):
        if values[field] != defaults[field]:
            valid = strategies_with(field, " or ")
            raise ConfigError(f"{field}: requires strategy {valid}. Given: {values[field]} with strategy {strategy}")
    if values["evaluator"] and sum(replicas({**values, "evaluator": 0}).values()) == 1:
        raise ConfigError(
            "evaluator: requires several training processes; a single process validates itself. "
            f"Given: evaluator {values['evaluator']} with strategy {strategy} and workers {workers}"
        )
    simulator = values["simulator"]
    if required.builtin_operations and simulator != "auto" and not registry.declaration(simulator).builtin_operations:
        able = " or ".join(registry.builtin_simulators())
        raise ConfigError(f"simulator: must be auto, {able} with strategy {strategy}. Given: {simulator}")
    if values["reduction"] == "hierarchical_copy" and values["devices"] % 2:
        # TensorFlow reduces over pairs of devices and ignores the last one of an odd number.
        raise ConfigError(
            f"devices: must be an even number with reduction hierarchical_copy. Given: {values['devices']}"
        )
