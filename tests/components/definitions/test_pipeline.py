"""Parameters of the generate-data component, compared with the fields of the experiment."""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from kfp import dsl

from qcnn.components.definitions.pipeline import evaluate, generate_data, register
from qcnn.experiment.config import EXPERIMENT_FIELDS, Options
from qcnn.experiment.fields import field_type
from qcnn.experiment.parsing import from_json
from qcnn.registry.address import open_registry
from qcnn.results.local_run import of_run
from tests.buckets import ROWS
from tests.qcnn.registry.models import BEST, write_run

_TYPES = {int: "NUMBER_INTEGER", float: "NUMBER_DOUBLE", str: "STRING"}
# Each value differs from the default of its field and from the other values of its type.
_VALUES: dict[str, Any] = {
    "qubits": 5,
    "rounds": 6,
    "seed": 7,
    "model": "deep",
    "simulator": "statevector",
    "optimizer": "sgd",
    "hidden_units": 9,
    "hidden_activation": "tanh",
    "strategy": "none",
    "workers": 1,
    "epochs": 10,
    "batch_size": 11,
    "learning_rate": 0.25,
    "options": {**Options().model_dump(), "shots": 12, "num_initializations": 1},
}


def _generate(folder: Path, fields: dict[str, Any], sha256: str = "") -> dict[str, Any]:
    """Return the fields of the experiment that the step outputs."""
    values = {**{name: field.default for name, field in EXPERIMENT_FIELDS.items()}, **fields}
    values.setdefault("options", Options().model_dump())
    dataset = dsl.Dataset(uri=str(folder / "dataset"))
    (experiment,) = generate_data.python_func(**values, data_sha256=sha256, dataset=dataset)
    assert dataset.metadata["experiment"] == experiment
    return from_json(experiment).model_dump()


def test_generate_data_parameters_are_the_experiment_fields() -> None:
    spec = json_format.MessageToDict(generate_data.pipeline_spec)
    parameters = spec["root"]["inputDefinitions"]["parameters"]
    assert {name: each["parameterType"] for name, each in parameters.items()} == {
        **{name: _TYPES[field_type(field)] for name, field in EXPERIMENT_FIELDS.items()},
        **{"options": "STRUCT", "data_sha256": "STRING", "run": "STRING"},
    }
    # A default of the component could differ from that of the pipeline.
    assert {name for name, each in parameters.items() if "defaultValue" in each} == {"run"}


def test_generate_data_assigns_values_to_fields(tmp_path: Path) -> None:
    generated = _generate(tmp_path / "generated", _VALUES)
    assert {name: generated[name] for name in _VALUES} == _VALUES
    (file := tmp_path / "rows.csv").write_bytes(ROWS)
    fields = {"data": str(file), "encoding": "rx"}
    generated = _generate(tmp_path / "file", fields, hashlib.sha256(ROWS).hexdigest())
    assert {name: generated[name] for name in fields} == fields
    assert EXPERIMENT_FIELDS.keys() == {*_VALUES, *fields} - {"options"}


def test_register_promotes_better_model_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that is not better, or cannot be compared, is a success of the step."""
    promoted = []
    for name, factor, fields in (
        ("first", 0.5, {}),
        ("better", BEST, {}),
        ("worse", 0.25, {}),
        ("other", BEST, {"qubits": 6}),
    ):
        folders = of_run(write_run(tmp_path / name, factor, fields=fields).folder)
        registration = dsl.Metrics(uri=str(tmp_path / "registration"))
        register.python_func(
            model=dsl.Model(uri=str(folders.exported)),
            dataset=dsl.Dataset(uri=str(folders.dataset)),
            metrics=dsl.Metrics(uri=str(folders.metrics)),
            name="cluster",
            registry=str(tmp_path / "models"),
            registration=registration,
        )
        promoted.append(registration.metadata)
    assert [(each["version"], each["promoted"]) for each in promoted] == [(1, 1), (2, 1), (3, 0), (4, 0)]
    assert [each.get("probability") for each in promoted] == [None, 1, 0, None]
    lines = capsys.readouterr().out.splitlines()
    assert any(line.endswith("must have the qubits of version 2, 4. Given: 6 in version 4") for line in lines)
    with contextlib.closing(open_registry(str(tmp_path / "models"))) as registry:
        assert registry.labels("cluster").versions == {"champion": 2}


def test_evaluate_outputs_metrics_and_file_of_classical_models(trained_model: Path, tmp_path: Path) -> None:
    inputs = {name: dsl.Artifact(uri=str(trained_model.parent / name)) for name in ("model", "dataset", "training")}
    kinds = {"confusion": dsl.ClassificationMetrics, "metrics": dsl.Metrics}
    names = ("metrics", "predictions", "confusion", "report", "summary")
    outputs = {name: kinds.get(name, dsl.Artifact)(uri=str(tmp_path / name)) for name in names}
    evaluate.python_func(**inputs, **outputs)
    content = json.loads((tmp_path / "predictions" / "baselines.json").read_text())
    for each in content["models"]:
        for name in ("accuracy", "difference", "difference_low", "difference_high"):
            assert outputs["metrics"].metadata[f"{each['model']}_{name}"] == each[name]
    assert "| svm_difference_low " in (tmp_path / "summary.md").read_text()
