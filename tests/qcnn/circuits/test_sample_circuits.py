import cirq
import numpy as np
import pytest

from qcnn.circuits.ansatz import ring
from qcnn.circuits.preparation import EXCITATION, Kind, Preparation
from qcnn.circuits.sample_circuits import data_state
from qcnn.errors import ConfigError


def test_excitation_rotates_one_qubit_of_cluster_state() -> None:
    qubits = ring(4)
    edges = [(0, 1), (1, 2), (2, 3), (3, 0)]
    expected = cirq.Circuit(cirq.H.on_each(*qubits), (cirq.CZ(qubits[a], qubits[b]) for a, b in edges))
    expected.append(cirq.rx(0.3)(qubits[2]))
    found = data_state(EXCITATION, qubits, (2, 0.3)).final_state_vector(qubit_order=qubits)
    np.testing.assert_allclose(found, expected.final_state_vector(qubit_order=qubits), atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "amplitudes"),
    [
        ("rx", [np.cos(0.2), -1j * np.sin(0.2)]),
        ("ry", [np.cos(0.2), np.sin(0.2)]),
        ("rz", np.exp([-0.2j, 0.2j]) / np.sqrt(2)),
    ],
)
def test_feature_rotates_its_qubit(kind: Kind, amplitudes: list[complex]) -> None:
    state = data_state(Preparation(kind, 1), ring(1), [0.4]).final_state_vector(qubit_order=ring(1))
    np.testing.assert_allclose(state, amplitudes, atol=1e-6)


@pytest.mark.parametrize(
    ("preparation", "sample", "line"),
    [
        (EXCITATION, (4, 0.3), "must be a qubit, 0 to 3, and an angle, such as 3,0.5. Given: 4,0.3"),
        (EXCITATION, (0.5, 0.3), "must be a qubit, 0 to 3, and an angle, such as 3,0.5. Given: 0.5,0.3"),
        (EXCITATION, (1,), "must be a qubit, 0 to 3, and an angle, such as 3,0.5. Given: 1"),
        (Preparation("rx", 3), (1, 2), "must be 3 angles. Given: 1,2"),
        (Preparation("state"), (1, 2), "must be omitted for state vectors. Given: 1,2"),
    ],
)
def test_invalid_sample_is_rejected(preparation: Preparation, sample: tuple[float, ...], line: str) -> None:
    with pytest.raises(ConfigError, match=f"^sample: {line}$"):
        data_state(preparation, ring(4), sample)
