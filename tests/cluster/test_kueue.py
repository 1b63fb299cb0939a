"""Jobs of each engine in a queue of Kueue."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kubernetes.client import SchedulingV1Api

from qcnn.components.resources import IMAGE
from qcnn.components.steps.dataset import generate_data
from qcnn.components.steps.train_local import train
from qcnn.components.training_job import cluster_job
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.pod_settings import PodSettings
from qcnn.model import checkpoints
from qcnn.storage.copies import local_copy
from tests.cluster.kueue import Queue, has_kueue
from tests.cluster.launchers import Launchers, every_engine, job
from tests.cluster.programs import Qcnn

pytestmark = every_engine

# About half a minute of training.
_FIELDS: dict[str, Any] = {"qubits": 4, "rounds": 20, "epochs": 800, "workers": 1}


@pytest.fixture
def queue(namespace: str) -> Iterator[Queue]:
    """Queue without CPUs."""
    if not has_kueue():
        pytest.skip("the cluster has no Kueue")
    with contextlib.closing(Queue(f"qcnn-test-{secrets.token_hex(4)}", namespace)) as queue:
        yield queue


@pytest.fixture
def urgent() -> Iterator[str]:
    """Name of a priority class above the default."""
    name = f"qcnn-test-{secrets.token_hex(4)}"
    SchedulingV1Api().create_priority_class({"metadata": {"name": name}, "value": 1000})
    yield name
    SchedulingV1Api().delete_priority_class(name)


def test_job_waits_for_quota(launchers: Launchers, qcnn: Qcnn, queue: Queue) -> None:
    queued = job("print('up')", queue=queue.name)
    launcher = launchers.start(queued)
    launcher.wait_for_line("is suspended, for example by a queue; waiting$")
    shown = qcnn.read("status", launchers.name(queued))
    assert (shown["state"], shown["message"]) == ("suspended", f"queued in {queue.name}")
    queue.set_cpus("1")
    launcher.wait_for_line("is no longer suspended$")
    assert launcher.exit_code() == 0, launcher.output
    assert launcher.lines("worker 0") == ["up"]
    assert launcher.restarts == 0


def test_preempted_training_ends_with_same_weights(
    launchers: Launchers, queue: Queue, urgent: str, bucket: str, tmp_path: Path
) -> None:
    config = from_mapping(_FIELDS)
    experiment, _ = generate_data(config.model_dump(), str(tmp_path / "dataset"))
    train(experiment, *(str(tmp_path / name) for name in ("dataset", "training", "logs")))
    expected = checkpoints.load_latest(tmp_path / "training" / checkpoints.FOLDER)
    assert expected

    environment = {"STORAGE_EMULATOR_HOST": os.environ["STORAGE_EMULATOR_HOST"]}
    pod = PodSettings(image=IMAGE, service_account="qcnn-worker", cpu="300m", memory="2Gi", environment=environment)
    training = cluster_job(config, bucket, pod.model_copy(update={"queue": queue.name}))
    queue.set_cpus("0.5")
    launcher = launchers.start(training)
    launcher.wait_for_line("epoch 20/")
    other = launchers.start(
        job("print('up')", replicas={"worker": 1}, cpu="300m", queue=queue.name, priority_class=urgent)
    )
    launcher.wait_for_line("is suspended, for example by a queue; waiting$")
    assert other.exit_code() == 0, other.output
    launcher.wait_for_line("is no longer suspended$")
    launcher.wait_for_line("continuing after epoch ")
    assert launcher.exit_code() == 0, launcher.output
    assert launcher.restarts == 0
    with local_copy(f"{bucket}/{launchers.name(training)}/training") as folder:
        found = checkpoints.load_latest(folder / checkpoints.FOLDER)
    assert found
    for weights, others in zip(found.line.weights, expected.line.weights, strict=True):
        np.testing.assert_array_equal(weights, others)
