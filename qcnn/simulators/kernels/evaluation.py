"""Expectation values of circuits on arrays, by the compiled kernels, without TensorFlow.

Amplitudes have double precision. Every sample is evaluated by the same operations whatever the other samples are, so
values do not depend, to the bit, on how samples are divided into calls.
"""

import ctypes
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qcnn.circuits.preparation import Kind, rotated_qubit
from qcnn.errors import ConfigError
from qcnn.simulators.costs.cost import format_bytes
from qcnn.simulators.costs.statevector_cpu import ONE_STATE_QUBITS, samples_of_a_bundle
from qcnn.simulators.kernels import LIBRARY, max_threads
from qcnn.simulators.kernels.encoding import EncodedProgram, encode
from qcnn.simulators.kernels.lanes import can_spread, lane_weights, spread
from qcnn.simulators.kernels.program import MIN_THREAD_WORK, InputPhase, build
from qcnn.simulators.structure.network import CircuitIR, LinearExponent
from qcnn.simulators.structure.subnetworks import Placement, subnetworks

_Floats = npt.NDArray[np.float64]
_BYTES = 8
_LANES = samples_of_a_bundle(_BYTES)
# Maximum bytes of the input states of a call, and of its samples.
_CALL_BYTES, _CALL_SAMPLES = 2**25, 4096


class Samples(NamedTuple):
    """Samples of a circuit, of which one field is set.

    Attributes:
        qubits: States of each qubit, real and imaginary parts of amplitudes, float64 (samples, qubits, 2, 2).
        states: Real amplitudes of states, (samples, 2^qubits).
        exponents: Exponents that depend on inputs, in the order of `CircuitIR.exponents_by_sample`, float64
            (samples, exponents). All qubits are in the state |0>.
    """

    qubits: _Floats | None = None
    states: npt.NDArray[np.floating] | None = None
    exponents: _Floats | None = None


class CircuitKernels:
    """Compiled evaluation of a circuit at fixed parameters, which threads may share."""

    def __init__(self, network: CircuitIR, parameters: _Floats) -> None:
        """Build the programs of a circuit without noise, whose samples are not excitations.

        Args:
            network: Circuit.
            parameters: Circuit parameters, float64 (parameters,).
        """
        self._strings = len(network.strings)
        numbers = {exponent: number for number, exponent in enumerate(network.exponents_by_sample)}
        self._parts = [_Part(each.network, each.placements, parameters, numbers) for each in subnetworks(network)]

    @property
    def row_work(self) -> float:
        """Number of operations on vectors of a sample, see `MIN_THREAD_WORK`."""
        return sum(part.work * len(part.placements) for part in self._parts)

    def expectations(self, samples: Samples) -> _Floats:
        """Return the expectation values of the Pauli strings, float64 (samples, strings).

        Raises:
            ConfigError: If there is not enough memory for the states.
        """
        count = next(len(each) for each in samples if each is not None)
        values = np.empty((count, self._strings))
        for part in self._parts:
            for placement in part.placements:
                for start in range(0, count, part.chunk):
                    rows = slice(start, start + part.chunk)
                    chunk = Samples(*(None if each is None else each[rows] for each in samples))  # type: ignore[arg-type]
                    values[rows, list(placement.strings)] = part.values(chunk, placement)
        return values


