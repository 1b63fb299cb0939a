"""Whether every peer computes the right network, by cirq: python -m benchmarks.frameworks.check [tutorial ours ...].

Exits with 1 where readouts or the gradient of the loss differ by more than 1e-4 of the largest.
"""

import argparse
from typing import Any

import numpy as np
import numpy.typing as npt
from tabulate import tabulate

from benchmarks.frameworks.launch import launch
from benchmarks.frameworks.network import Batch, Task
from benchmarks.frameworks.process import CHECKED_SAMPLES
from tests.reference import expectations

PROCESSES = {
    "ours": [],
    "tutorial": [],
    "tensorcircuit": [],
    "tensorcircuit, blocks": ["--blocks"],
    "tensorcircuit, lightcone": ["--blocks", "--lightcone"],
    "lightning": [],
}
_TOLERANCE = 1e-4
# The step at which a central difference in double precision is about most exact.
_SHIFT = 1e-5

Floats = npt.NDArray[np.float64]


def reference(task: Task) -> tuple[Floats, list[Floats]]:
    """Return readouts (batch, readouts) and the gradient of the loss in every weight, by differences."""
    batch, weights = task.batch(0), task.weights
    readouts = _readouts(task, weights[0], batch)

    def slope(index: int, position: Any) -> float:
        losses = []
        for sign in (1, -1):
            moved = [values.copy() for values in weights]
            moved[index][position] += sign * _SHIFT
            losses.append(_loss(readouts if index else _readouts(task, moved[0], batch), moved[1:], batch))
        return (losses[0] - losses[1]) / (2 * _SHIFT)

    gradients = [np.empty_like(values) for values in weights]
    for index, gradient in enumerate(gradients):
        for position in np.ndindex(gradient.shape):
            gradient[position] = slope(index, position)
    return readouts, gradients


def differences(reported: dict[str, Any], expected: tuple[Floats, list[Floats]]) -> tuple[float, float]:
    """Return the largest difference of readouts, and of gradients over the largest."""
    readouts, gradients = expected
    flat = np.concatenate([gradient.ravel() for gradient in gradients])
    given = np.concatenate([np.ravel(gradient) for gradient in reported["gradients"]])
    return float(np.abs(reported["readouts"] - readouts).max()), float(np.abs(given - flat).max() / np.abs(flat).max())


def _readouts(task: Task, parameters: Floats, batch: Batch) -> Floats:
    samples = zip(batch.qubit.tolist(), batch.angle.tolist(), strict=True)
    return np.stack([expectations(task.model, task.qubits, parameters, qubit, angle) for qubit, angle in samples])


def _loss(values: Floats, dense: list[Floats], batch: Batch) -> float:
    for kernel, bias in zip(dense[::2], dense[1::2], strict=True):
        values = values @ kernel + bias
    return float(np.mean((values[:, 0] - batch.label) ** 2))


def main() -> None:
    """Print the differences of every process at 4 and 8 qubits."""
    parser = argparse.ArgumentParser(description="Compare what the peers compute with cirq.")
    parser.add_argument("processes", nargs="*", help=f"those to check, all where none is named: {list(PROCESSES)}")
    parser.add_argument("--simulator", default="lightcone", help="the simulator of ours")
    arguments = parser.parse_args()
    rows = []
    for model in ("hybrid", "deep"):
        for qubits in (4, 8):
            expected = reference(Task(model, qubits, CHECKED_SAMPLES))
            for process in arguments.processes or PROCESSES:
                module = process.partition(",")[0]
                own = ["--simulator", arguments.simulator] if module == "ours" else PROCESSES[process]
                reported = launch(module, model, str(qubits), "--check", *own)
                rows.append([reported["peer"], model, qubits, *differences(reported, expected)])
    print(tabulate(rows, ["peer", "model", "qubits", "readouts", "gradients"], floatfmt=".1e"))
    if max(max(row[3:]) for row in rows) > _TOLERANCE:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
