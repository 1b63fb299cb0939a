"""Number of trials of a study that this machine trains at the same time."""

from collections.abc import Sequence

from qcnn.experiment.config import ExperimentConfig
from qcnn.planning.memory import process_bytes
from qcnn.simulators.costs.cost import format_bytes


def trials_at_once(
    trials: Sequence[ExperimentConfig], states: float, maximum: int, *, cores: int, memory: float, gpus: int
) -> tuple[int, str]:
    """Return the number of trials to train at the same time. Every process has a core, and memory for its states.

    Args:
        trials: Trials of a study.
        states: Largest memory of the states of a process, in bytes.
        maximum: Largest number.
        cores: Number of cores.
        memory: Available memory in bytes.
        gpus: Number of GPUs. If there are any, it is one trial, because a process takes all memory of its GPUs.

    Returns:
        The number, and a line if this machine limits it, or an empty string.
    """
    processes = max((sum(trial.replicas.values()) for trial in trials), default=1)
    needed = processes * process_bytes(states)
    own = "a core" if processes == 1 else f"{processes} cores"
    limits = [
        (cores // processes, f"each needs {own} of {cores}"),
        (int(memory // needed), f"each needs {format_bytes(needed)} of {format_bytes(memory)} of memory"),
    ]
    if gpus:
        limits.append((1, "each needs all memory of the GPUs"))
    fitting, reason = min(limits)
    wanted, possible = max(1, min(maximum, len(trials))), max(1, fitting)
    if possible >= wanted:
        return wanted, ""
    return possible, f"parallelism: {possible} instead of {wanted} trials at the same time, because {reason}"
