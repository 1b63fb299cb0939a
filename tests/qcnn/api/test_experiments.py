"""Creation, display and errors of experiments in Python."""

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qcnn
from qcnn.circuits import circuits
from qcnn.experiment.config import ALL_FIELDS
from qcnn.experiment.parsing import from_mapping
from tests.docs.documents import ROOT


def test_experiment_accepts_fields_and_options_as_arguments() -> None:
    experiment = qcnn.Experiment(qubits=4, learning_rate_schedule="constant", options={"shots": 10})
    assert experiment.config == from_mapping(
        {"qubits": 4, "options": {"learning_rate_schedule": "constant", "shots": 10}}
    )
    assert (experiment.qubits, experiment.learning_rate_schedule, experiment.shots) == (4, "constant", 10)
    assert set(experiment.fields) == set(ALL_FIELDS) <= set(dir(experiment))


def test_experiment_from_its_fields_is_equal() -> None:
    numbers: dict[str, Any] = {
        "qubits": np.int64(4),
        "learning_rate": np.float64(0.5),
        "options": {"shots": np.int64(3)},
    }
    experiment = qcnn.Experiment(**numbers, model="deep")
    assert experiment.shots == 3
    others = (qcnn.Experiment(**experiment.fields), copy.deepcopy(experiment), pickle.loads(pickle.dumps(experiment)))
    assert set(others) == {experiment}
    assert qcnn.Experiment(**{**experiment.fields, "seed": 1}) != experiment


def test_replace_changes_fields_and_keeps_others() -> None:
    experiment = qcnn.Experiment(qubits=4, rounds=10, shots=5, options={"warmup_fraction": 0.1})
    changed = experiment.replace(epochs=3, patience=2)
    assert changed == qcnn.Experiment(qubits=4, rounds=10, shots=5, warmup_fraction=0.1, epochs=3, patience=2)
    assert changed.replace(options={"shots": 7}, epochs=np.int64(4)).config == changed.config.model_copy(
        update={"epochs": 4, "options": changed.config.options.model_copy(update={"shots": 7})}
    )
    assert experiment == qcnn.Experiment(qubits=4, rounds=10, shots=5, warmup_fraction=0.1)
    assert experiment.replace() == experiment


def test_replace_computes_automatic_values_again() -> None:
    assert qcnn.Experiment(qubits=4).replace(qubits=12) == qcnn.Experiment(qubits=12)
    assert qcnn.Experiment(qubits=4, rounds=10).replace(qubits=12).rounds == 10


def test_replace_reads_data_and_circuit_files(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x,label\n" + "".join(f"{number},{number % 2}\n" for number in range(20)))
    fields: dict[str, Any] = {
        "data": tmp_path / "rows.csv",
        "encoding": "ry",
        "model": ROOT / "examples" / "stabilizers.qasm",
    }
    assert qcnn.Experiment(qubits=9).replace(**fields) == qcnn.Experiment(qubits=9, **fields)


def test_experiment_switch_is_boolean() -> None:
    experiment = qcnn.Experiment(chief=np.bool_(True))
    assert experiment.chief is True
    assert experiment.evaluator is experiment.fields["evaluator"] is False
    assert experiment == qcnn.Experiment(chief=1) == qcnn.Experiment(**experiment.fields)


def test_experiment_repr_shows_non_default_fields() -> None:
    shown = repr(qcnn.Experiment(qubits=4, rounds=10, epochs=2, shots=5))
    assert shown == "Experiment(num_initializations=1, shots=5, qubits=4, rounds=10, epochs=2, batch_size=32)"


def test_experiment_embeds_circuit_file_and_shows_its_name() -> None:
    experiment = qcnn.Experiment(model=str(ROOT / "examples" / "stabilizers.qasm"))
    assert experiment.model.startswith("stabilizers.qasm#")
    assert re.fullmatch(r"Experiment\(.*model='stabilizers.qasm@[0-9a-f]{8}'.*\)", repr(experiment))
    assert qcnn.Experiment(**experiment.fields) == experiment


def test_from_file_arguments_override_file(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text("qubits: 4\noptions: {shots: 5, warmup_fraction: 0.1}\n")
    experiment = qcnn.Experiment.from_file(tmp_path / "file.yaml", shots=7, seed=2)
    assert experiment == qcnn.Experiment(qubits=4, shots=7, warmup_fraction=0.1, seed=2)


def test_from_file_merges_options(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("qubits: 4\nshots: 5\ntarget_val_loss: 0.25\noptions: {warmup_fraction: 0.1}\n")
    expected = qcnn.Experiment(qubits=4, shots=7, target_val_loss="0.25", warmup_fraction=0.1, patience=2)
    assert qcnn.Experiment.from_file(path, shots=7, options={"patience": 2}) == expected
    with pytest.raises(qcnn.ConfigError, match=r"^shots: must have one value, .* Given: 1 and 2$"):
        qcnn.Experiment(shots=2, options={"shots": 1})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"qubits": 3}, "qubits: must be at least 4 with hybrid. Given: 3"),
        ({"qubits": "four"}, "qubits: must be an integer, at least 1 and at most 32768. Given: 'four'"),
        ({"shots": 1.5}, "shots: must be an integer, at least 0 and at most 1000000000. Given: 1.5"),
        ({"qubit": 4}, "qubit: unknown field; "),
        ({"options": 3}, "options: must be a mapping with any of "),
        ({"options": 3, "shots": 1}, "options: must be a mapping with any of "),
        ({"learning_rate": float("nan")}, "learning_rate: must be a finite number, greater than 0. Given: nan"),
    ],
)
def test_experiment_wrong_field_raises_single_line(fields: dict[str, Any], message: str) -> None:
    for create in (qcnn.Experiment, qcnn.Experiment(qubits=4).replace):
        with pytest.raises(qcnn.ConfigError) as caught:
            create(**fields)
        assert str(caught.value).startswith(message)


