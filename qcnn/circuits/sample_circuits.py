"""Circuits that prepare one sample, and noisy circuits, for simulators of other libraries."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import cirq
import sympy

from qcnn.circuits.circuits import Ansatz, cluster_state
from qcnn.circuits.deferred_measurements import count_conditions
from qcnn.circuits.noise import GateNoise, Noise
from qcnn.circuits.observables import qubits_of, terms_of
from qcnn.circuits.preparation import Kind, Preparation
from qcnn.errors import ConfigError

# Gates that rotate all qubits by features, in the order in which they act.
_ROTATIONS = {"rx": (cirq.rx,), "ry": (cirq.ry,), "rz": (cirq.rz,), "dense": (cirq.rx, cirq.ry)}


def data_state(preparation: Preparation, qubits: Sequence[cirq.Qid], sample: Sequence[float]) -> cirq.Circuit:
    """Return the circuit that prepares a sample from |0>.

    Args:
        preparation: Type of the data state.
        qubits: Qubits of the ring.
        sample: Qubit and angle of an excitation, or features. Angles are in radians.

    Raises:
        ConfigError: If the sample does not match the preparation.
    """
    given = ",".join(f"{value:g}" for value in sample)
    if preparation.kind == "excitation":
        if len(sample) != 2 or sample[0] not in range(len(qubits)):
            raise ConfigError(
                f"sample: must be a qubit, 0 to {len(qubits) - 1}, and an angle, such as 3,0.5. Given: {given}"
            )
        rotation = cirq.rx(sample[1])(qubits[int(sample[0])])
        return cirq.Circuit(cluster_state(qubits).all_operations(), rotation)
    if preparation.kind == "state" or len(sample) != preparation.features:
        allowed = f"{preparation.features} angles" if preparation.features else "omitted for state vectors"
        raise ConfigError(f"sample: must be {allowed}. Given: {given}")
    return product(preparation.kind, qubits, sample)


def with_sample(
    ansatz: Ansatz, preparation: Preparation, qubits: Sequence[cirq.Qid], sample: Sequence[float]
) -> Ansatz:
    """Return an ansatz on |0...0> with a sample: after the circuit that prepares it, or as the values of its inputs.

    Args:
        ansatz: Circuit for the data state.
        preparation: Type of the data state.
        qubits: Qubits of the ring.
        sample: Qubit and angle of an excitation, or features.

    Raises:
        ConfigError: If the sample does not match the preparation.
    """
    if preparation.kind != "circuit":
        return dataclasses.replace(ansatz, circuit=data_state(preparation, qubits, sample) + ansatz.circuit)
    if len(sample) != len(ansatz.inputs):
        names, given = (symbol.name for symbol in ansatz.inputs), ",".join(f"{value:g}" for value in sample)
        raise ConfigError(f"sample: must be numbers for the inputs {', '.join(names)}. Given: {given}")
    values = dict(zip(ansatz.inputs, sample, strict=True))
    return dataclasses.replace(ansatz, circuit=cirq.resolve_parameters(ansatz.circuit, values), inputs=())


def noisy_circuit(ansatz: Ansatz, preparation: cirq.AbstractCircuit, noise: Noise) -> cirq.Circuit:
    """Return the noisy circuit of a sample: its preparation, the ansatz and the bit flips of readouts.

    With a density matrix simulator, Z on the readouts of this circuit equals the result of simulator `density`.

    Args:
        ansatz: Trainable circuit. Its symbols stay free.
        preparation: Circuit that prepares the sample.
        noise: Noise of gates and readouts.

    Raises:
        ConfigError: If readouts can be flipped, and one has another operator than Z, or a measured bit conditions a
            gate.

    >>> from qcnn.circuits import circuits, noise
    >>> ring = circuits.ring(4)
    >>> circuit = noisy_circuit(circuits.hybrid(ring), excitation(ring, 1, 0.3), noise.parse("depolarizing=0.01"))
    >>> len(list(circuit.all_operations()))
    178
    """
    every = (*preparation.all_operations(), *ansatz.circuit.all_operations())
    if noise.readout and any(set(paulis.values()) - {"Z"} for each in ansatz.readouts for _, paulis in terms_of(each)):
        raise ConfigError("noise: readout flips are part of a circuit with readouts in Z only. Given: X or Y")
    if noise.readout and any(map(count_conditions, ansatz.circuit.all_operations())):
        raise ConfigError("noise: flips of bits that condition gates are not part of the circuit. Given: readout")
    read = sorted({qubit for readout in ansatz.readouts for qubit in qubits_of(readout)})
    flips = cirq.bit_flip(noise.readout).on_each(*read) if noise.readout else []
    return cirq.Circuit(_add_noise(every, noise), flips)


def excitation(qubits: Sequence[cirq.Qid], excited: int, angle: float) -> cirq.Circuit:
    """Return the preparation of an excitation: the cluster state with one qubit rotated about X.

    Args:
        qubits: Qubits of the ring.
        excited: Index of the rotated qubit.
        angle: Angle in radians.
    """
    return cirq.Circuit(cluster_state(qubits).all_operations(), cirq.rx(angle)(qubits[excited]))


def product(kind: Kind, qubits: Sequence[cirq.Qid], features: Sequence[float | sympy.Symbol]) -> cirq.Circuit:
    """Return the preparation of a product state: one rotation per feature.

    Args:
        kind: Preparation, one of rx, ry, rz and dense.
        qubits: Qubits of the ring.
        features: Angles in radians, or symbols of them.
    """
    # |0> is invariant under rotations about Z.
    before = cirq.H.on_each(*qubits) if kind == "rz" else []
    places = [(rotate, qubit) for rotate in _ROTATIONS[kind] for qubit in qubits]
    return cirq.Circuit(
        before, [rotate(angle)(qubit) for (rotate, qubit), angle in zip(places, features, strict=False)]
    )


def _add_noise(operations: Iterable[cirq.Operation], noise: Noise) -> Iterator[cirq.Operation]:
    """Yield operations, each followed by the noise of its class. Subcircuits are expanded."""
    for operation in operations:
        if not operation.qubits:
            # cirq's density matrix simulator fails for global phases.
            continue
        if isinstance(operation.untagged, cirq.CircuitOperation):
            yield from _add_noise(cirq.decompose_once(operation), noise)
            continue
        yield operation
        own = operation.qubits[count_conditions(operation) :]
        if channel := noise.channel(len(own)):
            yield from _noise_operations(channel, own)


def _noise_operations(channel: GateNoise, qubits: Sequence[cirq.Qid]) -> Iterator[cirq.Operation]:
    if channel.depolarizing:
        yield cirq.depolarize(channel.depolarizing, n_qubits=len(qubits))(*qubits)
    if channel.amplitude_damping:
        yield from cirq.amplitude_damp(channel.amplitude_damping).on_each(*qubits)
    if channel.phase_damping:
        yield from cirq.phase_damp(channel.phase_damping).on_each(*qubits)
