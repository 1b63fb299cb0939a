"""Experiments and results refuse changes, at every level: what would be ignored is an error."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError

import qcnn
from qcnn.planning import machine_cache
from qcnn.planning.machine import NOMINAL_MACHINE
from tests.qcnn.api.conftest import SMALL

EXPERIMENT = qcnn.Experiment(**{**SMALL, "options": {"noise": {"readout": 0.01}}})


def _refuses(value: Any, name: str) -> None:
    """Assert that neither a new value nor a deletion is taken."""
    with pytest.raises(AttributeError):
        setattr(value, name, 50)
    with pytest.raises(AttributeError):
        delattr(value, name)


def _inside(value: Any) -> Iterator[Any]:
    """Yield what a value holds, after asserting that it cannot be replaced there."""
    if isinstance(value, Mapping):
        for name in [*value, "new"]:
            with pytest.raises(TypeError):
                value[name] = 50  # type: ignore[index]
        for name in value:
            with pytest.raises(TypeError):
                del value[name]  # type: ignore[attr-defined]
        yield from value.values()
    elif isinstance(value, np.ndarray):
        with pytest.raises(ValueError, match="read-only"):
            value[...] = 50
    elif dataclasses.is_dataclass(value) or isinstance(value, qcnn.Experiment | qcnn.Model):
        for name in [name for name in dir(value) if not name.startswith("_")]:
            if not callable(getattr(type(value), name, None)):
                _refuses(value, name)
                # Not the network of a training, which would be loaded once more.
                yield getattr(value, name) if name != "model" or isinstance(value, qcnn.Experiment) else None
        _refuses(value, "new")
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(value, name, 50)
            yield getattr(value, name)
    elif isinstance(value, tuple):
        yield from value
    else:
        assert value is None or isinstance(value, str | int | float | Path), type(value)


def _assert_frozen(value: Any) -> None:
    for each in _inside(value):
        _assert_frozen(each)


def test_an_assignment_to_an_experiment_says_what_to_do() -> None:
    with pytest.raises(AttributeError) as caught:
        EXPERIMENT.epochs = 50
    assert str(caught.value) == (
        "epochs: a qcnn.Experiment does not change; create another with "
        'qcnn.Experiment(**{**experiment.words, "FIELD": VALUE})'
    )
    assert qcnn.Experiment(**{**EXPERIMENT.words, "epochs": 50}).epochs == 50
    assert EXPERIMENT.epochs == EXPERIMENT.words["epochs"] == 2


def test_experiments_and_datasets_refuse_changes() -> None:
    _assert_frozen(EXPERIMENT)
    _assert_frozen(EXPERIMENT.given)
    _assert_frozen(EXPERIMENT.words)
    _assert_frozen(qcnn.generate(EXPERIMENT))


def test_a_plan_refuses_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_cache, "load", lambda: machine_cache.CachedMachine(NOMINAL_MACHINE, "", None, 0.0))
    _assert_frozen(qcnn.plan(EXPERIMENT))


def test_what_training_leaves_refuses_changes(training: qcnn.Training) -> None:
    _assert_frozen(training)
    model = training.model
    _assert_frozen(model)
    _assert_frozen(qcnn.evaluate(model))
    assert json.loads(json.dumps(training.metrics)) == dict(training.metrics)
    assert dataclasses.asdict(training)["metrics"] == training.metrics


@pytest.mark.long
def test_a_study_refuses_changes(tmp_path: Path) -> None:
    _assert_frozen(qcnn.study(qcnn.Experiment(**SMALL), grid={"seed": [1, 2]}, folder=tmp_path / "study"))
