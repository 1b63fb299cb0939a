"""Time and accuracy of simulation with noise: python -m benchmarks.noise.

Prints three tables:

- Seconds of a trajectory by number of qubits.
- Estimated and true standard errors of predictions from trajectories at 8 qubits, root mean squares over 64 samples.
  The true errors are differences from predictions of density matrices.
- Density matrices: the largest difference of a readout from Cirq's simulator for one excitation, and the median time of
  a compiled step (readouts and gradient) at batch 32.

Most of the time is spent in Cirq.
"""

import statistics
import time

import cirq
import numpy as np
import tensorflow as tf
from tabulate import tabulate

from qcnn import data, simulators
from qcnn.circuits import circuits
from qcnn.circuits.noise import parse
from qcnn.circuits.observables import as_pauli_sum
from qcnn.circuits.sample_circuits import excitation, noisy_circuit
from qcnn.experiment.parsing import from_mapping
from qcnn.model.network import assemble, build_model
from qcnn.results import evaluate, noise_estimate
from qcnn.simulators import ExcitationBatch, Simulator, SimulatorLimits
from qcnn.simulators.structure.gates import read_model
from qcnn.simulators.trajectories import Trajectories

_NOISE = "depolarizing.one=0.001,depolarizing.two=0.01,amplitude_damping=0.002,phase_damping=0.002,readout=0.02"
_BATCH, _STEPS, _QUBITS = 32, 20, (4, 6, 8, 10)


def measure_density() -> list[tuple[object, ...]]:
    """Compare simulator density with Cirq, and measure the time of a step."""
    rows: list[tuple[object, ...]] = []
    for model in ("hybrid", "deep"):
        for qubits in _QUBITS:
            ansatz, ring = circuits.build(model, qubits), circuits.ring(qubits)
            values = np.random.default_rng(qubits).uniform(0, 2, len(ansatz.symbols))
            bounds = SimulatorLimits(memory=2**31, batch=_BATCH)
            simulator = simulators.create("density", ansatz, ring, bounds, noise=parse(_NOISE))
            batch = ExcitationBatch(tf.constant([1]), tf.constant([0.5]))
            (readouts,) = simulator.expectations(tf.constant(values), batch).numpy()
            exact = cirq.DensityMatrixSimulator(dtype=np.complex128).simulate_expectation_values(
                noisy_circuit(ansatz, excitation(ring, 1, 0.5), parse(_NOISE)),
                list(map(as_pauli_sum, ansatz.readouts)),
                param_resolver=dict(zip(ansatz.symbols, values.tolist(), strict=True)),
                qubit_order=ring,
            )
            error = np.abs(readouts - np.real(exact)).max()
            rows.append((model, qubits, f"{error:.0e}", f"{1000 * _step_seconds(simulator, values):.3g}"))
    return rows


def _step_seconds(simulator: Simulator, values: np.ndarray) -> float:
    random = np.random.default_rng(0)
    qubits = simulator.network.qubits
    batch = ExcitationBatch(
        tf.constant(random.integers(0, qubits, _BATCH), tf.int32), tf.random.stateless_uniform([_BATCH], [0, 0])
    )

    @tf.function(jit_compile=True, autograph=False)
    def step(parameters: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            loss = tf.reduce_sum(simulator.expectations(parameters, batch) ** 2)
        return tape.gradient(loss, parameters)

    parameters, seconds = tf.constant(values), []
    for _ in range(_STEPS):
        start = time.perf_counter()
        step(parameters).numpy()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def measure_errors() -> list[tuple[object, ...]]:
    """Compare predictions from trajectories with predictions from density matrices."""
    fields = {"qubits": 8, "rounds": 100, "batch_size": _BATCH, "workers": 1, "strategy": "none"}
    noiseless = from_mapping(fields)
    model, samples = build_model(noiseless), data.sample_excitations(8, 8, seed=1)
    ansatz, ring = circuits.build("hybrid", 8), circuits.ring(8)
    exact = assemble(
        noiseless, ansatz, simulators.create("density", ansatz, ring, noiseless.limits, noise=parse(_NOISE))
    )
    exact.set_weights(model.get_weights())
    expected = evaluate.predict(exact, samples)
    rows: list[tuple[object, ...]] = []
    for count in (25, 100, 400):
        config = from_mapping({**fields, "options": {"trajectories": count}})
        estimate = noise_estimate.predict_from_trajectories(model, config, samples, parse(_NOISE))
        estimated, true = (
            np.sqrt(np.mean(np.square(errors))) for errors in (estimate.errors, estimate.predictions - expected)
        )
        rows.append((count, f"{estimated:.4f}", f"{true:.4f}"))
    return rows


def measure_trajectories() -> list[tuple[object, ...]]:
    """Measure the seconds of a trajectory."""
    rows: list[tuple[object, ...]] = []
    for qubits, count in ((12, 128), (16, 16), (20, 1)):
        ansatz, network = read_model("hybrid", qubits, noise=parse(_NOISE))
        trajectories = Trajectories(network, np.random.default_rng(0).uniform(0, 2, len(ansatz.symbols)), excited=1)
        inputs = {"qubit": np.full(count, 1, np.int32), "angle": np.full(count, 0.5, np.float32)}
        start = time.perf_counter()
        trajectories.values(inputs, np.random.default_rng(1).random((count, trajectories.draws)))
        rows.append((qubits, f"{(time.perf_counter() - start) / count:.3g}"))
    return rows


def main() -> None:
    """Print the tables."""
    for measure, headers in (
        (measure_trajectories, ("qubits", "seconds per trajectory")),
        (measure_errors, ("trajectories", "estimated error", "true error")),
        (measure_density, ("model", "qubits", "difference from Cirq", "ms per step")),
    ):
        print(tabulate(measure(), headers=headers, tablefmt="github", disable_numparse=True), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
