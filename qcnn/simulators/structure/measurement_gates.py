"""Gates that transform a Pauli string into Z on one of its qubits, for simulators that evaluate Z."""

import dataclasses

import numpy as np
import numpy.typing as npt

from qcnn.simulators.structure.network import Gate, GateSpectrum, LinearExponent
from qcnn.simulators.structure.pauli_strings import PauliString


def target_of(string: PauliString) -> int:
    """Return the qubit on which Z is measured instead of a string."""
    return string.qubits[0]


def measurement_gates(string: PauliString) -> tuple[Gate, ...]:
    """Return the gates after which Z on `target_of` a string has the expectation value of the string before them.

    They have no noise: it stands for the measurement of every qubit, after which outcomes are multiplied.
    """
    gates = basis_gates(string)
    return (*gates, *(_moved(_FLIP, (qubit, target_of(string))) for qubit in string.qubits[1:]))


def basis_gates(string: PauliString) -> tuple[Gate, ...]:
    """Return the gates on single qubits that transform a string into Z on all of its qubits."""
    pairs = zip(string.qubits, string.axes, strict=True)
    return tuple(_moved(gate, (qubit,)) for qubit, axis in pairs for gate in _BASIS_GATES[axis])


def inverse_of(gate: Gate) -> Gate:
    """Return the inverse of a gate without parameters."""
    return dataclasses.replace(gate, exponent=LinearExponent(-gate.exponent.constant))


def _moved(gate: Gate, qubits: tuple[int, ...]) -> Gate:
    return Gate(qubits, gate.spectrum, gate.exponent)


def _spectrum(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> GateSpectrum:
    """Return the spectrum of a gate with the eigenvalues 1 and -1."""
    return GateSpectrum(np.array([0.0, 1.0]), np.stack([first, second]).astype(np.complex128))


# The components of Cirq's gates, to the last bit (`_eigen_components` of H, X and CNOT in cirq/ops/common_gates.py), so
# that a circuit has the same program with and without cirq. Gates of the same name share their spectrum.
_ROOT, _HALVES = np.sqrt(2), (np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[0.5, -0.5], [-0.5, 0.5]]))
_H = _spectrum(
    np.array([[3 + 2 * _ROOT, 1 + _ROOT], [1 + _ROOT, 1]]) / (4 + 2 * _ROOT),
    np.array([[3 - 2 * _ROOT, 1 - _ROOT], [1 - _ROOT, 1]]) / (4 - 2 * _ROOT),
)
_CNOT = _spectrum(
    *(
        np.block([[unit, np.zeros((2, 2))], [np.zeros((2, 2)), half]])
        for unit, half in zip((np.eye(2), np.zeros((2, 2))), _HALVES, strict=True)
    )
)
_BASIS_GATES: dict[str, tuple[Gate, ...]] = {
    "X": (Gate((0,), _H, LinearExponent(1.0)),),
    "Y": (Gate((0,), _spectrum(*_HALVES), LinearExponent(0.5)),),
    "Z": (),
}
_FLIP = Gate((0, 1), _CNOT, LinearExponent(1.0))
