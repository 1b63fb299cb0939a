"""Feature maps, compared with Qiskit's circuits and with their definition."""

import itertools

import cirq
import numpy as np
import pytest
from qiskit.circuit.library import z_feature_map as qiskit_z
from qiskit.circuit.library import zz_feature_map as qiskit_zz
from qiskit.quantum_info import Statevector

from qcnn.circuits import circuits, feature_maps
from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.errors import ConfigError

# Names of the same pairs in Qiskit.
_QISKIT = {"linear": "linear", "ring": "circular", "full": "full"}


def _state(text: str, values: list[float]) -> np.ndarray:
    qubits = ring(len(values))
    circuit = feature_maps.parse(text)(qubits)
    resolver = dict(zip(feature_maps.input_symbols(len(values)), values, strict=True))
    result = cirq.Simulator(dtype=np.complex128).simulate(circuit, resolver, qubit_order=qubits)
    return np.asarray(result.final_state_vector)


def _values(qubits: int) -> list[float]:
    return np.random.default_rng(qubits).uniform(-3, 3, qubits).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("qubits", [2, 3, 5, 8])
@pytest.mark.parametrize("entanglement", feature_maps.ENTANGLEMENTS)
def test_zz_feature_map_equals_qiskit(qubits: int, entanglement: str) -> None:
    values = _values(qubits)
    expected = Statevector(
        qiskit_zz(qubits, reps=2, entanglement=_QISKIT[entanglement]).assign_parameters(values).reverse_bits()
    )
    found = _state(f"zz,repetitions=2,entanglement={entanglement}", values)
    assert abs(np.vdot(expected.data, found)) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("qubits", [1, 4])
def test_z_feature_map_equals_qiskit(qubits: int) -> None:
    values = _values(qubits)
    expected = Statevector(qiskit_z(qubits, reps=3).assign_parameters(values).reverse_bits())
    assert abs(np.vdot(expected.data, _state("z,repetitions=3", values))) == pytest.approx(1, abs=1e-12)


def test_iqp_has_products_of_features_on_all_pairs() -> None:
    values = _values(3)
    signs = np.array(list(itertools.product([1, -1], repeat=3)))
    # RZ(x) and RZZ(x y) have the phases -x z / 2 and -x y z z' / 2.
    phases = -signs @ np.array(values) / 2
    for a, b in itertools.combinations(range(3), 2):
        phases -= values[a] * values[b] * signs[:, a] * signs[:, b] / 2
    assert abs(np.vdot(np.exp(1j * phases) / np.sqrt(8), _state("iqp", values))) == pytest.approx(1, abs=1e-12)


def test_feature_map_precedes_the_circuit() -> None:
    qubits = ring(4)
    ansatz = feature_maps.with_feature_map(circuits.hybrid(qubits), qubits, "zz,repetitions=1")
    assert [symbol.name for symbol in ansatz.inputs] == ["x0", "x1", "x2", "x3"]
    assert ansatz.circuit == feature_maps.zz_feature_map(qubits, 1) + circuits.hybrid(qubits).circuit
    with pytest.raises(ConfigError, match=r"^feature_map: must be empty with a circuit that has inputs\. Given: 'z'$"):
        feature_maps.with_feature_map(ansatz, qubits, "z")


@pytest.mark.parametrize(
    "text", ["y", "zz,repetitions=0", "zz,entanglement=all", "z,entanglement=full", "zz,,", "zz,1"]
)
def test_invalid_feature_map_is_one_clear_error(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^feature_map: must be z, zz, iqp, with .* Given: '{text}'$"):
        feature_maps.parse(text)


def test_symbol_of_the_circuit_with_the_name_of_an_input_is_rejected() -> None:
    (qubit,) = ring(1)
    ansatz = Ansatz(
        cirq.Circuit(cirq.X(qubit) ** feature_maps.input_symbols(1)[0]), feature_maps.input_symbols(1), qubit
    )
    with pytest.raises(ConfigError, match=r"^model: symbols and inputs must list each name once\. Given: x0 again$"):
        feature_maps.with_feature_map(ansatz, [qubit], "z")
