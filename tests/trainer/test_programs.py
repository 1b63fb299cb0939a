"""Compiled functions that training runs of a process share, without changing results."""

import contextlib
import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from qcnn import data
from qcnn.components.training_job import local_job
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping, merge
from qcnn.experiment.program_key import program_key
from qcnn.jobs.local.runner import ProcessPool
from qcnn.model import checkpoints
from qcnn.model.batches import shard
from qcnn.model.checkpoints import Checkpoint
from qcnn.model.optimizer import values_of
from qcnn.model.steps import CompiledEpoch
from qcnn.trainer.loop import train
from qcnn.trainer.programs import CompiledFunctions, Program

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


def test_process_is_full_after_max_compiled_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcnn.trainer.programs.MAX_COMPILED", 6)
    programs = CompiledFunctions()
    # Equal programs, an equal program for other numbers of samples, and another program.
    trials: tuple[dict[str, Any], ...] = ({}, {"seed": 1, "learning_rate": 0.1}, {"rounds": 14}, {"hidden_units": 2})
    compiled = []
    for number, words in enumerate(trials):
        assert not programs.is_full
        _trained(from_mapping({**WORDS, **words}), tmp_path / str(number), programs)
        compiled.append(sum(program.compiled for program in programs._programs.values()))
    assert compiled == [2, 2, 4, 6]
    assert programs.is_full


# Worker that is replaced after two programs.
WORKER = """
from qcnn.process.error_lines import exit_immediately
from qcnn.trainer import programs, worker
programs.MAX_COMPILED = 4
print("a new process", flush=True)
with exit_immediately():
    worker.main()
"""


@pytest.mark.long
def test_worker_is_replaced_and_trial_is_bit_identical(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    started = []
    configs = [from_mapping({**WORDS, "hidden_units": units, "seed": units}) for units in (2, 2, 3, 4)]
    with contextlib.closing(ProcessPool(lives_on=True)) as pool:
        for number, config in enumerate(configs):
            folder = tmp_path / str(number)
            data.save(data.generate(config), folder / "dataset")
            job = local_job(config, *(str(folder / name) for name in ("dataset", "training", "logs")))
            argv = (sys.executable, "-c", WORKER, *job.argv[3:])
            pool.run(dataclasses.replace(job, argv=argv), lambda *_: None)
            started.append(capfd.readouterr().out.count("a new process"))
    assert started == [1, 0, 0, 1]
    for folder, config in ((tmp_path / "2", configs[2]), (tmp_path / "3", configs[3])):
        trial = checkpoints.load_latest(folder / "training" / checkpoints.FOLDER)
        assert trial
        assert _bits(trial) == _bits(_trained(config, folder / "alone"))


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
    assert program_key(from_mapping(merge(base, words))) != program_key(from_mapping(base))


def test_key_parameter_server_includes_all_fields() -> None:
    words = merge(from_mapping(WORDS).model_dump(), {"strategy": "parameter_server"})
    assert program_key(from_mapping(words)) == program_key(from_mapping(words))
    for other in ({"seed": 7}, {"learning_rate": 0.3}, {"warmup_fraction": 0.5}):
        assert program_key(from_mapping(merge(words, other))) != program_key(from_mapping(words))
