"""Intermediate representation of a circuit: each gate as a sum of projectors with phases.

U(t) = sum_k exp(i pi phases[k] t) projectors[k], the form of Cirq's EigenGate
(cirq/ops/eigen_gate.py, `_eigen_components`). Controlled gates have the same form.

This module does not import cirq, so that a stored circuit is evaluated without it.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from qcnn.circuits.noise import NOISELESS, GateNoise, Noise
from qcnn.circuits.preparation import EXCITATION, Preparation
from qcnn.simulators.structure.pauli_strings import PauliString, ReadoutSums

if TYPE_CHECKING:
    import cirq

    from qcnn.circuits.ansatz import Ansatz
    from qcnn.circuits.input_expressions import InputTerm

Complex = npt.NDArray[np.complex128]

# Maximum number of qubits of a gate, including controls. No block is smaller than its largest gate.
MAX_GATE_QUBITS = 4


@dataclasses.dataclass(frozen=True, eq=False)
class GateSpectrum:
    """Projectors of a gate, complex128 (components, d, d), and their phases (components,), in units of pi."""

    phases: npt.NDArray[np.float64]
    projectors: Complex

    @functools.cached_property
    def key(self) -> tuple[bytes, bytes]:
        """Key that is equal for equal spectra."""
        return self.phases.tobytes(), self.projectors.tobytes()

    @property
    def is_unitary(self) -> bool:
        """Whether U(t) is unitary: finite phases, and orthogonal projectors that sum to the identity."""
        if not (np.isfinite(self.phases).all() and np.isfinite(self.projectors).all()):
            return False
        if len(self.phases) == 1:
            (matrix,) = self.projectors
            return bool(np.allclose(matrix @ matrix.conj().T, np.eye(len(matrix))))
        products = np.einsum("kij,ljm->klim", self.projectors, self.projectors)
        squares = np.einsum("kl,kim->klim", np.eye(len(self.phases)), self.projectors)
        whole = np.eye(self.projectors.shape[1])
        return bool(np.allclose(products, squares) and np.allclose(self.projectors.sum(axis=0), whole))


# A tuple, because keys of gates contain exponents and a tuple is hashed faster.
class LinearExponent(NamedTuple):
    """Linear form of the parameters: constant + sum of coefficient x parameters[index] + terms with inputs.

    With terms, the exponent has another value for each sample.
    """

    constant: float
    coefficients: tuple[tuple[int, float], ...] = ()
    terms: tuple[InputTerm, ...] = ()

    @property
    def parameters(self) -> set[int]:
        """Indices of its parameters."""
        of_terms = {each.parameter for each in self.terms if each.parameter is not None}
        return of_terms.union(index for index, _ in self.coefficients)


@dataclasses.dataclass(frozen=True)
class Gate:
    """Gate on qubits, given by their positions, and its noise.

    Attributes:
        qubits: Positions of its qubits.
        spectrum: Its projectors and phases.
        exponent: Its exponent.
        channel: Noise after it on all of its qubits.
        bit_flips: For each of its first qubits that stands for a measured bit, the probability that the bit is flipped
            when it conditions the gate.
    """

    qubits: tuple[int, ...]
    spectrum: GateSpectrum
    exponent: LinearExponent
    channel: GateNoise | None = None
    bit_flips: tuple[float, ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        """Key of the matrix at all parameters and the noise, independent of the qubits."""
        return (*self.spectrum.key, self.exponent, self.channel, self.bit_flips)

    @property
    def is_by_sample(self) -> bool:
        """Whether its exponent depends on inputs."""
        return bool(self.exponent.terms)


@dataclasses.dataclass(frozen=True, eq=False)
class CircuitIR:
    """Circuit in the representation of the simulators, with readouts on qubits 0 .. qubits - 1.

    Attributes:
        ansatz: Circuit that was read. With parameter shift, only its symbols and readouts are valid.
        ring: Qubits of the ring.
        gates: Gates in the order in which they act, each with the noise after it.
        sums: Readouts as sums of Pauli strings.
        preparation: Preparation of the data states.
        noise: Noise of gates and readouts.
        joint: Whether the joint probabilities of the readouts are predicted, see `joint_sums_of`.
        evaluations: With parameter shift, the number of evaluations of a training step, else 0. Each gate then has a
            separate parameter.
    """

    ansatz: Ansatz
    ring: tuple[cirq.Qid, ...]
    gates: tuple[Gate, ...]
    sums: ReadoutSums
    preparation: Preparation = EXCITATION
    noise: Noise = NOISELESS
    joint: bool = False
    evaluations: int = 0

    @property
    def qubits(self) -> int:
        """Number of qubits on the ring."""
        return len(self.ring)

    @property
    def parameters(self) -> int:
        """Number of circuit parameters."""
        return len(self.ansatz.symbols)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs of the circuit, in the order of the features of a sample."""
        return tuple(symbol.name for symbol in self.ansatz.inputs)

    @functools.cached_property
    def exponents_by_sample(self) -> tuple[LinearExponent, ...]:
        """Distinct exponents that depend on inputs."""
        return tuple(dict.fromkeys(gate.exponent for gate in self.gates if gate.is_by_sample))

    @property
    def gates_by_sample(self) -> int:
        """Number of gates whose exponent depends on inputs."""
        return sum(gate.is_by_sample for gate in self.gates)

    @property
    def strings(self) -> tuple[PauliString, ...]:
        """Pauli strings whose expectation values determine the readouts."""
        return self.sums.strings

    @property
    def readouts(self) -> tuple[int | str, ...]:
        """Names of the readouts: the position of a qubit that is read out in Z, or the text of a sum."""
        return self.sums.names

    @property
    def head_inputs(self) -> tuple[int | str, ...]:
        """Names of the inputs of the head: readouts, or strings for joint probabilities."""
        if not self.joint:
            return self.readouts
        return tuple(each.qubits[0] if each.is_single_z else each.name for each in self.strings)

    @functools.cached_property
    def circuit(self) -> cirq.Circuit:
        """Circuit of the ansatz without operations on zero qubits, which `gates` omit, too."""
        import cirq

        circuit = self.ansatz.circuit
        if all(operation.qubits for operation in circuit.all_operations()):
            return circuit
        return cirq.Circuit(cirq.Moment(operation for operation in moment if operation.qubits) for moment in circuit)
