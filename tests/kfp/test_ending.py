"""Runs whose launcher is evicted or that are terminated."""

import os

import pytest

from qcnn.targets.kubeflow.experiments import LogsSettings
from qcnn.targets.kubeflow.runs import RunPoller, follow, task_parts
from qcnn.targets.kubeflow.target import KubeflowTarget
from tests.kfp.cluster import evict, launchers, log, tfjobs
from tests.kfp.conftest import SMALL, Kubeflow, until


class StartedError(Exception):
    """Stop waiting, because the train step is running."""


def _start(kubeflow: Kubeflow, name: str) -> str:
    """Submit an endless run, wait until its train step is running, and return the run ID."""
    run, _ = kubeflow.submit(name, *SMALL, "--epochs", "1000000")

    def report(line: str) -> None:
        if line == "train: running":
            raise StartedError

    poll = RunPoller(kubeflow.backend, run)
    with pytest.raises(StartedError):
        follow(poll, lambda run: task_parts(run, ("train",)), report)
    return run


def test_evicted_launcher_is_replaced_and_adopts_tfjob(kubeflow: Kubeflow) -> None:
    if "KUBECONFIG" not in os.environ:
        pytest.skip("requires KUBECONFIG to evict a pod")
    run = _start(kubeflow, "evicted")
    ((uid, pod),) = until(lambda: launchers(run), lambda found: len(found) == 1).items()
    until(lambda: log(pod), lambda text: "epoch 3/" in text)
    trained = tfjobs(run)
    # TensorBoard can open the logs of a running step.
    settings = LogsSettings(host=kubeflow.host, metadata_host=kubeflow.metadata_host)
    with KubeflowTarget(settings) as target:
        (logs,) = target.find_logs([run], None, (), settings, in_a_pod=False)
    assert (logs.name, logs.of_run, logs.address.endswith(run)) == (kubeflow.unique("evicted"), True, True)
    evict(pod)
    client = kubeflow.backend.client

    def others() -> dict[str, str]:
        return {other: name for other, name in launchers(run).items() if other != uid}

    # Argo retries the step if the pod no longer exists. It fails the run if it observes the exit of the pod first.
    if (
        until(lambda: "retried" if others() else client.get_run(run).state, {"retried", "FAILED"}.__contains__)
        == "FAILED"
    ):
        client._run_api.run_service_retry_run(run)
    ((_, after),) = until(others, bool).items()
    until(lambda: log(after), lambda text: f"TFJob {next(iter(trained.values()))} is adopted" in text)
    assert tfjobs(run) == trained
    # Like the KFP UI, which deletes no TFJobs.
    client.terminate_run(run)
    until(lambda: tfjobs(run), lambda found: not found)


def test_terminate_during_training_deletes_tfjobs(kubeflow: Kubeflow) -> None:
    run = _start(kubeflow, "endless")
    done = kubeflow.run_command("terminate", kubeflow.unique("endless"))
    assert done.returncode == 0, done.stderr
    assert f"run {run} is terminated\n" in done.stdout
    if "KUBECONFIG" in os.environ:
        assert "no training jobs of the run are left" in done.stdout
    assert kubeflow.rows()["endless"]["state"] in ("failed", "canceled")
    again = kubeflow.run_command("terminate", run)
    assert again.returncode == 0
    assert "has already ended" in again.stdout
