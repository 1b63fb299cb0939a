"""Validation of the experiment and generation of its dataset."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from qcnn.components.steps.dataset import generate_data, trial_data
from qcnn.experiment.parsing import from_json, from_mapping
from tests.buckets import ROWS
from tests.components.conftest import error_line, in_component

_SHA256 = hashlib.sha256(ROWS).hexdigest()


def test_generate_data_returns_validated_experiment(tmp_path: Path) -> None:
    experiment, metadata = generate_data({"qubits": 4.0, "options": {"train_fraction": 0.5}}, str(tmp_path / "dataset"))
    config = from_json(experiment)
    assert (config.qubits, config.options.train_fraction, config.rounds) == (4, 0.5, 720)
    assert metadata["train"] == 1440
    assert len(metadata["digest"]) == 64


def test_run_id_determines_seed_of_scheduled_run(tmp_path: Path) -> None:
    results = [
        generate_data({"seed": seed}, str(tmp_path / f"{seed} {run} {time}"), run)
        for seed, run, time in ((3, "", 0), (3, "a", 0), (3, "a", 1), (3, "b", 0), (4, "a", 0))
    ]
    seeds = [from_json(experiment).seed for experiment, _ in results]
    assert seeds[0] == 3
    assert seeds[1] == seeds[2]
    assert len(set(seeds)) == 4
    assert [metadata["seed"] for _, metadata in results] == [str(seed) for seed in seeds]
    assert len({metadata["digest"] for _, metadata in results}) == 4


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"qubits": 3}, "error: qubits: must be at least 4 with hybrid. Given: 3"),
        ({"options": {"nope": 1}}, "error: nope: unknown field; valid fields: train_fraction"),
        ({"model": "tests.no_such:f"}, "error: model: cannot be imported"),
        (
            {"model": "tests.vanishing_circuits:without_parameters"},
            "error: model: must have a circuit parameter or several readouts, because dense layers",
        ),
    ],
)
def test_generate_data_reports_invalid_fields(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], fields: dict[str, Any], line: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        in_component(generate_data, fields, str(tmp_path / "dataset"))
    assert stopped.value.code == 2
    assert error_line(capfd).startswith(line)
    assert not list(tmp_path.iterdir())


def test_generate_data_keeps_existing_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "mine").touch()
    with pytest.raises(SystemExit):
        in_component(generate_data, {}, str(tmp_path / "dataset"))
    assert "must be new or empty" in error_line(capfd)
    assert [path.name for path in tmp_path.rglob("*")] == ["dataset", "mine"]


def test_unwritable_dataset_folder_is_a_single_line_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        in_component(generate_data, {}, str(tmp_path / "file" / "dataset"))
    assert error_line(capfd).startswith("error: output: cannot be written (")


def test_trial_data_equals_generate_data(tmp_path: Path) -> None:
    fields = {"qubits": 4, "rounds": 10, "seed": 3}
    metadata = trial_data(from_mapping(fields).to_json(), {}, str(tmp_path / "trial"))
    assert metadata == generate_data(fields, str(tmp_path / "dataset"))[1]
    assert (tmp_path / "trial" / "dataset.npz").read_bytes() == (tmp_path / "dataset" / "dataset.npz").read_bytes()


def test_trial_data_reports_invalid_experiment(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        in_component(trial_data, '{"qubits": 3}', {}, str(tmp_path / "trial"))
    assert capfd.readouterr().err == "error: qubits: must be at least 4 with hybrid. Given: 3\n"
    assert not list(tmp_path.iterdir())


@pytest.fixture
def file_fields(tmp_path: Path) -> dict[str, Any]:
    """Fields of an experiment with a data file."""
    (tmp_path / "rows.csv").write_bytes(ROWS)
    return {"qubits": 4, "data": str(tmp_path / "rows.csv"), "encoding": "rx"}


def test_file_dataset_has_sha256_in_metadata(tmp_path: Path, file_fields: dict[str, Any]) -> None:
    _, metadata = generate_data(file_fields, str(tmp_path / "dataset"), data_sha256=_SHA256)
    assert metadata["data_sha256"] == _SHA256
    files = {file_fields["data"]: _SHA256, "gs://bucket/other.csv": 64 * "0"}
    assert trial_data(from_mapping(file_fields).to_json(), files, str(tmp_path / "trial")) == metadata
    # With a run ID, the cache key is unique. Outside of pipelines, there is no cache.
    _, scheduled = generate_data(file_fields, str(tmp_path / "scheduled"), run="a", data_sha256="")
    _, local = generate_data(file_fields, str(tmp_path / "local"))
    assert scheduled["data_sha256"] == local["data_sha256"] == _SHA256


def test_changed_data_file_is_rejected(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], file_fields: dict[str, Any]
) -> None:
    Path(file_fields["data"]).write_bytes(ROWS + b"0.5,1\n")
    now = hashlib.sha256(ROWS + b"0.5,1\n").hexdigest()
    line = (
        f"error: data_sha256: must be that of the file, {now}, which has changed since the run was submitted. Given: "
    )
    for run in ("", "a"):
        with pytest.raises(SystemExit) as stopped:
            in_component(generate_data, file_fields, str(tmp_path / "dataset"), run, _SHA256)
        assert stopped.value.code == 2
        assert error_line(capfd) == f"{line}{_SHA256} with data {file_fields['data']}"
    assert not (tmp_path / "dataset").exists()


def test_missing_or_superfluous_sha256_is_rejected(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], file_fields: dict[str, Any]
) -> None:
    with pytest.raises(SystemExit):
        in_component(generate_data, file_fields, str(tmp_path / "dataset"), data_sha256="")
    missing = error_line(capfd)
    assert missing.startswith("error: data_sha256: must be the file's SHA-256 as printed by sha256sum, ")
    assert missing.endswith(f". Given: none with data {file_fields['data']}")
    with pytest.raises(SystemExit):
        in_component(
            trial_data,
            from_mapping(file_fields).to_json(),
            {"gs://bucket/other.csv": _SHA256},
            str(tmp_path / "dataset"),
        )
    assert error_line(capfd) == missing
    with pytest.raises(SystemExit):
        in_component(generate_data, {"qubits": 4}, str(tmp_path / "dataset"), data_sha256=_SHA256)
    message = "error: data_sha256: must be empty unless data is a file. Given: "
    assert error_line(capfd) == f"{message}{_SHA256} with data excitations"
