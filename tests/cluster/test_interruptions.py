"""Training with outputs in a bucket, with pod deletions and API server outages."""

import contextlib
import os
import re
import signal
import threading

import numpy as np
import psutil
import pytest
from kubernetes.client import CoreV1Api

from qcnn.components.resources import IMAGE
from qcnn.components.steps.dataset import generate_data
from qcnn.components.steps.train_local import train
from qcnn.components.training_job import cluster_job
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.job import JobSpec
from qcnn.jobs.pod_settings import PodSettings
from qcnn.model import checkpoints
from qcnn.model.checkpoints import Checkpoint
from qcnn.storage.copies import local_copy
from qcnn.storage.store import parse_bucket_uri
from qcnn.storage.sync import open_store
from tests.cluster.launchers import Launchers, every_engine
from tests.cluster.programs import Program, Qcnn

# Epochs take more than a second, because log lines are delayed. Each is saved, also on a busy machine.
CONFIG = from_mapping({"qubits": 4, "rounds": 12_000, "batch_size": 32, "epochs": 12, "checkpoint_seconds": 0.001})
# Label selectors of the pods of an engine's controllers by namespace.
_CONTROLLERS = {
    "tfjob": {"kubeflow": "control-plane=kubeflow-training-operator"},
    "trainjob": {
        "jobset-system": "app.kubernetes.io/name=jobset",
        "kubeflow-system": "app.kubernetes.io/name=trainer",
    },
}
_EPOCH = re.compile(r"\[worker 0\] epoch (\d+)/12: train_loss (\S+), val_loss (\S+),")
# The gradient of the last Z on a pooling source is exactly zero, and Adam amplifies its rounding errors.
_SOURCES_LAST_Z = 20


