"""Data states, compared with Cirq."""

import cirq
import numpy as np
import pytest
import tensorflow as tf

from qcnn.circuits.circuits import cluster_state, ring
from qcnn.circuits.preparation import ring_edges
from qcnn.simulators.data_states import flip_masks, sample_states


@pytest.mark.parametrize("qubits", [4, 5])
def test_sample_states_equal_cirq(qubits: int) -> None:
    edges, excited, angles = ring_edges(qubits), [0, qubits - 1, 2], [0.3, -2.5, 3.0]
    masks = flip_masks(qubits, edges, excited)
    states = sample_states(qubits, edges, tf.constant(masks), tf.constant(angles, tf.float64), tf.float64).numpy()
    for state, qubit, angle in zip(states, excited, angles, strict=True):
        circuit = cluster_state(ring(qubits)) + cirq.Circuit(cirq.rx(angle)(ring(qubits)[qubit]))
        expected = circuit.final_state_vector(qubit_order=ring(qubits), dtype=np.complex128)
        np.testing.assert_allclose(state[:, 0] + 1j * state[:, 1], expected, atol=1e-12)
