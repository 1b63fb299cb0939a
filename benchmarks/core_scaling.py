"""Seconds of a training step on some of this machine's cores, and what the rule says: python -m benchmarks.core_scaling.

The rule is `Machine.with_cores` of qcnn.planning.machine. Each number is a process of its own that may run on
the first cores only: the median of a step of at least 5 epochs at batch 32, beside what a nominal machine with as many
cores would take for it. Only the ratios to all cores are compared.
"""

import os
import sys

from tabulate import tabulate

from benchmarks.simulators import Measured, measure
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping
from qcnn.operating_system import cores as available_cores
from qcnn.planning.machine import NOMINAL_MACHINE
from qcnn.planning.plan import count, predict

_BATCH = 32
_NETWORKS = (("hybrid", 8), ("hybrid", 16), ("deep", 12), ("deep", 14), ("deep", 16))


def seconds(model: str, qubits: int, cores: int) -> float:
    """Measure a step on the first cores."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[:cores])
    try:
        found = measure(
            "ours", model, str(qubits), "--batch", str(_BATCH), "--simulator", _experiment(model, qubits)[1]
        )
    finally:
        os.sched_setaffinity(0, allowed)
    # Each number of cores is asked for once, and the arguments are the same.
    measure.cache_clear()
    if not isinstance(found, Measured):
        sys.exit(f"{model} with {qubits} qubits on {cores} cores: {found}")
    return found.step


def predicted(model: str, qubits: int, cores: int) -> float:
    """Return the seconds of an epoch by the rule."""
    config, _ = _experiment(model, qubits)
    return predict(config, count(config), NOMINAL_MACHINE.with_cores(cores)).chosen


def _experiment(model: str, qubits: int) -> tuple[ExperimentConfig, str]:
    """Return an experiment of that batch, and the simulator that is chosen for it."""
    words = {"model": model, "qubits": qubits, "rounds": 100, "batch_size": _BATCH, "workers": 1, "strategy": "none"}
    config = from_mapping(words)
    return config, count(config).chosen.simulator


def main() -> None:
    """Print the table."""
    every = available_cores()
    rows = []
    for model, qubits in _NETWORKS:
        whole, expected = seconds(model, qubits, every), predicted(model, qubits, every)
        for cores in range(1, every):
            measured = seconds(model, qubits, cores) / whole
            rule = predicted(model, qubits, cores) / expected
            rows.append((f"{model}, {qubits} qubits", _experiment(model, qubits)[1], cores, measured, rule))
    header = ("network", "simulator", "cores", f"measured, times that on {every}", "by the rule")
    print(tabulate(rows, header, tablefmt="github", floatfmt=".2f"))


if __name__ == "__main__":
    main()
