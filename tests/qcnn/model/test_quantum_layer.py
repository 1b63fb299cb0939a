"""The circuit as a Keras layer and as a function of arrays, compared with Cirq and finite differences."""

from pathlib import Path
from typing import Any

import cirq
import numpy as np
import numpy.typing as npt
import pytest
import sympy
import tensorflow as tf
import tf_keras

import qcnn
from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.circuits import hybrid
from qcnn.circuits.preparation import Preparation
from qcnn.errors import ConfigError
from qcnn.model.quantum_layer import CircuitLayer
from qcnn.testing.cirq_readouts import readouts_of_samples

X = sympy.symbols("x0:2")
W = sympy.symbols("w0:2")
LINE = cirq.LineQubit.range(2)
CIRCUIT = Ansatz(
    cirq.Circuit(
        cirq.rx(X[0])(LINE[0]), cirq.ry(W[0] * X[1] + W[1])(LINE[1]), cirq.CNOT(*LINE), cirq.rx(X[0] * X[1])(LINE[1])
    ),
    W,
    [cirq.Z(LINE[0]), cirq.X(LINE[0]) * cirq.Z(LINE[1])],
    X,
)
# A circuit without inputs, for states as inputs.
STATES = Ansatz(
    cirq.Circuit(cirq.rx(W[0])(LINE[0]), cirq.ry(W[0] + W[1])(LINE[1]), cirq.CNOT(*LINE), cirq.X(LINE[1]) ** W[1]),
    W,
    CIRCUIT.readouts,
)
ROWS = np.random.default_rng(3).uniform(-1, 1, (4, 2))
VALUES = np.array([0.3, 1.1])


