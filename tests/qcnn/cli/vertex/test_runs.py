"""Tests of the commands for runs on the local Vertex AI."""

import csv
import hashlib
import json
import posixpath
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from google.cloud import aiplatform_v1 as v1

from qcnn.jobs.job import run_label
from qcnn.jobs.vertex.custom_job import JOB_LABEL, RUN_LABEL, TASK_LABEL
from qcnn.storage.copies import local_copy, new_file_copy
from tests.class_runs import rows_of
from tests.qcnn.cli.conftest import Typed
from tests.qcnn.cli.vertex.packages import FOREVER, two_steps
from tests.tensorboard_server import opened
from tests.vertex.clients import jobs, python_pool
from tests.vertex.fake_service.job_run import SUCCEEDED
from tests.vertex.fake_service.pipelines.jobs import CANCELLED, RUNNING
from tests.vertex.fake_service.vertex import Vertex

_TARGET = ("--target", "vertex")
_SMALL = ("--qubits", "4", "--rounds", "10", "--batch-size", "8", "--epochs", "2", "--num-initializations", "1")


def _submitted(vertex: Vertex, on_vertex: Typed, *arguments: str) -> tuple[int, str, str]:
    return on_vertex("submit", *_TARGET, "--pipeline-root", f"gs://{vertex.bucket}/runs", *arguments)


def _runs(vertex: Vertex) -> list[v1.PipelineJob]:
    return vertex.state.all(v1.PipelineJob)


def test_wait_prints_steps_and_lost_response_creates_one_run(vertex: Vertex, on_vertex: Typed, tmp_path: Path) -> None:
    vertex.fail("PipelineService/CreatePipelineJob", 503, answered=False)
    vertex.fail("PipelineService/GetPipelineJob", 503, times=2)
    package = two_steps(tmp_path, "echo first")
    code, out, err = _submitted(vertex, on_vertex, "--package", package, "--run-name", "mine", "--wait")
    assert code == 0, err
    (run,) = _runs(vertex)
    identity = run.name.rpartition("/")[2]
    lines = out.splitlines()
    assert lines[0] == f"run {identity} is created in qcnn-tests in us-central1"
    page = f"https://console.cloud.google.com/vertex-ai/locations/us-central1/pipelines/runs/{identity}"
    assert lines[1].endswith(f"{page}?project=qcnn-tests")
    assert lines[-1] == "run: succeeded"
    # The Vertex AI experiment contains the run.
    (experiment,) = {
        parent
        for each in vertex.state.all(v1.Context)
        if each.name.endswith(identity)
        for parent in each.parent_contexts
    }
    assert experiment.endswith("/metadataStores/default/contexts/qcnn")
    assert [line for line in lines if line.endswith(": succeeded")] == [
        "shell: succeeded",
        "shell-2: succeeded",
        "run: succeeded",
    ]
    code, out, _ = on_vertex("status", "mine", *_TARGET, "--format", "json")
    assert [(part["name"], part["state"]) for part in json.loads(out)["parts"]] == [
        ("shell", "succeeded"),
        ("shell-2", "succeeded"),
    ]
    code, out, _ = on_vertex("logs", identity, *_TARGET)
    assert code == 0
    # The output also contains lines of Vertex AI.
    assert [line for line in out.splitlines() if " service] " not in line] == ["[shell] first", "[shell-2] second"]
    assert on_vertex("delete", "mine", "--yes", *_TARGET)[0] == 0
    assert not _runs(vertex)


