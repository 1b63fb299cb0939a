"""Readouts of circuits, simulated by Cirq in double precision."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import cirq
import numpy as np
import numpy.typing as npt

from qcnn.circuits.circuits import Ansatz, ring
from qcnn.circuits.noise import NOISELESS, Noise
from qcnn.circuits.observables import as_pauli_sum
from qcnn.circuits.preparation import Preparation
from qcnn.circuits.sample_circuits import data_state, noisy_circuit
from qcnn.simulators import CircuitInputBatch, ExcitationBatch, Inputs

Floats = npt.NDArray[np.float64]
Complex = npt.NDArray[np.complex128]


def readouts_of_batch(
    ansatz: Ansatz, qubits: int, values: Floats, preparation: Preparation, batch: Inputs, noise: Noise = NOISELESS
) -> Floats:
    """Return Z on the readouts of a batch, (samples, readouts)."""
    columns = [np.asarray(column, np.float64) for column in batch if column is not None]
    samples = np.stack(columns, axis=1) if isinstance(batch, ExcitationBatch) else columns[0]
    if isinstance(batch, CircuitInputBatch):
        return np.concatenate([_readouts_of_inputs(ansatz, qubits, values, sample, noise) for sample in samples])
    if noise:
        return np.array([_noisy_readouts(ansatz, qubits, values, preparation, sample, noise) for sample in samples])
    if isinstance(batch, ExcitationBatch):
        excited, angles = samples.T
        return readouts_of_excitations(ansatz, qubits, values, excited.astype(int).tolist(), angles.tolist())
    return readouts_of_samples(ansatz, qubits, values, preparation, samples)


def _readouts_of_inputs(ansatz: Ansatz, qubits: int, values: Floats, sample: Floats, noise: Noise) -> Floats:
    """Return the readouts of a sample on |0...0>, whose features replace the inputs of the circuit, (1, readouts)."""
    given = cirq.resolve_parameters(ansatz.circuit, dict(zip(ansatz.inputs, sample.tolist(), strict=True)))
    of_sample = dataclasses.replace(ansatz, circuit=given, inputs=())
    none = Preparation("rx", 0)
    if noise:
        return _noisy_readouts(of_sample, qubits, values, none, np.zeros(0), noise)[None]
    return readouts_of_samples(of_sample, qubits, values, none, np.zeros((1, 0)))


def _noisy_readouts(
    ansatz: Ansatz, qubits: int, values: Floats, preparation: Preparation, sample: Floats, noise: Noise
) -> Floats:
    is_state = preparation.kind == "state"
    prepared = cirq.Circuit() if is_state else data_state(preparation, ring(qubits), sample.tolist())
    observables: list[Any] = list(map(as_pauli_sum, ansatz.readouts))
    if any(not isinstance(readout, cirq.Qid) for readout in ansatz.readouts):
        # A flipped bit changes the sign of a string's outcome, in any basis.
        observables = [_with_flips(observable, noise) for observable in observables]
        noise = dataclasses.replace(noise, readout=0.0)
    # To split and join states costs Cirq as much as the gates.
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128, split_untangled_states=False)
    found = simulator.simulate_expectation_values(
        noisy_circuit(ansatz, prepared, noise),
        observables,
        param_resolver=dict(zip(ansatz.symbols, values.tolist(), strict=True)),
        qubit_order=ring(qubits),
        initial_state=(sample / np.linalg.norm(sample)).astype(np.complex128) if is_state else None,
    )
    return np.real(np.array(found))


def _with_flips(observable: cirq.PauliSum, noise: Noise) -> cirq.PauliSum:
    """Return an observable as it is read out, where each bit is flipped with `noise.readout`."""
    return cirq.PauliSum.from_pauli_strings([term * (1 - 2 * noise.readout) ** len(term) for term in observable])


def readouts_of_excitation(ansatz: Ansatz, qubits: int, values: Floats, excited: int, angle: float) -> Floats:
    """Return Z on the readouts, (readouts,), by Cirq in double precision."""
    (found,) = readouts_of_excitations(ansatz, qubits, values, [excited], [angle])
    return np.asarray(found)


def readouts_of_excitations(
    ansatz: Ansatz, qubits: int, values: Floats, excited: Sequence[int], angles: Sequence[float]
) -> Floats:
    """Return Z on the readouts of excitations, (samples, readouts), by Cirq in double precision."""
    line = ring(qubits)
    # A pair of two qubits is joined once.
    pairs = {(min(pair), max(pair)) for pair in ((i, (i + 1) % qubits) for i in range(qubits)) if pair[0] != pair[1]}
    data = [*(cirq.H(q) for q in line), *(cirq.CZ(line[a], line[b]) for a, b in sorted(pairs))]
    unexcited = _final(cirq.Circuit(data), qubits)
    turns = [cirq.Circuit(cirq.rx(angle)(line[qubit])) for qubit, angle in zip(excited, angles, strict=True)]
    return _readouts(np.array([_final(turn, qubits, unexcited) for turn in turns]), ansatz, qubits, values)


def readouts_of_samples(
    ansatz: Ansatz, qubits: int, values: Floats, preparation: Preparation, samples: Floats
) -> Floats:
    """Return Z on the readouts of features or states, (samples, readouts), by Cirq in double precision."""
    if preparation.kind == "state":
        states = samples / np.linalg.norm(samples, axis=1, keepdims=True)
        return _readouts(states.astype(np.complex128), ansatz, qubits, values)
    axes = {"rx": (cirq.rx,), "ry": (cirq.ry,), "rz": (cirq.rz,), "dense": (cirq.rx, cirq.ry)}[preparation.kind]
    begun = [cirq.H(q) for q in ring(qubits)] if preparation.kind == "rz" else []
    turns = [(axis, q) for axis in axes for q in ring(qubits)]
    turned = ([axis(angle)(q) for angle, (axis, q) in zip(each, turns, strict=False)] for each in samples.tolist())
    prepared = np.array([_final(cirq.Circuit(begun, turns), qubits) for turns in turned])
    return _readouts(prepared, ansatz, qubits, values)


def _final(circuit: cirq.Circuit, qubits: int, initial: Complex | int = 0) -> Complex:
    return np.asarray(
        circuit.final_state_vector(initial_state=initial, qubit_order=ring(qubits), dtype=np.complex128), np.complex128
    )


def _readouts(states: Complex, ansatz: Ansatz, qubits: int, values: Floats) -> Floats:
    """Evolve all states at once, each entangled with a different basis state of idle qubits."""
    others = cirq.NamedQubit.range((len(states) - 1).bit_length(), prefix="sample")
    beside = np.zeros((2 ** len(others), states.shape[1]), np.complex128)
    beside[: len(states)] = states / np.sqrt(len(states))
    final = cirq.Simulator(dtype=np.complex128).simulate(
        ansatz.circuit,
        param_resolver=dict(zip(ansatz.symbols, values.tolist(), strict=True)),
        qubit_order=[*others, *ring(qubits)],
        initial_state=beside.reshape(-1),
    )
    evolved = final.final_state_vector.reshape(beside.shape)[: len(states)]
    of_readouts: dict[cirq.Qid, int] = {qubit: number for number, qubit in enumerate(ring(qubits))}
    observables = list(map(as_pauli_sum, ansatz.readouts))
    return np.array(
        [
            [np.real(each.expectation_from_state_vector(state, of_readouts)) for each in observables]
            for state in evolved * np.sqrt(len(states))
        ]
    )
