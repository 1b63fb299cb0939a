"""Step time by number of cores, and the prediction of `qcnn plan`: python -m benchmarks.core_scaling.

Each number is measured in a separate process that is restricted to the first cores: the median step time of at least 5
epochs at batch 32. The prediction is that of `MachineProfile.with_cores` in qcnn.planning.machine for the nominal
machine. Only the ratios to the time on all cores are compared.
"""

import os
import sys

from tabulate import tabulate

from benchmarks.simulators import Measured, measure
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.planning.machine import NOMINAL_MACHINE
from qcnn.planning.plan import count, predict
from qcnn.process.operating_system import cores as available_cores

_BATCH = 32
_NETWORKS = (("hybrid", 8), ("hybrid", 16), ("deep", 12), ("deep", 14), ("deep", 16))


def step_seconds(model: str, qubits: int, cores: int) -> float:
    """Measure the seconds of a training step.

    Args:
        model: "hybrid" or "deep".
        qubits: Number of qubits.
        cores: Number of cores on which the process may run.
    """
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[:cores])
    try:
        measured = measure(
            "qcnn_step", model, str(qubits), "--batch", str(_BATCH), "--simulator", _experiment(model, qubits)[1]
        )
    finally:
        os.sched_setaffinity(0, allowed)
    # The arguments are the same for each number of cores.
    measure.cache_clear()
    if not isinstance(measured, Measured):
        sys.exit(f"{model} with {qubits} qubits on {cores} cores: {measured}")
    return measured.step


def predicted_seconds(model: str, qubits: int, cores: int) -> float:
    """Return the predicted seconds of an epoch.

    Args:
        model: "hybrid" or "deep".
        qubits: Number of qubits.
        cores: Number of cores of the machine.
    """
    config, _ = _experiment(model, qubits)
    return predict(config, count(config), NOMINAL_MACHINE.with_cores(cores)).chosen


def _experiment(model: str, qubits: int) -> tuple[ExperimentConfig, str]:
    """Return an experiment and the simulator that is selected for it."""
    fields = {"model": model, "qubits": qubits, "rounds": 100, "batch_size": _BATCH, "workers": 1, "strategy": "none"}
    config = from_mapping(fields)
    return config, count(config).chosen.simulator


def main() -> None:
    """Print the table."""
    all_cores = available_cores()
    rows = []
    for model, qubits in _NETWORKS:
        measured, predicted = (f(model, qubits, all_cores) for f in (step_seconds, predicted_seconds))
        for cores in range(1, all_cores):
            ratio = step_seconds(model, qubits, cores) / measured
            rule = predicted_seconds(model, qubits, cores) / predicted
            rows.append((f"{model}, {qubits} qubits", _experiment(model, qubits)[1], cores, ratio, rule))
    header = ("network", "simulator", "cores", f"measured, relative to {all_cores} cores", "predicted")
    print(tabulate(rows, header, tablefmt="github", floatfmt=".2f"))


if __name__ == "__main__":
    main()