def test_wait_reconnects_after_broken_connections(vertex: Vertex, on_vertex: Typed, tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    package = two_steps(tmp_path, f"echo started; while [ ! -e {sign} ]; do sleep 0.1; done")
    with ThreadPoolExecutor() as pool:
        submitted = pool.submit(_submitted, vertex, on_vertex, "--package", package, "--wait")
        step = vertex.state.until(lambda: next(iter(vertex.state.all(v1.CustomJob)), None))
        vertex.until_line(step.name, "workerpool0-0", "started")
        vertex.cut_connections()
        vertex.fail("PipelineService/GetPipelineJob", 429, times=2)
        sign.touch()
        code, out, err = submitted.result()
    assert code == 0, err
    assert out.endswith("run: succeeded\n")


def test_wait_for_failed_run_names_failed_step(vertex: Vertex, on_vertex: Typed, tmp_path: Path) -> None:
    package = two_steps(tmp_path, "echo first", "exit 3")
    code, _, err = _submitted(vertex, on_vertex, "--package", package, "--wait")
    assert code == 1
    assert re.fullmatch(r"error: run: step shell-2 failed \(.*non-zero status of 3.*\)\. Given: qcnn-[\w-]+\n", err)


def test_terminate_cancels_training_jobs_of_run(vertex: Vertex, on_vertex: Typed, tmp_path: Path) -> None:
    code, out, err = _submitted(vertex, on_vertex, "--package", two_steps(tmp_path, FOREVER), "--experiment", "papers")
    assert (code, err) == (0, "")
    (run,) = _runs(vertex)
    identity = out.split()[1]
    training = jobs(vertex).create_custom_job(
        parent=vertex.parent,
        custom_job=v1.CustomJob(
            display_name="training",
            labels={JOB_LABEL: "training", RUN_LABEL: run_label(identity), TASK_LABEL: "train"},
            job_spec={"worker_pool_specs": [python_pool("import time\nwhile True: time.sleep(60)")]},
        ),
    )
    search = jobs(vertex).create_hyperparameter_tuning_job(
        parent=vertex.parent,
        hyperparameter_tuning_job=v1.HyperparameterTuningJob(
            display_name="search",
            labels={JOB_LABEL: "search", RUN_LABEL: run_label(identity), TASK_LABEL: "tune"},
            study_spec={
                "metrics": [{"metric_id": "val_loss", "goal": "MINIMIZE"}],
                "parameters": [{"parameter_id": "seed", "integer_value_spec": {"min_value": 1, "max_value": 5}}],
            },
            max_trial_count=5,
            parallel_trial_count=1,
            trial_job_spec=training.job_spec,
        ),
    )
    vertex.until_pipeline(run.name, RUNNING)
    code, out, err = on_vertex("delete", "--experiment", "papers", "--yes", *_TARGET)
    assert (code, out) == (2, "")
    assert err == f"error: delete: the run must have ended; use qcnn terminate. Given: {identity}\n"
    code, out, err = on_vertex("terminate", identity, *_TARGET)
    assert (code, err) == (0, "")
    assert out.startswith(f"run {identity}: cancellation requested\n")
    assert re.search("^tuning job search, custom job training(, custom job search-trial-1)? cancelled$", out, re.M)
    assert out.endswith(f"run {identity} is terminated\n")
    assert vertex.until_pipeline(run.name, CANCELLED).state == CANCELLED
    assert vertex.state.copy(v1.CustomJob, training.name).state == v1.JobState.JOB_STATE_CANCELLED
    assert vertex.until_tuning(search.name, v1.JobState.JOB_STATE_CANCELLED)
    assert len(vertex.state.all(v1.CustomJob)) <= 4
    code, out, err = on_vertex("terminate", identity, *_TARGET)
    assert (code, out, err) == (0, f"run {identity} has already ended: cancelled\n", "")


def test_terminate_with_missing_method_reports_active_jobs(vertex: Vertex, on_vertex: Typed, tmp_path: Path) -> None:
    code, out, err = _submitted(vertex, on_vertex, "--package", two_steps(tmp_path, FOREVER))
    assert (code, err) == (0, "")
    (run,) = _runs(vertex)
    identity = out.split()[1]
    training = jobs(vertex).create_custom_job(
        parent=vertex.parent,
        custom_job=v1.CustomJob(
            display_name="training",
            labels={JOB_LABEL: "training", RUN_LABEL: run_label(identity), TASK_LABEL: "train"},
            job_spec={"worker_pool_specs": [python_pool("import time\nwhile True: time.sleep(60)")]},
        ),
    )
    vertex.until_pipeline(run.name, RUNNING)
    vertex.fail("JobService/ListHyperparameterTuningJobs", 501, times=99, message="Method not found.")
    code, out, err = on_vertex("terminate", identity, *_TARGET)
    assert code == 1
    first, second, *_, last = out.splitlines()
    assert first == f"run {identity}: cancellation requested"
    assert (second, last) == ("custom job training cancelled", f"run {identity} is terminated")
    reason = "its training jobs may still be active, as canceling them failed"
    assert err == f"error: run: {reason} (Vertex AI: request rejected (Method not found.)). Given: {identity}\n"
    assert vertex.state.copy(v1.CustomJob, training.name).state == v1.JobState.JOB_STATE_CANCELLED
    with vertex.state.changed:
        vertex.state.get(v1.PipelineJob, run.name).create_time = None
    code, out, err = on_vertex("status", *_TARGET)
    assert (code, err) == (0, "")
    row = out.splitlines()[-1].split()
    assert (row[0], row[2]) == (identity, "cancelled")


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (
            400,
            "error: Vertex AI: request rejected (Request contains an invalid argument.). Given: qcnn-tests in "
            "us-central1",
        ),
        (403, "error: permission: denied (Permission 'aiplatform.customJobs.create' denied on resource"),
        (404, "error: Vertex AI: not found (Requested entity was not found.). Given: qcnn-tests in us-central1"),
    ],
)
def test_submit_with_error_response_is_one_line(
    vertex: Vertex, on_vertex: Typed, tmp_path: Path, status: int, line: str
) -> None:
    vertex.fail("PipelineService/CreatePipelineJob", status)
    code, out, err = _submitted(vertex, on_vertex, "--package", two_steps(tmp_path, "echo first"))
    assert (code, out) == (2, "")
    assert err.startswith(line)
    assert err.count("\n") == 1


