"""Parameters of the generate-data component, compared with the fields of the experiment."""

import hashlib
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from kfp import dsl

from qcnn.components.definitions.pipeline import generate_data
from qcnn.experiment.config import EXPERIMENT_FIELDS, Options
from qcnn.experiment.fields import field_type
from qcnn.experiment.parsing import from_json
from tests.buckets import ROWS

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
