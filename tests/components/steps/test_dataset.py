"""The first step: the checked experiment and its dataset."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from qcnn.components.steps.dataset import generate_data, trial_data
from qcnn.experiment_io import from_json, from_mapping
from tests.buckets import ROWS
from tests.components.conftest import refused_line

_SHA256 = hashlib.sha256(ROWS).hexdigest()


def test_the_first_step_passes_the_checked_experiment_on(tmp_path: Path) -> None:
    experiment, metadata = generate_data({"qubits": 4.0, "options": {"train_fraction": 0.5}}, str(tmp_path / "dataset"))
    config = from_json(experiment)
    assert (config.qubits, config.options.train_fraction, config.rounds) == (4, 0.5, 720)
    assert metadata["train"] == 1440
    assert len(metadata["digest"]) == 64


def test_runs_of_a_schedule_have_seeds_of_their_own_that_follow_from_their_ids(tmp_path: Path) -> None:
    made = [
        generate_data({"seed": seed}, str(tmp_path / f"{seed} {run} {time}"), run)
        for seed, run, time in ((3, "", 0), (3, "a", 0), (3, "a", 1), (3, "b", 0), (4, "a", 0))
    ]
    seeds = [from_json(experiment).seed for experiment, _ in made]
    assert seeds[0] == 3
    assert seeds[1] == seeds[2]
    assert len(set(seeds)) == 4
    assert [metadata["seed"] for _, metadata in made] == [str(seed) for seed in seeds]
    assert len({metadata["digest"] for _, metadata in made}) == 4


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({"qubits": 3}, "error: qubits: must be an integer, at least 4 and at most 32768. Given: 3"),
        ({"options": {"nope": 1}}, "error: nope: unknown field; valid fields: train_fraction"),
        ({"model": "tests.no_such:f"}, "error: model: cannot be imported"),
    ],
)
def test_the_first_step_refuses_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: dict[str, Any], line: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        generate_data(words, str(tmp_path / "dataset"))
    assert stopped.value.code == 2
    assert refused_line(capfd).startswith(line)
    assert not list(tmp_path.iterdir())


def test_an_existing_dataset_is_not_touched(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "mine").touch()
    with pytest.raises(SystemExit):
        generate_data({}, str(tmp_path / "dataset"))
    assert "must be new or empty" in refused_line(capfd)
    assert [path.name for path in tmp_path.rglob("*")] == ["dataset", "mine"]


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        generate_data({}, str(tmp_path / "file" / "dataset"))
    assert refused_line(capfd).startswith("error: output: cannot be written (")


def test_a_trial_has_the_dataset_of_its_experiment(tmp_path: Path) -> None:
    words = {"qubits": 4, "rounds": 10, "seed": 3}
    metadata = trial_data(from_mapping(words).to_json(), {}, str(tmp_path / "trial"))
    assert metadata == generate_data(words, str(tmp_path / "dataset"))[1]
    assert (tmp_path / "trial" / "dataset.npz").read_bytes() == (tmp_path / "dataset" / "dataset.npz").read_bytes()


def test_what_is_no_experiment_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        trial_data('{"qubits": 3}', {}, str(tmp_path / "trial"))
    assert capfd.readouterr().err == "error: qubits: must be an integer, at least 4 and at most 32768. Given: 3\n"
    assert not list(tmp_path.iterdir())


@pytest.fixture
def words(tmp_path: Path) -> dict[str, Any]:
    """An experiment on the rows of a file."""
    (tmp_path / "rows.csv").write_bytes(ROWS)
    return {"qubits": 4, "data": str(tmp_path / "rows.csv"), "encoding": "rx"}


def test_a_dataset_of_a_file_names_the_contents_that_a_pipeline_was_told_of(
    tmp_path: Path, words: dict[str, Any]
) -> None:
    _, metadata = generate_data(words, str(tmp_path / "dataset"), data_sha256=_SHA256)
    assert metadata["data_sha256"] == _SHA256
    files = {words["data"]: _SHA256, "gs://bucket/other.csv": 64 * "0"}
    assert trial_data(from_mapping(words).to_json(), files, str(tmp_path / "trial")) == metadata
    # No other run has what is cached for the id of one; nothing is cached outside of pipelines.
    _, scheduled = generate_data(words, str(tmp_path / "scheduled"), run="a", data_sha256="")
    _, here = generate_data(words, str(tmp_path / "here"))
    assert scheduled["data_sha256"] == here["data_sha256"] == _SHA256


def test_a_file_that_has_changed_since_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: dict[str, Any]
) -> None:
    Path(words["data"]).write_bytes(ROWS + b"0.5,1\n")
    now = hashlib.sha256(ROWS + b"0.5,1\n").hexdigest()
    line = (
        f"error: data_sha256: must be that of the file, {now}, which has changed since the run was submitted. Given: "
    )
    for run in ("", "a"):
        with pytest.raises(SystemExit) as stopped:
            generate_data(words, str(tmp_path / "dataset"), run, _SHA256)
        assert stopped.value.code == 2
        assert refused_line(capfd) == f"{line}{_SHA256} with data {words['data']}"
    assert not (tmp_path / "dataset").exists()


def test_a_file_whose_contents_no_cache_knows_is_refused_and_so_is_a_hash_of_no_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: dict[str, Any]
) -> None:
    with pytest.raises(SystemExit):
        generate_data(words, str(tmp_path / "dataset"), data_sha256="")
    missing = refused_line(capfd)
    assert missing.startswith("error: data_sha256: must be the file's SHA-256, as sha256sum prints it, ")
    assert missing.endswith(f". Given: none with data {words['data']}")
    with pytest.raises(SystemExit):
        trial_data(from_mapping(words).to_json(), {"gs://bucket/other.csv": _SHA256}, str(tmp_path / "dataset"))
    assert refused_line(capfd) == missing
    with pytest.raises(SystemExit):
        generate_data({"qubits": 4}, str(tmp_path / "dataset"), data_sha256=_SHA256)
    said = "error: data_sha256: must be empty unless data is a file. Given: "
    assert refused_line(capfd) == f"{said}{_SHA256} with data excitations"
