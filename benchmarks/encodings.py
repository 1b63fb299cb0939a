"""A step on samples whose features turn the qubits, by simulator: python -m benchmarks.encodings. Prints Markdown.

A step is the readouts of a batch and the gradient of their squares' mean, as a compiled program where that is possible.
"""

import os
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tabulate import tabulate

from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.circuits.preparation import Preparation
from qcnn.simulators import ProductStateBatch, SimulatorLimits

BATCH = 32
ROWS = [(model, qubits) for model in ("hybrid", "deep") for qubits in (8, 12, 16)]
SIMULATORS = ("statevector", "lightcone", "tfq")
# The least of so many steps, the first of which, that compiles, does not count.
STEPS = 10


def program(simulator: simulators.Simulator) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Return what a step computes of parameters (parameters,) and features (batch, qubits)."""

    @tf.function(jit_compile=simulator.compiles, autograph=False)
    def gradient(parameters: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            loss = tf.reduce_mean(simulator.expectations(parameters, ProductStateBatch(features)) ** 2)
        return tape.gradient(loss, parameters)

    return gradient  # type: ignore[no-any-return]


def seconds(name: str, model: str, qubits: int) -> float:
    """Return the least seconds of a step."""
    ansatz, random = circuits.build(model, qubits), np.random.default_rng(0)
    limits = SimulatorLimits(memory=2**31, batch=BATCH)
    simulator = simulators.create(name, ansatz, circuits.ring(qubits), limits, Preparation("ry", qubits))
    parameters = tf.constant(random.uniform(0, 2, len(ansatz.symbols)))
    features = tf.constant(random.uniform(0, np.pi, (BATCH, qubits)), tf.float32)
    step, taken = program(simulator), []
    for _ in range(1 + STEPS):
        start = time.perf_counter()
        step(parameters, features).numpy()
        taken.append(time.perf_counter() - start)
    return min(taken[1:])


def main() -> None:
    """Print milliseconds, and how many times as long TensorFlow Quantum takes as the fastest of ours."""
    rows = []
    for model, qubits in ROWS:
        taken = [1e3 * seconds(name, model, qubits) for name in SIMULATORS]
        *ours, reference = taken
        row = [f"{model} n = {qubits}", *(f"{each:,.3g}" for each in taken), f"{reference / min(ours):,.3g} x"]
        rows.append(row)
        print(" | ".join(row), flush=True)
    print(f"\nMilliseconds a step at batch {BATCH}, as many features as qubits, on {os.cpu_count()} cores:\n")
    print(tabulate(rows, ["", *SIMULATORS, "tfq in place of the faster"], tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
