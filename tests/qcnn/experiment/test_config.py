"""Validation and serialization of experiment fields."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from qcnn.circuits import circuits
from qcnn.circuits.formats.embedded import MODELS
from qcnn.errors import ConfigError
from qcnn.experiment.config import OPTION_FIELDS, ExperimentConfig, affecting
from qcnn.experiment.fields import Affects, metadata_of
from qcnn.experiment.parsing import as_parameters, from_json, from_mapping, merge, parse_flag
from qcnn.experiment.saved import from_saved
from qcnn.yaml_files import read_file


def test_from_mapping_defaults() -> None:
    config = from_mapping({})
    assert (config.qubits, config.rounds, config.model, config.workers) == (8, 279, "hybrid", 2)
    assert (config.batch_size, config.epochs, config.optimizer, config.learning_rate) == (128, 50, "adam", 0.05)
    assert (config.split_counts.train, config.split_counts.validation, config.split_counts.test) == (1562, 335, 335)
    assert config.options.num_initializations == 1


def test_as_parameters_keeps_automatic_values() -> None:
    fields = as_parameters({"qubits": 64, "rounds": 50})
    assert (fields["qubits"], fields["rounds"], fields["batch_size"], fields["epochs"]) == (64, 50, 0, 0)
    assert fields["options"]["num_initializations"] == 0
    assert as_parameters({"options": {"num_initializations": 3}})["options"]["num_initializations"] == 3
    # An experiment with its automatic values as given values is equal.
    config = from_mapping({"qubits": 64, "rounds": 50})
    assert from_mapping(config.model_dump()) == config


def test_from_saved_missing_fields_have_earlier_defaults() -> None:
    fields = from_mapping({"rounds": 20}).model_dump()
    for name in (
        "learning_rate_schedule",
        "warmup_fraction",
        "readout_normalization",
        "initialization",
        "initialization_scale",
        "num_initializations",
        "target_val_loss",
    ):
        del fields["options"][name]
    options = from_saved(fields).options
    assert (
        options.learning_rate_schedule,
        options.warmup_fraction,
        options.readout_normalization,
        options.num_initializations,
    ) == ("constant", 0, "none", 1)
    assert options.initialization == "uniform"
    assert from_saved(from_mapping({}).model_dump()) == from_mapping({})


def test_target_val_loss_requires_known_error_bound() -> None:
    assert from_mapping({"options": {"target_val_loss": "floor+0.01"}}).options.target == (True, 0.01)
    assert from_mapping({"options": {"target_val_loss": "2e-1"}}).options.target == (False, 0.2)
    assert from_mapping({}).options.target is None
    with pytest.raises(
        ConfigError, match=r"^target_val_loss: the MSE lower bound of model hybrid .*relu.* Given: floor\+0.01$"
    ):
        from_mapping({"hidden_activation": "relu", "options": {"target_val_loss": "floor+0.01"}})


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("target_val_loss", 0.2, "0.2"),
        ("target_val_loss", 1, "1"),
        ("target_val_loss", 2.5e-7, "2.5e-07"),
        ("visible_gpus", 1, "1"),
        # Numbers in pipeline structs are doubles.
        ("visible_gpus", 3.0, "3"),
        ("gpu_memory", 1.5, "1.5"),
        ("continue_from", 2031, "2031"),
        # YAML reads a key without a value as null.
        ("target_val_loss", None, ""),
        ("profile_batches", None, ""),
        ("noise", None, ""),
        ("continue_from", None, ""),
    ],
)
def test_text_field_accepts_numbers_and_null(field: str, value: object, text: str) -> None:
    found = from_mapping({"options": {field: value}})
    assert getattr(found.options, field) == text
    assert found == from_mapping({"options": {field: parse_flag(OPTION_FIELDS[field], text)}})


@pytest.mark.parametrize(("values", "expected"), [((1, 1.0, True), True), ((0, 0.0, False), False)])
def test_switch_is_boolean_and_serialized_as_number(values: tuple[object, ...], expected: bool) -> None:
    for value in values:
        config = from_mapping({"options": {"evaluator": value}})
        assert config.options.evaluator is expected
        assert from_json(config.to_json()) == config
        # Job names and cache keys depend on this text.
        assert f'"evaluator": {expected:d},' in config.to_json()
        assert type(config.model_dump()["options"]["evaluator"]) is int
    assert parse_flag(OPTION_FIELDS["evaluator"], f"{expected:d}") == expected


@pytest.mark.parametrize("value", [2, -1, 0.5, "1", None])
def test_switch_other_value_is_rejected(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^evaluator: must be an integer, at least 0 and at most 1. Given: "):
        from_mapping({"options": {"evaluator": value}})


def test_import_experiment_loads_no_numerical_libraries() -> None:
    program = "import sys, qcnn.experiment.config; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "cirq", "sympy", "tensorflow"} & set(done.stdout.split())


@pytest.mark.parametrize("value", [True, -0.5, math.nan, math.inf, pytest.param(10**5000, id="large")])
def test_target_val_loss_invalid_number_is_rejected(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^target_val_loss: must be a loss such as 0.2, .* Given: "):
        from_mapping({"options": {"target_val_loss": value}})


def test_from_mapping_accepts_options_at_top_level() -> None:
    expected = from_mapping({"qubits": 5, "options": {"shots": 64, "warmup_fraction": 0.2, "num_initializations": 3}})
    beside = {"qubits": 5, "shots": 64, "options": {"warmup_fraction": 0.2}, "num_initializations": 3}
    assert from_mapping(beside) == from_json(json.dumps(beside)) == expected
    assert from_mapping({"shots": 64, **expected.model_dump()}) == expected
    assert as_parameters(beside)["options"]["num_initializations"] == 3
    assert from_mapping(merge(beside, {"shots": 7})).options.shots == 7
    assert from_saved({"learning_rate_schedule": "cosine"}).options.learning_rate_schedule == "cosine"


@pytest.mark.parametrize("read", [from_mapping, as_parameters, from_saved, lambda fields: merge(fields, {"seed": 1})])
def test_field_with_conflicting_values_is_rejected(read: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(ConfigError, match=r"^shots: must have one value, .* Given: 6 and 'five'$"):
        read({"shots": "five", "options": {"shots": 6}})


def test_top_level_field_in_options_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"^epochs: must be at the top level, not in options. Given: epochs=3$"):
        from_mapping({"options": {"epochs": 3}})


def test_models_match_built_in_circuits() -> None:
    assert set(circuits._BUILT_IN) == set(MODELS)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"qubits": 3}, "qubits: must be at least 4 with hybrid. Given: 3"),
        ({"qubits": 0}, "qubits: must be an integer, at least 1 and at most 32768. Given: 0"),
        ({"qubits": -1}, "qubits: must be an integer, at least 1 and at most 32768. Given: -1"),
        ({"qubits": "eight"}, "qubits: must be an integer, at least 1 and at most 32768. Given: 'eight'"),
        ({"qubits": "8"}, "qubits: must be an integer, at least 1 and at most 32768. Given: '8'"),
        ({"qubits": 8.5}, "qubits: must be an integer, at least 1 and at most 32768. Given: 8.5"),
        ({"qubits": True}, "qubits: must be an integer, at least 1 and at most 32768. Given: True"),
        ({"qubits": 27, "simulator": "tfq"}, "qubits: must be at most 26 with simulator tfq.* Given: 27"),
        ({"options": {"shots": -1}}, "shots: must be an integer, at least 0 and at most 1000000000. Given: -1"),
        ({"options": {"shots": 0.5}}, "shots: must be an integer, at least 0 and at most 1000000000. Given: 0.5"),
        ({"options": {"shots": 10**9 + 1}}, "shots: must be an integer, .* at most 1000000000. Given: 1000000001"),
        ({"options": {"shots": "many"}}, "shots: must be an integer, .* Given: 'many'"),
        ({"rounds": -1}, "rounds: must be an integer, at least 0 and at most 1000000. Given: -1"),
        ({"qubits": 4, "rounds": 1}, "rounds: .* must leave at least one each .*Given: 1 rounds of 4 qubits"),
        ({"workers": 0}, "workers: must be an integer, at least 1 and at most 512. Given: 0"),
        ({"workers": 2, "strategy": "none"}, "workers: must be 1 with strategy none.* Given: 2"),
        ({"batch_size": -1}, "batch_size: must be an integer, at least 0 and at most 10000000. Given: -1"),
        ({"batch_size": 3, "workers": 4}, r"batch_size: must be at least workers \(4\).* Given: 3"),
        ({"epochs": -1}, "epochs: must be an integer, at least 0 and at most 1000000. Given: -1"),
        ({"options": {"target_val_loss": "soon"}}, "target_val_loss: must be a loss such as 0.2, .* Given: 'soon'"),
        (
            {"options": {"target_val_loss": "floor-0.1"}},
            "target_val_loss: must be a loss such as 0.2, .* Given: 'floor-0.1'",
        ),
        (
            {"options": {"learning_rate_schedule": "linear"}},
            "learning_rate_schedule: must be one of cosine, constant. Given: 'linear'",
        ),
        (
            {"options": {"warmup_fraction": 1.0}},
            "warmup_fraction: must be a finite number, at least 0 and less than 1. Given: 1.0",
        ),
        (
            {"options": {"readout_normalization": "raw"}},
            "readout_normalization: must be one of centered, none. Given: 'raw'",
        ),
        ({"options": {"initialization": "zero"}}, "initialization: must be one of normal, uniform. Given: 'zero'"),
        ({"options": {"initialization_scale": -1}}, "initialization_scale: must be a finite number, .* Given: -1"),
        (
            {"options": {"num_initializations": 1001}},
            "num_initializations: must be an integer, at least 0 and at most 1000. Given: 1001",
        ),
        ({"learning_rate": 0}, "learning_rate: must be a finite number, greater than 0. Given: 0"),
        ({"learning_rate": -1}, "learning_rate: must be a finite number, greater than 0. Given: -1"),
        ({"learning_rate": float("nan")}, "learning_rate: must be a finite number, greater than 0. Given: nan"),
        ({"learning_rate": float("inf")}, "learning_rate: must be a finite number, greater than 0. Given: inf"),
        ({"seed": -1}, "seed: must be an integer, at least 0 and at most 4294967295. Given: -1"),
        ({"model": "shallow"}, "model: must be one of hybrid, deep, or a custom circuit.* Given: 'shallow'"),
        (
            {"simulator": "abacus"},
            "simulator: must be one of auto, lightcone, statevector, statevector_cpu, tfq, density, or a plug-in "
            r"\(entry points qcnn.simulators: none\)\. Given: 'abacus'",
        ),
        ({"strategy": "horovod"}, "strategy: must be one of multi_worker, .* Given: 'horovod'"),
        ({"qbits": 8}, "qbits: unknown field; valid fields: qubits, .* Given: qbits=8"),
        ({"options": {"checkpoints": 1}}, "checkpoints: unknown field; valid fields: train_fraction, .*"),
        ({"options": {"train_fraction": 1}}, "train_fraction: .* greater than 0 and less than 1. Given: 1"),
        (
            {"options": {"train_fraction": 0.9, "validation_fraction": 0.2}},
            r"validation_fraction: train_fraction \+ validation_fraction must be less than 1.* Given: 0.9 \+ 0.2",
        ),
        ({"qubits": 32_769}, "qubits: must be an integer, at least 1 and at most 32768. Given: 32769"),
        ({"qubits": 10**9}, "qubits: must be .* at most 32768. Given: 1000000000"),
        ({"qubits": 10**5000}, "qubits: must be .* at most 32768. Given: an integer of 16610 bits"),
        (
            {"qubits": 1000, "rounds": 10_001},
            "rounds: rounds x qubits must be at most 10000000. Given: 10001 with 1000",
        ),
        ({"hidden_units": 4097}, "hidden_units: must be an integer, at least 1 and at most 4096. Given: 4097"),
        (
            {"hidden_units": 4096, "qubits": 4097},
            "hidden_units: hidden_units x qubits must be .* Given: 4096 with 4097",
        ),
        ({"batch_size": 10**10}, "batch_size: must be an integer, .* at most 10000000. Given: 10000000000"),
        ({"batch_size": 10**7}, "batch_size: batch_size x qubits must be at most 67108864. Given: 10000000 with 8"),
        ({"workers": 513}, "workers: must be an integer, at least 1 and at most 512. Given: 513"),
        ({"epochs": 10**7}, "epochs: must be an integer, at least 0 and at most 1000000. Given: 10000000"),
        (
            {"options": {"max_restarts": 1001}},
            "max_restarts: must be an integer, at least 0 and at most 1000. Given: 1001",
        ),
        (
            {"options": {"patience": 10**7}},
            "patience: must be an integer, at least 0 and at most 1000000. Given: 10000",
        ),
        (
            {"options": {"simulator_memory_gib": 1e308}},
            "simulator_memory_gib: must be a finite number, .* at most 1048576. Given: 1e[+]308",
        ),
        (
            {"learning_rate": 10**400},
            "learning_rate: must be a finite number, greater than 0. Given: an integer of 1329",
        ),
        ({"model": "x" * 10**6}, "model: must be one of .* Given: 'x{190}"),
        ({"y" * 10**6: 1}, "y{98} ... y{97}: unknown field; valid fields: qubits, .* Given: y{97}"),
        ({"a\x1b[31m\nb": 1}, r"a.x1b.31m b: unknown field; .* Given: a.x1b.31m b=1"),
        ({"options": {"profile_batches": "20-10"}}, "profile_batches: must be first-last .* Given: '20-10'"),
        ({"options": {"profile_batches": "0-3"}}, "profile_batches: must be first-last .* Given: '0-3'"),
        ({"options": {"profile_batches": "10"}}, "profile_batches: must be first-last .* Given: '10'"),
        ({"options": {"log_every": "step"}}, "log_every: must be one of epoch, batch. Given: 'step'"),
        ({"options": 7}, "options: must be a mapping .* Given: 7"),
        (
            {"data": "cluster_ising", "simulator": "tfq"},
            "simulator: must be statevector, statevector_cpu, density or auto with data cluster_ising, .* Given: tfq",
        ),
        (
            {"data": "__main__:chain"},
            "data: must be one of excitations, .*: package.module:function, .* Given: '__main__",
        ),
        ({"data": "rows.txt"}, "data: must be one of excitations, cluster_ising, .*, or the path .* Given: 'rows.txt'"),
        ({"data": "s3://name:key@bucket/a.csv"}, r"data: must be .* without credentials.*Given: 's3://\*\*\*@"),
        *(
            ({"data": address}, f"data: must be .* bucket URI .gs://, s3://, minio://. .* Given: '{address}'")
            for address in ("https://host/a.csv", "gs:///a.csv", "gs://bucket.csv", "gs://bucket/../a.csv")
        ),
        ({"encoding": "ry"}, "encoding: must be excitation unless data is a file. Given: ry with data excitations"),
        ({"data": "a.csv", "rounds": 3}, "rounds: must be 0 if data is a file. Given: 3 with data a.csv"),
        (
            {"options": {"max_samples": 3}},
            "max_samples: must be 0 unless data is a file; .* Given: 3 with data excitations",
        ),
        (
            {"options": {"feature_scaling": "none"}},
            "feature_scaling: must be minmax unless encoding is rx, ry, rz, dense or circuit. Given: none",
        ),
        (
            {"data": "a.csv", "options": {"max_samples": 2}},
            "data: the file's rows must leave at least one each .* Given: 2 rows, split 1 / 0 / 1",
        ),
        (
            {"data": "a.csv", "encoding": "ry", "qubits": 1000, "options": {"max_samples": 10**6}},
            "max_samples: must be at most 67108 with encoding ry on 1000 qubits. Given: 1000000",
        ),
        (
            {"data": "a.csv", "options": {"target_val_loss": "floor+0.1"}},
            r"target_val_loss: the MSE lower bound is known for data excitations only; .* Given: floor",
        ),
    ],
)
def test_from_mapping_invalid_value_is_rejected(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}") as error:
        from_mapping(values)
    assert_short_line(error.value)


def assert_short_line(error: ConfigError) -> None:
    """Assert that the message is a single line, and its value has at most 200 characters."""
    message = str(error)
    assert message.isprintable()
    assert len(message.partition("Given: ")[2]) <= 200
    assert len(message) < 800


LARGEST = {"qubits": 32_768, "rounds": 305, "hidden_units": 512, "batch_size": 2048}


def test_from_mapping_maximum_values_are_accepted() -> None:
    assert from_mapping(LARGEST).qubits == 32_768
    assert from_mapping({"qubits": 10, "rounds": 1_000_000}).rounds == 1_000_000


def test_from_mapping_whole_float_is_integer() -> None:
    assert from_mapping({"qubits": 8.0}).qubits == 8


def test_from_json_returns_serialized_experiment() -> None:
    config = from_mapping({"qubits": 5, "learning_rate": 1e-3, "options": {"checkpoint_seconds": 2.5}})
    assert from_json(config.to_json()) == config


def test_experiment_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        ExperimentConfig().qubits = 9  # type: ignore[misc]


def test_merge_flags_override_file(tmp_path: Path) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text("qubits: 6\nlearning_rate: 1e-3\noptions:\n  train_fraction: 0.5\n")
    config = from_mapping(merge(read_file(path), {"qubits": 5, "checkpoint_seconds": 3.0}))
    assert (config.qubits, config.learning_rate) == (5, 0.001)
    assert (config.options.train_fraction, config.options.checkpoint_seconds) == (0.5, 3.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "config: no such file"),
        (b"", "config: the file must not be empty"),
        (b"# nothing\n", "config: the file must not be empty"),
        (b"qubits: [8\n", r"config: the file is not valid YAML \(line 2: "),
        (
            b"qubits: 8\nepochs: 3\nqubits: 9\n",
            r'config: the file is not valid YAML \(line 3: found duplicate key "qubits" with value "9" '
            r'\(original value: "8"\)\)\. ',
        ),
        (b"- 8\n", "config: the file must be a mapping"),
        (b"\xff\xfe\x00", "config: the file cannot be read"),
        (b"# " + b"x" * 10**6, "config: the file must have at most 1000000 bytes"),
        (b"qubits: [" + b"8," * 10_000 + b"]", "config: the file must hold at most 10000 values"),
        (b"options: &all [*all]", "config: the file must hold at most 10000 values"),
        (b"qubits: !!bool 8", "config: the file is not valid YAML"),
        (b"qubits: !!int eight", "config: the file is not valid YAML"),
        (b"qubits: " + b"8" * 5000, "config: the file is not valid YAML"),
        (b"{a: " * 500, "config: the file is not valid YAML"),
    ],
)
def test_read_file_invalid_file_is_rejected(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "experiment.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{message}.*Given: ") as error:
        read_file(path)
    assert_short_line(error.value)


def bomb(form: str, levels: int) -> str:
    """Return a short YAML file whose aliases expand to 9**(levels - 1) copies of a value."""
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {form.format(', '.join([f'*a{n - 1}'] * 9))}" for n in range(1, levels)]
    return "\n".join([*lines, f"qubits: *a{levels - 1}", ""])


@pytest.mark.parametrize("form", ["[{}]", "{{<<: [{}]}}", "!!omap [a: [{}]]"])
def test_read_file_rejects_yaml_alias_bomb(tmp_path: Path, form: str) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(bomb(form, 30))
    with pytest.raises(ConfigError, match=r"^config: the file must hold at most 10000 values. Given: ") as error:
        read_file(path)
    assert_short_line(error.value)


def test_read_file_accepts_repeated_alias(tmp_path: Path) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text("grid: &fields {qubits: [5, 6]}\nrange: *fields\n")
    assert read_file(path)["range"] == {"qubits": [5, 6]}


def test_from_mapping_huge_nested_value_is_rejected() -> None:
    value: list[object] = ["x"]
    for _ in range(60):
        value = [value] * 9
    with pytest.raises(ConfigError, match=r"^qubits: must be an integer, .* Given: \[\[\[\[") as error:
        from_mapping({"qubits": value})
    assert_short_line(error.value)
    value.append(value)
    with pytest.raises(ConfigError, match=r"^options: must be a mapping .* Given: \[\[\[\["):
        from_mapping({"options": value})


def test_affecting_returns_fields_by_effect() -> None:
    assert set(affecting(Affects.MACHINE)) < set(affecting(Affects.DISTRIBUTION))
    # A run can resume with other processes, devices and more epochs, but not with other numerical results.
    assert not {"workers", "strategy", "epochs", "simulator", "max_restarts"} & set(affecting(Affects.NUMBERS))
    assert {"qubits", "seed", "learning_rate", "batch_size", "shots"} <= set(affecting(Affects.NUMBERS))
    # Trials that differ only in these fields share a compiled program.
    assert not {"seed", "learning_rate", "warmup_fraction"} & set(affecting(Affects.PROGRAM))


def test_metadata_of_field_without_affects_is_rejected() -> None:
    with pytest.raises(TypeError, match="colour: a field must have exactly one Affects"):
        metadata_of("colour", FieldInfo(annotation=int, default=1), Affects)


_EARLIER_NAMES = {
    "hang_seconds": 90.0,
    "starts": 3,
    "restarts": 1,
    "scaling": "range",
    "weights": "both",
    "stop_at": "floor+0.01",
    "schedule": "constant",
    "warmup": 0.1,
    "readouts": "plain",
    "memory_gib": 1.5,
}
_CURRENT_NAMES = {
    "heartbeat_timeout_seconds": 90.0,
    "num_initializations": 3,
    "max_restarts": 1,
    "feature_scaling": "minmax",
    "export_checkpoint": "both",
    "target_val_loss": "floor+0.01",
    "learning_rate_schedule": "constant",
    "warmup_fraction": 0.1,
    "readout_normalization": "none",
    "simulator_memory_gib": 1.5,
}


def test_from_saved_earlier_names_are_read(caplog: pytest.LogCaptureFixture) -> None:
    expected = from_saved({"simulator": "lightcone", "options": _CURRENT_NAMES})
    assert from_saved({"simulator": "window", "options": _EARLIER_NAMES}) == expected
    found = from_saved({"data": "a.csv", "options": {**_EARLIER_NAMES, "stop_at": "0.2", "samples": 20}})
    assert (found.options.max_samples, found.options.target_val_loss) == (20, "0.2")
    assert not caplog.messages


def test_baseline_is_written_only_if_it_is_used() -> None:
    assert "baseline" not in from_mapping({}).to_json()
    config = from_mapping({"baseline": 1})
    assert config.options.baseline is True
    assert '"baseline": 1' in config.to_json()
    assert from_json(config.to_json()) == config
