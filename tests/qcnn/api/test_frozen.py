"""Immutability of experiments and results at every level."""

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


def _assert_read_only(value: Any, name: str) -> None:
    """Assert that an attribute can neither be set nor deleted."""
    with pytest.raises(AttributeError):
        setattr(value, name, 50)
    with pytest.raises(AttributeError):
        delattr(value, name)


def _checked_contents(value: Any) -> Iterator[Any]:
    """Yield the contents of a value, after asserting that they cannot be replaced."""
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
                _assert_read_only(value, name)
                # Skip the model of a training run, which would be loaded again.
                yield getattr(value, name) if name != "model" or isinstance(value, qcnn.Experiment) else None
        _assert_read_only(value, "new")
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
    for each in _checked_contents(value):
        _assert_frozen(each)


def test_experiment_assignment_raises_with_instruction() -> None:
    with pytest.raises(AttributeError) as caught:
        EXPERIMENT.epochs = 50
    assert str(caught.value) == (
        "epochs: a qcnn.Experiment does not change; create another with experiment.replace(FIELD=VALUE)"
    )
    assert EXPERIMENT.replace(epochs=50).epochs == 50
    assert EXPERIMENT.epochs == EXPERIMENT.fields["epochs"] == 2


def test_experiment_and_dataset_are_frozen() -> None:
    _assert_frozen(EXPERIMENT)
    _assert_frozen(EXPERIMENT.given)
    _assert_frozen(EXPERIMENT.fields)
    _assert_frozen(qcnn.generate(EXPERIMENT))


def test_plan_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_cache, "load", lambda: machine_cache.CachedMachine(NOMINAL_MACHINE, "", None, 0.0))
    _assert_frozen(qcnn.plan(EXPERIMENT))


def test_training_results_are_frozen(training: qcnn.Training) -> None:
    _assert_frozen(training)
    model = training.model
    _assert_frozen(model)
    _assert_frozen(qcnn.evaluate(model))
    assert json.loads(json.dumps(training.metrics)) == dict(training.metrics)
    assert dataclasses.asdict(training)["metrics"] == training.metrics


@pytest.mark.long
def test_study_is_frozen(tmp_path: Path) -> None:
    _assert_frozen(qcnn.study(qcnn.Experiment(**SMALL), grid={"seed": [1, 2]}, folder=tmp_path / "study"))
