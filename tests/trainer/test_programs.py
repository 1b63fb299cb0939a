"""Compiled functions that training runs of a process share, without changing results."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from qcnn import data
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping, merge
from qcnn.model import checkpoints
from qcnn.model.batches import shard
from qcnn.model.checkpoints import Checkpoint
from qcnn.model.optimizer import values_of
from qcnn.model.steps import CompiledEpoch
from qcnn.trainer.loop import train
from qcnn.trainer.programs import CompiledFunctions, Program, key

WORDS = {"qubits": 4, "rounds": 10, "epochs": 2, "batch_size": 8, "strategy": "none", "workers": 1}


def _trained(config: ExperimentConfig, folder: Path, programs: CompiledFunctions | None = None) -> Checkpoint:
    train(config, data.generate(config), folder, programs=programs)
    checkpoint = checkpoints.load_latest(folder / checkpoints.FOLDER)
    assert checkpoint
    return checkpoint


def _bits(checkpoint: Checkpoint) -> list[bytes]:
    return [array.tobytes() for array in (*checkpoint.line.weights, *checkpoint.line.optimizer)]


@pytest.mark.parametrize("model", ["hybrid", pytest.param("deep", marks=pytest.mark.long)])
def test_train_with_shared_programs_is_bit_identical(tmp_path: Path, model: str) -> None:
    programs = CompiledFunctions()
    built: list[Program] = []
    config = from_mapping({**WORDS, "model": model, "seed": 3, "learning_rate": 0.05})
    others: tuple[dict[str, object], ...] = (
        {"seed": 1, "learning_rate_schedule": "constant", "initialization": "uniform", "warmup_fraction": 0.0},
        {"seed": 2, "learning_rate": 0.5, "epochs": 3},
    )
    for number, words in enumerate(others):
        other = from_mapping(merge(config.model_dump(), words))
        _trained(other, tmp_path / str(number), programs)
        built += programs._programs.values()
    shared = _trained(config, tmp_path / "shared", programs)
    alone = _trained(config, tmp_path / "alone")
    assert len({*built, *programs._programs.values()}) == 1
    assert _bits(shared) == _bits(alone)
    assert shared.fresh_mse == alone.fresh_mse


def test_functions_are_full_after_a_number_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcnn.trainer.programs._MAX_PROGRAMS", 2)
    programs, strategy = CompiledFunctions(), tf.distribute.get_strategy()
    configs = [from_mapping({**WORDS, **words}) for words in ({}, {"seed": 1}, {"hidden_units": 4})]
    full = []
    for config in configs:
        programs.program(config, strategy, 2)
        full.append(programs.is_full)
    assert full == [False, False, True]


def test_compile_changes_no_variable_and_traces_once() -> None:
    config = from_mapping(WORDS)
    samples = data.generate(config)
    program = Program(config, tf.distribute.get_strategy(), 2)
    train, validation = (shard(split, config.batch_size, 1) for split in (samples.train, samples.validation))
    variables = [*program.model.trainable_variables, *program.optimizer.variables]
    before = values_of(variables)
    program.compile(train, validation)
    for value, variable in zip(before, variables, strict=True):
        np.testing.assert_array_equal(value, variable)
    program.train(train)
    program.validate(validation)
    assert isinstance(program.train, CompiledEpoch)
    traced: tuple[Any, ...] = (program.train._compiled, program.validate._compiled)
    assert [function.experimental_get_tracing_count() for function in traced] == [1, 1]


@pytest.mark.parametrize(
    "words",
    [
        *({"qubits": 5}, {"model": "deep"}, {"optimizer": "sgd"}, {"hidden_units": 4}, {"batch_size": 4}),
        *({"hidden_activation": "relu"}, {"shots": 10}, {"precision": "complex128"}, {"simulator": "lightcone"}),
    ],
)
def test_key_differs_for_other_programs(words: dict[str, object]) -> None:
    base = from_mapping(WORDS).model_dump()
    assert key(from_mapping(merge(base, words))) != key(from_mapping(base))


def test_key_parameter_server_includes_all_fields() -> None:
    words = merge(from_mapping(WORDS).model_dump(), {"strategy": "parameter_server"})
    assert key(from_mapping(words)) == key(from_mapping(words))
    for other in ({"seed": 7}, {"learning_rate": 0.3}, {"warmup_fraction": 0.5}):
        assert key(from_mapping(merge(words, other))) != key(from_mapping(words))