def test_missing_bucket_is_an_error_and_distant_one_a_warning(vertex: Vertex, on_vertex: Typed, tmp_path: Path) -> None:
    package = two_steps(tmp_path, "echo first")
    arguments = ("submit", *_TARGET, "--package", package, "--pipeline-root")
    code, out, err = on_vertex(*arguments, "gs://no-such-bucket/runs")
    assert (code, out) == (2, "")
    assert err.startswith("error: bucket: the bucket or the requested file does not exist. Given: gs://no-such-bucket")
    assert not _runs(vertex)
    code, _, err = on_vertex(*arguments, f"gs://{vertex.bucket}/runs", "--location", "europe-west4")
    assert err.startswith("warning: pipeline root: the bucket is in us-central1, the run in europe-west4; ")


@pytest.mark.long
def test_pipeline_trains_and_its_runs_are_compared(vertex: Vertex, on_vertex: Typed, tmp_path: Path) -> None:
    arguments = ("--image", "registry/qcnn:1", "--experiment", "papers", "--wait", *_SMALL)
    code, out, err = _submitted(vertex, on_vertex, "--run-name", "first", *arguments)
    assert code == 0, out + err
    assert "train: succeeded" in out.splitlines()
    rows = _compared(on_vertex)
    assert [row["run"] for row in rows] == ["first"]
    assert rows[0]["state"] == "succeeded"
    assert 0 < rows[0]["mse"] < 4
    assert _compared(on_vertex, "first") == rows
    (run,) = _runs(vertex)
    identity = run.name.rpartition("/")[2]
    code, out, _ = on_vertex("logs", identity, *_TARGET)
    assert code == 0
    assert {re.match(r"\[([\w-]+)", line)[1] for line in out.splitlines() if line[:1] == "["} >= {"train", "chief"}  # type: ignore[index]
    code, out, _ = on_vertex("status", *_TARGET)
    assert out.splitlines()[-1].split()[:3] == [identity, "first", "succeeded"]
    (link,) = (task for task in run.job_detail.task_details if task.task_name == "tensorboard")
    (logs,) = (artifact.uri for artifact in link.inputs["logs"].artifacts)
    # The name of the run, and the URI in the command of the tensorboard step.
    place = (*_TARGET, "--project", vertex.project, "--location", vertex.location)
    for chosen, name in (((identity, *place), "first"), ((logs,), posixpath.basename(posixpath.dirname(logs)))):
        with opened(*chosen, folder=tmp_path, environment=vertex.process_environment()) as board:
            tags = board.wait("plugin/scalars/tags", lambda found: len(found) == 2)
        assert "loss" in tags[f"{name}/train"]


