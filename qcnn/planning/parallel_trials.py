"""Number of trials of a study that this machine trains at the same time."""

from collections.abc import Sequence

from qcnn.experiment.config import ExperimentConfig
from qcnn.planning.memory import process_bytes


def trials_at_once(
    trials: Sequence[ExperimentConfig], states: float, maximum: int, *, cores: int, memory: float, gpus: int
) -> int:
    """Return the number of trials to train at the same time. Every process has a core, and memory for its states.

    Args:
        trials: Trials of a study.
        states: Largest memory of the states of a process, in bytes.
        maximum: Largest number.
        cores: Number of cores.
        memory: Available memory in bytes.
        gpus: Number of GPUs. If there are any, it is one trial, because a process takes all memory of its GPUs.
    """
    processes = max((sum(trial.replicas.values()) for trial in trials), default=1)
    fitting = min(cores // processes, int(memory // (processes * process_bytes(states))))
    return 1 if gpus else max(1, min(maximum, len(trials), fitting))