def test_experiment_accepts_path_as_data(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x,label\n" + "".join(f"{number},{number % 2}\n" for number in range(20)))
    fields: dict[str, Any] = {"qubits": 4, "encoding": "ry"}
    found = qcnn.Experiment(data=tmp_path / "rows.csv", **fields)
    assert found == qcnn.Experiment(data=str(tmp_path / "rows.csv"), **fields)
    assert copy.deepcopy(found) == pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"grid": {"qubits": 4}}, "grid: must be a mapping of fields to lists of values. Given: {'qubits': 4}"),
        ({"grid": ["seed"]}, "grid: must be a mapping of fields to lists of values. Given: ['seed']"),
        ({"ranges": 3, "random": 2}, "range: must be a mapping of fields to [low, high] or "),
        ({"grid": {"model": "deep"}}, "grid: must be a mapping of fields to lists of values. Given: {'model': 'deep'}"),
        ({"ranges": {"learning_rate": 1}, "random": 2}, "learning_rate: a range must be [low, high]"),
        ({"grid": {"qubits": np.array([4, 3])}}, "qubits: must be at least 4 with hybrid. Given: 3"),
    ],
)
def test_study_wrong_search_raises_single_line(search: dict[str, Any], message: str) -> None:
    with pytest.raises(qcnn.ConfigError) as caught:
        qcnn.study(qcnn.Experiment(qubits=4, rounds=10), **search)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["generate", "train", "plan", "study"])
def test_function_without_experiment_raises_single_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(qcnn.ConfigError, match=r"^experiment: must be a qcnn.Experiment. Given: 'first.yaml'$"):
        getattr(qcnn, name)("first.yaml", **({"grid": {"seed": [1]}} if name == "study" else {}))
    assert not [*tmp_path.iterdir()]


def test_experiment_unknown_attribute_raises() -> None:
    with pytest.raises(AttributeError, match=r"an experiment has no field colour"):
        _ = qcnn.Experiment().colour  # type: ignore[attr-defined]


def test_from_file_missing_file_raises_single_line() -> None:
    with pytest.raises(qcnn.ConfigError, match=r"config: no such file. Given: nowhere.yaml"):
        qcnn.Experiment.from_file("nowhere.yaml")


def test_circuit_is_that_of_the_model() -> None:
    circuit = qcnn.Experiment(qubits=4).circuit()
    assert circuit == circuits.build("hybrid", 4)
    again = qcnn.Experiment(qubits=4, model=circuit).circuit()
    assert (again.symbols, again.readouts) == (circuit.symbols, circuit.readouts)
    assert circuit.plot().axes
