"""What Kubeflow sees of the first step is the experiment's schema, and each value reaches its own word."""

import hashlib
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from kfp import dsl

from qcnn.components.definitions.pipeline import generate_data
from qcnn.experiment import EXPERIMENT_FIELDS, Options
from qcnn.experiment_io import from_json
from qcnn.fields import field_type
from tests.buckets import ROWS

_TYPES = {int: "NUMBER_INTEGER", float: "NUMBER_DOUBLE", str: "STRING"}
# Each value differs from its word's default, and from those of the others of its type.
_DRAWN: dict[str, Any] = {
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


def _made(folder: Path, words: dict[str, Any], sha256: str = "") -> dict[str, Any]:
    """Return the words of the experiment that the step passes on."""
    values = {**{name: field.default for name, field in EXPERIMENT_FIELDS.items()}, **words}
    values.setdefault("options", Options().model_dump())
    dataset = dsl.Dataset(uri=str(folder / "dataset"))
    (experiment,) = generate_data.python_func(**values, data_sha256=sha256, dataset=dataset)
    assert dataset.metadata["experiment"] == experiment
    return from_json(experiment).model_dump()


def test_its_parameters_are_the_fields_of_the_experiment_in_their_types() -> None:
    spec = json_format.MessageToDict(generate_data.pipeline_spec)
    parameters = spec["root"]["inputDefinitions"]["parameters"]
    assert {name: each["parameterType"] for name, each in parameters.items()} == {
        **{name: _TYPES[field_type(field)] for name, field in EXPERIMENT_FIELDS.items()},
        **{"options": "STRUCT", "data_sha256": "STRING", "run": "STRING"},
    }
    # A default of its own could differ from the pipeline's.
    assert {name for name, each in parameters.items() if "defaultValue" in each} == {"run"}


def test_each_value_reaches_the_word_of_its_name(tmp_path: Path) -> None:
    made = _made(tmp_path / "drawn", _DRAWN)
    assert {name: made[name] for name in _DRAWN} == _DRAWN
    (file := tmp_path / "rows.csv").write_bytes(ROWS)
    words = {"data": str(file), "encoding": "rx"}
    made = _made(tmp_path / "read", words, hashlib.sha256(ROWS).hexdigest())
    assert {name: made[name] for name in words} == words
    assert EXPERIMENT_FIELDS.keys() == {*_DRAWN, *words} - {"options"}