class _Part:
    def __init__(
        self,
        network: CircuitIR,
        placements: Sequence[Placement],
        parameters: _Floats,
        numbers: dict[LinearExponent, int],
    ) -> None:
        self.placements = placements
        program = build(network)
        self._by_state = network.preparation.kind == "state"
        self._phases = _Phases(program.phases, numbers)
        self._qubits = network.qubits
        self._one_state = network.qubits >= ONE_STATE_QUBITS and can_spread(program)
        if self._one_state:
            program = spread(program, _LANES)
            self._lane_weights = lane_weights(program, _LANES)
        self._program = encode(program, network.parameters, norms=False)
        self.work = self._program.rows * self._program.operations / (1 if self._one_state else _LANES)
        self._parameters = np.ascontiguousarray(parameters, np.float64)
        self._leaf_rows = 2**network.qubits if self._by_state else 2 * network.qubits + len(program.phases)
        of_sample = 2 * _BYTES * self._leaf_rows * (_LANES if self._one_state and not self._by_state else 1)
        self.chunk = min(_CALL_SAMPLES, max(_LANES, _CALL_BYTES // of_sample // _LANES * _LANES))

    def values(self, samples: Samples, placement: Placement) -> _Floats:
        """Return the values of a chunk of samples at one of the places, float64 (samples, strings)."""
        leaves = self._leaves(samples, placement)
        count = len(leaves)
        if not self._one_state:
            bundles = -(-count // _LANES)
            padded = np.zeros((bundles * _LANES, *leaves.shape[1:]))
            padded[:count] = leaves
            inside = np.ascontiguousarray(padded.reshape(bundles, _LANES, -1, 2).transpose(0, 2, 3, 1))
            found = _forward(self._program, self._parameters, inside, share_bundles=False)
            return found.transpose(0, 2, 1).reshape(bundles * _LANES, -1)[:count]
        if self._by_state:
            inside = leaves.reshape(count, -1, _LANES, 2).transpose(0, 1, 3, 2)
        else:
            inside = np.repeat(leaves[..., None], _LANES, axis=3)
        found = _forward(self._program, self._parameters, np.ascontiguousarray(inside), share_bundles=True)
        total = found[..., 0].copy()
        for lane in range(1, _LANES):
            total += found[..., lane]
        return total * self._lane_weights

    def _leaves(self, samples: Samples, placement: Placement) -> _Floats:
        """Return the input states, float64 (samples, rows, 2)."""
        if samples.states is not None:
            leaves = np.zeros((*samples.states.shape, 2))
            leaves[..., 0] = samples.states
            return leaves
        if samples.qubits is not None:
            return samples.qubits[:, list(placement.qubits)].reshape(len(samples.qubits), -1, 2)
        assert samples.exponents is not None
        leaves = np.zeros((len(samples.exponents), self._leaf_rows, 2))
        leaves[:, : 2 * self._qubits : 2, 0] = 1
        leaves[:, 2 * self._qubits :] = self._phases(samples.exponents)
        return leaves


class _Phases:
    """Function that returns the phases of gates that depend on inputs."""

    def __init__(self, phases: Sequence[InputPhase], numbers: dict[LinearExponent, int]) -> None:
        self._exponents = np.array([numbers[each.exponent] for each in phases], np.int64)
        self._frequencies = np.array([each.frequency for each in phases])

    def __call__(self, exponents: _Floats) -> _Floats:
        """Return cosine and sine of each phase, float64 (samples, phases, 2), of exponents (samples, exponents)."""
        angles = np.ascontiguousarray(np.pi * self._frequencies * exponents[:, self._exponents])
        return np.stack([np.cos(angles), np.sin(angles)], axis=2)


def qubit_states(kind: Kind, angles: _Floats) -> _Floats:
    """Return the states of rotated qubits, real and imaginary parts, float64 (samples, qubits, 2, 2).

    Args:
        kind: Preparation, which names the rotation axes.
        angles: Rotation angles of all qubits, float64 (samples, qubits), or (samples, 2 qubits) with `dense`, in
            radians.
    """
    half = np.ascontiguousarray(angles) / 2
    parts = rotated_qubit(kind, np.cos(half), np.sin(half), np.zeros_like(half))
    return np.stack(parts, axis=2).reshape(*parts[0].shape, 2, 2)


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(LIBRARY))
    function = library.qcnn_forward_double
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    function.argtypes = (pointer, pointer, size, size, ctypes.c_int, pointer, pointer, pointer, pointer)
    function.restype = ctypes.c_int
    return library


def _forward(program: EncodedProgram, parameters: _Floats, leaves: _Floats, *, share_bundles: bool) -> _Floats:
    """Return the values of a call (`qcnn_forward_double` in statevector.c), float64 (bundles, values, lanes).

    Args:
        program: Program to run.
        parameters: Circuit parameters, float64 (parameters,).
        leaves: Input states, contiguous, float64 (bundles, rows, 2, lanes).
        share_bundles: Whether the threads share the operations of a bundle.
    """
    bundles = len(leaves)
    values = np.empty((bundles, program.values, _LANES))
    # A thread takes longer to start than it saves in a small call.
    threads = 1 if bundles * program.rows * program.operations < MIN_THREAD_WORK else max_threads()
    arrays = program.integers, program.constants, parameters, leaves, values
    # `ctypes.data` takes as long as the kernels of a small circuit.
    integers, constants, *others = (each.__array_interface__["data"][0] for each in arrays)
    if _library().qcnn_forward_double(integers, constants, bundles, threads, int(share_bundles), *others, None):
        needed = format_bytes(2.0 * _BYTES * _LANES * program.rows)
        raise ConfigError(f"model: needs {needed} of memory for the states of a prediction. Given: less than that")
    return values
