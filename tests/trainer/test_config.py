from pathlib import Path
from typing import Any

import pytest

from trainer import circuits
from trainer.config import MODELS, ExperimentConfig, from_json, from_mapping, merge, read_file
from trainer.errors import ConfigError


def test_defaults_are_the_tutorials() -> None:
    config = from_mapping({})
    assert (config.qubits, config.rounds, config.model, config.workers) == (8, 20, "hybrid", 2)
    assert (config.batch_size, config.epochs, config.optimizer, config.learning_rate) == (32, 50, "adam", 0.02)
    assert (config.split_counts.train, config.split_counts.validation, config.split_counts.test) == (112, 24, 24)


def test_models_of_the_config_are_those_that_can_be_built() -> None:
    assert set(circuits._BUILT_IN) == set(MODELS)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"qubits": 3}, "qubits: must be an integer, at least 4. Given: 3"),
        ({"qubits": 0}, "qubits: must be an integer, at least 4. Given: 0"),
        ({"qubits": -1}, "qubits: must be an integer, at least 4. Given: -1"),
        ({"qubits": "eight"}, "qubits: must be an integer, at least 4. Given: 'eight'"),
        ({"qubits": "8"}, "qubits: must be an integer, at least 4. Given: '8'"),
        ({"qubits": 8.5}, "qubits: must be an integer, at least 4. Given: 8.5"),
        ({"qubits": True}, "qubits: must be an integer, at least 4. Given: True"),
        ({"qubits": 27, "simulator": "tfq"}, "qubits: must be at most 26 with simulator tfq.* Given: 27"),
        ({"options": {"shots": -1}}, "shots: must be an integer, at least 0 and at most 1000000000. Given: -1"),
        ({"options": {"shots": 0.5}}, "shots: must be an integer, at least 0 and at most 1000000000. Given: 0.5"),
        ({"options": {"shots": 10**9 + 1}}, "shots: must be an integer, .* at most 1000000000. Given: 1000000001"),
        ({"options": {"shots": "many"}}, "shots: must be an integer, .* Given: 'many'"),
        ({"rounds": 0}, "rounds: must be an integer, at least 1 and at most 1000000. Given: 0"),
        ({"qubits": 4, "rounds": 1}, "rounds: .* must leave at least one each .*Given: 1 rounds of 4 qubits"),
        ({"workers": 0}, "workers: must be an integer, at least 1. Given: 0"),
        ({"workers": 2, "strategy": "none"}, "workers: must be 1 with strategy none.* Given: 2"),
        ({"batch_size": 0}, "batch_size: must be an integer, at least 1. Given: 0"),
        ({"batch_size": 3, "workers": 4}, r"batch_size: must be at least workers \(4\).* Given: 3"),
        ({"epochs": 0}, "epochs: must be an integer, at least 1. Given: 0"),
        ({"learning_rate": 0}, "learning_rate: must be a finite number, greater than 0. Given: 0"),
        ({"learning_rate": -1}, "learning_rate: must be a finite number, greater than 0. Given: -1"),
        ({"learning_rate": float("nan")}, "learning_rate: must be a finite number, greater than 0. Given: nan"),
        ({"learning_rate": float("inf")}, "learning_rate: must be a finite number, greater than 0. Given: inf"),
        ({"seed": -1}, "seed: must be an integer, at least 0 and at most 4294967295. Given: -1"),
        ({"model": "shallow"}, "model: must be one of hybrid, deep, or your own .* Given: 'shallow'"),
        ({"simulator": "abacus"}, "simulator: must be one of auto, window, statevector, tfq. Given: 'abacus'"),
        ({"strategy": "horovod"}, "strategy: must be one of multi_worker, .* Given: 'horovod'"),
        ({"qbits": 8}, "qbits: unknown key; the keys are qubits, .* Given: qbits=8"),
        ({"options": {"checkpoints": 1}}, "checkpoints: unknown key; the keys are train_fraction, .*"),
        ({"options": {"train_fraction": 1}}, "train_fraction: .* greater than 0 and less than 1. Given: 1"),
        (
            {"options": {"train_fraction": 0.9, "validation_fraction": 0.2}},
            "rounds: .* must leave at least one each .*",
        ),
        ({"options": {"profile_batches": "20-10"}}, "profile_batches: must be first-last .* Given: '20-10'"),
        ({"options": {"profile_batches": "0-3"}}, "profile_batches: must be first-last .* Given: '0-3'"),
        ({"options": {"profile_batches": "10"}}, "profile_batches: must be first-last .* Given: '10'"),
        ({"options": {"log_every": "step"}}, "log_every: must be one of epoch, batch. Given: 'step'"),
        ({"options": 7}, "options: must be a mapping .* Given: 7"),
    ],
)
def test_refuses_with_field_value_and_what_is_allowed(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}") as error:
        from_mapping(values)
    assert "\n" not in str(error.value)


def test_whole_doubles_of_pipeline_structs_are_integers() -> None:
    assert from_mapping({"qubits": 8.0}).qubits == 8


def test_survives_the_way_between_steps() -> None:
    config = from_mapping({"qubits": 5, "learning_rate": 1e-3, "options": {"checkpoint_seconds": 2.5}})
    assert from_json(config.to_json()) == config


def test_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        ExperimentConfig().qubits = 9  # type: ignore[misc]


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text("qubits: 6\nlearning_rate: 1e-3\noptions:\n  train_fraction: 0.5\n")
    config = from_mapping(merge(read_file(path), {"qubits": 5, "checkpoint_seconds": 3.0}))
    assert (config.qubits, config.learning_rate) == (5, 0.001)
    assert (config.options.train_fraction, config.options.checkpoint_seconds) == (0.5, 3.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "config: no such file"),
        (b"", "config: the file is empty"),
        (b"# nothing\n", "config: the file is empty"),
        (b"qubits: [8\n", "config: the file is not valid YAML"),
        (b"qubits: 8\nqubits: 9\n", "config: the file is not valid YAML"),
        (b"- 8\n", "config: the file must be a mapping"),
        (b"\xff\xfe\x00", "config: the file cannot be read"),
    ],
)
def test_refuses_files_that_say_nothing(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "experiment.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{message}.*Given: ") as error:
        read_file(path)
    assert "\n" not in str(error.value)
