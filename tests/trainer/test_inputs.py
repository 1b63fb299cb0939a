"""Training of a circuit with inputs, compared with Cirq, and its errors in the data."""

from pathlib import Path

import cirq
import numpy as np
import numpy.typing as npt
import pytest
import sympy
import tensorflow as tf

from qcnn import data
from qcnn.circuits.ansatz import Ansatz
from qcnn.circuits.circuits import build, ring
from qcnn.circuits.formats.loading import embed_ansatz, with_embedded_circuit
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.results import export
from tests.exported_models import assert_predicts, readout_by_cirq
from tests.shared_training_runs import train

# Columns are not in the order of the declarations, and an angle is a product of inputs.
CIRCUIT = """OPENQASM 3.0;
include "stdgates.inc";
input float[64] a;
input float[64] u;
input float[64] v;
input float[64] b;
qubit[2] q;
bit[1] c;
rx(u) q[0];
ry(a*v + b) q[0];
rx(v) q[1];
cx q[0], q[1];
rz((pi - u)*(pi - v)) q[1];
ry(b) q[1];
rx(u) q[1];
c[0] = measure q[1];
"""


def _config(folder: Path, **more: object) -> ExperimentConfig:
    (folder / "circuit.qasm").write_text(CIRCUIT)
    fields = {
        "qubits": 2,
        "model": str(folder / "circuit.qasm"),
        "data": str(folder / "rows.csv"),
        "encoding": "circuit",
        "inputs": "v,u",
        "feature_scaling": "none",
        "workers": 1,
        "epochs": 2,
        "num_initializations": 1,
    }
    return from_mapping(with_embedded_circuit({**fields, **more}))


def _write(folder: Path, columns: tuple[str, ...] = ("first", "second")) -> npt.NDArray[np.float64]:
    values = np.random.default_rng(7).uniform(0.1, 1, size=(30, len(columns)))
    rows = [",".join([*map(repr, row), str(number % 2)]) for number, row in enumerate(values.tolist())]
    (folder / "rows.csv").write_text("\n".join([",".join([*columns, "label"]), *rows]) + "\n")
    return values


def test_predictions_of_circuit_with_inputs_equal_cirq(tmp_path: Path) -> None:
    values = _write(tmp_path)
    config = _config(tmp_path)
    dataset = data.read(config)
    train(data.with_file_metadata(config, dataset), dataset, tmp_path / "training")
    export.export(tmp_path / "training", tmp_path / "model")
    model, _ = export.load(tmp_path / "model")
    (parameters,) = model.get_weights()
    ansatz = build(config.model, 2)
    assert [symbol.name for symbol in ansatz.inputs] == ["v", "u"]
    weights = dict(zip(ansatz.symbols, parameters.tolist(), strict=True))
    expected = []
    for row in values.tolist():
        resolver = {**weights, **dict(zip(ansatz.inputs, row, strict=True))}
        expected.append(readout_by_cirq(ansatz.circuit, ansatz, resolver, 2))
    assert_predicts(tmp_path, values, expected, tf.float64, 1e-6)


def test_other_number_of_columns_is_one_clear_error(tmp_path: Path) -> None:
    _write(tmp_path, ("first", "second", "third"))
    message = (
        r"^data: must have one column for each input of the circuit, v, u, beside label and split\. "
        r"Given: first, second, third in "
    )
    with pytest.raises(ArtifactError, match=message):
        data.read(_config(tmp_path))


def test_row_outside_of_the_domain_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("second,label\n0.5,0\n0.5,1\n0.4,0\n-0.25,1\n0.2,1\n0.3,0\n")
    (qubit,), u = ring(1), sympy.Symbol("u")
    ansatz = Ansatz(cirq.Circuit(cirq.rx(sympy.sqrt(u))(qubit)), (), qubit, u)
    model = embed_ansatz(ansatz, "circuit.json")
    config = _config(tmp_path, model=model, inputs="", qubits=1)
    # Line 1 has the names of the columns.
    message = r"^data: line 5, column second: must give sqrt\(u\) a finite value\. Given: u = -0\.25$"
    with pytest.raises(ArtifactError, match=message):
        data.read(config)


@pytest.mark.parametrize(
    "more", [{"loss": "cross_entropy", "head": "dense"}, {"shots": 50, "gradient": "parameter_shift"}], ids=str
)
def test_circuit_with_inputs_is_trained_with_other_fields(tmp_path: Path, more: dict[str, object]) -> None:
    _write(tmp_path)
    config = _config(tmp_path, noise="depolarizing=0.01", **more)
    dataset = data.read(config)
    history = train(data.with_file_metadata(config, dataset), dataset, tmp_path / "training")
    assert len(history) == 2
    assert all(np.isfinite(each.train_loss) for each in history)


def test_circuits_with_other_inputs_read_the_file_for_themselves(tmp_path: Path) -> None:
    _write(tmp_path)
    (qubit,), u = ring(1), sympy.Symbol("u")
    one = embed_ansatz(Ansatz(cirq.Circuit(cirq.rx(u)(qubit)), (), qubit, u), "one.json")
    with pytest.raises(ArtifactError, match=r"^data: must have one column for each input of the circuit, u, "):
        data.resolve_files([_config(tmp_path), _config(tmp_path, model=one, inputs="")])
