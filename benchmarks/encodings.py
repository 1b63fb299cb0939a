"""Step time with one feature per qubit, by simulator: python -m benchmarks.encodings. Prints Markdown.

A step computes the readouts of a batch and the gradient of their mean square, compiled if the simulator supports it.
"""

import argparse
import json
import os
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tabulate import tabulate

from benchmarks.frameworks.launch import python_of, run_command
from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.circuits.preparation import Preparation
from qcnn.simulators import ProductStateBatch, SimulatorLimits

BATCH = 32
ROWS = [(model, qubits) for model in ("hybrid", "deep") for qubits in (8, 12, 16)]
SIMULATORS = ("statevector", "statevector_cpu", "lightcone")
# Steps of which the fastest counts, after a first step that compiles.
STEPS = 10


def build_step(simulator: simulators.Simulator) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Return a function that computes the gradient.

    Its arguments are circuit parameters, float64 (parameters,), and features in rad, float32 (batch, qubits).
    """

    @tf.function(jit_compile=simulator.compiles, autograph=False)
    def gradient(parameters: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            loss = tf.reduce_mean(simulator.expectations(parameters, ProductStateBatch(features)) ** 2)
        return tape.gradient(loss, parameters)

    return gradient  # type: ignore[no-any-return]


def step_seconds(simulator_name: str, model: str, qubits: int) -> float:
    """Return the seconds of the fastest step.

    Args:
        simulator_name: Name of the simulator.
        model: "hybrid" or "deep".
        qubits: Number of qubits.
    """
    ansatz, random = circuits.build(model, qubits), np.random.default_rng(0)
    limits = SimulatorLimits(memory=2**31, batch=BATCH)
    simulator = simulators.create(simulator_name, ansatz, circuits.ring(qubits), limits, Preparation("ry", qubits))
    parameters = tf.constant(random.uniform(0, 2, len(ansatz.symbols)))
    features = tf.constant(random.uniform(0, np.pi, (BATCH, qubits)), tf.float32)
    step, times = build_step(simulator), []
    for _ in range(1 + STEPS):
        start = time.perf_counter()
        step(parameters, features).numpy()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def main() -> None:
    """Print milliseconds per step, and the speedup of the fastest simulator over TensorFlow Quantum."""
    parser = argparse.ArgumentParser(description="Measure steps with one feature per qubit. Prints Markdown.")
    parser.add_argument("--tfq", nargs=2, help=argparse.SUPPRESS)
    if row_of_tfq := parser.parse_args().tfq:
        print(json.dumps({"seconds": step_seconds("tfq", row_of_tfq[0], int(row_of_tfq[1]))}))
        return
    rows = []
    for model, qubits in ROWS:
        others = [1e3 * step_seconds(name, model, qubits) for name in SIMULATORS]
        command = [python_of("tfq"), "-m", "benchmarks.encodings", "--tfq", model, str(qubits)]
        reference = 1e3 * run_command(command)["seconds"]
        milliseconds = [*others, reference]
        row = [f"{model} n = {qubits}", *(f"{each:,.3g}" for each in milliseconds), f"{reference / min(others):,.3g} x"]
        rows.append(row)
        print(" | ".join(row), flush=True)
    print(f"\nMilliseconds per step at batch {BATCH}, one feature per qubit, on {os.cpu_count()} cores:\n")
    print(tabulate(rows, ["", *SIMULATORS, "tfq", "speedup over tfq"], tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
