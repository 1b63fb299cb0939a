"""The steps' bodies, as Kubeflow's executor calls them."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from components.evaluate.step import evaluate, summarize
from components.export_weights.step import export_weights
from components.generate_data.step import generate_data
from components.plan_study.step import plan_study
from components.select_best.step import select_best
from components.tensorboard.step import button, tensorboard
from components.train.local.step import train
from trainer import worker
from trainer.config import from_json, from_mapping
from trainer.study.failures import load_failure, save_failure
from trainer.study.trials import FailedTrial


def _refused(capfd: pytest.CaptureFixture[str]) -> str:
    """Return the one line that a step left on stderr."""
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line]
    return line


def test_the_first_step_passes_the_checked_experiment_on(tmp_path: Path) -> None:
    experiment, metadata = generate_data({"qubits": 4.0, "options": {"train_fraction": 0.5}}, str(tmp_path / "dataset"))
    config = from_json(experiment)
    assert (config.qubits, config.options.train_fraction, config.rounds) == (4, 0.5, 20)
    assert metadata["train"] == 40
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
        ({"options": {"nope": 1}}, "error: nope: unknown key; the keys are train_fraction"),
        ({"model": "tests.no_such:f"}, "error: model: cannot be imported"),
    ],
)
def test_the_first_step_refuses_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: dict[str, Any], line: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        generate_data(words, str(tmp_path / "dataset"))
    assert stopped.value.code == 2
    assert _refused(capfd).startswith(line)
    assert not list(tmp_path.iterdir())


def test_a_study_is_refused_before_its_trials_begin_where_a_circuit_cannot_be_built(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stopped:
        plan_study({}, {"model": ["hybrid", "tests.no_such:f"]}, {}, 0)
    assert stopped.value.code == 2
    assert _refused(capfd).startswith("error: model: cannot be imported")


def test_an_existing_dataset_is_not_touched(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "mine").touch()
    with pytest.raises(SystemExit):
        generate_data({}, str(tmp_path / "dataset"))
    assert "must be new or empty" in _refused(capfd)
    assert [path.name for path in tmp_path.rglob("*")] == ["dataset", "mine"]


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        generate_data({}, str(tmp_path / "file" / "dataset"))
    assert _refused(capfd).startswith("error: output: cannot be written (")


def test_a_failing_worker_fails_the_step_with_its_reason(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    experiment = from_mapping({"strategy": "none", "workers": 1}).to_json()
    with pytest.raises(SystemExit) as stopped:
        train(experiment, str(tmp_path / "missing"), str(tmp_path / "training"), str(tmp_path / "logs"))
    assert stopped.value.code == 2
    assert _refused(capfd).startswith(
        "error: worker 0 ended with exit code 2: error: dataset: dataset.json is missing. Given: "
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "error: TF_CONFIG: is not JSON"),
        ('{"cluster": {"worker": ["a:1"]}}', "error: TF_CONFIG: task must hold type and index"),
        ('{"cluster": {"boss": ["a:1"]}, "task": {"type": "boss", "index": 0}}', "error: TF_CONFIG: roles are"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 4}}', "error: TF_CONFIG: task.index"),
    ],
)
def test_a_worker_with_a_wrong_cluster_ends_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    folders = [word for name in ("dataset", "workdir", "logs") for word in (f"--{name}", str(tmp_path / name))]
    monkeypatch.setattr("sys.argv", ["worker", "--experiment", "{}", *folders])
    with pytest.raises(SystemExit) as stopped:
        worker.main()
    assert stopped.value.code == 2
    assert _refused(capfd).startswith(message)
    assert not list(tmp_path.iterdir())


def test_export_and_evaluation_refuse_what_is_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], trained_model: Path
) -> None:
    with pytest.raises(SystemExit):
        export_weights(str(tmp_path / "training"), str(tmp_path / "model"))
    assert _refused(capfd).startswith("error: training: the folder has no checkpoint")
    generate_data({"qubits": 4}, str(tmp_path / "dataset"))
    outputs = [str(tmp_path / name) for name in ("predictions", "metrics", "report")]
    with pytest.raises(SystemExit):
        evaluate(*(str(tmp_path / name) for name in ("model", "dataset", "training")), *outputs)
    assert _refused(capfd).startswith("error: training: history.csv is missing")
    with pytest.raises(SystemExit):
        evaluate(str(tmp_path / "model"), str(tmp_path / "dataset"), str(trained_model.parent / "training"), *outputs)
    assert _refused(capfd).startswith("error: model: model.json is missing")
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


def test_the_link_of_a_run_in_a_backend_holds_a_command_short_enough_for_its_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = "193e3cb6-cee4-4d9b-8395-662394621f23"
    monkeypatch.setenv("QCNN_RUN", run)
    logs = f"minio://mlpipeline/v2/artifacts/qcnn/{run}/train/r{run[:32]}-train-0-9fb20de2/logs"
    tensorboard(logs, {}, "", str(tmp_path / "link"))
    page = (tmp_path / "link").read_text()
    assert f"```sh\nqcnn tensorboard {run}\n```" in page
    # What stands in a line of code is not broken: the box takes about sixty characters.
    assert max(map(len, re.findall(r"```sh\n(.*)\n```", page))) <= 60
    assert f"`{logs}`" in page


def test_the_link_holds_the_exact_command(tmp_path: Path) -> None:
    given = {"seed": "3", "display_name": "logs", "store_session_info": "{}"}
    metadata = tensorboard("gs://bucket/my run/logs", given, "https://board", str(tmp_path / "link"))
    # What the backend keeps of the logs themselves is not the link's.
    assert metadata == {"seed": "3"}
    assert "qcnn tensorboard 'gs://bucket/my run/logs'" in (tmp_path / "link").read_text()


def test_a_study_without_a_trained_trial_fails_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        save_failure(FailedTrial(from_mapping({}), f"loss: is not finite. Given: {folder.name}"), folder)
    with pytest.raises(SystemExit) as stopped:
        select_best(list(map(str, folders)), str(tmp_path / "results.csv"), str(tmp_path / "table.html"))
    assert stopped.value.code == 2
    said = "error: study: all 2 trials failed; the first: loss: is not finite. Given: first"
    assert said in capfd.readouterr().err.splitlines()
    assert "Given: second" in (tmp_path / "results.csv").read_text()


def test_a_trial_that_is_trained_in_vain_ends_well_and_leaves_its_reason(tmp_path: Path) -> None:
    experiment = from_mapping({"strategy": "none", "workers": 1})
    outputs = [str(tmp_path / name) for name in ("training", "logs")]
    train(experiment.to_json(), str(tmp_path / "missing"), *outputs, trial=True)
    failed = load_failure(tmp_path / "training")
    assert failed
    assert failed.experiment == experiment
    assert failed.reason.startswith("worker 0 ended with exit code 2: error: dataset: dataset.json is missing. Given: ")


def test_metrics_are_plain_json_too_and_stand_in_the_report(tmp_path: Path, trained_model: Path) -> None:
    inputs = (trained_model, trained_model.parent / "dataset", trained_model.parent / "training")
    outputs = (tmp_path / name for name in ("predictions", "metrics", "report.html"))
    metrics, matrix, metadata = evaluate(*map(str, (*inputs, *outputs)))
    assert json.loads((tmp_path / "metrics").read_text()) == metrics
    assert {"commit", "dirty", "lock_sha256", "image", "seed", "simulator", "tensorflow", "experiment"} <= set(metadata)
    assert metadata["weights"] == "last"
    assert {"mse", "accuracy", "train_loss", "val_loss", "epochs", "epoch_seconds"} <= set(metrics)
    assert f"Test MSE<b>{metrics['mse']:.4f}</b>" in (tmp_path / "report.html").read_text()
    (right_negative, _), (_, right_positive) = matrix
    assert right_negative + right_positive == round(metrics["accuracy"] * sum(map(sum, matrix)))
    with (tmp_path / "predictions" / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(map(sum, matrix)) == len(rows)
    assert sum(matrix[0]) == sum(row["label"] == "-1" for row in rows)


def test_the_summary_says_what_came_out_and_where_it_lies(tmp_path: Path) -> None:
    places = {"model": "gs://bucket/run/export/1/model", "dataset": "gs://bucket/run/generate/2/dataset"}
    summarize({"mse": 0.25, "epochs": 5.0}, places, str(tmp_path / "summary.md"))
    lines = [re.sub(" +", " ", line) for line in (tmp_path / "summary.md").read_text().splitlines()]
    assert [line for line in lines if line.startswith("#")] == ["# Summary", "## Metrics", "## Artifacts"]
    assert lines.index("| mse | 0.25 |") < lines.index("## Artifacts") < lines.index("In `gs://bucket/run/`:")
    assert "| model | `export/1/model` |" in lines
    assert "| dataset | `generate/2/dataset` |" in lines


def test_addresses_with_nothing_in_common_stand_whole_in_the_summary(tmp_path: Path) -> None:
    places = {"model": "gs://bucket/model", "dataset": "minio://other/dataset"}
    summarize({"mse": 0.25}, places, str(tmp_path / "summary.md"))
    text = (tmp_path / "summary.md").read_text()
    assert all(f"`{place}`" in text for place in places.values())
    assert "In `" not in text


def test_a_board_that_is_deployed_is_linked_and_a_button_names_logs_and_image(tmp_path: Path) -> None:
    tensorboard("gs://bucket/logs", {}, "https://board.example", str(tmp_path / "link"))
    assert "[https://board.example](https://board.example)" in (tmp_path / "link").read_text()
    button("gs://bucket/logs", "qcnn:1", str(tmp_path / "button"))
    (viewer,) = json.loads((tmp_path / "button").read_text())["outputs"]
    assert viewer == {"type": "tensorboard", "source": "gs://bucket/logs", "image": "qcnn:1", "pod_template_spec": {}}
