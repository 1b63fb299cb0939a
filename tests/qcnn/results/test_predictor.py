"""Predictions by tables and kernels equal those of TensorFlow, and to the bit those of any other batch."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cirq
import numpy as np
import numpy.typing as npt
import pytest
import sympy
import tensorflow as tf
import tf_keras

from qcnn.artifact_io import load_description, save_description
from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.formats.loading import embed_ansatz
from qcnn.circuits.input_functions import check_form
from qcnn.data.samples import FeatureLayout
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model.array_layers import ACTIVATIONS, Dense
from qcnn.model.network import build_model
from qcnn.model.probabilities import log
from qcnn.results import predictor_file
from qcnn.results.model_folder import FILE, PREDICTOR, WEIGHTS
from qcnn.results.predictor import circuit_predictor, load_predictor, table_predictor
from qcnn.results.predictor_file import ExactPredictor
from qcnn.results.serving import ServableModel, exact_predictor
from qcnn.results.stored_circuit import circuit_content
from qcnn.simulators import kernels
from qcnn.simulators.kernels import evaluation
from qcnn.simulators.structure.gates import read_gates
from qcnn.simulators.structure.measurement_gates import measurement_gates
from qcnn.simulators.structure.pauli_strings import PauliString
from tests.exported_models import random_weights, write_model_folder

# Bound on the difference to TensorFlow's predictions in double precision.
ROUNDED = 1e-12
needs_kernels = pytest.mark.skipif(bool(kernels.library_reason()), reason="the kernels cannot run here")


def network(**fields: Any) -> ExperimentConfig:
    options = {"precision": "complex128", "max_samples": 40, **fields.pop("options", {})}
    return from_mapping(
        {"workers": 1, "strategy": "none", "rounds": 0, "data": "rows.csv", "options": options, **fields}
    )


def _embedded(**inputs: Any) -> str:
    """Return a circuit with X and Y in its readout, embedded in a field."""
    qubits, (a, b, *rest) = cirq.LineQubit.range(3), [*map(sympy.Symbol, "abxy")]
    x, y = rest
    with_inputs = [cirq.rx(x * a).on(qubits[0]), cirq.ry(y + 0.5 * x**2).on(qubits[1])] if inputs else []
    circuit = cirq.Circuit(
        *with_inputs,
        [cirq.H(qubits[2]), cirq.CZPowGate(exponent=a)(*qubits[:2]), cirq.ISwapPowGate(exponent=b)(*qubits[1:])],
        [cirq.ry(b)(qubits[0]), cirq.CNOT(qubits[2], qubits[0])],
    )
    readout = 0.5 * cirq.X(qubits[0]) * cirq.Z(qubits[2]) + 0.25 * cirq.Y(qubits[1]) - 0.125
    symbols = (a, b)
    return embed_ansatz(Ansatz(circuit, symbols, (readout,), **({"inputs": (x, y)} if inputs else {})), "own.json")


CIRCUITS = {
    "rx dense head": lambda: network(qubits=5, encoding="rx"),
    "ry tanh": lambda: network(qubits=4, encoding="ry", hidden_activation="tanh", hidden_units=3),
    "rz uncentered": lambda: network(qubits=6, encoding="rz", options={"readout_normalization": "none"}),
    "dense encoding": lambda: network(qubits=4, encoding="dense", model="deep"),
    "amplitude": lambda: network(qubits=4, encoding="amplitude"),
    "amplitude expectation": lambda: network(qubits=4, encoding="amplitude", model="deep"),
    "light cones": lambda: network(qubits=26, encoding="ry", simulator="lightcone"),
    "classes dense": lambda: network(qubits=4, encoding="ry", options={"loss": "cross_entropy", "classes": 3}),
    "classes expectation": lambda: network(
        qubits=4, encoding="ry", model="deep", options={"loss": "cross_entropy", "classes": 2}
    ),
    "classes probabilities": lambda: network(
        qubits=6, encoding="ry", options={"loss": "cross_entropy", "classes": 5, "head": "probabilities"}
    ),
    "classes probabilities, temperature": lambda: network(
        qubits=6,
        encoding="ry",
        options={"loss": "cross_entropy", "classes": 5, "head": "probabilities", "temperature": 0.5},
    ),
    "classes softmax": lambda: network(
        qubits=8, encoding="ry", options={"loss": "cross_entropy", "classes": 4, "head": "softmax"}
    ),
    "classes softmax, temperature": lambda: network(
        qubits=8, encoding="ry", options={"loss": "cross_entropy", "classes": 4, "head": "softmax", "temperature": 0.2}
    ),
    "Pauli strings": lambda: network(qubits=3, encoding="ry", model=_embedded()),
    "inputs": lambda: network(qubits=3, encoding="circuit", model=_embedded(inputs=True)),
}


def _rows(config: ExperimentConfig, count: int) -> dict[str, npt.NDArray[Any]]:
    random = np.random.default_rng(1)
    ((name, (shape, dtype)),) = config.preparation.inputs(config.qubits).items()
    values = random.uniform(-3, 3, (count, *shape))
    if name == "state":
        values /= np.linalg.norm(values, axis=1, keepdims=True)
    return {name: values.astype(dtype)}


def _by_kernels(config: ExperimentConfig, weights: dict[str, npt.NDArray[np.float64]]) -> ExactPredictor:
    content = json.loads(json.dumps(circuit_content(config)))
    stored = predictor_file.circuit_of(content, config.qubits, config.preparation)
    return circuit_predictor(stored, weights, config)[0]


@needs_kernels
@pytest.mark.parametrize("name", CIRCUITS)
def test_kernels_predict_as_tensorflow(name: str) -> None:
    config = CIRCUITS[name]()
    model = build_model(config)
    predict = _by_kernels(config, random_weights(model))
    rows = _rows(config, 37)
    found, expected = predict(rows), exact_predictor(model)(rows)
    assert found.shape == expected.shape
    assert np.ptp(expected, axis=0).max() > 1e-3
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDED)
    # Every way to divide the rows gives the same bits.
    for size in (1, 3, 8):
        parts = [
            predict({key: each[start : start + size] for key, each in rows.items()}) for start in range(0, 37, size)
        ]
        assert np.array_equal(np.concatenate(parts), found)
    assert predict({key: each[:0] for key, each in rows.items()}).shape == (0, *found.shape[1:])


@pytest.mark.parametrize(
    "config",
    [
        from_mapping({"qubits": 6, "workers": 1, "strategy": "none"}),
        from_mapping({"qubits": 5, "hidden_activation": "gelu", "workers": 1, "strategy": "none"}),
        from_mapping({"qubits": 6, "model": "deep", "workers": 1, "strategy": "none"}),
        from_mapping({"qubits": 30, "simulator": "lightcone", "workers": 1, "strategy": "none"}),
    ],
    ids=["linear", "gelu", "one readout", "light cones"],
)
def test_table_predicts_as_tensorflow(config: ExperimentConfig, tmp_path: Path) -> None:
    model = build_model(config)
    random_weights(model)
    predictor_file.write(predictor_file.table_content(ServableModel(model).table(), "digest"), tmp_path)
    table = predictor_file.read(tmp_path, config.qubits, config.preparation, "digest")
    assert isinstance(table, predictor_file.ExcitationTable)
    assert predictor_file.read(tmp_path, config.qubits, config.preparation, "other") is None
    predict, random = table_predictor(table, FeatureLayout()), np.random.default_rng(0)
    rows = {
        "qubit": random.integers(0, config.qubits, 201, np.int32),
        "angle": random.uniform(-3, 3, 201).astype(np.float32),
    }
    found = predict(rows)
    np.testing.assert_allclose(found, exact_predictor(model)(rows), rtol=0, atol=ROUNDED)
    parts = [predict({key: each[[row]] for key, each in rows.items()}) for row in range(201)]
    assert np.array_equal(np.concatenate(parts), found)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_equal_those_of_tensorflow(name: str) -> None:
    values = np.concatenate([np.linspace(-700, 700, 41), np.linspace(-3, 3, 61)]).reshape(-1, 3)
    function = log if name == "log" else tf_keras.activations.get(name)
    expected = function(tf.constant(values)).numpy()
    np.testing.assert_allclose(ACTIVATIONS[name](values), expected, rtol=1e-12, atol=1e-15)


_LOAD = """
import sys
import qcnn
model = qcnn.load(sys.argv[1])
print(model.predict([[0.0] * len(model.columns)]).shape)
print(sorted({"tensorflow", "tf_keras", "cirq", "sympy"} & sys.modules.keys()))
"""


@pytest.fixture(scope="module")
def rows_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model_folder(CIRCUITS["ry tanh"](), tmp_path_factory.mktemp("rows") / "model")


def test_fresh_process_predicts_excitations_without_tensorflow(model_folder: Path) -> None:
    _assert_loads_without_tensorflow(model_folder)


@needs_kernels
def test_fresh_process_predicts_rows_without_tensorflow(rows_folder: Path) -> None:
    _assert_loads_without_tensorflow(rows_folder)


def _assert_loads_without_tensorflow(folder: Path) -> None:
    command = [sys.executable, "-c", _LOAD, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(1,)\n[]\n", "")


@needs_kernels
def test_model_of_earlier_version_predicts_by_kernels(rows_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(rows_folder, tmp_path / "model")
    (folder / PREDICTOR).unlink()
    description = load_description("model", folder / FILE)
    del description["files"]
    save_description(description, folder / FILE, [WEIGHTS])
    rows = _rows(load_predictor(rows_folder).config, 5)
    assert np.array_equal(load_predictor(folder).predict(rows), load_predictor(rows_folder).predict(rows))
    save_description({**description, "circuit": "another"}, folder / FILE, [WEIGHTS])
    with pytest.raises(ArtifactError, match=r"^model: was trained with another circuit of that name\. Given: hybrid$"):
        load_predictor(folder)


def test_stored_circuit_of_another_model_raises(rows_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(rows_folder, tmp_path / "model")
    description = load_description("model", folder / FILE)
    files = description.pop("files")
    save_description({**description, "circuit": "another"}, folder / FILE, files)
    with pytest.raises(ArtifactError, match=r"^model: was trained with another circuit of that name\. Given: hybrid$"):
        load_predictor(folder)


def test_tensorflow_predicts_without_kernels(rows_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(load_predictor(rows_folder).config, 5)
    expected = load_predictor(rows_folder).predict(rows)
    monkeypatch.setattr(kernels, "library_reason", lambda: "not compiled at installation")
    monkeypatch.setattr(kernels, "missing_reason", lambda: "not compiled at installation")
    np.testing.assert_allclose(load_predictor(rows_folder).predict(rows), expected, rtol=0, atol=ROUNDED)


def _tampered(change: Callable[[dict[str, Any]], object], folder: Path, rows_folder: Path) -> Path:
    """Return a copy of a model folder with other gates and fitting digests."""
    shutil.copytree(rows_folder, folder)
    content = json.loads((folder / PREDICTOR).read_text())
    change(content["circuit"])
    (folder / PREDICTOR).write_text(json.dumps(content))
    description = load_description("model", folder / FILE)
    del description["files"]
    save_description(description, folder / FILE, [WEIGHTS, PREDICTOR])
    return folder


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda of: of["gates"][0].__setitem__(2, [0, 4]), "an index must be a whole number below 4"),
        (lambda of: of["gates"][0].__setitem__(2, [-1, 0]), "an index must be a whole number below 4"),
        (lambda of: of["gates"][0].__setitem__(2, [0, 1]), "a gate must act on as many qubits as its matrix"),
        (lambda of: of["gates"][-1].__setitem__(0, 10**9), "an index must be a whole number below"),
        (lambda of: of["gates"].append([0, 0]), "not enough values to unpack"),
        (lambda of: of["spectra"][0][1][0][0].__setitem__(0, 2), "a gate must be unitary"),
        (lambda of: of["spectra"][0].__setitem__(0, [0.0]), "a gate must have a square matrix for each phase"),
        (lambda of: of["exponents"][0].__setitem__(0, float("nan")), "a number must be finite"),
        (lambda of: of["exponents"][0].__setitem__(1, [[10**6, 1.0]]), "an index must be a whole number below"),
        (lambda of: of["strings"][0].__setitem__(1, "W"), "a string must have an operator for each qubit"),
        (lambda of: of["strings"].clear(), "readouts must have a coefficient"),
        (lambda of: of.update(qubits=2**40), "the circuit must have 4 qubits"),
        (lambda of: of.update(parameters=3), "an index must be a whole number below 3"),
        (lambda of: of.update(head="other"), "the head is unknown"),
        (lambda of: of.pop("gates"), "KeyError"),
    ],
)
def test_tampered_circuit_raises(
    change: Callable[[dict[str, Any]], object], reason: str, rows_folder: Path, tmp_path: Path
) -> None:
    folder = _tampered(change, tmp_path / "model", rows_folder)
    with pytest.raises(ArtifactError, match=rf"^model: predictor\.json is damaged \(.*{reason}.*\)\. Given: [^\n]+$"):
        load_predictor(folder)


@pytest.mark.parametrize(
    "form", [["__import__", 1.0], ["add", 1.0], {"input": 2}, {"input": "x"}, None, ["power", 1, 2, 3], float("inf")]
)
def test_unknown_function_of_inputs_raises(form: object) -> None:
    with pytest.raises(ValueError, match="an expression of the inputs is unknown"):
        check_form(form, 2)


def test_measurement_gates_are_those_of_cirq() -> None:
    first, second = ring(2)
    found = measurement_gates(PauliString((0, 1), "XY"))
    operations = [cirq.H(first), cirq.X(second) ** 0.5, cirq.CNOT(second, first)]
    for gate, expected in zip(found, read_gates(operations, (), ring(2)), strict=True):
        assert (gate.qubits, gate.exponent) == (expected.qubits, expected.exponent)
        assert gate.spectrum.key == expected.spectrum.key


@pytest.mark.parametrize("shape", [(1, 1), (8, 1), (50, 1), (3, 40), (200, 7)])
def test_dense_layer_does_not_depend_on_batch(shape: tuple[int, int]) -> None:
    """A few rows are computed by other operations than many."""
    random = np.random.default_rng(0)
    layer = Dense(random.normal(size=shape), random.normal(size=shape[1]), "tanh")
    values = random.normal(size=(5000, shape[0]))
    found = layer(values)
    np.testing.assert_allclose(found, np.tanh(values @ layer.kernel + layer.bias), rtol=0, atol=1e-13)
    for size in (1, 2, 17, 1001):
        parts = [layer(values[start : start + size]) for start in range(0, len(values), size)]
        assert np.array_equal(np.concatenate(parts), found)


@needs_kernels
@pytest.mark.parametrize("encoding", ["ry", "amplitude"])
def test_large_state_predicts_as_in_bundles(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """States above a number of qubits are evolved one at a time, by all threads."""
    config = network(qubits=14, encoding=encoding, model="deep")
    weights = random_weights(build_model(config))
    rows = _rows(config, 5)
    expected = _by_kernels(config, weights)(rows)
    monkeypatch.setattr(evaluation, "ONE_STATE_QUBITS", 14)
    found = _by_kernels(config, weights)(rows)
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDED)
    assert not np.array_equal(found, expected)


@needs_kernels
def test_threads_share_a_predictor() -> None:
    config = CIRCUITS["ry tanh"]()
    predict, rows = _by_kernels(config, random_weights(build_model(config))), _rows(config, 400)
    expected = predict(rows)
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(found, expected) for found in pool.map(predict, [rows] * 16))
