"""Errors of complex64 by qubits and depth: python -m benchmarks.precision. Prints Markdown.

Compares complex64 with complex128: readouts of a batch, and the gradient of one readout of one sample. The larger error
of `statevector_cpu` and `statevector` counts.
"""

from collections.abc import Callable

import cirq
import numpy as np
import numpy.typing as npt
import sympy
import tensorflow as tf
from tabulate import tabulate

from benchmarks.frameworks.layers import layers
from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.circuits.preparation import Preparation
from qcnn.simulators import ProductStateBatch, Simulator, SimulatorLimits
from qcnn.simulators.costs.statevector import few_amplitudes

BATCH, DRAWS = 8, 4
QUBITS = (8, 16)
SIMULATORS = ("statevector_cpu", "statevector")


def hadamard_layers(qubits: int, count: int) -> Ansatz:
    """Return layers of H and CZ between powers of Y and X, with readouts on all qubits."""
    ring, symbols = circuits.ring(qubits), sympy.symbols(f"t0:{2 * qubits}")
    layer = cirq.Circuit(cirq.H.on_each(*ring), [cirq.CZ(*ring[place : place + 2]) for place in range(qubits - 1)])
    circuit = cirq.Circuit(cirq.Y(qubit) ** symbol for qubit, symbol in zip(ring, symbols, strict=False))
    circuit += count * layer
    circuit += [cirq.X(qubit) ** symbol for qubit, symbol in zip(ring, symbols[qubits:], strict=True)]
    return Ansatz(circuit, symbols, tuple(ring))


CIRCUITS: dict[str, Callable[[int], Ansatz]] = {
    "deep": lambda qubits: circuits.build("deep", qubits),
    "hybrid": lambda qubits: circuits.build("hybrid", qubits),
    "6 layers": lambda qubits: layers(circuits.ring(qubits), 6),
    "40 layers": lambda qubits: layers(circuits.ring(qubits), 40),
    "200 layers of H and CZ": lambda qubits: hadamard_layers(qubits, 200),
}


def step(
    simulator: Simulator, parameters: npt.NDArray[np.float64], features: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the readouts of a batch, and the gradient of the last readout of the first sample.

    Args:
        simulator: Simulator of the circuit.
        parameters: Circuit parameters.
        features: Features of the batch, (samples, qubits), in radians.
    """
    values = tf.constant(parameters)
    with tf.GradientTape() as tape:
        tape.watch(values)
        readouts = simulator.expectations(values, ProductStateBatch(tf.constant(features)))
        readout = readouts[0, -1]
    return readouts.numpy(), tape.gradient(readout, values).numpy()


def errors(name: str, ansatz: Ansatz, qubits: int) -> tuple[float, float]:
    """Return the largest errors of readouts and of gradients.

    Args:
        name: Name of the simulator.
        ansatz: Circuit.
        qubits: Number of qubits.
    """
    single, double = (
        simulators.create(
            name,
            ansatz,
            circuits.ring(qubits),
            SimulatorLimits(memory=2**31, batch=BATCH, real_bytes=size),
            Preparation("ry", qubits),
        )
        for size in (4, 8)
    )
    largest = np.zeros(2)
    for draw in range(DRAWS):
        random = np.random.default_rng([draw, qubits])
        parameters = random.uniform(0, 2, len(ansatz.symbols))
        features = random.uniform(-np.pi, np.pi, (BATCH, qubits)).astype(np.float32)
        pairs = zip(step(single, parameters, features), step(double, parameters, features), strict=True)
        largest = np.maximum(largest, [np.abs(one - other).max() for one, other in pairs])
    return float(largest[0]), float(largest[1])


def main() -> None:
    """Print the largest errors of both simulators by circuit and number of qubits."""
    rows = []
    for title, build in CIRCUITS.items():
        row = [title]
        for qubits in QUBITS:
            # `statevector` evolves few amplitudes in complex128.
            names = [name for name in SIMULATORS if name != "statevector" or not few_amplitudes(qubits)]
            found = np.max([errors(name, build(qubits), qubits) for name in names], axis=0)
            row += [f"{error:.1e}" for error in found]
        rows.append(row)
    print(f"Largest differences from complex128, one feature per qubit, {DRAWS} draws of {BATCH} samples:\n")
    columns = [f"{what}, {qubits} qubits" for qubits in QUBITS for what in ("readouts", "gradients")]
    print(tabulate(rows, ["circuit", *columns], tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
