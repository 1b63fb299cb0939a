"""Train step with a local stand-in for Vertex AI, which runs worker processes and buckets and preempts workers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.cloud import aiplatform_v1 as v1

from qcnn import data
from qcnn.components.steps.tensorboard import PAGE
from qcnn.experiment.parsing import from_mapping
from qcnn.model import checkpoints
from qcnn.model.checkpoints import Checkpoint
from qcnn.storage.copies import local_copy, new_copy
from qcnn.studies.trials import load_failure
from tests import forked_module
from tests.components.conftest import in_component
from tests.vertex.fake_service.job_run import FAILED, RUNNING, SUCCEEDED
from tests.vertex.fake_service.vertex import Vertex

_ROOT = Path(__file__).parents[3]
_EPOCHS = 150
_CONFIG = from_mapping(
    {
        "qubits": 4,
        "rounds": 10,
        "epochs": _EPOCHS,
        "batch_size": 8,
        "workers": 2,
        "options": {"max_restarts": 1, "checkpoint_seconds": 1e-9},
    }
)
_MODULES = ("tests.forked_module", "tests.components.steps.train_vertex_step")


class Step:
    """Process of the train step of a run, with the dataset in the server's bucket."""

    def __init__(
        self, server: Vertex, run: str, pod: dict[str, Any] | None = None, failure: Path | None = None
    ) -> None:
        self.run_folder = f"gs://{server.bucket}/root/{run}"
        arguments = [
            _CONFIG.to_json(),
            json.dumps({"image": "image", **(pod or {})}),
            (server.project, server.location),
            f"gs://{server.bucket}/dataset",
            f"{self.run_folder}/train_123/training",
            str(failure) if failure else None,
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-m", *_MODULES, json.dumps(arguments)],
            cwd=_ROOT,
            env={**server.process_environment(), **forked_module.variables(())},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self) -> list[str]:
        """Wait for success and return the output lines."""
        lines = self._process.communicate()[0].splitlines()
        assert self._process.returncode == 0, lines
        return lines


@pytest.fixture
def server(vertex: Vertex, monkeypatch: pytest.MonkeyPatch) -> Vertex:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", vertex.environment["STORAGE_EMULATOR_HOST"])
    return vertex


@pytest.fixture
def dataset(server: Vertex) -> None:
    with new_copy(f"gs://{server.bucket}/dataset", last="dataset.json") as folder:
        data.save(data.generate(_CONFIG), folder)


def _checkpoint(uri: str) -> Checkpoint:
    with local_copy(uri) as folder:
        found = checkpoints.load_latest(folder / checkpoints.FOLDER)
        assert found
        return found.with_epochs()


def _job_after(server: Vertex, count: int) -> v1.CustomJob:
    """Wait for the next custom job after a number of jobs."""
    return server.state.until(lambda: next(iter(server.custom_jobs()[count:]), None))


@pytest.mark.long
@pytest.mark.usefixtures("dataset")
def test_preempted_worker_does_not_change_weights(server: Vertex) -> None:
    board = f"projects/{server.project}/locations/{server.location}/tensorboards/1"
    settings = {"service_account": "trainer@qcnn-tests.iam.gserviceaccount.com", "vertex": {"tensorboard": board}}
    undisturbed = json.loads(Step(server, "undisturbed", settings).finish()[-1])
    (first,) = server.custom_jobs()
    label = first.labels["qcnn_job"]
    assert undisturbed[0] == f"gs://{server.bucket}/root/undisturbed/{label}/training"
    assert undisturbed[1] == f"gs://{server.bucket}/root/undisturbed/{label}/logs"
    assert undisturbed[2]["experiment"] == _CONFIG.to_json()
    experiment = f"{board}/experiments/{first.name.rpartition('/')[2]}".replace("/", "+")
    assert (
        undisturbed[2][PAGE] == f"https://{server.location}.tensorboard.googleusercontent.com/experiment/{experiment}"
    )
    expected = _checkpoint(undisturbed[0])
    for run, spot, states in (("lost", False, [FAILED, SUCCEEDED]), ("spot", True, [SUCCEEDED])):
        before = len(server.custom_jobs())
        step = Step(server, run, {"spot": spot})
        job = _job_after(server, before)
        server.until_state(job.name, RUNNING)
        # Training continues while checkpoints are uploaded.
        server.until_written(f"root/{run}/{job.labels['qcnn_job']}/training/checkpoints/epoch-")
        server.preempt(job.name, "workerpool1-0")
        lines = step.finish()
        assert [job.state for job in server.custom_jobs()[before:]] == states
        assert any("continuing after epoch" in line for line in lines)
        found = _checkpoint(json.loads(lines[-1])[0])
        assert [epoch.val_loss for epoch in found.history] == [epoch.val_loss for epoch in expected.history]
        for one, other in zip(found.line.weights, expected.line.weights, strict=True):
            assert np.array_equal(one, other)
        again = Step(server, run, {"spot": spot}).finish()
        assert any("has already succeeded" in line for line in again)
        assert again[-1] == lines[-1]


@pytest.mark.long
def test_failed_trial_succeeds_and_saves_the_reason(server: Vertex, tmp_path: Path) -> None:
    """The dataset is missing, which is a permanent error."""
    step = Step(server, "run-1", failure=tmp_path / "failure")
    training, _, _ = json.loads(step.finish()[-1])
    assert training == f"{step.run_folder}/train_123/training"
    failure = load_failure(tmp_path / "failure")
    assert failure
    assert "ended with exit code 2: " in failure.reason
    assert [job.state for job in server.custom_jobs()] == [FAILED]


_EXPERIMENT = _CONFIG.to_json()
_OUTPUT = "gs://bucket/root/run/train_1/training"
_PLACE = ("my-project", "us-central1")


@pytest.mark.parametrize(
    ("place", "pod", "output", "message"),
    [
        (_PLACE, {}, "/gcs/a/b/c", "error: pipeline root: must be in a bucket of Cloud Storage, gs://BUCKET/FOLDER. "),
        (_PLACE, {}, "s3://b/run/task/a", "error: pipeline root: must be in a bucket of Cloud Storage, "),
        (("my-project", "Iowa"), {}, _OUTPUT, "error: location: must be a region such as us-central1. Given: 'Iowa'"),
        (_PLACE, {"secrets": {"A": "b/c"}}, _OUTPUT, "error: pod.secrets: has no meaning on Vertex AI; "),
    ],
)
def test_train_without_requirement_is_a_single_line_error(
    capfd: pytest.CaptureFixture[str], place: tuple[str, str], pod: dict[str, Any], output: str, message: str
) -> None:
    from qcnn.components.steps.train_vertex import train

    with pytest.raises(SystemExit):
        in_component(train, _EXPERIMENT, json.dumps({"image": "a", **pod}), place, "gs://bucket/dataset", output)
    assert capfd.readouterr().err.startswith(message)