@pytest.fixture(scope="module")
def uninterrupted(namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Checkpoint of a local run without interruptions."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    experiment, _ = generate_data(CONFIG.model_dump(), str(folder / "dataset"))
    train(experiment, *(str(folder / name) for name in ("dataset", "training", "logs")))
    return _checkpoint(str(folder / "training"))


@pytest.fixture
def training(bucket: str) -> JobSpec:
    """Training job with two workers and outputs in a bucket."""
    environment = {"STORAGE_EMULATOR_HOST": os.environ["STORAGE_EMULATOR_HOST"]}
    pod = PodSettings(image=IMAGE, service_account="qcnn-worker", cpu="200m", memory="3Gi", environment=environment)
    return cluster_job(CONFIG, bucket, pod)


def _checkpoint(uri: str) -> Checkpoint:
    with local_copy(uri) as folder:
        checkpoint = checkpoints.load_latest(folder / checkpoints.FOLDER)
        assert checkpoint
        return checkpoint.with_epochs()


def _wait_for_saved_epochs(launcher: Program, bucket: str, name: str) -> int:
    """Wait until the fourth epoch, and until the bucket has a checkpoint, and return the number of its epochs.

    Checkpoints are uploaded during training, which a busy machine delays.
    """
    launcher.wait_for_line(r"\[worker 0\] epoch 4/")
    while not (saved := _saved_epochs(f"{bucket}/{name}/training")):
        launcher.wait_for_line(_EPOCH.pattern)
    return saved


def _saved_epochs(uri: str) -> int:
    place = parse_bucket_uri(uri)
    assert place
    with contextlib.closing(open_store(place)) as store:
        numbers = [int(found[1]) for name in store.names() if (found := re.search(r"epoch-(\d+)\.npz$", name))]
    return max(numbers, default=0)


def _check(launcher: Program, found: Checkpoint, expected: Checkpoint, saved: int | None = None) -> None:
    """Compare an interrupted run with one without interruptions.

    It may have repeated one epoch, or those after the number of saved epochs.
    """
    epochs = [int(number) for number, _, _ in _EPOCH.findall(launcher.output)]
    assert sorted(set(epochs)) == list(range(1, CONFIG.epochs + 1))
    if saved is None:
        assert len(epochs) <= CONFIG.epochs + 1, epochs
    else:
        continued = [
            int(number) for number in re.findall(r"\[worker 0\] continuing after epoch (\d+)", launcher.output)
        ]
        assert min(continued) >= saved, epochs
    losses, others = ([(epoch.train_loss, epoch.val_loss) for epoch in each.history] for each in (found, expected))
    np.testing.assert_allclose(losses, others, atol=1e-4)
    quantum, others_quantum = (np.delete(each.line.weights[0], _SOURCES_LAST_Z) for each in (found, expected))
    np.testing.assert_allclose(quantum, others_quantum, atol=1e-3)
    for dense, others_dense in zip(found.line.weights[1:], expected.line.weights[1:], strict=True):
        np.testing.assert_allclose(dense, others_dense, atol=1e-3)


@every_engine
@pytest.mark.parametrize("index", [0, 1])
def test_training_resumes_after_pod_deletion(
    launchers: Launchers, qcnn: Qcnn, training: JobSpec, bucket: str, uninterrupted: Checkpoint, index: int
) -> None:
    launcher, name = launchers.start(training), launchers.name(training)
    saved = _wait_for_saved_epochs(launcher, bucket, name)
    launchers.delete_pod(training, f"worker-{index}")
    launcher.wait_for_line(r"lost.*(is restarted|restarting the job) \(1 of 3\)$")
    launcher.wait_for_line(r"\[worker 0\] continuing after epoch \d+$")
    # The operator may have failed the TFJob, which is then replaced.
    assert qcnn.read("status", name)["restarts"] == 1
    assert launcher.exit_code() == 0, launcher.output
    _check(launcher, _checkpoint(f"{bucket}/{name}/training"), uninterrupted, saved)


@every_engine
def test_training_resumes_on_drained_node(
    launchers: Launchers, training: JobSpec, bucket: str, uninterrupted: Checkpoint
) -> None:
    launcher, name = launchers.start(training), launchers.name(training)
    saved = _wait_for_saved_epochs(launcher, bucket, name)
    launchers.evict_pod(training, "worker-1")
    launcher.wait_for_line(r"lost.*(is restarted|restarting the job) \(1 of 3\)$")
    assert launcher.exit_code() == 0, launcher.output
    _check(launcher, _checkpoint(f"{bucket}/{name}/training"), uninterrupted, saved)


@pytest.mark.alone
@every_engine
def test_training_continues_while_its_controllers_restart(
    launchers: Launchers, training: JobSpec, bucket: str, uninterrupted: Checkpoint
) -> None:
    launcher = launchers.start(training)
    launcher.wait_for_line(r"\[worker 0\] epoch 3/")
    core = CoreV1Api()
    for system, selector in _CONTROLLERS[launchers.engine.engine].items():
        core.delete_collection_namespaced_pod(system, label_selector=selector)
    assert launcher.exit_code() == 0, launcher.output
    assert launcher.restarts == 0
    _check(launcher, _checkpoint(f"{bucket}/{launchers.name(training)}/training"), uninterrupted)


@pytest.mark.alone
@every_engine
def test_training_continues_while_api_server_is_stopped(
    launchers: Launchers, training: JobSpec, bucket: str, uninterrupted: Checkpoint
) -> None:
    servers = [process for process in psutil.process_iter(["name"]) if process.info["name"] == "kube-apiserver"]
    if len(servers) != 1:
        pytest.skip("the API server does not run on the local machine")
    launcher = launchers.start(training)
    launcher.wait_for_line(r"\[worker 0\] epoch 3/")
    servers[0].send_signal(signal.SIGSTOP)
    try:
        threading.Event().wait(20)
    finally:
        servers[0].send_signal(signal.SIGCONT)
    assert launcher.exit_code() == 0, launcher.output
    assert launcher.restarts == 0
    _check(launcher, _checkpoint(f"{bucket}/{launchers.name(training)}/training"), uninterrupted)


def test_repeated_submit_resumes_failed_job(launchers: Launchers, qcnn: Qcnn, bucket: str) -> None:
    server = f"STORAGE_EMULATOR_HOST={os.environ['STORAGE_EMULATOR_HOST']}"
    fields = ("--qubits", "4", "--rounds", "12000", "--batch-size", "32", "--epochs", "12", "--env", server)
    pods = ("--image", IMAGE, "--cpu", "200m", "--memory", "3Gi", "--output", bucket)
    submit = ("submit", "--target", "tfjob", "--name", launchers.identity.run, *fields, *pods, "--follow")
    following = qcnn.start(*submit)
    (job,) = re.findall(r"^TFJob (\S+) is created", following.wait_for_line("^TFJob"))
    following.wait_for_line(r"\[worker 0\] epoch 2/12: ")
    CoreV1Api().delete_namespaced_pod(f"{job}-worker-1", launchers.namespace)
    assert following.exit_code() == 1
    reason = r"(TFJob: was given up for a process that was lost|.*processes were lost.*|worker \d (was lost|ended) .*)"
    (error,) = following.errors
    assert re.fullmatch(f"error: {reason}; submit it again to continue from its last checkpoint. Given: {job}", error)
    again = qcnn.start(*submit)
    again.wait_for_line(rf"^TFJob {job} is created")
    first = again.wait_for_line(r"\[worker 0\] epoch \d+/12: ")
    assert "epoch 1/12" not in first
    qcnn("delete", job, "--yes")
