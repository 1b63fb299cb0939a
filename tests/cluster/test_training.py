"""Training on a cluster without storage."""

import re
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api

from qcnn.components.resources import IMAGE
from qcnn.components.steps.dataset import generate_data
from qcnn.components.steps.train_local import train
from qcnn.components.training_job import local_job
from qcnn.experiment.parsing import from_json
from qcnn.jobs.job import JobSpec
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.trainjob.engine import TRAINJOB
from qcnn.model.checkpoints import load_history
from tests.cluster.launchers import Launchers, every_engine

FIELDS = {"qubits": 4, "rounds": 10, "epochs": 5}
# Every pod generates the dataset, which is deterministic, so no storage is needed.
_PROGRAM = f"""
import runpy
from qcnn.components.steps.dataset import generate_data
generate_data({FIELDS!r}, "/tmp/dataset")
runpy.run_module("qcnn.trainer.worker", run_name="__main__", alter_sys=True)
"""
_EPOCH = re.compile(r"\[worker 0\] epoch (\d+)/5: train_loss (\S+), val_loss (\S+),")


def _worker_job(local: JobSpec) -> JobSpec:
    """Return a job of pods with the processes of a local job."""
    (_, _, _, *arguments) = local.argv
    return JobSpec(
        argv=("python", "-c", _PROGRAM, *arguments),
        replicas=local.replicas,
        restarts=local.restarts,
        heartbeat_timeout_seconds=local.heartbeat_timeout_seconds,
        pod=PodSettings(image=IMAGE, service_account="qcnn-worker", cpu="200m", memory="3Gi"),
    )


@every_engine
def test_two_workers_match_local_run(launchers: Launchers, tmp_path: Path) -> None:
    experiment, _ = generate_data(FIELDS, str(tmp_path / "dataset"))
    train(experiment, *(str(tmp_path / name) for name in ("dataset", "training", "logs")))
    local = local_job(from_json(experiment), *(f"/tmp/{name}" for name in ("dataset", "training", "logs")))
    job = _worker_job(local)
    launcher = launchers.start(job)
    assert launcher.exit_code() == 0, launcher.output
    epochs = [tuple(map(float, found)) for found in _EPOCH.findall(launcher.output)]
    history = load_history(tmp_path / "training")
    expected = [(epoch.epoch, epoch.train_loss, epoch.val_loss) for epoch in history]
    assert epochs == [pytest.approx(epoch, abs=1e-4) for epoch in expected]


@pytest.mark.parametrize("engine", [TRAINJOB], ids=["trainjob"], indirect=True)
def test_complete_trainjob_has_progress_of_last_epoch(launchers: Launchers, tmp_path: Path) -> None:
    settings = CoreV1Api().read_namespaced_config_map("kubeflow-trainer-config", "kubeflow-system").data
    if not any("TrainJobStatus: true" in each for each in settings.values()):
        pytest.skip("Kubeflow Trainer runs without its feature gate TrainJobStatus")
    experiment, _ = generate_data(FIELDS, str(tmp_path / "dataset"))
    job = _worker_job(local_job(from_json(experiment), *(f"/tmp/{name}" for name in ("dataset", "training", "logs"))))
    launcher = launchers.start(job)
    assert launcher.exit_code() == 0, launcher.output
    (found,) = launchers.wait_until(TRAINJOB.resource, bool)
    status = found["status"]["trainerStatus"]
    assert (status["progressPercentage"], status["estimatedRemainingSeconds"]) == (100, 0)
    losses = {each["name"]: float(each["value"]) for each in status["metrics"]}
    (*_, (_, train_loss, val_loss)) = _EPOCH.findall(launcher.output)
    assert losses["epoch"] == 5
    assert (losses["train_loss"], losses["val_loss"]) == pytest.approx((float(train_loss), float(val_loss)), abs=1e-4)
