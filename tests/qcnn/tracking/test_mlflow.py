"""Runs on a real MLflow server, as its client sees them."""

import csv
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from qcnn.components.steps.study import track_trials
from qcnn.experiment.parsing import from_mapping
from qcnn.model.history import EpochMetrics
from qcnn.studies.trials import Evaluated, FailedTrial, Trial
from qcnn.tracking.destination import REQUEST_VARIABLE, Destination
from qcnn.tracking.identity import identity_of
from qcnn.tracking.mlflow import MlflowServer
from tests.forks import run, started
from tests.mlflow_server import free_port, mlflow_server, silent_server

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("forks")]

SMALL = ["--qubits", "4", "--rounds", "10", "--workers", "1", "--strategy", "none", "--profile_batches", ""]
GOLDEN = Path(__file__).parents[2] / "golden"
VARIABLE = "MLFLOW_TRACKING_URI"
EPOCH_METRICS = ["train_accuracy", "train_loss", "val_accuracy", "val_loss"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as url:
        yield url


@pytest.fixture
def experiment(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of an MLflow experiment of this test, whose working folder is new."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", tmp_path.name)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    # A busy machine answers late.
    monkeypatch.setenv(REQUEST_VARIABLE, "300")
    return tmp_path.name


def _qcnn(*arguments: str, uri: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = run("-m", "qcnn.cli", *arguments, environment={**environment, **({VARIABLE: uri} if uri else {})})
    assert done.returncode == 0, done.stderr
    return done


def _tracked(server: str, experiment: str) -> list[Any]:
    """Return the runs of an experiment, oldest first."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(server)
    found = client.get_experiment_by_name(experiment)
    assert found
    return [*client.search_runs([found.experiment_id], order_by=["attributes.start_time ASC"])]


def _steps(server: str, run_id: str, metric: str) -> list[int]:
    from mlflow.tracking import MlflowClient

    return [each.step for each in MlflowClient(server).get_metric_history(run_id, metric)]


def _only_run() -> Path:
    (folder,) = Path("runs").iterdir()
    return folder


def _metrics(folder: Path) -> Mapping[str, float]:
    found: Mapping[str, float] = json.loads((folder / "evaluate" / "metrics").read_text())
    return found


def _check(server: str, experiment: str, folder: Path, epochs: int) -> Any:
    """Check that a server has a complete run once, and return the run."""
    (found,) = _tracked(server, experiment)
    assert (found.info.run_name, found.info.status) == (folder.name, "FINISHED")
    assert (found.data.params["qubits"], found.data.params["strategy"]) == ("4", "none")
    for name in EPOCH_METRICS:
        assert _steps(server, found.info.run_id, name) == [*range(1, epochs + 1)]
    metrics = _metrics(folder)
    assert {name: found.data.metrics[name] for name in metrics} == metrics
    assert found.data.tags["artifact.model"] == str(folder.absolute() / "export-weights" / "model")
    assert found.data.tags["qcnn.qcnn"]
    return found


def test_run_is_tracked_with_same_results(server: str, experiment: str) -> None:
    done = _qcnn("run", *SMALL, "--epochs", "3", "--tracking", f"mlflow:{server}", "--runs", "runs", uri=None)
    (folder,) = Path("runs").iterdir()
    found = _check(server, experiment, folder, 3)
    assert f"tracking: run {found.info.run_id} on {server}" in done.stdout + done.stderr
    _qcnn("run", *SMALL, "--epochs", "3", "--runs", "other", uri=None)
    (other,) = Path("other").iterdir()
    differing = {"epoch_seconds"}
    tracked, plain = (_metrics(each) for each in (folder, other))
    assert {name: tracked[name] for name in tracked.keys() - differing} == {
        name: plain[name] for name in plain.keys() - differing
    }
    records = [json.loads((each / "run.json").read_text())["words"] for each in (folder, other)]
    assert records[0] == records[1]
    # A process without TensorFlow loads the model.
    program = (
        "import sys, mlflow, pandas as pd\n"
        "model = mlflow.pyfunc.load_model(sys.argv[1])\n"
        "rows = pd.DataFrame({'qubit': [0, 3], 'angle': [0.1, -2.0]})\n"
        "print([column.name for column in model.metadata.signature.inputs], 'tensorflow' in sys.modules)\n"
        "print(model.predict(rows)['prediction'].tolist())"
    )
    environment = {**os.environ, VARIABLE: server}
    arguments = [sys.executable, "-c", program, f"runs:/{found.info.run_id}/model"]
    loaded = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)
    signature, predictions = loaded.stdout.splitlines()
    assert signature == "['qubit', 'angle'] False"
    import qcnn

    assert json.loads(predictions) == qcnn.load(folder).predict(qubit=[0, 3], angle=[0.1, -2.0]).tolist()


def test_resumed_run_is_same_run(server: str, experiment: str) -> None:
    _qcnn("run", *SMALL, "--epochs", "2", uri=server)
    _qcnn("run", "--resume", str(_only_run()), "--epochs", "4", uri=server)
    _check(server, experiment, _only_run(), 4)


def test_killed_run_continues_as_same_run(server: str, experiment: str) -> None:
    arguments = ["-m", "qcnn.cli", "run", *SMALL, "--epochs", "100000", "--checkpoint_seconds", "0.01"]
    with started(*arguments, environment={**os.environ, VARIABLE: server}) as (process, printed):
        for line in printed:
            if re.search(r"epoch 5/", line):
                break
        process.kill()
        printed.read()
    _qcnn("track", str(_only_run()), uri=server)
    (found,) = _tracked(server, experiment)
    assert found.info.status == "KILLED"
    steps = _steps(server, found.info.run_id, "val_loss")
    assert steps == [*range(1, len(steps) + 1)]
    assert len(steps) > 1


def test_study_is_parent_of_its_trials(server: str, experiment: str) -> None:
    _qcnn("study", *SMALL, "--epochs", "2", "--grid", "learning_rate=0.01,0.02", uri=server)
    for _ in range(2):
        study = _only_run()
        runs = _tracked(server, experiment)
        (parent,) = (each for each in runs if each.info.run_name == study.name)
        children = [each for each in runs if each is not parent]
        assert [each.info.status for each in runs] == ["FINISHED"] * 3
        assert {each.data.tags["mlflow.parentRunId"] for each in children} == {parent.info.run_id}
        assert {each.data.params["learning_rate"] for each in children} == {"0.01", "0.02"}
        assert "learning_rate" not in parent.data.params
        assert parent.data.params["qubits"] == "4"
        assert {"mse", "fresh_mse"} <= parent.data.metrics.keys()
        for each in children:
            assert _steps(server, each.info.run_id, "val_loss") == [1, 2]
        # Sent again, nothing changes.
        _qcnn("track", study.name, uri=server)


def test_study_that_had_no_server_is_sent_later(server: str, experiment: str) -> None:
    _qcnn("study", *SMALL, "--epochs", "2", "--grid", "learning_rate=0.01", "--repeat", "2", uri=None)
    study = _only_run()
    _qcnn("track", str(study), uri=server)
    runs = _tracked(server, experiment)
    assert sorted("mlflow.parentRunId" in each.data.tags for each in runs) == [False, True, True]
    with (study / "select-best" / "results.csv").open() as file:
        expected = {row["seed"]: float(row["test_loss"]) for row in csv.DictReader(file)}
    trials = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert {trial.data.params["seed"]: trial.data.metrics["loss"] for trial in trials} == pytest.approx(expected)
    for trial in trials:
        assert _steps(server, trial.info.run_id, "val_loss") == [1, 2]


@pytest.mark.parametrize("is_silent", [False, True])
def test_run_with_server_away_is_sent_later(
    server: str, experiment: str, is_silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REQUEST_VARIABLE, "2")
    with silent_server() as silent:
        away = silent if is_silent else f"http://127.0.0.1:{free_port()}"
        done = _qcnn("run", *SMALL, "--epochs", "3", uri=away)
    (line,) = (line for line in done.stdout.splitlines() + done.stderr.splitlines() if "tracking:" in line)
    reason = "no response in 2 s" if is_silent else "the connection is refused"
    run_folder = _only_run().absolute()
    assert f"tracking: {reason} (given: {away}); training continues, and qcnn track {run_folder} sends" in line
    monkeypatch.setenv(REQUEST_VARIABLE, "300")
    sent = _qcnn("track", str(_only_run()), "--format", "json", uri=server)
    found = _check(server, experiment, _only_run(), 3)
    assert json.loads(sent.stdout) == {"runs": [{"name": _only_run().name, "run_id": found.info.run_id}]}


def test_two_trackers_at_once_send_run_once(server: str, experiment: str) -> None:
    _qcnn("run", *SMALL, "--epochs", "3", uri=None)
    command = [sys.executable, "-m", "qcnn.cli", "track", str(_only_run())]
    trackers = [
        subprocess.Popen(command, env={**os.environ, VARIABLE: server}, stdout=subprocess.DEVNULL) for _ in range(2)
    ]
    assert 0 in [each.wait() for each in trackers]
    _check(server, experiment, _only_run(), 3)


def test_secrets_of_server_appear_nowhere(server: str, experiment: str, tmp_path: Path) -> None:
    uri = server.replace("://", "://planted-user:planted-password@")
    done = _qcnn("run", *SMALL, "--epochs", "2", uri=uri)
    sent = _qcnn("track", str(_only_run()), uri=uri)
    assert "://***@127.0.0.1" in sent.stdout
    for text in (done.stdout, done.stderr, sent.stdout, sent.stderr):
        assert "planted" not in text
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"planted" not in path.read_bytes(), path
    found = _check(server, experiment, _only_run(), 2)
    assert "planted" not in str(found.to_dictionary())


def test_interrupted_run_is_killed_on_server(server: str, experiment: str, interruptible: None) -> None:
    arguments = ["-m", "qcnn.cli", "run", *SMALL, "--epochs", "100000"]
    with started(*arguments, environment={**os.environ, VARIABLE: server}) as (process, printed):
        for line in printed:
            if "tracking: run" in line:
                os.kill(process.pid, signal.SIGINT)
                break
        printed.read()
        process.wait()
    (found,) = _tracked(server, experiment)
    assert found.info.status == "KILLED"


def test_trials_of_pipeline_become_children(
    server: str, experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings = [tmp_path / name for name in ("a", "b", "failed")]
    for training in trainings[:2]:
        with identity_of(training) as identity:
            MlflowServer(Destination(server)).open(identity, training.name, {}, {})
    monkeypatch.setenv(VARIABLE, server)
    model = GOLDEN / "0.1.0-predictor" / "excitations" / "export-weights" / "model"
    config, epoch = from_mapping({}), EpochMetrics(3, 0.5, None, 0.5, None, seconds=1.0)
    evaluated = Trial(config, 3, epoch, None, 3.0, Evaluated({"mse": 0.25}, 6, "digest"))
    trained = dataclasses.replace(evaluated, evaluated=None)
    trials: list[Trial | FailedTrial] = [evaluated, trained, FailedTrial(config, "loss: is not finite")]
    for _ in range(2):
        track_trials(
            [*map(str, trainings)], trials, str(model), {"mse": 0.5, "epochs": 3.0}, {"model": "gs://bucket/model"}
        )
        runs = _tracked(server, experiment)
        (parent,) = (each for each in runs if each.info.run_name not in ("a", "b"))
        (a,) = (each for each in runs if each.info.run_name == "a")
        assert a.data.metrics == {"mse": 0.25}
        parents = {each.info.run_name: each.data.tags.get("mlflow.parentRunId") for each in runs}
        assert parents == {"a": parent.info.run_id, "b": parent.info.run_id, parent.info.run_name: None}
        assert parent.data.metrics == {"mse": 0.5, "epochs": 3.0}
        assert (parent.info.status, parent.data.tags["artifact.model"]) == ("FINISHED", "gs://bucket/model")
        assert len(parent.outputs.model_outputs) == 1


def test_job_with_outputs_in_bucket_is_tracked(
    server: str, experiment: str, rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"{rows.removesuffix('/rows.csv')}/out/job-1"
    config = from_mapping({"qubits": 4, "rounds": 10, "epochs": 3, "workers": 1, "strategy": "none"})
    outputs = ["--workdir", f"{root}/training", "--logs", f"{root}/logs", "--export", f"{root}/model"]
    arguments = ["-m", "qcnn.trainer.worker", "--experiment", config.to_json(), *outputs, "--profiler-port", "0"]
    environment = {**os.environ, VARIABLE: server, "QCNN_JOB": "job-1"}
    for _ in range(2):
        # The second process is a restarted pod, and only reports the end.
        done = run(*arguments, environment=environment)
        assert done.returncode == 0, done.stderr
        (found,) = _tracked(server, experiment)
        assert (found.info.run_name, found.info.status) == ("job-1", "FINISHED")
        assert _steps(server, found.info.run_id, "val_loss") == [1, 2, 3]
        assert found.data.tags["artifact.model"] == f"{root}/model"
    assert not found.outputs.model_outputs
    _qcnn("track", root, uri=server)
    (found,) = _tracked(server, experiment)
    assert found.info.status == "FINISHED"
    assert len(found.outputs.model_outputs) == 1
