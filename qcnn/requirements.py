"""What each strategy needs: roles, devices, simulators and words of its own. It imports no TensorFlow."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from qcnn.errors import ConfigError
from qcnn.simulators import registry

# TensorFlow's, in the order of Vertex AI's worker pools.
ROLES = CHIEF, WORKER, PS, EVALUATOR = ("chief", "worker", "ps", "evaluator")


class Chief(enum.Enum):
    """What a chief does under a strategy."""

    NONE = "there is none"
    TRAINS = "it is one of the training processes, where the experiment asks for one"
    COORDINATES = "it gives the workers their batches, and trains none itself"


@dataclasses.dataclass(frozen=True)
class StrategyRequirements:
    """What a strategy needs, and the words that act with it alone.

    `several`: processes can train together; `devices`: one process can train on several. `in_step`: all replicas share
    every batch, so none of the numbers depends on them. `own_operations`: what it trains on runs TensorFlow's own
    operations only.
    """

    several: bool = False
    devices: bool = False
    in_step: bool = True
    chief: Chief = Chief.NONE
    words: tuple[str, ...] = ()
    own_operations: bool = False


# A new one is a line here, and a function in `qcnn.trainer.distribution.strategies` that creates it.
STRATEGIES: Mapping[str, StrategyRequirements] = {
    "multi_worker": StrategyRequirements(
        several=True, chief=Chief.TRAINS, words=("chief", "communication", "communication_timeout")
    ),
    "mirrored": StrategyRequirements(devices=True, words=("devices", "reduction")),
    "central_storage": StrategyRequirements(devices=True, words=("devices",)),
    # A server of TensorFlow's runs operations of its own kind only.
    "parameter_server": StrategyRequirements(
        several=True, in_step=False, chief=Chief.COORDINATES, words=("ps",), own_operations=True
    ),
    "tpu": StrategyRequirements(own_operations=True),
    "none": StrategyRequirements(),
}
# Those of several processes in step, and of a process on its own, with which others are compared.
IN_STEP, ALONE = "multi_worker", "none"
_OF_ONE_STRATEGY = {word for needs in STRATEGIES.values() for word in needs.words}


def replicas(words: Mapping[str, Any]) -> dict[str, int]:
    """Return how many processes each role has, of an experiment's words; roles without a process are left out.

    >>> words = {"strategy": "multi_worker", "workers": 4, "chief": 1, "ps": 0, "evaluator": 1}
    >>> replicas(words)
    {'chief': 1, 'worker': 3, 'evaluator': 1}
    """
    needs, workers = STRATEGIES[words["strategy"]], words["workers"]
    if needs.chief is Chief.COORDINATES:
        counts = {CHIEF: 1, WORKER: workers, PS: max(1, words["ps"])}
    else:
        counts = {CHIEF: words["chief"], WORKER: workers - words["chief"]}
    counts[EVALUATOR] = words["evaluator"]
    return {role: count for role, count in counts.items() if count}


def serving(strategy: str) -> tuple[str, ...]:
    """Return the roles that do what the chief asks for, until it has ended."""
    return (WORKER, PS) if STRATEGIES[strategy].chief is Chief.COORDINATES else ()


def ignore_exit(strategy: str) -> tuple[str, ...]:
    """Return the roles whose end is not waited for: a training is over without them."""
    return (*serving(strategy), EVALUATOR)


def restart_individually(strategy: str) -> tuple[str, ...]:
    """Return the roles of which a process that is lost is started again while the others go on."""
    return (WORKER, EVALUATOR) if STRATEGIES[strategy].chief is Chief.COORDINATES else (EVALUATOR,)


def gpu_fields(words: Mapping[str, Any]) -> dict[str, str]:
    """Return the words of an experiment that a process without a GPU cannot follow, with their values."""
    given = {word: str(words[word]) for word in ("visible_gpus", "gpu_memory") if words[word]}
    return given | {word: words[word] for word in ("communication", "reduction") if words[word] == "nccl"}


def num_replicas_in_sync(words: Mapping[str, Any]) -> int:
    """Return how many replicas share a batch, of an experiment's words."""
    needs = STRATEGIES[words["strategy"]]
    if needs.devices:
        return max(1, int(words["devices"]))
    return int(words["workers"]) if needs.in_step else 1


def with_word(word: str, joined_by: str = " and ") -> str:
    """Return the strategies that a word acts with.

    >>> with_word("devices", " or ")
    'mirrored or central_storage'
    """
    return joined_by.join(name for name, needs in STRATEGIES.items() if word in needs.words)


def check(words: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse words of an experiment that cannot run together.

    Raises:
        ConfigError: one line with the first word that its strategy does not take.
    """
    strategy, workers = words["strategy"], words["workers"]
    needs = STRATEGIES[strategy]
    if workers != 1 and not needs.several:
        able = " or ".join(name for name, each in STRATEGIES.items() if each.several)
        raise ConfigError(
            f"workers: must be 1 with strategy {strategy}; several need strategy {able}. Given: {workers}"
        )
    for word in sorted(_OF_ONE_STRATEGY - set(needs.words)):
        if words[word] != defaults[word]:
            able = with_word(word, " or ")
            raise ConfigError(f"{word}: needs strategy {able}. Given: {words[word]} with strategy {strategy}")
    if words["evaluator"] and sum(replicas({**words, "evaluator": 0}).values()) == 1:
        raise ConfigError(
            "evaluator: stands beside a training of several processes; one that trains alone validates by itself. "
            f"Given: evaluator {words['evaluator']} with strategy {strategy} and workers {workers}"
        )
    simulators = registry.of_own_operations()
    if needs.own_operations and words["simulator"] not in ("auto", *simulators):
        raise ConfigError(
            f"simulator: must be auto, {' or '.join(simulators)} with strategy {strategy}. Given: {words['simulator']}"
        )
    if words["reduction"] == "hierarchical_copy" and words["devices"] % 2:
        # TensorFlow adds up over pairs of devices, and leaves the last one out.
        raise ConfigError(
            f"devices: must be an even number with reduction hierarchical_copy. Given: {words['devices']}"
        )
