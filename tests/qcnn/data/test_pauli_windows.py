"""Expectation values of strings on adjacent qubits, compared with cirq."""

import cirq
import numpy as np
import pytest

from qcnn.data.pauli_windows import window_expectations, window_strings


@pytest.mark.parametrize("qubits", [1, 2, 3, 5])
def test_window_expectations_equal_cirq(qubits: int) -> None:
    random = np.random.default_rng(qubits)
    states = random.normal(size=(4, 2**qubits))
    states = (states / np.linalg.norm(states, axis=1, keepdims=True)).astype(np.float32)
    found, strings = window_expectations(states, qubits), window_strings(qubits)
    assert found.shape == (4, len(strings))
    line = cirq.LineQubit.range(qubits)
    order = {qubit: number for number, qubit in enumerate(line)}
    for state, values in zip(states.astype(np.complex128), found, strict=True):
        # cirq checks the norm, which float32 rounds.
        state /= np.linalg.norm(state)
        expected = [
            cirq.DensePauliString(letters)(*line).expectation_from_state_vector(state, order).real
            for letters in strings
        ]
        np.testing.assert_allclose(values, expected, atol=1e-6)


def test_window_strings_are_all_with_a_value() -> None:
    strings = window_strings(9)
    # 26 with a first letter on each of 7 windows of three qubits, and those of the last two qubits.
    assert len(strings) == len(set(strings)) == 7 * 26 + 7 + 2
    assert all(len(letters.strip("I")) <= 3 and letters.count("Y") % 2 == 0 for letters in strings)
    assert {"ZIIIIIIII", "IIIIIIXIZ", "IYYIIIIII", "IIIIIIIIX"} <= set(strings)


def test_window_expectations_do_not_depend_on_sign_and_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    states = np.random.default_rng(0).normal(size=(7, 16))
    found = window_expectations(states, 4)
    monkeypatch.setattr("qcnn.data.pauli_windows._PART", 32)
    assert np.array_equal(window_expectations(-states, 4), found)