@pytest.mark.long
def test_study_of_ten_classes_in_file_selects_by_accuracy(
    vertex: Vertex, on_vertex: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", vertex.environment["STORAGE_EMULATOR_HOST"])
    names = [f"kind {letter}" for letter in "abcdefghij"]
    data = f"gs://{vertex.bucket}/classes.csv"
    with new_file_copy(data) as path:
        path.write_text(rows := rows_of(names))
    sent = ("--pipeline-root", f"gs://{vertex.bucket}/runs", "--image", "registry/qcnn:1", "--experiment", "papers")
    own = ("--data", data, "--encoding", "ry", "--qubits", "4", "--epochs", "3", "--loss", "cross_entropy")
    searched = ("--grid", "learning_rate=0.0001,0.05", "--metric", "val_accuracy", "--parallelism", "1")
    code, out, err = on_vertex("study", *_TARGET, *sent, *own, *searched, "--wait")
    assert code == 0, out + err
    assert {"train: succeeded", "train 2: succeeded", "select-best: succeeded"} <= set(out.splitlines())
    (row,) = _compared(on_vertex)
    assert row["accuracy"] > 0.1
    assert "mse" not in row
    (run,) = _runs(vertex)
    made = [task.outputs["dataset"].artifacts[0] for task in run.job_detail.task_details if "dataset" in task.outputs]
    assert [each.metadata["data_sha256"] for each in made] == 2 * [hashlib.sha256(rows.encode()).hexdigest()]
    selected = next(task for task in run.job_detail.task_details if task.task_name == "select-best")
    table, metrics = (selected.outputs[name].artifacts[0] for name in ("results", "metrics"))
    assert {f"recall_{name}" for name in names} <= set(metrics.metadata)
    with local_copy(posixpath.dirname(table.uri)) as folder:
        trials = list(csv.DictReader((folder / "results.csv").read_text().splitlines()))
    best = max(trials, key=lambda trial: float(trial["val_accuracy"]))
    assert [trial["trial"] for trial in trials if trial["chosen"] == "best"] == [best["trial"]]


@pytest.mark.long
def test_tuner_selects_trials_and_best_is_evaluated(
    vertex: Vertex, on_vertex: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", vertex.environment["STORAGE_EMULATOR_HOST"])
    sent = ("--pipeline-root", f"gs://{vertex.bucket}/runs", "--image", "registry/qcnn:1")
    arguments = (*sent, "--experiment", "papers", "--wait", *_SMALL)
    searched = ("--range", "learning_rate=0.0001:0.05:log", "--grid", "hidden_units=4,8", "--random", "3")
    code, out, err = on_vertex("study", *_TARGET, "--tuner", "vizier", *arguments, *searched)
    assert code == 0, out + err
    (job,) = vertex.state.all(v1.HyperparameterTuningJob)
    assert (job.state, job.max_trial_count, job.parallel_trial_count) == (SUCCEEDED, 3, 2)
    # A failed trial does not fail the job.
    assert [trial.infeasible_reason for trial in job.trials] == 3 * [""]
    (run,) = _runs(vertex)
    tuned = next(task for task in run.job_detail.task_details if task.task_name == "tune")
    training, table = (tuned.outputs[name].artifacts[0] for name in ("training", "results"))
    losses = {trial.id: trial.final_measurement.metrics[0].value for trial in job.trials}
    best = min(losses, key=losses.__getitem__)
    assert training.uri.endswith(f"/{best}/checkpoints")
    with local_copy(posixpath.dirname(table.uri)) as folder:
        rows = list(csv.DictReader((folder / "results.csv").read_text().splitlines()))
    assert [row["trial"] for row in rows if row["chosen"] == "best"] == [str(int(best) - 1)]
    assert [float(row["val_loss"]) for row in rows] == pytest.approx(list(losses.values()))
    for row, trial in zip(rows, job.trials, strict=True):
        given = {each.parameter_id: float(each.value) for each in trial.parameters}
        assert given == {name: pytest.approx(float(row[name])) for name in ("learning_rate", "hidden_units")}
    code, out, _ = on_vertex("logs", run.name.rpartition("/")[2], *_TARGET)
    assert re.search(r"^\[tune\] trial 3 \(.*learning_rate 0\.\d+.*\) has ended: val_loss \d\.\d{4}$", out, re.M)
    (compared,) = _compared(on_vertex)
    assert compared["mse"] > 0


def _compared(on_vertex: Typed, *names: str) -> list[dict[str, Any]]:
    """Return the rows of the named runs, or of all runs of an experiment."""
    code, out, err = on_vertex("compare", *_TARGET, *(names or ("--experiment", "papers")), "--format", "json")
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)
    return found
