"""Compare readouts and gradients of the frameworks with Cirq: python -m benchmarks.frameworks.check.

Arguments, for example `tutorial qcnn`, select frameworks. Exits with 1 if readouts, or gradients relative to the
largest, differ by more than 1e-4.
"""

import argparse
from typing import Any

import numpy as np
import numpy.typing as npt
from tabulate import tabulate

from benchmarks.frameworks.launch import launch
from benchmarks.frameworks.network import Batch, StepTask
from benchmarks.frameworks.process import CHECKED_SAMPLES
from tests.reference import expectations

PROCESSES = {
    "qcnn": [],
    "tutorial": [],
    "tensorcircuit": [],
    "tensorcircuit, blocks": ["--blocks"],
    "tensorcircuit, lightcone": ["--blocks", "--lightcone"],
    "lightning": [],
}
_TOLERANCE = 1e-4
# Near the step at which central differences in double precision are most accurate.
_SHIFT = 1e-5

Floats = npt.NDArray[np.float64]


def reference(task: StepTask) -> tuple[Floats, list[Floats]]:
    """Return readouts (batch, readouts) and gradients of the loss from Cirq and central differences."""
    batch, weights = task.batch(0), task.weights
    readouts = _readouts(task, weights[0], batch)

    def slope(index: int, position: Any) -> float:
        losses = []
        for sign in (1, -1):
            shifted = [values.copy() for values in weights]
            shifted[index][position] += sign * _SHIFT
            losses.append(_loss(readouts if index else _readouts(task, shifted[0], batch), shifted[1:], batch))
        return (losses[0] - losses[1]) / (2 * _SHIFT)

    gradients = [np.empty_like(values) for values in weights]
    for index, gradient in enumerate(gradients):
        for position in np.ndindex(gradient.shape):
            gradient[position] = slope(index, position)
    return readouts, gradients


def differences(reported: dict[str, Any], expected: tuple[Floats, list[Floats]]) -> tuple[float, float]:
    """Return the maximum differences of readouts, and of gradients relative to the largest gradient."""
    readouts, gradients = expected
    flat = np.concatenate([gradient.ravel() for gradient in gradients])
    actual = np.concatenate([np.ravel(gradient) for gradient in reported["gradients"]])
    return float(np.abs(reported["readouts"] - readouts).max()), float(np.abs(actual - flat).max() / np.abs(flat).max())


def _readouts(task: StepTask, parameters: Floats, batch: Batch) -> Floats:
    samples = zip(batch.qubit.tolist(), batch.angle.tolist(), strict=True)
    return np.stack([expectations(task.model, task.qubits, parameters, qubit, angle) for qubit, angle in samples])


def _loss(values: Floats, dense: list[Floats], batch: Batch) -> float:
    for kernel, bias in zip(dense[::2], dense[1::2], strict=True):
        values = values @ kernel + bias
    return float(np.mean((values[:, 0] - batch.label) ** 2))


def main() -> None:
    """Print the differences of every process at 4 and 8 qubits."""
    parser = argparse.ArgumentParser(description="Compare the frameworks with Cirq.")
    parser.add_argument("processes", nargs="*", help=f"Processes to check. Default: {list(PROCESSES)}.")
    parser.add_argument("--simulator", default="lightcone", help="Simulator of qcnn.")
    arguments = parser.parse_args()
    rows = []
    for model in ("hybrid", "deep"):
        for qubits in (4, 8):
            expected = reference(StepTask(model, qubits, CHECKED_SAMPLES))
            for process in arguments.processes or PROCESSES:
                name = process.partition(",")[0]
                options = ["--simulator", arguments.simulator] if name == "qcnn" else PROCESSES[process]
                module = "qcnn_step" if name == "qcnn" else name
                reported = launch(module, model, str(qubits), "--check", *options)
                rows.append([reported["framework"], model, qubits, *differences(reported, expected)])
    print(tabulate(rows, ["framework", "model", "qubits", "readouts", "gradients"], floatfmt=".1e"))
    if max(max(row[3:]) for row in rows) > _TOLERANCE:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
