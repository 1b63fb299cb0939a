"""What noise costs and how exact it is: python -m benchmarks.noise.

Three tables. The seconds of a trajectory by qubits. Trajectories at 8 qubits, where density matrices say what is true:
the standard error that is stated of a prediction, and how far predictions are off, root mean squares over 64 samples.
And density matrices: the largest difference of a readout from cirq's own simulator for one excitation, and the median
of a compiled step (readouts and gradient) at batch 32. Most of the time is cirq's.
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
from qcnn.circuits.sample_circuits import excitation, noisy_circuit
from qcnn.experiment_io import from_mapping
from qcnn.model.network import assemble, build_model
from qcnn.results import evaluate, noise_estimate
from qcnn.simulators import ExcitationBatch, Simulator, SimulatorLimits
from qcnn.simulators.structure.gates import read_model
from qcnn.simulators.trajectories import Trajectories

_NOISE = "depolarizing.one=0.001,depolarizing.two=0.01,amplitude_damping=0.002,phase_damping=0.002,readout=0.02"
_BATCH, _STEPS, _QUBITS = 32, 20, (4, 6, 8, 10)


def density() -> list[tuple[object, ...]]:
    """Compare with cirq, and time a step."""
    rows: list[tuple[object, ...]] = []
    for model in ("hybrid", "deep"):
        for qubits in _QUBITS:
            ansatz, ring = circuits.build(model, qubits), circuits.ring(qubits)
            values = np.random.default_rng(qubits).uniform(0, 2, len(ansatz.symbols))
            bounds = SimulatorLimits(memory=2**31, batch=_BATCH)
            simulator = simulators.create("density", ansatz, ring, bounds, noise=parse(_NOISE))
            batch = ExcitationBatch(tf.constant([1]), tf.constant([0.5]))
            (ours,) = simulator.expectations(tf.constant(values), batch).numpy()
            exact = cirq.DensityMatrixSimulator(dtype=np.complex128).simulate_expectation_values(
                noisy_circuit(ansatz, excitation(ring, 1, 0.5), parse(_NOISE)),
                [cirq.Z(readout) for readout in ansatz.readouts],
                param_resolver=dict(zip(ansatz.symbols, values.tolist(), strict=True)),
                qubit_order=ring,
            )
            error = np.abs(ours - np.real(exact)).max()
            rows.append((model, qubits, f"{error:.0e}", f"{1000 * _step(simulator, values):.3g}"))
    return rows


def _step(simulator: Simulator, values: np.ndarray) -> float:  # type: ignore[type-arg]
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


def trajectories() -> list[tuple[object, ...]]:
    """Compare predictions from trajectories with those of density matrices."""
    words = {"qubits": 8, "rounds": 100, "batch_size": _BATCH, "workers": 1, "strategy": "none"}
    plain = from_mapping(words)
    model, samples = build_model(plain), data.sample_excitations(8, 8, seed=1)
    ansatz, ring = circuits.build("hybrid", 8), circuits.ring(8)
    exact = assemble(plain, ansatz, simulators.create("density", ansatz, ring, plain.limits, noise=parse(_NOISE)))
    exact.set_weights(model.get_weights())
    expected = evaluate.predict(exact, samples)
    rows: list[tuple[object, ...]] = []
    for count in (25, 100, 400):
        config = from_mapping({**words, "options": {"trajectories": count}})
        found = noise_estimate.predict_from_trajectories(model, config, samples, parse(_NOISE))
        stated, true = (np.sqrt(np.mean(np.square(each))) for each in (found.errors, found.predictions - expected))
        rows.append((count, f"{stated:.4f}", f"{true:.4f}"))
    return rows


def seconds() -> list[tuple[object, ...]]:
    """Time trajectories."""
    rows: list[tuple[object, ...]] = []
    for qubits, count in ((12, 128), (16, 16), (20, 1)):
        ansatz, network = read_model("hybrid", qubits, noise=parse(_NOISE))
        drawn = Trajectories(network, np.random.default_rng(0).uniform(0, 2, len(ansatz.symbols)), excited=1)
        inputs = {"qubit": np.full(count, 1, np.int32), "angle": np.full(count, 0.5, np.float32)}
        start = time.perf_counter()
        drawn.readouts(inputs, np.random.default_rng(1).random((count, drawn.draws)))
        rows.append((qubits, f"{(time.perf_counter() - start) / count:.3g}"))
    return rows


def main() -> None:
    """Print the tables."""
    for measure, headers in (
        (seconds, ("qubits", "seconds a trajectory")),
        (trajectories, ("trajectories", "stated error", "true error")),
        (density, ("model", "qubits", "difference from cirq", "ms a step")),
    ):
        print(tabulate(measure(), headers=headers, tablefmt="github", disable_numparse=True), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