def _by_cirq(values: npt.NDArray[np.float64], row: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    resolver = {**dict(zip(W, values.tolist(), strict=True)), **dict(zip(X, row.tolist(), strict=True))}
    state = cirq.Simulator(dtype=np.complex128).simulate(CIRCUIT.circuit, resolver, qubit_order=LINE).final_state_vector
    place: dict[cirq.Qid, int] = {qubit: number for number, qubit in enumerate(LINE)}
    strings = [cirq.Z(LINE[0]) * 1.0, cirq.X(LINE[0]) * cirq.Z(LINE[1])]
    return np.array([string.expectation_from_state_vector(state, place).real for string in strings])


def _slopes(of_parameters: bool, row: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    step = 1e-5 * np.eye(2)
    pairs = [
        (_by_cirq(VALUES + each, row), _by_cirq(VALUES - each, row))
        if of_parameters
        else (_by_cirq(VALUES, row + each), _by_cirq(VALUES, row - each))
        for each in step
    ]
    return np.stack([(more - less) / 2e-5 for more, less in pairs], axis=1)


@pytest.mark.parametrize("gradients", ["parameters", "inputs"])
def test_jacobians_of_expectations_equal_finite_differences(gradients: Any) -> None:
    values, jacobian = qcnn.expectations(CIRCUIT, VALUES, ROWS, gradients=gradients)
    np.testing.assert_allclose(values, [_by_cirq(VALUES, row) for row in ROWS], atol=1e-12)
    np.testing.assert_allclose(jacobian, [_slopes(gradients == "parameters", row) for row in ROWS], atol=1e-8)
    np.testing.assert_allclose(qcnn.expectations(CIRCUIT, VALUES, ROWS), values, atol=1e-12)


def test_amplitudes_have_readouts_and_jacobians_of_normalized_states() -> None:
    """Three of four amplitudes, on rows whose squares overflow or are tiny, too."""
    rows = np.random.default_rng(5).normal(size=(3, 3))
    plain = cirq.resolve_parameters(STATES.circuit, dict(zip(W, VALUES.tolist(), strict=True)))
    unitary = cirq.unitary(plain)[:, :3]
    operators = [np.diag([1, 1, -1, -1]), np.kron(cirq.unitary(cirq.X), cirq.unitary(cirq.Z))]
    matrices = [(unitary.conj().T @ each @ unitary).real for each in operators]
    values, of_inputs = qcnn.expectations(STATES, VALUES, rows, encoding="amplitude", gradients="inputs")
    for row, found, slopes in zip(rows, values, of_inputs, strict=True):
        norm = row @ row
        expected = np.array([row @ each @ row / norm for each in matrices])
        np.testing.assert_allclose(found, expected, atol=1e-12)
        # The derivative of the quotient row A row / row row.
        exact = [2 * (each @ row - value * row) / norm for each, value in zip(matrices, expected, strict=True)]
        np.testing.assert_allclose(slopes, exact, atol=1e-12)
    scaled = qcnn.expectations(STATES, VALUES, rows * [[1e300], [1e-300], [-2]], encoding="amplitude")
    np.testing.assert_allclose(scaled, values, atol=1e-12)
    _, of_parameters = qcnn.expectations(STATES, VALUES, rows, encoding="amplitude", gradients="parameters")
    numeric = np.zeros((3, 2, 2))
    for number, step in enumerate(1e-5 * np.eye(2)):
        more, less = (qcnn.expectations(STATES, VALUES + each, rows, encoding="amplitude") for each in (step, -step))
        numeric[:, :, number] = (np.asarray(more) - np.asarray(less)) / 2e-5
    np.testing.assert_allclose(of_parameters, numeric, atol=1e-9)


def test_row_of_zeros_is_no_state_and_changes_no_other_row() -> None:
    layer, rows = qcnn.QuantumLayer(STATES, encoding="amplitude", seed=1), np.array([[1.0, 2.0], [0.0, 0.0], [3.0, 1]])
    values = layer(rows).numpy()
    assert np.isnan(values[1]).all()
    np.testing.assert_allclose(values[[0, 2]], layer(rows[[0, 2]]), atol=1e-6)


@pytest.mark.parametrize("simulator", ["statevector", "statevector_cpu", "density"])
def test_unknown_batch_size_gives_the_same_gradients_of_amplitudes(simulator: str) -> None:
    """The rows that fill a group have no state, and must not add NaN to the gradient of the parameters."""
    layer = qcnn.QuantumLayer("hybrid", 4, encoding="amplitude", simulator=simulator, seed=1)
    rows = np.random.default_rng(1).normal(size=(40, 10))

    def gradients(rows: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(rows)
            loss = tf.reduce_sum(layer(rows) ** 2)
        return tape.gradient(loss, [layer.parameters, rows])  # type: ignore[no-any-return]

    traced = tf.function(gradients, input_signature=[tf.TensorSpec([None, 10], tf.float64)], autograph=False)
    for found, expected in zip(traced(tf.constant(rows)), gradients(tf.constant(rows)), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert np.abs(expected).max() > 1e-3


@pytest.mark.parametrize("count", [1, 40])
def test_unknown_batch_size_gives_the_same_gradients(count: int) -> None:
    layer, rows = qcnn.QuantumLayer(CIRCUIT, seed=1), np.random.default_rng(1).uniform(-1, 1, (count, 2))

    def gradients(rows: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(rows)
            loss = tf.reduce_sum(layer(rows) ** 2)
        return tape.gradient(loss, [layer.parameters, rows])  # type: ignore[no-any-return]

    traced = tf.function(gradients, input_signature=[tf.TensorSpec([None, 2], tf.float64)], autograph=False)
    for found, expected in zip(traced(tf.constant(rows)), gradients(tf.constant(rows)), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_classical_layer_before_two_circuits_is_trained_saved_and_loaded(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(64, 5)).astype(np.float32)
    labels = (rows[:, 0] * rows[:, 1] > 0).astype(np.float32)
    given = tf_keras.Input((5,))
    encoded = tf_keras.layers.Dense(2, activation="tanh", kernel_initializer="ones")(given)
    first = qcnn.QuantumLayer(CIRCUIT, seed=1, name="first")
    second = qcnn.QuantumLayer("hybrid", 4, encoding="rx", seed=2, name="second")
    both = tf_keras.layers.Concatenate()([first(encoded), second(tf_keras.layers.Dense(4)(encoded))])
    model = tf_keras.Model(given, tf_keras.layers.Dense(1)(both))
    model.compile("adam", "mse")
    before = [weights.copy() for weights in model.get_weights()]
    losses = model.fit(rows, labels, epochs=3, batch_size=20, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    # The first weights are those of the classical layer before both circuits.
    assert all(np.abs(new - old).max() > 0 for new, old in zip(model.get_weights(), before, strict=True))
    model.save(tmp_path / "model.keras")
    loaded = tf_keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(rows, verbose=0), model.predict(rows, verbose=0))


def test_rotations_of_an_encoding_are_inputs() -> None:
    layer = qcnn.QuantumLayer("hybrid", 4, encoding="ry", precision="complex128", dtype="float64")
    angles = np.random.default_rng(2).uniform(-3, 3, (3, 4))
    values = layer.parameters.numpy()
    expected = readouts_of_samples(hybrid(ring(4)), 4, values, Preparation("ry", 4), angles)
    np.testing.assert_allclose(layer(angles), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "settings", "line"),
    [
        (("hybrid",), {}, "qubits: must be given with hybrid. Given: none"),
        (("hybrid", 4), {}, "inputs: must be given for a circuit without inputs, or encoding or feature_map. Given: "),
        (("hybrid", 4), {"encoding": "excitation"}, "encoding: must be one of rx, ry, rz, dense, amplitude "),
        (("hybrid", 4), {"encoding": "amplitude", "feature_map": "zz"}, "encoding: must be one of rx, ry, rz, dense, "),
        (("hybrid", 4), {"encoding": "amplitude", "simulator": "lightcone"}, "simulator: must be statevector, "),
        (("hybrid", "4"), {"encoding": "amplitude"}, "qubits: must be a whole number from 1, or None. Given: '4'"),
        ((STATES, 1), {"encoding": "amplitude"}, "qubits: must be at least 2 for the circuit. Given: 1"),
        ((CIRCUIT,), {"encoding": "amplitude"}, "encoding: must be None with a circuit that has inputs. Given: ampl"),
        ((CIRCUIT,), {"encoding": "rx"}, "encoding: must be None with a circuit that has inputs. Given: rx"),
        ((CIRCUIT,), {"feature_map": "zz"}, "qubits: must be 1 to 32768 and given with feature_map. Given: none"),
        ((CIRCUIT,), {"simulator": "lightcone"}, "simulator: must be statevector, statevector_cpu, density or auto"),
        ((CIRCUIT,), {"precision": "half"}, "precision: must be complex64 or complex128. Given: 'half'"),
        ((CIRCUIT,), {"noise": "loud"}, "noise: must be "),
        ((3,), {}, "model: must be a name, a file, "),
        ((lambda ring: CIRCUIT,), {}, "qubits: must be given with a function. Given: none with "),
    ],
)
def test_invalid_layer_is_one_clear_error(arguments: tuple[Any, ...], settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as error:
        qcnn.QuantumLayer(*arguments, **settings)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


def test_features_of_another_shape_are_one_clear_error() -> None:
    layer = qcnn.QuantumLayer(CIRCUIT)
    layer(np.zeros((3, 2)))
    with pytest.raises(ConfigError, match=r"inputs: must have the shape \(batch, 2\)\. Given: \(3, 5\)"):
        layer(np.zeros((3, 5)))
    with pytest.raises(ConfigError, match=r"^parameters: must be finite numbers of shape \(2\)\. Given: shape \(3,\)$"):
        qcnn.expectations(CIRCUIT, [1, 2, 3], ROWS)


def test_function_in_the_file_of_a_model_is_not_called() -> None:
    config = {**qcnn.QuantumLayer(CIRCUIT).get_config(), "circuit": "os:getcwd"}
    # Keras adds its own lines.
    with pytest.raises(TypeError, match=r"circuit: must be the text of an embedded circuit\. Given: 'os:getcwd'"):
        CircuitLayer.from_config(config)
